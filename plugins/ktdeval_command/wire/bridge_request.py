"""Request of a program to the bridge, as one typed value for all wire formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ktdeval.harness import NO_TOOL, Message, OwnSettings, Reply, ToolCall, ToolSpec
from ktdeval.values import JsonObject, dumps_compact, loads_untrusted
from ktdeval_command.wire.refusals import WireError
from ktdeval_command.wire.request_fields import MAX_LEVELS, Fields

INVALID_JSON = "INVALID_JSON"
"""Field in which the bridge sends arguments that are not a JSON object, if a format accepts only
objects.
"""
NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}
ANY_OBJECT: JsonObject = {"type": "object"}
MAX_MESSAGES = 10_000
MAX_TOOLS = 1_000

_BYTES_PER_TOKEN = 3  #: fewer bytes than in English text, so that the estimate is on the high side


@dataclass(frozen=True, slots=True)
class WireTool:
    """The form in which the program knows a tool whose name or arguments the bridge rewrites."""

    name: str
    #: namespace in the Responses API, for example the namespace of a tool server; empty if there is
    #: none
    namespace: str = ""
    is_free_text: bool = False  #: whether the tool takes a single text instead of JSON arguments


@dataclass(frozen=True, slots=True)
class BridgeRequest:
    """One request of a program.

    Tool results follow the calls that they answer, in the program's order. System texts at the
    start are joined to one message.
    """

    asked_model: str  #: name of the model that the program requested, whichever model answers
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    #: as in `ModelRequest`: None lets the model choose, a name forces the tool of that name,
    #: `NO_TOOL` forbids calls
    tool_choice: str | None = None
    response_schema: JsonObject | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    own: OwnSettings | None = None  #: settings that are passed to the model
    stop: tuple[str, ...] = ()  #: the reply is cut before the first of these texts
    streams: bool = False
    streams_usage: bool = False  #: Chat Completions: whether the stream ends with token counts
    #: paths of fields that were accepted but have no effect, without indices, in the order of the
    #: body
    ignored: tuple[str, ...] = ()
    #: tools whose name or arguments differ for the program, keyed by the name in `tools`
    wire_tools: Mapping[str, WireTool] = field(default_factory=dict)

    def wire_tool(self, name: str) -> WireTool:
        """Return the form in which the program knows a tool."""
        return self.wire_tools.get(name, WireTool(name))


def check_request(request: BridgeRequest, fields: Fields) -> BridgeRequest:
    """Return a request in which the system texts at the start are joined, and unread fields are
    named as ignored. Raises WireError if the request has no user message, a result without its
    call, a call without its result, a tool twice, or too many messages or tools.
    """
    fields.ignore_rest()
    messages = _joined_system(request.messages)
    if all(message.role == "system" for message in messages):
        raise WireError("bad_request", "the request has no message of a user")
    if len(messages) > MAX_MESSAGES:
        raise WireError("bad_request", f"expected at most {MAX_MESSAGES:,} messages")
    if len(request.tools) > MAX_TOOLS:
        raise WireError("bad_request", f"expected at most {MAX_TOOLS:,} tools")

    _check_results(messages)
    _check_tools(request)

    return replace(request, messages=messages, ignored=tuple(fields.ignored))


def _joined_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    count = 0
    while count < len(messages) and messages[count].role == "system":
        count += 1
    if count < 2:
        return tuple(messages)

    text = "\n\n".join(message.content for message in messages[:count])
    return (Message("system", text), *messages[count:])


def _check_results(messages: Sequence[Message]) -> None:
    """Raise WireError if calls and results do not match. Every API refuses such a conversation."""
    open_ids: dict[str, None] = {}
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in open_ids:
                raise WireError(
                    "bad_request",
                    f"a tool result answers {str(message.tool_call_id)[:80]!r}, which is no open"
                    " tool call of the turn before it",
                )
            del open_ids[message.tool_call_id]
            continue

        _check_answered(open_ids)
        for call in message.tool_calls:
            if call.id in open_ids:
                raise WireError("bad_request", f"two tool calls have the id {call.id[:80]!r}")
            open_ids[call.id] = None

    _check_answered(open_ids)


def _check_answered(open_ids: Iterable[str]) -> None:
    for call_id in open_ids:
        raise WireError("bad_request", f"the tool call {call_id[:80]!r} has no tool result")


def _check_tools(request: BridgeRequest) -> None:
    names: set[str] = set()
    for tool in request.tools:
        if tool.name in names:
            raise WireError("bad_request", f"two tools are named {tool.name[:80]!r}")
        names.add(tool.name)

    if request.tool_choice not in (None, NO_TOOL, *names):
        raise WireError(
            "bad_request", f"tool_choice: {request.tool_choice!r:.80} is no tool of the request"
        )


def required_choice(fields: Fields, name: str, word: str, tools: Sequence[ToolSpec]) -> str | None:
    """Return the tool choice for a request that requires a call of any tool. `word`: the API's name
    for this choice. The run's models can be forced only to one tool or to none. So if there are
    several tools, the model chooses, and the field is reported as ignored.
    """
    if len(tools) == 1:
        return tools[0].name
    if tools:
        fields.ignore(name, f"={word}")
    return None


def allowed_only(
    fields: Fields, name: str, tools: Sequence[ToolSpec], allowed: Sequence[str]
) -> tuple[ToolSpec, ...]:
    """Return the tools that a request allows. Raises WireError if the request allows a tool that it
    does not have.
    """
    known = {tool.name for tool in tools}
    for each in allowed:
        if each not in known:
            fields.wrong(name, f"names of the request's tools, was {each[:80]!r}")
    return tuple(tool for tool in tools if tool.name in allowed)


def arguments_object(call: ToolCall) -> JsonObject:
    """Return the arguments of a call, for a format that accepts only objects."""
    try:
        value = loads_untrusted(call.arguments or "{}", MAX_LEVELS)
    except ValueError:
        return {INVALID_JSON: call.arguments}
    if not isinstance(value, dict):
        return {INVALID_JSON: call.arguments}
    return value


def arguments_text(value: JsonObject) -> str:
    """Return the JSON text of arguments given as an object. If `arguments_object` had to wrap the
    model's text, return that text.
    """
    if list(value) == [INVALID_JSON]:
        text = value[INVALID_JSON]
        if isinstance(text, str):
            return text
    return dumps_compact(value)


def cut_at_stop(reply: Reply, stop: Sequence[str]) -> tuple[Reply, str | None]:
    """Return a reply cut before the first of the program's stop texts, and that stop text (None if
    no stop text occurs). The run's models take no stop texts. Calls come after the text, so a reply
    that was cut has no calls.
    """
    first = len(reply.content)
    found = None
    for text in stop:
        place = reply.content.find(text)
        if text and 0 <= place < first:
            first = place
            found = text

    if found is None:
        return reply, None
    return replace(reply, content=reply.content[:first], tool_calls=(), finish_reason="stop"), found


def estimated_tokens(request: BridgeRequest) -> int:
    """Return an estimate of a request's tokens from its number of bytes. The estimate is on the
    high side, because the tokenizer of the run's model is unknown.
    """
    texts: list[str] = []
    for message in request.messages:
        texts.append(message.content)
        for call in message.tool_calls:
            texts += (call.name, call.arguments)
    for tool in request.tools:
        texts += (tool.name, tool.description, dumps_compact(tool.parameters))

    size = sum(len(text.encode("utf-8")) for text in texts)
    return -(-size // _BYTES_PER_TOKEN) + 4 * (len(request.messages) + len(request.tools))
