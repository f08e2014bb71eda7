"""Panels of daily bars of real markets, from the folder of real data beside a checkout, and the
range that each stylised fact has in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ktdeval_raw_markets.daily_panels import DailyPanel
from ktdeval_raw_markets.stylised_facts import SHORT_DAYS, StylisedFact, stylised_facts


class RealMarket(NamedTuple):
    """A real market: all of it, and pieces of it in time."""

    source: str
    kind: str
    pieces: tuple[DailyPanel, ...]  # the whole first


def _panel(table: pd.DataFrame, kind: str, days_a_year: int) -> DailyPanel:
    """`table`: a row a bar, with date, code, open, close and turnover."""
    grids = {}
    for name in ("open", "close", "turnover"):
        grids[name] = table.pivot_table(index="date", columns="code", values=name).sort_index()

    shape = grids["close"]
    opens, turnover = (
        grids[name].reindex(index=shape.index, columns=shape.columns).to_numpy(float)
        for name in ("open", "turnover")
    )
    return DailyPanel(kind, opens, shape.to_numpy(float), turnover, days_a_year)


def a_share(folder: Path) -> RealMarket:
    """367 names that were in the CSI300, adjusted: all days, two halves, and full years."""
    bars = pd.read_parquet(folder / "a_share" / "csi300_ever_daily.parquet")
    bars = bars[bars["traded"]].astype({"open": float, "close": float})
    bars["turnover"] = bars["amount"].fillna(bars["volume"] * bars["raw_close"])
    year = bars["date"].astype(str).str[:4]
    pieces = [_panel(bars, "stock", 252)]
    pieces += [_panel(bars[half], "stock", 252) for half in (year < "2024", year >= "2024")]
    for one in ("2022", "2023", "2024", "2025"):
        pieces.append(_panel(bars[year == one], "stock", 252))

    source = "367 A-shares ever in the CSI300, 2022-01 to 2026-05"
    return RealMarket(source, "stock", tuple(pieces))


def nasdaq(folder: Path) -> RealMarket:
    """Stocks of the NASDAQ-100 without the one whose split the source does not adjust."""
    bars = pd.read_csv(folder / "us_daily" / "nasdaq100_daily.csv.gz")
    bars = bars[~bars["code"].isin(["QQQ", "ORLY"])].assign(
        turnover=lambda table: table["volume"] * table["close"]
    )
    source = "100 stocks of the NASDAQ-100, 2025-06 to 2025-10"
    return RealMarket(source, "stock", (_panel(bars, "stock", 252),))


def coins(folder: Path) -> RealMarket:
    """Ten coins, without the last day, which is a part of one; all and by half."""
    bars = pd.read_csv(folder / "crypto_daily" / "crypto10_daily.csv.gz")
    bars = bars[bars["date"] < "2025-11-16"].assign(
        turnover=lambda table: table["volume"] * table["close"]
    )
    days = np.unique(bars["date"])
    is_first = bars["date"] < days[len(days) // 2]
    parts = (bars, bars[is_first], bars[~is_first])
    pieces = tuple(_panel(part, "crypto", 365) for part in parts)

    return RealMarket("10 coins, 2024-11 to 2025-11", "crypto", pieces)


class RangeRow(NamedTuple):
    """A row of `fact_ranges.csv`."""

    fact: str
    kind: str
    low: str
    high: str
    most_days: str
    basis: str
    source: str


def facts_by_piece(market: RealMarket) -> list[tuple[StylisedFact, ...]]:
    """Return each fact of a market's pieces, that of the whole first."""
    return list(zip(*(stylised_facts(piece) for piece in market.pieces), strict=True))


def measured_ranges(
    market: RealMarket, facts: list[tuple[StylisedFact, ...]]
) -> Iterator[RangeRow]:
    """Yield what a market's pieces show: the span of their figures and of the interval of the
    whole. Clustering in few days scatters, and is too low: it is a range for few days only.
    """
    for of_pieces in facts:
        whole = of_pieces[0]
        known = [fact for fact in of_pieces if fact.value is not None]
        if whole.n_counts == "months":
            yield from _span(market, known[:1], "")
        elif "volatility_lag" in whole.fact:
            yield from _span(market, [fact for fact in known if fact.n >= SHORT_DAYS], "")
            short = [fact for fact in known if fact.n < SHORT_DAYS]
            yield from _span(market, short, str(SHORT_DAYS))
        else:
            yield from _span(market, known, "")


def _span(market: RealMarket, facts: list[StylisedFact], most_days: str) -> Iterator[RangeRow]:
    """`facts`: the one of most days first."""
    if not facts:
        return

    ends = [fact.value for fact in facts]
    ends += [facts[0].interval.low, facts[0].interval.high]
    known = [end for end in ends if end is not None]
    low, high = f"{min(known):.4f}", f"{max(known):.4f}"
    basis = f"95 % interval of {facts[0].n} {facts[0].n_counts}"
    if len(facts) > 1:
        basis += f", figures of {len(facts) - 1} parts"

    yield RangeRow(facts[0].fact, market.kind, low, high, most_days, basis, market.source)
