"""A plugin with a model that moves the clock of a rehearsal while it answers."""

from __future__ import annotations

import os
from pathlib import Path

from ktdeval.harness import Model, ModelRequest, ModelTraits, Reply
from ktdeval.hookspecs import Spec, hookimpl

PLUGIN = Path(__file__)
CLOCK = "CLOCK_PLUGIN_FILE"  #: file of the clock
TIME = "CLOCK_PLUGIN_TIME"  #: what is written into it while the model answers


class Slow:
    """A rule model that takes hours to answer."""

    traits = ModelTraits(is_free=True)

    def __init__(self, model: Model) -> None:
        self._model = model

    def reply(self, request: ModelRequest) -> Reply:
        """Move the clock, and answer."""
        Path(os.environ[CLOCK]).write_text(os.environ[TIME], "utf-8")
        return self._model.reply(request)


def _make(name: str) -> Slow:
    from ktdeval_models.builtin_models import make_builtin

    return Slow(make_builtin("momentum"))


@hookimpl
def ktdeval_models() -> list[Spec]:
    """Return the model."""
    return [Spec("slow/momentum", _make, "Momentum that takes hours to answer")]
