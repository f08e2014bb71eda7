"""Figures with daily curves: Figure 2 in KTD-Fin, Figure 2 in AMA, and Figures 3 and 6 in
DeepFund.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.cards import count
from ktdeval.cli import warn
from ktdeval.errors import CardError, UsageError
from ktdeval.stats import benchmark_levels
from ktdeval_compare.pairs.card_markets import CardMarkets
from ktdeval_compare.pairs.compared_cards import EntrantCard, Values, by_task
from ktdeval_compare.papers.ama_deepfund_tables import (
    BUY_AND_HOLD,
    VOTE,
    asset_cells,
    check_asset_rules,
    row_names,
)
from ktdeval_compare.papers.figures.definitions import FigureChoices, PaperFigure
from ktdeval_compare.papers.figures.figure_runs import (
    MAX_LINES,
    DailyMean,
    DailyPath,
    check_one_task,
    daily_paths,
    figure_entrants,
    markets_of,
    mean_of_paths,
    origin_notes,
    warn_of_cards,
)
from ktdeval_compare.papers.paper_tables import (
    check_alike,
    check_rule_sets,
    index_sharpe,
    risk_free_of,
)
from ktdeval_compare.ranking.luck import card_value

_COLUMNS = ("panel", "line", "day", "value", "low", "high", "least", "most", "n")
_SEED_NOTE = (
    "bands are 95 % t intervals of the mean over 3 or more seeds: they show how runs differ, not "
    "how other days would turn out"
)

#: days and cumulative returns, by card file
Paths = dict[Path, list[tuple[tuple[str, ...], Values]]]


@dataclass
class _Line:
    """One line in a panel, while the line is being computed."""

    label: str
    paths: Paths = field(default_factory=dict)
    sharpe: float | None = None


# -- one line per system


def system_curves(
    paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices
) -> pd.DataFrame:
    """Return [panel, line and day]: each system's mean cumulative return over seeds. A panel shows
    a window or, depending on the setting `panels`, a task. It also shows the benchmark, bought and
    held.
    """
    entrants = figure_entrants(paths, figure, choices)
    settings = figure.settings
    by_tasks = settings["panels"] == "task"
    if by_tasks:
        for members in by_task(entrants).values():
            check_alike(members, members[0].path)
        check_rule_sets(entrants, "figure")
    else:
        check_one_task(entrants, figure)

    _check_distinct(entrants)
    warn_of_cards(entrants)
    panels: dict[str, dict[str, _Line]] = {}
    of_panel: dict[str, DailyPath] = {}
    for entrant in entrants:
        for path in daily_paths(entrant):
            name = _panel_name(path, by_tasks)
            of_panel.setdefault(name, path)
            line = panels.setdefault(name, {}).setdefault(entrant.label, _Line(entrant.label))
            line.paths.setdefault(entrant.path, []).append((path.days, path.ratio - 1.0))
            if "sharpe" in settings:
                line.sharpe = card_value(entrant.card, settings["sharpe"])

    markets = markets_of(choices, "without the market, its benchmark can't be drawn")
    rows: list[dict[str, Any]] = []
    for name, lines in panels.items():
        _check_count(lines)
        for line in lines.values():
            rows += _mean_rows(name, line, mean_of_paths(line.paths), "seed")
        rows += _benchmark_rows(name, of_panel[name], figure, markets)

    frame = _frame_of(rows)
    has_band = bool((frame["low"] < frame["high"]).any())
    notes = [*figure.notes, *([_SEED_NOTE] if has_band else []), *origin_notes(entrants)]
    frame.attrs["notes"] = tuple(notes)
    frame.attrs["periods"] = _periods(frame, settings.get("periods", []))
    return frame


def _panel_name(path: DailyPath, by_tasks: bool) -> str:
    """Return the name of the panel for an episode. This is the window or, with `by_tasks`, the
    task, followed by the window if the card has several windows.
    """
    windows = {episode.window for episode in path.entrant.card.episodes}
    task = path.entrant.card.task.name
    if not by_tasks:
        return path.episode.window
    if len(windows) == 1:
        return task
    return f"{task}, {path.episode.window}"


def _check_distinct(entrants: Sequence[EntrantCard]) -> None:
    """Raise CardError if two cards have the same system and task, because they would be two lines
    with the same name.
    """
    seen: dict[tuple[Any, str], EntrantCard] = {}
    for entrant in entrants:
        other = seen.setdefault((entrant.system, entrant.card.task.name), entrant)
        if other is not entrant:
            raise CardError(
                f"{entrant.path} and {other.path} are both of {entrant.card.model.name} on"
                f" {entrant.card.task.name}; give one of them"
            )


def _check_count(lines: Mapping[str, _Line]) -> None:
    if len(lines) > MAX_LINES:
        raise UsageError(
            f"{len(lines)} lines in one panel can't be distinguished; give at most {MAX_LINES} "
            "systems"
        )


def _mean_rows(
    panel: str, line: _Line, mean: DailyMean, of: str, is_several: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a line. The line's suffix gives the number of values that were averaged."""
    parts = []
    if is_several:
        parts.append(count(mean.n, of))
    if line.sharpe is not None:
        parts.append(f"SR {line.sharpe:.2f}")

    suffix = f" ({', '.join(parts)})" if parts else ""
    for at, day in enumerate(mean.days):
        yield {
            "panel": panel,
            "line": line.label,
            "suffix": suffix,
            "day": day,
            "value": float(mean.mean[at]),
            "low": _at(mean.low, at),
            "high": _at(mean.high, at),
            "least": float(mean.least[at]),
            "most": float(mean.most[at]),
            "n": mean.n,
        }


