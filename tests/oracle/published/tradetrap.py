"""TradeTrap again: five models, each as it is, with news, with reversed expectations; two with fake news."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from . import accounts, ai_trader, common, log_scan
from .accounts import Account

ARMS = {
    "base": {
        "claude": "claude/claude-3.7-sonnet",
        "deepseek": "deepseek/deepseek-v3-whole-month",
        "gemini": "gemini/gemini-2.5-flash",
        "gpt": "gpt/gpt-5",
        "qwen": "qwen/qwen3-max",
    },
    "news": {
        "claude": "claude/claude-3.7-sonnet-with-news",
        "deepseek": "deepseek/deepseek-v3-whole-month-with-x-and-reddit-1105",
        "gemini": "gemini/gemini-2.5-flash-with-news-1108",
        "gpt": "gpt/gpt-5-with-news",
        "qwen": "qwen/qwen3-max-with-news",
    },
    "reversed": {
        "claude": "claude/claude-3.7-sonnet-ReverseExpectations",
        "deepseek": "deepseek/deepseek-v3-ReverseExpectations-injection-month",
        "gemini": "gemini/gemini-2.5-flash-ReverseExpectations",
        "gpt": "gpt/gpt-5-ReverseExpectations",
        "qwen": "qwen/qwen3-max-ReverseExpectations",
    },
    "fake_news": {
        "deepseek": "deepseek/deepseek-v3-fakenews-50%-month",
        "qwen": "qwen/qwen3-max-50%-fakenews",
    },
}


def other_files(folder: Path, ai_trader_folder: Path) -> dict[str, Any]:
    """Position files that are no run of the arms: copies of AI-Trader's, and malformed ones."""
    listed = {path for runs in ARMS.values() for path in runs.values()}
    found: dict[str, Any] = {"copies": [], "changed_copies": [], "malformed": {}, "other": []}
    for path in sorted(folder.glob("agent_data/**/position/position.jsonl")):
        name = str(path.parent.parent.relative_to(folder / "agent_data"))
        if name in listed:
            continue
        twin = ai_trader_folder / "agent_data" / name / "position/position.jsonl"
        if twin.exists():
            same = twin.read_bytes() == path.read_bytes()
            found["copies" if same else "changed_copies"].append(name)
            continue
        try:
            accounts.read_account(path)
            found["other"].append(name)
        except json.JSONDecodeError as error:
            found["malformed"][name] = str(error)
    for path in sorted(folder.glob("agent_data_astock/*/position/position.jsonl")):
        found.setdefault("a_share_files", []).append(path.parent.parent.name)
    return found


def effects(values: dict[str, dict[str, float | None]]) -> dict[str, Any]:
    """Arm less base over the models that have both: differences, mean, t interval, signs."""
    found = {}
    for arm, models in values.items():
        if arm == "base":
            continue
        pairs = {
            model: value - values["base"][model]
            for model, value in models.items()
            if value is not None and values["base"].get(model) is not None
        }
        found[arm] = common.mean_interval(list(pairs.values())) | {
            "by_model": pairs,
            "negative": sum(value < 0 for value in pairs.values()),
        }
    return found


def daily_effects(paths: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Arm less base by day, mean over models, with a t interval over days (days independent)."""
    found = {}
    for arm, models in paths.items():
        if arm == "base":
            continue
        gaps = [
            common.returns_of(nav) - common.returns_of(paths["base"][model])
            for model, nav in models.items()
        ]
        found[arm] = common.mean_interval(np.mean(gaps, axis=0))
    return found


def compute(
    folder: Path, ai_trader_folder: Path, shared: Path, logs: bool = True
) -> dict[str, Any]:
    """All figures of the board."""
    market = ai_trader.us_market(folder, shared, "2025-10-31")
    bars = ai_trader.hourly_us(folder)
    closes = log_scan.daily_closes(bars)
    listed: dict[str, Account] = {}
    place: dict[str, tuple[str, str]] = {}
    for arm, runs in ARMS.items():
        for model, path in runs.items():
            name = f"{arm}/{model}"
            listed[name] = accounts.read_account(
                folder / "agent_data" / path / "position/position.jsonl"
            )
            place[name] = (arm, model)
    figures = ai_trader.board(listed, market)
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    paths: dict[str, dict[str, list[float]]] = {}
    for name, (arm, model) in place.items():
        entrant = figures["entrants"][name]
        row = {
            "declared": entrant["declared"]["total_return"],
            "executed": entrant["executed"]["total_return"],
            "sharpe": entrant["declared"]["sharpe"],
            "drawdown": entrant["declared"]["max_drawdown"],
            "turnover": entrant["costs_of_declared"]["turnover"],
            "trades": entrant["counts"]["trades"],
        }
        if logs:
            entrant["logs"] = log_scan.scan(folder / "agent_data" / ARMS[arm][model], closes)
            row["logs_shown_later_published"] = entrant["logs"]["logs_shown_later_published"]
            row["logs_with_tool_results"] = entrant["logs"]["logs_with_tool_results"]
        for key, value in row.items():
            tables.setdefault(key, {}).setdefault(arm, {})[model] = value
        paths.setdefault(arm, {})[model] = entrant["declared"]["nav"]
    if logs:
        scans = {name: figures["entrants"][name]["logs"] for name in listed}
        figures["known_before"] = log_scan.known_before(scans, accounts.moments_of(listed))
    figures["arms"] = tables
    figures["effects"] = {
        key: effects(tables[key]) for key in ("declared", "executed", "turnover", "trades")
    }
    figures["daily_effects_declared"] = daily_effects(paths)
    figures["other_files"] = other_files(folder, ai_trader_folder)
    return figures
