"""Parameters of the remote models, and the table of providers. Listing them imports no SDK."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from ktdeval.errors import ConfigError
from ktdeval.values import (
    KEY_PREFIXED,
    Address,
    Parameters,
    build,
    facts_file,
    load_yaml,
    option,
)

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_PLACE = re.compile(r"[a-z]{2,}[a-z0-9-]{0,40}")  # region or location, part of a host name
_DEPLOYMENT = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
_API_VERSION = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
_REQUEST_FIELD = re.compile(r"[a-z][A-Za-z0-9_]{0,63}")
# Keys with a provider prefix, long runs of mixed letters and digits, and Zhipu's `id.secret`.
_KEY_LIKE = re.compile(
    KEY_PREFIXED + r"|(?=\w*\d)(?=\w*[A-Za-z])[^\W_]{28,}(\.\w{12,})?|ey[\w-]{16,}\.[\w.-]+"
)
# Without the long runs, since account ids look the same.
_SURE_KEY = re.compile(rf"{KEY_PREFIXED}|ey[\w-]{{16,}}\.[\w.-]+")
# In the path of an address, long runs don't count either, since account names may be such runs.
_KEY_IN_PATH = re.compile(rf".*/({KEY_PREFIXED})(/.*)?")

ForcedTool = Literal["named", "required", "auto"]
GrammarName = Literal["llama.cpp"]
JsonMode = Literal["json_schema", "json_object"]
TokensField = Literal["max_tokens", "max_completion_tokens"]
Protocol = Literal["chat", "messages", "generate"]
"""Wire format: OpenAI's Chat Completions, Anthropic's Messages, Google's generateContent."""


@dataclass(frozen=True)
class RemoteParams:
    """Parameters of every remote model."""

    base_url: Address | None = option(
        None, help="address of the API, as --base-url; default: the provider's own"
    )
    api_key_env: str | None = option(
        None,
        help="name of the environment variable that holds the key; default: the provider's own",
    )
    omit: tuple[str, ...] = option(
        (), help="request fields not to send, for models that refuse them, such as temperature"
    )
    stream: bool = option(
        True,
        help=(
            "whether replies are asked for part by part, where the API can; false for a server"
            " whose streamed tool calls are wrong"
        ),
    )
    extra_body: Parameters = option(
        factory=dict,
        help=(
            'further request fields, sent as they are: --model-args \'{"extra_body": {"top_p":'
            " 0.9}}'"
        ),
    )

    def __post_init__(self) -> None:
        """Refuse values that must not be parameters, because parameters are written to run folders
        and cards.

        Raises ConfigError if a value looks like an API key, or is not the name of a variable or
        field. The message does not show the value.
        """
        if self.api_key_env is not None and not _VARIABLE.fullmatch(self.api_key_env):
            raise ConfigError(
                "api_key_env takes the NAME of an environment variable, such as OPENAI_API_KEY, not"
                " the key itself; keys are read from the environment or the keyring only"
            )
        if not all(map(_REQUEST_FIELD.fullmatch, self.omit)):
            raise ConfigError(
                "omit takes names of request fields separated by commas, such as"
                " omit=temperature,seed"
            )

        for own in dataclasses.fields(self):
            words = " ".join(_nested_texts(getattr(self, own.name))).split()
            if any(_KEY_LIKE.fullmatch(word) or _KEY_IN_PATH.fullmatch(word) for word in words):
                raise ConfigError(
                    f"{own.name} looks like an API key; set the key in the environment or the"
                    " keyring, never as a parameter"
                )


def looks_like_key(text: str) -> bool:
    """Return whether a string has a word that can only be a key or a signed token."""
    return any(_SURE_KEY.fullmatch(word) for word in text.split())


