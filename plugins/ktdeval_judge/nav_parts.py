"""Compare a claimed with an executed NAV, and split the difference by cause.

A *cause* is a way in which a backtest may differ from the executor: it charges other costs, sizes
or fills its orders at another price, or ignores lots, limits or dividends. `simulate(causes, fee)`
is the account that results from the same decisions with these causes applied; without causes it is
the executed account, E.

**Distance.** Root mean square difference between daily log returns of the claimed NAV C and of a
simulated NAV, so that a day's error stays on its day. If costs are removed, a fee on the value
traded, at least 0, is fitted by least squares first. So each cause is compared at its own best fee.

**Search.** Starting from no causes, and from the causes of a plain backtest (`PLAIN`), the search
adds the cause that brings the returns nearest to those of C, while each step reduces the distance
by at least a fifth. A cause that turns out to be unnecessary is removed. This is done four times:
with the executor's own fill price, and with prices of `FILLS`, group by group. A group replaces the
previous one only if it is *distinguishable*: a fee without other causes, or a price that a trader
can have, takes precedence over look-ahead.

**Distinguishable.** Models A and B differ by d on a day. The effective number of days on which they
differ is n = sum(|d|)^2 / sum(d^2). With errors a and b, B is preferred if it halves the error and
n log(mean a^2 / mean b^2) is at least 10. Both models have the same number of parameters, so this
is the difference of their Bayesian information criteria: "very strong" evidence from 10 upwards
(Kass and Raftery, *Bayes Factors*, 1995). This must also hold without the day of the largest d, or
the value must be 16 or more. Mean squares are bounded below by the square of C's resolution.

**Parts.** The causes found are applied one after the other, in the order of `CAUSES`, so that

    C - E  =  sum over causes of (path with it - path before it)  +  (C - last path)

adds up exactly. The last bracket is the `remainder`. A part depends on the order; the sum does not.
Parts are of NAVs in units of the first one: differences of total returns.

Example, worked by hand: 100 of cash, one asset, weight 1 from day 0. Closes 10, 11, 12; opens 10,
10.5, 11; no fees. Executed at the next open: 100 / 10.5 shares, NAV 100, 104.76, 114.29. A backtest
that fills at the close of the decision has 10 shares, NAV 100, 110, 120. The difference of total
returns, 0.2 - 0.1429 = 0.0571, is all of the cause `fill_at_decision`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Cause = Literal[
    "costs",
    "fitted_fee",
    "declared_fees",
    "rebalancing",
    "sizing",
    "fill_at_open",
    "fill_at_close",
    "fill_at_decision",
    "fill_before_decision",
    "fill_at_declared",
    "limits",
    "lots",
    "dividends",
]
CAUSES: tuple[Cause, ...] = (
    "costs",
    "fitted_fee",
    "declared_fees",
    "rebalancing",
    "sizing",
    "fill_at_open",
    "fill_at_close",
    "fill_at_decision",
    "fill_before_decision",
    "fill_at_declared",
    "limits",
    "lots",
    "dividends",
)
"""All causes, in the order in which they are applied."""
LOOK_AHEAD: tuple[Cause, ...] = ("fill_at_decision", "fill_before_decision")
"""Causes that fill at a price already known when the order was decided."""
FILLS: tuple[tuple[Cause, ...], ...] = (
    ("fill_at_open", "fill_at_close"),
    LOOK_AHEAD,
    ("fill_at_declared",),
)
"""Groups of causes of which at most one applies, since an order has one price. Each group is tried
only on what earlier groups leave unexplained; declared prices come last, since they are a claim,
too.
"""
PLAIN: frozenset[Cause] = frozenset({"costs", "limits", "lots"})
"""Causes present in a plain backtest with float shares and a fee."""
REMAINDER = "remainder"

PARTING = 1e-4  #: relative difference above which two NAVs differ
EXPLAINED = 0.05  #: share of the largest gap that may remain if causes explain it
_CLOSE = 2e-7  #: distance below which a simulated path matches the claim
_MIN_GAIN = 0.2  #: minimum share of the distance that an added cause removes
_SPARE = 0.05  #: gain in distance below which a cause is dropped
_HALVED = 4.0  #: minimum ratio of mean squared errors
_MIN_EVIDENCE = 10.0  #: minimum difference of Bayesian information criteria
_MIN_OF_ONE_DAY = 16.0  #: minimum if a single day may carry the evidence: its error rate is 1/3,000
_MAX_FEE = 0.01  #: share of the value traded
_NO_FEE = 1e-7  #: fee, as a share of the value traded, below which it is set to 0
PRICES = frozenset(itertools.chain.from_iterable(FILLS))

Path = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fee:
    """A fee on the value traded, fitted to a claimed NAV."""

    rate: float = 0.0  #: share of the value traded; 0: no fee
    is_early: bool = False  #: whether it is charged at the close before the fill day


NO_FEE = Fee()


class Simulated(NamedTuple):
    """An account simulated under some causes, at the closes of the compared days."""

    path: Path  #: NAV, [days + 1]
    #: cumulative value traded, each fill as a multiple of its day's NAV, [days + 1]
    traded: Path


Simulate = Callable[[frozenset[Cause], float], Simulated]
"""Causes, and the fee on the value traded -> the simulated account."""


@dataclass(frozen=True)
class ReturnPart:
    """A part of the difference between two total returns."""

    cause: str  #: one of `CAUSES`, or `remainder`
    value: float  #: claimed minus executed, as a share of the first NAV


@dataclass(frozen=True)
class NavComparison:
    """Differences between the claimed and the executed NAV, over the same days."""

    days: int
    claimed_return: float
    executed_return: float
    parts: tuple[ReturnPart, ...]  #: parts, which add up to claimed minus executed
    first_parting: int | None  #: index of the first day on which they differ; None: they agree
    largest_gap: float  #: largest relative difference on any day
    remaining_gap: float  #: part of it that the causes found do not explain
    found: tuple[Cause, ...]
    fee: float  #: fee fitted to the claim, as a share of the value traded; 0: no fee
    error: float  #: distance that remains with the causes found
    error_elsewhere: float  #: smallest distance of a model without look-ahead

    @property
    def agrees(self) -> bool:
        """Return whether the NAVs are the same on every day."""
        return self.first_parting is None

    @property
    def parting_cause(self) -> str | None:
        """Cause of the largest part; None if the NAVs agree."""
        if self.agrees:
            return None
        return max(self.parts, key=lambda part: abs(part.value)).cause

    @property
    def is_explained(self) -> bool:
        """Return whether the causes found explain almost all of the difference."""
        return self.remaining_gap <= max(5e-4, EXPLAINED * self.largest_gap)

    @property
    def looks_ahead(self) -> bool:
        """Return whether the claimed NAV uses fill prices known at the time of the decision."""
        return not self.agrees and not frozenset(LOOK_AHEAD).isdisjoint(self.found)


def compare_navs(
    claimed: Path,
    simulate: Simulate,
    possible: Sequence[Cause] = CAUSES,
    resolution: float = 0.0,
) -> NavComparison:
    """Compare a claimed NAV with `simulate(frozenset(), 0.0)`. Both are [days + 1] over the same
    days, compared as multiples of their first value. `resolution`: smallest daily return that the
    claimed NAV can show. Raises ValueError if lengths differ, or a value is not above 0.
    """
    models = _Models(claimed, simulate, possible, max(resolution, _CLOSE))
    executed = _from_one(models.path(frozenset()))
    gaps = _gaps(models.claimed, executed)
    parted = np.flatnonzero(gaps > PARTING)
    honest = best = models.fit_causes(frozenset())
    if len(parted):
        honest, best = _search(models)

    found = models.name_causes(best)
    ladder = _ladder(models, found, best.fee)
    last = ladder[REMAINDER][0]
    return NavComparison(
        days=len(claimed) - 1,
        claimed_return=float(models.claimed[-1] - 1.0),
        executed_return=float(executed[-1] - 1.0),
        parts=_parts(ladder),
        first_parting=int(parted[0]) if len(parted) else None,
        largest_gap=float(gaps.max()),
        remaining_gap=float(_gaps(models.claimed, last).max()),
        found=found,
        fee=best.fee.rate,
        error=best.distance,
        error_elsewhere=honest.distance,
    )


@dataclass(frozen=True)
class _Fit:
    """Causes with their best fee, and the errors that remain."""

    causes: frozenset[Cause]
    fee: Fee
    errors: Path  #: claimed minus simulated log returns, [days]

    @property
    def distance(self) -> float:
        return float(np.sqrt(np.mean(self.errors**2)))


class _Models:
    """Accounts simulated under sets of causes, each simulated once, and compared with the claimed
    NAV.
    """

    def __init__(
        self, claimed: Path, simulate: Simulate, possible: Sequence[Cause], resolution: float
    ) -> None:
        self.claimed = _from_one(claimed)
        self.possible = possible
        self.resolution = resolution
        self._returns = np.diff(np.log(self.claimed))
        self._simulate = simulate
        self._known: dict[tuple[frozenset[Cause], float], Simulated] = {}

    def path(self, causes: frozenset[Cause], fee: Fee = NO_FEE) -> Path:
        path = self._run(causes, fee.rate).path
        if not fee.is_early:
            return path

        # each day carries the fee of the following fills; the first day's is paid at the start
        after = np.append(self._find_traded(causes, fee.rate), 0.0)
        paid = 1.0 - fee.rate * after
        return np.asarray(path * paid / paid[0])

    def fit_causes(self, causes: frozenset[Cause]) -> _Fit:
        """Return the causes with the best-fitting fee, to first order; the distance is infinite if
        the account falls to zero.
        """
        if not self.path(causes).min() > 0:
            return _Fit(causes, NO_FEE, np.full(len(self._returns), np.inf))

        errors = self._errors(causes, NO_FEE)
        fits = [_Fit(causes, NO_FEE, errors)]
        for is_early in (False, True):
            traded = self._find_charged(causes, Fee(0.0, is_early))
            rate = self._rate(causes, errors, traded, 0.0)
            fits.append(_Fit(causes, Fee(rate, is_early), errors + rate * traded))

        return min(fits, key=_distance)

    def refine_fit(self, fit: _Fit) -> _Fit:
        """Return the fit simulated again with its fee charged."""
        fee = fit.fee
        if not fee.rate:
            return fit

        errors = self._errors(fit.causes, fee)
        rate = self._rate(fit.causes, errors, self._find_charged(fit.causes, fee), fee.rate)
        if rate <= _NO_FEE:
            fee = NO_FEE
        else:
            fee = replace(fee, rate=rate)
        return _Fit(fit.causes, fee, self._errors(fit.causes, fee))

    def name_causes(self, fit: _Fit) -> tuple[Cause, ...]:
        """Return the causes of a fit in order, including its fee."""
        causes = set(fit.causes)
        if fit.fee.rate:
            causes.add("fitted_fee")
        return tuple(cause for cause in CAUSES if cause in causes)

    def _rate(self, causes: frozenset[Cause], errors: Path, traded: Path, before: float) -> float:
        """Return the least-squares fee, given the errors at another fee."""
        squares = float(traded @ traded)
        if "costs" not in causes or "declared_fees" in causes or not squares:
            return 0.0
        return min(max(before - float(errors @ traded) / squares, 0.0), _MAX_FEE)

    def _errors(self, causes: frozenset[Cause], fee: Fee) -> Path:
        return np.asarray(self._returns - np.diff(np.log(self.path(causes, fee))))

    def _find_traded(self, causes: frozenset[Cause], rate: float) -> Path:
        return np.diff(self._run(causes, rate).traded)

    def _find_charged(self, causes: frozenset[Cause], fee: Fee) -> Path:
        """Return the value traded by the day on which its fee is charged, [days]."""
        traded = self._find_traded(causes, fee.rate)
        if fee.is_early:
            return np.append(traded[1:], 0.0)
        return traded

    def _run(self, causes: frozenset[Cause], fee: float) -> Simulated:
        key = (causes, fee)
        if key not in self._known:
            simulated = self._simulate(causes, fee)
            if len(simulated.path) != len(self.claimed):
                raise ValueError(f"{len(simulated.path)} values, expected {len(self.claimed)}")
            path = np.asarray(simulated.path / simulated.path[0])
            self._known[key] = Simulated(path, simulated.traded)
        return self._known[key]


def _from_one(path: Path) -> Path:
    values = np.asarray(path, dtype=np.float64)
    if len(values) < 2 or not (values > 0).all() or not np.isfinite(values).all():
        raise ValueError("a NAV needs two or more finite values above 0")
    return np.asarray(values / values[0])


def _gaps(claimed: Path, executed: Path) -> Path:
    return np.abs(claimed / executed - 1.0)


# ---- search


def _search(models: _Models) -> tuple[_Fit, _Fit]:
    """Return the best model without look-ahead, and the best distinguishable model."""
    best = honest = models.refine_fit(_nearest(models, ()))
    for fills in FILLS:
        known = tuple(cause for cause in fills if cause in models.possible)
        if not known or best.distance <= models.resolution:
            continue

        other = models.refine_fit(_nearest(models, known))
        if is_told_apart(best.errors, other.errors, models.resolution):
            best = other
        if fills != LOOK_AHEAD and best is other:
            honest = other

    return honest, best


def is_told_apart(weaker: Path, stronger: Path, resolution: float) -> bool:
    """Return whether one model's daily errors are smaller than another's by more than chance (see
    the module docstring); [days] each.
    """
    least = float(np.mean(stronger**2)) + resolution**2
    if np.mean(weaker**2) + resolution**2 < _HALVED * least:
        return False

    differences = np.abs(weaker - stronger)
    others = np.arange(len(differences)) != int(np.argmax(differences))
    found = _evidence(weaker, stronger, least)
    without_largest = _evidence(weaker[others], stronger[others], least)
    return found >= _MIN_OF_ONE_DAY or min(found, without_largest) >= _MIN_EVIDENCE


def _evidence(weaker: Path, stronger: Path, least: float) -> float:
    """Return the difference of information criteria over the days on which the models differ.
    `least`: mean squared error of the better model, with the resolution included.
    """
    weights = np.abs(weaker - stronger)
    if not weights.any():
        return 0.0

    independent = float(weights.sum()) ** 2 / float(weights @ weights)
    squares = [np.average(errors**2, weights=weights) for errors in (weaker, stronger)]
    return independent * math.log(max(squares[0], least) / max(squares[1], least))


def _nearest(models: _Models, fills: Sequence[Cause]) -> _Fit:
    """Return the nearest model with one of the fill prices, or with the executor's if `fills` is
    empty.
    """
    found = []
    for start in (frozenset[Cause](), PLAIN.intersection(models.possible)):
        prices = [start | {fill} for fill in fills] or [start]
        best = min(map(models.fit_causes, prices), key=_by_distance)
        while best.distance > models.resolution:
            better = min((best, *_larger(models, best, fills)), key=_by_distance)
            if better.distance > (1 - _MIN_GAIN) * best.distance:
                break

            best = better

        found.append(_without_spare(models, best))

    # among equally near models, the one with the fewest causes
    nearest = min(found, key=_by_distance)
    few = min(found, key=lambda fit: (len(fit.causes), fit.distance))
    if few.distance <= max((1 + _SPARE) * nearest.distance, models.resolution):
        return few
    return nearest


def _larger(models: _Models, fit: _Fit, fills: Sequence[Cause]) -> Iterator[_Fit]:
    """Yield the models with one additional cause; another fill price replaces the current one."""
    for cause in models.possible:
        if cause in fit.causes:
            continue
        if cause in fills:
            yield models.fit_causes(fit.causes - PRICES | {cause})
        elif cause not in PRICES:
            yield models.fit_causes(fit.causes | {cause})


def _by_distance(fit: _Fit) -> tuple[float, list[str]]:
    return fit.distance, sorted(fit.causes)


def _distance(fit: _Fit) -> float:
    return fit.distance


def _without_spare(models: _Models, fit: _Fit) -> _Fit:
    """Return the model without causes that change almost nothing."""
    for cause in CAUSES:
        if cause not in fit.causes or cause in PRICES:
            continue

        fewer = models.fit_causes(fit.causes - {cause})
        if fewer.distance <= max((1 + _SPARE) * fit.distance, models.resolution):
            fit = fewer

    return fit


# ---- parts


def _ladder(models: _Models, found: Sequence[Cause], fee: Fee) -> Mapping[str, tuple[Path, Path]]:
    """Return the path before and with each cause."""
    ladder: dict[str, tuple[Path, Path]] = {}
    working: frozenset[Cause] = frozenset()
    charged = NO_FEE
    before = models.path(working)
    for cause in found:
        if cause == "fitted_fee":
            charged = fee
        else:
            working |= {cause}
        after = models.path(working, charged)
        ladder[cause] = (before, after)
        before = after

    ladder[REMAINDER] = (before, models.claimed)
    return ladder


def _parts(ladder: Mapping[str, tuple[Path, Path]]) -> tuple[ReturnPart, ...]:
    parts = []
    for cause, (before, after) in ladder.items():
        parts.append(ReturnPart(cause, float(after[-1] - before[-1])))
    return tuple(parts)
