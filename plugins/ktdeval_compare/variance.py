"""How much of a metric's variance is the agent's, the model's, and so on: runs in, one JSON report out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ktdeval import stats
from ktdeval.errors import CardError, UsageError
from ktdeval_compare.entrants import Row, load_entrants
from ktdeval_compare.observations import FACTORS, Observations, Run, read_cards, read_table
from ktdeval_compare.shares import (
    RESIDUAL,
    Array,
    component_shares,
    f_p,
    mixed_model,
    permutation_p,
    shares,
    sums_of_squares,
)

NO_FACTOR = "name each factor once, such as --factor agent,model"


@dataclass(frozen=True)
class Options:
    """Settings of a split."""

    factors: tuple[str, ...]  #: two or more of `FACTORS`, or one where there are replicates
    metrics: tuple[str, ...] = ()  #: one name; `total_return` of cards, the first of a table, when empty
    alpha: float = 0.05  #: level of verdicts, and of the intervals (1 - alpha)
    common: bool = False  #: where cards differ in windows or seeds, use those that all have
    seed: int = 0  #: of permutations and intervals

    def __post_init__(self) -> None:
        if unknown := [factor for factor in self.factors if factor not in FACTORS]:
            raise UsageError(f"no factor {unknown[0]!r}; there are {', '.join(FACTORS)}")
        if len(set(self.factors)) != len(self.factors) or not self.factors:
            raise UsageError(NO_FACTOR)
        if len(self.metrics) > 1:
            raise UsageError("--factor splits one metric at a time")


@dataclass(frozen=True)
class Design:
    """Runs of one asset as a crossed array; `asset` is empty where the asset is a factor or there is none."""

    asset: str
    levels: Sequence[Sequence[str]]  #: of each factor, in the order in which they appear
    values: Array  #: [levels of each factor …, replicates]

    def without(self, place: int) -> Design:
        """The design without one level of the first factor."""
        kept = [level for at, level in enumerate(self.levels[0]) if at != place]
        return Design(self.asset, [kept, *self.levels[1:]], np.delete(self.values, place, axis=0))


def study(paths: Sequence[Path], table: str | None, options: Options) -> Row:
    """Report of `variance_shares` on cards or on a table. Raises UsageError: both or neither are given; or as it."""
    if bool(paths) == (table is not None):
        raise UsageError("--factor needs either cards of runs or --table")
    if table is None:
        found = read_cards(load_entrants(paths), options.metrics, options.common)
    else:
        found = read_table(table, options.metrics[0] if options.metrics else None)
    return variance_shares(found, options)


def variance_shares(observations: Observations, options: Options) -> Row:
    """Split the variance of a metric by factor, for each asset unless the asset is a factor.

    Returns `shares` (one row for each asset and source), `without` (the shares without each level of the first factor, where it
    has three), `identical` (runs with one trajectory), `source`, `notes`. Raises CardError: the runs are
    no complete crossing, a figure is undefined, or nothing is left to estimate chance by; UsageError: a factor has one level.
    """
    designs = _designs(observations, options.factors)
    rows = _split_all(designs, options, fit=True)
    without: list[Row] = []
    first = list(dict.fromkeys(level for design in designs for level in design.levels[0]))
    for level in first if all(len(design.levels[0]) > 2 for design in designs) else []:
        kept = [design.without(list(design.levels[0]).index(level)) for design in designs if level in design.levels[0]]
        without += [{"without": level, **row} for row in _split_all(kept, options)]
    notes = [*observations.notes]
    if any(run.is_ensemble for run in observations.runs):
        notes.append("rows marked as ensembles are made of others and stand in no share")
    if designs[0].values.shape[-1] == 1:
        notes.append("one run each: the highest interaction is part of the residual")
    notes += dict.fromkeys(f"REML: {row['reml_reason']}" for row in rows if row["reml_reason"])
    return {"metric": observations.metric, "factors": list(options.factors), "alpha": options.alpha, "seed": options.seed,
            "replicates": designs[0].values.shape[-1], "levels": [len(each) for each in designs[0].levels],
            "shares": rows, "without": without, "identical": list(identical_runs(observations.runs)),
            "compared": observations.compared, "source": list(observations.source), "notes": notes}  # fmt: skip


def _designs(observations: Observations, factors: Sequence[str]) -> list[Design]:
    runs = [run for run in observations.runs if not run.is_ensemble]
    if not runs:
        raise CardError("every row is marked as an ensemble; a split needs the runs that it is made of")
    if missing := [factor for factor in factors if not all(factor in run.levels for run in runs)]:
        raise UsageError(f"the table has no column {missing[0]!r}, which --factor names")
    by_asset: dict[str, list[Run]] = {}
    for run in runs:
        by_asset.setdefault("" if "asset" in factors else run.levels.get("asset", ""), []).append(run)
    return [_design(asset, members, factors) for asset, members in by_asset.items()]


def _design(asset: str, runs: Sequence[Run], factors: Sequence[str]) -> Design:
    where = f"{asset}: " if asset else ""
    levels = [list(dict.fromkeys(run.levels[factor] for run in runs)) for factor in factors]
    for factor, found in zip(factors, levels, strict=True):
        if len(found) < 2:
            raise UsageError(f"{where}factor {factor} has one level, {found[0]}; a share needs two")
    cells: dict[tuple[str, ...], dict[str, dict[str, float]]] = {}
    for run in runs:
        if run.value is None:
            raise CardError(f"{where}the figure of {' × '.join(_who(run))} is undefined; a split needs every one")
        # Replicates are what no factor names; windows are averaged first, for all share their markets.
        key = tuple(run.levels[factor] for factor in factors)
        window = "" if "window" in factors else run.levels.get("window", "")
        replicate = "/".join(level for name, level in run.levels.items() if name not in (*factors, "window"))
        cells.setdefault(key, {}).setdefault(replicate, {})[window] = run.value
    crossing = list(itertools.product(*levels))
    first = next(iter(cells.values()))
    for key in crossing:
        if key not in cells or sorted(map(sorted, cells[key].values())) != sorted(map(sorted, first.values())):
            what = "no run of" if key not in cells else "other seeds or windows of"
            raise CardError(f"{where}{what} {' × '.join(key)}; a split needs every combination, equally often")
    values = [[float(np.mean(list(windows.values()))) for windows in cells[key].values()] for key in crossing]
    if len(factors) == 1 and len(first) == 1:
        raise CardError(f"{where}one factor without replicates leaves nothing to estimate chance by; name a second factor")
    return Design(asset, levels, np.array(values).reshape(*map(len, levels), -1))


def _who(run: Run) -> tuple[str, ...]:
    return tuple(run.levels[name] for name in ("agent", "model", "seed") if name in run.levels)


def _split_all(designs: Sequence[Design], options: Options, fit: bool = False) -> list[Row]:
    """Rows of all assets, each factor's p-values corrected over the assets."""
    rows = [row for design in designs for row in _split(design, options, fit)]
    for source in dict.fromkeys(row["source"] for row in rows):
        family = [row for row in rows if row["source"] == source]
        for row, p in zip(family, stats.holm([row["p"] for row in family]), strict=True):
            row |= {"p_holm": p, "verdict": "" if p is None else "shown" if p <= options.alpha else "not shown"}
    return rows


