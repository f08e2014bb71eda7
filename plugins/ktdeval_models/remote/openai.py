"""OpenAI's two APIs: Responses, and Chat Completions, which many other servers speak, too."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from ktdeval.calls import bad_response
from ktdeval.errors import ConfigError, ModelError
from ktdeval.fields import near_matches
from ktdeval.harness import CallParams, FinishReason, Message, Model, ModelRequest, Reply, ToolCall, ToolSpec, Usage, split_thought
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval_models.remote import base
from ktdeval_models.remote.base import RemoteAdapter, count, earlier_calls, finish_of, part, sent_arguments, sent_name, text_of
from ktdeval_models.remote.params import CompatibleParams, OpenAIParams, Preset, RemoteParams, presets

Body = dict[str, Any]

_MOST_SEED = 2**31  # seeds are sent modulo this: the smallest range that a server documents
_WORDS = base.wire_words("openai")
_FINISH: Mapping[Any, FinishReason] = _WORDS["finish"]
_FINISH_FAILURES, _NOT_TO_ADD = base.by_word(_WORDS["failures"]), base.by_word(_WORDS["not_to_add"])
_PRESET_SETTINGS = ("thinks", "takes_seed", "takes_effort", "budget_field", "think_on", "think_off", "empty_thought")
_SCHEMA_PROMPT = "Reply with one JSON object and nothing else. It must follow this JSON Schema:"


def make_openai(name: str, params: OpenAIParams | None = None) -> Model:
    """Return a model of OpenAI's, over the API that `params` name. Raises ConfigError: a parameter is not usable."""
    params = params or OpenAIParams()
    return ResponsesModel(name, params) if params.api == "responses" else ChatModel(presets()["openai"], name, params)


def make_compatible(provider: str, name: str, params: CompatibleParams | None = None) -> Model:
    """Return a model of another server that speaks Chat Completions; `provider` is one of `presets.yaml`.

    Raises ConfigError: a parameter is not usable, or there is no address.
    """
    return ChatModel(presets()[provider], name, params or CompatibleParams())


class OpenAIAdapter(RemoteAdapter):
    """Common parts of the two APIs. Neither sends back the reasoning of earlier turns."""

    package = "openai"
    extra = "openai"

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the SDK's headers; for other servers, without organisation, project and headers that the environment names."""
        is_openai = self.provider == "openai"
        own: dict[str, Any] = {}
        if not is_openai:
            lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
            names = {line.partition(":")[0].strip() for line in lines if ":" in line}
            own = {name: sdk.Omit() for name in names if name.lower() != "authorization"}
        key = key or "none"  # the SDK wants one; servers without keys do not look
        own["Authorization"] = f"Bearer {key}"
        with sdk.OpenAI(api_key=key, default_headers=own, http_client=base.no_network(sdk)) as client:
            if not is_openai:
                client.organization = client.project = None
            return base.plain_headers(client)

    def check_fields(self, params: RemoteParams, optional: Collection[str | None]) -> None:
        """Raise ConfigError if the user adds a reserved field to requests, or omits one that is not `optional`."""
        for name in params.extra_body:
            if name in _NOT_TO_ADD:
                raise ConfigError(f"extra_body can't hold {name!r}: {_NOT_TO_ADD[name]}")
        omittable = sorted({*filter(None, optional), *params.extra_body})
        for name in params.omit:
            if name not in omittable:
                hint = near_matches(name, omittable) or f"; it takes {', '.join(omittable)}"
                raise ConfigError(f"omit can't name {name!r}{hint}")

    def finish(self, reason: Any) -> FinishReason:
        """Return how a reply ended. Raises ModelError: for an unknown reason."""
        if reason not in _FINISH:
            raise bad_response(self.caller, "the reply ended for an unknown reason")
        return _FINISH[reason]

    def arguments(self, value: JsonValue) -> str:
        """Return the raw arguments of a call; some servers send them as an object instead of its text."""
        if isinstance(value, str):
            return value
        if isinstance(value, dict):
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        raise bad_response(self.caller, "a tool call's arguments are neither text nor an object")


