"""Model calls of one step. What is sent passes the leak guard and has the run's parameters; what
comes back is recorded as received.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ktdeval.errors import ModelError, PluginError
from ktdeval.harness.chat_messages import (
    Message,
    Model,
    ModelRequest,
    Reply,
    readable,
    sound,
    with_distinct_ids,
)
from ktdeval.harness.steps.session_parts import NamedModel, SessionParts
from ktdeval.harness.steps.step_leak_guard import LeakClearance
from ktdeval.harness.steps.step_record import StepRecorder
from ktdeval.harness.steps.step_submissions import SubmissionPort
from ktdeval.harness.submissions.predictor_scores import FactorHistory, Predictions, predictions_of
from ktdeval.harness.tools.reading import with_offered_names
from ktdeval.harness.traits import model_traits
from ktdeval.observation.state import ObservedState
from ktdeval.values.documents.strict_json import JsonValue, Schema
from ktdeval.values.hashes import sha256_hex
from ktdeval.values.seeds import derive_seed


class ModelPort:
    """Model calls of one step. `history` returns the style factors of the index members over a
    number of days, in the mask's order.
    """

    def __init__(
        self,
        parts: SessionParts,
        step: int,
        recorder: StepRecorder,
        submissions: SubmissionPort,
        history: Callable[[int], FactorHistory] | None,
    ) -> None:
        self._parts = parts
        self._step = step
        self._recorder = recorder
        self._submissions = submissions
        self._history = history
        self._calls = 0
        self.clearance = LeakClearance(parts)  #: messages and tools that passed the leak guard
        self.predicted: Predictions | None = None  #: the model's predictions, set at the first call

    def ask(self, request: ModelRequest, states: Sequence[ObservedState]) -> Reply:
        """Call a model. `states` are the states that messages may show. Raises ModelError
        (counted), or LeakError before anything is sent.
        """
        for spec in request.tools:
            self.clearance.clear_tool(spec)

        messages = tuple(self.clearance.clear(message) for message in request.messages)
        asked = self._model_of(request)
        state = _state_in(request, messages, states)
        sent = self._complete_request(replace(request, messages=messages, state=state), asked)
        self.clearance.clear_schema(sent.submit_schema)
        self._calls += 1
        if request.tool_choice == self._submissions.tool.name:
            self._recorder.counts.submissions += 1

        exchange = self._recorder.begin_call(sent)
        try:
            reply = sound(asked.model.reply(sent))
        except ModelError as error:
            self._recorder.fail_call(exchange, error)
            raise

        exchange["reply"] = reply.to_json()
        self._submissions.receive(reply, sent.tools, sent.messages)
        reply = with_offered_names(with_distinct_ids(reply), sent.tools)
        if request.may_submit and any(call.name == sent.submit_tool for call in reply.tool_calls):
            self._recorder.counts.submissions += 1

        self.clearance.receive(reply)
        self._recorder.count_reply(reply)
        return replace(
            reply,
            content=self.clearance.withhold(reply.content),
            reasoning=self.clearance.withhold(reply.reasoning),
            tool_calls=tuple(map(readable, reply.tool_calls)),
        )

    def embed(
        self, texts: Sequence[str], ask: Callable[[Sequence[str]], Sequence[str]]
    ) -> Sequence[str]:
        """Return vectors computed by `ask`, or the vectors recorded for the step. The leak guard
        checks the texts first.
        """
        for text in texts:
            self._parts.guard.check(text, "a text to embed")

        record: dict[str, JsonValue] = {"texts": [sha256_hex(text) for text in texts]}
        self._recorder.embedded.append(record)
        try:
            recall = model_traits(self._parts.model).recorded_vectors or ask
            vectors = list(recall(texts))
        except ModelError as error:
            self._recorder.fail_call(record, error)
            raise

        record["vectors"] = [*vectors]
        return vectors

    def _model_of(self, request: ModelRequest) -> NamedModel:
        """Return the model that a request calls. Raises PluginError if the run does not have this
        model.
        """
        parts = self._parts
        if request.model in (None, parts.name):
            return NamedModel(parts.model, parts.params)
        if request.model in parts.further:
            return parts.further[request.model]

        known = ", ".join(parts.further) or "no other"
        raise PluginError(
            f"the agent asks the model {request.model!r:.80}, but declares {known}; name it in"
            " further_models"
        )

    def _complete_request(self, request: ModelRequest, asked: NamedModel) -> ModelRequest:
        """Return a request completed with the run's parameters and with what the session knows
        about the step.
        """
        is_own = request.model in (None, self._parts.name)
        seed = derive_seed(self._parts.seed, self._step, self._calls)
        run_params = replace(asked.params, seed=seed)
        own = request.own
        sent = replace(
            request,
            params=run_params if own is None else own.applied_to(run_params),
            run_params=None if own is None else run_params,
            model=None if is_own else request.model,
            chance=self._chance_of(asked.model),
            submit_tool=self._submissions.tool.name,
            submit_schema=self._schema_for(request),
            step=self._step,
            total_steps=self._parts.total_steps,
            predictions=None,
            places=None,
        )
        if self._calls == 0 and self._history is not None:
            handle_of = self._parts.lens.asset_handle
            self.predicted = predictions_of(self._parts.model, sent, self._history, handle_of)
        if self.predicted is None or not is_own:
            return sent

        scores, places = self.predicted
        return replace(sent, predictions=scores, places=places)

    def _schema_for(self, request: ModelRequest) -> Schema | None:
        """Return the step's schema of a submission; None if the request does not offer the task's
        own submit tool.
        """
        if self._submissions.tool in request.tools:
            return self._submissions.schema
        return None

    def _chance_of(self, model: Model) -> int | None:
        """Return the seed for a local model that draws random numbers; None for other models, since
        anyone can compute the seed from the window.
        """
        seed = self._parts.chance_seed
        if seed is None or not model_traits(model).draws_chance:
            return None
        return derive_seed(seed, self._step, self._calls)


def _state_in(
    request: ModelRequest, messages: Sequence[Message], states: Sequence[ObservedState]
) -> ObservedState | None:
    """Return the state in the latest user message that shows a state. If the message shows several,
    the request's own state has priority. A state whose text is in no message is not passed on, so
    that a local model knows nothing that the leak guard has not checked.
    """
    known = [state for state in (request.state, *states) if state is not None and state.sections]
    for message in reversed(messages):
        if message.role != "user":
            continue
        for state in known:
            if state.text in message.content:
                return state

    return None
