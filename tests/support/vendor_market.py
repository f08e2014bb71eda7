"""Answers of Yahoo's charts and of a crypto exchange (Bitstamp), in their formats, of the markets in `vendor_answers`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from vendor_answers import COIN_DAYS, DAYS, VendorHandler, VendorServer, vendor_server

LATER = ("2024-03-01", "2024-03-04")  #: after the range that is asked for; AAPL splits 2:1 on the first
SPLITS = {"2024-01-30": 4, "2024-03-01": 2}
EX_DAY, PAID = "2024-02-02", 0.5


def traded(symbol: str, day: str) -> tuple[float, int]:
    """Price and volume of a day as they traded."""
    index = (*DAYS, *LATER).index(day)
    level = 50.0 if symbol != "AAPL" else 400.0 if day < "2024-01-30" else 100.0 if day < LATER[0] else 50.0
    return level + index, 1000 + index


def seconds(day: str, clock: str) -> int:
    return int(datetime.fromisoformat(f"{day}T{clock}:00+00:00").timestamp())


def chart(symbol: str, params: dict[str, str]) -> dict[str, Any]:
    """Yahoo's chart: prices, volumes and dividends of today's shares, in single precision; BRK-B has an empty day."""
    if symbol not in ("AAPL", "BRK-B"):
        error = {"code": "Not Found", "description": "No data found, symbol may be delisted"}
        return {"chart": {"result": None, "error": error}}
    stamps, quote, events = [], {name: [] for name in ("open", "high", "low", "close", "volume")}, {"dividends": {}, "splits": {}}
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
            split = {"date": stamp, "numerator": SPLITS[day], "denominator": 1, "splitRatio": f"{SPLITS[day]}:1"}
            events["splits"][str(stamp)] = split
        if (symbol, day) == ("AAPL", EX_DAY):
            events["dividends"][str(stamp)] = {"amount": PAID / divide, "date": stamp}
    meta = {
        "currency": "USD",
        "symbol": symbol,
        "instrumentType": "EQUITY",
        "regularMarketTime": seconds(LATER[-1], "21:00"),
        "gmtoffset": -18000,
        "timezone": "EST",
        "exchangeTimezoneName": "America/New_York",
        "regularMarketPrice": 60.0,
        "priceHint": 2,
        "currentTradingPeriod": {
            name: {"timezone": "EST", "start": 0, "end": 0, "gmtoffset": -18000} for name in ("pre", "regular", "post")
        },
        "dataGranularity": "1d",
        "range": "",
        "validRanges": ["1d", "5d", "1mo", "max"],
    }
    indicators = {"quote": [quote], "adjclose": [{"adjclose": quote["close"]}]}
    result = {"meta": meta, "timestamp": stamps, "events": {name: entries for name, entries in events.items() if entries}}
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
        future = {"payoff_type": "Linear", "contract_size": "1.00000000", "maximum_order_value": "5", "maximum_order_amount": "1"}
        rows.append(row if kind == "SPOT" else {**row, **future})
    return rows


def ohlc(pair: str, params: dict[str, str]) -> dict[str, Any]:
    """Bitstamp's bars from a time on, whatever the end asked for; ETH has none on 2024-01-29."""
    rows = []
    for index, day in enumerate(COIN_DAYS):
        if seconds(day, "00:00") >= int(params["start"]) and (pair, day) != ("ethusd", "2024-01-29"):
            price = f"{42000.5 + index}"
            row = {"timestamp": str(seconds(day, "00:00")), "open": price, "high": "42100", "low": "41900", "close": price}
            rows.append({**row, "volume": "0.00000150"})
    return {"data": {"pair": pair.upper(), "ohlc": rows[: int(params["limit"])]}}


class _Handler(VendorHandler):
    """`range=1d`, by which yfinance asks for a time zone, and lists of pairs are no requests of ours: they are not in `asked`."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        params, parts = dict(parse_qsl(address.query)), address.path.strip("/").split("/")
        if parts[1] == "markets":
            self._send({"rows": markets()}, -1)
        elif "range" in params:
            self._send(chart(parts[-1], params), -1)
        else:
            index = len(self.server.asked)
            self.server.asked.append((parts[-1], params))
            reply = chart(parts[-1], params) if parts[0] == "v8" else ohlc(parts[-1], params)
            self._send(self.server.edit(parts[-1], params, reply), index)


@contextmanager
def market_server() -> Iterator[VendorServer]:
    """Run a local Yahoo and Bitstamp."""
    with vendor_server() as server:
        server.RequestHandlerClass = _Handler
        yield server
