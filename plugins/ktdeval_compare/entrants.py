"""Cards that are compared: reading them and their ledgers, naming them, and refusing those that can't be compared."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ktdeval.cards import (
    SEEN,
    SPANS,
    Pluggable,
    ScoringCard,
    TradingCard,
    TradingEpisode,
    card_files,
    load_card,
    load_evaluation,
    recorded_cutoff,
    window_side,
    window_words,
)
from ktdeval.cli import warn
from ktdeval.errors import CardError, StoreError, UsageError
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue, file_sha256
from ktdeval.runner import load_ledger, run_of
from ktdeval.stats import left_out_windows
from ktdeval.trading import Ledger
from ktdeval.typed import encode_canonical

Row = dict[str, JsonValue]
Values = npt.NDArray[np.float64]

Cell = tuple[str, int]  #: Window and seed: what figures of two cards are paired on


@dataclass(frozen=True)
class _Card:
    """One card of a comparison."""

    path: Path
    card: Any
    label: str = ""  #: what tables call it; unique among the cards of one task

    @property
    def run_folder(self) -> Path:
        """Run that the card lies in, if it lies in one."""
        return run_of(self.path)

    @property
    def is_in_run(self) -> bool:
        """Whether the card lies in a run folder."""
        return (self.run_folder / "manifest.json").is_file()


@dataclass(frozen=True)
class Scored(_Card):
    """One card of a scoring task."""

    card: ScoringCard


@dataclass(frozen=True)
class Entrant(_Card):
    """One card of a trading task."""

    card: TradingCard

    def episodes(self) -> dict[Cell, TradingEpisode]:
        """Finished episodes by window and seed."""
        return {(episode.window, episode.seed): episode for episode in self.card.episodes}


_Entry = TypeVar("_Entry", bound=_Card)
_NO_CAUTION = ("mask not certified", "certificate claimed", SEEN, SPANS)
"""Labels of cards that are about the mask, which compared cards share, and those that have lines of their own."""


def load_entrants(paths: Sequence[Path]) -> list[Entrant]:
    """Return the trading cards of `load_cards`, with a warning for each scoring card of a run folder, which is left out.
    Raises UsageError: there are none; or as it.
    """
    entrants, scored = load_cards(paths, "trading")
    if not entrants:
        raise UsageError(f"{paths[0]}: has no card of a trading task")
    for note in scoring_notes(scored):
        warn(note)
    return entrants


def scoring_notes(scored: Sequence[Scored]) -> Iterator[str]:
    """A line for each scoring card that is left out beside trading cards."""
    for card in scored:
        yield f"{card.path}: is a scoring card and is left out beside trading cards; `ktdeval compare` takes them by themselves"


def load_cards(paths: Sequence[Path], kind: str | None = None) -> tuple[list[Entrant], list[Scored]]:
    """Return the cards of the given files and run folders (`RUN/cards/*.json`), in order: of trading and of scoring tasks.
    `kind`: that files named one by one must have.

    Raises UsageError: a folder without cards, or a card given twice; CardError: a card is not valid.
    """
    entrants: list[Entrant] = []
    scored: list[Scored] = []
    seen: set[str] = set()
    for path in paths:
        for file in card_files([path]):
            if (real := os.path.realpath(file)) in seen:
                raise UsageError(f"{file}: is given twice; a card can't be compared with itself")
            seen.add(real)
            card = load_card(file, kind) if kind and not path.is_dir() else load_evaluation(file)  # a run may have cards of both
            if isinstance(card, TradingCard):
                entrants.append(Entrant(file, card))
            elif isinstance(card, ScoringCard):
                scored.append(Scored(file, card))
    return entrants, scored


def by_task(entrants: Sequence[_Entry]) -> dict[str, list[_Entry]]:
    """Cards by the name of their task."""
    groups: dict[str, list[_Entry]] = {}
    for entrant in entrants:
        groups.setdefault(entrant.card.task.name, []).append(entrant)
    return groups


def label(entrants: Sequence[_Entry]) -> list[_Entry]:
    """Name each by its model, and where that is not enough by agent, arguments and at last its path."""
    for way in (
        lambda entrant: entrant.card.model.name,
        lambda entrant: f"{entrant.card.model.name} {entrant.card.agent.name}",
        lambda entrant: f"{full_name(entrant.card.model)} {full_name(entrant.card.agent)}",
        lambda entrant: f"{entrant.card.model.name} {entrant.path}",
    ):
        names = [way(entrant) for entrant in entrants]
        if len(set(names)) == len(names):
            break
    return [replace(entrant, label=name) for entrant, name in zip(entrants, names, strict=True)]


def full_name(part: Pluggable) -> str:
    """Name of an agent or model, with its arguments."""
    args = ",".join(f"{name}={value}" for name, value in sorted(part.args.items()))
    return f"{part.name}({args})" if args else part.name


def training_seed(entrant: Entrant) -> str:
    """Seeds among the model's arguments, as canonical JSON: cards that differ in these alone are repeats of one model."""
    return encode_canonical({name: value for name, value in entrant.card.model.args.items() if _is_seed(name)})


