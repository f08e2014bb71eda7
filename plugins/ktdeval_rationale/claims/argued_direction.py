"""Direction that a reason argues for an asset, and whether the order agrees with it.

Only words of a view count (`bullish`, `upside`, `看空`): a fall is an argument to buy for one model
and to sell for another. A sentence with words of both sides, a denial or a condition says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval_rationale.claims.claim_words import NEGATED, PLAN
from ktdeval_rationale.claims.marked_text import Sentence

_BULLISH = re.compile(
    r"\bbullish(?:ly)?\b|\bbuy signal|\bupside\b|\bundervalued\b|\bto outperform\b|\b(?:looks"
    r"|is) (?:very )?attractive\b"
    r"|\b(?:will|to)(?: likely| probably)? (?:rise|rally|rebound|recover|climb|gain|continue higher)\b"
    r"|\blong thesis\b"
    r"|看多|看涨|买入信号|上涨空间|上行空间|低估|有望上涨|有望反弹|看好",
    re.IGNORECASE,
)
_BEARISH = re.compile(
    r"\bbearish(?:ly)?\b|\bsell signal|\bdownside\b|\bovervalued\b|\bto underperform\b|\b(?:looks"
    r"|is) (?:very )?unattractive\b"
    r"|\b(?:will|to)(?: likely| probably)? (?:fall|drop|decline|slide|weaken|continue lower)\b|\bshort thesis\b"
    r"|看空|看跌|卖出信号|下跌空间|下行风险|高估|有望下跌|看淡|不看好",
    re.IGNORECASE,
)
# `limited downside` is no bearish argument, `limited upside` no bullish one.
_TURNED = re.compile(
    r"\b(?:limited|little|no|low|capped|without|less|reduc\w+|hedg\w+|protect\w*|despite|however|although)\b"
    r"[^.]{0,20}\b(?:upside|downside)|\b(?:bullish|bearish)\b[^.]{0,12}\bbut\b|有限|尽管|虽然|但",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ArguedOrder:
    """An order as decided, by the label that the model was shown.

    Example:
        ArguedOrder("asset_0042", "BUY", target_weight=0.05)
    """

    label: str
    side: str  #: BUY or SELL; HOLD where a decision is asked of every asset
    target_weight: float | None = None
    shares: float | None = None


@dataclass(frozen=True, slots=True)
class DirectionClaim:
    """A view on an asset, and whether its order agrees."""

    label: str
    is_bullish: bool
    side: str
    agrees: bool


def argued_directions(
    sentences: Sequence[Sentence], orders: Sequence[ArguedOrder], about: str | None
) -> list[DirectionClaim]:
    """Return the views of a reason on assets with an order, each asset's once; none of an asset with
    views of both directions.
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
    """Return whether a sentence is bullish; None where it is neither or both, or in doubt."""
    is_bullish = _BULLISH.search(text) is not None
    is_bearish = _BEARISH.search(text) is not None
    if is_bullish is is_bearish:
        return None
    if NEGATED.search(text) or PLAN.search(text.replace("expected to", "")) or _TURNED.search(text):
        return None
    return is_bullish
