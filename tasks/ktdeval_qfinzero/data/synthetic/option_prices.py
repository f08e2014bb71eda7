"""Options listed on an underlying, and their prices: the Black-Scholes-Merton formula with a
volatility smile that follows recent volatility.

Weeklies expire on Fridays and monthlies on the third Friday of their month, or on the session
before if the Friday is a holiday. Underlyings with options never split, so no contract is ever
adjusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from ktdeval_qfinzero.data.rows import ContractRow, DividendRow, FloatArray, IntArray
from ktdeval_qfinzero.data.synthetic.engine import volatility_path
from ktdeval_qfinzero.data.synthetic.minute_grid import (
    MinuteGrid,
    new_york,
    session_before,
    shift_sessions,
)
from ktdeval_qfinzero.instruments import OptionContract

_STEPS = ((30.0, 0.5), (75.0, 1.0), (150.0, 2.5), (400.0, 5.0))
_WEEKLY = (28, 7)
#: Days before expiry at which the first strikes are listed, and number of strikes on each side of
#: the price
_MONTHLY = (119, 10)
AFTER_THE_END = 1_000_000  #: Row used if the last session lies beyond the grid


@dataclass(frozen=True, eq=False)
class OptionContracts:
    """Options on one underlying. `is_call`, `monthly`: [C]; `first_row`, `last_row`: [C] first and
    last trading day on the grid.
    """

    rows: tuple[ContractRow, ...]  #: [C] rows as the store has them
    strike: FloatArray  #: [C] strikes in dollars
    is_call: npt.NDArray[np.bool_]
    monthly: npt.NDArray[np.bool_]
    first_row: IntArray
    last_row: IntArray
    end_row: IntArray  #: [C] row of the last session; `AFTER_THE_END` if it lies beyond the grid
    last_day: npt.NDArray[np.datetime64]  #: [C] last session, datetime64[D]


@dataclass(frozen=True, slots=True)
class Expiry:
    """An expiry: its day, which is a session; the session on which it is first listed; and whether
    it is monthly.
    """

    day: date
    listed: date
    monthly: bool


def expiries(first: date, last: date) -> Iterator[Expiry]:
    """Return the expiries that are traded on some day in [first, last], in ascending order."""
    friday = first + timedelta(days=(4 - first.weekday()) % 7)
    while friday <= last + timedelta(days=_MONTHLY[0]):
        monthly = 15 <= friday.day <= 21
        lead = _MONTHLY[0] if monthly else _WEEKLY[0]
        listed = shift_sessions(friday - timedelta(days=lead))
        session = session_before(friday)

        if listed <= last and session >= first:
            yield Expiry(session, listed, monthly)

        friday += timedelta(days=7)


def list_contracts(ticker: str, grid: MinuteGrid, reference: FloatArray) -> OptionContracts:
    """Return the contracts around the price `reference` ([D] dollars, known before the open). As
    the price approaches the outer strikes, more strikes are added.
    """
    parts = [
        _of_expiry(grid, reference, expiry) for expiry in expiries(grid.days[0], grid.days[-1])
    ]
    rows: list[ContractRow] = []
    for expiry, strikes, listed_row in parts:
        for strike, first_row in zip(strikes, listed_row, strict=True):
            early = first_row == 0 and expiry.listed < grid.days[0]
            listed_ns = new_york(expiry.listed, 9, 30) if early else int(grid.open_ns[first_row])
            for right in ("C", "P"):
                contract = OptionContract(
                    ticker, expiry.day, round(strike * 10_000), "C" if right == "C" else "P"
                )
                rows.append(
                    ContractRow(
                        contract.symbol,
                        ticker,
                        contract.expiry,
                        contract.strike_e4,
                        contract.right,
                        listed_ns,
                    )
                )

    counts = [2 * len(strikes) for _, strikes, _ in parts]
    ends = [grid.row_on_or_after(expiry.day) for expiry, _, _ in parts]
    end_row = np.repeat([AFTER_THE_END if end is None else end for end in ends], counts)

    return OptionContracts(
        tuple(rows),
        np.array([row.strike_e4 for row in rows]) / 1e4,
        np.array([row.right == "C" for row in rows]),
        np.repeat([expiry.monthly for expiry, _, _ in parts], counts),
        np.repeat(np.concatenate([listed for _, _, listed in parts]), 2),
        np.minimum(end_row, len(grid) - 1),
        end_row,
        np.repeat(np.array([np.datetime64(expiry.day) for expiry, _, _ in parts]), counts),
    )


def _of_expiry(
    grid: MinuteGrid, reference: FloatArray, expiry: Expiry
) -> tuple[Expiry, FloatArray, IntArray]:
    """Return the strikes of an expiry in ascending order, and the row from which each is listed."""
    first = max(0, grid.row_on_or_after(expiry.listed) or 0)
    end = grid.row_on_or_after(expiry.day)
    price = reference[first : len(grid) if end is None else end + 1]
    step = next((step for below, step in _STEPS if price[0] < below), 10.0)
    width = _MONTHLY[1] if expiry.monthly else _WEEKLY[1]
    low = max(1, int(price.min() / step) - width)
    high = int(price.max() / step) + width + 1
    strikes: FloatArray = np.arange(low, high + 1).astype(np.float64) * step
    near = np.abs(strikes[None, :] - price[:, None]) <= width * step
    is_listed = near.any(axis=0)
    listed_row: IntArray = near.argmax(axis=0)[is_listed] + first

    return expiry, strikes[is_listed], listed_row


_DECAY = 0.94
_REVERSION = 4.0  #: Mean-reversion speed of implied variance towards its long-run level, per year
_SKEW = -0.09
_CURVE = 0.025
_WEEK = 7 / 365


@dataclass(frozen=True, eq=False)
class VolatilitySurface:
    """Implied volatility of one underlying, from facts known before each day."""

    level: FloatArray  #: [D] annualised, at the money, for the shortest maturities, without reports
    base: float  #: annualised long-run level
    report_rows: IntArray  #: [R] days at whose open a report moves the price, in ascending order
    report_variance: float  #: variance that the market expects from one report

    def at_the_money(self, row: IntArray, end_row: IntArray, years: FloatArray) -> FloatArray:
        """Return the [n] annual volatility from the close of each day to the expiry, which is
        `years` ahead. `end_row`: row of the last session.
        """
        long = np.maximum(years, 1 / 365)
        pull = (1.0 - np.exp(-_REVERSION * long)) / (_REVERSION * long)
        variance = self.base**2 + (self.level[row] ** 2 - self.base**2) * pull
        reports = np.searchsorted(self.report_rows, end_row, "right") - np.searchsorted(
            self.report_rows, row, "right"
        )
        volatility: FloatArray = np.sqrt(variance + reports * self.report_variance / long)

        return volatility


def make_surface(
    rng: np.random.Generator, closes: FloatArray, volatility: float, report_rows: Sequence[int]
) -> VolatilitySurface:
    """Return a surface from the underlying's [D] closes and the rows of days whose price a report
    moves.
    """
    squares = np.append(0.0, np.diff(np.log(closes))) ** 2
    squares = np.minimum(squares, (4.0 * volatility) ** 2)
    variance = np.empty(len(closes))
    last = volatility**2

    for day in range(len(closes)):
        variance[day] = last
        last = _DECAY * last + (1.0 - _DECAY) * squares[day]

    mood = np.exp(volatility_path(rng, len(closes), 0.06))
    rows = np.array(sorted(report_rows), dtype=np.int64)
    return VolatilitySurface(
        1.08 * np.sqrt(252.0 * variance) * mood,
        1.08 * np.sqrt(252.0) * volatility,
        rows,
        (2.4 * volatility) ** 2,
    )


def moneyness(
    spot: FloatArray, strike: FloatArray, years: FloatArray, volatility: FloatArray
) -> FloatArray:
    """Return the [n] log of strike over price, in standard deviations of the price move to expiry
    (at least one week).
    """
    deviations: FloatArray = np.log(strike / spot) / (
        volatility * np.sqrt(np.maximum(years, _WEEK))
    )
    return deviations


def smile(at_the_money: FloatArray, standard: FloatArray) -> FloatArray:
    """Return the [n] volatility at a strike, which is higher below the price than above it, and
    higher far from the money.
    """
    bounded = np.clip(standard, -3.0, 3.0)
    volatility: FloatArray = at_the_money * (1.0 + _SKEW * bounded + _CURVE * bounded**2)
    return volatility


def dividends_before(
    dividends: Sequence[DividendRow],
    grid: MinuteGrid,
    row: IntArray,
    last_day: npt.NDArray[np.datetime64],
    rate: FloatArray,
) -> FloatArray:
    """Return the [n] present value of the dividends that are declared by a day's close and go ex
    between this day and the last session.
    """
    day = np.array(grid.days, dtype="datetime64[D]")[row]
    value = np.zeros(len(row))
    for dividend in dividends:
        ex_day = np.datetime64(dividend.ex_day)
        counts = (
            (day < ex_day) & (ex_day <= last_day) & (dividend.declared_ns <= grid.close_ns[row])
        )
        years = (ex_day - day).astype(np.float64) / 365.0
        value += np.where(counts, dividend.amount_e4 / 1e4 * np.exp(-rate * years), 0.0)

    return value


@dataclass(frozen=True, eq=False)
class OptionTerms:
    """Terms of options, apart from the price of the underlying: [n] strike, whether it is a call,
    yield, volatility, and value of dividends.
    """

    strike: FloatArray
    is_call: npt.NDArray[np.bool_]
    rate: FloatArray
    volatility: FloatArray
    dividends: FloatArray

    def take(self, rows: IntArray | npt.NDArray[np.bool_]) -> OptionTerms:
        """Return a selection of the terms."""
        return OptionTerms(
            self.strike[rows],
            self.is_call[rows],
            self.rate[rows],
            self.volatility[rows],
            self.dividends[rows],
        )


def value(terms: OptionTerms, spot: FloatArray, years: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the [n] intrinsic values in dollars, and the [n] additional time values. The time
    value comes from the European formula on the price less dividends. A value is never below
    immediate exercise, and the time value is zero at expiry.
    """
    sign = np.where(terms.is_call, 1.0, -1.0)
    intrinsic = np.maximum(sign * (spot - terms.strike), 0.0)
    base = np.maximum(spot - terms.dividends, 1e-4)
    spread = terms.volatility * np.sqrt(np.maximum(years, 1e-9))
    middle = (np.log(base / terms.strike) + terms.rate * years) / spread
    later = terms.strike * np.exp(-terms.rate * years)
    price = sign * (
        base * ndtr(sign * (middle + spread / 2)) - later * ndtr(sign * (middle - spread / 2))
    )

    return intrinsic, np.where(years > 0, np.maximum(price - intrinsic, 0.0), 0.0)
