"""Execution: the cost of a fill beyond commission and duties, and the maximum fraction of a day's
volume. It is part of a venue or of a task's `trading` options, and is off unless specified.

With Q steps ordered, V the mean volume and sigma the standard deviation of returns over the days up
to the decision, a buy pays, relative to the price under the venue's fill rule,

    half spread  +  impact * sigma * sqrt(Q / V)  +  permanent * impact * sigma * sqrt(held / V)

and a sell receives correspondingly less. The last term applies to orders that add to a position. It
is the part of the existing position's impact that is still in the price.
`ktdeval.trading.execution_costs` computes it in integers. Named presets are in `executions.toml`,
where each coefficient has its source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from ktdeval.errors import ConfigError
from ktdeval.values.options.config_options import build, option

ExecutionName = Literal["none", "spread", "sqrt"]
"""Names of the presets."""
MIN_DAYS = 5
"""Minimum number of days: with a bar for a volatility and a mean volume, with quotes
for a spread.
"""
LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "spread": (
            "what orders do to prices, fills by volume, and whether the spread's coefficients (of"
            " US orders of 2001 to 2005) are those of this market"
        ),
        "sqrt": (
            "what others do in answer to the orders, and whether the coefficients (of US orders of"
            " 2001 to 2005) are those of this market"
        ),
    }
)
"""Preset -> omitted effects, for the data card of a task that uses it."""
SpreadModel = Literal["fixed", "liquidity", "quotes"]
RestRule = Literal["cancel", "carry"]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Coefficients of execution costs. By default, costs do not depend on size.

    Raises:
        ConfigError: if values contradict each other.

    Example:
        Execution(half_spread_bps=5, impact=1.0, max_participation=0.1)
    """

    name: str = option("own", help="name of the preset; own: the task's own coefficients")
    half_spread_bps: float = option(
        0.0,
        help=(
            "half the bid-ask spread in basis points of the price; with spread liquidity that of"
            " the reference stock"
        ),
        minimum=0,
        maximum=1000,
    )
    spread: SpreadModel = option(
        "fixed",
        help=(
            "fixed: the half spread of all assets; liquidity: it is scaled by the asset's"
            " volatility over 2 % and by (activity / reference_activity)^(-1/3), activity being"
            " price * volume * volatility of a day; quotes: that of the asset, the mean of"
            " (ask - bid) / (ask + bid) over the days with quotes among window_days, from the"
            " market's columns bid and ask"
        ),
    )
    reference_activity: float | None = option(
        None,
        help=(
            "activity of the reference stock in units of currency; null: that of the venue's"
            " currency, which is known for USD and CNY"
        ),
        minimum=1,
    )
    tick: float | None = option(
        None,
        help=(
            "smallest spread in units of currency, half of which a fill pays at least; null: that"
            " of the venue"
        ),
        minimum=0,
    )
    impact: float = option(
        0.0,
        help="Y of the square-root law: price impact is Y * volatility * sqrt(order / volume)",
        minimum=0,
        maximum=100,
    )
    permanent: float = option(
        0.0,
        help="share of a position's impact that an order which adds to the position pays again",
        minimum=0,
        maximum=1,
    )
    max_participation: float | None = option(
        None,
        help="largest part of the day's volume in one asset that orders can trade; null: no cap",
        minimum=0.000001,
        maximum=1,
    )
    rest: RestRule = option(
        "cancel",
        help=(
            "what happens to the part of an order beyond the cap: cancel, or carry (it works on"
            " the next days until it is filled, a rule rejects it, or a new order of its asset"
            " replaces it)"
        ),
    )
    inside_bar: bool = option(
        False, help="keep fill prices between the day's lowest and highest price"
    )
    window_days: int = option(
        20,
        help=(
            "number of sessions of the asset's exchange up to the decision from which volatility,"
            " volume and quotes are computed"
        ),
        minimum=5,
        maximum=252,
    )

    def __post_init__(self) -> None:
        if self.permanent and not self.impact:
            raise ConfigError(
                "execution: permanent is a share of the impact, but impact is 0; set impact, or"
                " omit permanent"
            )
        if self.spread == "quotes" and self.half_spread_bps:
            raise ConfigError(
                "execution: with spread: quotes, the half spread comes from the market's quotes;"
                " omit half_spread_bps"
            )
        if self.rest == "carry" and self.max_participation is None:
            raise ConfigError(
                "execution: rest: carry needs max_participation; set it, or omit rest"
            )

    @property
    def is_free(self) -> bool:
        """Return whether fills of any size cost nothing beyond commission and duties."""
        is_costless = not (self.half_spread_bps or self.impact or self.tick)
        return is_costless and self.spread != "quotes" and self.max_participation is None


