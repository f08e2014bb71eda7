"""Model that returns each task's trivial answer, so that any task can be tried without a key."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.errors import ModelError
from ktdeval.harness import NO_TOOL, ModelRequest, ModelTraits, Reply, ToolSpec, smallest_value
from ktdeval.keyless import Conversation


class TrivialModel:
    """Looks nothing up and submits the minimum that a form allows.

    It never trades. For a question with choices it takes the first choice; otherwise it gives the
    shortest string, the number nearest to 0, or an empty list. It does not read the question, so
    its score is the chance level without any skill.
    """

    def __init__(self, _name: str = "") -> None:
        """Make the model; the name is ignored."""
        self.traits = ModelTraits(is_free=True, step_problem=self._step_problem)

    def _step_problem(self, requests: Sequence[ModelRequest]) -> str | None:  # noqa: ARG002 - it reads none
        """Return None: the model can act in any step."""
        return None

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request. Raises ModelError `no_trivial_answer` if the form has unsupported
        constraints on its values.
        """
        conversation = Conversation(request)
        if conversation.is_submission and conversation.is_readable:
            return conversation.submit([], conversation.reason("nothing to do"))

        form = _asked_form(request)
        if form is None:
            return Reply("Nothing to look up.")

        try:
            answer = smallest_value(form.parameters)
        except ValueError as error:
            raise ModelError("no_trivial_answer", f"{form.name}: {error}") from error

        if not isinstance(answer, dict):
            raise ModelError("no_trivial_answer", f"{form.name}: its form is not an object")

        return conversation.call([(form.name, answer)])


def _asked_form(request: ModelRequest) -> ToolSpec | None:
    """Return the tool that a request requires the model to call now; None if it requires none."""
    if request.tool_choice == NO_TOOL:
        return None

    wanted = request.tool_choice
    if wanted is None and len(request.tools) == 1:
        wanted = request.submit_tool

    for tool in request.tools:
        if tool.name == wanted:
            return tool

    return None
