"""Head-to-head tests of a division's cards over its windows, as `ktdeval compare` makes them: pages only look them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, product

import numpy as np
import numpy.typing as npt

from ktdeval import stats
from ktdeval.jsonio import JsonValue
from ktdeval.ties import first_of
from ktdeval_board.documents import DIGITS, rounded
from ktdeval_board.entries import Board, Entry
from ktdeval_board.ranking.daily import Vector
from ktdeval_board.ranking.describe import by_trust, division_kind
from ktdeval_board.ranking.figures import medians, nullable
from ktdeval_board.rules import Division, WindowRule

NULL_DRAWS = 100_000
"""Samples of the signed-rank distribution where windows share days, as `ktdeval compare` takes them: p is known to 0.0005."""
MOST_PAIRED = 40
"""Cards of a division that are tested against each other: baselines and the best. Time and size grow with the square."""
FIELDS = (
    "n", "nonzero", "p", "smallest", "effect", "method", "reason", "value", "low", "high", "confidence", "shift_reason", "flip_p",
    "blocks",
)  # fmt: skip
"""Figures of one test, in order: of the signed ranks, of the Hodges-Lehmann shift, of the sign flips."""

Row = list[JsonValue]  #: Values of `FIELDS`

_INDEX = {name: index for index, name in enumerate(FIELDS)}
_SEED = 0
_MOST_BLOCKS = 12
_NOT_HERE = "windows share days, and some of them do not differ or have no figure: `ktdeval compare` works it out"


@dataclass(frozen=True)
class Windows:
    """Windows that cards are paired on."""

    #: in the order of the division; none for a scoring task, whose scores are of all answers together.
    windows: Sequence[WindowRule]
    correlation: Vector  #: [n, n] of figures over windows, by the days that they share

    @cached_property
    def null(self) -> stats.RankNull | None:
        """Distribution of the signed-rank statistic over all windows where they share days; None where it is exact."""
        return stats.correlated_null(self.correlation, NULL_DRAWS, _SEED) if self.shared(range(len(self.windows))) else None

    @cached_property
    def blocks(self) -> npt.NDArray[np.int64]:
        """[n] labels from 0 of windows that change signs together."""
        labels: npt.NDArray[np.int64] = np.unique(stats.blocks_of(self.correlation), return_inverse=True)[1].reshape(-1)
        return labels if len(self.windows) else np.zeros(0, np.int64)

    def shared(self, indices: Sequence[int]) -> bool:
        """Return whether some of these windows share days."""
        return bool(np.any(np.triu(self.correlation[np.ix_(indices, indices)], 1)))


def windows_of(board: Board, division: Division) -> Windows:
    """Return the windows of a division, with the days that episodes covered; the rule's days where no card has them."""
    windows = () if division_kind(board, division) == "scoring" else division.windows
    covered = {
        episode.window: (episode.first_day, episode.last_day)
        for entry in reversed(by_trust(board.of_division(division)))
        if entry.is_trading and entry.card.limit is None
        for episode in entry.trading.episodes
    }
    return Windows(windows, stats.overlap_correlation([covered.get(each.name, (each.first, each.last)) for each in windows]))


def paired_cards(rows: Sequence[Mapping[str, JsonValue]]) -> list[str]:
    """Return the ids of the cards that are tested, in the order of a table's rows: baselines first in choice, then the best. Cards
    that share a rank are chosen all or none, so that no name decides.
    """
    cards = [row for row in rows if row["card"] is not None]
    in_choice = sorted(cards, key=lambda row: row["baseline"] is None)
    groups = [[*group] for _, group in groupby(in_choice, key=lambda row: row.get("rank") or row["card"])]
    chosen = {row["card"] for row in first_of(groups, MOST_PAIRED)}
    return [row["card"] for row in cards if row["card"] in chosen]


def pairs_index(windows: Windows, cards: Sequence[str]) -> dict[str, JsonValue]:
    """Return what pages need of a division before any pair: windows, how much they are worth, and which cards are tested."""
    shared = windows.shared(range(len(windows.windows)))
    return {
        "windows": [{"name": window.name, "first": window.first, "last": window.last} for window in windows.windows],
        "overlap": shared,
        "effective_windows": round(stats.effective_count(windows.correlation), DIGITS),
        "cards": list(cards) if windows.windows else [],
        "fields": list(FIELDS),
    }


def pair_tests(entries: Sequence[Entry], windows: Windows) -> dict[str, dict[str, dict[str, Row]]]:
    """Return the tests of cards against each other: card to other card to metric to the values of `FIELDS`, first less second."""
    tests: dict[str, dict[str, dict[str, Row]]] = {entry.card_id: {} for entry in entries}
    metrics = sorted({name for entry in entries for name in entry.trading.metrics})
    first, second = np.triu_indices(len(entries), 1)
    for metric in metrics:
        figures = _figures(entries, metric, [window.name for window in windows.windows])
        rows = _tests(stats.levelled(medians(figures[first] - figures[second])[0]), windows)
        for one, other, row in zip(first.tolist(), second.tolist(), rows, strict=True):
            here, there = entries[one], entries[other]
            if metric in here.trading.metrics and metric in there.trading.metrics:
                tests[here.card_id].setdefault(there.card_id, {})[metric] = row
                tests[there.card_id].setdefault(here.card_id, {})[metric] = _turned(row)
    return tests


