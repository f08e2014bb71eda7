"""News, filings and macro releases as dated items, in the order in which they became known. Only
items known at the market's cursor can be reached.

An item is known at a day's close if its `known_at` is not after this close. The close is an
instant, given by a wall-clock time and a zone (`Close`), whatever the items' zones. On a day on
which an exchange of the market closes early, it is that close if this is earlier: orders may be
filled at it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, LookAheadError
from ktdeval.market.venues.close_times import EPOCH, MICROSECOND, Close
from ktdeval.market.venues.exchange_hours import early_closes
from ktdeval.market.venues.venue import Venue
from ktdeval.values.hashes import content_hash

if TYPE_CHECKING:
    import pyarrow as pa

IntArray = npt.NDArray[np.int64]
EntityKind = Literal["name", "former", "ticker", "product", "person", "place"]
_BATCH = 50_000
TEXT_FIELDS = ("source", "kind", "assets", "title", "text", "sentiment")
_ORDER = ("known_at", "published_at", *TEXT_FIELDS, "utc_offset")
DOCUMENT_COLUMNS = ("known_at", "published_at", "utc_offset", *TEXT_FIELDS)
"""Columns of a stored documents table."""


# a tuple: a table row, sortable
class Entity(NamedTuple):
    """Words in a text that reveal the identity of an asset."""

    code: str  #: code of the asset's column
    kind: EntityKind
    text: str  #: spelling; matched in any case if it has no capitals


# a tuple: a table row, of which a market has hundreds of thousands
class Document(NamedTuple):
    """One dated item."""

    published_at: datetime  #: with a time zone
    #: with a time zone: the earliest time at which anyone could read the item where it was
    #: published
    known_at: datetime
    source: str  #: publisher
    kind: str  #: such as `news`, `filing`, `macro`
    #: codes of the assets under which it is filed; empty for the whole market
    assets: tuple[str, ...]
    title: str
    text: str
    sentiment: str = ""  #: label or score in the source's own words; empty if the source gives none

    @property
    def words(self) -> tuple[str, ...]:
        """Content of the item, except times and codes."""
        words = (self.source, self.kind, self.title, self.text)
        if self.sentiment:
            return (*words, self.sentiment)
        return words


@dataclass(frozen=True)
class Documents:
    """K items sorted by `known_at` (ties by the rest of their content), stored as immutable
    columns; empty by default.
    """

    #: K rows: known_at and published_at (microseconds since 1970 UTC), utc_offset (of published_at,
    #: in minutes), source, kind, assets (codes separated by spaces), title, text, sentiment; None
    #: if there are no items
    table: pa.Table | None = None
    close: Close = field(default_factory=Close)  #: determines the instant of a day's close
    #: words that text masks hide in addition to the snapshot's codes, names and industries, sorted
    entities: tuple[Entity, ...] = ()

    @classmethod
    def of(
        cls, items: Iterable[Document], close: Close | None = None, entities: Iterable[Entity] = ()
    ) -> Documents:
        """Create documents from items in any order. Raises DataError if a time has no zone."""
        import pyarrow as pa  # noqa: PLC0415 - most markets have no documents

        table = None
        batches = list(_batches(items))
        if batches:
            table = _sort_rows(pa.Table.from_batches(batches))

        return cls(table, close or Close(), tuple(sorted(set(entities))))

    def first(self, count: int) -> Documents:
        """Return the `count` items that became known first."""
        if self.table is None or count == len(self):
            return self

        table = None
        if count:
            table = self.table.slice(0, count)
        return Documents(table, self.close, self.entities)

    def with_items(self, items: Iterable[Document]) -> Documents:
        """Return these documents with additional items. Raises DataError if a time has no zone."""
        import pyarrow as pa  # noqa: PLC0415 - most markets have no documents

        batches = list(_batches(items))
        if not batches:
            return self

        tables = [pa.Table.from_batches(batches)]
        if self.table is not None:
            tables.insert(0, self.table)
        return Documents(_sort_rows(pa.concat_tables(tables)), self.close, self.entities)

    @classmethod
    def read_stored(cls, table: pa.Table, close: Close, entities: Iterable[Entity]) -> Documents:
        """Return documents from a table in the format of `table`. Raises DataError if a column is
        missing or unexpected, or rows are out of order.
        """
        import pyarrow as pa  # noqa: PLC0415

        try:
            table = table.select(DOCUMENT_COLUMNS).cast(_schema())
        except (KeyError, pa.ArrowException, ValueError) as error:
            raise DataError(
                f"documents: not a table of documents: {' '.join(str(error).split())}"
            ) from error

        documents = cls(table if len(table) else None, close, tuple(sorted(set(entities))))
        if (
            any(column.null_count for column in table.columns)
            or (np.diff(documents.known_at) < 0).any()
        ):
            raise DataError("documents: empty cells, or rows that are not sorted by known_at")

        return documents

    @cached_property
    def known_at(self) -> IntArray:
        """[K] microseconds since 1970 UTC, ascending."""
        if self.table is None:
            return np.empty(0, np.int64)
        return np.asarray(self.table["known_at"].to_numpy())

    @cached_property
    def rows_of(self) -> dict[str, IntArray]:
        """Code -> rows of the items filed under it, ascending. The empty code has the rows of items
        about the market as a whole.
        """
        if self.table is None:
            return {}

        column = self.table["assets"].combine_chunks().dictionary_encode()
        groups = column.indices.to_numpy()
        texts = column.dictionary.to_pylist()
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(len(texts) + 1))
        parts_of: dict[str, list[IntArray]] = {}

        for index, text in enumerate(texts):
            rows = order[starts[index] : starts[index + 1]]
            for code in set(text.split()) or {""}:
                parts_of.setdefault(code, []).append(rows)

        return {code: np.sort(np.concatenate(parts)) for code, parts in parts_of.items()}

    @cached_property
    def digest(self) -> dict[str, str]:
        """SHA-256 of each part of the content: the columns, the close and the entities. The
        sentiment column is included only if an item has a sentiment.
        """
        parts = {}
        if self.table is not None:
            parts = {name: _column_hash(self.table[name]) for name in DOCUMENT_COLUMNS}
            if not self.has_sentiment:
                del parts["sentiment"]

        return {
            **parts,
            "close": content_hash(str(self.close)),
            "entities": content_hash(list(map(list, self.entities))),
        }

    @cached_property
    def has_sentiment(self) -> bool:
        """Return whether any item has a sentiment from the source."""
        if self.table is None:
            return False

        import pyarrow.compute as pc  # noqa: PLC0415 - most markets have no documents

        return bool(pc.any(pc.not_equal(self.table["sentiment"], "")).as_py())

    def __bool__(self) -> bool:
        """Return whether there are items or entities to store."""
        return self.table is not None or bool(self.entities)

    def __len__(self) -> int:
        return len(self.known_at)

    def __getitem__(self, row: int) -> Document:
        """Return the item in a row. Raises DataError if the row does not exist."""
        if self.table is None or not 0 <= row < len(self):
            raise DataError(f"there is no document {row}; the market has {len(self)}")
        cells = {name: self.table[name][row].as_py() for name in TEXT_FIELDS}
        published, offset = (
            self.table[name][row].as_py() for name in ("published_at", "utc_offset")
        )
        return Document(
            _moment_of_stamp(published).astimezone(timezone(timedelta(minutes=offset))),
            _moment_of_stamp(int(self.known_at[row])),
            **{**cells, "assets": tuple(cells["assets"].split())},
        )

    def __iter__(self) -> Iterator[Document]:
        return map(self.__getitem__, range(len(self)))

    def cutoffs(self, days: npt.NDArray[np.datetime64], venues: Iterable[Venue] = ()) -> IntArray:
        """Return the times up to which items are known at the close of each of `days`, in
        microseconds since 1970 UTC. `venues`: those of the market, which may close early. Shape:
        [D].
        """
        closes = np.array([self.close.instant(day) for day in days], dtype=np.int64)
        return np.minimum(closes, early_closes(venues, days))

    def as_of(
        self, days: npt.NDArray[np.datetime64], cutoffs: IntArray | None = None
    ) -> DocumentsView:
        """Return the documents known at the close of the last of `days`, which are the [T] trading
        days up to the cursor. `cutoffs`: as from `cutoffs` for these days or more; None: no half
        days.
        """
        if cutoffs is None:
            cutoffs = self.cutoffs(days)
        return DocumentsView(self, cutoffs[: len(days)])


class DocumentsView:
    """Documents known by the last of `cutoffs`, the [T] times of the days' closes; no later
    document can be reached.
    """

    __slots__ = ("_cutoffs", "_documents", "_end")

    def __init__(self, documents: Documents, cutoffs: IntArray) -> None:
        self._documents = documents
        self._cutoffs = cutoffs
        self._end = 0
        if len(documents):
            self._end = self._known_by(len(cutoffs) - 1)

    def __len__(self) -> int:
        return self._end

    def __iter__(self) -> Iterator[Document]:
        return map(self.__getitem__, range(self._end))

    def __getitem__(self, row: int) -> Document:
        """Return the item in a row. Raises LookAheadError if it is not known yet, DataError if the
        row is negative.
        """
        self._check(row)
        return self._documents[row]

    def day_of(self, row: int) -> int:
        """Row of the trading day at whose close an item was first known. Raises the same errors as
        indexing.
        """
        self._check(row)
        return int(np.searchsorted(self._cutoffs, self._documents.known_at[row]))

    def known_at(self, row: int) -> int:
        """Time from which an item is known, in microseconds since 1970 UTC. Raises the same errors
        as indexing.
        """
        self._check(row)
        return int(self._documents.known_at[row])

    def rows(self, days: int, codes: Sequence[str] | None = None) -> IntArray:
        """Return the rows of documents that became known in the last `days` trading days, newest
        first. `codes`: include only documents filed under these assets.
        """
        last = len(self._cutoffs) - 1
        first = 0
        if days <= last and self._end:
            first = self._known_by(last - days)

        if codes is None:
            return np.arange(self._end - 1, first - 1, -1)

        filed = (self._documents.rows_of.get(code, _NO_ROWS) for code in codes)
        parts = [
            rows[np.searchsorted(rows, first) : np.searchsorted(rows, self._end)] for rows in filed
        ]
        return np.unique(np.concatenate([_NO_ROWS, *parts]))[::-1]

    def _known_by(self, day: int) -> int:
        known_at = self._documents.known_at
        return int(np.searchsorted(known_at, self._cutoffs[day], side="right"))

    def _check(self, row: int) -> None:
        if row >= self._end:
            raise LookAheadError(
                f"document {row} requested at a close at which only {self._end} are known"
            )


def _moment_of_stamp(stamp: int) -> datetime:
    return EPOCH + stamp * MICROSECOND


def _schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415

    numbers = [("known_at", pa.int64()), ("published_at", pa.int64()), ("utc_offset", pa.int32())]
    return pa.schema([*numbers, *((name, pa.large_string()) for name in TEXT_FIELDS)])


def _batches(items: Iterable[Document]) -> Iterator[pa.RecordBatch]:
    """Yield record batches of `_BATCH` items. As Python objects, a million texts would take several
    times as much memory.
    """
    import pyarrow as pa  # noqa: PLC0415

    schema = _schema()
    iterator = iter(items)
    while rows := [_document_cells(item) for item in islice(iterator, _BATCH)]:
        columns = zip(*rows, strict=True)
        yield pa.record_batch(
            [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)],
            schema=schema,
        )


def _document_cells(item: Document) -> tuple[int | str, ...]:
    offset = item.published_at.utcoffset()
    if offset is None or item.known_at.utcoffset() is None:
        raise DataError(
            f"document {item.title[:40]!r}: a time has no time zone; add one to published_at and"
            " known_at"
        )
    known, published = (
        (moment - EPOCH) // MICROSECOND for moment in (item.known_at, item.published_at)
    )
    return (
        known,
        published,
        offset // timedelta(minutes=1),
        item.source,
        item.kind,
        " ".join(item.assets),
        item.title,
        item.text,
        item.sentiment,
    )


def _sort_rows(table: pa.Table) -> pa.Table:
    """Return the rows in an order that depends only on their content."""
    import pyarrow.compute as pc  # noqa: PLC0415

    # A table that is already in order is not copied, because its texts may be large.
    if (np.diff(table["known_at"].to_numpy()) > 0).all():
        return table

    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in _ORDER])
    if (np.diff(order.to_numpy()) == 1).all():
        return table
    return table.take(order)


def _column_hash(column: pa.ChunkedArray) -> str:
    """Return the SHA-256 of a column's values, however they are chunked. Numbers are hashed as
    little-endian int64, texts as their byte lengths followed by a separate hash of their UTF-8
    bytes.
    """
    lengths = hashlib.sha256()
    content = hashlib.sha256()
    for chunk in column.chunks:
        if not len(chunk):
            continue

        if len(chunk.buffers()) == 2:  # numbers
            lengths.update(chunk.to_numpy().astype("<i8").tobytes())
            continue

        offsets = np.frombuffer(chunk.buffers()[1], np.int64, len(chunk) + 1, chunk.offset * 8)
        lengths.update(np.diff(offsets).astype("<i8").tobytes())
        if offsets[-1] > offsets[0]:
            content.update(memoryview(chunk.buffers()[2])[int(offsets[0]) : int(offsets[-1])])

    return content_hash([lengths.hexdigest(), content.hexdigest()])


_NO_ROWS: IntArray = np.empty(0, np.int64)
NO_DOCUMENTS = Documents()
