"""Types of the facts that a run records on a card, except facts about episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType, field

from ktdeval.calls.costs.prices import PriceEntry
from ktdeval.cards.fields.base_types import (
    Count,
    Day,
    Figure,
    Name,
    NonNegative,
    Number,
    Range,
    Sha256,
    Share,
    Time,
)
from ktdeval.cards.fields.origin.anchor_fact import AnchorFact
from ktdeval.cards.fields.replies.calls import Calls
from ktdeval.cards.fields.returns.medians import EpisodeMetric, Interval
from ktdeval.harness.external.external_acts import ShownPart
from ktdeval.harness.traits import DeciderKind
from ktdeval.market.rules.calendar import parse_day
from ktdeval.market.snapshots.writing_systems import Script
from ktdeval.market.venues.venue import FillRule
from ktdeval.masking.mask_config import MaskKind
from ktdeval.task_api.scoring import worst_figure
from ktdeval.values.documents.typed_json import Value
from ktdeval.values.requests.secret_free_addresses import Arguments


class TaskPart(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Task of the run.

    mask, mode: absent if the task has none.
    """

    name: Name
    version: Name
    mask: MaskKind | None = None
    mode: Name | None = None
    hash: Sha256  #: SHA-256 of the canonical JSON of config
    #: the resolved task config, with data card and sources; prompts are included by their hashes, a
    #: target task with its whole config as subject_config
    config: dict[str, Any]


class TradingTaskPart(TaskPart, frozen=True):
    """Trading task of the run."""

    mask: MaskKind
    mode: Name


class Pluggable(Value, frozen=True):
    """A model or agent with its parameters."""

    name: Name
    args: Arguments


class SnapshotPart(Value, frozen=True, kw_only=True):
    """Market."""

    id: Sha256  #: SHA-256 over the snapshot's canonical content
    name: Name
    source: str
    synthetic: bool
    has_factor: bool
    repairs: list[str]
    benchmark: Name  #: code of the index; `none` if the market has none
    benchmark_name: Name
    assets: Count
    first_day: Day
    last_day: Day
    #: true if the market was derived from another one such that no selection can succeed
    placebo: Literal[True] | UnsetType = UNSET
    #: true if the texts come without a list of words that identify assets
    documents: Literal["no entity list"] | UnsetType = UNSET
    #: true if the texts contain scripts in which most assets have no name
    unnamed_scripts: list[Script] | UnsetType = UNSET
    venues: list[Name]  #: names of the venues whose rules apply to its assets
    currency: Name
    minor_per_unit: Count  #: minor units per unit of the currency; money is counted in minor units
    days_a_year: Count  #: days per year for annualised figures

    @property
    def is_placebo(self) -> bool:
        """Return whether the market was derived from another one in such a way that true selection
        skill is zero.
        """
        return self.placebo is True

    @property
    def has_plain_texts(self) -> bool:
        """Return whether the documents come without a list of words that identify assets."""
        return self.documents == "no entity list"

    @property
    def has_unnamed_scripts(self) -> bool:
        """Return whether the documents contain a script in which most assets have no name."""
        return self.unnamed_scripts is not UNSET


class WindowPart(Value, frozen=True):
    """A window."""

    name: Name
    first: Day
    last: Day
    days: Count  #: trading days in it


Side = Literal["before", "across", "after"]


SIDES: tuple[Side, ...] = ("before", "across", "after")


class SideDays(Value, frozen=True):
    """Trading days of a window by the position of their returns relative to a cutoff: before,
    across (the return spans the cutoff, or may) and after.
    """

    before: Count
    across: Count
    after: Count

    @property
    def total(self) -> int:
        """Total number of trading days."""
        return self.before + self.across + self.after

    @property
    def side(self) -> Side:
        """Side of the whole window: the side that all its days share, otherwise `across`."""
        for side in SIDES:
            if getattr(self, side) == self.total:
                return side
        return "across"


CutoffConfidence = Literal["vendor", "reported", "reported_lower_bound", "given", "recorded"]
"""Source of the end of a model's training data. vendor: its documentation; reported: third parties;
reported_lower_bound: third parties, about the model's knowledge, so that the data end then or
later; given: the user; recorded: the policy's own training.
"""


LOWER_BOUND: CutoffConfidence = "reported_lower_bound"


