"""Statement of an attached card of another kind, such as a mask certificate."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards.fields.origin.fact_types import Attachment
from ktdeval.cards.fields.origin.recorded_facts import TradingFacts
from ktdeval.cards.table_types import Row
from ktdeval.registry.plugin_registry import load_plugins

#: kind of card that can be attached to trading cards, and the field that holds it
ATTACHED = "certificate"
NOTHING_HIDDEN = "nothing is hidden, so there is nothing to certify"


def attached_rows(certificate: Attachment, facts: TradingFacts) -> Iterator[Row]:
    """Yield rows on an attached card if the plugin for its kind is installed."""
    if certificate.value is None:
        return

    plugins = load_plugins()
    if ATTACHED not in plugins.specs("cards"):
        return

    kind = plugins.make("cards", ATTACHED)
    if kind.attached_rows is not None:
        yield from kind.attached_rows(certificate.value)
