"""Markets fetched from vendors: against answers in their formats, from a local server or a module
of the library's name.
"""

from __future__ import annotations

import importlib
import json
import signal
import socket
import sys
from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.testing import Terminal, on_each_row
from ktdeval.values import install_command
from ktdeval_data.fetch.assemble_market import _with_factor
from ktdeval_data.fetch.libraries import _BaostockSocket
from ktdeval_data.fetch.vendor_requests import plan, vendors
from ktdeval_data.fetch.vendor_tables import _convert_columns
from support.market.vendor_answers import (
    ALPACA_KEYS,
    COIN_DAYS,
    DAYS,
    SPAN,
    TOKEN,
    VendorServer,
    fetch_words,
    logged,
    recipe_words,
    texts_in,
)
from support.paths import SUPPORT
from support.providers.adapter_server import Prepared, prepared
from support.runs.run_support import start


@pytest.fixture(params=["baostock", "akshare"])
def library(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(SUPPORT / "market" / "vendor_libraries"))
    sys.modules.pop(request.param, None)
    yield importlib.import_module(request.param)
    sys.modules.pop(request.param, None)


def fetch(out: Path, vendor: str, *more: str) -> list[str]:
    request = f"csi300 --from {vendor} {SPAN} --repair accept_member_count"
    return fetch_words(request, out, *more)


def from_server(out: Path, server: VendorServer, *more: str) -> list[str]:
    return fetch(out, "tushare", "--endpoint", server.endpoint, *more)


def more_of(vendor: str, folder: Path) -> tuple[str, ...]:
    path = folder / "members.csv"
    path.write_text(
        "code,in_date,out_date\n000001,2020-01-02,2024-01-30\n600519,2020-01-02,\n688981,2024-01-31,\n"
    )
    return ("--members", str(path)) if vendor == "akshare" else ()


def reference(snapshot: MarketSnapshot) -> dict[str, Any]:
    moutai = snapshot.asset_index["600519.SH"]
    smic = snapshot.asset_index["688981.SH"]
    return {
        "days": tuple(map(str, snapshot.days)),
        "codes": snapshot.codes,
        "bar": [
            float(getattr(snapshot, name)[1, moutai])
            for name in ("open", "high", "low", "close", "volume", "amount")
        ],
        "factor": (snapshot.factor[:, moutai] / snapshot.factor[0, moutai]).round(6).tolist(),
        "halted": np.flatnonzero(np.isnan(snapshot.close[:, smic])).tolist(),
        "benchmark": snapshot.benchmark.tolist(),
        "name": snapshot.names[moutai],
    }


EXPECTED = {
    "days": DAYS,
    "codes": ("000001.SZ", "600519.SH", "688981.SH"),
    "bar": [10.22, 10.31, 10.17, 10.26, 11900.0, 119 * 1022.0],
    "factor": [1.0] * 5 + [1.02] * 4,
    "halted": [3],
    "benchmark": [3300.5 + day for day in range(9)],
    "name": "贵州茅台",
}


@pytest.mark.exhaustive
def test_tushare_gives_a_market_with_dated_members_and_names(
    tmp_path: Path, server: VendorServer, terminal: Terminal
) -> None:
    words = from_server(tmp_path / "m", server)

    # A check alone asks for what the same command without it then finds.
    assert terminal.out(*words, "--check-only").endswith("3 assets, 0 kinds of error\n")
    assert [path.name for path in tmp_path.iterdir()] == ["m.answers"]
    assert len(server.asked) == len({json.dumps(entry) for entry in server.asked}) == 19

    printed = terminal.out(*words)
    snapshot = load_snapshot(tmp_path / "m")

    assert len(server.asked) == 19
    assert f"id {snapshot.id}" in printed
    assert reference(snapshot) == EXPECTED
    assert snapshot.industries == ("银行", "白酒", "半导体")
    assert snapshot.member.sum(axis=0).tolist() == [4, 9, 5]

    # Names have their days; what Tushare repeats counts once.
    called = [snapshot.name_asset(1, row)[1] for row in (4, 5)]
    assert called == ["茅台股份", "贵州茅台"]
    assert [spell.name for spell in snapshot.spells if spell.code == "600519.SH"] == called


