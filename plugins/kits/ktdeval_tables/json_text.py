"""Tables in JSON, as the text of a CSV file: bars by day, rows as objects or as lists, one document
or one a line.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from ktdeval.market import parse_code
from ktdeval.values import (
    LARGEST_JSON,
    SIGNATURE_BYTES,
    UTF8,
    JsonValue,
    marked_encoding,
    open_unpacked,
    other_kind,
    read_exact_json,
)
from ktdeval_tables.days import looks_like_day

Row = Mapping[str, JsonValue]

_CCXT = ("date", "open", "high", "low", "close", "volume")
_SYMBOL = re.compile(r"[A-Z0-9][A-Z0-9._/-]{0,23}")
_CODES = ("symbol", "ticker")
_CODE = "symbol"  #: name of the column of the code that a document has beside its rows


def is_json(file: Path) -> bool:
    """Whether a file is JSON by its first bytes."""
    with open_unpacked(file) as stream:
        return other_kind(stream.read(SIGNATURE_BYTES)).startswith("JSON")


def json_as_text(file: Path) -> str:
    """Return the table in a JSON file as CSV, numbers as they are written. Raises ValueError: it is
    not valid, or no table.
    """
    with open_unpacked(file) as stream:
        data = stream.read(LARGEST_JSON + 1)
    if len(data) > LARGEST_JSON:
        raise ValueError(f"more than {LARGEST_JSON} bytes of JSON; save it as .csv")

    text = data.decode(marked_encoding(file) or UTF8)
    rows: list[Row] = []
    for document in _documents(text):
        rows += _rows(document, "")

    header = list(dict.fromkeys(chain.from_iterable(rows)))
    if len(header) < 2:
        raise ValueError(f"by its first bytes it is {other_kind(data[:SIGNATURE_BYTES])}")

    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(header)
    for row in rows:
        table.writerow([row.get(name, "") for name in header])
    return written.getvalue()


def _documents(text: str) -> Iterator[JsonValue]:
    """Yield one JSON document, or that of each line."""
    try:
        yield read_exact_json(text)
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise ValueError(f"not valid JSON: {str(error)[:80]}") from error
        yield from map(read_exact_json, lines)


def _rows(value: JsonValue, code: str, names: Sequence[JsonValue] = _CCXT) -> Iterator[Row]:
    """Yield the rows of a document, each with its code where the document names one.

    `names`: those of the cells of a row that is a list. Raises ValueError: an item is no row.
    """
    if isinstance(value, Mapping):
        yield from _rows_of_object(value, code or _code_in(value))
        return

    own = {_CODE: code} if code else {}
    items = value if isinstance(value, list) else [value]
    for number, item in enumerate(items, 1):
        if isinstance(item, Mapping):
            yield {**own, **item}
        elif isinstance(item, list) and len(item) == len(names):
            yield {**own, **dict(zip(map(str, names), item, strict=True))}
        else:
            expected = ", ".join(map(str, names))
            raise ValueError(
                f"row {number} of a list is no object with names, and no list of {expected};"
                " save it as .csv"
            )


def _rows_of_object(value: Row, code: str) -> Iterator[Row]:
    if not any(isinstance(item, Mapping | list) for item in value.values()):
        yield value  # a row itself
        return

    tables = {key: item for key, item in value.items() if _is_table(item)}
    is_by_code = all(map(_SYMBOL.fullmatch, tables)) and (len(tables) > 1 or not code)
    if len(tables) > 1 and not is_by_code:
        raise ValueError(f"it holds several tables ({', '.join(tables)}); keep that of the bars")

    names = _names_beside(value)
    for key, table in tables.items():
        own_code = key if is_by_code else code
        if isinstance(table, Mapping):
            yield from _rows_by_key(table, own_code)
        else:
            yield from _rows(table, own_code, names)


def _rows_by_key(table: Row, code: str) -> Iterator[Row]:
    """Yield the rows of an object of bars by day, or of an object of tables."""
    if not all(map(looks_like_day, table)):
        yield from _rows_of_object(table, code)
        return

    own = {_CODE: code} if code else {}
    for day, bar in table.items():
        (row,) = _rows([bar], "")
        yield {"date": day, **own, **row}


def _is_table(value: JsonValue) -> bool:
    """Whether a value of an object holds rows."""
    if isinstance(value, Mapping):
        return any(isinstance(item, Mapping | list) for item in value.values())
    return isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value)


def _names_beside(value: Row) -> Sequence[JsonValue]:
    """Return the names of columns that an object has beside rows that are lists; ccxt's if none."""
    for item in value.values():
        if isinstance(item, list) and item and all(isinstance(name, str) for name in item):
            return item
    return _CCXT


def _code_in(value: Row) -> str:
    """Return the code that an object, or one in it, names beside a table; empty without one."""
    for key, item in value.items():
        if isinstance(item, Mapping):
            code = _code_in(item)
            if code:
                return code
        elif isinstance(item, str) and _is_code(key.rpartition(" ")[2].lower(), item):
            return item
    return ""


def _is_code(name: str, word: str) -> bool:
    """Whether a field is a code of an asset: `code` may also be that of an answer, such as 200."""
    return name in _CODES or (name == "code" and parse_code(word) is not None)
