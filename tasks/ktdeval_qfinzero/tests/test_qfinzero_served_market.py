"""`ktdeval paper qfinzero serve`: rules of a market that is served, logs of its clients, who needs a
token, how it begins and ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import pty
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.errors import ConfigError, UsageError
from ktdeval.testing import Terminal, on_each_row
from ktdeval_qfinzero.access.commands.serving import address_of, bind, choose_security
from ktdeval_qfinzero.access.server_rules import (
    load_rules,
    make_served_catalogue as served_catalogue,
)
from ktdeval_qfinzero.access.workspaces import WorkspaceLimits, Workspaces, log_name
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.dataset import open_dataset
from ktdeval_qfinzero.errors import ServiceError
from support.qfinzero.qfinzero_broker_play import chained
from support.qfinzero.qfinzero_server import Served, serving
from support.qfinzero.qfinzero_world import store_small

TOKEN = "a-token-of-some-length"
SERVE = ("paper", "qfinzero", "serve")

RULES = """
fees: {stock_per_share_e4: 100}
fills: {slippage_bps: 20}
margin: {debit_interest_bps: 900}
accounts: {cash: 20000, types: [CASH], most: 1}
"""
SPAN = {
    "frequency": "1d",
    "start_ts": "2025-01-07",
    "end_ts": "2025-01-10",
    "universe": {"stocks": ["AVLN"]},
}
ORDER = {
    "instrument": {"type": "STOCK", "symbol": "AVLN"},
    "side": "BUY",
    "order_type": "MARKET",
    "qty": 10,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rules, a dataset and a folder for logs."""
    folder = tmp_path_factory.mktemp("served")
    store_small(folder / "data")
    (folder / "rules.yaml").write_text(RULES)
    (folder / "logs").mkdir()

    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    rules = load_rules(folder / "rules.yaml")
    with serving(
        served_catalogue(catalogue(), rules),
        logs=folder / "logs",
        dataset=open_dataset(folder / "data"),
    ) as server:
        yield server


def traded(served: Served) -> str:
    """A workspace in which something was bought."""
    mine = served.open()
    session = {"session_id": "sess-000001"}

    for path, given in (
        ("/v1/accounts", {}),  # of the first type that the rules name
        ("/v1/sessions", {"account_id": "acct-000001", **SPAN}),
        ("/v1/orders", {**session, "account_id": "acct-000001", "order": ORDER}),
        ("/v1/sessions/sess-000001/step", {"step": 1}),
    ):
        reply = served.post(path, given, mine)
        assert reply.status == 200, reply.text

    return mine


def fetched(served: Served, mine: str) -> list[str]:
    """Whole log, in pages."""
    page: dict[str, Any] = {"next_cursor": ""}
    lines: list[str] = []

    while page["next_cursor"] is not None:
        page = served.get(
            "/v1/log?limit=3" + (f"&cursor={page['next_cursor']}" if lines else ""), mine
        ).body
        lines += page["lines"]

    assert json.loads(lines[-1])["hash"] == page["log_hash"]

    return lines


def replay(capsys: pytest.CaptureFixture[str], log: Path, *words: object) -> tuple[int, str]:
    """Exit code and all that was printed."""
    code = main(["paper", "qfinzero", "replay", str(log), *map(str, words)])
    out, errors = capsys.readouterr()
    return code, out + errors


def test_rules_and_account_size_are_set_by_the_server_not_the_client(
    served: Served,
) -> None:
    document = served.get("/openapi.json").body["paths"]

    def arguments(path: str) -> Any:
        body = document[path]["post"]["requestBody"]["content"]["application/json"]
        return body["schema"]["properties"]

    assert "initial_cash" not in arguments("/v1/accounts")
    assert "execution_config" not in arguments("/v1/sessions")

    mine = served.open()
    assert served.post("/v1/accounts", {"initial_cash": 10**9}, mine).error["field"] == "arguments"
    assert "CASH" in served.post("/v1/accounts", {"account_type": "MARGIN"}, mine).error["message"]
    assert (
        served.post("/v1/accounts", {"account_type": "CASH"}, mine).body["account"]["cash"]
        == 20_000
    )
    assert served.post("/v1/accounts", {"account_type": "CASH"}, mine).status == 409

    begun = {"account_id": "acct-000001", **SPAN}
    assert (
        served.post("/v1/sessions", {**begun, "execution_config": {"fees": {}}}, mine).error[
            "field"
        ]
        == "arguments"
    )

    rules = served.post("/v1/sessions", begun, mine).body["session"]["execution_config"]
    assert (
        rules["fees"]["stock_per_share_e4"],
        rules["fills"]["slippage_bps"],
        rules["fills"]["max_volume_pct"],
    ) == (100, 20, 10)


