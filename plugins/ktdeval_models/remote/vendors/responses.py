"""OpenAI's Responses API.

Sources: the API reference, the guides on reasoning and conversation state, and the types of the
`openai` package (`openai.types.responses`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ktdeval.calls import bad_response, one_line
from ktdeval.harness import NO_TOOL, Listener, Message, ModelRequest, Reply, ToolCall
from ktdeval.values import JsonValue
from ktdeval_models.remote import base
from ktdeval_models.remote.base import part, sent_name, text_of
from ktdeval_models.remote.params import OpenAIParams, presets
from ktdeval_models.remote.replies.read_tool_calls import read_call, sent_arguments
from ktdeval_models.remote.replies.turn_parts import TurnRecord, parts_of_turn
from ktdeval_models.remote.requests.accepted_forms import FREE, SENT, RequestForms
from ktdeval_models.remote.requests.own_fields import OwnForm
from ktdeval_models.remote.streams.assembly import StreamAssembler
from ktdeval_models.remote.streams.responses import ResponsesAssembler
from ktdeval_models.remote.vendors.openai_adapter import OpenAIAdapter, token_usage
from ktdeval_models.remote.vendors.openai_requests import has_text, tool_body
from ktdeval_models.remote.wire_words import wire_words

Body = dict[str, Any]

_BETWEEN_TEXTS = "\n"  # separator between the texts in a reply's content
INCLUDE = "include"
"""Request part that models without reasoning refuse. It lists what else a response should include."""
_ENCRYPTED = "reasoning.encrypted_content"
_UNREASONING = re.compile(wire_words("openai")["without_reasoning"])


class ResponsesModel(OpenAIAdapter):
    """Model that uses the Responses API.

    Each request contains the whole conversation, and the provider stores nothing. So reasoning
    arrives encrypted and is sent back unchanged (guide "Conversation state"). The API has no seed,
    and no separate limit on reasoning.
    """

    path = "/responses"
    params: OpenAIParams
    own_form = OwnForm("responses")

    def __init__(self, name: str, params: OpenAIParams) -> None:
        openai = presets()["openai"]
        super().__init__("openai", name, params, openai.base_url, openai.variables)
        self.check_fields(
            params,
            ("temperature", "store", "include", "tool_choice", "text", "reasoning", "service_tier"),
        )
        set_by_user = (*params.extra_body, *params.omit)
        self._includes = _UNREASONING.match(name) is None and INCLUDE not in set_by_user
        self.forms = RequestForms({INCLUDE: (SENT, FREE)})

    def assembler(self, hear: Listener) -> StreamAssembler:
        """Return the assembler for the events of one response."""
        return ResponsesAssembler(hear, self.loads)

    def settings(self) -> dict[str, JsonValue]:
        """Return the settings that change how a request is encoded."""
        return {
            **super().settings(),
            "api": "responses",
            "include": [_ENCRYPTED] if self._includes else [],
            "reasoning_summary": self.params.reasoning_summary,
            "service_tier": self.params.service_tier,
            **self.not_sent(),
        }

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call."""
        return self.encode_as(request, self.forms.current())

    def untaken(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the call parameters that a request omits."""
        lacking = [] if "temperature" in body else ["temperature"]
        return [*lacking, "reasoning_tokens"]

    def parts_of(self, body: Mapping[str, Any], request: ModelRequest) -> list[str]:  # noqa: ARG002
        """Return the parts of a request that servers accept in different forms."""
        return [INCLUDE] if self._includes else []

    def encode_as(self, request: ModelRequest, forms: Mapping[str, str]) -> Body:
        """Return the body of a call, with each part in the given form."""
        items: list[Body] = []
        for message in request.messages:
            items += _items(message, self.name)

        body: Body = {
            "model": self.name,
            "input": items,
            "store": False,
        }
        body |= self.limits(request.params, "max_output_tokens")
        if self._includes and forms[INCLUDE] == SENT:
            body[INCLUDE] = [_ENCRYPTED]
        if request.tools:
            body |= _tools(request)

        if request.response_schema is not None:
            schema = {
                "type": "json_schema",
                "name": "reply",
                "schema": request.response_schema,
                "strict": False,
            }
            body["text"] = {"format": schema}

        reasoning: Body = {}
        if request.params.reasoning_effort is not None:
            reasoning["effort"] = request.params.reasoning_effort
        if self.params.reasoning_summary is not None:
            reasoning["summary"] = self.params.reasoning_summary
        if reasoning:
            body["reasoning"] = reasoning

        if self.params.service_tier is not None:
            body["service_tier"] = self.params.service_tier

        body |= self.params.extra_body
        return {name: value for name, value in body.items() if name not in self.params.omit}

    def decode(
        self,
        answer: Mapping[str, Any],
        request: ModelRequest,
        body: Mapping[str, Any],  # noqa: ARG002
    ) -> Reply:
        """Return the reply in an answer."""
        word = self._word(answer)
        refusals: list[str] = []
        turn = TurnRecord()

        usage = token_usage(
            part(answer, "usage", dict, self.caller), ("input_tokens", "output_tokens")
        )
        served_by = text_of(answer.get("model"))
        if answer.get("output") in (None, []) and word == "completed":
            return base.empty_reply(usage, served_by, "output", self.caller)

        for item in base.parts(answer, "output", self.caller):
            kind = item.get("type")
            if kind == "message":
                for piece in base.parts(item, "content", self.caller):
                    if piece.get("type") == "output_text":
                        turn.add_text(part(piece, "text", str, self.caller), _phase(item))
                    elif piece.get("type") == "refusal":
                        refusals.append(part(piece, "refusal", str, self.caller))
            elif kind == "function_call":
                call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
                turn.add_call(read_call(item, "arguments", call_id))
            elif kind == "reasoning":
                words = text_of(item.get("content")) or text_of(item.get("summary"))
                kept = None
                if isinstance(item.get("encrypted_content"), str):  # can't be sent back otherwise
                    kept = _without_nulls(item)
                turn.add_thought(words, kept)

        content = _BETWEEN_TEXTS.join(refusals or turn.texts)
        ending = self.ending(word, content, turn.calls, request)
        return Reply(
            content=content,
            tool_calls=tuple(turn.calls),
            finish_reason="refusal" if refusals else ending.finish,
            usage=usage,
            reasoning="\n".join(filter(None, turn.thoughts)),
            served_by=served_by,
            notes=ending.notes,
            opaque=None if refusals else turn.opaque("openai", self.name),
            response_id=text_of(answer.get("id")),
        )

    def _word(self, answer: Mapping[str, Any]) -> str:
        """Return the stop reason of a response. Raises ModelError if the response has not ended."""
        status = part(answer, "status", str, self.caller)
        if status == "incomplete":
            details = answer.get("incomplete_details")
            if not isinstance(details, dict):
                return status
            return text_of(details.get("reason")) or status

        if status != "completed":
            shown = one_line(status, self.caller.secrets)
            raise bad_response(self.caller, f"the response has the status {shown!r}")

        return status


def _phase(item: Mapping[str, Any]) -> Body:
    """Return the mark of an assistant message that must be sent back with the message; empty if
    absent.
    """
    phase = item.get("phase")
    return {"phase": phase} if isinstance(phase, str) else {}


def _without_nulls(item: Mapping[str, Any]) -> Body:
    """Return an item without null fields, the form in which the API accepts it back."""
    return {name: value for name, value in item.items() if value is not None}


def _tools(request: ModelRequest) -> Body:
    """Return the tools on offer in the format of the Responses API. Unless the choice is left to
    the model, return `tool_choice`, too.
    """
    tools = []
    for tool in request.tools:
        function = tool_body(tool)["function"]
        # `strict` defaults to true, which refuses schemas with optional or free-form parts.
        tools.append({"type": "function", **function, "strict": False})

    body: Body = {"tools": tools}
    if request.tool_choice == NO_TOOL:
        body["tool_choice"] = "none"
    elif request.tool_choice is not None:
        body["tool_choice"] = {"type": "function", "name": request.tool_choice}
    return body


def _items(message: Message, model: str) -> Iterator[dict[str, Any]]:
    """Yield the Responses API items for one message. Reasoning is sent back only if it comes from
    `model`.
    """
    if message.role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.tool_call_id,
            "output": message.content,
        }
        return

    parts = parts_of_turn(message, "openai", model, between=_BETWEEN_TEXTS)
    if parts is None:
        if has_text(message):
            yield {"role": message.role, "content": message.content}
        yield from map(_call_item, message.tool_calls)
        return

    for each in parts:
        if each.kept is not None:
            yield dict(each.kept)
        elif each.call is not None:
            yield _call_item(each.call)
        elif each.text.strip():
            yield {"role": message.role, "content": each.text, **each.marks}


def _call_item(call: ToolCall) -> Body:
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": sent_name(call.name),
        "arguments": sent_arguments(call.arguments),
    }
