"""Check by the real prompts of a step, without any model, that they fit the model's context."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktdeval.calls.context import Context, does_not_fit
from ktdeval.calls.prompt_size import FEWEST_TOKENS
from ktdeval.errors import UsageError
from ktdeval.plugins.plugin_import import call_foreign
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.sampled_days import first_specs, smallest_prompts
from ktdeval.tasks.spec import EpisodeSpec

_ADVICE = (
    "take a model with a longer context, a lower --max-output-tokens, or a task that shows less"
)


def context_warnings(
    task: str,
    largest: Mapping[str, int],
    context: Context,
    room: int,
) -> Iterator[str]:
    """Say that prompts of a task do not, or may not, fit beside a reply of `room` tokens."""
    most = context.tokens - (room if context.holds_reply else 0)
    too_long = [name for name, tokens in largest.items() if tokens > most]
    if not too_long:
        return

    problem = does_not_fit(largest[too_long[0]], context, room)
    if "low" in too_long:
        yield f"task {task}: {problem}; this run would be refused: {_ADVICE}"
        return

    yield (
        f"task {task}, in the case {too_long[0]}: {problem}; such a prompt is not sent, "
        f"and its step is a hold that counts as model_context_exceeded: {_ADVICE}"
    )


def check_context(
    context: Context,
    specs: Sequence[EpisodeSpec],
    factory: EpisodeFactory,
    room: int,
) -> None:
    """Raise UsageError where not even the smallest prompts of a task fit."""
    most = context.tokens - (room if context.holds_reply else 0)
    for name in sorted({spec.task for spec in specs}):
        own = [spec for spec in specs if spec.task == name]
        where = f"task {name}, agent {own[0].agent}: a step can't be measured"
        tokens = call_foreign(_smallest_prompt, where, own, factory, most)
        if tokens > most:
            raise UsageError(f"task {name}: {does_not_fit(tokens, context, room)}; {_ADVICE}")


def _smallest_prompt(specs: Sequence[EpisodeSpec], factory: EpisodeFactory, most: int) -> int:
    """Return the tokens of the first prompt of a step without research that has at most so many, or
    else of the smallest of those that a plan measures.
    """
    task: Any = factory.task(specs[0].task)
    smallest = sys.maxsize
    for spec in first_specs(specs).values():
        for size in smallest_prompts(spec, task, factory):
            smallest = min(smallest, round(size.largest.tokens(FEWEST_TOKENS)))
            if smallest <= most:
                return smallest

    return smallest
