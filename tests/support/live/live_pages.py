"""Live pages with generated results: no model, no market, any number of entrants and days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import structs

import ktdeval
from ktdeval.cards import Pluggable
from ktdeval.market import BoolArray, FloatArray
from ktdeval.runner import TimeAuthority
from ktdeval_live.days.clock import of_text
from ktdeval_live.page.build_data import EntryDays, page_entries, page_pairs
from ktdeval_live.page.data import (
    Costs,
    DayState,
    LivePage,
    NextDue,
    PageChain,
    PageGap,
    PageMarket,
    PagePublication,
)
from ktdeval_live.plan import LivePlan
from ktdeval_live.publication.publication_evidence import PROVES
from ktdeval_live.record.entrant_episode import EntrantMarket
from ktdeval_live.results.card_labels import labels_of
from ktdeval_live.results.card_types import (
    DaysPart,
    EvidencePart,
    LiveCard,
    LiveProvenance,
    MarketPart,
    TestPart,
)
from ktdeval_live.results.daily_results import EntryResult
from ktdeval_live.results.settled_cards import LEVEL, SettledTest, results_part
from support.live.live_plans import plan_of

AUTHORITY = TimeAuthority(subject="CN=Stamps of Example", sha256="5e" * 32)
CAUSES = ("missed", "no_data", "late", "failed", "deadline", "unpublished")
DAYS_A_YEAR = 252
SHADOW = 5


@dataclass(frozen=True)
class Shape:
    """Size of a generated page."""

    entrants: int = 20
    days: int = 250
    markets: tuple[str, ...] = ("us",)
    kind: str = "live"


def sessions(count: int) -> tuple[str, ...]:
    """Return the first weekdays of 2027 as ISO days."""
    first = np.datetime64("2027-01-01")
    return tuple(str(np.busday_offset(first, number, roll="forward")) for number in range(count))


def generated_page(shape: Shape = Shape()) -> LivePage:
    """Return the page of a test with generated returns, gaps, costs and evidence."""
    generator = np.random.default_rng(7)
    days = sessions(shape.days + 1)
    plan = _plan(shape, days)
    cards = []
    results = []
    entry_days = []
    gaps: list[PageGap] = []

    for market in shape.markets:
        index = generator.normal(0.0004, 0.009, shape.days)
        for number, entrant in enumerate(plan.entrants):
            entry = EntrantMarket(plan, entrant, market)
            result = _result(entry, days, index, number, generator)
            states = _states(result, generator)
            results.append(result)
            cards.append(_card(entry, result, states))
            entry_days.append(_days(result, states, number, generator))
            gaps += _gaps(result, states, days)

    settled = SettledTest(tuple(cards), tuple(results))
    entries = page_entries(settled, entry_days)

    return LivePage(
        name=plan.name,
        kind=plan.kind,
        as_of="2027-12-20T08:00:00Z",
        suite_version=ktdeval.__version__,
        first=plan.first,
        last=plan.last,
        is_sealed=True,
        least_activity=plan.least_activity,
        level=LEVEL,
        next_due=NextDue(market=shape.markets[0], at="2099-12-20T21:15:00Z"),
        markets=tuple(_market(name, days) for name in shape.markets),
        entries=entries,
        pairs=page_pairs(settled),
        gaps=tuple(gaps),
        chain=_chain(),
    )  # fmt: skip


def _plan(shape: Shape, days: Sequence[str]) -> LivePlan:
    entrants = []
    for number in range(shape.entrants):
        entrants.append({"name": _name(number), "model": f"provider/model-{number % 7}-2026"})

    market = {"data": "synthetic_us", "task": "market_bright", "source": "stored"}

    return plan_of(
        name="generated",
        kind=shape.kind,
        first=days[1],
        last=days[-1],
        shadow_days=min(SHADOW, shape.days // 10),
        markets=dict.fromkeys(shape.markets, market),
        entrants=entrants,
    )


def _name(number: int) -> str:
    """Return the name of an entrant; one is as long as names may be."""
    if number == 4:
        return "an_entrant_whose_name_is_as_long_as_it_g"

    return f"agent-{number:02d}"


def _result(
    entry: EntrantMarket, days: Sequence[str], index: FloatArray, number: int, generator: Any
) -> EntryResult:
    count = len(index)
    numbers = np.arange(count)
    joined = 0 if number != 3 else count // 3
    counted: BoolArray = (numbers >= entry.plan.shadow_days) & (numbers >= joined)
    decided: BoolArray = generator.random(count) > 0.004 * number

    if number == 5:
        decided[count // 2 : count // 2 + count // 12] = False

    decided = decided & (numbers >= joined)

    beta = generator.uniform(0.4, 1.2)
    held = beta * index + generator.normal(0.0003 * (number - 8) / 8, 0.005, count)
    spread = np.abs(generator.normal(0.012, 0.004, count))
    active: BoolArray = np.ones(count, dtype=np.bool_)

    if number == 7:
        active[:] = False
        held = np.zeros(count)

    return EntryResult(
        entry=entry,
        days=tuple(days[1:]),
        counted=counted,
        decided=decided,
        active=active,
        nav=100_000.0 * np.cumprod(1.0 + held),
        held=held,
        low=np.where(decided, held, held - spread),
        high=np.where(decided, held, held + spread),
        index=index,
        buy_and_hold=0.9 * index + 0.0001,
        records=(),
        currency="USD",
        days_a_year=DAYS_A_YEAR,
    )


def _states(result: EntryResult, generator: Any) -> tuple[DayState, ...]:
    """Return a state for each session, with a cause for each gap and a sealed decision at the end."""
    joined = int(np.argmax(result.decided | result.counted))
    states: list[DayState] = []

    for number, decided in enumerate(result.decided):
        if result.entry.entrant.name == _name(3) and number < joined:
            states.append("absent")
        elif decided:
            states.append("decided")
        else:
            states.append(CAUSES[int(generator.integers(len(CAUSES)))])  # type: ignore[arg-type]

    states[-1] = "sealed"

    return tuple(states)


def _card(entry: EntrantMarket, result: EntryResult, states: Sequence[DayState]) -> LiveCard:
    gaps: Counter[str] = Counter()
    for counted, decided, state in zip(result.counted, result.decided, states, strict=True):
        if counted and not decided:
            gaps[state if state in CAUSES else "missed"] += 1

    card = LiveCard(
        kind="live",
        schema_version=1,
        test=TestPart(name=entry.plan.name, kind=entry.plan.kind, plan="0" * 64,
                      first=entry.plan.first, last=entry.plan.last, head="a" * 64, links=9_000),
        entrant=entry.entrant.name,
        model=Pluggable(name=entry.entrant.model, args={}),
        agent=Pluggable(name=entry.entrant.agent, args={}),
        task="market_bright",
        system="0" * 20,
        market=MarketPart(name=entry.market, base="0" * 64, settled="0" * 64, synthetic=True,
                          assets=12, currency="USD", days_a_year=DAYS_A_YEAR),
        evidence=EvidencePart(publications=500, pushed=500, stamped=500, authority=AUTHORITY,
                              level="pushed", level_if_trusted="stamped"),
        days=DaysPart(
            settled=len(result.days),
            shadow=int((~result.counted).sum()),
            counted=int(result.counted.sum()),
            decided=int((result.counted & result.decided).sum()),
            gaps=dict(sorted(gaps.items())),
            revisions=3,
        ),
        results=results_part(entry.plan, result),
        least_activity=entry.plan.least_activity,
        labels=[],
        provenance=LiveProvenance(created_at="2027-12-20T08:00:00Z", suite_version="0"),
    )  # fmt: skip

    return structs.replace(card, labels=labels_of(card))


def _days(
    result: EntryResult, states: tuple[DayState, ...], number: int, generator: Any
) -> EntryDays:
    return EntryDays(
        states=states,
        uncounted=int((~result.counted).sum()),
        costs=_costs(len(states), number, generator),
    )


def _costs(days: int, number: int, generator: Any) -> Costs:
    """Return costs in dollars, in tokens alone, or none, by the entrant's number."""
    nothing: tuple[float | None, ...] = (None,) * days
    if number % 3 == 2:
        return Costs(calls=None, failed=None, error_rate=None, usd=nothing, tokens=nothing,
                     usd_total=None, usd_a_day=None, tokens_a_day=None)  # fmt: skip

    tokens = generator.integers(8_000, 60_000, days).astype(float)
    usd = tokens * 2e-6
    is_priced = number % 3 == 0
    failed = int(generator.integers(0, 40))

    return Costs(
        calls=4 * days,
        failed=failed,
        error_rate=failed / (4 * days),
        usd=tuple(usd.round(6).tolist()) if is_priced else nothing,
        tokens=tuple(tokens.tolist()),
        usd_total=float(usd.sum()) if is_priced else None,
        usd_a_day=float(usd.mean()) if is_priced else None,
        tokens_a_day=float(tokens.mean()),
    )


