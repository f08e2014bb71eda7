"""Compute a comparison. Takes cards, and returns one JSON report. Prints nothing and does not
depend on the time; random draws are seeded.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, NoReturn

import numpy as np
import numpy.typing as npt

from ktdeval import stats
from ktdeval.errors import CardError
from ktdeval.harness import without_transport
from ktdeval.stats import RankNull, never_in
from ktdeval.values import option
from ktdeval_compare.pairs.compared_cards import (
    Cell,
    DailyTable,
    EntrantCard,
    Values,
    by_task,
    chosen_metrics,
    daily_table,
    flag_notes,
    label,
    left_out_notes,
    notes_of_groups,
    on_side,
    paired_cells,
    spans,
)
from ktdeval_compare.pairs.report_types import (
    BestSet,
    ComparedCard,
    CompareReport,
    DailyTest,
    PairDifference,
    PairTest,
    Wilcoxon,
    describe_cards,
)
from ktdeval_compare.pairs.shared_facts import (
    check_same,
    check_same_task,
    facets,
)
from ktdeval_compare.pairs.sharpe_difference import sharpe_difference
from ktdeval_compare.pairs.signed_ranks import RankTest, pattern_of, shared_null
from ktdeval_compare.pairs.verdicts import with_verdicts
from ktdeval_compare.study_options import MetricTestOptions

NEEDS_TWO = (
    "a comparison needs at least two cards; name the run folder or card of another agent, too"
)


@dataclass(frozen=True)
class CompareOptions(MetricTestOptions):
    """Settings for a comparison."""

    #: `window`: a pair belongs to a window, and its difference is the median over seeds. `episode`:
    #: a pair belongs to a (window, seed)
    unit: Literal["window", "episode"] = "window"
    against_first: bool = False  #: compare only the first card with each of the others
    draws: int = option(1000, help="bootstrap samples of the daily tests", minimum=1)
    #: only windows that lie on this side of the cutoff of every card that records one; None: all
    #: windows
    side: Literal["before", "after"] | None = None
    pool: bool = False  #: return one estimate over the windows of all markets, instead of tests

    def pairs_of(self, cards: int) -> Iterator[tuple[int, int]]:
        """Return the pairs of cards to test, as pairs of indices in `range(cards)`."""
        for first, second in itertools.combinations(range(cards), 2):
            if first == 0 or not self.against_first:
                yield first, second


@dataclass(frozen=True)
class TaskGroup:
    """Cards of one task that can be compared with each other."""

    task: str
    entrants: list[EntrantCard]
    cells: list[Cell]
    metrics: list[str]

    def windows(self) -> list[str]:
        """Return the window names, in the order of the first card."""
        return list(dict.fromkeys(window for window, _ in self.cells))

    def correlation(self, windows: Sequence[str]) -> Values:
        """Return the correlation between windows that is due to shared days."""
        return stats.overlap_correlation(spans(self.entrants[0], windows))

    def null(self, windows: Sequence[str], seed: int) -> RankNull | None:
        """Return the null distribution of the signed-rank statistic for windows that share days, or
        None if they share no days.
        """
        return shared_null(pattern_of(self.correlation(windows)), seed)


# ---- the report


def compare(entrants: Sequence[EntrantCard], options: CompareOptions) -> CompareReport:
    """For each task, test every pair of cards on each metric.

    Raises CardError if the cards can't be compared or paired. Raises UsageError if no card has a
    metric.
    """
    groups = make_groups(entrants, options)
    cards: list[ComparedCard] = []
    tests: list[PairTest] = []
    daily: list[DailyTest] = []
    best: list[BestSet] = []

    for group in groups:
        pairs = list(options.pairs_of(len(group.entrants)))
        for metric in group.metrics:
            tests += [_test_pair(group, metric, pair, options) for pair in pairs]

        table = daily_table(group.entrants, group.cells)
        daily += [_daily_test(group, pair, table, options) for pair in pairs]
        best.append(_best_set(group, table, options))

        cards += describe_cards(group.task, group.entrants)

    tests = with_verdicts(tests, options.alpha, effect="rank_biserial")
    return CompareReport(
        alpha=options.alpha,
        unit=options.unit,
        seed=options.seed,
        cards=cards,
        tests=tests,
        daily=with_verdicts(daily, options.alpha),
        best=best,
        notes=list(dict.fromkeys(_comparison_notes(groups, tests, options))),
    )


# ---- groups of cards


def make_groups(entrants: Sequence[EntrantCard], options: CompareOptions) -> list[TaskGroup]:
    """Return the cards by task, after checking that the cards of each task can be compared and
    paired.
    """
    if len(entrants) < 2:
        raise CardError(NEEDS_TWO)

    by_name = by_task(entrants)
    for members in by_name.values():
        if len(members) < 2:
            _refuse_alone(members[0], entrants)

    return [
        paired_group(task, members, options.metrics, options.common, options.side)
        for task, members in by_name.items()
    ]


def paired_group(
    task: str, members: Sequence[EntrantCard], wanted: Sequence[str], common: bool, side: str | None
) -> TaskGroup:
    """Return the cards of one task as a group, after checking that they can be compared and paired.
    `wanted` lists the metrics.
    """
    check_same_task(members, "they can't be compared")
    labelled = label(members)
    cells = paired_cells(labelled, common)
    metrics = chosen_metrics(labelled, wanted)
    if side:
        cells = on_side(labelled, cells, side)

    return TaskGroup(task, labelled, cells, metrics)


def _refuse_alone(alone: EntrantCard, entrants: Sequence[EntrantCard]) -> NoReturn:
    """Raise CardError for a task with only one card. If another card has a different mask or mode,
    the message names it.
    """
    task = alone.card.task.name
    others = [entrant for entrant in entrants if entrant.card.task.name != task]
    shared = [name for name, members in by_task(entrants).items() if len(members) > 1]
    of_one = "compare takes cards of one task"
    if shared:
        of_one += f"; --tasks {','.join(shared)} leaves the others out"

    then = f"{of_one}; `ktdeval compare masks` compares masks and modes"
    check_same([*others[:1], alone], facets("masks", "modes"), then)
    raise CardError(f"{alone.path}: no other card is of task {task}; {of_one}")


# ---- tests of windows


def _test_pair(
    group: TaskGroup, metric: str, pair: tuple[int, int], options: CompareOptions
) -> PairTest:
    """Test one metric of one pair of cards."""
    first = group.entrants[pair[0]]
    second = group.entrants[pair[1]]
    differences, excluded = pair_figures([first, second], metric, group.cells)
    pairs = _pair_differences(differences, options.unit)
    values = np.array([each.value for each in pairs], dtype=np.float64)
    sample = stats.level_sizes(values)

    windows = [each.window for each in pairs]
    dependence = _dependence(group, windows, sample, options)
    ranks = stats.signed_rank(sample, null=dependence.differing)
    p_if_apart = ranks.p
    if dependence.differing is not None:
        p_if_apart = stats.signed_rank(sample).p

    definition = first.card.metrics[metric]
    return PairTest(
        task=group.task,
        metric=metric,
        unit=definition.unit,
        better=definition.better,
        first=first.label,
        second=second.label,
        n=ranks.n,
        windows=len(set(windows)),
        seeds=len({seed for _, seed in differences}),
        left_out=dict(excluded),
        differences=[
            replace(each, value=value) for each, value in zip(pairs, sample.tolist(), strict=True)
        ],
        shift=stats.hodges_lehmann(sample, 1.0 - options.alpha, dependence.every),
        rank_biserial=ranks.rank_biserial,
        wilcoxon=Wilcoxon(**asdict(ranks), p_if_windows_were_apart=p_if_apart),
        sign_flip=stats.sign_flip(sample, dependence.blocks, seed=options.seed),
        p=ranks.p,
        reason=ranks.reason,
    )


def _pair_differences(differences: Mapping[Cell, float], unit: str) -> list[PairDifference]:
    """Return the differences by window (medians over seeds), or by window and seed, depending on
    `unit`.
    """
    if unit == "episode":
        return [
            PairDifference(window=window, seed=seed, value=value)
            for (window, seed), value in differences.items()
        ]

    medians = window_medians(differences)
    return [PairDifference(window=window, value=value) for window, value in medians.items()]


def by_window(values: Mapping[Cell, float]) -> dict[str, list[float]]:
    """Return the values of all seeds by window."""
    groups: dict[str, list[float]] = {}
    for (window, _), value in values.items():
        groups.setdefault(window, []).append(value)

    return groups


def window_medians(values: Mapping[Cell, float]) -> dict[str, float]:
    """Return each window's median over its seeds."""
    return {window: float(np.median(own)) for window, own in by_window(values).items()}


