"""A plugin for the tests of plans: models that obey their instructions and count the tokens of what
they are sent, as a tokenizer does that takes so many digits at once.

The count is of pieces as tokenizers of byte pairs cut them: words with the space before them, digits,
marks. A word of more than nine letters has two tokens; two marks have one.
"""

from __future__ import annotations

import math
import re

from ktdeval.harness import ModelRequest, Reply, ToolProtocol, Usage
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import dumps_canonical
from support.providers.call_clients import OpenProvider
from support.providers.obedient_model import ObedientModel

_PIECE = re.compile(
    r"(?P<word> ?[A-Za-z]+)|(?P<digits>[0-9]+)|(?P<other>[^\x00-\x7f]+)|(?P<marks>[^A-Za-z0-9]+?(?= ?[A-Za-z0-9]|$|[^\x00-\x7f]))"
)
_LETTERS = 9
_MARKS = 2
_AROUND = 4  # tokens around a message or tool
_REPLY = 200


def tokens_of(text: str, digits: int) -> int:
    """Return the tokens of a text."""
    tokens = 0
    for piece in _PIECE.finditer(text):
        size = len(piece.group())
        if piece.lastgroup == "word":
            tokens += math.ceil(size / _LETTERS)
        elif piece.lastgroup == "digits":
            tokens += math.ceil(size / digits)
        elif piece.lastgroup == "marks":
            tokens += math.ceil(size / _MARKS)
        else:
            tokens += size

    return tokens


class Counted(OpenProvider):
    """A `RemoteModel` that does as it is told. `counted/3`: up to three digits a token."""

    provider = "counted"
    endpoint = "http://counted.invalid"
    protocols: tuple[ToolProtocol, ...] = ("native",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.price_table = None
        self._digits = int(name)
        self._model = ObedientModel()

    def reply(self, request: ModelRequest) -> Reply:
        """Obey, with the tokens of the request."""
        texts = []
        for message in request.messages:
            texts.append(message.content)
            texts += [call.name + call.arguments for call in message.tool_calls]

        for tool in request.tools:
            texts.append(dumps_canonical([tool.name, tool.description, tool.parameters]))

        sent = sum(tokens_of(text, self._digits) for text in texts)
        sent += _AROUND * (len(request.messages) + len(request.tools))
        reply = self._model.reply(request)
        usage = Usage(sent, _REPLY)

        return Reply(
            reply.content, reply.tool_calls, reply.finish_reason, usage, served_by=self.name
        )


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [Spec("counted", Counted, "obeys, and counts tokens as a tokenizer does")]
