"""A plugin for the tests of plans: a model that seems to be behind a network, with a price table;
it answers where told to.
"""

from __future__ import annotations

import os
from pathlib import Path

from ktdeval.harness import ModelRequest, Reply, ToolProtocol, Usage
from ktdeval.hookspecs import Spec, hookimpl
from support.providers.call_clients import OpenProvider

ANSWERS = "FAR_PLUGIN_ANSWERS"  # set: the model may be connected to and asked
BYTES_A_TOKEN = 3
TABLE = """\
as_of: 2026-01-02
source: the tests
models:
  - {match: far/momentum, input: 2.0, output: 8.0, cache_read: 0.5}
"""


class Far(OpenProvider):
    """A `RemoteModel` that decides as `builtin/momentum` does and counts the bytes it is sent."""

    provider = "far"
    endpoint = "http://far.invalid"
    protocols: tuple[ToolProtocol, ...] = ("native", "text")

    def __init__(self, name: str) -> None:
        from ktdeval_models.builtin_models import make_builtin

        self.name = name
        self.price_table = (
            Path(os.environ["FAR_PLUGIN_TABLE"]) if "FAR_PLUGIN_TABLE" in os.environ else None
        )
        self._model = make_builtin("momentum")

    def connect(self) -> None:
        """Fails the test that did not allow it."""
        assert ANSWERS in os.environ, "a plan must not connect"

    def reply(self, request: ModelRequest) -> Reply:
        """As momentum, with tokens by the length of what was sent."""
        assert ANSWERS in os.environ, "a plan must not ask"

        sent = sum(len(message.content.encode()) for message in request.messages) + sum(
            len(spec.description.encode()) + len(str(spec.parameters)) for spec in request.tools
        )
        reply = self._model.reply(request)
        usage = Usage(sent // BYTES_A_TOKEN, 200)

        return Reply(
            reply.content,
            reply.tool_calls,
            reply.finish_reason,
            usage,
            served_by="momentum-2026-01-02",
        )


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [Spec("far", Far, "momentum, as if it were behind a network")]
