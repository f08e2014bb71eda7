"""Writing the parts of a dataset. Making them durable is left to those who put them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.jsonio import file_sha256
from ktdeval_qfinzero.data.bar_files import Block, content_of, write_block
from ktdeval_qfinzero.data.layout import BarsPlace, Part, file_name, table_of
from ktdeval_qfinzero.data.tables import TABLES


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes files of one generation. Methods raise OSError, pa.ArrowException or DataError where the file can't be written."""

    folder: Path  #: of the dataset
    generation: int  #: that the files belong to

    def bars(self, place: BarsPlace, block: Block) -> Part:
        """Write a file of bars, at least one."""
        write_block(self._path(place.key), block)
        start_ns = block.bars.start_ns
        return self._part(place.key, len(block), content_of(block), (int(start_ns.min()), int(start_ns.max())))

    def rows(self, key: str, rows: Sequence[Any]) -> Part:
        """Write a file of a table."""
        table = TABLES[table_of(key)[0]]
        table.write(self._path(key), rows)
        return self._part(key, len(rows), table.content(rows))

    def _path(self, key: str) -> Path:
        path = self.folder / file_name(key, self.generation)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _part(self, key: str, rows: int, content: str, reach: tuple[int, int] = (0, 0)) -> Part:
        file = file_name(key, self.generation)
        path = self.folder / file
        return Part(
            key=key, file=file, bytes=path.stat().st_size, sha256=file_sha256(path), rows=rows, content=content,
            first_ns=reach[0], last_ns=reach[1]
        )  # fmt: skip
