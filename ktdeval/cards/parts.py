"""Parts of result cards as typed values: figures, counts, the market, the calls."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from ktdeval.calls.tally import EpisodeCalls
from ktdeval.masking.lens import MaskKind as MaskKind
from ktdeval.stats.metric import is_never
from ktdeval.stats.series import TRADING_DAYS
from ktdeval.typed import Value

# An integer and a float are different JSON: a card keeps which of the two it was written with.
Number = int | float
NonNegative = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
Share = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0)]
Counts = dict[str, Count]
Name = Annotated[str, Meta(min_length=1)]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}")]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
EpisodeId = Annotated[str, Meta(pattern="^[0-9a-f]{20}$")]
Limit = Annotated[int, Meta(ge=1)]
Range = Annotated[list[Number | None], Meta(min_length=2, max_length=2)]


class Figure:
    """Something that has a value, or null and a `reason` why there is none: the rule that its subclasses keep when made."""

    __slots__ = ()
    KEY: ClassVar[str] = "value"
    """Field that is null where there is a reason."""
    NEEDED: ClassVar[tuple[str, ...]] = ()
    """Further fields that stand wherever there is a value."""
    reason: str | UnsetType

    def __post_init__(self) -> None:
        if getattr(self, self.KEY) is None:
            if self.reason is UNSET:
                raise ValueError("field 'reason' is missing")
        elif self.reason is not UNSET:
            raise ValueError("has a reason though it has a value")
        elif missing := [name for name in self.NEEDED if getattr(self, name) is UNSET]:
            raise ValueError(f"field {missing[0]!r} is missing")


class Interval(Figure, Value, frozen=True, kw_only=True):
    """Where the figure may lie: over days for one episode, over episodes for several. Ends are null with a reason."""

    KEY: ClassVar[str] = "low"

    kind: Name  #: how it was made, such as interquartile or a bootstrap
    low: Number | None
    high: Number | None
    level: Annotated[float, Meta(gt=0, lt=1)] | UnsetType = UNSET  #: nominal coverage
    n: Count | UnsetType = UNSET  #: observations that it rests on
    #: mean block length of the resamples
    block_days: Annotated[int, Meta(ge=1)] | Annotated[float, Meta(ge=1)] | UnsetType = UNSET
    draws: Count | UnsetType = UNSET  #: resamples
    #: standard error of the less certain end from their number being finite, in the unit of the figure
    monte_carlo_se: NonNegative | UnsetType = UNSET
    coverage: Share | UnsetType = UNSET  #: measured share of simulated samples of this size whose truth it covers
    reason: Name | UnsetType = UNSET  #: why there are no ends


def ordered_value(value: float | None, reason: str | UnsetType) -> float | None:
    """Return a value for orders and medians: infinite where its reason says never, None where it is undefined."""
    return math.inf if value is None and reason is not UNSET and is_never(reason) else value


class Line(Figure, Value, frozen=True, kw_only=True):
    """A figure over all finished episodes."""

    value: Number | None  #: median over the episodes where the figure is defined
    n: Count  #: episodes that the median rests on
    interval: Interval | UnsetType = UNSET  #: where it may lie
    never: Count | UnsetType = UNSET  #: of these, where the figure is never reached, which counts as later than any number
    undefined: Counts  #: finished episodes where the figure is undefined, by reason
    reason: Name | UnsetType = UNSET

    @property
    def ordered(self) -> float | None:
        """Value for orders and medians: infinite where it is never reached, None where it is undefined."""
        return ordered_value(self.value, self.reason)


class Definition(Value, frozen=True):
    """Meaning of a metric or score."""

    better: Literal["higher", "lower", "neither"]
    formula: Name  #: identifier with version, and formula
    headline: bool
    range: Range  #: least and greatest value that it can take; null where it is unbounded
    source: Name
    unit: Name


class MetricLine(Figure, Definition, frozen=True, kw_only=True):
    """A metric over all finished episodes, with what it means; value, n and undefined as of a line."""

    value: Number | None
    n: Count
    interval: Interval | UnsetType = UNSET
    never: Count | UnsetType = UNSET
    undefined: Counts
    reason: Name | UnsetType = UNSET


class EpisodeMetric(Figure, Value, frozen=True, kw_only=True):
    """A metric of one episode: a number, or null with a reason."""

    value: Number | None
    n: Count  #: observations (days, steps, orders, calls) that the value rests on
    interval: Interval | UnsetType = UNSET
    detail: Any = UNSET  #: the metric's table, such as calibration bins
    reason: Name | UnsetType = UNSET

    @property
    def ordered(self) -> float | None:
        """Value for orders and medians: infinite where it is never reached, None where it is undefined."""
        return ordered_value(self.value, self.reason)


class TaskPart(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Task that ran.

    mask, mode: absent where the task has none.
    """

    name: Name
    version: Name
    mask: MaskKind | None = None
    mode: Name | None = None
    hash: Sha256  #: SHA-256 of the canonical JSON of config
    #: the resolved task config, with data card and sources; prompts enter by their hashes, a target task with its whole config as
    #: subject_config
    config: dict[str, Any]


