"""Record of one step: its model calls, counts and failures, and the actions of external agents."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ktdeval.errors import ModelError
from ktdeval.harness.agent import StepCounts
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, encodable
from ktdeval.harness.external.external_acts import ExternalRecord
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_schema import OfferedSchemas
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import Value

SILENT_ROLE = "silent_role"
"""Failure of a role of a team that was asked and gave no usable answer in its turn."""

# names that an agent may give to a reply that a content filter emptied
_OF_FILTERED = frozenset({"empty_reply", "no_submission", "no_signal"})


class TranscriptEntry(Value):
    """Conversation of one step."""

    step: int  #: number of the step
    #: one JSON object for each model call. `kept`: number of leading messages shared with the
    #: previous call; `sent`: the messages after these, as sent; `tools`: names of the tools
    #: offered; `tool_choice`, `seed`, and `reply` (raw) or `error` (kind of ModelError); `schemas`:
    #: by name, schemas specific to this step, if they differ from the last recorded ones; `role` if
    #: a role of a team made the call, `model` if an additional model was called; `answered` (true
    #: or false) if the call ended the turn of a role.
    exchanges: tuple[dict[str, JsonValue], ...]
    #: arguments of the submit tool that the decision used unchanged; None without one
    submission: str | None
    #: one JSON object for each call of an embedding service: `texts` (hashes), and `vectors` or
    #: `error`; absent without one
    embedded: tuple[dict[str, JsonValue], ...] | UnsetType = UNSET
    #: handle -> the model's prediction for a name (`Predictor`); absent for a model that does not
    #: predict
    predicted: dict[str, float] | UnsetType = UNSET
    #: actions of an external agent; absent for other agents
    external: ExternalRecord | UnsetType = UNSET


class StepRecorder:
    """Recorder for the current step."""

    def __init__(self, parts: SessionParts) -> None:
        self._guard = parts.guard
        self._offered = OfferedSchemas((*parts.specs, parts.form.tool))
        self._messages: tuple[Message, ...] = ()  # messages of the latest call
        self._is_filtered = False  # whether a content filter stopped the latest reply
        self.counts = StepCounts()
        self.exchanges: list[dict[str, JsonValue]] = []
        self.embedded: list[dict[str, JsonValue]] = []
        self.external: ExternalRecord | UnsetType = UNSET
        self.last_failure = ""  #: kind of failure of the last rejected submission

    def begin_call(self, sent: ModelRequest) -> dict[str, JsonValue]:
        """Begin the record of a call and return it. Leading messages shared with the previous call
        are counted instead of repeated.
        """
        number_before = 0
        for earlier, message in zip(self._messages, sent.messages):
            if earlier is not message and earlier != message:
                break
            number_before += 1

        self._messages = sent.messages
        exchange: dict[str, JsonValue] = {
            "kept": number_before,
            "sent": [message.to_json() for message in sent.messages[number_before:]],
            "tools": [spec.name for spec in sent.tools],
            "tool_choice": sent.tool_choice,
            "seed": sent.params.seed,
        }
        if schemas := self._offered.record_changes(sent.tools):
            exchange["schemas"] = schemas
        if sent.role is not None:
            exchange["role"] = self._guard.redact(encodable(sent.role))
        if sent.model is not None:
            exchange["model"] = sent.model

        self.exchanges.append(exchange)
        return exchange

    def fail_call(self, record: dict[str, JsonValue], error: ModelError) -> None:
        """Add a call's failure to its record, and count the failure."""
        record["error"] = error.kind
        self.counts.fail(f"model_{error.kind}")

    def count_reply(self, reply: Reply) -> None:
        """Count a reply's tokens and any faults in it."""
        self.counts.add_reply(reply)
        self._is_filtered = reply.finish_reason == "content_filter"

    def count_failure(self, kind: str) -> None:
        """Record a failure that the agent detected (an empty reply, a wrong tool, …) under the name
        `kind`. If a content filter emptied the reply, the filter's own failure is counted instead.
        """
        if self._is_filtered and kind in _OF_FILTERED:
            return
        self.last_failure = kind
        self.counts.fail(kind)

    def end_turn(self, answered: bool) -> None:
        """Record in the latest call whether it ended a role's turn with a usable answer. A turn
        without one is counted as `SILENT_ROLE`.
        """
        if self.exchanges:
            self.exchanges[-1]["answered"] = answered
        if not answered:
            self.counts.fail(SILENT_ROLE)

    def keep_acts(self, record: ExternalRecord) -> None:
        """Add the actions of an external agent to the step's record, and count its submissions."""
        self.external = record
        submissions = [act for act in record.acts if act.kind == "submit"]
        self.counts.submissions += len(submissions)
        if submissions:  # later failures are not about submissions
            self.last_failure = submissions[-1].failure
