"""What observers are told of a whole run: its beginning, its calls, and its end however it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from batch_runs import BatchRun, Watch
from ktdeval.hookspecs import hookimpl
from ktdeval.task_api.events import (
    CallFinished,
    EpisodeFinished,
    Event,
    RunFinished,
    RunStarted,
    SampleFinished,
)
from repeat_plugin import SAMPLES
from stub_faults import FaultPlan
from stub_provider import KEY, Stub, skip_without_sdks
from stub_runs import VARIABLES

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


def test_a_run_begins_with_its_specs_and_ends_with_its_cards(run: BatchRun) -> None:
    run.go(batch=False)
    first, *_, last = run.watch.events

    assert isinstance(first, RunStarted)
    assert first.folder == str(run.folder)
    assert [spec.task for spec in first.specs] == ["repeat"]
    assert last == RunFinished(
        str(run.folder), (str(run.folder / "cards/repeat.json"),), 0, "finished"
    )


def test_each_call_comes_before_the_sample_that_it_is_for(run: BatchRun) -> None:
    run.go(batch=False)
    told = [event for event in run.watch.events if isinstance(event, CallFinished)]
    order = [kind for kind in kinds(run.watch.events) if kind in ("CallFinished", "SampleFinished")]

    assert order == ["CallFinished", "SampleFinished"] * SAMPLES
    assert [call.step for call in told] == list(range(SAMPLES))
    assert {(call.model, call.outcome, call.attempt) for call in told} == {
        ("openai/stub-model", "answered", 1)
    }
    assert [call.cost_usd for call in told] == [call.cost_usd for call in run.calls]
    assert all(call.reply is not None and call.request.messages for call in told)


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


def test_samples_of_a_batch_come_without_calls(run: BatchRun) -> None:
    run.go()
    told = kinds(run.watch.events)

    assert "CallFinished" not in told
    assert told.count(SampleFinished.__name__) == SAMPLES
