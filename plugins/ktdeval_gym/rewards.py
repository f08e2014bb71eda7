"""Rewards of a step, computed on arrays of amounts. A single environment uses arrays of length 1,
so that a vector environment gives identical rewards.

* `log_return`: log(NAV / NAV before). NAV is after all costs that the venue charges: fees, levies,
  interest on shorts.
* `after_costs`: `log_return` less `cost_bps` / 10,000 of the traded notional over NAV before. These
  are costs that the venue does not charge.
* `benchmark_relative`: `log_return` less the log return of the benchmark: the asset itself, the
  market's index, or the mean of the members or stocks.
* `differential_sharpe`: change of the Sharpe ratio to first order in `eta`, see
  `DifferentialSharpe`.

An account whose NAV is not positive is ruined: its NAV is set to one minor unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ktdeval.errors import UsageError
from ktdeval.market import FloatArray
from ktdeval.values import near_matches

IntArray = npt.NDArray[np.int64]
RewardName = Literal["log_return", "after_costs", "benchmark_relative", "differential_sharpe"]
DEFAULT_ETA = 1 / 252
DEFAULT_COST_BPS = 10.0


@dataclass(frozen=True)
class StepAmounts:
    """Amounts of one step for N accounts."""

    nav_before: IntArray  #: [N] NAV before the step, in minor units
    nav: IntArray  #: [N] NAV after the step, in minor units
    traded: IntArray  #: [N] notional of the fills, in minor units
    benchmark: FloatArray  #: [N] log return of the benchmark


@dataclass(frozen=True)
class RewardConfig:
    """Configuration of a reward. Raises UsageError for an unknown name or a number out of range."""

    name: RewardName = "log_return"
    eta: float = DEFAULT_ETA  #: for `differential_sharpe`: weight of a new return, 0 to 1
    #: for `after_costs`: costs in basis points of the traded notional
    cost_bps: float = DEFAULT_COST_BPS

    def __post_init__(self) -> None:
        names = get_args(RewardName)
        if self.name not in names:
            near = near_matches(str(self.name), names)
            raise UsageError(f"reward {self.name!r} is unknown{near}: choose {', '.join(names)}")
        if not 0 < self.eta < 1:
            raise UsageError(f"eta is {self.eta:g}; choose a number between 0 and 1")
        if not (math.isfinite(self.cost_bps) and self.cost_bps >= 0):
            raise UsageError(f"cost_bps is {self.cost_bps:g}; choose 0 or more")


class Rewards:
    """Rewards of N accounts. Each account can be reset at any step."""

    def __init__(self, config: RewardConfig, scales: FloatArray) -> None:
        """`scales`: [N] standard deviations of the returns before each episode."""
        self._config = config
        self._sharpe = DifferentialSharpe(config.eta, scales)

    def reset(self, which: npt.NDArray[np.bool_]) -> None:
        """Reset the accounts for which `which`, [N], is True."""
        self._sharpe.reset(which)

    def of(self, amounts: StepAmounts, active: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the rewards of a step, [N]. Accounts that are not `active` keep their state, and
        their rewards are meaningless.
        """
        returns = log_returns(amounts)
        name = self._config.name
        if name == "after_costs":
            costs = amounts.traded / amounts.nav_before * (self._config.cost_bps / 1e4)
            return returns - costs
        if name == "benchmark_relative":
            return returns - amounts.benchmark
        if name == "differential_sharpe":
            return self._sharpe.of(amounts.nav / amounts.nav_before - 1.0, active)
        return returns

    def of_one(self, nav_before: int, nav: int, traded: int, benchmark: float) -> float:
        """Return the reward of a step for a single account. For the amounts, see `StepAmounts`."""
        amounts = StepAmounts(
            np.array([nav_before]), np.array([nav]), np.array([traded]), np.array([benchmark])
        )
        return float(self.of(amounts, np.ones(1, dtype=np.bool_))[0])


def log_returns(amounts: StepAmounts) -> FloatArray:
    """Return the log returns of NAV, [N]. `math.log` gives bit-identical results for any number of
    accounts.
    """
    ratios = np.maximum(amounts.nav, 1) / amounts.nav_before
    return np.array([math.log(ratio) for ratio in ratios.tolist()])


class DifferentialSharpe:
    """Differential Sharpe ratio of N accounts' simple returns R.

        D = (B dA - A dB / 2) / (B - A^2)^(3/2)     dA = R - A, dB = R^2 - B
        then A += eta dA, B += eta dB

    with the moving moments A and B before the step. They begin at 0 and at the squared scale of the
    returns known before the episode: without a prior B the first D would be undefined. Where B -
    A^2 is not positive, the divisor of the prior is used. Source: J. Moody and M. Saffell (2001),
    Learning to trade via direct reinforcement, IEEE Transactions on Neural Networks 12(4),
    equations 12 and 13.
    """

    def __init__(self, eta: float, scales: FloatArray) -> None:
        self._eta = eta
        self._prior = scales**2
        self._first = np.zeros_like(self._prior)
        self._second = self._prior.copy()

    def reset(self, which: npt.NDArray[np.bool_]) -> None:
        """Reset the accounts for which `which`, [N], is True."""
        self._first = np.where(which, 0.0, self._first)
        self._second = np.where(which, self._prior, self._second)

    def of(self, returns: FloatArray, active: npt.NDArray[np.bool_]) -> FloatArray:
        """Return D for each account, [N], and update the moments of `active` accounts."""
        first_change = returns - self._first
        second_change = returns * returns - self._second
        variance = self._second - self._first * self._first
        variance = np.where(variance > 0, variance, self._prior)
        # unlike powers, products and roots are rounded in the same way for any number of accounts
        divisor = variance * np.sqrt(variance)
        change = self._second * first_change - 0.5 * self._first * second_change
        self._first = np.where(active, self._first + self._eta * first_change, self._first)
        self._second = np.where(active, self._second + self._eta * second_change, self._second)
        return np.asarray(change / divisor)
