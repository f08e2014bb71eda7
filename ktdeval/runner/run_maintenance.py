"""Listing, integrity checks and compaction of runs, in a folder or at a URL.

Checks read the files at their original location instead of local copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from ktdeval.calls.batches.submitted_batches import BATCHES
from ktdeval.calls.records.call_log import LOG_FILE
from ktdeval.calls.records.remote_call_log import LOG_FOLDER
from ktdeval.errors import StoreError
from ktdeval.runner.records.completion_marks import EpisodeMark
from ktdeval.runner.records.run_claim import LOCK_FOLDER, claim_folder, claim_url
from ktdeval.runner.records.run_file_names import (
    ANSWERS,
    EPISODES,
    JOURNAL,
    LEDGER,
    MARK,
    RUN_FILES,
    RUN_FOLDERS,
    TRANSCRIPT,
)
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.url_run import JOURNAL_FOLDER, EpisodeFiles, by_episode, remote_run_at
from ktdeval.runner.scoring.call_log_checks import log_problems
from ktdeval.stores.concurrent_requests import at_once
from ktdeval.stores.store import MissingKey, Stat, Store, open_store
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.values.documents.typed_json import Value, decode_json
from ktdeval.values.findings import Finding, Level
from ktdeval.values.hashes import sha256_hex

State = Literal["complete", "unfinished", "planned"]

_CONTENT = (LEDGER, ANSWERS, TRANSCRIPT)
#: SQLite keeps two more files next to a database that is in use, or whose process was killed
_FILES_OF_CALLS = (LOG_FILE, f"{LOG_FILE}-wal", f"{LOG_FILE}-shm", BATCHES)
_OWN_FILES = (*RUN_FILES, *_FILES_OF_CALLS)
_OWN_FOLDERS = (*RUN_FOLDERS, LOG_FOLDER, LOCK_FOLDER)
_DAMAGE = ("missing", "damaged")  #: rules for which a finding means that data were lost or changed
_COMPACT = "`ktdeval files compact` deletes it"
_BATCH = 64  #: number of episodes whose files are read concurrently


class EpisodeRow(Value):
    """Episode of a run, as listed."""

    run: str  #: path or URL of the run
    id: str
    task: str
    model: str
    agent: str
    window: str | None  #: None for a task without a market
    seed: int
    state: State
    bytes: int  #: total size of its files


@dataclass(frozen=True)
class EpisodeFilter:
    """Selects the episodes to be listed. Names may be globs, and None selects everything."""

    model: str | None = None
    task: str | None = None
    window: str | None = None
    seed: int | None = None
    state: State | None = None

    def takes(self, spec: EpisodeSpec) -> bool:
        """Return whether an episode is selected. Its state is ignored here."""
        pairs = (
            (self.model, spec.model),
            (self.task, spec.task),
            (self.window, spec.window_name or ""),
        )
        if any(glob is not None and not fnmatchcase(name, glob) for glob, name in pairs):
            return False
        return self.seed is None or spec.seed == self.seed


def list_episodes(run: RunFolder, chosen: EpisodeFilter) -> Iterator[EpisodeRow]:
    """Yield the selected episodes of a run in plan order. Only the plan and one listing are read,
    but no records.
    """
    files = _episode_files(run)
    for spec in run.manifest.specs:
        if not chosen.takes(spec):
            continue

        own = files.get(spec.id)
        state = _episode_state(own)
        if chosen.state not in (None, state):
            continue

        yield EpisodeRow(
            run=str(run.path),
            id=spec.id,
            task=spec.task,
            model=spec.model,
            agent=spec.agent,
            window=spec.window_name,
            seed=spec.seed,
            state=state,
            bytes=0 if own is None else _episode_size(own),
        )


def check_run(run: RunFolder) -> Iterator[Finding]:
    """Yield the faults in a run's files.

    Errors are contents that changed after their episode ended, missing files, and unrecorded calls.
    Warnings are superfluous files, which are half-written or do not belong to the run.
    """
    store, prefix = _place_of(run)
    stats = {stat.key.removeprefix(prefix): stat for stat in store.list(prefix.rstrip("/"))}
    episodes = by_episode(
        (stat for key, stat in stats.items() if key.startswith(f"{EPISODES}/")),
        f"{prefix}{EPISODES}/",
    )
    planned = {spec.id: spec for spec in run.manifest.specs}
    yield from _foreign_files(stats, planned)

    complete = []
    for spec in run.manifest.specs:
        own = episodes.get(spec.id)
        if own is None:
            continue
        if own.is_complete:
            complete.append(spec)
        yield from _leftovers(spec, own)

    def findings(spec: EpisodeSpec) -> list[Finding]:
        folder = f"{prefix}{EPISODES}/{spec.id}"
        return list(_content_findings(store, folder, prefix, spec, episodes[spec.id]))

    for start in range(0, len(complete), _BATCH):
        for found in at_once(findings, complete[start : start + _BATCH]):
            yield from found

    yield from _call_findings(run)


@dataclass(frozen=True)
class CompactionResult:
    """Outcome of a compaction."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


