"""ChatGPT-Micro-Cap-Experiment again: one account of real money, from its TOTAL rows and trade log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from . import accounts, common

START = 100.0
HOLIDAYS = ("2025-07-04", "2025-09-01", "2025-11-27", "2025-12-25")


def trading_days(first: str, last: str) -> list[str]:
    """Days of the New York exchange in the second half of 2025."""
    days = pd.bdate_range(first, last).strftime("%Y-%m-%d")
    return [day for day in days if day not in HOLIDAYS]


def cash_steps(totals: pd.DataFrame, log: pd.DataFrame, first_cash: float) -> list[dict[str, Any]]:
    """Change of cash a day beside what the log explains, also with repeated rows dropped."""
    steps = []
    before = first_cash
    last = ""
    for day, cash in totals["Cash Balance"].items():
        rows = log[(log["Date"] > last) & (log["Date"] <= day)]
        sold = (rows["Shares Sold"] * rows["Sell Price"]).sum()
        bought = rows["Cost Basis"].where(rows["Shares Bought"].notna(), 0.0).sum()
        once = rows.drop_duplicates()
        sold_once = (once["Shares Sold"] * once["Sell Price"]).sum()
        bought_once = once["Cost Basis"].where(once["Shares Bought"].notna(), 0.0).sum()
        steps.append(
            {
                "date": day,
                "step": cash - before,
                "by_log": sold - bought,
                "unexplained": cash - before - (sold - bought),
                "unexplained_without_repeats": cash - before - (sold_once - bought_once),
            }
        )
        before, last = cash, day
    return steps


def compute(folder: Path) -> dict[str, Any]:
    """All figures of the account."""
    base = folder / "Experiments/chatgpt_micro-cap/csv_files"
    daily = pd.read_csv(base / "Daily Updates.csv")
    log = pd.read_csv(base / "Trade Log.csv")
    totals = daily[daily["Ticker"] == "TOTAL"].set_index("Date")
    for name in ("Cash Balance", "Total Equity", "Total Value"):
        totals[name] = totals[name].astype(float)
    nav = [START, *totals["Total Equity"]]
    positions = daily[daily["Ticker"] != "TOTAL"]
    valued = positions.groupby("Date")["Total Value"].sum().reindex(totals.index).fillna(0.0)
    off_value = (valued - totals["Total Value"]).abs()
    off_sum = (totals["Total Value"] + totals["Cash Balance"] - totals["Total Equity"]).abs()
    steps = cash_steps(totals, log, START)
    odd = [step for step in steps if abs(step["unexplained"]) > 0.02]
    odd_once = [step for step in steps if abs(step["unexplained_without_repeats"]) > 0.02]
    expected = trading_days(totals.index[0], totals.index[-1])
    volume = (log["Shares Sold"] * log["Sell Price"]).sum() + (
        log["Cost Basis"].where(log["Shares Bought"].notna(), 0.0).sum()
    )
    stale = (
        (positions.pivot_table(index="Date", columns="Ticker", values="Current Price")).diff().eq(0)
    )
    returns = common.returns_of(nav)
    shocks = pd.Series(returns, index=totals.index).nsmallest(3)
    return {
        "rows": {"daily": len(daily), "totals": len(totals), "log": len(log)},
        "entrants": 1,
        "declared": accounts.path_figures(nav, 252.0) | {"nav": nav},
        "declared_from_first_total": accounts.path_figures(nav[1:], 252.0),
        "peak": [float(totals["Total Equity"].max()), str(totals["Total Equity"].idxmax())],
        "worst_days": shocks.to_dict(),
        "without_worst_day_total_return": float((1 + returns).prod() / (1 + shocks.iloc[0]) - 1),
        "missing_days": [day for day in expected if day not in set(totals.index)],
        "extra_days": [day for day in totals.index if day not in expected],
        "positions_do_not_sum": [[d, float(v)] for d, v in off_value[off_value > 0.02].items()],
        "equity_is_not_cash_plus_value": [
            [d, float(v)] for d, v in off_sum[off_sum > 0.011].items()
        ],
        "days_all_prices_unchanged": sorted(
            day
            for day, row in stale.iterrows()
            if row.sum() >= 3 and row.sum() == _held(positions, day)
        ),
        "log_rows_repeated": int(log.duplicated().sum()),
        "cash_steps_unexplained": odd,
        "cash_steps_unexplained_without_repeats": odd_once,
        "unexplained_sum": sum(step["unexplained"] for step in odd),
        "unexplained_sum_without_repeats": sum(s["unexplained_without_repeats"] for s in odd_once),
        "luck": common.luck({"chatgpt": returns}, 252.0),
        "costs": accounts.cost_ladder(nav[-1], START, float(volume)),
        "power": {
            "days_for_1": common.days_needed(1.0, 252.0),
            "detectable": common.detectable(len(returns), 252.0),
        },
        "benchmark": None,
        "known_before": "unknown: no stamps of publication in the files",
    }


def _held(positions: pd.DataFrame, day: str) -> int:
    """Number of positions on a day."""
    return int((positions["Date"] == day).sum())
