"""Comparison itself: cards in, one JSON report out. No screen, no clock, chance from a seed."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval import stats
from ktdeval.errors import CardError
from ktdeval.fields import option
from ktdeval.stats import RankNull, never_in
from ktdeval_compare.entrants import (
    MARKET_FACETS,
    Cell,
    DailyTable,
    Entrant,
    Row,
    Values,
    by_task,
    check_same,
    chosen_metrics,
    daily_table,
    facets,
    flag_notes,
    label,
    left_out_notes,
    notes_of_groups,
    on_side,
    paired_cells,
    spans,
)
from ktdeval_compare.sharpe_difference import sharpe_difference

NULL_DRAWS = 100_000  #: Samples of the signed-rank distribution where windows share days: a p of 0.05 is then known to 0.0005

TASK_FACETS = facets("masks", "modes", "task versions", "task configs (hash)", *MARKET_FACETS)


@dataclass(frozen=True)
class Options:
    """Settings of a comparison."""

    metrics: tuple[str, ...] = ()  #: names; `total_return` when empty
    #: `window`: a pair is a window, its difference the median over seeds. `episode`: a pair is a (window, seed)
    unit: Literal["window", "episode"] = "window"
    alpha: float = option(0.05, help="level of the verdicts, and of the intervals (1 - alpha)", minimum=0.0001, maximum=0.5)
    common: bool = False  #: compare on the cells that all cards have, where they differ
    against_first: bool = False  #: only the first card against each other one
    seed: int = option(0, help="of every simulation and bootstrap", minimum=0)
    draws: int = option(1000, help="bootstrap samples of the daily tests", minimum=1)
    #: windows that lie on this side of the cutoff of every card that records one; None: all
    side: Literal["before", "after"] | None = None

    def pairs_of(self, cards: int) -> Iterator[tuple[int, int]]:
        """Indices of the cards, as many as there are, that are tested against each other."""
        pairs = itertools.combinations(range(cards), 2)
        return (pair for pair in pairs if pair[0] == 0 or not self.against_first)


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

    def correlation(self, windows: Sequence[str]) -> Values:
        """Correlation of the windows by the days they share."""
        return stats.overlap_correlation(spans(self.entrants[0], windows))

    def null(self, windows: Sequence[str], seed: int) -> RankNull | None:
        """Distribution of the signed-rank statistic over windows that share days; None when they share none."""
        key, correlation = tuple(windows), self.correlation(windows)
        if correlation.sum() == len(windows):
            return None
        if key not in self.nulls:
            self.nulls[key] = stats.correlated_null(correlation, NULL_DRAWS, seed)
        return self.nulls[key]


def compare(entrants: Sequence[Entrant], options: Options) -> Row:
    """Test every pair of cards of each task on each metric.

    Returns `tests` (one row for each task, metric and pair), `daily` (one for each task and pair), `best` (one for each task),
    `notes`. Raises CardError: the cards can't be compared, or can't be paired; says why; UsageError: a metric is on no card.
    """
    groups = make_groups(entrants, options)
    tests = [_test(group, metric, pair, options)
             for group in groups for metric in group.metrics for pair in options.pairs_of(len(group.entrants))]  # fmt: skip
    daily, best = [], []
    for group in groups:
        table = daily_table(group.entrants, group.cells)
        daily += [_daily_test(group, pair, table, options) for pair in options.pairs_of(len(group.entrants))]
        best.append(_best_set(group, table, options))
    for rows in (tests, daily):
        correct(rows, options.alpha)
    cards = [{"task": group.task, "label": entrant.label, "path": str(entrant.path), "labels": list(entrant.card.labels)}
             for group in groups for entrant in group.entrants]  # fmt: skip
    head = {"alpha": options.alpha, "unit": options.unit, "seed": options.seed, "cards": cards}
    return {**head, "tests": tests, "daily": daily, "best": best, "notes": list(dict.fromkeys(_notes(groups, tests, options)))}


def make_groups(entrants: Sequence[Entrant], options: Options) -> list[Group]:
    """Cards by task, each group checked to be comparable and paired."""
    if len(entrants) < 2:
        raise CardError("a comparison needs at least two cards")
    groups = by_task(entrants)
    for task, members in groups.items():
        if len(members) < 2:
            other = next((entrant for entrant in entrants if entrant.card.task.name != task), members[0])
            then = "compare takes cards of one task; `ktdeval effects` compares masks and modes"
            check_same([other, members[0]], facets("masks", "modes"), then)
            raise CardError(f"{members[0].path}: no other card is of task {task}; compare takes cards of one task")
    for task, members in groups.items():
        check_same(members, TASK_FACETS, "they can't be compared")
        groups[task] = label(members)
    paired = [Group(task, members, paired_cells(members, options.common), chosen_metrics(members, options.metrics))
            for task, members in groups.items()]  # fmt: skip
    for group in paired if options.side else ():
        group.cells = on_side(group.entrants, group.cells, str(options.side))
    return paired


def _test(group: Group, metric: str, pair: tuple[int, int], options: Options) -> Row:
    """One metric of one pair of cards."""
    first, second = (group.entrants[index] for index in pair)
    differences, left_out = paired_differences(first, second, metric, group.cells)
    by_unit: dict[tuple[str, int | None], list[float]] = {}
    for (window, seed), value in differences.items():
        by_unit.setdefault((window, None if options.unit == "window" else seed), []).append(value)
    sample = stats.levelled(np.array([np.median(values) for values in by_unit.values()], dtype=np.float64))
    windows = [window for window, _ in by_unit]
    null, moving, blocks = _dependence(group, windows, sample, options)
    ranks = stats.signed_rank(sample, null=moving)
    plain = ranks if moving is None else stats.signed_rank(sample)
    definition = first.card.metrics[metric]
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
            {"window": window, **({} if seed is None else {"seed": seed}), "value": value}
            for (window, seed), value in zip(by_unit, sample.tolist(), strict=True)
        ],
        "shift": asdict(stats.hodges_lehmann(sample, 1.0 - options.alpha, null)),
        "rank_biserial": ranks.rank_biserial,
        "wilcoxon": {**asdict(ranks), "p_if_windows_were_apart": plain.p},
        "sign_flip": asdict(stats.sign_flip(sample, blocks, seed=options.seed)),
        "p": ranks.p,
        "reason": ranks.reason,
    }


def paired_differences(
    first: Entrant, second: Entrant, metric: str, cells: Sequence[Cell]
) -> tuple[dict[Cell, float], Counter[str]]:
    """First less second by cell; cells where either is undefined are counted by reason. None where a card never reaches the figure
    in some cell: a test of the other cells would leave out those where it does worst.
    """
    left, right = first.episodes(), second.episodes()
    differences: dict[Cell, float] = {}
    left_out: Counter[str] = Counter()
    reached = [cell for cell in cells if math.inf not in (left[cell].metrics[metric].ordered, right[cell].metrics[metric].ordered)]
    if len(reached) < len(cells):
        return {}, Counter({f"{metric}: {never_in(len(cells) - len(reached), len(cells))}, of one card or both": len(cells)})
    for cell in cells:
        one, other = left[cell].metrics[metric], right[cell].metrics[metric]
        if one.value is None or other.value is None:
            entries = ((first.label, one), (second.label, other))
            left_out["; ".join(f"{name}: {entry.reason}" for name, entry in entries if entry.value is None)] += 1
        else:
            differences[cell] = one.value - other.value
    return differences, left_out


def _dependence(
    group: Group, windows: Sequence[str], sample: Values, options: Options
) -> tuple[RankNull | None, RankNull | None, npt.NDArray[np.int64] | None]:
    """Dependence of windows: null for all pairs, null for those that differ, and blocks for sign flips."""
    if not windows:
        return None, None, None
    blocks = stats.blocks_of(group.correlation(windows))
    if options.unit == "episode":
        # The paper's rule takes every (window, seed) as independent; sign flips keep the seeds of a window together.
        return None, None, blocks
    differing = [window for window, value in zip(windows, sample, strict=True) if value != 0]
    moving = group.null(differing, options.seed) if differing else None
    return group.null(windows, options.seed), moving, blocks


def correct(rows: Sequence[Row], alpha: float) -> None:
    """Add corrected p-values over all rows, and the verdict: the better card, or `tied`."""
    p_values = [row["p"] for row in rows]
    for row, by_holm, by_rate in zip(rows, stats.holm(p_values), stats.benjamini_hochberg(p_values), strict=True):
        row |= {"p_holm": by_holm, "p_benjamini_hochberg": by_rate, "verdict": _verdict(row, by_holm, alpha)}


def _verdict(row: Row, p: float | None, alpha: float) -> str | None:
    if p is None:
        return None
    effect = row["rank_biserial"] if "rank_biserial" in row else row["value"]
    if p > alpha or not effect:
        return "tied"
    winner = row["first"] if (effect > 0) != (row["better"] == "lower") else row["second"]
    return f"{winner} {'higher' if row['better'] == 'neither' else 'better'}"


def _daily_test(group: Group, pair: tuple[int, int], table: DailyTable | str, options: Options) -> Row:
    """Sharpe ratios of two cards, from their daily returns."""
    first, second = (group.entrants[index].label for index in pair)
    row: Row = {"task": group.task, "test": "sharpe_difference", "better": "higher", "first": first, "second": second}
    if isinstance(table, str):
        return {**row, "value": None, "low": None, "high": None, "p": None, "n": 0, "reason": table}
    left, right = table.returns[:, pair[0]], table.returns[:, pair[1]]
    smaller_spread = min(float(left.std()), float(right.std()))
    if stats.has_no_variance(smaller_spread, table.resolution):
        reason = "returns have no variance"
        return {**row, "value": None, "low": None, "high": None, "p": None, "n": len(left), "reason": reason}
    test = sharpe_difference(
        left,
        right,
        draws=options.draws,
        seed=options.seed,
        confidence=1.0 - options.alpha,
        days_a_year=table.days_a_year,
    )
    return {**row, **asdict(test), "p_hac": sharpe_difference(left, right).p}


def _best_set(group: Group, table: DailyTable | str, options: Options) -> Row:
    """Cards that do not differ significantly from the one with the highest mean daily return."""
    row: Row = {"task": group.task, "test": "model_confidence_set", "of": "mean daily return"}
    if isinstance(table, str):
        return {**row, "tied_with_best": None, "p": None, "n": 0, "reason": table}
    ties = stats.tie_groups(table.returns, options.alpha, options.draws, options.seed)
    if ties.p is None or ties.group is None:
        return {**row, "tied_with_best": None, "p": None, "n": ties.days, "reason": ties.reason}
    names = [entrant.label for entrant in group.entrants]
    tied = [name for name, group in zip(names, ties.group, strict=True) if group == 1]
    return {**row, "tied_with_best": tied, "p": dict(zip(names, ties.p, strict=True)), "n": ties.days, "block": ties.block}


def _notes(groups: Sequence[Group], tests: Sequence[Row], options: Options) -> Iterator[str]:
    """What a reader must know before trusting the table."""
    yield from notes_of_groups({group.task: _group_notes(group, tests, options) for group in groups})
    yield from _reach_notes(tests, options.alpha)
    if options.unit == "episode":
        yield (
            "a pair is one (window, seed), as in KTD-Fin: the seeds of a window share its market, so p and interval claim more "
            "than there is wherever agents differ by strategy and not by chance; sign flips keep a window's seeds together"
        )


def _group_notes(group: Group, tests: Sequence[Row], options: Options) -> Iterator[str]:
    yield from left_out_notes(group.entrants)
    if options.unit == "window":
        yield from _overlap_notes(group)
    yield from flag_notes(group.entrants, are_sides_mixed=options.side is None)
    if options.side:
        yield f"windows {options.side} the cutoff of every card that records one: {', '.join(group.windows())}"
    for name, what in (("agent", "agents (scaffolds)"), ("call", "call parameters")):
        if any(getattr(entrant.card, name) != getattr(group.entrants[0].card, name) for entrant in group.entrants):
            yield f"the cards have different {what}; the comparison is of model and {what} together"
    for row in (row for row in tests if row["task"] == group.task):
        for reason, count in row["left_out"].items():
            yield f"{row['metric']}: {count} (window, seed) left out: {reason}"
        if options.unit == "window" and row["seeds"] == 1 and row["n"]:
            yield "one seed: the chance of decoding is not averaged out, and not seen"


def _overlap_notes(group: Group) -> Iterator[str]:
    windows = group.windows()
    correlation = group.correlation(windows)
    shared = [f"{windows[j]}-{windows[i]}" for i in range(len(windows)) for j in range(i) if correlation[i, j] > 0]
    if shared:
        yield (
            f"windows share days ({', '.join(shared)}): "
            f"{len(windows)} overlapping windows = {stats.effective_count(correlation):.1f} effective windows; "
            f"p and interval allow for it, sign flips move them in {len(set(stats.blocks_of(correlation)))} blocks"
        )


def smallest_p(pairs: int) -> float:
    """Smallest two-sided p that an exact signed-rank or sign-flip test can give: all pairs of one sign, `2 / 2**pairs`."""
    return min(1.0, 2.0 ** (1 - pairs))


def pairs_needed(alpha: float, comparisons: int = 1) -> int:
    """Return the fewest pairs whose smallest p reaches `alpha / comparisons` (Bonferroni; the first step of Holm)."""
    pairs = 1
    while smallest_p(pairs) > alpha / comparisons:
        pairs += 1
    return pairs


def _reach_notes(tests: Sequence[Row], alpha: float) -> Iterator[str]:
    """Whether this many pairs could have shown anything at all, before and after correction."""
    family = sum(row["p"] is not None for row in tests)
    for row in sorted(tests, key=lambda row: row["n"]):
        best, differing = row["wilcoxon"]["smallest_p"], row["wilcoxon"]["n_nonzero"]
        if best is None or differing == 0:
            continue
        pairs = f"{row['metric']}: {differing} differing pair(s)"
        if best > alpha:
            yield (
                f"{pairs} can't reach p {alpha:g} whatever the figures: the smallest p is {best:.4g}; "
                f"at least {pairs_needed(alpha)} are needed"
            )
        elif best * family > alpha:
            yield (
                f"{pairs} can't pass Holm's correction over {family} tests: the smallest p is {best:.4g}, "
                f"times {family} is {min(1.0, best * family):.4g}; test less at once, or run {pairs_needed(alpha, family)} windows"
            )
