"""Venue: the rules under which an instrument trades, as one value. Built-in venues are files under
`venues/`.

Money is counted in minor currency units, quantities in steps and prices in engine ticks, all as
integers. If `ticks_per_minor` is the number of ticks of one step's price in a minor unit, then

    notional = price_ticks * steps / ticks_per_minor

is exact except for the rounding to a minor unit, whatever the market. Costs of a fill:

    fee = min(max(notional * bps + units * per_unit, minimum), notional * maximum_bps)  + on sells
          notional * sell_levy_bps + min(units * sell_levy_per_unit, sell_levy_most)
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from ktdeval.errors import ConfigError, DataError, UsageError
from ktdeval.market.venues.close_times import Close
from ktdeval.market.venues.execution import Execution, ExecutionName, find_execution
from ktdeval.values.options.config_options import build, near_matches, option

FillRule = Literal["next_open", "next_close", "same_close", "vwap_30m", "twap_day"]
FILL_WORDS: Mapping[FillRule, str] = {
    "next_open": "next open",
    "next_close": "next close",
    "same_close": "close of the decision (a look-ahead)",
    "vwap_30m": "mean of the next day's first half hour",
    "twap_day": "mean of the next day",
}
"""Price of a fill in words, after `the`."""
#: rules whose prices come from the next day's intraday bars (`ktdeval.trading.minute_fills`)
FILLS_OF_MINUTES: frozenset[FillRule] = frozenset(("vwap_30m", "twap_day"))
MAX_SCALE = 10**8
#: a price from this value on is a source error, and limit comparisons would exceed 64-bit integers
MAX_PRICE = 1e8
NEVER_CLOSES = "24/7"


@dataclass(frozen=True, kw_only=True)
class Fees:
    """Costs of fills; money is in currency units."""

    buy_bps: float = option(
        0.0, help="cost of a buy in basis points of its notional", minimum=0, maximum=1000
    )
    sell_bps: float = option(
        0.0, help="cost of a sell in basis points of its notional", minimum=0, maximum=1000
    )
    per_unit: float = option(0.0, help="cost of each share or coin bought or sold", minimum=0)
    minimum: float = option(0.0, help="smallest cost of a filled order", minimum=0)
    maximum_bps: float | None = option(
        None, help="largest cost in basis points of the notional; null: none", minimum=0
    )
    sell_levy_bps: float = option(
        0.0,
        help="levy of the state or a regulator on sells, in basis points of the notional",
        minimum=0,
        maximum=1000,
    )
    sell_levy_per_unit: float = option(0.0, help="levy on each share sold", minimum=0)
    sell_levy_most: float | None = option(
        None, help="largest levy per share on one order; null: no maximum", minimum=0
    )


@dataclass(frozen=True, kw_only=True)
class Shorting:
    """Short sales: their proceeds, and a margin on the value of short positions, stay in cash."""

    borrow_pct_a_year: float = option(
        help=(
            "borrow rate on the value of a short in per cent a year, spread over the market's"
            " trading days of a year"
        ),
        minimum=0,
        maximum=1000,
    )
    initial_margin_pct: float = option(
        help="cash that must remain after a short sale in addition to the shorts' value, in per"
        " cent of that value",
        minimum=0,
        maximum=1000,
    )
    maintenance_margin_pct: float = option(
        help="at an open, shorts are bought back if the cash in addition to their value is below"
        " this per cent of that value",
        minimum=0,
        maximum=1000,
    )


@dataclass(frozen=True, kw_only=True)
class Venue:
    """Rules of a market. Part of the config hash of every task that trades under it.

    Raises:
        ConfigError: if values contradict each other.
    """

    name: str = option(help="short name, such as us_equity")
    summary: str = option(help="description in a line")
    currency: str = option(help="of prices and cash, ISO 4217 or a coin")
    calendar: str = option(
        help="ISO 10383 code of the exchange whose sessions are its days, or 24/7"
    )
    days_a_year: int = option(
        help="trading days a year, for annualised figures", minimum=1, maximum=366
    )
    close: str = option(
        help="local time of the close, as 15:00; 24:00 for markets that never close"
    )
    zone: str = option(help="IANA time zone of the close")
    minor_per_unit: int = option(
        100, help="minor units in a unit of the currency", minimum=1, maximum=MAX_SCALE
    )
    ticks_per_unit: int = option(
        10_000,
        help="resolution of prices: ticks in a unit of the currency",
        minimum=1,
        maximum=MAX_SCALE,
    )
    steps_per_unit: int = option(
        1, help="smallest quantity: steps in one share or coin", minimum=1, maximum=MAX_SCALE
    )
    lot_steps: int = option(1, help="size of a lot in steps; buys are whole lots", minimum=1)
    minimum_notional: float = option(
        0.0, help="smallest buy or short sale in units of the currency", minimum=0
    )
    settlement_lock: bool = option(False, help="what was bought on a day can't be sold on it (T+1)")
    has_boards: bool = option(
        False, help="codes and daily price limits are those of the A-share boards"
    )
    fill: FillRule = option(
        "next_open",
        help=(
            "price of a fill; same_close is the close that the decision has already seen: a"
            " look-ahead; vwap_30m (the next day's first 30 minutes) and twap_day (all of it) need"
            " bars within days"
        ),
    )
    fees: Fees = option(Fees(), help="costs of fills")
    short: Shorting | None = option(None, help="short sales; null: long only")
    execution: ExecutionName | Execution | None = option(
        None,
        help="spread, impact and participation of fills, or a preset's name; null: none",
        is_silent=True,
    )

    def __post_init__(self) -> None:
        if self.execution is not None:
            object.__setattr__(self, "execution", find_execution(self.execution))

        try:
            Close.parse(f"{self.close} {self.zone}")
        except DataError as error:
            raise ConfigError(f"venue {self.name}: {error}") from error

        if self.ticks_per_unit * self.steps_per_unit % self.minor_per_unit:
            raise ConfigError(
                f"venue {self.name}: ticks_per_unit * steps_per_unit must be a multiple of"
                f" minor_per_unit ({self.minor_per_unit})"
            )
        if self.short and self.short.maintenance_margin_pct > self.short.initial_margin_pct:
            raise ConfigError(
                f"venue {self.name}: maintenance_margin_pct exceeds initial_margin_pct; swap them"
            )
        if self.has_boards and self.steps_per_unit != 1:
            raise ConfigError(
                f"venue {self.name}: A-share boards trade whole shares; leave steps_per_unit at 1"
            )

    def calendar_of(self, kind: str) -> str:
        """Return the session calendar for a kind of asset. Empty if it is not known, for example
        for a share or fund at a venue that never closes.
        """
        if self.calendar == NEVER_CLOSES and kind != "crypto":
            return ""
        return self.calendar

    @property
    def looks_ahead(self) -> bool:
        """Return whether orders fill at a price that their decision has already seen."""
        return self.fill == "same_close"

    @property
    def listed_summary(self) -> str:
        """Summary for lists of venues, which names a look-ahead. The summary itself is part of the
        hash of markets and tasks.
        """
        if not self.looks_ahead or "look-ahead" in self.summary:
            return self.summary
        return f"{self.summary}: a look-ahead"

    @property
    def ticks_per_minor(self) -> int:
        """Ticks of one step's price per minor unit: the divisor that converts `price_ticks * steps`
        to money.
        """
        return self.ticks_per_unit * self.steps_per_unit // self.minor_per_unit


def parse_venue(mapping: Mapping[str, Any], where: str) -> Venue:
    """Return a venue from a mapping, as in a venue file. Raises ConfigError if the mapping is
    invalid; the message starts with `where`.
    """
    return build(Venue, mapping, where)


@cache
def built_in_venues() -> Mapping[str, Venue]:
    """Return the built-in venues by name."""
    folder = Path(__file__).with_name("built_in")
    files = sorted(folder.glob("*.toml"))
    return MappingProxyType(
        {
            path.stem: parse_venue(tomllib.loads(path.read_text("utf-8")), path.name)
            for path in files
        }
    )


def find_venue(name: str, known: Mapping[str, Venue] | None = None) -> Venue:
    """Return the venue with this name, from `known` or, by default, from the built-in venues.
    Raises UsageError if no venue has this name.
    """
    known = built_in_venues() if known is None else known
    if name not in known:
        raise UsageError(
            f"venue {name!r} is"
            f" unknown{near_matches(name, known) or '; known: ' + ', '.join(sorted(known))}"
        )
    return known[name]
