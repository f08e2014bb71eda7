"""DeepFund metrics (§3, Appendix D) beyond the standard panel. They are computed from simple daily
returns of the NAV, r, and of the market's index, m. All metrics are fractions.

`paper`: the risk-free rate is f = 4.29 % / 252 per day, with 252 days per year. A win is a day on
which the NAV rose. This follows from the win rates in Table 3, which are 52, 57, 61, 65 and 70 %:
12 to 16 of the 23 daily returns over the paper's 24 days.

`strict`: f = 1.0429^(1/D) - 1 with the venue's D days per year. A win is a sale above average cost
after trading costs, following Appendix D.

The paper states neither the divisor of standard deviations nor whether alpha is annualised; here
standard deviations have ddof 1 and alpha is annualised. CR and MDD are `total_return` and
`max_drawdown`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.registry import find_figure, table_metrics
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
from ktdeval.trading import Ledger, StepRecord

# Appendix D, formulas 2 and 6
RISK_FREE = 0.0429  #: annual yield of the 1-month US Treasury bill on 2025-04-17


def risk_free(days: int, rules: RuleSet) -> float:
    """Return the risk-free return per day, for `days` days per year."""
    if rules == "paper":
        return RISK_FREE / TRADING_DAYS
    return float((1.0 + RISK_FREE) ** (1.0 / days)) - 1.0


def buy_and_hold(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Return the return of the first day's portfolio held to the last day, on closes adjusted for
    splits and dividends.
    """
    if not ledger.steps:
        return "no steps"

    first, last = day_rows(market, ledger.days[[0, -1]]).tolist()
    # Appendix D: initialised by the model on day 1, and held to the end
    step = ledger.steps[0]
    values = [float(step.cash_minor)]

    for position in step.positions:
        closes = market.adjusted_close[:, market.asset_index[position.code]]
        bought = _last_known(closes[: first + 1])
        if bought is None:
            return f"{position.code} has no close on or before the first day"

        growth = _last_known(closes[: last + 1]) / bought
        values.append(position.value_minor * float(growth))

    return MetricValue(math.fsum(values) / ledger.initial_cash_minor - 1.0, len(ledger.steps))


def _last_known(closes: FloatArray) -> Any:
    """Return the last known close, or None."""
    known = closes[np.isfinite(closes)]
    return known[-1] if known.size else None


def sharpe(ledger: Ledger, rules: RuleSet) -> MetricValue | str:
    """Return the Sharpe ratio over the risk-free rate of 4.29 %."""
    problem = level_problem(ledger.nav)
    if problem:
        return problem
    if len(ledger.returns) < 2:
        return "fewer than two days"

    days = TRADING_DAYS if rules == "paper" else ledger.days_a_year
    spread = standard_deviation(ledger.returns)
    if has_no_variance(spread, ledger.return_resolution):
        return "returns have no variance"

    # Appendix D, formula 2
    excess = mean(ledger.returns) - risk_free(days, rules)
    return MetricValue(excess / spread * math.sqrt(days), len(ledger.returns))


def win_rate(ledger: Ledger, rules: RuleSet) -> MetricValue | str:
    """Return the fraction of days with a profit; under strict rules, the fraction of profitable
    sales.
    """
    problem = level_problem(ledger.nav)
    if problem:
        return problem

    if rules == "paper":
        # Table 3 is consistent with fractions of 23 daily returns, not of trades.
        wins = (ledger.returns > 0).tolist()
    else:
        # Appendix D, formula 4: profitable trades
        wins = [profit > 0 for profit in sale_profits(ledger)]

    if not wins:
        return "nothing held was sold"
    return MetricValue(sum(wins) / len(wins), len(wins))


def sale_profits(ledger: Ledger) -> Iterator[float]:
    """Yield the profit of each sale of a holding in minor units: the proceeds less the cost of the
    part sold.
    """
    shares: dict[str, int] = {}
    costs: dict[str, float] = {}
    for step in ledger.steps:
        shares |= {action.code: action.shares_after for action in step.corporate_actions}
        for code, change, cash in _fills(step):
            before = shares.get(code, 0)
            shares[code] = before + change
            if change > 0:
                # A buy may close a short position first; only the rest opens a holding.
                opened = max(before + change, 0) - max(before, 0)
                cost_before = costs[code] if before > 0 else 0.0
                costs[code] = cost_before - cash * opened / change
                continue

            sold = min(-change, max(before, 0))
            if sold:
                cost = costs[code] * sold / before
                costs[code] -= cost
                yield cash * sold / -change - cost


def _fills(step: StepRecord) -> Iterator[tuple[str, int, int]]:
    """Yield the code, the change in shares and the change in cash (including costs) for each fill,
    in order of execution: margin calls, sells, buys.
    """
    for call in step.charges:
        if call.kind == "margin_call":
            yield call.code, call.shares, call.cash_minor

    for order in sorted(step.orders, key=lambda order: order.side == "BUY"):
        if order.code is not None and order.filled_shares:
            sign = 1 if order.side == "BUY" else -1
            yield (
                order.code,
                sign * order.filled_shares,
                -sign * order.notional_minor - order.fee_minor,
            )


@dataclass(frozen=True, slots=True)
class MarketModel:
    """Regression of the NAV's daily returns on those of the index."""

    beta: float
    index_returns: FloatArray  #: [steps] daily returns of the index


def market_model(ledger: Ledger, market: MarketSnapshot) -> MarketModel | str:
    """Return a ledger's market model, or why it can't be computed."""
    problem = level_problem(ledger.nav)
    if problem:
        return problem

    levels = benchmark_levels(ledger, market)
    problem = benchmark_problem(market, levels)
    if problem:
        return f"benchmark: {problem}"
    if len(ledger.returns) < 2:
        return "fewer than two days"

    index = simple_returns(levels)
    # Appendix D, formula 5: covariance over variance
    slope = beta_to(index, ledger.returns)
    if slope is None:
        return "the benchmark does not vary"
    return MarketModel(slope, index)


def beta(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Return the beta to the market's index (in the paper, the S&P 500)."""
    model = market_model(ledger, market)
    if isinstance(model, str):
        return model
    return MetricValue(model.beta + 0.0, len(ledger.returns))


def alpha(ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue | str:
    """Return the annualised Jensen's alpha against the market's index."""
    model = market_model(ledger, market)
    if isinstance(model, str):
        return model

    days = TRADING_DAYS if rules == "paper" else ledger.days_a_year
    free = risk_free(days, rules)
    # Appendix D, formula 6
    daily = mean(ledger.returns) - free - model.beta * (mean(model.index_returns) - free)

    return MetricValue(days * daily + 0.0, len(ledger.returns))


def effectiveness(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Return the fraction of filled orders that proved right: buys followed by a rise and sells
    followed by a fall. The change is measured from the fill to the next price of the same kind.
    """
    forecasts = judged_orders(ledger, market).forecasts
    if not forecasts:
        return "no filled order with a next price"

    # §4.3: a Buy followed by a rise, a Sell by a fall
    successes = sum(forecast.success for forecast in forecasts)
    return MetricValue(successes / len(forecasts), len(forecasts))


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
