"""Stands for the library `yfinance`: what is used of it, as version 1.7 does it, over a local
server of charts.

`test_data_fetch_libraries.py` asks the true library the same where it is installed.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from types import SimpleNamespace
from urllib.parse import urlencode

import pandas as pd

from yfinance import data, exceptions

__all__ = ["Ticker", "config", "data", "exceptions"]

config = SimpleNamespace(debug=SimpleNamespace(hide_exceptions=True))


class Ticker:
    def __init__(self, ticker: str) -> None:
        self.ticker = ticker.upper()

    def history(
        self, start: str, interval: str, auto_adjust: bool, actions: bool, timeout: float
    ) -> pd.DataFrame:
        assert (interval, auto_adjust, actions, timeout, config.debug.hide_exceptions) == (
            "1d",
            False,
            True,
            60,
            False,
        )

        first = int(pd.Timestamp(start, tz="America/New_York").timestamp())
        params = {
            "period1": first,
            "period2": int(time.time()),
            "interval": "1d",
            "events": "div,splits,capitalGains",
        }
        reply = json.loads(
            _get(
                f"{os.environ['VENDOR_SERVER']}/v8/finance/chart/{self.ticker}?{urlencode(params)}"
            )
        )["chart"]

        if reply["error"]:
            raise exceptions.YFTzMissingError(
                f"${self.ticker}: possibly delisted; no timezone found"
            )

        result = reply["result"][0]
        self._metadata = result["meta"]
        if not result["timestamp"]:
            raise exceptions.YFPricesMissingError(
                f"${self.ticker}: Data doesn't exist for startDate = {first}"
            )

        quote = result["indicators"]["quote"][0]
        events = result.get("events", {})
        frame = pd.DataFrame(
            {name.title(): quote[name] for name in ("open", "high", "low", "close")}, dtype=float
        )
        frame["Adj Close"], frame["Volume"] = (
            result["indicators"]["adjclose"][0]["adjclose"],
            quote["volume"],
        )
        dividends = {
            int(stamp): event["amount"] for stamp, event in events.get("dividends", {}).items()
        }
        splits = {
            int(stamp): event["numerator"] / event["denominator"]
            for stamp, event in events.get("splits", {}).items()
        }
        frame["Dividends"] = [dividends.get(stamp, 0.0) for stamp in result["timestamp"]]
        frame["Stock Splits"] = [splits.get(stamp, 0.0) for stamp in result["timestamp"]]
        days = (
            pd.to_datetime(result["timestamp"], unit="s", utc=True)
            .tz_convert("America/New_York")
            .normalize()
        )
        frame.index = pd.DatetimeIndex(days, name="Date")

        return frame.dropna(subset=["Close"]).astype({"Volume": "int64"})

    def get_history_metadata(self) -> dict[str, object]:
        return self._metadata


def _get(address: str) -> bytes:
    """A page; one with an error is asked for twice, with other cookies, as the library does."""
    for _ in range(2):
        try:
            with urllib.request.urlopen(address) as page:
                return page.read()
        except urllib.error.HTTPError as error:
            status = error.code
            content = error.read()

    if status == 429:
        raise exceptions.YFRateLimitError

    return content
