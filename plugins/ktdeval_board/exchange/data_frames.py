"""A board as data frames: cards, episodes, days, metrics and imported results.

Fractions are fractions (0.1 is 10 %). Dtypes are the same on every board: `string`, `boolean`,
`Int64`, `float64`, `datetime64[ms]`, and lists in object columns. Withdrawn cards have no rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.cards import (
    Definition,
    EpisodeMetric,
    MetricLine,
    ScoreLine,
    ScoringEpisode,
    TradingCard,
    TradingEpisode,
    spread_of,
)
from ktdeval_board.attempts import attempts_of
from ktdeval_board.board_entries import Board, Entry, figures_of, settings_of, unset_to_none
from ktdeval_board.document_types import EpisodeSeries, Imported, Series
from ktdeval_board.exchange.board_data import BoardData, Column, Frame, columns_of, read_board
from ktdeval_board.read_documents import read_own, read_untrusted

Figures = Mapping[str, EpisodeMetric | MetricLine | ScoreLine]
"""Figures of a row by the names of their metrics."""

_NOT_THERE = "it has no such figure"
INT64 = 2**63 - 1
_LEVELS = ("nav", "gross_nav", "benchmark")
_PER_DAY = (
    "invested",
    "names",
    "turnover",
    "common",
    "industry",
    "style",
    "selection",
    "trading",
    "selection_daily",
)


def load_frame(path: Path | str) -> pd.DataFrame:
    """Return the cards of a board, one row each; `columns_of("cards", …)` lists the columns,
    `.attrs["metrics"]` the metrics.

    Raises ConfigError: there is no board here, or its rules or errata are not valid; CardError: a
    file of the board can't be read or is not valid.
    """
    return _cards_frame(read_board(path))


def load_episodes_frame(path: Path | str) -> pd.DataFrame:
    """Return the finished episodes of all cards of a board, one row each; errors as of
    `load_frame`.
    """
    return _episodes_frame(read_board(path))


def load_daily_frame(path: Path | str) -> pd.DataFrame:
    """Return the days of all episodes that the board has executed again, one row each; errors as of
    `load_frame`.
    """
    return _daily_frame(read_board(path))


def load_imported_frame(path: Path | str) -> pd.DataFrame:
    """Return the results that were imported from other harnesses, one row each; errors as of
    `load_frame`.
    """
    return _imported_frame(read_board(path))


def _cards_frame(data: BoardData) -> pd.DataFrame:
    rows = []
    for entry in data.entries:
        figures: Figures = {**figures_of(entry.card), **data.standings[entry.card_id].extra}
        rows.append((_card_facts(data, entry), figures))

    frame = _frame("cards", data, rows)
    frame.attrs["metrics"] = {
        data.metrics[name]: _definition(each) for name, each in data.definitions.items()
    }
    return frame


def _definition(metric: Definition) -> dict[str, Any]:
    lowest, highest = metric.range
    return {
        "unit": metric.unit,
        "better": metric.better,
        "headline": metric.headline,
        "formula": metric.formula,
        "source": metric.source,
        "lowest": lowest,
        "highest": highest,
    }


def _episodes_frame(data: BoardData) -> pd.DataFrame:
    rows: list[tuple[SimpleNamespace, Figures]] = []
    for entry in data.entries:
        for episode in entry.card.episodes:
            figures = episode.metrics if isinstance(episode, TradingEpisode) else {}
            rows.append((_episode_facts(data, entry, episode), figures))

    return _frame("episodes", data, rows)


def _daily_frame(data: BoardData) -> pd.DataFrame:
    columns = columns_of("daily")
    cells: dict[str, list[Any]] = {column.name: [] for column in columns}
    for entry in data.entries:
        path = data.board.folder.series(entry.card_id)
        if not path.is_file():
            continue

        facts = _card_facts(data, entry)
        for episode in read_own(path, Series).episodes:
            facts.episode = episode
            days = _day_columns(episode)
            for column in columns:
                if column.value:
                    cells[column.name] += [_value(facts, column)] * len(episode.days)
                else:
                    cells[column.name] += days[column.name]

    return pd.DataFrame(
        {column.name: _column_series(column, cells[column.name]) for column in columns}
    )


def _metrics_frame(data: BoardData) -> pd.DataFrame:
    counts = Counter[str]()
    for entry in data.entries:
        counts.update({*figures_of(entry.card), *data.standings[entry.card_id].extra})

    rows: list[tuple[SimpleNamespace, Figures]] = []
    for name, each in data.definitions.items():
        lowest, highest = each.range
        facts = SimpleNamespace(
            column=data.metrics[name],
            name=name,
            cards=counts[name],
            definition=each,
            lowest=lowest,
            highest=highest,
        )
        rows.append((facts, {}))

    return _frame("metrics", data, rows)


def _imported_frame(data: BoardData) -> pd.DataFrame:
    limit = data.board.rules.limits.bytes_of("card_mb")
    rows: list[tuple[SimpleNamespace, Figures]] = []
    for path in data.board.folder.imported():
        document = read_untrusted(path, Imported, limit)
        for result in document.results:
            facts = SimpleNamespace(
                file=path.name, document=document, result=result, reason=result.reason or None
            )
            rows.append((facts, {}))

    return _frame("imported", data, rows)


MAKERS: Mapping[Frame, Callable[[BoardData], pd.DataFrame]] = {
    "cards": _cards_frame,
    "episodes": _episodes_frame,
    "daily": _daily_frame,
    "metrics": _metrics_frame,
    "imported": _imported_frame,
}
"""Makers of frames."""


def _card_facts(data: BoardData, entry: Entry) -> SimpleNamespace:
    """Return the facts that columns of a card name in `columns.csv`."""
    card = entry.card
    submission = entry.submission
    return SimpleNamespace(
        entry=entry,
        card=card,
        submission=submission,
        standing=data.standings[entry.card_id],
        settings=settings_of(card) or None,
        errata=[f"{erratum.date} {erratum.effect}: {erratum.what}" for erratum in entry.errata],
        windows=[window.name for window in card.windows],
        organisation=submission.submitter.organisation or None,
        strategy=submission.agent.strategy or None,
        created_on=card.provenance.created_at[:10],
        cost_reason=unset_to_none(card.cost.reason),
        attempts=attempts_of(data.board, entry),
        key=_key_facts(data.board, entry),
    )


def _key_facts(board: Board, entry: Entry) -> SimpleNamespace | None:
    """Return who chose the mask key of a card, and when it was drawn; None without a mask."""
    if not entry.card.mask_key:
        return None

    filed = board.registrations.by_id.get(entry.card.registration or "")
    if filed is None or filed.drawn is None:
        return SimpleNamespace(chosen_by="submitter")

    return SimpleNamespace(
        chosen_by="board",
        registration=filed.id,
        registered_on=filed.registration.registered_on,
        drawn_on=filed.drawn.drawn_on,
    )


def _episode_facts(
    data: BoardData, entry: Entry, episode: TradingEpisode | ScoringEpisode
) -> SimpleNamespace:
    facts = _card_facts(data, entry)
    card = entry.card
    facts.episode = episode
    facts.steps_decided = episode.decisions.model + episode.decisions.model_after_retry

    if isinstance(card, TradingCard) and isinstance(episode, TradingEpisode):
        facts.first_day = episode.first_day
        facts.last_day = episode.last_day
        facts.currency = card.snapshot.currency
        facts.final_nav = episode.final_nav_minor / card.snapshot.minor_per_unit
        reference = card.reference.benchmark_buy_and_hold.get(episode.window)
        facts.benchmark_return = None if reference is None else reference.metrics.total_return.value
    elif card.windows:
        window = next(each for each in card.windows if each.name == episode.window)
        facts.first_day = window.first
        facts.last_day = window.last

    return facts


def _value(facts: Any, column: Column) -> Any:
    """Return the value of a column; None if there is none, such as orders of a scoring task."""
    value = facts
    for name in column.value.split("."):
        value = getattr(value, name, None)

    return value


def _frame(
    frame: Frame,
    data: BoardData,
    rows: Iterable[tuple[SimpleNamespace, Figures]],
) -> pd.DataFrame:
    """Make a frame of facts and figures. A metric that a card or episode lacks gets a reason that
    says so.
    """
    metrics: Mapping[str, str] = {}
    columns = columns_of(frame)
    if frame in ("cards", "episodes"):
        metrics = data.metrics_of(frame)
        columns = columns_of(frame, data.units(frame))

    values_of: dict[str, list[Any]] = {column.name: [] for column in columns}

    for facts, figures in rows:
        cells = {column.name: _value(facts, column) for column in columns if column.value}
        cells |= {f"{column}_reason": _NOT_THERE for column in metrics.values()}
        for name in metrics.keys() & figures.keys():
            column = metrics[name]
            figure = figures[name]
            cells[column] = figure.value
            cells[f"{column}_n"] = figure.n
            cells[f"{column}_reason"] = unset_to_none(figure.reason)
            spread = spread_of(figure)
            if spread is not None:
                cells[f"{column}_low"] = spread.low
                cells[f"{column}_high"] = spread.high
                cells[f"{column}_bounds"] = spread.kind

        for key, values in values_of.items():
            values.append(cells.get(key))

    return pd.DataFrame({each.name: _column_series(each, values_of[each.name]) for each in columns})


def _day_columns(episode: EpisodeSeries) -> dict[str, Sequence[Any]]:
    """Return an episode's days by column."""
    none = [None] * len(episode.days)
    cells: dict[str, Sequence[Any]] = {
        "day": episode.days,
        "daily_return": _daily_returns(episode.nav),
        "benchmark_daily_return": none,
    }
    if episode.benchmark is not None:
        cells["benchmark_daily_return"] = _daily_returns(episode.benchmark)

    for name in _LEVELS:
        levels = getattr(episode, name)
        # Levels begin with the close before the first day.
        cells[name] = none if levels is None else levels[1:]

    for name in _PER_DAY:
        line = getattr(episode, name)
        cells[name] = none if line is None else line

    return cells


