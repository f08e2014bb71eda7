"""One forced tool call outside the submission, for agents that need an answer in a fixed form."""

from __future__ import annotations

from jsonschema import Draft202012Validator

from ktdeval.harness.action import read_valid
from ktdeval.harness.agent import StepSession
from ktdeval.harness.feedback import with_cut
from ktdeval.harness.messages import Message, ModelRequest, Reply, ToolSpec
from ktdeval.values.jsonio import JsonObject

TEXT_ONLY = (
    "That reply was text, and only a call of the tool {tool} counts. Call {tool} exactly once."
)
CALL_AGAIN = "That reply was empty. Call {tool} exactly once."
ONE_CALL = "Refused: that reply held more than one call. Call {tool} exactly once."


def ask_forced(
    messages: list[Message], session: StepSession, tool: ToolSpec, failure: str
) -> JsonObject | None:
    """Return the arguments of a forced call of `tool`, which follow its schema (an object); None if
    no attempt gave them. The conversation is appended to `messages`.

    The model is asked as often as for a submission, each time with what was wrong, and each failed
    attempt counts as `failure`. `tool` is none that the session runs. Raises ModelError: the model
    call failed.
    """
    validator = Draft202012Validator(dict(tool.parameters))
    for _ in range(session.submission_attempts):
        reply = session.ask(ModelRequest(tuple(messages), tools=(tool,), tool_choice=tool.name))
        calls = reply.tool_calls
        if len(calls) == 1 and calls[0].name == tool.name:
            value, problem = read_valid(calls[0].arguments, validator)
            if problem is None:
                answer: JsonObject = value
                return answer

            feedback = problem.feedback
        else:
            feedback = ONE_CALL
            if not calls:
                feedback = TEXT_ONLY if reply.content.strip() else CALL_AGAIN

        session.count_failure(failure)
        _answer(messages, reply, with_cut(reply, feedback.replace("{tool}", tool.name)))

    return None


def _answer(messages: list[Message], reply: Reply, feedback: str) -> None:
    """Append a reply and what was wrong with it; every call is answered, as providers require."""
    if not reply.tool_calls:
        if reply.content.strip():  # several providers refuse an empty turn
            messages.append(Message("assistant", reply.content))

        messages.append(Message("user", feedback))
        return

    messages.append(Message("assistant", reply.content, reply.tool_calls))
    for call in reply.tool_calls:
        messages.append(Message("tool", feedback, tool_call_id=call.id))
