"""A plugin for the tests of calls: a model as if behind a network, with an unseen mood, that may
count no tokens.

Mood and counts come from the environment, not from parameters: the same plan is drawn again with
another mood.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import replace
from pathlib import Path

from ktdeval.harness import ModelRequest, Reply, ToolProtocol, Usage
from ktdeval.hookspecs import Spec, hookimpl
from support.providers.call_clients import OpenProvider

MOOD = "LUCKY_PLUGIN_MOOD"  #: keyless model that it answers as; momentum by default
#: `all`, or `some`: replies that come without counts of tokens
UNCOUNTED = "LUCKY_PLUGIN_UNCOUNTED"
PLUGIN = Path(__file__)


class Lucky(OpenProvider):
    """A `RemoteModel` that answers as the keyless model of its mood."""

    provider = "lucky"
    endpoint = "http://lucky.invalid"
    protocols: tuple[ToolProtocol, ...] = ("native",)
    price_table = None

    def __init__(self, name: str) -> None:
        from ktdeval_models.builtin_models import make_builtin

        self.name = name
        self._model = make_builtin(os.environ.get(MOOD, "momentum"))

    def connect(self) -> None:
        """Find nothing to connect to."""

    def reply(self, request: ModelRequest) -> Reply:
        """Answer by the mood, with ten tokens of input and two of output where they are counted, as
        a dated version of its name.
        """
        reply = self._model.reply(request)
        uncounted = os.environ.get(UNCOUNTED)
        is_odd = bool(zlib.crc32(request.messages[-1].content.encode()) % 2)
        usage = Usage() if uncounted == "all" or (uncounted == "some" and is_odd) else Usage(10, 2)

        return replace(reply, usage=usage, served_by=f"{self.name}-2026-01-02")


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [Spec("lucky", Lucky, "a keyless model, as if it were behind a network")]