@pytest.mark.exhaustive
def test_a_library_gives_the_same_market(
    tmp_path: Path, library: ModuleType, waits: list[float], terminal: Terminal
) -> None:
    vendor = library.__name__
    command = fetch(tmp_path / "m", vendor, *more_of(vendor, tmp_path))

    assert "login" not in terminal.out(*command)

    snapshot = load_snapshot(tmp_path / "m")
    assert reference(snapshot) == EXPECTED

    if vendor == "baostock":
        industries, error, passing = ("银行", "白酒", "半导体"), "10005001", "10002007"
    else:
        industries = ("SWS 48", "SWS 34", "unknown")
        error, passing = KeyboardInterrupt(), ValueError("no page")

    assert snapshot.industries == industries

    # Interrupted at any request, and asked again: equal.
    whole, library.ASKED[:] = len(library.ASKED), []
    again = fetch(tmp_path / "n", vendor, *more_of(vendor, tmp_path))

    for call in (3, 7):
        library.FAULTS[call] = error
        assert main(again) in (2, 130)

    assert main(again) == 0
    assert load_snapshot(tmp_path / "n").id == snapshot.id
    assert len(library.ASKED) == whole + 2

    # A passing fault is asked again.
    library.FAULTS[len(library.ASKED) + 1] = passing
    assert main(fetch(tmp_path / "o", vendor, *more_of(vendor, tmp_path))) == 0
    assert load_snapshot(tmp_path / "o").id == snapshot.id


