"""`ktdeval compare cohorts`: style differences between cohorts of models, and each model's figures
over seeds (KTD-Fin §5.3, Tables 8 and 9).
"""

from __future__ import annotations

import itertools
import math
import os.path
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ktdeval import stats
from ktdeval.cards import System, TradingEpisode, episode_excess, system_labels
from ktdeval.errors import CardError, UsageError
from ktdeval_compare.cohort_words import BASELINE, REASONS, BaselineColumn
from ktdeval_compare.masks.declined_trades import Declines, declines
from ktdeval_compare.masks.mask_effects import check_counterparts
from ktdeval_compare.pairs.compared_cards import (
    EntrantCard,
    Values,
    check_windows,
    flag_notes,
    load_entrants,
    training_seed,
)
from ktdeval_compare.pairs.shared_facts import (
    check_same,
    check_same_task,
)
from ktdeval_compare.papers.cohort_definitions import (
    Definitions,
    check_items,
    cohort_definitions,
    is_of,
    item_path,
)
from ktdeval_compare.papers.paper_tables import benchmark_held
from ktdeval_compare.study_options import CohortOptions
from ktdeval_compare.style_exposures import (
    CohortDifference,
    CohortSummary,
    Exposures,
    FactorRow,
    SignAgreement,
    Tables,
    compare_exposures,
    mean_exposures,
)


@dataclass(frozen=True, slots=True)
class ModelRun:
    """Seeds that identify one run of a model."""

    training_seed: str
    seed: int


@dataclass(frozen=True, slots=True)
class CardEpisode:
    """An episode and the card that contains it."""

    entrant: EntrantCard
    episode: TradingEpisode


@dataclass(frozen=True)
class CohortMember:
    """A model used by one agent, with its cards. `cohort` is empty if the model belongs to no
    cohort.
    """

    label: str
    cohort: str
    entrants: list[EntrantCard]
    #: run -> window -> episode; empty until `of_task` has selected a task
    runs: dict[ModelRun, dict[str, CardEpisode]] = field(default_factory=dict)

    def of_task(self, task: str) -> CohortMember:
        """Return this member with only the cards of one task, and with their episodes.

        Raises CardError if two cards have the same window and seed.
        """
        entrants = [entrant for entrant in self.entrants if entrant.card.task.name == task]
        selected = CohortMember(self.label, self.cohort, entrants)
        for entrant in entrants:
            for episode in entrant.card.episodes:
                selected._add(entrant, episode)
        return selected

    def _add(self, entrant: EntrantCard, episode: TradingEpisode) -> None:
        windows = self.runs.setdefault(ModelRun(training_seed(entrant), episode.seed), {})
        other = windows.get(episode.window)
        if other is not None:
            where = f"window {episode.window} seed {episode.seed} of {self.label}"
            raise CardError(
                f"{entrant.path} and {other.entrant.path} both have {where}; give one of them"
            )

        windows[episode.window] = CardEpisode(entrant, episode)

    def episodes(self, windows: Sequence[str]) -> list[TradingEpisode]:
        """Return all runs' episodes in the given windows."""
        episodes = []
        for run in self.runs.values():
            episodes += [run[window].episode for window in windows]
        return episodes

    def figures(self, metric: str, windows: Sequence[str]) -> list[list[float | None]]:
        """Return each run's figures in the given windows; None if a figure is undefined."""
        by_run = []
        for run in self.runs.values():
            by_run.append([_episode_figure(run[window], metric) for window in windows])
        return by_run


def _episode_figure(recorded: CardEpisode, metric: str) -> float | None:
    if metric == "excess":
        return episode_excess(recorded.entrant.card, recorded.episode)

    line = recorded.episode.metrics.get(metric)
    return None if line is None else line.value


# ---- the report


@dataclass(frozen=True)
class CohortCard:
    """A card that a report is based on."""

    model: str
    path: str


@dataclass(frozen=True, kw_only=True)
class SeedFigure:
    """A model's figure: the median over episodes, and the mean over seeds."""

    value: float | None  #: median over episodes, as on cards and in all other tables
    mean: float | None  #: mean over seeds of the median over each seed's windows
    low: float | None  #: lower end of the t interval of `mean`, clipped at the bounds of the figure
    high: float | None
    n: int  #: number of seeds with a figure
    reason: str | None  #: why the interval is missing