def find_execution(chosen: ExecutionName | Execution) -> Execution:
    """Return the coefficients of a named preset, or the given coefficients.

    Example:
        find_execution("sqrt").max_participation  # 0.1
    """
    if isinstance(chosen, Execution):
        return chosen
    return presets()[chosen]


def active_execution(chosen: ExecutionName | Execution | None) -> Execution | None:
    """Return the chosen coefficients; None if fill costs do not depend on size.

    Example:
        active_execution("none")  # None
    """
    if chosen is None:
        return None

    execution = find_execution(chosen)
    if execution.is_free:
        return None
    return execution


@cache
def presets() -> Mapping[str, Execution]:
    """Return all presets, keyed by name."""
    made = {}
    for name, entry in _file()["presets"].items():
        fields = {key: value for key, value in entry.items() if key != "summary"}
        made[name] = build(Execution, {**fields, "name": name}, f"execution {name}")

    return MappingProxyType(made)


@cache
def summaries() -> Mapping[str, str]:
    """Return a one-line description of each preset, keyed by name."""
    entries = _file()["presets"]
    return MappingProxyType({name: entry["summary"] for name, entry in entries.items()})


@cache
def reference_activity(currency: str) -> float | None:
    """Return the reference stock's activity for a currency; None if unknown."""
    known: Mapping[str, float] = _file()["reference_activity"]
    return known.get(currency)


@cache
def quoted_tick(venue: str) -> float:
    """Return the smallest spread that a venue can quote, in currency units; 0 if any spread is
    possible.
    """
    known: Mapping[str, float] = _file()["ticks"]
    return known.get(venue, 0.0)


@cache
def _file() -> dict[str, Any]:
    path = Path(__file__).with_name("executions.toml")
    return tomllib.loads(path.read_text("utf-8"))


def execution_words(execution: Execution) -> str:
    """Return the text about execution that a model reads. It contains no figure for an asset or a
    day, so every mask may show it.

    Example:
        execution_words(Execution(half_spread_bps=5))  # "A fill is at a worse price …"
    """
    spread = f"{execution.half_spread_bps:g} basis points of the price"
    if execution.spread == "liquidity":
        spread = (
            f"some {execution.half_spread_bps:g} basis points of the price of a liquid name, more"
            " of a volatile or thinly traded one"
        )

    known = "traded"
    if execution.spread == "quotes":
        spread = (
            f"that of the asset's last quotes of a day, on average of the {execution.window_days}"
            " days up to your decision"
        )
        known = "traded, or had a bid and an ask,"

    words = ["A fill is at a worse price than the one named above."]
    if execution.half_spread_bps or execution.tick or execution.spread == "quotes":
        words.append(f"A buy pays and a sell gives up half the bid-ask spread, {spread}.")
    if execution.impact:
        words.append(
            f"Your order moves the price against you by {execution.impact:g} * volatility *"
            " sqrt(order / volume), with the volatility of daily returns and the mean daily volume"
            f" of the {execution.window_days} days up to your decision."
        )
    if execution.permanent:
        words.append(
            f"An order that adds to a position also pays {execution.permanent:.0%} of the impact"
            " that an order of the size of the position has."
        )
    if execution.max_participation is not None:
        words.append(_cap_words(execution))

    words.append(
        f"An asset that {known} on fewer than {MIN_DAYS} of these days can't be traded (`volume`)."
    )
    return " ".join(words)


def _cap_words(execution: Execution) -> str:
    rest = "the rest is cancelled"
    if execution.rest == "carry":
        rest = (
            "the rest works on the next days (`working`) until it is filled, or until you give a"
            " new order for the asset"
        )

    share = 100 * (execution.max_participation or 1.0)
    return (
        f"All your orders in one asset fill at most {share:g} % of its volume of the day; {rest}"
        " (rule `volume`)."
    )
