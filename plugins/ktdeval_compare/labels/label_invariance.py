"""Effect of labels on a result, from runs on one market under several alias maps and row orders.
Takes cards, and returns one JSON report.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal

import msgspec
import numpy as np

from ktdeval.cards import percent
from ktdeval.errors import CardError
from ktdeval.stats import (
    MeanEstimate,
    clopper_pearson_upper,
    estimate_mean,
    overlap_correlation,
)
from ktdeval_compare.forks.episode_distance import (
    FIGURES,
    Distances,
    EpisodeCourse,
    course_of,
    distances,
    parted_on,
)
from ktdeval_compare.pairs.compare import by_window
from ktdeval_compare.pairs.compared_cards import (
    Cell,
    EntrantCard,
    by_task,
    flag_notes,
    label,
    left_out_notes,
    paired_cells,
    recorded_ledger,
    spans,
)
from ktdeval_compare.pairs.shared_facts import (
    MARKET_FACETS,
    check_same,
    check_same_config,
    facets,
)
from ktdeval_compare.study_options import CommonOptions, LevelOptions

# Kinds of pairs of episodes in one window, by what differs between the two episodes.
LABELS = "labels"  #: the mask key only
AGAIN = "again"  #: nothing: one key was run twice
SEEDS = "seeds"  #: the seed only
BEYOND = "labels - again"  #: `LABELS` minus `AGAIN`

_FACETS = facets(
    "models",
    "agents",
    "call parameters",
    "ways of sending calls",
    "task versions",
    *MARKET_FACETS,
)
"""Facts that must be equal: everything except the mask key, and the windows and seeds, which are
paired.
"""

_THEN = "only the mask key may differ, otherwise the difference is not due to the labels"

# ---- the report


@dataclass(frozen=True)
class InvarianceOptions(LevelOptions, CommonOptions):
    """Settings for the analysis."""

    #: unit of the intervals. `episode`: each (window, seed) is one value, and the labels of each
    #: are drawn independently, so the interval describes other labels in these windows. `window`:
    #: each window is one value, the mean over its seeds, so the interval also describes other
    #: windows
    over: Literal["episode", "window"] = "episode"


@dataclass(frozen=True, slots=True)
class EpisodePlay:
    """An episode, with its mask key and its card."""

    card: EntrantCard
    cell: Cell
    key: str | None
    course: EpisodeCourse


@dataclass(frozen=True, slots=True)
class EpisodePair:
    """Two episodes of the same window, how they differ, and the distances between them. `cell` is
    the cell of the first episode.
    """

    between: str
    first: EpisodePlay
    second: EpisodePlay
    distances: Distances
    cell: Cell


@dataclass(frozen=True)
class KeyCard:
    """A card in the report, with its mask key."""

    task: str
    mask_key: str | None
    path: str
    labels: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class PairFigureRow:
    """Mean distance in one figure for one kind of pair, with its interval."""

    task: str
    between: str
    figure: str
    unit: str = "fraction"
    formula: str
    #: number of pairs for which the figure is defined; None for the difference between two kinds
    pairs: int | None
    cells: int
    windows: int
    over: str  #: unit over which the interval is computed
    value: float | None
    low: float | None
    high: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class NoiseRow:
    """Spread of total return due to one source of randomness."""

    task: str
    between: str
    metric: str = "total_return"
    unit: str = "fraction"
    sd: float  #: standard deviation of one episode's total return
    cells: int
    episodes: int
    #: at the report's significance level, the difference below which two episodes differ only by
    #: chance
    difference_of_one: float
    difference_of_means: float  #: the same threshold for means over all episodes


class PlayRow(msgspec.Struct, frozen=True):
    """One of the two episodes in a pair."""

    mask_key: str | None
    seed: int
    path: str


class PairRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pair of episodes with each of `FIGURES`. A figure is None if it is undefined."""

    task: str
    between: str
    window: str
    first: PlayRow
    second: PlayRow
    parted_on: str | None  #: fill day of the first step with different decisions
    decisions: float | None
    decisions_alike: float | None
    orders: float | None
    turnover: float | None
    nav: float | None
    total_return: float | None
    undefined: Mapping[str, str]  #: figure -> reason


@dataclass(frozen=True, kw_only=True)
class InvarianceReport:
    """Report of `ktdeval compare labels`."""

    alpha: float
    over: str
    cards: Sequence[KeyCard]
    figures: Sequence[PairFigureRow]  #: one row per task, kind of pair and figure
    noise: Sequence[NoiseRow]
    pairs: Sequence[PairRow]  #: all pairs on which the rows are based
    notes: Sequence[str]


