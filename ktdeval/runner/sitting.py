"""One episode of a scoring task: each sample through agent, desk and mask as a trading step is, and its answer scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from jsonschema import Draft202012Validator

from ktdeval.errors import ModelError
from ktdeval.harness.action import MAX_PROBLEMS, Reading, no_json, not_of_schema
from ktdeval.harness.agent import Agent, Decision, Observation, StepCounts, Submission
from ktdeval.harness.desk import DeskParts, StepDesk
from ktdeval.harness.messages import CallParams, Model, ToolSpec
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.guard import LeakGuard
from ktdeval.runner.events import SampleFinished
from ktdeval.runner.scoring import ANSWER_FIELDS, AnswerRecord, Exam, Sample, ScoringTask, Subject
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.runner.store import ANSWERS, pack_lines


class AnswerForm:
    """Reads answers: JSON objects that follow a form's schema. In the place of the submission form of a trading step."""

    def __init__(self, tool: ToolSpec) -> None:
        self.tool = tool
        """The tool that a model answers with."""
        self._validator = Draft202012Validator(tool.parameters)

    def read(self, text: str) -> Reading:
        """A submission without orders when `text` is an answer, else feedback."""
        try:
            value = loads_strict(text)
        except (ValueError, RecursionError):
            return Reading(no_json())
        errors = list(islice(self._validator.iter_errors(value), MAX_PROBLEMS))
        return Reading(not_of_schema(errors) if errors else Submission(()))


@dataclass(frozen=True)
class SittingParts:
    """Everything that a sitting's outcome depends on besides its spec."""

    task: ScoringTask
    subject: Subject | None
    snapshot: MarketSnapshot
    model: Model
    agent: Agent


class Sitting:
    """An episode of a scoring task, sample by sample. Nothing goes from one sample to the next.

    Attributes:
        total_steps: its samples, or the spec's limit where that is less.
        memory: always None.
    """

    memory: JsonValue = None

    def __init__(self, spec: EpisodeSpec, parts: SittingParts) -> None:
        self._spec = spec
        self._parts = parts
        self._exam: Exam = parts.task.exam(spec, parts.snapshot, parts.subject)
        self.total_steps = samples_of(spec, self._exam)

    def is_own(self, place: int, record: JsonValue) -> bool:
        """Whether a record can be that of sample `place`."""
        if not is_answer_record(record):
            return False
        return (record["step"], record["sample"]) == (place, self._exam.sample(place).id)

    def recover(self, entries: list[JsonValue]) -> None:
        """There is nothing to take up."""

    def run_step(self, step: int) -> tuple[AnswerRecord, JsonValue]:
        """Ask one sample; returns its record and its transcript."""
        sample = self._exam.sample(step)
        desk = StepDesk(self._desk_parts(sample), step, sample.bench)
        decision = self._decide(Observation(step, sample.system, sample.user), desk)
        text = desk.accepted_text(decision)
        answer = None if text is None else _answer(sample, loads_strict(text))
        record = {
            "step": step,
            "sample": sample.id,
            "provenance": decision.provenance,
            **desk.counts.to_json(),
            "answer": answer,
            "facts": dict(sample.facts),
            "scores": {} if answer is None else dict(self._exam.score(step, answer)),
        }
        return record, {"step": step, "exchanges": desk.exchanges, "submission": text}

    def encode(self, records: Sequence[AnswerRecord]) -> tuple[str, bytes]:
        """All answers, as their file."""
        return ANSWERS, pack_lines(records)

    def event(self, record: AnswerRecord) -> SampleFinished:
        """What observers are told of a recorded sample."""
        tokens = record["input_tokens"] + record["output_tokens"]
        return SampleFinished(self._spec, record["step"], self.total_steps, tokens, record["provenance"])

    def _desk_parts(self, sample: Sample) -> DeskParts:
        return DeskParts(
            model=self._parts.model,
            lens=sample.lens,
            guard=LeakGuard(sample.lens, self._parts.snapshot),
            tools=() if sample.bench is None else sample.bench.tools,
            form=AnswerForm(sample.form),
            harness=self._parts.task.harness,
            params=CallParams(**self._spec.call),
            seed=self._spec.call_seed,
        )

    def _decide(self, observation: Observation, desk: StepDesk) -> Decision:
        """The agent's answer, or none where the model call failed."""
        try:
            return self._parts.agent.decide(observation, desk, None)
        except ModelError:  # counted by the desk under its kind
            return Decision((), "error")


def _answer(sample: Sample, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    return submitted if sample.bench is None else sample.bench.completed(submitted)


def samples_of(spec: EpisodeSpec, exam: Exam) -> int:
    """How many samples an episode has: its exam's, or the spec's limit where that is less."""
    return len(exam) if spec.limit is None else min(spec.limit, len(exam))


_COUNTS: Sequence[str] = tuple(StepCounts().to_json())


def is_answer_record(value: JsonValue) -> bool:
    """Whether a JSON value has the fields of an answer record, and counts where counts belong."""
    if not isinstance(value, dict) or value.keys() != set(ANSWER_FIELDS):
        return False
    counts = (value[name] for name in _COUNTS if name != "failures")
    mappings = (value["facts"], value["scores"], value["failures"])
    return all(type(count) is int for count in counts) and all(isinstance(item, dict) for item in mappings)