def pair_figures(
    compared: Sequence[EntrantCard], metric: str, cells: Sequence[Cell]
) -> tuple[dict[Cell, float], Counter[str]]:
    """Return the figures by cell. With two cards, the figures are those of the first card minus
    those of the second. Also return the number of cells in which a figure is undefined, by reason.

    If in any cell a card never reaches the value that the metric measures, no figures are returned:
    a test over the other cells would omit the cells in which the card does worst.
    """
    is_alone = len(compared) == 1
    episodes = [entrant.episodes() for entrant in compared]
    figures: dict[Cell, float] = {}
    excluded: Counter[str] = Counter()
    never = 0

    for cell in cells:
        values: list[float] = []
        reasons: list[str] = []
        lines = [own[cell].metrics[metric] for own in episodes]
        never += any(line.ordered == math.inf for line in lines)
        for entrant, line in zip(compared, lines, strict=True):
            if line.value is not None:
                values.append(line.value)
            else:
                reasons.append(str(line.reason) if is_alone else f"{entrant.label}: {line.reason}")

        if reasons:
            excluded["; ".join(reasons)] += 1
        else:
            figures[cell] = values[0] - math.fsum(values[1:])

    if never:
        whose = "" if is_alone else ", of one card or both"
        return {}, Counter({f"{metric}: {never_in(never, len(cells))}{whose}": len(cells)})

    return figures, excluded


