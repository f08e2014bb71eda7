"""A second opinion on what models are shown: figures from Parquet files with plain pandas. Nothing of ktdeval is used here."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

FIELDS = ("open", "high", "low", "close", "volume", "amount", "factor", "member")


class Prices:
    """A stored snapshot as pandas tables [days, codes]; index and columns are texts."""

    def __init__(self, folder: Path) -> None:
        bars = pd.read_parquet(folder / "bars.parquet").astype({"date": str, "code": str})
        self.tables = {name: bars.pivot(index="date", columns="code", values=name) for name in FIELDS}
        self.days = list(self.tables["open"].index)
        levels = pd.read_parquet(folder / "indices.parquet").astype({"date": str, "code": str})
        self.indices = levels.pivot(index="date", columns="code", values="close")
        self.sectors = pd.read_parquet(folder / "assets.parquet").set_index("code")["industry"]
        self.marks = (self.tables["close"] * self.tables["factor"]).ffill()

    def mark(self, day: str, code: str) -> float:
        """Last close up to `day`, in unadjusted CNY of that day."""
        return float(self.marks.at[day, code] / self.tables["factor"].at[day, code])


PERCENT = ("MOM_12_1", "RV_60", "REV_ON", "MOM_ID", "HIGH_52W")  # shown in per cent


def figures(prices: Prices, day: str, code: str) -> dict[str, float]:
    """The nine factors and the measures of one stock at a close, in the units that models are shown."""
    rows = slice(prices.days.index(day) + 1)
    frame = pd.DataFrame({name: prices.tables[name][code].iloc[rows] for name in FIELDS})
    mark = prices.marks[code].iloc[rows]
    return {
        **{name: value * (100 if name in PERCENT else 1) for name, value in nine_factors(frame).items()},
        **{f"return_{days}d_pct": 100 * (mark.iloc[-1] / mark.iloc[-1 - days] - 1) for days in (1, 5, 20)},
        "drawdown_60d_pct": 100 * (mark.iloc[-1] / mark.iloc[-60:].max() - 1),
        "amount_20d_cny": frame["amount"].where(frame["amount"] > 0).iloc[-20:].mean(),
    }


def nine_factors(frame: pd.DataFrame) -> dict[str, float]:
    """The definitions of docs/factors.md, written a second time from the words, for one asset at the close of the last row."""
    close = frame.close * frame.factor
    known = close.ffill()
    simple = close / known.shift(1) - 1.0
    log_returns = np.log(close) - np.log(known.shift(1))
    volume_change = np.log((frame.volume / frame.factor).where(frame.volume > 0)).diff()
    high, last_60 = (frame.high * frame.factor).tail(252), simple.tail(60).dropna()
    traded = frame.amount.where(frame.amount > 0)
    amount, pair = traded.where(frame.close.notna()).tail(20), pd.DataFrame({"r": simple, "v": volume_change}).tail(20).dropna()

    def enough(values: pd.Series, least: int, value: float) -> float:
        return float(value) if values.notna().sum() >= least else math.nan

    def month(values: pd.Series) -> float:
        return enough(values.tail(20), 14, values.tail(20).mean())

    year = len(close) >= 252
    return {
        "MOM_12_1": enough(close.tail(252), 168, known.iloc[-21] / known.iloc[-252] - 1.0) if year else math.nan,
        "RV_60": enough(log_returns.tail(60), 40, log_returns.tail(60).std(ddof=1) * 252**0.5),
        "ILLIQ": math.log(month(simple.abs() / traded)),
        "REV_ON": month(frame.open * frame.factor / known.shift(1) - 1.0),
        "MOM_ID": month(frame.close / frame.open - 1.0),
        "SKEW": enough(last_60, 40, -stats.skew(last_60, bias=True)),
        "CORR_PV": enough(pair.r, 14, pair.r.corr(pair.v)),
        "HIGH_52W": enough(high, 168, known.iloc[-1] / high.max()),
        "CV_VOL": enough(amount, 14, amount.std(ddof=1) / amount.mean()),
    }
