"""Read tables from files: find each field's column under any vendor's name for it, and normalise
the days, codes and flags in the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.errors import DataError, UsageError
from ktdeval.market import parse_code
from ktdeval.values import GZIP, ZIP, near_matches, open_parquet
from ktdeval_tables.aliases import aliases_of
from ktdeval_tables.codes import categories, code_in_name, code_in_title
from ktdeval_tables.days import looks_like_day
from ktdeval_tables.missing_columns import FileHeader, may_be_count, no_columns
from ktdeval_tables.names import (
    UNITS,
    coin_volumes,
    match_names,
    names_of,
    squeeze_name,
    unit_in,
)
from ktdeval_tables.numbers import to_numbers
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.readers.file_kinds import is_workbook
from ktdeval_tables.readers.text_encoding import first_bytes
from ktdeval_tables.row_keys import KeyedRows, key_column, repeats
from ktdeval_tables.row_places import with_places
from ktdeval_tables.table_sources import INDEX, UNREADABLE, kind_of, refuse_bytes, source_kind
from ktdeval_tables.text_table import TextTable, WantedColumns, as_one, open_table, table_in_text

#: suffixes of tables that always hold data, whatever other files are present
SUFFIXES = (".parquet", ".csv", ".csv.gz")
_OTHER_SUFFIXES = (".tsv", ".tsv.gz", ".xlsx")
# in a folder with other tables, files with these suffixes are descriptions
_LAST_SUFFIXES = (".txt", ".txt.gz")
_ALL_SUFFIXES = (*SUFFIXES, *_OTHER_SUFFIXES, *_LAST_SUFFIXES)
_TEXT_FIELDS = (
    "date",
    "time",
    "code",
    "in_date",
    "out_date",
    "name",
    "industry",
    "index_code",
    "traded",
    "complete",
    "special",
    "list_date",
    "code_then",
    "ratio",
    "venue",
    "kind",
    "currency",
    "text",
)
_TRUE = ("true", "1", "1.0", "yes", "y", "t", "是")
_FALSE = ("false", "0", "0.0", "no", "n", "f", "否")
_FLAGS = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
_TIMES = ("time", "时间")  # time columns next to the day column
_KEPT = "keep "  # prefix that marks row filters in field mappings
_ROWS = 2**20  # number of text file rows read at once
_MAX_NAMED = 3  # maximum number of assets in a note
_PACKED = "unpack it first"
_OTHER = "save it as .csv or .parquet"
_UNPACK = {
    ".zip": "unpack it first: unzip FILE",
    ".bz2": _PACKED,
    ".xz": _PACKED,
    ".zst": _PACKED,
    ".7z": _PACKED,
    ".rar": _PACKED,
    ".feather": _OTHER,
    ".json": _OTHER,
    ".pkl": _OTHER,
    ".h5": _OTHER,
    ".xls": "save it as .xlsx or .csv; if it is text, name it .txt",
    ".gz": "unpack it first, or name it .csv.gz",
}


def _table_files(path: Path) -> list[Path]:
    """Return the files of a table: the file itself, or all tables in a folder, sorted by name.
    Raises DataError if the folder has no tables.
    """
    if path.is_dir():
        inside = [child for child in path.iterdir() if child.is_file()]
        shown = [child for child in inside if not child.name.startswith((".", "~$"))]
        first = (*SUFFIXES, *_OTHER_SUFFIXES)
        files = sorted(child for child in shown if child.name.lower().endswith(first))

        if not files:
            files = sorted(child for child in shown if child.name.lower().endswith(_LAST_SUFFIXES))

        if not files:
            raise DataError(f"{path}: the folder holds no {', '.join(_ALL_SUFFIXES)} file")

        return files

    if not path.name.lower().endswith(_ALL_SUFFIXES) and not _is_table(path):
        advice = _UNPACK.get(path.suffix.lower(), "")
        expected = (
            f"unknown kind of file; expected one of {', '.join(_ALL_SUFFIXES)}, or a folder of them"
        )
        raise DataError(f"{path}: {'; '.join(filter(None, (expected, advice)))}")

    if not path.is_file():
        problem = "no such file"
        if path.exists():
            problem = "a pipe or device, not a file"
        raise DataError(f"{path}: {problem}")

    return [path]


def _is_table(path: Path) -> bool:
    """Return whether a file with another suffix is a table, judging by its first bytes. Raises
    DataError if they show a format that can't be read.
    """
    if not path.is_file():
        return False

    head = first_bytes(path)
    is_packed = head.startswith((GZIP, ZIP)) and not is_workbook(path, head)
    return head.startswith(GZIP) or (not is_packed and kind_of(path, head) != "text")


def stem(path: Path) -> str:
    """Return a file's name without its table suffix."""
    for suffix in _ALL_SUFFIXES:
        if path.name.lower().endswith(suffix):
            return path.name[: -len(suffix)]
    return path.name


