"""Decompose a portfolio's return into common, style, industry, selection and trading components.

With the weights w at the previous close (fractions of the NAV, after orders filled at that very
close) and the returns r of the day,

    sum w r  =  common + style + industry + selection     sum w f_0,  sum_k (sum w X_k) f_k,  …,  sum w u
    NAV return  =  sum w r + timing + fees + rounding

up to rounding (tested to 1e-12). `timing` is the gain on the day's fills between the fill and the
close, `fees` are negative, and `rounding` is the remainder. It results from corporate actions
rounded to whole shares, prices rounded to whole ticks and cents, and noise in adjustment factors.

Daily contributions c add up to the daily return r, but their sums over days don't add up to the
compounded total R. Carino ("Combining attribution effects over time", Journal of Performance
Measurement, summer 1999) scales day t by

    k_t / K,    k_t = ln(1 + r_t) / r_t  (1 where r_t = 0),    K = ln(1 + R) / R  (1 where R = 0)

so that the sum of c k_t / K over days and lines is the sum of ln(1 + r_t) / K = R. There is no
residual, whatever the lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from ktdeval.attribution.asset_exposures import ExposureNote, NoteKind, daily_notes
from ktdeval.attribution.factor_returns import Fit, Goodness, fit_factors
from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import BoolArray, DayArray, FloatArray, MarketSnapshot

if TYPE_CHECKING:
    from ktdeval.trading.ledger import ChargeRecord, Ledger, OrderRecord, StepRecord


RUIN = (
    "a daily return is -100 % or less: the NAV is gone, and contributions can't be linked over it"
)


def linking_coefficients(returns: FloatArray) -> FloatArray:
    """Return Carino's k_t / K for simple daily returns; all NaN for a series with a return of -100 %
    or less. The shape is that of `returns`, [..., D].
    """
    ruined = ~(returns > -1.0).all(axis=-1, keepdims=True)
    logs = np.log1p(np.where(ruined, 0.0, returns))
    total = logs.sum(axis=-1, keepdims=True)

    # Linking as in Carino (1999)
    return np.where(ruined, np.nan, _log_share(returns, logs) / _log_share(np.expm1(total), total))


def _log_share(returns: FloatArray, logs: FloatArray) -> FloatArray:
    """Return ln(1 + r) / r, or 1 where r is 0. `logs`: ln(1 + r), from `log1p` for accuracy at
    small r.
    """
    zero = returns == 0.0
    return np.asarray(np.where(zero, 1.0, logs / np.where(zero, 1.0, returns)))


IndexArray = npt.NDArray[np.intp]
_Figure = TypeVar("_Figure", np.float64, np.bool_)


@dataclass(frozen=True)
class Decomposition:
    """Daily components of `sum w r`, as fractions of NAV, for K factors and I industries.

    Arrays are [..., D]; leading axes are portfolios.
    """

    factor_names: tuple[str, ...]
    industry_names: tuple[str, ...]
    held_return: FloatArray  #: [..., D] sum w r
    #: [..., D] sum w times the common return; in the market model, sum of w beta times the market
    #: return
    common: FloatArray
    style: FloatArray  #: [..., D, K]
    industry: FloatArray  #: [..., D, I]; I is 0 in the `paper` scheme
    selection: FloatArray  #: [..., D] sum w u, the return that no factor explains
    exposures: FloatArray  #: [..., D, K] sum w X, as a fraction of NAV, so that cash dilutes it
    invested: FloatArray  #: [..., D] sum w
    #: [..., D, K] whether any holding on that day has a value for the factor
    has_exposure: BoolArray

    def exposure_days(self) -> npt.NDArray[np.int64]:
        """Number of days in `mean_exposures`, those on which some holding has a value for the
        factor. Shape: [..., K].
        """
        return np.asarray(self.has_exposure.sum(axis=-2), dtype=np.int64)

    def mean_exposures(self) -> FloatArray:
        """Mean exposures of the NAV over `exposure_days`: [..., K]; NaN if there is no such day.

        On these days, a holding without a value counts with the cross-sectional mean, which is 0.
        """
        count = self.exposure_days()
        total = np.where(self.has_exposure, self.exposures, 0.0).sum(axis=-2)
        return np.asarray(total / np.where(count > 0, count, np.nan))


#: Lines that result from trading rather than holdings
TRADING_LINES = ("timing", "fees", "rounding")


@dataclass(frozen=True)
class LinkedContributions:
    """Contributions over the whole period, linked by Carino's method so that they add up to
    `total_return`.

    If they can't be linked, `lines` is None and `reason` explains why.
    """

    total_return: float  #: geometric return of the NAV
    #: line -> linked contribution, in the order of `Attribution.line_names`
    lines: Mapping[str, float] | None
    reason: str | None = None  #: why `lines` is None


@dataclass(frozen=True)
class LedgerAttribution(Decomposition):
    """Attribution of one ledger; arrays are by day, [D]. For the two identities, see the module
    docstring.
    """

    days: DayArray  #: fill days
    returns: FloatArray  #: returns of the NAV
    timing: FloatArray  #: gain on the day's fills from the fill to the close, before fees
    fees: FloatArray  #: fees paid, as negative numbers
    rounding: FloatArray  #: remainder of the NAV return
    notes: tuple[ExposureNote, ...]  #: missing data
    goodness: Goodness  #: how well the fit explains the returns of the names in the regressions
    has_industries: bool  #: whether any industry has its own return in the fit
    style_days: npt.NDArray[np.int64]  #: [K] number of days on which each style was fitted

    @property
    def fitted_styles(self) -> tuple[str, ...]:
        """Styles fitted on at least one day; the exposures to other styles are not known."""
        pairs = zip(self.factor_names, self.style_days, strict=True)
        return tuple(name for name, days in pairs if days)

    @property
    def trading(self) -> FloatArray:
        """NAV return minus `held_return`, i.e. timing, fees and rounding. Shape: [D]."""
        return self.returns - self.held_return

    @property
    def line_names(self) -> tuple[str, ...]:
        """Names of the columns of `lines`."""
        industry = ("industry",) if self.industry_names else ()
        return ("common", *self.factor_names, *industry, "selection", *TRADING_LINES)

    @cached_property
    def lines(self) -> FloatArray:
        """Daily contributions, which add up to `returns`: [D, L]; columns are `line_names`."""
        columns = [self.common, *self.style.T]
        if self.industry_names:
            columns.append(self.industry.sum(axis=-1))

        columns += [self.selection, self.timing, self.fees, self.rounding]
        return np.stack(columns, axis=1)

    @cached_property
    def linked_lines(self) -> FloatArray:
        """`lines` as linked fractions of the initial capital (Carino); all NaN if the NAV falls to
        zero. Shape: [D, L].
        """
        return np.asarray(self.lines * linking_coefficients(self.returns)[:, None])

    def parts(self, values: FloatArray) -> dict[str, FloatArray]:
        """Return the sums of the common, style, industry (if any), selection and trading lines.

        `values`: values of the lines, [..., L].
        """
        groups: dict[str, tuple[str, ...]] = {
            "common": ("common",),
            "style": self.factor_names,
            "industry": ("industry",) if self.industry_names else (),
            "selection": ("selection",),
            "trading": TRADING_LINES,
        }
        sums = {}
        for part, names in groups.items():
            if names:
                columns = [self.line_names.index(name) for name in names]
                sums[part] = values[..., columns].sum(axis=-1)

        return sums

    @cached_property
    def linked(self) -> LinkedContributions:
        """Contributions to the geometric total return."""
        total = float(np.prod(1.0 + self.returns) - 1.0)
        if not (self.returns > -1.0).all():
            return LinkedContributions(total, None, RUIN)
        values = self.linked_lines.sum(axis=0).tolist()
        return LinkedContributions(total, dict(zip(self.line_names, values, strict=True)))


def attribution_problem(ledger: Ledger, snapshot: MarketSnapshot) -> str | None:
    """Return the reason why a ledger can't be attributed on this snapshot; None if it can."""
    if not ledger.steps:
        return "no steps"

    rows = np.searchsorted(snapshot.days, ledger.days)
    if rows[-1] >= len(snapshot.days) or not np.array_equal(snapshot.days[rows], ledger.days):
        return "the ledger's days are not days of this snapshot"
    if not np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return "the ledger's days do not follow on each other"
    if rows[0] == 0:
        return "the snapshot has no day before the first step"
    if not (ledger.nav[:-1] > 0.0).all():
        return "the NAV is not positive before the last step"
    if len(snapshot.codes) == 1 and not snapshot.meta.benchmark and snapshot.instruments:
        return "one asset and no index: there is no market to compare it with"

    return None