def _split(design: Design, options: Options, fit: bool) -> Iterator[Row]:
    parts = sums_of_squares(design.values)
    share, components = shares(parts), component_shares(parts, 1.0 - options.alpha, options.seed)
    fitted = mixed_model(design.values, options.factors) if fit else ""
    for effect, part in parts.items():
        source = " x ".join(options.factors[axis] for axis in effect) or "residual"
        component, low, high = components.get(effect, (None, None, None))
        p_f = f_p(parts, effect) if effect != RESIDUAL else None
        is_main = len(effect) == 1 and share[effect] is not None
        p = permutation_p(design.values, effect[0], options.seed) if is_main else p_f
        reml, reason = (None, fitted) if isinstance(fitted, str) else (fitted[source], None)
        yield {"asset": design.asset, "source": source, "unit": "ratio", "df": part.df, "ss": part.ss, "share": share[effect],
               "component": component, "low": low, "high": high, "reml": reml, "reml_reason": reason, "p": p, "p_f": p_f,
               "reason": None if components else "all values are equal"}  # fmt: skip


def identical_runs(runs: Sequence[Run]) -> Iterator[Row]:
    """Rows of two or more runs whose trajectories are identical, by the places (asset, window) in which they are: `runs` (agent,
    model, seed), `places`, `is_flat` (none of them ever moved).
    """
    groups: dict[tuple[str, ...], dict[object, list[Run]]] = {}
    for run in runs:
        place = tuple(run.levels[name] for name in ("asset", "window") if name in run.levels)
        groups.setdefault(place, {}).setdefault(run.path, []).append(run)
    found: dict[tuple[tuple[tuple[str, ...], ...], bool], list[str]] = {}
    for place, by_path in groups.items():
        for same in by_path.values():
            if len(same) > 1:
                key = tuple(_who(run) for run in same), all(run.is_flat for run in same)
                found.setdefault(key, []).append(" ".join(place))
    for (who, is_flat), places in found.items():
        yield {"runs": [list(each) for each in who], "places": places, "is_flat": is_flat}
