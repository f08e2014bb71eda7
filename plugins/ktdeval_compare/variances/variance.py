"""Shares of a metric's variance that are due to agent, model and other factors. Takes runs, and
returns one JSON report.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec import UNSET, UnsetType

from ktdeval import stats
from ktdeval.errors import CardError, UsageError
from ktdeval_compare.pairs.compared_cards import load_entrants
from ktdeval_compare.study_options import MetricTestOptions
from ktdeval_compare.variances.variance_runs import (
    FACTORS,
    DesignRun,
    Observations,
    read_cards,
    read_table,
)
from ktdeval_compare.variances.variance_shares import (
    RESIDUAL,
    Array,
    component_shares,
    f_p,
    joint_permutation_p,
    mixed_model,
    permutation_p,
    shares,
    sums_of_squares,
)

NO_FACTOR = "name each factor once, such as --factor agent,model"


@dataclass(frozen=True)
class VarianceOptions(MetricTestOptions):
    """Settings for a variance decomposition of one metric."""

    factors: tuple[str, ...]  #: at least two of `FACTORS`, or just one if there are replicates

    def __post_init__(self) -> None:
        for factor in self.factors:
            if factor not in FACTORS:
                raise UsageError(f"no factor {factor!r}; choose from {', '.join(FACTORS)}")
        if len(set(self.factors)) != len(self.factors) or not self.factors:
            raise UsageError(NO_FACTOR)
        if len(self.metrics) > 1:
            raise UsageError("--factor splits one metric at a time")


@dataclass(frozen=True)
class CrossedDesign:
    """Runs on one asset as a crossed array. `asset` is empty if the asset is a factor, or if the
    runs have no asset.
    """

    asset: str
    levels: Sequence[Sequence[str]]  #: levels of each factor, in order of appearance
    values: Array  #: [levels of each factor …, replicates]

    def without(self, index: int) -> CrossedDesign:
        """Return the design without one of the first factor's levels."""
        others = [level for number, level in enumerate(self.levels[0]) if number != index]
        values = np.delete(self.values, index, axis=0)
        return CrossedDesign(self.asset, [others, *self.levels[1:]], values)

    def in_order_of(self, levels: Sequence[Sequence[str]]) -> Array | None:
        """Return the values with each factor's levels in the order given by `levels`, or None if
        the levels differ.
        """
        values = self.values
        for axis, (own, wanted) in enumerate(zip(self.levels, levels, strict=True)):
            if sorted(own) != sorted(wanted):
                return None
            values = values.take([list(own).index(level) for level in wanted], axis)

        return values


# ---- the report


@dataclass(frozen=True, kw_only=True)
class ShareRow:
    """One source's share in the variance on one asset."""

    without: str | UnsetType = UNSET  #: the first factor's level that was omitted
    asset: str
    source: str  #: a factor, several joined by ` x `, or `residual`
    unit: str = "ratio"
    df: int
    ss: float
    share: float | None  #: share in the sum of squares
    component: float | None  #: variance share that is estimated for other levels of the same kind
    low: float | None
    high: float | None
    variance: float | None  #: estimate of the variance component; may be negative
    reml: float | None  #: variance component as estimated by restricted maximum likelihood
    reml_reason: str | None
    p: float | None
    p_f: float | None  #: p-value of the F test
    reason: str | None
    p_holm: float | None = None  #: corrected over assets
    verdict: str = ""


@dataclass(frozen=True, kw_only=True)
class JointRow:
    """Joint test of one factor over all assets."""

    without: str | UnsetType = UNSET  #: the first factor's level that was omitted
    source: str
    assets: int
    share: float  #: share in the sum of squares, as the mean over assets
    p: float
    #: based on the uncorrected `p`, because the joint test is a single test that needs no Holm
    #: correction
    verdict: str


@dataclass(frozen=True)
class IdenticalRuns:
    """Two or more runs with identical trajectories."""

    runs: Sequence[Sequence[str]]  #: agent, model and seed of each run
    places: Sequence[str]  #: assets and windows in which the runs are identical
    is_flat: bool  #: whether the NAV never changed in these runs


