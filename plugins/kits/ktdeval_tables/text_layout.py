"""Find the layout of a table in text form: delimiter, title, header of one or two rows, first row,
decimal mark.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ktdeval.errors import DataError, UsageError
from ktdeval.market import parse_code
from ktdeval.values import first_words
from ktdeval_tables.days import looks_like_day
from ktdeval_tables.headerless_bars import KLINES, are_klines, guess_names, name_klines
from ktdeval_tables.names import is_asset, squeeze_name, vendor_names
from ktdeval_tables.numbers import COMMA, MISSING, NUMBER, POINT, UNCLEAR, decimal_mark

_SERVER_WORDS = re.compile(
    r"\b(?:error|not found|forbidden|denied|limit|unavailable|no data|invalid)\b", re.IGNORECASE
)
BLANKS = r"\s+"  #: delimiter of a table whose columns are aligned with spaces
# the comma comes last, since next to another delimiter it may be a decimal mark
_DELIMITERS = ("\t", ";", "|", ",")
_ROWS = 200  # number of rows from which the layout is determined
_TITLES = 30  # maximum number of lines before a header
_NOTHING = frozenset(word.lower() for word in MISSING)
_GROUPED_BY_POINTS = re.compile(r"[1-9][0-9]{0,2}(?:\.[0-9]{3})+")
_POINT_DECIMAL = re.compile(r"[0-9]+\.[0-9]{1,2}")
_SPOKEN = re.compile(r"[:：\s#©]|[一-鿿]")  # characters that occur in a footer, but never in a code
# matches a number of rows, such as `1834`, `20 rows`
_COUNT = re.compile(r"[1-9][0-9,.]*(?: [A-Za-z一-鿿][^0-9]*)?")
_WORDS = re.compile(r"[^\W\d]+\s\w")  # matches the start of a footer
_EVENTS = ("capitalgains", "repaired")
_FIELDS_OF_PAIRS = ("open", "high", "low", "close", "volume", "adjusted_close", "dividend", "split")
# separators between field and asset in one column name, as in `Close_AAPL`, `BTC:open`
_BETWEEN = re.compile(r"[:|_. ]")
_QUOTED_PAIR = re.compile(r"\('(.+)', '(.+)'\)")  # how pandas writes column names with two levels


@dataclass(frozen=True)
class Layout:
    """Layout of a table in text form. Lines count from 1."""

    delimiter: str
    header: tuple[str, ...]  #: column names without repeats, or the names given by `--columns`
    header_line: int  #: line of the header; 0 without a header
    first_line: int  #: line of the first row
    title: str = ""  #: text before the header
    below: str = ""  #: text between header and first row
    tickers: tuple[str, ...] = ()  #: second header row: the assets of all columns but the first
    decimal: str = POINT
    sample: tuple[tuple[str, ...], ...] = ()  #: first rows
    #: whether the file has no header and the names are the usual ones of klines
    is_guessed: bool = False

    def cells_of(self, column: str) -> list[str]:
        """Return the cells of a column in the first rows."""
        place = self.header.index(column)
        return [row[place] for row in self.sample if place < len(row)]

    def is_footer(self, line: str) -> bool:
        """Return whether a line at the end describes the table, such as `数据来源:通达信`."""
        cells = [cell for cell in split(line, self.delimiter) if cell]
        if self.delimiter == BLANKS:
            cells = [line.strip()]

        if len(self.header) < 2 or len(cells) != 1:
            return False

        words = cells[0]
        if words[0].isdigit():
            return self._is_count(words, line)

        return bool(_SPOKEN.search(words))

    def is_apart(self, line: str) -> bool:
        """Return whether a line below an empty one is text rather than a row, such as `Date
        downloaded 04/06/2019, 6:29 PM`. Such a line has fewer cells than half of the columns, and
        its first cell is text.
        """
        cells = [cell for cell in split(line, self.delimiter) if cell]
        is_narrow = self.delimiter != BLANKS and 0 < len(cells) < len(self.header) / 2
        return is_narrow and bool(_WORDS.match(cells[0])) and not looks_like_day(cells[0])

    def _is_count(self, words: str, line: str) -> bool:
        """Return whether a line's only cell is a row count: it is neither a day nor the code of a
        truncated row.
        """
        if not _COUNT.fullmatch(words) or looks_like_day(words, stamps=True):
            return False

        is_bare = self.delimiter == BLANKS or self.delimiter not in line.replace(words, "")
        first_cells = [row[0] for row in self.sample if row and row[0]]
        has_days = bool(first_cells) and looks_like_day(first_cells[0], stamps=True)
        return has_days or is_bare


def split(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, stripped."""
    if delimiter == BLANKS:
        return line.split()
    cells = next(csv.reader([line], delimiter=delimiter), [])
    return [cell.strip() for cell in cells]


