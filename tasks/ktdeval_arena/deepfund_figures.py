"""Figures of DeepFund (§3, Appendix D) that the panel lacks, on simple daily returns: of the NAV, r, and of the market's index, m.

`paper`: f = 4.29 % / 252 a day and 252 days a year; a win is a day on which the NAV rose, for the win rates printed in Table 3 are
52, 57, 61, 65 and 70 %: 12 to 16 of the 23 returns of its 24 days. `strict`: f = 1.0429^(1/D) - 1 with the venue's D days a year;
a win is a sale above its average cost, costs of trading included, as Appendix D words it. The paper prints neither divisor nor
scale: standard deviations have ddof 1, alpha is a year's. CR and MDD are `total_return` and `max_drawdown`. Fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.stats import (
    TRADING_DAYS,
    MetricValue,
    RuleSet,
    benchmark_levels,
    benchmark_problem,
    beta_to,
    day_rows,
    has_no_variance,
    judged_orders,
    level_problem,
    mean,
    simple_returns,
    standard_deviation,
)
from ktdeval.task_files import find_figure, table_metrics
from ktdeval.trading import Ledger, StepRecord

RISK_FREE = 0.0429  #: 1-month US Treasury bill on 2025-04-17, a year


def risk_free(days: int, rules: RuleSet) -> float:
    """Risk-free return of one of `days` days a year."""
    return RISK_FREE / TRADING_DAYS if rules == "paper" else (1.0 + RISK_FREE) ** (1.0 / days) - 1.0


def buy_and_hold(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Return of the portfolio of the first day, held to the last, on closes adjusted for splits and dividends."""
    if not ledger.steps:
        return "no steps"
    first, last = day_rows(market, ledger.days[[0, -1]]).tolist()
    step = ledger.steps[0]
    values = [float(step.cash_minor)]
    for position in step.positions:
        closes = market.adjusted_close[:, market.asset_index[position.code]]
        bought, known = (values_[np.isfinite(values_)] for values_ in (closes[: first + 1], closes[: last + 1]))
        if not bought.size:
            return f"{position.code} has no close up to the first day"
        values.append(position.value_minor * float(known[-1] / bought[-1]))
    return MetricValue(math.fsum(values) / ledger.initial_cash_minor - 1.0, len(ledger.steps))


def sharpe(ledger: Ledger, rules: RuleSet) -> MetricValue | str:
    """Sharpe ratio over the risk-free rate of 4.29 %."""
    if problem := level_problem(ledger.nav):
        return problem
    if len(ledger.returns) < 2:
        return "fewer than two days"
    days = TRADING_DAYS if rules == "paper" else ledger.days_a_year
    spread = standard_deviation(ledger.returns)
    if has_no_variance(spread, ledger.return_resolution):
        return "returns have no variance"
    excess = mean(ledger.returns) - risk_free(days, rules)
    return MetricValue(excess / spread * math.sqrt(days), len(ledger.returns))


def win_rate(ledger: Ledger, rules: RuleSet) -> MetricValue | str:
    """Share of days, or by strict rules of sales, with a profit."""
    if problem := level_problem(ledger.nav):
        return problem
    wins = (ledger.returns > 0).tolist() if rules == "paper" else [profit > 0 for profit in sale_profits(ledger)]
    return MetricValue(sum(wins) / len(wins), len(wins)) if wins else "nothing held was sold"


def sale_profits(ledger: Ledger) -> Iterator[float]:
    """Profit of each sale of a holding, in minor units: what it brought less its part of what the holding had cost."""
    shares: dict[str, int] = {}
    costs: dict[str, float] = {}
    for step in ledger.steps:
        shares |= {action.code: action.shares_after for action in step.corporate_actions}
        for code, change, cash in _fills(step):
            before = shares.get(code, 0)
            shares[code] = before + change
            if change > 0:
                opened = max(before + change, 0) - max(before, 0)
                costs[code] = (costs[code] if before > 0 else 0.0) - cash * opened / change
            elif sold := min(-change, max(before, 0)):
                cost = costs[code] * sold / before
                costs[code] -= cost
                yield cash * sold / -change - cost


def _fills(step: StepRecord) -> Iterator[tuple[str, int, int]]:
    """Code, change in shares and change in cash of each fill, costs included, as they follow on each other: margin calls, sells,
    buys.
    """
    yield from ((call.code, call.shares, call.cash_minor) for call in step.charges or () if call.kind == "margin_call")
    for order in sorted(step.orders, key=lambda order: order.side == "BUY"):
        if order.code is not None and order.filled_shares:
            sign = 1 if order.side == "BUY" else -1
            yield order.code, sign * order.filled_shares, -sign * order.notional_minor - order.fee_minor


def market_model(ledger: Ledger, market: MarketSnapshot) -> tuple[float, FloatArray] | str:
    """Beta of the NAV's daily returns to the index, and [steps] returns of the index; or why there is none."""
    if problem := level_problem(ledger.nav):
        return problem
    levels = benchmark_levels(ledger, market)
    if problem := benchmark_problem(market, levels):
        return f"benchmark: {problem}"
    if len(ledger.returns) < 2:
        return "fewer than two days"
    index = simple_returns(levels)
    slope = beta_to(index, ledger.returns)
    return "the benchmark does not vary" if slope is None else (slope, index)


def beta(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Beta to the market's index, the S&P 500 in the paper."""
    model = market_model(ledger, market)
    return model if isinstance(model, str) else MetricValue(model[0] + 0.0, len(ledger.returns))


def alpha(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue | str:
    """Jensen's alpha against the market's index, a year."""
    model = market_model(ledger, market)
    if isinstance(model, str):
        return model
    days = TRADING_DAYS if rules == "paper" else ledger.days_a_year
    free = risk_free(days, rules)
    daily = mean(ledger.returns) - free - model[0] * (mean(model[1]) - free)
    return MetricValue(days * daily + 0.0, len(ledger.returns))


def effectiveness(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Share of filled buys followed by a rise and of sells followed by a fall, from the fill to the next price of that kind."""
    forecasts = judged_orders(ledger, market).forecasts
    if not forecasts:
        return "no filled order with a next price"
    return MetricValue(sum(forecast.success for forecast in forecasts) / len(forecasts), len(forecasts))


_FUNCTIONS: dict[str, Callable[..., MetricValue | str]] = {
    "df_buy_and_hold": buy_and_hold,
    "df_sharpe": sharpe,
    "df_win_rate": win_rate,
    "df_beta": beta,
    "df_alpha": alpha,
    "df_effectiveness": effectiveness,
}
FIGURES = table_metrics(Path(__file__).with_suffix(".csv"), _FUNCTIONS.__getitem__)
figure = partial(find_figure, "DeepFund", FIGURES)
