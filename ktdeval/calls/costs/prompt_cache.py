"""Prompt caches of providers: how many tokens of a request are read from an earlier request, and
how many are written for a later one, under the providers' published rules. No provider is called.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256

from ktdeval.calls.costs.prompt_size import BytesPerToken, PromptBytes, message_text, text_bytes
from ktdeval.calls.records.record import tool_texts
from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.values.documents.strict_json import dumps_canonical


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """Part of a request, in the order in which the provider caches: tools, system, messages."""

    text: str
    #: True if the request asks the provider to cache the prompt up to the end of this block
    is_marked: bool = False
    #: what else must be equal for the prompt to be read up to this block's end, such as the tool
    #: choice
    key: str = ""


@dataclass(frozen=True, slots=True)
class PromptCacheRules:
    """Rules by which a provider caches prompt prefixes.

    Example:
        PromptCacheRules("OpenAI", min_tokens=1024, step_tokens=128)
    """

    provider: str  #: provider that publishes the rules, for messages
    min_tokens: int  #: tokens of the shortest prefix that is cached
    step_tokens: int = 1  #: cached reads have `min_tokens` plus a multiple of this number
    lifetime_s: float = 300.0  #: seconds from the last use of a prefix until it is dropped
    #: returns the blocks of a request as sent, with their marks, if only marked prefixes are
    #: cached; None if every prompt is cached
    blocks: Callable[[ModelRequest], Sequence[PromptBlock]] | None = None
    #: number of blocks, ending with the marked one, whose ends are looked up
    look_back: int = 20

    def __str__(self) -> str:
        """Return the rules as words."""
        steps = ""
        if self.step_tokens > 1:
            steps = f" in steps of {self.step_tokens:,}"
        what = "every prompt" if self.blocks is None else "marked prompts"
        return (
            f"{self.provider}: {what} from {self.min_tokens:,} tokens on{steps}, until"
            f" {self.lifetime_s / 60:g} minutes after the last use"
        )


#: rules assumed for a provider that has a price for cached tokens but whose rules are not known
USUAL_RULES = PromptCacheRules("as OpenAI", min_tokens=1024, step_tokens=128)


@dataclass(frozen=True, slots=True)
class CachedTokens:
    """Prompt tokens, by how a cache treats them."""

    total: float = 0.0
    read: float = 0.0  #: read from an earlier request
    written: float = 0.0  #: cached for later requests, but not read
    #: tokens that would be cached if nothing were ever read, which is the most expensive case
    unread: float = 0.0

    def __add__(self, other: CachedTokens) -> CachedTokens:
        return CachedTokens(
            self.total + other.total,
            self.read + other.read,
            self.written + other.written,
            self.unread + other.unread,
        )

    def without(self, other: CachedTokens) -> CachedTokens:
        """Return these tokens minus `other`, which is a part of them."""
        return CachedTokens(
            self.total - other.total,
            self.read - other.read,
            self.written - other.written,
            self.unread - other.unread,
        )


class PromptCache:
    """Simulated prompt cache at one model's provider. `rate`: bytes per token of its prompts."""

    def __init__(self, rules: PromptCacheRules, rate: BytesPerToken) -> None:
        self._rules = rules
        self._rate = rate
        self._prompts = _SortedPrompts()
        self._used_s: dict[bytes, float] = {}  # digest of a cached prefix -> time of last use

    def ask(self, request: ModelRequest, now_s: float) -> CachedTokens:
        """Return what the cache does with a request at a time in seconds, and add the prompt to the
        cache.
        """
        if self._rules.blocks is None:
            return self._ask_unmarked(request, now_s)
        return self._ask_marked(self._rules.blocks(request), now_s)

    def _ask_unmarked(self, request: ModelRequest, now_s: float) -> CachedTokens:
        parts = tuple(prompt_parts(request))
        self._prompts.drop(now_s - self._rules.lifetime_s)
        shared = self._prompts.shared_bytes(parts).tokens(self._rate)
        self._prompts.add(parts, now_s)

        total = sum(map(_part_bytes, parts), PromptBytes()).tokens(self._rate)
        unread = total if total >= self._rules.min_tokens else 0.0
        read = 0.0
        if shared >= self._rules.min_tokens:
            read = shared - (shared - self._rules.min_tokens) % self._rules.step_tokens

        return CachedTokens(total, read, max(0.0, unread - read), unread)

    def _ask_marked(self, blocks: Sequence[PromptBlock], now_s: float) -> CachedTokens:
        ends = list(self._block_ends(blocks))
        marks = [index for index, block in enumerate(blocks) if block.is_marked]
        found = max((self._find(ends, mark, now_s) for mark in marks), default=-1)
        read = ends[found].tokens if found >= 0 else 0.0

        kept = read
        unread = 0.0
        for index in marks:
            end = ends[index]
            if end.tokens >= self._rules.min_tokens:
                self._used_s[end.digest] = now_s
                kept = max(kept, end.tokens)
                unread = max(unread, end.tokens)

        if found >= 0:
            self._used_s[ends[found].digest] = now_s

        return CachedTokens(ends[-1].tokens, read, kept - read, unread)

    def _find(self, ends: Sequence[_BlockEnd], mark: int, now_s: float) -> int:
        """Return the index of the longest cached prefix that is found from a mark; -1 if there is
        no such prefix.
        """
        for index in range(mark, max(-1, mark - self._rules.look_back), -1):
            used_s = self._used_s.get(ends[index].digest)
            if used_s is not None and now_s - used_s <= self._rules.lifetime_s:
                return index

        return -1

    def _block_ends(self, blocks: Sequence[PromptBlock]) -> Iterator[_BlockEnd]:
        """Yield the prompt prefixes that end with each block."""
        digest = sha256()
        size = PromptBytes()
        for block in blocks:
            text = f"{block.key}\n{block.text}"
            digest.update(sha256(text.encode("utf-8", "surrogatepass")).digest())
            size += _part_bytes(block.text)
            yield _BlockEnd(digest.digest(), size.tokens(self._rate))


