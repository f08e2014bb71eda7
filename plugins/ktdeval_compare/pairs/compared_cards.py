"""Load and label the compared cards, load their ledgers, and reject cards that can't be
compared.
"""

from __future__ import annotations

import fnmatch
import os.path
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ktdeval.cards import (
    SEEN,
    SPANS,
    ScoringCard,
    System,
    TradingCard,
    TradingEpisode,
    card_files,
    is_seed,
    label_word,
    load_card,
    load_evaluation,
    recorded_cutoff,
    system_labels,
    window_words,
)
from ktdeval.cli import warn
from ktdeval.errors import CardError, StoreError, UsageError
from ktdeval.runner import load_ledger, run_file, run_of
from ktdeval.stats import left_out_windows
from ktdeval.trading import Ledger
from ktdeval.values import encode_canonical, file_sha256, near_matches
from ktdeval_compare.pairs.shared_facts import check_same

Values = npt.NDArray[np.float64]

Cell = tuple[str, int]  #: window and seed, the key by which two cards' figures are paired


@dataclass(frozen=True)
class _ComparedCard:
    """A card in a comparison."""

    path: Path
    card: Any
    label: str = ""  #: name in tables; unique among the cards of one task

    @property
    def system(self) -> System:
        """The system that was evaluated."""
        return System.of(self.card)

    @property
    def run_folder(self) -> Path:
        """The run folder that contains the card; valid only if `is_in_run`."""
        return run_of(self.path)

    @property
    def is_in_run(self) -> bool:
        """Return whether the card is in a run folder."""
        return (self.run_folder / "manifest.json").is_file()


@dataclass(frozen=True)
class ScoringEntrant(_ComparedCard):
    """A card for a scoring task."""

    card: ScoringCard


@dataclass(frozen=True)
class EntrantCard(_ComparedCard):
    """A card for a trading task."""

    card: TradingCard

    def episodes(self) -> dict[Cell, TradingEpisode]:
        """Return the finished episodes by window and seed."""
        return {(episode.window, episode.seed): episode for episode in self.card.episodes}


_Entry = TypeVar("_Entry", bound=_ComparedCard)
_NO_CAUTION = (
    "mask not certified",
    "certificate claimed",
    "identifiable by its prices",
    SEEN,
    SPANS,
)
"""Labels that get no note here: those about the mask, which compared cards share, and those that
have a separate note.
"""


def load_entrants(paths: Sequence[Path], tasks: Sequence[str] = ()) -> list[EntrantCard]:
    """Load cards with `load_cards`, and return the trading cards. Scoring cards in run folders are
    ignored with a warning.

    Raises UsageError if all cards belong to scoring tasks, and the errors of `load_cards`.
    """
    entrants, scored = load_cards(paths, "trading", tasks)
    if not entrants:
        raise UsageError(f"{paths[0]}: has no card of a trading task")

    for note in scoring_notes(scored):
        warn(note)

    return entrants


def scoring_notes(scored: Sequence[ScoringEntrant]) -> Iterator[str]:
    """Yield a line for each scoring card that is omitted from a comparison of trading cards."""
    for card in scored:
        yield (
            f"{card.path}: is a scoring card and is left out of a comparison of trading cards; "
            "compare scoring cards separately"
        )


def load_cards(
    paths: Sequence[Path], kind: str | None = None, tasks: Sequence[str] = ()
) -> tuple[list[EntrantCard], list[ScoringEntrant]]:
    """Return the trading cards and the scoring cards from the given card files and run folders
    (`RUN/cards/*.json`), in order. If `kind` is given, card files that are given directly must be
    of this kind. `tasks`: names or globs of the tasks to load; if empty, all tasks.

    Raises UsageError if a folder has no cards, if a card is given twice, or if a path has no card
    of `tasks`. Raises CardError if a card is not valid.
    """
    entrants: list[EntrantCard] = []
    scored: list[ScoringEntrant] = []
    seen: set[str] = set()
    by_path: dict[Path, list[str]] = {path: [] for path in paths}

    for path in paths:
        for file in card_files([path]):
            real = os.path.realpath(file)
            if real in seen:
                raise UsageError(f"{file}: is given twice; a card can't be compared with itself")

            seen.add(real)
            # A run can have cards of either kind.
            card: object
            if kind and not path.is_dir():
                card = load_card(file, kind)
            else:
                card = load_evaluation(file)

            if not isinstance(card, TradingCard | ScoringCard):
                continue

            by_path[path].append(card.task.name)
            if tasks and not _is_of(card.task.name, tasks):
                continue

            if isinstance(card, TradingCard):
                entrants.append(EntrantCard(file, card))
            else:
                scored.append(ScoringEntrant(file, card))

    if tasks:
        _check_tasks(by_path, tasks)

    return entrants, scored


