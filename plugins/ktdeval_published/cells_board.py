"""Boards of many accounts: one for each strategy, selection, window and asset, against holding."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval.stats import student_quantile
from ktdeval.values import open_parquet
from ktdeval_published.clone import Clone
from ktdeval_published.prices import Array
from ktdeval_published.recipe import BoardRecipe, RecipeCells
from ktdeval_published.report import CellEffect, DataFinding, IntervalEstimate

KEYS = ["selection", "window", "ticker"]
_TABLE = [*KEYS, "strategy", "date", "equity"]
_STATED_OFF = 1e-4  #: difference in return from which on a stated one counts as off
_TOP = 0.01  #: share of the best cells that is left out to show their weight


def cells_parts(
    recipe: BoardRecipe, clone: Clone
) -> tuple[tuple[CellEffect, ...], tuple[DataFinding, ...]]:
    """Return the effect of each strategy against holding, over the cells that all have."""
    of = recipe.cells
    assert of is not None, "the recipe was checked"
    returns, is_flat = _read_cells(recipe, clone, of)
    stated = _read_claims(clone, of)
    whole = returns.dropna()
    effects = tuple(_effect(name, of, whole, (returns, is_flat, stated)) for name in of.entrants)
    left_out = {name: int(returns[name].notna().sum()) - len(whole) for name in of.entrants}
    detail = ", ".join(f"{name} {count}" for name, count in left_out.items())
    findings = (
        DataFinding(
            kind="cells left out",
            count=sum(left_out.values()),
            detail=f"accounts that not all strategies have: {detail}",
        ),
        DataFinding(
            kind="windows that overlap",
            count=_overlaps(whole),
            detail="windows that begin within another one share its market; the interval clusters"
            " by start year and counts the covariance of neighbouring years",
        ),
        DataFinding(
            kind="base of equity",
            count=1,
            detail=f"returns are from {of.base:,.0f}, the cash at the start, not from the first row",
        ),
    )
    return effects, tuple(one for one in findings if one.count)


def _read_cells(
    recipe: BoardRecipe, clone: Clone, of: RecipeCells
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the total return of each cell (rows) by strategy (columns), NaN where there is no
    account; and whether its equity never moved.
    """
    path = clone.path(recipe.path)
    names = [*of.entrants, of.holding]
    try:
        open_parquet(path, _TABLE).close()  # refuses a file that expands too much
        table = pd.read_parquet(path, columns=_TABLE, filters=[("strategy", "in", names)])
    except (ValueError, KeyError, OSError) as error:
        raise DataError(f"{path}: expected a table with {', '.join(_TABLE)}: {error}") from error
    for name in names:
        if not (table["strategy"] == name).any():
            raise DataError(f"{path}: has no strategy {name!r}")

    groups = table.sort_values("date", kind="stable").groupby(
        ["strategy", *KEYS], observed=True, sort=True
    )["equity"]
    is_flat = groups.min() == groups.max()
    returns = (groups.last() / of.base - 1).unstack("strategy")[names]
    return returns, is_flat.unstack("strategy")[names]


def _read_claims(clone: Clone, of: RecipeCells) -> pd.DataFrame:
    path = clone.path(of.claims)
    table = pd.read_csv(path, compression="infer")
    missing = [name for name in (*KEYS, "strategy", "total_return") if name not in table]
    if missing:
        raise DataError(f"{path}: has no column {missing[0]!r}")
    return table.set_index(["strategy", *KEYS])["total_return"].unstack("strategy")


def _effect(
    name: str,
    of: RecipeCells,
    whole: pd.DataFrame,
    read: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
) -> CellEffect:
    returns, is_flat, stated = read
    difference = (whole[name] - whole[of.holding]).to_numpy(float)
    windows = whole.index.get_level_values("window")
    years = np.array([int(str(window)[:4]) for window in windows])
    own = returns[name].dropna()
    gap = (stated[name].reindex(own.index) - own).abs()
    kept = np.sort(difference)[: len(difference) - max(1, round(len(difference) * _TOP))]
    return CellEffect(
        name=name,
        cells=len(difference),
        windows=len(set(windows)),
        clusters=len(set(years)),
        mean=clustered_mean(difference, years),
        median=float(np.median(difference)),
        beats=float((difference > 0).mean()),
        equal=float(is_flat[name].reindex(whole.index).astype(bool).mean()),
        mean_without_top=float(kept.mean()),
        stated_gap=float(gap.max()),
        stated_off=int((gap > _STATED_OFF).sum()),
    )


def clustered_mean(values: Array, years: np.ndarray) -> IntervalEstimate:
    """Return the mean with a 95 % interval, clustered by start year. The covariance of neighbouring
    years is added, as windows of two years overlap by one.
    """
    mean = float(values.mean())
    groups = np.unique(years)
    if len(groups) < 3:
        return IntervalEstimate(value=mean, n=len(values), reason="fewer than three start years")

    sums = np.array([(values[years == year] - mean).sum() for year in groups])
    variance = float(sums @ sums)
    neighbours = np.diff(groups) == 1
    both = variance + 2 * float((sums[:-1] * sums[1:])[neighbours].sum())
    correction = len(groups) / (len(groups) - 1)
    error = math.sqrt(max(both, variance) * correction) / len(values)
    half = student_quantile(len(groups) - 1, 0.975) * error
    return IntervalEstimate(
        value=mean, low=mean - half, high=mean + half, n=len(values), kind="clusters of start years"
    )


def _overlaps(whole: pd.DataFrame) -> int:
    """Return how many windows share days with another one."""
    spans = sorted({tuple(str(one).split("_")) for one in whole.index.get_level_values("window")})
    count = 0
    for first, last in spans:
        count += any((first, last) != (a, b) and first < b and a < last for a, b in spans)
    return count
