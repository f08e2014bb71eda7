"""Agent of a chat: tools are called as long as the model calls them, and its text is the answer."""

from __future__ import annotations

from ktdeval.errors import ConfigError
from ktdeval.harness import (
    Decision,
    Message,
    ModelRequest,
    Observation,
    Reply,
    StepSession,
    ToolSpec,
)
from ktdeval.trading import Provenance
from ktdeval.values import JsonValue
from ktdeval_qfinzero.chat.question import FORM

PROCEDURE = "Answer in plain text when you have made your calls."
_EMPTY = "That reply was empty. Answer the user now."
_ENDED = "No further call can be made in this turn. Answer the user now."


class ChatAgent:
    """One loop: a reply with calls is answered with their results, a reply without a call is the
    answer. A call of the form answers, too, for models that reply by calls alone. It has no memory:
    earlier turns stand in the question.
    """

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Answer one turn; a decision with provenance `fallback` without a valid answer. Raises
        ModelError: the model call failed; ConfigError: the task is no chat.
        """
        if session.submit_tool.name != FORM.name:
            raise ConfigError(
                "agent chat answers turns of a chat (`ktdeval paper qfinzero serve`); leave out --agent"
            )

        system = observation.system_with(PROCEDURE)
        messages = [Message("system", system), Message("user", observation.user)]
        tools = (*session.tools, session.submit_tool)
        failed = 0
        while failed < session.submission_attempts:
            reply = session.ask(_request(messages, tools, session))
            answer = _answer_in(reply, session)
            feedback = _EMPTY
            if answer is not None:
                submission = session.parse_submission(answer)
                if submission.action is not None:
                    return Decision((), _provenance(failed), memory=memory)

                feedback = submission.feedback
            elif reply.tool_calls and session.tool_budget > 0:
                _make_calls(messages, reply, session)
                continue

            failed += 1
            _refuse(messages, reply, feedback, session)

        return Decision((), "fallback", memory=memory)


def _provenance(failed: int) -> Provenance:
    if failed:
        return "model_after_retry"
    return "model"


def _request(
    messages: list[Message], tools: tuple[ToolSpec, ...], session: StepSession
) -> ModelRequest:
    """Return the next request: any tool, or the form alone once the budget of calls is spent."""
    choice = None
    if session.tool_budget == 0:
        choice = session.submit_tool.name
    return ModelRequest(tuple(messages), tools=tools, tool_choice=choice)


def _answer_in(reply: Reply, session: StepSession) -> str | None:
    """Return the arguments of the form that a reply gives; None where it gives no answer."""
    for call in reply.tool_calls:
        if call.name == session.submit_tool.name:
            return call.arguments

    if reply.tool_calls:
        return None
    return session.submission_in_text(reply.content)


def _make_calls(messages: list[Message], reply: Reply, session: StepSession) -> None:
    """Make the calls of a reply and append their answers."""
    messages.append(reply.as_message())
    for call in reply.tool_calls:
        result = session.call_tool(call)
        messages.append(Message("tool", result.text, tool_call_id=call.id))


def _refuse(messages: list[Message], reply: Reply, feedback: str, session: StepSession) -> None:
    """Append what is wrong with a reply that is no answer, and count an empty one."""
    if not reply.tool_calls:
        session.count_failure("empty_reply")
        messages.append(Message("user", feedback))
        return

    messages.append(reply.as_message())
    for call in reply.tool_calls:
        text = _ENDED
        if call.name == session.submit_tool.name:
            text = feedback
        messages.append(Message("tool", text, tool_call_id=call.id))
