"""Comparison itself: cards in, one JSON report out. No screen, no clock, chance from a seed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ktdeval.errors import CardError
from ktdeval.jsonio import JsonValue
from ktdeval.stats import (
    RankNull,
    benjamini_hochberg,
    blocks_of,
    correlated_null,
    effective_count,
    hodges_lehmann,
    holm,
    overlap_correlation,
    sign_flip,
    signed_rank,
    tie_groups,
)
from ktdeval_compare.daily import daily_table
from ktdeval_compare.entrants import (
    EPISODE_FACETS,
    Cell,
    Entrant,
    check_same,
    chosen_metrics,
    flag_notes,
    label,
    paired_cells,
    spans,
)
from ktdeval_compare.power import pairs_needed
from ktdeval_compare.sharpe_difference import sharpe_difference

Row = dict[str, JsonValue]

NULL_DRAWS = 100_000
"""Samples of the signed-rank distribution where windows share days: a p of 0.05 is then known to 0.0005."""

_TASK_FACETS: Mapping[str, Callable[[Entrant], Any]] = {
    "masks": lambda entrant: entrant.card.task.mask,
    "modes": lambda entrant: entrant.card.task.mode,
    "task versions": lambda entrant: entrant.card.task.version,
    "task configs (hash)": lambda entrant: entrant.card.task.hash,
}


@dataclass(frozen=True)
class Options:
    """Settings of a comparison."""

    metrics: tuple[str, ...] = ()  #: names; `total_return` when empty
    #: `window`: a pair is a window, its difference the median over seeds. `episode`: a pair is a (window, seed)
    unit: Literal["window", "episode"] = "window"
    alpha: float = 0.05  #: level of the verdicts, and of the intervals (1 - alpha)
    common: bool = False  #: compare on the cells that all cards have, where they differ
    against_first: bool = False  #: only the first card against each other one
    seed: int = 0  #: of every simulation and bootstrap
    draws: int = 1000  #: bootstrap samples of the daily tests

    def pairs_of(self, entrants: Sequence[Entrant]) -> Iterator[tuple[int, int]]:
        """Places of the cards that are tested against each other."""
        if self.against_first:
            return ((0, other) for other in range(1, len(entrants)))
        return itertools.combinations(range(len(entrants)), 2)


@dataclass
class Group:
    """Cards of one task, ready to be compared."""

    task: str
    entrants: list[Entrant]
    cells: list[Cell]
    metrics: list[str]
    nulls: dict[tuple[str, ...], RankNull] = field(default_factory=dict)

    def windows(self) -> list[str]:
        """Names of the windows, in the order of the first card."""
        return list(dict.fromkeys(window for window, _ in self.cells))

    def correlation(self, windows: Sequence[str]) -> npt.NDArray[np.float64]:
        """Correlation of the windows by the days they share."""
        return overlap_correlation(spans(self.entrants[0], windows))

    def null(self, windows: Sequence[str], seed: int) -> RankNull | None:
        """Distribution of the signed-rank statistic over windows that share days; None when they share none."""
        correlation = self.correlation(windows)
        if correlation.sum() == len(windows):
            return None
        key = tuple(windows)
        if key not in self.nulls:
            self.nulls[key] = correlated_null(correlation, NULL_DRAWS, seed)
        return self.nulls[key]


def compare(entrants: Sequence[Entrant], options: Options) -> Row:
    """Test every pair of cards of each task on each metric.

    Returns `tests` (one row for each task, metric and pair), `daily` (one for each task and pair), `best` (one for each task),
    `notes`. Raises CardError: the cards can't be compared, or can't be paired; says why; UsageError: a metric is on no card.
    """
    groups = make_groups(entrants, options)
    tests = [_test(group, metric, pair, options)
             for group in groups for metric in group.metrics for pair in options.pairs_of(group.entrants)]  # fmt: skip
    _correct(tests, options.alpha)
    daily, best = [], []
    for group in groups:
        table = daily_table(group.entrants, group.cells)
        daily += [_daily_test(group, pair, table, options) for pair in options.pairs_of(group.entrants)]
        best.append(_best_set(group, table, options))
    _correct(daily, options.alpha)
    return {
        "alpha": options.alpha,
        "unit": options.unit,
        "seed": options.seed,
        "cards": [
            {"task": group.task, "label": entrant.label, "path": str(entrant.path), "labels": list(entrant.card.labels)}
            for group in groups
            for entrant in group.entrants
        ],
        "tests": tests,
        "daily": daily,
        "best": best,
        "notes": list(dict.fromkeys(_notes(groups, tests, options))),
    }


def make_groups(entrants: Sequence[Entrant], options: Options) -> list[Group]:
    """Cards by task, each group checked to be comparable and paired."""
    if len(entrants) < 2:
        raise CardError("a comparison needs at least two cards")
    by_task: dict[str, list[Entrant]] = {}
    for entrant in entrants:
        by_task.setdefault(entrant.card.task.name, []).append(entrant)
    for task, members in by_task.items():
        if len(members) < 2:
            other = next((entrant for entrant in entrants if entrant.card.task.name != task), members[0])
            check_same([other, members[0]], {"masks": _TASK_FACETS["masks"], "modes": _TASK_FACETS["modes"]},
                       "compare takes cards of one task; `ktdeval effects` sets masks and modes beside each other")  # fmt: skip
            raise CardError(f"{members[0].path}: no other card is of task {task}; compare takes cards of one task")
    groups = []
    for task, members in by_task.items():
        check_same(members, {**_TASK_FACETS, **EPISODE_FACETS}, "they can't be compared")
        named = label(members)
        groups.append(Group(task, named, paired_cells(named, options.common), chosen_metrics(named, options.metrics)))
    return groups


def _test(group: Group, metric: str, pair: tuple[int, int], options: Options) -> Row:
    """One metric of one pair of cards."""
    first, second = (group.entrants[place] for place in pair)
    definition = first.card.metrics[metric]
    differences, left_out = _differences(first, second, metric, group.cells)
    units, values = _by_window(differences) if options.unit == "window" else (list(differences), list(differences.values()))
    sample = np.array(values, dtype=np.float64)
    windows = [unit if isinstance(unit, str) else unit[0] for unit in units]
    null, moving, blocks = _dependence(group, windows, sample, options)
    ranks = signed_rank(sample, null=moving)
    plain = ranks if moving is None else signed_rank(sample)
    flips = sign_flip(sample, blocks, seed=options.seed)
    shift = hodges_lehmann(sample, 1.0 - options.alpha, null)
    return {
        "task": group.task,
        "metric": metric,
        "unit": definition.unit,
        "better": definition.better,
        "first": first.label,
        "second": second.label,
        "n": ranks.n,
        "windows": len(set(windows)),
        "seeds": len({seed for _, seed in differences}),
        "left_out": dict(left_out),
        "differences": [
            {"window": window, **({} if isinstance(unit, str) else {"seed": unit[1]}), "value": value}
            for window, unit, value in zip(windows, units, values, strict=True)
        ],
        "shift": asdict(shift),
        "rank_biserial": ranks.rank_biserial,
        "wilcoxon": {**asdict(ranks), "p_if_windows_were_apart": plain.p},
        "sign_flip": asdict(flips),
        "p": ranks.p,
        "reason": ranks.reason,
    }


def _differences(first: Entrant, second: Entrant, metric: str, cells: Sequence[Cell]) -> tuple[dict[Cell, float], Counter[str]]:
    """First less second by cell; cells where either is undefined are counted by reason."""
    left, right = first.episodes(), second.episodes()
    differences: dict[Cell, float] = {}
    left_out: Counter[str] = Counter()
    for cell in cells:
        entries = [(entrant.label, episodes[cell].metrics[metric]) for entrant, episodes in ((first, left), (second, right))]
        (_, one), (_, other) = entries
        if one.value is None or other.value is None:
            left_out["; ".join(f"{name}: {entry.reason}" for name, entry in entries if entry.value is None)] += 1
        else:
            differences[cell] = one.value - other.value
    return differences, left_out


def _by_window(differences: Mapping[Cell, float]) -> tuple[list[Cell | str], list[float]]:
    """Median over seeds for each window."""
    values: dict[str, list[float]] = {}
    for (window, _), value in differences.items():
        values.setdefault(window, []).append(value)
    return list(values), [float(np.median(of_window)) for of_window in values.values()]


def _dependence(
    group: Group, windows: Sequence[str], sample: npt.NDArray[np.float64], options: Options
) -> tuple[RankNull | None, RankNull | None, npt.NDArray[np.int64] | None]:
    """Dependence of windows: null for all pairs, null for those that differ, and blocks for sign flips."""
    if not windows:
        return None, None, None
    blocks = blocks_of(group.correlation(windows))
    if options.unit == "episode":
        # The paper's rule takes every (window, seed) as independent; sign flips keep the seeds of a window together.
        return None, None, blocks
    differing = [window for window, value in zip(windows, sample, strict=True) if value != 0]
    moving = group.null(differing, options.seed) if differing else None
    return group.null(windows, options.seed), moving, blocks


def _correct(rows: Sequence[Row], alpha: float) -> None:
    """Add corrected p-values over all rows, and the verdict: the better card, or `tied`."""
    p_values = [row["p"] for row in rows]
    for row, by_holm, by_rate in zip(rows, holm(p_values), benjamini_hochberg(p_values), strict=True):
        row |= {"p_holm": by_holm, "p_benjamini_hochberg": by_rate, "verdict": _verdict(row, by_holm, alpha)}


def _verdict(row: Row, p: float | None, alpha: float) -> str | None:
    if p is None:
        return None
    effect = row["rank_biserial"] if "rank_biserial" in row else row["value"]
    if p > alpha or not effect:
        return "tied"
    winner = row["first"] if (effect > 0) != (row["better"] == "lower") else row["second"]
    return f"{winner} {'higher' if row['better'] == 'neither' else 'better'}"


def _daily_test(group: Group, pair: tuple[int, int], table: npt.NDArray[np.float64] | str, options: Options) -> Row:
    """Return the Sharpe ratios of two cards, from their daily returns."""
    first, second = (group.entrants[place].label for place in pair)
    row: Row = {"task": group.task, "test": "sharpe_difference", "better": "higher", "first": first, "second": second}
    if isinstance(table, str):
        return {**row, "value": None, "low": None, "high": None, "p": None, "n": 0, "reason": table}
    left, right = table[:, pair[0]], table[:, pair[1]]
    found = sharpe_difference(left, right, draws=options.draws, seed=options.seed, confidence=1.0 - options.alpha)
    return {**row, **asdict(found), "p_hac": sharpe_difference(left, right).p}


def _best_set(group: Group, table: npt.NDArray[np.float64] | str, options: Options) -> Row:
    """Return the cards that can't be told from the one with the highest mean daily return."""
    names = [entrant.label for entrant in group.entrants]
    row: Row = {"task": group.task, "test": "model_confidence_set", "of": "mean daily return"}
    if isinstance(table, str):
        return {**row, "tied_with_best": None, "p": None, "n": 0, "reason": table}
    found = tie_groups(table, options.alpha, options.draws, options.seed)
    if found.p is None or found.group is None:
        return {**row, "tied_with_best": None, "p": None, "n": found.days, "reason": found.reason}
    return {
        **row,
        "tied_with_best": [name for name, group in zip(names, found.group, strict=True) if group == 1],
        "p": dict(zip(names, found.p, strict=True)),
        "n": found.days,
        "block": found.block,
    }