def read_table(
    path: Path,
    fields: Sequence[str],
    optional: Sequence[str],
    mapping: Mapping[str, str],
    repeated: Sequence[str] = (),
    reading: ReadingOptions | None = None,
) -> pd.DataFrame:
    """Read the columns of a file, or of a folder of files, under the names of their fields.

    `mapping`: field -> column in the source, which takes precedence over the usual aliases. A field
    such as `in_date|date` is needed in one of the two forms. Without a code column, the code is
    taken from `reading`, from the title above the header, or, in a folder, from the file name.
    Dates, codes and other texts are strings (fields in `repeated` are categories), and numbers are
    float64.

    Raises DataError if a file is unreadable, or if one of `fields` has no column; UsageError if the
    mapping names another field.
    """
    how = reading or ReadingOptions()
    wanted = [name for field in fields for name in field.split("|")]
    frames = []
    places = []
    for file in _table_files(path):
        source = _open(file, wanted, optional, mapping, how)
        _refuse_other_columns(source, how.keep.keys())
        columns = _resolve(source, [*wanted, *optional], mapping, how)
        code = _code_of(source, path, columns, how)
        found = {*columns, "code"} if code else {*columns}
        lacking = [field for field in fields if found.isdisjoint(field.split("|"))]
        if lacking:
            raise DataError(_no_columns(source, lacking, columns, how))

        frame = _read_columns(source, columns, repeated, how.keep.keys())
        if "code" in fields and "code" not in columns:
            if "code" in repeated:
                frame["code"] = pd.Categorical([code]).repeat(len(frame))
            else:
                frame["code"] = code

        frames.append(frame)
        first_line = 0
        if isinstance(source, TextTable):
            first_line = source.layout.first_line

        places.append((file.name, len(frame), first_line))
        _notice(source, columns, how)

    with_rows = [frame for frame in frames if len(frame)]
    table = with_places(as_one(with_rows or frames[:1]), places)
    for column, value in how.keep.items():
        table = _keep_rows(table, column, value, path)
    return table


def _refuse_other_columns(source: _Source, names: Iterable[str]) -> None:
    """Raise DataError if a file lacks one of the named columns."""
    for name in names:
        if name not in source.header:
            hint = near_matches(name, source.header) or f"; columns: {', '.join(source.header)}"
            raise DataError(f"{source.file}: no column {name!r}{hint}")


def _keep_rows(table: pd.DataFrame, column: str, value: str, path: Path) -> pd.DataFrame:
    """Return the rows in which a column has a value, without that column. Rows keep their numbers,
    which errors use to find a row's line in its file.
    """
    cells = table.pop(_KEPT + column).astype(str).str.strip()
    is_kept = cells == value
    if not is_kept.any():
        known = ", ".join(cells.drop_duplicates()[:_MAX_NAMED])
        raise DataError(f"{path}: no row has {value!r} in column {column!r}; it has {known}")

    kept: pd.DataFrame = table[is_kept]
    return kept


