"""Cards that are set beside each other: reading them, naming them, and refusing those that can't be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ktdeval.cards import Pluggable, TradingCard, TradingEpisode, load_card
from ktdeval.errors import CardError, UsageError
from ktdeval.fields import near_matches
from ktdeval.typed import encode_canonical

Cell = tuple[str, int]
"""Window and seed: what figures of two cards are paired on."""


@dataclass(frozen=True)
class Entrant:
    """One card of a comparison."""

    path: Path
    card: TradingCard
    label: str = ""  #: what tables call it; unique among the cards of one task

    @property
    def run_folder(self) -> Path:
        """Run that the card lies in, if it lies in one."""
        return self.path.resolve().parent.parent

    def episodes(self) -> dict[Cell, TradingEpisode]:
        """Finished episodes by window and seed."""
        return {(episode.window, episode.seed): episode for episode in self.card.episodes}


def load_entrants(paths: Sequence[Path]) -> list[Entrant]:
    """Return the cards of the given files and run folders (`RUN/cards/*.json`), in order.

    Raises UsageError: a folder without cards, or a card given twice; CardError: a card is not valid.
    """
    entrants: list[Entrant] = []
    seen: set[Path] = set()
    for path in paths:
        files = sorted((path / "cards").glob("*.json")) if path.is_dir() else [path]
        if not files:
            raise UsageError(f"{path}: no cards here; give card files, or run folders with finished episodes")
        for file in files:
            if file.resolve() in seen:
                raise UsageError(f"{file}: is given twice; a card can't be compared with itself")
            seen.add(file.resolve())
            card = load_card(file, None if path.is_dir() else "trading")
            if isinstance(card, TradingCard):  # beside them a run may have cards of scoring tasks
                entrants.append(Entrant(file, card))
    if not entrants:
        raise UsageError(f"{paths[0]}: has no card of a trading task")
    return entrants


def label(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Name each by its model, and where that is not enough by agent, arguments and at last its path."""
    ways: list[Callable[[Entrant], str]] = [
        lambda entrant: entrant.card.model.name,
        lambda entrant: f"{entrant.card.model.name} {entrant.card.agent.name}",
        lambda entrant: f"{_with_args(entrant.card.model)} {_with_args(entrant.card.agent)}",
        lambda entrant: f"{entrant.card.model.name} {entrant.path}",
    ]
    for way in ways[:-1]:
        if len({way(entrant) for entrant in entrants}) == len(entrants):
            return [replace(entrant, label=way(entrant)) for entrant in entrants]
    return [replace(entrant, label=ways[-1](entrant)) for entrant in entrants]


def _with_args(entry: Pluggable) -> str:
    args = ",".join(f"{name}={value}" for name, value in sorted(entry.args.items()))
    return f"{entry.name}({args})" if args else entry.name


def check_same(entrants: Sequence[Entrant], facets: Mapping[str, Callable[[Entrant], Any]], then: str) -> None:
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


def snapshot_name(entrant: Entrant) -> str:
    """Return the snapshot for messages: its name and the start of its id, which decides."""
    snapshot = entrant.card.snapshot
    return f"{snapshot.name} ({snapshot.id[:12]})"


MARKET_FACETS: Mapping[str, Callable[[Entrant], Any]] = {
    "snapshots": snapshot_name,
    "snapshot ids": lambda entrant: entrant.card.snapshot.id,
    "metric rules": lambda entrant: entrant.card.rules,
    "limits of steps": lambda entrant: entrant.card.limit,
}
"""Facts that every comparison needs to be equal."""

EPISODE_FACETS: Mapping[str, Callable[[Entrant], Any]] = {
    **MARKET_FACETS,
    "mask draws": lambda entrant: entrant.card.mask_draw,
}
"""Facts that a comparison of models needs to be equal: they shall see the market under the same aliases."""


def check_windows(entrants: Sequence[Entrant]) -> None:
    """Refuse cards on which one window name means two date ranges. Raises CardError: names the window."""
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

    Raises CardError: there is none; or cards have different ones and `common` is not set.
    """
    check_windows(entrants)
    finished = [set(entrant.episodes()) for entrant in entrants]
    shared = set.intersection(*finished)
    if not shared:
        raise CardError(f"{entrants[1].path} and {entrants[0].path} have no window and seed in common: nothing can be paired")
    for entrant in entrants if not common else ():
        missing = sorted(set.union(*finished) - set(entrant.episodes()))
        if missing:
            window, seed = missing[0]
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise CardError(
                f"{entrant.path}: unpaired: it has not finished window {window} seed {seed}{more}, which another card has; "
                f"run them, or compare on the {len(shared)} that all have with --common"
            )
    return [cell for cell in entrants[0].episodes() if cell in shared]


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


def flag_notes(entrants: Sequence[Entrant]) -> Iterator[str]:
    """Words of cards about themselves that a reader must know: synthetic prices, limited or unfinished runs."""
    flags = dict.fromkeys(flag for entrant in entrants for flag in entrant.card.labels if flag != "mask not certified")
    for flag in flags:
        flagged = list(dict.fromkeys(entrant.label for entrant in entrants if flag in entrant.card.labels))
        every = all(flag in entrant.card.labels for entrant in entrants)
        yield f"{flag}: {'every card' if every else ', '.join(flagged)}"
