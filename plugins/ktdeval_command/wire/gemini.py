"""Gemini: `POST /v1beta/models/MODEL:generateContent`, `:streamGenerateContent?alt=sse` and
`:countTokens`. Sources: `forms/gemini.yaml`.

As in the JSON form of any protocol buffer, field names may be in `camelCase` or `snake_case`
(protobuf.dev, "ProtoJSON Format").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.harness import NO_TOOL, Message, Reply, ToolCall, ToolSpec
from ktdeval.values import JsonObject, dumps_compact
from ktdeval_command.wire.bridge_request import (
    ANY_OBJECT,
    NO_PARAMETERS,
    BridgeRequest,
    allowed_only,
    arguments_object,
    arguments_text,
    check_request,
    cut_at_stop,
    required_choice,
)
from ktdeval_command.wire.declared_form import declared_form
from ktdeval_command.wire.events import event
from ktdeval_command.wire.own_settings import SettingsReader
from ktdeval_command.wire.refusals import WireError
from ktdeval_command.wire.request_fields import SWITCH_OFF, Fields, request_fields
from ktdeval_command.wire.thoughts import mark_of, parse_mark

_FORM = declared_form("gemini")
_BESIDE_PART = ("thought", "thoughtSignature", "partMetadata")
_SNAKE = re.compile(r"_([a-z0-9])")

# Keywords of `Schema` whose values are 64-bit integers, which ProtoJSON writes as strings.
_COUNTS = frozenset({
    "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties",
})  # fmt: skip
_NOT_OF_SCHEMA = frozenset({"nullable", "propertyOrdering", "example"})


def read(body: bytes, model: str, streams: bool) -> BridgeRequest:
    """Return the request in a body. `model` and `streams` are taken from the address. Raises
    WireError.
    """
    return _read(_camel(request_fields(body)), model, streams)


def read_count(body: bytes, model: str) -> BridgeRequest:
    """Return the request in a body that asks for a token count. Raises WireError."""
    fields = _camel(request_fields(body))
    inner = fields.child("generateContentRequest")
    if inner is not None:
        fields = _camel(inner)
        fields.take("model")
    return _read(fields, model, streams=False)


def write_count(tokens: int) -> JsonObject:
    """Return the body that answers a request for a token count."""
    return {"totalTokens": tokens}


def _camel(fields: Fields) -> Fields:
    """Return fields under their names in camel case. Raises WireError if a field is given in both
    spellings.
    """
    members: dict[str, Any] = {}
    for name in fields.names():
        camel = _SNAKE.sub(lambda match: match[1].upper(), name)
        if camel in members:
            fields.wrong(camel, "one spelling of the field, was given in two")
        members[camel] = fields.take(name)
    return Fields(members, fields.where, fields.ignored)


def _child(fields: Fields, name: str) -> Fields | None:
    child = fields.child(name)
    return None if child is None else _camel(child)


def _objects(fields: Fields, name: str) -> list[Fields]:
    return [_camel(item) for item in fields.objects(name)]


def _read(fields: Fields, model: str, streams: bool) -> BridgeRequest:
    fields.refuse(_FORM.parts["refused"])
    messages = _system(fields)
    reader = _ContentReader()
    for content in _objects(fields, "contents"):
        messages += reader.read(content)

    tools = []
    for tool in _objects(fields, "tools"):
        tools += _read_declarations(tool)
    offered, choice = _choice(fields, tuple(tools))

    config = _child(fields, "generationConfig") or Fields({}, "generationConfig", fields.ignored)
    config.refuse(_FORM.parts["refused_config"])
    if config.count("candidateCount") not in (None, 1):
        config.refuse_field("candidateCount", "one candidate a request")
    if any(each.upper() != "TEXT" for each in config.texts("responseModalities")):
        config.refuse_field("responseModalities", "TEXT")

    limit = config.count("maxOutputTokens")
    temperature = config.temperature("temperature")
    own = SettingsReader("generate_content")
    own.add("generationConfig.maxOutputTokens", limit, "max_output_tokens")
    own.add("generationConfig.temperature", temperature, "temperature")
    thinking = config.peek("thinkingConfig")
    if isinstance(thinking, Mapping):
        inner = _camel(Fields(thinking, "", {}))
        own.add_effort("generationConfig.thinkingConfig", inner.take("thinkingLevel"))
        own.add_budget("generationConfig.thinkingConfig", inner.take("thinkingBudget"))
    own.take(config, _FORM)

    request = BridgeRequest(
        asked_model=model,
        messages=tuple(messages),
        tools=offered,
        tool_choice=choice,
        response_schema=_response_schema(config),
        max_output_tokens=limit,
        temperature=temperature,
        own=own.settings(),
        stop=config.texts("stopSequences"),
        streams=streams,
    )
    config.ignore_rest()
    return check_request(request, fields)


def _system(fields: Fields) -> list[Message]:
    instruction = _child(fields, "systemInstruction")
    if instruction is None:
        return []

    texts = []
    for part in _objects(instruction, "parts"):
        _check_part(part, ("text",))
        texts.append(part.needed_text("text"))
    return [Message("system", "\n\n".join(texts))] if texts else []


class _ContentReader:
    """Reads turns in order. Call ids are optional in this API: calls without an id are numbered,
    and their results are matched by name and order.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._open: list[ToolCall] = []

    def read(self, content: Fields) -> list[Message]:
        """Return the messages of one turn."""
        # Without a role, the turn is the user's. Older clients send results with the role
        # `function`.
        role = content.word("role", ("user", "model", "function"))
        parts = _objects(content, "parts")
        content.ignore_rest()
        if role == "model":
            return [self._model(parts)]
        return self._user(parts)

    def _model(self, parts: Sequence[Fields]) -> Message:
        texts = []
        thoughts = None
        self._open = []
        for part in parts:
            kind = _check_part(part, ("text", "functionCall"))
            if kind == "functionCall":
                self._open.append(self._call(part))
            elif kind == "text" and not part.take("thought"):
                texts.append(part.needed_text("text"))
            thoughts = thoughts or parse_mark(part.text("thoughtSignature"))
        return Message("assistant", "".join(texts), tuple(self._open), opaque=thoughts)

    def _call(self, part: Fields) -> ToolCall:
        call = _camel(part.needed_child("functionCall"))
        self._calls += 1
        call_id = call.text("id") or f"call_{self._calls}"
        name = call.needed_name("name")
        arguments = arguments_text(call.mapping("args") or {})
        call.ignore_rest()
        return ToolCall(call_id, name, arguments)

    def _user(self, parts: Sequence[Fields]) -> list[Message]:
        messages = []
        texts = []
        for part in parts:
            if _check_part(part, ("text", "functionResponse")) == "functionResponse":
                messages.append(self._result(part))
            else:
                texts.append(part.needed_text("text"))
            part.ignore_rest()

        if texts or not messages:
            messages.append(Message("user", "\n\n".join(texts)))
        return messages

    def _result(self, part: Fields) -> Message:
        response = _camel(part.needed_child("functionResponse"))
        name = response.needed_name("name")
        call_id = response.text("id") or self._id_of(name, response.where)
        if response.take("parts"):
            response.refuse_field("parts", "results of text in `response`")
        result = response.mapping("response") or {}
        response.ignore_rest()

        self._open = [call for call in self._open if call.id != call_id]
        return Message("tool", _result_text(result), tool_call_id=call_id)

    def _id_of(self, name: str, where: str) -> str:
        for call in self._open:
            if call.name == name:
                return call.id
        raise WireError(
            "bad_request", f"{where}: no open function call is named {name[:80]!r}", where
        )


