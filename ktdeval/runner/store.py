"""The run folder: where a plan, its records and its cards live, so that `run` and `score` meet only in files.

RUN/manifest.json                            the plan: config, snapshot, price, episode specs
RUN/calls.jsonl                              of a model behind a network: one line an attempt, with what it cost
RUN/replies.sqlite                           its replies, where they are not kept in the cache shared by all runs
RUN/certificate.json                         the certificate of the mask that the run was given
RUN/canary.json                              its answers to the fixed questions at start and end
RUN/episodes/<id>/journal.jsonl              while an episode runs: one durable line per finished step
RUN/episodes/<id>/ledger.parquet             when it is complete
RUN/episodes/<id>/answers.jsonl.zst          in its place, where the task scores answers
RUN/episodes/<id>/transcript.jsonl.zst
RUN/episodes/<id>/episode.json               written last: the mark of completeness, with the hashes of the two
RUN/cards/<task>.json                        result cards
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue, dumps_canonical, dumps_pretty, file_sha256, loads_strict, write_atomic
from ktdeval.runner.journal import Journal, read_journal
from ktdeval.runner.ledger_file import load_ledger
from ktdeval.runner.spec import EpisodeSpec, Window
from ktdeval.trading.ledger import Ledger

MANIFEST_VERSION = 2
LEDGER, ANSWERS, TRANSCRIPT = "ledger.parquet", "answers.jsonl.zst", "transcript.jsonl.zst"
"""Files of a finished episode, in its folder."""
MANIFEST = "manifest.json"
CALLS, REPLIES, CANARY = "calls.jsonl", "replies.sqlite", "canary.json"
"""Files of a run whose model is behind a network."""
CERTIFICATE = "certificate.json"
"""The certificate that a run was given."""

_ANEW = "restore it, or delete the episode's folder to run it anew"
_LOCK = ".lock"
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,120}")
_MAX_TRANSCRIPT_BYTES = 1 << 32


def spec_from_json(value: Mapping[str, Any]) -> EpisodeSpec:
    """The spec that `EpisodeSpec.to_json` wrote."""
    return EpisodeSpec(**{**value, "window": Window(**value["window"])})


@dataclass(frozen=True)
class RunManifest:
    """What a run is: everything that the command line can change about its outcome, and nothing of the machine.

    Attributes:
        data: how the user named the data, with arguments, so that `score` and `verify` find the snapshot again.
        snapshot: the id of that snapshot.
        metrics: names of metrics beyond those of the tasks.
        rules: rule set of the metrics.
        specs: the plan, in order.
        price: what the model's tokens cost (`ktdeval.calls.prices.Price.to_json`); None where no price is known, or none is due.
        sent_as: how its calls are put to the provider (`RemoteModel.settings`); None for a model of this machine.
    """

    data: Mapping[str, JsonValue]
    snapshot: str
    metrics: tuple[str, ...]
    rules: str
    specs: tuple[EpisodeSpec, ...]
    price: Mapping[str, JsonValue] | None = None
    sent_as: Mapping[str, JsonValue] | None = None

    def to_json(self) -> JsonValue:
        """The manifest as written."""
        return {
            "version": MANIFEST_VERSION,
            "data": dict(self.data),
            "snapshot": self.snapshot,
            "metrics": list(self.metrics),
            "rules": self.rules,
            "price": None if self.price is None else dict(self.price),
            "sent_as": None if self.sent_as is None else dict(self.sent_as),
            "episodes": [{"id": spec.id, **spec.to_json()} for spec in self.specs],
        }


class RunFolder:
    """A run on disk. Open it with `create` (to run) or `load` (to read)."""

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        self.path = path
        self.manifest = manifest
        self._claim: FolderClaim | None = None

    # -- opening -------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, manifest: RunManifest, claim: FolderClaim | None = None) -> RunFolder:
        """Make the folder of a new run, or open that of the same run to resume it; held by one process at a time.

        Args:
            path: the folder.
            manifest: the run.
            claim: the hold on the folder where it is already had; released with the folder, or when this fails.

        Raises:
            StoreError: the folder can't be made, belongs to another run, or another process is running it.
        """
        folder = cls(path, manifest)
        folder._claim = claim or FolderClaim(path)
        try:
            folder._begin()
        except OSError as error:
            folder.release()
            raise StoreError(f"{path}: can't write: {error.strerror or error}; free space or choose another --out") from error
        except StoreError:
            folder.release()
            raise
        return folder

    def _begin(self) -> None:
        """Lay down the plan, or check that it is the one that is there; then clear what a killed process left."""
        recorded = RunFolder.load(self.path).manifest if (self.path / MANIFEST).exists() else self.manifest
        if difference := _manifest_difference(recorded, self.manifest):
            raise StoreError(f"{self.path}: holds another run ({difference}); choose another --out, or the command that began it")
        self.save_manifest(self.manifest)
        for name in ("episodes", "cards"):
            (self.path / name).mkdir(exist_ok=True)
        for spec in self.manifest.specs:
            for stray in self.episode_path(spec).glob(".*"):  # a file that was being written
                stray.unlink()
            if self.is_complete(spec):
                self._drop_journal(spec)
        for stray in self.path.glob(f".{MANIFEST}.*"):
            stray.unlink()

    @classmethod
    def load(cls, path: Path) -> RunFolder:
        """Open a run for reading.

        Raises:
            StoreError: there is no run here, or its manifest is not readable.
        """
        manifest_path = path / MANIFEST
        try:
            value = loads_strict(manifest_path.read_bytes())
            if value["version"] != MANIFEST_VERSION:
                raise StoreError(
                    f"{manifest_path}: version {value['version']} is not {MANIFEST_VERSION}; use the ktdeval that wrote it"
                )
            specs = []
            for entry in value["episodes"]:
                recorded_id = entry.pop("id")
                spec = spec_from_json(entry)
                if spec.id != recorded_id:
                    raise StoreError(f"{manifest_path}: episode {recorded_id} has been changed: its spec hashes to {spec.id}")
                specs.append(spec)
            manifest = RunManifest(
                value["data"],
                value["snapshot"],
                tuple(value["metrics"]),
                value["rules"],
                tuple(specs),
                value["price"],
                value["sent_as"],
            )
        except FileNotFoundError as error:
            raise StoreError(f"{path}: no run here (manifest.json is missing)") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{manifest_path}: not a readable manifest: {error}") from error
        return cls(path, manifest)

    def save_manifest(self, manifest: RunManifest) -> None:
        """Write the manifest. Its plan never changes; rule set and extra metrics may, when the run is scored again."""
        self.manifest = manifest
        text, path = dumps_pretty(manifest.to_json()), self.path / MANIFEST
        if not path.exists() or path.read_text() != text:
            write_atomic(path, text)

    def release(self) -> None:
        """Let other processes run this folder."""
        if self._claim is not None:
            self._claim.release()

    # -- episodes ------------------------------------------------------------------------------------------------

    def episode_path(self, spec: EpisodeSpec) -> Path:
        """The folder of one episode."""
        return self.path / "episodes" / spec.id

    def is_complete(self, spec: EpisodeSpec) -> bool:
        """True when the episode's ledger and transcript are final."""
        return (self.episode_path(spec) / "episode.json").exists()

    def open_journal(self, spec: EpisodeSpec, is_own: Callable[[int, JsonValue], bool] | None = None) -> Journal:
        """The journal of an unfinished episode, holding what an earlier run recorded; `is_own` as in `Journal`."""
        folder = self.episode_path(spec)
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder}: can't make the episode's folder: {error.strerror or error}") from error
        return Journal(folder / "journal.jsonl", is_own)

    def complete(self, spec: EpisodeSpec, encode: Callable[[Sequence[JsonValue]], tuple[str, bytes]]) -> None:
        """Compact a whole journal into the file of its records and the transcript; safe to repeat after a crash at any point.

        Args:
            spec: the episode.
            encode: name and bytes of the file that the records of all steps become.
        """
        folder = self.episode_path(spec)
        steps, seconds, transcript = [], [], []
        for record in read_journal(folder / "journal.jsonl"):
            steps.append(record["step"])
            seconds.append(record["wall_s"])
            transcript.append(dumps_canonical(record["transcript"]).encode())
        name, data = encode(steps)
        write_atomic(folder / name, data)
        write_atomic(folder / TRANSCRIPT, _pack(transcript))
        done = {
            "spec": spec.to_json(),
            "steps": len(steps),
            "wall_s": round(sum(seconds), 3),
            "sha256": {name: file_sha256(folder / name) for name in (name, TRANSCRIPT)},
        }
        write_atomic(folder / "episode.json", dumps_pretty(done))
        self._drop_journal(spec)

    def _drop_journal(self, spec: EpisodeSpec) -> None:
        (self.episode_path(spec) / "journal.jsonl").unlink(missing_ok=True)

    def load_ledger(self, spec: EpisodeSpec) -> Ledger:
        """The ledger of a complete episode."""
        return load_ledger(self.episode_path(spec) / LEDGER)

    def load_transcript(self, spec: EpisodeSpec) -> list[JsonValue]:
        """The transcript of a complete episode: one JSON value a step."""
        return list(_read_lines(self.episode_path(spec) / TRANSCRIPT, "transcript"))

    def load_answers(self, spec: EpisodeSpec) -> list[JsonValue]:
        """The answer records of a complete episode of a scoring task."""
        return list(_read_lines(self.episode_path(spec) / ANSWERS, "record of answers"))

    def load_recorded(self, spec: EpisodeSpec) -> tuple[Sequence[JsonValue], list[JsonValue]]:
        """Records and transcript as far as an episode has come, whatever its task: of an unfinished one what its journal holds.

        Raises:
            StoreError: a record is not readable.
        """
        folder = self.episode_path(spec)
        if self.is_complete(spec):
            records = self.load_answers(spec) if (folder / ANSWERS).exists() else self.load_ledger(spec).steps
            return records, self.load_transcript(spec)
        journal = folder / "journal.jsonl"
        entries = list(read_journal(journal)) if journal.exists() else []
        return [entry["step"] for entry in entries], [entry["transcript"] for entry in entries]

    def wall_s(self, spec: EpisodeSpec) -> float:
        """Seconds that the episode took, resumed parts added up."""
        return self._mark(spec)[0]

    def artefacts(self, specs: Sequence[EpisodeSpec]) -> dict[str, str]:
        """SHA-256 by path (relative to the run folder) of each ledger and transcript.

        Raises:
            StoreError: one is missing, or is not the file that was written when its episode ended.
        """
        found = {}
        for spec in specs:
            _, recorded = self._mark(spec)
            for name in recorded:
                path = self.episode_path(spec) / name
                try:
                    digest = file_sha256(path)
                except OSError as error:
                    raise StoreError(f"{path}: can't read: {error.strerror or error}; {_ANEW}") from error
                if digest != recorded[name]:
                    raise StoreError(f"{path}: is not the file that the episode ended with; {_ANEW}")
                found[f"episodes/{spec.id}/{name}"] = digest
        return found

    def _mark(self, spec: EpisodeSpec) -> tuple[float, Mapping[str, str]]:
        """What the mark of completeness says: seconds, and SHA-256 by file name."""
        path = self.episode_path(spec) / "episode.json"
        try:
            value = loads_strict(path.read_bytes())
            hashes = {name: str(value["sha256"][name]) for name in (LEDGER, ANSWERS, TRANSCRIPT) if name in value["sha256"]}
            if len(hashes) != 2:
                raise KeyError("sha256")
            return float(value["wall_s"]), hashes
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path}: not readable; {_ANEW}") from error

    # -- cards ---------------------------------------------------------------------------------------------------

    def card_path(self, task: str) -> Path:
        """Where the card of a task goes.

        Raises:
            StoreError: the task's name is not a safe file name.
        """
        if not _SAFE_NAME.fullmatch(task) or task.startswith("."):
            raise StoreError(f"task name {task!r} can't be a file name")
        return self.path / "cards" / f"{task}.json"


