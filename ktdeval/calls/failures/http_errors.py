"""Errors for HTTP responses, as typed errors.

Each error gives the kind of failure and, in one line, what to fix. Any provider adapter can use
this module. It calls `http_error` for a response other than a success, `json_reply` for a success,
and `network_error` if no response came. The kind of a ModelError decides whether the call is
retried (`ktdeval.calls.failures.retry`); a ProviderError ends the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.calls.failures.context_refusals import ContextExceeded, context_exceeded
from ktdeval.calls.failures.provider_errors import (
    READ_CHARS,
    ProviderRefusal,
    read_refusal,
    refusal_of,
    without_tags,
)
from ktdeval.calls.failures.retry import OtherServer
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness.chat_messages import encodable
from ktdeval.masking.text_truncation import shorten
from ktdeval.secrets.redaction import hide_keys
from ktdeval.values.disk.files import csv_rows
from ktdeval.values.documents.strict_json import JsonValue, loads_strict
from ktdeval.values.documents.yamlio import load_yaml

_BLANK = b"\xef\xbb\xbf \t\r\n"  # byte order mark and white space
_SHORT_QUOTE = 120  #: maximum characters quoted from a body that is not an error
LONGEST_QUOTE = 300  #: maximum characters quoted in a message from a provider's own words

#: Status that represents "blocked by a content filter", whatever status the provider sends
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
#: errors that end a run, by HTTP status
_REFUSALS = {row["status"]: row for row in csv_rows(Path(__file__).with_name("refusals.csv"))}
_KINDS = {
    408: "timeout",
    409: "server",
    425: "server",
    429: "rate_limited",
    503: "overloaded",
    # Anthropic's overloaded_error (error_codes.csv)
    529: "overloaded",
}

# Statuses that servers send when they reject a prompt as too long. llama-cpp-python sends 500; 200
# means an error in the body of a success.
_PROMPT_STATUSES = frozenset((200, 400, 413, 422, 500))
# A single request larger than the allowance per minute never succeeds, however long the wait.
_NEVER_PASSES = re.compile(r"request too large", re.IGNORECASE)

#: Statuses that servers send when moderation blocks a prompt; 200 as above
_MODERATION_STATUSES = frozenset((200, 400, 403, 422))
_PARAMETER_CODES = frozenset(("unsupported_parameter", "unsupported_value", "unknown_parameter"))
# These words occur in almost any message, so they do not identify the field to blame.
_CONVERSATION_FIELDS = frozenset(
    ("model", "messages", "input", "instructions", "system", "contents")
)
# If a server rejects one of these fields, it may still accept another tool protocol.
_PROTOCOL_FIELDS = frozenset(
    ("tools", "tool_choice", "tool_config", "text", "response_format", "output_config", "format")
)
_TOOL_FIELDS = _PROTOCOL_FIELDS | {"toolConfig"}
_REPLY_FIELDS = (
    "choices",
    "output",
    "content",
    "candidates",
    "promptFeedback",
    "recommended_action",
)
_ERROR_FIELDS = ("message", "detail", "errors", "error_msg", "error_message", "Message")
_LENGTH_FIELDS = ("max_tokens", "max_completion_tokens")

_KEY = re.compile(r"\b(sk|rk|pk)-[\w*-]{6,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")
_DNS_WORDS = (
    "Name or service not known",
    "nodename nor servname",
    "name resolution",
    "getaddrinfo",
)
_KEY_START = 6  # characters; some providers quote only the beginning of a key


class ContentFiltered(ModelError):
    """Request or reply blocked by a content filter.

    An adapter turns this error into a reply; other code treats it as a `bad_request`.
    """


@dataclass(frozen=True)
class Caller:
    """Provider and model named in errors, and the secrets that errors must not show."""

    provider: str  #: the provider's name
    model: str  #: the model's name at the provider
    endpoint: str  #: base URL without credentials
    variables: tuple[str, ...]  #: environment variables that may contain the key
    secrets: tuple[str, ...] = field(default=(), repr=False)  #: strings that no message may show
    #: HTTP status that each of this server's error codes means, keyed by code in lower case. It
    #: overrides the status of the response; 402 means an empty account, 451 a content filter.
    meanings: Mapping[str, int] = field(default_factory=dict)
    path: str = ""  #: path of the API method below the endpoint; empty if it need not be named

    @property
    def key(self) -> str:
        """Return the names of the variables, joined by "or", for use in messages."""
        return " or ".join(self.variables)


def http_error(
    status: int,
    content: bytes,
    headers: Mapping[str, str],
    caller: Caller,
    sent: Collection[str] = (),
) -> ModelError | ProviderError:
    """Return the error for a response other than 2xx (see `error_of`). The body may be any text."""
    return error_of(refusal_of(status, content, headers), caller, sent)


def network_error(
    caller: Caller, words: str, is_timeout: bool = False, was_sent: bool = False
) -> ModelError:
    """Return the error to raise if no complete response came. `words` is the HTTP library's
    message; for a timeout, what did not come in time and the option that gives it more time.

    `was_sent` means that part of the request had been sent, so the provider may bill the reply.
    """
    who = f"{caller.provider}/{caller.model}"
    if is_timeout:
        missing = words or "no whole reply within --timeout-s"
        return ModelError("timeout", f"{who}: {missing} from {caller.endpoint}")

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
    """Return the error to raise if a reply has an unexpected structure.

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

    Raises ModelError (`bad_response`) if the body is not a JSON object, OtherServer if it is an
    HTML page or plain text, and the error returned by `error_of` if the object reports an error.
    """
    body = json_object(content, caller, loads)
    refused = refused_body(body)
    if refused is not None:
        raise error_of(read_refusal(200, refused), caller, sent)

    return body


def json_object(
    content: bytes, caller: Caller, loads: Callable[[bytes], JsonValue] = loads_strict
) -> dict[str, JsonValue]:
    """Return the JSON object in the body of a success, parsed by `loads`.

    Raises ModelError (`bad_response`) if the body is not a JSON object, and OtherServer if it is an
    HTML page or plain text.
    """
    where = f"{caller.provider}/{caller.model}: {caller.endpoint}"
    try:
        body = loads(content)
    except ValueError:  # truncated or malformed; UnicodeDecodeError is a ValueError too
        raise not_json(content, where, caller.secrets) from None

    if not isinstance(body, dict):
        words = quote_server_text(content.decode("utf-8", "replace"), caller.secrets)
        raise ModelError(
            "bad_response", f"{where} answered with something other than a JSON object{words}"
        )

    return body


def not_json(content: bytes, where: str, secrets: Sequence[str] = ()) -> ModelError:
    """Return the error for a body that is not the expected JSON, quoting how it begins.

    The error is OtherServer for an HTML page or plain text, and otherwise `bad_response`, as for a
    truncated body.
    """
    begin = content.lstrip(_BLANK)[:16]
    is_other = False
    if not begin:
        what = "an empty body"
    elif begin.startswith((b"data:", b"event:", b": ")):
        what = "a stream of events, which was not asked for"
    elif begin.startswith(b"<"):
        what = "an HTML page"
        is_other = True
    elif begin[:1].isalpha():
        what = "a text that is not JSON"
        is_other = True
    else:
        what = "something other than a JSON object"

    problem = f"{where} answered with {what}{quote_server_text(without_tags(content), secrets)}"
    if is_other:
        return OtherServer(f"{problem}, so it is not the server of this API")
    return ModelError("bad_response", problem)


def quote_server_text(text: str, secrets: Sequence[str] = ()) -> str:
    """Return the beginning of a server's text in brackets, safe to show; empty if the text has no
    words.
    """
    words = shorten(one_line(text, secrets), _SHORT_QUOTE)
    return f" ({words})" if words else ""


def refused_body(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the error object in the body of a success; None if there is no error.

    OpenRouter puts an error from an upstream server into the first choice. vLLM and gateways send
    only the error, in the same form as with an error status.
    """
    base = body.get("base_resp")
    if body.get("error") or (isinstance(base, dict) and base.get("status_code")):
        return body

    choices = body.get("choices")
    if isinstance(choices, list) and choices:
        first = choices[0]
        if isinstance(first, dict) and first.get("error"):
            return first

    is_error = body.get("object") == "error" or any(body.get(name) for name in _ERROR_FIELDS)
    if is_error and not is_reply(body):
        return body

    return None


