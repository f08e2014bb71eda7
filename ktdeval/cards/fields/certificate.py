"""Statement from an attached card of another kind, such as the certificate of a mask."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards.fields.fact_types import Attachment
from ktdeval.cards.fields.recorded_facts import TradingFacts
from ktdeval.cards.table_types import Row
from ktdeval.registry.plugin_registry import load_plugins

ATTACHED = "certificate"  #: kind of card that trading cards carry, in the field of that name
NOTHING_HIDDEN = "nothing is hidden, so there is nothing to certify"


def attached_rows(certificate: Attachment, facts: TradingFacts) -> Iterator[Row]:
    """Yield rows on an attached card if its plugin is installed."""
    if certificate.value is None:
        return

    plugins = load_plugins()
    if ATTACHED not in plugins.specs("cards"):
        return

    kind = plugins.make("cards", ATTACHED)
    if kind.attached_rows is not None:
        yield from kind.attached_rows(certificate.value)
