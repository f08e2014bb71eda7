"""Fetch from vendors through their Python libraries. Each library is an optional extra, imported at
the first request.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
from datetime import UTC, date, datetime, time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ktdeval.calls import one_line, retry_after_s
from ktdeval.errors import DataError, ModelError, UsageError
from ktdeval.values import JsonValue, import_problem, install_command, near_matches
from ktdeval_data.fetch.vendor_requests import VendorAnswer, VendorRequest

if TYPE_CHECKING:
    import pandas as pd

_TIMEOUT_S = 60.0
_A_MINUTE_S = 60.0
_NONE_OF_THESE_DAYS = "Data doesn't exist for startDate"  # Yahoo's message for a delisted stock
_SUCCESS = "0"
_NO_LOGIN = "10001001"
_NETWORK = "10002"
_PAGE = 2000  # BaoStock's number of rows per page
_PAGE_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
"""Errors that a library raises if its web page was not served (those of `requests` and `curl_cffi`
are OSErrors) or has an unexpected form.
"""


class _VendorLibrary:
    """A vendor's library, and the modules that we use from it."""

    package: str
    modules: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    takes_endpoint = False

    def __init__(self) -> None:
        """Import the library. Raises UsageError if it can't be imported."""
        try:
            self._library: Any = import_module(self.package)
            for module in self.modules:
                import_module(f"{self.package}.{module}")
        except ImportError as error:
            problem = import_problem(error, self.package)
            raise UsageError(f"{problem}; {install_command(self.package)}") from None


class _BaostockSocket:
    """BaoStock's socket, except that reading fails once the server has closed the connection. The
    library's own socket would return empty strings forever.
    """

    def __init__(self, socket: Any) -> None:
        socket.settimeout(_TIMEOUT_S)
        self._socket = socket
        self.send = socket.sendall
        self.close = socket.close

    def recv(self, size: int) -> bytes:
        """Return received bytes. Raises ConnectionError if the server has closed the connection."""
        content: bytes = self._socket.recv(size)
        if not content:
            raise ConnectionError("closed by BaoStock")
        return content


class Baostock(_VendorLibrary):
    """BaoStock, logged in as anonymous. Source: https://www.baostock.com, baostock 0.8.8 to
    0.9.4.
    """

    package = "baostock"
    _logged_in = False

    def call(self, request: VendorRequest) -> VendorAnswer:
        """Make a call, as `VendorTransport.call`."""
        where = f"baostock {request.api}"
        with contextlib.redirect_stdout(io.StringIO()):  # the library prints its progress
            if not self._logged_in:
                self._login()

            result = getattr(self._library, request.api)(**request.params)
            rows: list[list[JsonValue]] = []
            while result is not None and result.error_code == _SUCCESS and result.next():
                rows.append(list(result.get_row_data()))

        self._check(result, where)
        # A full last page means truncation: the library also reports the end if the next page does
        # not arrive.
        if len(result.data) == _PAGE:
            self._logged_in = False
            raise ModelError("connection", f"{where}: the answer was cut after {len(rows)} rows")

        return VendorAnswer(list(result.fields), rows)

    def _login(self) -> None:
        self._check(self._library.login(), "baostock login")
        self._logged_in = True
        with contextlib.suppress(ImportError, AttributeError):
            from baostock.common import context  # noqa: PLC0415 - an extra

            context.default_socket = _BaostockSocket(context.default_socket)

    def _check(self, result: Any, where: str) -> None:
        code = getattr(result, "error_code", _NETWORK)
        message = one_line(str(getattr(result, "error_msg", "no answer")))
        if code == _NO_LOGIN or code.startswith(_NETWORK):
            self._logged_in = False
            raise ModelError("connection", f"{where}: {message} ({code})")

        if code != _SUCCESS:
            raise DataError(f"{where}: refused with code {code}: {message}")


class Akshare(_VendorLibrary):
    """AKShare, which scrapes public web pages. Source: akshare 1.12 to 1.19."""

    package = "akshare"

    def call(self, request: VendorRequest) -> VendorAnswer:
        """Make a call, as `Transport.call`.

        The library's errors are treated as temporary, since most of them come from pages that were
        not served.
        """
        where = f"akshare {request.api}"
        call = getattr(self._library, request.api, None)
        if call is None:
            raise DataError(
                f"{where}: this version of akshare has no such call; pip install -U akshare"
            )

        try:
            frame = call(**request.params)
        except _PAGE_ERRORS as error:
            raise ModelError(
                "server", f"{where}: {type(error).__name__}: {one_line(str(error))}"
            ) from None

        return _frame_answer(frame)


