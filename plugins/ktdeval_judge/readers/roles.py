"""Assign roles to the columns of a table by their names. `roles.csv` lists the names that each role
has in many programs.

A role is one of the fields that a judgement uses, such as `date`, `code` or `exit price`. A weak
name assigns its role only if no other column has the role. `--map ROLE=COLUMN` takes precedence
over all names. `ROLE=-` says that no column has the role.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.values import csv_rows, near_matches
from ktdeval_tables.cell_tables import CellTable
from ktdeval_tables.days import looks_like_day
from ktdeval_tables.names import squeeze_name
from ktdeval_tables.numbers import parse_figures

_ONLY_BESIDE = frozenset({"initial cash"})  #: roles of single values that are outside a table
_SEVERAL = frozenset({"fee", "contract", "limit"})  #: roles that several columns can have
_DATES = frozenset({"date", "entry date", "exit date"})
_ABOVE_ZERO = frozenset({"nav", "entry price", "exit price"})
_CHOSEN = ("date", "code", "side", "status", "amount", "benchmark", "currency")
"""Roles for which the first of several columns is used, since the others repeat it in other
words.
"""
_BRACKETS = re.compile(r"[(\[（【][^)\]）】]*[)\]）】]")
_CURRENCY = re.compile(
    r"[ _](?:USDT|USDC|USD|EUR|GBP|CNY|RMB|HKD|JPY|INR|CHF|AUD|CAD)$", re.IGNORECASE
)
_CLOSE_PRICE = "closeprice"  # a market's close, or the price at which a trade was closed
NO_COLUMN = "-"  #: what the user gives instead of a column if no column has a role
# spellings of a column name: in full; without brackets; without brackets and currency
_SPELLINGS = 3
_OTHER_WORDS = 20  # maximum number of other words in a column of sides
_SIDE_KINDS = ("buy", "sell", "long", "hold")
# a side with its reason, such as `SELL - Stop Loss` or `Short (End)`
_WITH_REASON = re.compile(r"(?P<side>[^\W\d]+)\s*(?:\s[-–—]\s|:\s|\()\s*(?P<reason>[^()]+?)\)?")
_NO_REASON = ("undone", "hold", "live", "open", "close", "partly", *_SIDE_KINDS)
_UNDONE = frozenset({
    "blocked", "denied", "ignored", "missed", "no", "not", "only", "signal", "skip", "skipped",
})  # fmt: skip
"""Words of a reason by which an order may not be filled."""
_POSITIONS = frozenset({"long", "short"})


@cache
def role_names() -> Mapping[str, tuple[tuple[str, bool], ...]]:
    """Role -> near names, each with a flag for weak names. The first match is used."""
    names: dict[str, dict[tuple[str, bool], None]] = {}
    for row in csv_rows(Path(__file__).with_name("roles.csv")):
        # several spellings in the file can have the same near name
        names.setdefault(row["role"], {})[near_name(row["name"]), bool(row["weak"])] = None
    return {role: tuple(own) for role, own in names.items()}


@cache
def word_kinds() -> Mapping[str, frozenset[str]]:
    """Lower-case word for a side or a state -> its kinds, such as buy, sell, done or undone."""
    kinds: dict[str, set[str]] = {}
    for row in csv_rows(Path(__file__).with_name("words.csv")):
        kinds.setdefault(row["word"].lower(), set()).add(row["kind"])
    return {word: frozenset(own) for word, own in kinds.items()}


@cache
def known_names() -> frozenset[str]:
    """Squeezed column names, by which the header row in a text file is recognised."""
    rows = csv_rows(Path(__file__).with_name("roles.csv"))
    return frozenset(squeeze_name(row["name"]) for row in rows)


def near_name(column: str) -> str:
    """Return a column's name in lower case, without blanks and punctuation. For example, `Order Id`
    becomes `orderid`.
    """
    plain = unicodedata.normalize("NFKC", column).casefold()
    return "".join(letter for letter in plain if letter.isalnum() or letter == "%")


def words_of(texts: pd.Series) -> pd.Series:
    """Return cells in the spelling that `words.csv` uses: in lower case, with single blanks in
    place of white space, underscores and hyphens.
    """
    plain = texts.str.lower().str.replace(r"[\s_]+", " ", regex=True)
    return plain.str.replace(r"(?<=[a-z])-(?=[a-z])", " ", regex=True)


def is_kind(words: pd.Series, *kinds: str) -> pd.Series:
    """Return whether each word is of one of the kinds."""
    known = [word for word, own in word_kinds().items() if not own.isdisjoint(kinds)]
    return words.isin(known)


def side_words(texts: pd.Series, *, of_trips: bool) -> pd.Series:
    """Return cells as words, with the side alone where a cell has a side and its reason, such as
    `sell` for `SELL - Stop Loss`.

    A reason that could change the side or undo the order leaves the cell as it is. `of_trips`:
    whether rows are whole trades. In other rows, `long` and `short` with a reason are left, because
    such a row can be an entry or an exit.
    """
    words = words_of(texts)
    plain = {str(word): _without_reason(str(word), of_trips=of_trips) for word in words.unique()}
    return words.map(plain)


def _without_reason(word: str, *, of_trips: bool) -> str:
    found = _WITH_REASON.fullmatch(word)
    if word in word_kinds() or found is None:
        return word

    side = found["side"]
    kinds = word_kinds().get(side, frozenset())
    reason = re.findall(r"\w+", found["reason"])
    is_unclear = not _UNDONE.isdisjoint(reason)
    for each in reason:
        is_unclear |= not word_kinds().get(each, frozenset()).isdisjoint(_NO_REASON)
    is_position = side in _POSITIONS and not of_trips
    if kinds.isdisjoint(_SIDE_KINDS) or is_unclear or is_position:
        return word
    return side


def has_exits(columns: Collection[str]) -> bool:
    """Return whether a column has a name of exits, so that rows are whole trades."""
    names = {name for role in ("exit price", "exit date") for name, _ in role_names()[role]}
    return any(near_name(column) in names for column in columns)


def assign_roles(table: CellTable, given: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return role -> columns. `given` maps roles to columns, and takes precedence over names.
    Raises DataError if two columns have the same role and different contents.
    """
    roles: dict[str, tuple[str, ...]] = {
        role: (column,) for role, column in given.items() if column != NO_COLUMN
    }
    spelled = {
        column: _spellings(column) for column in table.header if column not in given.values()
    }
    if "date" not in roles and table.header and table.header[0] == "" and _are_days(table, ""):
        roles["date"] = ("",)

    for is_weak, place in product((False, True), range(_SPELLINGS)):
        for role, names in role_names().items():
            is_told = role in roles and (is_weak or (place > 0 and role not in _SEVERAL))
            if is_told or role in given or role in _ONLY_BESIDE:
                continue

            wanted = [name for name, weak in names if weak == is_weak]
            columns = _columns_spelled(spelled, place, wanted)
            if is_weak:
                fitting = [each for each in columns if _fits(table, role, each)]
                columns = [
                    each for each in fitting if spelled[each][place] == spelled[fitting[0]][place]
                ]
            if role == "return" and "nav" in roles:
                columns = columns[:1]  # not read if there are account values
            if columns:
                roles[role] = _check_columns(table, role, (*roles.get(role, ()), *columns))
                for column in columns:
                    del spelled[column]

    is_closed = {"entry price", "exit date"} <= set(roles) and "exit price" not in roles
    if is_closed and near_name(roles.get("price", ("",))[0]) == _CLOSE_PRICE:
        roles["exit price"] = roles.pop("price")
    return roles


