"""The six read-only research tools of open_research (KTD-Fin Appendix B). Each gets the step's market and account."""

# ruff: noqa: D417 - docstrings are what a model reads of a tool, and it never sees the first parameter

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ktdeval.harness import AssetArg, Bounds, Length, Tool, tool
from ktdeval.market import FloatArray
from ktdeval.masking import AssetName, AssetRef, DayRef, Payload, SectorRef
from ktdeval_ktdfin import tables
from ktdeval_ktdfin.market_tone import market_context
from ktdeval_ktdfin.risk import check_plan
from ktdeval_ktdfin.step import FACTOR_NAMES, MEASURE_NAMES, PPM, Step, figure, ranked

Dim = Literal[
    "MOM_12_1", "RV_60", "ILLIQ", "REV_ON", "MOM_ID", "SKEW", "CORR_PV", "HIGH_52W", "CV_VOL",
    "return_1d_pct", "return_5d_pct", "return_20d_pct", "drawdown_60d_pct", "amount_20d_cny",
]  # fmt: skip
SignedDim = Literal[
    "MOM_12_1", "RV_60", "ILLIQ", "REV_ON", "MOM_ID", "SKEW", "CORR_PV", "HIGH_52W", "CV_VOL",
    "return_1d_pct", "return_5d_pct", "return_20d_pct", "drawdown_60d_pct", "amount_20d_cny",
    "-MOM_12_1", "-RV_60", "-ILLIQ", "-REV_ON", "-MOM_ID", "-SKEW", "-CORR_PV", "-HIGH_52W", "-CV_VOL",
    "-return_1d_pct", "-return_5d_pct", "-return_20d_pct", "-drawdown_60d_pct", "-amount_20d_cny",
]  # fmt: skip


DIM_NAMES = (*FACTOR_NAMES, *MEASURE_NAMES)
MAX_LOOKBACK_DAYS = 120
MAX_COMPARED = 50
MAX_FACTORS = 6
MAX_SCREENED = 100
SCREEN_COLUMNS = ("stock_id", "board", "sector", "status", "close_cny", "score")


def get_market_context(step: Step) -> Payload:
    """The market at today's close: indices, calendar, breadth, and the strongest and weakest sectors by 20-day return (ranked).

    volatility_20d_pct is annualised, drawdown_60d_pct is the distance from the highest close of 60 days. Breadth counts index
    members; a sector's figures are plain means over its members.
    """
    return market_context(step)


def screen_candidates(
    step: Step,
    factors: Annotated[list[SignedDim], Length(1, MAX_FACTORS)],
    k: Annotated[int, Bounds(1, MAX_SCREENED)] = 20,
) -> Payload:
    """Ranks the index members that can be bought (trading, not limit-up) and returns the best k with their values, best first.

    The score is the mean of the percentile ranks (0 to 1) over the factors. Members without a value of a factor are left out.

    Args:
        factors: what to rank by; a leading minus ranks the lowest values first, as in "-RV_60".
        k: how many to return, at most max_candidates.
    """
    names = list(dict.fromkeys(factors))
    signed = [-step.dims[name[1:]] if name.startswith("-") else step.dims[name] for name in names]
    pool = step.candidates & np.all(np.isfinite(signed), axis=0)
    score = np.full(len(pool), np.nan)
    if pool.any():
        score[pool] = np.mean([_percentile_ranks(values[pool]) for values in signed], axis=0)
    shown = [name.removeprefix("-") for name in names]
    best = ranked(step, [score, *signed], pool)[: min(k, step.stage.harness.max_candidates)]
    rows = (
        (
            AssetRef(asset),
            str(step.view.boards[asset]),
            SectorRef(step.view.industries[asset]),
            step.status(asset),
            tables.last_close(step, asset),
            figure(score[asset], 3),
            *(step.shown(name, asset) for name in shown),
        )
        for asset in best
    )
    return {"day": DayRef(step.view.day), "ranked_of": int(pool.sum()), "candidates": tables.table((*SCREEN_COLUMNS, *shown), rows)}


