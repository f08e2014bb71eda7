"""Agent Market Arena's metrics (§3.3, Table 1) for an account that holds at most one asset, with
costs in basis points. All metrics are fractions.

A path gives the account's value after the trades at each close, starting with the first decision
that has a price. At the last point of the path, the position is closed at the run's average cost (5
basis points if nothing was filled).

The `paper` rules follow the public code (testbed/get_return.py at 8fa7e5b). The base is the value
after the first trade, so the cost of this trade is never counted. At venues with 365 days per year,
a zero return precedes the others. At other venues, zero returns are dropped, whether the exchange
was closed or the account held no position.

Under `strict` rules, the base is the cash before the first trade, the path covers the days on which
the asset has a price, and only the returns of these days count.

Buy & Hold buys at the first close and sells at the last close, at the same costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.registry import find_figure, table_metrics
from ktdeval.stats import MetricValue, RuleSet, has_no_variance
from ktdeval.trading import Ledger, StepRecord

_COST = 5e-4  #: fraction of the notional, if nothing was filled
#: tolerance for treating two returns as equal, because fills are rounded to a cent and orders leave
#: a millionth unspent for the rounding
_EQUAL = 1e-6


@dataclass(frozen=True, slots=True)
class AccountCourse:
    """An account from its first close to its last, n days later."""

    path: FloatArray  #: [n + 1] value after the trades at each close, with the last position closed
    before: FloatArray  #: [n + 1] value before the trades at each close
    sides: FloatArray  #: [n] side held from one close to the next: +1, −1, or 0
    held: FloatArray | None  #: [n + 1] value of Buy & Hold; None if no asset or price is known
    cost: float  #: cost of a fill, as a fraction of its notional
    days: int  #: days per year


def course(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> AccountCourse | str:
    """Return the course of the account in a ledger, or why it can't be computed."""
    steps = ledger.steps
    if not steps:
        return "no steps"

    cost = _cost_of(steps)
    worth = [*(step.open_nav_minor for step in steps), steps[-1].nav_minor]
    before = np.array(worth, dtype=np.float64)
    # The last position is closed at the run's average cost.
    paid = [*(_count_paid(step) for step in steps), cost * _gross(steps[-1])]
    path = before - np.array(paid)
    if not (path > 0).all():
        return "the account's value is zero or negative on a step"

    sides = np.array([_side(step) for step in steps], dtype=np.float64)
    rows = np.arange(len(path))
    held = None
    days = ledger.days_a_year

    assets = _involved_assets(steps, market)
    if len(assets) == 1:
        asset = assets[0]
        first = market.day_index(steps[0].decided_on)
        prices = market.adjusted_close[first : first + len(path), asset]
        days = market.rules[market.venues[asset]].days_a_year
        known = np.isfinite(prices)

        # Before the first price and after the last one, nothing moves except for the cost of
        # closing.
        if known[:-1].any():
            has_price = known if rules == "strict" else np.maximum.accumulate(known)
            rows = np.flatnonzero(has_price)
            rows = np.append(rows[:-1] if len(rows) > 1 else rows, len(path) - 1)

        if known.any():
            held = _value_buy_and_hold(prices, known, cost, rules)[rows]

    if rules == "strict":
        path[rows[0]] = ledger.initial_cash_minor

    return AccountCourse(path[rows], before[rows], sides[rows[:-1]], held, cost, days)


def _cost_of(steps: Sequence[StepRecord]) -> float:
    """Return the average cost of a fill, as a fraction of its notional."""
    traded = 0
    for step in steps:
        traded += sum(order.notional_minor for order in step.orders)
    if not traded:
        return _COST
    return sum(_count_paid(step) for step in steps) / traded


def _side(step: StepRecord) -> float:
    """Return the side held from a step's close onwards: 1, -1, or 0."""
    return float(np.sign(sum(position.shares for position in step.positions)))


def _involved_assets(steps: Sequence[StepRecord], market: MarketSnapshot) -> list[int]:
    """Return the assets that were held or ordered; otherwise all assets of the market."""
    codes: set[str] = set()
    for step in steps:
        codes.update(position.code for position in step.positions)
        codes.update(order.code for order in step.orders if order.code)

    if not codes:
        return list(range(len(market.codes)))
    return [market.asset_index[code] for code in codes]


def _count_paid(step: StepRecord) -> int:
    return sum(order.fee_minor for order in step.orders)


def _gross(step: StepRecord) -> int:
    return sum(abs(position.value_minor) for position in step.positions)


def _value_buy_and_hold(
    prices: FloatArray, known: FloatArray, cost: float, rules: RuleSet
) -> FloatArray:
    """Return the [n + 1] value of one unit of money in Buy & Hold. Prices are forward-filled, and
    back-filled before the first price.
    """
    rows = np.maximum.accumulate(np.where(known, np.arange(len(prices)), int(np.argmax(known))))
    held: FloatArray = prices[rows] / prices[rows[0]] / (1.0 + cost)
    held[-1] *= 1.0 - cost

    if rules == "strict":
        held[: int(np.argmax(known)) + 1] = 1.0

    return held


