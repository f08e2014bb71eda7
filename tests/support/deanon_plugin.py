"""A plugin with attackers for whole runs of the probe tasks: one that reads what stands there, one that never answers right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deanon_play import Reader
from ktdeval.harness import Model, Reply, ToolCall
from ktdeval.hookspecs import Spec, hookimpl


class Mumbler:
    """Submits something that is no answer, whatever the feedback."""

    def reply(self, request: Any) -> Reply:
        return Reply(
            tool_calls=(ToolCall("call_1", request.tool_choice, '{"tickers": "all of them"}'),), finish_reason="tool_calls"
        )


_MODELS = {"reader": Reader, "mumbler": Mumbler}


def _make(name: str, _params: None = None) -> Model:
    model: Model = _MODELS[name]()
    return model


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    return [Spec(f"attacker/{name}", _make, "An attacker of the tests") for name in _MODELS]
