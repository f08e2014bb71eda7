"""Serve a board's site locally. The site is built in a private folder, and rebuilt when the board's
files have changed.
"""

from __future__ import annotations

import gzip
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import SplitResult, unquote, urlsplit

from ktdeval.errors import KtdevalError, UsageError, os_reason
from ktdeval.values import RefusedBody, body_length
from ktdeval_board.errata import ERRATA_FILE
from ktdeval_board.layout import CARDS, CERTIFICATES, DECISIONS, IMPORTED, MARKETS, SERIES, VERDICTS
from ktdeval_board.rules import RULES_FILE
from ktdeval_board.site.build import BuildReport, Progress, build_site
from ktdeval_board.site.files import NO_SOURCES_POLICY, RESPONSE_HEADERS
from ktdeval_board.templates import render

_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".md": "text/plain",
}
"""Content types of a site's files, all of them text, independent of this machine's own table."""

_PAGE = "text/html; charset=utf-8"
_MIN_PACKED = 1000  #: Size in bytes above which compression pays off

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine. A server that listens on other addresses responds to any name."""

_BUILT_FROM = (
    RULES_FILE,
    ERRATA_FILE,
    CARDS,
    CERTIFICATES,
    VERDICTS,
    SERIES,
    DECISIONS,
    IMPORTED,
    MARKETS,
)
"""Files and folders of a board from which its site is built."""

#: Path, size and modification time of each file that a site is built from
Fingerprint = tuple[tuple[str, int, int], ...]


class LiveSite:
    """A built site that is kept up to date with its board."""

    def __init__(self, board: Path, folder: Path, progress: Progress | None = None) -> None:
        """Start without a built site. Sites are built in `folder`."""
        self.board = board
        self._progress = progress
        # The spare folder is built while the other is served; then the two are swapped.
        self.site = folder / "second"
        self._spare = folder / "site"
        self.problem: str | None = None
        self._built: Fingerprint | None = None
        self._lock = threading.Lock()

    def build(self, workers: int | None = None) -> BuildReport:
        """Build the site from the current state of the board, in the folder that is not being
        served.
        """
        seen = fingerprint(self.board)
        report = build_site(self.board, self._spare, self._progress, workers)
        self.site, self._spare = self._spare, self.site
        self._built = seen
        self.problem = None

        return report

    def refresh(self) -> None:
        """Rebuild the site if the board has changed. One request rebuilds it while others wait. If
        a build fails, `problem` says why.

        The build uses only this process, since starting others is not safe while threads handle
        requests.
        """
        with self._lock:
            seen = fingerprint(self.board)
            if seen == self._built:
                return

            try:
                self.build(workers=1)
            except KtdevalError as error:
                self._built = seen
                self.problem = str(error)


def fingerprint(board: Path) -> Fingerprint:
    """Return the path, size and modification time of each of a board's files, without reading the
    files.
    """
    states = []
    for name in _BUILT_FROM:
        root = board / name
        paths = [root]
        if root.is_dir():
            paths += root.rglob("*")

        for path in paths:
            with suppress(OSError):  # the file may just have been deleted
                state = path.lstat()
                where = path.relative_to(board).as_posix()
                states.append((where, state.st_size, state.st_mtime_ns))

    return tuple(sorted(states))


class SiteServer(ThreadingHTTPServer):
    """Responds to requests for the pages of a live site."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], live: LiveSite, log: Callable[[str], None] | None = None
    ) -> None:
        """Start listening. Raises UsageError if that is not possible.

        On a local address, only requests for local host names are answered. A web page whose own
        name resolves to this machine (DNS rebinding) therefore can't read anything.
        """
        if not address[0]:  # otherwise, the socket would listen on every address of this machine
            raise UsageError("--host: expected an address, was ''; leave it out for 127.0.0.1")

        self.live = live
        self.log = log
        self.hosts: set[str] | None = None
        if address[0] in _LOOPBACK:
            self.hosts = {*_LOOPBACK, address[0]}

        try:
            super().__init__(address, partial(_Handler, directory=str(live.site)))
        except (OSError, OverflowError, TypeError, UnicodeError) as error:  # as raised by sockets
            reason = os_reason(error, "choose another --host or --port")
            raise UsageError(f"can't listen on {address[0]} port {address[1]}: {reason}") from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that disconnect before they receive their response, for example because a
        tab was closed.
        """
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """Address of the site."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, (bytes, bytearray)) else str(host)
        if ":" in name:  # IPv6
            name = f"[{name}]"

        return f"http://{name}:{port}/"


