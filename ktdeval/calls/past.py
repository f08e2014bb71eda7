"""What the earlier sessions of a run left in its book that the next one goes on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ktdeval.calls.book import ANSWERED, CallBook, Spent, read_calls
from ktdeval.calls.prices import Price
from ktdeval.fields import build
from ktdeval.harness.messages import Reply

Place = tuple[str, str]
"""Where the book has a call: its episode (or `canary`, `check`) and the first digits of its key."""


@dataclass(frozen=True)
class Past:
    """Earlier sessions of a run.

    Attributes:
        spent: what they used. Replies that were paid when no price was known count at today's.
        was_answered: whether the provider ever answered.
        kept: replies that no cache keeps, truncated ones among them: they were paid for, so a step that is run again has them.
    """

    spent: Spent
    was_answered: bool
    kept: Mapping[Place, Reply]


def read_past(book: CallBook, price: Price | None) -> Past:
    """Read a book from its beginning.

    Raises:
        StoreError: it is not readable.
        ConfigError: a reply in it is malformed.
    """
    kept: dict[Place, Reply] = {}
    unpriced, was_answered = 0.0, False
    for record in read_calls(book.path):
        if record.outcome != ANSWERED:
            continue
        was_answered = True
        if record.reply is not None:
            kept[record.episode, record.key] = build(Reply, record.reply, f"{book.path}: reply")
        if price is not None and record.cost_usd is None and record.usage is not None:
            unpriced += price.cost(record.usage)
    return Past(replace(book.spent, cost_usd=book.spent.cost_usd + unpriced), was_answered, kept)
