"""Checks that a task's real prompts fit the model's context, without calling the model."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from ktdeval.calls.costs.context_window import MIN_ROOM, does_not_fit
from ktdeval.calls.costs.prompt_size import MIN_TOKENS
from ktdeval.calls.failures.context_refusals import Context
from ktdeval.errors import UsageError
from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.runner.rehearsals.rehearsal import FirstStep, by_task, by_window
from ktdeval.runner.rehearsals.step_costs import measure_task

# cases whose prompts advice should make fit, in order of preference
_USUAL = ("high", "typical")


def context_warnings(
    rehearsal: Sequence[FirstStep],
    largest: Mapping[str, int],
    context: Context,
    room: int,
) -> Iterator[str]:
    """Yield a warning if a task's prompts do not fit, or may not fit, together with a reply of
    `room` tokens.

    `rehearsal`: first steps of the task. `largest`: tokens in a step's largest prompt, by case.
    """
    most = _most(context, room)
    too_long = [name for name, tokens in largest.items() if tokens > most]
    if not too_long:
        return

    task = rehearsal[0].spec.task
    problem = does_not_fit(largest[too_long[0]], context, room)
    advice = ways_to_fit(rehearsal, largest, context, room)
    if context.is_listed:
        yield (
            f"task {task}, in the case {too_long[0]}: {problem}; the context length comes only"
            f" from a list, so such a prompt is sent, and the server may refuse it: {advice}"
        )
        return

    if "low" in too_long:
        yield f"task {task}: {problem}; this run would be refused: {advice}"
        return

    yield (
        f"task {task}, in the case {too_long[0]}: {problem}; such a prompt is not sent, "
        f"and its step is a hold that counts as model_context_exceeded: {advice}"
    )


def ways_to_fit(
    rehearsal: Sequence[FirstStep],
    largest: Mapping[str, int],
    context: Context,
    room: int,
) -> str:
    """Return advice on how to make a task's prompts fit.

    The options are a context that holds all prompts; a shorter reply, if that frees enough room;
    and the task's compact prompt, if that fits.
    """
    needed = largest["high"] + (room if context.holds_reply else 0)
    ways = [f"use a context of at least {needed:,} tokens"]
    for case in _USUAL:
        left = context.tokens - largest[case]
        if context.holds_reply and MIN_ROOM <= left < room:
            suffix = "" if case == "high" else f", which leaves room in the case {case}"
            ways.append(f"lower --max-output-tokens to {left:,}{suffix}")
            break

    tokens = _compact_tokens(rehearsal[0])
    if tokens is not None and tokens < largest["typical"]:
        ways += _compact_ways(tokens, context, room)

    return ", or ".join(ways)


def _compact_tokens(first: FirstStep) -> int | None:
    """Return the tokens in a typical prompt of the task's compact version; None if the task has no
    such version.
    """
    compact = first.make_compact()
    return None if compact is None else measure_task([compact], None).largest["typical"]


def _compact_ways(tokens: int, context: Context, room: int) -> Iterator[str]:
    """Yield advice to use a compact prompt, together with a shorter reply if needed."""
    left = context.tokens - tokens
    words = "use --set prompt=compact"
    if context.holds_reply and left < room:
        words += f" with --max-output-tokens {left:,}"

    least = min(MIN_ROOM, room) if context.holds_reply else 0
    if left >= least:
        yield f"{words}: its prompts have about {tokens:,} tokens"


def check_context(context: Context, rehearsal: Sequence[FirstStep], room: int) -> None:
    """Raise UsageError if not even a task's smallest prompts fit."""
    most = _most(context, room)
    for name, steps in by_task(rehearsal).items():
        where = f"task {name}, agent {steps[0].spec.agent}: a step can't be measured"
        tokens = call_foreign(_smallest_prompt, where, steps, most)
        if tokens > most:
            largest = measure_task(steps, None).largest
            advice = ways_to_fit(steps, largest, context, room)
            raise UsageError(f"task {name}: {does_not_fit(tokens, context, room)}: {advice}")


def _most(context: Context, room: int) -> int:
    """Return the maximum number of prompt tokens that fit."""
    return context.tokens - (room if context.holds_reply else 0)


def _smallest_prompt(rehearsal: Sequence[FirstStep], most: int) -> int:
    """Return the tokens of the first prompt without research that has at most `most` tokens. If
    none is that small, return the tokens of the smallest prompt measured.
    """
    smallest = sys.maxsize
    for first in by_window(rehearsal).values():
        for size in first.smallest_sizes():
            smallest = min(smallest, round(size.largest.tokens(MIN_TOKENS)))
            if smallest <= most:
                return smallest

    return smallest