def _check_part(part: Fields, kinds: Sequence[str]) -> str | None:
    """Return the kind of a part; None if the part has only marks. Raises WireError if the kind is
    not in `kinds`, for example `inlineData`.
    """
    names = [name for name in part.names() if name not in _BESIDE_PART]
    for name in names:
        if name not in kinds:
            part.refuse_field(name, ", ".join(kinds))
    if len(names) > 1:
        part.wrong(names[1], f"one kind of part, has {names[0]} too")
    return names[0] if names else None


def _result_text(result: JsonObject) -> str:
    """Return the text of a result (`FunctionResponse.response`). It is the field `output`, or the
    whole object if it has neither `output` nor `error`.
    """
    if list(result) == ["output"]:
        output = result["output"]
        return output if isinstance(output, str) else dumps_compact(output)
    return dumps_compact(result)


def _read_declarations(tool: Fields) -> list[ToolSpec]:
    specs = []
    for function in _objects(tool, "functionDeclarations"):
        name = function.needed_name("name")
        description = function.text("description") or ""
        schema = function.mapping("parametersJsonSchema")
        openapi = function.mapping("parameters")
        if schema is None:
            schema = NO_PARAMETERS if openapi is None else json_schema(openapi)
        function.ignore_rest()
        specs.append(ToolSpec(name, description, schema))

    for name in tool.names():
        tool.refuse_field(name, f"functionDeclarations{SWITCH_OFF}")
    return specs


