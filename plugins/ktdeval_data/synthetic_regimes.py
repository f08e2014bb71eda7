"""The level that the synthetic index follows: control points that give each evaluation window its regime."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktdeval.api import DayArray, FloatArray


class ControlPoint(NamedTuple):
    """A level that the index has at the close of the last trading day up to `day`.

    Attributes:
        day: ISO date.
        level: index level.
        noise_pct: daily standard deviation, in percent, of the index around the straight line that leads to this point.
    """

    day: str
    level: float
    noise_pct: float


class Regime(NamedTuple):
    """One evaluation window of KTD-Fin (Table 2) and what the index does in it; both dates included."""

    window: str
    first: str
    last: str
    name: str


REGIMES = (
    Regime("W1", "2024-04-01", "2024-06-05", "near-flat"),
    Regime("W2", "2024-05-27", "2024-07-25", "monotone bear"),
    Regime("W3", "2024-07-25", "2024-09-25", "near-flat"),
    Regime("W4", "2024-09-09", "2024-11-15", "explosive bull"),
    Regime("W5", "2024-10-21", "2024-12-13", "near-flat"),
    Regime("W6", "2024-12-06", "2025-02-14", "mild decline"),
    Regime("W7", "2025-03-03", "2025-05-09", "V-shape"),
    Regime("W8", "2025-07-14", "2025-09-19", "smooth uptrend"),
    Regime("W9", "2025-10-13", "2025-12-19", "near-flat"),
    Regime("W10", "2026-02-02", "2026-04-10", "mild rise"),
)

# The windows overlap (W1 with W2, W3 with W4, W4 with W5, W5 with W6), so one path must suit both of a pair: each has a point at
# the close before its first day and one at its last. W3 ends 12 trading days into W4, so it falls first and is brought back to
# flat by the first days of the rally, as the real index was.
CONTROL_POINTS = (
    ControlPoint("2022-06-01", 1000.0, 0.8),
    ControlPoint("2022-07-04", 1060.0, 0.8),
    ControlPoint("2022-10-31", 850.0, 0.9),
    ControlPoint("2023-01-30", 1010.0, 0.9),
    ControlPoint("2023-12-29", 835.0, 0.75),
    ControlPoint("2024-02-02", 780.0, 1.1),
    ControlPoint("2024-03-29", 860.0, 0.8),  # before W1
    ControlPoint("2024-05-24", 874.0, 0.6),  # before W2
    ControlPoint("2024-06-05", 862.0, 0.4),  # end of W1
    ControlPoint("2024-06-28", 838.0, 0.4),
    ControlPoint("2024-07-24", 813.0, 0.4),  # before W3
    ControlPoint("2024-07-25", 812.0, 0.4),  # end of W2
    ControlPoint("2024-07-31", 820.0, 0.7),
    ControlPoint("2024-09-06", 780.0, 0.6),  # before W4
    ControlPoint("2024-09-13", 768.0, 0.6),
    ControlPoint("2024-09-23", 775.0, 0.8),
    ControlPoint("2024-09-25", 813.0, 1.0),  # end of W3
    ControlPoint("2024-09-30", 950.0, 1.6),
    ControlPoint("2024-10-08", 1005.0, 1.6),
    ControlPoint("2024-10-17", 930.0, 1.6),
    ControlPoint("2024-10-18", 960.0, 1.6),  # before W5
    ControlPoint("2024-11-07", 1003.0, 1.0),
    ControlPoint("2024-11-15", 972.0, 1.0),  # end of W4
    ControlPoint("2024-11-26", 938.0, 0.8),
    ControlPoint("2024-12-05", 960.0, 0.7),  # before W6
    ControlPoint("2024-12-13", 962.0, 0.8),  # end of W5
    ControlPoint("2025-01-13", 925.0, 0.7),
    ControlPoint("2025-02-14", 936.0, 0.6),  # end of W6
    ControlPoint("2025-02-28", 940.0, 0.7),  # before W7
    ControlPoint("2025-03-19", 955.0, 0.6),
    ControlPoint("2025-04-03", 938.0, 0.6),
    ControlPoint("2025-04-08", 846.0, 1.0),
    ControlPoint("2025-05-09", 934.0, 0.6),  # end of W7
    ControlPoint("2025-07-11", 975.0, 0.6),  # before W8
    ControlPoint("2025-08-15", 1036.0, 0.45),
    ControlPoint("2025-09-19", 1095.0, 0.45),  # end of W8
    ControlPoint("2025-10-10", 1110.0, 0.8),  # before W9
    ControlPoint("2025-10-29", 1133.0, 0.7),
    ControlPoint("2025-11-24", 1086.0, 0.7),
    ControlPoint("2025-12-19", 1107.0, 0.7),  # end of W9
    ControlPoint("2026-01-30", 1120.0, 0.7),  # before W10
    ControlPoint("2026-02-27", 1136.0, 0.6),
    ControlPoint("2026-03-20", 1122.0, 0.7),
    ControlPoint("2026-04-10", 1150.0, 0.7),  # end of W10
    ControlPoint("2026-05-15", 1165.0, 0.8),
)


def control_level(day: np.datetime64) -> float:
    """The control level of a calendar day: straight in log level between points, level beyond the first and the last."""
    places = np.array([point.day for point in CONTROL_POINTS], dtype="datetime64[D]").astype(np.int64)
    logs = np.log([point.level for point in CONTROL_POINTS])
    return float(np.exp(np.interp(day.astype("datetime64[D]").astype(np.int64), places, logs)))


def daily_noise(days: DayArray) -> FloatArray:
    """[T] daily standard deviation of the index around its control path, as a fraction."""
    ends = np.array([point.day for point in CONTROL_POINTS], dtype="datetime64[D]")
    noise = np.array([point.noise_pct for point in CONTROL_POINTS]) / 100.0
    levels: FloatArray = noise[np.minimum(np.searchsorted(ends, days), len(noise) - 1)]
    return levels


def target_levels(days: DayArray, shocks: FloatArray) -> FloatArray:
    """[T] index levels to aim at: through every control point, with a bridge of `shocks` between them.

    Args:
        days: [T] trading days.
        shocks: [T] daily log-return noise; its sum between two control points is taken out evenly.
    """
    last = len(days) - 1
    anchors = {0: control_level(days[0]), last: control_level(days[-1])}
    for point in CONTROL_POINTS:
        if days[0] <= np.datetime64(point.day) <= days[-1]:
            anchors[int(np.searchsorted(days, np.datetime64(point.day), side="right")) - 1] = point.level
    rows = np.array(sorted(anchors))
    logs = np.log([anchors[row] for row in rows])
    everything = np.arange(len(days))
    walk = np.cumsum(shocks)
    bridge = walk - np.interp(everything, rows, walk[rows])
    levels: FloatArray = np.round(np.exp(np.interp(everything, rows, logs) + bridge), 4)
    return levels
