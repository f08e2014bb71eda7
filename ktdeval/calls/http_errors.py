"""Addresses of servers, and typed errors of their responses: the kind of failure, whether it may pass, and what to fix in a line.

An adapter of any provider, of ours or of another plugin, calls `http_error` with a response that is not a success, `json_reply`
with one that is, and `network_error` where none came. The kind of a ModelError says whether the call is made again
(`ktdeval.calls.retry`); a ProviderError ends the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ktdeval.errors import SHORTEST_SECRET, ConfigError, ModelError, ProviderError
from ktdeval.harness.messages import encodable
from ktdeval.jsonio import JsonValue, csv_rows, loads_strict
from ktdeval.masking.shortening import shorten

LONGEST_QUOTE = 300  #: Characters of a provider's own words that a message may hold
_READ_CHARS = 20 * LONGEST_QUOTE  # further ones are not read

FILTERED = 451  #: Status that stands for "blocked by a content filter", whatever status a provider gives it
_NO_MONEY = 402

_CODES = csv_rows(Path(__file__).with_name("error_codes.csv"))
"""Error codes and types of OpenAI, Anthropic and Google, and what they mean as an HTTP status: under any status, or under none,
where the error came inside a success and there is no status to go by."""
_MEANINGS, _MEANINGS_WITHOUT_STATUS = (
    {row["code"]: int(row["status"]) for row in _CODES if row["under"] == under} for under in ("any", "none")
)
_REFUSALS = csv_rows(Path(__file__).with_name("refusals.csv"))  #: What ends a run, by HTTP status
_KINDS = {408: "timeout", 409: "server", 425: "server", 429: "rate_limited", 503: "overloaded", 529: "overloaded"}

_PARAMETER_CODES = frozenset(("unsupported_parameter", "unsupported_value", "unknown_parameter"))
_NO_MONEY_WORDS = re.compile(
    r"insufficient (account )?(balance|funds|quota|credit)|balance is (too low|not enough|insufficient)|余额不足|欠费|in arrears",
    re.IGNORECASE,
)
_PARAMETER_WORDS = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|deprecated"
    r"|may only be|only .{1,40}allowed|only the default",
    re.IGNORECASE,
)
# Words of almost any message, so that they blame nothing.
_CONVERSATION_FIELDS = frozenset(("model", "messages", "input", "instructions", "system", "contents"))
# Where one of these is refused, another tool protocol may still be taken.
_PROTOCOL_FIELDS = frozenset(("tools", "tool_choice", "tool_config", "text", "response_format", "output_config", "format"))
_LENGTH_FIELDS = ("max_tokens", "max_completion_tokens")

_KEY = re.compile(r"\b(sk|rk|pk)-[\w*-]{6,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")
_DNS_WORDS = ("Name or service not known", "nodename nor servname", "name resolution", "getaddrinfo")
_LONGEST_CODE = 100  # characters
_KEY_START = 6  # characters; some providers quote a key by its beginning


def check_base_url(url: str, option: str = "--base-url") -> str:
    """Return a base URL as it may be used, shown and recorded, without a final slash. Raises ConfigError, which names `option`: it
    is no http or https address, or holds a user, a password, a query or a fragment. What it holds is not shown.
    """
    example = "such as http://localhost:8000/v1"
    try:
        parts = urlsplit(url)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError(f"{option} is no address; give one {example}") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(f"{option} holds a user, password, query or fragment; give the bare address, {example}")
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_sound or not is_plain:
        raise ConfigError(f"{option} must be an http or https address in ASCII, {example}, was {one_line(url)!r}")
    return url.rstrip("/")


class ContentFiltered(ModelError):
    """A content filter blocked request or reply, which an adapter turns into a reply; elsewhere it is a `bad_request`."""


@dataclass(frozen=True)
class Caller:
    """Provider and model that errors are about."""

    provider: str  #: the provider's name
    model: str  #: the model's name at the provider
    endpoint: str  #: base URL without credentials
    variables: tuple[str, ...]  #: environment variables that may hold the key
    secrets: tuple[str, ...] = field(default=(), repr=False)  #: texts that no message may show
    #: error codes of this server, in lower case, and the HTTP status that each stands for, whatever status it came with; 402 is an
    #: empty account, 451 a content filter
    meanings: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the variables as a message names them."""
        return " or ".join(self.variables)


