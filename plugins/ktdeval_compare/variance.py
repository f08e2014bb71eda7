"""How much of a metric's variance is the agent's, the model's, and so on: runs in, one JSON report out."""

from __future__ import annotations

import hashlib
import io
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval import stats
from ktdeval.cards import TradingEpisode, system_labels
from ktdeval.errors import CardError, UsageError
from ktdeval.fields import option
from ktdeval.jsonio import read_plain
from ktdeval_compare.compare import TASK_FACETS
from ktdeval_compare.entrants import (
    Entrant,
    Row,
    by_task,
    check_same,
    chosen_metrics,
    flag_notes,
    label,
    left_out_notes,
    load_entrants,
    notes_of_groups,
    paired_cells,
    recorded_ledger,
)
from ktdeval_compare.shares import (
    RESIDUAL,
    Array,
    Component,
    component_shares,
    f_p,
    mixed_model,
    permutation_p,
    shares,
    sums_of_squares,
)

FACTORS = ("agent", "model", "asset", "window", "seed")
TABLES = Path(__file__).with_name("tables")
_ENSEMBLE = "ensemble"
_LARGEST = 4_000_000  #: Bytes of a table
NO_FACTOR = "name each factor once, such as --factor agent,model"


@dataclass(frozen=True)
class Options:
    """Settings of a split."""

    factors: tuple[str, ...]  #: two or more of `FACTORS`, or one where there are replicates
    metrics: tuple[str, ...] = ()  #: one name; `total_return` of cards, the first of a table, when empty
    alpha: float = option(0.05, help="level of verdicts, and of the intervals (1 - alpha)", minimum=0.0001, maximum=0.5)
    common: bool = False  #: where cards differ in windows or seeds, use those that all have
    seed: int = option(0, help="of permutations and intervals", minimum=0)

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

    def without(self, index: int) -> Design:
        """The design without one level of the first factor."""
        kept = [level for number, level in enumerate(self.levels[0]) if number != index]
        return Design(self.asset, [kept, *self.levels[1:]], np.delete(self.values, index, axis=0))


def study(paths: Sequence[Path], table: str | None, options: Options) -> Row:
    """Report of `variance_shares` on cards or on a table. Raises UsageError: both or neither are given; or as it."""
    if bool(paths) == (table is not None):
        raise UsageError("--factor needs either cards of runs or --table")
    if table is None:
        observations = read_cards(load_entrants(paths), options.metrics, options.common)
    else:
        observations = read_table(table, options.metrics[0] if options.metrics else None)
    return variance_shares(observations, options)


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
    notes += _negative_notes(rows, observations.metric)
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
    for factor, names in zip(factors, levels, strict=True):
        if len(names) < 2:
            raise UsageError(f"{where}factor {factor} has one level, {names[0]}; a share needs two")
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
        component = _component_fields(components.get(effect))
        p_f = f_p(parts, effect) if effect != RESIDUAL else None
        is_main = len(effect) == 1 and share[effect] is not None
        p = permutation_p(design.values, effect[0], options.seed) if is_main else p_f
        reml, reason = (None, fitted) if isinstance(fitted, str) else (fitted[source], None)
        yield {"asset": design.asset, "source": source, "unit": "ratio", "df": part.df, "ss": part.ss, "share": share[effect],
               **component, "reml": reml, "reml_reason": reason, "p": p, "p_f": p_f,
               "reason": None if components else "all values are equal"}  # fmt: skip


def _component_fields(component: Component | None) -> Row:
    """Fields of a row on its variance component; `variance`: its estimate, which may be negative."""
    if component is None:
        return dict.fromkeys(("component", "low", "high", "variance"))
    return {"component": component.share, "low": component.low, "high": component.high, "variance": component.estimate}


def _negative_notes(rows: Sequence[Row], metric: str) -> Iterator[str]:
    """A line for each variance component whose estimate is negative."""
    for row in rows:
        if row["variance"] is None or row["variance"] >= 0:
            continue
        where = f"{row['asset']}: " if row["asset"] else ""
        yield (
            f"{where}{row['source']}: the variance is estimated at {row['variance']:.3g} (squared unit of {metric}), "
            "which no variance can be: less than chance alone puts there; its component counts as 0"
        )


def identical_runs(runs: Sequence[Run]) -> Iterator[Row]:
    """Rows of two or more runs whose trajectories are identical, by the places (asset, window) in which they are: `runs` (agent,
    model, seed), `places`, `is_flat` (none of them ever moved).
    """
    groups: dict[tuple[str, ...], dict[object, list[Run]]] = {}
    for run in runs:
        where = tuple(run.levels[name] for name in ("asset", "window") if name in run.levels)
        groups.setdefault(where, {}).setdefault(run.path, []).append(run)
    identical: dict[tuple[tuple[tuple[str, ...], ...], bool], list[str]] = {}
    for where, by_path in groups.items():
        for same in by_path.values():
            if len(same) > 1:
                key = tuple(_who(run) for run in same), all(run.is_flat for run in same)
                identical.setdefault(key, []).append(" ".join(where))
    for (who, is_flat), places in identical.items():
        yield {"runs": [list(each) for each in who], "places": places, "is_flat": is_flat}


