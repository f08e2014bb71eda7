"""Sources from which the fields of a card are gathered. The inputs are the plan, the market and
facts about the run; the sources are the same inputs in a fixed order, checked against each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar

import numpy as np

from ktdeval.calls.costs.prices import PriceEntry
from ktdeval.cards.fields.episode_parts import RoleUsage, Served, StepMaker
from ktdeval.cards.fields.origin.fact_types import (
    NO_ATTACHMENT,
    NOT_ASKED,
    Attachment,
    CutoffEntry,
    Decider,
    Drift,
    ForeignPackage,
    FurtherModelPart,
    KeySource,
    NoCutoff,
    Provenance,
)
from ktdeval.errors import CardError
from ktdeval.market.snapshots.snapshot import DayArray, MarketSnapshot
from ktdeval.stats.factorial_effects import left_out_windows
from ktdeval.stats.metric import Metric, RecordedTranscript, RuleSet
from ktdeval.stats.resampling import Resampling
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.scoring import AnswerRecord, Score, ScoreDefinition
from ktdeval.trading.ledger import Ledger
from ktdeval.trading.types import DECIDED
from ktdeval.values.documents.strict_json import JsonValue, plain
from ktdeval.values.documents.typed_json import encode_canonical
from ktdeval.values.hashes import content_hash
from ktdeval.values.options.config_options import build
from ktdeval.values.progress_reports import Tell, tell_nobody

WindowDays = Mapping[Window, DayArray]  #: trading days of each window


@dataclass(frozen=True, kw_only=True)
class EvaluationInputs:
    """Inputs of every card, whatever its task. They contain no clock, folder or run object, so
    equal inputs give equal cards.
    """

    #: return value of the task's `describe()`: the resolved config, with data card and sources
    task: Mapping[str, JsonValue]
    #: the market on which the episodes ran, with its snapshot id; None if the task needs no market
    snapshot: MarketSnapshot | None
    #: every planned episode, finished or not, in any order; all episodes share one task, model,
    #: agent and set of call parameters
    specs: Sequence[EpisodeSpec]
    artefacts: Mapping[str, str]  #: path relative to the run folder -> SHA-256 of the file
    #: error of each planned episode without a record, by episode id
    missing_episodes: Mapping[str, str]
    provenance: Provenance  #: the only part that may differ between two equal runs
    price: PriceEntry | None = None  #: token price; None if unknown or not applicable
    #: `RemoteModel.settings()`; None for a local model
    request_settings: Mapping[str, JsonValue] | None = None
    #: end of the model's training data; `none`: the model was not trained; `unknown`: not known
    knowledge_cutoff: CutoffEntry | NoCutoff = "unknown"
    #: id of the leaderboard registration of the run; None if the run drew its own key
    registration: str | None = None
    key_source: KeySource | None = None  #: source of a mask key that was known before the run
    drift: Drift = NOT_ASKED  #: shift in the model's answers during the run
    #: number of replies without token counts, by episode id
    uncounted: Mapping[str, int] = field(default_factory=dict)
    #: models other than the run's own model that the agent called
    further_models: Sequence[FurtherModelPart] = ()
    #: calls by role and model, by episode id
    roles: Mapping[str, Sequence[RoleUsage]] = field(default_factory=dict)
    #: who made the decisions, and whether they could look up the market
    deciders: Sequence[Decider] = ()
    #: packages in the process that are not part of ktdeval, over all sessions
    foreign: Sequence[ForeignPackage] = ()
    #: number of replies by called model and answering model, by episode id
    served: Mapping[str, Sequence[Served]] = field(default_factory=dict)
    #: software that ran the steps of each episode, by episode id
    makers: Mapping[str, Sequence[StepMaker]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CardInputs(EvaluationInputs):
    """Inputs of a trading task's card."""

    snapshot: MarketSnapshot
    rules: RuleSet  #: rule set for the metrics
    #: ledgers of the finished episodes, in any order; the id of a ledger's `spec` matches it to one
    #: of `specs`
    ledgers: Sequence[Ledger]
    metrics: Sequence[Metric]  #: metrics to compute; names are unique
    #: plugin that provides each metric, by metric name; used in error messages
    plugins: Mapping[str, str] = field(default_factory=dict)
    certificate: Attachment = NO_ATTACHMENT  #: what the attached card states
    #: whether the task prescribes fills at the close that was decided on
    prescribes_fills: bool = False
    #: transcripts by episode id, for metrics that read conversations
    transcripts: Mapping[str, RecordedTranscript] = field(default_factory=dict)
    resampling: Resampling | None = None  #: of intervals over days; None: today's settings


@dataclass(frozen=True, kw_only=True)
class ScoringInputs(EvaluationInputs):
    """Inputs of a scoring task's card."""

    #: the finished episodes, each with all its records in sample order
    answers: Sequence[tuple[EpisodeSpec, Sequence[AnswerRecord]]]
    #: spec id -> number of samples in the episode, for every spec: the size of its sample set, or
    #: the limit if smaller
    samples: Mapping[str, int]
    #: output of the task's `summarise` for the records of all finished episodes together
    scores: Mapping[str, Score]
    #: definition of each score (`ScoringTask.scores`), in display order
    definitions: Mapping[str, ScoreDefinition]