def _at(ends: Values | None, day: int) -> float | None:
    """Return one end of the interval on one day, or None if the interval is undefined."""
    if ends is None or np.isnan(ends[day]):
        return None
    return float(ends[day])


def _benchmark_rows(
    panel: str, path: DailyPath, figure: PaperFigure, markets: CardMarkets
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the benchmark over the days of a path. Yields nothing if the market can't
    be opened or has no benchmark.
    """
    card = path.entrant.card
    market = markets.find(path.entrant)
    if isinstance(market, str):
        warn(market)
        return
    if not market.meta.benchmark:
        return

    levels = benchmark_levels(path.ledger, market)
    line = _Line(f"{card.snapshot.benchmark_name} buy-and-hold")
    if "treasury_bill" in figure.settings:
        rate = risk_free_of(figure.settings["treasury_bill"], card.rules)
        line.sharpe = index_sharpe({path.episode.window: card}, rate)

    values = np.asarray(levels / levels[0] - 1.0)
    mean = mean_of_paths({path.entrant.path: [(path.days, values)]})
    yield from _mean_rows(panel, line, mean, "", is_several=False)


def _frame_of(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return rows as a frame. A line's label includes the number of averaged values, unless the
    number differs between panels: a line would then have several names and several colours. In
    every case, `n` in each row has the number.
    """
    suffixes: dict[str, set[str]] = {}
    for row in rows:
        suffixes.setdefault(row["line"], set()).add(row["suffix"])

    for row in rows:
        name = row["line"]
        if len(suffixes[name]) == 1:
            row["line"] = name + row["suffix"]

    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _periods(frame: pd.DataFrame, periods: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the paper's event periods that overlap the days in a figure."""
    first, last = str(frame["day"].min()), str(frame["day"].max())
    return [dict(one) for one in periods if one["last"] >= first and one["first"] <= last]


# -- one line per agent, and one per model


def asset_curves(
    paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices
) -> pd.DataFrame:
    """Return [panel, line and day] for each asset. A line shows an agent's mean over models, or a
    model's mean over agents, with the lowest and highest value. A vote is a line among the models,
    and is not included in the agent's mean.
    """
    entrants = figure_entrants(paths, figure, choices)
    check_asset_rules(entrants)
    check_rule_sets(entrants, "figure")
    for members in by_task(entrants).values():
        check_alike(members, members[0].path)

    agents: dict[tuple[str, str], _Line] = {}
    models: dict[tuple[str, str], _Line] = {}
    named = zip(entrants, row_names(entrants), strict=True)
    cells = asset_cells(each for each in named if each[1].agent != BUY_AND_HOLD)
    for (name, asset), entrant in cells.items():
        for window, path in _window_means(entrant).items():
            panel = f"{asset}{window}"
            if name.model != VOTE:
                line = agents.setdefault((panel, name.agent), _Line(name.agent))
                line.paths.setdefault(entrant.path, []).append(path)
            line = models.setdefault((panel, name.model), _Line(name.model))
            line.paths.setdefault(entrant.path, []).append(path)

    rows: list[dict[str, Any]] = []
    for part, lines, of in (("agents", agents, "model"), ("models", models, "agent")):
        for (panel, _), line in _by_asset(lines, figure.settings["assets"]):
            rows += _mean_rows(f"{part}: {panel}", line, mean_of_paths(line.paths), of)

    if not rows:
        raise UsageError(
            f"{figure.name}: these cards have no agent; give runs of agents and models"
        )

    for entrant in entrants:
        if not any(entrant is taken for taken in cells.values()):
            warn(f"{entrant.path}: {BUY_AND_HOLD} is not an agent, and is left out")
    warn_of_cards(list(cells.values()))
    frame = _frame_of(rows)
    frame.attrs["notes"] = (*figure.notes, *origin_notes(list(cells.values())))
    frame.attrs["periods"] = []
    return frame


def _window_means(entrant: EntrantCard) -> dict[str, tuple[tuple[str, ...], Values]]:
    """Return each window's days and mean cumulative returns over seeds. The key is the suffix that
    the window adds to the panel's name; the suffix is empty if the card has only one window.
    """
    of_window: dict[str, Paths] = {}
    for path in daily_paths(entrant):
        paths = of_window.setdefault(path.episode.window, {})
        paths.setdefault(entrant.path, []).append((path.days, path.ratio - 1.0))

    means = {}
    for window, paths in of_window.items():
        mean = mean_of_paths(paths)
        name = f", {window}" if len(of_window) > 1 else ""
        means[name] = (mean.days, mean.mean)

    return means


def _by_asset(
    lines: Mapping[tuple[str, str], _Line], first: Sequence[str]
) -> list[tuple[tuple[str, str], _Line]]:
    """Return lines ordered by asset: the assets in `first` in this order, then the others as
    given.
    """
    panels = [panel for panel, _ in lines]
    listed = [panel for asset in first for panel in panels if panel.split(",")[0] == asset]
    order = list(dict.fromkeys([*listed, *panels]))
    return sorted(lines.items(), key=lambda one: order.index(one[0][0]))
