"""InvestorBench metrics (§4.1, Appendix), as fractions. The `paper` rules use the asset's log
returns times the side held, the `strict` rules use log returns of the NAV.

`paper`: r_t = side_t · ln(p_t / p_t-1) over the asset's days with a price (adjusted for splits and
dividends), where side_t is +1 for a holding, −1 for a short position and 0 for none. Days without a
price are skipped. CR = Σ r; AV = sd(r) · √(the venue's days per year); SR = (CR / (N / 252)) / AV
with N prices, and with 252 even for crypto assets. MDD is that of a path that starts at 1 and is
multiplied by 1 + r each day. If several assets were held, r_t is ln(NAV_t / NAV_t-1) instead, with
the same annualisation and path; a portfolio that held only one asset has the figures of this asset.

`strict`: r_t = ln(NAV_t / NAV_t-1). N returns and the venue's days per year are used throughout,
and MDD is that of the NAV.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np

from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.registry import find_figure, table_metrics
from ktdeval.stats import MetricValue, RuleSet, has_no_variance
from ktdeval.trading import Ledger

_TRADING_DAYS = 252


def daily_returns(
    ledger: Ledger, market: MarketSnapshot, rules: RuleSet
) -> tuple[FloatArray, int] | str:
    """Return the [days] log returns of the traded assets, NaN on days without a price, and the
    number of days per year; or return why they can't be computed.
    """
    if not ledger.steps:
        return "no steps"

    codes: set[str] = set()
    for step in ledger.steps:
        codes.update(position.code for position in step.positions)

    assets = [market.asset_index[code] for code in codes]
    years = {market.rules[market.venues[asset]].days_a_year for asset in assets}
    days = years.pop() if len(years) == 1 else ledger.days_a_year

    if rules == "strict" or len(assets) > 1:
        navs = [step.nav_minor for step in ledger.steps]
        nav = np.array([ledger.initial_cash_minor, *navs], dtype=np.float64)
        if not (nav > 0).all():
            return "the NAV is not positive on a step"
        return np.diff(np.log(nav)), days

    if not assets:
        return np.zeros(len(ledger.steps)), days

    (asset,) = assets
    first = market.day_index(ledger.steps[0].decided_on)
    closes = market.adjusted_close[first : first + len(ledger.steps) + 1, asset]
    sides = [0.0]
    for step in ledger.steps:
        shares = sum(position.shares for position in step.positions)
        sides.append(float(np.sign(shares)))

    priced = np.isfinite(closes)
    # The paper's returns are logarithmic (Appendix); days without a price are skipped.
    moves = np.diff(np.log(closes[priced]))
    days_of_moves = np.flatnonzero(priced)[1:] - 1
    returns = np.full(len(ledger.steps), np.nan)
    returns[days_of_moves] = np.array(sides)[priced][1:] * moves

    return returns, days


def _figure_value(
    name: str, returns: FloatArray, days: int, rules: RuleSet, resolution: float
) -> float | str:
    cumulative = math.fsum(returns)
    if name == "ib_cumulative_return":
        return cumulative

    if name == "ib_max_drawdown":
        steps = 1.0 + returns if rules == "paper" else np.exp(returns)
        path = np.concatenate([[1.0], np.cumprod(steps)])
        return float((1.0 - path / np.maximum.accumulate(path)).max())

    if len(returns) < 2:
        return "fewer than two returns"

    spread = float(np.std(returns, ddof=1))
    volatility = spread * math.sqrt(days)
    if name == "ib_volatility":
        return volatility
    if has_no_variance(spread, resolution):
        return "the returns do not vary"

    # Published figures use 252 days per year even for crypto assets.
    years = (len(returns) + 1) / _TRADING_DAYS if rules == "paper" else len(returns) / days
    return cumulative / years / volatility


def _figure_metric(
    name: str, ledger: Ledger, market: MarketSnapshot, rules: RuleSet
) -> MetricValue | str:
    result = daily_returns(ledger, market, rules)
    if isinstance(result, str):
        return result

    daily, days = result
    returns = daily[np.isfinite(daily)]
    n = len(returns)
    value: float | str = "no returns"
    if n:
        value = _figure_value(name, returns, days, rules, ledger.return_resolution)

    if isinstance(value, str):
        return MetricValue(None, n, value)
    return MetricValue(value + 0.0, n)  # turns -0.0 into 0.0


FIGURES = table_metrics(
    Path(__file__).with_suffix(".csv"), lambda name: partial(_figure_metric, name)
)
figure = partial(find_figure, "InvestorBench", FIGURES)
