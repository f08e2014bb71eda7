"""Answers other than submissions: a forced tool call, for agents that need a fixed form, or plain
text, if no tool may be called.
"""

from __future__ import annotations

from dataclasses import replace

from ktdeval.harness.agent import StepSession
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, ToolSpec
from ktdeval.harness.submissions.feedback import answer_reply, with_cut
from ktdeval.harness.submissions.submission_form import read_valid
from ktdeval.harness.submissions.submission_schema import SubmissionSchema
from ktdeval.values.documents.strict_json import JsonObject

TEXT_ONLY = (
    "That reply was text, and only a call of the tool {tool} counts. Call {tool} exactly once."
)
CALL_AGAIN = "That reply was empty. Call {tool} exactly once."
ONE_CALL = "Refused: that reply held more than one call. Call {tool} exactly once."
OTHER_TOOL = "Refused: no tool but {tool} is run now. Call {tool} exactly once."
WORDS_ONLY = "Refused: no tool may be called now, and none was run. Reply in words, without a call."


def ask_forced(
    messages: list[Message], session: StepSession, tool: ToolSpec, failure: str
) -> JsonObject | None:
    """Return the arguments of a forced call of `tool`, which conform to its schema (an object);
    None if every attempt failed. The conversation is appended to `messages`.

    The model gets as many attempts as for a submission. Each failed attempt is counted as `failure`
    and followed by feedback. The session must not run `tool` itself. Raises ModelError if the model
    call failed.
    """
    schema = SubmissionSchema(dict(tool.parameters))
    for _ in range(session.submission_attempts):
        reply = session.ask(ModelRequest(tuple(messages), tools=(tool,), tool_choice=tool.name))
        calls = reply.tool_calls
        if len(calls) == 1 and calls[0].name == tool.name:
            value, problem = read_valid(calls[0].arguments, schema)
            if problem is None:
                answer: JsonObject = value
                return answer

            feedback = problem.feedback
        else:
            feedback = _unfit(reply, tool).replace("{tool}", tool.name)

        session.count_failure(failure)
        answer_reply(messages, reply, with_cut(reply, feedback))

    return None


def ask_in_words(messages: list[Message], session: StepSession, request: ModelRequest) -> str:
    """Return the text of the model's reply to a request that allows no tool call, made with the
    conversation `messages`. The text is empty if the reply is empty or refused.

    Some providers do not receive the restriction, and others ignore it. A tool call is therefore
    rejected and counted as `wrong_tool`, and the model is called again, with as many attempts as
    for a submission. The rejected turns are appended to `messages`. If the last attempt also
    contains a tool call, its text is used. Raises ModelError if the model call failed.
    """
    words = ""
    for _ in range(session.submission_attempts):
        reply = session.ask(replace(request, messages=tuple(messages)))
        words = "" if reply.is_refused else reply.content
        if not reply.tool_calls:
            break

        session.count_failure("wrong_tool")
        answer_reply(messages, reply, with_cut(reply, WORDS_ONLY))

    return words


def _unfit(reply: Reply, tool: ToolSpec) -> str:
    """Return why a reply is not a single call of `tool`."""
    if any(call.name != tool.name for call in reply.tool_calls):
        return OTHER_TOOL
    if reply.tool_calls:
        return ONE_CALL
    return TEXT_ONLY if reply.content.strip() else CALL_AGAIN
