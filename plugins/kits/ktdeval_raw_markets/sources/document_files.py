"""Read documents and entities from a source's files, and find faults in documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market import Close, Document, Documents, Entity, EntityKind, parse_code, parse_symbol
from ktdeval_raw_markets.sources.sentiment import MAX_CHARACTERS, sentiment_text, split_sentiment
from ktdeval_tables.readers.rows import TableFile, TableShape, read_rows

Rows = Iterator[tuple[str, Mapping[str, Any]]]
# Our own columns first, then vendors' columns (Alpha Vantage: overall_…); labels before scores
_SENTIMENT_FIELDS = (
    "sentiment",
    "sentiment_label",
    "overall_sentiment_label",
    "sentiment_score",
    "overall_sentiment_score",
)
_FIELDS = (
    "published_at",
    "known_at",
    "source",
    "kind",
    "assets",
    "title",
    "text",
    *_SENTIMENT_FIELDS,
)
_SEPARATORS = re.compile(r"[\s,;|]+")
_FIX = "write 2024-01-02T10:00:00+08:00"


def read_documents(
    path: Path,
    close: Close | None = None,
    entities: Path | Iterable[Entity] | None = None,
    renewed: Mapping[str, str] | None = None,
) -> Documents:
    """Read documents from a .jsonl, .csv (both also .gz) or .parquet file.

    Its columns are `published_at`, `source`, `kind`, `assets`, `title`, `text`, and optionally
    `known_at` (by default, and if empty: `published_at`) and a sentiment. The sentiment is a label
    or score, in a column `sentiment` or a vendor's column. Without such a column, a sentiment at
    the end of the text is used. `entities`: another file with `code`, `kind`, `text`, or its
    contents. `close`: see `Close`. `renewed`: current codes of former codes, under which items may
    be filed. Raises DataError if a file can't be read or a row is invalid; the message has the line
    and how to fix it.
    """
    named: list[Entity] = []
    if isinstance(entities, Path):
        named = read_entities(entities)
    elif entities is not None:
        named = list(entities)

    items = (_document(row, where) for where, row in _read_located_rows(path, _FIELDS))
    if renewed:
        current = renewed
        items = (_refiled(item, current) for item in items)
    return Documents.of(items, close, named)


def _refiled(item: Document, renewed: Mapping[str, str]) -> Document:
    """Return an item filed under the current codes of its assets."""
    codes = dict.fromkeys(renewed.get(code, code) for code in item.assets)
    return item._replace(assets=tuple(codes))


def read_entities(path: Path) -> list[Entity]:
    """Read entities from a .jsonl, .csv (both also .gz) or .parquet file with `code`, `kind`,
    `text`. Raises the same errors as `read_documents`.
    """
    return [entity_of(row, where) for where, row in _read_located_rows(path, Entity._fields)]


def faults(documents: Documents, codes: frozenset[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each fault's kind, count and first examples. `codes`: codes of the market's assets."""
    if documents.table is None:
        return

    import pyarrow.compute as pc  # noqa: PLC0415 - most markets have no documents

    table = documents.table
    kinds = Counter(table["kind"].to_pylist()).most_common(5)
    yield "documents", len(documents), [f"{kind or 'no kind'} {count}" for kind, count in kinds]

    early = documents.known_at < table["published_at"].to_numpy()
    trimmed = pc.utf8_trim_whitespace(table["text"])
    empty = pc.equal(pc.binary_length(trimmed), 0).to_numpy()
    content = table.select(["known_at", "source", "title", "text", "sentiment"])
    repeated = content.to_pandas().duplicated().to_numpy()

    for kind, mask in (
        ("documents_known_early", early),
        ("documents_empty", empty),
        ("documents_repeated", repeated),
    ):
        rows = np.flatnonzero(mask)
        yield kind, len(rows), [_label(documents, int(row)) for row in rows[:5]]

    without_entities = 0 if documents.entities else len(documents)
    yield "documents_without_entities", without_entities, []

    unknown = 0
    examples = []
    for code, rows in sorted(documents.rows_of.items()):
        if code and code not in codes:
            unknown += len(rows)
            examples.append(f"{code} {len(rows)}")

    yield "documents_of_unknown_assets", unknown, examples[:5]


