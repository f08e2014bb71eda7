"""Read files from any program with one reader. Column names in `roles.csv` determine what columns
mean, and `programs.yaml` adds rules for known programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from ktdeval.errors import DataError
from ktdeval.values import content_hash, file_sha256
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.advice import without_form, without_sizes
from ktdeval_judge.readers.forms import FORMS, FormOptions, form_of, read_form, without_flows
from ktdeval_judge.readers.frames import RETURNS_ONLY
from ktdeval_judge.readers.kept_rows import FileTables, column_values, kept_files, named_tables
from ktdeval_judge.readers.lean import read_lean
from ktdeval_judge.readers.left_out import without_totals
from ktdeval_judge.readers.options import ReadOptions as ReadOptions
from ktdeval_judge.readers.program_forms import PROGRAM_FORMS, read_ratings
from ktdeval_judge.readers.programs import (
    PLAIN,
    Program,
    ProgramTable,
    check_program,
    column_named,
    index_column,
    kept_rows,
    needed_columns,
    programs,
    programs_of,
    with_parts,
    without_cancelled,
)
from ktdeval_judge.readers.role_table import RoleTable, days_of
from ktdeval_judge.readers.roles import (
    NO_COLUMN,
    assign_roles,
    known_names,
    near_name,
    resolve_given,
)
from ktdeval_judge.readers.totals import POSITIONS, name_twins, note_total_rows, with_totals_apart
from ktdeval_judge.readers.wide import is_wide
from ktdeval_tables.cell_tables import CellTable, read_cells
from ktdeval_tables.moments import StampClock
from ktdeval_tables.row_keys import ALL_ROWS
from ktdeval_tables.row_meanings import one_side_a_row
from ktdeval_tables.table_sources import PICKLE_ADVICE, open_source

Frame = TypeVar("Frame", pd.DataFrame, pd.Series)
MAX_FILES = 20_000
_SUFFIXES = (".csv", ".json", ".jsonl", ".parquet", ".gz", ".tsv", ".txt", ".xlsx", ".xml")
_PICKLES = (".pkl", ".pickle")
_BY_NAME = (
    "date", "shares", "price", "side", "fee", "entry price", "exit price", "entry fee", "exit fee",
    "status", "profit", "flow", "return", "currency",
)  # fmt: skip
"""Roles that a program's table may also get from its column names."""
#: lowest account value in a column without a known name; smaller values may be ratios
_LEVELS = 0.2
_ALL_TOGETHER: Mapping[str, Callable[[Sequence[RoleTable]], dict[str, Any]]] = {
    "ratings": read_ratings,
    "lean": read_lean,
}
"""Forms of programs whose tables are meaningful only together."""


def read_declared(path: Path, options: ReadOptions) -> Declared:
    """Return the declarations in a program's files, which are one file or all files in a folder.

    Raises UsageError if the program or a role is not known. Raises DataError, which names the
    place, if the files come from several programs, or if a file is not valid.
    """
    if options.program is not None:
        check_program(options.program)

    files, notes = _read_files(path, options)
    name = options.program or _program_of(path, files)
    if name == PLAIN:
        parts = [_read_plain(file, tables, options) for file, tables in files]
    else:
        parts = _read_program(name, files, options)

    nothing = f"{path}: contains no decision, trade or account value of {name}"
    if not parts:
        raise DataError(nothing)
    declared = _merge_declared(path, parts)
    if declared.decisions is None and declared.trades is None and declared.values is None:
        raise DataError(nothing)
    told = dict.fromkeys((*declared.notes, *notes))
    declared = replace(declared, source=path.name, notes=tuple(told))
    return _without_file_flows(declared, options)


def values_in(path: Path, column: str, options: ReadOptions) -> tuple[str, ...]:
    """Return the values of a column in a file, or in all files in a folder. Raises DataError if
    no table has the column.
    """
    files, _ = _read_files(path, replace(options, keep={**options.keep, column: ALL_ROWS}))
    return column_values(files, column)


