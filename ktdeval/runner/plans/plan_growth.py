"""Growth of a plan: a run folder with part of a run may get additional episodes, and any run folder
may get additional tasks with `--extend`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ktdeval.errors import StoreError
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.run_manifest import ANOTHER_RUN, FACETS, Growth as Growth, RunManifest
from ktdeval.task_api.episode_spec import EpisodeSpec

_MAY_GROW = ("task", "window", "seed")  #: dimensions along which episodes may be added


def growth_of(config: RunConfig, *, is_part: bool = False) -> Growth:
    """Return how a run may extend the plan in its folder. `is_part`: the folder holds a part of a
    run.
    """
    if is_part:
        return "any"
    return "tasks" if config.extend else "none"


def grown_manifest(recorded: RunFolder, planned: RunManifest) -> RunManifest:
    """Return the manifest of a run with the episodes planned now, in their order, and those
    recorded before. Raises StoreError, with the difference, if anything else has changed.
    """
    difference = growth_problem(recorded.manifest.specs, planned.specs)
    if difference is not None:
        raise StoreError(f"{recorded.path}: {ANOTHER_RUN.format(difference)}")

    return replace(planned, specs=unite_episodes(planned.specs, recorded.manifest.specs))


def unite_episodes(
    planned: Sequence[EpisodeSpec], recorded: Sequence[EpisodeSpec]
) -> tuple[EpisodeSpec, ...]:
    """Return the planned episodes in their order, then the recorded episodes that are not
    planned.
    """
    known = {spec.id for spec in planned}
    return (*planned, *(spec for spec in recorded if spec.id not in known))


def growth_problem(recorded: Sequence[EpisodeSpec], planned: Sequence[EpisodeSpec]) -> str | None:
    """Return how two plans differ apart from tasks, windows and seeds; None if they do not.

    Properties of a task, such as its version, are compared if both plans contain the task.
    """
    tasks = {spec.task for spec in recorded} & {spec.task for spec in planned}
    for task in sorted(tasks):
        for name, facet in FACETS.items():
            if name in _MAY_GROW:
                continue

            had = {facet(spec) for spec in recorded if spec.task == task}
            has = {facet(spec) for spec in planned if spec.task == task}
            if had != has:
                before = ", ".join(sorted(had))
                return f"{name} of {task}: {before}; now {', '.join(sorted(has))}"

    return None
