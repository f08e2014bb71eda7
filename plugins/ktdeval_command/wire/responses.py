"""Responses: `POST /v1/responses`. Sources: `forms/responses.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ktdeval.harness import Message, OwnSettings, Reply, ToolCall, ToolSpec
from ktdeval.values import JsonObject, dumps_compact, loads_untrusted
from ktdeval_command.wire.bridge_request import (
    BridgeRequest,
    WireTool,
    allowed_only,
    check_request,
    cut_at_stop,
)
from ktdeval_command.wire.declared_form import declared_form, fill_template
from ktdeval_command.wire.events import event
from ktdeval_command.wire.openai_forms import plain_choice, read_format, read_function
from ktdeval_command.wire.own_settings import SettingsReader
from ktdeval_command.wire.request_fields import SWITCH_OFF, Fields, request_fields
from ktdeval_command.wire.thoughts import mark_of, parse_mark

_FORM = declared_form("responses")
_ITEMS = (
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
    "additional_tools",
)
_ROLES = ("user", "assistant", "system", "developer")
_TOOLS = ("function", "custom", "namespace")
_TEXTS = ("input_text", "output_text", "text", "refusal")
# reason why an answer is incomplete, keyed by the reply's finish reason
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_INPUT = "input"  # the only parameter of a tool that takes free text


@dataclass(frozen=True)
class _Tools:
    """Tools of a request that were read so far."""

    specs: list[ToolSpec] = field(default_factory=list)
    wire_tools: dict[str, WireTool] = field(default_factory=dict)

    def add(self, spec: ToolSpec, wire: WireTool) -> None:
        """Add a tool under a name by which a model can call it."""
        name = _flat_name(wire.name, wire.namespace)
        self.specs.append(replace(spec, name=name))
        if wire != WireTool(name):
            self.wire_tools[name] = wire


def read(body: bytes) -> BridgeRequest:
    """Return the request in a body. Raises WireError."""
    fields = request_fields(body)
    fields.refuse(_FORM.parts["refused"])

    model = fields.needed_name("model")
    tools = _Tools()
    for tool in fields.objects("tools"):
        _read_tool(tool, tools)

    messages = []
    instructions = fields.text("instructions")
    if instructions:
        messages.append(Message("system", instructions))
    messages += _read_input(fields, tools)

    offered, choice = _choice(fields, tuple(tools.specs))
    schema = None
    text = fields.child("text")
    limit = fields.count("max_output_tokens")
    temperature = fields.temperature("temperature")
    own = _own_settings(fields, text, limit, temperature)
    if text is not None:
        schema = read_format(text.child("format"), "")
        text.ignore_rest()

    request = BridgeRequest(
        asked_model=model,
        messages=tuple(messages),
        tools=offered,
        tool_choice=choice,
        response_schema=schema,
        max_output_tokens=limit,
        temperature=temperature,
        own=own,
        streams=fields.flag("stream"),
        wire_tools=tools.wire_tools,
    )
    return check_request(request, fields)


def _own_settings(
    fields: Fields, text: Fields | None, limit: int | None, temperature: float | None
) -> OwnSettings | None:
    own = SettingsReader("responses")
    own.add("max_output_tokens", limit, "max_output_tokens")
    own.add("temperature", temperature, "temperature")
    reasoning = fields.mapping("reasoning")
    if reasoning:
        own.put("reasoning", reasoning)
        own.add_effort("reasoning", reasoning.get("effort"))
    if text is not None:
        own.put("text.verbosity", text.take("verbosity"))
    own.take(fields, _FORM)
    for name in ("include", "store"):  # these fields concern the run's model, which stores nothing
        fields.take(name)
    return own.settings()


def _read_tool(tool: Fields, tools: _Tools, namespace: str = "") -> None:
    kind = tool.kind(_TOOLS if not namespace else _TOOLS[:2], advice=SWITCH_OFF)
    if kind == "namespace":
        name = tool.needed_name("name")
        for inner in tool.objects("tools"):
            _read_tool(inner, tools, name)
        tool.ignore_rest()
    elif kind == "function":
        spec = read_function(tool)
        tools.add(spec, WireTool(spec.name, namespace))
    else:
        name = tool.needed_name("name")
        tools.add(_free_text_tool(tool, name), WireTool(name, namespace, is_free_text=True))


def _free_text_tool(tool: Fields, name: str) -> ToolSpec:
    """Return a free-text tool as a tool with one parameter. If it has a grammar, the grammar is
    added to the description; the API itself would enforce it.
    """
    description = tool.text("description") or ""
    form = tool.child("format")
    if form is not None and form.kind(("text", "grammar")) == "grammar":
        syntax = form.needed_text("syntax")
        definition = form.needed_text("definition")
        description = f"{description}\n\nGrammar of the text ({syntax}):\n{definition}".strip()
    tool.ignore_rest()

    parameters: JsonObject = {
        "type": "object",
        "properties": {_INPUT: {"type": "string"}},
        "required": [_INPUT],
        "additionalProperties": False,
    }
    return ToolSpec(name, description, parameters)


def _flat_name(name: str, namespace: str) -> str:
    """Return the name by which a model calls a tool. It includes the namespace, if there is one."""
    if not namespace:
        return name
    return f"{namespace.rstrip('_')}__{name}"


def _read_input(fields: Fields, tools: _Tools) -> list[Message]:
    value = fields.take("input")
    if isinstance(value, str):
        return [Message("user", value)]

    messages: list[Message] = []
    for item in Fields({"input": value}, "", fields.ignored).objects("input"):
        # `EasyInputMessageParam`: the type of a message may be omitted.
        kind = item.kind(_ITEMS, "message" if item.has("role") else None)
        for name in ("id", "status"):  # the bridge itself assigned these
            item.take(name)
        if kind == "additional_tools":
            for tool in item.objects("tools"):
                _read_tool(tool, tools)
            item.take("role")
        elif kind == "reasoning":
            _add_thoughts(messages, item)
        elif kind == "message":
            _add(messages, _message(item))
        elif kind.endswith("_output"):
            call_id = item.needed_name("call_id")
            output = item.needed_content("output", _TEXTS)
            messages.append(Message("tool", output, tool_call_id=call_id))
        else:
            _add(messages, Message("assistant", "", (_read_call(item, kind),)))
        item.ignore_rest()

    return [message for message in messages if not _is_thought_alone(message)]


def _add_thoughts(messages: list[Message], item: Fields) -> None:
    """If an item has the mark of its thoughts, start a turn with the mark."""
    thoughts = parse_mark(item.text("encrypted_content"))
    for name in ("summary", "content"):
        item.take(name)
    if thoughts is not None:
        _add(messages, Message("assistant", "", opaque=thoughts))


def _is_thought_alone(message: Message) -> bool:
    """Return whether a turn has thoughts but neither text nor calls. No API accepts such a turn."""
    return message.opaque is not None and not message.content and not message.tool_calls


def _add(messages: list[Message], message: Message) -> None:
    """Add a turn. Consecutive items from the model are joined to one turn."""
    if message.role == "assistant" and messages and messages[-1].role == "assistant":
        last = messages.pop()
        message = Message(
            "assistant",
            last.content + message.content,
            last.tool_calls + message.tool_calls,
            opaque=last.opaque or message.opaque,
        )
    messages.append(message)


def _message(item: Fields) -> Message:
    role = item.needed_word("role", _ROLES)
    if role == "assistant":
        return Message("assistant", item.content("content", _TEXTS, between=""))

    content = item.needed_content("content", _TEXTS)
    if role == "user":
        return Message("user", content)
    return Message("system", content)


def _read_call(item: Fields, kind: str) -> ToolCall:
    call_id = item.needed_name("call_id")
    name = _flat_name(item.needed_name("name"), item.text("namespace") or "")
    if kind == "function_call":
        return ToolCall(call_id, name, item.text("arguments") or "")
    return ToolCall(call_id, name, dumps_compact({_INPUT: item.needed_text("input")}))


def _choice(fields: Fields, tools: Sequence[ToolSpec]) -> tuple[tuple[ToolSpec, ...], str | None]:
    """Return the tools on offer, and the tool that must be called."""
    value = fields.take("tool_choice")
    if not isinstance(value, Mapping):
        return tuple(tools), plain_choice(fields, value, tools)

    choice = Fields(value, "tool_choice", fields.ignored)
    if choice.kind(("function", "custom", "allowed_tools")) != "allowed_tools":
        return tuple(tools), _chosen_name(choice)

    names = [_chosen_name(tool) for tool in choice.objects("tools")]
    tools = allowed_only(choice, "tools", tools, names)
    return tools, plain_choice(fields, choice.word("mode", ("auto", "required")), tools)


def _chosen_name(choice: Fields) -> str:
    return _flat_name(choice.needed_name("name"), choice.text("namespace") or "")


def write(reply: Reply, request: BridgeRequest, number: int) -> JsonObject:
    """Return the body of an answer. The ids of its items are made from the answer's `number`."""
    reply, _ = cut_at_stop(reply, request.stop)
    return _whole(reply, request, number, _items(reply, request, number))