def source_sha256(path: Path) -> str:
    """Return the SHA-256 of a file. For a folder, return the SHA-256 of the files' names and
    hashes.
    """
    if not path.is_dir():
        return file_sha256(path)

    return content_hash(
        [[str(file.relative_to(path)), file_sha256(file)] for file in _files_in(path)]
    )


# ---- files


def _read_files(path: Path, options: ReadOptions) -> tuple[FileTables, tuple[str, ...]]:
    """Return the tables in a file, or in all files in a folder, and notes on text outside the
    tables. Raises DataError if no table has a column that the user names.
    """
    files: FileTables = []
    reading = options.reading
    for file in _files_in(path) if path.is_dir() else [path]:
        tables = read_cells(open_source(file), known_names(), reading)
        if options.table:
            tables = named_tables(file, tables, options.table)
        files.append((file, tables))

    if not options.is_one_of_two:
        _check_named_columns(path, files, options)
    return kept_files(path, files, options.keep), tuple(reading.notes)


def _check_named_columns(path: Path, files: FileTables, options: ReadOptions) -> None:
    """Raise DataError if no table has a column that the user names."""
    named = {f"--map {role}={column}": column for role, column in options.roles.items()}
    if options.flows and not Path(options.flows).is_file():
        named[f"--flows {options.flows}"] = options.flows

    named |= {f"--keep {column}={value}": column for column, value in options.keep.items()}
    columns: dict[str, None] = {}
    for _, tables in files:
        for table in tables:
            columns.update(dict.fromkeys(table.header))

    for option, column in named.items():
        if column not in columns and column != NO_COLUMN:
            shown = ", ".join(columns)[:400]
            raise DataError(f"{path}: {option}: no such column; columns: {shown}")


