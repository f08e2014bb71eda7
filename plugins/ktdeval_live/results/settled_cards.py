"""Settling: execute the whole chain again on the data as known now, and make the live cards."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np

import ktdeval
from ktdeval.cards import Pluggable
from ktdeval.market import BoolArray, FloatArray, MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import NOBODY, TrustedRoots, authority_of, plan_trust
from ktdeval.stats import (
    Sequence as ConfidenceSequence,
    asymptotic_sequence,
    expected_half_width,
    mixture_variance,
    sharpe,
    symmetric_sequence,
)
from ktdeval.values import dumps_pretty, make_folder, to_plain, write_atomic
from ktdeval_live.days.clock import in_text
from ktdeval_live.plan import LivePlan
from ktdeval_live.publication.publication_evidence import Level, evidence_level
from ktdeval_live.publication.publish_chain import Publication, publications
from ktdeval_live.record.chain import RecordChain
from ktdeval_live.record.entrant_episode import EntrantMarket, answers, find_entries
from ktdeval_live.record.folder import CARDS, LiveFolder
from ktdeval_live.results.card_labels import labels_of
from ktdeval_live.results.card_types import (
    DaysPart,
    EvidencePart,
    Excess,
    LiveCard,
    LiveFigure,
    LiveInterval,
    LiveProvenance,
    MarketPart,
    ResultPart,
    TestPart,
)
from ktdeval_live.results.daily_results import EntryResult, entry_result, total_return
from ktdeval_live.results.interval_assumptions import autocorrelation, skewness

LEVEL = 0.95
NO_DAY = "no counted day yet"
NO_BOUND = "a short during a gap could have lost everything, so the return has no bound"
NO_INDEX = "the market has no index"
NO_SHARED_DAY = "no counted day on which both are known"


@dataclass(frozen=True)
class CardBasis:
    """Chain, publications and market on which a card is based."""

    chain: RecordChain
    public: Sequence[Publication]  #: evidence for the chain
    market: MarketSnapshot  #: market as known to the chain


def live_card(
    folder: LiveFolder, basis: CardBasis, result: EntryResult, plugins: Plugins, made_at: datetime
) -> LiveCard:
    """Return the card of an entry."""
    chain = basis.chain
    market = basis.market
    entry = result.entry
    base = folder.base(entry.market)
    plan = folder.plan
    card = LiveCard(
        kind="live",
        schema_version=1,
        test=TestPart(
            name=plan.name,
            kind=plan.kind,
            plan=folder.begun_plan.id,
            first=plan.first,
            last=plan.last,
            head=chain.head,
            links=len(chain.entries),
        ),
        entrant=entry.entrant.name,
        model=Pluggable(name=entry.entrant.model, args=dict(entry.entrant.model_args)),
        agent=Pluggable(name=entry.entrant.agent, args=dict(entry.entrant.agent_args)),
        task=plan.markets[entry.market].task,
        system=entry.spec(base, entry.config(), plugins).id,
        market=_market_part(entry, base, market),
        evidence=_evidence_part(folder, basis, entry),
        days=_days_part(folder, chain, entry, result),
        results=results_part(plan, result),
        least_activity=plan.least_activity,
        labels=[],
        provenance=LiveProvenance(created_at=in_text(made_at), suite_version=ktdeval.__version__),
    )
    return msgspec.structs.replace(card, labels=labels_of(card))


def _market_part(entry: EntrantMarket, base: MarketSnapshot, market: MarketSnapshot) -> MarketPart:
    return MarketPart(
        name=entry.market,
        base=base.id,
        settled=market.id,
        synthetic=market.meta.synthetic,
        assets=len(market.codes),
        currency=market.currency,
        days_a_year=market.days_a_year,
    )


def _evidence_part(folder: LiveFolder, basis: CardBasis, entry: EntrantMarket) -> EvidencePart:
    def level(trust: TrustedRoots) -> Level:
        return evidence_level(folder, basis.chain, entry, public, trust)

    public = basis.public
    rule = folder.plan.publish.stamp
    untrusted = level(NOBODY)
    assert untrusted != "stamped"  # since no authority is trusted
    return EvidencePart(
        publications=len(public),
        pushed=sum(one.pushed for one in public),
        stamped=sum(one.stamp is not None for one in public),
        authority=None if rule is None else authority_of(rule),
        level=untrusted,
        level_if_trusted=level(plan_trust(rule)),
    )


def _days_part(
    folder: LiveFolder, chain: RecordChain, entry: EntrantMarket, result: EntryResult
) -> DaysPart:
    ended = answers(chain, entry)
    before = dict(zip(result.days, folder.schedule(entry.market).days, strict=False))
    causes: Counter[str] = Counter()
    for day, counted, decided in zip(result.days, result.counted, result.decided, strict=True):
        if counted and not decided:
            answer = ended.get(before[day])
            gap = None if answer is None else answer.gap
            causes["missed" if gap is None else gap.cause] += 1

    return DaysPart(
        settled=len(result.days),
        shadow=int((~result.counted).sum()),
        counted=int(result.counted.sum()),
        decided=int((result.counted & result.decided).sum()),
        gaps=dict(sorted(causes.items())),
        revisions=sum(body.number > 0 for _, body in chain.find_data(entry.market)),
    )


def results_part(plan: LivePlan, result: EntryResult) -> ResultPart:
    """Return an entry's figures over its counted days."""
    counted = result.counted
    index: FloatArray | None = result.index
    ratio = LiveFigure(value=None, reason=NO_DAY)
    if counted.sum() > 1:
        figure = sharpe(result.held[counted], result.days_a_year)
        ratio = _live_figure(figure.value, figure.reason or "not defined")

    return ResultPart(
        held=_total(result.held[counted]),
        flat=_total(result.flat[counted]),
        low=_total(result.low[counted]),
        high=_greatest(result.high[counted]),
        index=LiveFigure(value=None, reason=NO_INDEX) if index is None else _total(index[counted]),
        buy_and_hold=_total(result.buy_and_hold[counted]),
        sharpe=ratio,
        activity=_live_figure(result.activity, NO_DAY),
        over_index=excess_over(plan, result, index, NO_INDEX),
        over_buy_and_hold=excess_over(plan, result, result.buy_and_hold, NO_DAY),
    )


