"""Invented world of the synthetic market: its listings, and the level that its index follows.

Its tables lie next to this module: `synthetic_names.yaml`; `synthetic_windows.csv`, the evaluation windows of KTD-Fin (Table
2) with the regime of the index in each; `synthetic_index.csv`, control points that give each window its regime. The windows
overlap (W1 with W2, W3 with W4, W4 with W5, W5 with W6), so one path must suit both of a pair: each has a point at the close
before its first day and one at its last. W3 ends 12 trading days into W4, so it falls first and is brought back to flat by
the first days of the rally, as the real index was.
"""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import yaml

from ktdeval.market import Board, DayArray, FloatArray, board_of

_FOLDER = files("ktdeval_data")


class ControlPoint(NamedTuple):
    """A level that the index has at the close of the last trading day up to `day`."""

    day: str  # ISO date
    level: float  # index level
    noise_pct: float  # daily standard deviation, in percent, of the index around the straight line that leads to this point


class Regime(NamedTuple):
    """One evaluation window and what the index does in it; both dates included."""

    window: str
    first: str
    last: str
    name: str


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_FOLDER.joinpath(name).read_text(encoding="utf-8").splitlines()))


REGIMES = tuple(Regime(**row) for row in _rows("synthetic_windows.csv"))
CONTROL_POINTS = tuple(
    ControlPoint(row["day"], float(row["level"]), float(row["noise_pct"])) for row in _rows("synthetic_index.csv")
)
_NAMES = yaml.safe_load(_FOLDER.joinpath("synthetic_names.yaml").read_text(encoding="utf-8"))
ASSET_COUNT = sum(listing["count"] for listing in _NAMES["listings"])


class Listings(NamedTuple):
    """Assets of a synthetic market, by ascending code. `codes, names, boards`: one each."""

    codes: tuple[str, ...]
    names: tuple[str, ...]
    boards: tuple[Board, ...]
    industry: np.ndarray[tuple[int], np.dtype[np.intp]]  # [N] index into `industry_names`
    industry_names: tuple[str, ...]  # distinct invented industries


def make_listings(rng: np.random.Generator) -> Listings:
    """Draw codes, names and industries.

    No invented word is used twice, so a word of a name belongs to one asset or industry only.
    """
    codes = []
    for listing in _NAMES["listings"]:
        numbers = [number for number in range(listing["numbers"]) if number not in listing.get("real", ())]
        codes += [listing["pattern"].format(number) for number in rng.choice(np.array(numbers), listing["count"], replace=False)]
    codes.sort()
    vocabulary = [onset + ending for onset in _NAMES["onsets"] for ending in _NAMES["endings"]]
    words = iter([vocabulary[place] for place in rng.permutation(len(vocabulary))])
    trades = _NAMES["trades"]
    industry_names = tuple(f"{next(words)} {trade}" for trade in trades)
    names = tuple(f"{next(words)} {next(words)} {number}" for number in rng.integers(11, 100, size=len(codes)))
    # Industries differ in size, none is empty: a uniform share first, the rest by drawn weights.
    weights = rng.dirichlet(np.full(len(trades), 2.0))
    least = np.arange(len(codes)) % len(trades)
    drawn = rng.choice(len(trades), size=len(codes), p=weights)
    industry = rng.permutation(np.where(np.arange(len(codes)) < 4 * len(trades), least, drawn))
    return Listings(tuple(codes), names, tuple(board_of(code) for code in codes), industry, industry_names)


def control_level(day: np.datetime64) -> float:
    """Return the control level of a calendar day: straight in log level between points, level beyond the first and the last."""
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
    """[T] index levels to aim at: through every control point, with a bridge of `shocks` between them. `days`: [T] trading days.
    `shocks`: [T] daily log-return noise; its sum between two control points is taken out evenly.
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
