"""Vendors that are reached by a Python library, each an extra that is imported at its first request."""

from __future__ import annotations

import contextlib
import io
import logging
import math
from datetime import date
from importlib import import_module
from typing import Any

from ktdeval.calls import one_line, retry_after_s
from ktdeval.errors import DataError, ModelError, UsageError
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue
from ktdeval_data.fetch.vendor import Answer, Request

_TIMEOUT_S, _A_MINUTE_S = 60.0, 60.0
_SUCCESS, _NO_LOGIN, _NETWORK = "0", "10001001", "10002"
_PAGE = 2000  # rows of a page of BaoStock's
_PAGE_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
"""Errors of a library whose page was not served (those of `requests` and `curl_cffi` are OSErrors) or has an unexpected form."""


class _Library:
    """A vendor's library and the modules of it that are used."""

    package: str
    modules: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def __init__(self) -> None:
        """Import the library. Raises UsageError: it is not installed."""
        try:
            self._library: Any = import_module(self.package)
            for module in self.modules:
                import_module(f"{self.package}.{module}")
        except ImportError:
            raise UsageError(f'{self.package} is not installed; pip install "ktdeval[{self.package}]"') from None


class _Socket:
    """BaoStock's socket, which fails when the other side closes it; the library itself would read nothing for ever."""

    def __init__(self, socket: Any) -> None:
        socket.settimeout(_TIMEOUT_S)
        self._socket = socket
        self.send = socket.sendall
        self.close = socket.close

    def recv(self, size: int) -> bytes:
        """Return received bytes. Raises ConnectionError: the other side has closed."""
        content: bytes = self._socket.recv(size)
        if not content:
            raise ConnectionError("closed by BaoStock")
        return content


class Baostock(_Library):
    """BaoStock, logged in as anonymous. Source: https://www.baostock.com, baostock 0.8.8 to 0.9.4."""

    package = "baostock"
    _logged_in = False

    def call(self, request: Request) -> Answer:
        """Make a call; as of `Transport`."""
        where = f"baostock {request.api}"
        with contextlib.redirect_stdout(io.StringIO()):  # the library prints its progress
            if not self._logged_in:
                self._login()
            result = getattr(self._library, request.api)(**request.params)
            rows: list[list[JsonValue]] = []
            while result is not None and result.error_code == _SUCCESS and result.next():
                rows.append(list(result.get_row_data()))
        self._check(result, where)
        if len(result.data) == _PAGE:  # when the next page does not arrive, the library reports the end
            self._logged_in = False
            raise ModelError("connection", f"{where}: the answer was cut after {len(rows)} rows")
        return Answer(list(result.fields), rows)

    def _login(self) -> None:
        self._check(self._library.login(), "baostock login")
        self._logged_in = True
        with contextlib.suppress(ImportError, AttributeError):
            from baostock.common import context  # noqa: PLC0415 - an extra

            context.default_socket = _Socket(context.default_socket)

    def _check(self, result: Any, where: str) -> None:
        code, message = getattr(result, "error_code", _NETWORK), one_line(str(getattr(result, "error_msg", "no answer")))
        if code == _NO_LOGIN or code.startswith(_NETWORK):
            self._logged_in = False
            raise ModelError("connection", f"{where}: {message} ({code})")
        if code != _SUCCESS:
            raise DataError(f"{where}: refused with code {code}: {message}")


class Akshare(_Library):
    """AKShare, which reads public pages. Source: akshare 1.12 to 1.19."""

    package = "akshare"

    def call(self, request: Request) -> Answer:
        """Make a call; as of `Transport`. The library's errors count as temporary: most are pages that were not served."""
        where = f"akshare {request.api}"
        call = getattr(self._library, request.api, None)
        if call is None:
            raise DataError(f"{where}: this version of akshare has no such call; pip install -U akshare")
        try:
            frame = call(**request.params)
        except _PAGE_ERRORS as error:
            raise ModelError("server", f"{where}: {type(error).__name__}: {one_line(str(error))}") from None
        return _table(frame)