def is_reply(body: Mapping[str, Any]) -> bool:
    """Return whether a JSON object has a field that belongs to a reply of any supported API."""
    return any(body.get(name) is not None for name in _REPLY_FIELDS)


def one_line(text: str, secrets: Sequence[str] = ()) -> str:
    """Return a provider's text in a form that is safe to show in messages: one line of at most 300
    characters, without control characters or secrets.
    """
    # ASCII text in UTF-16 has a NUL after each character. The NULs are removed before other control
    # characters become spaces; otherwise a key would have a space after each character and not be
    # recognised.
    text = encodable(text[:READ_CHARS].replace("\0", ""))
    text = _CONTROL.sub(" ", text)
    text = hide_keys(text, secrets)

    for secret in secrets:
        if len(secret) >= 2 * _KEY_START:
            text = re.sub(rf"{re.escape(secret[:_KEY_START])}\S*", "[key]", text)

    text = _KEY.sub("[key]", text)
    words = ["[key]" if "***" in word else word for word in text.split()]
    return shorten(" ".join(words), LONGEST_QUOTE)


class ParameterRefused(ProviderError):
    """A model does not support a request field, whatever else the request holds."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter  #: the field's name in the request


def error_of(
    refusal: ProviderRefusal, caller: Caller, sent: Collection[str] = ()
) -> ModelError | ProviderError:
    """Return the error to raise for a refusal.

    It is a ProviderError if every such call would fail (key, model, address, quota, or an
    unsupported parameter among the fields `sent`). Otherwise it is a ModelError with one of the
    harness's kinds. Two kinds of refusal have their own subclasses, `ContentFiltered` and
    `ContextExceeded`.
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

    # The request may succeed at another server that has the model if it uses another form of tools.
    if status == _NO_MODEL and _TOOL_FIELDS & set(sent) and _says("no_tools", refusal.message):
        advice = "ask for calls in another form: --tool-protocol json_schema, or text"
        return ModelError("bad_request", f"{who}: {quote}; {advice}", refusal.retry_after_s)

    stop = (
        _provider_error(_ending(refusal, status, caller), caller, quote)
        or _reply_limit_error(refusal, status, who, quote)
        or _parameter_error(refusal, status, caller, sent, quote)
    )
    if stop is not None:
        return stop

    # An unknown error in the body of a success is retried, like a server error.
    kind = failure_kind(status if status >= 400 else 500)
    return ModelError(kind, f"{who}: {quote}", refusal.retry_after_s)


