"""A board as data frames: cards, episodes, days, metrics and imported results.

Fractions are fractions (0.1 is 10 %). Dtypes do not depend on what is on the board: `string`, `boolean`, `Int64`, `float64`,
`datetime64[ms]`, and lists in object columns. Of a card that was withdrawn there are no rows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.cards import Definition, EpisodeMetric, MetricLine, ScoreLine, ScoringEpisode, TradingCard, TradingEpisode
from ktdeval.jsonio import JsonValue
from ktdeval.typed import Value, to_plain
from ktdeval_board.derived import EpisodeSeries, Series
from ktdeval_board.documents import Imported
from ktdeval_board.entries import Entry, figures_of, given, market_of, settings_of
from ktdeval_board.exchange.board_data import BoardData, read_board
from ktdeval_board.exchange.columns import Column, Frame, columns_of
from ktdeval_board.reading import read_own, read_untrusted

_USAGE = ("input_tokens", "output_tokens", "reasoning_tokens", "tool_calls")
_NOT_THERE = "it has no such figure"
_INT64 = 2**63 - 1

_Rows = dict[str, list[Any]]


def load_frame(path: Path | str) -> pd.DataFrame:
    """Return the cards of a board, one row each; `columns_of("cards", …)` tells the columns, `.attrs["metrics"]` the metrics.

    Raises ConfigError: there is no board here, or its rules or errata are not valid; CardError: a file of the board can't be read
    or is not valid.
    """
    return cards_frame(read_board(path))


def load_episodes_frame(path: Path | str) -> pd.DataFrame:
    """Return the finished episodes of all cards of a board, one row each; errors as of `load_frame`."""
    return episodes_frame(read_board(path))


def load_daily_frame(path: Path | str) -> pd.DataFrame:
    """Return the days of all episodes that the board has executed again, one row each; errors as of `load_frame`."""
    return daily_frame(read_board(path))


def load_imported_frame(path: Path | str) -> pd.DataFrame:
    """Return the results that were imported from other harnesses, one row each; errors as of `load_frame`."""
    return imported_frame(read_board(path))


def cards_frame(data: BoardData) -> pd.DataFrame:
    """Return the frame of `load_frame`."""
    columns = columns_of("cards", data.units("cards"))
    cells = _Cells(data.metrics_of("cards"))
    rows = [
        _card_row(data, entry) | cells.of({**figures_of(entry.card), **data.standings[entry.card_id].extra})
        for entry in data.entries
    ]
    frame = _frame(columns, _by_column(columns, rows))
    frame.attrs["metrics"] = {data.metrics[name]: dict(_meaning(each)) for name, each in data.definitions.items()}
    return frame


def episodes_frame(data: BoardData) -> pd.DataFrame:
    """Return the frame of `load_episodes_frame`."""
    columns = columns_of("episodes", data.units("episodes"))
    cells = _Cells(data.metrics_of("episodes"))
    rows = [
        _episode_row(data, entry, episode) | cells.of(episode.metrics if isinstance(episode, TradingEpisode) else {})
        for entry in data.entries
        for episode in entry.card.episodes
    ]
    return _frame(columns, _by_column(columns, rows))


def daily_frame(data: BoardData) -> pd.DataFrame:
    """Return the frame of `load_daily_frame`."""
    columns = columns_of("daily")
    found: _Rows = {column.name: [] for column in columns}
    for entry in data.entries:
        path = data.board.folder.series(entry.card_id)
        if path.is_file():
            who = _who(data, entry)
            for episode in read_own(path, Series).episodes:
                _extend_days(found, who, episode)
    return _frame(columns, found)


def metrics_frame(data: BoardData) -> pd.DataFrame:
    """Return what the metrics of the cards are."""
    columns = columns_of("metrics")
    counts = Counter(name for entry in data.entries for name in {*figures_of(entry.card), *data.standings[entry.card_id].extra})
    rows = [
        {"metric": data.metrics[name], "name": name, "cards": counts[name], **_meaning(definition)}
        for name, definition in data.definitions.items()
    ]
    return _frame(columns, _by_column(columns, rows))


def imported_frame(data: BoardData) -> pd.DataFrame:
    """Return the frame of `load_imported_frame`."""
    columns = columns_of("imported")
    limit = data.board.rules.limits.bytes_of("card_mb")
    rows = [row for path in data.board.folder.imported() for row in _imported_rows(path, limit)]
    return _frame(columns, _by_column(columns, rows))


MAKERS: Mapping[Frame, Callable[[BoardData], pd.DataFrame]] = {
    "cards": cards_frame,
    "episodes": episodes_frame,
    "daily": daily_frame,
    "metrics": metrics_frame,
    "imported": imported_frame,
}
"""How each frame is made."""


def _meaning(figure: Definition) -> dict[str, JsonValue]:
    lowest, highest = figure.range
    return _fields(figure, ("unit", "better", "headline", "formula", "source")) | {"lowest": lowest, "highest": highest}


def _who(data: BoardData, entry: Entry) -> dict[str, Any]:
    return {
        "card": entry.card_id,
        "division": entry.division.id if entry.division else None,
        "model": entry.model,
        "agent": entry.agent,
        "settings": settings_of(entry.card) or None,
        "baseline": entry.baseline_kind,
        "tier": entry.tier,
        "ranked": data.standings[entry.card_id].ranked,
    }


def _card_row(data: BoardData, entry: Entry) -> dict[str, Any]:
    card, submission, standing = entry.card, entry.submission, data.standings[entry.card_id]
    task, market, provenance = card.task, market_of(card), card.provenance
    return {
        **_who(data, entry),
        "why": list(standing.why),
        "rank": standing.rank,
        "alpha_rank": standing.alpha_rank,
        "labels": list(card.labels),
        "errata": [f"{erratum.date} {erratum.effect}: {erratum.what}" for erratum in entry.errata],
        "kind": card.kind,
        "task": task.name,
        "task_version": task.version,
        "task_hash": task.hash,
        "mask": task.mask,
        "mode": task.mode,
        "snapshot": market.id,
        "market": market.name,
        "synthetic": market.synthetic,
        "rules": card.rules if isinstance(card, TradingCard) else None,
        "windows": [window.name for window in card.windows],
        "seeds": list(card.seeds),
        "submitter": submission.submitter.name,
        "organisation": submission.submitter.organisation or None,
        "submitted_on": submission.submitted_on,
        "cutoff_date": submission.model.cutoff_date,
        "open_weights": submission.model.open_weights,
        "strategy": submission.agent.strategy or None,
        "attempts": submission.attempts.runs,
        "created_on": provenance.created_at[:10],
        "suite_version": provenance.suite_version,
        **_fields(card.coverage, ("episodes_planned", "episodes_finished", "steps_planned", "steps_decided")),
        **_fields(card.usage, _USAGE),
        "total_cost_usd": card.cost.value,
        "total_cost_usd_reason": given(card.cost.reason),
    }


def _episode_row(data: BoardData, entry: Entry, episode: TradingEpisode | ScoringEpisode) -> dict[str, Any]:
    card, decisions = entry.card, episode.decisions
    if isinstance(card, TradingCard) and isinstance(episode, TradingEpisode):
        reference = card.reference.benchmark_buy_and_hold.get(episode.window)
        own = {
            "first_day": episode.first_day,
            "last_day": episode.last_day,
            "final_nav_cny": episode.final_nav_fen / 100,
            "orders": episode.orders.submitted,
            "orders_rejected": episode.orders.rejected,
            "benchmark_return": None if reference is None else reference.metrics.total_return.value,
        }
    else:
        own = next({"first_day": each.first, "last_day": each.last} for each in card.windows if each.name == episode.window)
    return {
        **_who(data, entry),
        "episode": episode.id,
        "window": episode.window,
        "seed": episode.seed,
        "steps": episode.steps,
        "steps_decided": decisions.model + decisions.model_after_retry,
        **_fields(episode.usage, _USAGE),
        **own,
    }


def _fields(value: Value, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


class _Cells:
    """Makes the cells of metrics.

    `metrics`: name of each metric to its first column.
    """

    def __init__(self, metrics: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._none = {f"{column}_reason": _NOT_THERE for column in metrics.values()}

    def of(self, figures: Mapping[str, EpisodeMetric | MetricLine | ScoreLine]) -> dict[str, Any]:
        """Cells of the figures of one card or episode; a metric that it does not have has that as its reason."""
        cells: dict[str, Any] = dict(self._none)
        for name, figure in figures.items():
            column = self._metrics.get(name)
            if column is not None:
                interval = given(figure.interval)
                cells[column] = figure.value
                if interval is not None:
                    cells[f"{column}_low"], cells[f"{column}_high"] = interval.low, interval.high
                    cells[f"{column}_interval"] = interval.kind
                cells[f"{column}_n"] = figure.n
                cells[f"{column}_reason"] = given(figure.reason)
        return cells


_LEVELS = ("nav", "gross_nav", "benchmark")
_PER_DAY = ("invested", "names", "turnover", "common", "style", "selection", "trading", "selection_daily")


def _extend_days(found: _Rows, who: Mapping[str, Any], episode: EpisodeSeries) -> None:
    """Add an episode's days; levels have one figure more than there are days, for the close before the first."""
    n = len(episode.days)
    none = [None] * n
    cells: dict[str, Sequence[Any]] = {"day": episode.days}
    cells |= {name: none if (levels := getattr(episode, name)) is None else levels[1:] for name in _LEVELS}
    cells |= {name: none if (line := getattr(episode, name)) is None else line for name in _PER_DAY}
    cells |= {"daily_return": _returns(episode.nav)}
    cells |= {"benchmark_daily_return": none if episode.benchmark is None else _returns(episode.benchmark)}
    single = {**who, "episode": episode.id, "window": episode.window, "seed": episode.seed}
    single["attribution_reason"] = episode.attribution_reason
    for name, column in found.items():
        column.extend(cells[name] if name in cells else itertools.repeat(single[name], n))