@dataclass(frozen=True, slots=True)
class _WindowDependence:
    """Dependence between the differences in different windows. A field is None if windows are
    independent.
    """

    every: RankNull | None = None  #: null distribution for all pairs
    differing: RankNull | None = None  #: null distribution for the pairs with a nonzero difference
    blocks: npt.NDArray[np.int64] | None = None  #: blocks of dependent windows, for sign flips


def _dependence(
    group: TaskGroup, windows: Sequence[str], sample: Values, options: CompareOptions
) -> _WindowDependence:
    if not windows:
        return _WindowDependence()

    blocks = stats.blocks_of(group.correlation(windows))
    if options.unit == "episode":
        # The paper treats every (window, seed) as independent. Sign flips still keep the seeds of a
        # window together.
        return _WindowDependence(blocks=blocks)

    differing = [window for window, value in zip(windows, sample, strict=True) if value != 0]
    null_of_differing = group.null(differing, options.seed) if differing else None
    return _WindowDependence(group.null(windows, options.seed), null_of_differing, blocks)


# ---- tests of days


def _daily_test(
    group: TaskGroup, pair: tuple[int, int], table: DailyTable | str, options: CompareOptions
) -> DailyTest:
    """Test the difference between two cards' Sharpe ratios, using their daily returns."""
    row = DailyTest(
        task=group.task,
        first=group.entrants[pair[0]].label,
        second=group.entrants[pair[1]].label,
        n=0,
    )
    if isinstance(table, str):
        return replace(row, reason=table)

    left = table.returns[:, pair[0]]
    right = table.returns[:, pair[1]]
    smaller_spread = min(float(left.std()), float(right.std()))
    if stats.has_no_variance(smaller_spread, table.resolution):
        return replace(row, n=len(left), reason="returns have no variance")

    test = sharpe_difference(
        left,
        right,
        draws=options.draws,
        seed=options.seed,
        confidence=1.0 - options.alpha,
        days_a_year=table.days_a_year,
    )
    return replace(row, **asdict(test), p_hac=sharpe_difference(left, right).p)


