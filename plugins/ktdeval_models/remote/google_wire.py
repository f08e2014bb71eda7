"""`generateContent` method of the Gemini API: a neutral request to its body, and what came back to a neutral reply.

Sources: the API's reference (https://ai.google.dev/api/generate-content), its pages on function calling, thinking and thought
signatures, and the types of the `google-genai` package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktdeval.calls import Caller, bad_response
from ktdeval.errors import ProviderError
from ktdeval.harness import CallParams, FinishReason, Message, ModelRequest, Opaque, Reply, ToolCall, Usage
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval_models.remote.params import GoogleParams
from ktdeval_models.remote.wire import count, sent_arguments, whole_usage

Body = dict[str, Any]
Part = dict[str, Any]

_FINISH: Mapping[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",  # the provider's own limit for one request; going on would be a second, paid one
    # The model's own mistake: its call can't be read, or is of a tool that is not there, and the provider withholds it. What is
    # left, mostly nothing, is its reply; other models' unreadable calls are counted and answered too, not asked for again.
    "MALFORMED_FUNCTION_CALL": "stop",
    "MALFORMED_RESPONSE": "stop",
    "UNEXPECTED_TOOL_CALL": "stop",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "ESCALATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
}
"""`OTHER`, whatever it stands for, is among those that are not known."""

_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "XHIGH"}
_SEED_BITS = 0x7FFFFFFF  # the API's seed is a signed integer of 32 bits
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_.:-]")

# Of JSON Schema, what the API's fields `parametersJsonSchema` and `responseJsonSchema` are documented to read.
_SCHEMA_WORDS = frozenset(
    (
        "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems",
        "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering",
    )
)  # fmt: skip
_SCHEMAS_BY_NAME = ("properties", "$defs")
_ALTERNATIVES = ("anyOf", "oneOf")


def encode(request: ModelRequest, caller: Caller, params: GoogleParams) -> Body:
    """Return the body of a call. Raises ProviderError: options of the run that this API does not take together; says which."""
    body: Body = {
        "contents": list(_contents(request.messages, caller.provider)),
        "generationConfig": _generation(request, caller, params),
    }
    if system := [{"text": message.content} for message in request.messages if message.role == "system" and message.content]:
        body["systemInstruction"] = {"parts": system}
    if request.tools:
        declared = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": readable_schema(tool.parameters)}
            for tool in request.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
        if request.tool_choice is not None and params.forced_tool == "named":
            calling = {"mode": "ANY", "allowedFunctionNames": [request.tool_choice]}
            body["toolConfig"] = {"functionCallingConfig": calling}
    return body


def decode(body: Mapping[str, Any], request: ModelRequest, caller: Caller) -> Reply:
    """Return the reply in a response. `request`: what was asked, for the numbers of calls that come without an id. Raises
    ModelError: `bad_response`: it holds no candidate, or one that ended for a reason that is not known. Raises ProviderError: the
    account is barred.
    """
    served_by = body.get("modelVersion")
    served_by = served_by if isinstance(served_by, str) else ""
    candidate = _candidate(body, caller)
    if candidate is None:
        return Reply(finish_reason="content_filter", usage=_usage(body.get("usageMetadata")), served_by=served_by)
    reason = candidate.get("finishReason")
    if reason == "PUP_LIMITED_DISABLED":
        raise ProviderError(
            f"{caller.provider}/{caller.model}: Google has limited or disabled the account for its use policy; set {caller.key} to "
            "the key of another"
        )
    if not isinstance(reason, str) or reason not in _FINISH:
        raise bad_response(caller, "the reply has no finishReason that is known")
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    made = sum(len(message.tool_calls) for message in request.messages)
    for part in _parts(candidate, caller):
        if "functionCall" in part:
            calls.append(_call(part, f"call_{made + len(calls) + 1}", caller))
        elif isinstance(part.get("text"), str):
            (thoughts if part.get("thought") else texts).append(part["text"])
        elif part.keys() - {"thoughtSignature", "thought"}:
            raise bad_response(caller, "the reply holds a part that was not asked for")
    finish = _FINISH[reason]
    return Reply(
        content="".join(texts),
        tool_calls=tuple(calls),
        finish_reason="tool_calls" if calls and finish == "stop" else finish,
        usage=_usage(body.get("usageMetadata")),
        reasoning="".join(thoughts),
        served_by=served_by,
    )


# --- a request


def _generation(request: ModelRequest, caller: Caller, params: GoogleParams) -> Body:
    call = request.params
    config: Body = {"temperature": call.temperature, "maxOutputTokens": call.max_output_tokens, "seed": call.seed & _SEED_BITS}
    if thinking := _thinking(call, caller, params):
        config["thinkingConfig"] = thinking
    if request.response_schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = readable_schema(request.response_schema)
    return config


def _thinking(call: CallParams, caller: Caller, params: GoogleParams) -> Body:
    budget = 0 if call.reasoning_effort == "none" else call.reasoning_tokens
    if budget == 0:
        return {"thinkingBudget": 0}
    config: Body = {"includeThoughts": True} if params.thoughts else {}
    if budget is not None and call.reasoning_effort is not None:
        raise ProviderError(f"{caller.provider} takes --reasoning-effort or --reasoning-tokens, not both; leave one of them out")
    if budget is not None:
        config["thinkingBudget"] = budget
    if call.reasoning_effort is not None:
        config["thinkingLevel"] = _LEVELS[call.reasoning_effort]
    return config


def _contents(messages: Sequence[Message], provider: str) -> Iterator[Body]:
    """Return the turns: the results of one turn's calls come together, in one turn of their own."""
    names: dict[str, str] = {}
    results: list[Part] = []
    for message in messages:
        if message.tool_call_id is not None:
            results.append(_result(message, names))
            continue
        if results:
            yield {"role": "user", "parts": results}
            results = []
        if message.role == "user" and message.content:
            yield {"role": "user", "parts": [{"text": message.content}]}
        elif message.role == "assistant" and (parts := list(_model_parts(message, provider))):
            names |= {call.id: call.name for call in message.tool_calls}
            yield {"role": "model", "parts": parts}
    if results:
        yield {"role": "user", "parts": results}


