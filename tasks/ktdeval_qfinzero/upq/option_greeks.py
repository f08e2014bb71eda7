"""Implied volatility and Greeks of option prices, computed only from what was known at the time of
each price.

A row's Greeks therefore do not depend on when they are requested. The spot is the underlying's
price at the same time, the rate comes from the last curve published by then, and only dividends
declared by then are deducted. With m the time of the price, E the close of the last session up to
expiry and e the open of an ex-day's session:

    T = (E − m) / 365 days,   S = spot − Σ cash · e^(−r(t) t)  over dividends with m < e < E,
    t = (e − m) / 365 days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.data.rows import E4, TENOR_YEARS, FloatArray, IntArray, MomentSpan, RateRow
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_of, day_start
from ktdeval_qfinzero.upq import pricing
from ktdeval_qfinzero.upq.arguments import PriceField

OLDEST_DAYS = 14  #: Maximum age of a usable curve, in calendar days


@dataclass(frozen=True, eq=False)
class PublishedCurves:
    """Curves in the order in which they were published."""

    available_ns: IntArray  #: [n] publication time of each curve, ascending
    newest: IntArray  #: [n] row of the curve for the latest day among the first i + 1 curves
    rows: tuple[RateRow, ...]  #: the curves

    def rates(self, moments_ns: IntArray, years: FloatArray) -> FloatArray:
        """Return the [n] rates for `years`, each on the last curve known at its time; NaN without a
        curve. Rates are interpolated linearly between tenors and flat beyond them; 4.3% is 0.043.
        """
        last = np.searchsorted(self.available_ns, moments_ns, side="right") - 1
        rates = np.full(len(moments_ns), np.nan)
        for published in np.unique(last[last >= 0]):
            row = self.rows[int(self.newest[published])]
            here = np.flatnonzero(last == published)
            fresh = here[moments_ns[here] - day_start(row.day) < (OLDEST_DAYS + 1) * DAY]
            rates[fresh] = interpolate(row, years[fresh])

        return rates


def interpolate(row: RateRow, years: FloatArray) -> FloatArray:
    """Return the [n] rates of one curve; NaN if the curve has no tenor."""
    curve = sorted(
        (TENOR_YEARS[tenor], value / 100)
        for tenor, value in row.yields_pct.items()
        if tenor in TENOR_YEARS
    )
    if not curve:
        return np.full(len(years), np.nan)
    tenors, values = zip(*curve, strict=True)
    return np.asarray(np.interp(years, tenors, values), dtype=np.float64)


def curves_for(view: DatasetView, first_ns: int, last_ns: int) -> PublishedCurves:
    """Return the curves that times in [first, last] may need."""
    published = view.rates(day_of(first_ns) - timedelta(days=OLDEST_DAYS), day_of(last_ns))
    rows = tuple(sorted(published, key=lambda row: (row.available_ns, row.day)))
    newest: list[int] = []

    for i, row in enumerate(rows):
        newest.append(i if not newest or row.day >= rows[newest[-1]].day else newest[-1])

    return PublishedCurves(
        np.array([row.available_ns for row in rows], dtype=np.int64),
        np.array(newest, dtype=np.int64),
        rows,
    )


def curves_of_days(view: DatasetView, first: date, last: date) -> Sequence[RateRow]:
    """Return the curves of the days [first, last] as known now, sorted by day, with the last
    version of each corrected curve.
    """
    published = sorted(view.rates(first, last), key=lambda row: (row.day, row.available_ns))
    return list({row.day: row for row in published}.values())


GREEK_FIELDS = ("iv", *pricing.GREEK_NAMES)
INPUT_FIELDS = ("greek_spot", "greek_dividends", "greek_rate", "greek_years")

_YEAR_NS = pricing.DAYS_A_YEAR * DAY


@dataclass(frozen=True, eq=False)
class OptionQuotes:
    """Prices of options on one underlying; there is at least one."""

    underlying: str  #: ticker
    contracts: tuple[OptionContract, ...]  #: [n] the options
    moment_ns: IntArray  #: [n] times of the prices
    price: FloatArray  #: [n] prices, in dollars
    #: [n] price of the underlying at the time of each price, in dollars; NaN if unknown
    spot: FloatArray


def value_quotes(
    view: DatasetView, quotes: OptionQuotes
) -> tuple[dict[str, FloatArray], npt.NDArray[np.str_]]:
    """Return implied volatility, Greeks and their inputs (`GREEK_FIELDS` and `INPUT_FIELDS` -> [n]
    numbers, NaN if undefined), and the [n] status of each quote, out of `answers.Status`.
    """
    count = len(quotes.contracts)
    hours = view.hours
    closes = {
        day: hours.close_of(hours.last_expiry_session(day))
        for day in {contract.expiry for contract in quotes.contracts}
    }
    expiry_ns = np.array([closes[contract.expiry] for contract in quotes.contracts], dtype=np.int64)
    years = (expiry_ns - quotes.moment_ns) / _YEAR_NS
    curves = curves_for(view, int(quotes.moment_ns.min()), int(quotes.moment_ns.max()))
    rate = curves.rates(quotes.moment_ns, np.maximum(years, 0.0))
    deducted = _dividends(view, quotes, expiry_ns, curves)
    call = np.array([contract.right == "C" for contract in quotes.contracts], dtype=bool)
    strike = np.array([contract.strike for contract in quotes.contracts], dtype=np.float64)
    status = np.full(count, "ok", dtype="<U16")
    status[np.isnan(rate)] = "missing_rate"
    status[np.isnan(quotes.spot)] = "missing_spot"
    status[years <= 0] = "expired"
    values = {name: np.full(count, np.nan) for name in GREEK_FIELDS}
    rows = np.flatnonzero(status == "ok")
    option = pricing.EuropeanOptions(
        call[rows], (quotes.spot - deducted)[rows], strike[rows], rate[rows], years[rows]
    )
    values["iv"][rows], status[rows] = pricing.implied_volatility(option, quotes.price[rows])
    # If dividends exceed the spot, the net spot has no logarithm.
    positive = replace(option, spot=np.where(np.asarray(option.spot) > 0, option.spot, np.nan))
    solved = pricing.greeks(positive, values["iv"][rows])

    for name in pricing.GREEK_NAMES:
        values[name][rows] = np.where(status[rows] == "ok", getattr(solved, name), np.nan)

    inputs = dict(zip(INPUT_FIELDS, (quotes.spot, deducted, rate, years), strict=True))
    return values | inputs, status


def day_moment(view: DatasetView, day: date, field: PriceField) -> int:
    """Return the time of a day's opening or closing price."""
    hours = view.hours
    row = hours.row_of(day)
    if row is None:
        return hours.close_of(day)
    return int((hours.open_ns if field == "open" else hours.close_ns)[row])


