"""What rows and columns of a table mean together: columns for purchases and for sales, rows of
totals, and columns that could have the same role.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ktdeval_tables.cell_tables import CellTable
from ktdeval_tables.numbers import MISSING, parse_figures

SIDE = "side"  #: name of the column that `one_side_a_row` adds
_BUYS = r"shares bought|bought|buying|buys?|purchased?|kauf|compra|achat|买入|购入"
_SELLS = r"shares sold|sold|selling|sells?|sales?|verkauf|venta|vente|卖出|售出"
_BLANK = re.compile(r"[\s_()\[\]-]+")
_MOST_TOTALS = 0.5  # largest share of rows that are totals
_MIN_DAYS = 2
_MONEY = frozenset({"usd", "usdt", "usdc", "eur", "gbp", "cny", "rmb", "hkd", "jpy", "inr", "krw"})
_MIN_WORDS = 2  # number of words in the name of a column that qualifies another one
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_a-zA-Z]+")


@dataclass(frozen=True)
class TotalRows:
    """Rows of totals in a table of positions: one row a day, with figures that no other row has."""

    is_total: pd.Series  #: [n] whether a row is a total
    name: str  #: cell by which the rows are known, such as `TOTAL`
    columns: tuple[str, ...]  #: columns that only these rows fill


def one_side_a_row(table: CellTable) -> CellTable:
    """Return a table in which each row buys or sells, from a table with separate columns for
    purchases and for sales, such as `Shares Bought` and `Shares Sold`.

    Other tables are unchanged: tables without such pairs of columns, and tables in which a row
    fills both sides, such as an entry and its exit.
    """
    pairs = _paired_columns(table.header)
    if len(pairs) < 2:
        return table

    cells = table.cells
    has_bought = pd.Series(False, index=cells.index)
    has_sold = has_bought.copy()
    for bought, sold in pairs.values():
        has_bought |= _has_figure(cells[bought])
        has_sold |= _has_figure(cells[sold])
    is_both = bool((has_bought & has_sold).any())
    if is_both or not has_bought.any() or not has_sold.any() or SIDE in table.header:
        return table

    merged = {}
    for name, (bought, sold) in pairs.items():
        merged[name] = cells[bought].where(has_bought, cells[sold])
    side = pd.Series("", index=cells.index).mask(has_bought, "buy").mask(has_sold, "sell")
    used = [column for pair in pairs.values() for column in pair]
    others = cells.drop(columns=used)
    return replace(table, cells=others.assign(**merged, **{SIDE: side}))


def total_rows(table: CellTable, code: str, day: str) -> TotalRows | None:
    """Return the rows of totals of a table of positions, or None. `code`, `day`: its columns of
    codes and days.
    """
    cells = table.cells
    days = cells[day]
    counts = days.groupby(cells[code]).agg(["size", "nunique"])
    once = counts[(counts["size"] == counts["nunique"]) & (counts["nunique"] == days.nunique())]
    for name in map(str, once.index):
        is_total = cells[code] == name
        if is_total.mean() > _MOST_TOTALS or days.nunique() < _MIN_DAYS:
            continue
        own = [
            str(column)
            for column in cells
            if _has_figure(cells[column])[is_total].all()
            and not _has_figure(cells[column])[~is_total].any()
        ]
        lacking = [
            column
            for column in cells
            if _is_empty(cells[column])[is_total].all()
            and not _is_empty(cells[column])[~is_total].any()
        ]
        if own and lacking:
            return TotalRows(is_total, name, tuple(own))
    return None


def twin_columns(
    table: CellTable, roles: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, str]]:
    """Return unread column -> (role, column that is read), for columns of other figures whose name
    ends like that of a column that is read: `executed_weight` next to `target_weight`.
    """
    read = {column: role for role, columns in roles.items() for column in columns}
    found: dict[str, tuple[str, str]] = {}
    for column in table.header:
        words = _words(column)
        if column in read or len(words) < _MIN_WORDS or not _are_figures(table, column):
            continue
        for other, role in read.items():
            is_same = table.cells[column].equals(table.cells[other])
            if words[-1:] == _words(other)[-1:] and not is_same:
                found[column] = (role, other)
    return found


def kinds_of_rows(cells: pd.Series) -> str:
    """Return the distinct words in cells, with their counts, for a note: `DIV 3, JNLC 1`."""
    counts = cells[cells != ""].value_counts()
    return ", ".join(f"{str(word)[:40]} {count}" for word, count in counts.head(8).items())


def _paired_columns(header: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return what two columns contain -> the column for purchases and the one for sales."""
    bought: dict[str, str] = {}
    sold: dict[str, str] = {}
    for column in header:
        plain = _BLANK.sub(" ", column).strip().casefold()
        for words, found in ((_BUYS, bought), (_SELLS, sold)):
            rest, count = re.subn(rf"(?<![a-z])(?:{words})(?![a-z])", "", plain)
            if count == 1:
                found.setdefault(" ".join(rest.split()) or "shares", column)
    return {name: (bought[name], sold[name]) for name in bought if name in sold}


def _has_figure(cells: pd.Series) -> pd.Series:
    """Return whether each cell has a number other than zero."""
    numbers, bad = parse_figures(cells)
    return ~bad & numbers.notna() & (numbers != 0)


def _is_empty(cells: pd.Series) -> pd.Series:
    return cells.isin(MISSING)


def _words(column: str) -> list[str]:
    """Return the words of a column's name without currencies, in lower case."""
    words = [word.lower() for word in _WORD.findall(column)]
    return [word for word in words if word not in _MONEY]


def _are_figures(table: CellTable, column: str) -> bool:
    cells = table.cells[column]
    numbers, bad = parse_figures(cells, table.decimal)
    return not bool(bad.any()) and bool(numbers.notna().any())
