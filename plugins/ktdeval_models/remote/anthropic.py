"""`anthropic/NAME`: Claude over the native Messages API, through the official SDK."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ktdeval.api import JsonValue, ModelError, ModelRequest, ProviderError, Reply, loads_strict
from ktdeval_models.remote.anthropic_wire import decode, encode, has_sampling, how_forced
from ktdeval_models.remote.base import RemoteAdapter
from ktdeval_models.remote.errors import ContentFiltered, Refusal, error_of, one_line, refusal_of
from ktdeval_models.remote.http import ask_json, bad_response
from ktdeval_models.remote.params import AnthropicParams

# `error.details.error_code` of errors that come as 429 or 400 and pass neither by waiting nor by asking for something else
# (types of the `anthropic` package, `_error_classes.py`).
_NO_MONEY_CODES = frozenset(
    (
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "linked_organization_billing_unavailable",
        "linked_organization_spend_limit_reached",
        "organization_on_hold",
    )
)
_FILTERED = "blocked by content filtering policy"
"""In the message of the 400 that stands in the place of a reply that the provider's filter took back."""


class AnthropicModel(RemoteAdapter):
    """A Claude model over the Messages API (or a server that speaks it).

    Not sent: the seed, which the API does not have, and from API version 2026-10-21 on the temperature, which it no longer takes.
    Thoughts are sent back in one case only, that in which the API insists: with a thinking budget, the signed thoughts before calls
    (`ktdeval_models.remote.carried`). In the adaptive mode it does not ask for them, and newer models refuse them where the tools
    on offer have changed since, as they do between research and submission.
    """

    package = "anthropic"
    extra = "anthropic"
    params: AnthropicParams

    def __init__(self, name: str, params: AnthropicParams) -> None:
        super().__init__("anthropic", name, params, "https://api.anthropic.com", ("ANTHROPIC_API_KEY",))
        self.endpoint = self.endpoint.removesuffix("/v1")  # the SDK's paths begin with it
        self.caller = dataclasses.replace(self.caller, endpoint=self.endpoint)

    def make_client(self, sdk: ModuleType, key: str | None, transport: Any) -> Any:
        """The SDK's client, without retries of its own; what it would take from the environment is given."""
        return sdk.Anthropic(
            api_key=key,
            base_url=self.endpoint,
            http_client=transport,
            max_retries=0,
            default_headers={"anthropic-version": self.params.api_version},
        )

    def reply(self, request: ModelRequest) -> Reply:
        """Make one attempt. Thread-safe, without state between calls.

        Raises:
            ModelError: this attempt failed.
            ProviderError: every attempt would: key, model name, address, quota or a parameter is refused.
        """
        self.connect()
        assert self.sdk is not None
        body = self._body(request)
        client, cast_to, options = self.client, self._response_class, {"timeout": request.params.timeout_s}
        send = self._guarded(lambda: client.post("/v1/messages", cast_to=cast_to, body=body, options=options), body)
        try:
            answer = ask_json(self.sdk, send, self.caller, _names(body))
            return decode(answer, self.caller, carries=body.get("thinking", {}).get("type") == "enabled")
        except ContentFiltered:
            return Reply(finish_reason="content_filter")
        except RecursionError:
            raise bad_response(self.caller, "the reply is nested too deeply") from None

    def settings(self) -> JsonValue:
        """Parameters that can change a reply, how tools are forced, and which options of the run the API does not have."""
        kept = ("api_version", "thinking", "thinking_display", "omit", "extra_body")
        return {
            **{name: _plain(getattr(self.params, name)) for name in kept},
            "forced_tool": how_forced(self.name, None, self.params),
            "forced_tool_while_thinking": how_forced(self.name, {"type": "enabled"}, self.params),
            "not_sent": ["seed"] if has_sampling(self.params) else ["seed", "temperature"],
        }

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body = {name: value for name, value in encode(request, self.caller, self.params).items() if name not in self.params.omit}
        output = {name: value for name, value in body.get("output_config", {}).items() if name not in self.params.omit}
        if "output_config" in body and not output:
            del body["output_config"]
        elif output:
            body["output_config"] = output
        return {**body, **self.params.extra_body}

    def _guarded(self, post: Callable[[], Any], body: Mapping[str, Any]) -> Callable[[], Any]:
        """`post`, with this API's refusals read closer than those of others."""
        sdk = self.sdk
        assert sdk is not None

        def send() -> Any:
            try:
                return post()
            except sdk.APIStatusError as error:
                failure = self._failure(error.response, body)
            raise failure  # outside of the handler: no traceback leads to the SDK's own message, which is not filtered

        return send

    def _failure(self, response: Any, body: Mapping[str, Any]) -> ModelError | ProviderError:
        refusal = refusal_of(response.status_code, response.content, response.headers)
        if _FILTERED in refusal.message:
            refusal = dataclasses.replace(refusal, codes=("content_filter",))
        elif _detail_code(response.content) in _NO_MONEY_CODES:
            refusal = dataclasses.replace(refusal, codes=("billing_error",))
        if (
            refusal.status == 400
            and "tool_choice" in refusal.message
            and body.get("tool_choice", {}).get("type") in ("any", "tool")
        ):
            return self._unforced(refusal)
        return error_of(refusal, self.caller, _names(body))

    def _unforced(self, refusal: Refusal) -> ProviderError:
        said = one_line(refusal.message, self.caller.secrets)
        return ProviderError(
            f"anthropic/{self.name} takes no forced tool (HTTP {refusal.status}: {said}); "
            "have it asked for the tool instead with --model-args forced_tool=auto"
        )


def make_anthropic(name: str, params: AnthropicParams | None = None) -> AnthropicModel:
    """A model of Anthropic's.

    Args:
        name: the model's name at the provider, such as `claude-opus-4-6`.
        params: its parameters; None takes the defaults.

    Raises:
        ConfigError: the base URL is no usable address.
    """
    return AnthropicModel(name, params or AnthropicParams())


def _names(body: Mapping[str, Any]) -> set[str]:
    """Request fields that a refusal may blame and `omit` may name; the API insists on `max_tokens`."""
    return {*body, *body.get("output_config", {})} - {"max_tokens"}


def _plain(value: Any) -> JsonValue:
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def _detail_code(content: bytes) -> str | None:
    """`error.details.error_code` of an error's body; None where there is none."""
    try:
        value: Any = loads_strict(content)
    except ValueError:
        return None
    for name in ("error", "details", "error_code"):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None
