"""Columns that divide the rows of a table into accounts, runs or sources of their own.

Rows conflict if one account can't have both, such as two values at one moment. A column is a key
if rows conflict, but hardly any conflict with rows that have the same value in that column. Where
no rows conflict, only a column whose name says what it divides (`strategy`, `account`) is a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from ktdeval.errors import DataError

ALL_ROWS = "*"  #: value of `--keep COLUMN=VALUE` by which all rows belong to one account
Conflicts = Callable[[pd.Series], int]
"""Number of rows that conflict with a row of the same group, given the group of each row."""

_MAX_GROUPS = 200
_SHOWN = 6  # maximum number of values that a message names
_LEFT = 0.1  # maximum share of the conflicts that remain in the groups of a key
_PATH = 0.5  # maximum length of the groups' paths, as a share of the path of all rows
_INTEGER = r"[-+]?[0-9]+"
_FIGURE = r"[-+]?[$€£¥]?[0-9.,]+(?:[eE][-+]?[0-9]+)?[%KMB]?"
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_a-zA-Z]+")

_NAMES = frozenset({
    "account", "accounts", "acct", "agent", "algo", "algorithm", "arm", "backtest", "book", "bot",
    "client", "config", "depot", "estrategia", "experiment", "fund", "group", "konto", "llm",
    "model", "participant", "player", "portfolio", "run", "scenario", "seed", "sleeve", "strat",
    "strategie", "strategy", "stratégie", "system", "team", "trader", "trial", "user", "variant",
    "wallet", "账户", "账号", "资金账号", "策略", "模型", "组合", "口座", "戦略", "계좌", "전략",
})  # fmt: skip
"""Words in the names of columns that divide rows even if no rows conflict."""
_OF_A_ROW = frozenset({
    "action", "analysis", "category", "class", "comment", "comments", "cond", "condition",
    "country", "description", "exchange", "explanation", "industry", "message", "note", "notes",
    "rationale", "reason", "reasoning", "reasons", "region", "remark", "remarks", "sector", "segment",
    "signal", "signals", "status", "tag", "tags", "trigger", "type", "weekday",
    "原因", "备注", "理由", "行业", "板块", "交易所", "类型",
})  # fmt: skip
"""Words in the names of columns that describe a single row or asset, never an account."""


@dataclass(frozen=True)
class KeyColumn:
    """A column that divides rows, and its values in the order of the file."""

    name: str
    values: tuple[str, ...]
    explains: bool  #: whether rows conflict without the column


@dataclass(frozen=True)
class KeyedRows:
    """Rows of a table, as far as keys are concerned."""

    cells: pd.DataFrame  #: [n] cells as text, of the columns that can be keys
    days: pd.Series  #: [n] day of each row, in a type that can be ordered
    conflicts: Conflicts
    codes: pd.Series | None = None  #: [n] code of each row
    #: whether one account has rows on each day, so that keys must share days
    is_complete: bool = False


def repeats(keys: pd.DataFrame) -> Conflicts:
    """Return conflicts of rows whose cells in all columns of `keys` are equal."""

    def count(groups: pd.Series) -> int:
        return int(keys.assign(group_of_rows=groups).duplicated().sum())

    return count


def overlaps(codes: pd.Series, starts: pd.Series, ends: pd.Series) -> Conflicts:
    """Return conflicts of rows that hold the same code at the same time. A row without an end is
    held until the last row.
    """
    until = ends.fillna(max(starts.max(), ends.max()))
    frame = pd.DataFrame({"code": codes, "start": starts, "end": until})

    def count(groups: pd.Series) -> int:
        keyed = frame.assign(group=groups).sort_values(["group", "code", "start"], kind="stable")
        by_code = keyed.groupby(["group", "code"], sort=False)
        before = by_code["end"].cummax().groupby([keyed["group"], keyed["code"]]).shift(1)
        return int((keyed["start"] < before).sum())

    return count


def path_lengths(moments: pd.Series, values: pd.Series) -> Conflicts:
    """Return conflicts of account values: 1 if values of one group jump, compared with all rows
    in one group, otherwise 0.
    """
    frame = pd.DataFrame({"moment": moments, "value": values})

    def length(groups: pd.Series) -> float:
        ordered = frame.assign(group=groups).sort_values(["group", "moment"], kind="stable")
        steps = ordered.groupby("group")["value"].pct_change()
        return float(steps.abs().sum())

    whole = length(pd.Series(0, index=frame.index))

    def count(groups: pd.Series) -> int:
        if groups.nunique() == 1:
            return 1
        return int(length(groups) > _PATH * whole)

    return count


def key_column(rows: KeyedRows, decided: Collection[str] = ()) -> KeyColumn | None:
    """Return the column that divides rows into accounts, runs or sources, or None. `decided`:
    columns that the user has already decided about.
    """
    one_group = pd.Series(0, index=rows.cells.index)
    before = rows.conflicts(one_group)
    found: list[tuple[tuple[bool, bool, int], KeyColumn]] = []
    for name in map(str, rows.cells):
        values = _values_of(rows.cells[name])
        if name in decided or not values or _repeats_code(rows, name):
            continue

        is_named = not _NAMES.isdisjoint(words_in(name))
        if not _are_beside(rows, name):
            continue
        explains = before > 0 and _explains(rows, name, before)
        if explains or is_named:
            is_number = bool(rows.cells[name].str.fullmatch(_INTEGER).all())
            rank = (not is_named, is_number, len(values))
            found.append((rank, KeyColumn(name, values, explains)))

    if not found:
        return None
    return min(found, key=lambda each: each[0])[1]


def check_keys(place: str, rows: KeyedRows, decided: Collection[str], *, by: bool) -> None:
    """Raise DataError if a column divides rows into accounts, runs or sources. `by`: whether the
    command has the option `--by`.
    """
    key = key_column(rows, decided)
    if key is not None:
        raise DataError(f"{place}: {refusal_of(key, by=by)}")


def refusal_of(key: KeyColumn, *, by: bool) -> str:
    """Return the message about rows of several accounts, with the options that choose one."""
    shown = ", ".join(map(repr, key.values[:_SHOWN]))
    if len(key.values) > _SHOWN:
        shown += " …"
    why = "runs next to each other"
    if key.explains:
        why = "rows that exclude each other"
    pick = f"--keep {quoted(f'{key.name}={key.values[0]}')}"
    each = f", or judge each: --by {quoted(key.name)}" if by else ""
    one = f"; if all rows are one account: --keep {quoted(f'{key.name}={ALL_ROWS}')}"
    return (
        f"column {key.name!r} has {len(key.values)} values ({shown}) with {why}, so these may be "
        f"several accounts; read one: {pick}{each}{one if by else ''}"
    )


def quoted(text: str) -> str:
    """Return a word for a shell, in quotes if it needs them."""
    if re.fullmatch(r"[\w.,=:/@%+-]+", text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def words_in(name: str) -> frozenset[str]:
    """Return the words in a column's name, in lower case: `modelId` has model and id."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return frozenset([*words, *(word.removesuffix("s") for word in words)])


