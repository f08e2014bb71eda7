"""Sources of a portfolio's return: common, style, industry, selection, and what trading added or cost.

With the weights w held at the previous close (shares of the NAV, after what was filled at that very close) and the returns r of the
day,

    sum w r  =  common + style + industry + selection           sum w f_0,  sum_k (sum w X_k) f_k,  …,  sum w u
    NAV return  =  sum w r + timing + fees + rounding

to rounding (1e-12 is tested). `timing` is what the day's fills made between the fill and the close, `fees` are negative, and
`rounding` is what is left: corporate actions to whole shares, marks in whole ticks and cents, the jitter of adjustment factors.

Daily contributions c add to the daily return r, but their sums don't add to the compounded total R. Carino ("Combining attribution
effects over time", Journal of Performance Measurement, summer 1999) scales day t by

    k_t / K,    k_t = ln(1 + r_t) / r_t    (1 where r_t = 0),    K = ln(1 + R) / R    (1 where R = 0)

so that sum over days and lines of c k_t / K = sum of ln(1 + r_t) / K = R: no residual, whatever the lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ktdeval.attribution.exposures import Note, NoteKind, daily_notes
from ktdeval.attribution.fit import Fit, Goodness, fit_factors
from ktdeval.errors import DataError
from ktdeval.market.snapshot import BoolArray, DayArray, FloatArray, MarketSnapshot

if TYPE_CHECKING:
    from ktdeval.trading.ledger import Ledger, StepRecord


RUIN = "a daily return is -100 % or less: the NAV is gone, and contributions can't be linked over it"


def linking_coefficients(returns: FloatArray) -> FloatArray:
    """[..., D] Carino's k_t / K for [..., D] simple daily returns; NaN throughout a series with a return of -100 % or less."""
    ruined = ~(returns > -1.0).all(axis=-1, keepdims=True)
    logs = np.log1p(np.where(ruined, 0.0, returns))
    total = logs.sum(axis=-1, keepdims=True)
    return np.where(ruined, np.nan, _log_share(returns, logs) / _log_share(np.expm1(total), total))


def _log_share(returns: FloatArray, logs: FloatArray) -> FloatArray:
    """ln(1 + r) / r, 1 at 0; log1p keeps it accurate for the smallest r."""
    zero = returns == 0.0
    return np.asarray(np.where(zero, 1.0, logs / np.where(zero, 1.0, returns)))


IndexArray = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Decomposition:
    """Daily parts of `sum w r`, in fractions of the NAV, K factors, I industries; [..., D], leading axes are portfolios."""

    factor_names: tuple[str, ...]
    industry_names: tuple[str, ...]
    held_return: FloatArray  #: [..., D] sum w r
    common: FloatArray  #: [..., D] sum w times the common return; in the market model sum w beta times that of the market
    style: FloatArray  #: [..., D, K]
    industry: FloatArray  #: [..., D, I]; I is 0 in the scheme `paper`
    selection: FloatArray  #: [..., D] sum w u, the return that no factor explains
    exposures: FloatArray  #: [..., D, K] sum w X: of the NAV, so cash dilutes it
    invested: FloatArray  #: [..., D] sum w
    has_exposure: BoolArray  #: [..., D, K] whether any holding of the day has a value of the factor

    def exposure_days(self) -> npt.NDArray[np.int64]:
        """[..., K] number of days that `mean_exposures` are means over: those with a holding that has the factor's value."""
        return np.asarray(self.has_exposure.sum(axis=-2), dtype=np.int64)

    def mean_exposures(self) -> FloatArray:
        """[..., K] mean exposures of the NAV over `exposure_days`; NaN without such a day.

        On these days a holding without a value counts with the cross-sectional mean, which is 0.
        """
        count = self.exposure_days()
        total = np.where(self.has_exposure, self.exposures, 0.0).sum(axis=-2)
        return np.asarray(total / np.where(count > 0, count, np.nan))


TRADING_LINES = ("timing", "fees", "rounding")  #: Lines that come from trading, and not from what was held


@dataclass(frozen=True)
class Linked:
    """Contributions over the whole period (Carino), which add to `total_return`; None with a reason where they can't be linked."""

    total_return: float  #: geometric return of the NAV
    lines: Mapping[str, float] | None  #: line -> linked contribution, in the order of `Attribution.line_names`
    reason: str | None = None  #: why `lines` is None


