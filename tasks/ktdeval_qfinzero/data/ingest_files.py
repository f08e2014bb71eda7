"""Reading CSV and JSON files as records of text, each with its line; sizes are bounded, and what
can't be read is a problem.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from io import BufferedReader, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from ktdeval.errors import ConfigError
from ktdeval.values.bounded import open_unpacked
from ktdeval.values.fields import near_matches
from ktdeval.values.jsonio import (
    MOST_LEVELS,
    JsonValue,
    is_nested_within,
    reject_constant,
    unique_fields,
)
from ktdeval_qfinzero.data.blocks import Problems
from ktdeval_qfinzero.data.ingest_spec import TableSource
from ktdeval_qfinzero.data.rows import IntArray
from ktdeval_qfinzero.data.text_columns import Texts

ALIASES = {
    "ticker": "symbol",
    "code": "symbol",
    **dict.fromkeys(("window_start", "date", "datetime", "timestamp"), "time"),
}
"""Columns that are understood without being mapped, in any case of letters."""
SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".json")
LONGEST_LINE = 8 << 20
LARGEST_JSON = 256 << 20
_BLOCK = 8 << 20
_BATCH = 10_000
_MOST_SHAPES = 1_000
_ABSENT = "expected a column"


class Number(str):
    """A number in JSON, as it is written there."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a file."""

    line: int  #: line of the file; in `.json` the position in the list, from 1
    values: Mapping[str, JsonValue]  #: texts (CSV) or JSON values, numbers as `Number`


@dataclass(frozen=True, eq=False)
class Columns:
    """Rows of a file as columns of text."""

    lines: IntArray  #: [n] as of `Record`
    texts: Mapping[str, Texts]  #: by field, [n]; an empty text where there is nothing


@dataclass(frozen=True, slots=True)
class Source:
    """A file, and how its columns become fields."""

    path: Path  #: the file
    name: str  #: what it is called in messages
    fields: tuple[str, ...]  #: all that there are
    required: tuple[str, ...]  #: those that must be there
    renamed: Mapping[str, str]  #: column -> field, as the user says
    ignored: tuple[str, ...]  #: columns to pass over; `*` for all unknown ones

    def field_of(self, column: str) -> str:
        """Return the field of a column; empty where it is ignored or unknown."""
        if column in self.renamed:
            return self.renamed[column]

        plain = column.strip().lower()
        for name in (column, plain, ALIASES.get(plain, "")):
            if name in self.fields:
                return "" if name in self.renamed.values() else name

        return ""

    def column_problems(self, columns: Sequence[str]) -> list[str]:
        """Return what is wrong with the columns of a file."""
        fields = [self.field_of(column) for column in columns]
        lines: list[str] = []
        for column, field in zip(columns, fields, strict=True):
            is_ignored = column in self.ignored or "*" in self.ignored
            if not field and not is_ignored:
                near = near_matches(column, self.fields)
                lines.append(
                    f"{column[:40]!r}: no such field{near}; map it under columns, or name it under"
                    " ignore"
                )

        several = sorted({field for field in fields if field and fields.count(field) > 1})
        lines += [f"{field}: expected one column, not several" for field in several]
        lines += [f"{field}: {_ABSENT}" for field in self.required if field not in fields]

        return lines


def source_of(
    file: tuple[Path, str], fields: tuple[str, ...], required: tuple[str, ...], spec: TableSource
) -> Source:
    """Return a file (path, name in messages) with its spec. Raises ConfigError: the user maps an
    unknown field.
    """
    for field in spec.columns:
        if field not in fields:
            near = near_matches(field, fields) or f"; fields: {', '.join(fields)}"
            raise ConfigError(f"{file[1]}: columns: {field[:40]!r} is no field{near}")

    renamed = {column: field for field, column in spec.columns.items()}
    return Source(*file, fields, required, renamed, spec.ignore)


def sources_of(base: Path, pattern: str) -> list[tuple[Path, str]]:
    """Return the files of a pattern, with their names in messages. Raises ConfigError: there is
    none, or one of another kind.
    """
    matches = glob(pattern, root_dir=base, recursive=True)  # noqa: PTH207 - Path.glob raises on absolute patterns and on `**.csv`
    if (base / pattern).is_file():  # a name with characters that a pattern would interpret
        matches = [pattern]

    paths = [base / name for name in matches]
    files = sorted(path for path in paths if path.is_file())
    if not files:
        raise ConfigError(f"{pattern}: no such file in {base}")

    for path in files:
        if not path.name.endswith(SUFFIXES):
            raise ConfigError(
                f"{path}: unknown kind of file; expected one of {', '.join(SUFFIXES)}"
            )

    return [(path, _name_of(path, base)) for path in files]