@dataclass(frozen=True, kw_only=True)
class VarianceReport:
    """Report of `ktdeval compare --factor`."""

    metric: str
    factors: Sequence[str]
    alpha: float
    seed: int
    replicates: int
    levels: Sequence[int]  #: number of levels of each factor
    shares: Sequence[ShareRow]
    #: shares without each of the first factor's levels, if the factor has at least three levels
    without: Sequence[ShareRow]
    #: joint tests over all assets, including tests without each of the first factor's levels; empty
    #: if the assets have different levels
    joint: Sequence[JointRow]
    identical: Sequence[IdenticalRuns]
    compared: str  #: what makes runs identical, as text
    source: Sequence[str]
    notes: Sequence[str]


def study(
    paths: Sequence[Path], table: str | None, options: VarianceOptions, tasks: Sequence[str] = ()
) -> VarianceReport:
    """Report the `variance_shares` of a table, or of cards. If `tasks` are given, only their cards
    are used.

    Raises UsageError if both cards and a table are given, or neither of them. Also raises the
    errors of `variance_shares`.
    """
    if bool(paths) == (table is not None):
        raise UsageError("--factor needs either cards of runs or a table of runs")
    if tasks and table is not None:
        raise UsageError("--tasks applies to cards of runs, not to a table")

    if table is None:
        observations = read_cards(load_entrants(paths, tasks), options.metrics, options.common)
    else:
        observations = read_table(table, options.metrics[0] if options.metrics else None)

    return variance_shares(observations, options)


def variance_shares(observations: Observations, options: VarianceOptions) -> VarianceReport:
    """Decompose the variance of a metric by factor. There is one decomposition per asset, unless
    the asset is a factor.

    Raises CardError if the runs are not a complete crossing, if a figure is undefined, or if no
    residual is left for estimating noise. Raises UsageError if a factor has only one level.
    """
    designs = _designs(observations, options.factors)
    reduced = _without_each(designs)
    rows = _split_all(designs, options, fit=True)
    without: list[ShareRow] = []
    joint = list(_joint_rows(designs, options))
    for level, fewer in reduced.items():
        without += [replace(row, without=level) for row in _split_all(fewer, options)]
        joint += [replace(row, without=level) for row in _joint_rows(fewer, options)]

    replicates = designs[0].values.shape[-1]

    notes = [*observations.notes]
    if any(run.is_ensemble for run in observations.runs):
        notes.append("votes and ensembles combine other rows and are excluded from the shares")
    if len(designs) > 1 and not joint:
        notes.append("no test of all assets together: their levels or replicates differ")
    if replicates == 1:
        notes.append("one run each: the highest interaction is part of the residual")

    notes += _negative_notes(rows, observations.metric)
    notes += dict.fromkeys(f"REML: {row.reml_reason}" for row in rows if row.reml_reason)
    return VarianceReport(
        metric=observations.metric,
        factors=list(options.factors),
        alpha=options.alpha,
        seed=options.seed,
        replicates=replicates,
        levels=[len(each) for each in designs[0].levels],
        shares=rows,
        without=without,
        joint=joint,
        identical=identical_runs(observations.runs),
        compared=observations.compared,
        source=list(observations.source),
        notes=notes,
    )


def _without_each(designs: Sequence[CrossedDesign]) -> dict[str, list[CrossedDesign]]:
    """Return the designs without each of the first factor's levels, by omitted level. Empty if the
    factor has fewer than three levels.
    """
    if any(len(design.levels[0]) < 3 for design in designs):
        return {}

    reduced: dict[str, list[CrossedDesign]] = {}
    for design in designs:
        for index, level in enumerate(design.levels[0]):
            reduced.setdefault(level, []).append(design.without(index))

    return reduced


