"""FINSABER again: FinMem and FinAgent beside rules and RL, 2004 to 2023, from daily equity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from . import common

BASE = 100_000.0
KEYS = ["selection", "strategy", "window", "ticker"]
PLACE = ["selection", "window", "ticker"]
MODELS = ("FinMemStrategy", "FinAgentStrategy")
HOLD = "BuyAndHoldStrategy"
LEFT_OUT = "cherry_pick"


def runs(equity: Path, claims: Path) -> pd.DataFrame:
    """A row a run: own return over the base of 100,000, own Sharpe ratio, what is stated."""
    table = pd.read_parquet(equity)
    for name in KEYS:
        table[name] = table[name].astype(str)
    table["date"] = pd.to_datetime(table["date"])
    grouped = table.groupby(KEYS, sort=False)
    figures = grouped.agg(
        rows=("equity", "size"),
        first=("equity", "first"),
        last=("equity", "last"),
        low=("equity", "min"),
        high=("equity", "max"),
        begins=("date", "min"),
        ends=("date", "max"),
    ).reset_index()
    ratios = grouped["equity"].apply(_ratio).rename("own_sharpe").reset_index()
    figures = figures.merge(ratios, on=KEYS)
    figures["own_return"] = figures["last"] / BASE - 1.0
    figures["flat"] = (figures["low"] - BASE).abs().lt(1e-9) & (figures["high"] - BASE).abs().lt(
        1e-9
    )
    return figures.merge(pd.read_csv(claims), on=KEYS, how="outer", indicator="both")


def _ratio(equity: pd.Series) -> float:
    """Sharpe ratio of the path from the base on; √252 for trading days, √365 where weekends are in."""
    values = np.concatenate([[BASE], equity.to_numpy()])
    found = common.sharpe(common.returns_of(values), 252.0)
    return np.nan if found is None else found


def against_holding(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """Runs of a model beside the buy-and-hold run of the same selection, window and stock."""
    mine = table[(table["strategy"] == model) & ~table["selection"].str.startswith(LEFT_OUT)]
    held = table.loc[table["strategy"] == HOLD, [*PLACE, "own_return", "sharpe_ratio"]]
    pairs = mine.merge(held, on=PLACE, suffixes=("", "_held"), how="left")
    pairs["gap"] = pairs["own_return"] - pairs["own_return_held"]
    pairs["start_year"] = pairs["window"].str[:4]
    return pairs


def clustered_mean(values: pd.Series, clusters: pd.Series) -> dict[str, Any]:
    """Mean over runs with a cluster-robust 95 % interval (CR1, Student's t on clusters - 1)."""
    mean = values.mean()
    sums = (values - mean).groupby(clusters).sum()
    count = len(sums)
    error = float(np.sqrt((sums**2).sum() * count / (count - 1)) / len(values))
    half = stats.t.ppf(0.975, count - 1) * error
    return {
        "mean": mean,
        "clusters": count,
        "error": error,
        "interval95": [mean - half, mean + half],
    }


def bootstrap(pairs: pd.DataFrame, clusters: str, times: int = 999) -> dict[str, Any]:
    """95 % percentile intervals of mean, median and share that beats holding; clusters drawn whole."""
    random = np.random.default_rng(20261130)
    groups = [group["gap"].to_numpy() for _, group in pairs.groupby(clusters)]
    found = []
    for _ in range(times):
        drawn = [groups[place] for place in random.integers(0, len(groups), len(groups))]
        values = np.concatenate(drawn)
        found.append([values.mean(), np.median(values), (values > 0).mean()])
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    names = ("mean", "median", "share_above")
    return {name: [low[place], high[place]] for place, name in enumerate(names)}


def model_figures(table: pd.DataFrame, model: str) -> dict[str, Any]:
    """All figures of one model."""
    pairs = against_holding(table, model)
    active = pairs[~pairs["flat"]]
    best = pairs.sort_values("gap")
    windows = pairs.groupby("window")["gap"].mean()
    both = pairs.dropna(subset=["sharpe_ratio", "sharpe_ratio_held"])
    stated = pairs["total_return"] - pairs["own_return"]
    trimmed = pairs["gap"].sort_values().iloc[len(pairs) // 20 : -(len(pairs) // 20)]
    famous = pairs[~pairs["ticker"].isin(["TSLA", "NFLX"])]
    return {
        "runs": len(pairs),
        "windows": pairs["window"].nunique(),
        "start_years": pairs["start_year"].nunique(),
        "tickers": pairs["ticker"].nunique(),
        "never_traded": int(pairs["flat"].sum()),
        "never_traded_by_selection": pairs.groupby("selection")["flat"].sum().to_dict(),
        "zero_commission": int((pairs["total_commission"].fillna(0) == 0).sum()),
        "missing_claims": int(pairs["total_return"].isna().sum()),
        "stated_less_own": {
            "differ_by_1e_6": int((stated.abs() > 1e-6).sum()),
            "largest": float(stated.abs().max()),
        },
        "first_row_not_base": int((pairs["first"] - BASE).abs().gt(1e-6).sum()),
        "mean_return": pairs["own_return"].mean(),
        "median_return": pairs["own_return"].median(),
        "share_gained": float((pairs["own_return"] > 0).mean()),
        "mean_return_held": pairs["own_return_held"].mean(),
        "median_return_held": pairs["own_return_held"].median(),
        "mean_stated_sharpe": pairs["sharpe_ratio"].mean(),
        "mean_stated_sharpe_held": pairs["sharpe_ratio_held"].mean(),
        "gap": {
            "mean": pairs["gap"].mean(),
            "median": pairs["gap"].median(),
            "trimmed_5pct_mean": trimmed.mean(),
            "without_TSLA_NFLX_mean": famous["gap"].mean(),
            "share_above": float((pairs["gap"] > 0).mean()),
            "count_above": int((pairs["gap"] > 0).sum()),
            "ties": int((pairs["gap"].abs() < 1e-12).sum()),
            "by_window": clustered_mean(pairs["gap"], pairs["window"]),
            "by_start_year": clustered_mean(pairs["gap"], pairs["start_year"]),
            "mean_of_window_means": common.mean_interval(windows),
            "windows_above": int((windows > 0).sum()),
            "unclustered": common.mean_interval(pairs["gap"]),
            "bootstrap_by_window": bootstrap(pairs, "window"),
            "bootstrap_by_start_year": bootstrap(pairs, "start_year"),
        },
        "gap_of_traded_runs": {
            "runs": len(active),
            "mean": active["gap"].mean(),
            "median": active["gap"].median(),
            "share_above": float((active["gap"] > 0).mean()),
        },
        "sharpe_above_held": float((both["sharpe_ratio"] > both["sharpe_ratio_held"]).mean()),
        "sharpe_pairs": len(both),
        "by_selection": {
            name: {
                "runs": len(group),
                "mean_gap": group["gap"].mean(),
                "median_gap": group["gap"].median(),
                "share_above": float((group["gap"] > 0).mean()),
            }
            for name, group in pairs.groupby("selection")
        },
        "worst": best[[*PLACE, "own_return", "own_return_held"]].head(3).values.tolist(),
        "best": best[[*PLACE, "own_return", "own_return_held"]].tail(3).values.tolist(),
    }


def overlap(table: pd.DataFrame) -> dict[str, Any]:
    """Overlap of windows: how many days of a model's windows are in more than one window."""
    mine = table[(table["strategy"] == MODELS[0]) & ~table["selection"].str.startswith(LEFT_OUT)]
    windows = mine[["window"]].drop_duplicates()["window"].str.split("_", expand=True)
    spans = [
        (pd.Timestamp(begin), pd.Timestamp(end)) for begin, end in windows.itertuples(index=False)
    ]
    days = pd.concat(
        [pd.Series(pd.bdate_range(begin, end, inclusive="left")) for begin, end in spans]
    )
    return {
        "windows": len(spans),
        "lengths_in_years": {
            str(length): int(count)
            for length, count in pd.Series([round((e - b).days / 365.25) for b, e in spans])
            .value_counts()
            .items()
        },
        "weekdays_in_windows": len(days),
        "different_weekdays": int(days.nunique()),
    }


def compute(equity: Path, claims: Path) -> dict[str, Any]:
    """All figures of the board."""
    table = runs(equity, claims)
    strategies = {}
    held = table.loc[table["strategy"] == HOLD, [*PLACE, "own_return"]]
    for name, group in table.groupby("strategy"):
        pairs = group[~group["selection"].str.startswith(LEFT_OUT)].merge(
            held, on=PLACE, suffixes=("", "_held")
        )
        gap = pairs["own_return"] - pairs["own_return_held"]
        strategies[name] = {
            "runs_all": len(group),
            "runs": len(pairs),
            "mean_return": pairs["own_return"].mean(),
            "median_return": pairs["own_return"].median(),
            "mean_gap": gap.mean(),
            "median_gap": gap.median(),
            "share_above": float((gap > 0).mean()) if len(gap) else None,
            "flat": int(pairs["flat"].sum()),
            "median_rows": float(group["rows"].median()),
            "first_row_not_base": int((group["first"] - BASE).abs().gt(1e-6).sum()),
            "stated_differs_1e_6": int(
                (group["total_return"] - group["own_return"]).abs().gt(1e-6).sum()
            ),
            "stated_largest_difference": float(
                (group["total_return"] - group["own_return"]).abs().max()
            ),
        }
    return {
        "runs": len(table),
        "unmatched_claims": int((table["both"] != "both").sum()),
        "left_out": "selections that start with cherry_pick (FinAgent 5; FinMemStrategy/4o 5)",
        "models": {name: model_figures(table, name) for name in MODELS},
        "strategies": strategies,
        "overlap": overlap(table),
    }