def _notice(source: _Source, columns: Mapping[str, str], reading: ReadingOptions) -> None:
    """Record in `reading` what a file states outside its rows. Raises DataError if its units differ
    from those in earlier files.
    """
    for field in UNITS.keys() & columns.keys() & reading.columns_of.keys():
        before = reading.columns_of[field]
        now = columns[field]
        if unit_in(field, before) != unit_in(field, now):
            found = (
                f"column {now!r} has another unit by its name than {before!r} of the files before"
            )
            raise DataError(
                f"{source.file}: {found}; import the files of one unit, or bring them to one"
            )

    reading.columns_of.update(columns)
    reading.header.extend(source.header)
    if isinstance(source, TextTable):
        _note_layout(source, columns, reading)
        reading.titles.append(source.layout.title)
        free = [name for name in source.header if name not in columns.values()]
        reading.no_counts.extend(name for name in free if not may_be_count(source.cells_of(name)))
        if not reading.keep and ("code" in columns or reading.code):
            reading.sources.update(_sources(source, columns, free))

    for name in source.header:
        if squeeze_name(name) in _TIMES and name not in columns.values():
            reading.times.extend(source.cells_of(name))


def _note_layout(table: TextTable, columns: Mapping[str, str], reading: ReadingOptions) -> None:
    """Add a note on the layout detected for a table."""
    layout = table.layout
    if set(layout.header[1:]) == {"close"} and layout.tickers:
        assets = ", ".join(layout.tickers[:_MAX_NAMED])
        count = len(layout.tickers)
        reading.note(
            f"{table.file.name}: its columns are {count} assets ({assets}), read as closes"
        )

    if layout.is_guessed:
        places = {layout.header.index(name) + 1: field for field, name in columns.items()}
        named = ", ".join(f"{places[place]} {place}" for place in sorted(places))
        reading.note(f"a file without a header has the columns of klines ({named})")


def _sources(
    table: TextTable, columns: Mapping[str, str], free: Sequence[str]
) -> dict[str, Sequence[str]]:
    """Return the column that distinguishes rows with the same day and code in the first rows, and
    its values. Such rows are bars from several venues or vendors, or of several runs.
    """
    if table.layout.tickers or "date" not in columns:
        return {}

    keys = {
        name: table.layout.cells_of(columns[name]) for name in ("date", "code") if name in columns
    }
    cells = {name: table.layout.cells_of(name) for name in free}
    height = min(map(len, keys.values()), default=0)
    whole = {name: texts for name, texts in cells.items() if len(texts) == height}
    frame = pd.DataFrame({name: texts[:height] for name, texts in keys.items()}, dtype=str)
    if frame.empty or "date" not in frame or not frame.duplicated().any():
        return {}

    rows = KeyedRows(
        cells=pd.DataFrame(whole, index=frame.index, dtype=str),
        days=frame["date"],
        conflicts=repeats(frame),
        codes=frame.get("code"),
        is_complete=True,
    )
    key = key_column(rows)
    if key is None or not key.explains:
        return {}
    return {key.name: key.values}


class _ParquetFile:
    """Parquet file, in which columns have names and types."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.schema = pq.read_schema(file)
        self.header = tuple(self.schema.names)

    @property
    def has_days_in_its_index(self) -> bool:
        """True if it was written from a frame with days in an unnamed index."""
        return INDEX in self.header and pa.types.is_temporal(self.schema.field(INDEX).type)

    def cells_of(self, _: str) -> list[str]:
        """Return no cells, since a Parquet file's columns are only read when needed."""
        return []


_Source = _ParquetFile | TextTable