def _is_of(task: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(task, pattern) for pattern in patterns)


def _check_tasks(by_path: Mapping[Path, Sequence[str]], patterns: Sequence[str]) -> None:
    """Check that every pattern matches a card, and that every path has a card of a selected task.

    Raises UsageError otherwise; the message lists the tasks that all paths have in common.
    """
    common = set.intersection(*map(set, by_path.values()))
    in_common = f"common tasks: {', '.join(sorted(common))}"
    if not common:
        in_common = "they have no common task"

    known = {task for tasks in by_path.values() for task in tasks}
    for pattern in patterns:
        if not any(_is_of(task, [pattern]) for task in known):
            near = near_matches(pattern, known)
            raise UsageError(f"--tasks: no card is of a task {pattern!r}{near}; {in_common}")

    for path, tasks in by_path.items():
        if not any(_is_of(task, patterns) for task in tasks):
            raise UsageError(f"--tasks: {path} has no card of {', '.join(patterns)}; {in_common}")


def by_task(entrants: Sequence[_Entry]) -> dict[str, list[_Entry]]:
    """Return the cards grouped by task name."""
    groups: dict[str, list[_Entry]] = {}
    for entrant in entrants:
        groups.setdefault(entrant.card.task.name, []).append(entrant)
    return groups


def label(entrants: Sequence[_Entry]) -> list[_Entry]:
    """Label each card by what distinguishes its system from the other systems. If a system has
    several cards, their labels include their paths.
    """
    names = system_labels(entrant.system for entrant in entrants)
    counts = Counter(entrant.system for entrant in entrants)
    labelled = []

    for entrant in entrants:
        name = names[entrant.system]
        if counts[entrant.system] > 1:
            name += f" {entrant.path}"

        labelled.append(replace(entrant, label=name))

    return labelled


def by_system(entrants: Iterable[_Entry]) -> dict[System, list[_Entry]]:
    """Return the cards grouped by system, in order."""
    groups: dict[System, list[_Entry]] = {}
    for entrant in entrants:
        groups.setdefault(entrant.system, []).append(entrant)
    return groups


def training_seed(entrant: EntrantCard) -> str:
    """Return the seeds among the model's arguments, as canonical JSON. Cards that differ only in
    these seeds are replicates of one model.
    """
    return encode_canonical(
        {name: value for name, value in entrant.card.model.args.items() if is_seed(name)}
    )


def check_windows(entrants: Sequence[_ComparedCard]) -> None:
    """Raise CardError if a window name has different date ranges on different cards."""
    known: dict[str, tuple[_ComparedCard, str]] = {}
    for entrant in entrants:
        for window in entrant.card.windows:
            dates = f"{window.first} … {window.last}"
            before, other = known.setdefault(window.name, (entrant, dates))
            if other != dates:
                raise CardError(
                    f"{entrant.path} and {before.path}: window {window.name} is {dates} on one and"
                    f" {other} on the other"
                )


def paired_cells(entrants: Sequence[EntrantCard], common: bool) -> list[Cell]:
    """Return the (window, seed) cells that every card has finished, in the order of the first card.

    Windows that can't be combined with the others are omitted (see `left_out`). Raises CardError if
    no cell is shared, if a window name has two date ranges, or, unless `common` is set, if cards
    have finished different cells.
    """
    check_windows(entrants)
    finished = [set(entrant.episodes()) for entrant in entrants]
    shared = set.intersection(*finished)
    if not shared:
        raise CardError(
            f"{entrants[1].path} and {entrants[0].path} have no common window and seed, so "
            "nothing can be paired"
        )

    if not common:
        for entrant, own in zip(entrants, finished, strict=True):
            _check_finished(entrant, set.union(*finished) - own, len(shared))

    excluded = left_out(entrants)
    return [cell for cell in entrants[0].episodes() if cell in shared and cell[0] not in excluded]


def _check_finished(entrant: EntrantCard, missing: set[Cell], shared: int) -> None:
    """Raise CardError if a card has not finished some cells that another card has."""
    if not missing:
        return

    window, seed = min(missing)
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    raise CardError(
        f"{entrant.path}: unpaired: it has not finished window {window} seed {seed}{more}, which"
        f" another card has; run them, or compare on the {shared} that all have with --common"
    )


