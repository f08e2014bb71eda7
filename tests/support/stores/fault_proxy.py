"""A proxy in front of a server that speaks like S3, which makes the faults of a real network."""

from __future__ import annotations

import http.client
import itertools
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any, Literal

from ktdeval.testing import QuietHandler, running_server

Fault = Literal[
    "500", "503", "429", "silence", "cut request", "cut answer", "lost answer", "slow", "stale"
]
FAULTS: tuple[Fault, ...] = (
    "500",
    "503",
    "429",
    "cut request",
    "cut answer",
    "lost answer",
    "slow",
    "stale",
)
"""All but `silence`, which costs a client its timeout each time."""
_CODES = {"500": "InternalError", "503": "SlowDown", "429": "TooManyRequests"}
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "expect"}
SLOW_S = 0.02


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes

    @property
    def is_listing(self) -> bool:
        return self.method == "GET" and "list-type=2" in self.path


@dataclass
class Faults:
    """Which fault the next request meets; `made` counts them. By default there are none."""

    choose: Callable[[Request], Fault | None] = lambda _: None
    made: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    listings: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: threading.Event = field(default_factory=threading.Event)

    def at_random(self, seed: int, rate: float, kinds: tuple[Fault, ...] = FAULTS) -> None:
        """Let a share of the requests meet a fault of these kinds."""
        chance = random.Random(seed)

        def choose(_: Request) -> Fault | None:
            return chance.choice(kinds) if chance.random() < rate else None

        self.choose = choose

    def in_turn(self, every: int, kinds: tuple[Fault, ...] = FAULTS) -> None:
        """Let each request of a rising number meet the next of these faults."""
        numbers = itertools.count(1)

        def choose(_: Request) -> Fault | None:
            number = next(numbers)
            return kinds[number // every % len(kinds)] if number % every == 0 else None

        self.choose = choose

    def once(self, fault: Fault, method: str, part: str = "") -> None:
        """Let the next request of a method, and with a part in its path, meet a fault."""
        left = [fault]

        def choose(request: Request) -> Fault | None:
            is_meant = request.method == method and part in request.path
            return left.pop() if left and is_meant else None

        self.choose = choose

    def next(self, request: Request) -> Fault | None:
        with self.lock:
            self.requests[request.method] += 1
            fault = self.choose(request)
            if fault == "stale" and request.path not in self.listings:
                fault = None

            if fault is not None:
                self.made[fault] += 1

            return fault


@contextmanager
def fault_proxy(port: int) -> Iterator[tuple[str, Faults]]:
    """Run a proxy before a server of this machine; gives its URL, and its faults."""
    faults = Faults()

    class Handler(_Handler):
        pass

    Handler.upstream_port = port
    Handler.faults = faults
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False  # clients keep their connections

    with running_server(server):
        try:
            yield f"http://127.0.0.1:{server.server_port}", faults
        finally:
            faults.ended.set()


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    upstream_port: int
    faults: Faults

    def _handle(self) -> None:
        request = Request(self.command, self.path, self._read_body())
        fault = self.faults.next(request)
        if fault in _CODES:
            return self._refuse(fault)

        if fault == "silence":
            self.faults.ended.wait(5)
            return self._hang_up()

        if fault == "slow":
            self.faults.ended.wait(SLOW_S)

        if fault == "cut request":
            self._send_half(request)
            return self._hang_up()

        if fault == "stale":
            return self._answer(*self.faults.listings[request.path])

        status, headers, body = self._ask(request)
        if request.is_listing:
            self.faults.listings[request.path] = (status, headers, body)

        if fault == "lost answer":
            return self._hang_up()

        return self._answer(status, headers, body, cut=fault == "cut answer")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()

        self.rfile.readline()

        return body

    def _headers(self, request: Request) -> dict[str, str]:
        kept = {
            name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP
        }
        return {**kept, "Content-Length": str(len(request.body)), "Connection": "close"}

    def _ask(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream_port, timeout=60)
        try:
            connection.request(request.method, request.path, request.body, self._headers(request))
            answer = connection.getresponse()
            headers = {
                name: value
                for name, value in answer.getheaders()
                if name.lower() not in _HOP_BY_HOP
            }
            if request.method == "HEAD":
                headers["Content-Length"] = answer.getheader("Content-Length") or "0"

            return answer.status, headers, answer.read()
        finally:
            connection.close()

    def _send_half(self, request: Request) -> None:
        """Let the server see a request that breaks off in the middle of its body."""
        lines = [f"{request.method} {request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self._headers(request).items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")

        with socket.create_connection(("127.0.0.1", self.upstream_port)) as upstream:
            upstream.sendall(head + request.body[: len(request.body) // 2])
            upstream.shutdown(socket.SHUT_WR)
            with suppress(OSError):
                while upstream.recv(65536):
                    pass

    def _refuse(self, fault: str) -> None:
        body = f"<Error><Code>{_CODES[fault]}</Code><Message>injected</Message></Error>".encode()
        self._answer(int(fault), {"Content-Type": "application/xml"}, body)

    def _answer(self, status: int, headers: dict[str, str], body: bytes, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)

        self.end_headers()
        if cut:
            self.wfile.write(body[: len(body) // 2])
            self._hang_up()
        elif self.command != "HEAD":
            self.wfile.write(body)

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def handle(self) -> Any:
        with suppress(ConnectionError):
            super().handle()