def attribute(
    ledger: Ledger, snapshot: MarketSnapshot, fitted: Fit | None = None
) -> LedgerAttribution:
    """Decompose each day's NAV return in an episode. The snapshot must be the one on which the
    episode was settled.

    Weights are positions over NAV at the previous close. `fitted`: factor returns that cover the
    ledger's days, to be shared between ledgers. Raises DataError if attribution is not possible
    (see `attribution_problem`), the fit has different days or assets, or a code is unknown.
    """
    problem = attribution_problem(ledger, snapshot)
    if problem is not None:
        raise DataError(f"attribution of an episode on snapshot {snapshot.meta.name}: {problem}")

    first = int(np.searchsorted(snapshot.days, ledger.days[0]))
    last = first + len(ledger.steps) - 1
    if fitted is None:
        fitted = fit_factors(snapshot, first, last)

    if first < fitted.rows.start or last >= fitted.rows.stop or fitted.codes != snapshot.codes:
        raise DataError(
            f"attribution: the fit covers rows {fitted.rows.start}…{fitted.rows.stop - 1} of"
            f" {len(fitted.codes)} assets, the ledger needs rows {first}…{last} of"
            f" {len(snapshot.codes)}; fit the episode's own window"
        )

    holdings = _Holdings.of(ledger, snapshot.asset_index)
    nav = ledger.nav
    offset = first - fitted.rows.start
    count = len(ledger.steps)
    parts = _decompose_holdings(holdings, fitted, offset, count)
    returns = (nav[1:] - nav[:-1]) / nav[:-1]
    timing, fees = _trading(ledger, snapshot, first)

    return LedgerAttribution(
        **vars(parts),
        days=fitted.days[offset : offset + count],
        returns=returns,
        timing=timing,
        fees=fees,
        rounding=returns - parts.held_return - timing - fees,
        goodness=fitted.goodness,
        has_industries=fitted.has_industries,
        style_days=fitted.style_days(slice(offset, offset + count)),
        notes=(*fitted.notes, *_holding_notes(holdings, fitted, offset, count)),
    )


