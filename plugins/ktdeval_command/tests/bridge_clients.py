"""A model bridge with prepared answers, for tests that ask it as programs do."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ktdeval.errors import KtdevalError
from ktdeval.harness import Reply, ToolCall, Usage
from ktdeval.testing import running_server, text_of
from ktdeval_command.desk.bridge_server import BridgeServer
from ktdeval_command.desk.loopback_server import ServerLimits
from ktdeval_command.wire.bridge_request import BridgeRequest
from ktdeval_command.wire.refusals import WireError

TOKEN = "token-of-this-test"
MODEL = "run-model"
USAGE = Usage(
    input_tokens=100,
    output_tokens=20,
    reasoning_tokens=5,
    cache_read_tokens=30,
    cache_write_tokens=10,
)
LOOK = ToolCall("call_a", "look", '{"id":"S1"}')
LOOK_AGAIN = ToolCall("call_b", "look", '{"id":"S2","day":2.50}')
TEXT = Reply("Hello ‘you’ — 你好", usage=USAGE)
ONE_CALL = Reply(tool_calls=(LOOK,), finish_reason="tool_calls", usage=USAGE)
TWO_CALLS = Reply("I look.", (LOOK, LOOK_AGAIN), "tool_calls", USAGE)
SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


@dataclass
class Bridge:
    """A bridge that runs, and what it was asked."""

    server: BridgeServer
    requests: list[BridgeRequest] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.server.address

    @property
    def asked(self) -> BridgeRequest:
        """The one request."""
        (request,) = self.requests
        return request


@contextmanager
def bridge(*answers: Reply | KtdevalError, limits: ServerLimits | None = None) -> Iterator[Bridge]:
    """Run a bridge that gives these answers in order."""
    left = list(answers)

    def answer(request: BridgeRequest) -> Reply:
        made.requests.append(request)
        given = left.pop(0)
        if isinstance(given, KtdevalError):
            raise given
        return given

    made = Bridge(BridgeServer(answer, TOKEN, MODEL, limits=limits))
    with running_server(made.server):
        yield made


@dataclass(frozen=True)
class Answered:
    """Status, headers (names in small letters) and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def asked_raw(
    bridge: Bridge,
    path: str,
    body: bytes | None = b"{}",
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> Answered:
    """Ask as no SDK does."""
    connection = http.client.HTTPConnection(*bridge.server.server_address[:2], timeout=30)
    try:
        given = {"Authorization": f"Bearer {TOKEN}"} if headers is None else dict(headers)
        connection.request(method, path, body, given)
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answered(response.status, names, response.read())
    finally:
        connection.close()


def wire_refusals(read: Callable[..., object], *requests: Mapping[str, Any]) -> str:
    """Kind, field and words, a line for each request that can't be read."""
    lines = []
    for fields in requests:
        with pytest.raises(WireError) as caught:
            read(**fields)

        refusal = caught.value.refusal
        lines.append(f"{refusal.kind} {refusal.field or '-'}: {refusal.message}")

    return text_of(lines)