@dataclass(frozen=True, slots=True)
class _BlockEnd:
    """Prompt prefix: digest and number of tokens."""

    digest: bytes
    tokens: float


def prompt_parts(request: ModelRequest) -> Iterator[str]:
    """Yield the parts of a request in the order in which providers cache them: reply schema, tools,
    messages.
    """
    if request.response_schema is not None:
        yield dumps_canonical(request.response_schema)

    yield from tool_texts(request)
    for message in request.messages:
        yield message_text(message)


@dataclass
class _SortedPrompts:
    """Prompts in lexicographic order. The longest prefix that a new prompt shares with any of them
    is the prefix shared with one of its two neighbours.
    """

    _parts: list[tuple[str, ...]] = field(default_factory=list)
    _used_s: dict[tuple[str, ...], float] = field(default_factory=dict)

    def add(self, parts: tuple[str, ...], now_s: float) -> None:
        """Add a prompt, or update its time of last use."""
        if parts not in self._used_s:
            self._parts.insert(bisect_left(self._parts, parts), parts)
        self._used_s[parts] = now_s

    def drop(self, before_s: float) -> None:
        """Drop the prompts that were last used before a time in seconds."""
        old = [parts for parts, used_s in self._used_s.items() if used_s < before_s]
        for parts in old:
            del self._used_s[parts]
            self._parts.remove(parts)

    def shared_bytes(self, parts: tuple[str, ...]) -> PromptBytes:
        """Return the size of the longest prefix that a prompt shares with any of the stored
        prompts.
        """
        index = bisect_left(self._parts, parts)
        neighbours = self._parts[max(0, index - 1) : index + 1]
        sizes = [_shared_bytes(parts, other) for other in neighbours]
        return max(sizes, key=lambda size: size.total, default=PromptBytes())


# a conversation sends its parts again with each request
@lru_cache(maxsize=1024)
def _part_bytes(part: str) -> PromptBytes:
    return text_bytes(part) + PromptBytes(parts=1)


def _shared_bytes(parts: Sequence[str], others: Sequence[str]) -> PromptBytes:
    size = PromptBytes()
    for part, other in zip(parts, others, strict=False):
        if part == other:
            size += _part_bytes(part)
        else:
            return size + text_bytes(part[: common_prefix(part, other)])

    return size


def common_prefix(text: str, other: str) -> int:
    """Return the length of the longest common prefix of two strings."""
    shortest = 0
    longest = min(len(text), len(other))
    while shortest < longest:
        middle = (shortest + longest + 1) // 2
        if text[shortest:middle] == other[shortest:middle]:
            shortest = middle
        else:
            longest = middle - 1

    return shortest
