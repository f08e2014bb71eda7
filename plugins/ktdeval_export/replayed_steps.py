"""Steps of runs, executed again with the recorded replies.

The requests to the model are not read from the transcript. They are rebuilt from the data of the
step's day by the task, agent, tools and mask. If the transcript differs, the audit reports a
finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ktdeval.cards import value_difference
from ktdeval.errors import KtdevalError
from ktdeval.harness import Model, ModelRequest, Reply, TranscriptEntry
from ktdeval.market import MarketSnapshot
from ktdeval.masking import Lens
from ktdeval.registry import Plugins
from ktdeval.runner import (
    EpisodeFactory,
    JournalEntry,
    RecordedModel,
    RunFolder,
    check_ran,
    open_market_of_run,
    open_run,
    retrace_episode,
    target_task_of,
)
from ktdeval.task_api import AnswerRecord, EpisodeSpec, SampleSet, is_scoring
from ktdeval.trading import Ledger, StepRecord
from ktdeval.values import JsonValue
from ktdeval_export.conversations import CallChain, ModelCall, conversations_of


class Listener:
    """Model that returns recorded replies and stores each request."""

    def __init__(self, recorded: RecordedModel) -> None:
        self._recorded = recorded
        self.traits = recorded.traits  #: predictions and vectors of the recorded model
        self._calls: list[ModelCall] = []

    def reply(self, request: ModelRequest) -> Reply:
        """Return the next recorded reply. Raises the same errors as `RecordedModel`."""
        reply = self._recorded.reply(request)
        self._calls.append(ModelCall(request, reply))
        return reply

    def take(self) -> tuple[ModelCall, ...]:
        """Return the calls made since the last call of `take`."""
        calls = tuple(self._calls)
        self._calls.clear()
        return calls


@dataclass(frozen=True)
class TracedStep:
    """A step of an episode, or a sample of a question task."""

    spec: EpisodeSpec
    where: str  #: run, episode and step, as text
    number: int  #: number of the step, from 0
    record: StepRecord | AnswerRecord
    calls: tuple[ModelCall, ...]
    lens: Lens
    #: texts of the question as worded by its task; empty for a trading step
    question: Sequence[str] = ()
    #: first field of the records that the replies do not reproduce; empty if all fields are
    #: reproduced
    difference: str = ""

    @cached_property
    def conversations(self) -> Sequence[CallChain]:
        """Conversations of the step."""
        return conversations_of(self.calls)

    @property
    def decided_on(self) -> str:
        """ISO day whose close is the last one known in the step; empty for a question task."""
        return self.record.decided_on if isinstance(self.record, StepRecord) else ""

    @property
    def facts(self) -> Mapping[str, JsonValue]:
        """Gold answer and strata of a question; empty for a trading step."""
        return self.record.facts if isinstance(self.record, AnswerRecord) else {}


@dataclass(frozen=True)
class TracedEpisode:
    """A finished episode."""

    spec: EpisodeSpec
    task: Any
    where: str  #: run and episode, as text
    trace: Callable[[], Sequence[TracedStep]]  #: function that executes the episode's steps again
    ledger: Ledger | None  #: ledger of a trading episode; None for a question task
    market: MarketSnapshot | None  #: market of the task; None if its questions need none
    registration: str | None  #: the run's registration with a leaderboard, if any

    @cached_property
    def steps(self) -> Sequence[TracedStep]:
        """Steps up to and including the first one that the recorded replies do not reproduce."""
        return self.trace()


def traced_episodes(
    path: Path, plugins: Plugins, changes: Mapping[str, Any], notes: list[str]
) -> Iterator[TracedEpisode]:
    """Yield the finished episodes in a run folder, in the order of its plan. `changes` is defined
    as in `verify_card`. `notes` gets a line for each unfinished episode.

    Raises StoreError if the folder has no run, or if an installed task differs from the run's task.
    Raises DataError if the market, which the audit needs, can't be opened.
    """
    folder = open_run(path, plugins)
    market = open_market_of_run(folder, plugins, changes)
    tasks: dict[str, Any] = {}
    for spec in folder.manifest.specs:
        if not folder.is_complete(spec):
            notes.append(f"{path}: {spec.label} is unfinished and left out")
            continue

        if spec.task not in tasks:
            tasks[spec.task] = plugins.make_task(spec.task, changes.get("items"))
            check_ran(folder, tasks[spec.task], plugins, spec)

        reader = _EpisodeReader(folder, plugins, tasks[spec.task], market)
        yield reader.read(spec)


@dataclass(frozen=True)
class _EpisodeReader:
    """Reads the episodes of one task of a run."""

    folder: RunFolder
    plugins: Plugins
    task: Any
    market: MarketSnapshot | None

    def read(self, spec: EpisodeSpec) -> TracedEpisode:
        """Read an episode.

        Raises StoreError if the episode's files can't be read.
        """
        ledger = None
        records: Sequence[StepRecord | AnswerRecord]
        if is_scoring(self.task):
            records = self.folder.load_answers(spec)
        else:
            ledger = self.folder.load_ledger(spec)
            records = ledger.steps

        where = f"{self.folder.path}: {spec.label} ({spec.id[:8]})"
        return TracedEpisode(
            spec=spec,
            task=self.task,
            where=where,
            trace=lambda: list(self._steps(spec, records, where)),
            ledger=ledger,
            market=self.market if spec.snapshot else None,
            registration=self.folder.manifest.registration,
        )

    def _steps(
        self, spec: EpisodeSpec, records: Sequence[StepRecord | AnswerRecord], where: str
    ) -> Iterator[TracedStep]:
        """Yield the steps up to and including the first step that the replies do not reproduce."""
        transcript = self.folder.load_transcript(spec)
        listeners: list[Listener] = []

        def listening(model: Model) -> Any:
            listeners.append(Listener(cast(RecordedModel, model)))
            return factory.open(spec, listeners[0])

        factory = EpisodeFactory({spec.task: self.task}, self.plugins, self.market)
        asked = _EpisodeQuestions(spec, self.task, self.plugins, self.market)
        retraced = retrace_episode(transcript, listening)
        whole = _count_difference(records, transcript)

        for number, record in enumerate(records):
            difference = whole
            if not difference:
                try:
                    entry = next(retraced, None)
                    difference = _difference(entry, record, transcript[number])
                except KtdevalError as error:
                    difference = f"can't be executed again: {error}"

            calls = listeners[0].take() if listeners else ()
            yield TracedStep(
                spec=spec,
                where=f"{where}, step {number}",
                number=number,
                record=record,
                calls=calls,
                lens=asked.lens(number),
                question=asked.question(number),
                difference=difference,
            )
            if difference:
                return


class _EpisodeQuestions:
    """Masks and questions of an episode. A trading task has one mask for all steps; a question task
    has one mask per question.
    """

    def __init__(
        self, spec: EpisodeSpec, task: Any, plugins: Plugins, market: MarketSnapshot | None
    ) -> None:
        self._samples: SampleSet | None = None
        self._lens: Lens | None = None
        if is_scoring(task):
            needed = market if spec.snapshot else None
            self._samples = task.samples(spec, needed, target_task_of(task, plugins))
        else:
            self._lens = task.scene(spec, market).lens

    def lens(self, number: int) -> Lens:
        """Return the mask of a step."""
        if self._lens is not None:
            return self._lens
        assert self._samples is not None  # a task without a scene has samples
        return self._samples.sample(number).lens

    def question(self, number: int) -> tuple[str, ...]:
        """Return the texts of a question; empty for a trading step."""
        if self._samples is None:
            return ()
        sample = self._samples.sample(number)
        return (sample.system, sample.user)


def _count_difference(records: Sequence[object], transcript: Sequence[object]) -> str:
    if len(records) == len(transcript):
        return ""
    return f"{len(records)} steps are recorded, {len(transcript)} are in the transcript"


def _difference(
    entry: JournalEntry[Any] | None, record: StepRecord | AnswerRecord, said: TranscriptEntry
) -> str:
    """Return the first field that the replies do not reproduce; empty if they reproduce all fields.
    Values are not quoted, since they may be confidential.
    """
    if entry is None:
        return "the window has no such day"

    recomputed = entry.transcript
    difference = value_difference(said, recomputed)
    if difference:
        return f"the replies do not give {difference.partition(':')[0]} of the transcript"

    difference = value_difference(record, entry.step)
    if difference:
        return f"the replies do not give {difference.partition(':')[0]} of the records"

    return ""