def _joint_rows(designs: Sequence[CrossedDesign], options: VarianceOptions) -> Iterator[JointRow]:
    """Test each factor jointly over all assets. Yields nothing if there is only one asset, if
    assets have different levels or replicates, or if no asset varies.
    """
    values: list[Array] = []
    for design in designs:
        ordered = design.in_order_of(designs[0].levels)
        if ordered is None or ordered.shape != designs[0].values.shape:
            return
        values.append(ordered)

    if len(values) < 2:
        return

    split = [shares(sums_of_squares(each)) for each in values]
    for axis, factor in enumerate(options.factors):
        known = [share for each in split if (share := each[axis,]) is not None]
        if known:
            p = joint_permutation_p(values, axis, options.seed)
            yield JointRow(
                source=factor,
                assets=len(known),
                share=float(np.mean(known)),
                p=p,
                verdict=_share_verdict(p, options.alpha),
            )


# ---- designs


def _designs(observations: Observations, factors: Sequence[str]) -> list[CrossedDesign]:
    runs = [run for run in observations.runs if not run.is_ensemble]
    if not runs:
        raise CardError(
            "every row is marked as an ensemble; a split needs the runs that it is made of"
        )

    for factor in factors:
        if not all(factor in run.levels for run in runs):
            raise UsageError(f"the table has no column {factor!r}, which --factor names")

    by_asset: dict[str, list[DesignRun]] = {}
    for run in runs:
        asset = "" if "asset" in factors else run.levels.get("asset", "")
        by_asset.setdefault(asset, []).append(run)

    return [_design(asset, members, factors) for asset, members in by_asset.items()]


#: Figures for one combination of factor levels: replicate -> window -> figure
_Cell = dict[str, dict[str, float]]


def _design(asset: str, runs: Sequence[DesignRun], factors: Sequence[str]) -> CrossedDesign:
    where = f"{asset}: " if asset else ""
    levels = []
    for factor in factors:
        names = list(dict.fromkeys(run.levels[factor] for run in runs))
        if len(names) < 2:
            raise UsageError(f"{where}factor {factor} has one level, {names[0]}; a share needs two")

        levels.append(names)

    cells = _design_cells(where, runs, factors)
    crossing = list(itertools.product(*levels))
    first = next(iter(cells.values()))
    _check_crossing(where, cells, crossing)
    if len(factors) == 1 and len(first) == 1:
        raise CardError(
            f"{where}one factor without replicates leaves no residual to estimate noise; name a "
            "second factor"
        )

    values = []
    for key in crossing:
        values.append([float(np.mean(list(windows.values()))) for windows in cells[key].values()])

    shape = [len(names) for names in levels]
    return CrossedDesign(asset, levels, np.array(values).reshape(*shape, -1))


def _design_cells(
    where: str, runs: Sequence[DesignRun], factors: Sequence[str]
) -> dict[tuple[str, ...], _Cell]:
    """Return the figures for each combination of factor levels. Factors that are not part of the
    decomposition distinguish replicates. The exception is the window: a replicate has several
    windows, which are averaged later, because all runs share the windows' markets.
    """
    cells: dict[tuple[str, ...], _Cell] = {}
    for run in runs:
        if run.value is None:
            raise CardError(
                f"{where}the figure of {' × '.join(_who(run))} is undefined; a split needs"
                " every one"
            )

        key = tuple(run.levels[factor] for factor in factors)
        window = "" if "window" in factors else run.levels.get("window", "")
        replicate = "/".join(
            level for name, level in run.levels.items() if name not in (*factors, "window")
        )
        cells.setdefault(key, {}).setdefault(replicate, {})[window] = run.value

    return cells


def _check_crossing(
    where: str, cells: Mapping[tuple[str, ...], _Cell], crossing: Sequence[tuple[str, ...]]
) -> None:
    """Raise CardError if a combination of factor levels is missing, or if combinations have
    different replicates.
    """
    expected = _windows_of(next(iter(cells.values())))
    for key in crossing:
        if key not in cells:
            problem = "no run of"
        elif _windows_of(cells[key]) != expected:
            problem = "other seeds or windows of"
        else:
            continue

        raise CardError(
            f"{where}{problem} {' × '.join(key)}; a split needs every combination, equally often"
        )


