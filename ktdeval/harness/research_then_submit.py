"""Two strict phases of a step, for any agent: research with free tool calls, then one forced
submission (KTD-Fin §3.4).

Both phases offer the same tools, the submit tool as the last one: providers count tools among what
their prompt caches reuse. A submission is only what the submission phase asks for; a call of the
submit tool before it ends the research, and submits nothing.
"""

from __future__ import annotations

from ktdeval.harness.agent import Decision, StepSession
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, ToolSpec
from ktdeval.harness.feedback import with_cut
from ktdeval.harness.reading import canonical_form
from ktdeval.values.strict_json import JsonValue

SUBMIT_NOW = (
    "The research phase is over. Submit your decision for this step now: call {tool} exactly once."
)
NO_SUBMISSION = (
    "That reply was text, and nothing was submitted: only a call of the tool {tool} submits. Call"
    " {tool} exactly once."
)
EMPTY_REPLY = "That reply was empty, so nothing was submitted. Call {tool} exactly once."
WRONG_TOOL = "The research phase is over, so no tool but {tool} is run. Call {tool} exactly once."
RESEARCH_ENDED = "This ends the research phase. Nothing was submitted yet."
CONTRADICTORY = (
    "Refused: that reply held {tool} calls that differ, so none of them counts. Call {tool} exactly"
    " once."
)


def decide_in_phases(messages: list[Message], session: StepSession, memory: JsonValue) -> Decision:
    """Decide a step from the opening `messages`, which the conversation is appended to; a hold with
    provenance `fallback` where no submission is valid. The decision carries `memory` unchanged.
    Raises ModelError: the model call failed.
    """
    if session.tools and session.tool_budget > 0:
        last = research(messages, session)
        request = SUBMIT_NOW.format(tool=session.submit_tool.name)
        messages.append(Message("user", request if last is None else with_cut(last, request)))

    return _submit(messages, session, memory)


def offered_tools(session: StepSession) -> tuple[ToolSpec, ...]:
    """Return the tools that every phase of a step offers: those of its research, then the one to
    submit with.
    """
    return (*session.tools, session.submit_tool)


def research(messages: list[Message], session: StepSession) -> Reply | None:
    """Extend `messages` by a research phase: the model calls tools until it replies without a call,
    which is then the last message, or calls the submit tool, which submits nothing and costs no
    budget, or the session's budget is spent. Ends because every other call, good or bad, costs
    budget. Returns the reply without a call that ended it; None where another end came. Raises
    ModelError: a call failed.
    """
    tools = offered_tools(session)
    while session.tool_budget > 0:
        reply = session.ask(ModelRequest(tuple(messages), tools=tools))
        if not reply.tool_calls:
            if _is_empty(reply):
                session.count_failure("empty_reply")
            else:
                messages.append(reply.as_message())

            return reply

        messages.append(reply.as_message())
        is_over = False
        for call in reply.tool_calls:
            if call.name == session.submit_tool.name:
                is_over = True
                text = RESEARCH_ENDED
            else:
                result = session.call_tool(call)
                text = result.text
                if result.failure == "bad_json":
                    text = with_cut(reply, text)

            messages.append(Message("tool", text, tool_call_id=call.id))

        if is_over:
            return None

    return None


def _submit(messages: list[Message], session: StepSession, memory: JsonValue) -> Decision:
    """Run the submission phase on the conversation so far."""
    tool = session.submit_tool
    tools = offered_tools(session)
    for attempt in range(session.submission_attempts):
        reply = session.ask(ModelRequest(tuple(messages), tools=tools, tool_choice=tool.name))
        arguments = [call.arguments for call in reply.tool_calls if call.name == tool.name]
        if not reply.tool_calls:
            written = session.submission_in_text(reply.content)
            if written is not None:
                arguments = [written]

        if not arguments:
            _answer_without_submission(messages, reply, session)
            continue

        # A model may repeat its call; only calls that say different things contradict each other.
        if len(arguments) > 1 and len(set(map(canonical_form, arguments))) > 1:
            session.count_failure("contradictory")
            _answer_calls(messages, reply, tool.name, CONTRADICTORY.format(tool=tool.name))
            continue

        submission = session.parse_submission(arguments[0])
        if submission.action is not None:
            return Decision(
                action=submission.action,
                provenance="model" if attempt == 0 else "model_after_retry",
                overall_reason=submission.overall_reason,
                stock_ids=submission.stock_ids,
                memory=memory,
            )

        _answer_calls(messages, reply, tool.name, with_cut(reply, submission.feedback))

    return Decision(action=(), provenance="fallback", memory=memory)


def _answer_without_submission(messages: list[Message], reply: Reply, session: StepSession) -> None:
    """Append the feedback to a reply that did not call the submit tool, and count the failure under
    its kind.
    """
    if reply.tool_calls:
        session.count_failure("wrong_tool")
        _answer_calls(messages, reply, session.submit_tool.name)
        return

    if _is_empty(reply):
        # An empty assistant turn is not re-sent: several providers refuse one.
        session.count_failure("empty_reply")
        feedback = EMPTY_REPLY
    else:
        session.count_failure("no_submission")
        messages.append(reply.as_message())
        feedback = NO_SUBMISSION

    request = feedback.format(tool=session.submit_tool.name)
    messages.append(Message("user", with_cut(reply, request)))


def _answer_calls(
    messages: list[Message], reply: Reply, submit_tool: str, feedback: str = ""
) -> None:
    """Answer every call of the reply, as providers require: a submission with the feedback."""
    messages.append(reply.as_message())
    for call in reply.tool_calls:
        text = WRONG_TOOL.format(tool=submit_tool)
        if call.name == submit_tool:
            text = feedback
        messages.append(Message("tool", text, tool_call_id=call.id))


def _is_empty(reply: Reply) -> bool:
    return not reply.content.strip()
