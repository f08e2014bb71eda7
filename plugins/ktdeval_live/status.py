"""Tables that show the status of a forward test."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ktdeval.cards import UNDEFINED, points
from ktdeval_live.deciding.consistency_runs import RepeatAgreement
from ktdeval_live.page.build_data import market_status
from ktdeval_live.record.entrant_episode import answers, find_entries
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.card_types import Excess, LiveCard
from ktdeval_live.results.daily_results import EntryResult
from ktdeval_live.results.shown_excess import ShownExcess, card_excess, pair_span, shown_excess


def market_rows(test: LiveFolder, now: datetime) -> list[tuple[str, ...]]:
    """Return one row per market: its sessions, how many of them are frozen, and what comes next."""
    chain = test.chain()
    rows: list[tuple[str, ...]] = []
    for name in test.plan.markets:
        market = market_status(test, chain, name, now)
        days = str(len(market.days))
        frozen = str(market.frozen)
        rows.append((name, days, frozen, market.next_close or "-", market.next_cutoff or "-"))

    return rows


def status_rows(test: LiveFolder) -> list[tuple[str, ...]]:
    """Return one row per entry: its days decided and missed, and the latest gap."""
    chain = test.chain()
    rows: list[tuple[str, ...]] = []
    for entry in find_entries(test.plan):
        ended = answers(chain, entry)
        gaps = [answer.gap for answer in ended.values() if answer.gap is not None]
        last = "-"
        if gaps:
            last = f"{gaps[-1].day}: {gaps[-1].cause}"

        decided = sum(answer.counts for answer in ended.values())
        rows.append((entry.entrant.name, entry.market, str(decided), str(len(gaps)), last))

    return rows


def settled_row(card: LiveCard) -> tuple[str, ...]:
    """Return the row for a settled entry: its returns over the whole test, in per cent."""
    results = card.results
    return (
        card.entrant,
        card.market.name,
        str(card.days.counted),
        str(sum(card.days.gaps.values())),
        points(results.held.value, "+.2f"),
        points(results.flat.value, "+.2f"),
        f"{points(results.low.value, '+.2f')} … {points(results.high.value, '+.2f')}",
    )


def excess_row(card: LiveCard) -> tuple[str, ...]:
    """Return the row for an entry's mean excess return over the index, in per cent, with the number
    of days. Days without a decision are omitted.
    """
    excess = card_excess(card, card.results.over_index.symmetric)
    return (card.entrant, card.market.name, *_excess_cells(excess))


def pair_row(one: EntryResult, other: EntryResult, excess: Excess) -> tuple[str, ...]:
    """Return the row for a pair of entrants in a market."""
    shown = shown_excess(excess.symmetric, pair_span(one, other), one.days_a_year)
    names = (one.entry.entrant.name, other.entry.entrant.name, one.entry.market)
    return (*names, *_excess_cells(shown))


def short_records(cards: Sequence[LiveCard]) -> list[str]:
    """Return why excess returns are not at a year's pace, each reason once."""
    found: dict[str, None] = {}
    for card in cards:
        for excess in (card.results.over_index, card.results.over_buy_and_hold):
            found[card_excess(card, excess.symmetric).no_year] = None
    return [reason for reason in found if reason]


def agreement_row(found: RepeatAgreement) -> tuple[str, ...]:
    """Return the row for an entry that was asked again, with shares of its repeats, in per cent."""
    return (
        found.entry.entrant.name,
        found.entry.market,
        str(found.days),
        str(found.repeats),
        str(found.failed),
        _share_text(found.same_sides, found.repeats),
        _share_text(found.same_orders, found.repeats),
    )


def _share_text(part: int, whole: int) -> str:
    if not whole:
        return UNDEFINED
    return f"{100 * part / whole:.0f}"


def _excess_cells(excess: ShownExcess) -> tuple[str, str, str]:
    """Return the number of days, the mean with its interval, and what the mean is over."""
    days = str(excess.interval.n or 0)
    if excess.interval.mean is None:
        return days, UNDEFINED, excess.per
    return days, f"{excess.mean_text} ({excess.ends_text})", excess.per
