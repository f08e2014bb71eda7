"""Decide whether a card answers the question fixed in its registration before the mask key was
drawn.

A card is `confirmatory` if its registration on the board has a question, the board drew its key
later, and all terms match: system, windows, seeds, the metric in each window, and the opponent.
Otherwise it is `exploratory`, and the mismatches are listed. Only the figures are taken from the
card; the board's check confirms them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from msgspec import UnsetType

from ktdeval.runner import Answer, Question, answer, shared_days
from ktdeval_board.board_entries import BoardEntry, EvidenceFacts, LoadedBoard
from ktdeval_board.checking.registrations import card_problems
from ktdeval_board.ranking.daily_summaries import Cell, figures_by_cell
from ktdeval_board.ranking.division_figures import benchmark_of


@dataclass(frozen=True)
class QuestionEvidence:
    """A card's evidence on its registered question."""

    #: terms that do not match, or why there is no question; empty if all terms match
    why: tuple[str, ...]
    question: Question | None = None
    answer: Answer | None = None  #: None if any term does not match

    @property
    def kind(self) -> Literal["confirmatory", "exploratory"]:
        """Return `confirmatory` if all terms of a registered question match, else `exploratory`."""
        if self.why:
            return "exploratory"
        return "confirmatory"

    @property
    def labels(self) -> list[str]:
        """Label of a card whose registration has a question."""
        return [] if self.question is None else [self.kind]

    @property
    def facts(self) -> EvidenceFacts:
        """The evidence as plain values."""
        question = None
        if self.question is not None:
            question = question_words(self.question)

        return {
            "kind": self.kind,
            "why": list(self.why),
            "question": question,
            "answer": None if self.answer is None else self.answer.words,
        }


def against_words(question: Question) -> str:
    """Return the opponent of a question as text."""
    if question.against == "zero":
        return "against zero"
    if question.against == "benchmark":
        return "against the benchmark"
    return f"against card {question.against[:12]}"


def question_words(question: Question) -> str:
    """Return a question with its opponent as text."""
    return f"{against_words(question)}: {question.words}"


def evidence_of(board: LoadedBoard, entry: BoardEntry) -> QuestionEvidence:
    """Return a card's evidence on the question that its registration asks."""
    filed = board.registrations.by_id.get(entry.card.registration or "")
    if filed is None:
        return QuestionEvidence(("no question was registered before the run",))

    question = filed.registration.question
    if isinstance(question, UnsetType):
        return QuestionEvidence(("its registration has no question",))

    broken = list(_broken_terms(board, entry, question))
    if broken:
        return QuestionEvidence(tuple(broken), question)

    differences = _differences(entry, question, _opponent(board, entry, question))
    missing = [
        window for window, gap in zip(question.windows, differences, strict=True) if gap is None
    ]
    if missing:
        return QuestionEvidence(
            (f"{question.metric} is undefined for one of the two in {', '.join(missing)}",),
            question,
        )

    known = [gap for gap in differences if gap is not None]
    return QuestionEvidence((), question, answer(question, known))


def _broken_terms(board: LoadedBoard, entry: BoardEntry, question: Question) -> Iterator[str]:
    """Yield the ways in which a card violates the terms of a registered question."""
    filed = board.registrations.by_id[entry.card.registration or ""]
    yield from card_problems(entry.card, entry.division, board.registrations)

    if filed.drawn is not None and filed.drawn.drawn_on < filed.registration.registered_on:
        yield "its key was drawn before the question was registered"

    if entry.tier == "unchecked":
        yield "the board has no verdict on it"

    if not entry.is_trading:
        yield "a scoring task has no windows to compare"
        return

    yield from _window_problems(entry, question)
    if question.against not in ("zero", "benchmark"):
        yield from _opponent_problems(board, entry, question)


def _window_problems(entry: BoardEntry, question: Question) -> Iterator[str]:
    if entry.card.limit is not None:
        yield f"every episode was cut after {entry.card.limit} steps"

    there = {window.name: window for window in entry.card.windows}
    absent = [window for window in question.windows if window not in there]
    if absent:
        yield f"the card lacks windows of the question: {', '.join(absent)}"

    days = []
    for name in question.windows:
        if name in there:
            days.append((name, str(there[name].first), str(there[name].last)))

    for one, other in shared_days(days):
        yield f"windows {one} and {other} share days, so their differences are not independent"

    if question.metric not in entry.trading.metrics:
        yield f"the card has no metric {question.metric}"


def _opponent_problems(board: LoadedBoard, entry: BoardEntry, question: Question) -> Iterator[str]:
    found = _card(board, question.against)
    where = against_words(question)
    if found is None:
        yield f"{where}: is not on the board"
        return

    if found.card_id == entry.card_id:
        yield f"{where}: is the card itself"
    if found.is_withdrawn:
        yield f"{where}: was withdrawn"
    if found.tier == "unchecked":
        yield f"{where}: the board has no verdict on it"
    if found.division != entry.division:
        yield f"{where}: belongs to another division"


def _card(board: LoadedBoard, card_id: str) -> BoardEntry | None:
    return next((entry for entry in board.entries if entry.card_id == card_id), None)


# ---- figures


def _opponent(board: LoadedBoard, entry: BoardEntry, question: Question) -> Mapping[Cell, float]:
    """Return the figures to compare with, keyed by window and seed. The figure of the benchmark, or
    zero, is repeated for each seed of the card.
    """
    seeds = entry.card.seeds
    if question.against == "zero":
        return dict.fromkeys(product(question.windows, seeds), 0.0)

    if question.against != "benchmark":
        found = _card(board, question.against)
        assert found is not None
        return figures_by_cell(found.trading.episodes, question.metric)

    assert entry.division is not None
    figures: dict[Cell, float] = {}
    for window, metrics in benchmark_of(board.of_division(entry.division)).items():
        if question.metric in metrics:
            figures |= dict.fromkeys(product([window], seeds), metrics[question.metric])

    return figures


def _differences(
    entry: BoardEntry, question: Question, opponent: Mapping[Cell, float]
) -> list[float | None]:
    """Return the difference in each window of a question, as the median over the card's seeds. It
    is None if a figure is undefined.
    """
    own = figures_by_cell(entry.trading.episodes, question.metric)
    differences: list[float | None] = []
    for window in question.windows:
        here = _figures_by_seed(own, window)
        there = _figures_by_seed(opponent, window)
        differences.append(_median_gap(here, there, entry.card.seeds))

    return differences


def _figures_by_seed(figures: Mapping[Cell, float], window: str) -> dict[int, float]:
    return {seed: figure for (name, seed), figure in figures.items() if name == window}


def _median_gap(
    here: Mapping[int, float], there: Mapping[int, float], seeds: Sequence[int]
) -> float | None:
    """Return the median difference over seeds. If the opponent lacks a seed, its own median is used
    instead; this is the case for a fixed rule, which has a single seed.
    """
    if not there or any(seed not in here for seed in seeds):
        return None

    middle = statistics.median(there.values())
    return statistics.median(here[seed] - there.get(seed, middle) for seed in seeds)