def _label(documents: Documents, row: int) -> str:
    item = documents[row]
    return f"{item.published_at.isoformat()} {item.title[:40] or item.source}"


# --- rows of files


def _read_located_rows(path: Path, fields: tuple[str, ...]) -> Rows:
    """Return each row's location (for messages) and cells; columns that the file lacks are
    absent.
    """
    table = TableFile(path, TableShape(fields))
    for row in read_rows(table):
        yield table.place(row.line), row.cells


def _document(row: Mapping[str, Any], where: str) -> Document:
    published = _parse_moment(row.get("published_at"), f"{where}: published_at")
    texts = {name: _text_cell(row, name, where) for name in ("source", "kind", "title", "text")}

    known = published
    if row.get("known_at") not in (None, ""):
        known = _parse_moment(row["known_at"], f"{where}: known_at")

    stated = _stated_sentiment(row, where)
    labelled = split_sentiment(texts["text"])
    # A label in the text that contradicts the column stays in the text.
    if not stated or stated.casefold() == labelled.sentiment.casefold():
        texts["text"] = labelled.text

    sentiment = stated or labelled.sentiment
    return Document(published, known, assets=_asset_codes(row, where), sentiment=sentiment, **texts)


def _stated_sentiment(row: Mapping[str, Any], where: str) -> str:
    """Return the sentiment from the first non-empty sentiment column; empty if all are empty."""
    for name in _SENTIMENT_FIELDS:
        value = row.get(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise DataError(
                f"{where}: {name}: expected a label or a number, was {type(value).__name__}; write"
                ' "positive" or 0.35'
            )

        try:
            return sentiment_text(value)
        except ValueError as error:
            raise DataError(
                f"{where}: {name}: {error}; write a label of at most {MAX_CHARACTERS} characters"
                ' such as "positive", or a number'
            ) from error

    return ""


def entity_of(row: Mapping[str, Any], where: str) -> Entity:
    """Return the entity in a row with `code`, `kind`, `text`. Raises DataError if a cell is empty
    or not text, or the kind is unknown; the message begins with `where`.
    """
    code = _text_cell(row, "code", where).strip()
    kind = _text_cell(row, "kind", where).strip().lower()
    text = _text_cell(row, "text", where).strip()

    kinds = get_args(EntityKind)
    if kind not in kinds:
        raise DataError(f"{where}: kind {kind!r} is unknown; expected one of {', '.join(kinds)}")
    if not code or len(text) < 1:
        raise DataError(f"{where}: code and text must not be empty; fill them in or remove the row")

    return Entity(document_code(code), kind, text)  # type: ignore[arg-type]


def _parse_moment(value: Any, where: str) -> datetime:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise DataError(f"{where}: {str(value)[:40]!r} is not a time; {_FIX}") from None

    if moment.utcoffset() is None:
        raise DataError(f"{where}: {str(value)[:40]!r} has no time zone; {_FIX}")

    return moment


def _text_cell(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise DataError(
            f"{where}: {name}: expected text, was {type(value).__name__}; put it in quotes"
        )
    return value or ""


def _asset_codes(row: Mapping[str, Any], where: str) -> tuple[str, ...]:
    value = row.get("assets")
    codes = value
    if value is None:
        codes = []
    elif isinstance(value, str):
        codes = _SEPARATORS.split(value)

    if not isinstance(codes, list) or not all(map(_is_code, codes)):
        raise DataError(
            f"{where}: assets: expected codes separated by spaces, or a list of codes; write"
            ' "600519.SH 000001.SZ"'
        )
    return tuple(dict.fromkeys(document_code(code) for code in codes if code))


def _is_code(value: Any) -> bool:
    return isinstance(value, str) and not _SEPARATORS.search(value)


def document_code(text: str) -> str:
    """Convert a user's or vendor's spelling of an asset's code to the spelling in documents."""
    return parse_code(text) or parse_symbol(text) or text
