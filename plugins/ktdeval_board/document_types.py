"""A board's documents as typed values, written by submitters and by the board's check. Their JSON
Schemas are generated from these types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from ktdeval.trading import Provenance
from ktdeval.values import AddressText, JsonValue, Value

_PATTERNS = {
    "[a-z0-9-]": "lower-case letters, digits and dashes",
    "{64}": "64 hexadecimal digits",
    "[0-9]{4}": "a day as YYYY-MM-DD",
    "@[": "an e-mail address, or an https address",
    "^https": "an address that begins with https://",
    "^[^<>": "one line of plain text without < and >",
}


def in_words(message: str) -> str:
    """Return a document's error message, with a failed pattern replaced by a description of the
    expected form.
    """
    head, regex, pattern = message.partition(" matching regex ")
    words = (words for part, words in _PATTERNS.items() if part in pattern)
    return f"{head} of {next(words, pattern)}" if regex else message


# A plain `$` would accept a line break at the end.
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
EpisodeId = Annotated[str, Meta(pattern=r"^[0-9a-f]{20}$(?!\n)")]
Day = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$(?!\n)",
        extra_json_schema={"format": "date"},
    ),
]
Line = Annotated[
    str,
    Meta(
        description="One line of plain text, without markup or control characters.",
        min_length=1,
        max_length=300,
        pattern="^[^<>\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u200b-\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ud800-\\udfff]*$(?!\n)",
    ),
]
Address = Annotated[
    str, Meta(pattern=r"""^https://[^\s<>"']+$(?!\n)""", max_length=300), AddressText()
]
Contact = Annotated[
    str,
    Meta(
        pattern=r"""^([^\s<>@"']+@[^\s<>@"']+\.[^\s<>@"']+|https://[^\s<>"']+)$(?!\n)""",
        max_length=200,
    ),
    AddressText(),
]
Count = Annotated[int, Meta(ge=0)]
Version1 = Literal[1]
RECORD_FORM = (
    r"manifest\.json|canary\.json|certificate\.json|anchors\.jsonl"
    r"|episodes/[0-9a-f]{20}/(ledger\.parquet|answers\.jsonl\.zst|transcript\.jsonl\.zst|episode\.json)"
)
"""Names of record files, relative to their folder."""
RecordPath = Annotated[
    str, Meta(description="Relative to the run folder.", pattern=rf"^({RECORD_FORM})$(?!\n)")
]

Tier = Literal["unchecked", "self-reported", "re-executed", "re-run"]
"""Extent to which the board has confirmed a card's figures:

    unchecked       no verdict on these exact bytes yet; never ranked
    self-reported   valid and complete, but its records or its market are not available
    re-executed     every figure follows from the recorded replies, on the board's own market
    re-run          the board's maintainers also ran the plan themselves
"""
TRUST: tuple[Tier, ...] = ("re-run", "re-executed", "self-reported", "unchecked")
"""Tiers, the best confirmed first."""


Stored = Literal["repository", "elsewhere"]
"""Storage of a card's records: under records/<card id>/, or not in the repository."""


class OmitDefaults(Value, frozen=True, omit_defaults=True, kw_only=True):
    """Base of documents that omit fields with their default values."""


class Submitter(OmitDefaults, frozen=True, kw_only=True):
    """Person or team that submits."""

    name: Line  #: Who submits: a person or a team
    #: E-mail address, or https address of a profile, for questions.
    contact: Contact
    organisation: Line = ""
    url: Address = ""


Cutoff = Annotated[
    str, Meta(pattern=r"^([0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])|none|unknown)$(?!\n)")
]


class SubmittedModel(OmitDefaults, frozen=True, kw_only=True):
    """Model, with facts that only its submitter knows."""

    name: Line  #: Full name of the model, as on the card
    #: Last day of the training data; none: nothing was trained (a rule); unknown: not known.
    cutoff_date: Cutoff
    #: Source of the date, evidence that nothing was trained, or why the date is unknown
    cutoff_source: Line
    released_on: Day = ""
    open_weights: bool | None = None
    url: Address = ""

    def __post_init__(self) -> None:
        _check_days(cutoff_date=self.cutoff_day, released_on=self.released_on)

    @property
    def cutoff_day(self) -> str | None:
        """Last day of the training data; None if nothing was trained, or if it is unknown."""
        return self.cutoff_date if self.cutoff_date[0].isdigit() else None