def _total(returns: FloatArray) -> LiveFigure:
    if not np.isfinite(returns).all():
        return LiveFigure(value=None, reason="a day has no price")
    return _live_figure(total_return(returns), NO_DAY)


def _greatest(returns: FloatArray) -> LiveFigure:
    """Return the highest total return; null if it is unbounded."""
    if np.isposinf(returns).any():
        return LiveFigure(value=None, reason=NO_BOUND)
    return _total(returns)


def _live_figure(value: float | None, reason: str) -> LiveFigure:
    if value is None:
        return LiveFigure(value=None, reason=reason)
    return LiveFigure(value=value)


# ---- intervals


def excess_over(
    plan: LivePlan, result: EntryResult, other: FloatArray | None, missing: str
) -> Excess:
    """Return the mean excess over the `other` returns. It covers the counted days that have a
    decision and on which both returns are known.
    """
    if other is None:
        return _no_excess(missing)

    days = compared_days(result, other)
    return mean_excess(plan, result.held[days] - other[days], result.days_a_year)


def compared_days(result: EntryResult, other: FloatArray) -> BoolArray:
    """Return the counted days that have a decision and on which the other returns are
    known, [T].
    """
    return np.asarray(result.counted & result.decided & np.isfinite(other))


def difference(plan: LivePlan, one: EntryResult, other: EntryResult) -> Excess:
    """Return the mean difference between two entries in a market, over the days on which both
    decided.
    """
    shared: BoolArray = one.counted & other.counted & one.decided & other.decided
    return mean_excess(plan, one.held[shared] - other.held[shared], one.days_a_year)


