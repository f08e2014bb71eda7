"""BUY, SELL or HOLD answers of a model, which an agent reads itself before any submission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from ktdeval.errors import StoreError
from ktdeval.harness import with_side_words
from ktdeval.values import Value, from_plain, loads_untrusted


class AssetAnswer(Value):
    """Decision on one asset."""

    stock_id: str
    decision: Literal["BUY", "SELL", "HOLD"]
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    reason: str


class Answers(Value):
    """Decisions from one call."""

    decisions: tuple[AssetAnswer, ...]
    overall_reason: str


def read_answers(arguments: Sequence[str]) -> Answers | None:
    """Return the decisions in the arguments of a reply's calls. Return None if they are malformed,
    or if there is not exactly one call.
    """
    if len(arguments) != 1:
        return None

    try:
        value = with_side_words(loads_untrusted(arguments[0]))
        return from_plain(value, Answers, "answer")
    except (ValueError, StoreError):
        return None
