"""Alpha Arena again: one snapshot, 253 round trips in perpetuals of 6 models. Nothing is executed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from . import common

START = 10_000.0
CENT = 0.01


def read(folder: Path, name: str) -> Any:
    """A JSON file of the snapshot."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def checks(trades: pd.DataFrame) -> dict[str, int]:
    """Rows where a stated figure is not the sum that its name promises, by more than a cent.

    Quantities of shorts are negative, so (exit - entry) × quantity is the price gain on both sides.
    """
    net = trades["realized_net_pnl"]
    legs = trades["entry_closed_pnl"] + trades["exit_closed_pnl"]
    gross = trades["realized_gross_pnl"]
    fees = trades["total_commission_dollars"]
    price_gain = (trades["exit_price"] - trades["entry_price"]) * trades["quantity"]
    both_fees = trades["entry_commission_dollars"] + trades["exit_commission_dollars"]
    return {
        "net_is_not_entry_plus_exit": int(((net - legs).abs() > CENT).sum()),
        "net_is_not_gross_less_fees": int(((net - gross + fees).abs() > CENT).sum()),
        "gross_is_not_price_gain": int(((gross - price_gain).abs() > CENT).sum()),
        "fees_are_not_both_legs": int(((fees - both_fees).abs() > CENT).sum()),
        "quantity_negative_on_long": int(
            ((trades["side"] == "long") & (trades["quantity"] < 0)).sum()
        ),
        "quantity_positive_on_short": int(
            ((trades["side"] == "short") & (trades["quantity"] > 0)).sum()
        ),
        "exit_before_entry": int((trades["exit_time"] < trades["entry_time"]).sum()),
        "ids_repeated": int(trades["id"].duplicated().sum()),
        "leverage_not_1": int((trades["leverage"] != 1).sum()),
        "entries_shared": int(trades.duplicated(["model_id", "entry_tid"]).sum()),
    }


