"""HTTP for model calls, with time limits for the first part of a reply and between parts, and low
CPU use with many threads.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ktdeval.calls import Caller, bad_response, network_error
from ktdeval.errors import ProviderError
from ktdeval.values import dumps_compact

#: A larger body is refused; real replies are far smaller.
MAX_REPLY_BYTES = 16 << 20

# Shorter than the idle timeouts of common load balancers, longer than the time between two calls in
# a step.
_KEEPALIVE_S = 20.0
# A reachable host accepts at once. Packets to a wrong host may be dropped silently.
_CONNECT_S = 20.0
_EVENTS = "text/event-stream"


class BodyError(Exception):
    """A response began but did not end properly. The message is one line."""


class StreamReader(Protocol):
    """Reader of a streamed body."""

    parts: int  #: number of parts of the reply so far; signs of life without content don't count
    is_silent: (
        bool  #: whether the model reasons now without a word, as long as before its first one
    )

    def take(self, chunk: bytes) -> bool:
        """Read the next bytes of the body. Return whether no more are needed."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits of a request. A request without a reader has only the first one, which then covers
    everything: connecting, TLS, sending, waiting, and reading to the last byte.
    """

    first_s: float  #: maximum seconds until the first part of a reply
    gap_s: float = float("inf")  #: maximum seconds between two parts


Sign = Callable[[str, str, bytes], Mapping[str, str]]
"""Returns additional headers for one request, given its method, URL and content."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to send. `reader` reads the body of a successful event stream as it arrives; any
    other body is read whole. `kind` is the content type if it differs from the default.
    """

    method: str
    url: str
    content: bytes = b""
    reader: StreamReader | None = None
    kind: str = ""
    max_bytes: int = 0  #: size limit of the response; 0 for the default


@dataclass(frozen=True)
class HttpAnswer:
    """A response. Header names are in lower case. `content` is empty if the body was streamed."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    is_streamed: bool = False


