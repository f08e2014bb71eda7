"""Reused prefix of model calls: the characters at the start of a request that it shares with an
earlier request.

Providers with prompt caches bill such a prefix at a lower price if their cache still holds it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktdeval.calls import common_prefix
from ktdeval.errors import StoreError
from ktdeval.harness import TranscriptEntry
from ktdeval.runner import RecordedExchange, read_exchanges
from ktdeval.values import JsonValue, dumps_canonical


@dataclass(frozen=True)
class ReusedPrefix:
    """Number of characters in one or several requests, and how many of them are reused."""

    characters: int = 0  #: characters in the requests' texts
    #: characters in a prefix that is shared with an earlier request of the same step
    in_step: int = 0
    #: characters in a prefix that is shared with an earlier request of the same episode
    in_episode: int = 0

    def __add__(self, other: ReusedPrefix) -> ReusedPrefix:
        return ReusedPrefix(
            self.characters + other.characters,
            self.in_step + other.in_step,
            self.in_episode + other.in_episode,
        )

    @property
    def step_pct(self) -> float | None:
        """Return the share of characters reused within steps, in percent; None without characters."""
        return self._percent(self.in_step)

    @property
    def episode_pct(self) -> float | None:
        """Return the share of characters reused within episodes, in percent; None without
        characters.
        """
        return self._percent(self.in_episode)

    def _percent(self, reused: int) -> float | None:
        if not self.characters:
            return None
        return 100.0 * reused / self.characters


def calls_with_prefix(
    transcript: Sequence[TranscriptEntry], where: str
) -> Iterator[tuple[RecordedExchange, ReusedPrefix]]:
    """Yield each recorded call of an episode with the reused prefix of its request.

    Only requests to the same model are compared, since each model has its own cache. Tools are
    compared by name and, if a step changed a tool's schema, by schema; a transcript does not record
    more. Raises StoreError if a record is not the record of a call; the message starts with
    `where`.
    """
    by_model: dict[str, EarlierRequests] = {}
    for entry in transcript:
        for earlier in by_model.values():
            earlier.begin_step()

        messages: list[JsonValue] = []
        schemas: dict[str, JsonValue] = {}

        for call in read_exchanges(entry, where):
            if not 0 <= call.kept <= len(messages):
                raise StoreError(
                    f"{where}: kept: expected 0 to {len(messages)}, the messages of the call"
                    f" before, got {call.kept}"
                )

            sent = [message.to_json() for message in call.sent]
            messages = [*messages[: call.kept], *sent]
            earlier = by_model.setdefault(call.model, EarlierRequests())
            schemas |= call.schemas
            tools = [_tool_text(name, schemas) for name in call.tools]
            yield call, earlier.measure(request_text(tools, messages))


def _tool_text(name: str, schemas: Mapping[str, JsonValue]) -> str:
    """Return a tool's name, followed by its schema if a step changed the schema."""
    return f"{name} {dumps_canonical(schemas[name])}" if name in schemas else name


def request_text(tools: Sequence[str], messages: Sequence[JsonValue]) -> str:
    """Return a request as one string, in the order in which providers cache: tools, then messages,
    one per line. `tools` are strings; `messages` are JSON objects, written as canonical JSON.
    """
    lines = [*tools, *map(dumps_canonical, messages)]
    return "".join(f"{line}\n" for line in lines)


class EarlierRequests:
    """Text of each request so far in an episode. The next request is compared with these."""

    def __init__(self) -> None:
        self._of_episode = _SortedTexts()
        self._of_step = _SortedTexts()

    def begin_step(self) -> None:
        """Start the next step."""
        self._of_step = _SortedTexts()

    def measure(self, text: str) -> ReusedPrefix:
        """Return the reused prefix of the next request, and store the request for later
        comparisons.
        """
        in_step = self._of_step.longest_prefix(text)
        in_episode = self._of_episode.longest_prefix(text)
        self._of_step.add(text)
        self._of_episode.add(text)
        return ReusedPrefix(len(text), in_step, in_episode)


class _SortedTexts:
    """Strings in lexicographic order. The longest prefix that a new string shares with any of them
    is shared with one of its two neighbours.
    """

    def __init__(self) -> None:
        self._sorted: list[str] = []

    def add(self, text: str) -> None:
        """Add a string."""
        self._sorted.insert(bisect_left(self._sorted, text), text)

    def longest_prefix(self, text: str) -> int:
        """Return the length of the longest prefix that a string shares with any string added
        before; 0 if no prefix is shared.
        """
        index = bisect_left(self._sorted, text)
        neighbours = self._sorted[max(0, index - 1) : index + 1]
        return max((common_prefix(text, other) for other in neighbours), default=0)