def resolve_given(table: CellTable, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that the user gives for roles, if the table has them or they are `-`.
    Raises UsageError if a role is not known.
    """
    given = {}
    for written, column in wanted.items():
        role = written.replace("_", " ").lower()
        role = "date" if role == "day" else role
        if role not in role_names():
            shown = [name.replace(" ", "_") for name in role_names()]
            hint = near_matches(written, shown) or f"; roles: {', '.join(shown)}"
            raise UsageError(f"--map: {written[:40]!r} is not a role{hint}")
        if column in table.header or column == NO_COLUMN:
            given[role] = column
    return given


def fact(table: CellTable, role: str) -> str:
    """Return the single value outside the table that has this role, or an empty string if it is
    missing.
    """
    wanted = [name for name, _ in role_names()[role]]
    by_name = {near_name(name): value for name, value in table.facts.items()}
    return next((by_name[name] for name in wanted if by_name.get(name)), "")


def _spellings(column: str) -> tuple[str, ...]:
    """Return the near names of a column's spellings, the full name first."""
    bare = _BRACKETS.sub("", column)
    return tuple(map(near_name, (column, bare, _CURRENCY.sub("", bare.strip()))))


def _columns_spelled(
    spelled: Mapping[str, tuple[str, ...]], place: int, wanted: Sequence[str]
) -> list[str]:
    """Return the columns for which the spelling at index `place` is in `wanted`, in the order of
    `wanted`.
    """
    columns: list[str] = []
    for name in wanted:
        columns += [column for column, spellings in spelled.items() if spellings[place] == name]
    return columns


def _check_columns(table: CellTable, role: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that have a role: all of them if the role may have several columns,
    otherwise the first. Raises DataError if the columns differ and a choice is needed.
    """
    filled = [each for each in columns if (table.cells[each] != "").any()] or list(columns[:1])
    if role in _SEVERAL:
        return tuple(filled)
    first, *others = filled
    if role not in _CHOSEN:
        for other in others:
            if not table.cells[first].equals(table.cells[other]):
                named = " and ".join(repr(each) for each in (first, other))
                option = f"--map {role.replace(' ', '_')}={first!r}"
                raise DataError(f"columns {named} all mean {role}; keep one, or choose: {option}")
    return (first,)


def _fits(table: CellTable, role: str, column: str) -> bool:
    """Return whether the cells in a column fit a role that the column's name leaves open."""
    cells = table.cells[column]
    filled = cells[cells != ""].head(1000)
    if role in _DATES:
        return _are_days(table, column)
    if role == "code":
        are_codes = filled.str.contains("[A-Za-z]|^[0-9]{6}$|^[0-9]{1,5}$", regex=True)
        return bool(are_codes.all())
    if role in _ABOVE_ZERO:
        numbers, bad = parse_figures(filled, table.decimal)
        is_wrong = bad.any() or (numbers <= 0).any() or filled.str.contains("%").any()
        return not is_wrong
    if role == "side":
        return _are_sides(side_words(filled, of_trips=has_exits(table.header)))
    if role == "status":
        return _are_sides(words_of(filled))
    return True


def _are_sides(words: pd.Series) -> bool:
    """Return whether words are sides. Next to both buy and sell, a few other words are allowed, for
    rows of other business.
    """
    others = words[~is_kind(words, *_SIDE_KINDS)].nunique()
    has_both = is_kind(words, "buy").any() and is_kind(words, "sell").any()
    return len(words) > 0 and (others == 0 or bool(has_both and others <= _OTHER_WORDS))


def _are_days(table: CellTable, column: str) -> bool:
    cells = table.cells[column]
    filled = cells[cells != ""].head(20)
    return len(filled) > 0 and all(looks_like_day(cell, stamps=True) for cell in filled)
