"""Bars in a JSON or XML document, as the text of a CSV file. Finds the table of bars and
its asset.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ktdeval.market import parse_code
from ktdeval.values import SIGNATURE_BYTES, JsonValue, other_kind
from ktdeval_tables.json_tables import KEY, FoundTable, tables_in
from ktdeval_tables.readers.text_encoding import UnreadableError
from ktdeval_tables.table_sources import TableSource
from ktdeval_tables.xml_tables import xml_tables

_CCXT = ("date", "open", "high", "low", "close", "volume")
_PLACES = tuple(map(str, range(len(_CCXT))))  # names of unnamed columns
_SYMBOL = re.compile(r"[A-Z0-9][A-Z0-9._/-]{0,23}")
_CODES = ("symbol", "ticker")
_CODE = "symbol"  # column for the code that a document states outside its rows


def bars_as_text(source: TableSource) -> str:
    """Return the bars in a document as CSV, with numbers as written. Raises DataError if the
    document is not valid; ValueError if it has no table, or several.
    """
    rows: list[Mapping[str, str]] = []
    if source.kind == "xml":
        rows += _rows_of(xml_tables(source.data), "")
    else:
        for line, document in source.documents:
            tables = tables_in([(line, document)])
            if not tables and len(source.documents) > 1:
                raise UnreadableError("holds no row of names and values", line)
            rows += _rows_of(tables, _code_in(document))

    header = list(dict.fromkeys(chain.from_iterable(rows)))
    if len(header) < 2:
        found = other_kind(source.text.encode()[:SIGNATURE_BYTES])
        raise ValueError(f"by its first bytes it is {found}")

    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(header)
    for row in rows:
        table.writerow([row.get(name, "") for name in header])
    return written.getvalue()


def _rows_of(tables: Sequence[FoundTable], code: str) -> Iterator[Mapping[str, str]]:
    """Yield the rows of bar tables, each with its code if the document states one. Raises
    ValueError if the tables differ in kind.
    """
    outer = [table for table in tables if not _is_inner(table, tables)]
    keys = [_key_of(table) for table in outer]
    is_by_code = all(map(_SYMBOL.fullmatch, keys)) and (len(outer) > 1 or not code)
    if len(outer) > 1 and not is_by_code:
        names = ", ".join(table.name for table in outer)[:200]
        raise ValueError(f"it holds several tables ({names}); keep that of the bars")

    for table, key in zip(outer, keys, strict=True):
        own_code = key if is_by_code else code
        own = {_CODE: own_code} if own_code else {}
        for row in table.rows:
            if tuple(row) == _PLACES:
                yield {**own, **dict(zip(_CCXT, row.values(), strict=True))}
            else:
                yield {**own, **row}


def _is_inner(table: FoundTable, tables: Sequence[FoundTable]) -> bool:
    """Return whether a table is inside the rows of another table, or holds the single values
    outside the other tables.
    """
    others = [other for other in tables if other is not table]
    if not table.name and len(table.rows) == 1:
        return bool(others)
    return any(_holds(other, table) for other in others)


def _holds(outer: FoundTable, table: FoundTable) -> bool:
    """Return whether a table's name shows that it is inside the rows of another."""
    if not outer.name:
        return len(outer.rows) > 1
    return table.name.startswith(f"{outer.name}.")


def _key_of(table: FoundTable) -> str:
    """Return the key of a table; if it is not a symbol, the key of the enclosing object."""
    key = table.facts.get(KEY, "")
    if _SYMBOL.fullmatch(key):
        return key
    return table.name.removesuffix(f".{key}")


def _code_in(value: JsonValue) -> str:
    """Return the code that an object, or an object nested in it, states outside its rows; empty
    without a code.
    """
    if not isinstance(value, Mapping):
        return ""

    for key, item in value.items():
        code = _code_in(item)
        if code:
            return code
        if isinstance(item, str) and _is_code(key.rpartition(" ")[2].lower(), item):
            return item
    return ""


def _is_code(name: str, word: str) -> bool:
    """Return whether a field is an asset code. A field named `code` may also be a response's
    status, such as 200.
    """
    return name in _CODES or (name == "code" and parse_code(word) is not None)