def invariance(entrants: Sequence[EntrantCard], options: InvarianceOptions) -> InvarianceReport:
    """Compare the mask keys within each task.

    Raises CardError if the cards differ in more than the mask key, if all have the same key, if
    they can't be paired, or if they have no ledgers.
    """
    cards: list[KeyCard] = []
    figures: list[PairFigureRow] = []
    noise: list[NoiseRow] = []
    rows: list[PairRow] = []
    notes: list[str] = []

    for task, members in _checked_groups(entrants).items():
        cells = paired_cells(members, options.common)
        pairs = list(_episode_pairs(members, cells))
        for member in members:
            labels = list(member.card.labels)
            cards.append(KeyCard(task, member.card.aliases, str(member.path), labels))

        figures += _figure_rows(task, members[0], pairs, options)
        noise += _noise(task, pairs, options.alpha)
        rows += [_pair_row(task, pair) for pair in pairs]
        notes += _invariance_notes(members, cells, pairs, options)

    return InvarianceReport(
        alpha=options.alpha,
        over=options.over,
        cards=cards,
        figures=figures,
        noise=noise,
        pairs=rows,
        notes=list(dict.fromkeys(notes)),
    )


# ---- pairs


def _checked_groups(entrants: Sequence[EntrantCard]) -> dict[str, list[EntrantCard]]:
    """Return the cards by task, after checking that the cards of each task differ only in the mask
    key.
    """
    groups = by_task(entrants)
    for task, members in groups.items():
        check_same(members, _FACETS, _THEN)
        check_same_config(members, _THEN)
        keys = {member.card.aliases for member in members}
        if len(keys) < 2:
            more = f"every card of {task}" if len(members) > 1 else f"the one card of {task}"
            raise CardError(
                f"{members[0].path}: {more} is of mask key {keys.pop() or 'none'}; run the same"
                " again with another --out, which draws a new one"
            )

        _check_repeats(members)
        groups[task] = sorted(
            label(members), key=lambda member: (member.card.aliases, str(member.path))
        )

    return groups


def _check_repeats(members: Sequence[EntrantCard]) -> None:
    """Raise CardError if a repeated key has a run without model calls. Cached replies are equal
    even if the model is random.
    """
    counts = Counter(member.card.aliases for member in members)
    for member in members:
        key = member.card.aliases
        calls = member.card.provenance.calls
        if counts[key] > 1 and calls is not None and not calls.answered and calls.cached:
            nothing = "with replies from the cache, which does not show the model's randomness"
            raise CardError(
                f"{member.path}: repeats mask key {key} {nothing}; leave it out, or run it with"
                " --cache run"
            )


def _episode_pairs(members: Sequence[EntrantCard], cells: Sequence[Cell]) -> Iterator[EpisodePair]:
    """Yield all pairs of episodes in a window that differ only in the key, only in the seed, or in
    neither.
    """
    for window, plays in _plays(members, cells).items():
        for first, second in itertools.combinations(plays, 2):
            same_seed = first.cell == second.cell
            same_key = first.key == second.key
            if same_seed:
                between = AGAIN if same_key else LABELS
            elif same_key:
                between = SEEDS
            else:
                continue

            if first.course.days != second.course.days:
                raise CardError(
                    f"{second.card.path} and {first.card.path} have ledgers of other days in window"
                    f" {window}"
                )

            yield EpisodePair(
                between, first, second, distances(first.course, second.course), first.cell
            )


def _plays(members: Sequence[EntrantCard], cells: Sequence[Cell]) -> dict[str, list[EpisodePlay]]:
    """Return the episodes by window."""
    plays: dict[str, list[EpisodePlay]] = {}
    for member in members:
        episodes = member.episodes()
        for cell in cells:
            ledger = recorded_ledger(member, episodes[cell].id)
            if isinstance(ledger, str):
                raise CardError(
                    f"{member.path}: {ledger}; decisions are compared in the ledgers of the run"
                    " folder"
                )

            play = EpisodePlay(member, cell, member.card.aliases, course_of(ledger))
            plays.setdefault(cell[0], []).append(play)

    return plays


