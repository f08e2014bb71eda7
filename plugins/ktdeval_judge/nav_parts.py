"""Where a claimed NAV parts from an executed one, and the causes that the difference splits into.

A *cause* is a way in which a backtest may differ from the executor: it charges no costs, fills at
another price, ignores lots, limits or dividends. `simulate(causes)` is the NAV of the same
decisions with these causes at work; without any it is the executed one, E.

**Search.** Starting from none, the cause whose addition brings the path nearest to the claimed one
C is added, as long as the distance falls by a fifth or more; where no single one does, pairs are
tried. A cause that is not missed is taken out again. The distance of two paths is the root mean
square of their log ratios over the days.

**Parts.** The causes found are put on one after the other, in the order of `CAUSES`, so that

    C - E  =  sum over causes of (path with it - path before it)  +  (C - last path)

adds up exactly. The last bracket is the `remainder`. A part depends on the order; the sum does
not. Parts are of NAVs in units of the first one: differences of total returns.

Example, worked by hand: 100 of cash, one asset, weight 1 from day 0. Closes 10, 11, 12; opens 10,
10.5, 11; no fees. Executed at the next open: 100 / 10.5 shares, NAV 100, 104.76, 114.29. A backtest
that fills at the close of the decision has 10 shares, NAV 100, 110, 120. The difference of total
returns, 0.2 - 0.1429 = 0.0571, is all of the cause `fill_at_decision`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Cause = Literal[
    "costs",
    "declared_fees",
    "fill_at_declared",
    "fill_at_close",
    "fill_at_open",
    "fill_at_decision",
    "limits",
    "lots",
    "dividends",
]
CAUSES: tuple[Cause, ...] = (
    "costs",
    "declared_fees",
    "fill_at_declared",
    "fill_at_open",
    "fill_at_close",
    "fill_at_decision",
    "limits",
    "lots",
    "dividends",
)
"""All causes, in the order in which they are put on."""
FILLS = frozenset({"fill_at_declared", "fill_at_open", "fill_at_close", "fill_at_decision"})
"""Causes of which one at most is at work: an order has one price."""
REMAINDER = "remainder"

PARTING = 1e-4  #: relative difference of two NAVs from which they part
CLOSE = 2e-6  #: distance at which a path is found
_LEAST_GAIN = 0.2  #: share of the distance that a cause has to take away
_SPARE = 0.05  #: share of the distance below which a cause is not missed
EXPLAINED = 0.05  #: share of the first gap that may be left where a cause is said to explain it

Path = npt.NDArray[np.float64]
Simulate = Callable[[frozenset[Cause]], Path]


@dataclass(frozen=True)
class Part:
    """A part of the difference of two total returns."""

    cause: str  #: of `CAUSES`, or `remainder`
    value: float  #: claimed less executed, a share of the first NAV


@dataclass(frozen=True)
class NavComparison:
    """How a claimed NAV differs from the executed one, over the same days."""

    days: int
    claimed_return: float
    executed_return: float
    parts: tuple[Part, ...]  #: add up to claimed less executed
    first_parting: int | None  #: number of the first day on which they part; None: they agree
    parting_cause: str | None  #: cause with the largest part on that day
    largest_gap: float  #: largest relative difference of a day
    remaining_gap: float  #: of it, left when the causes found are at work
    found: tuple[Cause, ...]

    @property
    def agrees(self) -> bool:
        """Whether the NAVs are the same on every day."""
        return self.first_parting is None

    @property
    def is_explained(self) -> bool:
        """Whether the causes found leave next to nothing of the difference."""
        return self.remaining_gap <= max(5e-4, EXPLAINED * self.largest_gap)

    @property
    def looks_ahead(self) -> bool:
        """Whether the claimed NAV is one of fills at the very close that was decided on."""
        return "fill_at_decision" in self.found and self.is_explained


def compare_navs(
    claimed: Path, simulate: Simulate, possible: Sequence[Cause] = CAUSES
) -> NavComparison:
    """Return the comparison of a claimed NAV with `simulate(frozenset())`. Both are [days + 1] of
    the same days, and are compared as multiples of their first value. Raises ValueError: lengths
    differ, or a value is not above 0.
    """
    paths = _Paths(claimed, simulate)
    executed = paths.of(frozenset())
    gaps = _gaps(paths.claimed, executed)
    largest = float(gaps.max())
    parted = np.flatnonzero(gaps > PARTING)
    found: tuple[Cause, ...] = ()
    if len(parted):
        found = _search(paths, possible)

    ladder = _ladder(paths, found)
    claimed_return = float(paths.claimed[-1] - 1.0)
    first = int(parted[0]) if len(parted) else None
    last = paths.of(frozenset(found))
    return NavComparison(
        days=len(claimed) - 1,
        claimed_return=claimed_return,
        executed_return=float(executed[-1] - 1.0),
        parts=_parts(ladder),
        first_parting=first,
        parting_cause=None if first is None else _cause_on(first, ladder),
        largest_gap=largest,
        remaining_gap=float(_gaps(paths.claimed, last).max()),
        found=found,
    )


class _Paths:
    """Paths by their causes, each simulated once."""

    def __init__(self, claimed: Path, simulate: Simulate) -> None:
        self.claimed = _from_one(claimed)
        self._simulate = simulate
        self._known: dict[frozenset[Cause], Path] = {}

    def of(self, causes: frozenset[Cause]) -> Path:
        if causes not in self._known:
            path = _from_one(self._simulate(causes))
            if len(path) != len(self.claimed):
                raise ValueError(f"{len(path)} values, expected {len(self.claimed)}")
            self._known[causes] = path
        return self._known[causes]

    def distance(self, causes: frozenset[Cause]) -> float:
        logs = np.log(self.of(causes) / self.claimed)
        return float(np.sqrt(np.mean(logs * logs)))


def _from_one(path: Path) -> Path:
    values = np.asarray(path, dtype=np.float64)
    if len(values) < 2 or not (values > 0).all() or not np.isfinite(values).all():
        raise ValueError("a NAV needs two or more finite values above 0")
    return np.asarray(values / values[0])


def _gaps(claimed: Path, executed: Path) -> Path:
    return np.abs(claimed / executed - 1.0)


def _search(paths: _Paths, possible: Sequence[Cause]) -> tuple[Cause, ...]:
    chosen: frozenset[Cause] = frozenset()
    distance = paths.distance(chosen)
    while distance > CLOSE:
        better = _best(paths, chosen, possible, 1)
        if paths.distance(better) > (1 - _LEAST_GAIN) * distance:
            # two deviations may hide each other
            better = _best(paths, chosen, possible, 2)
        if paths.distance(better) > (1 - _LEAST_GAIN) * distance:
            break

        chosen = better
        distance = paths.distance(chosen)

    return _without_spare(paths, chosen)


def _best(
    paths: _Paths, chosen: frozenset[Cause], possible: Sequence[Cause], count: int
) -> frozenset[Cause]:
    """Return the nearest set with so many causes more; another fill replaces the one chosen."""
    others = [cause for cause in possible if cause not in chosen]
    sets = []
    for added in itertools.combinations(others, count):
        fills = FILLS & frozenset(added)
        if len(fills) > 1:
            continue

        base = chosen - FILLS if fills else chosen
        sets.append(base | frozenset(added))

    if not sets:
        return chosen
    return min(sets, key=lambda each: (paths.distance(each), sorted(each)))


def _without_spare(paths: _Paths, chosen: frozenset[Cause]) -> tuple[Cause, ...]:
    """Return the causes without those that change next to nothing, in their order."""
    distance = paths.distance(chosen)
    for cause in CAUSES:
        fewer = chosen - {cause}
        limit = max((1 + _SPARE) * distance, CLOSE)
        if cause in chosen and paths.distance(fewer) <= limit:
            chosen = fewer

    return tuple(cause for cause in CAUSES if cause in chosen)


def _ladder(paths: _Paths, found: Sequence[Cause]) -> Mapping[str, tuple[Path, Path]]:
    """Return the path before and with each cause."""
    ladder: dict[str, tuple[Path, Path]] = {}
    working: frozenset[Cause] = frozenset()
    before = paths.of(working)
    for cause in found:
        working |= {cause}
        after = paths.of(working)
        ladder[cause] = (before, after)
        before = after

    ladder[REMAINDER] = (before, paths.claimed)
    return ladder


def _parts(ladder: Mapping[str, tuple[Path, Path]]) -> tuple[Part, ...]:
    parts = []
    for cause, (before, after) in ladder.items():
        parts.append(Part(cause, float(after[-1] - before[-1])))
    return tuple(parts)


def _cause_on(day: int, ladder: Mapping[str, tuple[Path, Path]]) -> str:
    sizes = {}
    for cause, (before, after) in ladder.items():
        sizes[cause] = abs(float(after[day] - before[day]))
    return max(sizes, key=lambda cause: sizes[cause])