def _windows_of(cell: _Cell) -> list[list[str]]:
    """Return the windows of each replicate. Their order does not depend on replicate labels."""
    return sorted(sorted(windows) for windows in cell.values())


def _who(run: DesignRun) -> tuple[str, ...]:
    return tuple(run.levels[name] for name in ("agent", "model", "seed") if name in run.levels)


# ---- shares


def _split_all(
    designs: Sequence[CrossedDesign], options: VarianceOptions, fit: bool = False
) -> list[ShareRow]:
    """Return the rows for all assets. The p-values for each factor are corrected over the
    assets.
    """
    rows: list[ShareRow] = []
    for design in designs:
        rows += _split_variance(design, options, fit)

    for source in dict.fromkeys(row.source for row in rows):
        family = [index for index, row in enumerate(rows) if row.source == source]
        corrected = stats.holm([rows[index].p for index in family])
        for index, p in zip(family, corrected, strict=True):
            rows[index] = replace(rows[index], p_holm=p, verdict=_share_verdict(p, options.alpha))

    return rows


def _share_verdict(p: float | None, alpha: float) -> str:
    if p is None:
        return ""
    return "shown" if p <= alpha else "not shown"


def _split_variance(
    design: CrossedDesign, options: VarianceOptions, fit: bool
) -> Iterator[ShareRow]:
    parts = sums_of_squares(design.values)
    share = shares(parts)
    components = component_shares(parts, 1.0 - options.alpha, options.seed)
    fitted = mixed_model(design.values, options.factors) if fit else ""

    for effect, part in parts.items():
        source = " x ".join(options.factors[axis] for axis in effect) or "residual"
        component = components.get(effect)
        p_f = None
        if effect != RESIDUAL:
            p_f = f_p(parts, effect)

        p = p_f
        if len(effect) == 1 and share[effect] is not None:
            p = permutation_p(design.values, effect[0], options.seed)

        yield ShareRow(
            asset=design.asset,
            source=source,
            df=part.df,
            ss=part.ss,
            share=share[effect],
            component=None if component is None else component.share,
            low=None if component is None else component.low,
            high=None if component is None else component.high,
            variance=None if component is None else component.estimate,
            reml=None if isinstance(fitted, str) else fitted[source],
            reml_reason=fitted if isinstance(fitted, str) else None,
            p=p,
            p_f=p_f,
            reason=None if components else "all values are equal",
        )


def _negative_notes(rows: Sequence[ShareRow], metric: str) -> Iterator[str]:
    """Yield one line for each variance component whose estimate is negative."""
    for row in rows:
        if row.variance is None or row.variance >= 0:
            continue

        where = f"{row.asset}: " if row.asset else ""
        yield (
            f"{where}{row.source}: the variance is estimated at {row.variance:.3g} (squared"
            f" unit of {metric}), below 0, as chance alone explains more; its component is set"
            " to 0"
        )


def identical_runs(runs: Sequence[DesignRun]) -> list[IdenticalRuns]:
    """Find runs with identical trajectories, and the assets and windows in which they are
    identical.
    """
    groups: dict[tuple[str, ...], dict[Hashable, list[DesignRun]]] = {}
    for run in runs:
        place = tuple(run.levels[name] for name in ("asset", "window") if name in run.levels)
        groups.setdefault(place, {}).setdefault(run.path, []).append(run)

    places: dict[tuple[tuple[tuple[str, ...], ...], bool], list[str]] = {}
    for place, by_path in groups.items():
        for same in by_path.values():
            if len(same) > 1:
                who = tuple(_who(run) for run in same)
                is_flat = all(run.is_flat for run in same)
                places.setdefault((who, is_flat), []).append(" ".join(place))

    identical = []
    for (who, is_flat), where in places.items():
        names = [list(each) for each in who]
        identical.append(IdenticalRuns(names, where, is_flat))

    return identical