def _result(message: Message, names: Mapping[str, str]) -> Part:
    """A tool's answer. The API wants an object; under `output` its text reaches the model as it is."""
    call_id = message.tool_call_id or ""
    name = _fit(names.get(call_id, "unknown"))
    return {"functionResponse": {"id": call_id, "name": name, "response": {"output": message.content}}}


def _model_parts(message: Message, provider: str) -> Iterator[Part]:
    if message.content:
        yield {"text": message.content}
    for call in message.tool_calls:
        arguments = loads_strict(sent_arguments(call.arguments))  # the API wants an object, whatever the model wrote
        part: Part = {"functionCall": {"id": call.id, "name": _fit(call.name), "args": arguments}}
        signature = call.opaque_of(provider)
        yield part if signature is None else {**part, "thoughtSignature": signature}


def _fit(name: str) -> str:
    """A tool's name in the form that the API takes."""
    return name if _NAME.fullmatch(name) else f"_{_NOT_IN_NAME.sub('_', name)}"[:128]


def readable_schema(schema: Mapping[str, JsonValue]) -> Body:
    """A JSON Schema less the words that the API does not know, which it refuses or stumbles over.

    Alternatives that only say which fields are required go too: they are conditions, and the API takes an alternative for a whole
    type. An enumeration gets its type. Whoever reads the reply checks it against the whole schema.
    """
    kept: Body = {}
    for word, value in schema.items():
        if word in _SCHEMAS_BY_NAME:
            kept[word] = {name: readable_schema(part) for name, part in value.items()}
        elif word in _ALTERNATIVES:
            if all(part.keys() & {"type", "enum", "const", "$ref", "properties", *_ALTERNATIVES} for part in value):
                kept[word] = [readable_schema(part) for part in value]
        elif word == "const":
            kept["enum"] = [value]
        elif word in _SCHEMA_WORDS:
            kept[word] = _readable(value)
    if "type" not in kept and kept.get("enum") and all(isinstance(value, str) for value in kept["enum"]):
        kept["type"] = "string"
    return kept


def _readable(value: Any) -> Any:
    if isinstance(value, Mapping):  # items, additionalProperties
        return readable_schema(value)
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):  # prefixItems
        return [readable_schema(item) for item in value]
    return value


# --- a reply


def _candidate(body: Mapping[str, Any], caller: Caller) -> Mapping[str, Any] | None:
    """Return the one candidate; None where the prompt was blocked."""
    candidates = body.get("candidates")
    if not candidates:
        feedback = body.get("promptFeedback")
        if isinstance(feedback, dict) and isinstance(feedback.get("blockReason"), str):
            return None
    if not isinstance(candidates, list) or len(candidates) != 1 or not isinstance(candidates[0], dict):
        raise bad_response(caller, "the reply does not hold one candidate")
    candidate: Mapping[str, Any] = candidates[0]
    return candidate


def _parts(candidate: Mapping[str, Any], caller: Caller) -> Iterator[Mapping[str, Any]]:
    content = candidate.get("content") or {}  # a candidate that was filtered, or used its tokens for thoughts, has none
    parts = content.get("parts", []) if isinstance(content, dict) else None
    if not isinstance(parts, list):
        raise bad_response(caller, "the reply has no parts")
    for part in parts:
        if not isinstance(part, dict):
            raise bad_response(caller, "the reply's content is not made of parts")
        yield part


def _call(part: Mapping[str, Any], number: str, caller: Caller) -> ToolCall:
    call, signature = part["functionCall"], part.get("thoughtSignature")
    if not isinstance(call, dict):
        raise bad_response(caller, "a function call of the reply is no object")
    name, arguments, call_id = call.get("name"), call.get("args", {}), call.get("id") or number
    if not (isinstance(name, str) and isinstance(arguments, dict) and isinstance(call_id, str)):
        raise bad_response(caller, "a function call of the reply lacks its name or arguments")
    opaque = Opaque(caller.provider, signature) if isinstance(signature, str) else None
    return ToolCall(call_id, name, json.dumps(arguments, ensure_ascii=False), opaque)


def _usage(usage: Any) -> Usage:
    usage = usage if isinstance(usage, dict) else {}
    thought = count(usage, "thoughtsTokenCount")
    found = Usage(
        input_tokens=count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount"),
        output_tokens=count(usage, "candidatesTokenCount") + thought,  # the API counts the two apart
        reasoning_tokens=thought,
        cache_read_tokens=count(usage, "cachedContentTokenCount"),
    )
    return whole_usage(0, found)