@dataclass(frozen=True)
class Attribution(Decomposition):
    """Attribution of one ledger, [D] days each; see the module for the two identities."""

    days: DayArray  #: fill days
    returns: FloatArray  #: returns of the NAV
    timing: FloatArray  #: what the day's fills made from fill to close, before fees
    fees: FloatArray  #: fees paid, negative
    rounding: FloatArray  #: the rest of the NAV's return
    notes: tuple[Note, ...]  #: what was missing
    goodness: Goodness  #: how well the fit explains the returns of the names in it

    @property
    def trading(self) -> FloatArray:
        """[D] NAV return less `held_return`: timing, fees and rounding."""
        return self.returns - self.held_return

    @property
    def line_names(self) -> tuple[str, ...]:
        """Names of the columns of `lines`."""
        industry = ("industry",) if self.industry_names else ()
        return ("common", *self.factor_names, *industry, "selection", *TRADING_LINES)

    @cached_property
    def lines(self) -> FloatArray:
        """[D, L] daily contributions, which add to `returns`: one column for each of `line_names`."""
        industry = [self.industry.sum(axis=-1)] if self.industry_names else []
        return np.stack([self.common, *self.style.T, *industry, self.selection, self.timing, self.fees, self.rounding], axis=1)

    @cached_property
    def linked_lines(self) -> FloatArray:
        """[D, L] `lines` in fractions of the capital at the start (Carino); NaN throughout when the NAV falls to nothing."""
        return np.asarray(self.lines * linking_coefficients(self.returns)[:, None])

    def parts(self, values: FloatArray) -> dict[str, FloatArray]:
        """Common, style, industry where there is one, selection and trading, from [..., L] values of lines."""
        groups: dict[str, tuple[str, ...]] = {
            "common": ("common",),
            "style": self.factor_names,
            "industry": ("industry",) if self.industry_names else (),
            "selection": ("selection",),
            "trading": TRADING_LINES,
        }
        columns_of = {part: [self.line_names.index(name) for name in members] for part, members in groups.items() if members}
        return {part: values[..., columns].sum(axis=-1) for part, columns in columns_of.items()}

    @cached_property
    def linked(self) -> Linked:
        """Contributions to the geometric total return."""
        total = float(np.prod(1.0 + self.returns) - 1.0)
        if not (self.returns > -1.0).all():
            return Linked(total, None, RUIN)
        values = self.linked_lines.sum(axis=0).tolist()
        return Linked(total, dict(zip(self.line_names, values, strict=True)))


def attribution_problem(ledger: Ledger, snapshot: MarketSnapshot) -> str | None:
    """Return why a ledger has no attribution on this snapshot, in words, or None when it has one."""
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


def attribute(ledger: Ledger, snapshot: MarketSnapshot, fitted: Fit | None = None) -> Attribution:
    """Split each day's NAV return of an episode on the snapshot it was settled on; weights are positions over NAV at the previous
    close. `fitted`: factor returns that cover the ledger's days, to share between ledgers. Raises DataError if there is no
    attribution (`attribution_problem` says why), the fit is of other days or assets, or a code is unknown.
    """
    if problem := attribution_problem(ledger, snapshot):
        raise DataError(f"attribution of an episode on snapshot {snapshot.meta.name}: {problem}")
    first = int(np.searchsorted(snapshot.days, ledger.days[0]))
    last = first + len(ledger.steps) - 1
    fitted = fit_factors(snapshot, first, last) if fitted is None else fitted
    if first < fitted.rows.start or last >= fitted.rows.stop or fitted.codes != snapshot.codes:
        raise DataError(
            f"attribution: the fit covers rows {fitted.rows.start}…{fitted.rows.stop - 1} of {len(fitted.codes)} assets, the "
            f"ledger needs rows {first}…{last} of {len(snapshot.codes)}; fit the episode's own window"
        )
    holdings, nav = _Holdings.of(ledger, snapshot.asset_index), ledger.nav
    offset, count = first - fitted.rows.start, len(ledger.steps)
    parts = _split(holdings, fitted, offset, count)
    returns = (nav[1:] - nav[:-1]) / nav[:-1]
    timing, fees = _trading(ledger, snapshot, first)
    return Attribution(
        **vars(parts),
        days=fitted.days[offset : offset + count],
        returns=returns,
        timing=timing,
        fees=fees,
        rounding=returns - parts.held_return - timing - fees,
        goodness=fitted.goodness,
        notes=(*fitted.notes, *_holding_notes(holdings, fitted, offset, count)),
    )


@dataclass(frozen=True, slots=True)
class _Holdings:
    """Weights held over each day, one entry a position, in the order of the steps."""

    day: IndexArray  #: step over which it was held, counted from 0
    asset: IndexArray  #: column
    weight: FloatArray  #: value over NAV at the previous close

    @classmethod
    def of(cls, ledger: Ledger, columns: Mapping[str, int]) -> _Holdings:
        held = _held(ledger)
        day = np.repeat(np.arange(len(held)), list(map(len, held)))
        try:
            asset = np.array([columns[code] for pairs in held for code, _ in pairs], dtype=np.intp)
        except KeyError as unknown:
            raise DataError(
                f"attribution: {unknown.args[0]} is held, but is no asset of this snapshot; give the snapshot of the run"
            ) from None
        value = np.array([value for pairs in held for _, value in pairs], dtype=np.float64)
        return cls(day, asset, value / (ledger.nav[day] * float(ledger.minor_per_unit)))


def _held(ledger: Ledger) -> list[list[tuple[str, int]]]:
    """Codes and values in minor units that each day began with."""
    before = [[], *([(position.code, position.value_minor) for position in step.positions] for step in ledger.steps[:-1])]
    return [_after_fills(pairs, step, ledger) for pairs, step in zip(before, ledger.steps, strict=True)]