def prompt_states(conversations: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Account value, total return and leverages in the latest prompt of each model."""
    found: dict[str, dict[str, Any]] = {}
    for talk in sorted(conversations, key=lambda row: float(row["inserted_at"] or 0)):
        text = talk["user_prompt"]
        value = re.search(r"Current Account Value:\*\* ([-\d.]+)", text)
        total = re.search(r"Current Total Return \(percent\): ([-\d.]+)%", text)
        now = re.search(r"The current time is ([\d :.-]+?) and", text)
        if not (value and total and now):
            continue
        open_gain = sum(float(x) for x in re.findall(r"'unrealized_pnl': ([-\d.]+)", text))
        found[talk["model_id"]] = {
            "time": now.group(1),
            "account_value": float(value.group(1)),
            "total_return_pct": float(total.group(1)),
            "leverages": sorted({int(x) for x in re.findall(r"'leverage': (\d+)", text)}),
            "unrealized": open_gain,
            "positions": len(re.findall(r"'unrealized_pnl'", text)),
        }
    return found


def model_figures(trades: pd.DataFrame) -> dict[str, Any]:
    """Sums, path by exit, fees and costs of one model's listed round trips."""
    trades = trades.sort_values("exit_time")
    net = trades["realized_net_pnl"]
    days = pd.to_datetime(trades["exit_time"], unit="s").dt.strftime("%Y-%m-%d")
    turned = (trades["quantity"].abs() * (trades["entry_price"] + trades["exit_price"])).sum()
    gross = float(trades["realized_gross_pnl"].sum())
    price_gain = float(((trades["exit_price"] - trades["entry_price"]) * trades["quantity"]).sum())
    fees = float(trades["total_commission_dollars"].sum())
    return {
        "trades": len(trades),
        "long": int((trades["side"] == "long").sum()),
        "short": int((trades["side"] == "short").sum()),
        "net": float(net.sum()),
        "gross": gross,
        "fees": fees,
        "gross_less_fees": gross - fees,
        "net_less_gross_plus_fees": float(net.sum()) - gross + fees,
        "price_gain": price_gain,
        "win_rate": float((net > 0).mean()),
        "net_per_trade": common.mean_interval(net),
        "largest_share_of_gain": float(net.max() / net[net > 0].sum()) if (net > 0).any() else None,
        "traded_usd": float(turned),
        "fee_bp_a_side": fees / float(turned) * 1e4,
        "drawdown_of_closed_trades_usd": common.money_drawdown(net),
        "gain_by_exit_day": net.groupby(days).sum().to_dict(),
        "gain_at_bp": {str(bp): price_gain - float(turned) * bp / 1e4 for bp in (0, 1, 5, 10)},
        "break_even_bp": price_gain / float(turned) * 1e4 if price_gain > 0 else None,
        "first_entry": float(trades["entry_time"].min()),
        "last_exit": float(trades["exit_time"].max()),
    }


def compute(folder: Path, coins: Path | None = None) -> dict[str, Any]:
    """All figures of the snapshot."""
    trades = pd.DataFrame(read(folder, "trades")["trades"])
    leaderboard = {row["id"]: row for row in read(folder, "leaderboard")["leaderboard"]}
    analytics = {row["id"]: row for row in read(folder, "analytics")["analytics"]}
    prompts = prompt_states(read(folder, "conversations")["conversations"])
    entrants = {}
    for name, group in trades.groupby("model_id"):
        figures = model_figures(group)
        stated = analytics[name]["fee_pnl_moves_breakdown_table"]
        prompt = prompts.get(name, {})
        figures["checks"] = checks(group)
        figures["stated"] = {
            "leaderboard_return_pct": leaderboard[name]["return_pct"],
            "leaderboard_equity": leaderboard[name]["equity"],
            "leaderboard_trades": leaderboard[name]["num_trades"],
            "analytics_net": stated["overall_pnl_with_fees"],
            "analytics_gross": stated["overall_pnl_without_fees"],
            "analytics_fees": stated["total_fees_paid"],
            "prompt": prompt,
        }
        figures["listed_less_analytics_net"] = figures["net"] - stated["overall_pnl_with_fees"]
        figures["cut_list"] = abs(figures["listed_less_analytics_net"]) > 1.0
        if prompt:
            figures["leaderboard_less_prompt_pct"] = (
                leaderboard[name]["return_pct"] - prompt["total_return_pct"]
            )
            closed = stated["overall_pnl_with_fees"]
            figures["value_unexplained"] = (
                prompt["account_value"] - START - closed - prompt["unrealized"]
            )
        entrants[name] = figures
    found = {
        "executed": None,
        "executed_why": "perpetuals with leverage and funding; no order book or bars of the period",
        "trades": len(trades),
        "entrants": entrants,
        "checks": checks(trades),
        "conversations": sum(1 for _ in read(folder, "conversations")["conversations"]),
        "account_totals_bytes": (folder / "account-totals.json").stat().st_size,
        "gainers_by_net": sorted(name for name, f in entrants.items() if f["net"] > 0),
        "gainers_by_prompt": sorted(
            name
            for name, f in entrants.items()
            if f["stated"]["prompt"] and f["stated"]["prompt"]["total_return_pct"] > 0
        ),
        "shown_above_zero_per_trade": sorted(
            name
            for name, f in entrants.items()
            if f["net_per_trade"]["interval95"] and f["net_per_trade"]["interval95"][0] > 0
        ),
    }
    if coins is not None:
        table = pd.read_csv(coins)
        bitcoin = table[table["code"].str.startswith("BTC")].set_index("date")
        begin, end = bitcoin.loc["2025-10-17", "close"], bitcoin.loc["2025-10-27", "close"]
        now = read(folder, "crypto-prices")["prices"]["BTC"]["price"]
        found["bitcoin_held"] = {
            "close_1017_to_close_1027": float(end / begin - 1),
            "close_1017_to_snapshot": float(now / begin - 1),
        }
    return found
