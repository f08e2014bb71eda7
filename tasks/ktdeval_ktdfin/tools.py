"""The six read-only research tools of the `open_research` mode (KTD-Fin Appendix B). Each receives
the step's market and account.
"""

# ruff: noqa: D417 - docstrings are what a model reads of a tool, and it never sees the first parameter

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import numpy as np

from ktdeval.harness import AssetArg, Bounds, Length, Tool, tool
from ktdeval.market import FloatArray
from ktdeval.masking import (
    AssetName,
    AssetRef,
    DayRef,
    IndexLevel,
    Payload,
    SectorRef,
    Shares,
    figure,
    table,
)
from ktdeval.trading import Account, Order, Position, Side, execute
from ktdeval.values import whole_groups
from ktdeval_ktdfin import news_tools, payloads
from ktdeval_ktdfin.day_context import day_context
from ktdeval_ktdfin.market_breadth import SECTOR_COLUMNS, breadth, sector_tone
from ktdeval_ktdfin.market_day import DIM_NAMES, PPM, MarketDay
from ktdeval_ktdfin.step_view import ResearchStep

if TYPE_CHECKING:
    Dim: TypeAlias = str
    SignedDim: TypeAlias = str
else:  # tool schemas are generated from these
    Dim = Literal[DIM_NAMES]
    SignedDim = Literal[(*DIM_NAMES, *(f"-{name}" for name in DIM_NAMES))]
MAX_LOOKBACK_DAYS = 120
MAX_COMPARED = 50
MAX_FACTORS = 6
MAX_SCREENED = 100
INDEX_COLUMNS = (
    *("index", "level", "return_1d_pct", "return_5d_pct", "return_20d_pct", "return_60d_pct"),
    *("volatility_20d_pct", "drawdown_60d_pct"),
)
PLAN_COLUMNS = (
    "stock_id",
    "side",
    "weight_now",
    "weight_target",
    "shares",
    "amount_cny",
    "cost_cny",
    "violation",
)
SCREEN_COLUMNS = ("stock_id", "board", "sector", "status", "close_cny", "score")


def get_market_context(step: ResearchStep) -> Payload:
    """The market at today's close: indices, calendar, breadth, and the strongest and weakest
    sectors by 20-day return (ranked).

    volatility_20d_pct is annualised, drawdown_60d_pct is the distance from the highest close of 60
    days. Breadth counts index members; a sector's figures are plain means over its members.
    """
    day = step.view.day
    first = max(0, step.view.day - 4)
    calendar: dict[str, Payload] = {
        "day": DayRef(day),
        "step": step.number,
        "last_trading_days": [DayRef(row) for row in range(first, day + 1)],
    }
    if step.stage.lens.mask.leaves_out_whole_market:
        return {"calendar": calendar}

    tone = step.market.once("sectors", sector_tone)
    strongest = table(SECTOR_COLUMNS, tone.rows(tone.strongest, step.stage.sector_rank))
    weakest = table(SECTOR_COLUMNS, tone.rows(tone.weakest, step.stage.sector_rank))

    return {
        "calendar": calendar,
        "indices": table(INDEX_COLUMNS, _index_rows(step)),
        "breadth": step.share_answer("breadth", lambda: breadth(step.market)),
        "sectors": {"total": tone.total, "strongest_20d": strongest, "weakest_20d": weakest},
    }


def screen_candidates(
    step: ResearchStep,
    factors: Annotated[list[SignedDim], Length(1, MAX_FACTORS)],
    k: Annotated[int, Bounds(1, MAX_SCREENED)] = 20,
) -> Payload:
    """Ranks the index members that can be bought (trading, not limit-up) and returns the best k
    with their values, best first.

    The score is the mean of the percentile ranks (0 to 1) over the factors. Members without a value
    of a factor are left out. Names that are equal in all figures are listed together in equal,
    where there are such, and are shown all or none.

    Args:
        factors: what to rank by; a leading minus ranks the lowest values first, as in "-RV_60".
        k: how many to return; the rules say how many at most.
    """
    names = tuple(dict.fromkeys(factors))
    screen = step.market.recent(("screen", names), partial(_screen, names))
    most = min(k, step.stage.harness.max_candidates)
    groups = list(whole_groups(screen.groups, most))
    equal = [group for group in groups if len(group) > 1]
    if not equal:
        key = ("screened", names, len(groups))
        return step.share_answer(key, lambda: _screen_groups(step, screen, groups))

    # The order of equal names is the episode's own.
    result = _screen_groups(step, screen, step.in_turn(groups))
    return {**result, "equal": [list(map(AssetRef, group)) for group in step.in_turn(equal)]}


def get_stock_snapshot(
    step: ResearchStep,
    stock_id: AssetArg,
    lookback: Annotated[int, Bounds(1, MAX_LOOKBACK_DAYS)] = 20,
) -> Payload:
    """One stock: daily bars (oldest first; days without trading are left out), factors, previous
    close, next day's limits.

    Prices are unadjusted; return_pct is corrected for splits and dividends.

    Args:
        stock_id: the stock.
        lookback: trading days to look back, today included.
    """
    key = ("snapshot", stock_id, lookback)
    return step.share_answer(key, lambda: _stock_snapshot(step, stock_id, lookback))


