"""Faults of the stub provider, and their times.

Faults of the transport and of the provider (`BROKEN`, `REFUSALS`) spoil an attempt: a retry of it
gets the answer. Bent replies (`BENT`) are whole, paid answers in which the model itself misbehaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ktdeval.harness.chat_messages import Reply, ToolCall
from ktdeval.values import sha256_hex
from support.providers.stub_hostile import HOSTILE, ODD, Spoilt
from support.providers.stub_neutral import Asked, Kind, Refused, usage_of

REFUSALS: Mapping[str, tuple[int, Kind, str]] = {
    "rate_limited": (429, "rate_limited", "Rate limit reached for requests with key {key}."),
    "rate_limited_date": (429, "rate_limited", "Rate limit reached for requests."),
    "no_quota": (
        429,
        "no_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "no_balance": (402, "no_balance", "Insufficient Balance"),
    "server": (
        500,
        "server",
        "The server had an error while processing your request with key {key}.",
    ),
    "bad_gateway": (502, "bad_gateway", "Bad gateway"),
    "unavailable": (
        503,
        "overloaded",
        "The engine is currently overloaded, please try again later.",
    ),
    "gateway_timeout": (504, "gateway_timeout", "Gateway timeout"),
    "overloaded": (529, "overloaded", "Overloaded"),
    "unauthorized": (
        401,
        "unauthorized",
        "Incorrect API key provided: {key}. You can find your API key in your account.",
    ),
    "forbidden": (403, "forbidden", "Your key {key} is not allowed to use this model."),
    "unknown_model": (404, "unknown_model", "stub-model"),
    "context": (
        400,
        "context",
        "This model's maximum context length is 8192 tokens. Your messages have 9000. (Key: {key})",
    ),
    "too_large": (413, "too_large", "Request exceeds the maximum size"),
    "prompt_filter": (400, "filtered", "The prompt was flagged by our content policy."),
    "unsupported": (
        400,
        "unsupported",
        "Unsupported parameter: 'temperature' is not supported with this model.",
    ),
}
"""Faults that are answered with an error: status, kind, message."""

BROKEN = (
    "reset",
    "reset_body",
    "silent",
    "slow",
    "cut",
    "cut_chunked",
    "malformed",
    "wrong_shape",
    "html",
    "empty_body",
    "error_200",
)
"""Faults of the transport: no answer, or none that can be read."""

BENT = (
    "wrong_tool",
    "odd_tool_name",
    "parallel",
    "bad_arguments",
    "truncated",
    "truncated_call",
    "empty",
    "refusal",
    "content_filter",
    "prose",
)
"""Whole answers in which the model misbehaves."""

NOT_ON_WIRE = {
    # Arguments are objects there, so that they can't be cut or malformed.
    "anthropic": {"bad_arguments", "truncated_call", "content_filter"},
    "google": {"bad_arguments", "truncated_call", "refusal"},
}
"""Bent replies that a wire has no form for. (Anthropic's content filter answers with an error:
`prompt_filter`.)
"""

KINDS = {
    "rate_limited": "rate_limited",
    "rate_limited_date": "rate_limited",
    "server": "server",
    "bad_gateway": "server",
    "gateway_timeout": "server",
    "unavailable": "overloaded",
    "overloaded": "overloaded",
    "error_200": "server",
    "reset": "connection",
    "reset_body": "bad_response",
    "silent": "timeout",
    "slow": "timeout",
    "cut": "bad_response",
    "cut_chunked": "bad_response",
    "malformed": "bad_response",
    "wrong_shape": "bad_response",
    "html": "bad_response",
    "empty_body": "bad_response",
}
"""Every way in which an attempt fails and may be made again, and the kind that it is counted
under.
"""

PROMPT = {"context": "context_exceeded", "too_large": "bad_request", "prompt_filter": "bad_request"}
"""Refusals of one prompt: no retry helps, and the run goes on."""

ACCOUNT = ("no_quota", "no_balance", "unauthorized", "forbidden", "unknown_model")
"""Refusals that every call would meet."""

MISDEEDS = {
    "wrong_tool": {"wrong_tool"},
    "odd_tool_name": {"wrong_tool"},
    "parallel": {"contradictory"},
    "bad_arguments": {"bad_json"},
    "truncated": {"truncated", "no_submission"},
    "truncated_call": {"truncated", "bad_json"},
    "empty": {"empty_reply"},
    "refusal": {"refusal"},
    "content_filter": {"content_filter"},
    "prose": {"no_submission"},
}
"""Behaviour of the model at the first submission of a step, and the counts for it."""

_WRONG_SHAPES: Mapping[str, Any] = {
    "chat": {"id": "chatcmpl-1", "object": "chat.completion", "choices": {"message": "hello"}},
    "responses": {"id": "resp_1", "object": "response", "status": "completed", "output": "hello"},
    "anthropic": {"id": "msg_1", "type": "message", "content": "hello"},
    "google": {"candidates": "hello"},
}


def wrong_shape(wire: str, key: str) -> Any:
    """JSON that is no answer of this wire, and gives the key away."""
    return {**_WRONG_SHAPES[wire], "debug": {"authorization": key}, key: key}


def problem_of(fault: str, key: str) -> Refused:
    """The error that a fault is answered with. Some quote the key, as real ones do, or a careless
    gateway.
    """
    status, kind, message = REFUSALS[fault]
    return Refused(
        message.format(key=key), kind, status, "temperature" if kind == "unsupported" else None
    )


def bend(fault: str, reply: Reply, asked: Asked) -> Reply:
    call = next(iter(reply.tool_calls), ToolCall("call_1", "get_market_context", "{}"))
    other = ToolCall("call_9", "get_market_context", "{}")
    bent = {
        "wrong_tool": lambda: Reply("", (replace(call, name="get_news"),), "tool_calls"),
        "odd_tool_name": lambda: Reply("", (replace(call, name="get news?"),), "tool_calls"),
        "parallel": lambda: replace(
            reply,
            tool_calls=(*reply.tool_calls, _second(call, asked), other),
            finish_reason="tool_calls",
        ),
        "bad_arguments": lambda: Reply(
            "", (replace(call, arguments='{"orders": ['),), "tool_calls"
        ),
        "truncated": lambda: Reply("The first thing to look at is", (), "length"),
        "truncated_call": lambda: Reply(
            "", (replace(call, arguments=call.arguments[: len(call.arguments) // 2]),), "length"
        ),
        "empty": lambda: Reply(""),
        "refusal": lambda: Reply("I can't give investment advice.", (), "refusal"),
        "content_filter": lambda: Reply("", (), "content_filter"),
        "prose": lambda: Reply("I would rather keep what we have."),
    }[fault]()

    return replace(
        bent, usage=usage_of(asked.request, bent, bool(reply.reasoning)), reasoning=reply.reasoning
    )


def _second(call: ToolCall, asked: Asked) -> ToolCall:
    """A further call of the same tool; a second submission holds, so that it shows which one
    counted.
    """
    hold = '{"orders": [], "overall_reason": "on second thoughts"}'
    return ToolCall("call_8", call.name, hold if asked.phase == "submission" else call.arguments)


@dataclass
class FaultPlan:
    """When which fault happens. By number it is a schedule; by content it hits the same decisions
    in whatever order they come.
    """

    # fault by number of the request, from 1
    by_number: Mapping[int, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()  # faults by content: each content that is hit takes the next one
    every: int = 1  # one in this many contents is hit, by its hash; 1: all of them
    attempts: int = 1  # how often a content that is hit fails before it is answered
    #: what counts as one content: all that a request says (`content`), or all requests of one step
    #: and phase (`step`), so that only the first of them fails, also when the agent asks again in
    #: other words
    unit: Literal["content", "step"] = "content"
    phase: str = ""  # hit only `submission`, `research` or `text` requests; empty: all
    #: what to answer instead, whatever is asked: made from the good answer
    spoil: Callable[[bytes], Spoilt] | None = None
    retry_after_s: float | None = 0  # what a 429, 503 or 529 asks to wait; None: it does not say
    #: fault by content that was hit
    taken: dict[str, str] = field(default_factory=dict)
    _seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for fault in (*self.by_number.values(), *self.faults):
            assert fault in (*REFUSALS, *BROKEN, *BENT, *HOSTILE, *ODD), f"no fault {fault!r}"

    def choose(self, number: int, asked: Asked) -> str | None:
        if number in self.by_number:
            return self.by_number[number]

        possible = [fault for fault in self.faults if fault not in NOT_ON_WIRE.get(asked.wire, ())]
        if not possible or self.phase not in ("", asked.phase):
            return None

        unit = asked.digest if self.unit == "content" else f"{asked.step} {asked.phase}"
        self._seen[unit] += 1
        if self._seen[unit] > self.attempts or int(sha256_hex(unit)[:12], 16) % self.every:
            return None

        if unit not in self.taken:
            self.taken[unit] = possible[len(self.taken) % len(possible)]

        return self.taken[unit]