class Yfinance(_VendorLibrary):
    """Yahoo Finance. Bars are requested up to today, since Yahoo adjusts them for every split up to
    today. Source: yfinance 1.0 to 1.7.
    """

    package = "yfinance"
    modules = ("data", "exceptions")

    def __init__(self) -> None:
        super().__init__()
        self._library.config.debug.hide_exceptions = False
        logging.getLogger("yfinance").setLevel(logging.CRITICAL)  # makes the library raise failures

    def call(self, request: VendorRequest) -> VendorAnswer:
        """Make a call, as `VendorTransport.call`."""
        where = f"yfinance {request.api}"
        params = request.params
        errors = self._library.exceptions
        # the library would cache error pages, too
        self._library.data.YfData.cache_get.cache_clear()

        try:
            ticker = self._library.Ticker(params["symbol"])
            frame = ticker.history(
                start=params["first"],
                interval="1d",
                auto_adjust=False,
                actions=True,
                timeout=_TIMEOUT_S,
            )
            facts = ticker.get_history_metadata()
        except errors.YFRateLimitError as error:
            raise ModelError(
                "rate_limited", f"{where}: {one_line(str(error))}", _A_MINUTE_S
            ) from None
        except (errors.YFDataException, *_PAGE_ERRORS) as error:
            raise ModelError(
                "server", f"{where}: {type(error).__name__}: {one_line(str(error))}"
            ) from None
        except errors.YFException as error:
            if _NONE_OF_THESE_DAYS in str(error):
                return VendorAnswer((), [])

            raise DataError(f"{where}: {one_line(str(error))}") from None

        frame = frame.reset_index()
        frame["currency"] = facts.get("currency") or ""
        frame["first trade"] = _day_of(facts.get("firstTradeDate"))

        return _frame_answer(frame)


_OHLCV = ("time", "open", "high", "low", "close", "volume", "quote", "created")


class Ccxt(_VendorLibrary):
    """Public bars of a crypto exchange. Source: ccxt 4.2 to 4.5."""

    package = "ccxt"

    def __init__(self, exchange: str) -> None:
        """Connect to an exchange. Raises UsageError if ccxt is not installed, or if it does not
        know the exchange.
        """
        super().__init__()
        exchanges = self._library.exchanges
        if exchange not in exchanges:
            hint = near_matches(exchange, exchanges)
            raise UsageError(f"exchange: ccxt does not know {exchange!r}{hint}")

        self._name = f"ccxt {exchange}"
        self._exchange: Any = getattr(self._library, exchange)(
            {"enableRateLimit": False, "timeout": _TIMEOUT_S * 1000}
        )

    def call(self, request: VendorRequest) -> VendorAnswer:
        """Make a call, as `Transport.call`."""
        params = request.params
        where = f"{self._name} {request.api}"
        library = self._library

        try:
            symbol = self._symbol(params["pair"])
            since = int(params["since"])
            last = int(params["until"])
            pair = self._exchange.load_markets()[symbol]
            facts = [pair["quote"], _day_of((pair.get("created") or 0) / 1000)]
            bars = self._exchange.fetch_ohlcv(
                symbol, params["timeframe"], since, int(params["limit"])
            )

            # An exchange without bars for the requested days may respond with later ones.
            rows = [[*bar[:6], *facts] for bar in bars if since <= bar[0] <= last]
            return VendorAnswer(_OHLCV, rows)
        except (library.OperationFailed, *_PAGE_ERRORS) as error:
            kind = "connection"
            if isinstance(error, (library.RateLimitExceeded, library.DDoSProtection)):
                kind = "rate_limited"

            received = self._exchange.last_response_headers or {}
            headers = {name.lower(): text for name, text in received.items()}
            words = f"{where}: {type(error).__name__}: {one_line(str(error))}"
            raise ModelError(kind, words, retry_after_s(headers)) from None
        except library.BaseError as error:
            raise DataError(f"{where}: {type(error).__name__}: {one_line(str(error))}") from None

    def _symbol(self, pair: str) -> str:
        """Return the exchange's symbol for a pair such as BTCUSDT."""
        pairs = []
        symbols = []
        for name, market in self._exchange.load_markets().items():
            if not market["spot"]:
                continue

            market_pair = market["base"] + market["quote"]
            pairs.append(market_pair)
            if market_pair == pair:
                symbols.append(str(name))

        if len(symbols) != 1:
            count = len(symbols) or "no"
            hint = near_matches(pair, pairs)
            raise DataError(f"{self._name}: {count} spot pairs {pair}{hint}")
        return symbols[0]


def _frame_answer(frame: pd.DataFrame) -> VendorAnswer:
    """Return a data frame, without its index, as a response."""
    rows = [list(map(_plain_cell, row)) for row in frame.itertuples(index=False, name=None)]
    return VendorAnswer([str(column) for column in frame.columns], rows)


def _day_of(moment: object) -> str:
    """Return the ISO day of a timestamp; empty if unknown. `moment`: a timezone-aware datetime, or
    seconds since 1970 UTC.
    """
    if isinstance(moment, datetime):
        return str(moment.date())
    if not isinstance(moment, (int, float)) or not moment:
        return ""
    return str(datetime.fromtimestamp(moment, UTC).date())


def _plain_cell(cell: Any) -> JsonValue:
    """Return a data frame cell as JSON: days as ISO strings, missing values as None.

    A timestamp other than midnight (in the exchange's zone) keeps its time, so that an intraday bar
    is not read as a daily bar.
    """
    if isinstance(cell, date):  # NaT is also an instance of date
        if cell != cell:
            return None

        is_midnight = not isinstance(cell, datetime) or cell.time() == time.min
        return cell.isoformat()[:10] if is_midnight else cell.isoformat()

    value: object = cell.item() if hasattr(cell, "item") else cell
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
