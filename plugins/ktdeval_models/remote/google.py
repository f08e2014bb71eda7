"""`google/NAME`: Gemini over the `generateContent` method of the Gemini API, through the official SDK."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping
from types import ModuleType
from typing import Any

from ktdeval.calls import Refusal, one_line
from ktdeval.errors import ModelError, ProviderError, UsageError
from ktdeval.harness import ModelRequest, Reply
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval_models.remote.base import RemoteAdapter
from ktdeval_models.remote.google_wire import decode, encode
from ktdeval_models.remote.params import GoogleParams

_MODEL = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:@-]*(/[A-Za-z0-9][A-Za-z0-9._:@-]*)*")  # it becomes part of an address
_VERSION = re.compile(r"/v1(alpha|beta)?\Z")
_THINKING = re.compile(r"thinking|include_?thoughts", re.IGNORECASE)
_EMPTY = re.compile(r"credits? (is|are|has been|have been) (depleted|exhausted)|enable billing", re.IGNORECASE)
_PLAN = re.compile(r"check your plan and billing", re.IGNORECASE)
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class GoogleModel(RemoteAdapter):
    """A Gemini model over the Gemini API (or a server that speaks it).

    Signatures of thoughts, which Gemini 3 wants back with the calls they came with, are the calls' opaque field.
    """

    package = "google.genai"
    extra = "google"
    params: GoogleParams

    def __init__(self, name: str, params: GoogleParams | None = None) -> None:
        if not _MODEL.fullmatch(name):
            raise UsageError(f"google: {one_line(name)!r} is no name of a model; give one such as google/gemini-3-pro")
        url = "https://generativelanguage.googleapis.com"
        super().__init__("google", name, params or GoogleParams(), url, ("GEMINI_API_KEY", "GOOGLE_API_KEY"))
        self.endpoint = _VERSION.sub("", self.endpoint)  # the SDK's paths begin with one
        self.caller = dataclasses.replace(self.caller, endpoint=self.endpoint)

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """As the SDK has them."""
        agent = f"google-genai-sdk/{sdk.__version__}"
        return {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": agent,
            "x-goog-api-client": agent,
            "x-goog-api-key": key or "",
        }

    def path(self) -> str:
        """Return the path of `generateContent`."""
        name = self.name if self.name.startswith(("models/", "tunedModels/")) else f"models/{self.name}"
        return f"/{self.params.api_version}/{name}:generateContent"

    def settings(self) -> JsonValue:
        """Parameters that can change a reply."""
        return {
            "api_version": self.params.api_version,
            "thoughts": self.params.thoughts,
            "forced_tool": self.params.forced_tool,
            "omit": list(self.params.omit),
            "extra_body": dict(self.params.extra_body),
        }

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call."""
        body = _without(encode(request, self.caller, self.params), self.params.omit)
        body["generationConfig"] = _without(body.get("generationConfig", {}), self.params.omit)
        for name, value in self.params.extra_body.items():
            merges = isinstance(value, Mapping) and isinstance(body.get(name), dict)
            body[name] = {**body[name], **value} if merges else value
        return body

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:  # noqa: ARG002
        """Return the reply in an answer."""
        return decode(answer, request, self.caller)

    def sent(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the request fields that a refusal may blame, in both spellings."""
        names = {*body, *body.get("generationConfig", {})} - {"generationConfig"}
        return names | {_snake(name) for name in names}

    def refusal_error(self, refusal: Refusal, content: bytes, body: Mapping[str, Any]) -> ModelError | ProviderError:
        """Return the error for a refusal, with the details of this API."""
        refusal = _detailed(refusal, content)
        if "failed_precondition" in refusal.codes:
            said = one_line(refusal.message, self.caller.secrets)
            return ProviderError(
                f"google/{self.name}: access is refused (HTTP {refusal.status}: {said}); check the region and the billing of the "
                f"project that the key in {self.caller.key} belongs to"
            )
        return super().refusal_error(refusal, content, body)


def _without(fields: Mapping[str, Any], omitted: tuple[str, ...]) -> dict[str, Any]:
    """Fields less those to leave out; `max_output_tokens` means `maxOutputTokens`, as in the API's own messages."""
    return {name: value for name, value in fields.items() if name not in omitted and _snake(name) not in omitted}


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