def _choice(fields: Fields, tools: tuple[ToolSpec, ...]) -> tuple[tuple[ToolSpec, ...], str | None]:
    """Return the tools on offer, and the tool that must be called."""
    config = _child(fields, "toolConfig")
    calling = None if config is None else _child(config, "functionCallingConfig")
    if config is not None:
        config.ignore_rest()
    if calling is None:
        return tools, None

    mode = calling.text("mode") or "AUTO"
    allowed = calling.texts("allowedFunctionNames")
    calling.ignore_rest()
    if mode.upper() == "NONE":
        return tools, NO_TOOL if tools else None
    if allowed:
        tools = allowed_only(calling, "allowedFunctionNames", tools, allowed)
    if mode.upper() == "ANY":
        return tools, required_choice(calling, "mode", "ANY", tools)
    return tools, None


def _response_schema(config: Fields) -> JsonObject | None:
    kind = config.text("responseMimeType") or "text/plain"
    schema = config.mapping("responseJsonSchema")
    openapi = config.mapping("responseSchema")
    if kind == "text/plain":
        return None
    if kind != "application/json":
        config.refuse_field("responseMimeType", "text/plain, application/json")
    if schema is not None:
        return schema
    return ANY_OBJECT if openapi is None else json_schema(openapi)


def json_schema(schema: Any) -> Any:
    """Return the JSON Schema for an API `Schema`. The latter is a subset of OpenAPI 3.0 with types
    in capitals (ai.google.dev/api/caching#Schema).
    """
    if not isinstance(schema, Mapping):
        return schema

    made: dict[str, Any] = {}
    for snake, value in schema.items():
        name = _SNAKE.sub(lambda match: match[1].upper(), snake)
        if name not in _NOT_OF_SCHEMA:
            made[name] = _keyword(name, value)

    if made.get("type") == "type_unspecified":
        del made["type"]
    if schema.get("nullable") is True:
        return _nullable(made)
    return made


def _keyword(name: str, value: Any) -> Any:
    """Return the JSON Schema value of a keyword."""
    if name == "type" and isinstance(value, str):
        return value.lower()
    if name in _COUNTS and isinstance(value, str) and value.isdecimal():
        return int(value[:18])
    if name == "properties" and isinstance(value, Mapping):
        return {key: json_schema(inner) for key, inner in value.items()}
    if name == "anyOf" and isinstance(value, list):
        return [json_schema(inner) for inner in value]
    if name == "items":
        return json_schema(value)
    return value


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema or "anyOf" in schema or "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def write(reply: Reply, request: BridgeRequest, number: int) -> JsonObject:
    """Return the body of an answer. Its id is made from the answer's `number`."""
    reply, _ = cut_at_stop(reply, request.stop)
    return _answer(reply, request, number, _parts(reply), is_last=True)


def stream(reply: Reply, request: BridgeRequest, number: int) -> list[bytes]:
    """Return the events of a streamed answer, one for each part. The last event also has the finish
    reason and the token counts.
    """
    reply, _ = cut_at_stop(reply, request.stop)
    parts = _parts(reply)
    events = []
    for place, part in enumerate(parts, 1):
        events.append(event(_answer(reply, request, number, [part], place == len(parts))))
    return events


def _parts(reply: Reply) -> list[JsonObject]:
    parts: list[JsonObject] = []
    if reply.reasoning:
        parts.append({"text": reply.reasoning, "thought": True})
    if reply.content or not reply.tool_calls:
        parts.append({"text": reply.content})
    first_call = len(parts)
    for call in reply.tool_calls:
        parts.append(_FORM.fill("call", call=call, arguments=arguments_object(call)))

    mark = mark_of(reply)
    # page on thought signatures: the mark is on the first call or, without calls, on the last part
    if mark:
        place = first_call if reply.tool_calls else -1
        parts[place] = {**parts[place], "thoughtSignature": mark}
    return parts


def _answer(
    reply: Reply,
    request: BridgeRequest,
    number: int,
    parts: Sequence[JsonObject],
    is_last: bool,
) -> JsonObject:
    answer = _FORM.fill("answer", number=number, model=request.asked_model, parts=parts)
    if is_last:
        reason = _FORM.parts["finishes"][reply.finish_reason]
        answer["candidates"][0]["finishReason"] = reason
        answer["usageMetadata"] = _FORM.usage(reply.usage)
    return answer
