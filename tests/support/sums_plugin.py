"""A plugin with sums, questions about no market, and a model that adds."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ktdeval.api import ModelRequest, QATask, Reply, Spec, ToolCall, hookimpl


class Adder:
    """Answers every sum rightly."""

    is_free = True

    def reply(self, request: ModelRequest) -> Reply:
        question = next(message.content for message in request.messages if message.role == "user")
        answer = json.dumps({"answer": str(int(question.split()[0]) + 1)})
        return Reply("", (ToolCall("1", "submit_answer", answer),), "tool_calls")


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    return [Spec("right/adder", lambda _=None: Adder(), "Adds")]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    samples = [{"question": f"{number} + 1?", "gold": str(number + 1)} for number in range(4)]
    return [QATask(samples, lambda answer, sample: answer == sample["gold"], name="sums").spec()]
