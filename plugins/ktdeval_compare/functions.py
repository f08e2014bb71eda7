"""Commands as functions that return data frames: `ktdeval.compare`, `.compare_tables`, `.effects`,
`.luck`, `.invariance`, `.cohort`, `.table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ktdeval.errors import CardError, UsageError
from ktdeval.registry import TableChoices, load_plugins
from ktdeval.runner import paths_of_runs
from ktdeval.values import JsonValue, Tell, build, split_list, tell_nobody, to_object
from ktdeval_compare.cells.market_cells import CellOptions as CellOptions, by_cells
from ktdeval_compare.cells.market_cells_texts import cell_parts
from ktdeval_compare.cohorts.cohort_comparison import cohort as find_cohorts
from ktdeval_compare.cohorts.cohort_texts import cohort_parts
from ktdeval_compare.labels.label_invariance import (
    InvarianceOptions as InvarianceOptions,
    invariance as find_invariance,
)
from ktdeval_compare.labels.label_invariance_texts import invariance_parts, key_parts
from ktdeval_compare.masks.mask_effects import (
    EffectsOptions as EffectsOptions,
    effects as find_effects,
)
from ktdeval_compare.masks.mask_key_effect import KeySpreadOptions, key_spread
from ktdeval_compare.pairs.compare import (
    CompareOptions as CompareOptions,
    compare as find_differences,
)
from ktdeval_compare.pairs.compared_cards import load_cards, load_entrants, scoring_notes
from ktdeval_compare.pairs.score_comparison import compare_scores
from ktdeval_compare.papers.paper_tables import find_paper_table, paper_frame
from ktdeval_compare.pools.pool import pool as find_pooled
from ktdeval_compare.pools.pool_texts import pool_parts
from ktdeval_compare.ranking.luck import luck as find_luck
from ktdeval_compare.ranking.luck_texts import luck_parts
from ktdeval_compare.ranking.random_players import PlayersOptions as PlayersOptions, PlayersTable
from ktdeval_compare.report_texts import compare_parts, effects_parts, score_parts, variance_parts
from ktdeval_compare.study_options import CohortOptions as CohortOptions
from ktdeval_compare.table_columns import Part, lines_of
from ktdeval_compare.variances.variance import VarianceOptions as VarianceOptions, study

#: `compare` returns the first of these tables that is in the report
_MAIN_TABLES = ("tests", "pooled", "shares")


class Tables(Mapping[str, Any]):
    """A report. Lists of rows become data frames; all other values are unchanged. Printing the
    report gives the text of the command. `.report` has the contents of the command's `--json`
    output.
    """

    def __init__(self, report: object, parts: Iterable[Part]) -> None:
        self.report: Mapping[str, JsonValue] = to_object(report)
        self._parts = tuple(parts)

    def __getitem__(self, name: str) -> Any:
        value = self.report[name]
        if not isinstance(value, list) or not value:
            return value
        if not all(isinstance(row, dict) for row in value):
            return value
        return pd.json_normalize(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.report)

    def __len__(self) -> int:
        return len(self.report)

    def __repr__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """Return the text of the command, wrapped to `width` columns. If `width` is None, lines are
        as wide as the tables.
        """
        return "\n".join(lines_of(self._parts, width))


def compare(*runs: Any, **options: Any) -> pd.DataFrame:
    """Test whether agents differ, and return the differences, one row per pair.

    `runs` and `options`: as in `compare_tables`, which also returns all other tables of the report.
    With `factors`, rows are shares of variance; with `pool=True`, rows are pooled differences. The
    report's notes are in `frame.attrs["notes"]`. Raises KtdevalError in the same cases as
    `compare_tables`.

    Example:
        frame = ktdeval.compare(run, other, metrics="total_return")
        frame[["first", "second", "n", "shift.value", "p", "verdict"]]
    """
    tables = compare_tables(*runs, **options)
    main = next(name for name in _MAIN_TABLES if name in tables)
    rows = tables[main]
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    notes = tables.report.get("notes")
    frame.attrs["notes"] = list(notes) if isinstance(notes, list) else []
    return frame


def compare_tables(
    *runs: Any,
    factors: str | Iterable[str] = (),
    table: str | Path | None = None,
    by: str | None = None,
    tasks: str | Iterable[str] = (),
    **options: Any,
) -> Tables:
    """Test whether agents differ, and return all tables of the report.

    `runs`: folders, card files or results of `ktdeval.evaluate`. `tasks`: names or globs of the
    tasks to compare, if the runs also have other tasks. `options`: `metrics`, `unit` ("window" or
    "episode"), `alpha`, `common`, `side`, `against_first`, `seed`, `draws`.

    With `pool=True`, the report has one estimate over the windows of several markets (`pooled`,
    which includes its `cells`).

    With `factors`, such as "agent,model", the report has shares of one metric's variance (`shares`,
    `without`, `identical`). `options` are then `metrics`, `alpha`, `common`, `seed`. `table`: a CSV
    file with runs, or "ama-1", instead of `runs`.

    With `by` ("regime", "venue" or "year"), the report has figures and differences by cells of the
    market (`cards`, `tests`, `windows`). `options` are then `metrics`, `unit` ("window" or "day"),
    `alpha`, `common`, `side`, `against_first`, and `data` (folders of markets that have moved).

    Raises KtdevalError if the runs can't be compared. With `factors`, also raises it if the runs
    are not a complete crossing of the factors.

    Example:
        tables = ktdeval.compare_tables(run, other)
        tables["tests"]["verdict"]
    """
    if by is not None:
        if factors or table is not None:
            raise UsageError("factors and table split a variance; leave them out with by")

        cells = build(CellOptions, _listed_options({**options, "by": by}), "compare")
        report = by_cells(load_entrants(_paths(runs), _listed_names(tasks)), cells)
        return Tables(report, cell_parts(report))

    if factors:
        settings = build(
            VarianceOptions, _listed_options({**options, "factors": factors}), "compare"
        )
        paths = _paths(runs) if runs else []
        split = study(paths, None if table is None else str(table), settings, _listed_names(tasks))
        return Tables(split, variance_parts(split))

    if table is not None:
        raise UsageError("table goes with factors")

    chosen = build(CompareOptions, _listed_options(options), "compare")
    trading, scored = load_cards(_paths(runs), tasks=_listed_names(tasks))
    if chosen.pool:
        if not trading:
            raise UsageError("--pool applies to trading tasks; these cards are of scoring tasks")

        pooled = find_pooled(trading, chosen)
        pooled = replace(pooled, notes=[*pooled.notes, *scoring_notes(scored)])
        return Tables(pooled, pool_parts(pooled))

    if scored and not trading:
        if chosen.side:
            raise UsageError("--side applies to trading tasks; these cards are of scoring tasks")

        scores = compare_scores(scored, chosen)
        return Tables(scores, score_parts(scores))

    if scored and len(trading) < 2:
        listed = ", ".join(f"{one.path} ({one.card.kind})" for one in (*trading, *scored))
        raise CardError(f"a comparison needs at least two cards of the same kind; given: {listed}")

    differences = find_differences(trading, chosen)
    differences = replace(differences, notes=[*differences.notes, *scoring_notes(scored)])
    return Tables(differences, compare_parts(differences))


def effects(*runs: Any, tasks: str | Iterable[str] = (), **options: Any) -> Tables:
    """Return the value of stock, date, data and tools; `runs` and `tasks` are as in `compare`.
    `options` are `metrics`, `alpha`, `common`, `seed`.

    Example:
        tables = ktdeval.effects(bright, blinded, metrics="total_return")
        tables["effects"]
    """
    settings = build(EffectsOptions, _listed_options(options), "effects")
    report = find_effects(load_entrants(_paths(runs), _listed_names(tasks)), settings)
    return Tables(report, effects_parts(report))


def luck(
    *runs: Any,
    stores: Iterable[str | Path] = (),
    players: int | None = None,
    seed: int = 0,
    tell: Tell = tell_nobody,
) -> Tables:
    """Return how much of each result is due to luck. `runs` are as in `compare`. `stores` are
    folders with other runs, whose trials are also counted. With `players`, the report also has each
    card's rank among this number of random players. The players are drawn with `seed`, and `tell`
    receives their progress.

    Example:
        ktdeval.luck(run, other)["cards"]
    """
    table = None
    if players is not None:
        settings = build(PlayersOptions, {"players": players, "seed": seed}, "luck")
        table = PlayersTable(settings, tell)

    report = find_luck(load_entrants(_paths(runs)), paths_of_runs(stores), table)
    return Tables(report, luck_parts(report))


def cohort(*runs: Any, cohorts: str | Iterable[str] = (), **options: Any) -> Tables:
    """Return the differences between cohorts of models. `runs` are as in `compare`. `cohorts` are
    as in the command, such as `["ML=qlib/*", "LLM=openai/*"]`. `options` are `task`, `alpha` and
    `common`.

    Example:
        named = ["trend=builtin/momentum", "chance=builtin/random"]
        ktdeval.cohort(run, other, cohorts=named)["cohorts"]
    """
    named = (cohorts,) if isinstance(cohorts, str) else cohorts
    settings = build(CohortOptions, {**options, "cohorts": named}, "cohort")
    # `runs` can be empty, because cohorts can also name run folders.
    paths = _paths(runs) if runs else []
    report = find_cohorts(paths, settings)
    return Tables(report, cohort_parts(report))


def invariance(
    *runs: Any, keys: int | None = None, positions: int | None = None, **options: Any
) -> Tables:
    """Return the changes that are due to the mask's labels. `runs` are as in `compare`. `options`
    are `alpha`, `over` and `common`. | With `keys`, return instead the spread over this number of
    mask keys for a baseline that buys the first `positions` names listed (default 10), and the rank
    of each card's key.

    Example:
        ktdeval.invariance(run, keys=20)
    """
    if keys is not None:
        if options:
            raise UsageError(
                "alpha, over and common are of runs under several keys, not of a spread over keys"
            )

        chosen = {"keys": keys}
        if positions is not None:
            chosen["positions"] = positions

        settings = build(KeySpreadOptions, chosen, "invariance")
        spread = key_spread(load_entrants(_paths(runs)), settings)
        return Tables(spread, key_parts(spread))

    if positions is not None:
        raise UsageError("positions goes with keys")

    report = find_invariance(
        load_entrants(_paths(runs)), build(InvarianceOptions, options, "invariance")
    )
    return Tables(report, invariance_parts(report))


def table(*runs: Any, like: str, cohorts: Iterable[str] = ()) -> pd.DataFrame:
    """Return the figures for a table from a paper, such as `like="ktdfin-4"`. `runs` are as in
    `compare`, and `cohorts` are as in the command.

    Example:
        ktdeval.table(run, other, like="ktdfin-4")
    """
    plugins = load_plugins()
    choices = TableChoices(plugins=plugins, cohort=tuple(cohorts))
    return paper_frame(find_paper_table(like, plugins), _paths(runs), choices)


def _paths(runs: Iterable[Any]) -> list[Path]:
    paths = paths_of_runs(runs)
    if not paths:
        raise UsageError("no run is given; name at least one")
    return paths


def _listed_names(given: str | Iterable[str]) -> list[str]:
    """Return a list of names, given a comma-separated string or several names."""
    if isinstance(given, str):
        given = split_list(given)

    return list(given)


def _listed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, with comma-separated strings replaced by lists of names."""
    listed = dict(options)
    for name in ("metrics", "factors"):
        value = listed.get(name)
        if isinstance(value, str):
            listed[name] = split_list(value)
    return listed