class CutoffEntry(Value, frozen=True):
    """End of a model's training data, as a run records it."""

    #: a day, or a month if the day is not public
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}(-\d{2})?$")]
    #: vendor: from the vendor's documentation; reported: from third parties; reported_lower_bound:
    #: from third parties, then or later; given: by the user; recorded: by whoever trained the
    #: policy
    confidence: CutoffConfidence
    source: Name

    @property
    def is_lower_bound(self) -> bool:
        """Return whether the training data may end later than stated, in which case no day is
        certain to be after the cutoff.
        """
        return self.confidence == LOWER_BOUND

    @property
    def first(self) -> np.datetime64:
        """First day on which the data may end. Raises DataError if the date does not exist."""
        return first_day_of(self.date)

    @property
    def last(self) -> np.datetime64:
        """Last day on which the data may end: the last day of the month if the exact day is not
        public.
        """
        if self.date.count("-") > 1:
            return self.first

        next_month = self.first.astype("M8[M]") + np.timedelta64(1, "M")
        last: np.datetime64 = next_month.astype("M8[D]") - np.timedelta64(1, "D")
        return last


def first_day_of(date: str) -> np.datetime64:
    """Return a day, or the first day of a month such as 2024-06. Raises DataError if the string is
    neither.
    """
    return parse_day(f"{date}-01" if len(date) == len("2024-06") else date)


NoCutoff = Literal["none", "unknown"]
"""A model without an end of training data: it was not trained, or the end is unknown. These are two
states, never one null.
"""


class KnowledgeCutoff(CutoffEntry, frozen=True):
    """End of the model's training data, and the position of the card's days relative to it. The
    date is a statement by whoever ran it.
    """

    windows: dict[Name, SideDays]  #: by window, for the days of its episodes


class FurtherModelPart(Value, frozen=True):
    """A model other than the card's own, which the agent called by name."""

    asked_as: Name  #: the agent's name for it
    name: Name  #: full name
    args: Arguments  #: parameters
    tool_protocol: Name | None  #: protocol by which it was offered tools; null for a local model
    #: request settings at its provider; null for a local model
    request_settings: dict[str, Any] | None = field(name="sent_as")
    price: PriceEntry | None  #: price of its tokens; null if unknown
    knowledge_cutoff: CutoffEntry | NoCutoff  #: end of its training data, as listed


COULD_LOOK_UP = "could look the market up"
COULD_HAVE_BROUGHT = "could have brought the market"
"""Two ways to know what a mask hides, in the words of cards, pages and boards: a decider reaches the
market while it decides, or comes with it.
"""

Brings = Literal["no", "in its weights", "in memory", "yes"]
"""Whether a decider could have brought the market: `in its weights` is what probes of a mask and
memory floors measure; `yes` means files, packages or a server of its own.
"""


@dataclass(frozen=True, slots=True)
class DeciderWords:
    """Description of a kind of decider."""

    words: str
    looks_up: bool  #: whether such a decider could look up the market
    brings: Brings  #: whether such a decider could have brought the market
    #: whether such a decider is ranked among the blinded if a task hides something: always, only in
    #: windows after a board registered what it consists of, or never
    ranked: Literal["yes", "after its registration", "no"]

    @property
    def knowledge(self) -> tuple[str, ...]:
        """How such a decider could know the market other than from training or memory."""
        found = []
        if self.looks_up:
            found.append(COULD_LOOK_UP)
        if self.brings == "yes":
            found.append(COULD_HAVE_BROUGHT)
        return tuple(found)


DECIDERS: Mapping[DeciderKind, DeciderWords] = {
    "rule": DeciderWords("a rule or trained model of ktdeval", False, "no", "yes"),
    "model": DeciderWords(
        "a model behind a network, asked without search", False, "in its weights", "yes"
    ),
    "model_with_lookups": DeciderWords(
        "a model that can look things up", True, "in its weights", "no"
    ),
    "sandboxed_program": DeciderWords(
        "a program in a sandbox", False, "yes", "after its registration"
    ),
    "program": DeciderWords("a program without a sandbox", True, "yes", "no"),
    "plugin": DeciderWords("a function or plugin in the process", True, "yes", "no"),
    "remote_agent": DeciderWords("an agent elsewhere, not seen", True, "yes", "no"),
    "file": DeciderWords("decisions recorded elsewhere", True, "yes", "no"),
    # a person's lookups can't be seen, so leaderboards rank people separately
    "person": DeciderWords("a person", True, "in memory", "yes"),
}
"""All kinds. Deciders that could look the market up give a card the label `not isolated`, except
people, who have their own label.
"""


