"""Any episode, step by step into its journal: where it stops, what it keeps, and what it makes of steps that all fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import asdict

from ktdeval.calls.stop import StopSignal
from ktdeval.contracts.events import EpisodeFailed, Event, SampleFinished
from ktdeval.contracts.scoring import AnswerRecord
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness.agent import StepCounts
from ktdeval.harness.session import TranscriptEntry
from ktdeval.runner.execute import EpisodeContext, run_episode
from ktdeval.runner.journal import Entry, JournalEntry, pack_lines, read_journal
from ktdeval.runner.store import ANSWERS, FolderClaim, RunFolder, RunManifest
from metric_cases import spec as make_spec

SPEC = make_spec()


class Script:
    """An episode whose steps end as told: a provenance, or an exception."""

    entry_type: type[Entry] = JournalEntry[AnswerRecord]

    def __init__(self, steps: Sequence[str | BaseException]) -> None:
        self.steps = steps
        self.total_steps = len(steps)
        self.run: list[int] = []

    def is_own(self, index: int, entry: Entry) -> bool:
        return bool(entry.step.step == index)

    def resume(self, last: Entry) -> None:
        """Nothing to take up."""

    def run_step(self, step: int) -> Entry:
        self.run.append(step)
        end = self.steps[step]
        if isinstance(end, BaseException):
            raise end
        counts = StepCounts(failures={"model_server": 1} if end == "error" else {}).record()
        record = AnswerRecord(**asdict(counts), step=step, sample="s", provenance=end, answer=None, facts={}, scores={})
        return JournalEntry(step=record, transcript=said(step), memory=None)

    def event(self, record: AnswerRecord) -> SampleFinished:
        return SampleFinished(SPEC, record.step, self.total_steps, 0, record.provenance)

    def encode(self, records: Sequence[AnswerRecord]) -> tuple[str, bytes]:
        return ANSWERS, pack_lines(records)


def said(step: int) -> TranscriptEntry:
    return TranscriptEntry(step=step, exchanges=(), submission=None)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(
        FolderClaim(tmp_path / "run"), RunManifest({"data": "x", "data_args": {}}, "f" * 64, (), "strict", (SPEC,))
    )


EVENTS: list[Event] = []  #: of the last play


def play(
    folder: RunFolder, script: Script, max_errors: int | None = None, stop: StopSignal | None = None
) -> tuple[str | None, StopSignal]:
    events = EVENTS
    events.clear()
    stop = stop or StopSignal()
    context = EpisodeContext(lambda: script, folder, events.append, stop, lambda text: text.replace("secret", "…"), max_errors)
    return run_episode(SPEC, context).error, stop


def recorded(folder: RunFolder) -> list[int]:
    return [entry.step.step for entry in read_journal(folder.episode_path(SPEC) / "journal.jsonl", Script.entry_type)]


def test_all_steps_become_one_file(folder: RunFolder) -> None:
    assert play(folder, Script(["model", "error", "fallback"]))[0] is None
    assert [record.provenance for record in folder.load_answers(SPEC)] == ["model", "error", "fallback"]
    assert folder.load_recorded(SPEC)[1] == [said(0), said(1), said(2)]


def test_steps_in_a_row_that_end_in_a_failed_call_stop_the_run_before_the_last_is_recorded(folder: RunFolder) -> None:
    error, stop = play(folder, Script([*["error", "error", "model"] * 2, *["error"] * 9]), max_errors=3)
    assert error is not None
    assert error.startswith("3 steps in a row ended in a failed call (model_server); fix it, then run the same command again")
    assert isinstance(stop.reason, ProviderError)
    assert recorded(folder) == list(range(8))


def test_a_stopped_run_goes_on_where_it_was(folder: RunFolder) -> None:
    play(folder, Script(["model", ProviderError("no quota")]))
    script = Script(["model", "model"])
    assert play(folder, script)[0] is None
    assert script.run == [1]


def test_what_stops_one_episode_stops_the_others_with_the_same_reason(folder: RunFolder) -> None:
    stop = StopSignal()
    stop.stop(ProviderError("no quota"))
    script = Script(["model"])
    assert play(folder, script, stop=stop)[0] == "no quota"
    assert script.run == []


def test_a_defect_names_its_place_and_no_secret_and_like_a_models_error_fails_its_episode_only(folder: RunFolder) -> None:
    error, stop = play(folder, Script([ValueError("the secret is out")]))
    assert error is not None
    assert error.endswith("ValueError: the … is out")
    assert error.startswith("test_run_execute.py:")
    assert EVENTS[-1] == EpisodeFailed(SPEC, error)
    assert play(folder, Script([ModelError("server", "down")]), stop=stop)[0] == "down"
    assert not stop.is_set()
