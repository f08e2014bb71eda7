"""An account's track as daily series, over one window or several windows in sequence."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.cards import nearest_to_median
from ktdeval.market import FloatArray
from ktdeval.stats import level_problem, simple_returns

Days = npt.NDArray[np.datetime64]
BOOK_SERIES = ("gross", "net", "cash", "turnover", "names", "largest")
"""Daily series of a book, without the series by group."""

_NO_LEVELS = "the NAV has no returns: {problem}"


@dataclass(frozen=True)
class TrackHolding:
    """An asset over a track. Weights are fractions of the NAV at the close, and negative for
    shorts.
    """

    code: str
    days: int  # number of closes at which the asset was held
    weight_sum: float
    largest: float  # weight with the largest absolute value
    #: gain after costs, as a fraction of the initial cash; None if it is not known
    contribution: float | None = None

    @property
    def mean_weight(self) -> float:
        """Mean weight over the days on which the asset was held."""
        return self.weight_sum / self.days

    def add_track(self, other: TrackHolding) -> TrackHolding:
        """Return the asset's holding over two tracks. Their contributions are added."""
        largest = max(self.largest, other.largest, key=abs)
        total = self.weight_sum + other.weight_sum
        contribution = None
        if self.contribution is not None and other.contribution is not None:
            contribution = self.contribution + other.contribution
        return TrackHolding(self.code, self.days + other.days, total, largest, contribution)


@dataclass(frozen=True)
class GroupExposures:
    """Exposures by group: net sector weights, or the NAV's factor exposures in cross-sectional
    standard deviations.
    """

    lines: Mapping[str, FloatArray]  # [days] exposures, keyed by group; NaN where undefined
    reason: str = ""  # why there are no lines


_NO_MARKET = GroupExposures({}, "the market is not known")


@dataclass(frozen=True)
class Book:
    """An account's holdings and trades by day. Each series is [days], and NaN if the NAV is not
    positive.
    """

    gross: FloatArray  # absolute value of all positions, as a fraction of the NAV at the close
    net: FloatArray  # longs less shorts, as a fraction of the NAV
    cash: FloatArray  # cash, as a fraction of the NAV; may exceed 1 with shorts
    turnover: FloatArray  # notional of the fills divided by the NAV at the opens
    names: FloatArray  # number of assets held at the close
    largest: FloatArray  # absolute value of the largest position, as a fraction of the NAV
    holdings: Mapping[str, TrackHolding]  # holdings, keyed by code
    sectors: GroupExposures = _NO_MARKET
    factors: GroupExposures = _NO_MARKET

    def by_day(self) -> dict[str, FloatArray]:
        """Return each series of days, keyed by name. Sectors and factors come last."""
        found: dict[str, FloatArray] = {name: getattr(self, name) for name in BOOK_SERIES}
        for group, exposures in (("sector", self.sectors), ("factor", self.factors)):
            for name, values in exposures.lines.items():
                found[f"{group} {name}"] = values
        return found


@dataclass(frozen=True)
class Track:
    """Daily series of one episode, or of several windows in sequence.

    Each series is dated by the day that earned the return. `days` begins with the base day, the close
    before the first fill.
    """

    name: str
    seed: int | None  # seed of the episode; None for several episodes
    is_whole: bool  # whether every episode in the track is finished
    days: Days  # [days + 1], with the base day first
    levels: FloatArray  # [days + 1] NAV
    benchmark: FloatArray | None  # [days + 1] benchmark levels; None with `no_benchmark`
    no_benchmark: str
    book: Book | None  # None if only the NAV is known
    days_a_year: int
    resolution: float  # smallest daily return that is visible at the precision of money amounts
    starts: Sequence[int] = ()  # indices of `days` at which another window begins
    # [days + 1] account value that the decisions' file claims, NaN on days without one; None if it
    # claims none
    claimed: FloatArray | None = None

    @property
    def problem(self) -> str:
        """Why the NAV has no daily returns; empty if it has them."""
        problem = level_problem(self.levels)
        return _NO_LEVELS.format(problem=problem) if problem else ""

    @property
    def returns(self) -> FloatArray:
        """[days] simple returns of the NAV."""
        return simple_returns(self.levels)

    @property
    def benchmark_returns(self) -> FloatArray | None:
        """[days] simple returns of the benchmark."""
        if self.benchmark is None:
            return None
        return simple_returns(self.benchmark)


