"""Two strict phases of a step, for any agent: research with free tool calls, then one forced
submission (KTD-Fin §3.4).

Both phases offer the same tools, with the submit tool last: for providers, tools are part of the
prefix that their prompt caches reuse. Only a call in the submission phase submits; an earlier call
of the submit tool ends the research and submits nothing.
"""

from __future__ import annotations

from ktdeval.harness.agent import Decision, StepSession
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, ToolSpec
from ktdeval.harness.feedback import answer_reply, with_cut
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
    """Decide a step from the opening `messages`, to which the conversation is appended. Return a
    hold with provenance `fallback` if no submission is valid. The decision carries `memory`
    unchanged. Raises ModelError if the model call failed.
    """
    if session.tools and session.tool_budget > 0:
        last = research(messages, session)
        request = SUBMIT_NOW.format(tool=session.submit_tool.name)
        messages.append(Message("user", request if last is None else with_cut(last, request)))

    return _submit(messages, session, memory)


def offered_tools(session: StepSession) -> tuple[ToolSpec, ...]:
    """Return the tools that every phase of a step offers: the research tools, then the submit
    tool.
    """
    return (*session.tools, session.submit_tool)


def research(messages: list[Message], session: StepSession) -> Reply | None:
    """Extend `messages` by a research phase. The model calls tools until (a) it replies without a
    call, which is then the last message, (b) it calls the submit tool, which submits nothing and
    uses no budget, or (c) the session's budget is used up. The phase always ends, since every other
    call, valid or not, uses budget. Return the reply without a call in case (a), else None. Raises
    ModelError if a call failed.
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
    wrong_tool = WRONG_TOOL.format(tool=tool.name)
    for attempt in range(session.submission_attempts):
        reply = session.ask(ModelRequest(tuple(messages), tools=tools, tool_choice=tool.name))
        arguments = [call.arguments for call in reply.tool_calls if call.name == tool.name]
        if not reply.tool_calls:
            written = session.submission_in_text(reply.content)
            if written is not None:
                arguments = [written]

        if not arguments:
            failure, feedback = _without_submission(reply)
            session.count_failure(failure)
            answer_reply(messages, reply, feedback.format(tool=tool.name))
            continue

        # A model may repeat its call; only calls with different arguments contradict each other.
        if len(set(map(canonical_form, arguments))) > 1:
            session.count_failure("contradictory")
            feedback = CONTRADICTORY.format(tool=tool.name)
            answer_reply(messages, reply, feedback, tool.name, wrong_tool)
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

        feedback = with_cut(reply, submission.feedback)
        answer_reply(messages, reply, feedback, tool.name, wrong_tool)

    return Decision(action=(), provenance="fallback", memory=memory)


def _without_submission(reply: Reply) -> tuple[str, str]:
    """Return the kind of failure for a reply that did not call the submit tool, and the
    feedback.
    """
    if reply.tool_calls:
        return "wrong_tool", WRONG_TOOL
    if _is_empty(reply):
        return "empty_reply", with_cut(reply, EMPTY_REPLY)
    return "no_submission", with_cut(reply, NO_SUBMISSION)


def _is_empty(reply: Reply) -> bool:
    return not reply.content.strip()
