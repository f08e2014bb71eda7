"""A small HTTP server for programs on this machine: a token, limits, and persistent connections."""

from __future__ import annotations

import hmac
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

from ktdeval.errors import KtdevalError, wrap_os_error
from ktdeval.values import (
    JsonValue,
    RefusedBody,
    body_length,
    body_pieces,
    check_length,
    dumps_compact,
)
from ktdeval_command.wire.refusals import RefusalKind, WireError, WireRefusal, refusal_of

LOOPBACK = "127.0.0.1"

Server = TypeVar("Server", bound="LoopbackServer")
_DENIALS: tuple[RefusalKind, ...] = ("unauthorized", "not_found")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of one program."""

    body_bytes: int = 16 << 20  #: maximum bytes of one request
    body_s: float = 30.0  #: seconds for sending the body of one request
    silence_s: float = 30.0  #: seconds for which a connection may be silent
    #: maximum number of simultaneous connections; any further connections are closed
    connections: int = 64


@dataclass(frozen=True, slots=True)
class LoopbackAnswer:
    """One answer: status, content type, pieces of the body, and additional headers."""

    status: int
    kind: str
    pieces: list[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


def json_answer(
    value: JsonValue, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> LoopbackAnswer:
    """Return an answer with a value as JSON."""
    return LoopbackAnswer(
        status, "application/json", [dumps_compact(value).encode(errors="replace")], headers or {}
    )


class LoopbackServer(ThreadingHTTPServer):
    """Listens on a port or a Unix socket, and answers any client that has the token, with one
    thread for each connection.

    An answer is complete before its first byte is sent, so that a failure always has its HTTP
    status. A connection stays open for further requests only while at most half of the allowed
    connections are open, so that idle connections can't block others for long.
    """

    daemon_threads = True
    request_queue_size = 128
    noun = "server"  #: name of the server in messages

    def __init__(
        self,
        handler: type[LoopbackHandler],
        token: str,
        limits: ServerLimits | None = None,
        where: tuple[str, int] | Path = (LOOPBACK, 0),
    ) -> None:
        """Start listening. `token`: secret given to only one program; `where`: host and port (0: a
        free port), or the file of a Unix socket. Raises StoreError if listening is not possible.
        """
        self.limits = limits or ServerLimits()
        self._token = token.encode()
        self._unix_socket = where if isinstance(where, Path) else None
        self._is_bound = False
        self._answering = 0
        self._open = 0
        self._idle: set[socket.socket] = set()
        self._is_closed = False
        self._denied = 0
        self._state = threading.Condition()  # guards the five fields above

        address: Any = where
        shown = LOOPBACK
        if isinstance(where, Path):
            self.address_family = socket.AF_UNIX
            address = shown = str(where)
        elif where != (LOOPBACK, 0):
            shown = f"{where[0]} port {where[1]}"
            if ":" in where[0]:
                self.address_family = socket.AF_INET6
        with wrap_os_error(f"the {self.noun} can't listen on {shown}"):
            super().__init__(address, handler)

    @property
    def address(self) -> str:
        """Address without a path, such as `http://127.0.0.1:8000`. For a Unix socket, `unix:`
        followed by its file.
        """
        if self._unix_socket is not None:
            return f"unix:{self._unix_socket}"

        host, port = self.server_address[:2]
        if self.address_family == socket.AF_INET6:
            host = f"[{host!s}]"
        return f"http://{host!s}:{port}"

    @property
    def denied(self) -> int:
        """Number of requests so far without the token, or for an address that is not served, such
        as one on another host.
        """
        with self._state:
            return self._denied

    def count_refusal(self, kind: RefusalKind) -> None:
        """Count a request that was refused."""
        if kind in _DENIALS:
            with self._state:
                self._denied += 1

    def server_bind(self) -> None:
        """Bind the socket, without looking up the name of this machine."""
        socketserver.TCPServer.server_bind(self)
        self._is_bound = True

    def server_close(self) -> None:
        """Stop listening, refuse new answers, close idle connections, and wait for answers in
        progress. The model is not called after that.
        """
        super().server_close()
        with self._state:
            self._is_closed = True
            for connection in self._idle:
                with suppress(OSError):  # the other side has already closed it
                    connection.shutdown(socket.SHUT_RD)
            self._state.wait_for(lambda: self._answering == 0)
        if self._unix_socket is not None and self._is_bound:
            self._unix_socket.unlink(missing_ok=True)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count an answer as in progress, so that closing the server waits for it. Raises WireError
        if the server was closed.
        """
        with self._state:
            if self._is_closed:
                raise WireError("failed", f"the step is over; the {self.noun} no longer answers")
            self._answering += 1

        try:
            yield
        finally:
            with self._state:
                self._answering -= 1
                self._state.notify_all()

    def is_token(self, text: str) -> bool:
        """Return whether a string is the token. Strings of equal length are compared in constant
        time.
        """
        return hmac.compare_digest(text.encode("latin-1", "replace"), self._token)

    # --- connections

    def may_keep(self) -> bool:
        """Return whether a connection may stay open after its answer."""
        with self._state:
            return not self._is_closed and 2 * self._open <= self.limits.connections

    def waits(self, connection: socket.socket, wait: Callable[[], bool]) -> bool:
        """Wait for the next request on a connection, and return whether one comes. Closing the
        server ends the wait.
        """
        with self._state:
            if self._is_closed:
                return False
            self._idle.add(connection)

        try:
            return wait()
        finally:
            with self._state:
                self._idle.discard(connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a separate thread. If there are too many connections, close the new one."""
        with self._state:
            is_room = self._open < self.limits.connections
            if is_room:
                self._open += 1
        if not is_room:
            self.shutdown_request(request)
            return

        try:
            super().process_request(request, client_address)
        except BaseException:  # no further thread can be started
            self._leave()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then make room for another connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._state:
            self._open -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a program that disconnected before it got its answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve until the end of the block. After that no answer is in progress."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, one after the other."""

    server: LoopbackServer
    server_version = "ktdeval"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    # sent together, so that the body does not wait until the receipt of the head is acknowledged
    wbufsize = -1

    once: tuple[str, ...] = ()  #: additional headers that a request may have at most once

    def check_request(self) -> None:
        """Check a request before its body is read. Raises WireError if, for example, it lacks the
        token.
        """
        raise NotImplementedError

    def refusal_answer(self, refusal: WireRefusal) -> LoopbackAnswer:
        """Return the answer to a refused request."""
        raise NotImplementedError

    def setup(self) -> None:
        """Limit how long the connection may be silent, and send answers without delay."""
        super().setup()
        self.connection.settimeout(self.server.limits.silence_s)
        if self.connection.family != socket.AF_UNIX:
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = 0

    def handle(self) -> None:
        """Answer requests until the connection is closed, or no further request comes."""
        self.close_connection = False
        while not self.close_connection and self.server.waits(self.connection, self._comes):
            self.handle_one_request()

    def _comes(self) -> bool:
        with suppress(TimeoutError, ConnectionError):
            return bool(self.rfile.peek(1))  # type: ignore[attr-defined]  # it is buffered
        return False

    def handle_expect_100(self) -> bool:
        """Tell a waiting program to send its body."""
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def respond(self, make: Callable[[], LoopbackAnswer]) -> None:
        """Send the answer that `make` returns. If it raises an error, send a refusal."""
        self._unread = -1  # unread bytes of the body; -1 if unknown
        try:
            self._unread = self._body_length()
            self.check_request()
            answer = make()
        except KtdevalError as error:
            refusal = refusal_of(error)
            self.server.count_refusal(refusal.kind)
            self._send(self.refusal_answer(refusal))
        except ConnectionError:
            raise  # the client is gone
        except BaseException:
            refusal = WireRefusal("failed", f"the {self.server.noun} failed on this request")
            self.close_connection = True
            self._send(self.refusal_answer(refusal))
            raise
        else:
            self._send(answer)

    # --- requirements of a request

    def check_bearer_or(self, *headers: str) -> None:
        """Raise WireError unless the request has the token as `Authorization: Bearer`, or in one of
        the given headers.
        """
        given = [self.headers.get(name, "") for name in headers]
        scheme, _, credentials = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            given.append(credentials.strip())

        known = [self.server.is_token(text) for text in given]
        if not any(known):
            self.close_connection = True
            places = "Authorization: Bearer"
            if headers:
                places = " or ".join((", ".join((places, *headers[:-1])), headers[-1]))
            raise WireError(
                "unauthorized",
                f"the request lacks this {self.server.noun}'s token; send it as {places}",
            )

    def _body_length(self) -> int:
        """Return the length of the body. Raises WireError if the length can't be determined, or if
        the body is encoded.
        """
        try:
            return body_length(self.headers, self.once)
        except RefusedBody as error:
            raise WireError(error.fault, str(error)) from error

    def body(self) -> bytes:
        """Return the body. Raises WireError if the body is too large, or does not arrive in time."""
        try:
            check_length(self._unread, self.server.limits.body_bytes)
        except RefusedBody as error:
            raise WireError(error.fault, str(error)) from error

        return b"".join(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        """Yield the rest of the body. Raises WireError if the body ends early, or does not arrive
        in time.
        """
        try:
            for piece in body_pieces(self.rfile, self._unread, self.server.limits.body_s):
                self._unread -= len(piece)
                yield piece
        except RefusedBody as error:
            self._unread = -1  # the answer does not wait for the rest, either
            raise WireError(error.fault, str(error)) from error

    # --- answers

    def _discard(self) -> None:
        """Read the rest of an unused body, within limits, because a program that is still sending
        could not read its answer.
        """
        if not 0 < self._unread <= 4 * self.server.limits.body_bytes:
            return
        with suppress(WireError):
            for _ in self._pieces():
                pass

    def _send(self, answer: LoopbackAnswer) -> None:
        """Send an answer. The connection stays open only if the whole request was read, since
        unread bytes would be taken for the next request.
        """
        self._discard()
        is_old = self.request_version != "HTTP/1.1"
        if self._unread != 0 or is_old or not self.server.may_keep():
            self.close_connection = True

        length = sum(map(len, answer.pieces))
        self.send_response(answer.status)
        if answer.kind:
            self.send_header("Content-Type", answer.kind)
        # such an answer has no body and no length (RFC 9110, 8.6)
        if answer.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            for piece in answer.pieces:
                self.wfile.write(piece)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is not HTTP, or that has an unknown method."""
        del explain
        self._unread = -1
        text = message or HTTPStatus(code).phrase
        answer = self.refusal_answer(WireRefusal("bad_request", text[:200]))
        self._send(LoopbackAnswer(code, answer.kind, answer.pieces, answer.headers))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the run records each call."""