def _name_of(path: Path, base: Path) -> str:
    """Return what a file is called in messages: its path from the base, where it lies in it."""
    if path.is_relative_to(base):
        return path.relative_to(base).as_posix()
    return str(path)


def records_of(source: Source, problems: Problems) -> Iterator[Record]:
    """Yield the rows of a file with their fields; malformed rows become problems."""
    with _problems_of(source, problems):
        if _is_csv(source):
            yield from _csv_records(source, problems)
        else:
            yield from _json_records(source, problems)


def columns_of(source: Source, problems: Problems) -> Iterator[Columns]:
    """Yield the rows of a file as columns of text, some thousands at a time."""
    if _is_csv(source):
        with _problems_of(source, problems):
            yield from _csv_columns(source, problems)

        return

    records = records_of(source, problems)
    batch = list(islice(records, _BATCH))
    while batch:
        yield _as_columns(source, batch)
        batch = list(islice(records, _BATCH))


def shown(text: str) -> str:
    """Return a cell as messages show it."""
    if not text:
        return "nothing"
    return ascii(text if len(text) <= 40 else f"{text[:40]}…")


def plain_json(value: JsonValue) -> JsonValue:
    """Return a JSON value with its numbers as numbers. Raises ValueError: a number too large for
    any.
    """
    if isinstance(value, Number):
        is_whole = not set(value) & set(".eE")
        number = int(value) if is_whole else float(value)
        if not math.isfinite(number) or abs(number) > 1e300:
            raise ValueError(f"{value[:20]} is too large")

        return number

    if isinstance(value, Mapping):
        return {key: plain_json(item) for key, item in value.items()}

    if isinstance(value, list):
        return [plain_json(item) for item in value]

    return value


def read_json(text: str) -> JsonValue:
    """JSON with numbers as they are written; strict. Raises ValueError: malformed, a key given
    twice, NaN or Infinity.
    """
    try:
        value: JsonValue = _DECODER.decode(text)
        if not is_nested_within(text, MOST_LEVELS):
            raise RecursionError
    except RecursionError as error:
        raise ValueError("nested too deeply") from error

    return value


class _Unreadable(Exception):
    """A file that can't be read on."""


_DECODER = json.JSONDecoder(
    parse_float=Number,
    parse_int=Number,
    parse_constant=reject_constant,
    object_pairs_hook=unique_fields,
)


def _is_csv(source: Source) -> bool:
    return source.path.name.endswith((".csv", ".csv.gz"))


@contextmanager
def _problems_of(source: Source, problems: Problems) -> Iterator[None]:
    """Report a file that can't be read to its end as a problem."""
    try:
        yield
    except UnicodeDecodeError:
        problems.add(f"{source.name}: expected text in UTF-8")
    except (OSError, EOFError, zlib.error, csv.Error, pa.ArrowException, _Unreadable) as error:
        problems.add(f"{source.name}: can't be read: {' '.join(str(error).split())[:200]}")


def _opened(path: Path) -> TextIO:
    return TextIOWrapper(open_unpacked(path), encoding="utf-8-sig", newline="")


def _lines(stream: TextIO) -> Iterator[str]:
    line = stream.readline(LONGEST_LINE + 1)
    while line:
        if len(line) > LONGEST_LINE:
            raise _Unreadable(f"a line has more than {LONGEST_LINE} characters")

        yield line
        line = stream.readline(LONGEST_LINE + 1)


def _csv_records(source: Source, problems: Problems) -> Iterator[Record]:
    with _opened(source.path) as stream:
        reader = csv.reader(_lines(stream), strict=True)
        header = next(reader, [])
        wrong = source.column_problems(header)
        problems.add_all(f"{source.name}:1", wrong)
        fields = [source.field_of(column) for column in header]

        if wrong:
            return

        for cells in reader:
            if cells and len(cells) != len(fields):
                problems.add(
                    f"{source.name}:{reader.line_num}: row: expected {len(fields)} cells, was"
                    f" {len(cells)}"
                )
            elif any(cells):
                pairs = zip(fields, cells, strict=True)
                values = {field: cell for field, cell in pairs if field}
                yield Record(reader.line_num, values)


