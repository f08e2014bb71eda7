"""Samples for scoring tasks in files and on the Hugging Face Hub: reading, checking and writing
them.

A source is `hf:ORG/NAME` (or `hf:ORG/NAME@REVISION`), a folder or `.parquet` file that
`datasets.load_dataset` can read, or a file with one JSON object per line. `datasets` gives all rows
of a split the same fields and fills missing ones with null, so null means absent. Columns whose
objects differ between rows are therefore stored as JSON text, and the task that reads them has to
name these columns. No code from a dataset is run: `datasets` 4 and later have no loading scripts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from errno import EFBIG
from pathlib import Path
from typing import Any, Final

from ktdeval.errors import DataError, UsageError, os_reason, wrap_os_error
from ktdeval.values import (
    JsonValue,
    content_hash,
    dumps_canonical,
    file_sha256,
    is_flat,
    loads_data,
    new_folder,
    open_parquet,
    read_plain,
    user_path,
)

HUB: Final = "hf:"
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_LINE_CHARS: Final = 1_000_000
MAX_ROWS: Final = 100_000
MAX_DEPTH: Final = 32
_SPLIT: Final = "test"
_DATA_FILE: Final = f"data/{_SPLIT}-00000-of-00001.parquet"


@dataclass(frozen=True)
class SampleRow:
    """Row of a source, with its location: file and line, or source and row number."""

    where: str
    value: JsonValue


@dataclass(frozen=True)
class SampleRows:
    """Rows of a source, in order."""

    name: str  #: name of the source, without its folder
    sha256: str  #: SHA-256 of the file's bytes for JSON lines; otherwise, hash of all rows
    rows: tuple[SampleRow, ...]


def source_name(source: str) -> str:
    """Return the name of a source as shown on cards: the unchanged Hub id, or the last part of a
    path.
    """
    return source if source.startswith(HUB) else Path(source).name


def read_samples(source: str, json_columns: Collection[str] = ()) -> SampleRows:
    """Read all rows of a source.

    `json_columns`: columns that contain JSON text to be parsed, if `datasets` reads the source.
    Raises DataError, which names the source and row, if the source can't be read, if it has too
    many rows or none, or if a row is not plain JSON.
    """
    path = user_path(source)
    if source.startswith(HUB) or path.is_dir() or path.suffix == ".parquet":
        rows = tuple(_dataset_rows(source, json_columns))
        sha256 = content_hash([row.value for row in rows])
    else:
        rows = tuple(_line_rows(path))
        sha256 = file_sha256(path)

    if not rows:
        raise DataError(
            f"{source}: no sample in it; give a dataset with rows, or a file with one JSON object a"
            " line"
        )

    return SampleRows(source_name(source), sha256, rows)


# ---- JSON lines


def _line_rows(path: Path) -> Iterator[SampleRow]:
    try:
        text = read_plain(path, MAX_FILE_BYTES).decode("utf-8")
    except OSError as error:
        advice = "split the file" if error.errno == EFBIG else ""
        raise DataError(f"{path}: can't read samples: {os_reason(error, advice)}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8"
        ) from error

    lines = (
        (f"{path}:{number}", line)
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    )
    for count, (where, line) in enumerate(lines, start=1):
        if count > MAX_ROWS:
            raise DataError(f"{path}: more than {MAX_ROWS} samples; split the file")
        if len(line) > MAX_LINE_CHARS:
            raise DataError(
                f"{where}: {len(line)} characters in one line, more than {MAX_LINE_CHARS}"
            )

        yield SampleRow(where, _parsed_json(line, where))


def _parsed_json(text: str, where: str) -> JsonValue:
    try:
        value = loads_data(text)
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from error

    if not is_flat(value, MAX_DEPTH):
        raise DataError(f"{where}: the JSON is nested deeper than {MAX_DEPTH} levels")

    return value


# ---- datasets


def _dataset_rows(source: str, json_columns: Collection[str]) -> Iterator[SampleRow]:
    for number, row in enumerate(_load_rows(source), start=1):
        where = f"{source}: row {number}"
        if number > MAX_ROWS:
            raise DataError(f"{source}: more than {MAX_ROWS} samples; take a part of it")

        value = _without_nulls(row)
        for column in json_columns:
            if isinstance(value.get(column), str):
                value[column] = _parsed_json(value[column], f"{where}: {column}")

        try:
            dumps_canonical(value)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{where}: not plain JSON: {error}; keep dates and times as text"
            ) from error

        yield SampleRow(where, value)


def _load_rows(source: str) -> Iterable[Any]:
    """Yield the rows of the only split, or of `test`, as `datasets` returns them."""
    import datasets  # noqa: PLC0415 - takes a second, and most runs read no dataset
    from datasets.exceptions import DatasetsError  # noqa: PLC0415 - as above
    from pyarrow import ArrowException  # noqa: PLC0415 - as above

    try:
        if source.startswith(HUB):
            name, _, revision = source.removeprefix(HUB).partition("@")
            splits = datasets.load_dataset(name, revision=revision or None)
        elif (path := user_path(source).resolve()).is_dir():
            for file in sorted(path.rglob("*.parquet")):
                open_parquet(file).close()

            splits = datasets.load_dataset(str(path), streaming=True)
        else:
            open_parquet(path).close()
            splits = datasets.load_dataset("parquet", data_files=str(path), streaming=True)

        if len(splits) > 1 and _SPLIT not in splits:
            raise DataError(
                f"{source}: has the splits {', '.join(map(str, splits))}; give a dataset with one,"
                f" or with {_SPLIT!r}"
            )

        yield from splits[_SPLIT] if _SPLIT in splits else next(iter(splits.values()))
    except (OSError, ValueError, DatasetsError, ArrowException) as error:
        raise DataError(
            f"{source}: can't read samples: {' '.join(str(error).split())[:300]}"
        ) from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value


# ---- publishing


def write_samples(
    folder: Path, rows: Sequence[Mapping[str, JsonValue]], title: str, columns: Mapping[str, str]
) -> None:
    """Write rows as a folder that `datasets.load_dataset` and `read_samples` can read, with one
    Parquet file and a dataset card.

    Objects and lists of objects in rows are written as JSON text. `columns`: columns in order, with
    their meanings. Raises UsageError if the folder is not empty. Raises DataError if it can't be
    written.
    """
    import datasets  # noqa: PLC0415 - as in `_load_rows`
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: is not an empty folder; name a new one")

    table = pa.Table.from_pylist(
        [{name: _pack_value(row.get(name)) for name in columns} for row in rows]
    )
    features = datasets.Features.from_arrow_schema(table.schema)
    with wrap_os_error(f"{folder}: can't write", kind=DataError), new_folder(folder) as content:
        (content / _DATA_FILE).parent.mkdir()
        pq.write_table(table.cast(features.arrow_schema), content / _DATA_FILE)

        card = _dataset_card(title, len(rows), columns, features)
        (content / "README.md").write_text(card, encoding="utf-8")


def _pack_value(value: JsonValue) -> JsonValue:
    is_nested = isinstance(value, Mapping) or (
        isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value)
    )
    return dumps_canonical(value) if is_nested else value


def _dataset_card(
    title: str, count: int, columns: Mapping[str, str], features: Mapping[str, Any]
) -> str:
    import yaml  # noqa: PLC0415 - only if a card is written

    header = {
        "pretty_name": title,
        "tags": ["ktdeval", "evaluation"],
        "configs": [
            {"config_name": "default", "data_files": [{"split": _SPLIT, "path": _DATA_FILE}]}
        ],
    }
    lines = [
        f"| `{name}` | {getattr(features[name], 'dtype', 'list')} | {meaning} |"
        for name, meaning in columns.items()
    ]
    table = "\n".join(["| feature | type | meaning |", "|---|---|---|", *lines])

    return (
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---\n\n# {title}\n\n{count:,}"
        f" rows.\n\n{table}\n"
    )
