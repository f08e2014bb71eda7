"""Build the live page's data: a test settled on public data, and its status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

import ktdeval
from ktdeval.errors import StoreError
from ktdeval.registry import Plugins
from ktdeval.runner import authority_of
from ktdeval.stats import annualisation_problem, yearly_return_problem
from ktdeval.values import convert_value, places
from ktdeval_live.days.clock import in_text
from ktdeval_live.days.market_sessions import Session, due
from ktdeval_live.page.data import (
    Costs,
    DayState,
    LivePage,
    NextDue,
    PageChain,
    PageEntry,
    PageGap,
    PageMarket,
    PagePair,
    PagePublication,
)
from ktdeval_live.page.model_costs import entry_costs
from ktdeval_live.page.series import equity_of, intervals_of, sharpe_ends
from ktdeval_live.publication.publication_evidence import PROVES, weakest
from ktdeval_live.publication.publish_chain import publications
from ktdeval_live.record.chain import DecisionKey, Gap, RecordChain
from ktdeval_live.record.decision_records import DecisionRecord
from ktdeval_live.record.entrant_episode import DayAnswer, EntrantMarket, answers
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.card_kind import can_be_ranked
from ktdeval_live.results.card_types import LiveCard, LiveFigure, ResultPart
from ktdeval_live.results.daily_results import EntryResult
from ktdeval_live.results.settled_cards import LEVEL, SettledTest, differences, settle_test
from ktdeval_live.results.shown_excess import pair_span

_LATEST = 20
"""Maximum number of publications listed on the page."""


class PublicFolder(LiveFolder):
    """A test as readers see it, without sealed decisions."""

    def record(self, key: DecisionKey) -> DecisionRecord | None:
        """Return a decision. Raises StoreError if it has not been published."""
        if not self.is_public(key):
            raise StoreError(
                f"{key.entrant}/{key.market} {key.day}: the record of the decision is not published;"
                " run `ktdeval live publish` where the test is run"
            )
        return super().record(key)

    def is_public(self, key: DecisionKey) -> bool:
        """Return whether a decision can be read."""
        return self.record_path(key, private=False).is_file()


@dataclass(frozen=True)
class EntryDays:
    """An entry's days and costs for the page, in addition to its card and results."""

    states: tuple[DayState, ...]
    uncounted: int
    costs: Costs


def live_page(test: LiveFolder, plugins: Plugins, now: datetime) -> LivePage:
    """Return the page for a test as of `now`.

    Raises KtdevalError if a record or the data are inconsistent.
    """
    folder = PublicFolder(test.path)
    chain = folder.chain()
    settled = settle_test(folder, plugins, now)
    entry_days = []
    for result in settled.results:
        ended = answers(chain, result.entry)
        entry_days.append(_entry_days(folder, result.entry, ended, now))

    gaps = [body for _, body in chain.find_links(Gap)]
    plan = folder.plan
    return LivePage(
        name=plan.name,
        kind=plan.kind,
        as_of=in_text(now),
        suite_version=ktdeval.__version__,
        first=plan.first,
        last=plan.last,
        is_sealed=plan.sealed,
        least_activity=plan.least_activity,
        level=LEVEL,
        next_due=_next_due(folder, now),
        markets=tuple(market_status(folder, chain, name, now) for name in plan.markets),
        entries=page_entries(settled, entry_days),
        pairs=page_pairs(settled),
        gaps=_page_gaps(gaps),
        chain=_chain(folder, chain, settled.cards),
    )


def _page_gaps(gaps: Sequence[Gap]) -> tuple[PageGap, ...]:
    """Return the gaps listed on the page, latest first."""
    latest_first = sorted(gaps, key=lambda gap: gap.day, reverse=True)
    return tuple(convert_value(gap, PageGap, from_attributes=True) for gap in latest_first)


# ---- status of a test


def _next_due(folder: LiveFolder, now: datetime) -> NextDue | None:
    """Return the next time at which data will be fetched; None if there will be no more."""
    found = due([folder.schedule(market) for market in folder.plan.markets], now)
    if found is None:
        return None

    market, close = found
    delay = timedelta(minutes=folder.plan.markets[market].delay_minutes)
    return NextDue(market=market, at=in_text(close + delay))


def market_status(folder: LiveFolder, chain: RecordChain, name: str, now: datetime) -> PageMarket:
    """Return the current status of a market in a test."""
    schedule = folder.schedule(name)
    base = folder.base(name)
    frozen = chain.list_frozen_days(name)
    index = base.meta.benchmark
    return PageMarket(
        name=name,
        task=folder.plan.markets[name].task,
        currency=base.currency,
        days_a_year=base.days_a_year,
        index=base.index_names.get(index) or index or None,
        days=schedule.days,
        deciding=len(schedule.deciding),
        frozen=len(frozen),
        last_frozen=max(frozen, default=None),
        revisions=sum(body.number > 0 for _, body in chain.find_data(name)),
        next_close=_next_time(schedule.sessions, now, lambda session: session.complete_at),
        next_cutoff=_next_time(schedule.sessions, now, lambda session: session.cutoff),
    )


def _next_time(
    sessions: Iterable[Session], now: datetime, time_of: Callable[[Session], datetime | None]
) -> str | None:
    """Return the earliest time after `now` that `time_of` gives for a session."""
    times = [time_of(session) for session in sessions]
    later = [time for time in times if time is not None and time > now]
    if not later:
        return None
    return in_text(min(later))