def failure_kind(status: int) -> str:
    """Return the kind of ModelError for an HTTP status."""
    return _KINDS.get(status, "server" if status >= 500 else "bad_request")


def code_status(code: str) -> int | None:
    """Return the HTTP status that an error code or type means (`error_codes.csv`); None if the code
    is not known.
    """
    return _MEANINGS.get(code) or _MEANINGS_WITHOUT_STATUS.get(code)


def _too_long(refusal: ProviderRefusal, status: int, words: str) -> ContextExceeded | None:
    """Return the error for a prompt longer than the context; None for any other refusal."""
    is_about_prompt = status in _PROMPT_STATUSES or (
        status == 429 and _NEVER_PASSES.search(refusal.message)
    )
    return context_exceeded(refusal, words) if is_about_prompt else None


def _meaning(refusal: ProviderRefusal, caller: Caller) -> int:
    """Return the HTTP status that a refusal effectively means.

    A known error code or message overrides the status of the response, which is often too general.
    """
    codes: list[str] = []
    for code in refusal.codes:
        # Codes from DashScope have parts (`throttling.allocationquota`); the first part names the
        # cause.
        codes += dict.fromkeys((code, code.partition(".")[0]))

    for meanings in (caller.meanings, _MEANINGS):
        for code in codes:
            if code in meanings:
                return meanings[code]

    if refusal.status < 500 and _says("no_money", refusal.message):
        return _NO_MONEY
    if refusal.status in (400, 422) and _says("no_model", refusal.message):
        return _NO_MODEL
    if _is_moderated(refusal):
        return FILTERED
    if refusal.status >= 300:
        return refusal.status

    return _status_from_codes(codes) or refusal.status


