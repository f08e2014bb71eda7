"""Makes rows from run folders: reads, audits, selects and writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ktdeval import __version__
from ktdeval.errors import UsageError, VerificationError
from ktdeval.registry import Plugins
from ktdeval.task_api import is_scoring
from ktdeval.values import Finding, count_level, sha256_hex
from ktdeval_export.held_out_episodes import evaluation_use
from ktdeval_export.leak_audit import CHECKS, Auditor
from ktdeval_export.metadata import (
    AuditEntry,
    MeasureEntry,
    Metadata,
    PairCounts,
    RowEntry,
    SourceEntry,
)
from ktdeval_export.replayed_steps import TracedEpisode, TracedStep, traced_episodes
from ktdeval_export.row_figures import (
    Measure,
    Rows,
    measure_of,
    value_of_episode,
    value_of_step,
)
from ktdeval_export.training_rows import (
    Dialect,
    PreferencePairs,
    RowConversation,
    RowWriter,
    exclusion,
    lines_of,
    talk_of_episode,
    talks_of_step,
)

LEAK = "the model wrote what the audit refuses"
BELOW = "its figure is not good enough"
OF_EPISODE = "a step of its episode can't be a row"
EVALUATION_DATA = "evaluation data"

Form = Literal["chat", "preference"]
"""Contents of a row: a conversation, or a pair of replies."""


@dataclass(frozen=True)
class MeasureBound:
    """Lower bound on a row's measure, or upper bound if lower values are better."""

    measure: str
    value: float


@dataclass(frozen=True)
class ExportSettings:
    """Export settings."""

    form: Form = "chat"
    rows: Rows = "step"
    dialect: Dialect = "trl"
    by: str | None = None  #: measure by which pairs are compared
    bound: MeasureBound | None = None
    with_retries: bool = False
    skip_leaks: bool = False
    allow_evaluation_data: bool = False

    @property
    def measure(self) -> str | None:
        """Name of the measure that the export needs; None if it needs none."""
        if self.bound is not None:
            return self.bound.measure
        return self.by


@dataclass(frozen=True)
class ExportedRows:
    """Rows as text, with their metadata and notes for the user."""

    text: str
    metadata: Metadata
    notes: Sequence[str]


