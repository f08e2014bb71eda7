"""Vendors that are reached by a Python library: BaoStock and AKShare. Both are extras, imported when they are first asked."""

from __future__ import annotations

import contextlib
import io
import math
from datetime import date
from typing import Any

from ktdeval.calls import one_line
from ktdeval.errors import DataError, ModelError, UsageError
from ktdeval.jsonio import JsonValue
from ktdeval_data.fetch.vendor import Answer, Request

_TIMEOUT_S = 60.0
_SUCCESS, _NO_LOGIN, _NETWORK = "0", "10001001", "10002"
_PAGE = 2000  # rows of a page of BaoStock's
_PAGE_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
"""What AKShare raises where a page was not served (`requests`' errors are OSErrors) or is another one than it expects."""


class _Socket:
    """BaoStock's socket, which fails when the other side closes it; the library itself would read nothing for ever."""

    def __init__(self, socket: Any) -> None:
        socket.settimeout(_TIMEOUT_S)
        self._socket = socket
        self.send = socket.sendall
        self.close = socket.close

    def recv(self, size: int) -> bytes:
        """Return what came; ConnectionError where nothing will."""
        content: bytes = self._socket.recv(size)
        if not content:
            raise ConnectionError("closed by BaoStock")
        return content


class Baostock:
    """BaoStock, logged in as anonymous. Source: https://www.baostock.com, baostock 0.8.8 to 0.9.4."""

    secrets: tuple[str, ...] = ()

    def __init__(self) -> None:
        """Import the library. Raises UsageError: it is not installed."""
        try:
            import baostock  # noqa: PLC0415 - an extra
        except ImportError:
            raise UsageError('baostock is not installed; pip install "ktdeval[baostock]"') from None
        self._library, self._logged_in = baostock, False

    def call(self, request: Request) -> Answer:
        """Make a call; as of `Transport`."""
        where = f"baostock {request.api}"
        with contextlib.redirect_stdout(io.StringIO()):  # the library prints what happens
            if not self._logged_in:
                self._login()
            result = getattr(self._library, request.api)(**request.params)
            rows: list[list[JsonValue]] = []
            while result is not None and result.error_code == _SUCCESS and result.next():
                rows.append(list(result.get_row_data()))
        self._check(result, where)
        if len(result.data) == _PAGE:  # where the next page does not come, the library says that there is none
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


class Akshare:
    """AKShare, which reads public pages. Source: akshare 1.12 to 1.19."""

    secrets: tuple[str, ...] = ()

    def __init__(self) -> None:
        """Import the library. Raises UsageError: it is not installed."""
        try:
            import akshare  # noqa: PLC0415 - an extra
        except ImportError:
            raise UsageError('akshare is not installed; pip install "ktdeval[akshare]"') from None
        self._library = akshare

    def call(self, request: Request) -> Answer:
        """Make a call; as of `Transport`. What the library raises may pass: most are pages that were not served."""
        where = f"akshare {request.api}"
        call = getattr(self._library, request.api, None)
        if call is None:
            raise DataError(f"{where}: this version of akshare has no such call; pip install -U akshare")
        try:
            frame = call(**request.params)
        except _PAGE_ERRORS as error:
            raise ModelError("server", f"{where}: {type(error).__name__}: {one_line(str(error))}") from None
        rows = [[_plain(cell) for cell in row] for row in frame.itertuples(index=False, name=None)]
        return Answer([str(column) for column in frame.columns], rows)


def _plain(cell: Any) -> JsonValue:
    """A cell of a data frame as JSON: days as ISO text, missing ones as None."""
    if isinstance(cell, date):  # NaT is a date, too
        return None if cell != cell else cell.isoformat()[:10]
    value = cell.item() if hasattr(cell, "item") else cell
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) else None if value is None else str(value)