class TradingTaskPart(TaskPart, frozen=True):
    """A trading task that ran."""

    mask: MaskKind
    mode: Name


class Pluggable(Value, frozen=True):
    """A model or agent with its parameters."""

    name: Name
    args: dict[str, Any]


class SnapshotPart(Value, frozen=True):
    """Market."""

    id: Sha256  #: SHA-256 over the snapshot's canonical content
    name: Name
    source: str
    synthetic: bool
    has_factor: bool
    repairs: list[str]
    benchmark: Name  #: code of the index; `none` where the market has none
    benchmark_name: Name
    assets: Count
    first_day: Day
    last_day: Day
    documents: Literal["no entity list"] | UnsetType = UNSET  #: where texts have no list of words that give assets away
    venues: list[Name] | UnsetType = UNSET  #: where it is no market of A-shares alone, as the three after it
    currency: Name | UnsetType = UNSET
    minor_per_unit: Count | UnsetType = UNSET  #: minor units, in which money is counted, in a unit of the currency
    days_a_year: Count | UnsetType = UNSET  #: days that annualised figures count with

    @property
    def year(self) -> int:
        """Days that annualised figures count with, of A-shares too."""
        return self.days_a_year or TRADING_DAYS


class WindowPart(Value, frozen=True):
    """A window."""

    name: Name
    first: Day
    last: Day
    days: Count  #: trading days in it


class Coverage(Value, frozen=True):
    """How much of the plan was run, and decided by the model; a scoring task's step is a sample."""

    episodes_planned: Count
    episodes_finished: Count
    steps_planned: Count  #: steps of the whole plan, missing episodes included
    steps: Count  #: steps of the finished episodes
    steps_decided: Count  #: of these, steps that the model decided, or samples with a valid answer of it


class Rankable(Value, frozen=True):
    """Whether the card may stand in a ranking, and every reason why not."""

    value: bool
    reasons: list[Name]


class Decisions(Value, frozen=True):
    """Steps by who decided them."""

    model: Count
    model_after_retry: Count
    fallback: Count
    error: Count


class UsageCounts(Value, frozen=True):
    """Tokens, tool calls and submissions."""

    input_tokens: Count
    output_tokens: Count
    reasoning_tokens: Count
    cache_read_tokens: Count
    cache_write_tokens: Count
    tool_calls: Count
    tool_calls_valid: Count
    submissions: Count


class MissingEpisode(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A planned episode without a complete record."""

    id: EpisodeId
    window: Name | None = None  #: absent where the task asks about no market
    seed: int
    error: Name


class Finished(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of every finished episode: one window, one seed."""

    id: EpisodeId
    window: Name | None = None  #: absent where the task asks about no market
    seed: int
    decisions: Decisions
    failures: Counts  #: failures by kind
    usage: UsageCounts
    #: replies whose tokens the provider did not count, so that usage lacks them; a model that bills nothing has none
    uncounted: Count = 0


class PriceEntry(Value, frozen=True):
    """US dollars a million tokens."""

    input: NonNegative
    output: NonNegative
    cache_read: NonNegative | None  #: null: as input
    cache_write: NonNegative | None  #: null: as input
    as_of: str  #: day of the price; empty where it has none
    source: str


class SideDays(Value, frozen=True):
    """Trading days of a window by where their returns lie to a cutoff: before, across (it lies within, or may) and after."""

    before: Count
    across: Count
    after: Count


class CutoffEntry(Value, frozen=True):
    """End of a model's training data, as a run records it."""

    date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}(-\d{2})?$")]  #: a day, or the month of which the day is not public
    #: vendor: read in the vendor's documentation; reported: by others; given: by the user; recorded: by who trained the policy
    confidence: Literal["vendor", "reported", "given", "recorded"]
    source: Name


