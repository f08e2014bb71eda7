"""Base URLs of servers, and typed errors for their responses.

Each error names the kind of failure and, in one line, what to fix. Any adapter of a provider can
use this module. It calls `http_error` for a response other than a success, `json_reply` for a
success, and `network_error` if no response came. The kind of a ModelError decides whether the call
is retried (`ktdeval.calls.retry`); a ProviderError ends the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from ktdeval.calls.context import ContextExceeded, read_context_refusal
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness.messages import encodable
from ktdeval.masking.shortening import shorten
from ktdeval.secrets.redaction import hide_keys
from ktdeval.values.jsonio import JsonValue, csv_rows, loads_strict

LONGEST_QUOTE = 300  #: Longest quote of a provider's own words in a message, in characters
_READ_CHARS = 20 * LONGEST_QUOTE  # longer texts are cut before they are searched

#: Status that means "blocked by a content filter", whatever status the provider sends
FILTERED = 451
_NO_MONEY = 402
_NO_MODEL = 404

_CODES = csv_rows(Path(__file__).with_name("error_codes.csv"))
"""Error codes and types of OpenAI, Anthropic and Google, with the HTTP status that each means.

`under: any` applies whatever the status of the response; `under: none` only if the error came in
the body of a success, which has no error status of its own.
"""
_MEANINGS, _MEANINGS_WITHOUT_STATUS = (
    {row["code"]: int(row["status"]) for row in _CODES if row["under"] == under}
    for under in ("any", "none")
)
_REFUSALS = csv_rows(Path(__file__).with_name("refusals.csv"))  #: What ends a run, by HTTP status
_KINDS = {
    408: "timeout",
    409: "server",
    425: "server",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}

# Statuses with which servers refuse a prompt that is too long. llama-cpp-python sends 500; 200 is
# an error in the body of a success.
_PROMPT_STATUSES = frozenset((200, 400, 413, 422, 500))
# A single request above the allowance per minute never succeeds, however long the wait.
_NEVER_PASSES = re.compile(r"request too large", re.IGNORECASE)

_PARAMETER_CODES = frozenset(("unsupported_parameter", "unsupported_value", "unknown_parameter"))
_NO_MONEY_WORDS = re.compile(
    r"insufficient (account )?(balance|funds|quota|credit)|balance is (too low|not"
    r" enough|insufficient)|余额不足|欠费|in arrears",
    re.IGNORECASE,
)
# A missing model, reported with the status of a bad request (400 or 422) instead of 404.
_NO_MODEL_WORDS = re.compile(
    r"\bmodel\b.{0,100}?\b(does not exist|doesn't exist|not found|not exist)"
    r"|\b(invalid|unknown|no such) model( name| id)?\s*[:='\"`]",
    re.IGNORECASE,
)
# The limit on the length of a reply does not depend on the prompt: every request would exceed it.
_REPLY_LIMIT_WORDS = re.compile(
    r"max_?(completion_?|output_?)?tokens\b.{0,80}(too large|at most|valid range|should be"
    r" \[|supported range|maximum allowed)"
    r"|range of max_?tokens",
    re.IGNORECASE,
)
_PARAMETER_WORDS = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not"
    r" allowed|deprecated"
    r"|may only be|only .{1,40}allowed|only the default",
    re.IGNORECASE,
)
# These words occur in almost any message, so they do not identify the field to blame.
_CONVERSATION_FIELDS = frozenset(
    ("model", "messages", "input", "instructions", "system", "contents")
)
# If a server refuses one of these, it may still accept another tool protocol.
_PROTOCOL_FIELDS = frozenset(
    ("tools", "tool_choice", "tool_config", "text", "response_format", "output_config", "format")
)
_CODE_FIELDS = ("code", "type", "status", "statusCode", "error_code")
_MESSAGES = ("detail", "error_msg", "error_message", "Message")
_REPLY_FIELDS = (
    "choices",
    "output",
    "content",
    "candidates",
    "promptFeedback",
    "recommended_action",
)
_ERROR_FIELDS = ("message", "detail", "errors", "error_msg", "error_message", "Message")
_RETRY_WORDS = re.compile(
    r"(?:try again in|retry after|retry in) (\d+(?:\.\d+)?) ?(ms|m(?:in)?|s(?:ec)?)", re.IGNORECASE
)
_UNIT_S = {"ms": 0.001, "m": 60.0, "min": 60.0, "s": 1.0, "sec": 1.0}
_LENGTH_FIELDS = ("max_tokens", "max_completion_tokens")

_KEY = re.compile(r"\b(sk|rk|pk)-[\w*-]{6,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")
_DNS_WORDS = (
    "Name or service not known",
    "nodename nor servname",
    "name resolution",
    "getaddrinfo",
)
_LONGEST_CODE = 100  # characters
_KEY_START = 6  # characters; some providers quote only the beginning of a key


class ContentFiltered(ModelError):
    """Request or reply blocked by a content filter.

    An adapter turns it into a reply; anything else treats it as a `bad_request`.
    """


@dataclass(frozen=True)
class Caller:
    """Provider and model named in errors, and the secrets that errors must not show."""

    provider: str  #: the provider's name
    model: str  #: the model's name at the provider
    endpoint: str  #: base URL without credentials
    variables: tuple[str, ...]  #: environment variables that may hold the key
    secrets: tuple[str, ...] = field(default=(), repr=False)  #: texts that no message may show
    #: HTTP status that each error code of this server means, by code in lower case; it overrides
    #: the status of the response: 402 is an empty account, 451 a content filter
    meanings: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the variables in words, for messages."""
        return " or ".join(self.variables)


