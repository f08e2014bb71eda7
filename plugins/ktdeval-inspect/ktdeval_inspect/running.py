"""Run of ktdeval behind an evaluation of Inspect: its plan, folder, episodes and cards."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ktdeval.api import Spec, hookimpl
from ktdeval.calls import StopSignal
from ktdeval.cards import ScoringCard, TradingCard
from ktdeval.errors import EpisodeFailure, UsageError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import (
    RunConfig,
    RunFolder,
    RunPart,
    SharedRun,
    choose_tasks,
    load_config,
    make_card,
    make_plan,
    open_snapshot,
)
from ktdeval.task_api import EpisodeSpec, needs_market
from ktdeval_inspect.model import InspectModel

_PLACEHOLDER = "inspect/model"  # the plan is made before Inspect names the model


class _InspectPlugin:
    """Plugin that offers Inspect's model under the name that cards show."""

    def __init__(self, name: str) -> None:
        self._name = name

    @hookimpl
    def ktdeval_models(self) -> list[Spec]:
        """Return the one model."""
        return [Spec(self._name, lambda _name: InspectModel(), "asked through Inspect")]


@dataclass(frozen=True)
class PlannedSample:
    """Sample of Inspect: an episode of the run."""

    id: str  #: <window>/seed-<n>`, or `seed-<n>` if the task has no windows
    window: str
    seed: int


def sample_id(spec: EpisodeSpec) -> str:
    """Return the id of the sample that runs an episode."""
    if spec.window_name:
        return f"{spec.window_name}/seed-{spec.seed}"

    return f"seed-{spec.seed}"


class InspectRun:
    """Run of one task of ktdeval. Its folder is open while samples run; threads may share it."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Plan the run. Raises KtdevalError if an option is invalid, or several tasks are named."""
        given = dict(options)
        if given.get("out") is None:
            given["out"] = str(Path("ktdeval-runs") / f"inspect-{secrets.token_hex(4)}")

        self.has_agent = given.get("agent") == "inspect"  #: whether an agent of Inspect decides
        self._options = given
        self._lock = threading.Lock()
        self._users = 0
        self._part: RunPart | None = None
        config = self._config(_PLACEHOLDER)
        self._plugins = _plugins(config, _PLACEHOLDER)
        tasks = choose_tasks(config, self._plugins)
        if len(tasks) != 1:
            names = ", ".join(tasks)
            raise UsageError(f"-T task={given['tasks']}: names several tasks ({names}); give one")

        (self.task_name,) = tasks
        self._task = tasks[self.task_name]
        self._snapshot = None
        if needs_market(self._task):
            self._snapshot = open_snapshot(self._plugins, config.data, config.data_args)

        plan = make_plan(config, self._plugins, tasks, self._snapshot, None)
        samples = []
        for spec in plan.specs:
            samples.append(PlannedSample(sample_id(spec), spec.window_name or "", spec.seed))

        self.samples = tuple(samples)

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return Path(self._options["out"]).absolute()

    def _config(self, model: str) -> RunConfig:
        return load_config(None, {**self._options, "model": model})

    def run_sample(self, model: str, wanted: str) -> TradingCard | ScoringCard:
        """Run the episode of a sample to its end, and return a card of only this episode; the card
        of the run covers all episodes so far. Raises EpisodeFailure: the episode did not finish;
        KtdevalError.
        """
        name = f"inspect/{model}"
        with self._open_part(name) as part:
            spec = _spec_of(part, wanted)
            outcome = part.run(spec)
            if outcome.error is not None:
                raise EpisodeFailure(f"{wanted}: {outcome.error}")

            with self._lock:
                folder = RunFolder.load(self.folder)
                part.write_card(folder, self.task_name, {})

            alone = RunFolder(folder.path, replace(folder.manifest, specs=(spec,)))
            plugins = _plugins(self._config(name), name)
            return make_card(alone, self._task, self._snapshot, plugins, {})

    @contextmanager
    def _open_part(self, name: str) -> Iterator[RunPart]:
        """Open the run's folder for the first user and close it after the last."""
        with self._lock:
            if self._part is None:
                config = self._config(name)
                self._part = RunPart(config, _plugins(config, name), StopSignal(), SharedRun())

            self._users += 1
            part = self._part

        try:
            yield part
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._part = None
                    part.close()


def _plugins(config: RunConfig, model: str) -> Plugins:
    """Return all plugins, with Inspect's model under the given name."""
    plugins = load_plugins(config.plugin)
    plugins.add(_InspectPlugin(model), "inspect")
    return plugins


def _spec_of(part: RunPart, wanted: str) -> EpisodeSpec:
    """Return the episode of a sample."""
    for spec in part.specs.values():
        if sample_id(spec) == wanted:
            return spec

    raise UsageError(f"{part.path}: has no episode {wanted}")
