"""Runs in MLflow, by its own client on a database of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktdeval.task_api import EpisodeFinished, EpisodeStarted
from tracked_run import (
    BROKEN,
    DONE,
    PROMPT,
    REPLY,
    RUN_ID,
    STEPS,
    interrupted_run,
    step,
    whole_run,
)

pytest.importorskip("mlflow", reason="needs the extra mlflow: pip install '.[mlflow]'")
pytest.importorskip("sqlalchemy", reason="needs the whole of MLflow, for its database")

from mlflow import MlflowClient

from ktdeval_trackers.mlflow import EPISODE_TAG, RUN_TAG, MlflowTracker

pytestmark = pytest.mark.slow  # MLflow creates the tables of its database


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> MlflowClient:
    return MlflowClient(f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}")


@pytest.fixture
def client(server: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    """The server with an experiment of this test, whose artefacts lie in its folder."""
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", str(tmp_path))
    monkeypatch.setenv(
        "MLFLOW_TRACKING_URI", server.tracking_uri
    )  # older ones read artefacts by it
    server.create_experiment(str(tmp_path), artifact_location=(tmp_path / "artefacts").as_uri())
    return server


def run_of(client: MlflowClient, **tags: str) -> Any:
    """The one run with these tags."""
    names = {"run": RUN_TAG, "episode": EPISODE_TAG}
    wanted = " and ".join(f"tags.`{names[key]}` = '{value}'" for key, value in tags.items())
    experiment = client.search_experiments(order_by=["creation_time DESC"])[0]
    (found,) = client.search_runs([experiment.experiment_id], wanted)
    return found


def track(client: MlflowClient, events: Any) -> None:
    tracker = MlflowTracker(client)
    for event in events:
        tracker.ktdeval_event(event)


def test_a_run_has_its_parameters_figures_and_cards(client: MlflowClient, tmp_path: Path) -> None:
    track(client, whole_run(tmp_path / "my-run"))
    run = run_of(client, run=RUN_ID)

    assert run.info.run_name == "my-run"
    assert run.info.status == "FAILED"
    assert run.data.params["model"] == "builtin/momentum"
    card = json.loads((tmp_path / "my-run/cards/blinded_open_research.json").read_text())
    assert run.data.metrics["blinded_open_research/total_return"] == pytest.approx(
        card["metrics"]["total_return"]["value"]
    )
    (artefact,) = client.list_artifacts(run.info.run_id, "cards")
    assert artefact.path == "cards/blinded_open_research.json"


def test_each_episode_is_a_child_with_its_nav_by_step(client: MlflowClient, tmp_path: Path) -> None:
    track(client, whole_run(tmp_path / "my-run"))
    done = run_of(client, episode=DONE.id)
    navs = client.get_metric_history(done.info.run_id, "nav")

    assert done.data.tags["mlflow.parentRunId"] == run_of(client, run=RUN_ID).info.run_id
    assert done.info.run_name == DONE.label
    assert done.info.status == "FINISHED"
    assert sorted((one.step, one.value) for one in navs) == [
        (number, step(number).nav) for number in range(STEPS)
    ]
    assert done.data.metrics["calls"] == STEPS - 1
    assert done.data.metrics["cost_usd"] == pytest.approx(0.25 * (STEPS - 1))
    assert "sharpe" in done.data.metrics


def test_a_failed_episode_has_its_error(client: MlflowClient, tmp_path: Path) -> None:
    track(client, whole_run(tmp_path / "my-run"))
    broken = run_of(client, episode=BROKEN.id)

    assert broken.info.status == "FAILED"
    assert broken.data.tags["ktdeval.error"] == "the model call failed"
    assert broken.data.metrics["calls_failed"] == 1


def test_a_resumed_run_continues_the_same_runs(client: MlflowClient, tmp_path: Path) -> None:
    track(client, interrupted_run(tmp_path / "my-run", 2))
    assert run_of(client, run=RUN_ID).info.status == "KILLED"

    track(client, whole_run(tmp_path / "my-run", recorded=2))
    navs = client.get_metric_history(run_of(client, episode=DONE.id).info.run_id, "nav")

    assert run_of(client, run=RUN_ID).info.status == "FAILED"
    assert sorted(one.step for one in navs) == list(range(STEPS)), "each step once"


def test_steps_that_nobody_tracked_are_caught_up(client: MlflowClient, tmp_path: Path) -> None:
    track(client, whole_run(tmp_path / "my-run", recorded=2))
    navs = client.get_metric_history(run_of(client, episode=DONE.id).info.run_id, "nav")

    assert sorted(one.step for one in navs) == list(range(STEPS))


def test_an_interrupt_leaves_no_episode_running(client: MlflowClient, tmp_path: Path) -> None:
    track(client, interrupted_run(tmp_path / "my-run", 2))

    assert run_of(client, episode=DONE.id).info.status == "KILLED"


def test_an_episode_that_was_finished_before_has_its_figures(
    client: MlflowClient, tmp_path: Path
) -> None:
    first, *_, last = whole_run(tmp_path / "my-run")
    track(client, [first, EpisodeFinished(DONE, already_done=True), last])
    done = run_of(client, episode=DONE.id)

    assert done.info.status == "FINISHED"
    assert "sharpe" in done.data.metrics


def test_no_text_of_a_prompt_or_reply_is_kept(client: MlflowClient, tmp_path: Path) -> None:
    track(client, whole_run(tmp_path / "my-run"))
    for run in (run_of(client, run=RUN_ID), run_of(client, episode=DONE.id)):
        text = str(run.to_dictionary())
        assert PROMPT not in text
        assert REPLY not in text


def test_events_outside_of_a_run_are_ignored() -> None:
    class Never:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    track(Never(), [EpisodeStarted(DONE, STEPS, 0), step(0)])
