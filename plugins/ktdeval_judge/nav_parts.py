"""Compare a claimed NAV with an executed NAV, and attribute the difference to causes.

A *cause* is a way in which a backtest may differ from the executor. For example, a backtest may
charge different costs, size or fill its orders at a different price, or ignore lots, limits or
dividends. `simulate(causes, fee)` is the account that results from the same decisions if these
causes apply. Without causes, it is the executed account, E.

**Distance.** The distance is the root mean square difference between the daily log returns of the
claimed NAV, C, and of a simulated NAV. With returns, an error on one day does not affect later
days. If costs are removed, a non-negative fee on the value traded is first fitted by least squares.
Causes are therefore compared with the best-fitting fee for each.

**Search.** The search starts once with no causes, and once with the causes of a plain backtest
(`PLAIN`). It repeatedly adds the cause that most reduces the distance, as long as each step reduces
the distance by at least a fifth. Causes that turn out to be unnecessary are then removed. The
search is repeated for the executor's own fill price and for each group of prices in `FILLS`. The
result for a group replaces the result so far only if the two are *distinguishable*. An explanation
by fees, or by a price that a trader can get, therefore takes precedence over look-ahead.

**Distinguishable.** Let d be the difference between models A and B on a day. The effective number
of days on which the models differ is n = sum(|d|)^2 / sum(d^2). Let a and b be their errors. B is
preferred if it halves the error and if n log(mean a^2 / mean b^2) is at least 10. Both models are
treated as having the same number of parameters, so this value is the difference between their
Bayesian information criteria. A value of at least 10 is "very strong" evidence (Kass and Raftery,
*Bayes Factors*, 1995). The value must also be at least 10 without the day with the largest |d|,
unless it is at least 16 with that day. Mean squares have the square of C's resolution as a lower
bound.

**Parts.** The causes that were found are applied one after another, in the order of `CAUSES`. Then

    C - E  =  sum over causes of (path with the cause - path before)  +  (C - last path)

holds exactly. The last term is the `remainder`. The size of a part depends on the order of causes;
the sum does not. NAVs are divided by their first value, so parts are differences between total
returns.

Example, worked by hand: 100 of cash, one asset, weight 1 from day 0. Closes 10, 11, 12; opens 10,
10.5, 11; no fees. The executor fills at the next open: 100 / 10.5 shares, NAV 100, 104.76, 114.29.
A backtest that fills at the decision's close has 10 shares, NAV 100, 110, 120. The whole difference
between total returns, 0.2 - 0.1429 = 0.0571, is due to the cause `fill_at_decision`.
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
EXPLAINED = 0.05  #: share of the largest gap that may remain if the causes explain it
_CLOSE = 2e-7  #: distance below which a simulated path matches the claimed path
_MIN_GAIN = 0.2  #: minimum share by which an added cause must reduce the distance
_SPARE = 0.05  #: a cause is dropped if the distance without it is larger by at most this share
_HALVED = 4.0  #: minimum ratio of mean squared errors
_MIN_EVIDENCE = 10.0  #: minimum difference of Bayesian information criteria
#: minimum if the evidence may come from a single day; its error rate is 1/3,000
_MIN_OF_ONE_DAY = 16.0
_MAX_FEE = 0.01  #: maximum fee, as a share of the value traded
_NO_FEE = 1e-7  #: a fitted fee below this share of the value traded is set to 0
PRICES = frozenset(itertools.chain.from_iterable(FILLS))

Path = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fee:
    """A fee on the value traded, fitted to a claimed NAV."""

    rate: float = 0.0  #: fee as a share of the value traded; 0 means no fee
    is_early: bool = False  #: whether the fee is charged at the close before the fill day


NO_FEE = Fee()


class Simulated(NamedTuple):
    """An account simulated with some causes, at the closes of the compared days."""

    path: Path  #: NAV, [days + 1]
    #: cumulative value traded, each fill as a multiple of its day's NAV, [days + 1]
    traded: Path


Simulate = Callable[[frozenset[Cause], float], Simulated]
"""Causes, and the fee on the value traded -> the simulated account."""


@dataclass(frozen=True)
class ReturnPart:
    """Part of the difference between two total returns."""

    cause: str  #: one of `CAUSES`, or `remainder`
    value: float  #: claimed minus executed return, as a share of the first NAV


@dataclass(frozen=True)
class NavComparison:
    """Differences between the claimed and the executed NAV, over the same days."""

    days: int
    claimed_return: float
    executed_return: float
    parts: tuple[ReturnPart, ...]  #: parts whose sum is the claimed minus the executed return
    #: index of the first day on which the NAVs differ; None if they agree
    first_parting: int | None
    largest_gap: float  #: largest relative difference between the NAVs on any day
    remaining_gap: float  #: largest relative difference that the causes found do not explain
    found: tuple[Cause, ...]
    #: fee fitted to the claimed NAV, as a share of the value traded; 0 means no fee
    fee: float
    error: float  #: distance that remains when the causes found are applied
    error_elsewhere: float  #: smallest distance for a model without look-ahead

    @property
    def agrees(self) -> bool:
        """Return whether the NAVs are the same on every day."""
        return self.first_parting is None

    @property
    def parting_cause(self) -> str | None:
        """Cause of the largest part, or None if the NAVs agree."""
        if self.agrees:
            return None
        return max(self.parts, key=lambda part: abs(part.value)).cause

    @property
    def is_explained(self) -> bool:
        """Return whether the causes found explain almost all of the difference."""
        return self.remaining_gap <= max(5e-4, EXPLAINED * self.largest_gap)

    @property
    def looks_ahead(self) -> bool:
        """Return whether the claimed NAV uses fill prices that were known when decisions were
        made.
        """
        return not self.agrees and not frozenset(LOOK_AHEAD).isdisjoint(self.found)


def compare_navs(
    claimed: Path,
    simulate: Simulate,
    possible: Sequence[Cause] = CAUSES,
    resolution: float = 0.0,
) -> NavComparison:
    """Compare a claimed NAV with `simulate(frozenset(), 0.0)`. Both are [days + 1] over the same
    days, and are divided by their first value for the comparison. `resolution` is the smallest
    daily return that the claimed NAV can represent. Raises ValueError if the lengths differ, or if
    a value is not above 0.
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
    """Causes with their best-fitting fee, and the remaining errors."""

    causes: frozenset[Cause]
    fee: Fee
    errors: Path  #: claimed minus simulated log returns, [days]

    @property
    def distance(self) -> float:
        return float(np.sqrt(np.mean(self.errors**2)))