def get_stock_snapshot(step: Step, stock_id: AssetArg, lookback: Annotated[int, Bounds(1, MAX_LOOKBACK_DAYS)] = 20) -> Payload:
    """One stock: daily bars (oldest first; days without trading are left out), factors, previous close, next day's limits.

    Prices are unadjusted; return_pct is corrected for splits and dividends.

    Args:
        stock_id: the stock.
        lookback: trading days to look back, today included.
    """
    mark, limit = float(step.marks_cny[stock_id]), step.stage.limit_ppm[stock_id] / PPM
    today, before = (step.bar_row(stock_id, day) for day in (step.view.day, step.view.day - 1))
    return {
        "stock_id": AssetRef(stock_id),
        "name": AssetName(stock_id),
        "day": DayRef(step.view.day),
        "board": str(step.view.boards[stock_id]),
        "sector": SectorRef(step.view.industries[stock_id]),
        "index_member": bool(step.member[stock_id]),
        "status": step.status(stock_id),
        "prev_close_cny": tables.price(stock_id, step.previous_cny[stock_id], before),
        "last_close_cny": tables.price(stock_id, mark, today),
        "next_open_limits": {
            "no_buy_from_cny": tables.price(stock_id, mark * (1 + limit), today),
            "no_sell_from_cny": tables.price(stock_id, mark * (1 - limit), today),
        },
        "factors": {name: step.shown(name, stock_id) for name in step.dims},
        "bars": tables.bars(step, stock_id, lookback),
    }


def compare_candidates(
    step: Step,
    stock_ids: Annotated[list[AssetArg], Length(1, MAX_COMPARED)],
    dims: Annotated[list[Dim], Length(1, len(DIM_NAMES))],
) -> Payload:
    """Several stocks side by side, in the order given.

    Args:
        stock_ids: the stocks, held or not.
        dims: which figures to compare.
    """
    names = list(dict.fromkeys(dims))
    rows = (
        (
            AssetRef(asset),
            step.status(asset),
            tables.last_close(step, asset),
            *(step.shown(name, asset) for name in names),
        )
        for asset in dict.fromkeys(stock_ids)
    )
    return {"day": DayRef(step.view.day), "grid": tables.table(("stock_id", "status", "close_cny", *names), rows)}


def portfolio_state(step: Step) -> Payload:
    """Your account: cash, NAV, positions with their T+1 locks (locked_shares were bought today), performance since the start."""
    return {
        "day": DayRef(step.view.day),
        "account": tables.account(step),
        "positions": tables.positions(step),
        "performance": tables.performance(step),
    }


def risk_check(
    step: Step, target_weights: Annotated[dict[AssetArg, Annotated[float, Bounds(0, 1)]], Length(1, MAX_COMPARED)]
) -> Payload:
    """Tests target weights against the rules as if the market opened at today's closes; the next open decides, so leave a margin.

    Returns each order as it would be filled, with the rule that would reject or cut it (null if none), and the account afterwards.
    A stock that closed at a price limit counts as still at it. Holdings that you do not name stay as they are.

    Args:
        target_weights: stock_id to the weight of NAV, 0 to 1, that the position shall have; 0 sells all of it.
    """
    return check_plan(step, target_weights)


_FUNCTIONS = (
    get_market_context, screen_candidates, get_stock_snapshot, compare_candidates, portfolio_state, risk_check,
)  # fmt: skip
_BY_NAME = {function.__name__: function for function in _FUNCTIONS}


def research_tool(name: str) -> Tool:
    """One of the six tools. Its schema comes from the function's signature."""
    return tool(_BY_NAME[name])


def _percentile_ranks(values: FloatArray) -> FloatArray:
    """[n] ranks scaled to 0 (lowest) … 1 (highest); equal values share their mean rank, so no order of assets enters."""
    if len(values) == 1:
        return np.ones(1)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    mean_rank = last - (counts - 1) / 2
    ranks: FloatArray = mean_rank[inverse] / (len(values) - 1)
    return ranks