def compact_run(place: str | Path) -> CompactionResult:
    """Delete redundant data from a run's records, and merge small call files.

    The run, its cards and their verification do not need the deleted data. Raises StoreError if
    another process is running the run, or if this location has no run.
    """
    text = str(place)
    if isinstance(place, Path):
        RunFolder.load(place)  # fails before the claim could create a folder
        claim = claim_folder(place.absolute())
    else:
        claim = claim_url(text)

    store = open_store(text)
    before = list(store.list())
    try:
        folder = RunFolder.load(claim.path)
        RunFolder.create(claim, folder.manifest)  # deletes journals and stray files
    finally:
        claim.release()  # compacts calls

    after = list(store.list())
    return CompactionResult(
        len(before),
        len(after),
        sum(stat.size for stat in before),
        sum(stat.size for stat in after),
    )


def _place_of(run: RunFolder) -> tuple[Store, str]:
    """Return the store that contains a run, and the run's prefix in it."""
    remote = remote_run_at(run.path)
    if remote is not None:
        return remote.mirror.store, remote.prefix
    return open_store(run.path), ""


def _episode_files(run: RunFolder) -> Mapping[str, EpisodeFiles]:
    remote = remote_run_at(run.path)
    if remote is not None:
        return remote.episodes()
    return by_episode(open_store(run.path).list(EPISODES), f"{EPISODES}/")


def _episode_state(files: EpisodeFiles | None) -> State:
    if files is None or not (files.files or files.journal):
        return "planned"
    return "complete" if files.is_complete else "unfinished"


def _episode_size(files: EpisodeFiles) -> int:
    content = sum(stat.size for stat in files.files.values())
    return content + sum(part.stat.size for part in files.journal)


def _foreign_files(
    stats: Mapping[str, Stat], planned: Mapping[str, EpisodeSpec]
) -> Iterator[Finding]:
    """Yield findings about files that no run with this plan would write."""
    for key in stats:
        top, _, rest = key.partition("/")
        is_own = top in _OWN_FOLDERS if rest else top in _OWN_FILES
        if not is_own:
            yield _finding(key, "orphan", "is not a file of a run")
        elif top == EPISODES and rest.partition("/")[0] not in planned:
            yield _finding(key, "orphan", "its episode is not in the plan")


def _finding(key: str, rule: str, message: str, fix: str = "") -> Finding:
    """Return a finding about a file, which is an error if data were lost or changed.

    `key`: path in the run; `rule`: `missing`, `damaged`, `half-written` or `orphan`.
    """
    level: Level = "error" if rule in _DAMAGE else "warning"
    return Finding(path=key, rule=rule, message=message, level=level, fix=fix)


def _leftovers(spec: EpisodeSpec, files: EpisodeFiles) -> Iterator[Finding]:
    """Yield findings about superfluous files of an episode, and about steps that are missing from
    its journal.
    """
    folder = f"{EPISODES}/{spec.id}"
    for key in files.foreign:
        yield _finding(f"{folder}/{key.rpartition(f'{spec.id}/')[2]}", "orphan", "is not a record")

    for name in files.files:
        if name not in (*_CONTENT, MARK, JOURNAL):
            yield _finding(f"{folder}/{name}", "orphan", "is not a record")
        elif name in _CONTENT and not files.is_complete:
            problem = "its episode has not ended"
            fix = "repeat the run's command, which writes it again"
            yield _finding(f"{folder}/{name}", "half-written", problem, fix)

    is_left = files.is_complete and (files.journal or JOURNAL in files.files)
    if is_left:
        name = JOURNAL_FOLDER if files.journal else JOURNAL
        yield _finding(f"{folder}/{name}", "half-written", "its episode has ended", _COMPACT)
        return

    for number, part in enumerate(files.journal, 1):
        if part.number != number:
            problem = f"step {number} is missing, but later ones exist"
            yield _finding(f"{folder}/{JOURNAL_FOLDER}", "missing", problem)
            return


def _content_findings(
    store: Store, folder: str, prefix: str, spec: EpisodeSpec, files: EpisodeFiles
) -> Iterator[Finding]:
    """Yield findings if the files of a complete episode differ from its mark."""
    key = f"{folder}/{MARK}".removeprefix(prefix)
    try:
        mark = decode_json(store.read(f"{folder}/{MARK}"), EpisodeMark, key)
    except StoreError as error:
        yield _finding(key, "damaged", f"is not readable ({error})")
        return

    if mark.spec != spec.to_json():
        yield _finding(key, "damaged", "is the mark of an episode that differs from the plan's")

    for name, recorded in mark.sha256.items():
        key = f"{folder}/{name}".removeprefix(prefix)
        if name not in files.files:
            yield _finding(key, "missing", f"is missing, but {MARK} lists it")
            continue
        try:
            data = store.read(f"{folder}/{name}")
        except MissingKey:
            yield _finding(key, "missing", "was deleted during the check")
            continue

        if sha256_hex(data) != recorded:
            yield _finding(key, "damaged", "was changed after the episode ended")


def _call_findings(run: RunFolder) -> Iterator[Finding]:
    """Yield findings about the call log."""
    remote = remote_run_at(run.path)
    if remote is not None:
        problems = list(remote.calls.check())
        for problem in problems:
            yield _finding(LOG_FOLDER, "damaged", problem)
        if problems:
            return

        for key in remote.calls.leftovers():
            problem = "a compacted file also contains it"
            yield _finding(key.removeprefix(remote.prefix), "half-written", problem, _COMPACT)

    if run.manifest.request_settings is None:
        return
    try:
        for problem in log_problems(run, run.manifest.specs):
            yield _finding(LOG_FILE, "damaged", problem)
    except StoreError as error:
        yield _finding(LOG_FILE, "damaged", str(error))