class Yfinance(_Library):
    """Yahoo Finance, with bars up to today, since Yahoo divides them by each split up to today. Source: yfinance 1.0 to 1.7."""

    package = "yfinance"
    modules = ("data", "exceptions")

    def __init__(self) -> None:
        super().__init__()
        self._library.config.debug.hide_exceptions = False
        logging.getLogger("yfinance").setLevel(logging.CRITICAL)  # failures are raised

    def call(self, request: Request) -> Answer:
        """Make a call; as of `Transport`."""
        where, params, errors = f"yfinance {request.api}", request.params, self._library.exceptions
        self._library.data.YfData.cache_get.cache_clear()  # it caches error pages, too
        try:
            ticker = self._library.Ticker(params["symbol"])
            frame = ticker.history(start=params["first"], interval="1d", auto_adjust=False, actions=True, timeout=_TIMEOUT_S)
        except errors.YFRateLimitError as error:
            raise ModelError("rate_limited", f"{where}: {one_line(str(error))}", _A_MINUTE_S) from None
        except (errors.YFDataException, *_PAGE_ERRORS) as error:
            raise ModelError("server", f"{where}: {type(error).__name__}: {one_line(str(error))}") from None
        except errors.YFException as error:
            raise DataError(f"{where}: {one_line(str(error))}") from None
        return _table(frame.reset_index())


class Ccxt(_Library):
    """Public bars of a crypto exchange. Source: ccxt 4.2 to 4.5."""

    package = "ccxt"

    def __init__(self, exchange: str) -> None:
        """Raise UsageError: it is not installed, or does not know the exchange."""
        super().__init__()
        if exchange not in self._library.exchanges:
            raise UsageError(f"exchange: ccxt knows no {exchange!r}{near_matches(exchange, self._library.exchanges)}")
        self._name = f"ccxt {exchange}"
        self._exchange: Any = getattr(self._library, exchange)({"enableRateLimit": False, "timeout": _TIMEOUT_S * 1000})

    def call(self, request: Request) -> Answer:
        """Make a call; as of `Transport`. An exchange may answer with later bars where it has none of these days."""
        params, where, library = request.params, f"{self._name} {request.api}", self._library
        try:
            symbol, since, last = self._symbol(params["pair"]), int(params["since"]), int(params["until"])
            rows = self._exchange.fetch_ohlcv(symbol, params["timeframe"], since, int(params["limit"]))
            return Answer(("time", "open", "high", "low", "close", "volume"), [row for row in rows if since <= row[0] <= last])
        except (library.OperationFailed, *_PAGE_ERRORS) as error:
            kind = "rate_limited" if isinstance(error, (library.RateLimitExceeded, library.DDoSProtection)) else "connection"
            headers = {name.lower(): text for name, text in (self._exchange.last_response_headers or {}).items()}
            words = f"{where}: {type(error).__name__}: {one_line(str(error))}"
            raise ModelError(kind, words, retry_after_s(headers)) from None
        except library.BaseError as error:
            raise DataError(f"{where}: {type(error).__name__}: {one_line(str(error))}") from None

    def _symbol(self, pair: str) -> str:
        """Return the exchange's own symbol of a pair such as BTCUSDT."""
        spot = {name: each["base"] + each["quote"] for name, each in self._exchange.load_markets().items() if each["spot"]}
        symbols = [str(name) for name in spot if spot[name] == pair]
        if len(symbols) != 1:
            raise DataError(f"{self._name}: {len(symbols) or 'no'} spot pairs {pair}{near_matches(pair, spot.values())}")
        return symbols[0]


def _table(frame: Any) -> Answer:
    rows = [[_plain(cell) for cell in row] for row in frame.itertuples(index=False, name=None)]
    return Answer([str(column) for column in frame.columns], rows)


def _plain(cell: Any) -> JsonValue:
    """Return a cell of a data frame as JSON: days as ISO text, missing ones as None."""
    if isinstance(cell, date):  # NaT is a date, too
        return None if cell != cell else cell.isoformat()[:10]
    value = cell.item() if hasattr(cell, "item") else cell
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) else None if value is None else str(value)