def _nested_texts(value: Any) -> Iterator[str]:
    """Yield every string inside a parameter's value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _nested_texts([*value.keys(), *value.values()])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nested_texts(item)


@dataclass(frozen=True)
class OpenAIParams(RemoteParams):
    """Parameters of `openai`."""

    api: Literal["responses", "chat"] = option(
        "responses", help="which API to speak: Responses or Chat Completions"
    )
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = option(
        None, help="ask for a summary of the reasoning (Responses), for accounts that may have it"
    )
    service_tier: Literal["auto", "default", "flex", "priority"] | None = option(
        None,
        help=(
            "OpenAI's processing tier; each has its own prices (see --price); default: the "
            "project's"
        ),
    )


@dataclass(frozen=True)
class CompatibleParams(RemoteParams):
    """Parameters of `openai_compatible` and of the named servers that speak OpenAI's Chat
    Completions.
    """

    forced_tool: ForcedTool | None = option(
        None,
        help=(
            "how a tool is forced: by name, as the only tool with 'required', or by asking "
            "(auto); default: what the server accepts"
        ),
    )
    max_tokens_field: TokensField | None = option(
        None, help="field that limits a reply's length; default: what the server accepts"
    )
    json_mode: JsonMode | None = option(
        None, help="how a reply is constrained to a JSON Schema; default: what the server accepts"
    )
    send_thoughts: bool | None = option(
        None,
        help=(
            "whether the thoughts of earlier turns with tool calls are sent back; default: where the"
            " vendor's protocol requires them (DeepSeek, GLM, Kimi, MiniMax)"
        ),
    )
    repeatable: bool = option(
        False,
        help=(
            "true: llama.cpp's server answers each call without its prompt cache, so that the same"
            " seed gives the same bytes; every prompt is then read from its beginning"
        ),
    )
    longest_text: int | None = option(
        None,
        help=(
            "maximum characters of each text in a schema-constrained reply, without line breaks, "
            "quotes and backslashes; default: no limit, except for llama_cpp_python"
        ),
        minimum=1,
        maximum=2000,
    )
    longest_list: int | None = option(
        None,
        help=(
            "maximum items of each list in such a reply, so that a small model stops; default: "
            "as in the schema"
        ),
        minimum=1,
        maximum=2000,
    )
    grammar: GrammarName | None = option(
        None,
        help=(
            "engine that constrains replies to a schema but ignores bounds of numbers: a bounded "
            "number is then sent as a choice of hundredths, and a list with one decision per "
            "asset as one field each; default: none, except for llama_cpp_python"
        ),
    )


@dataclass(frozen=True)
class AzureParams(CompatibleParams):
    """Parameters of `azure`."""

    deployment: str | None = option(
        None, help="name of the deployment; default: the name of the model"
    )
    api_version: str = option("2024-10-21", help="dated version of the API to ask for")

    def __post_init__(self) -> None:
        """Raise ConfigError for values that can't be part of the address."""
        super().__post_init__()
        check_part("deployment", self.deployment, _DEPLOYMENT)
        check_part("api_version", self.api_version, _API_VERSION)


@dataclass(frozen=True)
class AnthropicParams(RemoteParams):
    """Parameters of `anthropic`."""

    api_version: str = option(
        "2026-10-21",
        help=(
            "anthropic-version to send; the older 2023-06-01 still takes a temperature, with models"
            " that have one"
        ),
    )
    thinking: Literal["auto", "adaptive", "budget", "between_tools", "disabled", "unset"] = option(
        "auto",
        help=(
            "thinking mode; auto: budget with --reasoning-tokens, adaptive with --reasoning-effort,"
            " disabled with either at none, else the model's own (unset)"
        ),
    )
    thinking_display: Literal["summarized", "omitted", "default"] | None = option(
        None,
        help=(
            "whether thoughts come back as text where a mode is sent; default: summarized, but"
            " omitted with a budget"
        ),
    )
    forced_tool: Literal["named", "any", "auto"] | None = option(
        None,
        help=(
            "how a tool is forced: by its name, as 'any', or by asking only (auto); default: what"
            " the model is known to take"
        ),
    )
    prompt_cache: Literal["5m", "off"] = option(
        "5m",
        help=(
            "how long the provider caches the common beginning of requests (rules, day, "
            "reports): reading costs a tenth, writing a quarter more, replies stay the same; "
            "off: no caching"
        ),
    )


@dataclass(frozen=True)
class GoogleParams(RemoteParams):
    """Parameters of `google`."""

    api_version: str = option(
        "v1beta", help="version of the Gemini API; v1beta knows every model and field that v1 does"
    )
    thoughts: bool = option(
        True, help="ask for summaries of the model's thoughts; false for models that don't think"
    )
    forced_tool: Literal["named", "auto"] = option(
        "named", help="how a tool is forced: by its name, or by asking only (auto)"
    )


@dataclass(frozen=True)
class BedrockParams(AnthropicParams):
    """Parameters of `bedrock`."""

    region: str = option("us-east-1", help="AWS region to call, part of the address")

    def __post_init__(self) -> None:
        """Raise ConfigError for values that can't be part of the address."""
        super().__post_init__()
        check_part("region", self.region, _PLACE)