@dataclass(frozen=True, slots=True)
class _Holdings:
    """Weights of positions over each day, one entry per position, in step order."""

    day: IndexArray  #: step number, from 0
    asset: IndexArray  #: column
    weight: FloatArray  #: value of the position over NAV at the previous close

    @classmethod
    def of(cls, ledger: Ledger, columns: Mapping[str, int]) -> _Holdings:
        asset: list[int] = []
        value: list[int] = []
        names: list[int] = []
        try:
            for held in _held_over(ledger):
                asset += [columns[code] for code in held]
                value += held.values()
                names.append(len(held))
        except KeyError as error:
            raise DataError(
                f"attribution: {error.args[0]} is held, but is not an asset of this snapshot; give the"
                " snapshot of the run"
            ) from None

        days = np.repeat(np.arange(len(names), dtype=np.intp), names)
        nav = ledger.nav[days] * float(ledger.minor_per_unit)
        # KTD-Fin §4.5: weights before the day's return
        weight = np.array(value, dtype=np.float64) / nav
        return cls(days, np.array(asset, dtype=np.intp), weight)


def _held_over(ledger: Ledger) -> Iterator[Mapping[str, int]]:
    """Yield, for each step, the values held over the step's day, in minor units by code."""
    values: Mapping[str, int] = {}
    for step in ledger.steps:
        # Only ledgers with scales have fills at the previous close.
        if ledger.scales:
            values = _after_fills(values, step, ledger)
        yield values
        values = {position.code: position.value_minor for position in step.positions}


