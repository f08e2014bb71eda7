"""Scoring episode: each sample passes through agent, session and mask like a trading step, and the
answer is scored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from ktdeval.errors import PluginError
from ktdeval.harness.agent import Observation, Submission
from ktdeval.harness.chat_messages import ToolSpec, encodable
from ktdeval.harness.steps.step_session import GuardedSession
from ktdeval.harness.submissions.submission_form import (
    SubmissionForm,
    SubmissionReading,
    read_valid,
)
from ktdeval.harness.submissions.submission_schema import SubmissionSchema
from ktdeval.runner.episodes.episode_parts import ScoringParts, StepwiseEpisode
from ktdeval.runner.records.episode_journal import Entry, JournalEntry, pack_lines
from ktdeval.runner.records.run_file_names import ANSWERS
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.events import SampleFinished
from ktdeval.task_api.scoring import AnswerRecord, Sample, SampleSet
from ktdeval.values.documents.strict_json import (
    JsonObject,
    JsonValue,
    dumps_canonical,
    loads_strict,
)


class AnswerForm(SubmissionForm):
    """Form for answers, which are JSON objects that match the form's schema. Trading steps use a
    form for orders instead.
    """

    def __init__(self, tool: ToolSpec, text_field: str = "") -> None:
        """`text_field` is the field that is filled from a reply without a tool call. It is empty if
        the form has no such field.
        """
        self.tool = tool
        self._text_field = text_field
        self._schema = SubmissionSchema(tool.parameters)

    def arguments_of(self, text: str, /) -> str | None:
        """Return an answer with this text as its only field. None if the sample does not accept
        plain text.
        """
        if not self._text_field:
            return None
        return dumps_canonical({self._text_field: encodable(text.strip())})

    def read(self, text: str) -> SubmissionReading:
        """Return an empty submission if `text` is a valid answer, and feedback otherwise."""
        _, feedback = read_valid(text, self._schema)
        return SubmissionReading(feedback or Submission(()))


class ScoringEpisodeRun(StepwiseEpisode[ScoringParts]):
    """Scoring episode, which answers independent samples one by one. The members are documented in
    `Episode`.
    """

    entry_type: type[Entry] = JournalEntry[AnswerRecord]

    def __init__(self, spec: EpisodeSpec, parts: ScoringParts) -> None:
        self._samples: SampleSet = parts.task.samples(spec, parts.snapshot, parts.target_task)
        super().__init__(spec, parts, len(self._samples))
        self._steps: dict[str, int] = {}  # index by sample id

    def is_own(self, step: int, entry: JournalEntry[AnswerRecord]) -> bool:
        """Return whether an entry can belong to the sample with this index."""
        return (entry.step.step, entry.step.sample) == (step, self._sample(step).id)

    def resume(self, entries: Sequence[JournalEntry[AnswerRecord]]) -> None:
        """Do nothing: samples leave no state to restore."""

    def run_step(self, step: int) -> JournalEntry[AnswerRecord]:
        """Ask for the answer to one sample, and score it."""
        sample = self._sample(step)
        environment = sample.environment
        tools = () if environment is None else environment.tools
        form = AnswerForm(sample.form, sample.text_field)
        parts = self._make_session_parts(sample.lens, tools, form)
        session = GuardedSession(parts, step, environment)
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
            if environment is not None:
                completed = environment.complete_answer(completed)

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
        """Return the number of UTF-8 bytes that a sample shows."""
        return len(self._sample(step).user.encode("utf-8", "surrogatepass"))

    def encode(self, records: Sequence[AnswerRecord]) -> tuple[str, bytes]:
        """Return the name and contents of the file with all answers."""
        return ANSWERS, pack_lines(records)

    def event(self, record: AnswerRecord) -> SampleFinished:
        """Return the event for a recorded sample."""
        tokens = record.input_tokens + record.output_tokens
        return SampleFinished(self._spec, record.step, self.total_steps, tokens, record.provenance)

    def _sample(self, step: int) -> Sample:
        """Return the sample with this index. Raises PluginError if the sample is invalid, or its id
        belongs to another sample.
        """
        sample = self._samples.sample(step)
        if problem := sample_problem(sample):
            raise PluginError(f"sample {step}: {problem}")
        if (other := self._steps.setdefault(sample.id, step)) != step:
            raise PluginError(
                f"sample {step}: id {sample.id!r:.80} is already used by sample {other}"
            )

        return sample


def sample_problem(sample: object) -> str:
    """Return why a plugin's sample is invalid; empty if it is valid."""
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


def _json_object(text: str) -> dict[str, JsonValue]:
    """Return an answer as the JSON object that its schema requires."""
    value = loads_strict(text)
    if not isinstance(value, dict):
        raise TypeError(f"an answer is a JSON object, not {type(value).__name__}")
    return value
