"""Servers of tests, on a thread of their own."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def running(server: socketserver.BaseServer) -> Iterator[None]:
    """Run a server until the end of the block; then no request of it is under way."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
