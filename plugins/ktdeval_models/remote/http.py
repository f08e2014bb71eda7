"""What the adapters share of HTTP: an SDK's client whose timeout is total, one call of it, and how its failures are told.

`ask_json` makes one call through an SDK and returns the JSON object that came back, or raises `ModelError` or `ProviderError`. The
client that the SDK calls with is that of `ktdeval_models.remote.transport`; which refusal means what stands in
`ktdeval_models.remote.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from ktdeval.api import ConfigError, JsonValue, ModelError, ProviderError, loads_strict
from ktdeval_models.remote.errors import Caller, error_of, one_line, read_refusal, refusal_of
from ktdeval_models.remote.transport import BodyError

_DNS_WORDS = ("Name or service not known", "nodename nor servname", "name resolution", "getaddrinfo")


def check_base_url(url: str) -> str:
    """A base URL as it may be used, shown and recorded, without a final slash.

    Raises:
        ConfigError: it is no http or https address, or holds a user, a password, a query or a fragment. What it holds is not shown.
    """
    example = "such as http://localhost:8000/v1"
    try:
        parts = urlsplit(url)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError(f"--base-url is no address; give one {example}") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(f"--base-url holds a user, password, query or fragment; give the bare address, {example}")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_sound or any(sign.isspace() for sign in url):
        raise ConfigError(f"--base-url must be an http or https address, {example}, was {one_line(url)!r}")
    return url.rstrip("/")


def ask_json(sdk: ModuleType, send: Callable[[], Any], caller: Caller, sent: Collection[str] = ()) -> dict[str, JsonValue]:
    """Make one call through an SDK and read the JSON object that came back.

    Args:
        sdk: the SDK's module, for its exceptions (`APIStatusError`, `APITimeoutError`, `APIConnectionError`).
        send: makes the call and returns the HTTP response, its body read: `client.post(path, cast_to=Response, …)`.
        caller: whom errors are about.
        sent: top-level fields of the request, among which an unsupported one is looked for.

    Raises:
        ModelError: `timeout`, `connection`, `bad_response`, or what the provider's refusal means.
        ProviderError: every such call would fail.
        ContentFiltered: a content filter blocked the request or its reply.
    """
    failure: ModelError | ProviderError
    # Raised outside of the handler, so that no traceback can lead from our message to the SDK's, which is not filtered.
    try:
        response = send()
    except sdk.APIStatusError as error:
        failure = error_of(refusal_of(error.status_code, error.response.content, error.response.headers), caller, sent)
    except BodyError as error:
        failure = bad_response(caller, str(error))
    except sdk.APIConnectionError as error:  # APITimeoutError is one of these
        failure = _network_error(error, isinstance(error, sdk.APITimeoutError), caller)
    else:
        return _read(response.content, caller, sent)
    raise failure


def _network_error(error: Exception, is_timeout: bool, caller: Caller) -> ModelError:
    cause = error.__cause__
    if isinstance(cause, BodyError):  # some versions of the SDKs wrap whatever a transport raises
        return bad_response(caller, str(cause))
    if type(cause).__name__ == "DecodingError":  # of httpx: the body is not compressed as its header says
        return bad_response(caller, "the reply can't be unpacked")
    who = f"{caller.provider}/{caller.model}"
    if is_timeout:
        return ModelError("timeout", f"{who}: no whole reply from {caller.endpoint} within --timeout-s")
    words = one_line(str(cause or error), caller.secrets)
    hint = " (is the address right?)" if any(word in words for word in _DNS_WORDS) else ""
    return ModelError("connection", f"{who}: {caller.endpoint} can't be reached: {words}{hint}; see --base-url")


def _read(content: bytes, caller: Caller, sent: Collection[str]) -> dict[str, JsonValue]:
    try:
        body = loads_strict(content)
    except ValueError:  # cut or malformed; UnicodeDecodeError is one too
        body = None
    if not isinstance(body, dict):
        what = "an HTML page" if content.lstrip()[:1] == b"<" else "no JSON object" if content.strip() else "an empty body"
        raise bad_response(caller, f"{caller.endpoint} answered with {what}; if it goes on so, see --base-url")
    base = body.get("base_resp")
    if body.get("error") or (isinstance(base, dict) and base.get("status_code")):
        raise error_of(read_refusal(200, body), caller, sent)
    return body


def bad_response(caller: Caller, problem: str) -> ModelError:
    """What to raise when a reply arrived that is not of the expected shape. `problem` must not quote the reply unfiltered."""
    return ModelError("bad_response", f"{caller.provider}/{caller.model}: {problem}")
