"""Notes about the warm-ups of a run's windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.scoring import is_scoring
from ktdeval.task_api.trading_task import Task
from ktdeval.task_api.traits import task_traits


def missing_warm_ups(task: Task, specs: Sequence[EpisodeSpec]) -> Iterator[str]:
    """Yield a note for each planned window without a warm-up, if other windows of the task have
    one.
    """
    if is_scoring(task):
        return

    with_one = [
        window.name
        for window in task.windows.values()
        if first_day_of_warm_up(task, window) is not None
    ]
    if not with_one:
        return

    for window in dict.fromkeys(spec.window for spec in specs):
        if window is not None and first_day_of_warm_up(task, window) is None:
            yield (
                f"task {task.name}: window {window.name} has no warm-up, so agents that learn"
                f" begin it with an empty memory; windows with a warm-up: {', '.join(with_one)}"
            )


def first_day_of_warm_up(task: Task, window: Window) -> str | None:
    """Return the first day of a window's warm-up. None if the window has no warm-up, or the task
    does not declare warm-ups.
    """
    warm_up_from = task_traits(task).warm_up_from
    if warm_up_from is None:
        return None

    where = f"task {task.name}: warm_up_from()"
    first_day: str | None = call_foreign(warm_up_from, where, window)
    return first_day
