"""Assumptions behind an account that its market does not show: prices of fills, holdings without a
bar, shorts without a borrow fee, and cash without interest.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.card_inputs import TradingSources
from ktdeval.cards.fields.origin.fact_types import Assumptions
from ktdeval.cards.fields.origin.recorded_facts import TradingFacts
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.venues.venue import FILL_WORDS, FillRule
from ktdeval.trading.ledger import Ledger
from ktdeval.trading.stale_values import StaleHoldings, most_stale, stale_holdings

DECIDED_PRICE_REASON = (
    "its orders fill at the close that was decided on, a look-ahead that its task does not"
    " prescribe"
)
"""Reason against ranking a card whose market, not its task, lets orders fill at a known price."""


def gather_assumptions(sources: TradingSources) -> Assumptions:
    """Return the assumptions of a card's finished episodes."""
    fills: set[FillRule] = set()
    free_shorts = False
    for ledger in sources.ledgers.values():
        fills |= _fill_rules(ledger)
        free_shorts = free_shorts or _has_free_shorts(ledger)

    return Assumptions(
        fills=sorted(fills),
        free_shorts=free_shorts,
        prescribed=sources.inputs.prescribes_fills or UNSET,
    )


def _fill_rules(ledger: Ledger) -> set[FillRule]:
    filled = {order.code for step in ledger.steps for order in step.fills if order.filled_shares}
    return {ledger.scale(code).fill for code in filled}


def _has_free_shorts(ledger: Ledger) -> bool:
    """Return whether shorts were held overnight, and none of them paid a borrow fee."""
    is_short = any(held.shares < 0 for step in ledger.steps[:-1] for held in step.positions)
    pays = any(charge.kind == "borrow" for step in ledger.steps for charge in step.charges)
    return is_short and not pays


def gather_stale(ledger: Ledger, market: MarketSnapshot) -> StaleHoldings | UnsetType:
    """Return an episode's holdings without a bar at its last close; unset if there are none."""
    return stale_holdings(ledger, market) or UNSET


def assumption_rows(assumptions: Assumptions | UnsetType, facts: TradingFacts) -> Iterator[Row]:
    """Yield the rows on assumptions, and on the largest holdings without a bar."""
    if not assumptions:
        return

    words = ["cash earns no interest", "a holding without a bar keeps its last price"]
    if assumptions.fills:
        prices = " or the ".join(FILL_WORDS[rule] for rule in assumptions.fills)
        words.insert(0, f"orders fill at the {prices}")
    if assumptions.free_shorts:
        words.append("shorts pay no borrow fee")

    yield field_label("assumptions"), "; ".join(words)

    stale = most_stale(episode.stale for episode in facts.episodes)
    if stale is not None:
        yield field_label("episodes.stale"), stale.words
