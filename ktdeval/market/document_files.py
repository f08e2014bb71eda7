"""Documents and entities from files of a source, and the faults of documents."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ktdeval.errors import DataError
from ktdeval.fields import near_matches
from ktdeval.jsonio import dumps_canonical, loads_untrusted, open_plain
from ktdeval.market.close import Close
from ktdeval.market.documents import Document, Documents, Entity, EntityKind
from ktdeval.market.snapshot import parse_code, parse_symbol

Rows = Iterator[tuple[str, Mapping[str, Any]]]
_FIELDS = ("published_at", "known_at", "source", "kind", "assets", "title", "text")
_SEPARATORS = re.compile(r"[\s,;|]+")
_CSV_CELL = 1 << 24  # characters; a filing is longer than the default of 131,072
_FIX = "write 2024-01-02T10:00:00+08:00"


def read_documents(path: Path, close: Close | None = None, entities: Path | None = None) -> Documents:
    """Read the items of a .jsonl, .csv (both also .gz) or .parquet file with columns published_at, source, kind, assets, title,
    text, and optionally known_at (published_at where it is absent or empty); the entities of another one with code, kind, text.
    `close`: see `Close`. Raises DataError: a file is unreadable, or a row is bad, with its line and how to fix it.
    """
    named = [] if entities is None else read_entities(entities)
    return Documents.of((_document(row, where) for where, row in _rows(path, _FIELDS)), close, named)


def read_entities(path: Path) -> list[Entity]:
    """Read the entities of a .jsonl, .csv (both also .gz) or .parquet file with code, kind, text. Raises as of `read_documents`."""
    return [_entity(row, where) for where, row in _rows(path, Entity._fields)]


def faults(documents: Documents, codes: frozenset[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Kind, count and first examples of each fault; `codes`: of all assets of the market."""
    if documents.table is None:
        return
    import pyarrow.compute as pc  # noqa: PLC0415 - most markets have no documents

    table = documents.table
    kinds = Counter(table["kind"].to_pylist()).most_common(5)
    yield "documents", len(documents), [f"{kind or 'no kind'} {count}" for kind, count in kinds]
    early = documents.known_at < table["published_at"].to_numpy()
    empty = pc.equal(pc.binary_length(pc.utf8_trim_whitespace(table["text"])), 0).to_numpy()
    repeated = table.select(["known_at", "source", "title", "text"]).to_pandas().duplicated().to_numpy()
    for kind, mask in (("documents_known_early", early), ("documents_empty", empty), ("documents_repeated", repeated)):
        rows = np.flatnonzero(mask)
        yield kind, len(rows), [_label(documents, int(row)) for row in rows[:5]]
    yield "documents_without_entities", 0 if documents.entities else len(documents), []
    unknown = {code: len(rows) for code, rows in sorted(documents.rows_of.items()) if code and code not in codes}
    yield "documents_of_unknown_assets", sum(unknown.values()), [f"{code} {count}" for code, count in unknown.items()][:5]


def _label(documents: Documents, row: int) -> str:
    item = documents[row]
    return f"{item.published_at.isoformat()} {item.title[:40] or item.source}"


# --- rows of files


