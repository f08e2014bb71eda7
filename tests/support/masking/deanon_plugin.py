"""A plugin with attackers for whole runs of the probe tasks, and with probe tasks whose samples are
flawed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ktdeval.harness import Reply, ToolCall, ToolSpec
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.masking import Lens, MaskConfig
from support.masking.deanon_play import Reader, task_of


class Mumbler:
    """Submits something that is no answer, whatever the feedback."""

    submits = '{"tickers": "all of them"}'

    def reply(self, request: Any) -> Reply:
        call = ToolCall("call_1", request.tool_choice, self.submits)
        return Reply(tool_calls=(call,), finish_reason="tool_calls")


class Shrugger(Mumbler):
    """Submits answers that name no code and no day of the market."""

    submits = (
        '{"tickers": ["unknown"], "date": "1900-01-01", "sector": null, "board": null,'
        ' "confidence": 0, "reasoning": ""}'
    )


class Constant(Mumbler):
    """Submits the same five codes and no day, whatever it is shown."""

    submits = (
        '{"tickers": ["600000", "600001", "600004", "000001", "300001"], "date": null, "sector":'
        ' null, "board": null, "confidence": 0.5, "reasoning": "always these"}'
    )


class Refuser(Mumbler):
    """Submits answers of the right form that name nothing."""

    submits = (
        '{"tickers": [], "date": null, "sector": null, "board": null, "confidence": 0, "reasoning":'
        ' "I would rather not"}'
    )


class Dater(Reader):
    """Reads dates, and neither codes nor industries."""

    def reply(self, request: Any) -> Reply:
        call = super().reply(request).tool_calls[0]
        answer = {**json.loads(call.arguments), "tickers": [], "sector": None}
        return Reply(
            tool_calls=(replace(call, arguments=json.dumps(answer)),), finish_reason="tool_calls"
        )


class Turncoat(Reader):
    """Reads where dates are shown, and breaks the form behind a mask."""

    def reply(self, request: Any) -> Reply:
        read = super().reply(request)
        return (
            read if json.loads(read.tool_calls[0].arguments)["date"] else Mumbler().reply(request)
        )


class Flawed:
    """A probe task, or its samples, with each sample changed."""

    def __init__(self, of: Any, change: Any) -> None:
        self._of = of
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def __len__(self) -> int:
        return len(self._of)

    def samples(self, spec: Any, snapshot: Any, target_task: Any) -> Any:
        return Flawed(
            self._of.samples(spec, snapshot, target_task), partial(self._change, market=snapshot)
        )

    def sample(self, number: int) -> Any:
        return self._change(self._of.sample(number))


FLAWS: dict[str, Any] = {
    "no_json": lambda sample, market: replace(sample, user="Which stock is it?"),
    "two_json": lambda sample, market: replace(sample, user=sample.user + "\n```json\n{}\n```"),
    "no_code": lambda sample, market: replace(
        sample, facts={"day": sample.facts["day"], "board": "main"}
    ),
    "other_form": lambda sample, market: replace(
        sample, form=ToolSpec("guess", "", {"type": "object", "required": ["stock"]})
    ),
    "other_mask": lambda sample, market: replace(
        sample, lens=Lens(MaskConfig("stock_blind", noise_pct=1.0), 1, market, 99)
    ),
}


def _flawed(name: str, _params: None = None) -> Any:
    task = Flawed(task_of("stock_blind"), FLAWS[name])
    task.name = name
    return task


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    return [Spec(name, partial(_flawed, name), "flawed") for name in FLAWS]


MODELS = (Reader, Mumbler, Shrugger, Constant, Refuser, Dater, Turncoat)


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    return [
        Spec(f"attacker/{model.__name__.lower()}", lambda _, model=model: model(), "attacks")
        for model in MODELS
    ]