def left_out(entrants: Sequence[EntrantCard]) -> dict[str, str]:
    """Return the windows that all cards have finished but that can't be included in figures over
    windows, with the reason for each window.
    """
    windows = dict.fromkeys(window for window, _ in entrants[0].episodes())
    shared = list(windows)
    for entrant in entrants:
        finished = {window for window, _ in entrant.episodes()}
        shared = [window for window in shared if window in finished]

    covered = dict(zip(shared, spans(entrants[0], shared), strict=True))
    return left_out_windows(covered, entrants[0].card.snapshot.days_a_year)


def left_out_notes(entrants: Sequence[EntrantCard]) -> Iterator[str]:
    """Yield a line on the cells that not all cards have finished, and a line for each omitted
    window.
    """
    finished = [set(entrant.episodes()) for entrant in entrants]
    shared = len(set.intersection(*finished))
    lacking = len(set.union(*finished)) - shared
    if lacking:
        yield (
            f"figures are of the {shared} (window, seed) that all have finished; {lacking} are"
            " left out"
        )
    for window, reason in left_out(entrants).items():
        yield f"window {window} is left out: {reason}"


def formula_of(metric: str) -> Callable[[EntrantCard], str]:
    """Return a function that reads the formula for a metric from a card."""
    return lambda entrant: entrant.card.metrics[metric].formula


def chosen_metrics(
    entrants: Sequence[EntrantCard],
    wanted: Sequence[str],
    formula: Callable[[str], Callable[[EntrantCard], str]] = formula_of,
) -> list[str]:
    """Return the requested metrics, by default `total_return`. Each metric must be on every card
    and have the same formula.

    Raises UsageError if a card lacks a metric. Raises CardError if a metric was computed with
    different formulas.
    """
    names = list(dict.fromkeys(wanted)) or ["total_return"]
    for name in names:
        for entrant in entrants:
            known = entrant.card.metrics
            if name not in known:
                hint = near_matches(name, known) or "; `ktdeval score RUN --metrics NAME` adds it"
                raise UsageError(f"{entrant.path}: no metric {name!r} on this card{hint}")

        formulas = {f"formulas of {name}": formula(name)}
        check_same(entrants, formulas, "score both runs with one version")

    return names


def spans(entrant: EntrantCard, windows: Iterable[str]) -> list[tuple[str, str]]:
    """Return the first and last day that the episodes of each window actually cover, which a step
    limit may have shortened.
    """
    covered = {
        episode.window: (episode.first_day, episode.last_day) for episode in entrant.card.episodes
    }
    return [covered[window] for window in windows]


def flag_notes(
    entrants: Sequence[_Entry], are_sides_mixed: bool = True, but: Sequence[str] = _NO_CAUTION
) -> Iterator[str]:
    """Yield the caveats that apply to cards: synthetic prices, limited or unfinished runs, and,
    with `are_sides_mixed`, windows before or across a cutoff. Labels in `but` get no note.
    """
    flagged: dict[str, list[str]] = {}
    for entrant in entrants:
        for flag in entrant.card.labels:
            if flag not in but:
                flagged.setdefault(label_word(flag), []).append(entrant.label)

    for flag, labels in flagged.items():
        if len(labels) == len(entrants):
            yield f"{flag}: every card"
        else:
            yield f"{flag}: {', '.join(dict.fromkeys(labels))}"

    if are_sides_mixed:
        yield from cutoff_notes(entrants)


