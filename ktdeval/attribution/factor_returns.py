"""Factor returns over a range of days, by one cross-sectional regression per day.

In each day's cross-section, small industries are pooled, and all industries are partialled out of
returns and styles before the regression.

As in Barra's models, a constraint identifies the industry returns g, so that the intercept is the
return of the regression's market:

    minimise  sum_i w_i (r_i - f_0 - X_i' f - g_ind(i))^2   subject to   sum_i w_i g_ind(i) = 0

(Menchero, Orr and Wang, "The Barra US Equity Model (USE4)", 2011, weight the constraint by
capitalisation; a snapshot does not have it, so the regression weights are used here). By the
Frisch-Waugh-Lovell theorem, f follows from subtracting the weighted industry means from returns and
styles and regressing the residuals of returns on those of styles. For an industry, `f_0 + g` is its
mean return minus its mean exposures times f.

An industry with too few names on a day would explain their returns completely, and their selection
would always be 0. Industries with fewer than `MINIMUM[scheme]` names in the day's regression are
pooled as `other`, with all names of unknown industries. If `other` still has too few names, the
smallest remaining industry is added to it (ties: the first by name).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.attribution.asset_exposures import ExposureNote, Exposures, daily_notes, exposures
from ktdeval.attribution.regression import (
    RANK_TOLERANCE,
    CountArray,
    CrossSections,
    Robust,
    robust_errors,
    weighted_least_squares,
)
from ktdeval.attribution.style_factor_panel import check_rows
from ktdeval.attribution.style_factors import filled_forward, last_known
from ktdeval.errors import DataError
from ktdeval.market.rules.own_sessions import session_groups
from ktdeval.market.snapshots.snapshot import BoolArray, DayArray, FloatArray, MarketSnapshot

IndexArray = npt.NDArray[np.intp]
Scheme = Literal["strict", "paper", "coarse", "fine"]
"""Treatment of industries in a fit: `strict` pools small ones; `paper` (KTD-Fin eq. 1) has none;
`coarse` and `fine` show the effect of pooling.
"""

MINIMUM: Mapping[Scheme, int] = {"strict": 5, "coarse": 15, "fine": 1}
"""Minimum number of names in a day's regression for an industry to have its own return."""
OTHER = "other"
_UNKNOWN = "unknown"

#: with fewer names, a market of assets other than A-shares is too small for cross-sections
MINIMUM_NAMES = 30
FEW_ASSETS = (
    f"fewer than {MINIMUM_NAMES} assets: the return is split into market (beta) and the rest"
)
#: maximum and minimum number of earlier returns for estimating an asset's betas
YEAR = 252
MINIMUM_RETURNS = 20
_BLOCK = 48  #: days per pass, so that its arrays fit in the cache
_FLAT = 1e-9  #: maximum fraction of its sum of squares that varies in a constant column


@dataclass(frozen=True, slots=True)
class Goodness:
    """Goodness of fit over all days, weighted within a day, with equal weight for each day."""

    #: explained fraction of the cross-sectional variance; None if nothing varies
    r_squared: float | None
    #: R² corrected for the number of parameters (Theil 1961: mean squares over their degrees of
    #: freedom); None without degrees of freedom
    adjusted_r_squared: float | None
    names: float  #: mean number of names in a day's regression
    #: mean number of parameters per day: intercept, industries minus one, and styles
    parameters: float
    degrees_of_freedom: float  #: mean number of names minus parameters per day


