"""Calibration: reliability of stated confidences, over all orders of a card with an outcome."""

from __future__ import annotations

from collections.abc import Iterable

from ktdeval.cards.fields.basics import strict_json
from ktdeval.cards.fields.parts import Calibration
from ktdeval.cards.fields.words import Words
from ktdeval.cards.table import Row, count, tally
from ktdeval.errors import CardError
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.stats.calibration import calibration_table, judged_orders, pool
from ktdeval.trading.ledger import Ledger
from ktdeval.values.typed import from_plain


def gather_calibration(ledgers: Iterable[Ledger], snapshot: MarketSnapshot) -> Calibration:
    """Return the reliability table of the orders of these episodes together."""
    judged = pool(judged_orders(ledger, snapshot) for ledger in ledgers)
    table = strict_json("calibration", calibration_table(judged))
    return from_plain(table, Calibration, "card", CardError)


def calibration_row(calibration: Calibration, episodes: str) -> Row:
    """Return the row of a card's judged orders; `episodes` says how many episodes they are of."""
    excluded = {"no_fill": calibration.no_fill, "no_next_open": calibration.no_next_open}
    words = f"{count(calibration.n, 'order')} judged; left out: {tally(excluded)}"
    return WORDS["calibration"].label, f"{words}{episodes}"


WORDS = {
    "calibration": Words(
        "calibration",
        "",
        "reliability bins over all orders with an outcome, and how many have none",
    ),
    "calibration.n": Words("judged orders", "orders", "orders with an outcome"),
    "calibration.no_fill": Words("not filled", "orders", "orders of which nothing was filled"),
    "calibration.no_next_open": Words(
        "no next open", "orders", "filled orders without a known next open"
    ),
}
