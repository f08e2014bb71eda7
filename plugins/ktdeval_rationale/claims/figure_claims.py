"""Figures in a reason: whether each was shown and, if the words around it place it, whether it is
right.

A figure is placed if the words next to it give a quantity (`momentum of 21.3`), and the sentence or
the order gives an asset. It is right if a shown number for that asset and quantity rounds to it.
A figure that is not placed is counted but not scored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ktdeval_rationale.claims.agreement import (
    ClaimVerdict,
    FigureReading,
    figure_verdict,
    most_lenient,
)
from ktdeval_rationale.claims.claim_words import (
    CLAUSE_END,
    GENERAL,
    PAST,
    PATTERNS,
    PLAN,
    UNSTATED,
    words_of,
)
from ktdeval_rationale.claims.derived_figures import is_derived
from ktdeval_rationale.claims.marked_text import Sentence
from ktdeval_rationale.claims.plain_statements import is_plain_statement
from ktdeval_rationale.claims.quantities import Quantity, drawdown_over, return_over
from ktdeval_rationale.claims.shown_facts import ShownFacts
from ktdeval_rationale.claims.subjects import subjects_at
from ktdeval_rationale.claims.text_figures import TextFigure

#: reason why a figure is not placed
Gap = Literal[
    "",
    "plan",
    "other day",
    "no quantity",
    "no subject",
    "not shown",
    "other unit",
    "hedged",
    "no statement",
]

_FALLING = words_of("falling")
_NOW = words_of("now")
_SIZE_OF_ORDER = words_of("size_of_order")


@dataclass(frozen=True, slots=True)
class FigureClaim:
    """A figure in a reason, with its verdict."""

    text: str  #: text of the figure after normalisation
    is_shown: bool  #: whether a shown number rounds to the figure
    #: whether the figure is a target, a condition or an order size, which could not have been shown
    is_plan: bool
    verdict: ClaimVerdict
    gap: Gap = ""  #: reason why the figure is not placed
    subject: str = ""  #: label of the asset; empty for the account, or if the asset is unknown
    quantity: str = ""  #: name of the quantity; empty if unknown


@dataclass(frozen=True, slots=True)
class _Placement:
    """Quantity of a figure, with its direction and certainty."""

    quantity: Quantity
    direction: int = 0
    is_hedged: bool = False
    is_strict: bool = True  #: whether the words allow no other reading


def figure_claims(
    sentence: Sentence, facts: ShownFacts, about: str | None
) -> Iterator[FigureClaim]:
    """Yield the figures in a sentence. `about` is the asset whose order the reason belongs to, or
    None if the reason does not belong to a single order.
    """
    placements = _placements(sentence)
    figures = sentence.figures()
    for start, end, figure in figures:
        if _is_bound(sentence, start):
            continue

        placed = placements.get(start)
        is_plan = _is_plan(sentence, start, placed)
        if placed is None:
            others = [other for _, _, other in figures if other is not figure]
            yield _judge_unplaced(sentence, (start, end, figure), others, facts, is_plan=is_plan)
        else:
            yield _judge_placed(sentence, (start, end, figure), placed, facts, about)


def _is_bound(sentence: Sentence, start: int) -> bool:
    """Return whether a figure is a threshold (`RSI below 30`): a comparison, not a value."""
    for pattern in PATTERNS["bounds"]:
        for match in pattern.finditer(sentence.text):
            if match.start("n") - 2 == start:
                return True
    return False


def _placements(sentence: Sentence) -> dict[int, _Placement]:
    """Return the placements of a sentence's figures, keyed by the offsets of the figures' marks."""
    found: dict[int, _Placement] = {}
    for kind, place in (
        ("off_high", _off_high),
        ("moves", _move),
        ("equals", _reading),
        ("before", _reading),
        ("cash", _cash),
    ):
        for pattern in PATTERNS[kind]:
            for match in pattern.finditer(sentence.text):
                start = match.start("n") - 2
                placed = place(sentence, match)
                if placed is not None and start not in found:
                    found[start] = placed

    _add_loose(sentence, found)
    return found


def _off_high(sentence: Sentence, match: re.Match[str]) -> _Placement:
    days = None
    if match["w"] is not None:
        days = int(sentence.part(match, "w").value)

    return _Placement(drawdown_over(days), is_hedged=_has(match, "hedge"))


def _move(sentence: Sentence, match: re.Match[str]) -> _Placement:
    days = 1
    if match.groupdict().get("w") is not None:
        days = int(sentence.part(match, "w").value)

    direction = int(_has(match, "rise")) - int(_has(match, "fall"))
    return _Placement(return_over(days), direction, _has(match, "hedge"))


def _reading(sentence: Sentence, match: re.Match[str]) -> _Placement:
    quantity: Quantity = sentence.part(match, "q").value
    before = sentence.text[max(0, match.start() - 12) : match.start()].lower()
    link = (match.groupdict().get("link") or "").lower()
    direction = 0
    if "negative" in before or "negative" in link:
        direction = -1

    return _Placement(quantity, direction, _has(match, "hedge"))


def _cash(sentence: Sentence, match: re.Match[str]) -> _Placement | None:
    """Place a figure such as `39,000 in cash`. Return None for other quantities, as in `12 % of
    NAV`.
    """
    placed = _reading(sentence, match)
    return placed if placed.quantity.name == "cash" else None


def _has(match: re.Match[str], group: str) -> bool:
    return bool(match.groupdict().get(group))


def _add_loose(sentence: Sentence, found: dict[int, _Placement]) -> None:
    """Place the figure of each clause that contains only one quantity and one figure, with other
    words between them. Such a figure may be judged right, but never wrong.
    """
    for start, end in _clauses(sentence.text):
        quantities = [mark for mark in sentence.marks("Q") if start <= mark[0] < end]
        figures = [mark for mark in sentence.figures() if start <= mark[0] < end]
        if len(quantities) == 1 and len(figures) == 1:
            place = figures[0][0]
            if place not in found:
                found[place] = _Placement(quantities[0][2].value, is_strict=False)


def _clauses(text: str) -> list[tuple[int, int]]:
    ends = [match.end() for match in CLAUSE_END.finditer(text)]
    starts = [0, *ends]
    return list(zip(starts, [*ends, len(text)], strict=True))


def _clause_before(text: str, at: int) -> str:
    """Return the clause up to an offset."""
    start = 0
    for match in CLAUSE_END.finditer(text, 0, at):
        start = match.start()
    return text[start:at]


def _clause_after(text: str, at: int) -> str:
    """Return the rest of the clause from an offset."""
    ending = CLAUSE_END.search(text, at)
    return text[at:] if ending is None else text[at : ending.start()]


def _is_plan(sentence: Sentence, start: int, placed: _Placement | None) -> bool:
    """Return whether the words before a figure make it a plan or a condition."""
    clause = _clause_before(sentence.text, start)
    if PLAN.search(clause):
        return True
    if GENERAL.search(sentence.text) or UNSTATED.search(sentence.text):
        return True
    if placed is not None and placed.is_strict:
        return False
    return _SIZE_OF_ORDER.search(clause) is not None


def _judge_unplaced(
    sentence: Sentence,
    at: tuple[int, int, TextFigure],
    others: Sequence[TextFigure],
    facts: ShownFacts,
    *,
    is_plan: bool,
) -> FigureClaim:
    """Judge a figure without a quantity. It is right if it follows from other figures, and
    otherwise not placed.
    """
    figure = at[2]
    is_shown = facts.numbers.has(figure)
    if not is_plan and is_derived(sentence.text, at, others, facts):
        return FigureClaim(figure.text, is_shown, is_plan, ClaimVerdict.RIGHT, quantity="derived")

    gap: Gap = "plan" if is_plan else "no quantity"
    return FigureClaim(figure.text, is_shown, is_plan, ClaimVerdict.UNPLACED, gap)


def _judge_placed(
    sentence: Sentence,
    at: tuple[int, int, TextFigure],
    placed: _Placement,
    facts: ShownFacts,
    about: str | None,
) -> FigureClaim:
    """Judge a figure whose quantity is known."""
    start, end, figure = at
    quantity = placed.quantity
    is_shown = facts.numbers.has(figure)
    is_plan = _is_plan(sentence, start, placed)
    gap: Gap = "plan" if is_plan else ""
    clause = _clause_before(sentence.text, start)
    if (
        not gap
        and PAST.search(clause + _clause_after(sentence.text, end))
        and "previous" not in quantity.name
    ):
        gap = "other day"

    subjects = subjects_at(sentence, (start, end), quantity, about)
    if not gap and not subjects:
        gap = "no subject"
    if gap:
        return FigureClaim(
            figure.text, is_shown, is_plan, ClaimVerdict.UNPLACED, gap, quantity=quantity.name
        )

    numbers = _numbers(facts, subjects, quantity)
    reading = FigureReading(placed.direction, placed.is_hedged, _FALLING.search(clause) is not None)
    verdicts = [figure_verdict(figure, quantity, name, number, reading) for name, number in numbers]
    verdict = ClaimVerdict.UNPLACED
    if not verdicts:
        gap = "not shown"
    else:
        verdict = most_lenient(verdicts)

    # `weight 4.9 %` may refer to the order or to the position.
    if quantity.name == "weight" and verdict is ClaimVerdict.WRONG and not _NOW.search(clause):
        verdict, gap = ClaimVerdict.UNPLACED, "plan"

    if verdict is ClaimVerdict.WRONG and len(subjects) > 1:
        verdict, gap = ClaimVerdict.UNPLACED, "no subject"
    elif verdict is ClaimVerdict.WRONG and not placed.is_strict:
        verdict, gap = ClaimVerdict.UNPLACED, "no quantity"
    elif verdict is ClaimVerdict.WRONG and not is_plain_statement(sentence.text, start, end):
        verdict, gap = ClaimVerdict.UNPLACED, "no statement"
    elif verdict is ClaimVerdict.UNPLACED and not gap:
        gap = "hedged" if placed.is_hedged else "other unit"

    return FigureClaim(
        figure.text, is_shown, is_plan, verdict, gap, subject=subjects[0], quantity=quantity.name
    )


def _numbers(
    facts: ShownFacts, subjects: Sequence[str], quantity: Quantity
) -> list[tuple[str, float]]:
    """Return the numbers shown for a quantity, each with its field."""
    found: list[tuple[str, float]] = []
    for subject in subjects:
        own = facts.facts.get(subject, {})
        for name in quantity.fields:
            found += [(name, number) for number in own.get(name, ())]

    return found
