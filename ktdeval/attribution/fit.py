"""Factor returns of a range of days: one cross-sectional regression a day, shared by every portfolio held on these days."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ktdeval.attribution.exposures import Exposures, Note, daily_notes, exposures
from ktdeval.attribution.factors import filled_forward, last_known
from ktdeval.attribution.regression import CrossSections, Robust, robust_errors, weighted_least_squares
from ktdeval.market.snapshot import BoolArray, DayArray, FloatArray, MarketSnapshot

IndexArray = npt.NDArray[np.intp]
_BLOCK = 128
_FLAT = 1e-9  #: Share of a column's sum of squares that must vary for it not to count as constant


@dataclass(frozen=True)
class Fit:
    """Exposures and factor returns of D days, in fractions a day."""

    rows: range  #: rows of the snapshot; `days` are their dates
    days: DayArray
    codes: tuple[str, ...]  #: the N assets
    exposures: Exposures  #: what was regressed on, K factors
    #: [D, N] adjusted close-to-close returns, after a suspension since the last close; 0 without a bar that day
    returns: FloatArray
    has_return: BoolArray  #: [D, N] names with a bar that day and a close before it
    weights: FloatArray  #: [D, N] regression weights; 0 for names that took no part
    common: FloatArray  #: [D] the intercept: the return of a name with no tilt
    style: FloatArray  #: [D, K] returns a unit of exposure; 0 where dropped
    industry: FloatArray  #: [D, I] returns of the industries beside the common return, weighted mean 0; I is 0 unless asked for
    industry_names: tuple[str, ...]  #: the I industries
    industry_of: IndexArray  #: [N] column of `industry`; empty where I is 0
    cross_sections: CrossSections  #: ranks and counts of the regressions

    @property
    def factor_names(self) -> tuple[str, ...]:
        """K style factors."""
        return self.exposures.names

    @cached_property
    def residuals(self) -> FloatArray:
        """[D, N] return less common, style and industry parts, for every asset, in the regression or not."""
        return self.returns - self.explained

    @cached_property
    def explained(self) -> FloatArray:
        """[D, N] common, style and industry parts of every asset's return."""
        coefficients = np.concatenate([self.common[:, None], self.style], axis=1)
        explained: FloatArray = (coefficients[:, None, :] @ self.exposures.design)[:, 0, :]
        return explained + self.industry[:, self.industry_of] if len(self.industry_names) else explained

    def standard_errors(self, kind: Robust = "HC3") -> FloatArray:
        """[D, 1 + K] robust standard errors of `common` and `style`, NaN where dropped. With industries they hold the industry
        effects fixed at one reference industry, so the first column is not that of `common`.
        """
        columns = 1 + len(self.factor_names)
        errors = np.empty((len(self.rows), columns))
        for start in range(0, len(self.rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            sections = self.cross_sections
            fitted = CrossSections(
                sections.coefficients[part], sections.dropped[part], sections.too_few[part], sections.count[part]
            )
            design = _with_industries(self.exposures.design[part], self.industry_of, len(self.industry_names))
            errors[part] = robust_errors(design, self.returns[part], self.weights[part], fitted, kind)[:, :columns]
        return errors

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """Notes on what the fit had to do without."""
        sections = self.cross_sections
        left_out = np.count_nonzero(self.exposures.investable & self.has_return & ~self.exposures.defined, axis=1)
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
        """[D, K] whether the exposures of the names in the regression do not differ."""
        z, weights = self.exposures.design[:, 1:], self.weights[:, None, :]
        total = np.maximum(self.weights.sum(axis=1), np.finfo(np.float64).tiny)[:, None]
        squares = (weights * z * z).sum(axis=2)
        spread = squares - (weights * z).sum(axis=2) ** 2 / total
        constant: BoolArray = spread <= _FLAT * squares
        return constant


def fit_factors(
    snapshot: MarketSnapshot, first_row: int, last_row: int, industry: bool = False, factors: tuple[str, ...] | None = None
) -> Fit:
    """Regress each day's returns on an intercept and the style exposures known the day before (weighted least squares), optionally
    with industries. In it are the names that were in the index the day before, have a bar on both days and at least one exposure;
    on days on which nobody has one, all of them, for the common return alone. Raises DataError if rows or factors are unknown.
    """
    rows = range(first_row, last_row + 1)
    known = exposures(snapshot, rows, factors)
    returns, has_return, one_day = close_to_close(snapshot, rows)
    takes_part = known.investable & one_day & (known.defined | ~known.defined.any(axis=1, keepdims=True))
    weights = np.where(takes_part, known.weights, 0.0)
    names, industry_of = _industries(snapshot) if industry else ((), np.empty(0, dtype=np.intp))
    sections = _regress(known.design, returns, weights, (industry_of, len(names)))
    styles = 1 + len(known.names)
    common, effects = _centred(sections, weights, industry_of, styles)
    return Fit(
        rows=rows,
        days=snapshot.days[first_row : last_row + 1],
        codes=snapshot.codes,
        exposures=known,
        returns=returns,
        has_return=has_return,
        weights=weights,
        common=common,
        style=sections.coefficients[:, 1:styles],
        industry=effects,
        industry_names=names,
        industry_of=industry_of,
        cross_sections=sections,
    )


def close_to_close(snapshot: MarketSnapshot, rows: range) -> tuple[FloatArray, BoolArray, BoolArray]:
    """[D, N] adjusted returns of `rows` (0 without one), whether there is one, and whether it is of one day."""
    close = snapshot.adjusted_close
    before = filled_forward(close[rows.start - 1 : rows.stop - 1], last_known(close, rows.start - 1))
    returns = close[rows.start : rows.stop] / before - 1.0
    has_return = np.isfinite(returns)
    return np.where(has_return, returns, 0.0), has_return, has_return & np.isfinite(close[rows.start - 1 : rows.stop - 1])


def _industries(snapshot: MarketSnapshot) -> tuple[tuple[str, ...], IndexArray]:
    names = tuple(sorted(set(snapshot.industries)))
    return names, np.array([names.index(name) for name in snapshot.industries], dtype=np.intp)


def _regress(design: FloatArray, returns: FloatArray, weights: FloatArray, industries: tuple[IndexArray, int]) -> CrossSections:
    """All days, in blocks when industry columns have to be laid beside the styles."""
    if industries[1] == 0:
        return weighted_least_squares(design, returns, weights)
    parts = [
        weighted_least_squares(_with_industries(design[part], *industries), returns[part], weights[part])
        for part in (slice(start, start + _BLOCK) for start in range(0, len(design), _BLOCK))
    ]
    return CrossSections(
        np.concatenate([part.coefficients for part in parts]),
        np.concatenate([part.dropped for part in parts]),
        np.concatenate([part.too_few for part in parts]),
        np.concatenate([part.count for part in parts]),
    )


def _with_industries(design: FloatArray, industry_of: IndexArray, count: int) -> FloatArray:
    if count == 0:
        return design
    flags = (industry_of[None, :] == np.arange(count)[:, None]).astype(np.float64)
    return np.concatenate([design, np.broadcast_to(flags, (len(design), *flags.shape))], axis=1)


def _centred(sections: CrossSections, weights: FloatArray, industry_of: IndexArray, styles: int) -> tuple[FloatArray, FloatArray]:
    """[D] common and [D, I] industry returns of weighted mean 0. The regression drops the last industry, so its effects are
    differences from that one; moving their mean to the common return changes no fitted value.
    """
    common, effects = sections.coefficients[:, 0], sections.coefficients[:, styles:]
    if effects.shape[1] == 0:
        return common, effects
    share = weights @ (industry_of[:, None] == np.arange(effects.shape[1])).astype(np.float64)
    total = share.sum(axis=1, keepdims=True)
    share /= np.where(total > 0.0, total, 1.0)
    mean = (share * effects).sum(axis=1, keepdims=True)
    return common + mean[:, 0], np.where(share > 0.0, effects - mean, 0.0)
