"""Size of a prompt before it is sent: bytes by their kind, and the tokens that they may be."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.harness.messages import ModelRequest
from ktdeval.values.jsonio import dumps_canonical


@dataclass(frozen=True, slots=True)
class BytesPerToken:
    """UTF-8 bytes that one token stands for."""

    prose: float  #: in system prompts and descriptions of tools
    data: float  #: in all other messages, which are tables of figures for the most part


# Measured with the tokenizers cl100k_base and o200k_base on conversations of the built-in tasks:
# 3.9 in system prompts, 3.5 in descriptions of tools, 1.9 to 2.7 in tables of figures, and 1.4 to
# 2.0 in these where each digit is a token of its own.
FEWEST_TOKENS = BytesPerToken(prose=4.2, data=2.7)
USUAL_TOKENS = BytesPerToken(prose=3.7, data=2.3)
MOST_TOKENS = BytesPerToken(prose=3.3, data=1.5)


@dataclass(frozen=True, slots=True)
class PromptBytes:
    """UTF-8 bytes of a prompt, or of several."""

    prose: int = 0  #: of system prompts and descriptions of tools
    data: int = 0  #: of all other messages

    def tokens(self, rate: BytesPerToken) -> float:
        """Return the tokens that they come to at this rate."""
        return self.prose / rate.prose + self.data / rate.data


def prompt_bytes(request: ModelRequest) -> PromptBytes:
    """Return the size of one request."""
    prose = data = 0
    for message in request.messages:
        texts = [message.content]
        for call in message.tool_calls:
            texts += [call.name, call.arguments]
            if call.opaque is not None and call.opaque.has_words:
                texts.append(call.opaque.data)

        size = _bytes("".join(texts))
        if message.role == "system":
            prose += size
        else:
            data += size

    for tool in request.tools:
        prose += _bytes(dumps_canonical([tool.name, tool.description, tool.parameters]))

    return PromptBytes(prose, data)


def reply_room(request: ModelRequest) -> int:
    """Return the tokens that a request keeps free for its reply."""
    # Some providers count reasoning within this limit, others beside it: the limit itself is sure.
    return request.params.max_output_tokens


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