@dataclass(frozen=True)
class Fit:
    """Exposures and factor returns for D days, as daily fractions."""

    rows: range  #: snapshot rows; `days` are their dates
    days: DayArray
    codes: tuple[str, ...]  #: the N assets
    exposures: Exposures  #: regressors, K factors
    #: [D, N] adjusted close-to-close returns; after a suspension, measured from the last close; 0
    #: without a bar on that day
    returns: FloatArray
    has_return: BoolArray  #: [D, N] names with a bar on that day and an earlier close
    weights: FloatArray  #: [D, N] regression weights; 0 for excluded names
    #: [D] the intercept: return of a name without factor exposures; with industries, of a name at
    #: their weighted mean
    common: FloatArray
    style: FloatArray  #: [D, K] returns per unit of exposure; 0 where dropped
    #: [D, I] industry returns in excess of the common return, with a weighted mean of 0; I is 0 in
    #: `paper`
    industry: FloatArray
    industry_names: tuple[str, ...]  #: the I industries, with `other` last
    #: [D, N] column of `industry`; pooled industries map to `other`. 0 if I is 0
    industry_of: IndexArray
    #: ranks and counts of the daily regressions on intercept, industries and styles
    cross_sections: CrossSections
    scheme: Scheme  #: treatment of industries
    #: [D, N] in a market model: the market return since each asset's last close, by which its beta
    #: is multiplied; None if `common` applies to all assets
    own_common: FloatArray | None = None

    @property
    def factor_names(self) -> tuple[str, ...]:
        """The K style factors."""
        return self.exposures.names

    @cached_property
    def has_industries(self) -> bool:
        """Return whether any industry is known and not pooled, on at least one day."""
        if not self.industry_names:
            return False

        other = len(self.industry_names) - 1
        is_own = (self.industry_of != other) & (self.weights > 0.0)
        is_fitted = ~self.cross_sections.too_few
        return bool(is_own[is_fitted].any())

    def style_days(self, days: slice) -> CountArray:
        """Return the number of the chosen days on which each style took part in the regression.
        Shape: [K].
        """
        dropped = self.cross_sections.dropped[days, 1 : 1 + len(self.factor_names)]
        return np.asarray((~dropped).sum(axis=0), dtype=np.int64)

    @cached_property
    def residuals(self) -> FloatArray:
        """Return minus common, style and industry components, for all assets in the regression or
        not. Shape: [D, N].
        """
        return self.returns - self.explained

    @cached_property
    def explained(self) -> FloatArray:
        """Sum of the common, style and industry components of every asset's return. Shape:
        [D, N].
        """
        if self.own_common is not None:
            return self.own_common * self.exposures.design[:, 0]

        coefficients = np.concatenate([self.common[:, None], self.style], axis=1)
        explained: FloatArray = (coefficients[:, None, :] @ self.exposures.design)[:, 0, :]
        if not self.industry_names:
            return explained

        return explained + of_names(self.industry, self.industry_of)

    @cached_property
    def goodness(self) -> Goodness:
        """Joint goodness of fit of all days' regressions, over the names in them."""
        weights = self.weights / np.maximum(
            self.weights.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny
        )
        spread = self.returns - (weights * self.returns).sum(axis=1, keepdims=True)
        left = float((weights * self.residuals**2).sum())
        total = float((weights * spread**2).sum())
        names = int(self.cross_sections.count.sum())
        parameters = int(self.cross_sections.parameters.sum())
        free = names - parameters
        days = max(1, int(np.count_nonzero(self.cross_sections.count)))
        r_squared = None
        adjusted = None
        if total > 0.0:
            r_squared = 1.0 - left / total
            if free > 0:
                # Correction of Theil (1961)
                adjusted = 1.0 - left / free / (total / (names - days))

        return Goodness(r_squared, adjusted, names / days, parameters / days, free / days)

    def standard_errors(self, kind: Robust = "HC3") -> FloatArray:
        """Return robust standard errors of `common` and `style`: [D, 1 + K]. NaN for dropped styles
        and, if there are industries, for `common`.
        """
        sections = self.cross_sections
        count = len(self.industry_names)
        if not count:
            return robust_errors(self.exposures.design, self.returns, self.weights, sections, kind)

        industries = _IndustryShares.of(self.weights, self.industry_of, count)
        styles, _ = _within(self.exposures.design[:, 1:], industries)
        leverage = industries.shares
        fitted = replace(
            sections, coefficients=np.zeros_like(self.style), dropped=sections.dropped[:, 1:]
        )
        errors = robust_errors(styles, self.residuals, self.weights, fitted, kind, leverage)

        return np.concatenate([np.full((len(errors), 1), np.nan), errors], axis=1)

    @cached_property
    def notes(self) -> tuple[ExposureNote, ...]:
        """Notes on missing data in the fit."""
        sections = self.cross_sections
        left_out = np.count_nonzero(
            self.exposures.investable & self.has_return & ~self.exposures.defined, axis=1
        )
        left_out = np.where(self.exposures.defined.any(axis=1), left_out, 0)
        fitted = ~sections.too_few & (sections.count > 0)
        styles = sections.dropped[:, 1 : 1 + len(self.factor_names)] & fitted[:, None]
        constant = self._constant_styles() if styles.any() else styles

        return (
            *self.exposures.notes,
            *daily_notes("no_exposures", left_out),
            *daily_notes("constant_factor", styles & constant, self.factor_names),
            *daily_notes("collinear_factor", styles & ~constant, self.factor_names),
            *daily_notes("too_few_names", sections.too_few),
            *daily_notes("no_names", sections.count == 0),
        )

    def _constant_styles(self) -> BoolArray:
        """Return whether all names in the regression have the same exposure to a style.
        Shape: [D, K].
        """
        z = self.exposures.design[:, 1:]
        weights = self.weights[:, None, :]
        total = np.maximum(self.weights.sum(axis=1), np.finfo(np.float64).tiny)[:, None]
        squares = (weights * z * z).sum(axis=2)
        spread = squares - (weights * z).sum(axis=2) ** 2 / total

        return np.asarray(spread <= _FLAT * squares)