def _rows(path: Path, fields: tuple[str, ...]) -> Rows:
    """Location (for messages) and cells of each row; cells that the file lacks are absent."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        return _parquet_rows(path, fields)
    if not name.endswith((".jsonl", ".csv")):
        raise DataError(f"{path}: unknown kind of file; expected .jsonl, .csv (also .gz) or .parquet")
    return _text_rows(path, fields, _json_rows if name.endswith(".jsonl") else _csv_rows)


def _text_rows(path: Path, fields: tuple[str, ...], reader: Any) -> Rows:
    try:
        with open_plain(path) as plain:
            stream = gzip.GzipFile(fileobj=plain) if path.name.endswith(".gz") else plain
            yield from reader(path, io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""), fields)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise DataError(f"{path}: can't read: {' '.join(str(error).split())}") from error


def _json_rows(path: Path, stream: io.TextIOWrapper, fields: tuple[str, ...]) -> Rows:
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            row = loads_untrusted(line)
            if "\\u" in line:
                dumps_canonical(row).encode()  # a lone surrogate is no text
        except ValueError as error:
            raise DataError(f"{where}: not valid JSON: {error}; write one object a line") from error
        if not isinstance(row, dict):
            raise DataError(f"{where}: expected an object with {', '.join(fields)}")
        _refuse_unknown(row, fields, where)
        yield where, row


def _csv_rows(path: Path, stream: io.TextIOWrapper, fields: tuple[str, ...]) -> Rows:
    csv.field_size_limit(_CSV_CELL)
    reader = csv.DictReader(stream, strict=True)
    names = reader.fieldnames or ()
    _refuse_unknown(dict.fromkeys(names), fields, f"{path}: line 1")
    if doubled := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{path}: line 1: column {doubled[0]!r} stands twice; keep one")
    for row in reader:
        where = f"{path}: line {reader.line_num}"
        if None in row or None in row.values():
            raise DataError(f"{where}: expected {len(reader.fieldnames or ())} cells; quote texts with commas or line breaks")
        yield where, row


def _parquet_rows(path: Path, fields: tuple[str, ...]) -> Rows:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        open_plain(path).close()
        with pq.ParquetFile(path) as file:
            _refuse_unknown(dict.fromkeys(file.schema_arrow.names), fields, str(path))
            number = 0
            for batch in file.iter_batches(batch_size=10_000):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", row
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: can't read: {' '.join(str(error).split())}") from error


def _refuse_unknown(row: Mapping[str, Any], fields: tuple[str, ...], where: str) -> None:
    if unknown := [str(name) for name in row if name not in fields]:
        hint = near_matches(unknown[0], fields) or "; fields: " + ", ".join(fields)
        raise DataError(f"{where}: {unknown[0]!r} is no field{hint}")


def _document(row: Mapping[str, Any], where: str) -> Document:
    published = _moment(row.get("published_at"), f"{where}: published_at")
    known = row.get("known_at")
    texts = {name: _text(row, name, where) for name in ("source", "kind", "title", "text")}
    return Document(
        published, published if known in (None, "") else _moment(known, f"{where}: known_at"), assets=_codes(row, where), **texts
    )


def _entity(row: Mapping[str, Any], where: str) -> Entity:
    code, kind, text = (_text(row, name, where).strip() for name in Entity._fields)
    if kind not in get_args(EntityKind):
        raise DataError(f"{where}: kind {kind!r} is unknown; expected one of {', '.join(get_args(EntityKind))}")
    if not code or len(text) < 1:
        raise DataError(f"{where}: code and text must not be empty; fill them in or leave the row out")
    return Entity(document_code(code), kind, text)  # type: ignore[arg-type]


def _moment(value: Any, where: str) -> datetime:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise DataError(f"{where}: {str(value)[:40]!r} is no time; {_FIX}") from None
    if moment.utcoffset() is None:
        raise DataError(f"{where}: {str(value)[:40]!r} has no time zone; {_FIX}")
    return moment


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{where}: {name}: expected text, was {type(value).__name__}; put it in quotes")
    return value or ""


def _codes(row: Mapping[str, Any], where: str) -> tuple[str, ...]:
    value = row.get("assets")
    codes = _SEPARATORS.split(value) if isinstance(value, str) else [] if value is None else value
    if not isinstance(codes, list) or not all(isinstance(code, str) and not _SEPARATORS.search(code) for code in codes):
        raise DataError(f'{where}: assets: expected codes with a space between, or a list of them; write "600519.SH 000001.SZ"')
    return tuple(dict.fromkeys(document_code(code) for code in codes if code))


def document_code(text: str) -> str:
    """Return the code under which documents have an asset that a user or a vendor writes as `text`."""
    return parse_code(text) or parse_symbol(text) or text