@dataclass(frozen=True, kw_only=True)
class HeldFigure:
    """The benchmark's figure if it is bought and held over the window."""

    value: float | None
    low: None = None
    high: None = None


@dataclass(frozen=True)
class BaselineRow:
    """Return and risk of a model or the benchmark."""

    model: str
    cohort: str
    seeds: int | None  #: None for the benchmark
    figures: Mapping[str, SeedFigure | HeldFigure]


@dataclass(frozen=True, kw_only=True)
class CohortReport:
    """Report of `ktdeval compare cohorts`."""

    alpha: float
    task: str
    cards: Sequence[CohortCard]
    cohorts: Sequence[CohortSummary]
    exposures: Sequence[FactorRow]
    agreement: SignAgreement
    differences: Sequence[CohortDifference]
    baseline: Sequence[BaselineRow]
    declines: Sequence[Declines]
    notes: Sequence[str]


def cohort(paths: Sequence[Path], options: CohortOptions) -> CohortReport:
    """Compare cohorts of models, using their cards and run folders.

    Raises UsageError if an item in a cohort matches nothing, or if a model belongs to two cohorts.
    Raises CardError if cards can't be combined.
    """
    definitions: Definitions = cohort_definitions(options.cohorts) or {"all": ["*"]}
    everyone = _cohort_members(paths, definitions)
    declined: list[Declines] = []
    for member in everyone:
        declined += declines(member.entrants, member.label, member.cohort, options.alpha)

    task = options.task or _common_task(everyone, list(definitions))
    selected = [member.of_task(task) for member in everyone]
    members = [member for member in selected if member.runs]
    _check_task(definitions, members, task)
    cards = _all_cards(members)
    check_same_task(cards, "they can't be combined")
    check_same(cards, _formulas(), "score all runs with one version")
    windows, notes = _shared_windows(members, options.common)

    notes += _other_tasks(everyone, task)
    notes += _undefined_figures(members, windows)
    tables, lacking = _exposure_tables(members, windows, list(definitions))
    notes += lacking
    compared = compare_exposures(tables, options.alpha)
    notes += _note_unmeasured(tables, compared.exposures)

    with_rows = {member.label for member in members}
    for member in everyone:
        if member.label not in with_rows:
            notes.append(f"{member.label}: no finished card of {task}, so it has no row")

    notes += flag_notes(cards)
    return CohortReport(
        alpha=options.alpha,
        task=task,
        cards=[CohortCard(card.label, str(card.path)) for card in cards],
        cohorts=compared.cohorts,
        exposures=compared.exposures,
        agreement=compared.agreement,
        differences=compared.differences,
        baseline=_baseline(members, windows, 1.0 - options.alpha),
        declines=declined,
        notes=list(dict.fromkeys(notes)),
    )


def _formulas() -> dict[str, Callable[[EntrantCard], str | None]]:
    """Return the facts that must be equal on all cards: the formula for each figure in the table of
    returns and risk.
    """

    def formula_of(metric: str) -> Callable[[EntrantCard], str | None]:
        def formula(entrant: EntrantCard) -> str | None:
            line = entrant.card.metrics.get(metric)
            return None if line is None else line.formula

        return formula

    return {f"formulas of {column.metric}": formula_of(column.metric) for column in BASELINE}


def _other_tasks(everyone: Sequence[CohortMember], task: str) -> list[str]:
    tasks = {entrant.card.task.name for entrant in _all_cards(everyone)}
    others = sorted(tasks - {task})
    if not others:
        return []
    return [f"figures are of {task}; choose another task with --task: {', '.join(others)}"]


def _undefined_figures(members: Sequence[CohortMember], windows: Sequence[str]) -> list[str]:
    """Return notes on figures that are undefined in some episodes."""
    notes = []
    for member in members:
        for column in BASELINE:
            by_run = member.figures(column.metric, windows)
            planned = sum(len(values) for values in by_run)
            undefined = sum(values.count(None) for values in by_run)
            if undefined:
                notes.append(
                    f"{column.metric} of {member.label} is defined in {planned - undefined} of"
                    f" {planned} (seed, window): medians are over these"
                )
    return notes


