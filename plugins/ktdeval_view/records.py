"""Records of each episode in a run folder, finished or not: the steps as booked, and what was said at each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import StoreError
from ktdeval.harness import TranscriptEntry
from ktdeval.runner import JournalEntry, RunFolder, read_journal
from ktdeval.trading import StepRecord

State = Literal["finished", "unfinished", "not begun", "unreadable"]


@dataclass(frozen=True)
class EpisodeRecords:
    """One episode as recorded so far."""

    spec: EpisodeSpec  # what it is
    state: State  # how far it is; `unreadable` where nothing of it can be shown
    initial_cash_minor: int = 0  # base of its NAV; 0 where there is no step
    steps: Sequence[StepRecord] = ()  # step records in order
    talks: Sequence[TranscriptEntry] = ()  # what was said at each of these steps
    problem: str = ""  # what a reader must know of the records, in a sentence; empty when they are whole


def has_answers(folder: RunFolder, spec: EpisodeSpec) -> bool:
    """Return whether a finished episode is one of a scoring task: answers to questions, and no days."""
    return (folder.episode_path(spec) / "answers.jsonl.zst").is_file()


def read_episode(folder: RunFolder, spec: EpisodeSpec) -> EpisodeRecords:
    """Return the records of one episode; nothing is written, so a run that is under way is not disturbed.

    What can't be read is told in `problem`, not raised: one damaged file must not hide the other episodes.
    """
    if has_answers(folder, spec):
        return EpisodeRecords(
            spec, "unreadable", problem=f"{folder.episode_path(spec)}: {spec.task} scores answers and has no days"
        )
    if folder.is_complete(spec):
        return _finished(folder, spec)
    path = folder.episode_path(spec) / "journal.jsonl"
    return _unfinished(path, spec) if path.is_file() else EpisodeRecords(spec, "not begun")


def _finished(folder: RunFolder, spec: EpisodeSpec) -> EpisodeRecords:
    try:
        ledger = folder.load_ledger(spec)
    except StoreError as error:
        return EpisodeRecords(spec, "unreadable", problem=str(error))
    problem = ""
    try:
        folder.artefacts([spec])
    except StoreError as error:
        problem = str(error)
    try:
        talks: Sequence[TranscriptEntry] = folder.load_transcript(spec)
    except StoreError as error:
        talks, problem = [], str(error)
    if not ledger.steps:
        return EpisodeRecords(spec, "unreadable", problem=f"{folder.episode_path(spec)}: the ledger has no step")
    if talks and len(talks) != len(ledger.steps):
        problem = f"{folder.episode_path(spec)}: {len(ledger.steps)} steps in the ledger, {len(talks)} in the transcript"
    missing = range(len(talks), len(ledger.steps))
    talks = [*talks[: len(ledger.steps)], *(TranscriptEntry(step=step, exchanges=(), submission=None) for step in missing)]
    return EpisodeRecords(spec, "finished", ledger.initial_cash_minor, ledger.steps, talks, problem)


def _unfinished(path: Path, spec: EpisodeSpec) -> EpisodeRecords:
    entries: list[JournalEntry[StepRecord]] = []
    problem = ""
    try:
        for entry in read_journal(path, JournalEntry[StepRecord]):
            if entry.step.step != len(entries):
                raise StoreError(f"{path}:{len(entries) + 1}: the journal is corrupt here")
            entries.append(entry)
    except StoreError as error:
        problem = f"{str(error).partition(';')[0]}; the steps before it are shown"
    steps, talks = [entry.step for entry in entries], [entry.transcript for entry in entries]
    if not steps:
        return EpisodeRecords(spec, "unreadable" if problem else "not begun", problem=problem)
    # Before the first fill everything is cash, and its NAV at these opens is the initial cash.
    return EpisodeRecords(spec, "unfinished", steps[0].open_nav_minor, steps, talks, problem)
