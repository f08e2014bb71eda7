"""HTTP servers on this machine, each on a thread of its own, and handlers of requests."""

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
    """Return a port of this machine on which no program listens.

    Example:
        free_port()
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]

    return port


@contextmanager
def running_server(server: socketserver.BaseServer) -> Iterator[None]:
    """Run a server until the end of the block, and wait for the requests that it still answers.

    Example:
        with running_server(ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler)):
            pass
    """
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
    """Run a server whose requests a handler answers until the end of the block; yield its address,
    `http://127.0.0.1:PORT`.

    Example:
        with serving(QuietHandler) as address:
            print(address)
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with running_server(server):
        yield f"http://127.0.0.1:{server.server_port}"


class QuietHandler(BaseHTTPRequestHandler):
    """A handler of requests that logs nothing.

    Example:
        class Handler(QuietHandler):
            def do_GET(self):
                self.send_error(404)
    """

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class AnsweringHandler(QuietHandler):
    """A handler that sends an answer whole.

    Example:
        class Echo(AnsweringHandler):
            def do_POST(self):
                self.answer(self.body())
    """

    def body(self) -> bytes:
        """Read the body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(
        self, content: bytes = b"", status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an answer; `headers` may state another length than that of the content."""
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