def test_log_is_on_disk_after_each_call_and_replays_to_the_same_end(
    served: Served, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = traded(served)
    log = folder / "logs" / log_name(mine)

    assert log.name == f"{hashlib.sha256(mine.encode()).hexdigest()[:32]}.jsonl"
    assert log.read_text().splitlines() == fetched(served, mine)

    # what ends a line of text is no end of a line of the log
    for session in ("sess\u2028000001", "sess-000001"):
        refused = served.post(
            "/v1/orders/ord-000009/cancel",
            {"session_id": session, "account_id": "acct-000001"},
            mine,
        )
        assert refused.status == 404

    assert "COMMAND_REFUSED" in log.read_text().splitlines()[-1]

    served.send("DELETE", f"/workspaces/{mine}")
    code, printed = replay(
        capsys, log, "--rerun", "--data", folder / "data", "--rules", folder / "rules.yaml"
    )

    assert code == 0, printed

    lines = len(log.read_bytes().splitlines())

    for phrase in (
        f"{lines} lines follow from each other",
        "1 account, 1 session, 1 order, 1 trade",
        "acct-000001: cash ",
        "STOCK:AVLN 10",
    ):
        assert phrase in printed

    assert printed.endswith("the same, byte for byte\n")
    assert not list((folder / "logs").glob(log_name(served.open()))), (
        "a workspace that did nothing leaves no file"
    )


def test_a_log_continues_after_its_last_whole_line_when_the_disk_was_full(
    folder: Path, tmp_path: Path
) -> None:
    workspaces = Workspaces(open_dataset(folder / "data"), WorkspaceLimits(), lambda: 0.0, tmp_path)
    workspace_id = workspaces.open()
    held = workspaces.find(workspace_id)
    account = {"account_type": "MARGIN", "initial_cash": 20_000}
    catalogue().call(held.workspace, "PMB.account.create", account)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))

    try:
        with pytest.raises(ServiceError, match="can't write its log"):
            held.save_log()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    catalogue().call(held.workspace, "PMB.account.create", account)
    for _ in range(2):
        held.save_log()
        assert (
            tuple((tmp_path / log_name(workspace_id)).read_text().splitlines())
            == held.workspace.broker.log.to_lines()
        )

    (tmp_path / log_name(workspace_id)).unlink()
    catalogue().call(held.workspace, "PMB.account.create", account)
    held.save_log()
    lines = (tmp_path / log_name(workspace_id)).read_text().splitlines()

    assert tuple(lines) == held.workspace.broker.log.to_lines()[-len(lines) :], (
        "a file that was taken away begins anew"
    )