class FolderClaim:
    """The hold of this process on a run folder, which it makes where there is none. Until released no other process has it."""

    def __init__(self, path: Path) -> None:
        """Take the hold.

        Raises:
            StoreError: the folder can't be made, holds something that is no run, or another process is running it.
        """
        self.path = path
        self._lock: int | None = None
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / MANIFEST).exists() and any(not _is_trace_of_a_start(entry.name) for entry in path.iterdir()):
                raise StoreError(f"{path}: the folder is not empty and holds no run; choose another --out")
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise StoreError(f"{path}: another process is running this; wait for it or choose another --out") from error
        except OSError as error:
            raise StoreError(f"{path}: can't make the run folder: {error.strerror or error}; choose another --out") from error

    def release(self) -> None:
        """Let other processes have the folder; safe to call again."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def pack_lines(values: Sequence[JsonValue]) -> bytes:
    """JSON values as compressed lines, which `load_answers` and `load_transcript` read; equal values give equal bytes."""
    return _pack([dumps_canonical(value).encode() for value in values])


def _pack(lines: Sequence[bytes]) -> bytes:
    return zstandard.ZstdCompressor(level=9, write_checksum=True).compress(b"".join(line + b"\n" for line in lines))


def _read_lines(path: Path, what: str) -> Iterator[JsonValue]:
    try:
        packed = path.read_bytes()
        if not 0 <= zstandard.frame_content_size(packed) <= _MAX_TRANSCRIPT_BYTES:  # that much memory is taken at once
            raise StoreError(f"{path}: not a readable {what}: its header states no size, or more than one can have")
        for line in zstandard.ZstdDecompressor().decompress(packed).splitlines():
            yield loads_strict(line)
    except (OSError, ValueError, RecursionError, zstandard.ZstdError) as error:
        raise StoreError(f"{path}: not a readable {what}: {error}") from error


def _is_trace_of_a_start(name: str) -> bool:
    """Whether a run that was killed before it wrote its manifest can have left a file of this name."""
    return name in (_LOCK, CALLS) or name.startswith((f".{MANIFEST}.", REPLIES))


def _manifest_difference(recorded: RunManifest, wanted: RunManifest) -> str:
    """What the user would have to change, in words; empty when the plans are equal."""
    if recorded.snapshot != wanted.snapshot:
        return f"snapshot {recorded.snapshot[:12]}, now {wanted.snapshot[:12]}"
    facets: Mapping[str, Callable[[EpisodeSpec], str]] = {
        "task": lambda spec: spec.task,
        "task version": lambda spec: f"{spec.task_version}/{spec.task_hash[:12]}",
        "model": lambda spec: f"{spec.model} {dumps_canonical(spec.model_args)}",
        "agent": lambda spec: f"{spec.agent} {dumps_canonical(spec.agent_args)}",
        "window": lambda spec: spec.window.name,
        "seed": lambda spec: str(spec.seed),
        "limit": lambda spec: str(spec.limit),
        "mask draw": lambda spec: str(spec.mask_draw),
        "call parameters": lambda spec: dumps_canonical(spec.call),
    }
    for name, facet in facets.items():
        before, after = sorted({facet(spec) for spec in recorded.specs}), sorted({facet(spec) for spec in wanted.specs})
        if before != after:
            return f"{name}: {', '.join(before)}; now {', '.join(after)}"
    if {spec.id for spec in recorded.specs} != {spec.id for spec in wanted.specs}:
        return "other episodes"
    return ""