def _best_set(group: TaskGroup, table: DailyTable | str, options: CompareOptions) -> BestSet:
    """Find the cards whose mean daily return does not differ significantly from the highest one."""
    if isinstance(table, str):
        return BestSet(task=group.task, n=0, reason=table)

    ties = stats.tie_groups(table.returns, options.alpha, options.draws, options.seed)
    if ties.p is None or ties.group is None:
        return BestSet(task=group.task, n=ties.days, reason=ties.reason)

    names = [entrant.label for entrant in group.entrants]
    return BestSet(
        task=group.task,
        tied_with_best=[name for name, rank in zip(names, ties.group, strict=True) if rank == 1],
        p=dict(zip(names, ties.p, strict=True)),
        n=ties.days,
        block=ties.block,
    )


# ---- notes


def _comparison_notes(
    groups: Sequence[TaskGroup], tests: Sequence[PairTest], options: CompareOptions
) -> Iterator[str]:
    """Yield the caveats that apply to the report's tables."""
    of_groups = {}
    for group in groups:
        own = [test for test in tests if test.task == group.task]
        of_groups[group.task] = list(_group_notes(group, own, options))

    yield from notes_of_groups(of_groups)
    yield from _reach_notes(tests, options.alpha)
    if options.unit == "episode":
        yield (
            "a pair is one (window, seed), as in KTD-Fin: the seeds of a window share its "
            "market, so p and interval are too optimistic if agents differ by strategy; sign "
            "flips keep a window's seeds together"
        )


def _group_notes(
    group: TaskGroup, tests: Sequence[PairTest], options: CompareOptions
) -> Iterator[str]:
    yield from left_out_notes(group.entrants)
    if options.unit == "window":
        yield from _overlap_notes(group)

    yield from flag_notes(group.entrants, are_sides_mixed=options.side is None)
    if options.side:
        yield (
            f"windows {options.side} the cutoff of every card that records one:"
            f" {', '.join(group.windows())}"
        )

    yield from mixed_notes(group.entrants)
    for test in tests:
        for reason, count in test.left_out.items():
            yield f"{test.metric}: {count} (window, seed) left out: {reason}"

        if options.unit == "window" and test.seeds == 1 and test.n:
            yield "one seed: the randomness of decoding is neither averaged out nor measured"


def mixed_notes(entrants: Sequence[EntrantCard]) -> Iterator[str]:
    """Yield a line for each setting, apart from the model, that differs between the cards."""
    cards = [entrant.card for entrant in entrants]
    if any(card.agent != cards[0].agent for card in cards):
        yield _together("agents (scaffolds)")
    calls = [without_transport(card.call) for card in cards]
    if any(call != calls[0] for call in calls):
        yield _together("call parameters")


def _together(what: str) -> str:
    return f"the cards have different {what}; the comparison mixes the effects of model and {what}"


def _overlap_notes(group: TaskGroup) -> Iterator[str]:
    windows = group.windows()
    correlation = group.correlation(windows)
    shared = []
    for i, window in enumerate(windows):
        for j in range(i):
            if correlation[i, j] > 0:
                shared.append(f"{windows[j]}-{window}")

    if shared:
        effective = stats.effective_count(correlation)
        blocks = len(set(stats.blocks_of(correlation)))
        yield (
            f"windows share days ({', '.join(shared)}): {len(windows)} overlapping windows = "
            f"{effective:.1f} effective windows; p and interval account for it, sign flips move "
            f"them in {blocks} blocks"
        )


def _reach_notes(tests: Sequence[PairTest], alpha: float) -> Iterator[str]:
    """Yield a line for each test that has too few pairs to be significant, either before or after
    correction.
    """
    family = sum(test.p is not None for test in tests)
    for test in sorted(tests, key=lambda test: test.n):
        best = test.wilcoxon.smallest_p
        differing = test.wilcoxon.n_nonzero
        if best is None or differing == 0:
            continue

        pairs = f"{test.metric}: {differing} differing pair(s)"
        if best > alpha:
            yield (
                f"{pairs} can't reach p {alpha:g}, whatever the figures: the smallest p is "
                f"{best:.4g}; at least {RankTest(alpha).fewest} that share no days are needed"
            )
        elif best * family > alpha:
            yield (
                f"{pairs} can't pass Holm's correction over {family} tests: the smallest p is "
                f"{best:.4g}, times {family} is {min(1.0, best * family):.4g}; run fewer tests, "
                f"or run {RankTest(alpha / family).fewest} windows that share no days"
            )
