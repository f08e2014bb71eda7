"""Three questions with choices, for a model that knows little."""

from __future__ import annotations

from typing import Any

from ktdeval.api import QATask, hookimpl

SAMPLES = [
    {"id": "sum", "question": "What is 2 + 3?", "choices": ["4", "5"], "gold": "5"},
    {"id": "rise", "question": "A price goes from 10 to 12. Did it rise?", "gold": "yes"},
    {"id": "larger", "question": "Which is larger?", "choices": ["3", "4"], "gold": "4"},
]


def score(answer: str, sample: dict[str, Any]) -> bool:
    """Whether an answer is the right one."""
    return answer.strip().lower() == sample["gold"]


TASK = QATask(SAMPLES, score, name="three_questions", summary="Three questions")


@hookimpl
def ktdeval_tasks() -> list[Any]:
    return [TASK.spec()]
