"""What observers are told of a whole run: its beginning, its calls, and its end however it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.hookspecs import hookimpl
from ktdeval.task_api.events import (
    CallFinished,
    EpisodeFinished,
    Event,
    RunFinished,
    SampleFinished,
)
from support.providers.batch_runs import BatchRun, Watch
from support.providers.repeat_plugin import SAMPLES
from support.providers.stub_faults import FaultPlan
from support.providers.stub_provider import KEY, Stub, skip_without_sdks
from support.providers.stub_runs import VARIABLES

skip_without_sdks()


@pytest.fixture
def run(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchRun:
    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)

    return BatchRun(stub, tmp_path / "run", "chat")


class Interrupting(Watch):
    """Interrupts the run after its first sample."""

    @hookimpl
    def ktdeval_event(self, event: Event) -> None:
        super().ktdeval_event(event)
        if isinstance(event, SampleFinished):
            raise KeyboardInterrupt


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_a_resumed_run_has_the_same_id_and_its_finished_episodes(run: BatchRun) -> None:
    run.go(batch=False)
    first = run.watch.events[0]
    run.go(batch=False)
    again = run.watch.events

    assert kinds(again) == ["RunStarted", "EpisodeFinished", "RunFinished"]
    assert again[0] == first
    assert isinstance(again[1], EpisodeFinished)
    assert again[1].already_done


@pytest.mark.slow
def test_kept_replies_are_told_as_cached(run: BatchRun, tmp_path: Path) -> None:
    cache = str(tmp_path / "replies.sqlite")
    run.go(batch=False, cache=cache)
    other = BatchRun(run.stub, tmp_path / "other", "chat")
    other.go(batch=False, cache=cache)
    told = [event for event in other.watch.events if isinstance(event, CallFinished)]

    assert [call.outcome for call in told] == ["cached"] * SAMPLES
    assert {call.cost_usd for call in told} == {0.0}


def test_a_failed_attempt_is_told_without_a_reply(run: BatchRun) -> None:
    run.stub.plan = FaultPlan(by_number={1: "server"})
    run.go(batch=False)
    told = [event for event in run.watch.events if isinstance(event, CallFinished)]

    assert [(call.outcome, call.attempt) for call in told[:2]] == [("server", 1), ("answered", 2)]
    assert told[0].reply is None


def test_a_budget_that_stops_a_run_is_its_state(run: BatchRun) -> None:
    run.go(batch=False, max_tokens=1)

    assert run.watch.events[-1] == RunFinished(str(run.folder), (), 1, "stopped")


def test_an_interrupt_is_told_as_the_end_of_the_run(run: BatchRun) -> None:
    run.watch = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        run.go(batch=False)

    assert run.watch.events[-1] == RunFinished(str(run.folder), (), 1, "interrupted")
