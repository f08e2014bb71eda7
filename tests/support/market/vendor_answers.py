"""Answers of data vendors, made by hand in their own formats, of one little market: three stocks,
nine days, one ex-date, one halt.

600519 pays on 2024-02-01; 688981 is halted on 2024-01-30 and takes the place of 000001 in the index
(Tushare lists month ends).
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ktdeval.testing import AnsweringHandler, running_server

FIRST = "2024-01-25"
LAST = "2024-02-06"
SPAN = f"--first {FIRST} --last {LAST}"
COIN_DAYS = tuple(str(date(2024, 1, 25) + timedelta(days=index)) for index in range(13))
DAYS = tuple(day for day in COIN_DAYS if date.fromisoformat(day).weekday() < 5)
NAMES = {"000001": "平安银行", "600519": "贵州茅台", "688981": "中芯国际"}
EXCHANGE = {"000001": "SZ", "600519": "SH", "688981": "SH"}
INDUSTRY = {"000001": "银行", "600519": "白酒", "688981": "半导体"}
HALT = ("688981", "2024-01-30")
EX_DAY = "2024-02-01"
TOKEN = "0123456789abcdef-secret-token"


def lots(digits: str, day: str) -> int:
    """Volume in lots."""
    return 100 + DAYS.index(day) * 10 + int(digits[-1])


def cents(digits: str, day: str) -> int:
    """Opening price in fen."""
    return 1000 + int(digits[-2:]) + DAYS.index(day) * 3


def bars(
    digits: str, first: str, last: str
) -> Iterator[tuple[str, float, float, float, float, int, float]]:
    """day, open, high, low, close, lots, amount in CNY."""
    for day in DAYS:
        if first <= day <= last and (digits, day) != HALT:
            start = cents(digits, day)
            volume = lots(digits, day)
            yield (
                day,
                start / 100,
                (start + 9) / 100,
                (start - 5) / 100,
                (start + 4) / 100,
                volume,
                volume * start,
            )


def factor(digits: str, day: str) -> float:
    """Back adjustment factor."""
    return 7.65 if digits == "600519" and day >= EX_DAY else 7.5 if digits == "600519" else 1.0


def members(day: str) -> tuple[str, ...]:
    """Codes in the index."""
    return ("000001", "600519") if day < "2024-01-31" else ("600519", "688981")


def dashed(day: str) -> str:
    return f"{day[:4]}-{day[4:6]}-{day[6:]}"


def tushare(api: str, params: dict[str, str]) -> tuple[list[str], list[list[Any]]]:
    """Fields and items, newest day first, as Tushare Pro gives them."""
    digits = params.get("ts_code", "")[:6]
    first = dashed(params.get("start_date", "19900101"))
    last = dashed(params.get("end_date", "20991231"))

    if api == "index_weight":
        lists = [day for day in ("2023-12-29", "2024-01-31") if first <= day <= last]
        items = []
        for day in lists:
            for code in members(day):
                items.append(["000300.SH", f"{code}.{EXCHANGE[code]}", day.replace("-", ""), 0.5])

        return ["index_code", "con_code", "trade_date", "weight"], items

    if api == "daily":
        fields = "ts_code trade_date open high low close pre_close change pct_chg vol amount"
        items = []
        for day, *prices, volume, amount in bars(digits, first, last):
            moves = (10.0, 0.0, 0.0)
            stamp = day.replace("-", "")
            items.append([params["ts_code"], stamp, *prices, *moves, volume, amount / 1000])

        return fields.split(), items[::-1]

    if api == "adj_factor":
        items = [
            [params["ts_code"], day.replace("-", ""), factor(digits, day)]
            for day in DAYS
            if first <= day <= last
        ]
        return ["ts_code", "trade_date", "adj_factor"], items[::-1]

    if api == "namechange":
        fields = "ts_code name start_date end_date ann_date change_reason"
        return fields.split(), namechanges(params["ts_code"])

    if api == "stock_basic":
        fields = "ts_code symbol name area industry market list_date"
        end = {"SSE": "SH", "SZSE": "SZ"}[params["exchange"]]
        codes = [code for code in NAMES if EXCHANGE[code] == end and params["list_status"] == "L"]
        items = []
        for code in codes:
            place = ("上海", INDUSTRY[code], "主板", "20010827")
            items.append([f"{code}.{end}", code, NAMES[code], *place])

        return fields.split(), items

    assert (api, params["ts_code"]) == ("index_daily", "000300.SH")

    items = [
        ["000300.SH", day.replace("-", ""), level(day), 3300.0]
        for day in DAYS
        if first <= day <= last
    ]

    return ["ts_code", "trade_date", "close", "open"], items[::-1]


def level(day: str) -> float:
    """Level of the index."""
    return 3300.5 + DAYS.index(day)


def namechanges(code: str) -> list[list[Any]]:
    """Names with days, the newest first; Tushare repeats changes that were announced twice."""
    name = NAMES[code[:6]]
    if code != "600519.SH":
        return [[code, name, "20010827", None, None, "其他"]]

    newer = [code, name, "20240201", None, "20240131", "改名"]

    return [
        newer,
        [*newer[:4], "20240130", "改名"],
        [code, "茅台股份", "20010827", "20240131", None, "其他"],
    ]


Edit = Callable[[str, dict[str, str], dict[str, Any]], dict[str, Any] | None]
"""Changes a reply of Tushare's: of api and params; None leaves the request without an answer."""


