"""Eligibility for a rank, ranks, and the labels of systems."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ktdeval_board.entries import Board, Entry, market_of, settings_of
from ktdeval_board.ranking.daily import Vector
from ktdeval_board.rules import Division, Rules


def why_unranked(entry: Entry, rules: Rules, division: Division) -> list[str]:
    """Return why a card has no rank in any scope; empty where it may have one. It is listed all the same."""
    return list(dict.fromkeys(_reasons(entry, rules, division)))


def _reasons(entry: Entry, rules: Rules, division: Division) -> Iterator[str]:
    card = entry.card
    if entry.tier == "unchecked":
        yield "not checked yet: the board has no verdict on it"
    if not card.rankable.value:
        yield from card.rankable.reasons or ["the card says that it may not be ranked"]
    if "placebo" in card.labels:
        yield "the market is a placebo, on which there is nothing to select"
    if market_of(card).synthetic != (rules.market == "synthetic"):
        of = "synthetic" if market_of(card).synthetic else "real"
        yield f"the market is {of}, and this board is of {rules.market} markets"
    if division.certificate == "required" and "mask not certified" in card.labels:
        yield "the division asks for a certificate of the mask"
    for erratum in entry.errata:
        if erratum.effect != "note":
            yield f"erratum of {erratum.date}: {erratum.what}"


def undefined_reason(column: str, n: int, planned: int, reason: str | None) -> str | None:
    """Return why a figure can't be ranked in a scope; None where it can.

    A median over some of the windows is not comparable with one over all of them: who could leave out a window by having no figure
    there would choose which windows count.
    """
    if reason is not None:
        return f"{column} is not defined: {reason}"
    return f"{column} is defined in {n} of {planned} episodes only" if n < planned else None


def competition_ranks(values: Vector, better: str, eligible: npt.NDArray[np.bool_]) -> list[int | None]:
    """Ranks 1, 2, 2, 4 among the eligible: one more than how many of them are strictly better."""
    keys = -values if better == "higher" else values
    ordered = np.sort(keys[eligible])
    ranks = np.searchsorted(ordered, keys, side="left") + 1
    return [int(rank) if takes_part else None for rank, takes_part in zip(ranks, eligible, strict=True)]


def system_labels(board: Board) -> dict[str, str]:
    """Card id -> what its system (model, agent and reasoning settings) is called on this board.

    The model's name; with the agent where the board has the model in several agents, and with the settings where it has it with
    several. Cards of one system have one label in all divisions; where cards of one division would share it still, the beginning of
    the card's id is added.
    """
    agents: dict[str, set[str]] = defaultdict(set)
    settings: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in board.entries:
        agents[entry.model].add(entry.agent)
        settings[entry.model, entry.agent].add(settings_of(entry.card))
    labels: dict[str, str] = {}
    for entry in board.entries:
        parts = [entry.model]
        if len(agents[entry.model]) > 1:
            parts.append(entry.agent)
        if len(settings[entry.model, entry.agent]) > 1:
            parts.append(settings_of(entry.card) or "default settings")
        labels[entry.card_id] = " · ".join(parts)
    return _apart(board.entries, labels)


def _apart(entries: Sequence[Entry], labels: dict[str, str]) -> dict[str, str]:
    """Add the beginning of the card's id to a label that several cards of a division share; only a withdrawn one gives way."""
    systems: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
    standing: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        systems[labels[entry.card_id]].add((entry.model, entry.agent, settings_of(entry.card)))
        standing[_place(entry, labels)] += not entry.is_withdrawn
    shared = {
        entry.card_id
        for entry in entries
        if len(systems[labels[entry.card_id]]) > 1 or standing[_place(entry, labels)] > (not entry.is_withdrawn)
    }
    return {card_id: f"{label} #{card_id[:8]}" if card_id in shared else label for card_id, label in labels.items()}


def _place(entry: Entry, labels: dict[str, str]) -> tuple[str, str]:
    return (entry.division.id if entry.division else "", labels[entry.card_id])
