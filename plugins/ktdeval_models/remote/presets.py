"""Servers that speak OpenAI's Chat Completions, and where each departs from it; the facts are in `presets.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ktdeval.fields import build
from ktdeval.yamlio import load_yaml

ForcedTool = Literal["named", "required", "auto"]
JsonMode = Literal["json_schema", "json_object"]
TokensField = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True)
class Preset:
    """A server and where it departs from the others. A parameter of `--model-args` overrides it (`CompatibleParams`)."""

    provider: str  # the provider's name
    summary: str  # for listings
    base_url: str  # its address; "" when there is none by default
    variables: tuple[str, ...]  # environment variables that may hold its key
    #: whether it serves nobody without one. Such servers are paid for, so that their replies must say what they used.
    needs_key: bool = True
    thinks: bool = False  # whether its models think unless told not to
    #: how a tool is forced while the model does not think: by name, as the one tool on offer that is `required`, or (`auto`) by the
    #: conversation alone, with no other tool on offer
    forced_tool: ForcedTool = "named"
    forced_tool_thinking: ForcedTool = "named"  # the same while it thinks
    max_tokens_field: TokensField = "max_tokens"  # the field that limits a reply, reasoning included
    takes_seed: bool = False  # whether it has a field `seed`
    #: how a reply is held to a JSON Schema: by the schema, or as any JSON object with the schema in the prompt
    json_mode: JsonMode = "json_object"
    takes_effort: bool = True  # whether it has a field `reasoning_effort`
    budget_field: str | None = None  # the field for the most tokens of reasoning
    #: fields that switch thinking on, sent with an effort other than none, or with a budget
    think_on: Mapping[str, Any] = field(default_factory=dict)
    think_off: Mapping[str, Any] = field(default_factory=dict)  # fields that switch it off, sent with the effort `none`
    #: what to send as `reasoning_content` of an earlier turn with tool calls, for servers that refuse such a turn without the field
    #: while they think. The reasoning itself is not sent back.
    empty_thought: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)  # fields that every request has
    meanings: Mapping[str, int] = field(default_factory=dict)  # see `ktdeval.calls.Caller`


@cache
def presets() -> Mapping[str, Preset]:
    """Return all servers by provider: OpenAI first, then those of `ktdeval_models.remote.openai_chat`."""
    path = Path(__file__).with_name("presets.yaml")
    found = {}
    for provider, given in load_yaml(path).items():
        codes = {code: int(status) for status, codes in given.pop("meanings", {}).items() for code in codes}
        found[provider] = build(Preset, {"provider": provider, **given, "meanings": codes}, f"{path}: {provider}")
    return found


def compatible_servers() -> Mapping[str, Preset]:
    """Return the servers other than OpenAI."""
    return {provider: preset for provider, preset in presets().items() if provider != "openai"}
