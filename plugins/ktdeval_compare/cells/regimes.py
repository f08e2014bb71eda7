"""Market regimes. The rules in `regimes.yaml` classify the history of the index and its members up
to a close.

A regime is computed from a `MarketView`, which contains no later day. The regime is therefore known
before any decision made at that close is filled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ktdeval.market import FloatArray, MarketSnapshot, MarketView, session_groups
from ktdeval.values import build, load_yaml


@dataclass(frozen=True)
class RegimeRule:
    """A rule that distinguishes two regimes. The regime is `high` if the figure is above the
    threshold `split`.
    """

    measure: str
    days: int
    split: float
    high: str  #: name of the regime above the threshold; `low` is the name of the other regime
    low: str
    source: str
    past: int = 0  #: minimum number of earlier values for computing a median
    members: int = 0  #: minimum number of members for computing a share


@dataclass(frozen=True, slots=True)
class Regime:
    """Regime at the close of a day. `reason` says why the regime is undefined."""

    name: str | None
    figure: float | None = None
    reason: str | None = None


_Measured = float | str  # a figure, or the reason why it is undefined


def _trend(view: MarketView, rule: RegimeRule) -> _Measured:
    levels = _levels(view)
    if len(levels) < rule.days:
        return _short("levels of the index", rule.days, len(levels), view)
    return float(levels[-1] / levels[-rule.days :].mean())


def _volatility(view: MarketView, rule: RegimeRule) -> _Measured:
    returns = np.diff(np.log(_levels(view)))
    needed = rule.days + rule.past
    if len(returns) < needed:
        return _short("returns of the index", needed, len(returns), view)

    spans = np.lib.stride_tricks.sliding_window_view(returns, rule.days)
    deviations = spans.std(axis=1, ddof=1)
    usual = float(np.median(deviations[:-1]))
    if usual <= 0.0:
        return "the index did not move before"
    return float(deviations[-1]) / usual


def _breadth(view: MarketView, rule: RegimeRule) -> _Measured:
    if len(view.days) < rule.days:
        return _short("days", rule.days, len(view.days), view)

    counted = 0
    above = 0
    members = view.member[view.day]
    for group in session_groups(view):
        closes = group.latest(view.adjusted_close, rule.days)
        has_all = np.isfinite(closes).all(axis=0) & (len(closes) == rule.days)
        closes = closes[:, has_all & members[group.columns]]
        counted += closes.shape[1]
        above += int((closes[-1:] > closes.mean(axis=0)).sum())

    total = int(members.sum())
    if counted < max(rule.members, total / 2):
        return (
            f"{counted} of {total} members have a close on each of {rule.days} days up to"
            f" {view.days[-1]}; needs {rule.members}, and half of them"
        )

    return above / counted


def _levels(view: MarketView) -> FloatArray:
    """Return the levels of the benchmark up to the view's day, omitting days without a level."""
    if not view.benchmark_code:
        return np.empty(0)

    levels = view.indices[view.benchmark_code]
    return levels[np.isfinite(levels) & (levels > 0.0)]


def _short(what: str, needed: int, has: int, view: MarketView) -> str:
    return f"needs {needed} {what}, but has {has} up to {view.days[-1]}"


_MEASURES: Mapping[str, Callable[[MarketView, RegimeRule], _Measured]] = {
    "level over its mean": _trend,
    "deviation over its past median": _volatility,
    "share of members over their mean": _breadth,
}
_OF_INDEX = ("level over its mean", "deviation over its past median")


def _load_rules() -> dict[str, RegimeRule]:
    path = Path(__file__).with_name("regimes.yaml")
    rules = {}
    for name, entry in load_yaml(path).items():
        rules[name] = build(RegimeRule, entry, f"{path.name} {name}")
    return rules


RULES: Mapping[str, RegimeRule] = _load_rules()
"""Rules by name: trend, volatility, breadth."""


def regime_of(view: MarketView, rule: RegimeRule) -> Regime:
    """Return the regime at the close of the view's day."""
    if rule.measure in _OF_INDEX and not view.benchmark_code:
        return Regime(None, reason="the market has no index")

    measured = _MEASURES[rule.measure](view, rule)
    if isinstance(measured, str):
        return Regime(None, reason=measured)

    name = rule.high if measured > rule.split else rule.low
    return Regime(name, measured)


@dataclass(frozen=True)
class MarketRegimes:
    """Regimes of one market; each is computed only once."""

    market: MarketSnapshot
    _known: dict[tuple[int, str], Regime] = field(default_factory=dict)

    def at(self, row: int, rule: str) -> Regime:
        """Return the regime at the close of row `row` under the rule in `RULES` that is named
        `rule`.
        """
        key = (row, rule)
        if key not in self._known:
            self._known[key] = regime_of(self.market.as_of(row), RULES[rule])
        return self._known[key]
