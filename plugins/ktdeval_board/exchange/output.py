"""What every export does: write a folder whole or not at all, and say what is in it and what was left out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ktdeval.api import JsonValue, StoreError, UsageError


@dataclass
class Exported:
    """What an export wrote.

    Attributes:
        files: path below the folder to how much is in it.
        unit: what is counted in a file.
        left_out: why something was left out, to how many cards.
        notes: what the reader must do or know.
    """

    files: dict[str, int] = field(default_factory=dict)
    unit: str = "rows"
    left_out: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave_out(self, reason: str) -> None:
        """Count a card that is left out."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def as_json(self) -> Mapping[str, JsonValue]:
        """For `--json`."""
        return {"files": self.files, "left_out": self.left_out, "notes": self.notes}


def write_folder(out: Path, write: Callable[[Path], Exported]) -> Exported:
    """Make a folder with what `write` puts there; after a failure nothing is left.

    Args:
        out: the folder; must not exist, or be empty.
        write: writes into the folder that it is given.

    Raises:
        UsageError: the folder holds something.
        StoreError: it can't be written.
    """
    _check_free(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as holder:
            made = Path(holder) / "made"
            made.mkdir()
            exported = write(made)
            if out.exists():
                out.rmdir()
            made.rename(out)
            return exported
    except OSError as error:
        raise StoreError(f"{out}: can't write: {error.strerror or error}; free space or choose another folder") from error


def write_text(folder: Path, name: str, text: str) -> None:
    """Write a file below a folder; folders on the way are made."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _check_free(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UsageError(f"{out}: is no folder; choose another with --out")
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"{out}: holds something already; choose a new folder with --out, or empty it")
