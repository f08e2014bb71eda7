"""Finished runs as archives that anyone can verify.

python -m real_models.records RUNS      pack what is finished into records/
python -m real_models.records --verify  unpack each, and verify its card
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from real_models.entrants import RECORDS, Cell, models, tasks
from real_models.run import is_finished

MAX_BYTES = 100_000_000  #: of what an archive holds
SUFFIX = ".tar.zst"
PARTIAL = ".partial"


@dataclass(frozen=True)
class Record:
    """An archive of a finished run, or its folder.

    Attributes:
        processor: `server_s`, the processor time of the model's server in seconds, and `threads`;
            empty for a rule model.
    """

    cell: Cell
    card: Mapping[str, Any]
    processor: Mapping[str, float]


def cells() -> list[Cell]:
    """Return all runs of the two tables, rule models first."""
    found = []
    for task in tasks().values():
        for limit in task.stages:
            for model in (*task.rules, *models()):
                found.append(Cell(model, task, limit))

    return found


def pack(runs: Path) -> list[Path]:
    """Pack the finished runs of a folder; a later stage replaces an earlier one."""
    RECORDS.mkdir(exist_ok=True)
    finished: dict[tuple[str, str], Cell] = {}
    for cell in cells():
        if is_finished(cell, runs):
            finished[cell.model, cell.task.name] = cell  # stages are in order

    for cell in finished.values():
        if archive_of(cell).exists():
            continue  # `--renew` makes its card again

        for limit in cell.task.stages:
            archive_of(Cell(cell.model, cell.task, limit)).unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place) / "copy"
            shutil.copytree(runs / cell.name, copy)
            archive_of(cell).write_bytes(_scored_and_packed(copy))

    return [archive_of(cell) for cell in finished.values()]


def renew() -> None:
    """Score the stored runs again, by the ktdeval that is installed."""
    for path in sorted(RECORDS.glob(f"*{SUFFIX}")):
        with tempfile.TemporaryDirectory() as place:
            unpack(path, Path(place))
            path.write_bytes(_scored_and_packed(Path(place)))


def archive_of(cell: Cell) -> Path:
    """Return the path of a run's archive."""
    return RECORDS / f"{cell.name}{SUFFIX}"


def records() -> Iterator[Record]:
    """Yield what is stored."""
    for cell in cells():
        path = archive_of(cell)
        if not path.exists():
            continue

        with _opened(path) as files:
            card = _json(files, f"run/cards/{cell.task.name}.json")
            processor = {}
            if "processor.json" in files.getnames():
                processor = _json(files, "processor.json")

        yield Record(cell, card, processor)


def unpack(path: Path, target: Path) -> None:
    """Unpack an archive into a folder."""
    with _opened(path) as files:
        files.extractall(target, filter="data")


def verify(path: Path) -> subprocess.CompletedProcess[str]:
    """Verify the card of an archive, as anyone would."""
    with tempfile.TemporaryDirectory() as place:
        unpack(path, Path(place))
        words = [sys.executable, "-m", "ktdeval", "card", "verify", "run"]
        return subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)


def _opened(path: Path) -> tarfile.TarFile:
    data = zstandard.ZstdDecompressor().decompress(path.read_bytes(), MAX_BYTES)
    return tarfile.open(fileobj=io.BytesIO(data))


def _json(files: tarfile.TarFile, name: str) -> Mapping[str, Any]:
    member = files.extractfile(name)
    assert member is not None

    found: Mapping[str, Any] = json.load(member)
    return found


def _scored_and_packed(folder: Path) -> bytes:
    """Make the card of a run from its records alone, and pack the folder."""
    shutil.rmtree(folder / "run" / "cards")
    words = [sys.executable, "-m", "ktdeval", "score", "run"]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return _packed(folder)


def _packed(folder: Path) -> bytes:
    """Pack a folder, in an order and with properties that are the same each time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != PARTIAL:
                name = str(path.relative_to(folder))
                archive.add(path, name, recursive=False, filter=_without_owner)

    return zstandard.ZstdCompressor(level=19).compress(buffer.getvalue())


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = 0
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    """Pack, renew or verify."""
    if sys.argv[1:] == ["--verify"]:
        failed = 0
        for path in sorted(RECORDS.glob(f"*{SUFFIX}")):
            done = verify(path)
            failed += done.returncode != 0
            print(f"{path.name}: {(done.stdout + done.stderr).strip()}")
        raise SystemExit(failed)

    if sys.argv[1:] == ["--renew"]:
        renew()
        return

    for path in pack(Path(sys.argv[1])):
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
