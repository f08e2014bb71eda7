"""Input files of an ingestion: find the files, map their columns to fields, and report faults as
problems.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from glob import glob
from pathlib import Path

from ktdeval.errors import ConfigError
from ktdeval.values import JsonValue, near_matches
from ktdeval_qfinzero.data.ingest_spec import TableFiles
from ktdeval_qfinzero.data.problems import ProblemList
from ktdeval_tables.readers.rows import Report, TableFault, TableFile, TableShape, WrittenNumber

ALIASES = {
    "ticker": "symbol",
    "code": "symbol",
    **dict.fromkeys(("window_start", "date", "datetime", "timestamp"), "time"),
}
"""Column names that are understood without being mapped, in upper or lower case."""
SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".json", ".parquet")
_ADVICE = "map it under columns, or name it under ignore"


def shape_table(
    file: tuple[Path, str], fields: tuple[str, ...], required: tuple[str, ...], spec: TableFiles
) -> TableFile:
    """Return a file (path, name in messages) with its spec. Raises ConfigError if the user maps an
    unknown field.
    """
    path, name = file
    for field in spec.columns:
        if field not in fields:
            near = near_matches(field, fields) or f"; fields: {', '.join(fields)}"
            raise ConfigError(f"{name}: columns: {field[:40]!r} is not a field{near}")

    shape = TableShape(
        fields,
        required,
        renamed={column: field for field, column in spec.columns.items()},
        aliases=ALIASES,
        ignored=spec.ignore,
        advice=_ADVICE,
        exact=True,
    )
    return TableFile(path, shape, name)


def files_of(base: Path, pattern: str) -> list[tuple[Path, str]]:
    """Return the files that match a pattern, with their names in messages. Raises ConfigError if no
    file matches, or if one is of an unsupported type.
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
    """Return a file's name in messages: its path relative to the base, if it is inside the base."""
    if path.is_relative_to(base):
        return path.relative_to(base).as_posix()
    return str(path)


def as_problem(name: str, problems: ProblemList) -> Report:
    """Return a function that turns each fault in a file into a problem."""
    return partial(_add, name, problems)


def _add(name: str, problems: ProblemList, fault: TableFault) -> None:
    place = name
    if fault.line:
        place = f"{name}:{fault.line}"
    words = f"row: {fault.words}" if fault.line and fault.in_rows else fault.words
    problems.add(f"{place}: {words}")


def quote_cell(text: str) -> str:
    """Return a cell in the form that messages show."""
    if not text:
        return "nothing"
    return ascii(text if len(text) <= 40 else f"{text[:40]}…")


def plain_json(value: JsonValue) -> JsonValue:
    """Convert written numbers in a JSON value to numbers. Raises ValueError if a number is too
    large.
    """
    if isinstance(value, WrittenNumber):
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
