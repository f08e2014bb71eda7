"""Board data shared by all exports: the cards and their rows. Also defines the export report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ktdeval.errors import StoreError, os_reason
from ktdeval.values import JsonValue
from ktdeval_board.atomic_moves import replacing
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, load_board
from ktdeval_board.document_types import Series
from ktdeval_board.ranking.rows import Row, Table
from ktdeval_board.ranking.table import rank_division
from ktdeval_board.read_documents import read_own

NO_DIVISION = (
    "the board has no division for it"  #: Reasons why a card is excluded from all collections
)
IS_BASELINE = "a baseline: shown among the ranked cards, but not ranked itself"


@dataclass(frozen=True)
class BoardData:
    """A board's data as used by all exports."""

    board: LoadedBoard
    entries: tuple[
        BoardEntry, ...
    ]  #: cards that were not withdrawn, limited to a single division if requested
    #: rows over all windows for cards that have a division, keyed by card id
    rows: Mapping[str, Row]
    columns: Mapping[str, Sequence[str]]  #: figures in the rows, keyed by division

    def why_unranked(self, entry: BoardEntry) -> list[str]:
        """Return why a card has no rank; empty if it is ranked."""
        if entry.baseline is not None:
            return [IS_BASELINE]

        return self.rows[entry.card_id]["why"]


def read_board(path: Path | str, division: str | None = None) -> BoardData:
    """Read a board for export."""
    board = load_board(Path(path))
    chosen = None if division is None else board.rules.division(division)
    entries = tuple(
        entry
        for entry in board.entries
        if not entry.is_withdrawn and (chosen is None or entry.division == chosen)
    )
    tables = list(_tables(board))
    rows = {row["card"]: row for table in tables for row in table["rows"] if row["card"]}
    return BoardData(board, entries, rows, {each["division"]: each["columns"] for each in tables})


def _tables(board: LoadedBoard) -> Iterator[Table]:
    """Yield each division's table over all windows."""

    def load(card_id: str) -> Series | None:
        path = board.folder.series(card_id)
        return read_own(path, Series) if path.is_file() else None

    for division in board.rules.divisions:
        yield rank_division(board, division, load)["all"]


@dataclass(frozen=True)
class ExportReport:
    """Report of an export."""

    files: dict[str, int] = field(default_factory=dict)
    unit: str = "rows"
    excluded: dict[str, int] = field(default_factory=dict)

    def exclude(self, reason: str) -> None:
        """Count an excluded card."""
        self.excluded[reason] = self.excluded.get(reason, 0) + 1

    def as_json(self) -> Mapping[str, JsonValue]:
        """Return the report as `--json` prints it."""
        return {"files": self.files, "left_out": self.excluded}


def write_folder(out: Path, write: Callable[[Path], ExportReport]) -> ExportReport:
    """Create a new folder, or use an empty one, and let `write` add files. After a failure, nothing
    is left behind.
    """
    try:
        with replacing(out) as folder:
            return write(folder)
    except OSError as error:
        raise StoreError(
            f"{out}: can't write: {os_reason(error, 'free space or choose another folder')}"
        ) from error


def write_text(folder: Path, name: str, text: str) -> None:
    """Write a file below a folder, creating the folders on its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