def _exposure_tables(
    members: Sequence[CohortMember], windows: Sequence[str], cohorts: Sequence[str]
) -> tuple[Tables, list[str]]:
    """Return the exposures of each cohort's models, and notes on models without exposures."""
    tables: dict[str, dict[str, Exposures]] = {name: {} for name in cohorts}
    notes = []
    for member in members:
        if not member.cohort:
            notes.append(f"{member.label}: is not in any cohort")
            continue

        table = mean_exposures(member.episodes(windows))
        if any(value is not None for value in table.values()):
            tables[member.cohort][member.label] = table
        else:
            notes.append(f"{member.label}: {REASONS['no_exposures']}")

    return tables, notes


def _note_unmeasured(tables: Tables, rows: Sequence[FactorRow]) -> list[str]:
    """Return notes on style factors that are measured for some models but not in every cohort."""
    given: set[str] = set()
    for table in tables.values():
        for exposures in table.values():
            given.update(exposures)

    missing = given - {row.factor for row in rows}
    return [
        f"no row of {factor}: a cohort has no holding with a value of it"
        for factor in sorted(missing)
    ]


# ---- members, their task and windows


def _cohort_members(paths: Sequence[Path], definitions: Definitions) -> list[CohortMember]:
    """Return the models that occur on any card, by label. The result does not depend on the order
    of the cards.
    """
    entrants = load_entrants(_all_paths(paths, definitions))
    entrants.sort(key=lambda entrant: str(entrant.path))
    check_items(definitions, entrants)

    repeats: dict[System, list[EntrantCard]] = {}
    for entrant in entrants:
        repeats.setdefault(entrant.system.without_seed(), []).append(entrant)

    check_counterparts(repeats, "declines would mix that with the mask")
    names = system_labels(repeats)
    members = []

    for system, cards in repeats.items():
        name = names[system]
        cohorts = [of for of, items in definitions.items() if _has_any(items, cards)]
        if len(cohorts) > 1:
            raise UsageError(
                f"--cohort: {name} is in {' and '.join(cohorts)}; put each model into one cohort"
            )

        labelled = [replace(card, label=name) for card in cards]
        members.append(CohortMember(name, "".join(cohorts), labelled))

    return sorted(members, key=lambda member: member.label)


def _all_paths(paths: Sequence[Path], definitions: Definitions) -> list[Path]:
    """Return the files that cohort items name, then the paths that are given separately, without
    duplicates.
    """
    files: list[Path] = []
    for items in definitions.values():
        for item in items:
            file = item_path(item)
            if file is not None:
                files.append(file)

    listed = {os.path.realpath(file) for file in files}
    files += [path for path in paths if os.path.realpath(path) not in listed]
    if not files:
        raise UsageError("give run folders or cards, and --cohort NAME=SYSTEMS for each cohort")

    return files


def _all_cards(members: Sequence[CohortMember]) -> list[EntrantCard]:
    """Return all cards, grouped by model."""
    cards: list[EntrantCard] = []
    for member in members:
        cards += member.entrants
    return cards


def _has_any(items: Sequence[str], cards: Sequence[EntrantCard]) -> bool:
    """Return whether any item in a cohort matches any of the cards."""
    return any(is_of(card, item) for item, card in itertools.product(items, cards))


def _check_task(definitions: Definitions, members: Sequence[CohortMember], task: str) -> None:
    """Raise CardError if an item in a cohort only has cards of other tasks."""
    entrants = _all_cards(members)
    for name, items in definitions.items():
        for item in items:
            if not _has_any([item], entrants):
                raise CardError(
                    f"cohort {name}: {item} has no finished card of task {task}; run it, or name"
                    " another task"
                )


def _common_task(members: Sequence[CohortMember], names: Sequence[str]) -> str:
    """Return the task for which every cohort has a card. If several tasks qualify, prefer the one
    with the most models, then a blinded task.

    Raises CardError if the cohorts share no task.
    """
    tasks_of: dict[str, set[str]] = {name: set() for name in names}
    for member in members:
        if member.cohort in tasks_of:
            tasks_of[member.cohort].update(card.card.task.name for card in member.entrants)

    shared = set.intersection(*tasks_of.values())
    if not shared:
        listed = "; ".join(
            f"{name}: {', '.join(sorted(tasks))}" for name, tasks in tasks_of.items()
        )
        raise CardError(
            f"no task has cards of every cohort ({listed}); run one task with all of them"
        )

    models: Counter[tuple[str, str]] = Counter()
    for member in members:
        if member.cohort:
            models.update({(card.card.task.name, card.card.task.mask) for card in member.entrants})

    candidates = [entry for entry in models if entry[0] in shared]
    best = max(candidates, key=lambda entry: (models[entry], entry[1] == "blinded", entry))
    return best[0]


