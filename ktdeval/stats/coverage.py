"""How often bootstrap intervals of nominally 95 % cover the truth, measured by simulation (`benchmarks/coverage_intervals.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal["mean", "ratio", "drawdown", "percentile"]
"""`mean`: of daily means, sums and total returns; `ratio`: Sharpe and information ratio; `percentile`: any other, unmeasured."""

MEASURED_LEVEL = 0.95
"""Nominal coverage of the measured intervals."""

DAYS = (20, 43, 120, 250, 548)
"""Lengths of the simulated windows."""

PROCESSES = ("iid normal", "AR(1) 0.2", "GARCH(1,1) Student t")
"""The daily processes simulated, in the order of the table's figures; means 0.06 % and standard deviations 1.2 % a day."""

MEASURED: Mapping[Kind, Mapping[int, tuple[float, float, float]]] = {
    "mean": {
        20: (0.9185, 0.9135, 0.9295),
        43: (0.9300, 0.9400, 0.9520),
        120: (0.9505, 0.9410, 0.9485),
        250: (0.9485, 0.9510, 0.9490),
        548: (0.9525, 0.9495, 0.9440),
    },
    "ratio": {
        20: (0.9215, 0.9205, 0.9240),
        43: (0.9345, 0.9355, 0.9510),
        120: (0.9520, 0.9405, 0.9375),
        250: (0.9510, 0.9505, 0.9405),
        548: (0.9500, 0.9480, 0.9390),
    },
    "drawdown": {
        20: (0.9010, 0.8710, 0.8675),
        43: (0.9500, 0.9210, 0.8970),
        120: (0.9795, 0.9515, 0.9175),
        250: (0.9900, 0.9755, 0.9535),
        548: (0.9935, 0.9815, 0.9665),
    },
}
"""Kind -> days -> coverage under each process; 2,000 samples a figure, so its standard error is half a percentage point."""


def measured_coverage(kind: Kind, days: int) -> float | None:
    """Return the lowest coverage over the processes, at the longest simulated window that is not longer than `days`."""
    rows = MEASURED.get(kind, {})
    known = [length for length in rows if length <= days]
    return min(rows[max(known)]) if known else None