def stream(reply: Reply, request: BridgeRequest, number: int) -> list[bytes]:
    """Return the events of a streamed answer, numbered from 0. The events of the whole answer
    enclose the events of its items. Each item starts empty.
    """
    begun = _FORM.fill(
        "answer",
        number=number,
        request=request,
        items=[],
        status="in_progress",
        details=None,
        usage=None,
    )
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    items = _items(reply, request, number)
    for index, item in enumerate(items):
        for each in _item_events(item):
            events.append({**each, "output_index": index})

    whole = _whole(reply, request, number, items)
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return [
        event({**each, "sequence_number": place}, each["type"]) for place, each in enumerate(events)
    ]


def _item_events(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of an item. The events between its start and its end concern its parts, or
    the item itself if it has no parts.
    """
    begun = {**item, **_FORM.parts["begun"][item["type"]]}
    events = [{"type": "response.output_item.added", "item": begun}]
    for part in item.get("summary", item.get("content", [item])):
        streamed = _FORM.parts["streamed"][part["type"]]
        field_name = streamed["field"]
        values = {
            "id": item["id"],
            "part": part,
            "empty": {**part, field_name: ""},
            "text": part[field_name],
            "name": part.get("name"),
        }
        events += fill_template(streamed["events"], values)
    return [*events, {"type": "response.output_item.done", "item": item}]


def _items(reply: Reply, request: BridgeRequest, number: int) -> list[dict[str, Any]]:
    items = []
    mark = mark_of(reply)
    if mark:
        thoughts = [_FORM.fill("summary_text", text=reply.reasoning)] if reply.reasoning else []
        items.append(_FORM.fill("reasoning", number=number, parts=thoughts, mark=mark))
    if reply.content or not reply.tool_calls:
        kind = "refusal" if reply.finish_reason == "refusal" else "output_text"
        parts = [_FORM.fill(kind, text=reply.content)]
        items.append(_FORM.fill("message", number=number, status=_status(reply), parts=parts))
    for index, call in enumerate(reply.tool_calls):
        items.append(_call_item(call, request.wire_tool(call.name), f"{number}_{index}"))
    return items


def _call_item(call: ToolCall, wire: WireTool, number: str) -> dict[str, Any]:
    kind, text = "function_call", call.arguments
    if wire.is_free_text:
        kind, text = "custom_tool_call", _free_text(call.arguments)
    item = _FORM.fill(kind, number=number, call=call, name=wire.name, text=text)
    if wire.namespace:
        item["namespace"] = wire.namespace
    return item


def _free_text(arguments: str) -> str:
    """Return the text in a call of a free-text tool. If the text is not in the tool's one
    parameter, return the raw arguments.
    """
    try:
        value = loads_untrusted(arguments)
    except ValueError:
        return arguments
    text = value.get(_INPUT) if isinstance(value, Mapping) else None
    return text if isinstance(text, str) else arguments


def _status(reply: Reply) -> str:
    return "incomplete" if reply.finish_reason in _INCOMPLETE else "completed"


def _whole(
    reply: Reply, request: BridgeRequest, number: int, items: Sequence[JsonObject]
) -> dict[str, Any]:
    details = None
    if reply.finish_reason in _INCOMPLETE:
        details = {"reason": _INCOMPLETE[reply.finish_reason]}
    return _FORM.fill(
        "answer",
        number=number,
        request=request,
        items=items,
        status=_status(reply),
        details=details,
        usage=_FORM.usage(reply.usage),
    )