def shown_in_a_year(plan: LivePlan, days_a_year: int) -> float:
    """Return the expected half-width of the interval for a mean excess return after one year, in
    per cent a year, at the plan's tracking error.
    """
    daily = plan.tracking_error_pct / 100 / math.sqrt(days_a_year)
    rho = mixture_variance((plan.tracking_error_pct / 100) ** 2, LEVEL)
    return 100.0 * days_a_year * expected_half_width(days_a_year, daily, rho, LEVEL)


def mean_excess(plan: LivePlan, values: FloatArray, days_a_year: int) -> Excess:
    """Return the intervals for the mean of daily differences, in per cent a year."""
    if not len(values):
        return _no_excess(NO_SHARED_DAY)

    symmetric, asymptotic = sequences(plan, values, days_a_year)
    return Excess(
        symmetric=_live_interval(values, symmetric, days_a_year),
        asymptotic=_live_interval(values, asymptotic, days_a_year),
        skewness=skewness(values),
        autocorrelation=autocorrelation(values),
    )


def sequences(
    plan: LivePlan, values: FloatArray, days_a_year: int
) -> tuple[ConfidenceSequence, ConfidenceSequence]:
    """Return the symmetric and the asymptotic intervals for the mean of [T] daily differences after
    each day, as fractions per day.

    The plan determines the mixture: the intervals are narrowest after one year at its expected
    tracking error.
    """
    rho = mixture_variance((plan.tracking_error_pct / 100) ** 2, LEVEL)
    symmetric = symmetric_sequence(values, rho, LEVEL)
    asymptotic = asymptotic_sequence(values, days_a_year, LEVEL)
    return symmetric, asymptotic


def _no_excess(reason: str) -> Excess:
    interval = LiveInterval(n=None, reason=reason)
    figure = LiveFigure(value=None, reason=reason)
    return Excess(symmetric=interval, asymptotic=interval, skewness=figure, autocorrelation=figure)


def _live_interval(
    values: FloatArray, sequence: ConfidenceSequence, days_a_year: int
) -> LiveInterval:
    scale = 100.0 * days_a_year
    return LiveInterval(
        n=len(values),
        mean=float(values.mean()) * scale,
        low=_last_end(sequence.low, scale),
        high=_last_end(sequence.high, scale),
        level=sequence.level,
    )


def _last_end(ends: FloatArray, scale: float) -> float | None:
    last = float(ends[-1])
    if not np.isfinite(last):
        return None
    return last * scale


# ---- whole tests


@dataclass(frozen=True)
class SettledTest:
    """All entries of a test, settled on the data as known now."""

    cards: tuple[LiveCard, ...]
    results: tuple[EntryResult, ...]


def settle_test(folder: LiveFolder, plugins: Plugins, made_at: datetime) -> SettledTest:
    """Settle all entries of a test. Raises KtdevalError if a record or the data are
    inconsistent.
    """
    chain = folder.chain()
    public = publications(folder)
    markets = {name: folder.market(name, chain) for name in folder.plan.markets}
    cards = []
    results = []
    for entry in find_entries(folder.plan):
        market = markets[entry.market]
        result = entry_result(folder, chain, entry, plugins, market)
        results.append(result)
        basis = CardBasis(chain, public, market)
        cards.append(live_card(folder, basis, result, plugins, made_at))

    return SettledTest(tuple(cards), tuple(results))


def differences(
    plan: LivePlan, results: Iterable[EntryResult]
) -> Iterator[tuple[EntryResult, EntryResult, Excess]]:
    """Yield each pair of entrants in a market, with the mean difference between their returns."""
    for one, other in combinations(results, 2):
        if one.entry.market == other.entry.market:
            yield one, other, difference(plan, one, other)


def write_cards(folder: LiveFolder, cards: Iterable[LiveCard]) -> list[Path]:
    """Write cards to a test's `cards/` folder, and return their paths."""
    paths = []
    for card in cards:
        path = folder.path / CARDS / f"{card.entrant}-{card.market.name}.json"
        make_folder(path.parent)
        write_atomic(path, dumps_pretty(to_plain(card)))
        paths.append(path)
    return paths