@pytest.mark.exhaustive
@pytest.mark.parametrize("library", ["baostock"], indirect=True)
def test_baostock_is_asked_again_where_its_library_hides_a_fault(
    tmp_path: Path, library: ModuleType, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A page that does not come looks like the end of the answer: no error, and as many rows as a
    # page has.
    whole, login = library.query_stock_industry, library.login
    answers = []
    logins = []

    def industry(**params: str) -> object:
        answers.append(whole(**params))
        if len(answers) == 1:
            answers[0].data = answers[0].data[:1] * 2000

        return answers[-1]

    monkeypatch.setattr(library, "login", lambda: logins.append(1) or login())
    monkeypatch.setattr(library, "query_stock_industry", industry)

    assert main(fetch(tmp_path / "m", "baostock")) == 0
    assert len(logins) == 2
    assert reference(load_snapshot(tmp_path / "m")) == EXPECTED

    # A closed connection is an error; the library would read nothing for ever.
    ours, theirs = socket.socketpair()
    wrapped = _BaostockSocket(ours)
    theirs.sendall(b"header")

    assert wrapped.recv(100) == b"header"

    theirs.close()

    with pytest.raises(ConnectionError, match="closed by BaoStock"):
        wrapped.recv(100)

    wrapped.close()


@pytest.mark.slow
def test_a_killed_fetch_resumes_and_gives_the_same_snapshot(
    tmp_path: Path, server: VendorServer
) -> None:
    assert main(from_server(tmp_path / "whole", server)) == 0

    whole, server.asked[:] = len(server.asked), []
    server.edit = lambda api, params, reply: None if len(server.asked) == 8 else reply
    known = {"TUSHARE_TOKEN": TOKEN, "NO_PROXY": "127.0.0.1"}
    process = start(*from_server(tmp_path / "cut", server), cwd=tmp_path, environment=known)

    assert server.hanging.wait(60)

    process.signal(signal.SIGKILL)
    process.wait()

    assert not (tmp_path / "cut").exists()

    server.edit = lambda api, params, reply: reply
    assert main(from_server(tmp_path / "cut", server)) == 0
    assert len(server.asked) == whole + 1  # the one that hung is asked twice, every other one once
    assert load_snapshot(tmp_path / "cut").id == load_snapshot(tmp_path / "whole").id


@pytest.mark.exhaustive
def test_rate_limits_are_obeyed_by_waiting(
    tmp_path: Path, server: VendorServer, waits: list[float], terminal: Terminal
) -> None:
    server.faults = {1: (429, {"Retry-After": "7"}), 4: (503, {})}

    limit = "抱歉，您每分钟最多访问该接口200次"
    refused = {"code": 40203, "msg": limit, "data": None}
    server.edit = lambda api, params, reply: refused if len(server.asked) == 8 else reply
    code, _, message = terminal.call(*from_server(tmp_path / "m", server))

    assert (code, len(server.asked)) == (0, 19 + 3)

    long = [seconds for seconds in waits if seconds > 2]
    assert [int(seconds) // 7 for seconds in long] == [1, 8]  # 7 s, 60 s, each with jitter
    assert "waiting 1 min " in message
    assert " s: rate limited, attempt 1 of 9 (tushare " in message
    assert limit in message

    events = [line["event"] for line in logged(tmp_path / "m") if line["event"] != "answered"]
    assert events == ["rate_limited", "overloaded", "rate_limited"]

    # The pace: with one request a minute, almost a minute between two.
    waits.clear()
    assert main([*from_server(tmp_path / "n", server), "--per-minute", "1"]) == 0
    assert max(waits) == pytest.approx(60, abs=15)


@on_each_row(
    "reply, words",
    (
        {"code": 40203, "msg": "抱歉，您每天最多访问该接口5次"},
        "the limit of this hour or day is reached; run the same command later",
    ),
    (
        {"code": 2002, "msg": "抱歉，您没有访问该接口的权限"},
        "the account needs more points for this call",
    ),
    ({"code": 40101, "msg": "您的token不对，请确认。{token}"}, "check TUSHARE_TOKEN"),
    (
        {"code": 0, "data": {"fields": ["ts_code"], "items": [["x"]], "has_more": True}},
        "the answer was cut (has_more) at 1 rows",
    ),
    ({"code": 0, "data": []}, "the answer has no data.fields and data.items"),
    ({"code": 0, "data": {"fields": ["ts_code"]}}, "the answer has no data.fields and data.items"),
    ({"code": 0, "data": {"items": [["x"]]}}, "the answer has no data.fields and data.items"),
    (
        {"code": 0, "data": {"fields": "ts_code", "items": [["x"]]}},
        "the answer has no data.fields and data.items",
    ),
    (
        {"code": 0, "data": {"fields": ["a"], "items": [["x", "y"]]}},
        "not a stored answer (rows and columns differ in length)",
    ),
)
def test_refusals_are_one_line_without_the_token(
    tmp_path: Path,
    server: VendorServer,
    waits: list[float],
    terminal: Terminal,
    reply: dict[str, Any],
    words: str,
) -> None:
    sent = json.loads(json.dumps(reply).replace("{token}", TOKEN))
    server.edit = lambda api, params, whole: sent
    error = terminal.error(*from_server(tmp_path / "m", server))

    assert words in error.splitlines()[-1]
    assert TOKEN not in error + texts_in(tmp_path)


@pytest.mark.exhaustive
def test_the_token_is_nowhere(
    tmp_path: Path, server: VendorServer, waits: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    # Even where a server sends it back in a name, or as the reason of a failure.
    server.change_items(
        lambda items: [[*item[:2], TOKEN, *item[3:]] for item in items], "stock_basic"
    )
    server.faults = {2: (500, {"X-Token": TOKEN})}

    assert main(from_server(tmp_path / "m", server)) == 0

    output = capsys.readouterr()
    assert TOKEN not in output.out + output.err + texts_in(tmp_path)
    assert load_snapshot(tmp_path / "m").names[0] == "[key]"


@pytest.mark.exhaustive
def test_a_renamed_column_is_reported_in_one_line_with_advice(
    tmp_path: Path, server: VendorServer, terminal: Terminal
) -> None:
    def rename(api: str, params: dict[str, str], reply: dict[str, Any]) -> dict[str, Any]:
        reply["data"]["fields"] = [
            "volume" if name == "vol" else name for name in reply["data"]["fields"]
        ]
        return reply

    server.edit = rename
    error = terminal.refusal(*from_server(tmp_path / "m", server))

    assert "tushare daily: the answer has no column 'vol' for bars.volume" in error
    assert "did you mean 'volume'?; say --map bars.volume=COLUMN" in error

    asked = len(server.asked)
    assert main(from_server(tmp_path / "m", server, "--map", "bars.volume=volume")) == 0
    # what was answered is not asked for again
    assert server.asked[asked:].count(server.asked[asked - 1]) == 0
    assert reference(load_snapshot(tmp_path / "m")) == EXPECTED


REQUESTS = {
    "binance": "crypto --from binance --symbols BTC/USDT,ethusdt --accept-gaps",
    "alpaca": "us --from alpaca --symbols AAPL,BRK.B --accept-gaps",
}


def symbols(vendor: str, out: Path, server: VendorServer, *more: str) -> list[str]:
    request = f"{REQUESTS[vendor]} {SPAN}"
    return fetch_words(request, out, "--endpoint", server.endpoint, *more)


def recipe(out: Path, file: Path, endpoint: str = "http://127.0.0.1:1") -> list[str]:
    return recipe_words(file, out, f"endpoint={endpoint}")


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["binance", "alpaca"])
def test_coins_and_us_stocks_resume_and_have_recipes(
    tmp_path: Path,
    server: VendorServer,
    waits: list[float],
    terminal: Terminal,
    capsys: pytest.CaptureFixture[str],
    vendor: str,
) -> None:
    server.faults = {0: (429, {"Retry-After": "3"})}
    assert main(symbols(vendor, tmp_path / "m", server)) == 0
    assert int(max(waits)) in (3, 4)

    snapshot = load_snapshot(tmp_path / "m")
    whole = len(server.asked) - 1

    if vendor == "binance":
        revised_bar = ("amount", COIN_DAYS[2], "BTCUSDT")
        traded = (snapshot.volume[0, 0], snapshot.amount[0, 0])

        assert tuple(map(str, snapshot.days)) == COIN_DAYS
        assert snapshot.codes == ("BTCUSDT", "ETHUSDT")
        assert np.flatnonzero(np.isnan(snapshot.close[:, 1])).tolist() == [4]  # an empty day
        assert (traded, set(snapshot.venues)) == ((1.5e-6, 0.06300075), {"crypto_spot"})
        assert not snapshot.meta.has_factor
    else:
        revised_bar = ("volume", DAYS[2], "AAPL")
        paid = 105.0 / 104.5  # the close before 2024-02-02 is 105
        expected = [1.0] * 3 + [4.0] * 3 + [4 * paid] * 3

        assert (snapshot.codes, set(snapshot.venues)) == (("AAPL", "BRK.B"), {"us_equity"})
        assert snapshot.factor[:, 0] == pytest.approx(expected, abs=1e-9)
        assert (snapshot.factor[:, 1] == 1.0).all()

    assert (snapshot.meta.benchmark, snapshot.currency) == ("", "USD")

    # Interrupted and resumed: equal, and nothing is asked twice.
    server.asked.clear()
    server.faults = {1: (400, {})}

    assert "HTTP 400 Bad Request" in terminal.error(*symbols(vendor, tmp_path / "n", server))
    assert main(symbols(vendor, tmp_path / "n", server)) == 0
    assert load_snapshot(tmp_path / "n").id == snapshot.id
    assert len(server.asked) == whole + 1

    # A recipe makes it again, and names what was revised.
    def revised(api: str, params: dict[str, str], reply: dict[str, Any]) -> dict[str, Any]:
        if "rows" in reply and params["symbol"] == "BTCUSDT":
            reply["rows"][2][7] = "0.07"

        if "AAPL" in reply.get("bars", ()):
            reply["bars"]["AAPL"][2]["v"] += 1

        return reply

    file = tmp_path / "m" / "recipe.yaml"
    assert main(recipe(tmp_path / "again", file, server.endpoint)) == 0

    server.edit = revised
    assert main(recipe(tmp_path / "later", file, server.endpoint)) == 2

    output = capsys.readouterr()
    assert "bars.parquet: {} differs, first on {}, of {};".format(*revised_bar) in output.err

    # Keys are nowhere.
    texts = output.out + output.err + texts_in(tmp_path)
    assert not any(key in texts for key in ALPACA_KEYS)


@pytest.mark.slow
def test_answers_of_another_form_are_one_line(
    tmp_path: Path,
    server: VendorServer,
    waits: list[float],
    monkeypatch: pytest.MonkeyPatch,
    terminal: Terminal,
) -> None:
    unlike = {
        "binance": {"rows": [list(range(11))]},
        "alpaca": {"bars": {"AAPL": [{"t": "2024-01-25T05:00:00Z"}]}},
    }
    said = {
        "binance": "binance api/v3/klines: the answer is not a list of rows of 12 cells",
        "alpaca": "alpaca v2/stocks/bars: the answer has no column 'o' for bars.open",
    }

    for vendor, words in said.items():
        server.edit = lambda api, params, reply, other=unlike[vendor]: (
            other if {"rows", "bars"} & reply.keys() else reply
        )
        assert words in terminal.error(*symbols(vendor, tmp_path / vendor, server)).splitlines()[-1]

    server.edit = lambda api, params, reply: (
        {"bars": None} if params.get("symbols") == "BRK.B" else reply
    )
    error = terminal.error(*symbols("alpaca", tmp_path / "none", server))
    assert "alpaca: no bars of BRK.B from 2024-01-25 to 2024-02-06; leave them out" in error

    wrong = "another-secret-0123456789"
    monkeypatch.setenv("APCA_API_SECRET_KEY", wrong)
    error = terminal.error(*symbols("alpaca", tmp_path / "key", server))

    assert "alpaca v2/stocks/bars: HTTP 403 Forbidden" in error
    assert wrong not in error + texts_in(tmp_path)


@on_each_row(
    "body, words, asked",
    ("<html>Log in to nginx</html>", "answered with an HTML page (Log in to nginx)", 1),
    ({"error": "no such method"}, "no such method", 3),
)
@pytest.mark.parametrize("vendor", ["tushare", "binance", "alpaca"])
def test_a_wrong_endpoint_is_given_up_soon_with_its_words(
    vendor: str,
    body: Any,
    words: str,
    asked: int,
    tmp_path: Path,
    keys: None,
    waits: list[float],
    terminal: Terminal,
) -> None:
    content = body.encode() if isinstance(body, str) else body
    with prepared(Prepared(content), reads=True) as wrong:
        asking = SimpleNamespace(endpoint=wrong.address)
        ask = from_server if vendor == "tushare" else partial(symbols, vendor)
        error = terminal.error(*ask(tmp_path / "m", asking))

    assert words in error.splitlines()[-1]
    assert len(wrong.bodies) == asked


@pytest.mark.parametrize(("vendor", "code"), [("alpaca", "BRK/B"), ("binance", "BTC USDT")])
def test_a_code_that_is_none_of_the_vendor_is_refused(
    vendor: str, code: str, tmp_path: Path, server: VendorServer, terminal: Terminal
) -> None:
    error = terminal.error(*symbols(vendor, tmp_path / "bad", server), "--symbols", code)
    assert "symbols: expected codes such as AAPL or BTCUSDT" in error


@pytest.mark.exhaustive
def test_a_recipe_holds_no_secret_and_names_what_was_revised_or_is_gone(
    tmp_path: Path, server: VendorServer, terminal: Terminal
) -> None:
    assert main(from_server(tmp_path / "m", server)) == 0

    file = tmp_path / "m" / "recipe.yaml"
    text = file.read_text(encoding="utf-8")

    assert TOKEN not in text
    assert server.endpoint not in text
    server.change_items(
        lambda items: [[items[0][0], "平安", *items[0][2:]]], "namechange", ts_code="000001.SZ"
    )
    error = terminal.error(*recipe(tmp_path / "later", file, server.endpoint))
    assert "names.parquet: names differs, of 000001.SZ;" in error
    assert not (tmp_path / "later").exists()

    server.change_items(
        lambda items: [
            item for item in items if "688981.SH" not in item[:2] and item[1] != "20240206"
        ],
        "index_weight",
        "daily",
    )
    error = terminal.error(*recipe(tmp_path / "gone", file, server.endpoint))
    assert "bars.parquet: day 2024-02-06 is absent" in error
    assert "assets.parquet: code 688981.SH is absent" in error


@on_each_row(
    "edit, words",
    (["recipe: 1", "recipe: 2"], "recipe of version 2, expected 1; upgrade ktdeval"),
    (
        ["  vendor:", ("  endpoint: http://127.0.0.1:1\n  vendor:")],
        "query.endpoint must be set by the user, not by a recipe",
    ),
    (
        ["market: csi300", "market: synthetic"],
        (
            "'synthetic' was not fetched from a vendor; `ktdeval data` lists the providers "
            "that fetch data"
        ),
    ),
    (["market: csi300", "market: csi301"], "csi301"),
    (["snapshot:", "snap:"], "unknown field 'snap'"),
)
def test_a_bad_recipe_is_refused_before_anything_is_asked(
    tmp_path: Path, terminal: Terminal, edit: tuple[str, str], words: str
) -> None:
    text = (
        "recipe: 1\nmarket: csi300\nquery:\n  vendor: tushare\nsnapshot: ab\nday_fields: []\ndays:"
        " {}\ncode_fields: []\ncodes: {}\n"
    )
    file = tmp_path / "recipe.yaml"
    file.write_text(text.replace(*edit))

    assert words in terminal.refusal(*recipe(tmp_path / "m", file))


# FETCH gets the days of csi300 into m, from the vendor that follows.
@on_each_row(
    "words, expected",
    ("FETCH tushare", "tushare: no key; set TUSHARE_TOKEN to yours"),
    ("FETCH akshare", "akshare has no past membership; give --members FILE"),
    ("FETCH tushare --last 2999-01-01", "--last: 2999-01-01 is not over yet; choose "),
    (
        "FETCH tushare --first 2024-13-01",
        "--first: '2024-13-01' is not a date; write it as 2024-01-02",
    ),
    ("FETCH tushare --first 2024-03-01", "first: 2024-03-01 lies after last, 2024-02-06"),
    (
        "FETCH tushare --map bars.volum=v",
        "--map: 'bars.volum' is not a field; did you mean 'bars.volume' or",
    ),
    ("data make --recipe r.yaml", "name the folder to write: --out DIR"),
    (
        "data make --recipe r.yaml --out m --check-only",
        "--recipe takes only --out DIR, and --set for what a recipe omits",
    ),
    (
        "data make --recipe r.yaml csi300 --from tushare --out m",
        "--recipe already names its market",
    ),
    (
        "data make csi300 --from tushare --first 2024-01-25 --last 2024-02-06 --check-only",
        "no folder for the vendor's answers; give --answers DIR",
    ),
)
def test_bad_requests_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal, words: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUSHARE_TOKEN", raising=False)

    fetched = f"data make csi300 {SPAN} --out m --from"
    assert expected in terminal.refusal(*words.replace("FETCH", fetched).split())


@pytest.mark.parametrize(
    ("vendor", "market"),
    [("baostock", "csi300"), ("akshare", "csi300"), ("yfinance", "us"), ("ccxt", "crypto")],
)
def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal, vendor: str, market: str
) -> None:
    monkeypatch.setitem(sys.modules, vendor, None)
    more = more_of(vendor, tmp_path) if market == "csi300" else ("--symbols", "A")
    request = f"{market} --from {vendor} {SPAN}"
    error = terminal.error(*fetch_words(request, tmp_path / "m", *more))
    assert error == f"ktdeval: error: {vendor} is not installed; {install_command(vendor)}\n"


def test_requests_are_planned_in_spans_that_vendors_answer_whole() -> None:
    def planned(vendor: str, table: str, code: str, *days: date) -> list[dict[str, str]]:
        known = vendors()[vendor]
        return [request.params for request in plan(known, known.tables[table], [code], *days)]

    bars = planned("tushare", "bars", "600519.SH", date(2012, 2, 29), date(2024, 1, 5))
    assert [(params["start_date"], params["end_date"]) for params in bars] == [
        ("20120229", "20170228"),
        ("20170301", "20220228"),
        ("20220301", "20240105"),
    ]

    months = planned("tushare", "members", "000300.SH", date(2023, 12, 5), date(2024, 1, 3))
    starts = ["20231101", "20231201", "20240101"]
    last = {"index_code": "000300.SH", "start_date": starts[-1], "end_date": "20240103"}

    assert [params["start_date"] for params in months] == starts
    assert months[-1] == last

    weeks = planned("baostock", "members", "000300.SH", date(2024, 1, 1), date(2024, 1, 9))
    assert [params["date"] for params in weeks] == ["2024-01-01", "2024-01-08"]

    klines = planned("binance", "bars", "BTCUSDT", date(2021, 1, 1), date(2023, 1, 1))
    days = [(int(params["startTime"]), int(params["endTime"])) for params in klines]
    day = 86_400_000

    assert days == [(1609459200000 - day, 1672531199999), (1672531200000 - day, 1672617599999)]
    assert (days[0][1] + 1 - days[0][0]) // day == 731  # rows of an answer, which has at most 1,000


def test_whether_an_asset_traded_is_a_flag_and_anything_else_is_one_line() -> None:
    table = vendors()["baostock"].tables["bars"]
    flags = pd.DataFrame(
        {"code": ["sh.600519"] * 3, "close": ["1.5", "2", ""], "traded": ["1", "0", "1"]}
    )
    typed = _convert_columns(flags.copy(), table, "here")

    assert typed["traded"].tolist() == [True, False, True]
    assert typed["traded"].dtype == bool

    with pytest.raises(DataError, match="here: traded"):
        _convert_columns(flags.assign(traded="perhaps"), table, "here")


@pytest.mark.parametrize("sparse", [True, False])
def test_two_factors_of_one_day_that_differ_are_refused_with_both(sparse: bool) -> None:
    bars = pd.DataFrame({"date": pd.to_datetime(["2024-01-02"]), "code": "600519.SH"})
    factors = pd.concat([bars.assign(factor=1.5), bars.assign(factor=2.0)])
    with pytest.raises(
        DataError,
        match=r"600519.SH 2024-01-02 has 1.5 and 2: the vendor's answers contradict each other",
    ):
        _with_factor(bars, factors, sparse)