def describes_row(name: str) -> bool:
    """Return whether a column describes a row or an asset by its name, such as `exchange`."""
    return not _OF_A_ROW.isdisjoint(words_in(name))


def may_be_key(name: str, cells: pd.Series) -> bool:
    """Return whether a column's cells can be names of accounts: words or whole numbers, all
    filled.
    """
    if describes_row(name) or (cells == "").any():
        return False
    are_whole = cells.str.fullmatch(_INTEGER)
    return bool((are_whole | ~cells.str.fullmatch(_FIGURE)).all())


def _values_of(cells: pd.Series) -> tuple[str, ...]:
    """Return the values of a column if they can divide rows; otherwise no values."""
    values = tuple(map(str, cells.unique()))
    if not 1 < len(values) <= min(_MAX_GROUPS, max(2, len(cells) // 2)):
        return ()
    if not may_be_key(str(cells.name), cells):
        return ()
    return values


def _repeats_code(rows: KeyedRows, name: str) -> bool:
    """Return whether a column is another name of the code, so that each code has its own value."""
    if rows.codes is None:
        return False
    pairs = pd.DataFrame({"code": rows.codes, "value": rows.cells[name]}).drop_duplicates()
    return len(pairs) == pairs["code"].nunique() == pairs["value"].nunique()


def _explains(rows: KeyedRows, name: str, before: int) -> bool:
    """Return whether hardly any conflicts remain in the groups of a column."""
    return rows.conflicts(rows.cells[name]) <= _LEFT * before


def _are_beside(rows: KeyedRows, name: str) -> bool:
    """Return whether groups exist at the same time, rather than one after another."""
    frame = pd.DataFrame({"day": rows.days, "value": rows.cells[name]})
    if rows.is_complete:
        return bool((frame.groupby("day")["value"].nunique() > 1).any())

    spans = frame.groupby("value")["day"].agg(["min", "max"]).sort_values("min")
    latest = spans["max"].cummax().shift(1)
    is_over = spans["min"] < latest
    is_same = spans.duplicated(keep=False)
    return bool((is_over | is_same).any())


def candidates(cells: pd.DataFrame, taken: Sequence[str]) -> pd.DataFrame:
    """Return the columns of a table that are not read under another meaning."""
    return cells[[name for name in cells if name not in taken]]
