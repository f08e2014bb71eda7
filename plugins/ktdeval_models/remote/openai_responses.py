"""OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from ktdeval.calls import bad_response
from ktdeval.harness import CallParams, FinishReason, Message, ModelRequest, Reply, ToolCall, ToolSpec, Usage
from ktdeval.jsonio import JsonValue
from ktdeval_models.remote.base import RemoteAdapter
from ktdeval_models.remote.openai_chat import check_fields, openai_headers
from ktdeval_models.remote.params import OpenAIParams
from ktdeval_models.remote.presets import presets
from ktdeval_models.remote.wire import count, part, sent_arguments, sent_name, text_of, whole_usage, written_arguments

_INCOMPLETE: Mapping[Any, FinishReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ResponsesModel(RemoteAdapter):
    """A model behind the Responses API.

    The conversation is sent whole with each request, and nothing is stored at the provider. The reasoning of earlier turns is not
    sent back: the API asks for it only where a turn is referred to by its id. There is no seed, and no limit on reasoning of its
    own.
    """

    package = "openai"
    extra = "openai"
    params: OpenAIParams

    def __init__(self, name: str, params: OpenAIParams) -> None:
        openai = presets()["openai"]
        super().__init__("openai", name, params, openai.base_url, openai.variables)
        check_fields(params, ("temperature", "store", "tool_choice", "text", "reasoning", "service_tier"))

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """As OpenAI's SDK has them."""
        return openai_headers(sdk, key, is_openai=True)

    def path(self) -> str:
        """Return the path of Responses."""
        return "/responses"

    def settings(self) -> JsonValue:
        """Return how a request is written beyond what the request itself says."""
        return {
            "api": "responses",
            "reasoning_summary": self.params.reasoning_summary,
            "service_tier": self.params.service_tier,
            "omit": list(self.params.omit),
            "extra_body": dict(self.params.extra_body),
        }

    # --- writing

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call."""
        body: dict[str, Any] = {
            "model": self.name,
            "input": [item for message in request.messages for item in _items(message)],
            "temperature": request.params.temperature,
            "max_output_tokens": request.params.max_output_tokens,
            "store": False,
        }
        if request.tools:
            body["tools"] = [_written_tool(tool) for tool in request.tools]
            if request.tool_choice is not None:
                body["tool_choice"] = {"type": "function", "name": request.tool_choice}
        if request.response_schema is not None:
            # Not strict: the strict mode refuses schemas with optional or free-form parts.
            schema = {"type": "json_schema", "name": "reply", "schema": request.response_schema, "strict": False}
            body["text"] = {"format": schema}
        if reasoning := self._reasoning(request.params):
            body["reasoning"] = reasoning
        if self.params.service_tier is not None:
            body["service_tier"] = self.params.service_tier
        body.update(self.params.extra_body)
        return {name: value for name, value in body.items() if name not in self.params.omit}

    def _reasoning(self, params: CallParams) -> dict[str, Any]:
        wanted = {"effort": params.reasoning_effort, "summary": self.params.reasoning_summary}
        return {name: value for name, value in wanted.items() if value is not None}

    # --- reading

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:  # noqa: ARG002
        """Return the reply in an answer."""
        finish = self._finish(answer)
        texts: list[str] = []
        refusals: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        for item in part(answer, "output", list, self.caller):
            kind = item.get("type") if isinstance(item, dict) else None
            if kind == "message":
                parts = [piece for piece in part(item, "content", list, self.caller) if isinstance(piece, dict)]
                texts += [text_of(piece.get("text")) for piece in parts if piece.get("type") == "output_text"]
                refusals += [text_of(piece.get("refusal")) for piece in parts if piece.get("type") == "refusal"]
            elif kind == "function_call":
                calls.append(self._call(item))
            elif kind == "reasoning":
                thoughts += [text_of(item.get("content")) or text_of(item.get("summary"))]
        if refusals:
            texts, finish = refusals, "refusal"
        elif calls and finish == "stop":
            finish = "tool_calls"
        return Reply(
            content="\n".join(texts),
            tool_calls=tuple(calls),
            finish_reason=finish,
            usage=self._usage(answer),
            reasoning="\n".join(thought for thought in thoughts if thought),
            served_by=text_of(answer.get("model")),
        )

    def _finish(self, answer: Mapping[str, Any]) -> FinishReason:
        status = part(answer, "status", str, self.caller)
        if status == "completed":
            return "stop"
        details = answer.get("incomplete_details")
        reason = details.get("reason") if status == "incomplete" and isinstance(details, dict) else None
        if reason not in _INCOMPLETE:
            raise bad_response(self.caller, "the reply ended for a reason that is not known here")
        return _INCOMPLETE[reason]

    def _call(self, item: Mapping[str, Any]) -> ToolCall:
        return ToolCall(
            part(item, "call_id", str, self.caller),
            part(item, "name", str, self.caller),
            written_arguments(item.get("arguments"), self.caller),
        )

    def _usage(self, answer: Mapping[str, Any]) -> Usage:
        usage = part(answer, "usage", dict, self.caller)
        found = Usage(
            input_tokens=count(usage, "input_tokens"),
            output_tokens=count(usage, "output_tokens"),
            reasoning_tokens=count(usage, "output_tokens_details", "reasoning_tokens"),
            cache_read_tokens=count(usage, "input_tokens_details", "cached_tokens"),
            cache_write_tokens=count(usage, "input_tokens_details", "cache_write_tokens"),
        )
        return whole_usage(count(usage, "total_tokens"), found)


def _items(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}
        return
    if message.content or not message.tool_calls:
        yield {"role": message.role, "content": message.content}
    for call in message.tool_calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": sent_name(call.name),
            "arguments": sent_arguments(call.arguments),
        }


def _written_tool(tool: ToolSpec) -> dict[str, Any]:
    # `strict` is true unless said otherwise, which refuses schemas with optional or free-form parts.
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters, "strict": False}