@dataclass(frozen=True)
class Refusal:
    """Error that a provider answered with instead of a reply."""

    status: int  #: HTTP status; 200 when an error came as the body of a success
    codes: tuple[str, ...] = ()  #: the error's code and type, in lower case
    #: the provider's words, unfiltered: pass them through `one_line` before showing them
    message: str = ""
    parameter: str | None = None  #: the request field that the provider blames, if it names one
    #: seconds to wait before the next attempt, if the provider states them
    retry_after_s: float | None = None
    #: `n_ctx` and `n_prompt_tokens` of llama.cpp, if the prompt is too long
    numbers: Mapping[str, int] = field(default_factory=dict)


def http_error(
    status: int,
    content: bytes,
    headers: Mapping[str, str],
    caller: Caller,
    sent: Collection[str] = (),
) -> ModelError | ProviderError:
    """Return the error for a response other than 2xx (see `error_of`); the body may be any text."""
    return error_of(refusal_of(status, content, headers), caller, sent)


def network_error(
    caller: Caller, words: str, is_timeout: bool = False, was_sent: bool = False
) -> ModelError:
    """Return the error to raise if no complete response came; `words` are the HTTP library's.

    `was_sent`: the request had started to leave, so the provider may bill its reply.
    """
    who = f"{caller.provider}/{caller.model}"
    if is_timeout:
        return ModelError(
            "timeout", f"{who}: no whole reply from {caller.endpoint} within --timeout-s"
        )

    words = one_line(words, caller.secrets)
    hint = ""
    if any(word in words for word in _DNS_WORDS):
        hint = " (is the address right?)"

    return ModelError(
        "connection",
        f"{who}: {caller.endpoint} can't be reached: {words}{hint}",
        may_be_billed=was_sent,
    )


def bad_response(caller: Caller, problem: str) -> ModelError:
    """Return the error to raise if a reply has an unexpected shape.

    `problem` must not quote the reply unfiltered (see `one_line`).
    """
    return ModelError("bad_response", f"{caller.provider}/{caller.model}: {problem}")


def json_reply(
    content: bytes,
    caller: Caller,
    sent: Collection[str] = (),
    loads: Callable[[bytes], JsonValue] = loads_strict,
) -> dict[str, JsonValue]:
    """Return the JSON object in the body of a success, parsed by `loads`.

    Raises ModelError (`bad_response`) if the body is not a JSON object, and the error of
    `error_of` if the object reports an error.
    """
    try:
        body = loads(content)
    except ValueError:  # cut off or malformed; UnicodeDecodeError is a ValueError too
        body = None

    if not isinstance(body, dict):
        what = _kind_of(content)
        raise bad_response(
            caller, f"{caller.endpoint} answered with {what}; if it goes on so, see --base-url"
        )

    refused = refused_body(body)
    if refused is not None:
        raise error_of(read_refusal(200, refused), caller, sent)

    return body


def _kind_of(content: bytes) -> str:
    """Describe a body that is not a JSON object, in words."""
    begin = content.lstrip()[:16]
    if not begin:
        return "an empty body"
    if begin.startswith(b"<"):
        return "an HTML page"
    if begin.startswith((b"data:", b"event:", b": ")):
        return "a stream of events, which was not asked for"

    return "no JSON object"


