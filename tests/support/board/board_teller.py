"""A plugin for the tests of boards: momentum that says aloud what a variable holds; sums, and a
model that adds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktdeval.api import QATask, ToolCall
from ktdeval.harness import Model, ModelRequest, ModelTraits, Reply
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import option

SAYS = "BOARD_TELLER_SAYS"
"""Name of the variable that holds what it says in its reply, its reasoning and its reasons."""


@dataclass(frozen=True)
class TellerParams:
    """Arguments of `--model-args`."""

    note: str = option("", help="changes nothing but the plan")


class Teller:
    """Trades as momentum does."""

    def __init__(self) -> None:
        from ktdeval_models.builtin_models import make_builtin

        self._momentum = make_builtin("momentum")

    def reply(self, request: ModelRequest) -> Reply:
        """Answer as momentum does, and tell."""
        words = os.environ.get(SAYS, "")
        reply = self._momentum.reply(request)

        if request.tool_choice is None:
            return replace(reply, content=f"I look first. {words}", reasoning=words)

        calls = [
            replace(call, arguments=_tell(json.loads(call.arguments), words))
            for call in reply.tool_calls
        ]

        return replace(reply, tool_calls=tuple(calls))


def _tell(action: dict[str, Any], words: str) -> str:
    for order in action["orders"]:
        order["reason"] += f" {words}"

    action["overall_reason"] += f" {words}"
    return json.dumps(action)


def _make(name: str, _params: TellerParams | None = None) -> Model:
    model: Model = Teller()
    return model


class Adder:
    """Answers every sum rightly."""

    traits = ModelTraits(is_free=True)

    def reply(self, request: ModelRequest) -> Reply:
        question = next(message.content for message in request.messages if message.role == "user")
        answer = json.dumps({"answer": str(int(question.split()[0]) + 1)})
        return Reply("", (ToolCall("1", "submit_answer", answer),), "tool_calls")


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    return [
        Spec("test/teller", _make, "momentum that tells", TellerParams),
        Spec("right/adder", lambda _=None: Adder(), "Adds"),
    ]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    samples = [{"question": f"{number} + 1?", "gold": str(number + 1)} for number in range(4)]
    return [QATask(samples, lambda answer, sample: answer == sample["gold"], name="sums").spec()]
