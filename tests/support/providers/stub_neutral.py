"""Common parts of all wires of the stub provider: strict fields, refusals, the neutral form of a
request, and who decides.

A request is read from its wire into a `ModelRequest`, a keyless model answers that, and the answer
is written to the same wire. So equal conversations get equal decisions and equal token counts,
whichever wire they came over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ktdeval.harness.chat_messages import (
    CallParams,
    Message,
    ModelRequest,
    Reply,
    ToolCall,
    ToolSpec,
    Usage,
    encodable,
)
from ktdeval.values import dumps_canonical, loads_strict, sha256_hex
from support.providers.protocol_speaker import Form, unwrite
from support.tasks.shown_states import with_state

KEY = "stub-secret-key-0123456789abcdef"
MODEL = "stub-model"
SERVED_BY = "stub-model-2026-01-15"
FINGERPRINT = "fp_stub"
JSON_OBJECT: Mapping[str, Any] = {}
"""The schema of "any JSON object"."""
REASONING = "First I look at the ranking, then at what is held."

Support = Literal["yes", "refused", "ignored"]
Kind = Literal[
    "bad_request",
    "unsupported",
    "context",
    "too_large",
    "unauthorized",
    "forbidden",
    "unknown_model",
    "unknown_path",
    "filtered",
    "rate_limited",
    "no_quota",
    "no_balance",
    "server",
    "bad_gateway",
    "overloaded",
    "gateway_timeout",
]


@dataclass(frozen=True)
class StubOptions:
    """How the stub behaves."""

    model: str = "momentum"  # the keyless model that decides: what follows `builtin/`
    names: tuple[str, ...] = (MODEL,)  # model names that it serves; any other is unknown
    key: str = KEY  # the one key that it takes
    latency_s: float = 0.0  # how long it thinks before each answer
    reasoning: bool = False  # whether replies have a reasoning channel, and reasoning tokens
    tools: Support = "yes"  # whether tools of the wire are taken, refused or silently left aside
    json_schema: Support = "yes"  # the same for replies that must follow a JSON Schema
    # request fields that this model does not support, such as `temperature`
    refuses: tuple[str, ...] = ()
    # after this many whole answers, all further requests wait until `Stub.go_on`
    hold_after: int | None = None
    # whether Chat Completions stream what is asked for as a stream; other wires ignore the wish
    streams: bool = False


class Refused(Exception):
    """The provider refuses a request. Each wire has its own words for it."""

    def __init__(
        self, message: str, kind: Kind = "bad_request", status: int = 400, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.status = status
        self.param = param


@dataclass(frozen=True)
class Asked:
    """A request, read: what is wanted of which model, over which wire it came, in which form tools
    are written, if they are, and what is to be seen of thoughts, if there are any.
    """

    wire: str
    model: str
    request: ModelRequest
    form: Form = ""
    thoughts: Literal["shown", "hidden", "none"] = "shown"

    @property
    def digest(self) -> str:
        """A hash of what is said and offered, equal on all wires: no ids, no sampling
        parameters.
        """
        content = [
            _words(self.request.messages),
            [tool.name for tool in self.request.tools],
            self.phase,
        ]
        return sha256_hex(dumps_canonical(content))

    @property
    def step(self) -> str:
        """A hash of what the conversation began with: the same for all requests of one step of an
        episode.
        """
        return sha256_hex(dumps_canonical(_words(self.request.messages[:2])))

    @property
    def forced(self) -> str | None:
        """The tool that must be called; where a wire has no form for that, the only one on offer
        stands for it.
        """
        tools = self.request.tools
        return self.request.tool_choice or (tools[0].name if len(tools) == 1 else None)

    @property
    def phase(self) -> str:
        """`submission` where one tool is forced or the only one on offer, `research` where there
        are more, else `text`.
        """
        if self.forced is not None:
            return "submission"

        return "research" if self.request.tools else "text"


def asked_of(wire: str, model: str, request: ModelRequest, options: StubOptions) -> Asked:
    """The request as this server sees it: without what it silently leaves aside, and with written
    tools read. Raises Refused: it asks for a form of reply that the server does not offer.
    """
    if options.tools == "ignored":
        request = replace(request, tools=(), tool_choice=None)

    schema = request.response_schema
    if options.json_schema == "refused" and schema:
        raise Refused(
            "This model does not support response format `json_schema`.",
            "unsupported",
            param="response_format",
        )

    read, form = unwrite(request)
    read = replace(read, tool_choice=read.tool_choice or _asked_for(read))
    follows = schema is not None and (schema == JSON_OBJECT or options.json_schema == "yes")

    if form == "json_schema" and not follows:
        return Asked(wire, model, request)

    return Asked(wire, model, read, form)


def _asked_for(request: ModelRequest) -> str | None:
    """The tool on offer that the conversation asks for in words, where the wire forces none."""
    asked = " ".join(m.content for m in request.messages if m.role in ("user", "tool"))
    names = re.findall(r"[Cc]all (\w+) exactly once", asked)
    return next((tool.name for tool in request.tools if tool.name in names), None)


@dataclass(frozen=True)
class Answer:
    """Reply in neutral form; ids of calls are new and unique to the request."""

    asked: Asked
    reply: Reply

    @property
    def stem(self) -> str:
        return self.asked.digest[:20]

    def call_ids(self, prefix: str) -> list[str]:
        return [f"{prefix}{self.stem}{index}" for index in range(len(self.reply.tool_calls))]


# -- strict reading
# --------------------------------------------------------------------------------------------------

Types = type | tuple[type, ...]
NUMBER = (int, float)


def take(
    value: Any,
    where: str,
    required: Mapping[str, Types],
    optional: Mapping[str, Types] | None = None,
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(f"{where}: expected an object, but got {_kind(value)} instead.", param=where)

    known = {**required, **(optional or {})}
    for name, item in value.items():
        at = f"{where}.{name}".lstrip(".")
        if name not in known:
            raise Refused(f"Unknown parameter: '{at}'.", param=at)

        check_type(item, known[name], at)

    for name in required:
        if name not in value:
            at = f"{where}.{name}".lstrip(".")
            raise Refused(f"Missing required parameter: '{at}'.", param=at)

    return value


def check_type(value: Any, types: Types, at: str) -> None:
    allowed = types if isinstance(types, tuple) else (types,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        names = " or ".join(one.__name__ for one in allowed)
        raise Refused(
            f"Invalid type for '{at}': expected {names}, but got {_kind(value)} instead.", param=at
        )


def check_range(value: float | None, at: str, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        raise Refused(
            f"Invalid '{at}': {value} is not in the range from {low} to {high}.", param=at
        )


def check_word(value: Any, at: str, words: Iterable[Any]) -> None:
    words = list(words)
    if value not in words:
        raise Refused(
            f"Invalid value for '{at}': {value!r}. Supported values are:"
            f" {', '.join(map(repr, words))}.",
            param=at,
        )


def check_supported(body: Mapping[str, Any], options: StubOptions) -> None:
    for name in options.refuses:
        if name in body:
            raise Refused(
                f"Unsupported parameter: '{name}' is not supported with this model.",
                "unsupported",
                param=name,
            )


def check_model(name: str, options: StubOptions) -> None:
    if name not in options.names:
        raise Refused(
            f"The model `{name}` does not exist or you do not have access to it.",
            "unknown_model",
            404,
            "model",
        )


def check_strict_schema(schema: Any, at: str) -> None:
    """Refuse what OpenAI's strict mode refuses: an object that allows further properties or leaves
    one optional.
    """
    if isinstance(schema, list):
        for item in schema:
            check_strict_schema(item, at)

    if not isinstance(schema, dict):
        return

    if "oneOf" in schema:
        raise Refused(f"Invalid schema for '{at}': 'oneOf' is not permitted.", param=at)

    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            raise Refused(
                f"Invalid schema for '{at}': 'additionalProperties' is required to be supplied and"
                " to be false.",
                param=at,
            )

        if set(schema.get("required", ())) != set(schema.get("properties", {})):
            raise Refused(
                f"Invalid schema for '{at}': 'required' is required to include every key in"
                " properties.",
                param=at,
            )

    for item in schema.values():
        check_strict_schema(item, at)


def parse_arguments(text: str) -> dict[str, Any]:
    value = loads_strict(text)
    assert isinstance(value, dict), text
    return value


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


# -- counting and deciding
# -------------------------------------------------------------------------------------------


def usage_of(request: ModelRequest, reply: Reply, reasoning: bool) -> Usage:
    """Tokens, four characters each, of what is said; the system message counts as read from the
    provider's prompt cache.
    """
    tools = sum(len(tool.name) + len(tool.description) for tool in request.tools)
    system = sum(len(message.content) for message in request.messages if message.role == "system")
    spoken = len(dumps_canonical(_words(request.messages)))
    thought = len(REASONING) // 4 if reasoning else 0
    words = len(reply.content) + sum(
        len(call.name) + len(call.arguments) for call in reply.tool_calls
    )

    return Usage((spoken + tools) // 4 + 1, words // 4 + 1 + thought, thought, system // 4)


def decide(model: Any, asked: Asked, reasoning: bool, mood: str = "") -> Reply:
    """The keyless model's answer. Its chance comes from what it was asked, for not every wire
    carries a seed.

    Questions without tools are answered out of the air, in another way in another mood.
    """
    seeded = replace(asked.request, params=CallParams(seed=int(asked.digest[:12], 16)))
    # a model of rules reads the state, which is not sent
    reply: Reply = model.reply(with_state(seeded))
    reasoning = reasoning and asked.thoughts != "none"
    forced = asked.forced

    if forced is not None and forced not in [call.name for call in reply.tool_calls]:
        schema = next(tool.parameters for tool in asked.request.tools if tool.name == forced)
        text = json.dumps(sample(schema, asked.request), ensure_ascii=False)
        reply = Reply(tool_calls=(ToolCall("call_1", forced, text),), finish_reason="tool_calls")
    elif not asked.request.tools:
        reply = Reply(_say(asked, mood))

    return replace(
        reply,
        usage=usage_of(asked.request, reply, reasoning),
        reasoning=REASONING if reasoning else "",
    )


_SIX_LETTERS = ("A, B, C, D, E, F", "B, A, C, E, D, F", "F, E, D, C, B, A")
_OF_FIVE = re.compile(r"((?:\w+, ){3}\w+ (?:and|or) \w+)")


def _say(asked: Asked, mood: str) -> str:
    """Some answer to a question: six letters, one of five words, or a number, as it asks for."""
    text = asked.request.messages[-1].content
    chance = int(sha256_hex(asked.digest + mood)[:12], 16)

    if "six letters" in text:
        return _SIX_LETTERS[chance % 3]

    if match := _OF_FIVE.search(text):
        return re.split(r", | and | or ", match[1])[chance % 5]

    return str(chance % 97)


def sample(schema: Mapping[str, Any], request: ModelRequest) -> Any:
    """A value that follows a simple schema; text and numbers are the last that stand in the
    conversation, where there are any.
    """
    if "const" in schema or "enum" in schema:
        return schema.get("const", next(iter(schema.get("enum", [None]))))

    if "anyOf" in schema:
        return sample(schema["anyOf"][0], request)

    kind = schema.get("type")
    if kind == "object":
        return {name: sample(part, request) for name, part in schema.get("properties", {}).items()}

    if kind == "array":
        return [sample(schema.get("items", {"type": "string"}), request)]

    if kind == "string":
        pieces = request.messages[-1].content.split('"')
        return pieces[-2] if len(pieces) >= 3 else "stub"

    digits = "".join(
        char if char.isdigit() else " " for char in request.messages[-1].content
    ).split()

    return {"boolean": True, "null": None}.get(
        str(kind), max(schema.get("minimum", 0), int(digits[-1]) if digits else 0)
    )


def _words(messages: Sequence[Message]) -> list[Any]:
    words = []
    for message in messages:
        calls = [[call.name, _canonical(call.arguments)] for call in message.tool_calls]
        words.append([message.role, message.content, calls])

    return words


def _canonical(arguments: str) -> str:
    try:
        return encodable(dumps_canonical(loads_strict(arguments)))
    except (ValueError, RecursionError):
        return arguments


def offered(
    names_and_parts: Iterable[tuple[str, str | None, Mapping[str, Any] | None]],
) -> tuple[ToolSpec, ...]:
    return tuple(
        ToolSpec(name, text or "", dict(schema or {"type": "object"}))
        for name, text, schema in names_and_parts
    )
