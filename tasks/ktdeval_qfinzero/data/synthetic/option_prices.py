"""Prices of options: Black, Scholes and Merton's formula on a smile that follows the underlying's recent volatility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from ktdeval_qfinzero.data.rows import DividendRow, FloatArray, IntArray
from ktdeval_qfinzero.data.synthetic.engine import volatility_path
from ktdeval_qfinzero.data.synthetic.grid import Grid
from ktdeval_qfinzero.moments import as_datetime64

_DECAY = 0.94
_REVERSION = 4.0  #: Of implied variance towards its long-run level, per year
_SKEW, _CURVE = -0.09, 0.025
_WEEK = 7 / 365


@dataclass(frozen=True, eq=False)
class Surface:
    """Implied volatility of one underlying, by what was known before each day."""

    level: FloatArray  #: [D] annual at the money for the shortest terms, reports aside
    base: float  #: annual in the long run
    report_rows: IntArray  #: [R] days that a report moves the price at the open of, ascending
    report_variance: float  #: variance that the market expects of one

    def at_the_money(self, row: IntArray, end_row: IntArray, years: FloatArray) -> FloatArray:
        """[n] annual volatility from the close of each day to the expiry, in `years`; `end_row`: last session."""
        long = np.maximum(years, 1 / 365)
        pull = (1.0 - np.exp(-_REVERSION * long)) / (_REVERSION * long)
        variance = self.base**2 + (self.level[row] ** 2 - self.base**2) * pull
        reports = np.searchsorted(self.report_rows, end_row, "right") - np.searchsorted(self.report_rows, row, "right")
        volatility: FloatArray = np.sqrt(variance + reports * self.report_variance / long)
        return volatility


def make_surface(rng: np.random.Generator, closes: FloatArray, volatility: float, report_rows: Sequence[int]) -> Surface:
    """Return a surface from the underlying's closes [D] and the rows of days that a report moves."""
    squares = np.append(0.0, np.diff(np.log(closes))) ** 2
    squares = np.minimum(squares, (4.0 * volatility) ** 2)
    variance = np.empty(len(closes))
    last = volatility**2
    for day in range(len(closes)):
        variance[day] = last
        last = _DECAY * last + (1.0 - _DECAY) * squares[day]
    mood = np.exp(volatility_path(rng, len(closes), 0.06))
    rows = np.array(sorted(report_rows), dtype=np.int64)
    return Surface(1.08 * np.sqrt(252.0 * variance) * mood, 1.08 * np.sqrt(252.0) * volatility, rows, (2.4 * volatility) ** 2)


def moneyness(spot: FloatArray, strike: FloatArray, years: FloatArray, volatility: FloatArray) -> FloatArray:
    """[n] logarithm of strike over price, in standard deviations of the price's move to the expiry (of a week at least)."""
    found: FloatArray = np.log(strike / spot) / (volatility * np.sqrt(np.maximum(years, _WEEK)))
    return found


def smile(at_the_money: FloatArray, standard: FloatArray) -> FloatArray:
    """[n] volatility at a strike: more below the price than above it, more far out than near."""
    bounded = np.clip(standard, -3.0, 3.0)
    found: FloatArray = at_the_money * (1.0 + _SKEW * bounded + _CURVE * bounded**2)
    return found


def dividends_before(
    dividends: Sequence[DividendRow], grid: Grid, row: IntArray, last_day: npt.NDArray[np.datetime64], rate: FloatArray
) -> FloatArray:
    """[n] present value of the dividends that are declared by a day's close and go ex between that day and the last session."""
    day = np.array(grid.days, dtype="datetime64[D]")[row]
    value = np.zeros(len(row))
    for dividend in dividends:
        ex_day = as_datetime64(dividend.ex_day)
        counts = (day < ex_day) & (ex_day <= last_day) & (dividend.declared_ns <= grid.close_ns[row])
        years = (ex_day - day).astype(np.float64) / 365.0
        value += np.where(counts, dividend.amount_e4 / 1e4 * np.exp(-rate * years), 0.0)
    return value


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of options besides the price of the underlying: [n] strike, whether a call, yield, volatility, value of dividends."""

    strike: FloatArray
    is_call: npt.NDArray[np.bool_]
    rate: FloatArray
    volatility: FloatArray
    dividends: FloatArray

    def take(self, rows: IntArray | npt.NDArray[np.bool_]) -> Terms:
        """Return some of them."""
        return Terms(self.strike[rows], self.is_call[rows], self.rate[rows], self.volatility[rows], self.dividends[rows])


def value(terms: Terms, spot: FloatArray, years: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Intrinsic value, and what the option is worth on top of it. The European formula on the price less its dividends; never below
    what exercise gives at once. `terms`: [n] the options; `spot`: [n] the underlying's price in dollars; `years`: [n] to the
    expiry; at 0 nothing is left but the intrinsic value.
    """
    sign = np.where(terms.is_call, 1.0, -1.0)
    intrinsic = np.maximum(sign * (spot - terms.strike), 0.0)
    base = np.maximum(spot - terms.dividends, 1e-4)
    spread = terms.volatility * np.sqrt(np.maximum(years, 1e-9))
    middle = (np.log(base / terms.strike) + terms.rate * years) / spread
    later = terms.strike * np.exp(-terms.rate * years)
    price = sign * (base * ndtr(sign * (middle + spread / 2)) - later * ndtr(sign * (middle - spread / 2)))
    return intrinsic, np.where(years > 0, np.maximum(price - intrinsic, 0.0), 0.0)