def fit_factors(
    snapshot: MarketSnapshot,
    first_row: int,
    last_row: int,
    scheme: Scheme = "strict",
    factors: tuple[str, ...] | None = None,
    known: Exposures | None = None,
) -> Fit:
    """Regress each day's returns on an intercept, the scheme's industries and the style exposures
    known at the previous close (weighted least squares).

    A name takes part if it was in the index at the previous close, has a bar on both that day and
    its previous session, and has at least one exposure. On days when no name has an exposure, all
    names take part, but only the common return and industries are fitted. If there are no more
    names than parameters, only the common return is fitted. `known`: exposures for these rows, to
    be shared between schemes. A market other than A-shares with fewer than `MINIMUM_NAMES` assets
    gets the `market_model`. Raises DataError if rows or factors are unknown, or `known` covers
    different rows.
    """
    rows = range(first_row, last_row + 1)
    if has_few_assets(snapshot):
        return market_model(snapshot, rows, scheme)

    if known is None:
        known = exposures(snapshot, rows, factors)
    if known.rows != rows or known.weights.shape[1] != len(snapshot.codes):
        raise DataError(
            f"exposures are of rows {known.rows.start}…{known.rows.stop - 1}, the fit of"
            f" {first_row}…{last_row}"
        )

    returns, has_return, one_day = close_to_close(snapshot, rows)
    takes_part = (
        known.investable & one_day & (known.defined | ~known.defined.any(axis=1, keepdims=True))
    )
    weights = np.where(takes_part, known.weights, 0.0)
    names: tuple[str, ...] = ()
    industry_of = np.zeros(weights.shape, dtype=np.intp)
    industry = np.empty((len(rows), 0))

    if scheme == "paper":
        sections = weighted_least_squares(known.design, returns, weights)
    else:
        names, industry_of = pooled_industries(snapshot.industries, weights > 0.0, MINIMUM[scheme])
        sections, industry = _with_industries(
            known.design, returns, weights, industry_of, len(names)
        )

    return Fit(
        rows=rows,
        days=snapshot.days[first_row : last_row + 1],
        codes=snapshot.codes,
        exposures=known,
        returns=returns,
        has_return=has_return,
        weights=weights,
        common=sections.coefficients[:, 0],
        style=sections.coefficients[:, 1:],
        industry=industry,
        industry_names=names,
        industry_of=industry_of,
        cross_sections=sections,
        scheme=scheme,
    )


def has_few_assets(snapshot: MarketSnapshot) -> bool:
    """Return whether a market is attributed by the `market_model`."""
    return bool(snapshot.instruments) and len(snapshot.codes) < MINIMUM_NAMES


