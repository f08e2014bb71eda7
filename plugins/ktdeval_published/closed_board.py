"""Boards of closed trades with stated profits, such as perpetuals, which are not executed."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np

from ktdeval.errors import DataError
from ktdeval.values import loads_untrusted
from ktdeval_published.board_parts import Rivals, add_luck, luck_of
from ktdeval_published.clone import Clone
from ktdeval_published.cost_ladder import ladder_of_gains
from ktdeval_published.cutoffs import cutoff_days
from ktdeval_published.estimates import GainPath, track_of
from ktdeval_published.positions_board import live_of
from ktdeval_published.prices import Stamps
from ktdeval_published.recipe import BoardRecipe
from ktdeval_published.report import Cause, DataFinding, EntrantReport

_ROLES = {
    "entrant": "model_id",
    "id": "id",
    "side": "side",
    "quantity": "quantity",
    "entry_price": "entry_price",
    "exit_price": "exit_price",
    "fee": "total_commission_dollars",
    "net": "realized_net_pnl",
    "closed": "exit_human_time",
}
_CENT = 0.005


def closed_parts(
    recipe: BoardRecipe, clone: Clone
) -> tuple[list[EntrantReport], tuple[DataFinding, ...]]:
    """Return the entrants with their stated and own profits, and the faults of the data."""
    rows = _read_rows(recipe, clone)
    by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_name[str(row["entrant"])].append(row)

    reports, rivals = [], []
    for name in sorted(by_name):
        report, path = _report(recipe, name, by_name[name])
        reports.append(report)
        rivals.append(Rivals(path, np.zeros(len(path.gains))))
    return add_luck(reports, luck_of(rivals)), _findings(recipe, clone, rows, by_name)


def _read_rows(recipe: BoardRecipe, clone: Clone) -> list[dict[str, Any]]:
    """Return the trades with one key a role. Raises DataError for a field that is missing."""
    roles = {**_ROLES, **recipe.columns.other}
    where = clone.root / recipe.path
    try:
        document = loads_untrusted(clone.read(recipe.path))
    except ValueError as error:
        raise DataError(f"{where}: is not JSON: {error}") from error

    trades = document.get("trades") if isinstance(document, dict) else None
    if not isinstance(trades, list) or not trades:
        raise DataError(f"{where}: expected an object with a list `trades`")
    rows = []
    for number, trade in enumerate(trades):
        missing = [key for key in roles.values() if not isinstance(trade, dict) or key not in trade]
        if missing:
            raise DataError(f"{where}: trade {number} has no field {missing[0]!r}")
        rows.append({role: trade[key] for role, key in roles.items()})
    return rows


def own_profit(row: dict[str, Any]) -> float:
    """Return the profit of a trade before fees, from its prices and its size."""
    sign = -1.0 if str(row["side"]).lower() == "short" else 1.0
    size = abs(float(row["quantity"]))
    return sign * size * (float(row["exit_price"]) - float(row["entry_price"]))


def _report(
    recipe: BoardRecipe, name: str, rows: list[dict[str, Any]]
) -> tuple[EntrantReport, GainPath]:
    stated = [float(row["net"]) for row in rows]
    gross = [own_profit(row) for row in rows]
    fees = [float(row["fee"]) for row in rows]
    own = [a - b for a, b in zip(gross, fees, strict=True)]
    days = [np.datetime64(str(row["closed"])[:10]) for row in rows]
    capital = recipe.account.cash
    declared = _path(days, stated, capital)
    executed = _path(days, own, capital)
    traded = math.fsum(
        abs(float(row["quantity"])) * (float(row["entry_price"]) + float(row["exit_price"]))
        for row in rows
    )
    gain = math.fsum(gross)
    ladder = ladder_of_gains("each entry and exit", gain, np.array([traded]))
    report = EntrantReport(
        name=name,
        pair=name,
        declared=track_of(declared, recipe.days_a_year),
        causes=(
            Cause(name="fees", amount=-math.fsum(fees)),
            Cause(name="profit from prices and sizes", amount=gain),
        ),
        residual=math.fsum(own) - math.fsum(stated),
        live=live_of(declared, ["unknown"] * len(declared.days), recipe.days_a_year),
        costs=(ladder,),
        cutoff=cutoff_days(recipe.entrants.models.get(name, name), executed.days),
        counts={
            "trades": len(rows),
            "trades off by a cent or more": sum(
                abs(a - b) >= _CENT for a, b in zip(own, stated, strict=True)
            ),
            "days with a closed trade": len(set(days)),
        },
    )
    return report, declared


def _path(days: list[np.datetime64], gains: list[float], capital: float | None) -> GainPath:
    """Return the daily sums of closed trades, over all days from the first to the last."""
    first, last = min(days), max(days)
    span: Stamps = np.arange(first, last + np.timedelta64(1, "D"))
    sums = np.zeros(len(span))
    for day, gain in zip(days, gains, strict=True):
        sums[int((day - first).astype(int))] += gain
    return GainPath(span, sums, capital)


def _findings(
    recipe: BoardRecipe,
    clone: Clone,
    rows: list[dict[str, Any]],
    by_name: dict[str, list[dict[str, Any]]],
) -> tuple[DataFinding, ...]:
    off = sum(abs(own_profit(row) - float(row["fee"]) - float(row["net"])) >= _CENT for row in rows)
    repeated = len(rows) - len({str(row["id"]) for row in rows})
    fees = math.fsum(float(row["fee"]) for row in rows)
    gross = math.fsum(own_profit(row) for row in rows)
    findings = [
        DataFinding(
            kind="trades",
            count=len(rows),
            detail=f"profit of {gross:,.2f} {recipe.account.currency} before fees, fees of"
            f" {fees:,.2f}",
        ),
        DataFinding(
            kind="stated profits that differ",
            count=off,
            detail="trades whose stated net profit differs by a cent or more from prices, size and"
            " fees; the stated one is the result of the entry plus that of the exit",
        ),
        DataFinding(kind="repeated ids", count=repeated, detail="trades with an id of another"),
    ]
    cut = [name for name, trades in by_name.items() if len(trades) == recipe.cut_at]
    if cut:
        findings.append(
            DataFinding(
                kind="cut lists",
                count=len(cut),
                detail=f"{', '.join(cut)}: exactly {recipe.cut_at} trades, the most that the list"
                " holds; earlier ones are missing",
            )
        )
    findings += _empty_files(recipe, clone)
    return tuple(one for one in findings if one.count)


def _empty_files(recipe: BoardRecipe, clone: Clone) -> list[DataFinding]:
    folder = (clone.root / recipe.path).parent
    empty = sorted(
        path.name for path in folder.iterdir() if path.is_file() and not path.stat().st_size
    )
    return [
        DataFinding(kind="empty files", count=len(empty), detail=f"{', '.join(empty)}: no content")
    ]