def _open(
    file: Path,
    fields: Sequence[str],
    optional: Sequence[str],
    mapping: Mapping[str, str],
    reading: ReadingOptions,
) -> _Source:
    """Open a file. Raises DataError if it can't be read."""
    known = {squeeze_name(column) for column in mapping.values()}
    for field in (*fields, *optional):
        known.update(names_of(field, aliases_of(reading)))

    try:
        if source_kind(file) == "parquet":
            if reading.columns:
                raise UsageError(
                    f"{file}: --columns applies to files without a header, and this one has names; use"
                    " --map"
                )

            return _by_asset(file, known, reading) or _ParquetFile(file)

        return open_table(file, known, reading)
    except UNREADABLE as error:
        raise DataError(f"{file}: can't read: {' '.join(str(error).split())}") from error


def _by_asset(file: Path, known: Set[str], reading: ReadingOptions) -> TextTable | None:
    """Return a Parquet file with columns for each asset in text form; None if its columns are
    fields.
    """
    names = pq.read_schema(file).names
    if "close" not in known or len(known & {*map(squeeze_name, names)}) > 1:
        return None

    with open_parquet(file) as table:
        frame = table.read().to_pandas()

    has_index = not isinstance(frame.index, pd.RangeIndex)
    table = table_in_text(frame.to_csv(index=has_index), file, known, reading)
    return table if table.layout.tickers else None


def _code_of(
    source: _Source, path: Path, columns: Mapping[str, str], reading: ReadingOptions
) -> str | None:
    """Return the code of a file without a code column; None if no code is stated."""
    if "code" in columns:
        return None
    if reading.code:
        return reading.code

    in_title = None
    if isinstance(source, TextTable):
        in_title = code_in_title(source.layout.title)

    in_name = code_in_name(stem(source.file))
    has_exchange = parse_code(in_name) is not None
    if path.is_dir():
        return in_name if has_exchange or in_title is None else in_title
    # The title's 000001 may mean two assets. A file name such as SH#000001.txt decides between
    # them.
    if in_title and has_exchange and in_title in in_name:
        return in_name

    return in_title


def _no_columns(
    source: _Source, fields: Sequence[str], columns: Mapping[str, str], reading: ReadingOptions
) -> str:
    """Return the error message for fields without a column."""
    line = 0
    cells = {}
    if isinstance(source, TextTable):
        line = source.layout.header_line
        cells = {name: source.cells_of(name) for name in source.header}

    header = FileHeader(source.file, source.header, cells, columns, line)
    return no_columns(header, fields, aliases_of(reading), reading)


def _resolve(
    source: _Source, fields: Sequence[str], mapping: Mapping[str, str], reading: ReadingOptions
) -> dict[str, str]:
    """Return the column of each field that has one. Raises UsageError or DataError if the mapping
    is wrong, or if two columns match a field.
    """
    header = source.header
    file = source.file
    for field in mapping:
        if field not in fields:
            hint = near_matches(field, fields) or "; fields: " + ", ".join(fields)
            raise UsageError(f"map: {field!r} is not a field of {file.name}{hint}")

    _refuse_other_columns(source, mapping.values())

    # A column that the user maps to one field is not also matched to another by its name.
    free = [name for name in header if name not in mapping.values()]
    unmapped = [field for field in fields if field not in mapping]
    found = match_names(free, unmapped, aliases_of(reading))
    for field, match in found.items():
        # pandas' suffix for a repeated column
        if header.count(match) > 1 or f"{match}.1" in header:
            raise DataError(
                f"{file}: column {match!r} appears twice; keep one, or name it: --map"
                f" {field}={match} or {match}.1"
            )

    by_value = _by_value(source, {**found, **mapping})
    wanted = {field: column for field, column in by_value.items() if field in fields}
    return {**wanted, **found, **mapping}


