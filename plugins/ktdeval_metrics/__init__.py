"""The ten-metric panel of KTD-Fin and its diagnostics, as metric plugins."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ktdeval.api import Spec, hookimpl

if TYPE_CHECKING:
    from ktdeval.api import Metric

_SUMMARIES = {
    "total_return": "geometric return of the NAV over the episode",
    "sharpe": "annualised Sharpe ratio of daily NAV returns, risk-free rate 0",
    "max_drawdown": "largest peak-to-trough fall of the NAV",
    "information_ratio": "annualised mean over standard deviation of daily return in excess of the benchmark",
    "turnover": "annualised two-way turnover",
    "hhi": "concentration of the holdings (Herfindahl-Hirschman index)",
    "cash_ratio": "average share of the NAV held as cash",
    "abstention_rate": "share of steps without an order",
    "parse_failure_rate": "share of steps without a valid action after every retry",
    "ece": "expected calibration error of the orders' confidence, 10 bins",
    "tool_validity_rate": "share of research tool calls that parsed and dispatched",
    "brier": "Brier score of the orders' confidence",
    "unmask_attempts": "hidden codes, names and dates that the model offered",
    "decision_coverage": "share of steps that the model decided itself",
}


def _make(name: str) -> Metric:
    from ktdeval.api import panel_metric

    return panel_metric(name)


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """The panel and its diagnostics, in the order in which a card shows them."""
    return [Spec(name, partial(_make, name), summary) for name, summary in _SUMMARIES.items()]
