"""What a run folder holds of each episode, finished or not: the steps as booked, and what was said at each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ktdeval.api import EpisodeSpec, JsonValue, RunFolder, StepRecord, StoreError, loads_strict

State = Literal["finished", "unfinished", "not begun", "unreadable"]
Talk = Mapping[str, JsonValue]
"""A step's entry of the transcript: `exchanges` with the model, and the `submission` whose orders were taken."""

_NO_TALK: Talk = {"exchanges": [], "submission": None}
_NEEDED = (
    "step", "decided_on", "filled_on", "provenance", "failures", "tool_calls", "tool_calls_valid", "submissions",
    "unmask_attempts", "input_tokens", "output_tokens", "overall_reason", "orders", "corporate_actions", "positions", "cash_fen",
    "nav_fen", "open_nav_fen",
)  # fmt: skip
"""Fields of a step record that pages show."""


@dataclass(frozen=True)
class EpisodeRecords:
    """One episode as recorded so far.

    Attributes:
        spec: what it is.
        state: how far it is; `unreadable` where nothing of it can be shown.
        initial_cash_fen: base of its NAV; 0 where there is no step.
        steps: step records in order.
        talks: what was said at each of these steps.
        problem: what a reader must know of the records, in a sentence; empty when they are whole.
    """

    spec: EpisodeSpec
    state: State
    initial_cash_fen: int = 0
    steps: Sequence[StepRecord] = ()
    talks: Sequence[Talk] = ()
    problem: str = ""


def has_answers(folder: RunFolder, spec: EpisodeSpec) -> bool:
    """Whether a finished episode is one of a scoring task: answers to questions, and no days."""
    return (folder.episode_path(spec) / "answers.jsonl.zst").is_file()


def read_episode(folder: RunFolder, spec: EpisodeSpec) -> EpisodeRecords:
    """The records of one episode; nothing is written, so a run that is under way is not disturbed.

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
        talks: Sequence[Talk] = folder.load_transcript(spec)
    except StoreError as error:
        talks, problem = [], str(error)
    if not ledger.steps:
        return EpisodeRecords(spec, "unreadable", problem=f"{folder.episode_path(spec)}: the ledger has no step")
    if talks and len(talks) != len(ledger.steps):
        problem = f"{folder.episode_path(spec)}: {len(ledger.steps)} steps in the ledger, {len(talks)} in the transcript"
    talks = [*talks[: len(ledger.steps)], *[_NO_TALK] * (len(ledger.steps) - len(talks))]
    return EpisodeRecords(spec, "finished", ledger.initial_cash_fen, ledger.steps, talks, problem)


def _unfinished(path: Path, spec: EpisodeSpec) -> EpisodeRecords:
    steps: list[StepRecord] = []
    talks: list[Talk] = []
    problem = ""
    try:
        for step, talk in _journal(path):
            steps.append(step)
            talks.append(talk)
    except StoreError as error:
        problem = str(error)
    if not steps:
        return EpisodeRecords(spec, "unreadable" if problem else "not begun", problem=problem)
    # Before the first fill everything is cash, and its NAV at these opens is the initial cash.
    return EpisodeRecords(spec, "unfinished", int(steps[0]["open_nav_fen"]), steps, talks, problem)


def _journal(path: Path) -> Iterator[tuple[StepRecord, Talk]]:
    """Whole entries of a journal in order; a torn last line belongs to a step that is still being written.

    Raises:
        StoreError: a line is no entry of that step.
    """
    number = 0
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.endswith(b"\n"):
                    yield _entry(loads_strict(line), number - 1)
    except OSError as error:
        raise StoreError(f"{path}: can't read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{path}:{number}: the journal is corrupt here; the steps before it are shown") from error


def _entry(value: JsonValue, place: int) -> tuple[StepRecord, Talk]:
    step, talk = value["step"], value["transcript"]
    if step["step"] != place or any(name not in step for name in _NEEDED):
        raise ValueError("not the entry of this step")
    return step, {"exchanges": talk["exchanges"], "submission": talk["submission"]}
