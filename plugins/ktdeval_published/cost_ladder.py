"""Gains at rising costs a side, and the cost at which they end."""

from __future__ import annotations

from ktdeval_published.prices import Array
from ktdeval_published.report import CostLadder, CostStep

STEPS_BPS = (0.0, 1.0, 5.0, 10.0)


def ladder_of_gains(name: str, gain: float, traded: Array) -> CostLadder:
    """Return the gains of positions whose trades do not depend on costs. `traded`: sums of both
    sides in currency.
    """
    total = float(traded.sum())
    steps = [CostStep(bps=bps, gain=gain - total * bps / 1e4) for bps in STEPS_BPS]
    return finish_ladder(name, steps, total)


def finish_ladder(name: str, steps: list[CostStep], traded: float) -> CostLadder:
    """Return a ladder with the cost at which its gain is zero."""
    gain = steps[0].gain
    if gain <= 0:
        return CostLadder(
            name=name, steps=tuple(steps), traded=traded, reason="no gain before costs"
        )
    if not traded:
        return CostLadder(name=name, steps=tuple(steps), traded=traded, reason="no trade")
    return CostLadder(
        name=name, steps=tuple(steps), traded=traded, breakeven_bps=gain / traded * 1e4
    )
