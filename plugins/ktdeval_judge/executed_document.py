"""Document for executed decisions: the run's figures, unfilled orders, and a comparison of the
claimed and the executed account value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.cards import PARTS, load_card
from ktdeval.errors import DataError
from ktdeval.market import FILL_WORDS, MarketSnapshot
from ktdeval.stats import annualisation_problem
from ktdeval.trading import Ledger, MarketRules, TradingConfig, stale_holdings
from ktdeval_judge.counterfactual import Counterfactuals
from ktdeval_judge.declared import Declared
from ktdeval_judge.declared_gap import declared_gap
from ktdeval_judge.document import JUDGE_VERSION, Figure, JudgeFile, NavPart, NavReport
from ktdeval_judge.execution import Executed
from ktdeval_judge.implied_nav import implied_nav
from ktdeval_judge.market_plan import MarketPlan
from ktdeval_judge.nav_only import (
    NavTrack,
    outlying_days,
    resolution_of,
)
from ktdeval_judge.nav_parts import Cause, Path as NavPath, Simulated, compare_navs
from ktdeval_judge.unfilled import count_reasons, unfilled_of

#: maximum number of unfilled orders in a document; the counts include all unfilled orders
MAX_UNFILLED = 10_000
_IMPLIED = "no NAV is given: the claimed NAV is computed from the trades' own prices and fees"


def executed_document(
    declared: Declared,
    made: MarketPlan,
    executed: Executed,
    snapshot: MarketSnapshot,
    trading: TradingConfig,
    further: Mapping[str, Any],
) -> JudgeFile:
    """Return the document for a run of declared decisions. `further` has additional fields on the
    file and on luck. Raises DataError if the claimed account value does not cover the days of the
    run.
    """
    card = load_card(executed.card).plain
    unfilled = unfilled_of(made, executed.ledger, snapshot, trading)
    nav, claimed, notes = _nav_report(declared, made, snapshot, trading)
    metrics: Any = card["metrics"]
    table = declared.decisions if declared.decisions is not None else declared.trades
    assert table is not None, "the file was turned into a plan"
    form: str = made.plan.form
    if declared.decisions is None:
        form = "trades"

    return JudgeFile(
        version=JUDGE_VERSION,
        program=declared.program,
        source=declared.source,
        plan_sha256=made.plan.sha256,
        form=form,
        decisions=len(table),
        codes=len(made.plan.codes),
        market=snapshot.meta.name,
        snapshot=snapshot.id,
        first=executed.ledger.steps[0].filled_on,
        last=executed.ledger.steps[-1].filled_on,
        cash=float(trading.initial_cash),
        currency=executed.ledger.currency,
        task=executed.task,
        rules=rules_words(snapshot, trading, made.plan.codes),
        executed_return=_of_metric(metrics, "total_return"),
        claimed_return=claimed,
        sharpe=_annual(metrics, "sharpe", executed.ledger),
        excess_sharpe=_annual(metrics, "information_ratio", executed.ledger),
        selection=_selection(card),
        alpha_a_year=None,
        beta=None,
        psr=_annual(metrics, "psr", executed.ledger),
        years_needed=_annual(metrics, "min_track_record", executed.ledger),
        unfilled=tuple(unfilled[:MAX_UNFILLED]),
        unfilled_counts=count_reasons(unfilled),
        nav=nav,
        notes=tuple(map(str, (*declared.notes, *made.notes, *notes))),
        return_parts=_return_parts(metrics),
        costs=_costs(executed.ledger),
        declared=declared_gap(declared, made, executed.ledger, snapshot, nav),
        stale=stale_holdings(executed.ledger, snapshot),
        **further,
    )


def executed_track(ledger: Ledger, benchmark: NavPath | str) -> NavTrack:
    """Return the executed account as a track."""
    days = np.concatenate([[ledger.base_day], ledger.days])
    return NavTrack(
        days=days, values=ledger.nav, a_year=float(ledger.days_a_year), benchmark=benchmark
    )


def _costs(ledger: Ledger) -> Figure:
    """Return the commission, duties and interest paid, as a share of the first account value."""
    paid = sum(step.costs_minor for step in ledger.steps)
    first = float(ledger.nav[0]) * ledger.minor_per_unit
    return Figure(value=paid / first)


def rules_words(snapshot: MarketSnapshot, trading: TradingConfig, codes: tuple[str, ...]) -> str:
    """Return the venues on which the codes trade, with their fill rules, as text."""
    rules = MarketRules.of(snapshot, trading)
    columns = [snapshot.asset_index[code] for code in codes]
    venues = {rules.venues[column].name: rules.venues[column] for column in columns}
    words = []
    for name, venue in sorted(venues.items()):
        words.append(f"{name}: {venue.summary}; fills at the {FILL_WORDS[venue.fill]}")

    if trading.execution is not None:
        name = getattr(trading.execution, "name", "own")
        words.append(f"execution {name}")
    return "; ".join(words)


def _annual(metrics: Mapping[str, Any], name: str, ledger: Ledger) -> Figure:
    """Return a card's figure at a year's pace; null if the account has too few returns for one."""
    problem = annualisation_problem(len(ledger.steps), float(ledger.days_a_year))
    if problem is not None:
        return Figure(value=None, reason=problem)
    return _of_metric(metrics, name)


def _of_metric(metrics: Mapping[str, Any], name: str) -> Figure:
    entry = metrics.get(name)
    if not entry:
        return Figure(value=None, reason="not computed")

    interval = entry.get("interval") or {}
    return Figure(
        value=entry["value"],
        low=interval.get("low"),
        no_interval=interval.get("reason"),
        high=interval.get("high"),
        reason=entry.get("reason"),
    )


def _selection(card: Mapping[str, Any]) -> Figure:
    """Return the linked selection contribution, with the attribution's interval."""
    attribution = card.get("attribution") or {}
    lines = (attribution.get("value") or {}).get("lines", {})
    if "selection" in lines:
        return _of_metric(lines, "selection")
    return Figure(value=None, reason=attribution.get("reason") or "no attribution")


