"""The live card as a typed value, from which its JSON Schema is generated (`python -m
ktdeval_live.results.card_types`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from ktdeval.cards import (
    Card,
    Count,
    Counts,
    Day,
    Figure,
    Name,
    Number,
    Pluggable,
    Sha256,
    Share,
    Time,
    card_schema,
)
from ktdeval.runner import TimeAuthority
from ktdeval.values import Value, dumps_pretty, write_atomic
from ktdeval_live.publication.publication_evidence import Level

KIND = "live"
SCHEMA_FILE = Path(__file__).with_name("live-card-v1.json")


class TestPart(Value, frozen=True):
    """The forward test, and its progress."""

    name: Name
    kind: Literal["live", "rehearsal"]
    plan: Sha256  #: hash of the plan
    first: Day
    last: Day
    head: Sha256  #: hash of the last link of the chain that is counted
    links: Count  #: links of the chain until it


class EvidencePart(Value, frozen=True):
    """What proves when the decisions were made. A card can't know its reader, and so is never
    `stamped` by itself.
    """

    publications: Count
    pushed: Count  #: publications that went to a remote repository
    stamped: Count  #: those with a time stamp of an authority
    authority: TimeAuthority | None  #: authority of the stamps; null if the plan names none
    #: `pushed`: each counted decision lies before a push, whose time the remote has to attest;
    #: `claimed (own authority)`: before a stamp of the authority; `claimed`: by the maintainer's
    #: clock alone
    level: Literal["claimed", "claimed (own authority)", "pushed"]
    level_if_trusted: Level  #: the same, to a reader who trusts the authority


class MarketPart(Value, frozen=True):
    """Market of the entry."""

    name: Name
    base: Sha256  #: id of the market before the test
    settled: Sha256  #: id of the market on which the figures rest
    synthetic: bool
    assets: Count
    currency: Name
    days_a_year: Count


class DaysPart(Value, frozen=True):
    """Days of fills, by outcome."""

    settled: Count  #: number of days with data
    shadow: Count  #: recorded and not counted: shadow days, and those before the entrant joined
    counted: Count
    decided: Count  #: counted days with a decision
    gaps: Counts  #: counted days without one, by cause
    revisions: Count  #: later corrections of the market's data


class LiveFigure(Figure, Value, frozen=True, kw_only=True):
    """One figure; null with a reason if it is undefined."""

    value: Number | None
    reason: Name | UnsetType = UNSET


class LiveInterval(Figure, Value, frozen=True, kw_only=True):
    """Interval that holds at all times together, in per cent per year; an end is null while it is
    unbounded.
    """

    KEY = "n"
    n: Count | None  #: days that it rests on
    mean: Number | None = None  #: in per cent a year
    low: Number | None = None
    high: Number | None = None
    level: Number = 0.95
    reason: Name | UnsetType = UNSET


class Excess(Value, frozen=True):
    """Mean excess return over something, over counted days with a decision."""

    symmetric: LiveInterval  #: primary: of conditionally symmetric deviations
    asymptotic: LiveInterval  #: in the limit of many days, from day 100 on
    skewness: LiveFigure  #: of the daily differences
    autocorrelation: LiveFigure  #: autocorrelation of the daily differences at lag 1


class ResultPart(Value, frozen=True):
    """Figures over the counted days; returns as fractions."""

    held: LiveFigure  #: total return of the account: positions stay on days without a decision
    flat: LiveFigure  #: with a return of 0 on days without a decision
    low: LiveFigure  #: least total return that decisions on those days could have had
    high: LiveFigure  #: greatest
    index: LiveFigure  #: total return of the index
    buy_and_hold: LiveFigure  #: total return of equal parts of all assets
    sharpe: LiveFigure  #: annualised, of the account
    activity: LiveFigure  #: share of the counted days with an order or a position
    over_index: Excess
    over_buy_and_hold: Excess


class LiveProvenance(Value, frozen=True):
    """Where and when the card was made; the only part that may differ between two equal ones."""

    created_at: Time
    suite_version: Name


Label = Literal[
    "rehearsal",
    "synthetic",
    "not stamped",
    "own authority",
    "gaps",
    "wide bounds",
    "inactive",
    "few days",
]


class LiveCard(Card, frozen=True):
    """One entrant's forward test on one market, up to now."""

    kind: Literal["live"]
    schema_version: Literal[1]
    test: TestPart
    entrant: Name
    model: Pluggable
    agent: Pluggable
    task: Name
    system: Annotated[str, Meta(pattern="^[0-9a-f]{20}$")]  #: identity of task, model and agent
    market: MarketPart
    evidence: EvidencePart
    days: DaysPart
    results: ResultPart
    least_activity: Share  #: below it an entrant has no rank
    labels: list[Label]
    provenance: LiveProvenance


if __name__ == "__main__":
    write_atomic(SCHEMA_FILE, dumps_pretty(card_schema(LiveCard, KIND)))
