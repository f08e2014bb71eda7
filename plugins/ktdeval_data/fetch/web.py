"""Vendors that are reached by plain HTTP with JSON. Keys come from the environment and are never stored.

Sources: https://tushare.pro/document/1?doc_id=130 (protocol) and doc_id=108 (limits); https://developers.binance.com (spot,
klines); https://docs.alpaca.markets (market data: stock bars and corporate actions).
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

from ktdeval.calls import one_line, retry_after_s
from ktdeval.errors import DataError, ModelError, UsageError
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval_data.fetch.vendor import Answer, Request

_TIMEOUT_S, _MOST_BYTES = 60.0, 64 * 2**20
_PASSING = {408: "timeout", 429: "rate_limited", 500: "server", 502: "server", 503: "overloaded", 504: "timeout"}
_A_MINUTE_S = 60.0
_PRICES = ("open", "high", "low", "close")
_KLINE = ("open_time", *_PRICES, "volume", "close_time", "quote_volume", "trades", "taker_base", "taker_quote", "0")
"""Columns of Binance's rows, which come without names."""


class _OwnHost(urllib.request.HTTPRedirectHandler):
    """Redirects that send no keys to another host."""

    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        following = super().redirect_request(*arguments)
        if following is not None and (following.type, following.host) != (arguments[0].type, arguments[0].host):
            following.headers = {"User-agent": "ktdeval"}
        return following


_OPENER = urllib.request.build_opener(_OwnHost)


class Web:
    """A vendor at an address."""

    variables: tuple[str, ...] = ()  #: environment variables that hold its keys
    site = ""  #: issues keys

    def __init__(self, name: str, endpoint: str) -> None:
        """Read the keys from the environment. Raises UsageError: there are none, or the address is not a plain URL."""
        self.secrets = tuple(os.environ.get(variable, "").strip() for variable in self.variables)
        if not all(self.secrets):
            raise UsageError(f"{name}: no key; set {' and '.join(self.variables)} to yours ({self.site})")
        if not endpoint.startswith(("http://", "https://")) or "@" in endpoint:
            raise UsageError("endpoint: expected http://… or https://… without credentials")
        self._name, self._endpoint = name, endpoint.rstrip("/")

    def call(self, request: Request) -> Answer:
        """Make a call; as of `Transport`."""
        where = f"{self._name} {request.api}"
        return self._answer(self._ask(request, where), where)

    def _ask(self, request: Request, where: str) -> Any:
        return self._fetch(f"{self._endpoint}/{request.api}?{urlencode(request.params)}", None, where)

    def _answer(self, reply: Any, where: str) -> Answer:
        raise NotImplementedError

    def _headers(self) -> Mapping[str, str]:
        return {}

    def _fetch(self, url: str, body: bytes | None, where: str) -> Any:
        """Return the JSON of a server's answer."""
        try:
            return loads_strict(self._content(url, body, where))
        except ValueError:
            raise _malformed(where, "the answer is not JSON") from None

    def _content(self, url: str, body: bytes | None, where: str, most_bytes: int = _MOST_BYTES) -> bytes:
        """Return the bytes of a server's answer."""
        headers = {"Content-Type": "application/json", "User-Agent": "ktdeval", **self._headers()}
        message = urllib.request.Request(url, body, headers)  # noqa: S310 - http(s), checked above
        try:
            with _OPENER.open(message, timeout=_TIMEOUT_S) as response:
                content: bytes = response.read(most_bytes + 1)
                if response.length and len(content) <= most_bytes:
                    raise http.client.IncompleteRead(content, response.length)
        except urllib.error.HTTPError as error:
            reply = error.read(500).decode("utf-8", "replace")
            words = f"{where}: HTTP {error.code} {one_line(f'{error.reason} {reply}', self.secrets)}"
            if error.code not in _PASSING:
                raise DataError(words) from None
            wait_s = retry_after_s({name.lower(): value for name, value in error.headers.items()})
            raise ModelError(_PASSING[error.code], words, wait_s) from None
        except (OSError, http.client.HTTPException) as error:
            raise ModelError("connection", f"{where}: can't be reached: {one_line(str(error), self.secrets)}") from None
        if len(content) > most_bytes:
            raise DataError(f"{where}: an answer of more than {most_bytes >> 20} MiB")
        return content


class Tushare(Web):
    """Tushare Pro: a POST for each call."""

    variables, site = ("TUSHARE_TOKEN",), "https://tushare.pro"

    def _ask(self, request: Request, where: str) -> Any:
        body = {"api_name": request.api, "token": self.secrets[0], "params": dict(request.params), "fields": ""}
        return self._fetch(self._endpoint, json.dumps(body).encode(), where)

    def _answer(self, reply: Any, where: str) -> Answer:
        code, text = (reply.get("code"), reply.get("msg")) if isinstance(reply, dict) else (0, "")
        message = one_line(str(text or ""), self.secrets)
        if code != 0 and "每分钟" in message:
            raise ModelError("rate_limited", f"{where}: {message}", _A_MINUTE_S)
        if code != 0:
            raise DataError(f"{where}: refused with code {code}: {message}{_advice(message)}")
        data: Any = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(data, dict) or not isinstance(data.get("fields"), list) or not isinstance(data.get("items"), list):
            raise _malformed(where, "an answer without data.fields and data.items")
        _check_whole(data.get("has_more"), "has_more", len(data["items"]), where)
        return Answer(data["fields"], data["items"])


def _advice(message: str) -> str:
    if "每天" in message or "每小时" in message:
        return "; the limit of this hour or day is used up, run the same command later"
    if "权限" in message or "积分" in message:
        return "; the account needs more points for this call"
    return "; check TUSHARE_TOKEN" if "token" in message else ""


class Binance(Web):
    """Binance's public market data."""

    def _answer(self, reply: Any, where: str) -> Answer:
        if not isinstance(reply, list) or any(not isinstance(row, list) or len(row) != len(_KLINE) for row in reply):
            raise _malformed(where, f"the answer is not a list of rows of {len(_KLINE)} cells")
        return Answer(_KLINE, reply)


class Alpaca(Web):
    """Alpaca's market data: bars of one symbol, or its corporate actions with their `kind`."""

    variables, site = ("APCA_API_KEY_ID", "APCA_API_SECRET_KEY"), "https://alpaca.markets"

    def _headers(self) -> Mapping[str, str]:
        return {"APCA-API-KEY-ID": self.secrets[0], "APCA-API-SECRET-KEY": self.secrets[1]}

    def _answer(self, reply: Any, where: str) -> Answer:
        fields = reply.keys() & {"bars", "corporate_actions"} if isinstance(reply, dict) else ()
        groups = (reply[next(iter(fields))] or {}) if fields else None
        if not isinstance(groups, dict) or not all(isinstance(rows, list) for rows in groups.values()):
            raise _malformed(where, "the answer has neither bars nor corporate actions by symbol or kind")
        rows: list[dict[str, JsonValue]] = [{**row, "kind": kind} for kind, entries in groups.items() for row in entries]
        _check_whole(reply.get("next_page_token"), "next_page_token", len(rows), where)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        return Answer(columns, [[row.get(name) for name in columns] for row in rows])


def _check_whole(more: Any, field: str, rows: int, where: str) -> None:
    if more:
        raise DataError(f"{where}: the answer was cut ({field}) at {rows:,} rows; choose a shorter range of days")


def _malformed(where: str, problem: str) -> ModelError:
    return ModelError("bad_response", f"{where}: {problem}")
