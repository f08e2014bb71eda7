"""Runs in MLflow: `ktdeval run … --plugin ktdeval_trackers.mlflow`.

A ktdeval run becomes an MLflow run with its parameters, the figures on its cards, and the cards as
artefacts. Each episode becomes a child run with its NAV by step and its metrics. A resumed run
continues the same MLflow runs. `MLFLOW_TRACKING_URI` and `MLFLOW_EXPERIMENT_NAME` set the server
and the experiment.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
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
    missing,
    parameters,
)

try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param
except ImportError as error:
    raise missing(error, "mlflow", "mlflow") from error

EXPERIMENT = "ktdeval"  #: experiment if `MLFLOW_EXPERIMENT_NAME` is not set
RUN_TAG = "ktdeval.run"
EPISODE_TAG = "ktdeval.episode"
_PARENT_TAG = "mlflow.parentRunId"
_BATCH = 200  #: number of metrics sent at once; MLflow accepts up to 1,000
_LONGEST_PARAMETER = 500  #: maximum number of characters that every server accepts
_STATUS = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED", "interrupted": "KILLED"}


@dataclass
class _EpisodeRun:
    """Child run for an episode in progress."""

    id: str
    pending: list[Metric] = field(default_factory=list)
    calls: CallSums = field(default_factory=CallSums)
    is_open: bool = True  #: False once the child run has its final status


class MlflowTracker:
    """Writes runs to an MLflow server, one after the other. Events outside a run are ignored."""

    def __init__(self, client: Any = None) -> None:
        self._client = client
        self._experiment = ""
        self._run = ""
        self._specs: dict[str, EpisodeSpec] = {}
        self._episodes: dict[str, _EpisodeRun] = {}

    def ktdeval_event(self, event: object) -> None:
        """Write one event. Raises whatever MLflow raises; the caller then drops this observer."""
        if isinstance(event, RunStarted):
            self._start(event)
        elif not self._run:
            return

        match event:
            case EpisodeStarted():
                self._start_episode(event)
            case StepFinished():
                self._step(event)
            case CallFinished():
                self._child(event.spec).calls.add(event)
            case EpisodeFinished() if not event.already_done:
                self._end_episode(event.spec, "FINISHED")
            case EpisodeFailed():
                child = self._child(event.spec)
                self._client.set_tag(child.id, "ktdeval.error", event.error)
                self._end_episode(event.spec, "KILLED" if event.is_stopped else "FAILED")
            case RunFinished():
                self._finish(event)

    def _start(self, event: RunStarted) -> None:
        if self._client is None:
            self._client = MlflowClient()

        self._specs = {spec.id: spec for spec in event.specs}
        self._episodes = {}
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        known = self._client.get_experiment_by_name(name)
        self._experiment = (
            self._client.create_experiment(name) if known is None else known.experiment_id
        )

        self._run = self._find_run({RUN_TAG: event.id})
        if self._run:
            self._client.update_run(self._run, status="RUNNING")
            return

        folder = Path(event.folder).name
        self._run = self._create_run({RUN_TAG: event.id}, folder)
        params = []
        for key, value in parameters(event.specs).items():
            params.append(Param(key, value[:_LONGEST_PARAMETER]))

        self._client.log_batch(self._run, params=params)

    def _start_episode(self, event: EpisodeStarted) -> None:
        is_known = bool(self._find_run(self._tags(event.spec.id)))
        self._child(event.spec)
        if not is_known:  # steps from earlier sessions, which nobody tracked
            for step in event.recorded:
                if isinstance(step, StepFinished):
                    self._step(step)

    def _step(self, event: StepFinished) -> None:
        child = self._child(event.spec)
        now = time.time_ns() // 1_000_000
        for name in ("nav", "orders", "rejections", "tokens"):
            child.pending.append(Metric(name, float(getattr(event, name)), now, event.step))

        if len(child.pending) >= _BATCH:
            self._flush(child)

    def _flush(self, child: _EpisodeRun) -> None:
        pending, child.pending = child.pending, []
        if pending:
            self._client.log_batch(child.id, metrics=pending)

    def _end_episode(self, spec: EpisodeSpec, status: str) -> None:
        child = self._child(spec)
        self._flush(child)
        self._log(child.id, child.calls.figures())
        self._client.set_terminated(child.id, status)
        child.is_open = False

    def _finish(self, event: RunFinished) -> None:
        for episode, child in self._episodes.items():
            if child.is_open:  # an interrupt left it open
                self._end_episode(self._specs[episode], "KILLED")

        for card in cards_of(event.cards):
            self._log(self._run, card_figures(card))
            for episode, figures in episode_figures(card):
                child = self._child(self._specs[episode])
                self._log(child.id, figures)
                if child.is_open:  # finished before anybody tracked it
                    self._end_episode(self._specs[episode], "FINISHED")

        for path in event.cards:
            self._client.log_artifact(self._run, path, "cards")

        self._client.set_terminated(self._run, _STATUS[event.state])
        self._run = ""

    def _child(self, spec: EpisodeSpec) -> _EpisodeRun:
        """Return the child run for an episode. If an earlier session has created one, it is reused."""
        if spec.id not in self._episodes:
            tags = self._tags(spec.id)
            child = self._find_run(tags) or self._create_run(tags, spec.label)
            self._episodes[spec.id] = _EpisodeRun(child)

        return self._episodes[spec.id]

    def _tags(self, episode: str) -> dict[str, str]:
        return {EPISODE_TAG: episode, _PARENT_TAG: self._run}

    def _create_run(self, tags: dict[str, str], name: str) -> str:
        run = self._client.create_run(self._experiment, tags=tags, run_name=name)
        run_id: str = run.info.run_id
        return run_id

    def _find_run(self, tags: dict[str, str]) -> str:
        """Return the id of the MLflow run with these tags; empty if not found."""
        wanted = " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())
        runs = self._client.search_runs([self._experiment], wanted, max_results=1)
        return runs[0].info.run_id if runs else ""

    def _log(self, run: str, figures: dict[str, float]) -> None:
        now = time.time_ns() // 1_000_000
        metrics = [Metric(name, value, now, 0) for name, value in figures.items()]
        if metrics:
            self._client.log_batch(run, metrics=metrics)


_TRACKER = MlflowTracker()


@hookimpl
def ktdeval_event(event: object) -> None:
    """Write the events of a run to MLflow."""
    _TRACKER.ktdeval_event(event)
