"""Direction that a reason argues for an asset, and whether the order agrees with it.

Only words that express a view are used (`bullish`, `upside`, `看空`). Price moves are not, since
after a fall one model buys while another sells. A sentence with words for both directions, a denial
or a condition expresses no view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval_rationale.claims.claim_words import NEGATED, PLAN, words_of
from ktdeval_rationale.claims.marked_text import Sentence

_BULLISH = words_of("bullish")
_BEARISH = words_of("bearish")
_TURNED = words_of("turned")


@dataclass(frozen=True, slots=True)
class ArguedOrder:
    """An order as decided, by the label that was shown to the model.

    Example:
        ArguedOrder("asset_0042", "BUY", target_weight=0.05)
    """

    label: str
    side: str  #: BUY or SELL; HOLD in tasks that require a decision on every asset
    target_weight: float | None = None
    shares: float | None = None


@dataclass(frozen=True, slots=True)
class DirectionClaim:
    """A view on an asset, and whether the order for the asset agrees with it."""

    label: str
    is_bullish: bool
    side: str
    agrees: bool


def argued_directions(
    sentences: Sequence[Sentence], orders: Sequence[ArguedOrder], about: str | None
) -> list[DirectionClaim]:
    """Return the views in a reason on assets with an order, one per asset. An asset with views in
    both directions is omitted.
    """
    views: dict[str, set[bool]] = {}
    for sentence in sentences:
        view = _view(sentence.text)
        if view is None:
            continue

        labels = {str(part.value) for _, _, part in sentence.marks("L")}
        if not labels and not sentence.marks("O") and about is not None:
            labels = {about}
        if len(labels) == 1:
            views.setdefault(labels.pop(), set()).add(view)

    claims: list[DirectionClaim] = []
    sides = {order.label: order.side.upper() for order in orders}
    for label, found in views.items():
        side = sides.get(label)
        if len(found) == 1 and side in ("BUY", "SELL"):
            is_bullish = True in found
            claims.append(DirectionClaim(label, is_bullish, side, is_bullish is (side == "BUY")))
    return claims


def _view(text: str) -> bool | None:
    """Return whether a sentence is bullish; None if it is doubtful, or has words for neither or
    both directions.
    """
    is_bullish = _BULLISH.search(text) is not None
    is_bearish = _BEARISH.search(text) is not None
    if is_bullish is is_bearish:
        return None
    if NEGATED.search(text) or PLAN.search(text.replace("expected to", "")) or _TURNED.search(text):
        return None
    return is_bullish
