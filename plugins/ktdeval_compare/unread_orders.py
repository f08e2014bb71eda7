"""Notes on orders whose text names no asset of the market, so that no weight or fill shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ktdeval.cards import count

_MAX_SHOWN = 5


def unread_notes(orders: Iterable[str]) -> list[str]:
    """Return a note that lists unread orders with their number, the most frequent ones first; empty
    if all orders were read. An order is its side and its text, as `BUY 'XYZ'`.
    """
    found = Counter(orders)
    if not found:
        return []

    shown = [f"{order} × {times}" for order, times in found.most_common(_MAX_SHOWN)]
    if len(found) > _MAX_SHOWN:
        shown.append(f"{len(found) - _MAX_SHOWN} more")

    total = count(found.total(), "order")
    return [f"{total} not read, because the text names no asset of that day: {', '.join(shown)}"]
