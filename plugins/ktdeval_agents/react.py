"""The reference scaffold: a ReAct loop of two strict phases, research and submission (KTD-Fin §3.4)."""

from __future__ import annotations

from ktdeval.api import Decision, Desk, JsonValue, Message, ModelRequest, Observation, Reply, Submission, ToolCall

SUBMIT_NOW = "The research phase is over. Submit your decision for this step now: call {tool} exactly once."
NO_SUBMISSION = "That reply held no call of {tool}, so nothing was submitted. Call {tool} exactly once."
WRONG_TOOL = "This tool is not available in the submission phase. Call {tool} exactly once."
ONE_IS_ENOUGH = "Ignored: the first {tool} call of the reply is the one that counts."


class ReactAgent:
    """Research until the model stops calling tools or its budget is spent; then submit, with feedback on what was invalid.

    Research phase: the model chooses freely among the research tools. A reply without a tool call ends the phase; so does a
    spent budget. Modes without tools skip it. Submission phase: the submit tool is the only tool and is forced; of several
    calls in one reply the first counts. A reply without a valid submission is answered with what was wrong, until the
    attempts are used up; then the step is a hold with provenance `fallback`. Nothing is carried from step to step.

    Source: KTD-Fin §3.4 and Yao et al. 2023 (ReAct).
    """

    def decide(self, observation: Observation, desk: Desk, memory: JsonValue) -> Decision:
        """Decide one step.

        Raises:
            ModelError: the model call failed; the engine holds and records it.
        """
        messages = [Message("system", observation.system), Message("user", observation.user)]
        if desk.tools and desk.tool_budget > 0:
            _research(messages, desk)
            messages.append(Message("user", SUBMIT_NOW.format(tool=desk.submit_tool.name)))
        return _submit(messages, desk, memory)


def _research(messages: list[Message], desk: Desk) -> None:
    """Extend `messages` by the research phase. Ends because every tool call, good or bad, costs budget."""
    while desk.tool_budget > 0:
        reply = desk.ask(ModelRequest(tuple(messages), tools=desk.tools))
        if not reply.tool_calls:
            if _is_empty(reply):
                desk.count_failure("empty_reply")
            else:
                messages.append(Message("assistant", reply.content))
            return
        messages.append(Message("assistant", reply.content, reply.tool_calls))
        for call in reply.tool_calls:
            messages.append(Message("tool", desk.call_tool(call).text, tool_call_id=call.id))


def _submit(messages: list[Message], desk: Desk, memory: JsonValue) -> Decision:
    """Run the submission phase on the conversation so far."""
    tool = desk.submit_tool
    for attempt in range(desk.submission_attempts):
        reply = desk.ask(ModelRequest(tuple(messages), tools=(tool,), tool_choice=tool.name))
        call = next((call for call in reply.tool_calls if call.name == tool.name), None)
        if call is None:
            _answer_without_submission(messages, reply, desk)
            continue
        submission = desk.parse_submission(call.arguments)
        if submission.action is not None:
            return Decision(
                action=submission.action,
                provenance="model" if attempt == 0 else "model_after_retry",
                overall_reason=submission.overall_reason,
                stock_ids=submission.stock_ids,
                memory=memory,
            )
        _answer_invalid_submission(messages, reply, call, submission)
    return Decision(action=(), provenance="fallback", memory=memory)


def _answer_without_submission(messages: list[Message], reply: Reply, desk: Desk) -> None:
    """Say what was missing from a reply that did not call the submit tool, and count it under its kind."""
    if reply.tool_calls:
        desk.count_failure("wrong_tool")
        messages.append(Message("assistant", reply.content, reply.tool_calls))
        wrong = WRONG_TOOL.format(tool=desk.submit_tool.name)
        messages.extend(Message("tool", wrong, tool_call_id=call.id) for call in reply.tool_calls)
        return
    if _is_empty(reply):
        # An empty assistant turn is not re-sent: several providers refuse one.
        desk.count_failure("empty_reply")
    else:
        desk.count_failure("no_submission")
        messages.append(Message("assistant", reply.content))
    messages.append(Message("user", NO_SUBMISSION.format(tool=desk.submit_tool.name)))


def _answer_invalid_submission(messages: list[Message], reply: Reply, submitted: ToolCall, submission: Submission) -> None:
    """Answer every call of the reply, as providers demand: the submitted one with its validation errors."""
    messages.append(Message("assistant", reply.content, reply.tool_calls))
    for call in reply.tool_calls:
        if call is submitted:
            text = submission.feedback
        else:
            text = (ONE_IS_ENOUGH if call.name == submitted.name else WRONG_TOOL).format(tool=submitted.name)
        messages.append(Message("tool", text, tool_call_id=call.id))


def _is_empty(reply: Reply) -> bool:
    return not reply.content.strip()