# ---- sources


@dataclass(frozen=True)
class CardSources:
    """Sources for the fields of any card."""

    KIND: ClassVar[str]
    """Kind of the card."""

    inputs: EvaluationInputs
    planned: Sequence[EpisodeSpec]  #: sorted by day, then seed
    days: WindowDays  #: trading days of each window
    finished: Sequence[EpisodeSpec]  #: planned episodes that finished
    #: the planned episodes that did not finish, each with its error on one line
    missing: Sequence[tuple[EpisodeSpec, str]]


@dataclass(frozen=True)
class TradingSources(CardSources):
    """Sources for the fields of a trading card."""

    KIND = "trading"

    inputs: CardInputs
    ledgers: Mapping[str, Ledger]  #: ledger of each finished episode, by episode id
    tell: Tell = tell_nobody  #: called for each episode before its metrics are computed

    @property
    def by_window(self) -> dict[str, Ledger]:
        """One ledger for each window with a finished episode. All ledgers of a window cover the
        same days.
        """
        return {spec.span.name: self.ledgers[spec.id] for spec in self.finished}

    @property
    def years(self) -> list[int]:
        """Annualisation factors (days per year) of the windows, ascending."""
        units = [self.inputs.snapshot.units_of(own) for own in self.days.values()]
        return sorted({each["days_a_year"] for each in units})

    @property
    def pooled(self) -> list[Ledger]:
        """Ledgers of the episodes that count towards figures over episodes."""
        spans = {}
        for window, ledger in self.by_window.items():
            spans[window] = (ledger.steps[0].filled_on, ledger.steps[-1].filled_on)

        excluded = left_out_windows(spans, self.years[-1])
        return [self.ledgers[one.id] for one in self.finished if one.span.name not in excluded]


@dataclass(frozen=True)
class ScoringSources(CardSources):
    """Sources for the fields of a scoring card."""

    KIND = "scoring"

    inputs: ScoringInputs
    #: answers of each finished episode, by episode id
    answers: Mapping[str, Sequence[AnswerRecord]]


def trading_sources(inputs: CardInputs, tell: Tell = tell_nobody) -> TradingSources:
    """Return the sources for a trading card. `tell` is called for each episode before its metrics
    are computed. Raises CardError if the inputs contradict each other.
    """
    planned = _ordered_plan(inputs)
    days = planned_days(planned, inputs.snapshot, planned[0].limit)
    ledgers = _ledgers_by_id(inputs, planned, days)
    finished = [spec for spec in planned if spec.id in ledgers]
    missing = _missing_specs(planned, ledgers.keys(), inputs.missing_episodes, "a ledger")
    return TradingSources(inputs, planned, days, finished, missing, ledgers, tell)


def scoring_sources(inputs: ScoringInputs) -> ScoringSources:
    """Return the sources for a scoring card. Raises CardError if the inputs contradict each
    other.
    """
    planned = _ordered_plan(inputs)
    answers = _answers_by_id(inputs, planned)
    days = planned_days(planned, inputs.snapshot)
    finished = [spec for spec in planned if spec.id in answers]
    missing = _missing_specs(planned, answers.keys(), inputs.missing_episodes, "answers")
    return ScoringSources(inputs, planned, days, finished, missing, answers)


def planned_days(
    planned: Sequence[EpisodeSpec], snapshot: MarketSnapshot | None, limit: int | None = None
) -> WindowDays:
    """Return the trading days of each window in a plan, including its first and last day, but no
    more than the first `limit` days.
    """
    windows = dict.fromkeys(spec.window for spec in planned if spec.window is not None)
    return {window: days_of(window, snapshot)[:limit] for window in windows}


def days_of(window: Window, snapshot: MarketSnapshot | None) -> DayArray:
    """Return the trading days of a window, including its first and last day."""
    assert snapshot is not None, "a window needs a market"
    days = snapshot.days
    first = np.datetime64(window.first, "D")
    last = np.datetime64(window.last, "D")
    return np.asarray(days[(days >= first) & (days <= last)])


# ---- checks


_OWN_FIELDS = ("window", "seed")
"""Fields in which the specs of a card differ."""


