"""Writing the parts of a dataset. Making them durable is left to those who put them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.api import file_sha256
from ktdeval_qfinzero.data.bar_files import Block, content_of, write_block
from ktdeval_qfinzero.data.layout import EVENTS, NEWS, BarsPlace, Part, TableName, file_name
from ktdeval_qfinzero.data.memory import row_key
from ktdeval_qfinzero.data.rows import EventRow, NewsRow
from ktdeval_qfinzero.data.sqlite_calendars import write_calendars
from ktdeval_qfinzero.data.sqlite_news import write_news
from ktdeval_qfinzero.data.tables import events_content, news_content, rows_content, write_rows


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes files of one generation.

    Every method raises OSError, pa.ArrowException or DataError where the file can't be written.

    Attributes:
        folder: of the dataset.
        generation: that the files belong to.
    """

    folder: Path
    generation: int

    def bars(self, place: BarsPlace, block: Block) -> Part:
        """A file of bars, at least one."""
        path = self._path(place.key)
        write_block(path, block)
        first, last = int(block.bars.start_ns.min()), int(block.bars.start_ns.max())
        return self._part(place.key, len(block), content_of(block), (first, last))

    def rows(self, key: str, name: TableName, rows: Sequence[Any]) -> Part:
        """A small table."""
        write_rows(self._path(key), name, rows)
        return self._part(key, len(rows), rows_content(name, rows))

    def events(self, rows: Sequence[EventRow]) -> Part:
        """The calendar."""
        write_calendars(self._path(EVENTS), sorted(rows, key=row_key))
        return self._part(EVENTS, len(rows), events_content(rows))

    def news(self, rows: Sequence[NewsRow]) -> Part:
        """The articles."""
        write_news(self._path(NEWS), sorted(rows, key=row_key))
        return self._part(NEWS, len(rows), news_content(rows))

    def _path(self, key: str) -> Path:
        path = self.folder / file_name(key, self.generation)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _part(self, key: str, rows: int, content: str, reach: tuple[int, int] = (0, 0)) -> Part:
        file = file_name(key, self.generation)
        path = self.folder / file
        return Part(key, file, path.stat().st_size, file_sha256(path), rows, content, *reach)
