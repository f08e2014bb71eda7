"""Supervised baseline: a linear model of the nine style factors, trained on the market's days before a division begins.

KTD-Fin sets its agents beside eighteen trained factor models of Qlib (Tables 4 and 9). This is the plainest of their kind, and it
needs nothing but the snapshot: ridge regression of the next days' returns on standardised factor values, pooled over days. What it
learnt is given to `builtin/linear_factor` as coefficients, so that the card names them and anybody can train them again.
"""

from __future__ import annotations

import numpy as np

from ktdeval.attribution import FACTORS, factor_values, standardise
from ktdeval.errors import ConfigError
from ktdeval.market import BoolArray, FloatArray, MarketSnapshot

HORIZON_DAYS = 10
"""Trading days of the return that is predicted; it begins at the close after the day of the factors."""
EVERY_DAYS = 5
"""Distance of the training days: overlapping targets say little that is new."""
RIDGE = 0.1
"""Penalty as a share of the observations; exposures have unit variance."""
LEAST_DAYS = 20
"""Training days below which nothing is learnt that is worth showing."""
MOST_FACTORS = 6
"""Factors that the model takes, because one screen of the market takes no more; the strongest are kept and fitted again."""
_HISTORY_DAYS = 252
_DIGITS = 4


def train_coefficients(snapshot: MarketSnapshot, before: str) -> str:
    """Coefficients for `builtin/linear_factor`, from days of a snapshot before a date alone.

    Returns `NAME:NUMBER` for each of the strongest factors, in natural units, in the order of `FACTORS`.
    """
    end = int(np.searchsorted(snapshot.days, np.datetime64(before, "D")))
    rows = range(_HISTORY_DAYS, end - 1 - HORIZON_DAYS, EVERY_DAYS)
    if len(rows) < LEAST_DAYS:
        raise ConfigError(
            f"snapshot {snapshot.meta.name} has {len(rows)} training days before {before}, {LEAST_DAYS} are needed: "
            "the supervised baseline can't be trained on it; leave it out of the board's baselines"
        )
    values, targets, members = zip(*(_observations(snapshot, row) for row in rows), strict=True)
    raw, target, member = np.array(values), np.array(targets), np.array(members)
    exposures, returns = standardise(raw, member[:, None, :]), np.where(member, target, np.nan)
    strength = np.abs(ridge_coefficients(exposures, returns))
    kept = np.sort(np.argsort(-strength, kind="stable")[:MOST_FACTORS])
    natural = ridge_coefficients(exposures[:, kept], returns) / _mean_spread(raw[:, kept], member)
    return " ".join(f"{FACTORS[place].name}:{_rounded(value)}" for place, value in zip(kept, natural, strict=True))


def ridge_coefficients(exposures: FloatArray, targets: FloatArray) -> FloatArray:
    """Pooled ridge regression of returns, less their mean over the day, on exposures.

    `b = (X'X + RIDGE n I)^-1 X'y` over all days and names where everything is defined (Hoerl and Kennard 1970). Returns [K]
    coefficients.
    """
    usable = np.isfinite(targets) & np.isfinite(exposures).all(axis=1)
    counts = usable.sum(axis=1, keepdims=True)
    mean = np.where(usable, targets, 0.0).sum(axis=1, keepdims=True) / np.maximum(counts, 1)
    y = (targets - mean)[usable]
    x = np.moveaxis(exposures, 1, 2)[usable]
    penalty = RIDGE * len(y) * np.eye(x.shape[1])
    found: FloatArray = np.linalg.solve(x.T @ x + penalty, x.T @ y)
    return found


def _observations(snapshot: MarketSnapshot, row: int) -> tuple[FloatArray, FloatArray, BoolArray]:
    """[K, N] factor values at the close of a row, [N] the return that followed, [N] who was in the index."""
    values = factor_values(snapshot.as_of(row)).matrix()
    close = snapshot.close * snapshot.factor
    with np.errstate(all="ignore"):
        following: FloatArray = close[row + 1 + HORIZON_DAYS] / close[row + 1] - 1.0
    return values, following, snapshot.member[row]


def _mean_spread(raw: FloatArray, member: BoolArray) -> FloatArray:
    """[K] standard deviation over the names of a day, averaged over days: what one unit of exposure is in natural units."""
    inside = np.where(member[:, None, :], raw, np.nan)
    low, high = np.nanquantile(inside, [0.01, 0.99], axis=2, keepdims=True)
    spread: FloatArray = np.nanmean(np.nanstd(np.clip(inside, low, high), axis=2), axis=0)
    return spread


def _rounded(value: float) -> str:
    """Few enough digits that the last bits of a linear solver don't show."""
    return f"{value:.{_DIGITS}g}"
