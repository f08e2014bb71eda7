"""What a metric is: a pure function of one ledger and its market, with its formula stated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.trading.ledger import Ledger

RuleSet = Literal["strict", "paper"]
"""Where a paper's rule and the right rule differ, both exist; a card says which it used."""


Range = tuple[float | None, float | None]
"""Smallest and largest value that a metric can have; None where there is no bound."""


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A number, or the reason why there is none.

    Attributes:
        value: finite, or None when the metric is not defined on this ledger.
        reason: why it is None; None when there is a value.
        n: how many observations (days, steps, orders) it rests on.
        detail: a JSON value with the metric's table, such as calibration bins.
    """

    value: float | None
    n: int
    reason: str | None = None
    detail: JsonValue = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise ValueError("a metric has either a value or the reason why it has none")
        if self.value is not None and not abs(self.value) < float("inf"):
            raise ValueError("a metric's value is finite; return None and a reason instead")


class Metric(Protocol):
    """A metric plugin's object.

    Attributes:
        name: its name on the card.
        formula: identifier and formula, such as `sharpe/1: mean(r)/std(r, ddof=1)*sqrt(252)`.
        unit: `fraction`, `per year`, `probability`, `count`, …
        range: the values it can have, such as `(0.0, 1.0)`.
        better: which direction is better; `neither` for descriptions.
        source: where the definition comes from.
        headline: True for the ten-metric panel.
    """

    name: str
    formula: str
    unit: str
    range: Range
    better: Literal["higher", "lower", "neither"]
    source: str
    headline: bool

    def compute(self, ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
        """The metric of one episode. Never raises on a legal ledger; never returns NaN."""
        ...
