"""A provider of one chat model on loopback, in the form of Chat Completions, streamed where it is
asked so: it calls a tool, and answers once it has the result. It counts what it is asked, and may
hold an answer back, a streamed one in its middle.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ktdeval.testing import QuietHandler, running_server
from support.providers.stub_streams import chunks_of, event_bytes

ARGUMENTS = {"tickers": "AVLN", "start": "2025-02-13", "end": "2025-02-14"}
ANSWER = "AVLN closed at <script>document.title='owned'</script> ![x](http://example.org/x.png)"


@dataclass
class ChatStub:
    """What a stub has been asked and answered. `hold_at`: number of the question of a chat, from 1, that is held
    back until `released`. `streams`: whether it streams; otherwise it refuses to.
    """

    base_url: str = ""
    hold_at: int = 0
    streams: bool = True
    bodies: list[Any] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)

    @property
    def questions(self) -> list[Any]:
        """Requests of chats: those that offer tools of the services."""
        return [body for body in self.bodies if _is_of_chat(body)]

    def hold(self, at: int) -> None:
        """Hold the answer to a further question back."""
        self.held.clear()
        self.released.clear()
        self.hold_at = at


def _is_of_chat(body: Any) -> bool:
    names = [tool["function"]["name"] for tool in body.get("tools", ())]
    return "upq_stock_daily" in names


def _message(body: Any) -> dict[str, Any]:
    """Return the reply: a call first, and a text once it is answered."""
    tools = body.get("tools", ())
    if not _is_of_chat(body):
        return _call(tools[0]["function"], {}) if tools else {"role": "assistant", "content": "ok"}

    if body["messages"][-1]["role"] == "tool":
        return {"role": "assistant", "content": ANSWER}

    message = _call({"name": "upq_stock_daily"}, ARGUMENTS)

    return {**message, "content": "I look it up."}


def _call(function: Any, arguments: Any) -> dict[str, Any]:
    filled = {**_least(function.get("parameters", {})), **arguments}
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": function["name"], "arguments": json.dumps(filled)},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _least(schema: Any) -> dict[str, Any]:
    """Return what the check of tool protocols asks for."""
    asked = {"place": "north", "level": 41}
    return {name: asked[name] for name in schema.get("required", ()) if name in asked}


class _Server(ThreadingHTTPServer):
    stub: ChatStub


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        stub = self.server.stub
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("stream") and not stub.streams:
            error = {"message": "Unknown parameter: 'stream_options'", "param": "stream_options"}
            self._answer(json.dumps({"error": error}).encode(), 400)
            return

        stub.bodies.append(body)
        is_held = _is_of_chat(body) and len(stub.questions) == stub.hold_at
        message = _message(body)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        answer = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }

        if body.get("stream"):
            self._stream(answer, is_held)
            return

        if is_held:
            self._hold()

        self._answer(json.dumps(answer).encode())

    def _hold(self) -> None:
        self.server.stub.held.set()
        self.server.stub.released.wait(60)

    def _answer(self, text: bytes, status: int = 200) -> None:
        with suppress(OSError):  # the client was killed
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    def _stream(self, answer: dict[str, Any], is_held: bool) -> None:
        """Stream an answer; one that is held back ends after its first half until it is released."""
        events = [event_bytes(chunk) for chunk in chunks_of(answer)]
        half = len(events) // 2

        with suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"".join(events[:half]))
            self.wfile.flush()
            if is_held:
                self._hold()

            self.wfile.write(b"".join([*events[half:], b"data: [DONE]\n\n"]))

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def chat_stub(hold_at: int = 0, *, streams: bool = True) -> Iterator[ChatStub]:
    """A stub for the length of the block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.stub = ChatStub(f"http://127.0.0.1:{server.server_port}/v1", hold_at, streams)

    with running_server(server):
        try:
            yield server.stub
        finally:
            server.stub.released.set()