def compare_candidates(
    step: ResearchStep,
    stock_ids: Annotated[list[AssetArg], Length(1, MAX_COMPARED)],
    dims: Annotated[list[Dim], Length(1, len(DIM_NAMES))],
) -> Payload:
    """Several stocks side by side, in the order given.

    Args:
        stock_ids: the stocks, held or not.
        dims: which figures to compare.
    """
    names = tuple(dict.fromkeys(dims))
    assets = tuple(dict.fromkeys(stock_ids))
    return step.share_answer(
        ("comparison", assets, names), lambda: _comparison(step, assets, names)
    )


def portfolio_state(step: ResearchStep) -> Payload:
    """Your account: cash, NAV, positions with their T+1 locks (locked_shares were bought today),
    performance since the start.
    """
    return {
        "day": DayRef(step.view.day),
        "account": payloads.account(step),
        "positions": payloads.positions(step),
        "performance": payloads.performance(step),
    }


def risk_check(
    step: ResearchStep,
    target_weights: Annotated[
        dict[AssetArg, Annotated[float, Bounds(0, 1)]], Length(1, MAX_COMPARED)
    ],
) -> Payload:
    """Tests target weights against the rules as if the market opened at today's closes; the next
    open decides, so leave a margin.

    Returns each order as it would be filled, with the rule that would reject or cut it (null if
    none), and the account afterwards. A stock that closed at a price limit counts as still at it.
    Holdings that you do not name stay as they are.

    Args:
        target_weights: stock_id to the weight of NAV, 0 to 1, that the position shall have; 0 sells
            all of it.
    """
    nav = step.nav_fen
    held = step.held_fen
    orders = []
    for asset, target in target_weights.items():
        known = step.stage.lens.figures.known_weight(target)
        orders.append(_order_to(asset, known, held.get(asset, 0), nav))

    after, fills = execute(_sellable(step.account), step.next_day_at_closes, tuple(orders))
    values = [step.value_fen(asset, position.shares) for asset, position in after.positions.items()]
    plan = []
    for asset, order, fill in zip(target_weights, orders, fills, strict=True):
        row = (
            AssetRef(asset),
            order.side,
            payloads.weight(held.get(asset, 0), nav),
            order.target_weight,
            Shares(asset, fill.shares),
            payloads.cny(fill.notional_minor),
            payloads.cny(fill.fee_minor),
            fill.rule,
        )
        plan.append(row)

    return {
        "plan": table(PLAN_COLUMNS, plan),
        "violations": sum(fill.rule is not None for fill in fills),
        "projected": {
            "cash_cny": payloads.cny(after.cash_minor),
            "cash_weight": payloads.weight(after.cash_minor, nav),
            "positions_held": len(values),
            "largest_weight": payloads.weight(max(values, default=0), nav),
            "traded_weight": payloads.weight(sum(fill.notional_minor for fill in fills), nav),
            "costs_cny": payloads.cny(sum(fill.fee_minor for fill in fills)),
        },
        "limits": {
            "max_positions": step.stage.trading.max_positions,
            "max_weight": step.stage.trading.max_weight,
        },
    }


_FUNCTIONS = (
    get_market_context,
    screen_candidates,
    get_stock_snapshot,
    compare_candidates,
    portfolio_state,
    risk_check,
    *news_tools.FUNCTIONS,
)
_BY_NAME = {function.__name__: function for function in _FUNCTIONS}


@cache  # runs, scoring and verification request tools repeatedly
def research_tool(name: str) -> Tool:
    """Return the tool with this name. Its schema comes from the function's signature."""
    return tool(_BY_NAME[name])


@dataclass(frozen=True, slots=True)
class _MemberRanking:
    """A day's ranking of the index members that can be bought."""

    names: tuple[str, ...]  #: ranking factors; a leading minus ranks the lowest values first
    ranked_of: int  #: number of assets ranked
    #: groups of equal assets, best first; as many as a screen can show
    groups: Sequence[Sequence[int]]
    score: Mapping[int, float]  #: mean percentile rank of each asset in `groups`


def _screen(names: tuple[str, ...], market: MarketDay) -> _MemberRanking:
    signed = [_signed_dim(market, name) for name in names]
    pool = market.candidates & np.all(np.isfinite(signed), axis=0)
    score = np.full(len(pool), np.nan)
    if pool.any():
        ranks = [_percentile_ranks(values[pool]) for values in signed]
        score[pool] = np.mean(ranks, axis=0)

    groups = market.rank_groups([score, *signed], pool, MAX_SCREENED)
    score_of = {asset: float(score[asset]) for asset in chain.from_iterable(groups)}
    return _MemberRanking(names, int(pool.sum()), groups, score_of)


