"""Check by the real prompts of a step, without any model, that they fit the model's context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ktdeval.calls.context import Context, does_not_fit
from ktdeval.calls.prompt_size import FEWEST_TOKENS
from ktdeval.errors import UsageError
from ktdeval.plugins.plugin_import import call_foreign
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.measure import ASSUMED, LOW, StepSize, measure_step
from ktdeval.tasks.spec import EpisodeSpec

_ADVICE = (
    "take a model with a longer context, a lower --max-output-tokens, or a task that shows less"
)


def largest_prompts(sizes: Mapping[str, StepSize]) -> dict[str, int]:
    """Return by scenario the tokens of a step's largest prompt."""
    tokens = {}
    for name, scenario in ASSUMED.items():
        tokens[name] = round(sizes[name].largest.tokens(scenario.bytes_per_token))
    return tokens


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
    specs: Iterable[EpisodeSpec],
    factory: EpisodeFactory,
    room: int,
) -> None:
    """Raise UsageError where not even the smallest prompts of a task fit."""
    firsts = {spec.task: spec for spec in reversed(list(specs))}
    for name, spec in sorted(firsts.items()):
        where = f"task {spec.task}, agent {spec.agent}: a step can't be measured"
        size = call_foreign(measure_step, where, spec, factory.task(name), factory, LOW)
        tokens = round(size.largest.tokens(FEWEST_TOKENS))
        if tokens > context.tokens - (room if context.holds_reply else 0):
            raise UsageError(f"task {name}: {does_not_fit(tokens, context, room)}; {_ADVICE}")