def _address_parts(address: str) -> SplitResult:
    """Return the parts of an address; a malformed address has no host and no path."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit(".")


class _Handler(SimpleHTTPRequestHandler):
    """Responds with files of the site, compressed if the browser accepts that."""

    server: SiteServer
    server_version = "ktdeval"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30  #: Seconds for which a connection may be idle; each occupies a thread

    def parse_request(self) -> bool:
        """Parse the head of a request; reject an ambiguous one."""
        if not super().parse_request():
            return False

        try:
            has_body = body_length(self.headers) > 0
        except RefusedBody as refused:
            self.close_connection = True
            self.send_error(HTTPStatus.BAD_REQUEST, explain=str(refused))
            return False

        if has_body:
            self.close_connection = True  # an unread body must not be parsed as another request
        return True

    def send_head(self) -> BytesIO | IO[bytes] | None:  # type: ignore[override]
        """Send the response headers and return the body."""
        path = unquote(_address_parts(self.path).path)
        live = self.server.live
        hosts = self.server.hosts
        if (
            hosts is not None
            and _address_parts(f"//{self.headers.get('Host', '')}").hostname not in hosts
        ):
            return self._problem(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this server only answers requests for {', '.join(sorted(hosts))}",
            )

        if path.endswith(("/", ".html")):
            live.refresh()

        if live.problem is not None:
            return self._problem(HTTPStatus.INTERNAL_SERVER_ERROR, live.problem)

        file = self._file(path)
        if file is None:
            page = (live.site / "404.html").read_bytes()
            return self._answer(HTTPStatus.NOT_FOUND, page, _PAGE)

        kind = "application/octet-stream"
        if file.suffix in _TYPES:
            kind = f"{_TYPES[file.suffix]}; charset=utf-8"

        return self._answer(HTTPStatus.OK, file.read_bytes(), kind)

    def _problem(self, status: HTTPStatus, message: str) -> BytesIO:
        page = render("site/problem.html", message=message, policy=NO_SOURCES_POLICY)
        return self._answer(status, page.encode(), _PAGE)

    def _file(self, path: str) -> Path | None:
        """Return the file for an address; None if the file does not exist, is hidden or lies
        outside the site.
        """
        site = self.server.live.site.resolve()
        parts = [part for part in path.split("/") if part]
        if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
            return None

        file = site.joinpath(*parts)
        try:
            if file.is_dir():
                file = file / "index.html"

            resolved = file.resolve()
            is_there = resolved.is_relative_to(site) and resolved.is_file()
        except OSError:  # the name is too long
            return None

        return resolved if is_there else None

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> BytesIO:
        takes_gzip = "gzip" in self.headers.get("Accept-Encoding", "")
        is_packed = takes_gzip and "charset" in kind and len(body) >= _MIN_PACKED
        if is_packed:
            body = gzip.compress(body, compresslevel=5, mtime=0)

        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Vary", "Accept-Encoding")

        if is_packed:
            self.send_header("Content-Encoding", "gzip")

        for name, value in RESPONSE_HEADERS.items():
            self.send_header(name, value)

        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        return BytesIO(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log a request if the server has a log function."""
        if self.server.log is not None:
            self.server.log(f"{self.address_string()} {format % args}")