def _after_fills(values: Mapping[str, int], step: StepRecord, ledger: Ledger) -> Mapping[str, int]:
    """Return the values held at the close before a step, in minor units by code, after any fills at
    that close.
    """
    fills = [fill for fill in _fills(step) if _fills_at_previous_close(ledger, fill.code)]
    if not fills:
        return values

    changed = dict(values)
    for fill in fills:
        if fill.code is not None:
            notional = fill.notional_minor if fill.side == "BUY" else -fill.notional_minor
            changed[fill.code] = changed.get(fill.code, 0) + notional

    return {code: value for code, value in changed.items() if value}


def _fills_at_previous_close(ledger: Ledger, code: str | None) -> bool:
    return ledger.scale(code).fill == "same_close"


def _decompose_holdings(holdings: _Holdings, fitted: Fit, offset: int, days: int) -> Decomposition:
    """Split `sum w r` into components, using only the assets held."""
    at = (holdings.day + offset, holdings.asset)
    weight = holdings.weight
    factors = len(fitted.factor_names)
    columns = np.empty((len(weight), 4 + factors))
    columns[:, 0] = weight * fitted.returns[at]
    columns[:, 1] = weight * fitted.residuals[at]
    columns[:, 2] = weight
    design = _of_holdings(fitted.exposures.design, at)
    np.multiply(weight[:, None], design, out=columns[:, 3:])
    common = fitted.common[offset : offset + days]
    if fitted.own_common is not None:
        columns[:, 3] *= fitted.own_common[at]
        common = np.ones(days)

    totals = _sum_by_day(columns, holdings.day, days)
    count = len(fitted.industry_names)
    cells = holdings.day * count + fitted.industry_of[at] if count else holdings.day[:0]
    industries = np.bincount(cells, weight[: len(cells)], days * count).reshape(days, count)

    fit_days = slice(offset, offset + days)
    return Decomposition(
        factor_names=fitted.factor_names,
        industry_names=fitted.industry_names,
        held_return=totals[:, 0],
        # KTD-Fin §4.5: the intercept is a common return, not an index return.
        common=totals[:, 3] * common,
        style=totals[:, 4 : 4 + factors] * fitted.style[fit_days],
        industry=industries * fitted.industry[fit_days],
        # KTD-Fin §4.5: factor-adjusted selection alpha
        selection=totals[:, 1],
        exposures=totals[:, 4 : 4 + factors],
        invested=totals[:, 2],
        has_exposure=_has_exposure(holdings, fitted, at, days),
    )


def _has_exposure(
    holdings: _Holdings, fitted: Fit, at: tuple[IndexArray, IndexArray], days: int
) -> BoolArray:
    """Return whether any holding on a day has a value for each factor. Shape: [days, K]. `at`: days
    (in the fit) and assets of the holdings.
    """
    has_all = np.bincount(holdings.day[fitted.exposures.complete[at]], minlength=days) > 0
    has: BoolArray = np.repeat(has_all[:, None], len(fitted.factor_names), axis=1)
    # Days on which no holding has all values are few; only on these days, holdings are checked one
    # by one.
    rest = np.flatnonzero(~has_all[holdings.day])
    if len(rest) and has.shape[1]:
        known = _of_holdings(fitted.exposures.known, (at[0][rest], at[1][rest]))
        day, factor = np.nonzero(known)
        has[holdings.day[rest][day], factor] = True

    return has


def _of_holdings(
    figures: npt.NDArray[_Figure], at: tuple[IndexArray, IndexArray]
) -> npt.NDArray[_Figure]:
    """Select the figures of n holdings from [D, K, N]. Shape: [n, K]. `at`: days and assets of the
    holdings.
    """
    _, rows, assets = figures.shape
    day, asset = at
    # A single index into flat memory is much faster than indexing two axes around a slice.
    first = day * (rows * assets) + asset
    taken: npt.NDArray[_Figure] = figures.reshape(-1)[first[:, None] + np.arange(rows) * assets]
    return taken


