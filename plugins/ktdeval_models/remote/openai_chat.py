"""OpenAI's Chat Completions, as OpenAI and the many servers that took it over speak it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from ktdeval.calls import bad_response
from ktdeval.errors import ConfigError, ModelError
from ktdeval.fields import near_matches
from ktdeval.harness import CallParams, FinishReason, Message, ModelRequest, Reply, ToolCall, ToolSpec, Usage
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval_models.remote.base import RemoteAdapter, plain_headers
from ktdeval_models.remote.params import CompatibleParams, OpenAIParams, RemoteParams
from ktdeval_models.remote.presets import Preset
from ktdeval_models.remote.wire import MOST_SEED, count, part, sent_arguments, sent_name, text_of, whole_usage, written_arguments

_FINISH: Mapping[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "stop",  # what counts is whether there are calls: with a forced tool OpenAI itself says `stop`
    "function_call": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Zhipu
}
_FINISH_FAILURES = {
    "insufficient_system_resource": "overloaded",  # DeepSeek
    "network_error": "server",  # Zhipu: the model failed
    "abort": "server",  # vLLM: the engine gave the request up
    "error": "server",  # gateways, when the server behind them failed
}
_TOLD_OF_A_PRESET = ("thinks", "takes_seed", "takes_effort", "budget_field", "think_on", "think_off", "empty_thought")
_SCHEMA_PROMPT = "Reply with one JSON object and nothing else. It must follow this JSON Schema:"
# The closing tag alone, where a template opened the thought in the prompt, counts at the end of a line only: no JSON has one there.
_THOUGHT = re.compile(r"\s*<think>(.*?)(?:</think>\s*|\Z)|(.*?)</think>[ \t]*(?:\n\s*|\Z)", re.DOTALL)


class ChatModel(RemoteAdapter):
    """A model behind Chat Completions.

    The reasoning of earlier turns is not sent back. Where a server refuses an earlier turn with tool calls without the field for it
    (`Preset.empty_thought`), the field is sent empty.
    """

    package = "openai"
    extra = "openai"

    def __init__(self, preset: Preset, name: str, params: CompatibleParams | OpenAIParams) -> None:
        if not (params.base_url or preset.base_url):
            raise ConfigError(f"{preset.provider} needs the server's address: --base-url, such as http://localhost:8000/v1")
        super().__init__(preset.provider, name, params, preset.base_url, preset.variables)
        self.needs_key = preset.needs_key
        self.meanings = preset.meanings
        self.preset = preset
        given = params if isinstance(params, CompatibleParams) else CompatibleParams()
        self._forced_tool = given.forced_tool or preset.forced_tool
        self._forced_tool_thinking = given.forced_tool or preset.forced_tool_thinking
        self._max_tokens_field = given.max_tokens_field or preset.max_tokens_field
        self._json_mode = given.json_mode or preset.json_mode
        self._extra_body = {**preset.extra_body, **params.extra_body}
        if isinstance(params, OpenAIParams) and params.service_tier is not None:
            self._extra_body["service_tier"] = params.service_tier
        fields = {"temperature", "seed", "tool_choice", "response_format", "reasoning_effort", "service_tier", preset.budget_field}
        check_fields(params, {*fields, *preset.think_on, *preset.think_off, *preset.extra_body})

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """As OpenAI's SDK has them; with other servers than OpenAI, without what the environment says for OpenAI."""
        return openai_headers(sdk, key, is_openai=self.provider == "openai")

    def path(self) -> str:
        """Return the path of Chat Completions."""
        return "/chat/completions"

    def settings(self) -> JsonValue:
        """Return how a request is written beyond what the request itself says."""
        return {
            "api": "chat",
            **{name: getattr(self.preset, name) for name in _TOLD_OF_A_PRESET},
            "forced_tool": self._forced_tool,
            "forced_tool_thinking": self._forced_tool_thinking,
            "max_tokens_field": self._max_tokens_field,
            "json_mode": self._json_mode,
            "omit": list(self.params.omit),
            "extra_body": self._extra_body,
        }

    # --- writing

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call."""
        params = request.params
        thinking = self._thinks(params)
        body: dict[str, Any] = {
            "model": self.name,
            "messages": list(self._messages(request, thinking)),
            "temperature": params.temperature,
            self._max_tokens_field: params.max_output_tokens,
        }
        if self.preset.takes_seed:
            body["seed"] = params.seed % MOST_SEED
        if request.tools:
            body.update(self._tools(request, self._forced_tool_thinking if thinking else self._forced_tool))
        if request.response_schema is not None:
            body["response_format"] = self._response_format(request.response_schema)
        body.update(self._thinking(params))
        body.update(self._extra_body)
        return {name: value for name, value in body.items() if name not in self.params.omit}

    def _thinks(self, params: CallParams) -> bool:
        if params.reasoning_effort is None and params.reasoning_tokens is None:
            return self.preset.thinks
        return params.reasoning_effort != "none" and params.reasoning_tokens != 0

    def _thinking(self, params: CallParams) -> dict[str, Any]:
        effort, budget = params.reasoning_effort, params.reasoning_tokens
        if effort == "none" or budget == 0:
            return dict(self.preset.think_off)
        fields: dict[str, Any] = {}
        if effort is not None and self.preset.takes_effort:
            fields["reasoning_effort"] = effort
        if budget is not None and self.preset.budget_field is not None:
            fields[self.preset.budget_field] = budget
        return fields if effort is None and budget is None else {**self.preset.think_on, **fields}

    def _messages(self, request: ModelRequest, thinking: bool) -> Iterator[dict[str, Any]]:
        messages: Sequence[Message] = request.messages
        if request.response_schema is not None and self._json_mode == "json_object":
            messages = _with_schema(messages, request.response_schema)
        for message in messages:
            written: dict[str, Any] = {"role": message.role, "content": message.content}
            if message.role == "tool":
                written["tool_call_id"] = message.tool_call_id
            elif message.tool_calls:
                written["tool_calls"] = [_written_call(call) for call in message.tool_calls]
                if thinking and self.preset.empty_thought is not None:
                    written["reasoning_content"] = self.preset.empty_thought
            yield written

    def _tools(self, request: ModelRequest, how: str) -> dict[str, Any]:
        forced = request.tool_choice
        if forced is None:
            return {"tools": [_written_tool(tool) for tool in request.tools]}
        if how == "named":
            choice = {"type": "function", "function": {"name": forced}}
            return {"tools": [_written_tool(tool) for tool in request.tools], "tool_choice": choice}
        only = [_written_tool(tool) for tool in request.tools if tool.name == forced]
        return {"tools": only, "tool_choice": "required"} if how == "required" else {"tools": only}

    def _response_format(self, schema: Mapping[str, JsonValue]) -> dict[str, Any]:
        if self._json_mode == "json_object":
            return {"type": "json_object"}
        # Not strict: OpenAI's strict mode refuses schemas with optional or free-form parts.
        return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": False}}

    # --- reading

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:  # noqa: ARG002
        """Return the reply in an answer."""
        choices = part(answer, "choices", list, self.caller)
        choice = choices[0] if choices and isinstance(choices[0], dict) else {}
        message = part(choice, "message", dict, self.caller)
        finish = self._finish(choice, answer)
        calls = self._calls(message, request)
        content, refusal = text_of(message.get("content")), text_of(message.get("refusal"))
        reasoning = _reasoning(message)
        if not reasoning:
            reasoning, content = _split_thought(content)
        if refusal:
            content, finish = refusal, "refusal"
        elif calls and finish == "stop":
            finish = "tool_calls"
        return Reply(
            content=content,
            tool_calls=calls,
            finish_reason=finish,
            usage=self._usage(answer),
            reasoning=reasoning,
            served_by="/".join(text for name in ("model", "system_fingerprint") if (text := text_of(answer.get(name)))),
        )

    def _finish(self, choice: Mapping[str, Any], answer: Mapping[str, Any]) -> FinishReason:
        reason = part(choice, "finish_reason", str, self.caller)
        if answer.get("input_sensitive") or answer.get("output_sensitive"):  # MiniMax
            return "content_filter"
        if reason in _FINISH_FAILURES:
            raise ModelError(_FINISH_FAILURES[reason], f"{self.provider}/{self.name}: the server gave up ({reason})")
        if reason not in _FINISH:
            raise bad_response(self.caller, "the reply ended for a reason that is not known here")
        return _FINISH[reason]

    def _calls(self, message: Mapping[str, Any], request: ModelRequest) -> tuple[ToolCall, ...]:
        first = 1 + sum(len(earlier.tool_calls) for earlier in request.messages)
        calls = []
        for number, call in enumerate(message.get("tool_calls") or (), first):
            function = part(call if isinstance(call, dict) else {}, "function", dict, self.caller)
            name = part(function, "name", str, self.caller)
            # Some servers give no id.
            calls.append(
                ToolCall(
                    text_of(call.get("id")) or f"call_{number}", name, written_arguments(function.get("arguments"), self.caller)
                )
            )
        return tuple(calls)

    def _usage(self, answer: Mapping[str, Any]) -> Usage:
        usage = answer.get("usage")
        if not isinstance(usage, dict):
            if self.needs_key:
                raise bad_response(self.caller, "the reply does not say how many tokens it took")
            return Usage()
        found = Usage(
            input_tokens=count(usage, "prompt_tokens"),
            output_tokens=count(usage, "completion_tokens"),
            reasoning_tokens=count(usage, "completion_tokens_details", "reasoning_tokens"),
            cache_read_tokens=(
                count(usage, "prompt_tokens_details", "cached_tokens")
                or count(usage, "cached_tokens")  # StepFun, Moonshot
                or count(usage, "prompt_cache_hit_tokens")  # DeepSeek
            ),
            cache_write_tokens=count(usage, "prompt_tokens_details", "cache_write_tokens"),
        )
        return whole_usage(count(usage, "total_tokens"), found)


def openai_headers(sdk: ModuleType, key: str | None, is_openai: bool) -> Mapping[str, str]:
    """Return the headers of OpenAI's SDK. `key`: the API key; None where there is none and none is needed. `is_openai`: whether the
    organisation, project and headers that the environment names for OpenAI are sent.
    """
    headers = {}
    if not is_openai:
        lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
        names = {line.partition(":")[0].strip() for line in lines if ":" in line}
        headers = {name: sdk.Omit() for name in names if name.lower() != "authorization"}
    key = key or "none"  # the SDK wants one; servers without keys do not look
    headers["Authorization"] = f"Bearer {key}"
    with sdk.OpenAI(api_key=key, default_headers=headers, http_client=sdk.DefaultHttpxClient(trust_env=False)) as client:
        if not is_openai:
            client.organization = client.project = None
        return plain_headers(client)


def check_fields(params: RemoteParams, optional: Collection[str | None]) -> None:
    """Return when what the user adds to requests, and leaves out of them, is theirs to say. `optional`: fields of a request that
    may be left out. Raises ConfigError: names the field, and the option that stands for it.
    """
    own = {
        **dict.fromkeys(("model", "messages", "input", "instructions"), "it is the request itself"),
        **dict.fromkeys(("tools", "tool_choice", "functions", "function_call"), "see forced_tool and --tool-protocol"),
        **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "use --max-output-tokens"),
        **dict.fromkeys(("stream", "n", "background"), "a call takes one whole reply"),
        "temperature": "use --temperature",
        "seed": "it comes from --seed",
    }
    for name in params.extra_body:
        if name in own:
            raise ConfigError(f"extra_body can't hold {name!r}: {own[name]}")
    known = sorted({*filter(None, optional), *params.extra_body})
    for name in params.omit:
        if name not in known:
            hint = near_matches(name, known) or f"; it takes {', '.join(known)}"
            raise ConfigError(f"omit can't name {name!r}{hint}")


def _with_schema(messages: Sequence[Message], schema: Mapping[str, JsonValue]) -> Sequence[Message]:
    """Return the conversation with the schema in its first message, the only place where every server takes a system message.

    A prompt that describes the JSON object to reply with, as the harness's own does for written tool calls, stays as it is.
    """
    first = messages[0]
    if first.role == "system" and "JSON object" in first.content:
        return messages
    rule = f"{_SCHEMA_PROMPT}\n\n{dumps_canonical(schema)}"
    if first.role == "system":
        return (replace(first, content=f"{first.content}\n\n{rule}"), *messages[1:])
    return (Message("system", rule), *messages)


def _written_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": sent_name(call.name), "arguments": sent_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _written_tool(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}


def _reasoning(message: Mapping[str, Any]) -> str:
    """Return the reasoning channel under the names that servers give it."""
    for name in ("reasoning_content", "reasoning", "reasoning_details"):
        if text := text_of(message.get(name)):
            return text
    return ""


def _split_thought(content: str) -> tuple[str, str]:
    """Reasoning that a server left in the content, and what follows it."""
    match = _THOUGHT.match(content) if "think>" in content else None
    if match is None:
        return "", content
    return (match[1] or match[2] or "").strip(), content[match.end() :]