def notes_of_groups(notes: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield the notes of several groups of cards without duplicates. A note that does not apply to
    all groups is prefixed with the names of the groups to which it applies.
    """
    groups: dict[str, list[str]] = {}
    for name, lines in notes.items():
        for line in dict.fromkeys(lines):
            groups.setdefault(line, []).append(name)

    for line, names in groups.items():
        yield line if len(names) == len(notes) else f"{', '.join(names)}: {line}"


def on_side(entrants: Sequence[EntrantCard], cells: Sequence[Cell], side: str) -> list[Cell]:
    """Return the cells whose windows lie entirely on one side (`before` or `after`) of the cutoff
    of every card that records one.

    Raises CardError if no card records a cutoff, or if no window lies on that side.
    """
    recorded = [recorded_cutoff(entrant.card) for entrant in entrants]
    blocks = [block for block in recorded if block is not None]
    if not blocks:
        raise CardError(
            f"{entrants[0].path}: no card of its task records a cutoff; --side needs one (run with"
            " --knowledge-cutoff)"
        )

    chosen = []
    for cell in cells:
        window, _ = cell
        if all(block.windows[window].side == side for block in blocks):
            chosen.append(cell)

    if not chosen:
        dates = ", ".join(dict.fromkeys(block.date for block in blocks))
        raise CardError(
            f"{entrants[0].path}: no window that all cards have is entirely {side} the cutoff "
            f"({dates})"
        )

    return chosen


def card_notes(entrants: Sequence[EntrantCard], metrics: Sequence[str] = ()) -> Iterator[str]:
    """Yield a line for each window that a card omits from its figures, and a line for each of
    `metrics` whose median does not cover all episodes. Then yield the notes of `flag_notes`, except
    those on synthetic prices.
    """
    for entrant in entrants:
        for window, reason in (entrant.card.left_out or {}).items():
            yield f"{entrant.label}: window {window} is left out: {reason}"

        partly: dict[str, list[str]] = {}
        for name in metrics:
            line = entrant.card.metrics.get(name)
            if line and line.n and line.undefined:
                reasons = "; ".join(line.undefined)
                rest = f"{line.n} of {len(entrant.card.pooled)} episodes: {reasons}"
                partly.setdefault(rest, []).append(name)

        for rest, names in partly.items():
            yield f"{entrant.label}: {', '.join(names)}: median over {rest}"

    yield from flag_notes(entrants, but=(*_NO_CAUTION, "synthetic"))


def cutoff_notes(entrants: Sequence[_Entry]) -> Iterator[str]:
    """Yield a line for each card whose figures include days that the model may know from training.
    Models of other cards may not know these days.
    """
    for entrant in entrants:
        block = recorded_cutoff(entrant.card)
        if block is not None and not {SEEN, SPANS}.isdisjoint(entrant.card.labels):
            days = "are all of days before"
            if SPANS in entrant.card.labels:
                days = "pool days on both sides of"

            windows = f"windows {window_words(entrant.card)} (see `ktdeval compare cutoff`)"
            yield (
                f"{entrant.label}: figures {days} the cutoff {block.date} of its training data:"
                f" {windows}"
            )


def recorded_ledger(entrant: EntrantCard, episode: str) -> Ledger | str:
    """Return the ledger of an episode from which the card was made, or the reason why the ledger
    can't be used, for example because the file has changed.
    """
    name = f"episodes/{episode}/ledger.parquet"
    path = run_file(entrant.run_folder, name)
    if not path.is_file():
        return "no ledgers next to the card"
    if file_sha256(path) != entrant.card.artefacts.get(name):
        return f"{name} is not the ledger that the card was made from"

    try:
        return load_ledger(path)
    except StoreError as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class DailyTable:
    """Daily returns of several cards on the same days."""

    days: Sequence[str]  #: ISO fill days, in order
    returns: Values  #: [days, cards], simple returns of the NAV
    days_a_year: int  #: largest number of days per year in any window
    #: coarsest `Ledger.return_resolution` of all episodes; a smaller spread of returns is a
    #: rounding error
    resolution: float


def daily_table(entrants: Sequence[EntrantCard], cells: Sequence[Cell]) -> DailyTable | str:
    """Return the cards' daily returns over the same days, or the reason why they can't be
    tabulated.

    Each return is the mean over seeds and over the windows that share the day, so no day is counted
    twice.
    """
    columns: list[dict[str, float]] = []
    days_a_year = 0
    resolution = 0.0

    for entrant in entrants:
        episodes = entrant.episodes()
        by_day: dict[str, list[float]] = {}
        for cell in cells:
            ledger = recorded_ledger(entrant, episodes[cell].id)
            if isinstance(ledger, str):
                return f"{entrant.label}: {ledger}"
            if (ledger.nav <= 0).any():
                return f"{entrant.label}: a NAV is not positive"

            days_a_year = max(days_a_year, ledger.days_a_year)
            resolution = max(resolution, ledger.return_resolution)
            for day, value in zip(ledger.days, ledger.returns, strict=True):
                by_day.setdefault(str(day), []).append(float(value))

        columns.append({day: float(np.mean(values)) for day, values in sorted(by_day.items())})
        if list(columns[-1]) != list(columns[0]):
            return (
                f"{entrant.label}: its ledgers cover different days than those of "
                f"{entrants[0].label}"
            )

    returns = np.array([list(column.values()) for column in columns]).T
    return DailyTable(list(columns[0]), returns, days_a_year, resolution)