@pytest.mark.slow
def test_a_log_that_was_tampered_with_is_refused_with_the_lines_number(
    served: Served, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = fetched(served, traded(served))
    trade = next(
        number
        for number, line in enumerate(lines)
        if '"type":"TRADE' in line or '"type":"ORDER_FILLED' in line
    )
    account = next(number for number, line in enumerate(lines) if '"type":"account.create"' in line)
    cheaper = [
        line.replace('"price_e4":', '"price_e4":1') if number == trade else line
        for number, line in enumerate(lines)
    ]
    richer = [line.replace('"initial_cash":20000', '"initial_cash":90000') for line in lines]
    borrower = [line.replace('"account_type":"CASH"', '"account_type":"MARGIN"') for line in lines]

    assert cheaper != lines
    assert richer != lines

    def forged(changed: list[str]) -> list[str]:
        return chained([json.loads(line) for line in changed])

    log = tmp_path / "log.jsonl"
    rules = ("--rules", folder / "rules.yaml")
    rerun = ("--rerun", "--data", folder / "data")

    for changed, words, number in (
        (cheaper, (), trade + 1),
        (forged(cheaper), rerun, trade + 1),
        (forged(richer), rules, account + 1),
        (forged(richer), rerun, account + 2),
        (forged(borrower), rules, account + 2),
        ([*lines[:3], *lines[4:]], (), 4),
    ):
        log.write_text("\n".join(changed))
        code, printed = replay(capsys, log, *words)
        assert code in (1, 2), printed
        assert f"line {number}" in printed
        assert "Traceback" not in printed

    for name, value in (
        ("data", []),
        ("data", None),
        ("ts_ns", "2025"),
        ("ts_ns", -1),
        ("kind", "note"),
        ("type", 1),
        ("seq", 0.5),
    ):
        log.write_text(
            "\n".join(
                chained(
                    [
                        {**json.loads(line), **({name: value} if not at else {})}
                        for at, line in enumerate(lines)
                    ]
                )
            )
        )
        code, printed = replay(capsys, log, *rerun)
        assert (code, printed.count("\n")) == (2, 1), printed
        assert (
            "line 1: expected one JSON object with seq, ts_ns, kind, type, data and hash" in printed
        )

    log.write_text("\n".join(lines).replace('"CASH"', '"\\ud800"'))

    assert replay(capsys, log)[1].startswith(
        f"ktdeval: error: broker log line {account + 1}: expected one JSON object"
    )


@pytest.mark.parametrize(
    ("name", "message"), [("none", "can't read"), ("pipe", "is not a plain file but a pipe")]
)
def test_a_log_that_can_not_be_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, printed = replay(capsys, tmp_path / name)
    assert (code, printed.count("\n")) == (2, 1), printed
    assert message in printed


@on_each_row(
    "text, named",
    ("fees: {stock_per_share_e4: -1}", "fees.stock_per_share_e4"),
    ("fees: {stock_per_share_e4: cheap}", "fees.stock_per_share_e4"),
    ("fills: {slip: 1}", "slip"),
    ("accounts: {cash: 0}", "accounts.cash"),
    ("accounts: {types: [RICH]}", "accounts.types"),
    ("tax: 1", "tax"),
    (("fees: {}\nfees: {}"), "fees"),
    ("- 1", "rules.yaml"),
)
def test_rules_that_can_not_be_used_are_named_in_one_line(
    tmp_path: Path, text: str, named: str
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=named) as caught:
        load_rules(path)

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@contextmanager
def bound_to(host: str) -> Iterator[socket.socket]:
    with bind(host, 0) as bound:
        yield bound


# ---- who needs a token


def test_only_a_local_server_needs_no_token_and_the_environments_one_wins() -> None:
    shown: list[str] = []
    for host in ("127.0.0.1", "localhost", *(("::1",) if socket.has_ipv6 else ()), "0.0.0.0"):
        with bound_to(host) as bound:
            security = choose_security(bound, None, {}, shown.append)
            own = choose_security(bound, "MINE", {"MINE": TOKEN}, None)
            assert (
                address_of(bound)
                == f"http://{'[::1]' if ':' in host else bound.getsockname()[0]}:{bound.getsockname()[1]}"
            )

        assert (own.token, own.hosts) == (TOKEN, None)  # behind a proxy the server has other names
        if host == "0.0.0.0":
            assert shown == [security.token]
            assert len(security.token or "") >= 40
        else:
            assert (security.token, host in (security.hosts or ())) == (None, True)


def test_without_a_token_nothing_is_served_elsewhere(terminal: Terminal, folder: Path) -> None:
    line = terminal.refusal(*SERVE, "--host", "0.0.0.0", "--port", 0, "--data", folder / "data")
    assert "a token is needed" in line
    assert "--token-env" in line


@pytest.mark.parametrize(
    "value", [None, "", "short", "with spaces in between", "x" * 513, "geheimnis-mit-ümlaut"]
)
def test_a_variable_without_a_usable_token_is_reported_without_its_value(value: str | None) -> None:
    with (
        bound_to("127.0.0.1") as bound,
        pytest.raises(UsageError, match="--token-env MINE: expected 16 to 512") as caught,
    ):
        choose_security(bound, "MINE", {} if value is None else {"MINE": value}, None)

    assert not value or value not in str(caught.value)


# ---- what can't be begun


def test_a_server_that_cannot_start_is_reported_in_one_line(
    terminal: Terminal, folder: Path, tmp_path: Path
) -> None:
    data = ("--data", folder / "data")
    with bound_to("127.0.0.1") as taken:
        port = taken.getsockname()[1]
        line = terminal.refusal(*SERVE, "--port", port, *data)

    assert (
        f"error: can't listen on 127.0.0.1 port {port}: Address already in use; choose another"
        " --host or --port" in line
    )

    for option, transport in (("--over", "http"), ("--over", "stdio"), ("--transport", "stdio")):
        line = terminal.refusal(*SERVE, option, transport, "--port", 0, "--data", tmp_path / "none")
        assert str(tmp_path / "none") in line

    (tmp_path / "rules.yaml").write_text("fees: {tax: 1}")

    assert "rules.yaml: fees: " in terminal.refusal(
        *SERVE, "--port", 0, *data, "--rules", tmp_path / "rules.yaml"
    )
    assert "--logs" in terminal.refusal(
        *SERVE, "--port", 0, *data, "--logs", tmp_path / "rules.yaml"
    )


@pytest.mark.parametrize("moment", ["soon", "2024-12-31", "2025-03-02"])
def test_a_server_does_not_start_at_a_moment_without_data(
    terminal: Terminal, folder: Path, moment: str
) -> None:
    line = terminal.refusal(*SERVE, "--port", 0, "--data", folder / "data", "--as-of", moment)
    assert "--as-of: expected a moment" in line


@pytest.mark.parametrize(
    "host",
    ["203.0.113.7", "no.such.host.invalid", pytest.param("a" * 300, id="a name of 300 letters")],
)
def test_a_server_does_not_listen_on_a_host_that_is_not_this_machine(host: str) -> None:
    with pytest.raises(UsageError, match="can't listen on"):
        bind(host, 0)


# ---- the running server


@pytest.mark.exhaustive
def test_it_serves_until_it_is_interrupted_and_shows_its_token_once(
    folder: Path, tmp_path: Path
) -> None:
    """On all addresses of the machine, with stderr at a terminal."""
    mine, theirs = pty.openpty()
    words = [
        "paper",
        "qfinzero",
        "serve",
        "--host",
        "0.0.0.0",
        "--port",
        "0",
        "--data",
        str(folder / "data"),
        "--as-of",
        "2025-01-06",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "ktdeval", *words],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        cwd=tmp_path,
    )

    with process:
        os.close(theirs)
        assert process.stdout is not None
        line = process.stdout.readline()
        port = re.fullmatch(
            r"serving http://0\.0\.0\.0:(\d+) with \S+/openapi\.json and \S+/mcp \(Ctrl-C ends"
            r" it\)\n",
            line,
        )
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
