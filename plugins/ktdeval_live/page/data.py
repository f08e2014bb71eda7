"""Data of the live page as typed values, all of them public.

A sealed decision is a day with the state `sealed`. Costs are sums over public days. Series are
rounded to 1e-6 for returns and to 1e-3 for percentages. Totals are taken from the cards.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from ktdeval.runner import TimeAuthority
from ktdeval.values import Value
from ktdeval_live.plan import Kind
from ktdeval_live.publication.publication_evidence import Level
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
    """Next time at which a step has something to do."""

    market: str
    at: str  #: time at which data for the market's next close are requested, UTC


class PageMarket(Value):
    """State of a market."""

    name: str
    task: str
    currency: str
    days_a_year: int  #: number of trading days by which means are taken to a year
    index: str | None  #: name of the index
    #: [S] ISO days of the sessions; orders can only fill, not be decided, on the last one
    days: tuple[str, ...]
    deciding: int  #: number of sessions in the whole test on which decisions are made
    frozen: int  #: number of sessions whose data are frozen
    last_frozen: str | None  #: latest session whose data are frozen
    revisions: int  #: number of later corrections to the data
    next_close: str | None  #: UTC
    next_cutoff: str | None  #: UTC


class Equity(Value):
    """Total return since the start, as a fraction, after each of C counted days."""

    first: int  #: number of the first counted session; the others follow it
    held: Series
    flat: Series
    low: Series  #: lowest total return that decisions on the gap days could have had
    high: Series
    index: Series
    buy_and_hold: Series


class IntervalSeries(Value):
    """Mean excess return after each of N days, in per cent a year, with intervals that hold
    simultaneously at all times.
    """

    sessions: tuple[int, ...]  #: [N] session numbers of the fill days
    mean: Series
    low: Series
    high: Series
    asymptotic_low: Series
    asymptotic_high: Series


class Costs(Value):
    """Model calls on public sessions. Values are null if unknown, which differs from 0."""

    calls: int | None  #: number of attempts, including those without an answer
    failed: int | None  #: number of attempts without an answer
    error_rate: float | None  #: failed / calls
    usd: Series  #: [D] US dollars per session; null without an answer or a known price
    tokens: Series  #: [D] tokens in prompts and replies, per session
    usd_total: float | None
    usd_a_day: float | None  #: mean over sessions with an answer
    tokens_a_day: float | None


class PageEntry(Value):
    """One entrant on one market."""

    entrant: str
    market: str
    model: str
    agent: str
    rank: int | None  #: 1 is best; null if the card can't be ranked
    labels: tuple[Label, ...]
    evidence: Level
    days: DaysPart
    #: why mean excess returns are shown over their days; null if the record spans a year
    no_year: str | None
    results: ResultPart
    #: lower and upper end of the Sharpe ratio's 95 % interval at a single look; null if the ratio
    #: is undefined
    sharpe_ends: tuple[float, float] | None
    states: tuple[DayState, ...]  #: [D] states of the sessions so far on which decisions are made
    uncounted: int  #: number of sessions at the start of `states` that are not counted
    equity: Equity
    over_index: IntervalSeries
    over_buy_and_hold: IntervalSeries
    costs: Costs


class PagePair(Value):
    """Mean difference between two entrants in a market, over the days on which both decided."""

    market: str
    entrant: str
    minus: str
    no_year: str | None  #: why the difference is shown over its days; null if it spans a year
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
    unpublished: int  #: number of links after the last publication
    latest: tuple[PagePublication, ...]  #: latest publications, newest first
    authority: TimeAuthority | None  #: authority for the stamps; null if the plan names none
    evidence: Level  #: weakest evidence over all entries, for a reader who trusts no authority
    proves: str  #: what this evidence proves
    evidence_if_trusted: Level  #: weakest evidence, for a reader who trusts the authority


class LivePage(Value):
    """All that the page shows."""

    name: str
    kind: Kind
    as_of: str  #: time at which the page was made, UTC
    suite_version: str
    first: str
    last: str
    is_sealed: bool  #: whether decisions stay sealed until their orders fill
    least_activity: float
    level: float  #: confidence level of the intervals
    next_due: NextDue | None
    markets: tuple[PageMarket, ...]
    entries: tuple[PageEntry, ...]
    pairs: tuple[PagePair, ...]
    gaps: tuple[PageGap, ...]
    chain: PageChain