def refused_body(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the error object in the body of a success; None if there is no error.

    OpenRouter puts an error of the server behind it into the first choice. vLLM and gateways send
    the error alone, in the same form as with an error status.
    """
    base = body.get("base_resp")
    if body.get("error") or (isinstance(base, dict) and base.get("status_code")):
        return body

    choices = body.get("choices")
    if isinstance(choices, list) and choices:
        first = choices[0]
        if isinstance(first, dict) and first.get("error"):
            return first

    is_reply = any(body.get(name) is not None for name in _REPLY_FIELDS)
    is_error = body.get("object") == "error" or any(body.get(name) for name in _ERROR_FIELDS)
    if is_error and not is_reply:
        return body

    return None


def one_line(text: str, secrets: Sequence[str] = ()) -> str:
    """Return a provider's text in a form that is safe to show in messages.

    That is one line of at most 300 characters, without control characters and secrets.
    """
    # ASCII text in UTF-16 has a NUL after each character. Remove the NULs before other control
    # characters become spaces: a key with a space after each character would not be recognised.
    text = encodable(text[:_READ_CHARS].replace("\0", ""))
    text = _CONTROL.sub(" ", text)
    text = hide_keys(text, secrets)

    for secret in secrets:
        if len(secret) >= 2 * _KEY_START:
            text = re.sub(rf"{re.escape(secret[:_KEY_START])}\S*", "[key]", text)

    text = _KEY.sub("[key]", text)
    words = ["[key]" if "***" in word else word for word in text.split()]
    return shorten(" ".join(words), LONGEST_QUOTE)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait before the next attempt, as the headers of a response state them.

    Reads `retry-after-ms`, else `Retry-After` in seconds or as an HTTP date; None without both.
    """
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

    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)

    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def refusal_of(status: int, content: bytes, headers: Mapping[str, str]) -> Refusal:
    """Read the body of a response with an error status, which may be JSON or any other text."""
    wait_s = retry_after_s(headers)
    try:
        return read_refusal(status, loads_strict(content), wait_s)
    except ValueError:  # a proxy's HTML page, or nothing
        text = re.sub(r"<[^>]*>", " ", content[:2000].decode("utf-8", "replace"))
        return Refusal(status, message=text, retry_after_s=wait_s)


def read_refusal(status: int, body: JsonValue, wait_s: float | None = None) -> Refusal:
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
    message: Any = error.get("message") or _first_message(outer)

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

    return Refusal(
        status, _distinct_codes(codes), message[:_READ_CHARS], parameter, wait_s, _sizes(error)
    )


def _first_message(outer: Mapping[str, Any]) -> Any:
    """Return the first message under one of its rarer names; "" if there is none."""
    for name in _MESSAGES:
        if outer.get(name):
            return outer[name]

    return ""


def _wait_in_words(message: str) -> float | None:
    """Return the seconds to wait that a message states ("try again in 20s"); None without them."""
    wait = _RETRY_WORDS.search(message)
    if wait is None:
        return None
    return float(wait[1]) * _UNIT_S[wait[2].lower()]


def _distinct_codes(codes: Sequence[object]) -> tuple[str, ...]:
    """Return each code once, in lower case and cut to a sane length."""
    texts = [str(code) for code in codes if isinstance(code, (str, int)) and code]
    return tuple(dict.fromkeys(text[:_LONGEST_CODE].lower() for text in texts))