def find_layout(
    lines: Sequence[str],
    known: Collection[str],
    columns: Sequence[str],
    where: str,
) -> Layout:
    """Return the layout of a table, determined from its first lines.

    `known`: squeezed column names; `columns`: names given by `--columns`. Raises DataError if the
    table has no header, or if the file is empty; UsageError if `--columns` is given although there
    is a header.
    """
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise DataError(f"{where}: can't read: No columns; the file is empty")

    first_lines = numbered[:_ROWS]
    _refuse_words(first_lines, known, where)
    delimiter = _delimiter([line for _, line in first_lines])
    rows = [(number, split(line, delimiter)) for number, line in first_lines]
    place = _header_place([cells for _, cells in rows], known)
    if place is None:
        if not columns and "return" in known and _are_days_and_numbers(rows):
            # a series, which pandas writes without a header
            columns = ("date", "1")
        return _without_header(rows, delimiter, columns, where)

    number, names = rows[place]
    if columns:
        text = numbered[place][1].strip()[:80]
        found = f"{where}: line {number} is a header ({text}), and --columns applies to files without one"
        raise UsageError(f"{found}; leave it out, or use --map")

    by_asset = _columns_by_asset(rows, place, known)
    if by_asset is not None:
        return _layout_by_asset(rows, number, by_asset, delimiter)

    first = place + 1 + len(_names_below(rows, place))
    first_line = number + 1
    if first < len(rows):
        first_line, _ = rows[first]

    sample = tuple(tuple(cells) for _, cells in rows[first:])
    return Layout(
        delimiter=delimiter,
        header=_name_columns(names),
        header_line=number,
        first_line=first_line,
        title=_joined_lines(numbered[:place]),
        below=_joined_lines(numbered[place + 1 : first]),
        decimal=_decimal(sample, delimiter),
        sample=sample,
    )


def _refuse_words(numbered: Sequence[tuple[int, str]], known: Collection[str], where: str) -> None:
    """Raise DataError for a one-line file that is neither a header nor a row, such as a server's
    error message.
    """
    if len(numbered) > 1:
        return

    number, line = numbered[0]
    cells = split(line, _delimiter([line]))
    if _is_data(cells) or any(squeeze_name(cell) in known for cell in cells):
        return

    # any other line may be private, such as a password in a file that was named by mistake
    is_from_server = _SERVER_WORDS.search(line) is not None
    quoted = f": {first_words(line)}" if is_from_server else ""
    raise DataError(
        f"{where}: line {number} is all that it holds, and no table{quoted}; download the file"
        " again"
    )


def _joined_lines(numbered: Sequence[tuple[int, str]]) -> str:
    """Return numbered lines as one text."""
    return " ".join(line.strip() for _, line in numbered)


def _delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that splits most lines into the same number of cells."""
    max_lines = 0
    max_cells = 0
    best = ""
    for delimiter in _DELIMITERS:
        widths = Counter(len(split(line, delimiter)) for line in lines if delimiter in line)
        for width, count in widths.items():
            if width > 1 and (count, width) > (max_lines, max_cells):
                max_lines = count
                max_cells = width
                best = delimiter

    half = len(lines) // 2
    if max_lines > half or (best and len(lines) < 3):
        return best

    in_columns = Counter(len(line.split()) for line in lines)
    width, count = in_columns.most_common(1)[0]
    if width >= 5 and count > half:
        return BLANKS
    return best or ","


def _header_place(rows: Sequence[Sequence[str]], known: Collection[str]) -> int | None:
    """Return the index of the header among the rows, or None if data rows come first."""
    width = Counter(map(len, rows)).most_common(1)[0][0]
    likely = None
    for place, row in enumerate(rows[:_TITLES]):
        found = sum(squeeze_name(cell) in known for cell in row)
        if found >= 2:
            return place
        if _is_above_days(rows[place : place + 2]):
            return place
        if not found and _is_data(row):
            # Even a header without known names has one cell for each column.
            return likely

        if likely is None and (found or len(row) >= width):
            likely = place

    return likely


def _is_above_days(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the second of two rows has a day, while the first has only names, such as
    codes: no numbers and no days.
    """
    if len(rows) < 2 or len(rows[0]) != len(rows[1]):
        return False

    above, below = rows
    if any(NUMBER.fullmatch(cell) or looks_like_day(cell, stamps=True) for cell in above):
        return False
    return any(looks_like_day(cell) for cell in below)