NoCutoff = Literal["none", "unknown"]
"""A model without an end of training data: nothing was trained, or the end is not known. Two states, never one null."""


class KnowledgeCutoff(CutoffEntry, frozen=True):
    """End of the model's training data, and where the card's days lie to it. The date is the word of who ran it."""

    windows: dict[Name, SideDays]  #: of each window, as far as its episodes go


class TokenCost(Figure, Value, frozen=True, kw_only=True):
    """US dollars of the tokens that the replies of the finished episodes took, cached or not; null where price or tokens are not
    known.
    """

    NEEDED: ClassVar[tuple[str, ...]] = ("currency", "per_episode", "price")

    value: NonNegative | None
    currency: Literal["USD"] | UnsetType = UNSET
    price: PriceEntry | UnsetType = UNSET
    per_episode: Line | UnsetType = UNSET  #: US dollars of an episode
    reason: Name | UnsetType = UNSET


class TradingCost(TokenCost, frozen=True, kw_only=True):
    """US dollars of the tokens, and what they bought."""

    NEEDED: ClassVar[tuple[str, ...]] = (*TokenCost.NEEDED, "return_per_usd")

    return_per_usd: Line | UnsetType = UNSET  #: total_return of an episode by its US dollars


class Drift(Figure, Value, frozen=True, kw_only=True):
    """How far the answers to fixed questions moved between the start and the end of the run; null where that is not known."""

    NEEDED: ClassVar[tuple[str, ...]] = ("excess", "noise", "prompts", "served_by_changed")

    value: Share | None  #: mean distance of an answer at the start from one at the end, 0 equal to 1 wholly different
    noise: Share | UnsetType = UNSET  #: mean distance of two answers at one time
    excess: Annotated[int, Meta(ge=-1, le=1)] | Annotated[float, Meta(ge=-1, le=1)] | UnsetType = UNSET  #: value less noise
    prompts: Count | UnsetType = UNSET  #: questions that were answered at both times
    served_by_changed: bool | UnsetType = UNSET  #: whether the provider named another model at the end than at the start
    reason: Name | UnsetType = UNSET


class Latencies(Value, frozen=True):
    """Seconds of the answered attempts."""

    median: NonNegative | None
    p90: NonNegative | None
    p99: NonNegative | None
    longest: NonNegative | None


class CheckCalls(Value, frozen=True):
    """Calls of no episode, shared by all cards of the run: the capability check and the fixed questions."""

    requests: Count
    attempts: Count
    paid_usd: NonNegative | None
    possibly_paid_usd: NonNegative


class Calls(Value, frozen=True):
    """Calls of the card's episodes, all sessions of the run together."""

    requests: Count  #: different requests, whatever became of them
    attempts: Count  #: attempts made, those that failed included
    answered: Count  #: attempts that were answered
    cached: Count  #: answers of earlier calls of others, taken from the reply cache
    repeated: Count  #: answers given once more to steps that were interrupted and ran again; in neither count before
    unused: Count  #: answers that no transcript holds: of steps that ran again and were then answered otherwise
    failed_attempts: Counts  #: attempts without an answer, by kind
    tokens: Counts  #: tokens of the answered attempts
    paid_usd: NonNegative | None  #: US dollars of the answered attempts; null where a price is not known
    possibly_paid_usd: NonNegative  #: US dollars that attempts without an answer may have been billed, at most
    latency_s: Latencies
    lost_s: NonNegative  #: seconds of the attempts without an answer
    served_by: Counts  #: answered requests by what the provider says it answered with
    checks: CheckCalls
    episodes: dict[EpisodeId, EpisodeCalls]  #: calls of each episode that asked, by its id


class Provenance(Value, frozen=True):
    """Only part that may differ between two runs of the same plan."""

    created_at: Time
    suite_version: Name
    source_revision: str | None  #: revision of the source; null where it is not known
    wall_time_s: NonNegative | None  #: null where it was not measured
    environment: dict[str, Any]
    calls: Calls | None  #: what was asked of the provider, and paid; null where nothing was
