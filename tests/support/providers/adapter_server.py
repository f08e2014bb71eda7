"""Requests that the tests of adapters make, and a server that gives prepared answers, as no
well-behaved one does.
"""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ktdeval.errors import KtdevalError, ModelError, ProviderError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, ToolSpec
from ktdeval.testing import AnsweringHandler, serving
from support.providers.stub_neutral import KEY

LOOK = ToolSpec(
    "get_snapshot",
    "One stock.",
    {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
)
ORDERS = {"type": "array", "items": {"type": "object"}}
SUBMIT = ToolSpec("submit_action", "Submit.", {"type": "object", "properties": {"orders": ORDERS}})
QUESTION = (Message("system", "You trade."), Message("user", "Day 3."))


def ask(
    messages: tuple[Message, ...] = QUESTION,
    tools: tuple[ToolSpec, ...] = (),
    forced: str | None = None,
    schema: Any = None,
    **call: Any,
) -> ModelRequest:
    return ModelRequest(messages, tools, forced, CallParams(**{"timeout_s": 60.0, **call}), schema)


def failure_of(model: Any, request: ModelRequest | None = None) -> KtdevalError:
    """The error of one attempt: one line, which holds the key as little as its fields, traceback
    and causes do.
    """
    with pytest.raises((ModelError, ProviderError)) as caught:
        model.reply(request or ask())

    assert "\n" not in str(caught.value)
    assert KEY[:12] not in "".join(traceback.format_exception(caught.value)) + repr(
        vars(caught.value)
    )

    return caught.value


@dataclass(frozen=True)
class Prepared:
    """One answer. `body` is sent as JSON, or as it is when it is bytes."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class PreparedServer:
    """Where it listens, and what it was asked: path, headers (names in lower case) and body of each
    request.
    """

    address: str
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)


@contextmanager
def prepared(
    *answers: Prepared | Callable[[Any], Prepared], reads: bool = False
) -> Iterator[PreparedServer]:
    """A running server that gives the answers, or what they make of the body, in turn, the last one
    for ever; with `reads` to GET requests, too.
    """
    lock = threading.Lock()

    class Handler(AnsweringHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if reads:
                self.take(None)
            else:
                self.answer(status=501)

        def do_POST(self) -> None:
            is_json = self.headers["Content-Type"] == "application/json"
            self.take(json.loads(self.body()) if is_json else self.body())

        def take(self, body: Any) -> None:
            with lock:
                answer = answers[min(len(asked.bodies), len(answers) - 1)]
                asked.paths.append(self.path)
                asked.headers.append({name.lower(): value for name, value in self.headers.items()})
                asked.bodies.append(body)
                answer = answer(body) if callable(answer) else answer

            if isinstance(answer.body, bytes):
                headers = {"Content-Type": "application/json", **answer.headers}
                self.answer(answer.body, answer.status, headers)
            else:
                self.answer_json(answer.body, answer.status, answer.headers)

    with serving(Handler) as address:
        asked = PreparedServer(address)
        yield asked
