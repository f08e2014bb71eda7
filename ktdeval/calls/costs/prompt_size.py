"""Size of a prompt in bytes by kind of character, and an estimate of its tokens."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ktdeval.calls.records.record import tool_texts
from ktdeval.harness.chat_messages import Message, ModelRequest
from ktdeval.values.documents.yamlio import load_yaml

#: bytes per token by kind of character, and the tokenizers with which the rates were measured
TOKEN_RATES = Path(__file__).with_name("token_rates.yaml")

#: kinds of characters, with the names used in messages
KINDS = {
    "letters": "letters",
    "spaces": "spaces",
    "digits": "digits",
    "marks": "marks",
    "scripts": "other scripts",
}


# a tuple: values in the same order as in `PromptBytes`
class BytesPerToken(NamedTuple):
    """UTF-8 bytes per token, by kind of character."""

    letters: float  #: ASCII letters
    spaces: float  #: spaces, each of which usually begins a word
    digits: float
    marks: float  #: all other ASCII characters: punctuation, brackets, line ends
    scripts: float  #: non-ASCII characters, mostly Chinese
    #: tokens that a server adds for each message and each tool
    around: float = 0.0


@dataclass(frozen=True, slots=True)
class PromptBytes:
    """UTF-8 bytes of one or more prompts, by kind of character as in `BytesPerToken`."""

    letters: int = 0
    spaces: int = 0
    digits: int = 0
    marks: int = 0
    scripts: int = 0
    parts: int = 0  #: number of messages and tools

    def __add__(self, other: PromptBytes) -> PromptBytes:
        return PromptBytes(*map(operator.add, self._counts, other._counts))

    def without(self, other: PromptBytes) -> PromptBytes:
        """Return these sizes minus `other`, but at least zero for each kind."""
        differences = map(operator.sub, self._counts, other._counts)
        return PromptBytes(*(max(0, difference) for difference in differences))

    @property
    def _counts(self) -> tuple[int, ...]:
        return (self.letters, self.spaces, self.digits, self.marks, self.scripts, self.parts)

    @property
    def total(self) -> int:
        """Total number of bytes."""
        return sum(self._counts) - self.parts

    def tokens(self, rate: BytesPerToken) -> float:
        """Return the estimated number of tokens at a rate."""
        *sizes, parts = self._counts
        *rates, around = rate
        return math.fsum(map(operator.truediv, sizes, rates)) + parts * around


_RATES = load_yaml(TOKEN_RATES)["rates"]
MIN_TOKENS = BytesPerToken(**_RATES["fewest"])
"""Lower bound: every measured tokenizer needs at least as many tokens."""
USUAL_TOKENS = BytesPerToken(**_RATES["usual"])
MAX_TOKENS = BytesPerToken(**_RATES["most"])
"""Upper bound: every measured tokenizer needs at most as many tokens."""


def _kind_of(byte: int) -> int:
    """Return the index in `KINDS` for a byte."""
    letter = chr(byte)
    if byte >= 0x80:
        kind = "scripts"
    elif letter.isalpha():
        kind = "letters"
    elif letter == " ":
        kind = "spaces"
    elif letter.isdigit():
        kind = "digits"
    else:
        kind = "marks"

    return list(KINDS).index(kind)


_PLACES = bytes(map(_kind_of, range(256)))


def text_bytes(text: str) -> PromptBytes:
    """Return the size of a text."""
    kinds = text.encode("utf-8", "surrogatepass").translate(_PLACES)
    counts = np.bincount(np.frombuffer(kinds, dtype=np.uint8), minlength=len(KINDS))
    return PromptBytes(*counts.tolist())


def prompt_bytes(request: ModelRequest, tools: tuple[str, ...] | None = None) -> PromptBytes:
    """Return the size of one request. `tools` contains the tools as strings, if the caller has
    them.
    """
    if tools is None:
        tools = tool_texts(request)

    size = _tools_bytes(tools)
    for message in request.messages:
        size += _message_bytes(message)

    return size


# Most messages and tools were part of the previous call. Messages and strings never change, so an
# entry can't be stale.
@lru_cache(maxsize=64)
def _tools_bytes(texts: tuple[str, ...]) -> PromptBytes:
    return text_bytes("".join(texts)) + PromptBytes(parts=len(texts))


@lru_cache(maxsize=512)
def _message_bytes(message: Message) -> PromptBytes:
    return text_bytes(message_text(message)) + PromptBytes(parts=1)


@lru_cache(maxsize=512)
def message_text(message: Message) -> str:
    """Return the text of a message that the model reads: content, calls, and thoughts sent back."""
    texts = [message.content]
    for call in message.tool_calls:
        texts += [call.name, call.arguments]
        if call.opaque is not None and call.opaque.has_words:
            texts.append(call.opaque.data)

    # sealed reasoning is also input, and about as long as the thoughts
    if message.opaque is not None:
        texts.append(message.opaque.data)

    return "".join(texts)


def reply_room(request: ModelRequest) -> int:
    """Return the number of tokens that a request reserves for its reply; 0 if no limit is sent, since
    the provider then gives the reply what is left.
    """
    # Some providers count reasoning within this limit, others in addition to it. Only the limit
    # itself is certain.
    run_params = request.run_params or request.params
    # A program may ask for more tokens than the context has; the provider then gives it fewer.
    limits = (request.params.max_output_tokens, run_params.max_output_tokens)
    return min((limit for limit in limits if limit is not None), default=0)