def _screen_groups(
    step: ResearchStep, screen: _MemberRanking, groups: Iterable[Sequence[int]]
) -> dict[str, Payload]:
    """Return the table for the leading groups of a screen."""
    shown = [name.removeprefix("-") for name in screen.names]
    rows = []
    for asset in chain.from_iterable(groups):
        identity = payloads.identity(step, asset)
        figures = [step.show_figure(name, asset) for name in shown]
        score = figure(screen.score[asset], 3)
        rows.append((*identity, payloads.last_close(step, asset), score, *figures))

    answer: dict[str, Payload] = {"day": DayRef(step.view.day)}
    if not step.stage.lens.mask.leaves_out_whole_market:
        answer["ranked_of"] = screen.ranked_of
    return {**answer, "candidates": table((*SCREEN_COLUMNS, *shown), rows)}


def _stock_snapshot(step: ResearchStep, stock_id: int, lookback: int) -> Payload:
    mark = float(step.marks_cny[stock_id])
    limit = step.stage.limit_ppm[stock_id] / PPM
    today = step.view.bar_row(stock_id, step.view.day)
    before = step.view.bar_row(stock_id, step.view.day - 1)

    return {
        "stock_id": AssetRef(stock_id),
        "name": AssetName(stock_id),
        "day": DayRef(step.view.day),
        "board": str(step.view.boards[stock_id]),
        "sector": SectorRef(step.view.industries[stock_id]),
        "index_member": bool(step.member[stock_id]),
        "status": step.status(stock_id),
        "prev_close_cny": payloads.price(stock_id, step.previous_cny[stock_id], before),
        "last_close_cny": payloads.price(stock_id, mark, today),
        "next_open_limits": {
            "no_buy_from_cny": payloads.price(stock_id, mark, today, 1 + limit),
            "no_sell_from_cny": payloads.price(stock_id, mark, today, 1 - limit),
        },
        "factors": {name: step.show_figure(name, stock_id) for name in step.dims},
        "bars": payloads.bars(step, stock_id, lookback),
    }


def _comparison(step: ResearchStep, assets: Sequence[int], names: Sequence[str]) -> Payload:
    rows = []
    for asset in assets:
        figures = [step.show_figure(name, asset) for name in names]
        rows.append(
            (AssetRef(asset), step.status(asset), payloads.last_close(step, asset), *figures)
        )

    return {
        "day": DayRef(step.view.day),
        "grid": table(("stock_id", "status", "close_cny", *names), rows),
    }


def _signed_dim(market: MarketDay, name: str) -> FloatArray:
    """Return the [N] values to rank by, where larger is better. A leading minus in the name ranks
    the lowest values first.
    """
    if name.startswith("-"):
        return -market.dims[name[1:]]
    return market.dims[name]


def _order_to(asset: int, weight: float, held_fen: int, nav_fen: int) -> Order:
    """Return the order that brings a holding to a weight: a sale if the holding is above the
    weight, else a purchase.
    """
    side: Side = "SELL" if weight * nav_fen < held_fen else "BUY"
    return Order(asset, side, 0.5, "", weight)


def _sellable(account: Account) -> Account:
    """Return an account without locks, since everything held can be sold at the next open."""
    positions = {asset: Position(held.shares) for asset, held in account.positions.items()}
    return Account(account.cash_minor, positions)


def _percentile_ranks(values: FloatArray) -> FloatArray:
    """Return [n] ranks scaled from 0 (lowest) to 1 (highest). Ties share their mean rank, so the
    order of assets does not matter.
    """
    if len(values) == 1:
        return np.ones(1)

    order = np.argsort(values)
    rising = values[order]
    if (rising[1:] != rising[:-1]).all():  # no ties, the usual case: faster than the general path
        ranks = np.empty(len(values))
        ranks[order] = np.arange(len(values)) / (len(values) - 1)
        return ranks

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    mean_rank = last - (counts - 1) / 2

    return mean_rank[inverse] / (len(values) - 1)


# ---- the market as a whole


def _index_rows(step: ResearchStep) -> list[list[Payload]]:
    """Return the benchmark, then the other indices. Index names are shown only if stock names are,
    because an index also identifies the market.
    """
    view = step.view
    lens = step.stage.lens
    codes = list(lens.indices if lens.hides_assets else view.indices)
    codes.remove(view.benchmark_code)
    rows: list[list[Payload]] = []

    for number, code in enumerate([view.benchmark_code, *codes]):
        label = f"index_{number}"
        if number == 0:
            label = "benchmark"
        elif not lens.hides_assets:
            label = view.index_names.get(code, label)

        rows.append([label, *step.market.once(("index", code), partial(_index_row, code))])

    return rows


def _index_row(code: str, market: MarketDay) -> list[Payload]:
    """Return an index's level and figures."""
    indices = market.view.indices
    values = day_context(market)["indices"][list(indices).index(code)]
    figures = [market.market_figure(value * 100.0) for value in values.tolist()]
    return [IndexLevel(code, float(indices[code][-1])), *figures]
