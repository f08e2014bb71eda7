"""A second opinion on every figure: cards and books from Parquet files with plain pandas. Nothing
of ktdeval is used here.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import zstandard
from scipy import stats

Steps = list[dict[str, Any]]

TOLERANCE = 1e-12
DECIDED = ("model", "model_after_retry")
FIELDS = ("open", "high", "low", "close", "volume", "amount", "factor", "member")


class Prices:
    """A stored snapshot as pandas tables [days, codes]; index and columns are texts."""

    def __init__(self, folder: Path) -> None:
        bars = pd.read_parquet(folder / "bars.parquet").astype({"date": str, "code": str})
        self.tables = {
            name: bars.pivot(index="date", columns="code", values=name) for name in FIELDS
        }
        self.days = list(self.tables["open"].index)
        levels = pd.read_parquet(folder / "indices.parquet").astype({"date": str, "code": str})
        self.indices = levels.pivot(index="date", columns="code", values="close")
        self.benchmark = self.indices[
            json.loads((folder / "manifest.json").read_text())["meta"]["benchmark"]
        ]
        self.sectors = pd.read_parquet(folder / "assets.parquet").set_index("code")["industry"]
        self.adjusted_open = self.tables["open"] * self.tables["factor"]
        self.adjusted_close = self.tables["close"] * self.tables["factor"]
        self.marks = self.adjusted_close.ffill()

    def at(self, name: str, day: str, code: str) -> float:
        """One value."""
        return float(self.tables[name].at[day, code])

    def after(self, day: str) -> str | None:
        """The trading day after, if the data have one."""
        return next(iter(self.days[self.days.index(day) + 1 :]), None)

    def mark(self, day: str, code: str, terms_of: str | None = None) -> float:
        """Last close up to `day`, in unadjusted CNY of `terms_of` (default: that day)."""
        return float(self.marks.at[day, code] / self.at("factor", terms_of or day, code))


@dataclass(frozen=True)
class Episode:
    """A finished episode: its entry on the card, and its ledger."""

    entry: Mapping[str, Any]
    steps: Steps
    initial_cash_minor: int


def episodes(run: Path, card: Mapping[str, Any]) -> Iterator[Episode]:
    """The episodes of a card with the ledgers of its run folder."""
    for entry in card["episodes"]:
        table = pq.read_table(run / "episodes" / entry["id"] / "ledger.parquet")
        steps = [{**row, "failures": dict(row["failures"])} for row in table.to_pylist()]
        facts = json.loads(table.schema.metadata[b"ktdeval.ledger"])
        yield Episode(entry, steps, facts["initial_cash_minor"])


def transcript_of(run: Path, episode: Episode) -> Steps:
    """The recorded conversation of an episode, one entry a step."""
    with (run / "episodes" / episode.entry["id"] / "transcript.jsonl.zst").open("rb") as stream:
        text = zstandard.ZstdDecompressor().stream_reader(stream).read().decode()

    return [json.loads(line) for line in text.splitlines()]


# ---- metrics


def metrics(episode: Episode, prices: Prices, rules: str) -> dict[str, tuple[float | None, int]]:
    """Every metric of the panel and its diagnostics as (value, n)."""
    steps = episode.steps
    count = len(episode.steps)
    nav = pd.Series([episode.initial_cash_minor, *(step["nav_minor"] for step in steps)]) / 100
    returns = nav.pct_change().dropna()
    benchmark = benchmark_of(episode, prices).pct_change().dropna()
    replied = [step for step in steps if step["provenance"] != "error"]
    unreadable = [
        step["provenance"] == "fallback"
        and "constraint_after_retries" not in dict(step["failures"])
        for step in replied
    ]
    calls = sum(step["tool_calls"] for step in steps)
    judged = forecasts(episode, prices)[0]
    gaps = judged["confidence"] - judged["success"]

    return {
        "total_return": (nav.iloc[-1] / nav.iloc[0] - 1, count),
        "sharpe": (annual_ratio(returns), count),
        "max_drawdown": (drawdown(nav), count),
        "information_ratio": (
            annual_ratio(returns - benchmark) if returns.std(ddof=1) > 1e-12 else None,
            count,
        ),
        **behaviour(steps, rules),
        "cash_ratio": (mean([step["cash_minor"] / step["nav_minor"] for step in steps]), count),
        "parse_failure_rate": (mean(unreadable), len(unreadable)),
        "decision_coverage": (mean([step["provenance"] in DECIDED for step in steps]), count),
        "tool_validity_rate": (
            sum(step["tool_calls_valid"] for step in steps) / calls if calls else None,
            calls,
        ),
        "unmask_attempts": (sum(step["unmask_attempts"] for step in steps), count),
        "brier": ((gaps**2).mean() if len(judged) else None, len(judged)),
        "ece": (calibration_error(judged), len(judged)),
    }


def behaviour(steps: Steps, rules: str) -> dict[str, tuple[float | None, int]]:
    """The three metrics whose rule sets differ."""
    count = len(steps)
    if rules == "paper":
        rows = []
        for step in steps:
            nav = step["nav_minor"]
            rows.append({row["code"]: row["value_minor"] / nav for row in step["positions"]})

        weights = pd.DataFrame(rows).reindex(range(count)).fillna(0.0)
        moved = weights.diff().fillna(weights).abs().to_numpy().sum()
        idle = [not step["orders"] for step in steps]
        return {
            "turnover": (moved * 252 / count, count),
            "hhi": (float((weights**2).sum(axis=1).mean()), count),
            "abstention_rate": (mean(idle), count),
        }

    traded = 0.0
    concentrations = []
    for step in steps:
        traded += sum(order["notional_minor"] for order in step["orders"]) / step["open_nav_minor"]
        if step["positions"]:
            shares = [row["value_minor"] / step["holdings_minor"] for row in step["positions"]]
            concentrations.append(sum(share**2 for share in shares))

    idle = [not step["orders"] for step in steps if step["provenance"] in DECIDED]

    return {
        "turnover": (traded * 252 / count, count),
        "hhi": (mean(concentrations), len(concentrations)),
        "abstention_rate": (mean(idle), len(idle)),
    }


def mean(values: Sequence[float]) -> float | None:
    """The mean, None of nothing."""
    return float(np.mean(values)) if values else None


def annual_ratio(returns: pd.Series) -> float | None:
    """Mean over standard deviation of daily returns, a year having 252 days."""
    spread = returns.std(ddof=1)
    return math.sqrt(252) * returns.mean() / spread if spread > 1e-12 else None


def drawdown(levels: pd.Series) -> float:
    """Largest fall from a peak, positive."""
    return float(-(levels / levels.cummax() - 1).min())


def benchmark_of(episode: Episode, prices: Prices) -> pd.Series:
    """Benchmark levels from the first decision on."""
    days = [episode.steps[0]["decided_on"], *(step["filled_on"] for step in episode.steps)]
    return prices.benchmark[days].reset_index(drop=True)


def forecasts(episode: Episode, prices: Prices) -> tuple[pd.DataFrame, int, int]:
    """Confidence and success (1.0 or 0.0) of each order with an outcome; how many had no fill, and
    how many no next open.
    """
    rows = []
    no_fill = 0
    no_next_open = 0

    for step in episode.steps:
        today = step["filled_on"]
        tomorrow = prices.after(step["filled_on"])
        for order in step["orders"]:
            if not order["filled_shares"]:
                no_fill += 1
                continue

            opens = prices.adjusted_open[order["code"]]
            gain = opens[tomorrow] - opens[today] if tomorrow else math.nan
            if math.isnan(gain):
                no_next_open += 1
            else:
                rows.append(
                    (order["confidence"], float(gain > 0 if order["side"] == "BUY" else gain < 0))
                )

    return pd.DataFrame(rows, columns=["confidence", "success"], dtype=float), no_fill, no_next_open


def bins(judged: pd.DataFrame) -> pd.DataFrame:
    """The reliability table by bin number, 0 to 9."""
    number = judged["confidence"].map(lambda value: min(int(Decimal(repr(value)) * 10), 9))
    groups = judged.groupby(number)

    return pd.DataFrame(
        {
            "n": groups.size(),
            "mean_confidence": groups["confidence"].mean(),
            "accuracy": groups["success"].mean(),
        }
    )


def calibration_error(judged: pd.DataFrame) -> float | None:
    """Weighted mean gap between confidence and accuracy of the bins."""
    if judged.empty:
        return None

    table = bins(judged)

    return float(
        (table["n"] / len(judged) * (table["mean_confidence"] - table["accuracy"]).abs()).sum()
    )


def counts(steps: Steps) -> dict[str, Counter[str]]:
    """Counts of a card: decisions, failures, outcomes of orders, rules, usage."""
    orders = list(chain.from_iterable(step["orders"] for step in steps))
    failures: Counter[str] = Counter()

    for step in steps:
        failures.update(step["failures"])

    tokens = (
        "input_tokens",
        "output_tokens",
        "reasoning_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
    )
    usage: Counter[str] = Counter()

    for name in (*tokens, "tool_calls", "tool_calls_valid", "submissions"):
        usage[name] = sum(step[name] for step in steps)

    return {
        "decisions": Counter(step["provenance"] for step in steps),
        "failures": failures,
        "orders": Counter({"submitted": len(orders)})
        + Counter(order["status"] for order in orders),
        "rules": Counter(order["rule"] for order in orders if order["rule"]),
        "usage": usage,
    }


def bill(usage: Mapping[str, int], price: Mapping[str, Any]) -> float:
    """US dollars of tokens by their price a million; those of a provider's cache cost what others
    do where it says nothing.
    """
    read = usage["cache_read_tokens"]
    stored = usage["cache_write_tokens"]
    fresh = usage["input_tokens"] - read - stored
    rates = [
        price["input"] if price[name] is None else price[name]
        for name in ("cache_read", "cache_write")
    ]

    return (
        fresh * price["input"]
        + read * rates[0]
        + stored * rates[1]
        + usage["output_tokens"] * price["output"]
    ) / 1e6


# ---- what models are shown


PERCENT = ("MOM_12_1", "RV_60", "REV_ON", "MOM_ID", "HIGH_52W")  # shown in per cent


def figures(prices: Prices, day: str, code: str) -> dict[str, float]:
    """The nine factors and the measures of one stock at a close, in the units that models are
    shown.
    """
    rows = slice(prices.days.index(day) + 1)
    frame = pd.DataFrame({name: prices.tables[name][code].iloc[rows] for name in FIELDS})
    mark = prices.marks[code].iloc[rows]

    return {
        **{
            name: value * (100 if name in PERCENT else 1)
            for name, value in nine_factors(frame).items()
        },
        **{
            f"return_{days}d_pct": 100 * (mark.iloc[-1] / mark.iloc[-1 - days] - 1)
            for days in (1, 5, 20)
        },
        "drawdown_60d_pct": 100 * (mark.iloc[-1] / mark.iloc[-60:].max() - 1),
        "amount_20d_cny": frame["amount"].where(frame["amount"] > 0).iloc[-20:].mean(),
    }


def nine_factors(frame: pd.DataFrame) -> dict[str, float]:
    """The definitions of docs/attribution.md, written a second time from the words, for one asset at
    the close of the last row.
    """
    close = frame.close * frame.factor
    known = close.ffill()
    simple = close / known.shift(1) - 1.0
    log_returns = np.log(close) - np.log(known.shift(1))
    volume_change = np.log((frame.volume / frame.factor).where(frame.volume > 0)).diff()
    high = (frame.high * frame.factor).tail(252)
    last_60 = simple.tail(60).dropna()
    traded = frame.amount.where(frame.amount > 0)
    amount = traded.where(frame.close.notna()).tail(20)
    pair = pd.DataFrame({"r": simple, "v": volume_change}).tail(20).dropna()

    def enough(values: pd.Series, least: int, value: float) -> float:
        return float(value) if values.notna().sum() >= least else math.nan

    def month(values: pd.Series) -> float:
        return enough(values.tail(20), 14, values.tail(20).mean())

    year = len(close) >= 252

    return {
        "MOM_12_1": enough(close.tail(252), 168, known.iloc[-21] / known.iloc[-252] - 1.0)
        if year
        else math.nan,
        "RV_60": enough(log_returns.tail(60), 40, log_returns.tail(60).std(ddof=1) * 252**0.5),
        "ILLIQ": math.log(month(simple.abs() / traded)),
        "REV_ON": month(frame.open * frame.factor / known.shift(1) - 1.0),
        "MOM_ID": month(frame.close / frame.open - 1.0),
        "SKEW": enough(last_60, 40, -stats.skew(last_60, bias=True)),
        "CORR_PV": enough(pair.r, 14, pair.r.corr(pair.v)),
        "HIGH_52W": enough(high, 168, known.iloc[-1] / high.max()),
        "CV_VOL": enough(amount, 14, amount.std(ddof=1) / amount.mean()),
    }