def spots_of_days(
    view: DatasetView, underlying: str, start_ns: IntArray, field: PriceField
) -> FloatArray:
    """Return the [n] opens or closes of the underlying's daily bars with these starts; NaN without
    a bar.
    """
    bars = view.bars(
        "stock", underlying, "day", MomentSpan(int(start_ns.min()), int(start_ns.max()) + 1)
    )
    spots = np.full(len(start_ns), np.nan)
    traded = np.isin(start_ns, bars.start_ns)
    rows = np.searchsorted(bars.start_ns, start_ns[traded])
    spots[traded] = bars.price_e4(field)[rows] / E4

    return spots


def spots_of_moments(view: DatasetView, underlying: str, moment_ns: IntArray) -> FloatArray:
    """Return the [n] closes of the last minute bars of the underlying that were complete at each
    time, in the same session; NaN without one.
    """
    hours = view.hours
    sessions = np.searchsorted(hours.close_ns, moment_ns)
    opens = hours.open_ns[np.minimum(sessions, len(hours.open_ns) - 1)]
    bars = view.bars(
        "stock",
        underlying,
        "minute",
        MomentSpan(int(opens.min()), int(moment_ns.max()) - MINUTE + 1),
    )
    rows = np.searchsorted(bars.start_ns, moment_ns - MINUTE, side="right") - 1
    spots = np.full(len(moment_ns), np.nan)
    quoted = np.flatnonzero(rows >= 0)
    quoted = quoted[bars.start_ns[rows[quoted]] >= opens[quoted]]
    spots[quoted] = bars.close_e4[rows[quoted]] / E4

    return spots


def _new_per_old(view: DatasetView, underlying: str, moment_ns: IntArray, ex_ns: int) -> FloatArray:
    """Return the [n] new shares per share as of each moment, after the splits that are announced by
    then and take effect by `ex_ns`.
    """
    hours = view.hours
    ratio = np.ones(len(moment_ns))
    for split in view.splits(underlying):
        session = int(np.searchsorted(hours.days, np.datetime64(split.ex_day)))
        if session == len(hours.days):
            continue

        split_ns = int(hours.open_ns[session])
        if split_ns <= ex_ns:
            is_due = (split.announced_ns <= moment_ns) & (moment_ns < split_ns)
            ratio[is_due] *= split.new / split.old

    return ratio


def _dividends(
    view: DatasetView, quotes: OptionQuotes, expiry_ns: IntArray, curves: PublishedCurves
) -> FloatArray:
    """Return the [n] present value of the dividends due before expiry, in dollars per share as of
    the moment of the quote. A dividend after a split is stated per new share.
    """
    hours = view.hours
    total = np.zeros(len(quotes.contracts))
    for row in view.dividends(quotes.underlying):
        session = int(np.searchsorted(hours.days, np.datetime64(row.ex_day)))
        if session == len(hours.days):
            continue

        ex_ns = int(hours.open_ns[session])
        due = np.flatnonzero(
            (row.declared_ns <= quotes.moment_ns) & (quotes.moment_ns < ex_ns) & (ex_ns < expiry_ns)
        )
        moments = quotes.moment_ns[due]
        years = (ex_ns - moments) / _YEAR_NS
        amounts = row.amount_e4 / E4 * _new_per_old(view, quotes.underlying, moments, ex_ns)
        total[due] += amounts * np.exp(-curves.rates(moments, years) * years)

    return total