@dataclass(frozen=True)
class Refusal:
    """Error that a provider answered with instead of a reply."""

    status: int  #: HTTP status; 200 when an error came as the body of a success
    codes: tuple[str, ...] = ()  #: the error's code and type, in lower case
    message: str = ""  #: the provider's words, unfiltered: pass them through `one_line` before showing them
    parameter: str | None = None  #: the request field that it blames, where it names one
    retry_after_s: float | None = None  #: seconds after which it wants to be asked again, where it said so


def http_error(
    status: int, content: bytes, headers: Mapping[str, str], caller: Caller, sent: Collection[str] = ()
) -> ModelError | ProviderError:
    """Return the error (`error_of`) for a response other than 2xx; its body need not be JSON."""
    return error_of(refusal_of(status, content, headers), caller, sent)


def network_error(caller: Caller, words: str, is_timeout: bool = False, was_sent: bool = False) -> ModelError:
    """Return the error to raise where no whole response came; `words` of the HTTP library say why. `was_sent`: the request had
    begun to leave, so that its reply may be billed.
    """
    who = f"{caller.provider}/{caller.model}"
    if is_timeout:
        return ModelError("timeout", f"{who}: no whole reply from {caller.endpoint} within --timeout-s")
    words = one_line(words, caller.secrets)
    hint = " (is the address right?)" if any(word in words for word in _DNS_WORDS) else ""
    return ModelError("connection", f"{who}: {caller.endpoint} can't be reached: {words}{hint}", may_be_billed=was_sent)


def bad_response(caller: Caller, problem: str) -> ModelError:
    """Return the error to raise where a reply is not of the expected shape. `problem` must not quote the reply unfiltered."""
    return ModelError("bad_response", f"{caller.provider}/{caller.model}: {problem}")


def json_reply(
    content: bytes, caller: Caller, sent: Collection[str] = (), loads: Callable[[bytes], JsonValue] = loads_strict
) -> dict[str, JsonValue]:
    """Return the JSON object of a success, read by `loads`; raises ModelError (`bad_response`) for none, or what an error in it
    means.
    """
    try:
        body = loads(content)
    except ValueError:  # cut or malformed; UnicodeDecodeError is a ValueError too
        body = None
    if not isinstance(body, dict):
        what = "an HTML page" if content.lstrip()[:1] == b"<" else "no JSON object" if content.strip() else "an empty body"
        raise bad_response(caller, f"{caller.endpoint} answered with {what}; if it goes on so, see --base-url")
    base = body.get("base_resp")
    if body.get("error") or (isinstance(base, dict) and base.get("status_code")):
        raise error_of(read_refusal(200, body), caller, sent)
    return body


def one_line(text: str, secrets: Sequence[str] = ()) -> str:
    """Return foreign text in a form for messages: one line, no control characters, no secrets, at most 300 characters."""
    # Without NUL, ASCII in a page of UTF-16 is itself again: a key in it would not be found between spaces.
    text = _CONTROL.sub(" ", encodable(text[:_READ_CHARS].replace("\0", "")))
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "[key]")
        if len(secret) >= 2 * _KEY_START:
            text = re.sub(rf"{re.escape(secret[:_KEY_START])}\S*", "[key]", text)
    text = " ".join("[key]" if "***" in word else word for word in _KEY.sub("[key]", text).split())
    return shorten(text, LONGEST_QUOTE)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds after which a provider wants to be asked again: `retry-after-ms`, or `Retry-After` in seconds or as an HTTP date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # OverflowError: a year of eleven digits
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def refusal_of(status: int, content: bytes, headers: Mapping[str, str]) -> Refusal:
    """Read the body of a response with an error status; it need not be JSON."""
    wait_s = retry_after_s(headers)
    try:
        return read_refusal(status, loads_strict(content), wait_s)
    except ValueError:  # a proxy's HTML page, or nothing
        text = re.sub(r"<[^>]*>", " ", content[:2000].decode("utf-8", "replace"))
        return Refusal(status, message=text, retry_after_s=wait_s)


