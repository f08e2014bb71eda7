"""Samples of each format, a small one for each release: `python format_samples.py` in this folder
makes those of the installed release, by real commands. Those of earlier releases stay as they are.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import zstandard

import ktdeval
from ktdeval.calls.database import CallDatabase
from ktdeval.calls.record import CacheEntry
from ktdeval.harness.messages import Reply, Usage

FOLDER = Path(__file__).parent
MOST_BYTES = 40_000  #: of one packed sample
KEY = "5eed" * 8
_TASK = ("--tasks", "blinded_open_research", "--windows", "W1", "--limit", "1")

#: By format: the command that opens its sample, with `{}` for where it was unpacked
OPENED_BY = {
    "file of calls": ("cache", "ls", "--file", "{}/replies.sqlite"),
    "run folder": ("view", "{}/run", "--out", "{}/pages"),
    "card": ("card", "show", "{}/card.json"),
    "grid": ("grid", "status", "{}/grid"),
}


def release() -> str:
    """Return the release that is installed, such as `0.1`."""
    return ".".join(ktdeval.__version__.split(".")[:2])


def sample_path(of_release: str, name: str) -> Path:
    """Return the file of a sample."""
    return FOLDER / of_release / f"{name.replace(' ', '-')}.tar.zst"


def unpack(sample: Path, target: Path) -> None:
    """Unpack a sample into a folder."""
    data = zstandard.ZstdDecompressor().decompress(sample.read_bytes(), max_output_size=50_000_000)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(target, filter="data")


def _run(*words: object, cwd: Path) -> None:
    command = [sys.executable, "-m", "ktdeval", *map(str, words)]
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def _make_all(work: Path) -> dict[str, list[str]]:
    """Make a sample of each format in a folder; return the names that belong to each."""
    reply = Reply("hold", usage=Usage(12, 3), served_by="sample-1")
    entry = CacheEntry("ab" * 32, "openai", "sample", reply, "2026-01-02T03:04:05.000Z")
    with CallDatabase(work / "replies.sqlite") as cache:
        cache.put([entry])

    _run(
        "run", "--model", "builtin/hold", *_TASK, "--mask-key", KEY, "--out", "run", "--quiet",
        cwd=work,
    )  # fmt: skip
    (card,) = (work / "run" / "cards").glob("*.json")
    (work / "card.json").write_bytes(card.read_bytes())
    _run(
        "grid", "--models", "builtin/hold", *_TASK, "--mask-key", KEY, "--pages", "none",
        "--workers", "1", "--out", "grid", "--yes",
        cwd=work,
    )  # fmt: skip
    return {
        "file of calls": ["replies.sqlite"],
        "run folder": ["run"],
        "card": ["card.json"],
        "grid": ["grid/grid.json", "grid/done", "grid/launches"],
    }


def _pack(work: Path, names: list[str], target: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            archive.add(work / name, name, filter=_plain)

    target.parent.mkdir(exist_ok=True)
    target.write_bytes(zstandard.ZstdCompressor(level=19).compress(buffer.getvalue()))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = 0
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    """Make the samples of the installed release."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name, parts in _make_all(work).items():
            _pack(work, parts, sample_path(release(), name))


if __name__ == "__main__":
    main()
