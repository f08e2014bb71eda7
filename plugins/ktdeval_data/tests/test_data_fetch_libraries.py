"""Markets fetched by yfinance and ccxt: by the libraries where they are installed, and always by
modules of their names that do what is used of them; from a local server with Yahoo's charts and a
crypto exchange (Bitstamp), of the markets in `vendor_answers`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from ktdeval.cli.main import main
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.testing import Terminal
from ktdeval_data.fetch.vendor_requests import plan, vendors
from support.market.vendor_answers import (
    COIN_DAYS,
    DAYS,
    FIRST,
    LAST,
    VendorHandler,
    VendorServer,
    fetch_words,
    forget,
    logged,
    recipe_words,
    vendor_server,
)
from support.paths import SUPPORT

#: after the range that is asked for; AAPL splits 2:1 on the first
LATER = ("2024-03-01", "2024-03-04")
SPLITS = {"2024-01-30": 4, "2024-03-01": 2}
EX_DAY = "2024-02-02"
PAID = 0.5
NO_DATA = {"code": "Not Found", "description": "No data found, symbol may be delisted"}


def traded(symbol: str, day: str) -> tuple[float, int]:
    """Price and volume of a day as they traded."""
    index = (*DAYS, *LATER).index(day)
    level = 50.0
    if symbol == "AAPL" and day < LATER[0]:
        level = 400.0 if day < "2024-01-30" else 100.0

    return level + index, 1000 + index


def seconds(day: str, clock: str) -> int:
    return int(datetime.fromisoformat(f"{day}T{clock}:00+00:00").timestamp())


def chart(symbol: str, params: dict[str, str]) -> dict[str, Any]:
    """Yahoo's chart: prices, volumes and dividends of today's shares, in single precision; BRK-B
    has an empty day.
    """
    if symbol not in ("AAPL", "BRK-B"):
        return {"chart": {"result": None, "error": NO_DATA}}

    stamps = []
    quote = {name: [] for name in ("open", "high", "low", "close", "volume")}
    events = {"dividends": {}, "splits": {}}

    for day in (*DAYS, *LATER) if "period1" in params else ():
        stamp = seconds(day, "14:30")
        if not int(params["period1"]) <= stamp < int(params["period2"]):
            continue

        after = [ratio for ex_day, ratio in SPLITS.items() if ex_day > day and symbol == "AAPL"]
        divide = int(np.prod(after))
        price, volume = traded(symbol, day)
        stamps.append(stamp)
        for name, shift in (("open", 0), ("high", 1), ("low", -1), ("close", 0)):
            quote[name].append(float(np.float32((price + shift) / divide)))

        quote["volume"].append(volume * divide)
        if (symbol, day) == ("BRK-B", "2024-01-29"):
            for values in quote.values():
                values[-1] = None

        if symbol == "AAPL" and day in SPLITS:
            split = {"date": stamp, "numerator": SPLITS[day], "denominator": 1}
            events["splits"][str(stamp)] = {**split, "splitRatio": f"{SPLITS[day]}:1"}

        if (symbol, day) == ("AAPL", EX_DAY):
            events["dividends"][str(stamp)] = {"amount": PAID / divide, "date": stamp}

    zone = {"timezone": "EST", "gmtoffset": -18000}
    meta = {
        **zone,
        "currency": "USD",
        "symbol": symbol,
        "instrumentType": "EQUITY",
        "regularMarketTime": seconds(LATER[-1], "21:00"),
        "exchangeTimezoneName": "America/New_York",
        "regularMarketPrice": 60.0,
        "priceHint": 2,
        "currentTradingPeriod": {
            name: {**zone, "start": 0, "end": 0} for name in ("pre", "regular", "post")
        },
        "dataGranularity": "1d",
        "range": "",
        "validRanges": ["1d", "5d", "1mo", "max"],
    }
    indicators = {"quote": [quote], "adjclose": [{"adjclose": quote["close"]}]}
    result = {
        "meta": meta,
        "timestamp": stamps,
        "events": {name: entries for name, entries in events.items() if entries},
    }

    return {"chart": {"result": [{**result, "indicators": indicators}], "error": None}}


def markets() -> list[dict[str, Any]]:
    """Bitstamp's pairs; a perpetual future has the same coins as a spot pair."""
    rows = []
    for base, kind in (("BTC", "SPOT"), ("ETH", "SPOT"), ("BTC", "PERPETUAL")):
        name = f"{base}/USD{'-PERP' if kind != 'SPOT' else ''}"
        row = {
            "name": name,
            "market_symbol": name.replace("/", "").lower(),
            "base_currency": base,
            "base_decimals": 8,
            "counter_currency": "USD",
            "counter_decimals": 0,
            "minimum_order_value": "10",
            "trading": "Enabled",
            "instant_order_counter_decimals": 2,
            "instant_and_market_orders": "Enabled",
            "description": f"{base} / U.S. dollar",
            "market_type": kind,
        }
        future = {
            "payoff_type": "Linear",
            "contract_size": "1.00000000",
            "maximum_order_value": "5",
            "maximum_order_amount": "1",
        }
        rows.append(row if kind == "SPOT" else {**row, **future})

    return rows