def market_model(snapshot: MarketSnapshot, rows: range, scheme: Scheme = "strict") -> Fit:
    """Explain each return in `rows` by the market return times the asset's beta; the rest is the
    residual.

    The market is the index or, without an index, the previous day's members at equal weights,
    rebalanced daily. In the latter case, a member whose exchange is closed has a return of 0. A
    return after closed days is explained by the market return over all these days. Beta is the
    least-squares slope over the last `YEAR` returns before the day, each between consecutive days
    on which both asset and market have a price. With fewer than `MINIMUM_RETURNS` returns, beta is
    1. Raises DataError unless `rows` are rows of the snapshot after its first day.
    """
    check_rows(snapshot, rows, 1)
    returns, has_return, _ = close_to_close(snapshot, range(1, rows.stop))
    levels, has_level = _market_levels(snapshot, returns)
    moves = _moves_since_last_close(snapshot, levels)[rows.start :]
    betas = np.ones((len(rows), len(snapshot.codes)))
    known = np.zeros((len(rows), len(snapshot.codes)), dtype=np.bool_)
    for asset in range(len(snapshot.codes)):
        close = snapshot.adjusted_close[: rows.stop, asset]
        shared = np.flatnonzero(np.isfinite(close) & has_level)
        betas[:, asset], known[:, asset] = _betas(close, levels, shared, rows)

    own = slice(rows.start - 1, rows.stop - 1)
    investable = snapshot.member[own]
    takes_part = investable & has_return[own]
    nothing: FloatArray = np.empty((len(rows), 0))
    count = np.count_nonzero(takes_part, axis=1)
    notes = (
        *daily_notes(
            "market_model",
            np.ones(len(rows), dtype=np.bool_),
            (snapshot.meta.benchmark or "equal weights",),
        ),
        *daily_notes("beta_assumed", np.count_nonzero(takes_part & ~known, axis=1)),
    )
    design = np.where(has_return[own], betas, 0.0)[:, None, :]
    weights = takes_part.astype(np.float64)
    nobody = np.zeros((len(rows), 1), dtype=np.bool_)
    has_beta = known | ~has_return[own]
    market = np.nan_to_num(levels[rows.start :] / levels[rows.start - 1 : -1] - 1.0)

    return Fit(
        rows=rows,
        days=snapshot.days[rows.start : rows.stop],
        codes=snapshot.codes,
        exposures=Exposures(rows, (), design, weights, investable, has_beta[:, None, :], notes),
        returns=returns[own],
        has_return=has_return[own],
        weights=weights,
        common=market,
        style=nothing,
        industry=nothing,
        industry_names=(),
        industry_of=np.zeros(weights.shape, dtype=np.intp),
        cross_sections=CrossSections(
            market[:, None], nobody, nobody[:, 0], count, np.minimum(count, 1)
        ),
        scheme=scheme,
        own_common=moves,
    )


def market_levels(snapshot: MarketSnapshot) -> FloatArray:
    """Return levels of the index or, without an index, of the previous day's members at equal
    weights. Levels are forward-filled; NaN before the first one. Shape: [T].
    """
    returns, _, _ = close_to_close(snapshot, range(1, len(snapshot.days)))
    return _market_levels(snapshot, returns)[0]