def _sum_by_day(values: FloatArray, day: IndexArray, days: int) -> FloatArray:
    """Return the sums by day of the rows of [n, C] values. `day` must be ascending. Shape:
    [days, C].
    """
    totals = np.zeros((days, values.shape[1]))
    if len(day):
        begins = np.flatnonzero(np.diff(day, prepend=-1))
        totals[day[begins]] = np.add.reduceat(values, begins, axis=0)
    return totals


def _trading(ledger: Ledger, snapshot: MarketSnapshot, first: int) -> tuple[FloatArray, FloatArray]:
    """Return timing and fees as fractions of the previous NAV, each [D].

    Timing is the gain on fills between the fill and the close. Margin calls are treated as fills,
    and interest as a fee.
    """
    before = ledger.nav[:-1] * float(ledger.minor_per_unit)
    count = len(ledger.steps)
    paid = np.array([step.costs_minor for step in ledger.steps], dtype=np.float64)
    fees = 0.0 - paid / before

    fills: list[OrderRecord | ChargeRecord] = []
    numbers: list[int] = []
    for step in ledger.steps:
        of_day = _fills(step)
        if ledger.scales:
            # A fill at the previous close is held over the whole day, so it has no timing.
            of_day = [fill for fill in of_day if not _fills_at_previous_close(ledger, fill.code)]

        fills.extend(of_day)
        numbers.append(len(of_day))

    if not fills:
        return np.zeros(count), fees

    ticks, steps = _units(ledger, fills)
    sign = np.where([fill.side == "BUY" for fill in fills], 1.0, -1.0)
    shares = sign * np.array([fill.filled_shares for fill in fills], dtype=np.float64)
    cash = -sign * np.array([fill.notional_minor for fill in fills], dtype=np.float64)

    days = np.repeat(np.arange(count), numbers)
    columns = [snapshot.asset_index[fill.code] for fill in fills if fill.code is not None]
    close = snapshot.close[first + days, columns]
    # Rounded to ticks, like the account's prices, so that `rounding` contains only what rounding to
    # ticks can't explain.
    close_ticks = np.floor(np.where(np.isfinite(close), close, 0.0) * ticks + 0.5)
    value = shares * close_ticks / (ticks * steps / ledger.minor_per_unit)
    gain = np.where(np.isfinite(close), value + cash, 0.0)
    return np.bincount(days, gain, count) / before, fees


def _units(
    ledger: Ledger, fills: list[OrderRecord | ChargeRecord]
) -> tuple[FloatArray, FloatArray]:
    """Return, for each fill, the number of ticks per currency unit and of steps per share
    or coin.
    """
    if not ledger.scales:
        scale = ledger.scale(None)
        return np.full(len(fills), float(scale[0])), np.full(len(fills), float(scale[1]))

    scales = [ledger.scale(fill.code) for fill in fills]
    ticks = np.array([scale[0] for scale in scales], dtype=np.float64)
    steps = np.array([scale[1] for scale in scales], dtype=np.float64)
    return ticks, steps


def _fills(step: StepRecord) -> list[OrderRecord | ChargeRecord]:
    """Return the fills in a step, from orders and margin calls."""
    fills: list[OrderRecord | ChargeRecord] = [
        order for order in step.fills if order.code is not None and order.filled_shares
    ]
    if step.charges:
        fills.extend(charge for charge in step.charges if charge.kind == "margin_call")
    return fills


def _holding_notes(holdings: _Holdings, fitted: Fit, offset: int, days: int) -> list[ExposureNote]:
    """Return notes on values of holdings that are missing in the fit."""
    at = (holdings.day + offset, holdings.asset)
    has_any: BoolArray = fitted.exposures.defined[at]
    flags: dict[NoteKind, BoolArray] = {
        "held_outside_index": ~fitted.exposures.investable[at],
        "held_without_exposures": ~has_any,
        "held_without_return": ~fitted.has_return[at],
    }
    notes: list[ExposureNote] = []
    for kind, is_flagged in flags.items():
        counts = np.bincount(holdings.day[is_flagged], minlength=days)
        notes.extend(daily_notes(kind, counts))

    return notes