class Transport:
    """Sends requests to one provider. Concurrent requests never share a connection.

    A shared pool scans all connections at the start and end of each request, under a lock; with 50
    threads the scans take a quarter of a call's CPU time. Here a request takes the most recently
    used free connection, so there are never more connections than concurrent calls. Redirects are
    not followed: no API has a reason to send a prompt and a key elsewhere.

    `endpoint`: base URL, which determines the proxy (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`,
    `NO_PROXY`). Raises ProviderError if the proxy can't be used. `headers`: headers of every
    request, including its key. `sign`: returns additional headers for each request, if no key is
    set.
    """

    def __init__(self, endpoint: str, headers: Mapping[str, str], sign: Sign | None = None) -> None:
        httpx, self._httpcore = http_libraries()
        self._ssl_context = None
        self._sign = sign
        if endpoint.startswith("https"):
            self._ssl_context = httpx.create_ssl_context()  # slow to make, so made only once

        self._proxy = _proxy_for(endpoint, self._httpcore)
        own = {"host": urlsplit(endpoint).netloc, "accept-encoding": "identity"}
        self._headers = {**{name.lower(): value for name, value in headers.items()}, **own}
        self._url: Callable[[str], Any] = lru_cache(self._httpcore.URL)
        self._free: deque[_ConnectionLane] = deque()
        names = ("NetworkError", "ProtocolError", "ProxyError", "UnsupportedProtocol")
        self._failures: tuple[type[Exception], ...] = tuple(
            getattr(self._httpcore, name) for name in names
        )

    def send(self, request: HttpRequest, limits: TimeLimits, caller: Caller) -> HttpAnswer:
        """Send one request and read the whole response.

        Only the host name look-up has a separate time limit, set by the system. Raises ModelError
        of kind `timeout`, `connection` or `bad_response` (also for a BodyError from the reader).
        """
        own: Mapping[str, str] = {}
        if self._sign is not None:
            own = self._sign(request.method, request.url, request.content)

        try:
            lane = self._free.pop()
        except IndexError:
            lane = _ConnectionLane(self._httpcore, self._proxy, self._ssl_context)

        lane.clock.begin(limits)
        # Raised outside the handlers, so that the traceback does not link to the library's error.
        # That error's message is not filtered for secrets.
        try:
            return self._exchange(lane, request, own)
        except BodyError as error:
            failure = bad_response(caller, str(error))
        except self._httpcore.ConnectTimeout:
            limit_s = min(limits.first_s, _CONNECT_S)
            failure = network_error(caller, f"no connection within {limit_s:g} s")
        except self._httpcore.TimeoutException:
            words = _missing_part(limits, request.reader)
            failure = network_error(caller, words, is_timeout=True)
        except self._failures as error:
            failure = network_error(caller, str(error), was_sent=lane.clock.is_sent)
        finally:
            self._free.append(lane)

        raise failure

    def _exchange(
        self, lane: _ConnectionLane, request: HttpRequest, own: Mapping[str, str]
    ) -> HttpAnswer:
        headers = {**self._headers, "content-length": str(len(request.content))}
        if request.kind:
            headers["content-type"] = request.kind

        pairs = [*headers.items(), *own.items()]
        outgoing = self._httpcore.Request(
            request.method,
            self._url(request.url),
            headers=[(name.encode(), value.encode()) for name, value in pairs],
            content=request.content,
        )
        response = lane.pool.handle_request(outgoing)

        try:
            received = {}
            for name, value in response.headers:
                received[name.lower().decode("latin-1")] = value.decode("latin-1")

            if received.get("content-encoding", "identity").lower() not in ("", "identity"):
                raise BodyError("the reply is compressed, which it was not asked to be")

            is_events = received.get("content-type", "").lower().startswith(_EVENTS)
            if request.reader is not None and is_events and 200 <= response.status < 300:
                self._read_stream(response, request.reader, lane.clock)
                return HttpAnswer(response.status, received, b"", is_streamed=True)

            content = self._read(response, request.max_bytes or MAX_REPLY_BYTES)
            return HttpAnswer(response.status, received, content)
        finally:
            response.close()

    def _read_stream(self, response: Any, reader: StreamReader, clock: CallClock) -> None:
        """Read a streamed body until its reader has enough."""
        for chunk in self._chunks(response):
            had = reader.parts
            if reader.take(chunk):
                return
            if reader.parts > had:
                clock.begin_gap(reader.is_silent)

    def _read(self, response: Any, max_bytes: int) -> bytes:
        chunks = []
        size = 0
        for chunk in self._chunks(response):
            size += len(chunk)
            if size > max_bytes:
                raise BodyError(f"the reply is longer than {max_bytes >> 20} MiB")

            chunks.append(chunk)

        return b"".join(chunks)

    def _chunks(self, response: Any) -> Iterator[bytes]:
        try:
            yield from response.stream
        except (self._httpcore.ProtocolError, self._httpcore.NetworkError) as error:
            raise BodyError("the reply ends early") from error


def json_content(value: Any) -> bytes:
    """Return a JSON value as the content of a request."""
    return dumps_compact(value).encode("utf-8", "surrogatepass")


def http_libraries() -> tuple[ModuleType, ModuleType]:
    """Return httpx2 and httpcore2 if installed, otherwise httpx and httpcore, which older SDKs use."""
    with suppress(ImportError):
        return import_module("httpx2"), import_module("httpcore2")
    return import_module("httpx"), import_module("httpcore")


def _missing_part(limits: TimeLimits, reader: StreamReader | None) -> str:
    """Return which part of a reply did not come in time, and the option that gives it more."""
    if reader is None:
        return f"no whole reply within {limits.first_s:g} s (--first-timeout-s)"
    if not reader.parts or reader.is_silent:
        return f"no reply, or next part of one, within {limits.first_s:g} s (--first-timeout-s)"
    return f"no further part of a reply within {limits.gap_s:g} s (--timeout-s)"


