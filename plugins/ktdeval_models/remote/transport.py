"""HTTP for model calls: a timeout that holds for a call as a whole, and little CPU with many threads."""

from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ktdeval.calls import Caller, bad_response, network_error
from ktdeval.errors import ProviderError
from ktdeval.jsonio import JsonValue, dumps_compact

MAX_REPLY_BYTES = 16 << 20  #: A body of more bytes, as sent or unpacked, is refused; no real reply comes near

_KEEPALIVE_S = 20.0  # below the idle timeouts of the usual load balancers, above the time between two calls of a step
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


class BodyError(Exception):
    """A response began and did not end properly; the message is one line."""


@dataclass(frozen=True)
class Answer:
    """A response. Names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Transport:
    """Sends requests to one provider, each on a connection of its own.

    A shared pool of connections scans all of them at the start and end of each request, under a lock; with 50 threads that is a
    quarter of a call's CPU time. Here a request takes the free connection that was used last, so that their number grows to the
    number of concurrent calls and no further.

    Redirects are not followed: no API has a reason to have a prompt and a key sent elsewhere. `endpoint`: base URL, for the choice
    of a proxy (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`; ProviderError: it can't be used). `headers`: of every request,
    its key among them.
    """

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        httpx, self._httpcore = http_libraries()
        self._ssl_context = httpx.create_ssl_context() if endpoint.startswith("https") else None  # takes a while: made once
        self._proxy = _proxy_for(endpoint, self._httpcore)
        host = urlsplit(endpoint).netloc
        self._headers = [(b"Host", host.encode()), (b"Accept-Encoding", b"gzip, deflate")]
        self._headers += [(name.encode(), value.encode()) for name, value in headers.items()]
        self._url: Callable[[str], Any] = lru_cache(self._httpcore.URL)
        self._free: deque[_Lane] = deque()
        names = ("NetworkError", "ProtocolError", "ProxyError", "UnsupportedProtocol")
        self._failures: tuple[type[Exception], ...] = tuple(getattr(self._httpcore, name) for name in names)

    def post(self, url: str, body: Mapping[str, JsonValue], timeout_s: float, caller: Caller) -> Answer:
        """Send one request and read the whole response. `timeout_s`: limit for all of it: connecting, TLS, sending, waiting,
        reading to the last byte; only the look-up of the host's name has the system's own limit. Raises ModelError: `timeout`,
        `connection` or `bad_response`.
        """
        content = dumps_compact(body).encode("utf-8", "surrogatepass")
        try:
            lane = self._free.pop()
        except IndexError:
            lane = _Lane(self._httpcore, self._proxy, self._ssl_context)
        lane.clock.until, lane.clock.is_sent = time.monotonic() + timeout_s, False
        # Raised outside of the handlers, so that no traceback leads to a message that is not filtered.
        try:
            return self._send(lane, url, content)
        except BodyError as error:
            failure = bad_response(caller, str(error))
        except self._httpcore.TimeoutException:
            failure = network_error(caller, "", is_timeout=True)
        except self._failures as error:
            failure = network_error(caller, str(error), was_sent=lane.clock.is_sent)
        finally:
            self._free.append(lane)
        raise failure

    def _send(self, lane: _Lane, url: str, content: bytes) -> Answer:
        headers = [*self._headers, (b"Content-Length", str(len(content)).encode())]
        request = self._httpcore.Request("POST", self._url(url), headers=headers, content=content)
        response = lane.connection_to(request.url.origin).handle_request(request)
        try:
            received = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
            return Answer(response.status, received, _unpacked(self._read(response), received.get("content-encoding", "")))
        finally:
            response.close()

    def _read(self, response: Any) -> bytes:
        chunks, size = [], 0
        try:
            for chunk in response.stream:
                size += len(chunk)
                if size > MAX_REPLY_BYTES:
                    raise BodyError(f"the reply is longer than {MAX_REPLY_BYTES >> 20} MiB")
                chunks.append(chunk)
        except (self._httpcore.ProtocolError, self._httpcore.NetworkError) as error:
            raise BodyError("the reply ends early") from error
        return b"".join(chunks)


def _unpacked(content: bytes, encoding: str) -> bytes:
    """Return a body uncompressed. Raises BodyError: it is not compressed as its header says, or unpacks to far too much."""
    if encoding.lower() in ("", "identity"):
        return content
    unpacker = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        unpacked = unpacker.decompress(content, MAX_REPLY_BYTES + 1)
    except zlib.error as error:
        raise BodyError("the reply can't be unpacked") from error
    if encoding.lower() not in ("gzip", "deflate") or not unpacker.eof or len(unpacked) > MAX_REPLY_BYTES:
        raise BodyError("the reply can't be unpacked")
    return unpacked


def http_libraries() -> tuple[ModuleType, ModuleType]:
    """Return httpx2 and httpcore2, or else httpx and httpcore: the SDKs moved from the latter to the former."""
    with suppress(ImportError):
        return import_module("httpx2"), import_module("httpcore2")
    return import_module("httpx"), import_module("httpcore")


class _Clock:
    """Deadline of the call in progress, and whether its request has begun to leave."""

    until = 0.0
    is_sent = False

    def left(self) -> float:
        """Seconds left; never 0, which means "do not wait" to a socket."""
        return max(self.until - time.monotonic(), 1e-3)


class _Stream:
    """A network stream of httpcore's whose waits end with the clock, whatever timeout it is called with.

    Written bytes are sent when the answer is read, head and body of a request at once: half the packets, which on a busy machine
    saves a good part of a call's time.
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
        self._clock.is_sent = True
        with suppress(self._httpcore.WriteError):  # a server may answer, and hang up, before it has read all; reading shows it
            self._stream.write(data, self._clock.left())


class _Backend:
    """httpcore's network backend, with streams that end with the clock."""

    def __init__(self, httpcore: ModuleType, clock: _Clock) -> None:
        self._httpcore = httpcore
        self._plain = httpcore.SyncBackend()
        self._clock = clock

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:  # noqa: ARG002
        return _Stream(self._plain.connect_tcp(host, port, timeout=self._clock.left(), **options), self._clock, self._httpcore)

    def sleep(self, seconds: float) -> None:
        self._plain.sleep(seconds)


class _Lane:
    """One connection with its clock, used by one call at a time. httpcore's pool only makes it, directly or through a proxy."""

    def __init__(self, httpcore: ModuleType, proxy: Any, ssl_context: Any) -> None:
        self.clock = _Clock()
        self._connection: Any = None
        self._maker = httpcore.ConnectionPool(
            ssl_context=ssl_context,
            keepalive_expiry=_KEEPALIVE_S,
            network_backend=_Backend(httpcore, self.clock),
            **({} if proxy is None else {"proxy": proxy}),
        )

    def connection_to(self, origin: Any) -> Any:
        """Return the connection of the previous request, or a new one if that was closed or idle for too long."""
        if self._connection is not None and not self._connection.is_closed() and self._connection.has_expired():
            self._connection.close()
        if self._connection is None or self._connection.is_closed():
            self._connection = self._maker.create_connection(origin)
        return self._connection


def _proxy_for(endpoint: str, httpcore: ModuleType) -> Any:
    """Return the proxy that the environment names for an address, as curl and httpx understand it; None when there is none. Raises
    ProviderError: it can't be used; the message does not show it, since it may hold a password.
    """
    parts = urlsplit(endpoint)
    proxies = getproxies()
    url = proxies.get(parts.scheme) or proxies.get("all")
    if not url or proxy_bypass(parts.hostname or ""):
        return None
    kinds = ("http", "https", *(("socks5", "socks5h") if find_spec("socksio") else ()))
    with suppress(ValueError, TypeError):  # malformed, or with letters outside ASCII
        proxy = urlsplit(url if "://" in url else f"http://{url}")
        login = None if proxy.username is None else (unquote(proxy.username), unquote(proxy.password or ""))
        if proxy.scheme in kinds and proxy.hostname and proxy.port != 0:
            return httpcore.Proxy(url=f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}", auth=login)
    raise ProviderError(
        f"{endpoint}: the proxy that the environment names ({parts.scheme.upper()}_PROXY or ALL_PROXY) can't be used; give it as "
        "http://HOST:PORT (socks5://HOST:PORT needs `pip install socksio`), or exclude the address with NO_PROXY"
    )