def _chain(folder: LiveFolder, chain: RecordChain, cards: Sequence[LiveCard]) -> PageChain:
    public = publications(folder)
    published = public[-1].seq + 1 if public else 0
    evidence = weakest(card.evidence.level for card in cards)
    rule = folder.plan.publish.stamp
    latest = []
    for one in public[: -_LATEST - 1 : -1]:
        latest.append(convert_value(one, PagePublication, from_attributes=True))

    return PageChain(
        plan=folder.begun_plan.id,
        head=chain.head,
        links=len(chain.entries),
        begun_at=chain.entries[0].at,
        last_at=chain.entries[-1].at,
        publications=len(public),
        pushed=sum(one.pushed for one in public),
        stamped=sum(one.stamp is not None for one in public),
        unpublished=len(chain.entries) - published,
        latest=tuple(latest),
        authority=None if rule is None else authority_of(rule),
        evidence=evidence,
        proves=PROVES[evidence],
        evidence_if_trusted=weakest(card.evidence.level_if_trusted for card in cards),
    )


# ---- entries


def _entry_days(
    folder: PublicFolder,
    entry: EntrantMarket,
    ended: Mapping[str, DayAnswer],
    now: datetime,
) -> EntryDays:
    """Return the outcome of each of an entry's past sessions."""
    sessions = folder.schedule(entry.market).sessions
    over = [session for session in sessions[:-1] if session.complete_at <= now]
    first = entry.entrant.first or entry.plan.first
    states: list[DayState] = []
    uncounted = 0
    for number, session in enumerate(over):
        has_joined = sessions[number + 1].day >= first
        if not has_joined or number < entry.plan.shadow_days:
            uncounted += 1

        if has_joined:
            is_public = folder.is_public(entry.key(session.day))
            states.append(_day_state(ended.get(session.day), is_public))
        else:
            states.append("absent")

    public = [state not in ("sealed", "open", "absent") for state in states]
    costs = entry_costs(folder, entry, public)
    return EntryDays(states=tuple(states), uncounted=uncounted, costs=costs)


def _day_state(answer: DayAnswer | None, is_public: bool) -> DayState:
    if answer is None:
        return "open"
    if answer.gap is not None:
        return answer.gap.cause
    if is_public:
        return "decided"
    return "sealed"


def page_entries(settled: SettledTest, entry_days: Sequence[EntryDays]) -> tuple[PageEntry, ...]:
    """Return the entries on a page, in plan order."""
    ranks = _ranks(settled.cards)
    entries = []
    parts = zip(settled.cards, settled.results, entry_days, ranks, strict=True)
    for card, result, days, rank in parts:
        plan = result.entry.plan
        results = shown_results(card, result)
        entry = PageEntry(
            entrant=card.entrant,
            market=card.market.name,
            model=card.model.name,
            agent=card.agent.name,
            rank=rank,
            labels=tuple(card.labels),
            evidence=card.evidence.level,
            days=card.days,
            no_year=yearly_return_problem(card.days.counted, float(result.days_a_year)),
            results=results,
            sharpe_ends=sharpe_ends(result, results.sharpe.value),
            states=days.states,
            uncounted=days.uncounted,
            equity=equity_of(result),
            over_index=intervals_of(plan, result, result.index),
            over_buy_and_hold=intervals_of(plan, result, result.buy_and_hold),
            costs=days.costs,
        )
        entries.append(entry)

    return tuple(entries)


def shown_results(card: LiveCard, result: EntryResult) -> ResultPart:
    """Return a card's figures as shown: no Sharpe ratio of too few days."""
    problem = annualisation_problem(int(result.counted.sum()), float(result.days_a_year))
    if problem is None:
        return card.results
    return replace(card.results, sharpe=LiveFigure(value=None, reason=problem))


def _ranks(cards: Sequence[LiveCard]) -> list[int | None]:
    """Return the rank of each card within its market, by mean excess return; None if the card can't
    be ranked.
    """
    ranks: list[int | None] = [None] * len(cards)
    for market in {card.market.name for card in cards}:
        rankable = []
        figures = []
        for number, card in enumerate(cards):
            figure = _ranking_figure(card)
            if card.market.name == market and can_be_ranked(card) and figure is not None:
                rankable.append(number)
                figures.append(figure)

        if rankable:
            for number, place in zip(rankable, places([figures]), strict=True):
                ranks[number] = place + 1
    return ranks


def _ranking_figure(card: LiveCard) -> float | None:
    """Return the mean excess return over the index or, in a market without an index, over Buy &
    Hold.
    """
    results = card.results
    if results.index.value is None:
        return results.over_buy_and_hold.symmetric.mean
    return results.over_index.symmetric.mean


def page_pairs(settled: SettledTest) -> tuple[PagePair, ...]:
    """Return the pairs of entrants in each market."""
    if not settled.results:
        return ()

    plan = settled.results[0].entry.plan
    pairs = []
    for one, other, excess in differences(plan, settled.results):
        pair = PagePair(
            market=one.entry.market,
            entrant=one.entry.entrant.name,
            minus=other.entry.entrant.name,
            no_year=yearly_return_problem(pair_span(one, other), float(one.days_a_year)),
            excess=excess,
        )
        pairs.append(pair)

    return tuple(pairs)