def _figures(entries: Sequence[Entry], metric: str, windows: Sequence[str]) -> Vector:
    """[cards, seeds, windows] figures of a metric; NaN where undefined."""
    seeds = sorted({seed for entry in entries for seed in entry.card.seeds})
    position_of = {(window, seed): (row, column) for row, seed in enumerate(seeds) for column, window in enumerate(windows)}
    values = np.full((len(entries), len(seeds), len(windows)), np.nan)
    for number, entry in enumerate(entries):
        for episode in entry.trading.episodes:
            figure, at = episode.metrics.get(metric), position_of.get((episode.window, episode.seed))
            if figure is not None and figure.value is not None and at is not None:
                values[(number, *at)] = figure.value
    return values


def _turned(row: Row) -> Row:
    turned = row.copy()
    for name, other in (("effect", "effect"), ("value", "value"), ("low", "high"), ("high", "low")):
        value = row[_INDEX[other]]
        turned[_INDEX[name]] = None if value is None else 0.0 - value
    return turned


def _tests(differences: Vector, windows: Windows) -> list[Row]:
    """Test [pairs, windows] differences, NaN where undefined: plain rows together, ten times as quick, others one by one."""
    sizes = np.sort(np.abs(differences), axis=1)
    plain = np.isfinite(differences).all(axis=1) & (sizes[:, :1] > 0).all(axis=1) & (np.diff(sizes, axis=1) > 0).all(axis=1)
    plain &= 0 < windows.blocks.max(initial=-1) + 1 <= _MOST_BLOCKS
    together = iter(_plain_tests(differences[plain], windows) if plain.any() else ())
    tested: dict[bytes, Row] = {}  # figures that never differ come again and again
    rows = []
    for row, is_plain in zip(differences, plain.tolist(), strict=True):
        if is_plain:
            rows.append(next(together))
        else:
            key = (row + 0.0).tobytes()
            if key not in tested:
                tested[key] = _test(row, windows)
            rows.append(tested[key])
    return rows


def _plain_tests(differences: Vector, windows: Windows) -> list[Row]:
    """Test rows in which every window has a figure and no two sizes are equal or zero, with the library's distributions."""
    n = differences.shape[1]
    null = windows.null or stats.rank_null(np.arange(1.0, n + 1.0))
    p = np.array([null.two_sided(float(statistic)) for statistic in null.support])
    order = np.argsort(np.abs(differences), axis=1)
    positive = (np.take_along_axis(differences, order, axis=1) > 0) @ np.arange(1, n + 1)
    top = n * (n + 1) // 2
    one, other = np.triu_indices(n)
    walsh = np.sort((differences[:, one] + differences[:, other]) / 2.0, axis=1)
    example = stats.hodges_lehmann(differences[0], null=null)
    cut = int(np.searchsorted(null.at_or_below, 0.025 + 1e-12, side="right")) - 1
    ends = (walsh[:, cut], walsh[:, -1 - cut]) if cut >= 0 else (np.full(len(walsh), np.nan),) * 2
    sums = np.stack([differences[:, windows.blocks == block].sum(axis=1) for block in range(windows.blocks.max() + 1)], axis=1)
    signs = np.array(list(product((1.0, -1.0), repeat=sums.shape[1])))
    reach = np.abs(sums.sum(axis=1)) - 1e-12 * np.abs(sums).sum(axis=1)
    flips = (np.abs(sums @ signs.T) >= reach[:, None]).mean(axis=1)
    effect = (2.0 * positive - top) / top
    columns = np.column_stack((p[positive], effect, np.median(walsh, axis=1), *ends, flips))
    rows = nullable(columns)
    smallest, confidence = rounded([float(p[-1]), example.confidence])
    blocks = sums.shape[1]
    return [
        [n, n, p_value, smallest, biserial, null.kind, None, value, low, high, confidence, example.reason, flip, blocks]
        for p_value, biserial, value, low, high, flip in rows
    ]


def _test(differences: Vector, windows: Windows) -> Row:
    """Test one row as it is."""
    indices = np.flatnonzero(np.isfinite(differences)).tolist()
    values = differences[indices]
    moving = [index for index in indices if differences[index] != 0]
    shared, shared_moving = windows.shared(indices), windows.shared(moving)
    # The simulated distribution is that of all windows; one for each choice of them would take too long.
    has_p, has_interval = not shared_moving or len(moving) == len(differences), not shared or len(indices) == len(differences)
    ranks = stats.signed_rank(values, null=windows.null if has_p and shared_moving else None)
    shift = stats.hodges_lehmann(values, null=windows.null if has_interval and shared else None)
    flips = stats.sign_flip(values, stats.blocks_of(windows.correlation[np.ix_(indices, indices)]) if shared else None)
    tested = (ranks.p, ranks.smallest_p) if has_p else (None, None)
    ends = (shift.low, shift.high, shift.confidence, shift.reason) if has_interval else (None, None, None, _NOT_HERE)
    reason = ranks.reason if has_p else _NOT_HERE
    numbers = (ranks.n, ranks.n_nonzero, *tested, ranks.rank_biserial)
    row: Row = rounded([*numbers, ranks.method, reason, shift.value, *ends, flips.p, flips.blocks])
    return row
