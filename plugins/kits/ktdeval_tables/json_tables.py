"""Tables anywhere in a JSON document: lists of objects, columns of equal length, objects by day,
and pandas' formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ktdeval.values import JsonValue
from ktdeval_tables.days import looks_like_day
from ktdeval_tables.numbers import NUMBER
from ktdeval_tables.readers.rows import WrittenNumber
from ktdeval_tables.readers.text_encoding import UnreadableError

Row = Mapping[str, JsonValue]

MAX_LEVELS = 8  #: maximum depth at which lists and objects are searched for tables
MAX_TABLES = 20_000
_FLATTENED = 2  # number of levels of nested objects whose cells become cells of the enclosing row
_KIND = "type"  # key that states the kind of a log line
_MAX_KINDS = 20
KEY = "key"  #: name of the column for the keys of an object whose values are rows


@dataclass
class FoundTable:
    """A table found in a document, with its cells as text."""

    name: str
    rows: list[dict[str, str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    unit: str = "row"
    facts: dict[str, str] = field(default_factory=dict)


def tables_in(documents: Sequence[tuple[int, JsonValue]]) -> list[FoundTable]:
    """Return the tables in JSON values. `documents`: values with their line numbers.

    Raises UnreadableError if there are too many tables.
    """
    if len(documents) == 1:
        found = list(_tables(documents[0][1], "", {}, 0))
    else:
        found = list(_of_lines(documents))

    if len(found) > MAX_TABLES:
        raise UnreadableError(f"holds more than {MAX_TABLES} tables; write the one that counts")
    return found


def _of_lines(documents: Sequence[tuple[int, JsonValue]]) -> Iterator[FoundTable]:
    for name, own in _by_kind(documents).items():
        rows = [value for _, value in own]
        for table in _tables(rows, name, {}, 0):
            if len(table.rows) == len(own):
                table.lines = [line for line, _ in own]
                table.unit = "line"
            yield table


def _by_kind(
    documents: Sequence[tuple[int, JsonValue]],
) -> Mapping[str, list[tuple[int, JsonValue]]]:
    """Return the lines of a log grouped by their `type`, if the kinds share few keys; otherwise a
    single group with an empty name.
    """
    kinds: dict[str, list[tuple[int, JsonValue]]] = {}
    keys: dict[str, set[str]] = {}
    for line, value in documents:
        row = value if isinstance(value, Mapping) else {}
        kind = row.get(_KIND)
        if not isinstance(kind, str) or len(kinds) > _MAX_KINDS:
            return {"": list(documents)}
        kinds.setdefault(kind, []).append((line, value))
        keys.setdefault(kind, set()).update(row)

    for first, second in combinations(keys.values(), 2):
        if 2 * len(first & second) >= len(first | second):
            return {"": list(documents)}
    return kinds if len(kinds) > 1 else {"": list(documents)}


def _tables(value: JsonValue, name: str, above: Row, level: int) -> Iterator[FoundTable]:
    """Yield the tables in a value. `above`: single values of the enclosing object."""
    if level > MAX_LEVELS:
        return
    if isinstance(value, list):
        yield from _of_list(value, name, above)
    elif isinstance(value, Mapping):
        yield from _of_object(value, name, above, level)


def _of_list(values: Sequence[JsonValue], name: str, above: Row) -> Iterator[FoundTable]:
    rows = [value for value in values if isinstance(value, Mapping)]
    if rows and len(rows) == len(values):
        if any(map(_singles, rows)):
            yield _table(name, rows, above)
        yield from _children(rows, name)
        return
    if rows:
        number = [isinstance(value, Mapping) for value in values].index(False) + 1
        raise UnreadableError(f"{name or 'list'}: row {number}: expected an object")

    lists = [value for value in values if isinstance(value, list)]
    widths = {len(each) for each in lists}
    if len(lists) < len(values) or len(widths) != 1 or widths == {0} or not lists:
        return

    names = [str(place) for place in range(widths.pop())]
    if _are_names(lists[0]) and len(lists) > 1:
        names = [str(cell) for cell in lists.pop(0)]
    yield _table(name, [dict(zip(names, each, strict=True)) for each in lists], above)


def _children(rows: Sequence[Row], name: str) -> Iterator[FoundTable]:
    """Yield the tables in lists that are cells of rows. Each of their rows also has the single
    values of its parent row.
    """
    inner: dict[str, list[Row]] = {}
    for row in rows:
        own = {key: value for key, value in row.items() if not isinstance(value, list)}
        for key, value in row.items():
            if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
                found = inner.setdefault(f"{name}.{key}" if name else key, [])
                found += [{**own, **each} for each in value]

    for own_name, found in inner.items():
        if found:
            yield _table(own_name, found, {})


def _of_object(value: Row, name: str, above: Row, level: int) -> Iterator[FoundTable]:
    facts = {**above, **_singles(value)}
    split = _of_split(value)
    lists = {key: item for key, item in value.items() if isinstance(item, list)}
    columns = {key: item for key, item in lists.items() if _is_column(item)}
    widths = Counter(map(len, columns.values()))
    max_count = max(widths.values(), default=0)
    columns = {key: item for key, item in columns.items() if widths[len(item)] == max_count}
    if split:
        yield _table(name, split, facts)
        return
    if len(columns) > 1:
        cells = zip(*columns.values(), strict=True)
        yield _table(name, [dict(zip(columns, row, strict=True)) for row in cells], facts)
    elif len(value) > 0 and all(map(looks_like_day, value)):
        yield _table(name, list(_by_day(value)), above)
        return
    elif _are_frames(value):
        yield _table(name, _transpose(value), above)
        return
    elif _are_rows(value):
        rows = [{KEY: key, **item} for key, item in value.items()]  # type: ignore[dict-item]
        yield _table(name, rows, above)
        yield from _children(rows, name)
        yield from _inner_tables(value, name, level)
        return
    elif level == 0:
        single = _as_texts(value, 1)
        if len(single) > 1:
            yield FoundTable(name, [single], [1])

    for key, item in value.items():
        if key not in columns:
            own = f"{name}.{key}" if name else key
            yield from _tables(item, own, {**facts, KEY: key}, level + 1)


def _inner_tables(value: Row, name: str, level: int) -> Iterator[FoundTable]:
    """Yield the tables in the objects and lists of lists inside rows that are keyed in an
    object.
    """
    for key, row in value.items():
        for inner_key, inner in row.items():  # type: ignore[union-attr]
            if isinstance(inner, Mapping) or _are_lists(inner):
                yield from _tables(inner, f"{name}.{key}.{inner_key}", {}, level + 2)


def _are_lists(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, list) for item in value)


def _of_split(value: Row) -> list[Row]:
    """Return the rows of a table that stores its column names separately from its rows, which are
    lists. pandas writes such frames as columns, index and data. Empty for other tables.
    """
    names = _names_beside(value)
    index = value.get("index")
    rows: list[Row] = []
    for place, cells in enumerate(_lists_in(value)):
        if len(cells) != len(names):
            return []
        row = dict(zip(map(str, names), cells, strict=True))
        if isinstance(index, list) and place < len(index):
            row = {"": index[place], **row}
        rows.append(row)
    return rows


def _names_beside(value: Row) -> Sequence[JsonValue]:
    """Return the column names in an object; empty without names."""
    names = value.get("columns")
    if isinstance(names, list):
        return names

    for item in value.values():
        if isinstance(item, list) and item and _are_names(item):
            return item
    return ()


def _lists_in(value: Row) -> Sequence[Sequence[JsonValue]]:
    """Return the first list of lists in an object; empty without such a list."""
    for item in value.values():
        if isinstance(item, list) and _are_lists(item):
            return item
    return ()


def _by_day(value: Row) -> Iterator[Row]:
    """Yield the rows of an object keyed by day."""
    for day, item in value.items():
        items = item if isinstance(item, list) else [item]
        for each in items:
            if isinstance(each, Mapping):
                yield {"date": day, **each}
            else:
                yield {"date": day, "value": each}


def _are_frames(value: Row) -> bool:
    """Return whether an object contains columns keyed by day."""
    for item in value.values():
        if not isinstance(item, Mapping) or not item or not all(map(looks_like_day, item)):
            return False
        if any(isinstance(cell, Mapping | list) for cell in item.values()):
            return False
    return len(value) > 0


def _transpose(value: Row) -> list[Row]:
    rows: dict[str, dict[str, JsonValue]] = {}
    for name, cells in value.items():
        for day, cell in cells.items():  # type: ignore[union-attr]
            rows.setdefault(day, {"date": day})[name] = cell
    return list(rows.values())


def _are_rows(value: Row) -> bool:
    """Return whether an object holds rows by key, all with shared column names. If rows contain
    lists of objects, the keys must be numbers; otherwise each value is a separate document.
    """
    rows = [item for item in value.values() if isinstance(item, Mapping)]
    are_numbered = all(key.isdecimal() for key in value)
    if not rows or len(rows) < len(value) or (len(rows) < 2 and not are_numbered):
        return False
    if any(map(_holds_objects, rows)) and not all(map(str.isdecimal, value)):
        return False
    shared = set(rows[0]).intersection(*rows)
    return len(shared) > 1 and all(_singles(row) for row in rows)


def _holds_objects(row: Row) -> bool:
    """Return whether a cell of a row is a list of objects."""
    lists = [cell for cell in row.values() if isinstance(cell, list)]
    return any(len(cells) > 0 and isinstance(cells[0], Mapping) for cells in lists)


def _is_column(item: JsonValue) -> bool:
    if not isinstance(item, list) or not item:
        return False
    return not any(isinstance(cell, Mapping | list) for cell in item)


def _are_names(cells: Sequence[JsonValue]) -> bool:
    """Return whether all cells are words, neither numbers nor days."""
    for cell in cells:
        if not isinstance(cell, str) or isinstance(cell, WrittenNumber):
            return False
        if NUMBER.fullmatch(cell) or looks_like_day(cell):
            return False
    return True


def _singles(value: Row) -> Row:
    """Return the values of an object that are neither lists nor objects."""
    return {key: item for key, item in value.items() if not isinstance(item, Mapping | list)}


def _table(name: str, rows: Sequence[Row], facts: Row) -> FoundTable:
    texts = [_as_texts(row) for row in rows]
    numbers = list(range(1, len(rows) + 1))
    return FoundTable(name, texts, numbers, facts=_as_texts(facts))


def _as_texts(row: Row, levels: int = _FLATTENED) -> dict[str, str]:
    """Return the cells of a row as text. Cells of nested objects have dotted names."""
    texts: dict[str, str] = {}
    for name, cell in row.items():
        if isinstance(cell, Mapping) and levels:
            for inner, text in _as_texts(cell, levels - 1).items():
                texts[f"{name}.{inner}"] = text
        elif not isinstance(cell, Mapping | list):
            texts[name] = _text(cell)
    return texts


def _text(cell: JsonValue) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(cell)