def kline(opened: int, *cells: str) -> list[Any]:
    """A row of a day that begins at a millisecond: prices, volume and, at last, amount."""
    *bar, amount = cells
    return [opened, *bar, opened + 86_399_999, amount, 3, "0.1", "0.2", "0"]


def binance(params: dict[str, str]) -> list[list[Any]]:
    """Rows of klines: twelve cells, prices as texts, times in milliseconds of UTC; ETHUSDT has none
    on 2024-01-29.
    """
    rows = []

    for index, day in enumerate(COIN_DAYS):
        opened = int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp() * 1000)
        if int(params["startTime"]) <= opened <= int(params["endTime"]) and (
            params["symbol"],
            day,
        ) != ("ETHUSDT", "2024-01-29"):
            levels = (42000.5, 42100, 41900, 42000.5)
            prices = [f"{level + index:.8f}" for level in levels]
            rows.append(kline(opened, *prices, "0.00000150", "0.06300075"))

    return rows[: int(params["limit"])]


ALPACA_KEYS = ("PKTESTKEY0123456789", "alpaca-secret-0123456789abcdef")


def alpaca(path: str, params: dict[str, str]) -> dict[str, Any]:
    """Bars of a symbol, stamped at midnight of New York, or its corporate actions: AAPL 4:1 and a
    dividend of 0.5.
    """
    symbol = params["symbols"]

    if path == "/v1/corporate-actions":
        split = {"id": "s", "symbol": "AAPL", "new_rate": 4, "old_rate": 1}
        split |= dict.fromkeys(("ex_date", "process_date"), "2024-01-30")
        paid = {"id": "d", "symbol": "AAPL", "rate": 0.5, "special": False}
        paid |= {"ex_date": "2024-02-02", "payable_date": "2024-02-15"}
        actions = {"forward_splits": [split], "cash_dividends": [paid]}
        return {"corporate_actions": actions if symbol == "AAPL" else {}}

    bars = []
    for index, day in enumerate(DAYS):
        price = (
            (400.0 if day < "2024-01-30" else 100.0) + index if symbol == "AAPL" else 50.0 + index
        )
        prices = {"o": price, "h": price + 1, "l": price - 1, "c": price, "vw": price}
        bar = {"t": f"{day}T05:00:00Z", **prices, "v": 1000 + index, "n": 9}
        bars += [bar] if params["start"] <= bar["t"] <= params["end"] else []

    return {"bars": {symbol: bars}, "next_page_token": None}


