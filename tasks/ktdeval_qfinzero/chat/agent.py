"""Chat agent, which executes calls for as long as the model requests them. The model's text is the
answer.
"""

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
    """Agent with a single loop. A reply with calls is answered with their results; a reply without
    calls is the answer. For models that reply only by calls, a call to the form is an answer too.
    The agent has no memory, since the question contains the earlier turns.
    """

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Answer one turn. The decision's provenance is `fallback` if no answer is valid. Raises
        ModelError if the model call fails; ConfigError if the task is not a chat.
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
    """Return the next request, which offers all tools, or only the form once the call budget is
    spent.
    """
    choice = None
    if session.tool_budget == 0:
        choice = session.submit_tool.name
    return ModelRequest(tuple(messages), tools=tools, tool_choice=choice)


def _answer_in(reply: Reply, session: StepSession) -> str | None:
    """Return the arguments of the form call in a reply or, if the reply has no calls, the
    submission in its text; None if it has neither.
    """
    for call in reply.tool_calls:
        if call.name == session.submit_tool.name:
            return call.arguments

    if reply.tool_calls:
        return None
    return session.submission_in_text(reply.content)


def _make_calls(messages: list[Message], reply: Reply, session: StepSession) -> None:
    """Make the calls in a reply and append their answers."""
    messages.append(reply.as_message())
    for call in reply.tool_calls:
        result = session.call_tool(call)
        messages.append(Message("tool", result.text, tool_call_id=call.id))


def _refuse(messages: list[Message], reply: Reply, feedback: str, session: StepSession) -> None:
    """Append feedback on a reply that is not an answer, and count the reply if it has no calls."""
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
