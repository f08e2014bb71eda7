"""An HTTP client for the SDKs whose timeout holds for a call as a whole, and which is cheap with many threads."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

MAX_REPLY_BYTES = 64 << 20
"""A body of more bytes, as they come over the wire, is refused; no real reply comes near."""

_KEEPALIVE_S = 20.0  # below the idle timeouts of the usual load balancers, above the time between two calls of a step


class BodyError(Exception):
    """A response began and did not end as it should; one line says how."""


def http_client(sdk: ModuleType, endpoint: str) -> Any:
    """A client to give to an SDK as its `http_client`.

    The read timeout of a request is the longest time for all of it: connecting, TLS, sending, waiting, reading to the last byte,
    the bodies of errors included. (The SDKs' own is per read: a server that sends a byte now and then is waited for without end.)
    Only looking up the host's name has the system's own limit.
    Redirects are not followed: no API has a reason to have a prompt and a key sent elsewhere.

    Args:
        sdk: the SDK's module; the base of its own client class says which HTTP library it is built on.
        endpoint: base URL, for the choice of a proxy (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).
    """
    httpx, httpcore = _http_libraries(sdk)
    return sdk.DefaultHttpxClient(transport=_Transport(httpx, httpcore, endpoint), follow_redirects=False, trust_env=False)


def response_class(sdk: ModuleType) -> Any:
    """The class of an SDK's raw responses, to be named as `cast_to`."""
    return _http_libraries(sdk)[0].Response


def _http_libraries(sdk: ModuleType) -> tuple[ModuleType, ModuleType]:
    """Either httpx and httpcore or httpx2 and httpcore2: the SDKs moved from the one pair to the other."""
    families = (cls.__module__.partition(".")[0] for cls in sdk.DefaultHttpxClient.__mro__)
    family = next(name for name in families if name.startswith("httpx"))
    return import_module(family), import_module(family.replace("httpx", "httpcore"))


class _Clock:
    """When the call under way must be over."""

    until = 0.0

    def left(self) -> float:
        """Seconds left; never 0, which means "do not wait" to a socket."""
        return max(self.until - time.monotonic(), 1e-3)


class _Stream:
    """A network stream of httpcore's whose waits end with the clock, whatever it is told.

    What is written goes out when the answer is waited for, head and body of a request in one piece: half the packets, and on a
    busy machine a good part of a call's time.
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


class _Lane:
    """One connection with its clock. A call has a lane to itself, so its pool of one never looks for, or waits for, another."""

    def __init__(self, httpcore: ModuleType, proxy: Any, ssl_context: Any) -> None:
        self.clock = _Clock()
        self.pool = httpcore.ConnectionPool(
            ssl_context=ssl_context,
            max_connections=1,
            max_keepalive_connections=1,
            keepalive_expiry=_KEEPALIVE_S,
            network_backend=_Backend(httpcore, self.clock),
            **({} if proxy is None else {"proxy": proxy}),
        )


class _Transport:
    """The transport of an httpx client: takes a free lane for each request, the one used last first.

    A shared pool looks at all of its connections at the start and end of each request, under a lock; with 50 threads that is a
    quarter of a call's CPU time. Here the number of lanes grows to the number of calls at once and no further.
    """

    def __init__(self, httpx: ModuleType, httpcore: ModuleType, endpoint: str) -> None:
        self._httpx = httpx
        self._httpcore = httpcore
        self._proxy = _proxy_for(endpoint, httpcore)
        self._ssl_context = httpx.create_ssl_context() if endpoint.startswith("https") else None  # takes a while: made once
        self._free: deque[_Lane] = deque()
        names = ("TimeoutException", "NetworkError", "ProtocolError", "ProxyError", "UnsupportedProtocol")
        self._failures: tuple[type[Exception], ...] = tuple(getattr(httpcore, name) for name in names)
        self._body_class = _body_class(httpx)

    def handle_request(self, request: Any) -> Any:
        """Send a request; the response's body is still to be read, and gives the lane back when it is closed."""
        lane = self._take()
        lane.clock.until = time.monotonic() + request.extensions["timeout"]["read"]
        url = request.url
        target = self._httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        try:
            response = lane.pool.handle_request(
                self._httpcore.Request(request.method, target, headers=request.headers.raw, content=request.stream)
            )
        except BaseException as error:
            self._free.append(lane)
            if isinstance(error, self._failures):
                raise self.translate(error) from error
            raise
        body = self._body_class(self, lane, response)
        return self._httpx.Response(response.status, headers=response.headers, stream=body, extensions=response.extensions)

    def read(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks of a body as they come.

        Raises:
            BodyError: it ends before its end, is malformed, or is far too long.
        """
        size = 0
        try:
            for chunk in chunks:
                size += len(chunk)
                if size > MAX_REPLY_BYTES:
                    raise BodyError(f"the reply is longer than {MAX_REPLY_BYTES >> 20} MiB")
                yield chunk
        except self._httpcore.ProtocolError as error:
            raise BodyError("the reply ends before its end") from error
        except self._failures as error:
            raise self.translate(error) from error

    def release(self, lane: _Lane) -> None:
        """Take back a lane whose response is done with."""
        self._free.append(lane)

    def translate(self, error: BaseException) -> Exception:
        """An exception of httpcore's as httpx has it, which is what SDKs catch; both use the same names."""
        named = (getattr(self._httpx, cls.__name__, None) for cls in type(error).__mro__)
        translated: Exception = next(cls for cls in named if cls is not None)(str(error))
        return translated

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._free:
            self._free.pop().pool.close()

    def _take(self) -> _Lane:
        try:
            return self._free.pop()
        except IndexError:
            return _Lane(self._httpcore, self._proxy, self._ssl_context)


def _body_class(httpx: ModuleType) -> type:
    """The class of response bodies; httpx insists on a base of its own, and is not there before an SDK is imported."""

    class Body(httpx.SyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, transport: _Transport, lane: _Lane, response: Any) -> None:
            self._transport = transport
            self._lane: _Lane | None = lane
            self._response = response

        def __iter__(self) -> Iterator[bytes]:
            return self._transport.read(self._response.stream)

        def close(self) -> None:
            self._response.close()
            if self._lane is not None:
                lane, self._lane = self._lane, None
                self._transport.release(lane)

    return Body


def _proxy_for(endpoint: str, httpcore: ModuleType) -> Any:
    """The proxy that the environment names for an address, as curl and httpx understand it; None when there is none."""
    parts = urlsplit(endpoint)
    proxies = getproxies()
    url = proxies.get(parts.scheme) or proxies.get("all")
    if not url or proxy_bypass(parts.hostname or ""):
        return None
    proxy = urlsplit(url if "://" in url else f"http://{url}")
    has_login = proxy.username is not None
    login = (unquote(proxy.username or ""), unquote(proxy.password or "")) if has_login else None
    return httpcore.Proxy(url=f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}", auth=login)