def _after_fills(held: list[tuple[str, int]], step: StepRecord, ledger: Ledger) -> list[tuple[str, int]]:
    """Codes and values in minor units at the close before a step, after those of its fills that are at that close."""
    fills = [fill for fill in _fills(step) if _is_at_the_close_before(ledger, fill[0])] if ledger.scales else []
    if not fills:
        return held
    values = dict(held)
    for code, _, notional, is_buy in fills:
        values[code] = values.get(code, 0) + (notional if is_buy else -notional)
    return [(code, value) for code, value in values.items() if value]


def _is_at_the_close_before(ledger: Ledger, code: str) -> bool:
    return ledger.fill(code) == "same_close"


def _split(holdings: _Holdings, fitted: Fit, offset: int, days: int) -> Decomposition:
    """Split `sum w r` over the positions held, without a column for each asset that is not."""
    at = (holdings.day + offset, holdings.asset)
    weight = holdings.weight
    factors = len(fitted.factor_names)
    columns = np.empty((len(weight), 4 + 2 * factors))
    columns[:, 0] = weight * fitted.returns[at]
    columns[:, 1] = weight * fitted.residuals[at]
    columns[:, 2] = weight
    columns[:, 3 : 4 + factors] = weight[:, None] * fitted.exposures.design[at[0], :, at[1]]
    if factors:
        columns[:, 4 + factors :] = fitted.exposures.known[at[0], :, at[1]]
    totals = _sum_by_day(columns, holdings.day, days)
    industries: FloatArray = np.zeros((days, len(fitted.industry_names)))
    if len(fitted.industry_names):
        np.add.at(industries, (holdings.day, fitted.industry_of[at]), weight)
    fit_days = slice(offset, offset + days)
    return Decomposition(
        factor_names=fitted.factor_names,
        industry_names=fitted.industry_names,
        held_return=totals[:, 0],
        common=totals[:, 3] * fitted.common[fit_days],
        style=totals[:, 4 : 4 + factors] * fitted.style[fit_days],
        industry=industries * fitted.industry[fit_days],
        selection=totals[:, 1],
        exposures=totals[:, 4 : 4 + factors],
        invested=totals[:, 2],
        has_exposure=totals[:, 4 + factors :] > 0.0,
    )


def _sum_by_day(values: FloatArray, day: IndexArray, days: int) -> FloatArray:
    """[days, C] sums of the rows of [n, C] by their day, which ascends."""
    totals = np.zeros((days, values.shape[1]))
    if len(day):
        begins = np.flatnonzero(np.diff(day, prepend=-1))
        totals[day[begins]] = np.add.reduceat(values, begins, axis=0)
    return totals


def _trading(ledger: Ledger, snapshot: MarketSnapshot, first: int) -> tuple[FloatArray, FloatArray]:
    """[D] what fills made until the close, and minus the fees, over the NAV before: margin calls are fills, interest a fee."""
    before, count = ledger.nav[:-1] * float(ledger.minor_per_unit), len(ledger.steps)
    fills = [
        (day, code, shares if buy else -shares, -notional if buy else notional)
        for day, step in enumerate(ledger.steps)
        for code, shares, notional, buy in _fills(step)
        if not _is_at_the_close_before(ledger, code)  # held over the whole day
    ]
    paid = np.array([step.costs_minor for step in ledger.steps], dtype=np.float64)
    if not fills:
        return np.zeros(count), 0.0 - paid / before
    day, codes = np.array([fill[0] for fill in fills]), [fill[1] for fill in fills]
    scales = [ledger.scale(code)[:2] for code in codes]
    ticks, steps = (np.array(values, dtype=np.float64) for values in zip(*scales, strict=True))
    shares, cash = (np.array([fill[part] for fill in fills], dtype=np.float64) for part in (2, 3))
    close = snapshot.close[first + day, [snapshot.asset_index[code] for code in codes]]
    value = shares * np.floor(np.where(np.isfinite(close), close, 0.0) * ticks + 0.5) / (ticks * steps / ledger.minor_per_unit)
    gain = np.where(np.isfinite(close), value + cash, 0.0)
    return np.bincount(day, gain, count) / before, 0.0 - paid / before


def _fills(step: StepRecord) -> Iterator[tuple[str, int, int, bool]]:
    """Yield code, shares, notional in minor units, and whether it was a buy, of each fill of a step."""
    for order in step.orders:
        if order.code is not None and order.filled_shares:
            yield order.code, order.filled_shares, order.notional_minor, order.side == "BUY"
    for charge in step.charges or ():
        if charge.kind == "margin_call":
            yield charge.code, abs(charge.shares), charge.notional_minor, charge.shares > 0


def _holding_notes(holdings: _Holdings, fitted: Fit, offset: int, days: int) -> list[Note]:
    at = (holdings.day + offset, holdings.asset)
    flags: dict[NoteKind, BoolArray] = {
        "held_outside_index": ~fitted.exposures.investable[at],
        "held_without_exposures": ~fitted.exposures.defined[at],
        "held_without_return": ~fitted.has_return[at],
    }
    return [note for kind, of in flags.items() for note in daily_notes(kind, np.bincount(holdings.day[of], minlength=days))]