class SubmittedAgent(OmitDefaults, frozen=True, kw_only=True):
    """Agent scaffold."""

    name: Line  #: Name of the agent scaffold, as on the card
    #: A word for the agent's strategy, such as baseline; the site filters by it
    strategy: Line = ""
    url: Address = ""


class Attempts(OmitDefaults, frozen=True, kw_only=True):
    """Number of runs."""

    #: Number of runs of this model and agent on this task's windows, including the submitted run
    #: and limited or aborted runs.
    runs: Annotated[int, Meta(ge=1, le=1_000_000)]
    note: Line = ""


class Submission(OmitDefaults, frozen=True, kw_only=True):
    """Submission of a ktdeval result card to a leaderboard, version 1."""

    schema_version: Version1
    card: Sha256  #: SHA-256 of the card's file
    submitter: Submitter
    model: SubmittedModel
    agent: SubmittedAgent
    attempts: Attempts
    submitted_on: Day
    #: Statement that the records are those of one unaltered run, chosen before its result was
    #: known.
    statement: Annotated[bool, Meta(extra_json_schema={"const": True})]
    note: Line = ""

    def __post_init__(self) -> None:
        _check_days(submitted_on=self.submitted_on)
        if not self.statement:
            raise ValueError("statement: must be true")


class RecordFile(Value, frozen=True, kw_only=False):
    """File of the records."""

    path: RecordPath
    sha256: Sha256
    bytes: Count


class Records(OmitDefaults, frozen=True, kw_only=True):
    """Records of a submitted ktdeval result card, version 1."""

    schema_version: Version1
    card: Sha256
    #: `repository`: under records/<card id>/. `elsewhere`: not in the repository
    stored: Stored
    files: Annotated[tuple[RecordFile, ...], Meta(max_length=100_000)]
    #: Address of records that are stored elsewhere; the board's check never opens it
    url: Address = ""


class ImportSource(Value, frozen=True):
    """File that was imported."""

    sha256: Sha256
    bytes: Count


class Harness(Value, frozen=True, kw_only=True):
    """Harness that wrote the results."""

    name: Line
    version: Line | None  #: Null if the file does not state it
    revision: Line | None  #: Revision of the source that ran; null if the file does not state it


class ImportedModel(Value, frozen=True, kw_only=True):
    """Model, as named by the harness."""

    name: Line
    backend: Line | None  #: Software with which the harness ran the model, such as hf or vllm


class ImportedResult(OmitDefaults, frozen=True, kw_only=True):
    """One figure."""

    task: Line
    task_version: Line | None  #: Null if the file does not state it
    metric: Line
    filter: Line  #: How answers were extracted from replies; `none` if they were used unchanged
    value: float | None  #: In the harness's own unit
    reason: Line = ""  #: Why the value is null
    stderr: Annotated[float, Meta(ge=0)] | None  #: Standard error, in the unit of the value
    n: Count | None  #: Number of samples; null if the file does not state it
    higher_is_better: bool | None  #: Null if the file does not state it
    few_shot: Count | None  #: Number of examples in the prompt; null if the file does not state it
    is_group: bool  #: Whether it aggregates other tasks of the file

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.reason):
            raise ValueError("reason: required if the value is null, and only then")


class Imported(Value, frozen=True, kw_only=True):
    """Results of another harness, imported into a ktdeval leaderboard, version 1: shown as
    imported, never ranked.
    """

    schema_version: Version1
    source: ImportSource
    harness: Harness
    model: ImportedModel
    date: Day | None  #: Day of the evaluation (UTC); null if the file does not state it
    #: Limit on each task's samples, or a share of them if below 1; null: no limit
    limit: float | None
    results: Annotated[tuple[ImportedResult, ...], Meta(min_length=1, max_length=20_000)]
    notes: Annotated[tuple[Line, ...], Meta(max_length=1000)]  #: What was omitted, and why


