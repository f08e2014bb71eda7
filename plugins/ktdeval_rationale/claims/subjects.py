"""Finds the asset that a figure or quantity in a sentence refers to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktdeval_rationale.claims.claim_words import words_of
from ktdeval_rationale.claims.marked_text import MarkedPart, Sentence
from ktdeval_rationale.claims.quantities import Quantity

ACCOUNT = ""  #: subject for the account and its rules
_AFTER = re.compile(r"^\s*\)?\s*(?:for|in|of|at|by)\s+⟦L(\d+)⟧")
_DENIED = words_of("denied")
_JOINED = words_of("joined")
_TWO_SIDED = words_of("two_sided")


def subjects_at(
    sentence: Sentence,
    span: tuple[int, int],
    quantity: Quantity,
    about: str | None,
) -> list[str]:
    """Return the subjects that a figure or quantity at `span` may refer to. The result is empty if
    the sentence names none, and has several subjects if the sentence is ambiguous.
    """
    if quantity.is_of_account:
        return [ACCOUNT]

    start, end = span
    following = _AFTER.match(sentence.text[end:])
    if following:
        return [str(sentence.parts[int(following[1])].value)]

    labels = [mark for mark in sentence.marks("L") if not _DENIED.search(sentence.text[: mark[0]])]
    before = [mark for mark in labels if mark[1] <= start]
    if _TWO_SIDED.search(sentence.text) and len(labels) > 1:
        return [str(part.value) for _, _, part in labels]

    others = [mark for mark in sentence.marks("O") if mark[1] <= start]
    if not before:
        return _without_label_before(labels, others, about)

    nearest = before[-1]
    if any(mark[0] > nearest[1] for mark in others):
        return []

    joined = [str(nearest[2].value)]
    for earlier, later in zip(before[-2::-1], before[:0:-1], strict=True):
        if not _JOINED.match(sentence.text[earlier[1] : later[0]]):
            break
        joined.append(str(earlier[2].value))

    return joined


def _without_label_before(
    labels: Sequence[tuple[int, int, MarkedPart]],
    others: Sequence[tuple[int, int, MarkedPart]],
    about: str | None,
) -> list[str]:
    """Return the subject if no label precedes the figure, as in `With an RSI of 28, ABC is cheap`,
    or if the sentence has no label.
    """
    if others:
        return []

    names = {str(part.value) for _, _, part in labels}
    if about is not None:
        names.add(about)
    return list(names) if len(names) == 1 else []
