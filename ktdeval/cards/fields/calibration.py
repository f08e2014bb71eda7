"""Calibration: reliability of stated confidences, over all orders of a card with an outcome."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards.fields.base_types import strict_json
from ktdeval.cards.fields.card_inputs import TradingSources
from ktdeval.cards.fields.fact_types import Calibration
from ktdeval.cards.fields.field import TradingField
from ktdeval.cards.fields.recorded_facts import TradingFacts, rests_on
from ktdeval.cards.fields.words import FieldWords
from ktdeval.cards.table_types import Row, count, tally
from ktdeval.errors import CardError
from ktdeval.stats.calibration import calibration_table, judged_orders, pool
from ktdeval.values.typed_json import from_plain


def gather_calibration(sources: TradingSources) -> Calibration:
    """Return the reliability table of the orders of all episodes that figures rest on."""
    snapshot = sources.inputs.snapshot
    judged = pool(judged_orders(ledger, snapshot) for ledger in sources.pooled)
    table = strict_json("calibration", calibration_table(judged))
    return from_plain(table, Calibration, "card", CardError)


def calibration_rows(calibration: Calibration, facts: TradingFacts) -> Iterator[Row]:
    """Yield the row of a card's judged orders."""
    excluded = {"no_fill": calibration.no_fill, "no_next_open": calibration.no_next_open}
    words = f"{count(calibration.n, 'order')} judged; left out: {tally(excluded)}"
    _, in_pooled = rests_on(facts)
    yield WORDS["calibration"].label, f"{words}{in_pooled}"


WORDS = {
    "calibration": FieldWords(
        "calibration",
        "",
        "reliability bins over all orders with an outcome, and how many have none",
    ),
    "calibration.n": FieldWords("judged orders", "orders", "orders with an outcome"),
    "calibration.no_fill": FieldWords("not filled", "orders", "orders of which nothing was filled"),
    "calibration.no_next_open": FieldWords(
        "no next open", "orders", "filled orders without a known next open"
    ),
}

CALIBRATION = TradingField(
    "calibration",
    gather=gather_calibration,
    rows=calibration_rows,
    table="activity",
    words=WORDS,
)
