"""Boards of account values: a table of values by day, for one entrant or for several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, KtdevalError
from ktdeval.market import find_venue, sessions
from ktdeval_published.board_parts import Rivals, add_luck, luck_of
from ktdeval_published.clone import Clone
from ktdeval_published.cutoffs import cutoff_days
from ktdeval_published.entrants import find_entrants
from ktdeval_published.estimates import GainPath, path_of_nav, track_of
from ktdeval_published.positions_board import live_of
from ktdeval_published.publication import Status
from ktdeval_published.recipe import BoardRecipe
from ktdeval_published.report import DataFinding, EntrantReport

_CENT = 0.015


def series_parts(
    recipe: BoardRecipe, clone: Clone
) -> tuple[list[EntrantReport], tuple[DataFinding, ...]]:
    """Return the entrants, and the faults of their tables. A table that can't be read is an entrant
    with its reason.
    """
    reports: list[EntrantReport] = []
    rivals: list[Rivals | None] = []
    findings: list[DataFinding] = []
    for entrant in find_entrants(recipe, clone):
        try:
            table = read_values(recipe, clone, entrant.path)
            path = _path(recipe, table)
        except KtdevalError as error:
            reports.append(EntrantReport(name=entrant.name, problem=error.line))
            rivals.append(None)
            continue

        reports.append(
            EntrantReport(
                name=entrant.name,
                arm=entrant.arm,
                pair=entrant.pair,
                declared=track_of(path, recipe.days_a_year),
                live=live_of(path, [_status(recipe)] * len(path.days), recipe.days_a_year),
                cutoff=cutoff_days(entrant.model, path.days),
                counts={"days": len(path.days)},
            )
        )
        rivals.append(Rivals(path, np.zeros(len(path.gains))))
        findings += _findings(recipe, clone, table, entrant.name)
    return add_luck(reports, luck_of(rivals)), tuple(one for one in findings if one.count)


def read_values(recipe: BoardRecipe, clone: Clone, inside: str) -> pd.DataFrame:
    """Return the table of an account: day, value, and cash where the recipe names it."""
    columns = recipe.columns
    path = clone.path(inside)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    named = {columns.day: "day", columns.value: "value", **_other(recipe)}
    for name in (*named, *columns.select):
        if name not in table:
            raise DataError(
                f"{path}: has no column {name!r}; its columns are {', '.join(table.columns)}"
            )
    for name, wanted in columns.select.items():
        table = table[table[name] == wanted]
    table = table.rename(columns=named)[list(named.values())]
    for name in table.columns[1:]:
        table[name] = pd.to_numeric(table[name], errors="coerce")

    table["day"] = pd.to_datetime(table["day"]).dt.strftime("%Y-%m-%d")
    if table["day"].duplicated().any():
        raise DataError(
            f"{path}: has two values on {table['day'][table['day'].duplicated()].iloc[0]}; choose the"
            " rows with `columns: {select: {COLUMN: VALUE}}`"
        )
    if table["value"].isna().any() or not (table["value"] > 0).all():
        raise DataError(f"{path}: a value is missing or not above 0")
    if len(table) < 2:
        raise DataError(f"{path}: has fewer than two values")
    return table.sort_values("day").reset_index(drop=True)


def _other(recipe: BoardRecipe) -> dict[str, str]:
    return {column: role for role, column in recipe.columns.other.items() if role == "cash"}


def _path(recipe: BoardRecipe, table: pd.DataFrame) -> GainPath:
    """Return the path of an account: from the cash of the recipe, else from its first value."""
    days = table["day"].to_numpy("datetime64[D]")
    values = table["value"].to_numpy(float)
    if recipe.account.cash is not None:
        return path_of_nav(days, values, recipe.account.cash)
    return path_of_nav(days[1:], values[1:], float(values[0]))


def _status(recipe: BoardRecipe) -> Status:
    """Return what is known of the publication of each day."""
    return "after" if recipe.published.by == "backtest" else "unknown"


def _findings(
    recipe: BoardRecipe, clone: Clone, table: pd.DataFrame, name: str
) -> list[DataFinding]:
    findings = []
    if recipe.market is not None:
        days = sessions(
            table["day"].iloc[0], table["day"].iloc[-1], find_venue(recipe.market.venue).calendar
        )
        missing = sorted({str(day)[:10] for day in days} - set(table["day"]))
        findings.append(
            DataFinding(
                kind="missing days",
                count=len(missing),
                detail=f"sessions without a value of {name}: {', '.join(missing[:8])}",
            )
        )
    log = recipe.columns.other.get("trades")
    if "cash" in table and log:
        findings.append(_cash_steps(recipe, clone, table, log))
    return findings


def _cash_steps(recipe: BoardRecipe, clone: Clone, table: pd.DataFrame, log: str) -> DataFinding:
    """Return the days on which cash moved by more than the trades of the log explain. A trade may
    be booked on the next day with a value; rows of the log that repeat wholly count once.
    """
    path: Path = clone.path(log)
    trades = pd.read_csv(path).drop_duplicates()
    other = recipe.columns.other
    bought = _product(trades, other["bought"], other["buy_price"], path)
    sold = _product(trades, other["sold"], other["sell_price"], path)
    days = pd.to_datetime(trades[other["trade_day"]]).dt.strftime("%Y-%m-%d")
    explained = dict.fromkeys(table["day"], 0.0)
    known = np.array(list(table["day"]))
    for day, amount in zip(days, sold - bought, strict=True):
        place = int(np.searchsorted(known, day))
        if place < len(known):
            explained[known[place]] += float(amount)

    booked = np.array([explained[day] for day in table["day"]])
    gaps = np.diff(table["cash"].to_numpy(float)) - booked[1:]
    for place in range(len(gaps) - 1):
        is_booked_later = abs(gaps[place] + gaps[place + 1]) <= _CENT
        if is_booked_later:
            gaps[place + 1] += gaps[place]
            gaps[place] = 0.0
    steps = [
        f"{day} {gap:+.2f}"
        for day, gap in zip(table["day"][1:], gaps, strict=True)
        if abs(gap) > _CENT
    ]
    return DataFinding(
        kind="unexplained steps of cash",
        count=len(steps),
        detail=f"moves of cash that the log of trades does not explain: {'; '.join(steps)}",
    )


def _product(trades: pd.DataFrame, first: str, second: str, path: Path) -> np.ndarray:
    for name in (first, second):
        if name not in trades:
            raise DataError(f"{path}: has no column {name!r}")
    product = pd.to_numeric(trades[first], errors="coerce") * pd.to_numeric(
        trades[second], errors="coerce"
    )
    return product.fillna(0.0).to_numpy(float)
