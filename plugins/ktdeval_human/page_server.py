"""Server for a person's page. It listens on this machine's loopback address, and answers only the
browser that used the token, and no pages of other origins.
"""

from __future__ import annotations

import hmac
import secrets
import socketserver
import sys
import threading
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from ktdeval.values import (
    JsonObject,
    JsonValue,
    RefusedBody,
    body_length,
    body_pieces,
    check_length,
    dumps_compact,
)
from ktdeval_human.moments import Moments, RefusedInput, read_message
from ktdeval_pages.assets import charts_script, shared_script, stylesheet, vendor_files
from ktdeval_pages.page_templates import make_environment

LOOPBACK = "127.0.0.1"
COOKIE = "ktdeval_person"
_POLL_S = 20.0  #: maximum time in seconds that a page waits for an update
_MAX_BYTES = 1 << 20  #: maximum size of a message from the page
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": f"{_POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_BODY_S = 30.0  #: maximum time in seconds for a message to arrive
_TYPES = {".js": "text/javascript", ".css": "text/css"}


class PageServer(ThreadingHTTPServer):
    """Serves the page and its state, and receives the person's actions.

    `/open/TOKEN` works once: it gives the browser a cookie, and requests without the cookie are
    refused. So it does no harm if the address remains in a terminal or a history.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, token: str, moments: Moments) -> None:
        """Listen on a port of this machine; 0 selects a free port.

        Raises OSError if the port is not available.
        """
        self.moments = moments
        self._token: str | None = token
        self._session = secrets.token_urlsafe(24)
        self._lock = threading.Lock()  # guards the token
        super().__init__((LOOPBACK, port), _Handler)
        self.assets = _assets()

    def server_bind(self) -> None:
        """Bind the socket, without looking up the name of this machine."""
        socketserver.TCPServer.server_bind(self)

    @property
    def address(self) -> str:
        """Address of the page, without a token."""
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    def exchange(self, token: str) -> str | None:
        """Exchange the token for the cookie's value. This works only once; return None for a wrong
        token, or if the token was already used.
        """
        with self._lock:
            if self._token is None or not _is_same(token, self._token):
                return None
            self._token = None
            return self._session

    def is_session(self, value: str) -> bool:
        """Return whether a value is the value of the cookie."""
        return _is_same(value, self._session)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that disconnected before it got its answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _is_same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _assets() -> dict[str, bytes]:
    """Return the files of the page, keyed by name."""
    own = files("ktdeval_human").joinpath("assets")
    page = make_environment("ktdeval_human").get_template("page.html").render(policy=_POLICY)
    libraries = {
        f"/assets/vendor/{name}": text.encode()
        for name, text in vendor_files()
        if name.endswith(".js")
    }
    return libraries | {
        "/": page.encode(),
        "/kit.js": shared_script().encode() + charts_script().encode(),
        "/kit.css": stylesheet().encode(),
        "/page.js": own.joinpath("page.js").read_bytes(),
        "/page.css": own.joinpath("page.css").read_bytes(),
    }


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PageServer
    server_version = "ktdeval"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60  #: seconds for which a connection may be silent
    wbufsize = -1
    _length = 0  # bytes of the request's body

    def do_GET(self) -> None:
        """Answer with the page, one of its files, or the state."""
        path, _, query = self.path.partition("?")
        if not self._is_addressed():
            return
        if path.startswith("/open/"):
            self._open(path.removeprefix("/open/"))
            return
        if not self._is_known():
            return

        if path == "/state":
            seen = query.removeprefix("seen=")
            number = int(seen) if seen.isascii() and seen.isdecimal() and len(seen) < 16 else -1
            self._json(HTTPStatus.OK, self.server.moments.current(number, _POLL_S))
        elif path in self.server.assets:
            kind = _TYPES.get(path[path.rfind(".") :] if "." in path else "", "text/html")
            self._send(HTTPStatus.OK, f"{kind}; charset=utf-8", self.server.assets[path])
        else:
            self._problem(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """Receive the person's action."""
        # the unread body of a refused request must not be read as another request
        self.close_connection = True
        if not self._is_addressed() or not self._is_known():
            return
        # A form on another site can't send this type without a preflight request.
        if self.headers.get("Content-Type") != "application/json":
            self._problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
            return
        if self.headers.get("Origin") != self.server.address or self.path != "/act":
            self._problem(HTTPStatus.FORBIDDEN, "only the page itself may send something")
            return

        body = self._body()
        if body is None:
            return
        try:
            self.server.moments.take(read_message(body))
        except RefusedInput as refused:
            status = HTTPStatus.CONFLICT if refused.is_stale else HTTPStatus.UNPROCESSABLE_ENTITY
            place: list[JsonValue] = [*refused.place]
            told = {"problem": str(refused), "place": place, "at_field": refused.problem}
            self._json(status, told)
        else:
            self._json(HTTPStatus.OK, {})

    # --- requirements of a request

    def _is_addressed(self) -> bool:
        """Return whether a request is unambiguous and names this server by its numeric address.
        Otherwise answer with an error: a host name that resolves to this server may be DNS
        rebinding.
        """
        try:
            self._length = body_length(self.headers, ("cookie",))
        except RefusedBody as refused:
            self._refuse_body(refused)
            return False
        if self._length:  # an unread body must not be read as another request
            self.close_connection = True
        if f"http://{self.headers.get('Host')}" != self.server.address:
            self.close_connection = True
            self._problem(
                HTTPStatus.MISDIRECTED_REQUEST, f"this server answers to {self.server.address} only"
            )
            return False

        return True

    def _is_known(self) -> bool:
        """Return whether a request comes from the browser that used the token. Otherwise answer
        with an error.
        """
        try:
            cookies = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            cookies = SimpleCookie()

        held = cookies.get(COOKIE)
        if held is not None and self.server.is_session(held.value):
            return True

        self.close_connection = True
        self._problem(
            HTTPStatus.FORBIDDEN,
            "this page belongs to the browser that opened it first; stop the run (Ctrl-C) and start"
            " it again for a new address",
        )
        return False

    def _open(self, token: str) -> None:
        """Exchange the token for a cookie, and redirect to the page."""
        session = self.server.exchange(token)
        if session is None:
            if self._is_known():  # the same browser has opened the address again
                self._redirect(None)
            return

        # Lax, because a strict cookie is not sent with a redirect if the address was clicked
        # elsewhere.
        self._redirect(f"{COOKIE}={session}; HttpOnly; SameSite=Lax; Path=/")

    def _body(self) -> bytes | None:
        """Return the body. If it is too long, or does not arrive, answer with an error and return
        None.
        """
        try:
            check_length(self._length, _MAX_BYTES)
            return b"".join(body_pieces(self.rfile, self._length, _BODY_S))
        except RefusedBody as refused:
            self._refuse_body(refused)
            return None

    def _refuse_body(self, refused: RefusedBody) -> None:
        self.close_connection = True
        status = HTTPStatus.BAD_REQUEST
        if refused.fault == "too_large":
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

        self._problem(status, str(refused))

    # --- answers

    def _redirect(self, cookie: str | None) -> None:
        extra = {"Location": "/"}
        if cookie is not None:
            extra["Set-Cookie"] = cookie
        self._send(HTTPStatus.SEE_OTHER, "text/plain; charset=utf-8", b"", extra)

    def _json(self, status: HTTPStatus, value: JsonObject) -> None:
        self._send(status, "application/json", dumps_compact(value).encode())

    def _problem(self, status: HTTPStatus, problem: str) -> None:
        if self.path.startswith(("/state", "/act")):
            self._json(status, {"problem": problem})
        else:
            self._send(status, "text/plain; charset=utf-8", problem.encode())

    def _send(
        self, status: HTTPStatus, kind: str, body: bytes, extra: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (_HEADERS | (extra or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: addresses contain the token."""
