"""Episode of a scoring task: each sample goes through agent, session and mask as a trading step
does; its answer is scored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from msgspec.structs import asdict

from ktdeval.errors import PluginError
from ktdeval.harness.action import SubmissionForm, SubmissionReading, read_valid
from ktdeval.harness.agent import Agent, Observation, Submission
from ktdeval.harness.chat_messages import CallParams, Model, ToolSpec, encodable
from ktdeval.harness.external_acts import NOT_A_RUN, Outside
from ktdeval.harness.session_parts import SessionParts
from ktdeval.harness.step_session import GuardedSession
from ktdeval.harness.traits import close_agent
from ktdeval.market.snapshots.no_market import NO_MARKET
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.runner.plans.additional_models import session_models
from ktdeval.runner.records.episode_journal import Entry, JournalEntry, pack_lines
from ktdeval.runner.records.run_folder import ANSWERS
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.events import SampleFinished
from ktdeval.task_api.scoring import AnswerRecord, Sample, SampleSet, ScoringTask, TargetTask
from ktdeval.values.config_options import build
from ktdeval.values.strict_json import JsonObject, JsonValue, dumps_canonical, loads_strict


class AnswerForm(SubmissionForm):
    """Reads answers, JSON objects that follow a form's schema, where a trading step has its
    submission form.
    """

    def __init__(self, tool: ToolSpec, text_field: str = "") -> None:
        """`text_field`: field of the form that a reply without a call fills; empty: none."""
        self.tool = tool
        self._text_field = text_field
        self._validator = Draft202012Validator(tool.parameters)

    def arguments_of(self, text: str, /) -> str | None:
        """Return an answer whose one field is the text; None where the sample takes no text."""
        if not self._text_field:
            return None
        return dumps_canonical({self._text_field: encodable(text.strip())})

    def read(self, text: str) -> SubmissionReading:
        """Return a submission without orders when `text` is an answer, else feedback."""
        _, feedback = read_valid(text, self._validator)
        return SubmissionReading(feedback or Submission(()))


@dataclass(frozen=True)
class ScoringParts:
    """Everything that a scoring episode's outcome depends on besides its spec."""

    task: ScoringTask
    target_task: TargetTask | None
    snapshot: MarketSnapshot | None  #: None where the task asks about no market
    model: Model
    agent: Agent
    #: further models by the name that the agent asks them by; None: `model` answers for them
    further: Mapping[str, Model] | None = None
    outside: Outside = NOT_A_RUN  #: what the run gives to agents outside of this code


class ScoringEpisode:
    """An episode of a scoring task, sample by sample. Nothing goes from one to the next. Members as
    of `Episode`.
    """

    entry_type: type[Entry] = JournalEntry[AnswerRecord]

    def __init__(self, spec: EpisodeSpec, parts: ScoringParts) -> None:
        self._spec = spec
        self._parts = parts
        self._samples: SampleSet = parts.task.samples(spec, parts.snapshot, parts.target_task)
        self._steps: dict[str, int] = {}  # by the ids of their samples
        self.total_steps = samples_of(spec, self._samples)

    def is_own(self, step: int, entry: JournalEntry[AnswerRecord]) -> bool:
        """Whether an entry can be that of the sample with this index."""
        return (entry.step.step, entry.step.sample) == (step, self._sample(step).id)

    def resume(self, entries: Sequence[JournalEntry[AnswerRecord]]) -> None:
        """There is nothing to take up."""

    def run_step(self, step: int) -> JournalEntry[AnswerRecord]:
        """Ask one sample and score its answer."""
        sample = self._sample(step)
        session = GuardedSession(self._session_parts(sample), step, sample.environment)
        observation = Observation(
            step,
            rules=sample.system,
            day=sample.user,
            tool_use=sample.tool_use,
            takes_text=bool(sample.text_field),
        )
        outcome = session.decide(self._parts.agent, observation, None)
        answer = None
        if outcome.taken is not None:
            completed: JsonObject = _json_object(outcome.taken)
            if sample.environment is not None:
                completed = sample.environment.completed(completed)

            answer = _json_object(encodable(dumps_canonical(completed)))

        record = AnswerRecord(
            **asdict(outcome.counts),
            step=step,
            sample=sample.id,
            provenance=outcome.decision.provenance,
            answer=answer,
            facts=dict(sample.facts),
            scores={} if answer is None else dict(self._samples.score(step, answer)),
        )
        return JournalEntry(step=record, transcript=outcome.transcript, memory=None)

    def shown_bytes(self, step: int) -> int:
        """Return the UTF-8 bytes that a sample shows."""
        return len(self._sample(step).user.encode("utf-8", "surrogatepass"))

    def encode(self, records: Sequence[AnswerRecord]) -> tuple[str, bytes]:
        """Return all answers, as their file."""
        return ANSWERS, pack_lines(records)

    def close(self) -> None:
        """End what the agent holds."""
        close_agent(self._parts.agent)

    def event(self, record: AnswerRecord) -> SampleFinished:
        """Return the event of a recorded sample."""
        tokens = record.input_tokens + record.output_tokens
        return SampleFinished(self._spec, record.step, self.total_steps, tokens, record.provenance)

    def _sample(self, step: int) -> Sample:
        """Return the sample with this index. Raises PluginError: it can't be asked, or has the id
        of another one.
        """
        sample = self._samples.sample(step)
        if problem := sample_problem(sample):
            raise PluginError(f"sample {step}: {problem}")
        if (other := self._steps.setdefault(sample.id, step)) != step:
            raise PluginError(f"sample {step}: id {sample.id!r:.80} is that of sample {other}")

        return sample

    def _session_parts(self, sample: Sample) -> SessionParts:
        return SessionParts(
            model=self._parts.model,
            lens=sample.lens,
            guard=LeakGuard(sample.lens, self._parts.snapshot or NO_MARKET),
            tools=() if sample.environment is None else sample.environment.tools,
            form=AnswerForm(sample.form, sample.text_field),
            harness=self._parts.task.harness,
            params=build(CallParams, self._spec.call, "call"),
            seed=self._spec.call_seed,
            chance_seed=self._spec.chance_seed,
            name=self._spec.model,
            further=session_models(self._spec, self._parts.model, self._parts.further),
            outside=self._parts.outside,
        )


def sample_problem(sample: object) -> str:
    """Return what a plugin's sample should have and lacks; empty where it can be asked."""
    if not isinstance(sample, Sample):
        return f"expected a ktdeval.api.Sample, was {sample!r:.80}"

    for name in ("id", "system", "user"):
        if (
            not isinstance(text := getattr(sample, name), str)
            or encodable(text) != text
            or (name == "id" and not text)
        ):
            return (
                f"{name} must be text{' that is not empty' if name == 'id' else ''}, was"
                f" {text!r:.80}"
            )

    form: Any = sample.form
    if (
        isinstance(form, ToolSpec)
        and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", form.name)
        and form.parameters.get("type") == "object"
    ):
        return ""

    return (
        "form must be a ToolSpec with a name of A-Z, a-z, 0-9, `_` and `-`, and the schema of an"
        " object"
    )


def samples_of(spec: EpisodeSpec, samples: SampleSet) -> int:
    """Return how many samples an episode has: those of its set, or the spec's limit where that is
    less.
    """
    return len(samples) if spec.limit is None else min(spec.limit, len(samples))


def _json_object(text: str) -> dict[str, JsonValue]:
    """Return an answer, which its schema requires to be a JSON object."""
    value = loads_strict(text)
    if not isinstance(value, dict):
        raise TypeError(f"an answer is a JSON object, not {type(value).__name__}")
    return value
