"""Figures of a session, from its daily closes and its counts.

The only figures that are not exact sums are ratios of them, as floats. A figure that is not defined is null and has its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

TRADING_DAYS = 252
"""Trading days of a year, by which volatility and Sharpe ratio are annualised."""

_ZERO_VOLATILITY = 1e-12
"""Daily volatility below which returns count as equal: above the rounding of floats, below a cent on a billion dollars."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Facts that a session's figures are made of; money in e4.
    `start_equity_e4`: equity when the session began: the base of the first return; `closes`: (trading day, equity at its close),
    ascending; the last may be an unfinished day's latest equity; `traded_value_e4`: sum of |price × qty × multiplier| of all
    trades; `num_trades`: fills; `num_orders, num_rejected`: orders sent (accepted and rejected), and those rejected; `num_actions,
    num_invalid`: commands sent in the session, and those refused; `margin_call_count`: calls begun; `fees_e4, interest_e4,
    borrow_fees_e4`: paid in the session, positive; `dividends_e4`: received less paid.
    """

    start_equity_e4: int
    closes: tuple[tuple[date, int], ...]
    traded_value_e4: int = 0
    num_trades: int = 0
    num_orders: int = 0
    num_rejected: int = 0
    num_actions: int = 0
    num_invalid: int = 0
    margin_call_count: int = 0
    fees_e4: int = 0
    interest_e4: int = 0
    borrow_fees_e4: int = 0
    dividends_e4: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, or why there is none."""

    value: float | None
    reason: str = ""


_Figure = Annotated[float | None, Meta(description="Null where it is not defined; `undefined` says why.")]
_Money = Annotated[float, Meta(description="Dollars.")]
_Count = Annotated[int, Meta(description="How many.")]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a session: money in dollars, rates as fractions."""

    start_equity: _Money
    final_equity: _Money
    total_return: _Figure
    annualised_volatility: _Figure
    sharpe: _Figure
    max_drawdown: _Figure
    turnover: _Figure
    reject_rate: _Figure
    invalid_action_rate: _Figure
    fees_paid: _Money
    interest: _Money
    borrow_fees: _Money
    dividends: _Money
    num_days: _Count
    num_orders: _Count
    num_trades: _Count
    margin_call_count: _Count
    undefined: Annotated[dict[str, str], Meta(description="Figure that is null -> why.")]


def summarise(facts: SessionFacts) -> Figures:
    """Work out the figures.

    * total_return: final equity / equity at the start − 1.
    * annualised_volatility: sample standard deviation of daily returns × √252.
    * sharpe: mean / sample standard deviation of daily returns × √252, over a rate of 0.
    * max_drawdown: greatest fall from a running peak, as a positive fraction of the peak; the start counts as a peak.
    * turnover: traded value (purchases and sales) / mean equity at the closes; not annualised.
    * reject_rate, invalid_action_rate: rejected orders / orders, refused commands / commands.

    A figure that is not defined is null, with its reason under `undefined`: {name: words}.
    """
    equity = [facts.start_equity_e4, *(amount for _, amount in facts.closes)]
    figures = {
        "total_return": _total_return(equity),
        "annualised_volatility": _volatility(equity),
        "sharpe": _sharpe(equity),
        "max_drawdown": _max_drawdown(equity),
        "turnover": _turnover(facts),
        "reject_rate": _share(facts.num_rejected, facts.num_orders, "no order was sent"),
        "invalid_action_rate": _share(facts.num_invalid, facts.num_actions, "no command was sent"),
    }
    return Figures(
        start_equity=_dollars(facts.start_equity_e4),
        final_equity=_dollars(equity[-1]),
        **{name: figure.value for name, figure in figures.items()},
        fees_paid=_dollars(facts.fees_e4),
        interest=_dollars(facts.interest_e4),
        borrow_fees=_dollars(facts.borrow_fees_e4),
        dividends=_dollars(facts.dividends_e4),
        num_days=len(facts.closes),
        num_orders=facts.num_orders,
        num_trades=facts.num_trades,
        margin_call_count=facts.margin_call_count,
        undefined={name: figure.reason for name, figure in figures.items() if figure.value is None},
    )


def _total_return(equity: list[int]) -> Figure:
    if equity[0] <= 0:
        return Figure(None, "equity was not positive at the start")
    return Figure(equity[-1] / equity[0] - 1)


def _daily_returns(equity: list[int]) -> npt.NDArray[np.float64] | str:
    """Returns from close to close, the first from the start; or why there are none."""
    if len(equity) < 3:
        return "there are less than two daily returns"
    if min(equity[:-1]) <= 0:
        return "equity was not positive at a close, so returns are not defined"
    levels = np.array(equity, np.float64)
    return levels[1:] / levels[:-1] - 1


def _volatility(equity: list[int]) -> Figure:
    returns = _daily_returns(equity)
    if isinstance(returns, str):
        return Figure(None, returns)
    return Figure(float(np.std(returns, ddof=1)) * math.sqrt(TRADING_DAYS))


def _sharpe(equity: list[int]) -> Figure:
    returns = _daily_returns(equity)
    if isinstance(returns, str):
        return Figure(None, returns)
    deviation = float(np.std(returns, ddof=1))
    if deviation < _ZERO_VOLATILITY:
        return Figure(None, "daily returns do not vary")
    return Figure(float(np.mean(returns)) / deviation * math.sqrt(TRADING_DAYS))


def _max_drawdown(equity: list[int]) -> Figure:
    if equity[0] <= 0:
        return Figure(None, "equity was not positive at the start")
    levels = np.array(equity, np.float64)
    return Figure(float(np.max(1 - levels / np.maximum.accumulate(levels))))


def _turnover(facts: SessionFacts) -> Figure:
    if not facts.closes:
        return Figure(None, "no day was closed")
    mean = sum(amount for _, amount in facts.closes) / len(facts.closes)
    return Figure(facts.traded_value_e4 / mean) if mean > 0 else Figure(None, "mean equity was not positive")


def _share(part: int, whole: int, reason: str) -> Figure:
    return Figure(part / whole) if whole else Figure(None, reason)


def _dollars(amount_e4: int) -> float:
    return round(amount_e4 / 10_000, 4)
