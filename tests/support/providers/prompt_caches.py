"""What providers' prompt caches serve of a run's requests, by their documented rules.

Claude (https://platform.claude.com/docs/en/build-with-claude/prompt-caching): prefixes are written
at marked blocks, and read from a mark over the 20 blocks that end with it; a prefix below the
model's minimum is neither; a use within five minutes renews it; tools and system message come
before the conversation, and a change of `tool_choice` or thinking ends what was kept of the latter.

OpenAI (https://platform.openai.com/docs/guides/prompt-caching, automatic caching): prompts from
1,024 tokens on are kept without marks, and read in steps of 128 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ktdeval.calls.costs.prompt_size import USUAL_TOKENS, text_bytes
from ktdeval.values import JsonValue, dumps_canonical, sha256_hex

MARK = "cache_control"
MAX_MARKS = 4
LOOK_BACK = 20
LIFETIME_S = 300.0
OPENAI_MINIMUM = 1024
OPENAI_STEP = 128
CLAUDE_MINIMUM = {"claude-opus-5-5": 512, "claude-sonnet-5": 1024, "claude-haiku-4-5": 4096}
"""Tokens of the shortest prefix that is kept, by model: the table "Cache limitations"."""

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Served:
    """Tokens of prompts: read from a cache, written to it, and neither."""

    read: float = 0.0
    written: float = 0.0
    fresh: float = 0.0

    def __add__(self, other: Served) -> Served:
        return Served(
            self.read + other.read, self.written + other.written, self.fresh + other.fresh
        )

    @property
    def total(self) -> float:
        """All tokens."""
        return self.read + self.written + self.fresh

    @property
    def read_pct(self) -> float:
        """Share read in per cent."""
        return 100.0 * self.read / self.total

    @property
    def written_pct(self) -> float:
        """Share written in per cent."""
        return 100.0 * self.written / self.total

    @property
    def cost_pct(self) -> float:
        """Cost of the prompts in per cent of that without a cache: a tenth for what is read, five
        quarters for what is written.
        """
        return (0.1 * self.read + 1.25 * self.written + self.fresh) * 100.0 / self.total


@dataclass(frozen=True)
class _Block:
    key: str  #: of the prefix that ends with it
    tokens: float  #: of that prefix
    is_marked: bool


class ClaudeCache:
    """Prompt cache of one Claude model."""

    def __init__(self, minimum: int, heeds_choice: bool = True) -> None:
        self._minimum = minimum
        self._heeds_choice = heeds_choice  #: as the provider does, and other servers need not
        self._used: dict[str, float] = {}  # prefix -> time of its last use in seconds

    def ask(self, body: Body, now: float) -> Served:
        """Return what a request is served, and keep what it marks. Raises ValueError: it has more
        marks than the API takes.
        """
        blocks = _prefixes(body, self._heeds_choice)
        marks = [index for index, block in enumerate(blocks) if block.is_marked]

        if len(marks) > MAX_MARKS:
            raise ValueError(f"{len(marks)} marks, and {MAX_MARKS} are taken")

        found = max((self._found(blocks, mark, now) for mark in marks), default=-1)
        read = blocks[found].tokens if found >= 0 else 0.0
        kept = read

        for index in (*marks, found):
            if index >= 0 and blocks[index].tokens >= self._minimum:
                self._used[blocks[index].key] = now
                kept = max(kept, blocks[index].tokens)

        return Served(read, kept - read, blocks[-1].tokens - kept)

    def _found(self, blocks: list[_Block], mark: int, now: float) -> int:
        """Return the index of the longest prefix kept that a mark looks back at; -1: none."""
        for index in range(mark, max(-1, mark - LOOK_BACK), -1):
            used = self._used.get(blocks[index].key)
            if used is not None and now - used <= LIFETIME_S:
                return index

        return -1


def _prefixes(body: Body, heeds_choice: bool) -> list[_Block]:
    """Return the blocks of a request in the order in which they are kept. A mark at the top level
    stands for one at the last block.
    """
    blocks = list[_Block]()
    key = dumps_canonical([body["model"]])
    tokens = 0.0

    for level, part in _parts(body, heeds_choice):
        key = sha256_hex(f"{key}\n{level}\n{dumps_canonical(_plain(part))}")
        tokens += _tokens(part)
        blocks.append(_Block(key, tokens, MARK in part))
        if level == "change":
            blocks.pop()

    if MARK in body:
        last = blocks[-1]
        blocks[-1] = _Block(last.key, last.tokens, is_marked=True)

    return blocks


def _parts(body: Body, heeds_choice: bool) -> Iterator[tuple[str, Body]]:
    """Yield the blocks of a request, and before its conversation what ends what is kept of it."""
    for tool in body.get("tools", ()):
        yield "tools", tool

    system = body.get("system", ())
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]

    for block in system:
        yield "system", block

    changes = {name: body.get(name) for name in ("tool_choice", "thinking")}
    if heeds_choice:
        yield "change", changes

    for turn in body["messages"]:
        for block in turn["content"]:
            yield "messages", {"role": turn["role"], **block}


def _plain(part: Body) -> JsonValue:
    return {name: value for name, value in part.items() if name != MARK}


def _tokens(part: Body) -> float:
    """Return the estimated tokens of a block, as `ktdeval plan` counts them."""
    texts = [text for name, text in part.items() if name in ("text", "content", "name")]
    texts += [part.get("description", "")]
    texts += [dumps_canonical(part[name]) for name in ("input_schema", "input") if name in part]

    return text_bytes("".join(texts)).tokens(USUAL_TOKENS)


class OpenAICache:
    """Automatic prompt cache of one OpenAI model."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, float]] = []  # text of a prompt, time of its last use

    def ask(self, text: str, tokens: float, now: float) -> Served:
        """Return what a prompt of so many tokens is served; `text` is all of it."""
        shared = 0.0
        whole = _estimated(text)
        for index, (earlier, used) in enumerate(self._kept):
            if now - used > LIFETIME_S:
                continue

            prefix = text[: _common(text, earlier)]
            same = _estimated(prefix) / whole * tokens
            if same >= OPENAI_MINIMUM:
                self._kept[index] = (earlier, now)

            shared = max(shared, same)

        self._kept.append((text, now))
        read = 0.0
        if shared >= OPENAI_MINIMUM:
            read = shared - (shared - OPENAI_MINIMUM) % OPENAI_STEP

        return Served(read, 0.0, tokens - read)


def _estimated(text: str) -> float:
    """Return the estimated tokens of a text: figures have more of them per character than words."""
    return text_bytes(text).tokens(USUAL_TOKENS)


def _common(text: str, other: str) -> int:
    """Return the length of the longest beginning that two texts have in common."""
    shortest = 0
    longest = min(len(text), len(other))

    while shortest < longest:
        middle = (shortest + longest + 1) // 2
        if text[shortest:middle] == other[shortest:middle]:
            shortest = middle
        else:
            longest = middle - 1

    return shortest
