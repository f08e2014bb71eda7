"""A plugin for the tests of batches: a scoring task of one call a sample, whose right answers the
stub provider gives, and one whose samples have a tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ktdeval.harness import HarnessConfig
from ktdeval.harness.tools.tool_definition import json_tool
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.task_api.qa import QATask

PLUGIN = Path(__file__)
SAMPLES = 6
BROKEN = 4  # sample of `repeat_broken` that can't be asked
WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord")


def repeated() -> list[dict[str, Any]]:
    return [{"question": f'Repeat the word "{word}"', "gold": word} for word in WORDS]


class Repeat(QATask):
    harness = HarnessConfig(schema_retries=1)


class _Clock:
    tools = (
        json_tool(
            "clock",
            "The time of day.",
            {"type": "object", "properties": {}},
            lambda _context, _arguments: {"time": "noon"},
        ),
    )

    def complete_answer(self, submitted: Any) -> Any:
        return submitted


class _WithClock:
    def __init__(self, samples: Any) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def sample(self, number: int) -> Any:
        return replace(self._samples.sample(number), environment=_Clock())

    def score(self, number: int, answer: Any) -> Any:
        return self._samples.score(number, answer)


class Researched(QATask):
    def samples(self, *arguments: Any) -> Any:
        return _WithClock(super().samples(*arguments))


class _Broken(_WithClock):
    def sample(self, number: int) -> Any:
        if number == BROKEN:
            raise ValueError("this sample is broken")

        return self._samples.sample(number)


class Broken(QATask):
    def samples(self, *arguments: Any) -> Any:
        return _Broken(super().samples(*arguments))


def _is_right(answer: str, sample: Any) -> bool:
    return bool(answer == sample["gold"])


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    return [
        Repeat(repeated(), _is_right, name="repeat").spec(),
        Broken(repeated(), _is_right, name="repeat_broken").spec(),
        Researched(repeated(), _is_right, name="repeat_with_clock").spec(),
    ]
