"""Fetch from vendors over plain HTTP with JSON. Keys come from the environment and are never stored.

Sources: https://tushare.pro/document/1?doc_id=130 (protocol) and doc_id=108 (limits);
https://developers.binance.com (spot, klines); https://docs.alpaca.markets (market data: stock bars
and corporate actions).
"""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from ktdeval.calls import (
    failure_kind,
    is_retryable,
    not_json,
    one_line,
    quote_server_text,
    retry_after_s,
)
from ktdeval.errors import DataError, ModelError, UsageError
from ktdeval.values import JsonValue, loads_data
from ktdeval_data.fetch.vendor_requests import VendorAnswer, VendorRequest

_TIMEOUT_S = 60.0
_MAX_BYTES = 64 * 2**20
_A_MINUTE_S = 60.0
_PRICES = ("open", "high", "low", "close")
_KLINE = (
    "open_time",
    *_PRICES,
    "volume",
    "close_time",
    "quote_volume",
    "trades",
    "taker_base",
    "taker_quote",
    "0",
)
"""Columns in Binance's rows, which have no header."""


class _OwnHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but drops the API keys if a redirect leads to another host."""

    def redirect_request(
        self, req: urllib.request.Request, *arguments: Any
    ) -> urllib.request.Request | None:
        following = super().redirect_request(req, *arguments)
        if following is None:
            return None

        is_same_host = (following.type, following.host) == (req.type, req.host)
        if not is_same_host:
            following.headers = {"User-agent": "ktdeval"}
        return following


_OPENER = urllib.request.build_opener(_OwnHost)


class WebVendor:
    """A vendor with an HTTP address."""

    variables: tuple[str, ...] = ()  #: environment variables that hold the vendor's keys
    site = ""  #: website that issues the keys
    takes_endpoint = True

    def __init__(self, name: str, endpoint: str) -> None:
        """Read the keys from the environment. Raises UsageError if one is missing, or if the address
        is not a plain URL.
        """
        self.secrets = tuple(os.environ.get(variable, "").strip() for variable in self.variables)
        if not all(self.secrets):
            raise UsageError(
                f"{name}: no key; set {' and '.join(self.variables)} to yours ({self.site})"
            )
        if not endpoint.startswith(("http://", "https://")) or "@" in endpoint:
            raise UsageError("endpoint: expected http://… or https://… without credentials")

        self._name = name
        self._endpoint = endpoint.rstrip("/")

    def call(self, request: VendorRequest) -> VendorAnswer:
        """Make a call, as `Transport.call`."""
        where = f"{self._name} {request.api}"
        return self._answer(self._ask(request, where), where)

    def _ask(self, request: VendorRequest, where: str) -> Any:
        url = f"{self._endpoint}/{request.api}?{urlencode(request.params)}"
        return self._fetch(url, None, where)

    def _answer(self, reply: Any, where: str) -> VendorAnswer:
        raise NotImplementedError

    def _headers(self) -> Mapping[str, str]:
        return {}

    def _fetch(self, url: str, body: bytes | None, where: str) -> Any:
        """Return the JSON in a server's response."""
        content = self._content(url, body, where)
        try:
            return loads_data(content)
        except ValueError:
            raise not_json(content, where, self.secrets) from None

    def _content(
        self, url: str, body: bytes | None, where: str, max_bytes: int = _MAX_BYTES
    ) -> bytes:
        """Return the body of a server's response."""
        headers = {"Content-Type": "application/json", "User-Agent": "ktdeval", **self._headers()}
        message = urllib.request.Request(url, body, headers)  # noqa: S310 - http(s), checked above
        try:
            with _OPENER.open(message, timeout=_TIMEOUT_S) as response:
                content: bytes = response.read(max_bytes + 1)
                # A read with a size limit does not notice by itself that the connection ended
                # early.
                if response.length and len(content) <= max_bytes:
                    raise http.client.IncompleteRead(content, response.length)
        except urllib.error.HTTPError as error:
            raise self._http_error(error, where) from None
        except (OSError, http.client.HTTPException) as error:
            problem = one_line(str(error), self.secrets)
            raise ModelError("connection", f"{where}: can't be reached: {problem}") from None

        if len(content) > max_bytes:
            raise DataError(f"{where}: an answer of more than {max_bytes >> 20} MiB")

        return content

    def _explain_malformed(self, where: str, problem: str, reply: JsonValue) -> ModelError:
        """Return the error for a response with an unexpected form, quoting the response."""
        return ModelError(
            "bad_response", f"{where}: {problem}{quote_server_text(str(reply), self.secrets)}"
        )

    def _http_error(self, error: urllib.error.HTTPError, where: str) -> ModelError | DataError:
        """Return the error for an HTTP status: a ModelError if the request may be repeated."""
        reply = error.read(500).decode("utf-8", "replace")
        message = one_line(f"{error.reason} {reply}", self.secrets)
        words = f"{where}: HTTP {error.code} {message}"
        headers = {name.lower(): value for name, value in error.headers.items()}
        failed = ModelError(failure_kind(error.code), words, retry_after_s(headers))
        return failed if is_retryable(failed) else DataError(words)


