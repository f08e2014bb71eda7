"""`google/NAME`: Gemini over the `generateContent` method of the Gemini API, through the official SDK."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from ktdeval.api import JsonValue, ModelError, ModelRequest, ProviderError, Reply, UsageError, loads_strict
from ktdeval_models.remote.base import RemoteAdapter
from ktdeval_models.remote.errors import ContentFiltered, Refusal, error_of, one_line, refusal_of
from ktdeval_models.remote.google_wire import decode, encode
from ktdeval_models.remote.http import ask_json, bad_response
from ktdeval_models.remote.params import GoogleParams
from ktdeval_models.remote.transport import BodyError

_MODEL = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:@-]*(/[A-Za-z0-9][A-Za-z0-9._:@-]*)*")  # it becomes part of an address
_VERSION = re.compile(r"/v1(alpha|beta)?\Z")
_THINKING = re.compile(r"thinking|include_?thoughts", re.IGNORECASE)
_EMPTY = re.compile(r"credits? (is|are|has been|have been) (depleted|exhausted)|enable billing", re.IGNORECASE)
_PLAN = re.compile(r"check your plan and billing", re.IGNORECASE)
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class _StatusError(Exception):
    """The server answered with another status than 200; raised by a hook, before the SDK would make an error of its own of it."""

    def __init__(self, response: Any) -> None:
        super().__init__(f"HTTP {response.status_code}")
        self.response = response


class _ConnectionError(Exception):
    """The HTTP library's error is the cause."""


class _TimeoutError(_ConnectionError):
    """Likewise, of a call that took too long."""


class GoogleModel(RemoteAdapter):
    """A Gemini model over the Gemini API (or a server that speaks it).

    The SDK's method takes the request's fields as they go over the wire, and gives the body of the response as it came, so that all
    timeouts, refusals and replies are read here, as with the other providers. Its own retries, its automatic function calling and
    its automatic continuation (further, paid requests) are off. Signatures of thoughts, which Gemini 3 wants back with the calls
    they came with, are carried in the calls' ids (`ktdeval_models.remote.carried`).
    """

    package = "google.genai"
    extra = "google"
    params: GoogleParams

    def __init__(self, name: str, params: GoogleParams) -> None:
        if not _MODEL.fullmatch(name):
            raise UsageError(f"google: {one_line(name)!r} is no name of a model; give one such as google/gemini-3-pro")
        url = "https://generativelanguage.googleapis.com"
        super().__init__("google", name, params, url, ("GEMINI_API_KEY", "GOOGLE_API_KEY"))
        self.endpoint = _VERSION.sub("", self.endpoint)  # the SDK's paths begin with one
        self.caller = dataclasses.replace(self.caller, endpoint=self.endpoint)
        self._http: ModuleType | None = None

    def make_client(self, sdk: ModuleType, key: str | None, transport: Any) -> Any:
        """The SDK's client for the Gemini API, whatever the environment says of others."""
        genai: Any = sdk.genai
        transport.event_hooks = {"response": [_check_status]}
        logging.getLogger("google_genai").addHandler(logging.NullHandler())  # else its notices about keys go to our stderr
        options = genai.types.HttpOptions(base_url=self.endpoint, api_version=self.params.api_version, httpx_client=transport)
        return genai.Client(vertexai=False, api_key=key, http_options=options)

    def reply(self, request: ModelRequest) -> Reply:
        """Make one attempt. Thread-safe, without state between calls.

        Raises:
            ModelError: this attempt failed.
            ProviderError: every attempt would: key, model name, address, quota or a parameter is refused.
        """
        self.connect()
        assert self.sdk is not None
        body = self._body(request)
        try:
            answer = ask_json(self.sdk, lambda: self._generate(body, request.params.timeout_s), self.caller, _names(body))
            return decode(answer, request, self.caller)
        except ContentFiltered:
            return Reply(finish_reason="content_filter")
        except RecursionError:
            raise bad_response(self.caller, "the reply is nested too deeply") from None

    def settings(self) -> JsonValue:
        """Parameters that can change a reply."""
        return {
            "api_version": self.params.api_version,
            "thoughts": self.params.thoughts,
            "forced_tool": self.params.forced_tool,
            "omit": list(self.params.omit),
            "extra_body": dict(self.params.extra_body),
        }

    def _import_sdk(self) -> ModuleType:
        """The SDK in the form in which the other SDKs come: with a client class of its HTTP library and errors of three kinds."""
        genai = super()._import_sdk()
        self._http = import_module("httpx2")  # what the SDK is built on
        sdk: Any = ModuleType(self.package)
        sdk.genai = genai
        sdk.DefaultHttpxClient = self._http.Client
        sdk.APIStatusError, sdk.APIConnectionError, sdk.APITimeoutError = _StatusError, _ConnectionError, _TimeoutError
        adapted: ModuleType = sdk
        return adapted

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body = _without(encode(request, self.caller, self.params), self.params.omit)
        body["generationConfig"] = _without(body.get("generationConfig", {}), self.params.omit)
        for name, value in self.params.extra_body.items():
            merges = isinstance(value, Mapping) and isinstance(body.get(name), dict)
            body[name] = {**body[name], **value} if merges else value
        return body

    def _generate(self, body: Mapping[str, Any], timeout_s: float) -> Any:
        """One call; an object whose `content` is the body of the response."""
        http = self._http
        assert http is not None
        config = {
            "http_options": {"timeout": max(1, round(timeout_s * 1000)), "extra_body": body},
            "should_return_http_response": True,
            "automatic_function_calling": {"disable": True},
            "automatic_continuation": False,
        }
        try:
            # The request's own contents take the place of these, as all lists there do; the SDK would look through them one by one.
            response = self.client.models.generate_content(model=self.name, contents="-", config=config)
        except _StatusError as error:
            failure = self._failure(error.response, body)
        except http.TimeoutException as error:
            raise _TimeoutError from error
        except http.DecodingError as error:
            raise BodyError("the reply can't be decompressed") from error
        except http.RequestError as error:
            raise _ConnectionError from error
        else:
            return _Content((response.sdk_http_response.body or "").encode())
        raise failure

    def _failure(self, response: Any, body: Mapping[str, Any]) -> ModelError | ProviderError:
        refusal = _detailed(refusal_of(response.status_code, response.content, response.headers), response.content)
        if "failed_precondition" in refusal.codes:
            said = one_line(refusal.message, self.caller.secrets)
            return ProviderError(
                f"google/{self.name}: access is refused (HTTP {refusal.status}: {said}); check the region and the billing of the "
                f"project that the key in {self.caller.key} belongs to"
            )
        return error_of(refusal, self.caller, _names(body))