def _by_cell(
    pairs: Sequence[EpisodePair], between: str, value: Callable[[EpisodePair], float | str]
) -> dict[Cell, float]:
    """Return the mean over the pairs of each (window, seed). For pairs of seeds, return the mean
    over the pairs of each window.
    """
    values: dict[Cell, list[float]] = {}
    for pair in pairs:
        if pair.between != between:
            continue

        figure = value(pair)
        if isinstance(figure, str):
            continue

        cell = (pair.cell[0], -1) if between == SEEDS else pair.cell
        values.setdefault(cell, []).append(figure)

    return {cell: math.fsum(of_cell) / len(of_cell) for cell, of_cell in values.items()}


# ---- figures


def _figure_rows(
    task: str, entrant: EntrantCard, pairs: Sequence[EpisodePair], options: InvarianceOptions
) -> list[PairFigureRow]:
    """Return rows ordered by kind of pair, one for each kind that occurs and each figure."""
    rows = []
    for name, figure in FIGURES.items():
        for kind, cells in _means_by_kind(pairs, name).items():
            over = "window" if kind == SEEDS else options.over
            mean = _mean_with_interval(entrant, cells, over, options.alpha)
            low = mean.low
            high = mean.high
            reason = mean.reason
            if low is not None and high is not None and kind != BEYOND:
                # The figure has bounds, so its interval is clipped.
                low = max(low, 0.0)
                high = min(high, figure.most or high)
                if low == 0.0 and high == figure.most:
                    low = high = None
                    reason = f"the interval of {mean.n} values is the whole range"

            of_kind = [pair.distances[name] for pair in pairs if pair.between == kind]
            defined = sum(not isinstance(value, str) for value in of_kind)
            if not cells:
                values = [pair.distances[name] for pair in pairs]
                reason = "; ".join(
                    dict.fromkeys(value for value in values if isinstance(value, str))
                )

            rows.append(
                PairFigureRow(
                    task=task,
                    between=kind,
                    figure=name,
                    formula=figure.formula,
                    pairs=None if kind == BEYOND else defined,
                    cells=len(cells),
                    windows=len({window for window, _ in cells}),
                    over=over,
                    value=mean.value,
                    low=low,
                    high=high,
                    reason=reason,
                )
            )

    kinds = (LABELS, AGAIN, SEEDS, BEYOND)
    return sorted(rows, key=lambda row: kinds.index(row.between))


def _means_by_kind(pairs: Sequence[EpisodePair], name: str) -> dict[str, dict[Cell, float]]:
    """Return the means of a figure by kind of pair. If keys are repeated, also return the effect of
    labels in excess of chance.
    """
    by_kind: dict[str, dict[Cell, float]] = {}
    for kind in (LABELS, AGAIN, SEEDS):
        if any(pair.between == kind for pair in pairs):
            by_kind[kind] = _by_cell(pairs, kind, lambda pair: pair.distances[name])

    if AGAIN in by_kind:
        labels = by_kind[LABELS]
        again = by_kind[AGAIN]
        by_kind[BEYOND] = {
            cell: value - again[cell] for cell, value in labels.items() if cell in again
        }

    return by_kind


def _mean_with_interval(
    entrant: EntrantCard, cells: Mapping[Cell, float], over: str, alpha: float
) -> MeanEstimate:
    """Return the mean with its interval, either over the given values (`episode`) or over the
    window means (`window`). In the latter case, the interval is widened if windows share days.
    """
    if over == "episode":
        mean = estimate_mean(np.array(list(cells.values())), confidence=1.0 - alpha)
        reason = mean.reason
        if len(cells) == 1:
            reason = "one (window, seed) does not generalise to others"
    else:
        windows = by_window(cells)
        means = np.array([np.mean(values) for values in windows.values()])
        correlation = overlap_correlation(spans(entrant, windows))
        mean = estimate_mean(means, correlation, 1.0 - alpha)
        reason = mean.reason
        if len(windows) == 1:
            reason = "one window does not generalise to others"

    return replace(mean, reason=reason if mean.low is None else None)


def _noise(task: str, pairs: Sequence[EpisodePair], alpha: float) -> list[NoiseRow]:
    """Return the effect of each source of randomness on total return: the standard deviation for
    one episode, and the difference that can occur between two runs by chance.
    """
    rows = []
    z = NormalDist().inv_cdf(1.0 - alpha / 2.0) * math.sqrt(2.0)
    episodes = len({pair.cell for pair in pairs})
    for kind in (LABELS, AGAIN, SEEDS):
        cells = _by_cell(pairs, kind, _half_squared_difference)
        if not cells:
            continue

        sd = math.sqrt(math.fsum(cells.values()) / len(cells))
        rows.append(
            NoiseRow(
                task=task,
                between=kind,
                sd=sd,
                cells=len(cells),
                episodes=episodes,
                difference_of_one=z * sd,
                difference_of_means=z * sd / math.sqrt(episodes),
            )
        )

    return rows