class Tushare(WebVendor):
    """Tushare Pro, with one POST request per call."""

    variables = ("TUSHARE_TOKEN",)
    site = "https://tushare.pro"

    def _ask(self, request: VendorRequest, where: str) -> Any:
        body = {
            "api_name": request.api,
            "token": self.secrets[0],
            "params": dict(request.params),
            "fields": "",
        }
        return self._fetch(self._endpoint, json.dumps(body).encode(), where)

    def _answer(self, reply: Any, where: str) -> VendorAnswer:
        code = reply.get("code") if isinstance(reply, dict) else None
        if type(code) is not int:
            raise self._explain_malformed(where, "the answer has no code", reply)

        message = one_line(str(reply.get("msg") or ""), self.secrets)
        if code != 0 and "每分钟" in message:  # a limit per minute
            raise ModelError("rate_limited", f"{where}: {message}", _A_MINUTE_S)
        if code != 0:
            raise DataError(f"{where}: refused with code {code}: {message}{_advice(message)}")

        match reply.get("data"):
            case {"fields": list(fields), "items": list(items)}:
                _check_whole(reply["data"].get("has_more"), "has_more", len(items), where)
                return VendorAnswer(fields, items)

        raise self._explain_malformed(where, "the answer has no data.fields and data.items", reply)


def _advice(message: str) -> str:
    """Return advice on a refusal by Tushare; empty if the refusal's wording is unknown."""
    if "每天" in message or "每小时" in message:  # a daily or hourly limit
        return "; the limit of this hour or day is reached; run the same command later"
    if "权限" in message or "积分" in message:  # permissions, or the points that grant them
        return "; the account needs more points for this call"
    if "token" in message:
        return "; check TUSHARE_TOKEN"
    return ""


class Binance(WebVendor):
    """Binance's public market data."""

    def _answer(self, reply: Any, where: str) -> VendorAnswer:
        if isinstance(reply, dict) and isinstance(reply.get("symbols"), list):
            pairs = [[pair.get("symbol"), pair.get("quoteAsset")] for pair in reply["symbols"]]
            return VendorAnswer(("symbol", "quote"), pairs)

        if not isinstance(reply, list) or not all(map(_is_kline, reply)):
            problem = f"the answer is not a list of rows of {len(_KLINE)} cells"
            raise self._explain_malformed(where, problem, reply)

        return VendorAnswer(_KLINE, reply)


def _is_kline(row: JsonValue) -> bool:
    return isinstance(row, list) and len(row) == len(_KLINE)


class Alpaca(WebVendor):
    """Alpaca's market data: bars of one symbol, or corporate actions with their kind in `kind`."""

    variables = ("APCA_API_KEY_ID", "APCA_API_SECRET_KEY")
    site = "https://alpaca.markets"

    def _headers(self) -> Mapping[str, str]:
        return {"APCA-API-KEY-ID": self.secrets[0], "APCA-API-SECRET-KEY": self.secrets[1]}

    def call(self, request: VendorRequest) -> VendorAnswer:
        """Make a call, and one more for each further page, as `Transport.call`."""
        where = f"{self._name} {request.api}"
        rows: list[dict[str, JsonValue]] = []
        params = dict(request.params)
        tokens: set[str] = set()

        while True:
            reply = self._ask(VendorRequest(request.api, params), where)
            rows += self._rows(reply, where)
            token = reply.get("next_page_token")
            if not token:
                break
            if token in tokens:
                raise self._explain_malformed(
                    where, "the answer names the same next page twice", token
                )

            tokens.add(token)
            params["page_token"] = str(token)

        # columns in order of appearance, since not all rows have all fields
        columns: dict[str, None] = {}
        for row in rows:
            columns |= dict.fromkeys(row)

        cells = [list(map(row.get, columns)) for row in rows]
        return VendorAnswer(list(columns), cells)

    def _rows(self, reply: Any, where: str) -> list[dict[str, JsonValue]]:
        """Return the rows of a page. Each row has its symbol or its kind of action in `kind`."""
        groups = None
        if isinstance(reply, dict):
            for field in ("bars", "corporate_actions"):
                if field in reply:
                    groups = reply[field] or {}

        if not isinstance(groups, dict) or not all(
            isinstance(rows, list) for rows in groups.values()
        ):
            wanted = "bars nor corporate actions by symbol or kind"
            raise self._explain_malformed(where, f"the answer has neither {wanted}", reply)

        rows: list[dict[str, JsonValue]] = []
        for kind, entries in groups.items():
            rows += [{**row, "kind": kind} for row in entries]

        return rows


def _check_whole(more: JsonValue, field: str, rows: int, where: str) -> None:
    """Raise DataError if `field` of a response says that there are more rows."""
    if more:
        raise DataError(
            f"{where}: the answer was cut ({field}) at {rows:,} rows; choose a shorter range of"
            " days"
        )
