"""A journal and a power cut: what was on disk stays, what was not is cut off and played again, and
a line that breaks later is an error.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import StoreError
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.runner.records.episode_journal import Journal, JournalEntry, read_journal
from ktdeval.task_api.scoring import AnswerRecord
from support.runs.power_cut import Disk

ENTRY = JournalEntry[AnswerRecord]
STEPS = 12
GROUP = 4


def entry(step: int, **transcript: Any) -> JournalEntry[AnswerRecord]:
    """A step whose line takes more than a block."""
    record = AnswerRecord(
        step=step,
        sample=f"s{step}",
        answer={"x": step},
        scores={},
        facts={},
        provenance="model",
        failures={},
        tool_calls=0,
        tool_calls_valid=0,
        submissions=1,
        unmask_attempts=0,
        input_tokens=0,
        output_tokens=0,
        reasoning_tokens=0,
        cache_read_tokens=0,
        cache_write_tokens=0,
    )
    said = TranscriptEntry(step=step, exchanges=(), submission="x" * 700, **transcript)
    return JournalEntry(step=record, transcript=said, memory=None)


def play(path: Path, max_unsynced: int, steps: int = STEPS) -> Iterator[int]:
    """Play an episode from the end of its journal on; yield the number of steps after each."""
    with Journal(path, ENTRY, max_unsynced=max_unsynced) as journal:
        for step in range(len(journal.recovered), steps):
            journal.append(entry(step))
            yield step + 1


def steps_in(path: Path, max_unsynced: int = GROUP) -> list[JournalEntry[AnswerRecord]]:
    """Steps that a journal still has when it is opened to go on."""
    with Journal(path, ENTRY, max_unsynced=max_unsynced) as journal:
        return journal.recovered


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


@pytest.mark.parametrize("max_unsynced", [1, GROUP])
@pytest.mark.parametrize("seed", range(20))
def test_journal_resumes_after_any_cut_with_all_data_on_disk(
    folder: Path, tmp_path: Path, seed: int, max_unsynced: int
) -> None:
    chance = random.Random(seed)
    disk = Disk(folder, chance)
    cut_at = chance.randrange(3 * STEPS)
    left: list[tuple[Path, int]] = []
    appended = 0

    def taken() -> Path:
        left.append((tmp_path / "left", appended // max_unsynced * max_unsynced))
        return tmp_path / "left"

    with disk.watched([cut_at], taken):
        for number in play(folder / "j", max_unsynced):
            appended = number

    disk.close()
    assert len(left) <= 1  # none where the journal ended before the cut
    for image, on_disk in left:
        recovered = steps_in(image / "j", max_unsynced) if (image / "j").exists() else []
        assert len(recovered) >= on_disk
        assert recovered == [entry(step) for step in range(len(recovered))]

        list(play(image / "j", max_unsynced))
        assert steps_in(image / "j") == [entry(step) for step in range(STEPS)]


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def holed(line: bytes) -> bytes:
    return line[:40] + b"\0" * 60 + line[100:]


@pytest.mark.parametrize("broken", range(STEPS))
def test_a_hole_is_cut_off_where_steps_can_be_played_again(tmp_path: Path, broken: int) -> None:
    path = tmp_path / "j"
    list(play(path, GROUP))
    lines = lines_of(path)
    lines[broken] = holed(lines[broken])
    path.write_bytes(b"".join(lines))

    with pytest.raises(StoreError, match="corrupt"):
        list(read_journal(path, ENTRY))

    assert len(steps_in(path)) == broken
    list(play(path, GROUP))
    assert steps_in(path) == [entry(step) for step in range(STEPS)]


@pytest.mark.parametrize("broken", range(STEPS))
def test_a_journal_that_is_synced_line_by_line_takes_no_hole(tmp_path: Path, broken: int) -> None:
    path = tmp_path / "j"
    list(play(path, 1))
    lines = lines_of(path)
    lines[broken] = holed(lines[broken])
    path.write_bytes(b"".join(lines))

    with pytest.raises(StoreError, match=f"j:{broken + 1}: the journal is corrupt here"):
        Journal(path, ENTRY)


def test_a_line_that_is_json_but_no_step_is_corrupt_where_not_synced(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j"
    list(play(path, GROUP, steps=3))
    with path.open("ab") as stream:
        stream.write(b'{"synced":0}\n')

    with pytest.raises(StoreError, match="j:4: the journal is corrupt here"):
        Journal(path, ENTRY, max_unsynced=GROUP)


def test_a_step_that_reached_outside_of_the_process_is_on_disk_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("ktdeval.runner.records.episode_journal._sync_data", synced.append)
    with Journal(tmp_path / "j", ENTRY, max_unsynced=GROUP) as journal:
        journal.append(entry(0))
        assert len(synced) == 0
        journal.append(entry(1, embedded=({"texts": [], "error": "server"},)))
        assert len(synced) == 1
        journal.append(entry(2))

    assert len(synced) == 1


def test_lines_left_by_a_killed_process_are_synced_on_opening_the_journal(
    folder: Path, tmp_path: Path
) -> None:
    disk = Disk(folder, random.Random(1))
    list(play(folder / "j", GROUP, steps=2))  # in memory only
    with disk.watched():
        list(play(folder / "j", GROUP, steps=3))

    for number in range(20):
        disk.leave(tmp_path / f"left-{number}")
        assert len(steps_in(tmp_path / f"left-{number}" / "j")) >= 2

    disk.close()


def test_a_journal_that_can_not_be_synced_keeps_what_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    with Journal(path, ENTRY, max_unsynced=GROUP) as journal:
        for step in range(GROUP + 2):
            journal.append(entry(step))

        def fail(_: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr("ktdeval.runner.records.episode_journal._sync_data", fail)
        journal.append(entry(GROUP + 2))
        with pytest.raises(StoreError, match="Input/output error; all 4 finished records are kept"):
            journal.append(entry(GROUP + 3))

    monkeypatch.undo()
    assert len(steps_in(path)) == GROUP