class AuditError(VerificationError):
    """Raised if a leak audit fails; `findings` contains all of its findings."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        advice = "nothing was written"
        if not count_level(findings, "error"):
            advice += "; leave such steps out with --skip-leaks"

        super().__init__(f"leak audit: {findings[0]}{more}; {advice}")
        self.findings = findings


def make_export(
    runs: Sequence[Path],
    plugins: Plugins,
    changes: Mapping[str, Any],
    environment: Mapping[str, str],
    options: ExportSettings,
) -> ExportedRows:
    """Return the rows from some runs. `changes` is defined as in `verify_card`.

    Raises AuditError if the leak audit has findings. Raises UsageError if the options don't fit the
    runs, if no row is left, or if an episode belongs to a test set and this is not allowed. Raises
    KtdevalError if a run, its market or its task can't be opened.
    """
    work = _ExportState(plugins, environment, options)
    for run in runs:
        for episode in traced_episodes(run, plugins, changes, work.notes):
            work.add(episode)

    return work.export()


@dataclass
class _ExportState:
    """State of an export in progress."""

    plugins: Plugins
    environment: Mapping[str, str]
    options: ExportSettings
    notes: list[str] = field(default_factory=list)
    sources: list[SourceEntry] = field(default_factory=list)
    #: indices into `sources`, keyed by episode id
    numbers: dict[str, int] = field(default_factory=dict)
    talks: list[RowConversation] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    measures: dict[str, Measure] = field(default_factory=dict)  #: measures, keyed by task
    left_out: Counter[str] = field(default_factory=Counter)
    audited: int = 0

    # --- reading

    def add(self, episode: TracedEpisode) -> None:
        """Audit an episode and add its conversations."""
        spec = episode.spec
        if spec.id in self.numbers:
            self.notes.append(f"{episode.where} was given twice and is used once")
            return

        evaluates = evaluation_use(episode)
        if evaluates and not self.options.allow_evaluation_data:
            raise UsageError(
                f"{episode.where}: {evaluates}; a model trained on it can't be evaluated on it."
                " Export other windows, or add --allow-evaluation-data, which the metadata states"
            )

        self.numbers[spec.id] = len(self.sources)
        self.sources.append(_source(episode, evaluates))
        if self.options.measure is not None:
            measure = measure_of(self.options.measure, episode, self.options.rows, self.plugins)
            self.measures[spec.task] = measure

        usable = list(self._usable_steps(episode))
        if self.options.rows == "episode":
            self._take_episode(episode, usable)
        else:
            self._take_steps(episode, usable)

    def _usable_steps(self, episode: TracedEpisode) -> Iterator[TracedStep]:
        """Yield the steps that can become rows, and count the other steps."""
        auditor = Auditor(episode.market, self.environment)
        for step in episode.steps:
            self.audited += 1
            findings = list(auditor.findings(step))
            of_model = not count_level(findings, "error")
            if findings and not (of_model and self.options.skip_leaks):
                self.findings += findings
                continue

            reason = LEAK if findings else exclusion(step, self.options.with_retries)
            if reason:
                self.left_out[reason] += 1
            else:
                yield step

    def _take_steps(self, episode: TracedEpisode, usable: Sequence[TracedStep]) -> None:
        measure = self.measures.get(episode.spec.task)
        for step in usable:
            value = None if measure is None else value_of_step(measure, step, episode)
            if self._is_good_enough(measure, value):
                self.talks += talks_of_step(episode, step, value)
            else:
                self.left_out[BELOW] += 1

    def _take_episode(self, episode: TracedEpisode, usable: Sequence[TracedStep]) -> None:
        if is_scoring(episode.task):
            raise UsageError(
                f"{episode.where}: its questions are independent; leave out --rows episode"
            )
        if self.findings:
            return  # no rows will be written

        if len(usable) < len(episode.steps):
            self.left_out[OF_EPISODE] += len(usable)
            return

        measure = self.measures.get(episode.spec.task)
        value = None if measure is None else value_of_episode(measure, episode, self.plugins)
        if self._is_good_enough(measure, value):
            self.talks.append(talk_of_episode(episode, value))
        else:
            self.left_out[BELOW] += len(usable)

    def _is_good_enough(self, measure: Measure | None, value: float | None) -> bool:
        bound = self.options.bound
        if bound is None or measure is None:
            return True
        return value is not None and not measure.is_better(bound.value, value)

    # --- writing

    def export(self) -> ExportedRows:
        """Return the rows. Raises AuditError or UsageError."""
        if self.findings:
            raise AuditError(self.findings)

        writer = RowWriter(self.options.dialect)
        pairs: PairCounts | None = None
        if self.options.form == "preference":
            formed, pairs = self._pairs()
            text = lines_of(writer.preference_row(*pair) for pair in formed)
            entries = [self._pair_entry(*pair) for pair in formed]
        else:
            text = lines_of(map(writer.chat_row, self.talks))
            entries = [self._row_entry(talk) for talk in self.talks]

        if not entries:
            raise UsageError(f"no rows are left; {self._why_none(pairs)}")

        metadata = Metadata(
            version=1,
            made_by=f"ktdeval {__version__}",
            format=self.options.form,
            dialect=self.options.dialect,
            rows_hold=self.options.rows,
            rows=len(entries),
            sha256=sha256_hex(text),
            measure=self._measure_entry(),
            pairs=pairs,
            allowed=self._list_allowed(),
            audit=AuditEntry(checks=CHECKS, steps=self.audited, left_out=self.left_out[LEAK]),
            left_out={reason: count for reason, count in sorted(self.left_out.items()) if count},
            sources=tuple(self.sources),
            row_sources=tuple(entries),
        )
        return ExportedRows(text, metadata, self.notes)

    def _pairs(self) -> tuple[list[tuple[RowConversation, RowConversation]], PairCounts]:
        """Return the pairs of conversations for all tasks, and the total counts."""
        formed: list[tuple[RowConversation, RowConversation]] = []
        counts: Counter[str] = Counter()
        for task, measure in self.measures.items():
            pairs = PreferencePairs(measure)
            pairs.form(talk for talk in self.talks if talk.episode.spec.task == task)
            formed += pairs.formed
            counts += pairs.counts

        return formed, PairCounts(
            formed=len(formed),
            tied=counts["tied"],
            undefined=counts["undefined"],
            another_prompt=counts["another prompt"],
        )

    def _row_entry(self, talk: RowConversation) -> RowEntry:
        source = self.numbers[talk.episode.spec.id]
        return RowEntry(source=source, steps=talk.steps, role=talk.role, value=talk.value)

    def _pair_entry(self, chosen: RowConversation, rejected: RowConversation) -> RowEntry:
        return RowEntry(
            source=self.numbers[chosen.episode.spec.id],
            steps=chosen.steps,
            role=chosen.role,
            value=chosen.value,
            rejected_source=self.numbers[rejected.episode.spec.id],
            rejected_value=rejected.value,
        )

    def _measure_entry(self) -> MeasureEntry | None:
        if not self.measures:
            return None

        measure = next(iter(self.measures.values()))
        bound = self.options.bound
        return MeasureEntry(
            name=measure.name,
            formula=measure.formula,
            better=measure.better,
            at_least=None if bound is None else bound.value,
        )

    def _list_allowed(self) -> tuple[str, ...]:
        is_needed = any(source.evaluates for source in self.sources)
        return (EVALUATION_DATA,) if is_needed else ()

    def _why_none(self, pairs: PairCounts | None) -> str:
        """Return a message that says how many steps and pairs were omitted, and why."""
        counts = [f"{reason}: {count}" for reason, count in sorted(self.left_out.items())]
        if pairs is not None:
            counts.append(f"pairs with equal values: {pairs.tied}")
            counts.append(f"pairs without a value: {pairs.undefined}")
            counts.append(f"pairs with different prompts: {pairs.another_prompt}")
            if pairs.another_prompt:
                counts.append(
                    "runs show the same prompts if they have the same --mask-key, and after the"
                    " first step only if they hold the same"
                )

        counts += self.notes
        return "; ".join(counts) or "the runs have no finished episode"


def _source(episode: TracedEpisode, evaluates: str) -> SourceEntry:
    spec = episode.spec
    window = spec.window_name
    if window is not None and "-" in window:
        window = "own days"  # a window without a name is identified by its days
    return SourceEntry(
        episode=spec.id,
        task=spec.task,
        task_version=spec.task_version,
        window=window,
        seed=spec.seed,
        mask=spec.mask,
        model=spec.model,
        agent=spec.agent,
        snapshot=spec.snapshot,
        synthetic=None if episode.market is None else episode.market.meta.synthetic,
        evaluates=evaluates,
    )
