"""Site of a board on this machine: built into a private folder, built again when the board's files have changed."""

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

from ktdeval.errors import KtdevalError, UsageError
from ktdeval_board.layout import CARDS, CERTIFICATES, DECISIONS, IMPORTED, MARKETS, SERIES, VERDICTS
from ktdeval_board.rules import ERRATA_FILE, RULES_FILE
from ktdeval_board.site.build import BuildReport, Progress, build_site
from ktdeval_board.site.files import RESPONSE_HEADERS
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
"""Types of the files of a site, all of them text; what this machine's own table says is no matter."""

_LEAST_PACKED = 1000  #: Bytes from which packing is worth its header

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine; a server that listens to others answers to whatever name it is reached by."""

Fingerprint = tuple[tuple[str, int, int], ...]  #: Path, size and time of change of each file that a site is made of


class LiveSite:
    """A built site that follows its board."""

    def __init__(self, board: Path, folder: Path, progress: Progress | None = None) -> None:
        """Nothing is built yet."""
        self.board, self._progress = board, progress
        self.site, self._spare = folder / "second", folder / "site"  # a build is in the spare one
        self.problem: str | None = None
        self._built: Fingerprint | None = None
        self._lock = threading.Lock()

    def build(self, workers: int | None = None) -> BuildReport:
        """Build the site as the board is now, where nothing is read; answers that are being read stay whole."""
        seen = fingerprint(self.board)
        report = build_site(self.board, self._spare, self._progress, workers)
        self.site, self._spare = self._spare, self.site
        self._built, self.problem = seen, None
        return report

    def refresh(self) -> None:
        """Build again if the board has changed; one request does it, others wait. A failure is kept as `problem`.

        One process does all: to start others is not safe while requests are answered by threads.
        """
        with self._lock:
            seen = fingerprint(self.board)
            if seen == self._built:
                return
            try:
                self.build(workers=1)
            except KtdevalError as error:
                self._built, self.problem = seen, str(error)


def fingerprint(board: Path) -> Fingerprint:
    """Return what differs between two states of a board, without reading its files."""
    states = []
    for name in (RULES_FILE, ERRATA_FILE, CARDS, CERTIFICATES, VERDICTS, SERIES, DECISIONS, IMPORTED, MARKETS):
        root = board / name
        for path in [root, *root.rglob("*")] if root.is_dir() else [root]:
            with suppress(OSError):  # gone meanwhile, which the next look finds as well
                state = path.lstat()
                states.append((path.relative_to(board).as_posix(), state.st_size, state.st_mtime_ns))
    return tuple(sorted(states))


class SiteServer(ThreadingHTTPServer):
    """Answers requests for the pages of a live site."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], live: LiveSite, log: Callable[[str], None] | None = None) -> None:
        """Listen; raises UsageError where that is not possible.

        Where only this machine is listened to, only names of this machine are answered: a page on the web that has its own name
        lead here (DNS rebinding) reads nothing.
        """
        self.live, self.log = live, log
        self.hosts = {*_LOOPBACK, address[0]} if address[0] in _LOOPBACK else None
        try:
            super().__init__(address, partial(_Handler, directory=str(live.site)))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"can't listen on {address[0]} port {address[1]}: {reason}; choose another --port") from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a browser that left before its answer, as when a tab is closed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """Where the site is."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, (bytes, bytearray)) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


def _parsed(address: str) -> SplitResult:
    """Return the parts of an address; those of one that names neither a host nor a page where it is malformed."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit(".")


class _Handler(SimpleHTTPRequestHandler):
    """Files of the site, packed where the browser takes that."""

    server: SiteServer
    server_version = "ktdeval"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30  #: Seconds for which a connection may be silent; each takes a thread

    def send_head(self) -> BytesIO | IO[bytes] | None:  # type: ignore[override]
        """Return the answer but for its body; the body is what is returned."""
        path = unquote(_parsed(self.path).path)
        live, hosts = self.server.live, self.server.hosts
        if hosts is not None and _parsed(f"//{self.headers.get('Host', '')}").hostname not in hosts:
            return self._problem(HTTPStatus.MISDIRECTED_REQUEST, f"this server answers to {', '.join(sorted(hosts))} only")
        if path.endswith(("/", ".html")):
            live.refresh()
        if live.problem is not None:
            return self._problem(HTTPStatus.INTERNAL_SERVER_ERROR, live.problem)
        file = self._file(path)
        if file is None:
            return self._answer(HTTPStatus.NOT_FOUND, (live.site / "404.html").read_bytes(), "text/html; charset=utf-8")
        kind = _TYPES.get(file.suffix)
        return self._answer(HTTPStatus.OK, file.read_bytes(), f"{kind}; charset=utf-8" if kind else "application/octet-stream")

    def _problem(self, status: HTTPStatus, message: str) -> BytesIO:
        return self._answer(status, render("site/problem.html", message=message).encode(), "text/html; charset=utf-8")

    def _file(self, path: str) -> Path | None:
        """Return the file of an address; None where there is none, or where it would lie outside or be hidden."""
        site = self.server.live.site.resolve()
        parts = [part for part in path.split("/") if part]
        if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
            return None
        file = site.joinpath(*parts)
        try:
            resolved = (file / "index.html" if file.is_dir() else file).resolve()
            return resolved if resolved.is_relative_to(site) and resolved.is_file() else None
        except OSError:  # a name longer than any
            return None

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> BytesIO:
        takes_gzip = "gzip" in self.headers.get("Accept-Encoding", "")
        is_packed = takes_gzip and "charset" in kind and len(body) >= _LEAST_PACKED
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
        """Say a request, where somebody wants to know."""
        if self.server.log is not None:
            self.server.log(f"{self.address_string()} {format % args}")