def _return_parts(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the linked parts of the executed return. Their sum is the return. Empty if a part is
    undefined.
    """
    parts = {}
    for metric in PARTS:
        value = _of_metric(metrics, metric).value
        if value is None:
            return {}
        parts[metric.partition("_")[0]] = value

    return parts


# ---- the claimed NAV


def _nav_report(
    declared: Declared,
    made: MarketPlan,
    snapshot: MarketSnapshot,
    trading: TradingConfig,
) -> tuple[NavReport | None, Figure | None, tuple[str, ...]]:
    """Return the comparison with the claimed NAV, the claimed return, and notes. The first two are
    None if no NAV is claimed.
    """
    if declared.values is not None:
        rows, claimed, notes = claimed_path(declared, made.first_row, made.last_row, snapshot)
    elif made.trades is not None:
        rows = list(range(made.first_row, made.last_row + 1))
        cash = float(trading.initial_cash)
        claimed = implied_nav(made.trades, snapshot, cash, made.first_row, made.last_row)
        notes = (_IMPLIED,)
        if claimed.min() <= 0:
            return None, None, ("at the trades' own prices, the account falls to zero",)
    else:
        return None, None, ()

    notes = (*notes, *outlying_days(snapshot.days[rows], claimed))
    chosen = np.array(rows) - made.first_row
    runs = Counterfactuals(made, snapshot, trading)

    def simulate(causes: frozenset[Cause], fee: float) -> Simulated:
        path, traded = runs.run(causes, fee)
        return Simulated(path[chosen], traded[chosen])

    if simulate(frozenset(), 0.0).path.min() <= 0:
        note = "the executed account falls to zero, so the NAVs are not compared"
        return None, Figure(value=float(claimed[-1] / claimed[0] - 1.0)), (*notes, note)

    found = compare_navs(claimed, simulate, runs.possible, resolution_of(claimed))
    first = None
    if found.first_parting is not None:
        first = str(snapshot.days[rows[found.first_parting]])

    report = NavReport(
        days=found.days,
        claimed_return=found.claimed_return,
        executed_return=found.executed_return,
        parts=tuple(NavPart(cause=part.cause, value=part.value) for part in found.parts),
        first_parting=first,
        parting_cause=found.parting_cause,
        largest_gap=found.largest_gap,
        remaining_gap=found.remaining_gap,
        is_explained=found.is_explained,
        looks_ahead=found.looks_ahead,
        fee_bps=found.fee * 1e4,
        daily_error=found.error,
        achievable_error=found.error_elsewhere,
    )
    return report, Figure(value=found.claimed_return), notes


def claimed_path(
    declared: Declared, first_row: int, last_row: int, snapshot: MarketSnapshot
) -> tuple[list[int], npt.NDArray[np.float64], tuple[str, ...]]:
    """Return the market rows and claimed values on the days that both NAVs have, starting with the
    first decision's day if possible, and notes. Raises DataError if there are fewer than two such
    days.
    """
    assert declared.values is not None, "only computed if a NAV is claimed"
    days = [int(day) for day in declared.values.index]
    by_day = dict(zip(days, map(float, declared.values), strict=True))
    rows = []
    values = []
    for row in range(first_row, last_row + 1):
        value = by_day.get(as_int(snapshot.days[row]))
        if value is not None:
            rows.append(row)
            values.append(value)

    notes: tuple[str, ...] = ()
    if rows and rows[0] > first_row:
        if declared.cash is not None:
            rows.insert(0, first_row)
            values.insert(0, declared.cash)
        else:
            day = snapshot.days[rows[0]]
            notes = (f"the claimed NAV begins on {day}, so earlier days are not compared",)

    if len(rows) < 2:
        raise DataError(
            f"{declared.source}: the claimed NAV has fewer than two days from "
            f"{snapshot.days[first_row]} to {snapshot.days[last_row]}; give the NAV of these days"
        )

    missing = last_row + 1 - first_row - len(rows)
    if missing and not notes:
        notes = (f"{missing} days are missing from the claimed NAV and not compared",)
    return rows, np.array(values, dtype=np.float64), notes


def as_int(day: np.datetime64) -> int:
    """Return a day as yyyymmdd."""
    return int(str(day).replace("-", ""))