class Decider(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Who decided: a model, or an agent that is more than ktdeval's own scaffold."""

    name: Name  #: name of the model or agent
    kind: DeciderKind
    why: str = ""  #: for a model that can look things up: the setting that allows it
    steps: Count = 0  #: for an external agent: number of its steps
    #: for a program in a sandbox: what the sandbox showed in addition to the system; empty: nothing
    shown: list[ShownPart] = field(default_factory=list)

    @property
    def looks_up(self) -> bool:
        """Return whether the decider could look up the market."""
        return DECIDERS[self.kind].looks_up

    @property
    def words(self) -> str:
        """Description of the decider for readers."""
        words = DECIDERS[self.kind].words
        return f"{words} ({self.why})" if self.why else words


KeySource = Literal["given", "board"]
"""Who knew a mask key before the run: it was given to the run (`--mask-key`), or a leaderboard had
drawn and published it.
"""


class ForeignPackage(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Code in a run's process that is not part of ktdeval's own installation."""

    name: Name  #: distribution that advertises a plugin, or name of the module
    version: str = ""  #: version of the distribution; absent if there is none
    #: SHA-256 of the module's file; of a package, that of the list of its files by `sha256sum`
    sha256: Sha256

    @property
    def words(self) -> str:
        """Name, version and first digits of the hash, for readers."""
        return f"{self.title} ({self.sha256[:12]})"

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}".strip()


class Drift(Figure, Value, frozen=True, kw_only=True):
    """Shift of the answers to fixed questions between the start and the end of the run; null if it
    is unknown.
    """

    NEEDED: ClassVar[tuple[str, ...]] = ("excess", "noise", "prompts", "served_by_changed")

    #: mean distance between an answer at the start and one at the end, from 0 (equal) to 1
    #: (completely different)
    value: Share | None
    noise: Share | UnsetType = UNSET  #: mean distance between two answers of the same round
    #: value minus noise
    excess: Annotated[int, Meta(ge=-1, le=1)] | Annotated[float, Meta(ge=-1, le=1)] | UnsetType = (
        UNSET
    )
    prompts: Count | UnsetType = UNSET  #: number of questions that were answered in both rounds
    #: whether the provider named a different model at the end than at the start
    served_by_changed: bool | UnsetType = UNSET
    reason: Name | UnsetType = UNSET


NOT_ASKED = Drift(value=None, reason="no fixed questions were asked")

WEAK = frozenset({"limited", "control incomplete", "few answers", "few guesses"})
"""Labels of an attached card whose bounds rest on too little to call a mask certified."""


class Attachment(Figure, Value, frozen=True, kw_only=True):
    """Statement of an attached card of another kind about this one: null with a reason if there is
    none.
    """

    value: dict[str, Any] | None
    reason: Name | UnsetType = UNSET

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the attached card."""
        return tuple((self.value or {}).get("labels", ()))

    def certifies(self, mask: MaskKind) -> bool:
        """Return whether a card with this mask claims to be certified. Anyone who has the attack
        runs can verify the claim.

        A mask is certified if a whole probe set was used to attack it and the attackers' answers
        name something. A mask that hides nothing needs no certificate.
        """
        if mask == "bright":
            return True
        return self.value is not None and WEAK.isdisjoint(self.labels)


NOT_GIVEN = "no certificate was given"
NO_ATTACHMENT = Attachment(value=None, reason=NOT_GIVEN)


class CalibrationBin(Value, frozen=True):
    """A bin of confidences."""

    low: Number
    high: Number
    n: Annotated[int, Meta(ge=1)]
    mean_confidence: Share
    accuracy: Share


class Calibration(Value, frozen=True):
    """Reliability of confidences, over all episodes."""

    bins: list[CalibrationBin]  #: non-empty bins of ten equal ones
    n: Count  #: orders with an outcome
    no_fill: Count  #: orders omitted because nothing was filled
    no_next_open: Count  #: filled orders omitted because the next open is unknown


class ReferenceMetrics(Value, frozen=True):
    """Metrics of a reference policy."""

    total_return: EpisodeMetric
    sharpe: EpisodeMetric
    max_drawdown: EpisodeMetric
    #: annualised standard deviation of the daily returns; absent on cards written before this field
    #: existed
    volatility: EpisodeMetric | UnsetType = UNSET

    @property
    def panel(self) -> dict[str, EpisodeMetric]:
        """The metrics that every card has, keyed by name."""
        return {
            "total_return": self.total_return,
            "sharpe": self.sharpe,
            "max_drawdown": self.max_drawdown,
        }


class ReferencePolicy(Value, frozen=True):
    """A reference policy over the days of one window."""

    base_day: Day  #: day of the close from which returns are measured
    last_day: Day
    metrics: ReferenceMetrics


class References(Value, frozen=True):
    """Reference policies."""

    #: by window: the benchmark index, bought at the close of base_day and held, without costs
    benchmark_buy_and_hold: dict[str, ReferencePolicy]


class Definition(Value, frozen=True):
    """Meaning of a metric or score."""

    better: Literal["higher", "lower", "neither"]
    formula: Name  #: identifier with version, and formula
    headline: bool
    range: Range  #: smallest and largest possible value; null if unbounded
    source: Name
    unit: Name


class ScoreLine(Figure, Definition, frozen=True, kw_only=True):
    """A figure over all answered samples, with what it means."""

    value: Number | None
    n: Count  #: number of samples behind the value
    interval: Interval | None  #: interval for the value; null if there is none
    #: expected value by chance on the same samples; null if it is not defined
    baseline: Number | None
    #: further figures. For a share of successes: successes, and upper_95, its exact one-sided 95 %
    #: upper bound.
    detail: dict[str, Any]
    reason: Name | UnsetType = UNSET
    #: true if samples without a valid answer don't count as the worst figure
    unanswered: Literal["left_out"] | UnsetType = UNSET

    @property
    def worst(self) -> float | None:
        """Figure assigned to a sample without a valid answer; None if no figure is the worst."""
        return worst_figure(self.better, self.range, self.unanswered or "worst")


class Assumptions(Value, frozen=True):
    """Assumptions of all finished episodes together."""

    #: rules that gave the prices of their fills, in alphabetical order; empty: no fills
    fills: list[FillRule]
    #: whether a short was held in an episode that charged no borrow fee
    free_shorts: bool
    #: whether the task prescribes fills at the close that was decided on, as the paper does that it
    #: follows; absent if it does not
    prescribed: Literal[True] | UnsetType = UNSET

    @property
    def looks_ahead(self) -> bool:
        """Return whether an order filled at a price that its decision had already seen."""
        return "same_close" in self.fills

    @property
    def is_unfair(self) -> bool:
        """Return whether it looks ahead although its task prescribes other fills, so that other
        cards of the task need not.
        """
        return self.looks_ahead and not self.prescribed


Correlation = Annotated[int, Meta(ge=-1, le=1)] | Annotated[float, Meta(ge=-1, le=1)]


class HoldingCorrelationPart(Figure, Value, frozen=True, kw_only=True):
    """Rank correlation of holdings with the returns from one fill to the next, over all finished
    episodes; null with a reason if it is undefined.
    """

    NEEDED: ClassVar[tuple[str, ...]] = ("over", "days", "interval", "floor")

    value: Correlation | None
    #: assets: ranked against each other on each day; days: each against its own earlier days
    over: Literal["assets", "days"] | UnsetType = UNSET
    days: Annotated[int, Meta(ge=1)] | UnsetType = UNSET  #: calendar days behind it
    interval: Interval | UnsetType = UNSET
    floor: Correlation | UnsetType = UNSET  #: lower bound at the one-sided level of 99.999 %
    #: Spearman's correlation without the correction for equal holdings; absent over days
    spearman: Correlation | UnsetType = UNSET
    reason: Name | UnsetType = UNSET


class Provenance(Value, frozen=True):
    """The only part that may differ between two runs of the same plan."""

    created_at: Time
    suite_version: Name
    source_revision: str | None  #: revision of the source code; null if unknown
    wall_time_s: NonNegative | None  #: duration in seconds; null if not measured
    environment: dict[str, Any]
    calls: Calls | None  #: calls to the provider and their cost; null if there were none
    #: hashes that the run kept of its records while it went on; absent if it kept none
    anchors: AnchorFact | UnsetType = UNSET
