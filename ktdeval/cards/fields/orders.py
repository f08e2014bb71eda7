"""Orders by what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ktdeval.cards.fields.base_types import add_counts, add_up
from ktdeval.cards.fields.episode_parts import Orders
from ktdeval.cards.fields.recorded_facts import DerivationBasis, TradingFacts, rests_on
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, tally
from ktdeval.trading.ledger import StepRecord


def gather_orders(steps: Iterable[StepRecord]) -> Orders:
    """Count the orders of an episode."""
    orders = list(chain.from_iterable(step.orders for step in steps))
    statuses = Counter[str](order.status for order in orders)
    rules = Counter(order.rule for order in orders if order.rule is not None)

    return Orders(
        submitted=len(orders),
        filled=statuses["filled"],
        partially_filled=statuses["partially_filled"],
        rejected=statuses["rejected"],
        rules=dict(sorted(rules.items())),
    )


def derive_orders(basis: DerivationBasis[TradingFacts]) -> Orders:
    """Return the sums over the finished episodes."""
    orders = [episode.orders for episode in basis.facts.episodes]
    return add_up(Orders, orders, rules=add_counts(one.rules for one in orders))


def is_untraded(orders: Sequence[Orders]) -> bool:
    """Whether there are finished episodes, and no order was filled in any of them, even in part."""
    return bool(orders) and not any(one.is_any_filled for one in orders)


def order_rows(orders: Orders, facts: TradingFacts) -> Iterator[Row]:
    """Yield the rows of a card's orders."""
    statuses = {
        "filled": orders.filled,
        "partially_filled": orders.partially_filled,
        "rejected": orders.rejected,
    }
    in_all, _ = rests_on(facts)
    yield field_label("orders"), f"{orders.submitted:,} submitted: {tally(statuses)}{in_all}"
    yield field_label("orders.rules"), tally(orders.rules)
