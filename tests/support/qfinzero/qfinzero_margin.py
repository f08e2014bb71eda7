"""Accounts, positions and options by hand, for the tests of margin and of the life of options."""

from __future__ import annotations

from datetime import date

from ktdeval_qfinzero.instruments import OptionContract, Right
from ktdeval_qfinzero.pmb.broker import TAKES
from ktdeval_qfinzero.pmb.broker_types import Account, AccountType, Instrument, Position
from ktdeval_qfinzero.pmb.portfolio import OptionHolding

EXPIRY = date(2025, 2, 21)
STOCK = Instrument("STOCK", "AVLN")


def ids_for(command: str, session_id: str, account_id: str) -> dict[str, str]:
    """Return the ids that a command accepts."""
    ids = {"session_id": session_id, "account_id": account_id}
    return {name: value for name, value in ids.items() if name in TAKES[command].__struct_fields__}


def e4(dollars: float) -> int:
    return round(dollars * 10_000)


def contract(right: Right, strike: float, expiry: date = EXPIRY) -> OptionContract:
    return OptionContract("AVLN", expiry, e4(strike), right)


def option(right: Right, strike: float, expiry: date = EXPIRY) -> Instrument:
    return Instrument("OPTION", contract(right, strike, expiry).symbol)


def held(
    right: Right, strike: float, qty: int, mark: float, expiry: date = EXPIRY
) -> OptionHolding:
    return OptionHolding(contract(right, strike, expiry), qty, e4(mark))


def account(
    cash: float, positions: dict[Instrument, int] | None = None, type: AccountType = "MARGIN"
) -> Account:
    made = Account("acct-000001", type, 0, e4(cash), e4(cash))
    made.positions = {
        instrument.id: Position(instrument, qty) for instrument, qty in (positions or {}).items()
    }
    return made


def marks(**by_name: float) -> dict[str, int]:
    """Prices of stocks by ticker: `marks(AVLN=100)`."""
    return {f"STOCK:{ticker}": e4(price) for ticker, price in by_name.items()}
