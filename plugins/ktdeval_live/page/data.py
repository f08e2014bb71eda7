"""Data of the live page as typed values, all public.

A sealed decision is a day with the state `sealed`; costs are sums over public days. Series are
rounded to 1e-6 for returns and to 1e-3 for per cent; totals are taken from the cards.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from ktdeval.values import Value
from ktdeval_live.plan import Kind
from ktdeval_live.publication.publication_evidence import Level
from ktdeval_live.publication.time_authorities import TimeAuthority
from ktdeval_live.record.chain import GapCause, OfDecision
from ktdeval_live.results.card_types import DaysPart, Excess, Label, ResultPart

DayState = Literal["decided", "sealed", "open", "absent"] | GapCause
"""Outcome of a session for an entry: a decision that is public (`decided`) or only committed
(`sealed`); a gap, by its cause; nothing in the chain yet (`open`); or a session before the entrant
joined (`absent`).
"""

Series = tuple[float | None, ...]
"""One value per day; null where undefined."""


class NextDue(Value):
    """Next moment at which a step has something to do."""

    market: str
    at: str  #: when data of its next close are asked for, UTC


class PageMarket(Value):
    """State of a market."""

    name: str
    task: str
    currency: str
    index: str | None  #: name of the index
    days: tuple[str, ...]  #: [S] ISO days of its sessions; the last one only fills orders
    deciding: int  #: sessions of the whole test on which is decided
    frozen: int  #: number of sessions whose data are frozen
    last_frozen: str | None  #: the latest of them
    revisions: int  #: later corrections of their data
    next_close: str | None  #: UTC
    next_cutoff: str | None  #: UTC


class Equity(Value):
    """Total return since the start, as a fraction, after each of C counted days."""

    first: int  #: number of the session of the first of them; the others follow it
    held: Series
    flat: Series
    low: Series  #: least that decisions on the gaps could have had
    high: Series
    index: Series
    buy_and_hold: Series


class IntervalSeries(Value):
    """Mean excess return after each of N days, in per cent a year, with intervals that hold at all
    times together.
    """

    sessions: tuple[int, ...]  #: [N] numbers of the sessions of fills
    mean: Series
    low: Series
    high: Series
    asymptotic_low: Series
    asymptotic_high: Series


class Costs(Value):
    """Model calls of the sessions that are public; null if unknown, which differs from 0."""

    calls: int | None  #: attempts, those without an answer included
    failed: int | None  #: attempts without an answer
    error_rate: float | None  #: failed over all
    usd: Series  #: [D] US dollars of each session; null without an answer or a known price
    tokens: Series  #: [D] tokens of prompts and replies
    usd_total: float | None
    usd_a_day: float | None  #: mean over the sessions with an answer
    tokens_a_day: float | None


class PageEntry(Value):
    """One entrant on one market."""

    entrant: str
    market: str
    model: str
    agent: str
    rank: int | None  #: 1 is the best; null if the card can't be ranked
    labels: tuple[Label, ...]
    evidence: Level
    days: DaysPart
    results: ResultPart
    #: lower end of the Sharpe ratio's 95 % interval, at one look; null if the ratio is undefined
    sharpe_ends: tuple[float, float] | None
    states: tuple[DayState, ...]  #: [D] of the sessions so far on which is decided
    uncounted: int  #: sessions of `states` at the start that are not counted
    equity: Equity
    over_index: IntervalSeries
    over_buy_and_hold: IntervalSeries
    costs: Costs


class PagePair(Value):
    """Mean difference of two entrants of a market over the days that both decided on."""

    market: str
    entrant: str
    minus: str
    excess: Excess


class PageGap(OfDecision):
    """A day without a decision."""

    cause: GapCause
    detail: str


class PagePublication(Value):
    """One publication of the chain."""

    seq: int
    at: datetime
    commit: str
    pushed: bool
    stamped_at: datetime | None


class PageChain(Value):
    """Chain of the record, and its publications."""

    plan: str  #: hash of the plan
    head: str
    links: int
    begun_at: str
    last_at: str
    publications: int
    pushed: int
    stamped: int
    unpublished: int  #: links after the last publication
    latest: tuple[PagePublication, ...]  #: the last ones, newest first
    authority: TimeAuthority | None  #: authority of the stamps; null if the plan names none
    evidence: Level  #: weakest proof of all entries, for a reader without trusted authorities
    proves: str  #: what it proves
    evidence_if_trusted: Level  #: the same, to a reader who trusts the authority


class LivePage(Value):
    """All that the page shows."""

    name: str
    kind: Kind
    as_of: str  #: when the page was made, UTC
    suite_version: str
    first: str
    last: str
    is_sealed: bool  #: whether decisions stay sealed until their fills
    least_activity: float
    level: float  #: of the intervals
    next_due: NextDue | None
    markets: tuple[PageMarket, ...]
    entries: tuple[PageEntry, ...]
    pairs: tuple[PagePair, ...]
    gaps: tuple[PageGap, ...]
    chain: PageChain