@dataclass(frozen=True)
class WindowTracks:
    """A window with the tracks of its seeds, lowest seed first."""

    name: str
    tracks: Sequence[Track]

    @property
    def shown(self) -> Track:
        """Track of the seed whose total return is nearest to the median over seeds. Ties go to the
        lowest seed.
        """
        totals = [float(track.levels[-1] / track.levels[0] - 1.0) for track in self.tracks]
        return self.tracks[nearest_to_median(totals)]

    @property
    def others(self) -> list[Track]:
        """Tracks of the other seeds."""
        shown = self.shown
        return [track for track in self.tracks if track is not shown]


def overlapping(tracks: Sequence[Track]) -> tuple[Track, Track] | None:
    """Return two tracks whose returns share a day; None without such tracks."""
    ordered = sorted(tracks, key=lambda track: (track.days[1], track.days[-1]))
    for before, after in itertools.pairwise(ordered):
        if after.days[1] <= before.days[-1]:
            return before, after
    return None


def chain_tracks(tracks: Sequence[Track]) -> Track:
    """Join tracks that share no day into one track, with their daily returns linked in
    chronological order.

    Each window began with the initial cash, so the result is the growth of an account that invests
    all its money again in each window. Days between the windows are not included.
    """
    ordered = sorted(tracks, key=lambda track: track.days[1])
    returns = np.concatenate([track.returns for track in ordered])
    days = np.concatenate([ordered[0].days[:1], *[track.days[1:] for track in ordered]])

    benchmark = None
    parts = [track.benchmark_returns for track in ordered]
    known = [part for part in parts if part is not None]
    if len(known) == len(parts):
        benchmark = _link_returns(np.concatenate(known))

    lengths = [len(track.days) - 1 for track in ordered]
    starts = [1 + int(end) for end in np.cumsum(lengths)[:-1]]
    missing = [track.no_benchmark for track in ordered if track.no_benchmark]
    return Track(
        name="all windows, one after another",
        seed=None,
        is_whole=all(track.is_whole for track in ordered),
        days=days,
        levels=_link_returns(returns),
        benchmark=benchmark,
        no_benchmark=missing[0] if missing else "",
        book=_joined_books([track.book for track in ordered if track.book is not None]),
        days_a_year=ordered[0].days_a_year,
        resolution=max(track.resolution for track in ordered),
        starts=starts,
    )


def _link_returns(returns: FloatArray) -> FloatArray:
    return np.concatenate([[1.0], np.cumprod(1.0 + returns)])


def _joined_books(books: Sequence[Book]) -> Book | None:
    if not books:
        return None

    arrays = {}
    for name in BOOK_SERIES:
        arrays[name] = np.concatenate([getattr(book, name) for book in books])

    days = [len(book.gross) for book in books]
    holdings: dict[str, TrackHolding] = {}
    for book in books:
        for code, holding in book.holdings.items():
            before = holdings.get(code)
            holdings[code] = holding if before is None else before.add_track(holding)

    return Book(
        **arrays,
        holdings=holdings,
        sectors=_joined_exposures([book.sectors for book in books], days),
        factors=_joined_exposures([book.factors for book in books], days),
    )


def _joined_exposures(parts: Sequence[GroupExposures], days: Sequence[int]) -> GroupExposures:
    """Return exposures in sequence. A group missing from a part was not held in that part."""
    for part in parts:
        if part.reason:
            return part

    names = dict.fromkeys(name for part in parts for name in part.lines)
    lines = {}
    for name in names:
        columns = []
        for part, length in zip(parts, days, strict=True):
            columns.append(part.lines.get(name, np.zeros(length)))
        lines[name] = np.concatenate(columns)
    return GroupExposures(lines)
