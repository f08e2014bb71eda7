"""Records of each episode in a run folder, finished or not: steps as booked and as pages show them, what was said, and names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import StoreError, UsageError
from ktdeval.fields import near_matches
from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval.runner import JournalEntry, RunFolder, read_journal
from ktdeval.trading import Ledger, StepRecord
from ktdeval.typed import to_plain


@dataclass(frozen=True)
class EpisodeRecords:
    """One episode as recorded so far."""

    spec: EpisodeSpec
    state: Literal["finished", "unfinished", "not begun", "unreadable"]  # `unreadable` where nothing of it can be shown
    ledger: Ledger = field(default_factory=lambda: Ledger({}, 0, ()))  # without a step where there is none
    talks: Sequence[TranscriptEntry] = ()  # what was said at each of these steps
    problem: str = ""  # what a reader must know of the records, in a sentence; empty when they are whole
    memories: Sequence[JsonValue] = ()  # what the agent remembered after each of these steps; empty where it is not known

    @property
    def steps(self) -> Sequence[StepRecord]:
        """Days that were booked."""
        return self.ledger.steps


def episode_label(spec: EpisodeSpec) -> str:
    """Words that distinguish an episode from the others of its run."""
    return " · ".join(filter(None, (spec.task, spec.window_name, f"seed {spec.seed}")))


def page_name(spec: EpisodeSpec) -> str:
    """Return the file name of an episode's page: readable, safe, and its own."""
    words = re.sub(r"[^A-Za-z0-9._-]+", "_", spec.label)
    return f"{words[:100]}-{spec.id[:8]}.html"


def choose_episodes(specs: Sequence[EpisodeSpec], text: str | None) -> list[EpisodeSpec]:
    """Return the episodes that have every word of `text` in task, window, seed (`seed-1`), model or id; all where there is no text.

    Raises UsageError: there is no such episode.
    """
    chosen = []
    for spec in specs:
        described = f"{spec.label.replace('seed ', 'seed-')} {spec.model} {spec.id}".lower()
        if all(word in described for word in (text or "").lower().split()):
            chosen.append(spec)
    if not chosen:
        known = dict.fromkeys(name for spec in specs for name in (spec.task, spec.window_name, f"seed-{spec.seed}") if name)
        raise UsageError(f"--episode {text!r}: no episode has this in task, window, seed or id{near_matches(text or '', known)}")
    return chosen


def submitted_handles(talk: TranscriptEntry, orders: int) -> list[str]:
    """Return the stock_id of each order as the model wrote it; empty where no submission was taken as it was."""
    try:
        submitted = loads_strict(talk.submission or "null")
        used = [str(order["stock_id"]) for order in submitted["orders"]]
    except (ValueError, KeyError, TypeError):
        return []
    return used if len(used) == orders else []


def read_episode(folder: RunFolder, spec: EpisodeSpec) -> EpisodeRecords:
    """Return the records of one episode; nothing is written, so a run that is under way is not disturbed.

    What can't be read is reported in `problem`, not raised: one damaged file must not hide the other episodes.
    """
    path = folder.episode_path(spec)
    if not folder.is_complete(spec):
        journal = path / "journal.jsonl"
        return _unfinished(journal, spec) if journal.is_file() else EpisodeRecords(spec, "not begun")
    try:
        ledger = folder.load_ledger(spec)
    except StoreError as error:
        return EpisodeRecords(spec, "unreadable", problem=str(error))
    if not ledger.steps:
        return EpisodeRecords(spec, "unreadable", problem=f"{path}: the ledger has no step")
    return EpisodeRecords(spec, "finished", ledger, *finished_talks(folder, spec, len(ledger.steps)))


def finished_talks(folder: RunFolder, spec: EpisodeSpec, steps: int) -> tuple[list[TranscriptEntry], str]:
    """Return what was said at each step of a finished episode, and what a reader must know of its records, if anything."""
    problem = ""
    try:
        folder.artefacts([spec])
    except StoreError as error:
        problem = str(error)
    try:
        talks = folder.load_transcript(spec)
    except StoreError as error:
        talks, problem = [], str(error)
    if talks and len(talks) != steps:
        problem = f"{folder.episode_path(spec)}: {steps} steps in the records, {len(talks)} in the transcript"
    missing = range(len(talks), steps)
    return [*talks[:steps], *(TranscriptEntry(step=step, exchanges=(), submission=None) for step in missing)], problem


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
    if not entries:
        return EpisodeRecords(spec, "unreadable" if problem else "not begun", problem=problem)
    steps, talks = [entry.step for entry in entries], [entry.transcript for entry in entries]
    memories = [entry.memory for entry in entries]
    # Before the first fill everything is cash, and its NAV at these opens is the initial cash.
    return EpisodeRecords(spec, "unfinished", Ledger(spec.to_json(), steps[0].open_nav_minor, steps), talks, problem, memories)


_MONEY = "_minor"  #: End of the names of money in a step record's JSON
_QUANTITIES = frozenset({"shares", "filled_shares", "shares_before", "shares_after", "locked"})


def step_in_units(ledger: Ledger, step: StepRecord) -> dict[str, JsonValue]:
    """Return a ledger's step as JSON: `nav_minor` is `nav`, in units of currency, `price_ticks` is `price`; shares are shares."""
    return _in_units(ledger, to_plain(step))


def _in_units(ledger: Ledger, record: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    ticks, steps, _ = ledger.scale(str(record.get("code")))
    converted: dict[str, JsonValue] = {}
    for name, value in record.items():
        if isinstance(value, list):
            converted[name] = [_in_units(ledger, item) if isinstance(item, Mapping) else item for item in value]
        elif isinstance(value, int) and name.endswith(_MONEY):
            converted[name.removesuffix(_MONEY)] = value / ledger.minor_per_unit
        elif isinstance(value, int) and name == "price_ticks":
            converted["price"] = value / ticks
        elif isinstance(value, int) and name in _QUANTITIES and steps > 1:
            converted[name] = value / steps
        else:
            converted[name] = value
    return converted
