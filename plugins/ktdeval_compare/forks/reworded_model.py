"""Model that reads a prompt with one of its texts replaced, for forks of a prompt's wording."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ktdeval.harness import Message, Model, ModelRequest, Reply
from ktdeval_compare.forks.change_forms import InputChange
from ktdeval_compare.forks.input_changes import CannotChangeError


class RewordedModel:
    """Model that receives the system and user messages with a text replaced: `change.stock` by the
    value of the change. Everything else is that of `model`.

    Raises CannotChangeError, before the model is called, if its first prompt lacks the text.
    """

    def __init__(self, model: Model, change: InputChange) -> None:
        self._model = model
        self._old = change.stock
        self._new = change.words
        self.replaced = 0  #: number of places replaced in the first prompt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def reply(self, request: ModelRequest) -> Reply:
        """Return the model's reply to the changed prompt."""
        if not self.replaced:
            self.replaced = sum(each.content.count(self._old) for each in _own_words(request))
        if not self.replaced:
            raise CannotChangeError(
                "the prompt does not contain this text; copy it from `ktdeval view RUN`"
            )

        return self._model.reply(
            replace(request, messages=tuple(map(self._reword, request.messages)))
        )

    def _reword(self, message: Message) -> Message:
        if message.role not in ("system", "user"):
            return message
        # marks of shared parts count characters of the text that was replaced
        return replace(message, content=message.content.replace(self._old, self._new), shared=())


def _own_words(request: ModelRequest) -> list[Message]:
    return [each for each in request.messages if each.role in ("system", "user")]