def make_google(name: str, params: GoogleParams | None = None) -> GoogleModel:
    """A model of Google's.

    Args:
        name: the model's name at the provider, such as `gemini-3-pro`.
        params: its parameters; None takes the defaults.

    Raises:
        UsageError: that can't be a model's name.
        ConfigError: the base URL is no usable address.
    """
    return GoogleModel(name, params or GoogleParams())


@dataclasses.dataclass(frozen=True)
class _Content:
    """The body of a response."""

    content: bytes


def _check_status(response: Any) -> None:
    if response.status_code != 200:
        response.read()
        raise _StatusError(response)


def _without(fields: Mapping[str, Any], omitted: tuple[str, ...]) -> dict[str, Any]:
    """Fields less those to leave out; `max_output_tokens` means `maxOutputTokens`, as in the API's own messages."""
    return {name: value for name, value in fields.items() if name not in omitted and _snake(name) not in omitted}


def _names(body: Mapping[str, Any]) -> set[str]:
    """Request fields that a refusal may blame, in both spellings."""
    names = {*body, *body.get("generationConfig", {})} - {"generationConfig"}
    return names | {_snake(name) for name in names}


def _snake(name: str) -> str:
    return _SNAKE.sub("_", name).lower()


def _detailed(refusal: Refusal, content: bytes) -> Refusal:
    """A refusal with what the error's `details` say: the reason, which quota, and when to come back.

    Of the quotas only those of a minute pass by waiting; one of a day, or an account without any, does not.
    """
    codes, wait_s = list(refusal.codes), refusal.retry_after_s
    quotas: list[str] = []
    for detail in _details(content):
        if isinstance(reason := detail.get("reason"), str):
            codes.append(reason.lower())
        if isinstance(delay := detail.get("retryDelay"), str) and (seconds := _SECONDS.fullmatch(delay)):
            wait_s = max(wait_s or 0.0, float(seconds[1]))
        quotas += [str(violation.get("quotaId", "")) for violation in _objects(detail.get("violations"))]
    if refusal.status == 429:
        is_of_a_day = any("PerDay" in quota for quota in quotas)
        has_none = _PLAN.search(refusal.message) is not None and not quotas and wait_s is None
        if is_of_a_day or has_none or _EMPTY.search(refusal.message):
            codes.append("insufficient_quota")
    blamed = refusal.parameter
    if refusal.status == 400 and blamed is None and _THINKING.search(refusal.message) and "signature" not in refusal.message:
        blamed = "thinkingConfig"
    return dataclasses.replace(refusal, codes=tuple(codes), retry_after_s=wait_s, parameter=blamed)


def _details(content: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        body = loads_strict(content)
    except ValueError:
        return
    error = body.get("error") if isinstance(body, dict) else None
    yield from _objects(error.get("details") if isinstance(error, dict) else None)


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    yield from (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()
