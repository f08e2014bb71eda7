"""A metric: a pure function of one episode's ledger."""

from __future__ import annotations

from ktdeval.api import Ledger, MetricValue, metric


@metric(
    "example_win_rate",
    formula="example_win_rate/1: #{t: r_t > 0} / #{t: r_t != 0}",
    unit="fraction",
    better="higher",
    source="the ktdeval example plugin",
    range=(0.0, 1.0),
)
def win_rate(ledger: Ledger) -> MetricValue | str:
    """Share of days on which the NAV rose, among those on which it moved."""
    moves = ledger.returns[ledger.returns != 0]
    return (
        MetricValue(float((moves > 0).mean()), int(moves.size))
        if moves.size
        else "the NAV never moves"
    )