def _daily_returns(levels: Sequence[float]) -> list[float]:
    values = np.asarray(levels, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = values[1:] / values[:-1] - 1
    # A level of 0 or less, as of a ruined account, has no return after it.
    returned: list[float] = np.where(values[:-1] > 0, returns, np.nan).tolist()
    return returned


def _column_series(column: Column, values: list[Any]) -> pd.Series[Any]:
    match column.type:
        case "texts" | "counts":
            series = pd.Series([list(value or ()) for value in values], dtype=object)
        case "day":
            # errors="coerce": schemas of cards check how a day is written, not whether it exists
            texts = pd.Series(values, dtype=object)
            days = pd.to_datetime(texts, format="%Y-%m-%d", errors="coerce")
            series = pd.Series(days).astype("datetime64[ms]")
        case "count":
            counts = [_fitting(value) for value in values]
            series = pd.Series(counts, dtype="Int64")
        case "number":
            numbers = [np.nan if value is None else float(value) for value in values]
            series = pd.Series(numbers, dtype="float64")
        case "flag":
            flags = [pd.NA if value is None else bool(value) for value in values]
            series = pd.Series(flags, dtype="boolean")
        case _:
            series = pd.Series(values, dtype="string")

    return series.rename(column.name)


def _fitting(value: int | None) -> Any:
    """Return an integer that a column can hold; else the mark of a missing one."""
    return pd.NA if value is None or abs(value) > INT64 else value