def _half_squared_difference(pair: EpisodePair) -> float:
    """Return an unbiased estimate of the variance of total return, from two draws."""
    return (pair.first.course.total_return - pair.second.course.total_return) ** 2 / 2


def _pair_row(task: str, pair: EpisodePair) -> PairRow:
    figures: dict[str, float | None] = {}
    undefined: dict[str, str] = {}
    for name, value in pair.distances.items():
        if isinstance(value, str):
            figures[name] = None
            undefined[name] = value
        else:
            figures[name] = value

    return PairRow(
        task=task,
        between=pair.between,
        window=pair.cell[0],
        first=_play_row(pair.first),
        second=_play_row(pair.second),
        parted_on=parted_on(pair.first.course, pair.second.course),
        undefined=undefined,
        **figures,
    )


def _play_row(play: EpisodePlay) -> PlayRow:
    return PlayRow(play.key, play.cell[1], str(play.card.path))


# ---- notes


def _invariance_notes(
    members: Sequence[EntrantCard],
    cells: Sequence[Cell],
    pairs: Sequence[EpisodePair],
    options: InvarianceOptions,
) -> Iterator[str]:
    """Yield the caveats that apply to the report's tables."""
    kinds = {pair.between for pair in pairs}
    yield from left_out_notes(members)
    yield from _label_notes(members[0], cells, pairs, options.alpha)

    if members[0].card.request_settings is not None and AGAIN not in kinds:
        twice = "run one again with its --mask-key, --cache run and another --out, and give both"
        yield (
            "no mask key was run twice, so differences between keys include the model's own "
            f"randomness; {twice}"
        )

    if AGAIN in kinds and _may_send_seed(members[0].card.request_settings):
        yield (
            "the seeds of calls also differ between keys: if a provider obeys them, a key run "
            "twice shows no randomness, so the effect of labels is an upper bound; --model-args "
            "omit=seed sends no seeds"
        )

    if SEEDS in kinds:
        yield (
            "seeds: another seed changes both the call seed and the alias map, so this figure "
            "includes the effect of labels"
        )

    if options.over == "episode":
        yield (
            "intervals vary over (window, seed): they describe other labels in these windows; other"
            " windows with --over window"
        )

    undefined: Counter[str] = Counter()
    for pair in pairs:
        undefined.update(value for value in pair.distances.values() if isinstance(value, str))
    for reason, count in undefined.items():
        yield f"{count} pair(s) left out of a figure: {reason}"

    for member in members:
        yield from _run_notes(member, AGAIN in kinds)

    yield from flag_notes(members)


def _may_send_seed(settings: Mapping[str, Any] | None) -> bool:
    """Return whether seeds may have been sent to a card's model, according to its request
    settings.
    """
    if settings is None:
        return False
    for name in ("not_sent", "omit"):
        if "seed" in (settings.get(name) or ()):
            return False
    return settings.get("takes_seed") is not False


def _label_notes(
    entrant: EntrantCard, cells: Sequence[Cell], pairs: Sequence[EpisodePair], alpha: float
) -> Iterator[str]:
    """Yield notes on the labels of this mask. If no decision changed, also yield a bound on the
    effect of labels.
    """
    name = entrant.card.task.name
    if entrant.card.task.mask == "bright":
        yield f"{name}: bright hides nothing, so draws differ only in the order of rows"

    if not any(pair.between == LABELS and pair.distances["decisions"] for pair in pairs):
        most = clopper_pearson_upper(0, len(cells), 1.0 - alpha)
        yield (
            f"{name}: no step was decided otherwise under other labels; with so many (window, seed)"
            f" that is shown, at {percent(1 - alpha, 'g')}, for all but {percent(most, '.3g')} of them"
        )


def _run_notes(member: EntrantCard, has_repeats: bool) -> Iterator[str]:
    """Yield notes on steps and replies that did not come from the model."""
    coverage = member.card.coverage
    calls = member.card.provenance.calls
    undecided = coverage.steps - coverage.steps_decided
    if undecided:
        yield (
            f"{member.path}: {undecided} step(s) were held by the engine, not decided by the "
            "model; they count as steps without orders"
        )

    if has_repeats and calls is not None and calls.cached:
        yield (
            f"{member.path}: {calls.cached} of its replies came from the cache, so their "
            "agreement does not measure randomness"
        )