class CallClock:
    """Deadline of the current call, and whether sending has begun."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now` returns monotonic seconds."""
        self._now = now
        self._until = 0.0
        self._limits = TimeLimits(0.0)
        self.is_sent = False

    def begin(self, limits: TimeLimits) -> None:
        """Begin a call, whose first part is awaited."""
        self._until = self._now() + limits.first_s
        self.is_sent = False
        self._limits = limits

    def begin_gap(self, is_silent: bool) -> None:
        """Wait for the next part of a reply."""
        limits = self._limits
        limit_s = limits.first_s if is_silent else limits.gap_s
        self._until = self._now() + limit_s

    @property
    def is_over(self) -> bool:
        """True if the deadline has passed."""
        return self._now() >= self._until

    def seconds_left(self) -> float:
        """Return the seconds left; never 0, which would make a socket non-blocking."""
        return max(self._until - self._now(), 1e-3)


class _TimedStream:
    """Network stream for httpcore whose waits end at the clock's deadline. Timeouts passed to it
    are ignored.
    """

    def __init__(self, stream: Any, clock: CallClock, httpcore: ModuleType) -> None:
        self._stream = stream
        self._clock = clock
        self._httpcore = httpcore
        self.close = stream.close
        self.get_extra_info = stream.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:  # noqa: ARG002 - the clock says
        if self._clock.is_over:
            raise self._httpcore.ReadTimeout
        return self._stream.read(max_bytes, self._clock.seconds_left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - the clock says
        self._clock.is_sent = True
        # A server may answer and close the connection before it has read the whole request. The
        # answer then gives the reason.
        with suppress(self._httpcore.WriteError):
            self._stream.write(buffer, self._clock.seconds_left())

    def start_tls(
        self,
        ssl_context: Any,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> _TimedStream:
        encrypted = self._stream.start_tls(ssl_context, server_hostname, self._clock.seconds_left())
        return _TimedStream(encrypted, self._clock, self._httpcore)


class _TimedBackend:
    """Network backend for httpcore. The waits of its streams end at the clock's deadline."""

    def __init__(self, httpcore: ModuleType, clock: CallClock) -> None:
        self._httpcore = httpcore
        self._plain = httpcore.SyncBackend()
        self._clock = clock

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002
        **options: Any,
    ) -> _TimedStream:
        limit_s = min(self._clock.seconds_left(), _CONNECT_S)
        stream = self._plain.connect_tcp(host, port, timeout=limit_s, **options)
        return _TimedStream(stream, self._clock, self._httpcore)

    def sleep(self, seconds: float) -> None:
        self._plain.sleep(seconds)


class _ConnectionLane:
    """A pool of one connection, together with its clock. One call at a time uses it."""

    def __init__(self, httpcore: ModuleType, proxy: Any, ssl_context: Any) -> None:
        self.clock = CallClock()
        self.pool: Any = httpcore.ConnectionPool(
            ssl_context=ssl_context,
            proxy=proxy,
            max_connections=1,
            keepalive_expiry=_KEEPALIVE_S,
            network_backend=_TimedBackend(httpcore, self.clock),
        )


def _proxy_for(endpoint: str, httpcore: ModuleType) -> Any:
    """Return the proxy that the environment sets for an address; None if it sets none. Variables
    are interpreted as in curl and httpx.

    Raises ProviderError if the proxy can't be used. The message does not show the proxy's address,
    which may contain a password.
    """
    parts = urlsplit(endpoint)
    proxies = getproxies()
    url = proxies.get(parts.scheme) or proxies.get("all")
    if not url or proxy_bypass(parts.hostname or ""):
        return None

    kinds = ["http", "https"]
    if find_spec("socksio"):
        kinds += ["socks5", "socks5h"]
    if "://" not in url:
        url = f"http://{url}"

    with suppress(ValueError, TypeError):  # malformed, or with non-ASCII letters
        proxy = urlsplit(url)
        login = None
        if proxy.username is not None:
            login = (unquote(proxy.username), unquote(proxy.password or ""))

        if proxy.scheme in kinds and proxy.hostname and proxy.port != 0:
            host = proxy.netloc.rpartition("@")[2]
            return httpcore.Proxy(url=f"{proxy.scheme}://{host}", auth=login)

    raise ProviderError(
        f"{endpoint}: the proxy that the environment names ({parts.scheme.upper()}_PROXY or"
        " ALL_PROXY) can't be used; give it as http://HOST:PORT (socks5://HOST:PORT needs `pip"
        " install socksio`), or exclude the address with NO_PROXY"
    )