def _usage(usage: Mapping[str, Any], whole: tuple[str, str], *elsewhere: str) -> Usage:
    """Return counts of either API, which name input and output differently; reads of a cache may be under `elsewhere`."""
    into, out = whole
    read = count(usage, f"{into}_details", "cached_tokens") or next(filter(None, (count(usage, name) for name in elsewhere)), 0)
    reasoning, write = count(usage, f"{out}_details", "reasoning_tokens"), count(usage, f"{into}_details", "cache_write_tokens")
    total = count(usage, "total_tokens")
    output = count(usage, out, missing=0 if total else base.NO_COUNT)
    return base.whole_usage(total, Usage(count(usage, into), output, reasoning, read, write))


# --- Chat Completions


class ChatModel(OpenAIAdapter):
    """A model behind Chat Completions, at a server that `preset` describes."""

    path = "/chat/completions"

    def __init__(self, preset: Preset, name: str, params: CompatibleParams | OpenAIParams) -> None:
        if not (params.base_url or preset.base_url):
            raise ConfigError(f"{preset.provider} needs the server's address: --base-url, such as http://localhost:8000/v1")
        super().__init__(preset.provider, name, params, preset.base_url, preset.variables)
        self.needs_key = preset.needs_key
        self.meanings = preset.meanings
        self.preset = preset
        options = params if isinstance(params, CompatibleParams) else CompatibleParams()
        self._forced_tool = options.forced_tool or preset.forced_tool
        self._forced_tool_thinking = options.forced_tool or preset.forced_tool_thinking
        self._max_tokens_field = options.max_tokens_field or preset.max_tokens_field
        self._json_mode = options.json_mode or preset.json_mode
        self._extra_body = {**preset.extra_body, **params.extra_body}
        if isinstance(params, OpenAIParams) and params.service_tier is not None:
            self._extra_body["service_tier"] = params.service_tier
        fields = {"temperature", "seed", "tool_choice", "response_format", "reasoning_effort", "service_tier", preset.budget_field}
        self.check_fields(params, {*fields, *preset.think_on, *preset.think_off, *preset.extra_body})

    def settings(self) -> JsonValue:
        """Return settings that change how a request is encoded."""
        return {
            "api": "chat",
            **{name: getattr(self.preset, name) for name in _PRESET_SETTINGS},
            "forced_tool": self._forced_tool,
            "forced_tool_thinking": self._forced_tool_thinking,
            "max_tokens_field": self._max_tokens_field,
            "json_mode": self._json_mode,
            "omit": list(self.params.omit),
            "extra_body": self._extra_body,
        }

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call."""
        params = request.params
        effort, budget = params.reasoning_effort, params.reasoning_tokens
        is_silent = effort is None and budget is None
        thinks = self.preset.thinks if is_silent else effort != "none" and budget != 0
        body: Body = {
            "model": self.name,
            "messages": list(self._messages(request, thinks)),
            "temperature": params.temperature,
            self._max_tokens_field: params.max_output_tokens,
        }
        if self.preset.takes_seed:
            body["seed"] = params.seed % _MOST_SEED
        if request.tools:
            body |= self._tools(request, self._forced_tool_thinking if thinks else self._forced_tool)
        if request.response_schema is not None:
            # Not strict: OpenAI's strict mode refuses schemas with optional or free-form parts.
            schema = {"json_schema": {"name": "reply", "schema": request.response_schema, "strict": False}}
            body["response_format"] = {"type": self._json_mode, **(schema if self._json_mode == "json_schema" else {})}
        body |= {} if is_silent else self._thinking(params)
        body |= self._extra_body
        return {name: value for name, value in body.items() if name not in self.params.omit}

    def _thinking(self, params: CallParams) -> Body:
        effort, budget = params.reasoning_effort, params.reasoning_tokens
        if effort == "none" or budget == 0:
            return dict(self.preset.think_off)
        fields: Body = dict(self.preset.think_on)
        if effort is not None and self.preset.takes_effort:
            fields["reasoning_effort"] = effort
        if budget is not None and self.preset.budget_field is not None:
            fields[self.preset.budget_field] = budget
        return fields

    def _messages(self, request: ModelRequest, thinks: bool) -> Iterator[Body]:
        messages: Sequence[Message] = request.messages
        if request.response_schema is not None and self._json_mode == "json_object":
            messages = _with_schema(messages, request.response_schema)
        for message in messages:
            entry: Body = {"role": message.role, "content": message.content}
            if message.role == "tool":
                entry["tool_call_id"] = message.tool_call_id
            elif message.tool_calls:
                entry["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": sent_name(call.name), "arguments": sent_arguments(call.arguments)},
                    }
                    for call in message.tool_calls
                ]
                if thinks and self.preset.empty_thought is not None:
                    entry["reasoning_content"] = self.preset.empty_thought
            yield entry

    def _tools(self, request: ModelRequest, how: str) -> Body:
        forced = request.tool_choice
        only = forced is not None and how != "named"  # the forced tool is the only one on offer
        body: Body = {"tools": [_tool_body(tool) for tool in request.tools if not only or tool.name == forced]}
        if forced is not None and how != "auto":
            named = {"type": "function", "function": {"name": forced}}
            body["tool_choice"] = named if how == "named" else "required"
        return body

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:  # noqa: ARG002
        """Return the reply in an answer."""
        choices = part(answer, "choices", list, self.caller)
        choice = choices[0] if choices and isinstance(choices[0], dict) else {}
        message = part(choice, "message", dict, self.caller)
        reason = part(choice, "finish_reason", str, self.caller)
        if answer.get("input_sensitive") or answer.get("output_sensitive"):  # MiniMax
            reason = "content_filter"
        if reason in _FINISH_FAILURES:
            raise ModelError(_FINISH_FAILURES[reason], f"{self.provider}/{self.name}: the server gave up ({reason})")
        finish = self.finish(reason)
        calls = tuple(self._calls(message, earlier_calls(request) + 1))
        said = message.get("content")
        # Raises where it is neither text nor parts: that must not pass for an empty reply, which is the model's.
        pieces = [{"text": said}] if isinstance(said, str | None) else base.parts(message, "content", self.caller)
        content, refusal = "".join(piece.get("text") or "" for piece in pieces), text_of(message.get("refusal"))
        # The reasoning channel, under the servers' names for it; else the thought that a server left in the content.
        channels = (text_of(message.get(name)) for name in ("reasoning_content", "reasoning", "reasoning_details"))
        reasoning = next(filter(None, channels), "")
        if not reasoning:
            reasoning, content = split_thought(content)
        return Reply(
            content=refusal or content,
            tool_calls=calls,
            finish_reason="refusal" if refusal else finish_of(finish, calls),
            usage=self._counted(answer.get("usage")),
            reasoning=reasoning,
            served_by="/".join(text for name in ("model", "system_fingerprint") if (text := text_of(answer.get(name)))),
        )

    def _calls(self, message: Mapping[str, Any], first: int) -> Iterator[ToolCall]:
        for number, call in enumerate(message.get("tool_calls") or (), first):
            function = part(call if isinstance(call, dict) else {}, "function", dict, self.caller)
            name = part(function, "name", str, self.caller)
            # Some servers give no id.
            yield ToolCall(text_of(call.get("id")) or f"call_{number}", name, self.arguments(function.get("arguments")))

    def _counted(self, usage: Any) -> Usage:
        if isinstance(usage, dict):  # StepFun and Moonshot, then DeepSeek, count reads of the cache elsewhere
            return _usage(usage, ("prompt_tokens", "completion_tokens"), "cached_tokens", "prompt_cache_hit_tokens")
        if self.needs_key:
            raise bad_response(self.caller, "the reply has no count of tokens")
        return Usage()


def _with_schema(messages: Sequence[Message], schema: Mapping[str, JsonValue]) -> Sequence[Message]:
    """Return the conversation with the schema in its first message, the only place where every server takes a system message.

    A prompt that already describes the JSON object to reply with, as the harness's does for tool calls as text, stays as it is.
    """
    first = messages[0]
    if first.role == "system" and "JSON object" in first.content:
        return messages
    rule = f"{_SCHEMA_PROMPT}\n\n{dumps_canonical(schema)}"
    if first.role == "system":
        return (replace(first, content=f"{first.content}\n\n{rule}"), *messages[1:])
    return (Message("system", rule), *messages)


def _tool_body(tool: ToolSpec) -> Body:
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}


# --- Responses


class ResponsesModel(OpenAIAdapter):
    """A model behind the Responses API.

    The conversation is sent whole with each request, and nothing is stored at the provider. There is no seed, and no limit on
    reasoning of its own.
    """

    path = "/responses"
    params: OpenAIParams

    def __init__(self, name: str, params: OpenAIParams) -> None:
        openai = presets()["openai"]
        super().__init__("openai", name, params, openai.base_url, openai.variables)
        self.check_fields(params, ("temperature", "store", "tool_choice", "text", "reasoning", "service_tier"))

    def settings(self) -> JsonValue:
        """Return settings that change how a request is encoded."""
        return {
            "api": "responses",
            "reasoning_summary": self.params.reasoning_summary,
            "service_tier": self.params.service_tier,
            "omit": list(self.params.omit),
            "extra_body": dict(self.params.extra_body),
        }

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call."""
        body: Body = {
            "model": self.name,
            "input": [item for message in request.messages for item in _items(message)],
            "temperature": request.params.temperature,
            "max_output_tokens": request.params.max_output_tokens,
            "store": False,
        }
        if request.tools:
            # `strict` is true unless said otherwise, which refuses schemas with optional or free-form parts.
            body["tools"] = [{"type": "function", **_tool_body(tool)["function"], "strict": False} for tool in request.tools]
            if request.tool_choice is not None:
                body["tool_choice"] = {"type": "function", "name": request.tool_choice}
        if request.response_schema is not None:
            schema = {"type": "json_schema", "name": "reply", "schema": request.response_schema, "strict": False}
            body["text"] = {"format": schema}
        requested = {"effort": request.params.reasoning_effort, "summary": self.params.reasoning_summary}
        if reasoning := {name: value for name, value in requested.items() if value is not None}:
            body["reasoning"] = reasoning
        if self.params.service_tier is not None:
            body["service_tier"] = self.params.service_tier
        body |= self.params.extra_body
        return {name: value for name, value in body.items() if name not in self.params.omit}

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:  # noqa: ARG002
        """Return the reply in an answer."""
        finish = self._finish(answer)
        texts: list[str] = []
        refusals: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        for item in base.parts(answer, "output", self.caller):
            kind = item.get("type")
            if kind == "message":
                pieces = base.parts(item, "content", self.caller)
                texts += [part(piece, "text", str, self.caller) for piece in pieces if piece.get("type") == "output_text"]
                refusals += [part(piece, "refusal", str, self.caller) for piece in pieces if piece.get("type") == "refusal"]
            elif kind == "function_call":
                call_id, name = (part(item, name, str, self.caller) for name in ("call_id", "name"))
                calls.append(ToolCall(call_id, name, self.arguments(item.get("arguments"))))
            elif kind == "reasoning":
                thoughts.append(text_of(item.get("content")) or text_of(item.get("summary")))
        return Reply(
            content="\n".join(refusals or texts),
            tool_calls=tuple(calls),
            finish_reason="refusal" if refusals else finish_of(finish, calls),
            usage=_usage(part(answer, "usage", dict, self.caller), ("input_tokens", "output_tokens")),
            reasoning="\n".join(filter(None, thoughts)),
            served_by=text_of(answer.get("model")),
        )

    def _finish(self, answer: Mapping[str, Any]) -> FinishReason:
        status = part(answer, "status", str, self.caller)
        if status == "completed":
            return "stop"
        details = answer.get("incomplete_details")
        reason = details.get("reason") if status == "incomplete" and isinstance(details, dict) else None
        return self.finish({"max_output_tokens": "length", "content_filter": "content_filter"}.get(reason or ""))


def _items(message: Message) -> Iterator[Body]:
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}
        return
    if message.content or not message.tool_calls:
        yield {"role": message.role, "content": message.content}
    for call in message.tool_calls:
        arguments = sent_arguments(call.arguments)
        yield {"type": "function_call", "call_id": call.id, "name": sent_name(call.name), "arguments": arguments}
