"""Two phases of a step, for any agent: research with free tool calls, then one forced submission
(KTD-Fin §3.4).

Both phases offer the same tools, with the submit tool last, because tools are part of the prefix
that providers' prompt caches reuse. A call of the submit tool during research ends the research. By
the paper's rule, such a call submits nothing. If the task accepts a submission at any time, a valid
one is the decision; the second call, which would send the whole conversation again, is then not
made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktdeval.harness.agent import Decision, StepSession, Submission
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, ToolSpec
from ktdeval.harness.submissions.feedback import answer_reply, with_cut
from ktdeval.harness.tools.reading import canonical_form
from ktdeval.values.documents.strict_json import JsonValue

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


@dataclass(frozen=True, slots=True)
class ResearchEnd:
    """End of a research phase."""

    reply: Reply | None = None  #: the reply without a call that ended the phase
    submission: Submission | None = None  #: an accepted submission, with which the step is over
    attempts: int = 0  #: number of rejected attempts to submit


def decide_in_phases(messages: list[Message], session: StepSession, memory: JsonValue) -> Decision:
    """Decide a step, starting from the opening `messages`, to which the conversation is appended.
    If no submission is valid, return a hold with provenance `fallback`. The decision carries
    `memory` unchanged. Raises ModelError if the model call failed.
    """
    end = ResearchEnd()
    if session.tools and session.tool_budget > 0:
        end = research(messages, session, may_submit=session.may_submit_early)
        if end.submission is not None:
            return _decision(end.submission, end.attempts, memory)

        request = SUBMIT_NOW.format(tool=session.submit_tool.name)
        text = request if end.reply is None else with_cut(end.reply, request)
        messages.append(Message("user", text))

    return _submit(messages, session, memory, end.attempts)


def offered_tools(session: StepSession) -> tuple[ToolSpec, ...]:
    """Return the tools that every phase of a step offers: the research tools, followed by the
    submit tool.
    """
    return (*session.tools, session.submit_tool)


def research(
    messages: list[Message], session: StepSession, *, may_submit: bool = False
) -> ResearchEnd:
    """Extend `messages` by a research phase.

    The model calls tools until (a) it replies without a call, and the reply becomes the last
    message, (b) it calls the submit tool, which uses no budget, or (c) the session's budget is used
    up. The phase always ends, since every other call, valid or not, uses budget.

    With `may_submit`, a valid call of the submit tool is the decision, and the other calls in the
    same reply are not run. Otherwise, the call submits nothing. Raises ModelError if a call failed.
    """
    tools = offered_tools(session)
    name = session.submit_tool.name
    while session.tool_budget > 0:
        reply = session.ask(ModelRequest(tuple(messages), tools=tools, may_submit=may_submit))
        if not reply.tool_calls:
            if _is_empty(reply):
                session.count_failure("empty_reply")
            else:
                messages.append(reply.as_message())

            return ResearchEnd(reply)

        is_over = any(call.name == name for call in reply.tool_calls)
        on_submission = RESEARCH_ENDED
        if is_over and may_submit:
            submission = _read_calls(reply, session)
            if submission.action is not None:
                return ResearchEnd(submission=submission)
            on_submission = submission.feedback

        _answer_research(messages, session, reply, on_submission)
        if is_over:
            return ResearchEnd(attempts=int(may_submit))

    return ResearchEnd()


def _answer_research(
    messages: list[Message], session: StepSession, reply: Reply, on_submission: str
) -> None:
    """Append a reply from the research phase, run its research tools, and append the answer to each
    of its calls.
    """
    messages.append(reply.as_message())
    for call in reply.tool_calls:
        text = on_submission
        if call.name != session.submit_tool.name:
            result = session.call_tool(call)
            text = result.text
            if result.failure == "bad_json":
                text = with_cut(reply, text)

        messages.append(Message("tool", text, tool_call_id=call.id))


def _submit(
    messages: list[Message], session: StepSession, memory: JsonValue, attempts: int
) -> Decision:
    """Run the submission phase on the conversation so far, after `attempts` rejected attempts."""
    tool = session.submit_tool
    tools = offered_tools(session)
    wrong_tool = WRONG_TOOL.format(tool=tool.name)
    for attempt in range(attempts, session.submission_attempts):
        reply = session.ask(ModelRequest(tuple(messages), tools=tools, tool_choice=tool.name))
        written = None
        if not reply.tool_calls:
            written = session.submission_in_text(reply.content)

        is_called = any(call.name == tool.name for call in reply.tool_calls)
        if not is_called and written is None:
            failure, feedback = _without_submission(reply)
            session.count_failure(failure)
            answer_reply(messages, reply, feedback.format(tool=tool.name))
            continue

        submission = _read_calls(reply, session, written)
        if submission.action is not None:
            return _decision(submission, attempt, memory)

        answer_reply(messages, reply, submission.feedback, tool.name, wrong_tool)

    return Decision(action=(), provenance="fallback", memory=memory)


def _read_calls(reply: Reply, session: StepSession, written: str | None = None) -> Submission:
    """Return the submission in a reply's calls, or in `written`, the arguments contained in its
    text. A model may repeat its call, but calls with different arguments contradict each other.
    """
    tool = session.submit_tool.name
    arguments = [call.arguments for call in reply.tool_calls if call.name == tool]
    if written is not None:
        arguments = [written]

    if len(arguments) > 1 and len(set(map(canonical_form, arguments))) > 1:
        session.count_failure("contradictory")
        feedback = CONTRADICTORY.format(tool=tool)
        return Submission(None, failure="contradictory", feedback=feedback)

    submission = session.parse_submission(arguments[0])
    return replace(submission, feedback=with_cut(reply, submission.feedback))


def _decision(submission: Submission, attempts: int, memory: JsonValue) -> Decision:
    """Return the decision for an accepted submission after `attempts` rejected ones."""
    assert submission.action is not None, "only an accepted submission decides"
    return Decision(
        action=submission.action,
        provenance="model" if attempts == 0 else "model_after_retry",
        overall_reason=submission.overall_reason,
        stock_ids=submission.stock_ids,
        memory=memory,
    )


def _without_submission(reply: Reply) -> tuple[str, str]:
    """Return the kind of failure and the feedback for a reply that did not call the submit tool."""
    if reply.tool_calls:
        return "wrong_tool", WRONG_TOOL
    if _is_empty(reply):
        return "empty_reply", with_cut(reply, EMPTY_REPLY)
    return "no_submission", with_cut(reply, NO_SUBMISSION)


def _is_empty(reply: Reply) -> bool:
    return not reply.content.strip()
