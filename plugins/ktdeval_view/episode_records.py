"""Records of each episode in a run folder, whether finished or not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from ktdeval.errors import StoreError, UsageError
from ktdeval.harness import TranscriptEntry
from ktdeval.runner import JournalEntry, RunFolder, read_journal
from ktdeval.task_api import EpisodeSpec
from ktdeval.trading import Ledger, StepRecord
from ktdeval.values import JsonValue, convert_value, loads_strict, near_matches, to_plain


@dataclass(frozen=True)
class EpisodeRecords:
    """One episode as recorded so far."""

    spec: EpisodeSpec
    # `unreadable` if no part of it can be shown
    state: Literal["finished", "unfinished", "not begun", "unreadable"]
    # the ledger so far; has no steps if the file is missing
    ledger: Ledger = field(default_factory=lambda: Ledger({}, 0, ()))
    talks: Sequence[TranscriptEntry] = ()  # transcript of each step in the ledger
    # problem with the records, as a sentence; empty if they are complete
    problem: str = ""
    # the agent's memory after each of these steps; empty if unknown
    memories: Sequence[JsonValue] = ()

    @property
    def steps(self) -> Sequence[StepRecord]:
        """Steps that have been booked."""
        return self.ledger.steps


def episode_label(spec: EpisodeSpec) -> str:
    """Return a label that distinguishes an episode from the others of its run."""
    parts = (spec.task, spec.window_name, f"seed {spec.seed}")
    return " · ".join(part for part in parts if part)


def page_name(spec: EpisodeSpec) -> str:
    """Return a readable, safe and unique file name for an episode's page."""
    words = re.sub(r"[^A-Za-z0-9._-]+", "_", spec.label)
    return f"{words[:100]}-{spec.id[:8]}.html"


def choose_episodes(specs: Sequence[EpisodeSpec], text: str | None) -> list[EpisodeSpec]:
    """Return the episodes that match every word of `text`. A word may match the task, window, seed
    (`seed-1`), model or id. Without `text`, all episodes are returned.

    Raises UsageError if no episode matches.
    """
    words = (text or "").lower().split()
    chosen = []
    for spec in specs:
        label = spec.label.replace("seed ", "seed-")
        described = f"{label} {spec.model} {spec.id}".lower()
        if all(word in described for word in words):
            chosen.append(spec)

    if not chosen:
        known: dict[str, None] = {}
        for spec in specs:
            names = (spec.task, spec.window_name, f"seed-{spec.seed}")
            known |= dict.fromkeys(name for name in names if name)

        raise UsageError(
            f"--episode {text!r}: no episode has this in task, window, seed or"
            f" id{near_matches(text or '', known)}"
        )

    return chosen


class _SubmittedOrder(msgspec.Struct):
    stock_id: JsonValue


class _Submission(msgspec.Struct):
    """The part of a submission that names stocks; the rest is not read."""

    orders: list[_SubmittedOrder]


def submitted_handles(talk: TranscriptEntry, orders: int) -> list[str]:
    """Return the `stock_id` of each order as the model wrote it; empty if the submission was not
    executed as written.
    """
    try:
        submitted = loads_strict(talk.submission or "null")
        submission = convert_value(submitted, _Submission)
    except (ValueError, msgspec.ValidationError):
        return []

    if len(submission.orders) != orders:
        return []
    return [str(order.stock_id) for order in submission.orders]


def read_episode(folder: RunFolder, spec: EpisodeSpec) -> EpisodeRecords:
    """Return the records of an episode. Nothing is written, so a run in progress is not disturbed.

    Read errors are reported in `problem` rather than raised, since one damaged file must not hide
    the other episodes.
    """
    path = folder.episode_path(spec)
    if not folder.is_complete(spec):
        journal = path / "journal.jsonl"
        if not journal.is_file():
            return EpisodeRecords(spec, "not begun")
        return _describe_unfinished(journal, spec)

    try:
        ledger = folder.load_ledger(spec)
    except StoreError as error:
        return EpisodeRecords(spec, "unreadable", problem=str(error))

    if not ledger.steps:
        return EpisodeRecords(spec, "unreadable", problem=f"{path}: the ledger has no step")

    talks, problem = finished_talks(folder, spec, len(ledger.steps))
    return EpisodeRecords(spec, "finished", ledger, talks, problem)


def finished_talks(
    folder: RunFolder, spec: EpisodeSpec, steps: int
) -> tuple[list[TranscriptEntry], str]:
    """Return the transcript of each step in a finished episode, and the problem with its records,
    if any.
    """
    problem = ""
    try:
        folder.artefacts([spec])
    except StoreError as error:
        problem = str(error)

    try:
        talks = folder.load_transcript(spec)
    except StoreError as error:
        talks = []
        problem = str(error)

    if talks and len(talks) != steps:
        problem = (
            f"{folder.episode_path(spec)}: {steps} steps in the records, {len(talks)} in the"
            " transcript"
        )

    shown = talks[:steps]
    for step in range(len(shown), steps):
        shown.append(TranscriptEntry(step=step, exchanges=(), submission=None))

    return shown, problem


def _describe_unfinished(path: Path, spec: EpisodeSpec) -> EpisodeRecords:
    entries: list[JournalEntry[StepRecord]] = []
    problem = ""
    try:
        for entry in read_journal(path, JournalEntry[StepRecord]):
            if entry.step.step != len(entries):
                raise StoreError(f"{path}:{len(entries) + 1}: the journal is corrupt here")

            entries.append(entry)
    except StoreError as error:
        problem = f"{str(error).partition(';')[0]}; the steps before it are shown"

    if not entries:
        return EpisodeRecords(spec, "unreadable" if problem else "not begun", problem=problem)

    steps = [entry.step for entry in entries]
    talks = [entry.transcript for entry in entries]
    memories = [entry.memory for entry in entries]

    # Before the first fill, the account is all cash, so its NAV at these opens is the initial cash.
    return EpisodeRecords(
        spec,
        "unfinished",
        Ledger(spec.to_json(), steps[0].open_nav_minor, steps),
        talks,
        problem,
        memories,
    )


_MONEY = "_minor"  #: suffix of money fields in a step record's JSON
_PRICES = {"price_ticks": "price", "limit_ticks": "limit"}
_QUANTITIES = frozenset({"shares", "filled_shares", "shares_before", "shares_after", "locked"})


def step_in_units(ledger: Ledger, step: StepRecord) -> dict[str, JsonValue]:
    """Return a ledger's step as JSON with money in currency units: `nav_minor` becomes `nav`, and
    `price_ticks` becomes `price`. Shares are unchanged.
    """
    record = to_plain(step)
    assert isinstance(record, Mapping)  # a struct's JSON is an object
    return _in_units(ledger, record)


def _in_units(ledger: Ledger, record: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    ticks, steps, _ = ledger.scale(str(record.get("code")))
    converted_record: dict[str, JsonValue] = {}
    for name, value in record.items():
        if isinstance(value, list):
            converted_record[name] = [_item_in_units(ledger, item) for item in value]
        elif isinstance(value, int) and name.endswith(_MONEY):
            converted_record[name.removesuffix(_MONEY)] = value / ledger.minor_per_unit
        elif isinstance(value, int) and name in _PRICES:
            converted_record[_PRICES[name]] = value / ticks
        elif isinstance(value, int) and name in _QUANTITIES and steps > 1:
            converted_record[name] = value / steps
        else:
            converted_record[name] = value

    return converted_record


def _item_in_units(ledger: Ledger, item: JsonValue) -> JsonValue:
    return _in_units(ledger, item) if isinstance(item, Mapping) else item
