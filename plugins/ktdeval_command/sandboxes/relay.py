"""Relay between listening sockets in a program's network namespace and loopback ports of the host."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress

from ktdeval.values import Closing

_MAX_CONNECTIONS = 256
_PIECE_BYTES = 1 << 16


class Relay(Closing):
    """Accepts connections on sockets and forwards each connection to its port on 127.0.0.1, until
    the relay is closed.

    It runs in its own thread. A program has at most 256 connections at once; any further
    connections are closed.
    """

    def __init__(self, listeners: Mapping[int, socket.socket]) -> None:
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Task[None]] = set()
        self._listeners = listeners
        self._thread = threading.Thread(target=self._run, name="ktdeval-relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all connections and sockets."""
        with suppress(RuntimeError):  # already closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            for port, listener in self._listeners.items():
                runner.run(self._serve(port, listener))

            self._loop.run_forever()

    async def _serve(self, port: int, listener: socket.socket) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is None or len(self._open) >= _MAX_CONNECTIONS:
                writer.close()
                return

            self._open.add(task)
            try:
                with suppress(asyncio.CancelledError):  # the relay is closed
                    await _connect(port, reader, writer)
            finally:
                self._open.discard(task)
                writer.close()

        await asyncio.start_server(accept, sock=listener, backlog=128)


async def _connect(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        host_reader, host_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(_copy(reader, host_writer), _copy(host_reader, writer))
        finally:
            host_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PIECE_BYTES):
        writer.write(data)
        await writer.drain()

    if writer.can_write_eof():
        writer.write_eof()