def _files_in(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    files = sorted(path for path in found if path.suffix.lower() in _SUFFIXES)
    if not files:
        for path in found:
            if path.suffix.lower() in _PICKLES:
                raise DataError(f"{path}: {PICKLE_ADVICE}")
        raise DataError(
            f"{folder}: contains no .csv, .json or .parquet file; export the program's files into it"
        )
    if len(files) > MAX_FILES:
        raise DataError(f"{folder}: contains more than {MAX_FILES} files; give a smaller folder")

    return files


def _program_of(path: Path, files: FileTables) -> str:
    """Return the name of the program that wrote the files. Raises DataError if several programs are
    possible.
    """
    found: dict[str, Path] = {}
    for file, tables in files:
        names = programs_of(tables)
        if len(names) > 1:
            raise DataError(
                f"{file}: may have been written by {' or by '.join(names)}; choose with --from"
            )
        for name in names:
            found.setdefault(name, file)

    if len(found) > 1:
        shown = ", ".join(f"{file.name} ({name})" for name, file in sorted(found.items()))
        raise DataError(
            f"{path}: contains files of several programs: {shown}; use one folder per program"
        )
    return next(iter(found), PLAIN)


# ---- files of programs


def _read_program(name: str, files: FileTables, options: ReadOptions) -> list[Declared]:
    program = programs()[name]
    parts: list[Declared] = []
    together: list[RoleTable] = []
    for file, tables in files:
        chosen = [(table, program.match_table(table)) for table in tables]
        faults = [entry.fault for _, entry in chosen if entry is not None]
        if faults and all(faults):
            raise DataError(f"{file}: {faults[0]}")
        if not program.form and not faults:
            chosen = [(table, program.nearest_table(table)) for table in tables]
        else:
            broken = program.broken_table_of
            chosen = [(table, entry or broken(table)) for table, entry in chosen]
        for table, entry in chosen:
            if program.form:
                together.append(_program_table(file, table, program, entry, options))
            elif entry is not None and not entry.fault:
                role_table = _program_table(file, table, program, entry, options)
                parts.append(_read_entry(name, program, entry, role_table))

    if program.form == "ratings":
        together = [table for table in together if "final_trade_decision" in table.table.header]
        if not together:
            raise DataError(
                f"{files[0][0]}: contains no log with company_of_interest, trade_date and"
                " final_trade_decision"
            )
    if program.form:
        found = _ALL_TOGETHER[program.form](together)
        notes = tuple(note for table in together for note in table.notes)
        parts = [Declared(program=name, source="", notes=(*program.notes, *notes), **found)]
    return parts


def _program_table(
    file: Path, table: CellTable, program: Program, entry: ProgramTable | None, options: ReadOptions
) -> RoleTable:
    """Return a table with the roles that its program defines. Raises DataError if the table lacks a
    column, or if the file is cut off.
    """
    zone = options.zone or options.market_zone or program.zone
    if program.own_zone:
        zone = options.zone or program.zone
    if program.written_in:
        zone = options.zone or options.market_zone
    date_format = options.date_format or program.date_format
    clock = StampClock(date_format, zone, program.written_in, program.is_label)
    decided = frozenset(options.keep)
    found = RoleTable(
        file, table, {}, clock, options.code, options.sessions, options.opens, decided
    )
    if program.ends and not table.is_ended:
        raise DataError(
            f"{file}: its last line has no line break, so the file may be cut off; write it "
            "again in full"
        )
    if entry is None or not entry.form:
        return found
    if not len(found):
        raise DataError(f"{file}: has no rows; export a period with trading days")

    columns = needed_columns(entry, found)
    roles: dict[str, tuple[str, ...]] = {}
    for role, written in entry.roles.items():
        if written == NO_COLUMN:
            roles[role] = (NO_COLUMN,)
        elif near_name(written) in columns:
            roles[role] = (columns[near_name(written)],)
    kept = with_parts(entry, kept_rows(entry, found, columns), columns)
    given = {role: (column,) for role, column in resolve_given(table, options.roles).items()}
    roles = _all_roles(entry, kept, {**roles, **kept.roles, **given})
    named = {role: names for role, names in roles.items() if names != (NO_COLUMN,)}
    return without_cancelled(entry, replace(kept, roles=named))


def _all_roles(
    entry: ProgramTable, table: RoleTable, roles: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the roles in a program's table. They are defined by the program. If other programs use
    the same form, roles can also be derived from column names.
    """
    if entry.form not in PROGRAM_FORMS:
        named = assign_roles(table.table, {role: columns[0] for role, columns in roles.items()})
        roles = {**{role: named[role] for role in _BY_NAME if role in named}, **roles}

    column = index_column(table.table)
    if column is not None and "entry date" not in roles:
        roles.setdefault("date", (column,))
    if "date" not in roles and "entry date" not in roles:
        raise DataError(
            f"{table.place}: lacks the column date; {table.shown}; export the index of days as well"
        )
    return roles


def _read_entry(name: str, program: Program, entry: ProgramTable, table: RoleTable) -> Declared:
    """Return the declarations in a program's table."""
    options = FormOptions(
        program=name, decided=entry.decided, cash=entry.cash, signed_fees=entry.signed_fees
    )
    if entry.form in PROGRAM_FORMS:
        found = PROGRAM_FORMS[entry.form](table, options)
        declared = Declared(program=name, source=table.path.name, **found)
    else:
        declared = read_form(entry.form, table, options)

    if entry.start and set(entry.start) <= set(table.table.header):
        row = int(table.moments().to_numpy().argmin())
        starts = [float(table.numbers_in(column).iloc[row]) for column in entry.start]
        start = math.fsum(starts)
        declared = replace(declared, cash=start)
    side = column_named(table.table, entry.checked_side)
    if side is not None:
        _check_side(table, side)
    source = f"{table.path.name} {table.table.name}".rstrip()
    return replace(declared, source=source, notes=(*program.notes, *entry.notes, *table.notes))


def _check_side(table: RoleTable, column: str) -> None:
    """Raise DataError if a side column contradicts the sign of the shares."""
    sides = replace(table, roles={**table.roles, "side": (column,)}).sides()
    differs = (sides == "buy") != (table.numbers("shares") > 0)
    if differs.any():
        words = "contradicts the sign of Quantity; leave out cancelled trades"
        table.refuse(int(differs.to_numpy().argmax()), column, words)


# ---- files of unknown programs


def _read_plain(file: Path, tables: Sequence[CellTable], options: ReadOptions) -> Declared:
    """Return the combined declarations in a file's tables. Tables without a form are skipped.
    Raises DataError if no table has a form.
    """
    parts = []
    others = []
    for table in with_totals_apart(tables, options):
        roled = _plain_table(file, table, options)
        form = _plain_form(roled, options) if len(tables) == 1 or "date" in roled.roles else ""
        if form:
            parts.append(_read_part(form, roled, options))
        else:
            others.append(roled)

    if not parts:
        raise _formless(file, others)
    return _merge_declared(file, parts)


def _read_part(form: str, table: RoleTable, options: ReadOptions) -> Declared:
    """Return the declarations in one table of a file. If it has positions next to the account's
    value, an error names the option that reads the value only. The same applies if the user asks
    for account values, but no column is known as these.
    """
    try:
        return _read_plain_form(form, table, options)
    except DataError as error:
        is_known = "code" in table.roles or "nav" in table.roles or form == "wide"
        if options.is_nav and not is_known:
            words = f"{error}; for the account's value, name its column: --map nav=COLUMN"
            raise DataError(words) from error
        if table.table.name != POSITIONS:
            raise
        words = f"{error}; for the account's value in its rows of totals: --nav {table.path.name}"
        raise DataError(words) from error


def _plain_table(file: Path, table: CellTable, options: ReadOptions) -> RoleTable:
    table = one_side_a_row(table)
    given = resolve_given(table, options.roles)
    if not len(table.cells) and len(table.header):
        raise DataError(f"{file}: has no row below its header; write one row per decision")
    try:
        roles = assign_roles(table, given)
    except DataError as error:
        raise DataError(f"{file}: {error}") from error
    clock = StampClock(options.date_format, options.zone or options.market_zone)
    if options.dated == "fill":
        roles.pop("decided", None)
    for role in ("price", "shares"):
        if role in given:  # what the user names comes before a column of fills
            roles.pop(f"filled {role}", None)
    decided = frozenset(options.keep)
    found = RoleTable(
        file, table, roles, clock, options.code, options.sessions, options.opens, decided
    )
    found = replace(
        found,
        no_roles=frozenset(role for role, column in given.items() if column == NO_COLUMN),
        keeps_others=options.keeps_others,
    )
    note_total_rows(found)
    return without_totals(found)


def _plain_form(table: RoleTable, options: ReadOptions) -> str:
    """Return the form of a table, or an empty string if it has no form."""
    given = {role: column for role, column in options.roles.items() if column != NO_COLUMN}
    if is_wide(table) and "nav" not in given and "return" not in given:
        return "wide"
    if "date" not in table.roles and "entry date" not in table.roles:
        raise table.lacks("date")

    form = form_of(table, given)
    return form or _form_of_only_column(table)


def _form_of_only_column(table: RoleTable) -> str:
    """Return the form of a table with a day column and one number column whose name is not known.
    It is `nav=COLUMN` or `return=COLUMN`, depending on the signs and sizes of the numbers. It is
    empty if there are more columns, or if the form is not clear.
    """
    names = [name for name in table.table.header if name != table.column("date")]
    others = [role for role in table.roles if role not in ("date", "amount")]
    if len(names) != 1 or others:
        return ""

    numbers = table.numbers_in(names[0], may_lack=True).dropna()
    if table.table.cells[names[0]].str.contains("%").any() or (numbers <= 0).any():
        return f"return={names[0]}"
    return f"nav={names[0]}" if numbers.min() > _LEVELS else ""


def _read_plain_form(form: str, table: RoleTable, options: ReadOptions) -> Declared:
    role, is_told, column = form.partition("=")
    if is_told:
        table = replace(table, roles={**table.roles, role: (column,)})
        form = "values" if role == "nav" else "returns"
        table.note(f"Column {column!r} is read as {role}.")
    name_twins(table)
    if form == "values" and options.flows in table.table.header:
        table = replace(table, roles={**table.roles, "flow": (options.flows,)})

    return read_form(
        form, table, FormOptions(program=PLAIN, flows=options.flows, cash_before=options.cash)
    )


def _formless(file: Path, tables: Sequence[RoleTable]) -> DataError:
    """Return the error for a file in which no table has a form."""
    shown = []
    for table in tables[:5]:
        name = f"{table.table.name}: " if table.table.name else ""
        shown.append(f"{name}{table.shown}")
    advice = "assign columns with --map ROLE=COLUMN"
    if len(tables) == 1 and "date" in tables[0].roles and "code" not in tables[0].roles:
        taken = [column for columns in tables[0].roles.values() for column in columns]
        advice = without_form(tables[0].table, taken) or advice
    if len(tables) == 1 and "side" in tables[0].roles:
        taken = [column for columns in tables[0].roles.values() for column in columns]
        advice = without_sizes(tables[0].table, taken)
    return DataError(
        f"{file}: contains no decision, trade or account value; write one of: {FORMS}; "
        f"{'; '.join(shown)}; {advice}"
    )


# ---- several parts


def _merge_declared(path: Path, parts: Sequence[Declared]) -> Declared:
    """Return the combined declarations in several tables from one program. Account values in money
    take precedence over values derived from returns.
    """
    if len(parts) == 1:
        return parts[0]

    in_money = [part for part in parts if part.values is not None and not _is_index(part)]
    indices = [part for part in parts if _is_index(part)]
    others = [part for part in parts if part.values is None]
    kept = [*others, *(in_money or indices)]
    cashes = [part.cash for part in kept if part.cash is not None]
    if others and not in_money:
        # an account that starts at 1 is not comparable with trades in money
        cashes = [part.cash for part in others if part.cash is not None]

    # files from one program often have the same notes
    notes: dict[str, None] = {}
    for part in kept:
        notes.update(dict.fromkeys(part.notes))

    return replace(
        parts[0],
        source=path.name,
        decisions=_one(path, kept, "decisions", [part.decisions for part in kept]),
        trades=_one(path, kept, "trades", [part.trades for part in kept]),
        values=_one(path, kept, "account values", [part.values for part in kept]),
        benchmark=_one(path, kept, "benchmark", [part.benchmark for part in kept]),
        fees=_one(path, kept, "fees", [part.fees for part in kept]),
        is_dated=any(part.is_dated for part in kept),
        books=next((part.books for part in kept if part.books is not None), None),
        cash=cashes[0] if cashes else None,
        notes=tuple(notes),
    )


def _is_index(part: Declared) -> bool:
    """Return whether values are derived from returns, so that the account starts at 1."""
    return RETURNS_ONLY in part.notes


def _one(
    path: Path, parts: Sequence[Declared], what: str, found: Sequence[Frame | None]
) -> Frame | None:
    """Return the only declaration of one kind in the files. Equal declarations are treated as one.
    Raises DataError if declarations differ.
    """
    first: tuple[str, Frame] | None = None
    for part, each in zip(parts, found, strict=True):
        if each is None:
            continue
        if first is None:
            first = (part.source, each)
        elif not first[1].equals(each):
            raise DataError(
                f"{path}: {first[0]} and {part.source} both contain {what}; keep one of them, or "
                "choose a table with --table"
            )

    return None if first is None else first[1]


def _without_file_flows(declared: Declared, options: ReadOptions) -> Declared:
    """If `--flows` names a separate file, return account values net of its flows."""
    path = Path(options.flows)
    if not options.flows or declared.values is None or not path.is_file():
        return declared

    tables = read_cells(open_source(path), known_names(), options.reading)
    if len(tables) > 1:
        raise DataError(
            f"--flows {path}: contains {len(tables)} tables; write one day and one flow per row"
        )

    table = tables[0]
    roles = assign_roles(table, {})
    column = next((name for role in ("flow", "amount") for name in roles.get(role, ())), None)
    if column is None:
        raise DataError(f"--flows {path}: has no column of flows; name that column flow")
    clock = StampClock(options.date_format, options.zone or options.market_zone)
    flows = RoleTable(path, table, roles, clock)
    notes: list[str] = []
    paid = flows.numbers_in(column).groupby(days_of(flows.moments())).sum()
    values = without_flows(declared.values, paid, notes.append)
    return replace(declared, values=values, notes=(*declared.notes, *notes))
