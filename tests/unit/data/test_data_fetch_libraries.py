"""Markets fetched by yfinance and ccxt, from a local server of their pages: by the libraries where they are installed, and always
by modules of their names that do what is used of them.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from ktdeval.cli.main import main
from ktdeval.market.storage import load_snapshot
from ktdeval_data.fetch.vendor import plan, vendors
from paths import SUPPORT
from terminal import Terminal
from vendor_answers import COIN_DAYS, DAYS, FIRST, LAST, VendorServer
from vendor_market import market_server, traded

NO_DATA = {"code": "Not Found", "description": "No data found"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[VendorServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with market_server() as running:
        monkeypatch.setenv("VENDOR_SERVER", running.endpoint)
        yield running


def forget(name: str) -> None:
    for module in [each for each in sys.modules if each.split(".")[0] == name]:
        del sys.modules[module]


@pytest.fixture(params=["yfinance", "ccxt", "true yfinance", "true ccxt"])
def vendor(request: pytest.FixtureRequest, server: VendorServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    name = request.param.removeprefix("true ")
    forget(name)
    if name == request.param:
        monkeypatch.syspath_prepend(str(SUPPORT / "vendor_libraries"))
    else:
        library = pytest.importorskip(name, reason=f"{name} is not installed; its stand-in is tested")
        if name == "yfinance":
            library.set_tz_cache_location(str(tmp_path / "zones"))
            for module in ("base", "scrapers.history"):
                monkeypatch.setattr(importlib.import_module(f"yfinance.{module}"), "_BASE_URL_", server.endpoint)
            monkeypatch.setattr(library.data.YfData, "_get_cookie_and_crumb", lambda *_, **__: (None, "basic"))
        else:
            describe = library.bitstamp.describe
            address = {"urls": {"api": {"public": server.endpoint}}}
            monkeypatch.setattr(library.bitstamp, "describe", lambda self: self.deep_extend(describe(self), address))
    yield name
    forget(name)


def fetch(vendor: str, out: Path, *more: str) -> list[str]:
    market, first, symbols = {
        "yfinance": ("us", (), "aapl,BRK.B"),
        "ccxt": ("crypto", ("--exchange", "bitstamp"), "BTC/USD,ETHUSD"),
    }[vendor]
    days = ["--first", FIRST if vendor == "yfinance" else "2023-10-18", "--last", LAST]
    words = ["data", "fetch", market, "--from", vendor, *first, "--symbols", symbols, *days, "--out", str(out)]
    return [*words, "--per-minute", "100000", *more]


def recipe(out: Path, file: Path) -> list[str]:
    return ["data", "fetch", "--recipe", str(file), "--out", str(out), "--set", "per_minute=100000"]


def test_a_library_gives_a_market_that_resumes_and_has_a_recipe(
    tmp_path: Path, server: VendorServer, vendor: str, waits: list[float], terminal: Terminal
) -> None:
    limited = (429, {"Retry-After": "9"})
    server.faults = {0: limited, 1: limited} if vendor == "yfinance" else {0: limited}  # yfinance itself asks once more
    assert main(fetch(vendor, tmp_path / "m")) == 0
    assert int(max(waits)) in ((60, 61) if vendor == "yfinance" else (9, 10))
    log = [json.loads(line) for line in (tmp_path / "m.answers" / "log.jsonl").read_text().splitlines()]
    assert [line["event"] for line in log] == ["rate_limited", *["answered"] * (2 if vendor == "yfinance" else 4)]
    snapshot = load_snapshot(tmp_path / "m")
    assert (snapshot.currency, snapshot.meta.benchmark) == ("USD", "")
    if vendor == "yfinance":
        assert tuple(map(str, snapshot.days)) == DAYS
        assert (snapshot.codes, snapshot.venues) == (("AAPL", "BRK.B"), ("us_equity",) * 2)
        # As they traded, though Yahoo has divided them by two splits, one of them after the last day.
        assert [(row[0], volume[0]) for row, volume in zip(snapshot.close, snapshot.volume, strict=True)] == [
            traded("AAPL", day) for day in DAYS
        ]
        expected = [1.0] * 3 + [4.0] * 3 + [4 * 105 / 104.5] * 3
        assert snapshot.factor[:, 0].tolist() == pytest.approx(expected, abs=1e-7)
        assert snapshot.factor[:, 1].tolist() == [1.0] * 9
        assert np.flatnonzero(np.isnan(snapshot.close[:, 1])).tolist() == [2]  # an empty day
    else:
        assert tuple(map(str, snapshot.days)) == COIN_DAYS
        assert (snapshot.codes, snapshot.venues) == (("BTCUSD", "ETHUSD"), ("crypto_spot",) * 2)
        assert (snapshot.close[1, 0], snapshot.volume[0, 0], snapshot.meta.has_factor) == (42001.5, 1.5e-6, False)
        assert np.flatnonzero(np.isnan(snapshot.close[:, 1])).tolist() == [4]
        assert snapshot.meta.source == "bitstamp (ccxt), crypto from 2023-10-18 to 2024-02-06"
    # Interrupted and resumed: equal, and nothing that was answered is asked again.
    whole = len(server.asked) - len(server.faults)
    server.asked.clear()
    server.faults = {}
    server.edit = lambda api, params, reply: {"chart": {"result": None, "error": NO_DATA}} if len(server.asked) == 2 else reply
    if vendor == "ccxt":
        server.faults = {1: (401, {})}
    assert "the same command goes on from here, since answers are kept" in terminal.error(*fetch(vendor, tmp_path / "n"))
    server.edit, server.faults = (lambda api, params, reply: reply), {}
    assert main(fetch(vendor, tmp_path / "n")) == 0
    assert load_snapshot(tmp_path / "n").id == snapshot.id
    assert len(server.asked) == whole + 1
    # A recipe makes it again, and names what was revised.
    assert "equal to the snapshot of" in terminal.out(*recipe(tmp_path / "again", tmp_path / "m" / "recipe.yaml"))
    server.edit = revised
    day, code = (DAYS[1], "AAPL") if vendor == "yfinance" else (COIN_DAYS[3], "BTCUSD")
    error = terminal.error(*recipe(tmp_path / "later", tmp_path / "m" / "recipe.yaml"))
    assert f"bars.parquet: volume differs, first on {day}, of {code};" in error


def revised(api: str, params: dict[str, str], reply: dict) -> dict:
    """A reply with a larger volume in one bar."""
    if api == "AAPL":
        reply["chart"]["result"][0]["indicators"]["quote"][0]["volume"][1] += 80
    if api == "btcusd":
        for row in reply["data"]["ohlc"][2:3]:
            row["volume"] = "7"
    return reply


def test_what_a_library_can_not_do_is_one_line(
    tmp_path: Path, server: VendorServer, vendor: str, waits: list[float], terminal: Terminal
) -> None:
    cases = {
        "yfinance": {
            ("--symbols", "NONE"): "yfinance history: $NONE: ",
            ("--map", "bars.split=Splits"): "the answer has no column 'Splits' for bars.split; did you mean 'Stock Splits'?",
            ("--first", "2024-02-03", "--last", "2024-02-04"): "yfinance: no bars of AAPL, BRK.B from 2024-02-03",
        },
        "ccxt": {
            ("--symbols", "BTCUSDT"): "ccxt bitstamp: no spot pairs BTCUSDT; did you mean 'BTCUSD'",
            ("--exchange", "bitstmp"): "exchange: ccxt knows no 'bitstmp'; did you mean 'bitstamp'",
            ("--exchange", "__doc__"): "exchange: ccxt knows no '__doc__'",
            ("--map", "bars.volume=vol"): "ccxt fetch_ohlcv: the answer has no column 'vol' for bars.volume",
            ("--from", "binance", "--exchange", "kraken"): "exchange: binance has none to choose; say --from ccxt",
        },
    }
    for number, (more, words) in enumerate(cases[vendor].items()):
        assert words in terminal.refusal(*fetch(vendor, tmp_path / str(number)), *more)
    # A page that is none is asked for again (ccxt takes one for a page without bars), and a refusal is not.
    server.edit = lambda api, params, reply: {}
    words = {"yfinance": "yfinance history: ", "ccxt": "ccxt fetch_ohlcv: no rows for bars from 2023-10-18"}[vendor]
    assert terminal.error(*fetch(vendor, tmp_path / "n")).splitlines()[-1].startswith(f"ktdeval: error: {words}")
    if vendor == "ccxt":
        server.asked.clear()
        server.edit, server.faults = (lambda api, params, reply: reply), {0: (401, {})}
        assert "ccxt bitstamp fetch_ohlcv: AuthenticationError: " in terminal.error(*fetch(vendor, tmp_path / "o"))
        assert len(server.asked) == 1
        server.faults = dict.fromkeys(range(1, 20), (503, {}))
        assert "ccxt bitstamp fetch_ohlcv: ExchangeNotAvailable: " in terminal.error(*fetch(vendor, tmp_path / "o"))
        assert len(server.asked) == 1 + 9


def test_pages_of_an_exchange_are_spans_of_a_hundred_days() -> None:
    ccxt = vendors()["ccxt"]
    pages = [
        request.params for request in plan(ccxt, ccxt.tables["bars"], ["BTCUSD"], date(2023, 1, 1), date(2023, 4, 11), "kraken")
    ]
    day = 86_400_000
    first = 1672531200000
    assert [(int(page["since"]), int(page["until"])) for page in pages] == [
        (first, first + 100 * day - 1),
        (first + 100 * day, first + 101 * day - 1),
    ]
    assert {page["exchange"] for page in pages} == {"kraken"}
