"""Run folder with a run's plan, records and cards: everything that `run` and `score` share.

RUN/manifest.json                            the plan: config, snapshot, price, episode specs
RUN/calls.sqlite                             calls over a network: attempts, costs and replies
RUN/batches.json                             batches submitted to the provider (`--batch`)
RUN/certificate.json                         mask certificate that was passed to the run
RUN/canary.json                              answers to the fixed questions at start and end
RUN/anchors.jsonl                            hashes of all that was recorded, with time stamps
RUN/files/…                                  what agents keep, such as folders of programs, by hash
RUN/episodes/<id>/journal.jsonl              while an episode runs: one line per finished step, durable
                                             unless the step can be replayed for free
RUN/episodes/<id>/ledger.parquet             when the episode is complete
RUN/episodes/<id>/answers.jsonl.zst          instead of the ledger, if the task scores answers
RUN/episodes/<id>/transcript.jsonl.zst
RUN/episodes/<id>/episode.json               written last, with both files' hashes and call counts
RUN/cards/<task>.json                        result cards
RUN/cards/<what was changed>/<task>.json     cards of `score` with other rules or metrics
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ktdeval.calls.records.call_counts import EpisodeCalls
from ktdeval.errors import StoreError, wrap_os_error
from ktdeval.harness.external.external_acts import KeptFiles
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.registry.plugin_boundary import is_file_name
from ktdeval.runner.records.completion_marks import EpisodeMark
from ktdeval.runner.records.episode_journal import (
    STEPS_A_GROUP,
    Entry,
    Journal,
    Record,
    compact_journal,
    entry_type,
    read_journal,
    unpack_lines,
)
from ktdeval.runner.records.ledger_file import load_ledger
from ktdeval.runner.records.run_claim import RunClaim
from ktdeval.runner.records.run_file_names import (
    AGENT_FILES as AGENT_FILES,
    ANCHORS as ANCHORS,
    ANSWERS as ANSWERS,
    CANARY as CANARY,
    CERTIFICATE as CERTIFICATE,
    JOURNAL as JOURNAL,
    LEDGER as LEDGER,
    MANIFEST as MANIFEST,
    MARK as MARK,
    REPLIES as REPLIES,
    TASK_FILES as TASK_FILES,
    TRANSCRIPT as TRANSCRIPT,
)
from ktdeval.runner.records.run_manifest import (
    ANOTHER_RUN,
    Growth,
    RunManifest,
    kept_specs,
    manifest_difference,
)
from ktdeval.runner.records.transcript_counts import read_exchanges
from ktdeval.runner.records.url_run import RemoteRun, remote_run_at
from ktdeval.stores.local import LocalStore
from ktdeval.stores.mirror import keep_file
from ktdeval.stores.store import Store
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.scoring import AnswerRecord
from ktdeval.trading.ledger import Ledger
from ktdeval.values.disk.files import make_lasting_folder, read_plain, write_atomic
from ktdeval.values.documents.strict_json import dumps_pretty
from ktdeval.values.documents.typed_json import decode_json, to_plain
from ktdeval.values.hashes import file_sha256, sha256_hex

_ANEW = "restore it, or delete the episode's folder to run it again"


class RunFolder:
    """A run on disk. Open it with `create` (to run it) or `load` (to read it)."""

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        self.path = path
        self.manifest = manifest
        self._claim: RunClaim | None = None
        #: run at a URL of which this folder is the local copy; None if the run exists only on this
        #: machine
        self._remote: RemoteRun | None = remote_run_at(path)

    @classmethod
    def create(cls, claim: RunClaim, manifest: RunManifest, growth: Growth = "none") -> RunFolder:
        """Begin a new run in a claimed folder, or open the folder to resume the same run.

        Releasing the folder also releases the claim. `growth`: permitted additions to the plan.
        Raises StoreError if the folder can't be written, or contains a different run.
        """
        folder = cls(claim.path, manifest)
        folder._claim = claim
        with wrap_os_error(f"{claim.path}: can't write", "free space or choose another --out"):
            folder._begin(growth)
        return folder

    def _begin(self, growth: Growth) -> None:
        """Write the plan, after checking that it can resume an existing one; then delete the
        remnants of killed processes.
        """
        if (self.path / MANIFEST).exists():
            difference = RunFolder.load(self.path).difference(self.manifest, growth)
            if difference:
                raise StoreError(f"{self.path}: {ANOTHER_RUN.format(difference)}")

        self.save_manifest(self.manifest)
        for name in ("episodes", "cards"):
            make_lasting_folder(self.path / name)

        for spec in self.complete_specs():
            self._drop_journal(spec)

        for folder in ("", "cards/", "episodes/*/"):
            # temporary files of `write_atomic` contain a second dot, unlike most hidden files of
            # users
            for stray in self.path.glob(f"{folder}.*.*"):
                stray.unlink()

    def difference(self, planned: RunManifest, growth: Growth = "none") -> str:
        """Return the difference that prevents a planned run from resuming this run; empty if it can
        resume. `growth`: permitted additions to the plan.
        """
        kept = kept_specs(self.manifest, planned, growth)
        return manifest_difference(
            self.manifest, replace(planned, specs=kept), carded=any(self.path.glob("cards/*.json"))
        )

    @classmethod
    def load(cls, path: Path) -> RunFolder:
        """Open a run for reading. Raises StoreError if the folder does not contain a run, or if its
        manifest is unreadable.
        """
        # the path may be too long, or permission may be missing
        with wrap_os_error(str(path / MANIFEST), "fix that, or name another path"):
            if not (path / MANIFEST).exists():
                raise StoreError(f"{path}: no run here (manifest.json is missing)")
        return cls(path, RunManifest.load(path / MANIFEST))

    def save_manifest(self, manifest: RunManifest) -> None:
        """Write the manifest."""
        self.manifest = manifest
        text = dumps_pretty(manifest.to_json())
        path = self.path / MANIFEST
        if not path.exists() or path.read_text() != text:
            keep_file(path, text)

    def release(self) -> None:
        """Release the claim, so that other processes can run this folder."""
        if self._claim is not None:
            self._claim.release()

    def episode_path(self, spec: EpisodeSpec) -> Path:
        """Return the folder of an episode. If the run is at a URL, the files written so far are
        fetched first.
        """
        if self._remote is not None:
            self._remote.bring_episode(spec.id)
        return self._episode_folder(spec)

    def _episode_folder(self, spec: EpisodeSpec) -> Path:
        return self.path / "episodes" / spec.id

    def _episode_file(self, spec: EpisodeSpec, name: str) -> Path:
        """Return the path of a complete episode's file. If the run is at a URL, the file is fetched
        first.
        """
        if self._remote is not None:
            self._remote.bring([spec.id], name)
        return self._episode_folder(spec) / name

    def is_complete(self, spec: EpisodeSpec) -> bool:
        """Return whether the files of an episode are final."""
        if self._remote is not None:
            return self._remote.is_complete(spec.id)
        return (self._episode_folder(spec) / MARK).exists()

    def specs_of(self, task: str) -> list[EpisodeSpec]:
        """Return the planned episodes of a task, in order."""
        return [spec for spec in self.manifest.specs if spec.task == task]

    def complete_specs(self, task: str | None = None) -> list[EpisodeSpec]:
        """Return the complete episodes of a task, or of all tasks, in plan order."""
        specs = self.manifest.specs if task is None else self.specs_of(task)
        return list(filter(self.is_complete, specs))

    def open_journal(
        self,
        spec: EpisodeSpec,
        entry_type: type[Entry],
        is_own: Callable[[int, Entry], bool] | None = None,
        *,
        is_repeatable: bool = False,
    ) -> Journal[Entry]:
        """Open the journal of an unfinished episode, including entries from earlier sessions.

        Arguments are as for `Journal`. `is_repeatable`: True if replaying the steps costs nothing
        and gives the same bytes.
        """
        folder = self._episode_folder(spec)
        with wrap_os_error(f"{folder}: can't make the episode's folder"):
            make_lasting_folder(folder)

        if self._remote is None:
            max_unsynced = STEPS_A_GROUP if is_repeatable else 1
            return Journal(folder / JOURNAL, entry_type, is_own, max_unsynced=max_unsynced)

        self._remote.begin_journal(spec.id)
        keeper = self._remote.journal_keeper(spec.id)
        return Journal(folder / JOURNAL, entry_type, is_own, keeper)

    def complete(
        self,
        spec: EpisodeSpec,
        entry_type: type[Entry],
        encode: Callable[[Sequence[Any]], tuple[str, bytes]],
        calls: EpisodeCalls | None = None,
    ) -> None:
        """Compact a complete journal into the record file and the transcript. This is safe to
        repeat after a crash at any point.
        """
        folder = self._episode_folder(spec)
        journal = compact_journal(folder / JOURNAL, entry_type)
        name, data = encode(journal.records)
        files = {name: data, TRANSCRIPT: journal.transcript}

        for file_name, content in files.items():
            write_atomic(folder / file_name, content)

        mark = EpisodeMark(
            spec=spec.to_json(),
            steps=len(journal.records),
            wall_s=round(math.fsum(journal.seconds), 3),
            sha256={file_name: sha256_hex(content) for file_name, content in files.items()},
            said=journal.said,
            calls=calls,
            made_by=journal.made_by,
        )
        text = dumps_pretty(to_plain(mark))
        write_atomic(folder / MARK, text)
        if self._remote is not None:
            self.check_claim()
            self._remote.complete(spec.id, {**files, MARK: text.encode()})

        self._drop_journal(spec, len(journal.records))

    @property
    def files(self) -> KeptFiles:
        """Files that agents keep in addition to their memory."""
        if self._remote is None:
            return LocalStore(self.path / AGENT_FILES)
        return _FilesBelow(self._remote.mirror.store, f"{self._remote.prefix}{AGENT_FILES}/")

    def check_claim(self) -> None:
        """Raise FencedError if another process has taken over the run."""
        if self._claim is not None:
            self._claim.check()

    def _drop_journal(self, spec: EpisodeSpec, steps: int | None = None) -> None:
        """Delete the journal of a complete episode. For `steps`, see `RemoteRun.drop_journal`."""
        (self._episode_folder(spec) / JOURNAL).unlink(missing_ok=True)
        if self._remote is not None:
            self._remote.drop_journal(spec.id, steps)

    def load_ledger(self, spec: EpisodeSpec) -> Ledger:
        """Read the ledger of a complete episode."""
        return load_ledger(self._episode_file(spec, LEDGER))

    def ledger_sha256(self, spec: EpisodeSpec) -> str:
        """SHA-256 of a complete episode's ledger, computed from its current bytes."""
        return file_sha256(self._episode_file(spec, LEDGER))

    def load_transcript(self, spec: EpisodeSpec) -> list[TranscriptEntry]:
        """Read the transcript of a complete episode: one entry per step."""
        path = self._episode_file(spec, TRANSCRIPT)
        entries = unpack_lines(path, TranscriptEntry, "transcript")
        for number, entry in enumerate(entries, 1):
            read_exchanges(entry, f"{path}: line {number}")
        return entries

    def load_answers(self, spec: EpisodeSpec) -> list[AnswerRecord]:
        """Read the answer records of a complete scoring episode."""
        path = self._episode_file(spec, ANSWERS)
        return unpack_lines(path, AnswerRecord, "record of answers")

    def load_recorded(self, spec: EpisodeSpec) -> tuple[Sequence[Record], list[TranscriptEntry]]:
        """Return the records and transcript of an episode, complete or not. Raises StoreError if a
        file is unreadable.
        """
        folder = self.episode_path(spec)
        if self.is_complete(spec):
            records: Sequence[Record]
            if (folder / ANSWERS).exists():
                records = self.load_answers(spec)
            else:
                records = self.load_ledger(spec).steps

            return records, self.load_transcript(spec)

        journal = folder / JOURNAL
        entries = list(read_journal(journal, entry_type(journal))) if journal.exists() else []
        return [entry.step for entry in entries], [entry.transcript for entry in entries]

    def artefacts(self, specs: Sequence[EpisodeSpec]) -> dict[str, str]:
        """Return the SHA-256 of each record file and transcript, keyed by path.

        Raises StoreError if a file is missing or has changed since its episode ended.
        """
        if self._remote is not None:
            self._remote.bring([spec.id for spec in specs])  # fetch all episodes concurrently
        digests = {}
        for spec in specs:
            for name, recorded in self.mark(spec).sha256.items():
                path = self._episode_file(spec, name)
                with wrap_os_error(f"{path}: can't read", _ANEW):
                    digest = file_sha256(path)

                if digest != recorded:
                    raise StoreError(f"{path}: was changed after the episode ended; {_ANEW}")

                digests[f"episodes/{spec.id}/{name}"] = digest

        return digests

    def mark(self, spec: EpisodeSpec) -> EpisodeMark:
        """Read the completion mark of an episode. Raises StoreError if the mark is unreadable."""
        path = self.mark_path(spec)
        with wrap_os_error(f"{path}: can't read", _ANEW):
            mark = decode_json(read_plain(path), EpisodeMark, f"{path}: not readable; {_ANEW}")

        if set(mark.sha256) not in ({LEDGER, TRANSCRIPT}, {ANSWERS, TRANSCRIPT}):
            raise StoreError(
                f"{path}: not readable; {_ANEW}: sha256: expected a ledger or answers, and a"
                " transcript"
            )

        return mark

    def mark_path(self, spec: EpisodeSpec) -> Path:
        """Return the path of an episode's completion mark."""
        return self._episode_file(spec, MARK)

    def card_path(self, task: str, scored: str = "") -> Path:
        """Return the path of a task's card, or of its rescored card if `scored` is given.

        `scored`: names of the changed rules and metrics, joined by `+`. Raises StoreError if a name
        is not a safe file name.
        """
        for name in (task, *filter(None, scored.split("+"))):
            if not is_file_name(name):
                raise StoreError(f"{name!r} can't be a file name")
        return self.path / "cards" / scored / f"{task}.json"


@dataclass(frozen=True)
class _FilesBelow:
    """Files in a store whose keys have a given prefix."""

    store: Store
    prefix: str

    def read(self, key: str) -> bytes:
        """Return the contents of a file."""
        return self.store.read(f"{self.prefix}{key}")

    def create(self, key: str, data: bytes) -> bool:
        """Store a new file."""
        return self.store.create(f"{self.prefix}{key}", data)


def recorded_run(path: Path) -> RunFolder | None:
    """Return the run in a folder, or None if the folder has no run. Raises StoreError as
    `RunFolder.load` does.
    """
    if not (path / MANIFEST).exists():
        return None
    return RunFolder.load(path)


def mask_key_of(run: RunFolder | None) -> str | None:
    """Return the mask key of a run. None without a run, or if the run has no key."""
    if run is None:
        return None

    for spec in run.manifest.specs:
        if spec.mask_key:
            return spec.mask_key
    return None