def _is_moderated(refusal: ProviderRefusal) -> bool:
    """Return whether moderation blocked this prompt or reply but might let another one pass."""
    if refusal.status not in _MODERATION_STATUSES or set(refusal.codes) & _PARAMETER_CODES:
        return False
    return _says("filtered", refusal.message) and not _says("barred", refusal.message)


def _says(meaning: str, message: str) -> bool:
    """Return whether a message matches the patterns for a meaning in `refusal_words.yaml`."""
    return _read_refusal_patterns()[meaning].search(message) is not None


@cache
def _read_refusal_patterns() -> Mapping[str, re.Pattern[str]]:
    patterns = load_yaml(Path(__file__).with_name("refusal_words.yaml"))
    return {name: re.compile("|".join(each), re.IGNORECASE) for name, each in patterns.items()}


def _status_from_codes(codes: Sequence[str]) -> int | None:
    """Return the status for an error that came in the body of a success; None if no code determines
    the status.
    """
    for code in codes:
        # the code is the status that the response itself should have had
        if len(code) == 3 and code.isdecimal() and 400 <= int(code) < 600:
            return int(code)

    return next(filter(None, map(_MEANINGS_WITHOUT_STATUS.get, codes)), None)


def _ending(refusal: ProviderRefusal, status: int, caller: Caller) -> Sequence[str]:
    """Return what a refusal means as `refusals.csv` names it, most specific first."""
    if 300 <= status < 400 or status == 405:
        return ("address",)  # a redirect or a rejected method means that the base URL is wrong

    is_missing = refusal.status == status == _NO_MODEL and caller.model not in refusal.message
    if is_missing and _says("no_route", refusal.message):
        return (f"route {caller.path}", "route" if caller.path else "address")

    return (str(status),)


def _provider_error(meanings: Sequence[str], caller: Caller, quote: str) -> ProviderError | None:
    """Return the error for a refusal that ends the run (`refusals.csv`); otherwise None."""
    for meaning in meanings:
        row = _REFUSALS.get(meaning)
        if row is not None:
            problem = row["problem"].format(caller=caller)
            advice = row["advice"].format(caller=caller)
            return ProviderError(f"{caller.provider}/{caller.model}: {problem} ({quote}); {advice}")

    return None


def is_reply_limit(message: str) -> bool:
    """Return whether a refusal says that the requested length exceeds the model's longest reply."""
    return _says("reply_limit", message)


def _reply_limit_error(
    refusal: ProviderRefusal, status: int, who: str, quote: str
) -> ProviderError | None:
    """Return the error if `--max-output-tokens` exceeds the model's limit; None for any other
    refusal.
    """
    if status not in (400, 422) or not is_reply_limit(refusal.message):
        return None
    return ProviderError(
        f"{who} does not allow a reply that long ({quote}); give a lower --max-output-tokens"
    )


def _parameter_error(
    refusal: ProviderRefusal, status: int, caller: Caller, sent: Collection[str], quote: str
) -> ProviderError | None:
    """Return the error for a request field that the model does not support; None for any other
    refusal.
    """
    if status not in (400, 422):
        return None
    if not (set(refusal.codes) & _PARAMETER_CODES or _says("parameter", refusal.message)):
        return None

    candidates = set(sent) - _CONVERSATION_FIELDS
    blamed = [name for name in _find_blamed_words(refusal) if name in candidates]
    if not blamed or _PROTOCOL_FIELDS & set(blamed):
        return None

    name = blamed[0]
    advice = f"leave it out with --model-args omit={name}"
    if name in _LENGTH_FIELDS:
        other = _LENGTH_FIELDS[1 - _LENGTH_FIELDS.index(name)]
        advice = f"name the other field with --model-args max_tokens_field={other}"

    words = f"{caller.provider}/{caller.model} refuses {name!r} ({quote}); {advice}"
    return ParameterRefused(words, name)


def _find_blamed_words(refusal: ProviderRefusal) -> list[str]:
    """Return words that may name the request field to blame.

    If the error names a field, this is that field (`a` for `a.b`); otherwise it is every word of
    the message.
    """
    if refusal.parameter is not None:
        return [re.split(r"[.\[]", refusal.parameter)[0]]
    return re.findall(r"[A-Za-z_]\w*", refusal.message)