def _ordered_plan(inputs: EvaluationInputs) -> list[EpisodeSpec]:
    """Return the planned episodes sorted by day, then seed. Raises CardError if they differ in
    anything other than window and seed, or do not match the inputs.
    """
    if not inputs.specs:
        raise CardError("a card needs at least one planned episode")

    first = inputs.specs[0]
    if content_hash(plain(inputs.task)) != first.task_hash:
        raise CardError(
            f"task_hash {first.task_hash[:12]}… is not the content hash of the task's config"
        )

    names = [each.name for each in fields(EpisodeSpec) if each.name not in _OWN_FIELDS]
    expected = {name: getattr(first, name) for name in names}
    expected["snapshot"] = inputs.snapshot and inputs.snapshot.id
    windows: dict[str | None, Window | None] = {}
    for spec in inputs.specs:
        for name, value in expected.items():
            if encode_canonical(getattr(spec, name)) != encode_canonical(value):
                raise CardError(
                    f"episode {spec.id}: its {name} is not the card's; one card holds one task,"
                    " agent and snapshot, and the models of one system"
                )

        if windows.setdefault(spec.window_name, spec.window) != spec.window:
            raise CardError(
                f"window {spec.window_name!r} has two date ranges; give each window a name of"
                " its own"
            )

    if len({spec.id for spec in inputs.specs}) != len(inputs.specs):
        raise CardError("an episode is planned twice; each window and seed belongs on a card once")

    return sorted(inputs.specs, key=_plan_order)


def _plan_order(spec: EpisodeSpec) -> tuple[str, str, str, int, str]:
    return (*spec.ends, spec.window_name or "", spec.seed, spec.id)


def _missing_specs(
    planned: Sequence[EpisodeSpec],
    finished: Collection[str],
    errors: Mapping[str, str],
    record: str,
) -> list[tuple[EpisodeSpec, str]]:
    """Return the planned episodes that did not finish, each with its error on one line. `finished`
    contains ids, `errors` is keyed by id, and `record` names what an unfinished episode lacks, such
    as `a ledger`.

    Raises CardError if an unfinished episode has no error, or if a finished or unknown episode has
    one.
    """
    unfinished = [spec for spec in planned if spec.id not in finished]
    for spec in unfinished:
        if spec.id not in errors:
            raise CardError(
                f"episode {spec.id} ({spec.label}) has neither {record} nor an error; finish"
                " the run"
            )

    surplus = sorted(set(errors) - {spec.id for spec in unfinished})
    if surplus:
        raise CardError(
            f"episode {surplus[0]} is listed as missing but is finished or was never planned"
        )

    return [(spec, " ".join(errors[spec.id].split())) for spec in unfinished]


def _ledgers_by_id(
    inputs: CardInputs,
    planned: Sequence[EpisodeSpec],
    days: WindowDays,
) -> dict[str, Ledger]:
    """Return ledgers keyed by episode id. Raises CardError if a ledger does not cover all days of
    its episode, since a partial record must not pass for a complete one.
    """
    specs = {spec.id: spec for spec in planned}
    ledgers: dict[str, Ledger] = {}
    for ledger in inputs.ledgers:
        identity = build(EpisodeSpec, ledger.spec, "ledger spec").id
        if identity not in specs:
            raise CardError(f"a ledger belongs to episode {identity}, which the plan does not have")
        if identity in ledgers:
            raise CardError(f"episode {identity} has two ledgers")

        spec = specs[identity]
        market_units = inputs.snapshot.units_of(days[spec.span])
        own_units = {name: getattr(ledger, name) for name in market_units}
        if own_units != market_units:
            raise CardError(
                f"the ledger of episode {identity} has the units {own_units}, its market"
                f" {market_units}"
            )

        expected = days[spec.span]
        if not np.array_equal(ledger.days, expected):
            raise CardError(
                f"episode {spec.id} ({spec.label}): the ledger has {len(ledger.steps)} steps that"
                f" are not the {len(expected)} trading days of its window; resume the run, or list"
                " the episode as missing"
            )

        ledgers[identity] = ledger

    return ledgers


def _answers_by_id(
    inputs: ScoringInputs, planned: Sequence[EpisodeSpec]
) -> dict[str, Sequence[AnswerRecord]]:
    """Return answers keyed by episode id. Raises CardError if a sample has no answer, since a
    partial record must not pass for a complete one.
    """
    planned_ids = {spec.id for spec in planned}
    answers: dict[str, Sequence[AnswerRecord]] = {}
    for spec, records in inputs.answers:
        if spec.id not in planned_ids:
            raise CardError(f"answers belong to episode {spec.id}, which the plan does not have")
        if spec.id in answers:
            raise CardError(f"episode {spec.id} has two sets of answers")

        where = f"episode {spec.id} ({spec.label})"
        samples = samples_of(inputs, spec.id)
        for record in records:
            if record.answer is not None and record.provenance not in DECIDED:
                raise CardError(
                    f"{where}: step {record.step} has an answer though the model gave none"
                    f" ({record.provenance})"
                )

        if [record.step for record in records] != list(range(samples)):
            raise CardError(
                f"{where}: the {len(records)} answers are not those of its {samples} samples in"
                " order; resume the run, or list the episode as missing"
            )

        answers[spec.id] = records

    return answers


def samples_of(inputs: ScoringInputs, identity: str) -> int:
    """Return the number of samples in an episode. Raises CardError if the inputs do not give the
    number.
    """
    if identity not in inputs.samples:
        raise CardError(f"episode {identity}: how many samples it has is not given")
    return inputs.samples[identity]
