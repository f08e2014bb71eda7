"""Parameters of the remote models, apart so that listing them imports no SDK."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ktdeval.errors import ConfigError
from ktdeval.fields import option

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_REQUEST_FIELD = re.compile(r"[a-z][A-Za-z0-9_]{0,63}")
# Prefixes that providers give their keys, long unbroken runs of letters and digits mixed, and Zhipu's `id.secret`.
_KEY_LIKE = re.compile(
    r"(sk|rk|pk|ak|gsk|xai|nvapi)[-_][-\w]{16,}|AIza[-\w]{16,}|(?=\w*\d)(?=\w*[A-Za-z])[^\W_]{28,}(\.\w{12,})?|ey[\w-]{16,}\.[\w.-]+"
)


@dataclass(frozen=True)
class RemoteParams:
    """Parameters that every remote model has."""

    base_url: str | None = option(None, help="address of the API, as --base-url; default: the provider's own")
    api_key_env: str | None = option(None, help="name of the environment variable that holds the key; default: the provider's own")
    omit: tuple[str, ...] = option((), help="request fields not to send, for models that refuse them, such as temperature")
    extra_body: Mapping[str, Any] = option(
        factory=dict, help='further request fields, sent as they are: --model-args \'{"extra_body": {"top_p": 0.9}}\''
    )

    def __post_init__(self) -> None:
        """Refuse what must not be a parameter, because parameters are written to run folders and cards. Raises ConfigError: a value
        looks like an API key, or is no name of a variable or field. The value is not shown.
        """
        if self.api_key_env is not None and not _VARIABLE.fullmatch(self.api_key_env):
            raise ConfigError(
                "api_key_env takes the NAME of an environment variable, such as OPENAI_API_KEY, not the key itself; "
                "keys are read from the environment or the keyring only"
            )
        for name in self.omit:
            if not _REQUEST_FIELD.fullmatch(name):
                raise ConfigError("omit takes names of request fields separated by commas, such as omit=temperature,seed")
        for field in dataclasses.fields(self):
            for text in _texts(getattr(self, field.name)):
                if _KEY_LIKE.fullmatch(text):
                    raise ConfigError(
                        f"{field.name} looks like an API key; set the key in the environment or the keyring, never as a parameter"
                    )


@dataclass(frozen=True)
class OpenAIParams(RemoteParams):
    """Parameters of `openai`."""

    api: Literal["responses", "chat"] = option("responses", help="which API to speak: Responses or Chat Completions")
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = option(
        None, help="ask for a summary of the reasoning (Responses), for accounts that may have it"
    )
    service_tier: Literal["auto", "default", "flex", "priority"] | None = option(
        None, help="OpenAI's processing tier, each with prices of its own (see --price); default: the project's"
    )


@dataclass(frozen=True)
class CompatibleParams(RemoteParams):
    """Parameters of `openai_compatible` and of the named servers that speak OpenAI's Chat Completions."""

    forced_tool: Literal["named", "required", "auto"] | None = option(
        None, help="how a tool is forced: by name, as the one tool 'required', or by asking (auto); default: what the server takes"
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = option(
        None, help="the field that limits a reply's length; default: what the server takes"
    )
    json_mode: Literal["json_schema", "json_object"] | None = option(
        None, help="how a reply is held to a JSON Schema; default: what the server takes"
    )


@dataclass(frozen=True)
class AnthropicParams(RemoteParams):
    """Parameters of `anthropic`."""

    api_version: str = option(
        "2026-10-21", help="anthropic-version to send; the older 2023-06-01 still takes a temperature, with models that have one"
    )
    thinking: Literal["auto", "adaptive", "budget", "between_tools", "disabled", "unset"] = option(
        "auto",
        help="thinking mode; auto: budget with --reasoning-tokens, adaptive with --reasoning-effort, disabled with either at none, "
        "else the model's own (unset)",
    )
    thinking_display: Literal["summarized", "omitted", "default"] | None = option(
        None, help="whether thoughts come back as text where a mode is sent; default: summarized, but omitted with a budget"
    )
    forced_tool: Literal["named", "any", "auto"] | None = option(
        None, help="how a tool is forced: by its name, as 'any', or by asking only (auto); default: what the model is known to take"
    )
    prompt_cache: Literal["5m", "1h"] | None = option(
        None, help="let the provider cache prompts for so long: cheaper reading, dearer writing, the same replies"
    )


@dataclass(frozen=True)
class GoogleParams(RemoteParams):
    """Parameters of `google`."""

    api_version: str = option("v1beta", help="version of the Gemini API; v1beta knows every model and field that v1 does")
    thoughts: bool = option(True, help="ask for summaries of the model's thoughts; false for models that don't think")
    forced_tool: Literal["named", "auto"] = option("named", help="how a tool is forced: by its name, or by asking only (auto)")


def _texts(value: Any) -> Iterator[str]:
    """Every text inside a parameter's value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