def _market_levels(snapshot: MarketSnapshot, returns: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the forward-filled levels of the index or of the equal-weight members, [T], and
    whether each day has its own level. `returns` covers T - 1 days, from row 1 on.
    """
    days = len(returns) + 1
    if snapshot.meta.benchmark:
        levels = snapshot.benchmark[:days]
        return filled_forward(levels[:, None])[:, 0], np.isfinite(levels)

    has_begun = np.cumsum(np.isfinite(snapshot.close), axis=0) > 0
    held = (snapshot.member & has_begun)[: days - 1]
    mean = np.where(held, returns, 0.0).sum(axis=1) / np.maximum(held.sum(axis=1), 1)
    return np.cumprod(np.append(1.0, 1.0 + mean)), np.ones(days, dtype=np.bool_)


def _moves_since_last_close(snapshot: MarketSnapshot, levels: FloatArray) -> FloatArray:
    """Return the market return since each asset's last close before the row; 0 if there is no
    earlier close. Shape: [T, N].
    """
    days = len(levels)
    has_close = np.isfinite(snapshot.close[:days])
    last = np.maximum.accumulate(np.where(has_close, np.arange(days)[:, None], -1), axis=0)
    before = np.concatenate([np.full((1, last.shape[1]), -1), last[:-1]])
    with np.errstate(all="ignore"):  # for a market that has lost all its value
        moves = levels[:, None] / levels[before] - 1.0

    return np.where((before >= 0) & np.isfinite(moves), moves, 0.0)


def _betas(
    close: FloatArray, levels: FloatArray, shared: IndexArray, rows: range
) -> tuple[FloatArray, BoolArray]:
    """Return an asset's beta before each of `rows`, 1 if not known, and whether it is known. Shape
    of both: [D]. `shared`: rows on which both asset and market have a price.
    """
    betas = np.ones(len(rows))
    known = np.zeros(len(rows), dtype=np.bool_)
    own = close[shared[1:]] / close[shared[:-1]] - 1.0
    market = levels[shared[1:]] / levels[shared[:-1]] - 1.0
    # for each row, the number of returns that ended before it
    ends = np.searchsorted(shared[1:], np.arange(rows.start, rows.stop))

    for day, end in enumerate(ends.tolist()):
        window = slice(max(0, end - YEAR), end)
        x = market[window]
        if len(x) < MINIMUM_RETURNS:
            continue

        centred = x - x.mean()
        squares = float(centred @ centred)
        if squares > _FLAT * float(x @ x):
            betas[day] = float(centred @ own[window]) / squares
            known[day] = True

    return betas, known


def close_to_close(
    snapshot: MarketSnapshot, rows: range
) -> tuple[FloatArray, BoolArray, BoolArray]:
    """Return adjusted returns in `rows` (0 if missing), whether a return exists, and whether it
    spans a single session of the asset's own calendar. Shape of all: [D, N].
    """
    close = snapshot.adjusted_close
    before = filled_forward(
        close[rows.start - 1 : rows.stop - 1], last_known(close, rows.start - 1)
    )
    returns = close[rows.start : rows.stop] / before - 1.0
    has_return = np.isfinite(returns)
    one_session = np.zeros_like(has_return)
    for group in session_groups(snapshot):
        has_close = np.isfinite(group.of(close))
        none_before = np.zeros((1, has_close.shape[1]), dtype=np.bool_)
        had_close = np.concatenate([none_before, has_close])
        one_session[:, group.columns] = had_close[group.sessions_before(rows)]

    return np.where(has_return, returns, 0.0), has_return, has_return & one_session


def _within(styles: FloatArray, industries: _IndustryShares) -> tuple[FloatArray, FloatArray]:
    """Return style values minus their industry means, [D, K, N], and the industry means, [D, K, I].
    Values that industries explain fully become 0.
    """
    left = np.empty(styles.shape)
    means = np.empty((*styles.shape[:2], industries.count))
    # One buffer for all blocks, because allocating memory for each block would cost more than the
    # arithmetic.
    buffer = np.empty((min(_BLOCK, len(styles)), *styles.shape[1:]))

    for start in range(0, len(styles), _BLOCK):
        days = slice(start, min(start + _BLOCK, len(styles)))
        block = left[days]
        scratch = buffer[: len(block)]
        means[days] = industries.means(styles[days], days)
        _put_of_names(means[days], industries.column[days], scratch)
        np.subtract(styles[days], scratch, out=block)

        weights = industries.weights[days]
        squares = _weighted_squares(block, weights, scratch)
        # Most values differ within an industry by far more than rounding, so that a bound suffices.
        largest = max(styles[days].max(initial=0.0), -styles[days].min(initial=0.0))
        most = largest * largest * weights.sum(axis=1).max()
        if not (squares > 2.0 * RANK_TOLERANCE * most).all():
            all_squares = _weighted_squares(styles[days], weights, scratch)
            block[squares <= RANK_TOLERANCE * all_squares] = 0.0

    return left, means


def _weighted_squares(values: FloatArray, weights: FloatArray, scratch: FloatArray) -> FloatArray:
    """Return weighted sums of squares of [D, K, N] values with [D, N] weights. Shape: [D, K].
    `scratch`: an array with the shape of `values`, which is overwritten.
    """
    squared = np.multiply(values, values, out=scratch)
    sums: FloatArray = (squared @ weights[:, :, None])[:, :, 0]
    return sums


def _with_industries(
    design: FloatArray,
    returns: FloatArray,
    weights: FloatArray,
    industry_of: IndexArray,
    count: int,
) -> tuple[CrossSections, FloatArray]:
    """Fit common return, styles and [D, I] industry returns with a weighted mean of 0. On days with
    too few names, only the common return is fitted.
    """
    industries = _IndustryShares.of(weights, industry_of, count)
    total = industries.total
    styles, means = _within(design[:, 1:], industries)
    mean_return = industries.means(returns[:, None], slice(None))[:, 0]
    left = returns - of_names(mean_return, industry_of)
    groups: CountArray = np.count_nonzero(total, axis=1)
    # Frisch-Waugh-Lovell theorem: the style returns equal those in the full regression.
    sections = weighted_least_squares(styles, left, weights, groups)
    effects = mean_return - (sections.coefficients[:, None, :] @ means)[:, 0]
    everything = total.sum(axis=1, keepdims=True)
    # Menchero, Orr and Wang (2011): weighted industry returns sum to 0.
    common = (effects * total).sum(axis=1, keepdims=True) / np.where(
        everything > 0.0, everything, 1.0
    )
    industry = np.where((total > 0.0) & ~sections.too_few[:, None], effects - common, 0.0)
    parameters = np.where(sections.too_few, 1, sections.parameters)
    coefficients = np.concatenate([common, sections.coefficients], axis=1)
    dropped = np.concatenate([sections.count[:, None] == 0, sections.dropped], axis=1)

    return (
        replace(sections, coefficients=coefficients, dropped=dropped, parameters=parameters),
        industry,
    )


def pooled_industries(
    industries: tuple[str, ...], used: BoolArray, minimum: int
) -> tuple[tuple[str, ...], IndexArray]:
    """Return the names of the I industries, with `other` last, and the industry column of each
    asset on each day: [D, N]. `used`: names in each day's regression, [D, N].
    """
    known = sorted(set(industries) - {_UNKNOWN, OTHER})
    columns = {name: index for index, name in enumerate(known)}
    column = np.array([columns.get(name, len(known)) for name in industries], dtype=np.intp)
    count = used.astype(np.float64) @ (column[:, None] == np.arange(len(known) + 1))
    pooled = count < minimum
    pooled[:, -1] = True
    size = np.where(pooled, count, 0.0).sum(axis=1)
    short = np.flatnonzero((size > 0) & (size < minimum) & ~pooled.all(axis=1))
    pooled[short, np.where(pooled, np.inf, count)[short].argmin(axis=1)] = True

    return (*known, OTHER), np.where(pooled[:, column], len(known), column)


@dataclass(frozen=True)
class _IndustryShares:
    """Each name's weight as a fraction of its industry's weight, on D days."""

    weights: FloatArray  #: [D, N]
    column: IndexArray  #: [D, N] industry of each name
    count: int  #: I
    total: FloatArray  #: [D, I] total weight of each industry
    shares: FloatArray  #: [D, N] weight over the industry's weight; 0 in an industry without names

    @classmethod
    def of(cls, weights: FloatArray, column: IndexArray, count: int) -> _IndustryShares:
        """Return the weight fractions of [D, N] names in `count` industries."""
        days = len(weights)
        cells = np.arange(days)[:, None] * count + column
        size = days * count
        total = np.bincount(cells.ravel(), weights.ravel(), size).astype(np.float64)
        own = np.take(np.where(total > 0.0, total, 1.0), cells, mode="clip")
        return cls(weights, column, count, total.reshape(days, count), weights / own)

    def means(self, values: FloatArray, days: slice) -> FloatArray:
        """Return weighted means of [D, K, N] values over each industry's names on some days; 0 for
        an industry without names. Shape: [D, K, I].
        """
        number, rows, _ = values.shape
        shares = self.shares[days]
        cells = (np.arange(number)[:, None] * self.count + self.column[days]).ravel()
        means = np.empty((number, rows, self.count))
        for row in range(rows):
            parts = (shares * values[:, row]).ravel()
            sums = np.bincount(cells, parts, number * self.count)
            means[:, row] = sums.reshape(number, self.count)

        return means


def of_names(figures: FloatArray, column: IndexArray) -> FloatArray:
    """Return the figure for each name's industry, from [D, I] figures. Shape: [D, N]."""
    taken = np.empty(column.shape)
    _put_of_names(figures[:, None], column, taken[:, None])
    return taken


def _put_of_names(figures: FloatArray, column: IndexArray, taken: FloatArray) -> None:
    """Write the figure for each name's industry into `taken`, [D, K, N]. `figures`: [D, K, I]."""
    for day in range(len(figures)):
        # Columns are in bounds, and a mode that skips the check takes a third of the time.
        np.take(figures[day], column[day], axis=1, out=taken[day], mode="clip")
