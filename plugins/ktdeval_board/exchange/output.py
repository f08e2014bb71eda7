"""Output of every export: a folder whole or not at all, and a report of what is in it and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue
from ktdeval_board.placement import replacing


@dataclass
class Exported:
    """Report of an export."""

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
    """Make a new or empty folder with what `write` puts there; after a failure nothing is left."""
    try:
        with replacing(out) as folder:
            return write(folder)
    except OSError as error:
        raise StoreError(f"{out}: can't write: {error.strerror or error}; free space or choose another folder") from error


def write_text(folder: Path, name: str, text: str) -> None:
    """Write a file below a folder; folders on the way are made."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
