"""Runs in Weights & Biases: `ktdeval run … --plugin ktdeval_trackers.wandb`.

A ktdeval run becomes a W&B run. It has the parameters as its config, the NAV of each episode by
step, the figures on the cards as its summary, and the cards as an artefact. A resumed run continues
the same W&B run. Console output, code, packages, git state and machine data are not recorded.
`WANDB_PROJECT` and `WANDB_MODE` set the project and the mode (`offline` writes to this machine
only).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ktdeval.hookspecs import hookimpl
from ktdeval.task_api import (
    CallFinished,
    EpisodeFailed,
    EpisodeFinished,
    EpisodeSpec,
    EpisodeStarted,
    RunFinished,
    RunStarted,
    StepFinished,
)
from ktdeval_trackers.run_facts import (
    CallSums,
    card_figures,
    cards_of,
    episode_figures,
    keep_finite,
    missing,
    parameters,
)

try:
    import wandb
except ImportError as error:
    raise missing(error, "wandb", "wandb") from error

PROJECT = "ktdeval"  #: project if `WANDB_PROJECT` is not set


class WandbTracker:
    """Writes runs to W&B, one after the other. Events outside a run are ignored."""

    def __init__(self, begin: Callable[..., Any] = wandb.init) -> None:
        self._begin = begin
        self._run: Any = None
        self._specs: dict[str, EpisodeSpec] = {}
        self._calls: dict[str, CallSums] = {}

    def ktdeval_event(self, event: object) -> None:
        """Write one event. Raises whatever wandb raises; the caller then drops this observer."""
        if isinstance(event, RunStarted):
            self._start(event)
        elif self._run is None:
            return

        match event:
            case EpisodeStarted():
                self._start_episode(event)
            case StepFinished():
                self._step(event)
            case CallFinished():
                self._calls.setdefault(event.spec.id, CallSums()).add(event)
            case EpisodeFinished():
                self._end_episode(event.spec, "finished")
            case EpisodeFailed():
                self._end_episode(event.spec, "stopped" if event.is_stopped else "failed")
            case RunFinished():
                self._finish(event)

    def _start(self, event: RunStarted) -> None:
        self._specs = {spec.id: spec for spec in event.specs}
        self._calls = {}
        self._run = self._begin(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=event.id[:32],
            name=Path(event.folder).name,
            resume="allow",
            config=parameters(event.specs),
            settings=wandb.Settings(
                console="off",
                save_code=False,
                disable_code=True,
                disable_git=True,
                disable_job_creation=True,
                x_disable_stats=True,
                x_disable_meta=True,
                x_save_requirements=False,
                silent=True,
            ),
        )

    def _start_episode(self, event: EpisodeStarted) -> None:
        key = _key(event.spec)
        self._run.define_metric(f"{key}/step")
        self._run.define_metric(f"{key}/*", step_metric=f"{key}/step")
        if not self._run.resumed:  # steps from earlier sessions, which nobody tracked
            for step in event.recorded:
                if isinstance(step, StepFinished):
                    self._step(step)

    def _step(self, event: StepFinished) -> None:
        key = _key(event.spec)
        row = {f"{key}/step": event.step}
        for name in ("nav", "orders", "rejections", "tokens"):
            row[f"{key}/{name}"] = getattr(event, name)

        self._run.log(row)

    def _end_episode(self, spec: EpisodeSpec, state: str) -> None:
        key = _key(spec)
        self._run.summary[f"{key}/state"] = state
        for name, value in self._calls.pop(spec.id, CallSums()).figures().items():
            self._run.summary[f"{key}/{name}"] = value

    def _finish(self, event: RunFinished) -> None:
        for card in cards_of(event.cards):
            self._run.summary.update(card_figures(card))
            for episode, figures in episode_figures(card):
                if episode in self._specs:
                    key = _key(self._specs[episode])
                    self._run.summary.update(
                        keep_finite({f"{key}/{name}": value for name, value in figures.items()})
                    )

        if event.cards:
            artifact = wandb.Artifact(f"cards-{self._run.id}", type="result-card")
            for path in event.cards:
                artifact.add_file(path, name=Path(path).name)

            self._run.log_artifact(artifact)

        self._run.summary["state"] = event.state
        self._run.finish(exit_code=0 if event.state == "finished" else 1)
        self._run = None


def _key(spec: EpisodeSpec) -> str:
    """Return the prefix of the names of an episode's series: task, window and seed."""
    return "/".join(filter(None, (spec.task, spec.window_name, f"seed {spec.seed}")))


_TRACKER = WandbTracker()


@hookimpl
def ktdeval_event(event: object) -> None:
    """Write the events of a run to W&B."""
    _TRACKER.ktdeval_event(event)