def _daily_returns(of: AccountCourse, rules: RuleSet) -> FloatArray:
    returns: FloatArray = np.diff(of.path) / of.path[:-1]
    if rules == "strict":
        return returns
    # For crypto assets, get_return.py at 8fa7e5b puts a zero before the returns.
    if of.days == 365:
        return np.concatenate([[0.0], returns])

    # For stocks, get_return.py at 8fa7e5b drops zero returns.
    moved: FloatArray = returns[np.abs(returns) > _EQUAL]
    return moved if len(moved) else returns


def _of_returns(name: str, of: AccountCourse, returns: FloatArray) -> float | str:
    """Return a metric computed from daily returns, or why it can't be computed."""
    growth = float(of.path[-1] / of.path[0])
    if name == "ama_annualised_return":
        # §3.3: (1 + R) to the power of days per year over days, minus 1
        power = math.log(growth) * of.days / len(returns)
        if power >= 700.0:
            return "the annualised return is too large for a number"
        return math.expm1(power)

    if len(returns) < 2:
        return "fewer than two returns"

    spread = float(np.std(returns, ddof=1))
    if name == "ama_volatility":
        # §3.3 states 252 days for all assets; here the venue's own number of days is used.
        return spread * math.sqrt(of.days)

    resolution = 1.0 / float(of.path.min())  # the path is in minor units of money
    if has_no_variance(spread, resolution):
        return "the returns do not vary"

    # §3.3: risk-free rate 0
    return float(np.mean(returns)) / spread * math.sqrt(of.days)


def _win_rate(of: AccountCourse, rules: RuleSet) -> tuple[float | str, int]:
    """Return the fraction of closed positions with a gain (under `strict`, after the costs of
    opening and closing), and the number of closed positions.
    """
    if of.held is None and of.sides.any():
        return "several assets were traded, so positions have no common side", len(of.sides)

    turns = [0, *(np.flatnonzero(np.diff(of.sides)) + 1).tolist(), len(of.sides)]
    if rules == "strict":
        # Opening and closing each incur costs once. From the second point onwards, the path already
        # includes the cost of opening.
        after_costs = (1.0 - of.cost) ** 2
        opened = np.concatenate([of.before[:1] * (1.0 - of.cost), of.path[1:]])
    else:
        after_costs = 1.0
        opened = of.path

    wins = []
    for start, end in pairwise(turns):
        if of.sides[start]:
            wins.append(of.before[end] * after_costs > opened[start])

    if not wins:
        return "no position was held", 0
    return sum(wins) / len(wins), len(wins)


def _find_moves(levels: FloatArray) -> npt.NDArray[np.bool_]:
    """Return, for each return, whether it differs from zero by more than rounding."""
    return np.asarray(np.abs(np.diff(levels) / levels[:-1]) > _EQUAL)


def _against(name: str, of: AccountCourse, rules: RuleSet) -> tuple[float | str, int]:
    """Return a metric relative to Buy & Hold, and the number of days."""
    if of.held is None:
        reason = "no single asset for Buy & Hold: several assets, or none, were traded"
        return reason, len(of.sides)

    own = of.path / of.path[0] - 1.0
    held = of.held / of.held[0] - 1.0
    open_days = np.ones(len(own) - 1, dtype=np.bool_)

    if rules == "paper":  # days on which the account or Buy & Hold moved
        open_days = _find_moves(of.path) | _find_moves(of.held)

    gaps = (own - held)[1:][open_days]
    if not len(gaps):
        return "no day on which a price moved", 0
    if name == "ama_gap_to_buy_and_hold":
        return float(np.mean(gaps)), len(gaps)

    return float(np.mean(gaps > _EQUAL)), len(gaps)


def _figure_and_count(name: str, of: AccountCourse, rules: RuleSet) -> tuple[float | str, int]:
    if name == "ama_win_rate":
        return _win_rate(of, rules)
    if name in ("ama_days_above_buy_and_hold", "ama_gap_to_buy_and_hold"):
        return _against(name, of, rules)
    if name == "ama_max_drawdown":
        # §3.3: largest loss from a peak to a trough
        return float((1.0 - of.path / np.maximum.accumulate(of.path)).max()), len(of.path)

    returns = _daily_returns(of, rules)
    if name == "ama_cumulative_return":
        return float(of.path[-1] / of.path[0]) - 1.0, len(returns)

    if not len(returns):
        return "no returns", 0
    return _of_returns(name, of, returns), len(returns)


def _figure_metric(
    name: str, ledger: Ledger, market: MarketSnapshot, rules: RuleSet
) -> MetricValue | str:
    result = course(ledger, market, rules)
    if isinstance(result, str):
        return result
    value, n = _figure_and_count(name, result, rules)
    if isinstance(value, str):
        return MetricValue(None, n, value)
    return MetricValue(value + 0.0, n)


FIGURES = table_metrics(
    Path(__file__).with_suffix(".csv"), lambda name: partial(_figure_metric, name)
)
figure = partial(find_figure, "AMA", FIGURES)
