"""Published rules of the providers' prompt caches, and the blocks of a Messages API body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.calls import PromptBlock, PromptCacheRules, bare_model
from ktdeval.values import build, dumps_canonical, load_yaml
from ktdeval_models.remote.requests.cache_marks import FIELD

_TABLE = Path(__file__).with_name("prompt_caches.yaml")


@dataclass(frozen=True)
class _Published:
    """A row of the table."""

    publisher: str
    source: str
    providers: tuple[str, ...]
    models: tuple[str, ...]
    min_tokens: int
    step_tokens: int = 1


@dataclass(frozen=True)
class _Caches:
    """The table."""

    published: tuple[_Published, ...]


@cache
def _table() -> tuple[_Published, ...]:
    return build(_Caches, load_yaml(_TABLE), _TABLE.name).published


def published_rules(provider: str, name: str) -> PromptCacheRules | None:
    """Return the cache rules for a provider's model; None if none are known. All prompts of the
    model are cached.
    """
    model = bare_model(name)
    for row in _table():
        is_ours = provider in row.providers
        if is_ours and any(fnmatchcase(model, pattern) for pattern in row.models):
            return PromptCacheRules(row.publisher, row.min_tokens, row.step_tokens)

    return None


def message_blocks(body: Mapping[str, Any]) -> Iterator[PromptBlock]:
    """Yield the blocks of a Messages API body: tools, system, conversation. A change of
    `tool_choice` or `thinking` invalidates the cached conversation.
    """
    for tool in body.get("tools", ()):
        yield _block(tool, "tools")

    system = body.get("system", ())
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]

    for block in system:
        yield _block(block, "system")

    choice = dumps_canonical([body.get("tool_choice"), body.get("thinking")])
    for turn in body["messages"]:
        for block in turn["content"]:
            yield _block(block, f"{choice} {turn['role']}")


def _block(part: Mapping[str, Any], key: str) -> PromptBlock:
    texts = []
    others = {}
    for name, value in part.items():
        if name in ("text", "content", "name", "description") and isinstance(value, str):
            texts.append(value)
        elif name in ("input_schema", "input", "content"):
            texts.append(dumps_canonical(value))
        elif name != FIELD:
            others[name] = value

    return PromptBlock("".join(texts), FIELD in part, f"{key} {dumps_canonical(others)}")
