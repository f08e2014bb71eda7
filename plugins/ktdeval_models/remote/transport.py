"""HTTP for model calls: a timeout that holds for a call as a whole, and little CPU with many threads."""

from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ktdeval.calls import Caller, bad_response, network_error
from ktdeval.jsonio import JsonValue, dumps_compact

MAX_REPLY_BYTES = 16 << 20  #: A body of more bytes, as sent or unpacked, is refused; no real reply comes near

_KEEPALIVE_S = 20.0  # below the idle timeouts of the usual load balancers, above the time between two calls of a step
_MOST_HEAD_BYTES = 100 << 10  # of a response's head, all headers together
_READ_BYTES = 64 << 10
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


_Headers = Sequence[tuple[bytes, bytes]]


class BodyError(Exception):
    """A response began and did not end as it should; one line says how."""


@dataclass(frozen=True)
class Answer:
    """A response. Names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Transport:
    """Sends requests to one provider, each on a connection of its own.

    A shared pool of connections looks at all of them at the start and end of each request, under a lock; with 50 threads that is a
    quarter of a call's CPU time. Here a request takes a free connection, the one used last first, so that their number grows to the
    number of calls at once and no further. SDKs' typed methods look at every field of a conversation again on each call: from them
    come headers and libraries, and requests are sent as they are.

    Redirects are not followed: no API has a reason to have a prompt and a key sent elsewhere. `endpoint`: base URL, for the choice
    of a proxy (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`). `headers`: of every request, its key among them.
    """

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        httpx, self._httpcore = http_libraries()
        h11 = import_module("h11")
        ssl_context = httpx.create_ssl_context() if endpoint.startswith("https") else None  # takes a while: made once
        proxy = _proxy_for(endpoint, self._httpcore)
        self._new_lane: Callable[[], _Lane] = (
            partial(_StraightLane, self._httpcore, h11, ssl_context)
            if proxy is None
            else partial(_ProxyLane, self._httpcore, proxy, ssl_context)
        )
        host = urlsplit(endpoint).netloc
        self._headers = [(b"Host", host.encode()), (b"Accept-Encoding", b"gzip, deflate")]
        self._headers += [(name.encode(), value.encode()) for name, value in headers.items()]
        self._url: Callable[[str], Any] = lru_cache(self._httpcore.URL)
        self._free: deque[_Lane] = deque()
        names = ("NetworkError", "ProtocolError", "ProxyError", "UnsupportedProtocol")
        self._failures: tuple[type[Exception], ...] = (h11.ProtocolError, *(getattr(self._httpcore, name) for name in names))
        self._cuts = (h11.RemoteProtocolError, self._httpcore.ProtocolError)

    def post(self, url: str, body: Mapping[str, JsonValue], timeout_s: float, caller: Caller) -> Answer:
        """Send one request and read the whole response. `timeout_s`: longest time for all of it: connecting, TLS, sending, waiting,
        reading to the last byte. Only looking up the host's name has the system's own limit. Raises ModelError: `timeout`,
        `connection` or `bad_response`.
        """
        content = dumps_compact(body).encode("utf-8", "surrogatepass")
        # Raised outside of the handlers, so that no traceback leads to a message that is not filtered.
        try:
            return self._send(url, content, timeout_s)
        except BodyError as error:
            failure = bad_response(caller, str(error))
        except self._httpcore.TimeoutException:
            failure = network_error(caller, "", is_timeout=True)
        except self._failures as error:
            failure = network_error(caller, str(error))
        raise failure

    def _send(self, url: str, content: bytes, timeout_s: float) -> Answer:
        try:
            lane = self._free.pop()
        except IndexError:
            lane = self._new_lane()
        lane.clock.until = time.monotonic() + timeout_s
        try:
            status, headers = lane.begin(self._url(url), [*self._headers, (b"Content-Length", str(len(content)).encode())], content)
            received = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in headers}
            return Answer(status, received, _unpacked(self._read(lane.body()), received.get("content-encoding", "")))
        finally:
            lane.end()
            self._free.append(lane)

    def _read(self, body: Iterable[bytes]) -> bytes:
        chunks, size = [], 0
        try:
            for chunk in body:
                size += len(chunk)
                if size > MAX_REPLY_BYTES:
                    raise BodyError(f"the reply is longer than {MAX_REPLY_BYTES >> 20} MiB")
                chunks.append(chunk)
        except self._cuts as error:
            raise BodyError("the reply ends before its end") from error
        return b"".join(chunks)


def _unpacked(content: bytes, encoding: str) -> bytes:
    """A body as it was before it was compressed. Raises BodyError: it is not compressed as its header says, or unpacks to far too
    much.
    """
    if encoding in ("", "identity"):
        return content
    unpacker = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        unpacked = unpacker.decompress(content, MAX_REPLY_BYTES + 1)
    except zlib.error as error:
        raise BodyError("the reply can't be unpacked") from error
    if encoding not in ("gzip", "deflate") or not unpacker.eof or len(unpacked) > MAX_REPLY_BYTES:
        raise BodyError("the reply can't be unpacked")
    return unpacked


def http_libraries() -> tuple[ModuleType, ModuleType]:
    """Either httpx2 and httpcore2 or httpx and httpcore: the SDKs moved from the one pair to the other."""
    with suppress(ImportError):
        return import_module("httpx2"), import_module("httpcore2")
    return import_module("httpx"), import_module("httpcore")


class _Clock:
    """When the call under way must be over."""

    until = 0.0

    def left(self) -> float:
        """Seconds left; never 0, which means "do not wait" to a socket."""
        return max(self.until - time.monotonic(), 1e-3)


class _Stream:
    """A network stream of httpcore's whose waits end with the clock, whatever it is told.

    What is written goes out when the answer is waited for, head and body of a request in one piece: half the packets, and on a busy
    machine a good part of a call's time.
    """

    def __init__(self, stream: Any, clock: _Clock, httpcore: ModuleType) -> None:
        self._stream = stream
        self._clock = clock
        self._httpcore = httpcore
        self._unsent: list[bytes] = []
        self.close = stream.close
        self.get_extra_info = stream.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:  # noqa: ARG002 - the clock says
        if self._unsent:
            self._send()
        if time.monotonic() >= self._clock.until:
            raise self._httpcore.ReadTimeout
        return self._stream.read(max_bytes, self._clock.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - the clock says
        self._unsent.append(buffer)

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:  # noqa: ARG002
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, self._clock.left()), self._clock, self._httpcore)

    def _send(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        with suppress(self._httpcore.WriteError):  # a server may answer, and hang up, before it has read all; reading tells
            self._stream.write(data, self._clock.left())


class _Backend:
    """httpcore's way to the network, with streams that look at the clock."""

    def __init__(self, httpcore: ModuleType, clock: _Clock) -> None:
        self._httpcore = httpcore
        self._plain = httpcore.SyncBackend()
        self._clock = clock

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:  # noqa: ARG002
        return _Stream(self._plain.connect_tcp(host, port, timeout=self._clock.left(), **options), self._clock, self._httpcore)

    def sleep(self, seconds: float) -> None:
        self._plain.sleep(seconds)


class _Lane(Protocol):
    """One connection with its clock, for one call at a time; errors are those of httpcore and h11."""

    clock: _Clock

    def begin(self, url: Any, headers: _Headers, content: bytes) -> tuple[int, _Headers]:
        """Send a request over the connection of the one before, or a new one where it was hung up, or was idle for too long; return
        the status and headers of the response.
        """

    def body(self) -> Iterator[bytes]:
        """Yield the body of the response, as it comes."""

    def end(self) -> None:
        """Keep the connection after a whole response, close it after anything else."""


class _StraightLane:
    """A connection to the server: its streams are httpcore's, HTTP/1.1 is h11's. httpcore's client, which is h11 too, takes twice
    the CPU time for a request.
    """

    def __init__(self, httpcore: ModuleType, h11: ModuleType, ssl_context: Any) -> None:
        self.clock = _Clock()
        self._httpcore, self._h11, self._ssl_context = httpcore, h11, ssl_context
        if ssl_context is not None:
            ssl_context.set_alpn_protocols(["http/1.1"])
        self._backend = _Backend(httpcore, self.clock)
        self._stream: Any = None
        self._wire: Any = None
        self._idle_until = 0.0

    def begin(self, url: Any, headers: _Headers, content: bytes) -> tuple[int, _Headers]:
        """As of `_Lane`."""
        h11 = self._h11
        request = h11.Request(method="POST", target=url.target, headers=headers)
        if self._stream is not None and (time.monotonic() > self._idle_until or self._stream.get_extra_info("is_readable")):
            self._close()
        if self._stream is None:
            self._connect(url.origin)
        for event in (request, h11.Data(data=content), h11.EndOfMessage()):
            self._stream.write(self._wire.send(event))
        while type(response := self._next_event()) is not h11.Response:
            pass  # 100 Continue and its like
        return response.status_code, list(response.headers)

    def body(self) -> Iterator[bytes]:
        """As of `_Lane`."""
        while type(event := self._next_event()) is self._h11.Data:
            yield bytes(event.data)

    def end(self) -> None:
        """As of `_Lane`."""
        if self._wire is not None and self._wire.our_state is self._wire.their_state is self._h11.DONE:
            self._wire.start_next_cycle()
            self._idle_until = time.monotonic() + _KEEPALIVE_S
        else:
            self._close()

    def _connect(self, origin: Any) -> None:
        host = origin.host.decode("ascii")
        self._stream = self._backend.connect_tcp(host, origin.port)
        if self._ssl_context is not None:
            self._stream = self._stream.start_tls(self._ssl_context, host)
        self._wire = self._h11.Connection(self._h11.CLIENT, _MOST_HEAD_BYTES)

    def _next_event(self) -> Any:
        while (event := self._wire.next_event()) is self._h11.NEED_DATA:
            data = self._stream.read(_READ_BYTES)
            if not data and self._wire.their_state is self._h11.SEND_RESPONSE:
                raise self._httpcore.RemoteProtocolError("Server disconnected without sending a response.")
            self._wire.receive_data(data)
        return event

    def _close(self) -> None:
        stream, self._stream, self._wire = self._stream, None, None
        if stream is not None:
            stream.close()


class _ProxyLane:
    """A connection by a proxy: all of it is httpcore's."""

    def __init__(self, httpcore: ModuleType, proxy: Any, ssl_context: Any) -> None:
        self.clock = _Clock()
        self._httpcore = httpcore
        self._connection: Any = None
        self._response: Any = None
        backend = _Backend(httpcore, self.clock)
        self._maker = httpcore.ConnectionPool(
            ssl_context=ssl_context, keepalive_expiry=_KEEPALIVE_S, network_backend=backend, proxy=proxy
        )

    def begin(self, url: Any, headers: _Headers, content: bytes) -> tuple[int, _Headers]:
        """As of `_Lane`."""
        if self._connection is not None and not self._connection.is_closed() and self._connection.has_expired():
            self._connection.close()
        if self._connection is None or self._connection.is_closed():
            self._connection = self._maker.create_connection(url.origin)
        request = self._httpcore.Request("POST", url, headers=headers, content=content)
        self._response = self._connection.handle_request(request)
        return self._response.status, self._response.headers

    def body(self) -> Iterator[bytes]:
        """As of `_Lane`."""
        return iter(self._response.stream)

    def end(self) -> None:
        """As of `_Lane`."""
        response, self._response = self._response, None
        if response is not None:
            response.close()


def _proxy_for(endpoint: str, httpcore: ModuleType) -> Any:
    """Return the proxy that the environment names for an address, as curl and httpx understand it; None when there is none."""
    parts = urlsplit(endpoint)
    proxies = getproxies()
    url = proxies.get(parts.scheme) or proxies.get("all")
    if not url or proxy_bypass(parts.hostname or ""):
        return None
    proxy = urlsplit(url if "://" in url else f"http://{url}")
    has_login = proxy.username is not None
    login = (unquote(proxy.username or ""), unquote(proxy.password or "")) if has_login else None
    return httpcore.Proxy(url=f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}", auth=login)
