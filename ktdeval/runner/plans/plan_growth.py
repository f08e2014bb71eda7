"""Growth of a plan: a run folder that holds part of a run can gain episodes, and with `--extend`,
any run folder can gain tasks.
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
    """Return how a run may extend the plan in its folder. `is_part`: True if the folder holds only
    part of a run.
    """
    if is_part:
        return "any"
    return "tasks" if config.extend else "none"


def grown_manifest(recorded: RunFolder, planned: RunManifest) -> RunManifest:
    """Return the manifest of a run with its planned episodes, followed by recorded episodes that
    are no longer planned. Raises StoreError, naming the difference, if anything else has changed.
    """
    difference = growth_problem(recorded.manifest.specs, planned.specs)
    if difference is not None:
        raise StoreError(f"{recorded.path}: {ANOTHER_RUN.format(difference)}")

    return replace(planned, specs=unite_episodes(planned.specs, recorded.manifest.specs))


def unite_episodes(
    planned: Sequence[EpisodeSpec], recorded: Sequence[EpisodeSpec]
) -> tuple[EpisodeSpec, ...]:
    """Return the planned episodes in their order, followed by the recorded episodes that are not
    planned.
    """
    known = {spec.id for spec in planned}
    return (*planned, *(spec for spec in recorded if spec.id not in known))


def growth_problem(recorded: Sequence[EpisodeSpec], planned: Sequence[EpisodeSpec]) -> str | None:
    """Return the first difference between two plans other than in tasks, windows and seeds; None if
    they do not differ.

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