def _shared_windows(members: Sequence[CohortMember], common: bool) -> tuple[list[str], list[str]]:
    """Return the windows that every seed of every model has finished and that can be combined in
    one figure. Also return notes on the other windows.

    Raises CardError if a seed has not finished a window that another seed has finished (unless
    `common` is set), if no window is shared, or if a window name has two date ranges.
    """
    check_windows(_all_cards(members))
    by_run: list[set[str]] = []
    for member in members:
        by_run += [set(run) for run in member.runs.values()]

    shared = sorted(set.intersection(*by_run))
    finished_by_any = set.union(*by_run)
    required = set(shared) if common and shared else finished_by_any
    for member in members:
        _check_finished(member, required, len(shared))

    first = next(iter(members[0].runs.values()))
    covered = {}
    for window in shared:
        episode = first[window].episode
        covered[window] = (episode.first_day, episode.last_day)

    lacking = sorted(finished_by_any - set(shared))
    excluded = dict.fromkeys(lacking, "not every seed of every model has finished it")
    excluded |= stats.left_out_windows(covered, members[0].entrants[0].card.snapshot.days_a_year)

    windows = [window for window in shared if window not in excluded]
    notes = [f"window {name} is left out: {why}" for name, why in excluded.items()]
    return windows, notes


def _check_finished(member: CohortMember, required: set[str], shared: int) -> None:
    """Raise CardError if a seed of a model has not finished a required window."""
    for run, windows in member.runs.items():
        missing = sorted(required - set(windows))
        if not missing:
            continue

        way = ""
        if shared:
            way = f", or use the {shared} that all have with --common"

        raise CardError(
            f"{member.entrants[0].path}: {member.label} has not finished window {missing[0]} seed"
            f" {run.seed}, which another card has; run it{way}"
        )


# ---- return and risk


def _baseline(
    members: Sequence[CohortMember], windows: Sequence[str], level: float
) -> list[BaselineRow]:
    """Return the rows for the models and the benchmark, ordered by total return."""
    rows = []
    for member in members:
        figures: dict[str, SeedFigure | HeldFigure] = {}
        for column in BASELINE:
            by_run = member.figures(column.metric, windows)
            figures[column.metric] = _over_episodes(by_run, level, column)

        rows.append(BaselineRow(member.label, member.cohort, len(member.runs), figures))

    run = next(iter(members[0].runs.values()))
    cards = {window: run[window].entrant.card for window in windows}
    held: dict[str, SeedFigure | HeldFigure] = {}
    for column in BASELINE:
        held[column.metric] = HeldFigure(value=benchmark_held(cards, column.metric))

    if held["total_return"].value is not None:
        name = members[0].entrants[0].card.snapshot.benchmark_name
        rows.append(BaselineRow(f"{name} buy-and-hold", "", None, held))

    return sorted(rows, key=_by_return)


def _by_return(row: BaselineRow) -> tuple[float, str]:
    """Return a sort key that puts the highest return first and models without a return last."""
    value = row.figures["total_return"].value
    return (math.inf if value is None else -value), row.model


def _over_episodes(
    by_run: Sequence[Sequence[float | None]], level: float, column: BaselineColumn
) -> SeedFigure:
    """Return the median over episodes, and the mean over seeds of each seed's median over
    windows.
    """
    known: list[Values] = []
    for values in by_run:
        defined = [value for value in values if value is not None]
        if defined:
            known.append(np.array(defined, dtype=np.float64))

    medians = np.array([np.median(values) for values in known], dtype=np.float64)
    mean = stats.estimate_mean(medians, confidence=level)
    low = _clip_end(mean.low, column)
    reason = None
    if not known:
        reason = REASONS["no_figure"]
    elif len(known) == 1:
        reason = REASONS["one_seed"]
    elif low is None:
        reason = mean.reason

    return SeedFigure(
        value=float(np.median(np.concatenate(known))) if known else None,
        mean=mean.value,
        low=low,
        high=_clip_end(mean.high, column),
        n=len(known),
        reason=reason,
    )


def _clip_end(end: float | None, column: BaselineColumn) -> float | None:
    if end is None:
        return None
    return float(np.clip(end, column.least, column.greatest))
