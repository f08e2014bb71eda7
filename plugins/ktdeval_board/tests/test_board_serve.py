"""`leaderboard build --serve`: the site over HTTP with its headers, nothing outside it, and built again
when the board has changed.
"""

from __future__ import annotations

import gzip
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ktdeval.errors import UsageError
from ktdeval_board.serve import LiveSite, SiteServer, _Handler, fingerprint
from ktdeval_board.site.files import RESPONSE_HEADERS
from support.board.board_forge import forge_board
from support.raw_requests import SECOND, ambiguous_requests, answer_to, statuses
from support.runs.run_support import error_line, ktdeval


@dataclass(frozen=True)
class Served:
    """A board that is being served, and the requests that the server told of."""

    board: Path
    port: int
    log_lines: list[str]
    live: LiveSite

    def get(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a request whose path is sent as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        try:
            connection.putrequest(
                method, path, skip_host="Host" in headers, skip_accept_encoding=True
            )
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)

            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def page(self, path: str = "/") -> str:
        """The text of a page that must be there."""
        status, _, body = self.get(path)
        assert status == 200
        return body.decode()


@contextmanager
def serving(home: Path) -> Iterator[Served]:
    """A small board in a folder, served by a thread of this process."""
    board = forge_board(home / "board", 1, windows=1, decisions=False)
    (home / "secret.txt").write_text("not for you")
    (home / "private").mkdir()
    live = LiveSite(board, home / "private")
    log_lines = []

    with SiteServer(("127.0.0.1", 0), live, log_lines.append) as server:
        live.build(workers=1)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Served(board, server.server_address[1], log_lines, live)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A board that no test changes."""
    with serving(tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """A board of its own for one test."""
    with serving(tmp_path) as served:
        yield served


@pytest.mark.slow
def test_pages_and_data_come_with_their_type_and_the_sites_policy(served: Served) -> None:
    kinds = {
        "/": "text/html",
        "/assets/pages.js": "text/javascript",
        "/data/board.json": "application/json",
        "/robots.txt": "text/plain",
    }

    for path, kind in kinds.items():
        status, headers, body = served.get(path)
        assert (status, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        assert int(headers["Content-Length"]) == len(body) > 0
        assert {name: headers[name] for name in RESPONSE_HEADERS} == dict(RESPONSE_HEADERS)
        assert headers["Cache-Control"] == "no-cache"

    assert any('"GET /assets/pages.js HTTP/1.1" 200' in line for line in served.log_lines)


def test_texts_are_compressed_on_request_and_head_has_no_body(
    served: Served,
) -> None:
    plain = served.get("/index.html")[2]
    _, headers, packed = served.get("/index.html", Accept_Encoding="br, gzip")

    assert (headers["Content-Encoding"], headers["Vary"]) == ("gzip", "Accept-Encoding")
    assert gzip.decompress(packed) == plain
    assert len(packed) < len(plain) / 2

    status, headers, body = served.get("/index.html", method="HEAD")
    assert (status, body, int(headers["Content-Length"]) > 0) == (200, b"", True)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.org",
        "evil.example.org:80",
        "127.0.0.1.evil.org",
        "",
        "[",
        "localhost.evil.org:1",
    ],
)
def test_a_page_of_the_web_whose_name_leads_here_reads_nothing(served: Served, host: str) -> None:
    status, _, body = served.get("/data/board.json", Host=host)
    assert (status, b"forged" in body) == (421, False)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "LOCALHOST:1", "[::1]:8000"])
def test_names_of_this_machine_are_answered(served: Served, host: str) -> None:
    assert served.get("/data/board.json", Host=host)[0] == 200


@pytest.mark.slow
def test_nothing_but_the_site_is_sent_and_nothing_is_taken_in(own: Served) -> None:
    (own.live.site / "link.txt").symlink_to(own.board.parent / "secret.txt")
    outside = (
        "/../secret.txt",
        "/../../secret.txt",
        "/%2e%2e/%2e%2e/secret.txt",
        "/data/..%2f..%2f..%2fsecret.txt",
        "//etc/passwd",
    )

    for path in (
        *outside,
        "/..\\..\\secret.txt",
        "/data/%00",
        "/.ktdeval-site",
        "/link.txt",
        "/nothing.html",
        "/data",
        "/" + 300 * "a",
        "http://[/",
    ):
        status, headers, body = own.get(path, Host="localhost")
        assert (status, b"not for you" in body, b"There is no such page" in body) == (
            404,
            False,
            True,
        ), path
        assert "Content-Security-Policy" in headers

    assert own.get("/", method="POST")[0] == own.get("/data/board.json", method="DELETE")[0] == 501


def test_a_browser_that_leaves_before_its_answer_is_passed_over(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    with SiteServer(("127.0.0.1", 0), served.live) as server:
        for error, is_reported in (
            (BrokenPipeError(), False),
            (ConnectionResetError(), False),
            (ValueError("a defect"), True),
        ):
            try:
                raise error
            except (OSError, ValueError):
                server.handle_error(None, ("127.0.0.1", 1))

            assert ("a defect" in capsys.readouterr().err) == is_reported


def test_a_silent_connection_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Handler, "timeout", _Handler.timeout / 600)
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as silent:
        assert silent.recv(1) == b""


@pytest.mark.exhaustive
def test_a_change_of_the_board_shows_at_the_next_page_alone(
    own: Served,
) -> None:
    assert "A forged board" in own.page()

    site = own.live.site
    own.page()

    assert own.live.site == site

    rules = own.board / "board.yaml"
    rules.write_text(rules.read_text().replace("A forged board", "A renamed board"))

    # pages alone are looked at
    assert "A forged board" in own.page("/robots.txt") + own.get("/data/board.json")[2].decode()
    assert "A renamed board" in own.page("/about.html")
    assert '"title":"A renamed board"' in own.get("/data/board.json")[2].decode()
    # an answer that was begun before is whole
    assert "A forged board" in (site / "data/board.json").read_text()


@pytest.mark.exhaustive
def test_a_failed_build_is_shown_as_text_until_it_is_fixed(own: Served) -> None:
    rules = own.board / "board.yaml"
    before = rules.read_text()
    rules.write_text(before.replace("snapshot: main", "snapshot: <b>main</b>"))
    status, headers, body = own.get("/")

    assert status == 500
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"no snapshot &#39;&lt;b&gt;main" in body
    assert own.get("/data/board.json")[0] == 500

    rules.write_text(before)
    assert "A forged board" in own.page()


def test_the_fingerprint_sees_every_file_that_a_site_is_made_of(tmp_path: Path) -> None:
    board = forge_board(tmp_path / "board", 1, windows=1, decisions=False)
    seen = [fingerprint(board)]
    for name in ("errata.yaml", "markets/main.json"):
        (board / name).write_text((board / name).read_text() + "\n")
        seen.append(fingerprint(board))

    next((board / "verdicts").iterdir()).unlink()
    seen.append(fingerprint(board))
    certificate = board / "certificates" / ("a" * 64)
    certificate.mkdir(parents=True)
    (certificate / "verdict.json").write_text("{}")  # whether cards are shown as verified

    assert len({*seen, fingerprint(board)}) == 5


def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = error_line(
            ktdeval("leaderboard", "build", ".", "--serve", "--port", port, cwd=tmp_path)
        )

    where = f"can't listen on 127.0.0.1 port {port}"

    assert line == f"{where}: Address already in use; choose another --host or --port"


def test_a_host_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't listen on"):
        SiteServer(("203.0.113.7", 0), LiveSite(tmp_path, tmp_path))


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("", "expected an address, was ''"),
        ("\udcff", "can't listen on"),
        ("a..b", "can't listen on"),
    ],
)
def test_a_host_that_is_no_address_is_refused(tmp_path: Path, host: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        SiteServer((host, 0), LiveSite(tmp_path, tmp_path))


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    board = forge_board(tmp_path / "board", 1, windows=1, decisions=False)
    (temporary := tmp_path / "temporary").mkdir()
    words = ["leaderboard", "build", str(board), "--serve", "--port", "0"]

    with subprocess.Popen(
        [sys.executable, "-m", "ktdeval", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(temporary)},
    ) as process:
        assert process.stdout is not None
        site, serving = process.stdout.readline(), process.stdout.readline()
        port = re.fullmatch(r"serving http://127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)\n", serving)
        assert port is not None
        answers = {name: statuses(answer_to(int(port[1]), text)) for name, text in REQUESTS.items()}
        process.send_signal(number)
        _, errors = process.communicate(timeout=240)

    assert site.startswith("site    ")
    assert {name for name, answered in answers.items() if answered != [400]} == set()
    assert (process.returncode, errors) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["board", "temporary"]
    assert list(temporary.iterdir()) == []


# ---- requests that can be read in two ways


REQUESTS = ambiguous_requests("GET", "/")


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
def test_request_of_two_readings_is_refused_and_nothing_behind_it_is_read(
    served: Served, request_bytes: bytes
) -> None:
    assert statuses(answer_to(served.port, request_bytes)) == [400]


def test_body_is_no_further_request(served: Served) -> None:
    head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(SECOND)}\r\n\r\n"
    assert statuses(answer_to(served.port, head.encode() + SECOND)) == [200]
