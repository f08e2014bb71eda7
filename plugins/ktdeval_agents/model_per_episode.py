"""Runs with a separate model for each episode, such as a model that repeats recorded decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ktdeval.calls import CallCounter, Fence, StopSignal, no_fence
from ktdeval.harness import Model
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import (
    EpisodeAccess,
    ModelAccess,
    RunConfig,
    RunResult,
    execute_run,
    prepare_run,
)
from ktdeval.task_api import EpisodeSpec, Event, Task

ModelOf = Callable[[EpisodeSpec], Model]


@dataclass(frozen=True)
class PlannedEpisodes:
    """Planned episodes of a run, with their market and tasks."""

    specs: tuple[EpisodeSpec, ...]
    tasks: Mapping[str, Task]
    snapshot: MarketSnapshot | None  #: None if no task needs a market


class _GivenAccess(ModelAccess):
    """Gives each episode the model that was created for it."""

    def __init__(self, model_of: ModelOf) -> None:
        self._model_of = model_of
        self.max_errors = None
        self.is_repeatable = False  # these models may not be deterministic

    def for_episode(
        self,
        spec: EpisodeSpec,
        emit: Callable[[Event], None],  # noqa: ARG002 - it emits nothing
        fence: Fence = no_fence,  # noqa: ARG002 - it makes no paid call
    ) -> EpisodeAccess:
        """Return the access of one episode to its model."""
        return EpisodeAccess(self._model_of(spec), CallCounter())


def evaluate_given(
    config: RunConfig, plugins: Plugins, prepare: Callable[[PlannedEpisodes], ModelOf]
) -> RunResult:
    """Run a config from plan to cards, like `evaluate`, but with a separate model for each episode.

    `prepare` returns these models, which replace the model named in the config. The named model
    must be local. Raises KtdevalError or KeyboardInterrupt.
    """
    with prepare_run(config, plugins, StopSignal()) as prepared:
        plan = prepared.plan
        model_of = prepare(PlannedEpisodes(plan.specs, plan.tasks, prepared.snapshot))
        return execute_run(replace(prepared, access=_GivenAccess(model_of)))
