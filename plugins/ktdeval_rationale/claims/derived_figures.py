"""Figures that follow from two shown numbers by one arithmetic step: a difference, a ratio, a sum
or a growth rate.

A step shows enough numbers for nearly any two-digit figure to follow from some pair of them. Both
numbers must therefore have been shown and must appear in the same sentence, together with a word
for arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from ktdeval_rationale.claims.claim_words import words_of
from ktdeval_rationale.claims.shown_facts import ShownFacts
from ktdeval_rationale.claims.text_figures import TextFigure

_WORDS = words_of("arithmetic")
_MAX_OPERANDS = 8


def is_derived(
    text: str,
    at: tuple[int, int, TextFigure],
    others: Sequence[TextFigure],
    facts: ShownFacts,
) -> bool:
    """Return whether a figure in a sentence follows from two other figures in the same sentence
    that were shown.
    """
    figure = at[2]
    if figure.high is not None or not _WORDS.search(text):
        return False

    operands: list[float] = []
    for other in others[:_MAX_OPERANDS]:
        if other.high is None and facts.numbers.has(other):
            operands.append(other.value)

    for first, second in permutations(operands, 2):
        for result in _results(first, second, is_percent=figure.is_percent):
            if figure.rounds(result) or figure.rounds(-result):
                return True
    return False


def _results(first: float, second: float, *, is_percent: bool) -> Iterator[float]:
    """Yield the results of one arithmetic step on two numbers. Ratios are in per cent if the figure
    is in per cent.
    """
    yield first - second
    yield first + second
    yield (first + second) / 2
    if second:
        ratio = first / second
        if is_percent:
            yield 100.0 * ratio
            yield 100.0 * (ratio - 1.0)
        else:
            yield ratio
            yield ratio - 1.0
