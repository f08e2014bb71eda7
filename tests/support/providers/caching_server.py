"""A provider with a prompt cache, on HTTP: it counts tokens by a tokenizer of its own, reads the
longest beginning that a prompt has in common with an earlier one, token by token, and bills it.

Its model does what a plan calls typical: two research calls a turn, half of the budget, and one valid
submission; first it buys all that it may hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from ktdeval.runner.rehearsals.conversation_size import example
from ktdeval.testing import AnsweringHandler, serving

INPUT, CACHED, OUTPUT = 1.25, 0.125, 10.0  # US dollars a million tokens
MIN_TOKENS = 1024
STEP_TOKENS = 128
REPLY_TOKENS = 600
_RESEARCH_CALLS = 6
_A_TURN = 2
_HELD = 20
_WEIGHT = 0.045
_MAY_SUBMIT = "To submit, call `submit_action` alone"  #: in the rules of a role that submits
_REMARK = "A remark that stands for what a model writes beside its calls. " * 6
_PIECE = re.compile(r" ?[A-Za-z]{1,12}|[0-9]|[^A-Za-z0-9\s]{1,2}|\s")
_HANDLE = re.compile(r"asset_[0-9]+")


@dataclass
class Bill:
    """What was used, and what it costs."""

    calls: int = 0
    tokens: int = 0
    cached: int = 0

    @property
    def full_usd(self) -> float:
        """Cost if nothing were read from the cache."""
        return (self.tokens * INPUT + self.calls * REPLY_TOKENS * OUTPUT) / 1e6

    @property
    def cached_usd(self) -> float:
        """Cost that is billed."""
        return self.full_usd - self.cached * (INPUT - CACHED) / 1e6


@dataclass
class CachingServer:
    """State of the server; `address`: its base URL."""

    bill: Bill = field(default_factory=Bill)
    address: str = ""
    _kept: list[list[str]] = field(default_factory=list)
    _has_bought: bool = False

    def answer(self, body: Any) -> Any:
        """Return the answer to a request, and bill it."""
        tokens = tokenize(body)
        shared = max((_common(tokens, kept) for kept in self._kept), default=0)
        self._kept.append(tokens)
        read = 0
        if shared >= MIN_TOKENS:
            read = shared - (shared - MIN_TOKENS) % STEP_TOKENS

        self.bill.calls += 1
        self.bill.tokens += len(tokens)
        self.bill.cached += read
        calls = list(self._calls(body))
        message: dict[str, Any] = {"role": "assistant", "content": _REMARK}
        if calls:
            message["tool_calls"] = calls

        return {
            "id": f"answer-{self.bill.calls}",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if calls else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": len(tokens),
                "completion_tokens": REPLY_TOKENS,
                "total_tokens": len(tokens) + REPLY_TOKENS,
                "prompt_tokens_details": {"cached_tokens": read},
            },
        }

    def _calls(self, body: Any) -> Iterator[dict[str, Any]]:
        """Yield the calls of an answer."""
        tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", ())}
        choice = body.get("tool_choice", "auto")
        if isinstance(choice, dict):
            name = choice["function"]["name"]
            yield self._call(0, name, self._submission(body, tools[name]["parameters"]))
            return

        done = sum(len(message.get("tool_calls", ())) for message in body["messages"])
        if not tools or choice == "none":
            return
        if done >= _RESEARCH_CALLS:
            if _MAY_SUBMIT in json.dumps(body["messages"]):
                name = next(name for name in tools if name.startswith("submit"))
                yield self._call(done, name, self._submission(body, tools[name]["parameters"]))
            return

        offered = []
        for name, tool in tools.items():
            arguments = example(tool["parameters"])
            if arguments is not None and not name.startswith("submit"):
                offered.append((name, arguments))

        for number in range(done, done + _A_TURN):
            if offered:
                yield self._call(number, *offered[number % len(offered)])

    def _submission(self, body: Any, schema: Any) -> Any:
        """Return a valid submission: the first buys as many assets as may be held."""
        submission = example(schema, _REMARK)
        assert isinstance(submission, dict)
        handles = sorted(set(_HANDLE.findall(json.dumps(body["messages"]))))[:_HELD]
        if "orders" in submission and not self._has_bought and len(handles) == _HELD:
            self._has_bought = True
            order = {"side": "BUY", "target_weight": _WEIGHT, "confidence": 0.5}
            submission["orders"] = [
                {**order, "stock_id": handle, "reason": _REMARK[:80]} for handle in handles
            ]

        return submission

    def _call(self, number: int, name: str, arguments: Any) -> dict[str, Any]:
        return {
            "id": f"call_{self.bill.calls}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }


def tokenize(body: Any) -> list[str]:
    """Return a prompt as tokens, in the order in which it is cached: tools, then messages."""
    texts = []
    for tool in body.get("tools", ()):
        function = tool["function"]
        texts += [function["name"], function["description"], json.dumps(function["parameters"])]

    for message in body["messages"]:
        texts.append(f"<{message['role']}>{message.get('content') or ''}")
        for call in message.get("tool_calls", ()):
            texts += [call["function"]["name"], call["function"]["arguments"]]

    return [token for text in texts for token in _PIECE.findall(text)]


def _common(tokens: list[str], others: list[str]) -> int:
    pairs = zip(tokens, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@contextmanager
def caching_server() -> Iterator[CachingServer]:
    """Run a server until the end of the block."""
    state = CachingServer()

    class Handler(AnsweringHandler):
        def do_POST(self) -> None:
            self.answer_json(state.answer(json.loads(self.body())))

    with serving(Handler) as address:
        state.address = f"{address}/v1"
        yield state
