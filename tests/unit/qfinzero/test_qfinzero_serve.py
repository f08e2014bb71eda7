"""`ktdeval serve qfinzero`: where it listens, who needs a token, how it ends, and what it says when it can't begin."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktdeval.errors import UsageError
from ktdeval_qfinzero.access.listen import address_of, bind, choose_security
from qfinzero_world import store_small
from terminal import Terminal

TOKEN = "a-token-of-some-length"
SERVE = ("serve", "qfinzero")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_small(tmp_path_factory.mktemp("data") / "small")


@contextmanager
def bound_to(host: str) -> Iterator[socket.socket]:
    with bind(host, 0) as bound:
        yield bound


# ---- who needs a token


def test_on_this_machine_nobody_needs_a_token_elsewhere_a_new_one_is_shown_once_and_one_of_the_environment_is_always_used() -> None:
    shown: list[str] = []
    for host in ("127.0.0.1", "localhost", *(("::1",) if socket.has_ipv6 else ()), "0.0.0.0"):
        with bound_to(host) as bound:
            security = choose_security(bound, None, {}, shown.append)
            own = choose_security(bound, "MINE", {"MINE": TOKEN}, None)
            assert address_of(bound) == f"http://{'[::1]' if ':' in host else bound.getsockname()[0]}:{bound.getsockname()[1]}"
        assert (own.token, own.hosts) == (TOKEN, None)  # behind a proxy the server has other names
        if host == "0.0.0.0":
            assert shown == [security.token]
            assert len(security.token or "") >= 40
        else:
            assert (security.token, host in (security.hosts or ())) == (None, True)


def test_without_a_token_nothing_is_served_elsewhere(terminal: Terminal, folder: Path) -> None:
    line = terminal.refusal(*SERVE, "--host", "0.0.0.0", "--port", 0, "--data", folder)
    assert "a token is needed" in line
    assert "--token-env" in line


@pytest.mark.parametrize("value", [None, "", "short", "with spaces in between", "x" * 513, "geheimnis-mit-ümlaut"])
def test_a_variable_without_a_usable_token_is_said_without_its_value(value: str | None) -> None:
    with bound_to("127.0.0.1") as bound, pytest.raises(UsageError, match="--token-env MINE: expected 16 to 512") as caught:
        choose_security(bound, "MINE", {} if value is None else {"MINE": value}, None)
    assert not value or value not in str(caught.value)


# ---- what can't be begun


def test_what_can_not_be_begun_is_said_in_one_line(terminal: Terminal, folder: Path, tmp_path: Path) -> None:
    with bound_to("127.0.0.1") as taken:
        port = taken.getsockname()[1]
        line = terminal.refusal(*SERVE, "--port", port, "--data", folder)
    assert f"error: can't listen on 127.0.0.1 port {port}: Address already in use; choose another --host or --port" in line
    for host in ("203.0.113.7", "no.such.host.invalid", "a" * 300):
        with pytest.raises(UsageError, match="can't listen on"):
            bind(host, 0)
    for transport in ("http", "stdio"):
        line = terminal.refusal(*SERVE, "--transport", transport, "--port", 0, "--data", tmp_path / "none")
        assert str(tmp_path / "none") in line
    (tmp_path / "rules.yaml").write_text("fees: {tax: 1}")
    assert "rules.yaml: fees: " in terminal.refusal(*SERVE, "--port", 0, "--data", folder, "--rules", tmp_path / "rules.yaml")
    assert "--logs" in terminal.refusal(*SERVE, "--port", 0, "--data", folder, "--logs", tmp_path / "rules.yaml")
    for moment in ("soon", "2024-12-31", "2025-03-02"):
        line = terminal.refusal(*SERVE, "--port", 0, "--data", folder, "--as-of", moment)
        assert "--as-of: expected a moment" in line


# ---- the running server


def test_it_serves_until_it_is_interrupted_and_shows_its_token_once(folder: Path, tmp_path: Path) -> None:
    """On all addresses of the machine, with stderr at a terminal."""
    mine, theirs = pty.openpty()
    words = ["serve", "qfinzero", "--host", "0.0.0.0", "--port", "0", "--data", str(folder), "--as-of", "2025-01-06"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ktdeval", *words], stdout=subprocess.PIPE, stderr=theirs, text=True, cwd=tmp_path
    )
    with process:
        os.close(theirs)
        assert process.stdout is not None
        line = process.stdout.readline()
        port = re.fullmatch(r"serving http://0\.0\.0\.0:(\d+) with \S+/openapi\.json and \S+/mcp \(Ctrl-C ends it\)\n", line)
        assert port is not None, line
        token = re.fullmatch(r"token, shown this once: (\S{40,})\r\n", os.read(mine, 1000).decode())
        assert token is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=240)
        connection.request("POST", "/workspaces")
        refused = connection.getresponse()
        assert (refused.status, token[1] in refused.read().decode()) == (401, False)
        connection.request("POST", "/workspaces", headers={"Authorization": f"Bearer {token[1]}"})
        assert json.loads(connection.getresponse().read())["as_of_ts"] == "2025-01-06T00:00:00Z"
        process.send_signal(signal.SIGINT)  # while the connection is open
        assert process.communicate(timeout=240)[0] == "\n"
        connection.close()
    with contextlib.suppress(OSError):  # how the end of a terminal is told
        assert os.read(mine, 1000) == b""
    os.close(mine)
    assert process.returncode == 0