def _is_data(row: Sequence[str]) -> bool:
    """Return whether a row has cells such as days, numbers or codes, not names."""
    telling = [cell for cell in row if cell]
    count = 0
    for cell in telling:
        if NUMBER.fullmatch(cell) or looks_like_day(cell) or parse_code(cell):
            count += 1

    return count >= 2 or (count > 0 and count == len(telling))


def _names_below(rows: Sequence[tuple[int, list[str]]], place: int) -> list[list[str]]:
    """Return the rows below a header that repeat its names or contain units. Such rows have words
    in the day column.
    """
    days = {*vendor_names()["date"], "date", "tradedate", "day"}
    columns = [index for index, name in enumerate(rows[place][1]) if squeeze_name(name) in days]
    below: list[list[str]] = []
    if not columns:
        return below

    for _, cells in rows[place + 1 : place + 4]:
        first = cells[columns[0]] if columns[0] < len(cells) else ""
        if not first or re.search(r"[0-9]", "".join(cells)):
            return below

        below.append(cells)

    return []


def _are_days_and_numbers(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Return whether each row consists of a day and a number."""
    for _, cells in rows:
        if len(cells) != len(("day", "number")) or not looks_like_day(cells[0]):
            return False
        if not NUMBER.fullmatch(cells[1]):
            return False
    return True


def _without_header(
    rows: Sequence[tuple[int, list[str]]],
    delimiter: str,
    columns: Sequence[str],
    where: str,
) -> Layout:
    """Return the layout of a table without a header. Raises DataError if the columns are
    not named.
    """
    number, cells = rows[0]
    bare_rows = [row for _, row in rows]
    is_guessed = not columns and len(cells) == len(KLINES) and are_klines(bare_rows)
    if is_guessed:
        columns = name_klines(bare_rows)

    if not columns:
        guess = guess_names(bare_rows)
        if "date" not in guess or "close" not in guess:
            guess = ["date", "code", "open", "high", "low", "close", "volume"]

        shown = delimiter.join(cells) if delimiter != BLANKS else " ".join(cells)
        found = f"{where}: line {number} ({shown[:80]}) is a row of data: the file has no header"
        advice = f"name its columns in order, `-` for others: --columns {','.join(guess)}"
        raise DataError(f"{found}; {advice} (if that is what they are)")

    width = max(len(row) for _, row in rows)
    if len(columns) != width:
        counts = f"number of columns: {len(columns)} in --columns, {width} in line {number}"
        raise DataError(f"{where}: {counts}; write `-` for others")

    unread = [f"-{place}" if name in ("-", "") else name for place, name in enumerate(columns)]
    sample = tuple(tuple(row) for _, row in rows)
    decimal = _decimal(sample, delimiter)

    return Layout(
        delimiter=delimiter,
        header=_name_columns(unread),
        header_line=0,
        first_line=number,
        decimal=decimal,
        sample=sample,
        is_guessed=is_guessed,
    )


@dataclass(frozen=True)
class _ColumnsByAsset:
    """Columns of a table that has one column per asset, or one per field and asset."""

    fields: Sequence[str]  #: fields of all columns but the first
    assets: Sequence[str]  #: likewise
    first: int  #: index of the first row below the header


def _columns_by_asset(
    rows: Sequence[tuple[int, list[str]]],
    place: int,
    known: Collection[str],
) -> _ColumnsByAsset | None:
    """Return the meaning of a header's columns; None if they are only fields.

    The header may have one row for fields and another for assets, as yfinance writes it. It may
    have both in each name. Or it may have only assets: it is then a table of closes, if the reader
    accepts such tables.
    """
    for fields, tickers in ((place, place + 1), (place, place - 1)):
        if not 0 <= tickers < len(rows):
            continue

        names = rows[fields][1][1:]
        assets = rows[tickers][1][1:]
        same_width = len(names) == len(assets) and len(names) > 1
        has_day = looks_like_day(rows[tickers][1][0], stamps=True)
        if same_width and not has_day and _all_fields(names) and _all_tickers(assets):
            return _ColumnsByAsset(names, assets, max(fields, tickers) + 1)

    names = rows[place][1][1:]
    first_cells = [cells[0] for _, cells in rows[place + 1 :]]
    has_days = bool(first_cells) and all(looks_like_day(cell, stamps=True) for cell in first_cells)
    if "close" not in known or len(names) < 2 or not has_days:
        return None

    split_names = [_field_and_asset(name) for name in names]
    if all(split_names):
        fields_of, assets_of = zip(*filter(None, split_names), strict=True)
        return _ColumnsByAsset(fields_of, assets_of, place + 1)

    are_closes = all(is_asset(name) and squeeze_name(name) not in known for name in names)
    if are_closes and _are_numbers(rows[place + 1 :]):
        return _ColumnsByAsset(["close"] * len(names), names, place + 1)
    return None


def _field_and_asset(name: str) -> tuple[str, str] | None:
    """Return the field and the asset in a column name such as `BTC:open`, `Close_AAPL` or
    `('Close', 'AAPL')`; None if it does not have both.
    """
    quoted = _QUOTED_PAIR.fullmatch(name)
    plain = f"{quoted[1]}:{quoted[2]}" if quoted else name
    for mark in _BETWEEN.finditer(plain):
        before = plain[: mark.start()]
        after = plain[mark.end() :]
        if _all_fields([before]) and is_asset(after):
            return before, after
        if _all_fields([after]) and is_asset(before):
            return after, before

    return None


def _are_numbers(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Return whether all cells but the first are numbers or empty."""
    cells = [cell for _, row in rows for cell in row[1:] if cell.lower() not in _NOTHING]
    return bool(cells) and all(map(NUMBER.fullmatch, cells))


def _all_tickers(names: Sequence[str]) -> bool:
    """Return whether all names are symbols or codes, neither numbers nor fields."""
    for name in names:
        if not re.search(r"[A-Za-z]", name) and not parse_code(name):
            return False

    return not _all_fields(names)


def _all_fields(names: Sequence[str]) -> bool:
    """Return whether all names are fields that an asset has."""
    known = {*_FIELDS_OF_PAIRS, *_EVENTS}
    for field in _FIELDS_OF_PAIRS:
        known.update(vendor_names().get(field, ()))
    return all(squeeze_name(name) in known for name in names)


def _layout_by_asset(
    rows: Sequence[tuple[int, list[str]]],
    header_line: int,
    columns: _ColumnsByAsset,
    delimiter: str,
) -> Layout:
    """Return the layout of a table with columns for each asset, whose header begins at
    `header_line`.
    """
    first = columns.first
    # A row that only has the word Date often follows the header.
    if first < len(rows) and not any(rows[first][1][1:]):
        first += 1

    first_line = header_line + 1
    if first < len(rows):
        first_line, _ = rows[first]

    sample = tuple(tuple(cells) for _, cells in rows[first:])
    return Layout(
        delimiter=delimiter,
        header=("Date", *columns.fields),
        header_line=header_line,
        first_line=first_line,
        tickers=tuple(columns.assets),
        decimal=_decimal(sample, delimiter),
        sample=sample,
    )


def _decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    cells = [cell.rstrip("%KMBkmb万亿 ") for row in rows for cell in row]
    mark = decimal_mark(cells)
    if delimiter == ";" and mark == POINT and _may_group(cells):
        return UNCLEAR
    if delimiter != ",":
        return mark

    # In a comma-separated table, only quoted cells contain a comma, which then groups thousands, as
    # in 1,234.
    has_points = any(map(_POINT_DECIMAL.fullmatch, cells))
    return COMMA if mark == COMMA and not has_points else POINT


def _may_group(cells: Sequence[str]) -> bool:
    """Return whether dots in numbers may group thousands. Three digits then follow each dot, as in
    `9.100` in countries where tables use semicolons.
    """
    pointed = [cell for cell in cells if "." in cell and NUMBER.fullmatch(cell)]
    are_days = all(looks_like_day(cell, stamps=True) for cell in pointed)
    return not are_days and all(map(_GROUPED_BY_POINTS.fullmatch, pointed))


def each_once(names: Sequence[str]) -> tuple[str, ...]:
    """Return names with a number appended to repeated ones, as pandas does: close, close.1."""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        unique.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1

    return tuple(unique)


def _name_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Return distinct names. Empty ones are named as in pandas: Unnamed: 0."""
    return each_once([name or f"Unnamed: {place}" for place, name in enumerate(names)])
