"""Servers of tests, on a thread of their own, and what their handlers answer with."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
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


class Quiet(BaseHTTPRequestHandler):
    """A handler that says nothing of what it does."""

    def log_message(self, *_: Any) -> None:
        pass


class Answering(Quiet):
    """A handler that answers in one piece."""

    def answer(
        self, content: bytes = b"", status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer; `headers` may say another length than the content has."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)

        self.end_headers()
        self.wfile.write(content)