class VendorServer(ThreadingHTTPServer):
    """A local Tushare Pro, Binance and Alpaca. `faults`: number of a request -> (status, headers)
    in place of its answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), VendorHandler)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.faults: dict[int, tuple[int, dict[str, str]]] = {}
        self.edit: Edit = lambda api, params, reply: reply
        self.hanging = threading.Event()
        self.endpoint = f"http://127.0.0.1:{self.server_port}"

    def change_items(self, change: Callable[[Any], Any], *calls: str, **params: str) -> None:
        """Answer some calls of Tushare's with other items, if their parameters are these."""

        def edit(call: str, given: dict[str, str], reply: dict[str, Any]) -> dict[str, Any]:
            if call in calls and params.items() <= given.items():
                reply["data"]["items"] = change(reply["data"]["items"])

            return reply

        self.edit = edit


class VendorHandler(AnsweringHandler):
    server: VendorServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        index = len(self.server.asked)
        self.server.asked.append((body["api_name"], body["params"]))
        reply: dict[str, Any] = {"request_id": "0f1e", "code": 0, "msg": "", "data": None}

        if body["token"] != TOKEN:
            reply |= {"code": 40101, "msg": f"您的token不对，请确认。{body['token']}"}
        else:
            fields, items = tushare(body["api_name"], body["params"])
            reply["data"] = {"fields": fields, "items": items, "has_more": False}

        self._send(self.server.edit(body["api_name"], body["params"], reply), index)

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        params = dict(parse_qsl(address.query))
        index = len(self.server.asked)
        self.server.asked.append((address.path, params))

        if address.path == "/api/v3/exchangeInfo":
            quote = next(end for end in ("USDT", "EUR", "BTC") if params["symbol"].endswith(end))
            pair = {"symbol": params["symbol"], "status": "TRADING", "quoteAsset": quote}
            reply = {"timezone": "UTC", "symbols": [pair]}
        elif address.path == "/api/v3/klines":
            reply = {"rows": binance(params)}
        elif (self.headers["APCA-API-KEY-ID"], self.headers["APCA-API-SECRET-KEY"]) != ALPACA_KEYS:
            self.server.faults[index] = (403, {})
            reply = {"message": f"forbidden {self.headers['APCA-API-SECRET-KEY']}"}
        else:
            reply = alpaca(address.path, params)

        self._send(self.server.edit(address.path, params, reply), index)

    def _send(self, reply: dict[str, Any] | None, index: int) -> None:
        status, headers = self.server.faults.get(index, (200, {}))
        if reply is None:
            self.server.hanging.set()
            threading.Event().wait(20)
            return

        content = (
            json.dumps(reply.get("rows", reply)).encode()
            if status in (200, 403)
            else b"<html>Too Many Requests</html>"
        )
        self.answer(content, status, headers)


@contextmanager
def vendor_server() -> Iterator[VendorServer]:
    """Run a local Tushare Pro."""
    server = VendorServer()
    with running_server(server):
        yield server


def fetch_words(request: str, out: Path, *more: str) -> list[str]:
    """The command of a request such as `us --from alpaca`, without pauses."""
    words = ["data", "make", *request.split(), "--per-minute", "100000", "--out", str(out)]
    return [*words, *more]


def recipe_words(made: Path, out: Path, *settings: str) -> list[str]:
    """The command that makes a fetched market again by its recipe, without pauses."""
    given = ",".join(["per_minute=100000", *settings])
    return ["data", "make", "--recipe", str(made), "--out", str(out), "--set", given]


def logged(out: Path) -> list[dict[str, Any]]:
    """What the log of the answers of a market says."""
    lines = (out.with_suffix(".answers") / "log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def texts_in(folder: Path) -> str:
    """All that any file of a folder says."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def forget(package: str) -> None:
    """Let the next import of a vendor's package read it again."""
    for module in [each for each in sys.modules if each.split(".")[0] == package]:
        del sys.modules[module]
