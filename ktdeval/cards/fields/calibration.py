"""Calibration: reliability of stated confidences, over all orders of a card with an outcome."""

from __future__ import annotations

from ktdeval.cards.fields.base_types import strict_json
from ktdeval.cards.fields.card_inputs import TradingSources
from ktdeval.cards.fields.fact_types import Calibration
from ktdeval.cards.fields.recorded_facts import TradingFacts, rests_on
from ktdeval.cards.table_types import count, tally
from ktdeval.errors import CardError
from ktdeval.stats.calibration import calibration_table, judged_orders, pool
from ktdeval.values.typed_json import from_plain


def gather_calibration(sources: TradingSources) -> Calibration:
    """Return the reliability table of the orders of all episodes that figures rest on."""
    snapshot = sources.inputs.snapshot
    judged = pool(judged_orders(ledger, snapshot) for ledger in sources.pooled)
    table = strict_json("calibration", calibration_table(judged))
    return from_plain(table, Calibration, "card", CardError)


def calibration_text(calibration: Calibration, facts: TradingFacts) -> str:
    """Return words on a card's judged orders."""
    excluded = {"no_fill": calibration.no_fill, "no_next_open": calibration.no_next_open}
    words = f"{count(calibration.n, 'order')} judged; left out: {tally(excluded)}"
    _, in_pooled = rests_on(facts)
    return f"{words}{in_pooled}"