def _notes(groups: Sequence[Group], tests: Sequence[Row], options: Options) -> Iterator[str]:
    """Yield what a reader must know before trusting the table."""
    for group in groups:
        yield from _overlap_notes(group, options)
        yield from _card_notes(group)
    for row in tests:
        for reason, count in row["left_out"].items():
            yield f"{row['metric']}: {count} pair(s) left out: {reason}"
        if options.unit == "window" and row["seeds"] == 1 and row["n"]:
            yield "one seed: the chance of decoding is not averaged out, and not seen"
    yield from _reach_notes(tests, options.alpha)
    if options.unit == "episode":
        yield (
            "a pair is one (window, seed), as in KTD-Fin: the seeds of a window share its market, so p and interval claim more "
            "than there is wherever agents differ by strategy and not by chance; sign flips keep a window's seeds together"
        )


def _reach_notes(tests: Sequence[Row], alpha: float) -> Iterator[str]:
    """Return whether this many pairs could have shown anything at all, before and after correction."""
    family = sum(row["p"] is not None for row in tests)
    for row in sorted(tests, key=lambda row: row["n"]):
        best = row["wilcoxon"]["smallest_p"]
        if best is None or row["wilcoxon"]["n_nonzero"] == 0:
            continue
        pairs = f"{row['wilcoxon']['n_nonzero']} differing pair(s)"
        if best > alpha:
            yield (
                f"{row['metric']}: {pairs} can't reach p {alpha:g} whatever the figures: the smallest p is {best:.4g}; "
                f"at least {pairs_needed(alpha)} are needed"
            )
        elif best * family > alpha:
            yield (
                f"{row['metric']}: {pairs} can't pass Holm's correction over {family} tests: the smallest p is {best:.4g}, "
                f"times {family} is {min(1.0, best * family):.4g}; test less at once, or run {pairs_needed(alpha, family)} windows"
            )


def _overlap_notes(group: Group, options: Options) -> Iterator[str]:
    windows = group.windows()
    correlation = group.correlation(windows)
    shared = [f"{windows[j]}-{windows[i]}" for i in range(len(windows)) for j in range(i) if correlation[i, j] > 0]
    if not shared or options.unit == "episode":
        return
    yield (
        f"windows share days ({', '.join(shared)}): "
        f"{len(windows)} overlapping windows = {effective_count(correlation):.1f} effective windows; "
        f"p and interval allow for it, sign flips move them in {len(set(blocks_of(correlation)))} blocks"
    )


def _card_notes(group: Group) -> Iterator[str]:
    yield from flag_notes(group.entrants)
    first = group.entrants[0]
    for name, what in (("agent", "agents (scaffolds)"), ("call", "call parameters")):
        if any(getattr(entrant.card, name) != getattr(first.card, name) for entrant in group.entrants):
            yield f"{group.task}: the cards have different {what}; the comparison is of model and {what} together"
