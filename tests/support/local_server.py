"""Servers of tests, on a thread of their own, and what their handlers answer with."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def free_port() -> int:
    """A port on this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]

    return port


@contextmanager
def running(server: socketserver.BaseServer) -> Iterator[None]:
    """Run a server until the end of the block; then no request of it is under way."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()

    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a server whose requests a handler answers until the end of the block; give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with running(server):
        yield f"http://127.0.0.1:{server.server_port}"


class Quiet(BaseHTTPRequestHandler):
    """A handler that says nothing of what it does."""

    def log_message(self, *_: Any) -> None:
        pass


class Answering(Quiet):
    """A handler that answers in one piece."""

    def body(self) -> bytes:
        """Read what was sent."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(
        self, content: bytes = b"", status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer; `headers` may say another length than the content has."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)

        self.end_headers()
        self.wfile.write(content)

    def answer_json(
        self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a value as JSON."""
        given = {"Content-Type": "application/json", **(headers or {})}
        self.answer(json.dumps(value).encode(), status, given)
