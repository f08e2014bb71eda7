"""Stands for the library `ccxt`: what is used of it, as version 4.5 does it, over a local server of
one exchange.

`test_data_fetch_libraries.py` asks the true library the same where it is installed.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

exchanges = ["binance", "bitstamp", "kraken"]


class BaseError(Exception): ...


class ExchangeError(BaseError): ...


class OperationFailed(BaseError): ...


class NetworkError(OperationFailed): ...


class DDoSProtection(NetworkError): ...


class RateLimitExceeded(NetworkError): ...


class ExchangeNotAvailable(NetworkError): ...


class AuthenticationError(ExchangeError): ...


_OF_STATUS = {
    401: AuthenticationError,
    403: AuthenticationError,
    429: RateLimitExceeded,
    503: ExchangeNotAvailable,
}


class bitstamp:
    id = "bitstamp"

    def __init__(self, config: dict[str, Any]) -> None:
        assert config == {"enableRateLimit": False, "timeout": 60_000}
        self.last_response_headers: Any = None
        self._markets: dict[str, Any] = {}

    def load_markets(self) -> dict[str, Any]:
        rows = [] if self._markets else self._get("markets", {})
        for row in rows:
            base = row["base_currency"]
            quote = row["counter_currency"]
            spot = row["market_type"] == "SPOT"
            symbol = f"{base}/{quote}{'' if spot else f':{quote}'}"
            self._markets[symbol] = {
                "id": row["market_symbol"],
                "base": base,
                "quote": quote,
                "spot": spot,
                "created": row.get("created"),
            }

        return self._markets

    def fetch_ohlcv(self, symbol: str, timeframe: str, since: int, limit: int) -> list[list[Any]]:
        assert timeframe == "1d"

        start = since // 1000
        params = {"step": 86400, "start": start, "end": start + 86400 * limit - 1, "limit": limit}
        rows = (
            self._get(f"ohlc/{self._markets[symbol]['id']}", params).get("data", {}).get("ohlc", [])
        )
        bars = []

        for row in rows:
            figures = [float(row[n]) for n in ("open", "high", "low", "close", "volume")]
            bars.append([int(row["timestamp"]) * 1000, *figures])

        return bars

    def _get(self, path: str, params: dict[str, Any]) -> Any:
        address = f"{os.environ['VENDOR_SERVER']}/v2/{path}/?{urlencode(params)}"
        try:
            with urllib.request.urlopen(address) as page:
                self.last_response_headers = page.headers
                return json.loads(page.read())
        except urllib.error.HTTPError as error:
            self.last_response_headers = error.headers
            raise _OF_STATUS.get(error.code, ExchangeError)(
                f"bitstamp GET {address} {error.code} {error.reason}"
            ) from error