def _check_days(**days: str | None) -> None:
    """Raise ValueError for a day that does not exist, such as 2023-02-30."""
    for field, day in days.items():
        if day:
            try:
                date.fromisoformat(day)
            except ValueError as error:
                raise ValueError(f"{field}: {day} is not a day") from error


Reason = Annotated[str | None, Meta(description="Why the value is missing; null if it is not.")]
Line4 = Annotated[
    list[float] | None,
    Meta(
        description=(
            "[n] linked contribution since the base day; all parts add up to the return. Old series"
            " have no industry."
        )
    ),
]


class Figure(Value, frozen=True, kw_only=False):
    """Headline figure, as submitted and as reproduced."""

    submitted: float | None
    rerun: float | None


class Rerun(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Run of the same plan by the board's maintainers."""

    by: str
    on: Day
    card: Sha256  #: SHA-256 of the card of the maintainers' run
    figures: dict[str, Figure]  #: Headline figures, as submitted and as reproduced
    #: Whether the run had a mask key that neither the submitted card nor a registration has; absent
    #: if not
    own_key: bool = False


class Verdict(Value, frozen=True, kw_only=True):
    """Verdict of a board's check on a submitted card, version 1."""

    schema_version: Version1 = 1
    card: Sha256
    division: str
    tier: Literal["self-reported", "re-executed", "re-run"]
    checked_on: Day
    suite_version: str
    episodes: Count  #: Number of episodes that were re-executed
    steps: Count  #: Number of steps that were re-executed
    notes: tuple[str, ...]  #: Why the tier is not higher, and other notes for readers
    rerun: Rerun | None

    @property
    def is_executed(self) -> bool:
        """Return whether the board itself re-executed the card's replies or ran its plan."""
        return self.tier != "self-reported"


class Certified(Value, frozen=True, kw_only=True):
    """Verdict of a board's maintainers on a certificate: its attack runs were verified."""

    schema_version: Version1 = 1
    certificate: Sha256
    checked_on: Day
    suite_version: str
    runs: tuple[str, ...]


class Envelope(Value, frozen=True, kw_only=True):
    """Random traders with an episode's level of activity."""

    levels: list[float]  #: Quantile levels of the bands
    bands: list[list[float]]  #: For each level, [n + 1] NAV divided by the initial cash
    #: Share of the random traders that the episode beats; ties count half
    rank: Annotated[float, Meta(ge=0, le=1)]
    p_value: Annotated[float, Meta(ge=0, le=1)]
    paths: Annotated[int, Meta(ge=1)]


_LEVELS = ("nav", "gross_nav", "benchmark", "asset")
"""An episode's lists that begin with the base day."""
_PER_DAY = (
    "invested",
    "names",
    "turnover",
    "common",
    "industry",
    "style",
    "selection",
    "trading",
    "selection_daily",
)


class EpisodeSeries(Value, frozen=True, kw_only=True):
    """Days of one episode."""

    id: EpisodeId
    window: str
    seed: int
    base_day: Day  #: Day of the first decision, whose close is the base of all levels
    #: [n] days of fills; all other figures are at the closes of these days
    days: Annotated[list[Day], Meta(min_length=1)]
    nav: list[float]  #: [n + 1] NAV divided by the initial cash; the first is 1
    gross_nav: list[float]  #: [n + 1] compounded daily returns before fees
    benchmark: (
        list[float] | None
    )  #: [n + 1] level of the benchmark divided by its level on the base day
    benchmark_reason: Reason
    invested: list[float]  #: [n] holdings at the close, as a fraction of the NAV
    names: list[Count]  #: [n] number of assets held at the close
    turnover: list[float]  #: [n] notional bought and sold, as a fraction of the NAV at the open
    common: Line4
    industry: Line4 = None
    style: Line4
    selection: Line4
    trading: Line4
    selection_daily: list[float] | None  #: [n] selection of each day, not linked
    #: Factor to mean exposure over the days with holdings; null without any
    exposures: dict[str, float | None] | None
    attribution_reason: Reason
    envelope: Envelope | None
    envelope_reason: Reason
    #: [n + 1] price of a task's only asset divided by its price on the base day; present if figures
    #: compare with its Buy & Hold.
    asset: list[float] | UnsetType = UNSET

    def __post_init__(self) -> None:
        n = len(self.days)
        lengths = dict.fromkeys(_LEVELS, n + 1) | dict.fromkeys(_PER_DAY, n)
        for name, length in lengths.items():
            values = getattr(self, name)
            if isinstance(values, list) and len(values) != length:
                raise ValueError("its lists do not match its days")


class Series(Value, frozen=True, kw_only=True):
    """Daily series of a checked ktdeval result card, version 1: derived from the records, with six
    significant digits.
    """

    schema_version: Version1
    card: Sha256
    episodes: list[EpisodeSeries]  #: In the order of the card


class Order(Value, frozen=True, kw_only=True):
    """An order on one day."""

    #: The stock; if no stock has that name, the model's own text
    code: Annotated[str, Meta(max_length=40)]
    side: Literal["BUY", "SELL"]
    asked: Annotated[str, Meta(max_length=40)]  #: The target weight, such as `8 %`, or `300 shares`
    filled: (
        Count | Annotated[float, Meta(ge=0)]
    )  #: Number of shares or coins; whole shares for A-shares
    price: (
        float | None
    )  #: Price per share, in the currency of the market; null if nothing was filled
    status: Literal["filled", "partially_filled", "rejected"]
    #: The trading rule that rejected or reduced the order; null if it was filled completely.
    rule: Annotated[str, Meta(max_length=40)] | None
    reason: Annotated[str, Meta(max_length=160)]  #: The model's reason, cut to 160 characters


class DecisionStep(Value, frozen=True, kw_only=True):
    """Decision on one day."""

    day: Day  #: Day of the fills
    decided_on: Day  #: Day of the decision, whose close was the last thing known
    #: Who decided: the model, or the engine, which then holds
    by: Provenance
    why: Annotated[str, Meta(max_length=300)]  #: The model's overall reason, cut to 300 characters
    orders: tuple[Order, ...]
    #: [code, weight] at the close, largest first, shorts (negative) last; weights are fractions of
    #: the NAV
    holdings: tuple[tuple[str, float], ...]


class SignalCounts(Value, frozen=True, kw_only=True):
    """Number of signals of an analyst."""

    Bullish: Count = 0
    Bearish: Count = 0
    Neutral: Count = 0
    no_signal: Count = 0  #: Number of assets shown for which the answer has no readable signal


class EpisodeDecisions(Value, frozen=True, kw_only=True):
    """Decisions of one episode."""

    id: EpisodeId
    window: str
    seed: int
    steps: tuple[DecisionStep, ...]
    #: Signals of each analyst of a team over all days and assets; present if a fund's team gave
    #: any.
    signals: Annotated[dict[str, SignalCounts], Meta(max_length=40)] | UnsetType = UNSET


class Decisions(Value, frozen=True, kw_only=True):
    """Orders and holdings by day of a checked ktdeval result card, version 1. Reasons are plain
    text by the model, never markup.
    """

    schema_version: Version1
    card: Sha256
    episodes: tuple[EpisodeDecisions, ...]  #: In the order of the card


DIGITS = 6
"""Significant digits of all derived figures: NAVs stay exact to a hundredth of a basis point, and
files shrink to a third.
"""


def round_floats(value: JsonValue) -> JsonValue:
    """Return a JSON value with each float rounded to `DIGITS` significant digits; non-finite floats
    become null.
    """
    if isinstance(value, float):
        return rounded_or_none(value)
    if isinstance(value, Mapping):
        return {name: round_floats(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [round_floats(member) for member in value]

    return value


def rounded_or_none(value: float | None) -> float | None:
    """Return a number to `DIGITS` significant digits; None for None and non-finite numbers."""
    if value is None or not math.isfinite(value):
        return None

    # `+ 0.0` turns minus zero into zero.
    return float(f"{value:.{DIGITS}g}") + 0.0