@dataclass(frozen=True)
class VertexParams(RemoteParams):
    """Parameters of `vertex`; the project comes from GOOGLE_CLOUD_PROJECT or the credentials."""

    location: str = option("global", help="location to call, part of the address")
    api_version: str | None = option(
        None,
        help=(
            "version of the API; default: v1beta1 for Gemini, vertex-2023-10-16 (in the body) for"
            " Claude"
        ),
    )
    forced_tool: Literal["named", "auto"] | None = option(
        None,
        help=(
            "how a tool is forced: by its name, or by asking only (auto); default: what the model is"
            " known to take"
        ),
    )
    thoughts: bool = option(
        True,
        help="Gemini only: ask for summaries of thoughts; false for models that don't think",
    )
    prompt_cache: Literal["5m", "off"] = option(
        "5m",
        help=(
            "Claude only: let the provider cache the common beginning of requests, as for anthropic"
        ),
    )

    def __post_init__(self) -> None:
        """Raise ConfigError for values that can't be part of the address."""
        super().__post_init__()
        check_part("location", self.location, _PLACE)
        check_part("api_version", self.api_version, _API_VERSION)


def check_part(name: str, value: str | None, form: re.Pattern[str]) -> None:
    """Raise ConfigError if a parameter that becomes part of an address is malformed."""
    if value is not None and not form.fullmatch(value):
        raise ConfigError(
            f"{name} is part of the address: use letters, digits and dashes; got {value[:60]!r}"
        )


@dataclass(frozen=True)
class ProviderPreset:
    """A provider: its address, its protocol, and its differences from others. The parameters in
    `--model-args` override these values (`CompatibleParams`).

    A tool can be forced in three ways: by name (`named`), as the only tool on offer with the choice
    `required`, or only by the conversation, with no other tool on offer (`auto`). With
    `sends_thoughts`, the reasoning of earlier turns with tool calls is sent back. Some servers,
    while thinking, refuse such a turn if it has no reasoning field; if the reasoning was empty,
    they get `empty_thought` in `reasoning_content`.
    """

    provider: str
    summary: str
    checked: str  # date on which these facts were last checked, YYYY-MM-DD
    pages: tuple[str, ...]  # sources of these facts
    base_url: Address  # "" without a default; {region} or {location}: a parameter
    variables: tuple[str, ...]  # environment variables that may hold the key
    protocol: Protocol = "chat"
    extra: str = "openai"  # extra of ktdeval that installs the provider's packages
    # example address, for providers without a default
    address: Address = "http://localhost:8000/v1"
    credentials: str = ""  # machine credentials, used if no variable holds a key
    states_context: bool = False  # whether the free list of models reports context lengths
    # servers that need a key are paid for, so their replies must have token counts
    needs_key: bool = True
    thinks: bool = False  # whether its models think by default
    forced_tool: ForcedTool = "named"  # how a tool is forced while the model does not think
    forced_tool_thinking: ForcedTool = "named"
    max_tokens_field: TokensField = "max_tokens"  # field that limits a reply, including reasoning
    takes_seed: bool = False
    seed_field: str = "seed"
    # json_schema: the reply is constrained to the schema; json_object: any object is allowed, and
    # the prompt contains the schema
    json_mode: JsonMode = "json_object"
    # maximum length of each string in a constrained reply, in characters; None: schemas are sent
    # unchanged
    longest_text: int | None = None
    grammar: GrammarName | None = None  # engine whose constraints on replies are too loose
    takes_effort: bool = True  # whether requests may have `reasoning_effort`
    budget_field: str | None = None  # field for the reasoning budget in tokens
    # fields sent with an effort other than none, or with a budget
    think_on: Mapping[str, Any] = field(default_factory=dict)
    think_off: Mapping[str, Any] = field(default_factory=dict)  # fields sent with the effort `none`
    sends_thoughts: bool = False  # whether its models expect earlier thoughts
    empty_thought: str | None = None
    extra_body: Parameters = field(default_factory=dict)  # fields added to every request
    meanings: Mapping[str, int] = field(default_factory=dict)  # see `ktdeval.calls.Caller`


@cache
def presets() -> Mapping[str, ProviderPreset]:
    """Return all providers of `presets.yaml` by name, OpenAI first."""
    path = facts_file("presets.yaml")
    by_provider = {}
    for provider, entry in load_yaml(path).items():
        codes = {
            code: int(status)
            for status, codes in entry.pop("meanings", {}).items()
            for code in codes
        }
        by_provider[provider] = build(
            ProviderPreset,
            {"provider": provider, **entry, "meanings": codes},
            f"{path}: {provider}",
        )

    return by_provider
