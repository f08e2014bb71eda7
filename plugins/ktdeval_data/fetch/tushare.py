"""The way to Tushare Pro: a POST of JSON for each call. The token comes from `TUSHARE_TOKEN` and stays out of everything kept.

Source: https://tushare.pro/document/1?doc_id=130 (protocol), doc_id=108 (limits).
"""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from typing import Any

from ktdeval.calls import one_line, retry_after_s
from ktdeval.errors import DataError, ModelError, UsageError
from ktdeval.jsonio import loads_strict
from ktdeval_data.fetch.vendor import Answer, Request

_VARIABLE = "TUSHARE_TOKEN"
_TIMEOUT_S, _MOST_BYTES = 60.0, 64 * 2**20
_PASSING = {408: "timeout", 429: "rate_limited", 500: "server", 502: "server", 503: "overloaded", 504: "timeout"}
_A_MINUTE_S = 60.0


class Tushare:
    """Tushare Pro at an address."""

    def __init__(self, endpoint: str) -> None:
        """Take the token from the environment. Raises UsageError: there is none, or the address is no plain URL."""
        token = os.environ.get(_VARIABLE, "").strip()
        if not token:
            raise UsageError(f"tushare: no token; set {_VARIABLE} to yours (https://tushare.pro)")
        if not endpoint.startswith(("http://", "https://")) or "@" in endpoint:
            raise UsageError("endpoint: expected http://… or https://… without credentials")
        self._endpoint, self._token = endpoint, token
        self.secrets: tuple[str, ...] = (token,)

    def call(self, request: Request) -> Answer:
        """Make a call; as of `Transport`."""
        where = f"tushare {request.api}"
        reply = self._post(request, where)
        code, message = reply.get("code"), one_line(str(reply.get("msg") or ""), self.secrets)
        if code != 0 and "每分钟" in message:
            raise ModelError("rate_limited", f"{where}: {message}", _A_MINUTE_S)
        if code != 0:
            raise DataError(f"{where}: refused with code {code}: {message}{_advice(message)}")
        data: Any = reply.get("data")
        if not isinstance(data, dict) or not isinstance(data.get("fields"), list) or not isinstance(data.get("items"), list):
            raise ModelError("bad_response", f"{where}: an answer without data.fields and data.items")
        if data.get("has_more"):
            raise DataError(
                f"{where}: the answer was cut (has_more) at {len(data['items']):,} rows; choose a shorter range of days"
            )
        return Answer(data["fields"], data["items"])

    def _post(self, request: Request, where: str) -> dict[str, Any]:
        body = {"api_name": request.api, "token": self._token, "params": dict(request.params), "fields": ""}
        headers = {"Content-Type": "application/json", "User-Agent": "ktdeval"}
        message = urllib.request.Request(self._endpoint, json.dumps(body).encode(), headers)  # noqa: S310 - http(s), checked above
        try:
            with urllib.request.urlopen(message, timeout=_TIMEOUT_S) as response:  # noqa: S310 - the same
                content = response.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            words = f"{where}: HTTP {error.code} {one_line(str(error.reason), self.secrets)}"
            if error.code not in _PASSING:
                raise DataError(words) from None
            wait_s = retry_after_s({name.lower(): value for name, value in error.headers.items()})
            raise ModelError(_PASSING[error.code], words, wait_s) from None
        except (OSError, http.client.HTTPException) as error:
            raise ModelError("connection", f"{where}: can't be reached: {one_line(str(error), self.secrets)}") from None
        if len(content) > _MOST_BYTES:
            raise DataError(f"{where}: an answer of more than {_MOST_BYTES >> 20} MiB")
        try:
            reply = loads_strict(content)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise ModelError("bad_response", f"{where}: the answer is no JSON object")
        return reply


def _advice(message: str) -> str:
    if "每天" in message or "每小时" in message:
        return "; the limit of this hour or day is used up, run the same command later"
    if "权限" in message or "积分" in message:
        return "; the account needs more points for this call"
    return f"; check {_VARIABLE}" if "token" in message else ""
