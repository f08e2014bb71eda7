"""Model of an agent of Inspect: it asks through the step's session.

The session in turn asks the evaluation's model through Inspect (`model`). On this way the call
passes the leak guard and the record of ktdeval.
"""

from __future__ import annotations

from contextvars import ContextVar

from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo

from ktdeval.harness import ExternalSession, RefusedAct
from ktdeval_inspect.agent_messages import to_output, to_request
from ktdeval_inspect.step_tools import in_thread

MODEL = "ktdeval/step"
_OVER = "The step is over."
_MANY = 1000  # calls at once; the evaluation's own model limits them

current_step: ContextVar[ExternalSession] = ContextVar("current_step")
"""Step that the agent of this task decides."""


@modelapi(name="ktdeval")
class StepModel(ModelAPI):
    """Asks the run's model in the step that the agent decides."""

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Ask the model; if the step takes no further call, a text without calls ends the agent."""
        acting = current_step.get()
        if acting.is_over:
            return _make_output(_OVER)

        request = to_request(input, tools, tool_choice, config)
        try:
            reply = await in_thread(acting.ask, request)
        except RefusedAct as refused:
            return _make_output(str(refused))

        return to_output(reply, MODEL)

    def max_connections(self) -> int:
        """Return how many calls may run at once."""
        return _MANY


def _make_output(text: str) -> ModelOutput:
    output = ModelOutput.from_content(MODEL, text)
    output.usage = ModelUsage()
    return output