# ---- runs, of cards and of tables


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a design."""

    levels: Mapping[str, str]  #: factor -> level
    value: float | None  #: the figure; None where it is undefined
    path: Hashable  #: what two runs with identical trajectories have in common
    is_flat: bool  #: it never moved: nothing was traded
    is_ensemble: bool = False  #: made of the decisions of other rows, so no level of its own


@dataclass(frozen=True, slots=True)
class Observations:
    """Runs of a design, and what they are."""

    runs: Sequence[Run]
    metric: str
    compared: str  #: what `Run.path` is made of, in words
    source: Sequence[str] = ()
    notes: Sequence[str] = ()


def read_table(name: str, metric: str | None) -> Observations:
    """Read a table: CSV with columns among `FACTORS`, an optional column `ensemble` (yes or empty), and one of numbers for each
    metric (empty: undefined); lines of its head that start with # are its source. `name`: a path, or a table that ships, such as
    `ama-1`. `metric`: the first of the table by default.

    Raises UsageError: there is no such file or metric, or the file is too large; CardError: the file is no such table; names its
    first bad line.
    """
    shipped = {path.stem: path for path in sorted(TABLES.glob("*.csv"))}
    path = shipped.get(name, Path(name))
    try:
        text = read_plain(path, _LARGEST).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise UsageError(f"--table {name}: {reason}; give a CSV file, or one of {', '.join(shipped)}") from None
    source = list(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines()))
    try:
        frame = pd.read_csv(io.StringIO(text), skiprows=len(source), dtype=str, keep_default_na=False, skip_blank_lines=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise CardError(f"{path}: is no CSV table: {str(error).strip()}") from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise CardError(f"{path}: is no CSV table: rows have more fields than the head")
    factors = [column for column in map(str, frame) if column in FACTORS]
    metrics = [column for column in map(str, frame) if column not in (*FACTORS, _ENSEMBLE)]
    if not factors or not metrics or frame.empty:
        raise CardError(f"{path}: needs columns of factors ({', '.join(FACTORS)}) and of figures, and a row for each run")
    if (wanted := metric or metrics[0]) not in metrics:
        raise UsageError(f"{path}: no metric {wanted!r} in this table; it has {', '.join(metrics)}")
    figures = frame[metrics].apply(pd.to_numeric, errors="coerce")
    is_ensemble = frame.get(_ENSEMBLE, pd.Series("", frame.index))
    for wrong, problem in (
        ((frame[factors] == "").any(axis=1), f"has an empty {' or '.join(factors)}"),
        (((frame[metrics] != "") & ~np.isfinite(figures)).any(axis=1), "has a figure that is not a finite number"),
        (~is_ensemble.isin(["", "yes"]), f"has an {_ENSEMBLE} other than yes or nothing"),
        (frame.duplicated(factors), f"is a second row of one {' × '.join(factors)}; a column seed tells replicates apart"),
    ):
        if wrong.any():
            raise CardError(f"{path} line {len(source) + 2 + int(np.argmax(wrong))}: {problem}")
    runs = []
    for level, values, ensemble in zip(frame[factors].to_numpy(), figures.to_numpy(), is_ensemble, strict=True):
        row = [None if math.isnan(value) else float(value) for value in values]
        levels = dict(zip(factors, map(str, level), strict=True))
        runs.append(Run(levels, row[metrics.index(wanted)], tuple(row), not values.any(), ensemble == "yes"))
    return Observations(runs, wanted, "all figures of the row", [line.lstrip("# ") for line in source])


def read_cards(entrants: Sequence[Entrant], metrics: Sequence[str], common: bool) -> Observations:
    """Runs of trading cards, one for each episode that cards of a task have in common; the asset is the task, which has one card
    of each agent and model.

    Raises CardError: cards of a task can't be compared or paired, or two are of one agent and model; UsageError: a metric is on no
    card.
    """
    runs, navs = [], True
    notes: dict[str, list[str]] = {}
    names: list[str] = []
    models = system_labels(entrant.system.of_model for entrant in entrants)
    for task, members in by_task(entrants).items():
        check_same(members, TASK_FACETS, "they can't be compared")
        if len(members) < 2:
            raise CardError(f"{members[0].path}: is the only card of task {task}; a split needs several agents or models")
        names += chosen_metrics(members, metrics)
        members = label(members)
        cells, seen = paired_cells(members, common), dict[tuple[str, str], Entrant]()
        notes[task] = [*left_out_notes(members), *flag_notes(members)]
        for member in members:
            agent, model = member.system.agent_name, models[member.system.of_model]
            if other := seen.get((agent, model)):
                raise CardError(f"{member.path} and {other.path} are both of agent {agent} with model {model}; give one of them")
            seen[agent, model] = member
            for window, seed in cells:
                episode = member.episodes()[window, seed]
                path, is_flat, of_nav = _trajectory(member, episode)
                navs &= of_nav
                levels = {"agent": agent, "model": model, "asset": task, "window": window, "seed": str(seed)}
                runs.append(Run(levels, episode.metrics[names[-1]].value, path, is_flat))
    compared = "daily NAV" if navs else "daily NAV, or all figures of the card where no ledger is beside it"
    return Observations(runs, names[-1], compared, notes=list(notes_of_groups(notes)))


def _trajectory(entrant: Entrant, episode: TradingEpisode) -> tuple[Hashable, bool, bool]:
    """What identical runs share, whether it never moved, and whether it is of the daily NAVs."""
    ledger = recorded_ledger(entrant, episode.id)
    if isinstance(ledger, str):
        figures = {name: each.value for name, each in episode.metrics.items()}
        return tuple(sorted(figures.items())), figures.get("total_return") == 0, False
    path = ledger.nav.astype("<f8").tobytes()
    return hashlib.sha256(path).hexdigest(), not ledger.returns.any(), True
