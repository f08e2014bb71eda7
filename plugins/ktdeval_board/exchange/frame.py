"""A board as data frames: cards, episodes, days, metrics and imported results.

Fractions are fractions (0.1 is 10 %). Dtypes do not depend on what is on the board: `string`, `boolean`, `Int64`, `float64`,
`datetime64[ms]`, and lists in object columns. Of a card that was withdrawn there are no rows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.cards import EpisodeMetric, MetricLine, ScoreLine, ScoringEpisode, TradingCard, TradingEpisode
from ktdeval_board.attempts import attempts_of
from ktdeval_board.documents import EpisodeSeries, Imported, Series
from ktdeval_board.entries import Board, Entry, figures_of, settings_of, unset_to_none
from ktdeval_board.exchange.board_data import BoardData, Column, Frame, columns_of, read_board
from ktdeval_board.reading import read_own, read_untrusted

_NOT_THERE = "it has no such figure"
INT64 = 2**63 - 1
_LEVELS = ("nav", "gross_nav", "benchmark")
_PER_DAY = ("invested", "names", "turnover", "common", "industry", "style", "selection", "trading", "selection_daily")


def load_frame(path: Path | str) -> pd.DataFrame:
    """Return the cards of a board, one row each; `columns_of("cards", …)` lists the columns, `.attrs["metrics"]` the metrics.

    Raises ConfigError: there is no board here, or its rules or errata are not valid; CardError: a file of the board can't be read
    or is not valid.
    """
    return _cards_frame(read_board(path))


def load_episodes_frame(path: Path | str) -> pd.DataFrame:
    """Return the finished episodes of all cards of a board, one row each; errors as of `load_frame`."""
    return _episodes_frame(read_board(path))


def load_daily_frame(path: Path | str) -> pd.DataFrame:
    """Return the days of all episodes that the board has executed again, one row each; errors as of `load_frame`."""
    return _daily_frame(read_board(path))


def load_imported_frame(path: Path | str) -> pd.DataFrame:
    """Return the results that were imported from other harnesses, one row each; errors as of `load_frame`."""
    return _imported_frame(read_board(path))


def _cards_frame(data: BoardData) -> pd.DataFrame:
    figures = ({**figures_of(entry.card), **data.standings[entry.card_id].extra} for entry in data.entries)
    frame = _frame("cards", data, zip((_card_facts(data, entry) for entry in data.entries), figures, strict=True))
    names = ("unit", "better", "headline", "formula", "source")
    frame.attrs["metrics"] = {
        data.metrics[name]: {part: getattr(each, part) for part in names}
        | dict(zip(("lowest", "highest"), each.range, strict=True))
        for name, each in data.definitions.items()
    }
    return frame


def _episodes_frame(data: BoardData) -> pd.DataFrame:
    rows = (
        (_episode_facts(data, entry, episode), episode.metrics if isinstance(episode, TradingEpisode) else {})
        for entry in data.entries
        for episode in entry.card.episodes
    )
    return _frame("episodes", data, rows)


def _daily_frame(data: BoardData) -> pd.DataFrame:
    columns = columns_of("daily")
    cells: dict[str, list[Any]] = {column.name: [] for column in columns}
    for entry in data.entries:
        if (path := data.board.folder.series(entry.card_id)).is_file():
            facts = _card_facts(data, entry)
            for episode in read_own(path, Series).episodes:
                facts.episode, days = episode, _days(episode)
                for column in columns:
                    values = itertools.repeat(_value(facts, column), len(episode.days)) if column.value else days[column.name]
                    cells[column.name].extend(values)
    return pd.DataFrame({column.name: _series(column, cells[column.name]) for column in columns})


def _metrics_frame(data: BoardData) -> pd.DataFrame:
    counts = Counter(name for entry in data.entries for name in {*figures_of(entry.card), *data.standings[entry.card_id].extra})
    rows = []
    for name, each in data.definitions.items():
        (lowest, highest), cards = each.range, counts[name]
        facts = SimpleNamespace(column=data.metrics[name], name=name, cards=cards, definition=each, lowest=lowest, highest=highest)
        rows.append((facts, dict[str, MetricLine]()))
    return _frame("metrics", data, rows)


def _imported_frame(data: BoardData) -> pd.DataFrame:
    limit = data.board.rules.limits.bytes_of("card_mb")
    rows = []
    for path in data.board.folder.imported():
        document = read_untrusted(path, Imported, limit)
        for result in document.results:
            facts = SimpleNamespace(file=path.name, document=document, result=result, reason=result.reason or None)
            rows.append((facts, dict[str, MetricLine]()))
    return _frame("imported", data, rows)


MAKERS: Mapping[Frame, Callable[[BoardData], pd.DataFrame]] = {
    "cards": _cards_frame,
    "episodes": _episodes_frame,
    "daily": _daily_frame,
    "metrics": _metrics_frame,
    "imported": _imported_frame,
}
"""How each frame is made."""


def _card_facts(data: BoardData, entry: Entry) -> SimpleNamespace:
    """Things that the columns of a card name in `columns.csv`."""
    card, submission = entry.card, entry.submission
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
    """Who chose the mask key of a card, and when it was drawn; None where there is no mask."""
    if not entry.card.mask_key:
        return None
    filed = board.registrations.by_id.get(entry.card.registration or "")
    if filed is None or filed.drawn is None:
        return SimpleNamespace(chosen_by="submitter")
    days = {"registered_on": filed.registration.registered_on, "drawn_on": filed.drawn.drawn_on}
    return SimpleNamespace(chosen_by="board", registration=filed.id, **days)


def _episode_facts(data: BoardData, entry: Entry, episode: TradingEpisode | ScoringEpisode) -> SimpleNamespace:
    facts, card = _card_facts(data, entry), entry.card
    facts.episode, facts.steps_decided = episode, episode.decisions.model + episode.decisions.model_after_retry
    if isinstance(card, TradingCard) and isinstance(episode, TradingEpisode):
        reference = card.reference.benchmark_buy_and_hold.get(episode.window)
        facts.first_day, facts.last_day = episode.first_day, episode.last_day
        facts.currency = card.snapshot.currency or "CNY"
        facts.final_nav = (episode.final_nav_fen or episode.final_nav_minor or 0) / (card.snapshot.minor_per_unit or 100)
        facts.final_nav_cny = facts.final_nav if facts.currency == "CNY" else None
        facts.benchmark_return = None if reference is None else reference.metrics.total_return.value
    elif card.windows:
        facts.first_day, facts.last_day = next((each.first, each.last) for each in card.windows if each.name == episode.window)
    return facts


def _value(facts: Any, column: Column) -> Any:
    """Return what a column names; None where there is none, as of the orders of a scoring task."""
    for name in column.value.split("."):
        facts = getattr(facts, name, None)
    return facts


def _frame(
    frame: Frame, data: BoardData, rows: Iterable[tuple[SimpleNamespace, Mapping[str, EpisodeMetric | MetricLine | ScoreLine]]]
) -> pd.DataFrame:
    """Make a frame of facts and figures; a metric that a card or episode does not have has that as its reason."""
    columns = columns_of(frame, data.units(frame) if frame in ("cards", "episodes") else None)
    metrics = data.metrics_of(frame) if frame in ("cards", "episodes") else {}
    values_of: dict[str, list[Any]] = {column.name: [] for column in columns}
    for facts, figures in rows:
        cells = {column.name: _value(facts, column) for column in columns if column.value}
        cells |= {f"{column}_reason": _NOT_THERE for column in metrics.values()}
        for name in metrics.keys() & figures.keys():
            column, figure = metrics[name], figures[name]
            cells |= {column: figure.value, f"{column}_n": figure.n, f"{column}_reason": unset_to_none(figure.reason)}
            if (interval := unset_to_none(figure.interval)) is not None:
                cells |= {f"{column}_low": interval.low, f"{column}_high": interval.high, f"{column}_interval": interval.kind}
        for key, values in values_of.items():
            values.append(cells.get(key))
    return pd.DataFrame({column.name: _series(column, values_of[column.name]) for column in columns})


def _days(episode: EpisodeSeries) -> dict[str, Sequence[Any]]:
    """Return an episode's days by column; levels have one figure more than there are days, for the close before the first."""
    none = [None] * len(episode.days)
    cells: dict[str, Sequence[Any]] = {"day": episode.days, "daily_return": _returns(episode.nav)}
    cells |= {name: none if (levels := getattr(episode, name)) is None else levels[1:] for name in _LEVELS}
    cells |= {name: none if (line := getattr(episode, name)) is None else line for name in _PER_DAY}
    return cells | {"benchmark_daily_return": none if episode.benchmark is None else _returns(episode.benchmark)}


def _returns(levels: Sequence[float]) -> list[float]:
    values = np.asarray(levels, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = values[1:] / values[:-1] - 1
    # A level of 0 or less, as of a ruined account, has no return after it.
    returned: list[float] = np.where(values[:-1] > 0, returns, np.nan).tolist()
    return returned


def _series(column: Column, values: list[Any]) -> pd.Series[Any]:
    match column.type:
        case "texts" | "counts":
            series = pd.Series([list(value or ()) for value in values], dtype=object)
        case "day":
            # errors="coerce": the schemas of cards say how a day is written, not that there is such a day
            series = pd.Series(pd.to_datetime(pd.Series(values, dtype=object), format="%Y-%m-%d", errors="coerce"))
            series = series.astype("datetime64[ms]")
        case "count":
            fits = [value if value is not None and abs(value) <= INT64 else pd.NA for value in values]
            series = pd.Series(fits, dtype="Int64")
        case "number":
            series = pd.Series([np.nan if value is None else float(value) for value in values], dtype="float64")
        case "flag":
            series = pd.Series([pd.NA if value is None else bool(value) for value in values], dtype="boolean")
        case _:
            series = pd.Series(values, dtype="string")
    return series.rename(column.name)