def without_seed(entrant: Entrant) -> Entrant:
    """The card without seeds among the model's arguments."""
    model = entrant.card.model
    args = {name: value for name, value in model.args.items() if not _is_seed(name)}
    return replace(entrant, card=msgspec.structs.replace(entrant.card, model=msgspec.structs.replace(model, args=args)))


def _is_seed(name: str) -> bool:
    return name == "seed" or name.endswith("_seed")


def check_same(entrants: Sequence[_Entry], facets: Mapping[str, Callable[[Any], Any]], then: str) -> None:
    """Refuse cards that differ in one of `facets` (what it is called -> its value on a card), naming the first that does.

    Raises CardError: with `then` as the last words.
    """
    first = entrants[0]
    for other in entrants[1:]:
        for name, facet in facets.items():
            left, right = facet(first), facet(other)
            if encode_canonical(left) != encode_canonical(right):
                raise CardError(f"{other.path} and {first.path} have different {name}: {_short(right)} and {_short(left)}; {then}")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else encode_canonical(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


_FACETS: Mapping[str, Callable[[Any], Any]] = {
    "masks": attrgetter("card.task.mask"),
    "modes": attrgetter("card.task.mode"),
    "models": attrgetter("card.model"),
    "agents": attrgetter("card.agent"),
    "call parameters": attrgetter("card.call"),
    "ways of sending calls": attrgetter("card.request_settings"),
    "task versions": attrgetter("card.task.version"),
    "task configs (hash)": attrgetter("card.task.hash"),
    "snapshots": lambda entrant: (market := entrant.card.snapshot) and f"{market.name} ({market.id[:12]})",
    "snapshot ids": attrgetter("card.snapshot.id"),
    "metric rules": attrgetter("card.rules"),
    "limits of steps": attrgetter("card.limit"),
}
MARKET_FACETS = ("snapshots", "snapshot ids", "metric rules", "limits of steps")
"""Facts that every comparison needs to be equal. Mask keys are not among them: each run has its own."""


def facets(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Return facts for `check_same`, in the order in which they are looked at."""
    return {name: _FACETS[name] for name in names}


def check_windows(entrants: Sequence[Entrant]) -> None:
    """Refuse cards on which one window name means two date ranges."""
    known: dict[str, tuple[Entrant, str]] = {}
    for entrant in entrants:
        for window in entrant.card.windows:
            dates = f"{window.first} … {window.last}"
            before, other = known.setdefault(window.name, (entrant, dates))
            if other != dates:
                raise CardError(
                    f"{entrant.path} and {before.path}: window {window.name} is {dates} on one and {other} on the other"
                )


def paired_cells(entrants: Sequence[Entrant], common: bool) -> list[Cell]:
    """Return the (window, seed) cells that every card has finished, in the order of the first card.

    Windows that do not mix with the others are left out (`left_out`). Raises CardError: there is none; or cards have different
    ones and `common` is not set; or mean two ranges by one window.
    """
    check_windows(entrants)
    finished = [set(entrant.episodes()) for entrant in entrants]
    shared = set.intersection(*finished)
    if not shared:
        raise CardError(f"{entrants[1].path} and {entrants[0].path} have no window and seed in common: nothing can be paired")
    for entrant, own in zip(entrants, finished, strict=True):
        if not common and (missing := sorted(set.union(*finished) - own)):
            window, seed = missing[0]
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise CardError(
                f"{entrant.path}: unpaired: it has not finished window {window} seed {seed}{more}, which another card has; "
                f"run them, or compare on the {len(shared)} that all have with --common"
            )
    out = left_out(entrants)
    return [cell for cell in entrants[0].episodes() if cell in shared and cell[0] not in out]


def left_out(entrants: Sequence[Entrant]) -> dict[str, str]:
    """Windows that all cards have finished and that stand in no figure over windows, and why."""
    windows = dict.fromkeys(window for window, _ in entrants[0].episodes())
    shared = [window for window in windows if all(window in {cell[0] for cell in one.episodes()} for one in entrants)]
    return left_out_windows(dict(zip(shared, spans(entrants[0], shared), strict=True)), entrants[0].card.snapshot.year)


def left_out_notes(entrants: Sequence[Entrant]) -> Iterator[str]:
    """A line on cells that not all cards have finished, and one for each window that is left out."""
    finished = [set(entrant.episodes()) for entrant in entrants]
    if lacking := len(set.union(*finished)) - (shared := len(set.intersection(*finished))):
        yield f"figures are of the {shared} (window, seed) that all have finished; {lacking} are left out"
    for window, reason in left_out(entrants).items():
        yield f"window {window} is left out: {reason}"


def chosen_metrics(entrants: Sequence[Entrant], wanted: Sequence[str]) -> list[str]:
    """Return the metrics asked for, by default `total_return`; each must be on every card with one formula.

    Raises UsageError: a card does not have it; CardError: it was computed by different formulas.
    """
    names = list(dict.fromkeys(wanted)) or ["total_return"]
    for name in names:
        for entrant in entrants:
            known = entrant.card.metrics
            if name not in known:
                hint = near_matches(name, known) or "; `ktdeval score RUN --metrics NAME` adds it"
                raise UsageError(f"{entrant.path}: no metric {name!r} on this card{hint}")
        check_same(entrants, {f"formulas of {name}": lambda entrant, of=name: entrant.card.metrics[of].formula},  # type: ignore[misc]
                   "score both runs with one version")  # fmt: skip
    return names


def spans(entrant: Entrant, windows: Iterable[str]) -> list[tuple[str, str]]:
    """First and last day that the episodes of each window really covered (a limit shortens them)."""
    covered = {episode.window: (episode.first_day, episode.last_day) for episode in entrant.card.episodes}
    return [covered[window] for window in windows]


def flag_notes(entrants: Sequence[_Entry], are_sides_mixed: bool = True, but: Sequence[str] = _NO_CAUTION) -> Iterator[str]:
    """Words of cards about themselves that a reader must know: synthetic prices, limited or unfinished runs, windows on both sides
    of a cutoff where they are mixed.
    """
    for flag in dict.fromkeys(flag for entrant in entrants for flag in entrant.card.labels if flag not in but):
        flagged = [entrant.label for entrant in entrants if flag in entrant.card.labels]
        yield f"{flag}: {'every card' if len(flagged) == len(entrants) else ', '.join(dict.fromkeys(flagged))}"
    if are_sides_mixed:
        yield from cutoff_notes(entrants)


def notes_of_groups(notes: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Notes of groups of cards, by their names, each once; one that is not of all groups begins with the names of its own."""
    groups: dict[str, list[str]] = {}
    for name, lines in notes.items():
        for line in dict.fromkeys(lines):
            groups.setdefault(line, []).append(name)
    for line, names in groups.items():
        yield line if len(names) == len(notes) else f"{', '.join(names)}: {line}"


def on_side(entrants: Sequence[Entrant], cells: Sequence[Cell], side: str) -> list[Cell]:
    """Cells whose windows lie wholly on one side (before, after) of the cutoff of every card that records one.

    Raises CardError: no card records one, or no window lies there.
    """
    blocks = [block for entrant in entrants if (block := recorded_cutoff(entrant.card)) is not None]
    if not blocks:
        raise CardError(f"{entrants[0].path}: no card of its task records a cutoff; --side needs one (run with --knowledge-cutoff)")
    chosen = [cell for cell in cells if all(window_side(block.windows[cell[0]]) == side for block in blocks)]
    if not chosen:
        dates = ", ".join(dict.fromkeys(block.date for block in blocks))
        raise CardError(f"{entrants[0].path}: no window that all cards have lies wholly {side} the cutoff ({dates})")
    return chosen


def card_notes(entrants: Sequence[Entrant], metrics: Sequence[str] = ()) -> Iterator[str]:
    """A line for each window that a card leaves out of its figures, and on those of these metrics whose median is not over all
    episodes, then `flag_notes` of all but synthetic prices.
    """
    for entrant in entrants:
        for window, reason in (entrant.card.left_out or {}).items():
            yield f"{entrant.label}: window {window} is left out: {reason}"
        partly: dict[str, list[str]] = {}
        for name in metrics:
            if (line := entrant.card.metrics.get(name)) and line.n and line.undefined:
                rest = f"{line.n} of {len(entrant.card.pooled)} episodes: {'; '.join(line.undefined)}"
                partly.setdefault(rest, []).append(name)
        for rest, names in partly.items():
            yield f"{entrant.label}: {', '.join(names)}: median over {rest}"
    yield from flag_notes(entrants, but=(*_NO_CAUTION, "synthetic"))


def cutoff_notes(entrants: Sequence[_Entry]) -> Iterator[str]:
    """A line for each card whose figures rest on days that its model may know; those of other models may not."""
    for entrant in entrants:
        block = recorded_cutoff(entrant.card)
        if block is not None and not {SEEN, SPANS}.isdisjoint(entrant.card.labels):
            days = "pool days on both sides of" if SPANS in entrant.card.labels else "are all of days before"
            windows = f"windows {window_words(entrant.card)} (see `ktdeval cutoff`)"
            yield f"{entrant.label}: figures {days} the cutoff {block.date} of its training data: {windows}"


def recorded_ledger(entrant: Entrant, episode: str) -> Ledger | str:
    """Return the ledger of an episode as the card was made from it, or why there is none: bytes that changed since are not used."""
    name = f"episodes/{episode}/ledger.parquet"
    path = entrant.run_folder / name
    if not path.is_file():
        return "no ledgers beside the card"
    if file_sha256(path) != entrant.card.artefacts.get(name):
        return f"{name} is not the ledger that the card was made from"
    try:
        return load_ledger(path)
    except StoreError as error:
        return str(error)


class DailyTable(NamedTuple):
    """Daily returns of several cards over the same days."""

    returns: Values  #: [days, cards] simple returns of the NAV
    days_a_year: int  #: the most of any window
    resolution: float  #: coarsest `Ledger.return_resolution` of any episode: a smaller spread of returns is rounding


def daily_table(entrants: Sequence[Entrant], cells: Sequence[Cell]) -> DailyTable | str:
    """Daily returns of cards over the same days; or why there is no such table.

    A return is the mean over seeds, and over windows that share the day: a day counts once however many windows hold it, so that
    no day is evidence twice.
    """
    columns: list[dict[str, float]] = []
    days_a_year = 0
    resolution = 0.0
    for entrant in entrants:
        episodes, by_day = entrant.episodes(), dict[str, list[float]]()
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
            return f"{entrant.label}: its ledgers cover other days than those of {entrants[0].label}"
    returns = np.array([list(column.values()) for column in columns]).T
    return DailyTable(returns, days_a_year, resolution)
