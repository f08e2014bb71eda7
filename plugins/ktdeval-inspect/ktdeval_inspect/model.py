"""Inspect's model as a model of ktdeval, for episodes that run in a worker thread of a sample."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio.from_thread
from inspect_ai.event import ToolEvent
from inspect_ai.log import transcript
from inspect_ai.model import Model, ModelOutput

from ktdeval.errors import KtdevalError
from ktdeval.harness import Message, ModelRequest, Reply
from ktdeval_inspect.messages import (
    to_inspect_call,
    to_inspect_choice,
    to_inspect_config,
    to_inspect_messages,
    to_inspect_tools,
    to_reply,
)


class SampleError(KtdevalError):
    """The model call of a sample failed; the episode ends without a decision."""


@dataclass
class SampleCalls:
    """Calls of one sample to Inspect's model."""

    model: Model
    #: exception from Inspect that ended the episode: of the model, a limit or a cancellation
    error: BaseException | None = None
    output: ModelOutput | None = None  #: output of the last call
    #: whether an agent of Inspect decides; Inspect then executes and logs its tools itself
    has_agent: bool = False
    _shown: set[tuple[int, str]] = field(default_factory=set)

    def reply(self, request: ModelRequest) -> Reply:
        """Ask the model from the worker thread, in the sample's own task, so that limits, cache and
        log apply. Raises SampleError if Inspect refused or the model failed.
        """
        try:
            self.output = anyio.from_thread.run(self._generate, request)
        except BaseException as error:
            self.error = error
            raise SampleError(f"{type(error).__name__}: {error}") from error

        return to_reply(self.output)

    async def _generate(self, request: ModelRequest) -> ModelOutput:
        if not self.has_agent:
            self._show_tool_results(request.messages)
        output = await self.model.generate(
            to_inspect_messages(request.messages),
            tools=to_inspect_tools(request.tools),
            tool_choice=to_inspect_choice(request),
            config=to_inspect_config(request),
        )
        if output.error is not None and output.stop_reason != "content_filter":
            raise RuntimeError(f"the model failed: {output.error}")

        return output

    def _show_tool_results(self, messages: tuple[Message, ...]) -> None:
        """Log the results that ktdeval gave to tool calls, each once.

        Only calls of the latest assistant message can be without a logged result.
        """
        answered = {each.tool_call_id: each.content for each in messages if each.role == "tool"}
        asked_at = max((i for i, each in enumerate(messages) if each.tool_calls), default=None)
        if asked_at is None:
            return

        conversation = hash(messages[: asked_at + 1])
        for call in messages[asked_at].tool_calls:
            if call.id not in answered or (conversation, call.id) in self._shown:
                continue

            self._shown.add((conversation, call.id))
            shown = to_inspect_call(call)
            event = ToolEvent(
                id=shown.id,
                function=shown.function,
                arguments=shown.arguments,
                result=answered[call.id],
                completed=datetime.now(UTC),
            )
            # Inspect has no public way to log a call that it did not execute itself.
            transcript()._event(event)


current_sample: ContextVar[SampleCalls] = ContextVar("current_sample")
"""Calls of the sample that this task, and the worker thread that it started, belong to."""


class InspectModel:
    """Model that asks Inspect's model in the sample whose episode is running."""

    def reply(self, request: ModelRequest) -> Reply:
        """Ask Inspect's model. Raises SampleError if the call failed."""
        return current_sample.get().reply(request)