def _gaps(
    result: EntryResult, states: Sequence[DayState], days: Sequence[str]
) -> Sequence[PageGap]:
    gaps = []
    for day, state in zip(days, states, strict=False):
        if state in CAUSES:
            gap = PageGap(
                entrant=result.entry.entrant.name,
                market=result.entry.market,
                day=day,
                cause=state,  # type: ignore[arg-type]
                detail="answered at 2027-03-04T14:31:00Z, cutoff 2027-03-04T14:20:00Z",
            )
            gaps.append(gap)

    return gaps


def _market(name: str, days: tuple[str, ...]) -> PageMarket:
    return PageMarket(
        name=name,
        task="market_bright",
        currency="USD",
        days_a_year=DAYS_A_YEAR,
        index="SYNUS",
        days=days,
        deciding=len(days) - 1,
        frozen=len(days) - 1,
        last_frozen=days[-2],
        revisions=3,
        next_close="2099-12-20T21:00:00Z",
        next_cutoff="2099-12-21T14:20:00Z",
    )


def _chain() -> PageChain:
    latest = []
    for number in range(20):
        one = PagePublication(
            seq=9_000 - 40 * number,
            at=of_text("2027-12-19T21:16:00Z"),
            commit="c0ffee" * 6 + "c0de",
            pushed=True,
            stamped_at=of_text("2027-12-19T21:16:02Z"),
        )
        latest.append(one)

    return PageChain(
        plan="0" * 64,
        head="a" * 64,
        links=9_001,
        begun_at="2026-12-30T12:00:00Z",
        last_at="2027-12-19T21:16:00Z",
        publications=500,
        pushed=500,
        stamped=500,
        unpublished=0,
        latest=tuple(latest),
        authority=AUTHORITY,
        evidence="pushed",
        proves=PROVES["pushed"],
        evidence_if_trusted="stamped",
    )
