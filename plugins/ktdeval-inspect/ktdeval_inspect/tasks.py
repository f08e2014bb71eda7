"""Task of Inspect: any task of ktdeval, by its name."""

from __future__ import annotations

from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample

from ktdeval_inspect.running import InspectRun
from ktdeval_inspect.scoring import task_figures
from ktdeval_inspect.solving import run_ktdeval_episode


@task
def ktdeval_task(  # noqa: PLR0913 - each is an argument -T of Inspect
    task: str = "blinded_open_research",
    windows: str | list[str] | None = None,
    seeds: int = 1,
    limit: int | None = None,
    out: str | None = None,
    agent: str | None = None,
    options: dict[str, Any] | None = None,
) -> Task:
    """Evaluate a model on a task of ktdeval; each episode is a sample.

    Args:
        task: Name of one task, as `ktdeval list tasks` lists them.
        windows: Windows of a trading task, separated by commas; all of them by default.
        seeds: Number of seeds of each window.
        limit: Most steps of an episode (days, or questions).
        out: Run folder; a new one for each evaluation where not given.
        agent: Agent of Inspect that decides: `react`, one of inspect-swe such as `claude_code`, or
            `MODULE:FUNCTION`, which gets the tools of a step and returns an agent.
        options: Further options of a run by name, such as `{"agent": "hedge_fund"}`.
    """
    given: dict[str, Any] = {**(options or {}), "tasks": (task,), "seeds": seeds}
    for name, value in (("limit", limit), ("out", out)):
        if value is not None:
            given[name] = value

    if agent is not None:
        given["agent"] = "inspect"
        given["agent_args"] = {"agent": agent}

    if windows is not None:
        names = windows.split(",") if isinstance(windows, str) else windows
        given["windows"] = tuple(names)

    run = InspectRun(given)
    samples = []
    for planned in run.samples:
        samples.append(
            Sample(
                id=planned.id,
                input=f"{run.task_name}: {planned.id}",
                metadata={"window": planned.window, "seed": planned.seed},
            )
        )

    return Task(
        dataset=MemoryDataset(samples, name=run.task_name),
        solver=run_ktdeval_episode(run),
        scorer=task_figures(),
        metadata={"ktdeval_task": run.task_name, "ktdeval_run": str(run.folder)},
    )