def read_refusal(status: int, body: JsonValue, wait_s: float | None = None) -> Refusal:
    """Read an error object in any of the forms that providers use. `{"error": {"message", "type", "code", "param"}}` (OpenAI and
    most), `{"type": "error", "error": {...}}` (Anthropic), `{"error": {"code", "status", "message"}}` (Google), `[{"error": ...}]`
    (Google's compatible server), `{"message", "type", "code"}` (vLLM), `{"error": "text"}` (Ollama), `{"detail": ...}` (servers on
    FastAPI), `{"base_resp": {"status_code", "status_msg"}}` (MiniMax).
    """
    if isinstance(body, list) and body:
        body = body[0]
    outer: Mapping[str, Any] = body if isinstance(body, dict) else {"message": body}
    inner, base = outer.get("error"), outer.get("base_resp")
    error: Mapping[str, Any] = inner if isinstance(inner, dict) else {**outer, "message": inner or outer.get("message")}
    codes = [error.get(name) for name in ("code", "type", "status")] + [outer.get("code")]
    message = error.get("message") or outer.get("detail") or ""
    if isinstance(base, dict):
        codes.append(base.get("status_code"))
        message = message or base.get("status_msg") or ""
    parameter = error.get("param")
    return Refusal(
        status,
        tuple(dict.fromkeys(str(code)[:_LONGEST_CODE].lower() for code in codes if isinstance(code, (str, int)) and code)),
        (message if isinstance(message, str) else str(message))[:_READ_CHARS],
        parameter if isinstance(parameter, str) else None,
        wait_s,
    )


def error_of(refusal: Refusal, caller: Caller, sent: Collection[str] = ()) -> ModelError | ProviderError:
    """Return the error to raise for a refusal; an unsupported parameter is looked for among the fields `sent`. ProviderError where
    every such call would fail (key, model, address, quota, a parameter); else ModelError of one of the harness's kinds, as
    `ContentFiltered` where that is why.
    """
    status = _meaning(refusal, caller)
    words = one_line(refusal.message, caller.secrets)
    quote = f"HTTP {refusal.status}" + (f": {words}" if words else "")
    who = f"{caller.provider}/{caller.model}"
    if status == FILTERED:
        return ContentFiltered("bad_request", f"{who}: {quote}")
    stop = _provider_error(status, caller, quote) or _parameter_error(refusal, status, caller, sent, quote)
    if stop is not None:
        return stop
    # An error of no known code inside a success may pass, as one of the server may.
    kind = _KINDS.get(status) or ("server" if status >= 500 or status < 400 else "bad_request")
    return ModelError(kind, f"{who}: {quote}", refusal.retry_after_s)


def _meaning(refusal: Refusal, caller: Caller) -> int:
    """Return the HTTP status that a refusal stands for, by its code where that says more than the status it came with."""
    codes = [part for code in refusal.codes for part in dict.fromkeys((code, code.partition(".")[0]))]
    for meanings in (caller.meanings, _MEANINGS):
        for code in codes:
            if code in meanings:
                return meanings[code]
    if refusal.status < 500 and _NO_MONEY_WORDS.search(refusal.message):
        return _NO_MONEY
    if refusal.status >= 300:
        return refusal.status
    numbers = (int(code) for code in codes if len(code) == 3 and code.isdecimal() and 400 <= int(code) < 600)
    implied = (_MEANINGS_WITHOUT_STATUS[code] for code in codes if code in _MEANINGS_WITHOUT_STATUS)
    return next(numbers, next(implied, refusal.status))


def _provider_error(status: int, caller: Caller, quote: str) -> ProviderError | None:
    meaning = "address" if 300 <= status < 400 or status == 405 else str(status)
    for row in _REFUSALS:
        if row["status"] == meaning:
            problem, advice = (row[part].format(caller=caller) for part in ("problem", "advice"))
            return ProviderError(f"{caller.provider}/{caller.model}: {problem} ({quote}); {advice}")
    return None


def _parameter_error(refusal: Refusal, status: int, caller: Caller, sent: Collection[str], quote: str) -> ProviderError | None:
    if status not in (400, 422):
        return None
    if not (set(refusal.codes) & _PARAMETER_CODES or _PARAMETER_WORDS.search(refusal.message)):
        return None
    blamed = [name for name in _blamed(refusal) if name in sent and name not in _CONVERSATION_FIELDS]
    if not blamed or _PROTOCOL_FIELDS & set(blamed):
        return None
    name = blamed[0]
    advice = f"leave it out with --model-args omit={name}"
    if name in _LENGTH_FIELDS:
        advice = f"name the other field with --model-args max_tokens_field={_LENGTH_FIELDS[1 - _LENGTH_FIELDS.index(name)]}"
    return ProviderError(f"{caller.provider}/{caller.model} refuses {name!r} ({quote}); {advice}")


def _blamed(refusal: Refusal) -> list[str]:
    """Return words that may be the request field to blame: the one named as such (of `a.b` the `a`), else all of the message."""
    if refusal.parameter is not None:
        return [re.split(r"[.\[]", refusal.parameter)[0]]
    return re.findall(r"[A-Za-z_]\w*", refusal.message)