def _returns(levels: Sequence[float]) -> list[float]:
    values = np.asarray(levels, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):  # a level of 0 has no return after it: NaN
        returns = values[1:] / values[:-1] - 1
    returns[~np.isfinite(returns)] = np.nan
    return [float(value) for value in returns]


def _imported_rows(path: Path, max_bytes: int) -> Iterator[dict[str, Any]]:
    document = read_untrusted(path, Imported, max_bytes)
    shared = {
        "file": path.name,
        "harness": document.harness.name,
        "harness_version": document.harness.version,
        "model": document.model.name,
        "limit": document.limit,
        "date": document.date,
        "source_sha256": document.source.sha256,
    }
    for result in document.results:
        yield {**shared, **to_plain(result), "value_reason": result.reason or None}


def _by_column(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> _Rows:
    return {column.name: [row.get(column.name) for row in rows] for column in columns}


def _frame(columns: Sequence[Column], found: _Rows) -> pd.DataFrame:
    return pd.DataFrame({column.name: _series(column, found[column.name]) for column in columns})


def _series(column: Column, values: list[Any]) -> pd.Series[Any]:
    match column.type:
        case "texts" | "counts":
            made = pd.Series([value or [] for value in values], dtype=object)
        case "day":
            # errors="coerce": the schemas of cards say how a day is written, not that there is such a day
            made = pd.Series(pd.to_datetime(pd.Series(values, dtype=object), format="%Y-%m-%d", errors="coerce"))
            made = made.astype("datetime64[ms]")
        case "count":
            fits = [value if value is not None and abs(value) <= _INT64 else pd.NA for value in values]
            made = pd.Series(fits, dtype="Int64")
        case "number":
            made = pd.Series([np.nan if value is None else float(value) for value in values], dtype="float64")
        case "flag":
            made = pd.Series([pd.NA if value is None else bool(value) for value in values], dtype="boolean")
        case _:
            made = pd.Series(values, dtype="string")
    return made.rename(column.name)
