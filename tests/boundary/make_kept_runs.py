"""Make the kept runs of `kept_runs.yaml`, by the ktdeval of a checkout, and pack them.

    python make_kept_runs.py CHECKOUT [NAME…]

A checkout is a folder with the source of a commit and an environment in `.venv` that has it. Made are
the runs that its commit is to make, or those of them that are named.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
import zstandard

TABLE = Path(__file__).with_name("kept_runs.yaml")
FOLDER = Path(__file__).with_name("kept")
MAX_BYTES = 50_000_000  #: of what an archive holds


@dataclass(frozen=True)
class Kept:
    """A run that is kept: how it is made, by which commits, and what checks it."""

    name: str
    family: str
    commands: list[str]  #: lines of a shell
    made_by: list[str]  #: first digits of commits
    keep: list[str]  #: files and folders that the commands leave
    checks: list[str]  #: lines of words that end well and say `says`
    says: str
    read_by: list[str]  #: lines of words that end well, whatever the version of the task
    refused: Mapping[str, str]  #: by commit: what the last check says of a task that changed since
    files: Mapping[str, str]  #: texts that the commands read

    def archive(self, commit: str) -> Path:
        """Return the file with the run that a commit made."""
        return FOLDER / commit / f"{self.name}.tar.zst"


def kept_runs() -> list[Kept]:
    """Read the table."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    runs = []

    for name, entry in table["runs"].items():
        commands = [line.format_map(table["options"]) for line in entry.pop("commands")]
        runs.append(Kept(name=name, commands=commands, **{**table["default"], **entry}))

    return runs


def unpack(archive: Path, target: Path) -> None:
    """Unpack a kept run into a folder."""
    data = zstandard.ZstdDecompressor().decompress(archive.read_bytes(), MAX_BYTES)
    with tarfile.open(fileobj=io.BytesIO(data)) as files:
        files.extractall(target, filter="data")


def make(kept: Kept, checkout: Path, target: Path) -> None:
    """Run the commands of one kept run, and pack what they left."""
    path = f"{checkout / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}

    with TemporaryDirectory() as place:
        work = Path(place)
        for name, text in kept.files.items():
            (work / name).write_text(text, encoding="utf-8")

        for line in kept.commands:
            subprocess.run(["sh", "-ec", line], cwd=work, env=environment, check=True)

        _pack(work, kept.keep, target)


def _pack(work: Path, names: list[str], target: Path) -> None:
    """Pack files in an order and with properties that are the same each time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            archive.add(work / name, name, filter=_without_owner)

    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(zstandard.ZstdCompressor(level=19).compress(buffer.getvalue()))


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = 0
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    """Make the runs that the commit of a checkout is to make."""
    checkout, *names = sys.argv[1:]
    head = ["git", "-C", checkout, "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, check=True, text=True).stdout

    for kept in kept_runs():
        for made_by in kept.made_by:
            is_wanted = not names or kept.name in names
            if is_wanted and commit.startswith(made_by):
                target = kept.archive(made_by)
                make(kept, Path(checkout).absolute(), target)
                print(kept.name, target.stat().st_size, flush=True)


if __name__ == "__main__":
    main()
