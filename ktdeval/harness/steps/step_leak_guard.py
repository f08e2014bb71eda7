"""Clearance for one step. Whatever is sent to the model passes the leak guard; the model's own
words are sent back to it with hidden identities withheld.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ktdeval.harness.chat_messages import Message, Opaque, Reply, ToolCall, ToolSpec
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.observation.state_rows import as_object
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical, loads_strict

_Calls = tuple[tuple[str, str], ...]


def _name_calls(calls: Sequence[ToolCall]) -> _Calls:
    return tuple((call.id, call.name) for call in calls)


class LeakClearance:
    """Messages and tools of a step that have passed the leak guard, in the form in which they are
    sent.
    """

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._offered = {parts.form.tool.name, *(tool.name for tool in parts.tools)}
        self._cleared: dict[Message, Message] = {}
        self._cleared_ids: dict[str, str] = {}
        self._of_calls: dict[_Calls, Opaque | None] = {}
        self._has_cleared_schema = False

    def receive(self, reply: Reply) -> None:
        """Remember the opaque data of a reply and its calls. Only remembered data may be sent back
        with the reply or its calls; data that an agent adds may not.
        """
        received = (reply.opaque, *(call.opaque for call in reply.tool_calls))
        self._parts.received.update(opaque for opaque in received if opaque is not None)
        if reply.tool_calls:
            calls = _name_calls(reply.tool_calls)
            is_new = calls not in self._of_calls
            # Calls in parallel conversations may share ids, in which case the owner is unknown.
            self._of_calls[calls] = reply.opaque if is_new else None

    def clear_tool(self, tool: ToolSpec) -> None:
        """Check the description of a tool once per episode."""
        if self._parts.cleared_specs.get(tool.name) == tool:
            return
        text = dumps_canonical([tool.name, tool.description, tool.parameters])
        self._parts.guard.check(text, "the description of a tool")
        self.let_pass(tool)

    def clear_schema(self, schema: Mapping[str, JsonValue] | None) -> None:
        """Check the step's schema of a submission once: with the first call that carries it, which
        in a team is not the first call of the step.
        """
        if schema is None or self._has_cleared_schema:
            return

        self._parts.guard.check(dumps_canonical(schema), "the schema of a submission")
        self._has_cleared_schema = True

    def let_pass(self, tool: ToolSpec | None = None, prompt: str = "") -> None:
        """Treat a tool or a system prompt as cleared for the episode."""
        if prompt:
            self._parts.cleared_prompts.add(prompt)
        if tool is None:
            return
        # A copy, since an agent could change a schema in place.
        parameters = as_object(loads_strict(dumps_canonical(tool.parameters)))
        self._parts.cleared_specs[tool.name] = ToolSpec(tool.name, tool.description, parameters)

    def withhold(self, text: str) -> str:
        """Return a text with hidden identities withheld."""
        if not text:
            return ""
        return self._parts.guard.redact(text)

    def clear(self, message: Message) -> Message:
        """Return the message in the form in which it is sent. The model's own messages are
        redacted, all others are checked. This is done once per message.
        """
        cleared = self._cleared.get(message)
        if cleared is None:
            if message.role == "assistant":
                cleared = self._clear_own(message)
            else:
                cleared = self._check(message)

            self._cleared[message] = cleared

        return cleared

    def _clear_own(self, message: Message) -> Message:
        """Return one of the model's own messages with hidden identities withheld."""
        content = self.withhold(message.content)
        calls = tuple(self._clear_call(call_) for call_ in message.tool_calls)
        # An agent may build a turn from its calls only.
        opaque = self._clear_opaque(
            message.opaque or self._of_calls.get(_name_calls(message.tool_calls))
        )
        return replace(message, content=content, tool_calls=calls, opaque=opaque)

    def _check(self, message: Message) -> Message:
        """Check a message from suite or agent. System prompts are checked once per episode."""
        prompts = self._parts.cleared_prompts
        is_system = message.role == "system"
        if not is_system or message.content not in prompts:
            self._parts.guard.check(message.content, f"a {message.role} message")
        if is_system:
            prompts.add(message.content)

        if message.tool_call_id is None:
            return message
        return replace(message, tool_call_id=self._clear_id(message.tool_call_id))

    def _clear_call(self, call_: ToolCall) -> ToolCall:
        name = call_.name
        is_offered = name in self._offered
        if not is_offered and self.withhold(name) != name:
            name = "withheld"

        arguments = self._parts.guard.redact_json(call_.arguments, self._parts.field_names)
        return ToolCall(self._clear_id(call_.id), name, arguments, self._clear_opaque(call_.opaque))

    def _clear_opaque(self, opaque: Opaque | None) -> Opaque | None:
        """Return opaque data in the form in which they are sent; None for data that an agent added,
        and for signed words that contain a hidden identity.
        """
        if opaque is None or opaque not in self._parts.received:
            return None
        if self.withhold(opaque.signed_words) != opaque.signed_words:
            return None
        if opaque.has_words:
            data = self._parts.guard.redact_json(opaque.data, self._parts.field_names)
            return replace(opaque, data=data)
        return opaque

    def _clear_id(self, text: str) -> str:
        """Return the id of a call, which the answer to the call repeats. This is the model's own
        id, or a plain id if the model's contains an identity.
        """
        if text not in self._cleared_ids:
            cleared = text
            if self.withhold(text) != text:
                cleared = f"call_{len(self._cleared_ids)}_withheld"

            self._cleared_ids[text] = cleared

        return self._cleared_ids[text]
