"""Instruments: stocks by ticker, and options by OPRA symbol, such as `O:AVLN250221P00225000`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Literal

from ktdeval_qfinzero.errors import invalid

Right = Literal["C", "P"]

MAX_TICKER = 16  #: Maximum number of characters in a ticker
#: `AVLN`, `BRK.B`, `600519.SH`, `BTC-USD`, `^GSPC`, `EURUSD=X`
TICKER = re.compile(r"[A-Z0-9^][A-Z0-9.^=-]{0,15}")
_OPRA = re.compile(r"O:([A-Z][A-Z0-9.]{0,9})(\d{2})(\d{2})(\d{2})([CP])(\d{8})", re.ASCII)
CONTRACT_SIZE = 100  #: Number of shares per option contract


@dataclass(frozen=True, slots=True, order=True)
class OptionContract:
    """An American-style equity option, priced with the European formula."""

    underlying: str  #: ticker
    expiry: date  #: last trading day
    #: strike in ten-thousandths of a dollar; a multiple of ten, since OPRA uses thousandths
    strike_e4: int
    right: Right  #: call or put
    root: str = ""  #: root of the OPRA symbol if it is not the underlying (`SPXW` for `^GSPC`)

    @property
    def symbol(self) -> str:
        """OPRA symbol."""
        # Written by hand, since strftime would take most of the time needed to list contracts.
        day = self.expiry
        expiry = f"{day.year % 100:02d}{day.month:02d}{day.day:02d}"
        # OPRA: root, yymmdd, C or P, and the strike in thousandths of a dollar, eight digits
        return f"O:{self.root or self.underlying}{expiry}{self.right}{self.strike_e4 // 10:08d}"

    @property
    def strike(self) -> float:
        """Strike in dollars."""
        return self.strike_e4 / 10_000

    def intrinsic_e4(self, spot_e4: int) -> int:
        """Return the exercise value per share, in ten-thousandths of a dollar."""
        return max(0, spot_e4 - self.strike_e4 if self.right == "C" else self.strike_e4 - spot_e4)


@lru_cache(maxsize=65_536)
def read_contract(symbol: str) -> OptionContract | None:
    """Return the contract of an OPRA symbol, with the symbol's root as the underlying; None if the
    string is not an OPRA symbol.

    Roots may contain digits and dots. If the underlying differs from the root, the dataset's
    contracts name the underlying.
    """
    match = _OPRA.fullmatch(symbol)
    if match is None:
        return None

    try:
        expiry = date(2000 + int(match[2]), int(match[3]), int(match[4]))
    except ValueError:
        return None

    right: Right = "C" if match[5] == "C" else "P"
    return OptionContract(match[1], expiry, int(match[6]) * 10, right)


def parse_contract(symbol: str, field: str) -> OptionContract:
    """Return a contract as `read_contract` does. Raises ServiceError `invalid_argument` if the
    string is not an OPRA symbol.
    """
    contract = read_contract(symbol)
    if contract is None:
        raise invalid(
            field,
            "expected an OPRA symbol: O:, root, yymmdd, C or P, strike × 1000 in eight digits",
        )
    return contract


def parse_tickers(text: str, field: str) -> tuple[str, ...]:
    """Return comma-separated tickers in order, each once. Raises ServiceError `invalid_argument` if
    one is not a ticker in capitals.
    """
    tickers = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for ticker in tickers:
        if not TICKER.fullmatch(ticker):
            raise invalid(
                field,
                "expected tickers in capitals, separated by commas",
            )
    return tickers
