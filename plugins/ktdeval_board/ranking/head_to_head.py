"""Head-to-head tests between a division's cards over its windows. The tests are identical to those
of `ktdeval compare`; pages only look up the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, groupby, product
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from ktdeval import stats
from ktdeval.values import first_of
from ktdeval_board.board_entries import BoardEntry, LoadedBoard
from ktdeval_board.document_types import DIGITS, rounded_or_none
from ktdeval_board.ranking.column_texts import by_trust, division_kind
from ktdeval_board.ranking.daily_summaries import Vector, figures_by_cell
from ktdeval_board.ranking.division_figures import medians, nullable
from ktdeval_board.ranking.fresh_windows import counted_windows
from ktdeval_board.ranking.rows import Row
from ktdeval_board.rules import Division, WindowRule

MAX_PAIRED = 40
"""Maximum number of cards in a division that are tested against each other: the baselines and the
best cards. Time and size grow quadratically.
"""


# a tuple: each test is a row in one of the site's data files
class PairingTest(NamedTuple):
    """Figures of a single test, as shown on pages: the signed-rank test, the Hodges-Lehmann shift
    and the sign-flip test.
    """

    n: int
    nonzero: int
    p: float | None
    smallest: float | None  #: smallest p possible with this number of windows
    effect: float | None
    method: str | None
    reason: str | None  #: why p is undefined
    value: float | None
    low: float | None
    high: float | None
    confidence: float | None
    shift_reason: str | None  #: why the interval is undefined
    flip_p: float | None
    blocks: int


FIELDS = PairingTest._fields

_SEED = 0
_MAX_BLOCKS = 12
_NOT_HERE = "windows share days, and some do not differ or lack a figure; use `ktdeval compare`"


@dataclass(frozen=True)
class PairedWindows:
    """Windows over which cards are paired."""

    #: in the order of the division; empty for a scoring task, whose scores cover all answers
    #: together.
    windows: Sequence[WindowRule]
    correlation: Vector  #: [n, n] correlation between the figures of windows, caused by shared days
    counted: Callable[[BoardEntry], Sequence[str]]  #: names of the windows that count for an entry

    @cached_property
    def null(self) -> stats.RankNull | None:
        """Null distribution of the signed-rank statistic over all windows, if windows share days;
        None if the exact distribution applies.
        """
        return stats.overlap_null(self.correlation, _SEED)

    @cached_property
    def blocks(self) -> npt.NDArray[np.int64]:
        """[n] block labels, counted from 0. Windows in the same block change signs together."""
        if not self.windows:
            return np.zeros(0, np.int64)

        blocks = stats.blocks_of(self.correlation)
        labels: npt.NDArray[np.int64] = np.unique(blocks, return_inverse=True)[1].reshape(-1)
        return labels

    def share_days(self, indices: Sequence[int]) -> bool:
        """Return whether any of these windows share days."""
        return bool(np.any(np.triu(self.correlation[np.ix_(indices, indices)], 1)))


def windows_of(board: LoadedBoard, division: Division) -> PairedWindows:
    """Return a division's windows, with the days that episodes cover. Without cards, the days come
    from the rules.
    """
    windows = () if division_kind(board, division) == "scoring" else division.windows
    covered = {each.name: (each.first, each.last) for each in windows}
    # The days in the best confirmed card override those in other cards.
    for entry in reversed(by_trust(board.of_division(division))):
        if entry.is_trading and entry.card.limit is None:
            for episode in entry.trading.episodes:
                covered[episode.window] = (episode.first_day, episode.last_day)

    days = [covered[each.name] for each in windows]
    counted = partial(counted_windows, division=division, rules=board.rules)
    return PairedWindows(windows, stats.overlap_correlation(days), counted)


def paired_cards(rows: Sequence[Row]) -> list[str]:
    """Return the ids of the tested cards, in the row order of a table.

    Baselines are chosen first, then the best cards. Cards that share a rank are chosen together or
    not at all, so that the choice does not depend on names.
    """
    cards = []
    for row in rows:
        if row["card"] is not None:
            cards.append((row["card"], row["rank"], row["baseline"] is None))

    groups = []
    by_choice = sorted(cards, key=lambda card: card[2])
    for _, group in groupby(by_choice, key=lambda card: card[1] or card[0]):
        groups.append([card_id for card_id, _, _ in group])

    chosen = set(first_of(groups, MAX_PAIRED))
    return [card_id for card_id, _, _ in cards if card_id in chosen]


class NamedDays(TypedDict):
    """Window of a division, with its days."""

    name: str
    first: str
    last: str


class PairsIndex(TypedDict):
    """Data about a division that pages need before any pair is loaded."""

    windows: list[NamedDays]
    overlap: bool  #: whether windows share days
    effective_windows: float
    cards: list[str]  #: ids of the tested cards
    fields: list[str]


def pairs_index(windows: PairedWindows, cards: Sequence[str]) -> PairsIndex:
    """Return the data about a division that pages need before any pair is loaded."""
    days: list[NamedDays] = []
    for window in windows.windows:
        days.append({"name": window.name, "first": window.first, "last": window.last})

    return {
        "windows": days,
        "overlap": windows.share_days(range(len(windows.windows))),
        "effective_windows": round(stats.effective_count(windows.correlation), DIGITS),
        "cards": list(cards) if windows.windows else [],
        "fields": list(FIELDS),
    }


def pair_tests(
    entries: Sequence[BoardEntry], windows: PairedWindows
) -> dict[str, dict[str, dict[str, PairingTest]]]:
    """Return the tests of each card against every other card. The result maps a card to the other
    card, then to a metric, and then to the values of `FIELDS`; differences are the first card minus
    the second. Each pair is tested on the windows that count for both cards.
    """
    tests: dict[str, dict[str, dict[str, PairingTest]]] = {entry.card_id: {} for entry in entries}
    metrics = set[str]()
    for entry in entries:
        metrics |= entry.trading.metrics.keys()

    names = [window.name for window in windows.windows]
    first, second = np.triu_indices(len(entries), 1)
    of_entries = [windows.counted(entry) for entry in entries]
    counts = np.array([[name in own for name in names] for own in of_entries], dtype=bool)

    for metric in sorted(metrics):
        figures = _figure_array(entries, metric, names)
        figures = np.where(counts[:, None, :], figures, math.nan)
        differences = medians(figures[first] - figures[second])[0]
        rows = _tests(stats.level_sizes(differences), windows)
        for one, other, row in zip(first.tolist(), second.tolist(), rows, strict=True):
            here = entries[one]
            there = entries[other]
            if metric in here.trading.metrics and metric in there.trading.metrics:
                tests[here.card_id].setdefault(there.card_id, {})[metric] = row
                tests[there.card_id].setdefault(here.card_id, {})[metric] = _turn_test(row)

    return tests


def _figure_array(entries: Sequence[BoardEntry], metric: str, windows: Sequence[str]) -> Vector:
    """Return the [cards, seeds, windows] array of a metric; NaN where undefined."""
    seeds = sorted(set(chain.from_iterable(entry.card.seeds for entry in entries)))
    row_of = {seed: row for row, seed in enumerate(seeds)}
    column_of = {window: column for column, window in enumerate(windows)}
    values = np.full((len(entries), len(seeds), len(windows)), np.nan)

    for number, entry in enumerate(entries):
        figures = figures_by_cell(entry.trading.episodes, metric)
        for (window, seed), figure in figures.items():
            if window in column_of:
                values[number, row_of[seed], column_of[window]] = figure

    return values


def _turn_test(test: PairingTest) -> PairingTest:
    """Return the same test with the second card minus the first."""
    return test._replace(
        effect=_negate(test.effect),
        value=_negate(test.value),
        low=_negate(test.high),
        high=_negate(test.low),
    )


def _negate(value: float | None) -> float | None:
    # subtracted from 0.0, since negation could give a minus zero
    return None if value is None else 0.0 - value


def _tests(differences: Vector, windows: PairedWindows) -> list[PairingTest]:
    """Test [pairs, windows] differences, with NaN where undefined. Plain rows are tested as a
    batch, which is ten times as fast; all other rows are tested one by one.
    """
    sizes = np.sort(np.abs(differences), axis=1)
    plain = (
        np.isfinite(differences).all(axis=1)
        & (sizes[:, :1] > 0).all(axis=1)
        & (np.diff(sizes, axis=1) > 0).all(axis=1)
    )
    plain &= 0 < windows.blocks.max(initial=-1) + 1 <= _MAX_BLOCKS
    together: list[PairingTest] = []
    if plain.any():
        together = _plain_tests(differences[plain], windows)

    in_turn = iter(together)
    # Identical rows are common, in particular those of cards that never differ.
    tested: dict[bytes, PairingTest] = {}
    tests = []

    for row, is_plain in zip(differences, plain.tolist(), strict=True):
        if is_plain:
            tests.append(next(in_turn))
            continue

        key = (row + 0.0).tobytes()
        if key not in tested:
            tested[key] = _test_row(row, windows)

        tests.append(tested[key])

    return tests


def _plain_tests(differences: Vector, windows: PairedWindows) -> list[PairingTest]:
    """Test rows in which every window has a figure and no two absolute values are equal or zero,
    using the library's distributions.
    """
    n = differences.shape[1]
    null = windows.null or stats.rank_null(np.arange(1.0, n + 1.0))

    # Signed-rank test, based on the sum of the positive ranks.
    p = np.array([null.two_sided(float(statistic)) for statistic in null.support])
    positive = stats.positive_rank_sums(differences)
    top = n * (n + 1) // 2
    effect = (2.0 * positive - top) / top

    # Hodges-Lehmann shift: the median of the Walsh averages, two of which are the interval bounds.
    one, other = np.triu_indices(n)
    walsh = np.sort((differences[:, one] + differences[:, other]) / 2.0, axis=1)
    low = np.full(len(walsh), np.nan)
    high = np.full(len(walsh), np.nan)
    cut = int(np.searchsorted(null.at_or_below, 0.025 + 1e-12, side="right")) - 1
    if cut >= 0:
        low = walsh[:, cut]
        high = walsh[:, -1 - cut]

    # Sign-flip test, over all combinations of signs for whole blocks.
    blocks = range(windows.blocks.max() + 1)
    sums = np.stack(
        [differences[:, windows.blocks == block].sum(axis=1) for block in blocks], axis=1
    )
    signs = np.array(list(product((1.0, -1.0), repeat=len(blocks))))
    reach = np.abs(sums.sum(axis=1)) - 1e-12 * np.abs(sums).sum(axis=1)
    flips = (np.abs(sums @ signs.T) >= reach[:, None]).mean(axis=1)

    medians_ = np.median(walsh, axis=1)
    columns = nullable(np.column_stack((p[positive], effect, medians_, low, high, flips)))
    example = _test_row(differences[0], windows)  # the other figures are equal for all plain rows
    tests = []
    for p_value, biserial, value, lower, upper, flip in columns:
        tests.append(
            example._replace(
                p=p_value, effect=biserial, value=value, low=lower, high=upper, flip_p=flip
            )
        )

    return tests


def _test_row(differences: Vector, windows: PairedWindows) -> PairingTest:
    """Test a single row of any kind."""
    indices = np.flatnonzero(np.isfinite(differences)).tolist()
    values = differences[indices]
    moving = [index for index in indices if differences[index] != 0]
    shared = windows.share_days(indices)
    shared_moving = windows.share_days(moving)
    # The simulated distribution covers all windows; simulating one for each subset would take too
    # long.
    has_p = not shared_moving or len(moving) == len(differences)
    has_interval = not shared or len(indices) == len(differences)

    ranks = stats.signed_rank(values, null=windows.null if has_p and shared_moving else None)
    shift = stats.hodges_lehmann(values, null=windows.null if has_interval and shared else None)
    blocks = None
    if shared:
        blocks = stats.blocks_of(windows.correlation[np.ix_(indices, indices)])

    flips = stats.sign_flip(values, blocks)
    test = PairingTest(
        n=ranks.n,
        nonzero=ranks.n_nonzero,
        p=rounded_or_none(ranks.p),
        smallest=rounded_or_none(ranks.smallest_p),
        effect=rounded_or_none(ranks.rank_biserial),
        method=ranks.method,
        reason=ranks.reason,
        value=rounded_or_none(shift.value),
        low=rounded_or_none(shift.low),
        high=rounded_or_none(shift.high),
        confidence=rounded_or_none(shift.confidence),
        shift_reason=shift.reason,
        flip_p=rounded_or_none(flips.p),
        blocks=flips.blocks,
    )
    if not has_p:
        test = test._replace(p=None, smallest=None, reason=_NOT_HERE)

    if not has_interval:
        test = test._replace(low=None, high=None, confidence=None, shift_reason=_NOT_HERE)

    return test
