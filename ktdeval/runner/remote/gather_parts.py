"""Gather the parts of a run into one run folder, as if a single process had run all its
episodes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ktdeval.calls.records.call_log import LOG_FILE
from ktdeval.calls.records.database import (
    RECORD,
    CallDatabase,
    EpisodeRows,
    LogIdentity,
    read_labels,
)
from ktdeval.calls.stop_flag import Fence, no_fence
from ktdeval.cards.fields.origin.fact_types import ForeignPackage
from ktdeval.errors import StoreError, wrap_os_error
from ktdeval.runner.plans.plan_growth import unite_episodes
from ktdeval.runner.records.completion_marks import LogEntry
from ktdeval.runner.records.foreign_code import unite_packages
from ktdeval.runner.records.run_file_names import CANARY, CERTIFICATE, MANIFEST, MARK, TASK_FILES
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.run_manifest import RunManifest
from ktdeval.runner.remote.worker_part import CANARY_CALLS, CHECK_CALLS
from ktdeval.values.disk.files import read_plain, sync_folder, write_atomic
from ktdeval.values.documents.strict_json import dumps_pretty


@dataclass(frozen=True)
class Sources:
    """Run folders that contain the parts of a run."""

    #: folder that contains each finished episode, by episode id
    finished: Mapping[str, Path]
    #: folder that contains the latest calls of each unfinished episode, by episode id
    unfinished: Mapping[str, Path] = field(default_factory=dict)
    canary: Path | None = None  #: folder with the answers to the fixed questions
    checks: Path | None = None  #: folder of the part that probed the models' tool protocols

    @property
    def parts(self) -> set[Path]:
        """Folders of all parts that contribute to the run."""
        found = {*self.finished.values(), *self.unfinished.values(), self.canary, self.checks}
        return {part for part in found if part is not None}


def gather_run(target: Path, planned: Path, sources: Sources, fence: Fence = no_fence) -> RunFolder:
    """Create or complete the run folder `target` from parts, and return it.

    `planned`: the part whose manifest has the entire current plan. `fence` is called before each
    write. Raises StoreError.

    If the file system supports links, episode files are linked so that they are stored only once.
    Gathering may be repeated after a crash at any point, but only one process may do it at a time.
    """
    manifest = RunFolder.load(planned).manifest
    recorded = None
    foreign = [_foreign_of(part) for part in sources.parts]
    if (target / MANIFEST).exists():
        recorded = RunFolder.load(target).manifest
        manifest = replace(manifest, specs=unite_episodes(manifest.specs, recorded.specs))
        foreign.append(recorded.foreign)

    manifest = replace(manifest, foreign=unite_packages(manifest.foreign, *foreign))

    with wrap_os_error(f"{target}: can't gather the run", "free space or choose another --out"):
        for name in ("episodes", "cards"):
            (target / name).mkdir(parents=True, exist_ok=True)

        for episode, part in sources.finished.items():
            fence()
            _gather_episode(target, part, episode)

        fence()
        _copy_facts(target, planned, sources)
        if manifest.call_log is not None:
            identity = _gathered_identity(recorded)
            with _gathered_calls(target, manifest, sources, identity) as fresh:
                fence()
                _remove_database(target / LOG_FILE)
                fresh.replace(target / LOG_FILE)
                sync_folder(target)

            entry = LogEntry(id=identity.id, begun_at=identity.begun_at)
            manifest = replace(manifest, call_log=entry)

        fence()
        write_atomic(target / MANIFEST, dumps_pretty(manifest.to_json()))

    return RunFolder(target, manifest)


def _foreign_of(part: Path) -> tuple[ForeignPackage, ...]:
    """Return the foreign packages that a part of the run recorded."""
    if not (part / MANIFEST).exists():
        return ()
    return RunFolder.load(part).manifest.foreign


def _gather_episode(target: Path, part: Path, episode: str) -> None:
    """Link the files of a finished episode, with its mark last."""
    own = target / "episodes" / episode
    if (own / MARK).exists():
        return

    source = part / "episodes" / episode
    own.mkdir(exist_ok=True)
    names = sorted(entry.name for entry in source.iterdir() if not entry.name.startswith("."))
    for name in sorted(names, key=lambda name: name == MARK):
        _link_or_copy(source / name, own / name)

    sync_folder(own)


def _link_or_copy(source: Path, target: Path) -> None:
    """Link a file, or copy it if linking fails."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # different file systems, or one that does not support links
        write_atomic(target, read_plain(source))


def _copy_facts(target: Path, planned: Path, sources: Sources) -> None:
    """Copy files that do not belong to an episode: certificate, task files, and answers to the
    fixed questions.
    """
    if (planned / CERTIFICATE).exists():
        write_atomic(target / CERTIFICATE, read_plain(planned / CERTIFICATE))

    if (planned / TASK_FILES).is_dir():
        shutil.copytree(planned / TASK_FILES, target / TASK_FILES, dirs_exist_ok=True)

    if sources.canary is not None and (sources.canary / CANARY).exists():
        write_atomic(target / CANARY, read_plain(sources.canary / CANARY))


def _gathered_identity(recorded: RunManifest | None) -> LogIdentity:
    """Return the identity of a gathered run's call log. It is new unless the run already has a
    recorded identity.
    """
    if recorded is not None and recorded.call_log is not None:
        return LogIdentity(recorded.call_log.id, recorded.call_log.begun_at)

    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return LogIdentity(secrets.token_hex(16), now)


@contextlib.contextmanager
def _gathered_calls(
    target: Path, manifest: RunManifest, sources: Sources, identity: LogIdentity
) -> Iterator[Path]:
    """Yield a new file, next to the run's call log, that contains all calls: those of checks, of
    the fixed questions, and then of the episodes in plan order. The calls of each episode keep
    their order.

    Only this process uses the file. A process that has lost its claim therefore never writes to the
    file of another process.
    """
    path_of = {**sources.unfinished, **sources.finished}
    if sources.checks is not None:
        path_of[CHECK_CALLS] = sources.checks

    if sources.canary is not None:
        path_of[CANARY_CALLS] = sources.canary

    rows = _rows_of(path_of)
    order = [CHECK_CALLS, CANARY_CALLS, *(spec.id for spec in manifest.specs)]
    prefix = f".{LOG_FILE}.gathered"
    # remnants of processes that were killed or have lost their claim
    for left in target.glob(f"{prefix}*"):
        left.unlink(missing_ok=True)

    fresh = target / f"{prefix}-{uuid.uuid4().hex}"
    try:
        with CallDatabase(fresh, RECORD) as database:
            database.identity(identity)
            database.write_episodes([rows[label] for label in order if label in rows])

        yield fresh
    finally:
        _remove_database(fresh)


def _rows_of(path_of: Mapping[str, Path]) -> dict[str, EpisodeRows]:
    """Return the rows of each episode from the part assigned to it. Each part is read only once."""
    labels: dict[Path, list[str]] = {}
    for label, part in path_of.items():
        labels.setdefault(part, []).append(label)

    rows: dict[str, EpisodeRows] = {}
    for part, wanted in labels.items():
        if not (part / LOG_FILE).exists():
            raise StoreError(f"{part / LOG_FILE}: the call log of this part is missing")
        rows.update(read_labels(part / LOG_FILE, wanted))

    return rows


def _remove_database(path: Path) -> None:
    """Delete a database, including the files that SQLite keeps next to it."""
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