def _by_value(source: _Source, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that are recognised by their cells rather than their names: an unnamed
    index of days, and volumes named after crypto assets.
    """
    found = {}
    first = source.header[0] if source.header else ""
    if "date" not in columns and isinstance(source, _ParquetFile) and source.has_days_in_its_index:
        found["date"] = INDEX

    cells: Sequence[str] = []
    if first.startswith("Unnamed: "):
        cells = source.cells_of(first)
    if "date" not in columns and cells and all(looks_like_day(cell) for cell in cells):
        found["date"] = first

    if "code" in columns:
        found.update(coin_volumes(source.header, source.cells_of(columns["code"])))

    return found


def _read_columns(
    source: _Source,
    columns_of: Mapping[str, str],
    repeated: Sequence[str],
    kept_by: Iterable[str],
) -> pd.DataFrame:
    file = source.file
    columns = {**columns_of, **{_KEPT + name: name for name in kept_by}}
    text = [field for field in columns if field in _TEXT_FIELDS or field.startswith(_KEPT)]
    try:
        if isinstance(source, _ParquetFile):
            for field in text:
                refuse_bytes(columns[field], source.schema.field(columns[field]).type)

            coded = [columns[field] for field in text if field in repeated]

            # The size limit applies to all columns together, although they are read one after
            # another.
            open_parquet(file, columns=[*columns.values()], read_dictionary=coded).close()
            read = ((field, _read_column(file, column, coded)) for field, column in columns.items())
            named = (
                (
                    field,
                    part.to_pandas(ignore_metadata=True, date_as_object=False).iloc[:, 0].copy(),
                )
                for field, part in read
            )
        else:
            codes = [columns["code"]] if "code" in columns else []
            wanted = WantedColumns(
                columns=tuple(dict.fromkeys(columns.values())),
                categories=frozenset(columns[field] for field in text if field in repeated),
                texts=frozenset(columns[field] for field in text),
                codes=frozenset(codes),
                rows=_ROWS,
            )
            frame = source.read(wanted)
            named = ((field, frame[column]) for field, column in columns.items())

        kept = {
            field: series if field in text else to_numbers(series, file) for field, series in named
        }
    except UNREADABLE as error:
        raise DataError(f"{file}: can't read: {' '.join(str(error).split())}") from error

    # Arrow does not return freed memory to the system by itself.
    pa.default_memory_pool().release_unused()
    return pd.DataFrame(kept, copy=False)


def normalise_codes(series: pd.Series) -> pd.Series:
    """Return codes in the form `600519.SH`. Other text stays unchanged, so that the check can
    report it.
    """
    return with_texts(series, lambda text: parse_code(text) or text)


def with_texts(series: pd.Series, change: Callable[[str], str]) -> pd.Series:
    """Return a column with `change` applied once to each distinct string. Categories stay
    categories, and a missing value becomes `no code`.
    """
    changed = pd.Series(categories(series, change), index=series.index)
    if isinstance(series.dtype, pd.CategoricalDtype):
        return changed
    return changed.astype(str)


def index_code(text: str) -> str:
    """Return the normalised code of an index. Six digits without an exchange mean a Shenzhen index
    if they begin with 399, otherwise a Shanghai index.
    """
    text = text.strip()
    if text.isdigit() and len(text) == 6:
        exchange = "SZ" if text.startswith("399") else "SH"
        return f"{text}.{exchange}"
    return parse_code(text) or text


def parse_flags(series: pd.Series, where: str) -> pd.Series:
    """Parse flags: booleans, 0 and 1, yes and no, or text for them. Raises DataError for anything
    else.
    """
    if pd.api.types.is_bool_dtype(series):
        return series.astype(bool)

    flags = series.astype(str).str.lower().str.strip().map(_FLAGS)
    if flags.isna().any():
        raise DataError(
            f"{where}: {series[flags.isna()].iloc[0]!r} is neither true nor false: write 1 or 0 in"
            " every row"
        )

    return flags.astype(bool)


def _read_column(file: Path, column: str, coded: Sequence[str]) -> pa.Table:
    with pq.ParquetFile(file, read_dictionary=coded) as table:
        read = table.read(columns=[column])

    read.validate(full=True)  # checks, among other things, that strings are UTF-8
    return read
