"""Parse error objects in any of the forms that providers use, and the waiting time that they
request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ktdeval.values.documents.strict_json import JsonValue, loads_strict

#: maximum characters of a message; longer messages are truncated before they are searched
READ_CHARS = 6_000

_READ_BYTES = 2_000  #: maximum bytes read from a body that is not JSON
#: an HTML tag, including content that the page does not show
_TAG = re.compile(r"<(style|script)\b.*?(</\1>|\Z)|<[^>]*>", re.IGNORECASE | re.DOTALL)

_CODE_FIELDS = ("code", "type", "status", "statusCode", "error_code")
#: less common names of the message field
_MESSAGES = ("detail", "error_msg", "error_message", "Message")
_RETRY_WORDS = re.compile(
    r"(?:try again in|retry after|retry in) (\d+(?:\.\d+)?) ?(ms|m(?:in)?|s(?:ec)?)", re.IGNORECASE
)
_UNIT_S = {"ms": 0.001, "m": 60.0, "min": 60.0, "s": 1.0, "sec": 1.0}

_LONGEST_CODE = 100  # characters


@dataclass(frozen=True)
class ProviderRefusal:
    """Error that a provider returned instead of a reply."""

    status: int  #: HTTP status; 200 if the error came in the body of a success
    codes: tuple[str, ...] = ()  #: the error's code and type, in lower case
    #: the provider's message, unfiltered; to be passed through `one_line` before it is shown
    message: str = ""
    parameter: str | None = None  #: the request field that the provider blames, if it names a field
    #: seconds to wait before the next attempt, if the provider gives a time
    retry_after_s: float | None = None
    #: `n_ctx` and `n_prompt_tokens` from llama.cpp, if the prompt is too long
    numbers: Mapping[str, int] = field(default_factory=dict)


def refusal_of(status: int, content: bytes, headers: Mapping[str, str]) -> ProviderRefusal:
    """Parse the body of a response with an error status. The body may be JSON or any other text."""
    wait_s = retry_after_s(headers)
    try:
        return read_refusal(status, loads_strict(content), wait_s)
    except ValueError:  # a proxy's HTML page, or an empty body
        return ProviderRefusal(status, message=without_tags(content), retry_after_s=wait_s)


def without_tags(content: bytes) -> str:
    """Return the beginning of a text; for an HTML page, the beginning of the visible text."""
    text = content[:_READ_BYTES].decode("utf-8", "replace")
    return _TAG.sub(" ", text)


def read_refusal(status: int, body: JsonValue, wait_s: float | None = None) -> ProviderRefusal:
    """Read an error object in any of the forms that providers use.

    `{"error": {"message", "type", "code", "param"}}` (OpenAI and most), `{"type": "error", "error":
    {...}}` (Anthropic), `{"error": {"code", "status", "message"}}` (Google), `[{"error": ...}]`
    (Google's OpenAI-compatible server), `{"message", "type", "code"}` (vLLM), `{"error": "text"}`
    (Ollama), `{"detail": ...}` (servers on FastAPI), `{"errors": [...]}` (Cloudflare),
    `{"base_resp": {"status_code", "status_msg"}}` (MiniMax).
    """
    if isinstance(body, list) and body:
        body = body[0]

    outer: Mapping[str, Any] = body if isinstance(body, dict) else {"message": body}
    several = outer.get("errors")
    if isinstance(several, list) and several and isinstance(several[0], dict):
        outer = {**outer, "error": several[0]}  # Cloudflare

    inner = outer.get("error")
    error: Mapping[str, Any] = outer
    if isinstance(inner, dict):
        error = inner
    elif inner:
        error = {**outer, "message": inner}

    codes = [error.get(name) for name in _CODE_FIELDS]
    codes.append(outer.get("code"))
    codes += _inner_codes(error)
    rarer = map(outer.get, _MESSAGES)
    message: Any = error.get("message") or next(filter(None, rarer), "")

    base = outer.get("base_resp")
    if isinstance(base, dict):
        codes.append(base.get("status_code"))
        message = message or base.get("status_msg") or ""

    message = _with_upstream(str(message), error)
    if wait_s is None:
        wait_s = _wait_in_words(message)

    parameter = error.get("param")
    if not isinstance(parameter, str):
        parameter = None

    return ProviderRefusal(
        status, _distinct_codes(codes), message[:READ_CHARS], parameter, wait_s, _sizes(error)
    )


def _inner_codes(error: Mapping[str, Any]) -> Iterator[object]:
    """Yield the codes in nested objects of an error, as in Azure errors and OpenRouter moderation
    errors.
    """
    for name in ("innererror", "inner_error"):
        inner = error.get(name)
        if isinstance(inner, dict):
            yield inner.get("code")

    metadata = error.get("metadata")
    if isinstance(metadata, dict) and ("flagged_input" in metadata or metadata.get("reasons")):
        yield "content_filter"


def _wait_in_words(message: str) -> float | None:
    """Return the waiting time in seconds that a message specifies ("try again in 20s"); None if it
    specifies no time.
    """
    wait = _RETRY_WORDS.search(message)
    if wait is None:
        return None
    return float(wait[1]) * _UNIT_S[wait[2].lower()]


def _distinct_codes(codes: Sequence[object]) -> tuple[str, ...]:
    """Return each code once, in lower case and truncated to a reasonable length."""
    texts = [str(code) for code in codes if isinstance(code, (str, int)) and code]
    return tuple(dict.fromkeys(text[:_LONGEST_CODE].lower() for text in texts))


def _sizes(error: Mapping[str, Any]) -> dict[str, int]:
    """Return the context and prompt sizes that llama.cpp reports in an error."""
    sizes: dict[str, int] = {}
    for name in ("n_ctx", "n_prompt_tokens"):
        value = error.get(name)
        if type(value) is int:  # True is not a size
            sizes[name] = value

    return sizes


def _with_upstream(message: str, error: Mapping[str, Any]) -> str:
    """Return an error's message together with the message of the server behind a gateway
    (OpenRouter).
    """
    metadata = error.get("metadata")
    if not isinstance(metadata, dict):
        return message

    words = metadata.get("raw")
    if not isinstance(words, str):
        words = ""

    try:
        upstream = loads_strict(words)
    except ValueError:
        upstream = None

    if isinstance(upstream, dict):
        words = read_refusal(200, upstream).message or words

    if words:
        message = f"{message}: {words}"

    provider = metadata.get("provider_name")
    if isinstance(provider, str):
        message = f"{message} ({provider})"

    return message


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait before the next attempt, as given in the headers of a response.

    Reads `retry-after-ms`, otherwise `Retry-After` in seconds or as an HTTP date. None if both are
    missing.
    """
    milliseconds = _nonnegative_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000

    text = headers.get("retry-after")
    if text is None:
        return None

    seconds = _nonnegative_number(text)
    if seconds is not None:
        return seconds

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # OverflowError: a year with eleven digits
        return None

    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)

    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _nonnegative_number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