def ohlc(pair: str, params: dict[str, str]) -> dict[str, Any]:
    """Bitstamp's bars from a time on, whatever the end asked for; ETH has none on 2024-01-29."""
    rows = []
    for index, day in enumerate(COIN_DAYS):
        opened = seconds(day, "00:00")
        if opened >= int(params["start"]) and (pair, day) != ("ethusd", "2024-01-29"):
            price = f"{42000.5 + index}"
            row = {"timestamp": str(opened), "open": price, "high": "42100", "low": "41900"}
            rows.append({**row, "close": price, "volume": "0.00000150"})

    return {"data": {"pair": pair.upper(), "ohlc": rows[: int(params["limit"])]}}


class _Handler(VendorHandler):
    """`range=1d`, by which yfinance asks for a time zone, and lists of pairs are no requests of
    ours: they are not in `asked`.
    """

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        params = dict(parse_qsl(address.query))
        parts = address.path.strip("/").split("/")

        if parts[1] == "markets":
            self._send({"rows": markets()}, -1)
        elif "range" in params:
            self._send(chart(parts[-1], params), -1)
        else:
            index = len(self.server.asked)
            self.server.asked.append((parts[-1], params))
            reply = chart(parts[-1], params) if parts[0] == "v8" else ohlc(parts[-1], params)
            self._send(self.server.edit(parts[-1], params, reply), index)


