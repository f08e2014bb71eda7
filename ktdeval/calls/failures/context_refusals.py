"""Context of a model, and the error for a prompt that does not fit it, as a server's refusal says
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.calls.costs.prompt_size import reply_room
from ktdeval.calls.failures.provider_errors import ProviderRefusal
from ktdeval.errors import ModelError
from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.values.documents.yamlio import load_yaml

KIND = "context_exceeded"  #: failure kind for a prompt that does not fit
_NUMBER = r"([0-9][0-9,]*)"


@dataclass(frozen=True)
class Context:
    """A model's context length, with the source that reports it."""

    tokens: int  #: context length in tokens
    source: str  #: source of the length, in words that can follow "the context is N tokens"
    holds_reply: bool = True  #: True if the reply must fit together with the prompt
    #: True if the server truncates longer prompts, and counts tokens only afterwards
    cuts_prompts: bool = False
    #: True if the length only comes from a list; no prompt is held back because of it
    is_listed: bool = False

    def room(self, request: ModelRequest) -> int:
        """Return the number of tokens left for the prompt of a request."""
        return self.tokens - (reply_room(request) if self.holds_reply else 0)


class ContextExceeded(ModelError):
    """A prompt does not fit the context, according to the server or to earlier knowledge."""

    def __init__(
        self,
        message: str,
        context: Context | None = None,
        prompt_tokens: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(KIND, message, retry_after_s)
        #: context that the server reported; None if it did not report a number
        self.context = context
        #: prompt tokens that the server counted; None if it did not report them
        self.prompt_tokens = prompt_tokens


def context_exceeded(refusal: ProviderRefusal, words: str) -> ContextExceeded | None:
    """Return the error for a prompt that was rejected as too long, with the context size that the
    refusal reports; None if the prompt was rejected for another reason. `words` is the error
    message.
    """
    table = _read_context_words()
    message = refusal.message
    is_named = bool(table["codes"] & set(refusal.codes))
    if not is_named and not any(pattern.search(message) for pattern in table["words"]):
        return None

    source = "as the server says in its refusal"
    context = None
    # in a comparison, the last number is the limit
    if (n_ctx := refusal.numbers.get("n_ctx")) is not None:
        context = Context(n_ctx, source, holds_reply=False)
    elif (tokens := _matched_number(table["prompt"], message, -1)) is not None:
        context = Context(tokens, source, holds_reply=False)
    elif (tokens := _matched_number(table["whole"], message, -1)) is not None:
        context = Context(tokens, source)

    counted = refusal.numbers.get("n_prompt_tokens")
    if counted is None:
        counted = _matched_number(table["counted"], message, 0)

    return ContextExceeded(words, context, counted, refusal.retry_after_s)


@cache
def _read_context_words() -> Mapping[str, Any]:
    content = load_yaml(Path(__file__).with_name("context_words.yaml"))
    read: dict[str, Any] = {"codes": frozenset(content.pop("codes"))}
    for name, patterns in content.items():
        read[name] = list(map(_compile_pattern, patterns))
    return read


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern from the table, with each N replaced by a pattern for a number."""
    with_numbers = re.sub(r"\bN\b", lambda _: _NUMBER, pattern)
    return re.compile(with_numbers, re.IGNORECASE)


def _matched_number(patterns: list[re.Pattern[str]], message: str, which: int) -> int | None:
    """Return a number from the first pattern that matches: its first number (`which` = 0) or its
    last (-1).
    """
    for pattern in patterns:
        if match := pattern.search(message):
            digits = match.groups()[which].replace(",", "")
            number = int(digits[:12])
            if number > 0:
                return number

    return None