class _Models:
    """Accounts that are simulated with sets of causes and compared with the claimed NAV. Each
    account is simulated only once.
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

        # each day bears the fee for the next day's fills; the fee for the first fills is paid at
        # the start
        after = np.append(self._find_traded(causes, fee.rate), 0.0)
        paid = 1.0 - fee.rate * after
        return np.asarray(path * paid / paid[0])

    def fit_causes(self, causes: frozenset[Cause]) -> _Fit:
        """Return the causes with the fee that fits best, to first order. The distance is infinite
        if the account falls to zero.
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
        """Return the fit after another simulation in which its fee is charged."""
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
        """Return the causes in a fit, in order. If the fit has a fee, its cause is included."""
        causes = set(fit.causes)
        if fit.fee.rate:
            causes.add("fitted_fee")
        return tuple(cause for cause in CAUSES if cause in causes)

    def _rate(self, causes: frozenset[Cause], errors: Path, traded: Path, before: float) -> float:
        """Return the least-squares fee, given the errors with another fee, `before`."""
        squares = float(traded @ traded)
        if "costs" not in causes or "declared_fees" in causes or not squares:
            return 0.0
        return min(max(before - float(errors @ traded) / squares, 0.0), _MAX_FEE)

    def _errors(self, causes: frozenset[Cause], fee: Fee) -> Path:
        return np.asarray(self._returns - np.diff(np.log(self.path(causes, fee))))

    def _find_traded(self, causes: frozenset[Cause], rate: float) -> Path:
        return np.diff(self._run(causes, rate).traded)

    def _find_charged(self, causes: frozenset[Cause], fee: Fee) -> Path:
        """Return the value traded, by the day on which the fee for it is charged, [days]."""
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
    """Return the best model without look-ahead, and the best model of all. Each is preferred to the
    previous models only if it is distinguishable from them.
    """
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
    """Return whether one model's daily errors are smaller than another's by more than can occur by
    chance (see the module docstring). Errors are [days] each.
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
    `least` is the mean squared error of the better model, including the resolution.
    """
    weights = np.abs(weaker - stronger)
    if not weights.any():
        return 0.0

    independent = float(weights.sum()) ** 2 / float(weights @ weights)
    squares = [np.average(errors**2, weights=weights) for errors in (weaker, stronger)]
    return independent * math.log(max(squares[0], least) / max(squares[1], least))


def _nearest(models: _Models, fills: Sequence[Cause]) -> _Fit:
    """Return the nearest model with one of these fill prices, or with the executor's own fill price
    if `fills` is empty.
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

    # among equally near models, prefer the model with the fewest causes
    nearest = min(found, key=_by_distance)
    few = min(found, key=lambda fit: (len(fit.causes), fit.distance))
    if few.distance <= max((1 + _SPARE) * nearest.distance, models.resolution):
        return few
    return nearest


def _larger(models: _Models, fit: _Fit, fills: Sequence[Cause]) -> Iterator[_Fit]:
    """Yield the models that have one additional cause. A fill price replaces the current fill
    price.
    """
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
    """Return the model without the causes that hardly change the distance."""
    for cause in CAUSES:
        if cause not in fit.causes or cause in PRICES:
            continue

        fewer = models.fit_causes(fit.causes - {cause})
        if fewer.distance <= max((1 + _SPARE) * fit.distance, models.resolution):
            fit = fewer

    return fit


# ---- parts


def _ladder(models: _Models, found: Sequence[Cause], fee: Fee) -> Mapping[str, tuple[Path, Path]]:
    """Return, for each cause, the path before and after the cause is applied."""
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
