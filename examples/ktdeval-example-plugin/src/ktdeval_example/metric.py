"""A metric: a pure function of one episode's ledger."""

from __future__ import annotations

from typing import Literal

from ktdeval.api import Ledger, MarketSnapshot, MetricValue, RuleSet


class WinRate:
    """Share of days on which the NAV rose, among those on which it moved."""

    name = "example_win_rate"
    formula = "example_win_rate/1: #{t: r_t > 0} / #{t: r_t != 0}"
    unit = "fraction"
    range = (0.0, 1.0)
    better: Literal["higher", "lower", "neither"] = "higher"
    source = "the ktdeval example plugin"
    headline = False

    def compute(self, ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
        """The metric of one episode; not defined on a NAV that never moves."""
        moves = ledger.returns[ledger.returns != 0]
        if moves.size == 0:
            return MetricValue(None, 0, "the NAV never moves")
        return MetricValue(float((moves > 0).mean()), int(moves.size))