def _sizes(error: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of context and prompt that llama.cpp states in an error."""
    sizes: dict[str, int] = {}
    for name in ("n_ctx", "n_prompt_tokens"):
        value = error.get(name)
        if type(value) is int:  # True is no size
            sizes[name] = value

    return sizes


def _with_upstream(message: str, error: Mapping[str, Any]) -> str:
    """Return an error's message with the words of the server behind a gateway (OpenRouter)."""
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


def error_of(
    refusal: Refusal, caller: Caller, sent: Collection[str] = ()
) -> ModelError | ProviderError:
    """Return the error to raise for a refusal.

    ProviderError if every such call would fail (key, model, address, quota, or an unsupported
    parameter among the fields `sent`). Otherwise a ModelError with one of the harness's kinds;
    `ContentFiltered` and `ContextExceeded` are its subclasses for these two causes.
    """
    status = _meaning(refusal, caller)
    quote = f"HTTP {refusal.status}"
    words = one_line(refusal.message, caller.secrets)
    if words:
        quote = f"{quote}: {words}"

    who = f"{caller.provider}/{caller.model}"
    if status == FILTERED:
        return ContentFiltered("bad_request", f"{who}: {quote}")

    too_long = _too_long(refusal, status, f"{who}: {quote}")
    if too_long is not None:
        return too_long

    stop = (
        _provider_error(status, caller, quote)
        or _reply_limit_error(refusal, status, who, quote)
        or _parameter_error(refusal, status, caller, sent, quote)
    )
    if stop is not None:
        return stop

    kind = _KINDS.get(status, "bad_request")
    # An unknown error in the body of a success is retried, like an error of the server.
    is_of_server = status >= 500 or status < 400
    if status not in _KINDS and is_of_server:
        kind = "server"

    return ModelError(kind, f"{who}: {quote}", refusal.retry_after_s)


def _too_long(refusal: Refusal, status: int, words: str) -> ContextExceeded | None:
    """Return the error for a prompt longer than the context; None for any other refusal."""
    is_about_prompt = status in _PROMPT_STATUSES or (
        status == 429 and _NEVER_PASSES.search(refusal.message)
    )
    if not is_about_prompt:
        return None

    sizes = read_context_refusal(refusal.codes, refusal.message, refusal.numbers)
    if sizes is None:
        return None

    return ContextExceeded(words, sizes.context, sizes.prompt_tokens, refusal.retry_after_s)


def _meaning(refusal: Refusal, caller: Caller) -> int:
    """Return the HTTP status that a refusal means.

    A known error code or message overrides the status of the response, which is often too general.
    """
    codes: list[str] = []
    for code in refusal.codes:
        # DashScope's codes have parts (`throttling.allocationquota`): the first names the cause.
        codes += dict.fromkeys((code, code.partition(".")[0]))

    for meanings in (caller.meanings, _MEANINGS):
        for code in codes:
            if code in meanings:
                return meanings[code]

    if refusal.status < 500 and _NO_MONEY_WORDS.search(refusal.message):
        return _NO_MONEY
    if refusal.status in (400, 422) and _NO_MODEL_WORDS.search(refusal.message):
        return _NO_MODEL
    if refusal.status >= 300:
        return refusal.status

    return _status_from_codes(codes) or refusal.status


def _status_from_codes(codes: Sequence[str]) -> int | None:
    """Return the status of an error that came in the body of a success; None if no code tells."""
    for code in codes:
        # the code is itself the status that the response should have had
        if len(code) == 3 and code.isdecimal() and 400 <= int(code) < 600:
            return int(code)

    for code in codes:
        if code in _MEANINGS_WITHOUT_STATUS:
            return _MEANINGS_WITHOUT_STATUS[code]

    return None


def _provider_error(status: int, caller: Caller, quote: str) -> ProviderError | None:
    """Return the error for a status that ends the run (`refusals.csv`); None for any other."""
    meaning = str(status)
    if 300 <= status < 400 or status == 405:
        meaning = "address"  # a redirect or a refused method: the base URL is wrong

    for row in _REFUSALS:
        if row["status"] == meaning:
            problem = row["problem"].format(caller=caller)
            advice = row["advice"].format(caller=caller)
            return ProviderError(f"{caller.provider}/{caller.model}: {problem} ({quote}); {advice}")

    return None


def is_reply_limit(message: str) -> bool:
    """Whether a refusal says that the requested length exceeds the model's longest reply."""
    return _REPLY_LIMIT_WORDS.search(message) is not None


def _reply_limit_error(refusal: Refusal, status: int, who: str, quote: str) -> ProviderError | None:
    """Return the error for --max-output-tokens above the model's limit; None for any other."""
    if status not in (400, 422) or not is_reply_limit(refusal.message):
        return None
    return ProviderError(
        f"{who} takes no reply that long ({quote}); give a lower --max-output-tokens"
    )


def _parameter_error(
    refusal: Refusal, status: int, caller: Caller, sent: Collection[str], quote: str
) -> ProviderError | None:
    """Return the error for a request field that the model does not support; None for any other."""
    if status not in (400, 422):
        return None
    if not (set(refusal.codes) & _PARAMETER_CODES or _PARAMETER_WORDS.search(refusal.message)):
        return None

    candidates = set(sent) - _CONVERSATION_FIELDS
    blamed = [name for name in _blamed(refusal) if name in candidates]
    if not blamed or _PROTOCOL_FIELDS & set(blamed):
        return None

    name = blamed[0]
    advice = f"leave it out with --model-args omit={name}"
    if name in _LENGTH_FIELDS:
        other = _LENGTH_FIELDS[1 - _LENGTH_FIELDS.index(name)]
        advice = f"name the other field with --model-args max_tokens_field={other}"

    return ProviderError(f"{caller.provider}/{caller.model} refuses {name!r} ({quote}); {advice}")


def _blamed(refusal: Refusal) -> list[str]:
    """Return words that may name the request field to blame.

    That is the field that the error names (`a` for `a.b`); without one, each word of the message.
    """
    if refusal.parameter is not None:
        return [re.split(r"[.\[]", refusal.parameter)[0]]
    return re.findall(r"[A-Za-z_]\w*", refusal.message)