# ---- tests


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[VendorServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with vendor_server() as running:
        running.RequestHandlerClass = _Handler
        monkeypatch.setenv("VENDOR_SERVER", running.endpoint)
        yield running


@pytest.fixture(params=["yfinance", "ccxt", "true yfinance", "true ccxt"])
def vendor(
    request: pytest.FixtureRequest,
    server: VendorServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[str]:
    name = request.param.removeprefix("true ")
    forget(name)
    if name == request.param:
        monkeypatch.syspath_prepend(str(SUPPORT / "market" / "vendor_libraries"))
    else:
        library = pytest.importorskip(
            name, reason=f"{name} is not installed; its stand-in is tested"
        )
        if name == "yfinance":
            library.set_tz_cache_location(str(tmp_path / "zones"))
            for module in ("base", "scrapers.history"):
                monkeypatch.setattr(
                    importlib.import_module(f"yfinance.{module}"), "_BASE_URL_", server.endpoint
                )

            monkeypatch.setattr(
                library.data.YfData, "_get_cookie_and_crumb", lambda *_, **__: (None, "basic")
            )
        else:
            describe = library.bitstamp.describe
            address = {"urls": {"api": {"public": server.endpoint}}}
            monkeypatch.setattr(
                library.bitstamp, "describe", lambda self: self.deep_extend(describe(self), address)
            )

    yield name
    forget(name)


REQUESTS = {
    "yfinance": f"us --from yfinance --symbols aapl,BRK.B --first {FIRST}",
    "ccxt": "crypto --from ccxt --exchange bitstamp --symbols BTC/USD,ETHUSD --first 2023-10-18",
}


def fetch(vendor: str, out: Path, *more: str) -> list[str]:
    return fetch_words(f"{REQUESTS[vendor]} --last {LAST} --accept-gaps", out, *more)


@pytest.mark.slow
def test_a_library_gives_a_market_that_resumes_and_has_a_recipe(
    tmp_path: Path, server: VendorServer, vendor: str, waits: list[float], terminal: Terminal
) -> None:
    limited = (429, {"Retry-After": "9"})
    # yfinance itself asks once more
    server.faults = {0: limited, 1: limited} if vendor == "yfinance" else {0: limited}

    assert main(fetch(vendor, tmp_path / "m")) == 0
    assert int(max(waits)) in ((60, 61) if vendor == "yfinance" else (9, 10))

    answers = 2 if vendor == "yfinance" else 4
    events = [line["event"] for line in logged(tmp_path / "m")]
    assert events == ["rate_limited", *["answered"] * answers]

    snapshot = load_snapshot(tmp_path / "m")
    assert (snapshot.currency, snapshot.meta.benchmark) == ("USD", "")

    if vendor == "yfinance":
        assert tuple(map(str, snapshot.days)) == DAYS
        assert (snapshot.codes, snapshot.venues) == (("AAPL", "BRK.B"), ("us_equity",) * 2)
        # As they traded, though Yahoo has divided them by two splits, one of them after the last
        # day.
        assert [
            (row[0], volume[0]) for row, volume in zip(snapshot.close, snapshot.volume, strict=True)
        ] == [traded("AAPL", day) for day in DAYS]
        expected = [1.0] * 3 + [4.0] * 3 + [4 * 105 / 104.5] * 3
        assert snapshot.factor[:, 0].tolist() == pytest.approx(expected, abs=1e-7)
        assert snapshot.factor[:, 1].tolist() == [1.0] * 9
        assert np.flatnonzero(np.isnan(snapshot.close[:, 1])).tolist() == [2]  # an empty day
    else:
        assert tuple(map(str, snapshot.days)) == COIN_DAYS
        assert (snapshot.codes, snapshot.venues) == (("BTCUSD", "ETHUSD"), ("crypto_spot",) * 2)
        assert (snapshot.close[1, 0], snapshot.volume[0, 0], snapshot.meta.has_factor) == (
            42001.5,
            1.5e-6,
            False,
        )
        assert np.flatnonzero(np.isnan(snapshot.close[:, 1])).tolist() == [4]
        assert snapshot.meta.source == "bitstamp (ccxt), crypto from 2023-10-18 to 2024-02-06"

    # Interrupted and resumed: equal, and nothing that was answered is asked again.
    whole = len(server.asked) - len(server.faults)
    server.asked.clear()
    server.faults = {}
    server.edit = lambda api, params, reply: (
        {"chart": {"result": None, "error": NO_DATA}} if len(server.asked) == 2 else reply
    )

    if vendor == "ccxt":
        server.faults = {1: (401, {})}

    assert "the same command again to continue, since answers are stored" in terminal.error(
        *fetch(vendor, tmp_path / "n")
    )

    server.edit, server.faults = (lambda api, params, reply: reply), {}
    assert main(fetch(vendor, tmp_path / "n")) == 0
    assert load_snapshot(tmp_path / "n").id == snapshot.id
    assert len(server.asked) == whole + 1
    # A recipe makes it again.
    made_again = recipe_words(tmp_path / "m" / "recipe.yaml", tmp_path / "again")
    assert "equal to the snapshot of" in terminal.out(*made_again)


IMPOSSIBLE = {
    "yfinance": {
        "--symbols NONE": "yfinance history: $NONE: ",
        "--map bars.split=Splits": "no column 'Splits' for bars.split; did you mean 'Stock Splits'",
        "--first 2024-02-03 --last 2024-02-04": "yfinance: no bars of AAPL, BRK.B from 2024-02-03",
    },
    "ccxt": {
        "--symbols BTCUSDT": "ccxt bitstamp: no spot pairs BTCUSDT; did you mean 'BTCUSD'",
        "--exchange bitstmp": "exchange: ccxt does not know 'bitstmp'; did you mean 'bitstamp'",
        "--exchange __doc__": "exchange: ccxt does not know '__doc__'",
        "--map bars.volume=vol": "ccxt fetch_ohlcv: the answer has no column 'vol' for bars.volume",
        "--from binance --exchange kraken": "binance has no choice of exchanges; use --from ccxt",
    },
}


@pytest.mark.exhaustive
def test_what_a_library_can_not_do_is_one_line(
    tmp_path: Path, server: VendorServer, vendor: str, waits: list[float], terminal: Terminal
) -> None:
    for number, (more, words) in enumerate(IMPOSSIBLE[vendor].items()):
        command = fetch(vendor, tmp_path / str(number), *more.split())
        assert words in terminal.refusal(*command)

    # A page that is none is asked for again (ccxt takes one for a page without bars), and a refusal
    # is not.
    server.edit = lambda api, params, reply: {}
    words = "history: " if vendor == "yfinance" else "fetch_ohlcv: no rows for bars from 2023-10-18"
    error = terminal.error(*fetch(vendor, tmp_path / "n")).splitlines()[-1]
    assert error.startswith(f"ktdeval: error: {vendor} {words}")

    if vendor == "ccxt":
        server.asked.clear()
        server.edit, server.faults = (lambda api, params, reply: reply), {0: (401, {})}
        assert "ccxt bitstamp fetch_ohlcv: AuthenticationError: " in terminal.error(
            *fetch(vendor, tmp_path / "o")
        )
        assert len(server.asked) == 1
        server.faults = dict.fromkeys(range(1, 20), (503, {}))
        assert "ccxt bitstamp fetch_ohlcv: ExchangeNotAvailable: " in terminal.error(
            *fetch(vendor, tmp_path / "o")
        )
        assert len(server.asked) == 1 + 9


def test_exchange_request_covers_a_hundred_bars_from_the_day_before() -> None:
    ccxt = vendors()["ccxt"]
    days = (date(2023, 1, 1), date(2023, 4, 11))
    requests = plan(ccxt, ccxt.tables["bars"], ["BTCUSD"], *days, "kraken")
    pages = [request.params for request in requests]
    day = 86_400_000
    first = 1672531200000

    assert [(int(page["since"]), int(page["until"])) for page in pages] == [
        (first - day, first + 99 * day - 1),
        (first + 98 * day, first + 101 * day - 1),
    ]
    assert {page["exchange"] for page in pages} == {"kraken"}
