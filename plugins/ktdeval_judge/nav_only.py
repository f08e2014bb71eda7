"""A NAV without decisions: what its returns alone can say.

The regression on the benchmark is that of Jensen (1968): r = alpha + beta b + e by least squares of
daily simple returns; the standard error of alpha is Newey and West's of r - beta b.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.market import MarketSnapshot
from ktdeval.stats import (
    benchmark_levels,
    benchmark_problem,
    beta_to,
    newey_west_mean,
    simple_returns,
)
from ktdeval.trading import CountsRecord, Ledger, StepRecord
from ktdeval_judge.document import Figure

_Z = 1.959964  #: of a 95 % interval of a normal law
_FIRST_MINOR = 10**12  #: a NAV may begin at 1; its returns have twelve digits here
_LEAST_DAYS = 20  #: below which a regression is not shown


def nav_ledger(
    values: npt.NDArray[np.float64], rows: Sequence[int], snapshot: MarketSnapshot
) -> Ledger:
    """Return the ledger of a NAV, [days + 1] at the closes of `rows`: a step a value, without any
    order or position, so that the metrics of NAVs read it.
    """
    first = float(values[0])
    minor = [round(float(value) / first * _FIRST_MINOR) for value in values]
    counts: dict[str, Any] = dict.fromkeys(CountsRecord.__struct_fields__, 0)
    counts["failures"] = {}
    steps = []
    for number in range(1, len(values)):
        step = StepRecord(
            **counts,
            step=number - 1,
            decided_on=str(snapshot.days[rows[number - 1]]),
            filled_on=str(snapshot.days[rows[number]]),
            provenance="model",
            overall_reason="",
            orders=(),
            corporate_actions=(),
            positions=(),
            cash_minor=minor[number],
            holdings_minor=0,
            nav_minor=minor[number],
            open_nav_minor=minor[number - 1],
            charges=(),
        )
        steps.append(step)

    return Ledger({}, minor[0], steps, days_a_year=snapshot.days_a_year)


def benchmark_figures(ledger: Ledger, snapshot: MarketSnapshot) -> Mapping[str, Figure]:
    """Return the benchmark's return over the ledger's days, and alpha and beta of the NAV."""
    levels = benchmark_levels(ledger, snapshot)
    problem = benchmark_problem(snapshot, levels)
    if problem:
        none = Figure(value=None, reason=problem)
        return {"benchmark_return": none, "alpha_a_year": none, "beta": none}

    figures = {"benchmark_return": Figure(value=float(levels[-1] / levels[0] - 1.0))}
    moves = simple_returns(levels)
    beta = beta_to(moves, ledger.returns)
    if beta is None or len(moves) < _LEAST_DAYS:
        none = Figure(value=None, reason=f"fewer than {_LEAST_DAYS} days, or a constant benchmark")
        return {**figures, "alpha_a_year": none, "beta": none}

    unexplained = newey_west_mean(ledger.returns - beta * moves)
    years = ledger.days_a_year
    spread = _Z * unexplained.se
    alpha = Figure(
        value=unexplained.mean * years,
        low=(unexplained.mean - spread) * years,
        high=(unexplained.mean + spread) * years,
    )
    return {**figures, "alpha_a_year": alpha, "beta": Figure(value=_finite(beta))}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
