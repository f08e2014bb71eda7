"""Drift: how far the model's answers to fixed questions moved during the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from ktdeval.cards.fields.basics import Count, Figure, Name, Share
from ktdeval.cards.fields.words import Words
from ktdeval.cards.table import Row, count
from ktdeval.values.typed import Value


class Drift(Figure, Value, frozen=True, kw_only=True):
    """How far the answers to fixed questions moved between the start and the end of the run; null
    where that is not known.
    """

    NEEDED: ClassVar[tuple[str, ...]] = ("excess", "noise", "prompts", "served_by_changed")

    #: mean distance of an answer at the start from one at the end, 0 equal to 1 wholly different
    value: Share | None
    noise: Share | UnsetType = UNSET  #: mean distance of two answers at one time
    #: value less noise
    excess: Annotated[int, Meta(ge=-1, le=1)] | Annotated[float, Meta(ge=-1, le=1)] | UnsetType = (
        UNSET
    )
    prompts: Count | UnsetType = UNSET  #: questions that were answered at both times
    #: whether the provider named another model at the end than at the start
    served_by_changed: bool | UnsetType = UNSET
    reason: Name | UnsetType = UNSET


NOT_ASKED = Drift(value=None, reason="no fixed questions were asked")


def drift_rows(drift: Drift) -> Iterator[Row]:
    """Yield the row of a drift that is known."""
    if drift.value is None:
        return

    questions = count(drift.prompts or 0, "question")
    words = f"{drift.value:.3f} between start and end over {questions},"
    words += f" {drift.noise:.3f} within one round (0 equal, 1 different)"
    if drift.served_by_changed:
        words += "; the provider named another model at the end"

    yield WORDS["drift"].label, words


WORDS = {
    "drift": Words(
        "drift",
        "",
        "how far the answers to fixed questions moved between the start and the end of the run",
        "cards.md#drift",
    ),
    "drift.value": Words(
        "drift", "distance", "mean distance of an answer at the start from one at the end, 0 to 1"
    ),
    "drift.noise": Words("noise", "distance", "mean distance of two answers of one round, 0 to 1"),
    "drift.excess": Words("excess drift", "distance", "drift less noise"),
    "drift.prompts": Words("questions", "questions", "questions that were answered at both times"),
}