def _json_records(source: Source, problems: Problems) -> Iterator[Record]:
    shapes: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    reported: set[str] = set()
    for line, value in _json_values(source, problems):
        if not isinstance(value, dict):
            problems.add(f"{source.name}:{line}: row: expected an object")
            continue

        keys = tuple(value)
        if keys not in shapes:
            # A missing field is for the reader of the row to notice; an unknown one is reported
            # once a file.
            wrong = [text for text in source.column_problems(keys) if not text.endswith(_ABSENT)]
            new = [text for text in wrong if text not in reported]
            problems.add_all(f"{source.name}:{line}", new)
            reported |= set(new)
            if len(shapes) >= _MOST_SHAPES:
                shapes.clear()

            fields = [(key, source.field_of(key)) for key in keys]
            shapes[keys] = [(key, field) for key, field in fields if field]

        values = {field: value[key] for key, field in shapes[keys] if value[key] is not None}
        yield Record(line, values)


def _json_values(source: Source, problems: Problems) -> Iterator[tuple[int, JsonValue]]:
    with _opened(source.path) as stream:
        if source.path.name.endswith(".json"):
            yield from enumerate(_json_list(stream), start=1)
            return

        for number, line in enumerate(_lines(stream), start=1):
            if line.strip():
                try:
                    yield number, read_json(line)
                except ValueError as error:
                    problems.add(f"{source.name}:{number}: row: expected JSON: {str(error)[:80]}")


def _json_list(stream: TextIO) -> list[JsonValue]:
    text = stream.read(LARGEST_JSON + 1)
    if len(text) > LARGEST_JSON:
        raise _Unreadable(f"more than {LARGEST_JSON} characters; write JSON lines")

    try:
        value = read_json(text)
    except ValueError as error:
        raise _Unreadable(f"not JSON: {str(error)[:80]}") from error

    if not isinstance(value, list):
        raise _Unreadable("expected a list of objects")

    return value


def _as_columns(source: Source, records: Sequence[Record]) -> Columns:
    texts: dict[str, Texts] = {}
    for field in source.fields:
        cells = [_cell(record.values.get(field)) for record in records]
        texts[field] = pa.array(cells, pa.string())

    return Columns(np.array([record.line for record in records], np.int64), texts)


def _cell(value: JsonValue) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value

    return json.dumps(value)[:100]


def _csv_columns(source: Source, problems: Problems) -> Iterator[Columns]:
    with _opened(source.path) as stream:
        header = next(csv.reader(_lines(stream), strict=True), [])

    wrong = source.column_problems(header)
    problems.add_all(f"{source.name}:1", wrong)
    if not wrong:
        yield from _arrow_columns(source, header, problems)


class _Utf8:
    """Bytes of a stream that are held to be UTF-8 as they pass: the reader of Arrow prints a
    traceback where it is to report a line that is not.
    """

    closed = False

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int = -1) -> bytes:
        """Return some bytes. Raises UnicodeDecodeError."""
        data = self._stream.read(size)
        self._decoder.decode(data, final=not data)
        return data

    def close(self) -> None:
        """Release the file."""
        self.closed = True
        self._stream.close()


def _arrow_columns(source: Source, header: Sequence[str], problems: Problems) -> Iterator[Columns]:
    """Read the rows at several times the speed of the standard library's reader. A line that isn't
    a row is a problem, and is skipped.
    """
    skipped: list[int] = []

    def skip(row: pa_csv.InvalidRow) -> str:
        skipped.append(row.number)
        problems.add(
            f"{source.name}:{row.number}: row: expected {row.expected_columns} cells, was"
            f" {row.actual_columns}"
        )
        return "skip"

    column_of = {source.field_of(column): column for column in header}
    column_of.pop("", None)
    reader = pa_csv.open_csv(
        _Utf8(open_unpacked(source.path)),
        pa_csv.ReadOptions(block_size=_BLOCK, use_threads=False),
        pa_csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=skip),
        pa_csv.ConvertOptions(
            column_types={column: pa.string() for column in header},
            include_columns=list(column_of.values()),
            strings_can_be_null=False,
        ),
    )
    line = 2

    for batch in reader:
        lines = np.arange(line, line + len(batch) + len(skipped) + 1, dtype=np.int64)
        lines = lines[~np.isin(lines, skipped)][: len(batch)]
        if len(lines):
            line = int(lines[-1]) + 1

        filled = np.zeros(len(batch), bool)
        for column in batch.columns:
            filled |= np.asarray(pc.not_equal(column, "").to_numpy(zero_copy_only=False), bool)

        rows = pa.array(filled)
        texts = dict.fromkeys(source.fields, pa.array([""] * int(filled.sum()), pa.string()))
        for field, column in zip(column_of, batch.columns, strict=True):
            texts[field] = column.filter(rows)

        yield Columns(lines[filled], texts)
