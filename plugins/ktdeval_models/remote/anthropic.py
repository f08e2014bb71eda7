"""`anthropic/NAME`: Claude over the native Messages API, through the official SDK."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

from ktdeval.calls import Refusal, one_line
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import ModelRequest, Reply
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval_models.remote.anthropic_wire import decode, encode, has_sampling, how_forced
from ktdeval_models.remote.base import RemoteAdapter, plain_headers
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
"""In the message of the 400 that stands instead of a reply that the provider's filter took back."""


class AnthropicModel(RemoteAdapter):
    """A Claude model over the Messages API (or a server that speaks it).

    Not sent: the seed, which the API does not have, and from API version 2026-10-21 on the temperature, which it no longer takes.
    Thoughts are sent back in one case only, that in which the API insists: with a thinking budget, the signed thoughts before
    calls, which are the first call's opaque field. In the adaptive mode it does not ask for them, and newer models refuse them
    where the tools on offer have changed since, as they do between research and submission.
    """

    package = "anthropic"
    extra = "anthropic"
    params: AnthropicParams

    def __init__(self, name: str, params: AnthropicParams | None = None) -> None:
        super().__init__("anthropic", name, params or AnthropicParams(), "https://api.anthropic.com", ("ANTHROPIC_API_KEY",))
        self.endpoint = self.endpoint.removesuffix("/v1")  # the SDK's paths begin with it
        self.caller = dataclasses.replace(self.caller, endpoint=self.endpoint)

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """As the SDK has them; what it would take from the environment is given."""
        version = {"anthropic-version": self.params.api_version}
        transport = sdk.DefaultHttpxClient(trust_env=False)
        with sdk.Anthropic(api_key=key, base_url=self.endpoint, http_client=transport, default_headers=version) as client:
            return plain_headers(client)

    def path(self) -> str:
        """Return the path of Messages."""
        return "/v1/messages"

    def settings(self) -> JsonValue:
        """Parameters that can change a reply, how tools are forced, and which options of the run the API does not have."""
        kept = ("api_version", "thinking", "thinking_display", "omit", "extra_body")
        return {
            **{name: _plain(getattr(self.params, name)) for name in kept},
            "forced_tool": how_forced(self.name, None, self.params),
            "forced_tool_while_thinking": how_forced(self.name, {"type": "enabled"}, self.params),
            "not_sent": ["seed"] if has_sampling(self.params) else ["seed", "temperature"],
        }

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call."""
        body = {name: value for name, value in encode(request, self.caller, self.params).items() if name not in self.params.omit}
        output = {name: value for name, value in body.get("output_config", {}).items() if name not in self.params.omit}
        if "output_config" in body and not output:
            del body["output_config"]
        elif output:
            body["output_config"] = output
        return {**body, **self.params.extra_body}

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:  # noqa: ARG002
        """Return the reply in an answer; with a thinking budget its calls carry the thoughts."""
        return decode(answer, self.caller, carries=body.get("thinking", {}).get("type") == "enabled")

    def sent(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the request fields that a refusal may blame and `omit` may name; the API insists on `max_tokens`."""
        return {*body, *body.get("output_config", {})} - {"max_tokens"}

    def refusal_error(self, refusal: Refusal, content: bytes, body: Mapping[str, Any]) -> ModelError | ProviderError:
        """Return the error for a refusal; some of this API's look like others and are not."""
        if _FILTERED in refusal.message:
            refusal = dataclasses.replace(refusal, codes=("content_filter",))
        elif _detail_code(content) in _NO_MONEY_CODES:
            refusal = dataclasses.replace(refusal, codes=("billing_error",))
        if (
            refusal.status == 400
            and "tool_choice" in refusal.message
            and body.get("tool_choice", {}).get("type") in ("any", "tool")
        ):
            return self._unforced(refusal)
        return super().refusal_error(refusal, content, body)

    def _unforced(self, refusal: Refusal) -> ProviderError:
        said = one_line(refusal.message, self.caller.secrets)
        return ProviderError(
            f"anthropic/{self.name} takes no forced tool (HTTP {refusal.status}: {said}); "
            "have it asked for the tool instead with --model-args forced_tool=auto"
        )


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
