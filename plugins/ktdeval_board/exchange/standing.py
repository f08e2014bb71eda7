"""Ranks over all windows, and the figures that the board adds to a card's own: what the site shows, without its tie groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktdeval.api import JsonValue
from ktdeval_board.documents import load_own
from ktdeval_board.entries import Board, Card, Entry
from ktdeval_board.ranking.describe import ALPHA, EXTRA, direction, division_columns, division_kind
from ktdeval_board.ranking.figures import Figures, benchmark_of, collect, score_figures
from ktdeval_board.ranking.order import competition_ranks, undefined_reason, why_unranked
from ktdeval_board.ranking.series_facts import SeriesFacts, read_series
from ktdeval_board.rules import Division

NO_DIVISION = "the board has no division for it"
IS_BASELINE = "a baseline: shown at its place, not ranked"
"""Why these have no rank."""


@dataclass(frozen=True)
class Standing:
    """Where a card stands.

    Attributes:
        rank: place by the division's figure; None without one.
        alpha_rank: place by selection_alpha; None where it has no rank or the figure is undefined.
        why: why it has no rank; empty where it has one.
        figure: what the rank goes by: value, n and, where the value is None, reason.
        extra: the board's own figures by name, in the form of a metric on a card.
    """

    rank: int | None
    alpha_rank: int | None
    why: tuple[str, ...]
    figure: Mapping[str, JsonValue] = field(default_factory=dict)
    extra: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)

    @property
    def ranked(self) -> bool:
        """Whether it has a rank."""
        return self.rank is not None


def standings(board: Board) -> dict[str, Standing]:
    """Card id -> where it stands; for all cards that were not withdrawn."""
    found = {entry.card_id: Standing(None, None, (NO_DIVISION,)) for entry in board.entries if entry.division is None}
    for division in board.rules.divisions:
        if board.of_division(division):
            found |= _of_division(board, division)
    return found


def definition(card: Card, name: str) -> Mapping[str, JsonValue]:
    """What a figure is, by its name: unit, direction, formula, source."""
    own: Mapping[str, JsonValue] | None = card["metrics" if card["kind"] == "trading" else "scores"].get(name)
    return own if own is not None else extra_definition(name)


def extra_definition(name: str) -> dict[str, JsonValue]:
    """What one of the board's own figures is, in the form of a metric on a card."""
    extra = EXTRA[name]
    return {part: getattr(extra, part) for part in ("unit", "better", "headline", "formula", "source")} | {"range": [None, None]}


def _of_division(board: Board, division: Division) -> dict[str, Standing]:
    columns = division_columns(board, division)
    columns += [name for name in (division.rank_by, ALPHA) if name not in columns]
    better = direction(board, division, division.rank_by)
    cells = {entry.card_id: row for entry, row in _figures(board, division, columns)}
    entries = board.of_division(division)
    why = {entry.card_id: tuple(_why(board, division, entry, cells[entry.card_id], better)) for entry in entries}
    eligible = [entry.card_id for entry in entries if not why[entry.card_id]]
    ranks = _ranks(eligible, cells, division.rank_by, better)
    alpha = [card_id for card_id in eligible if _problem(ALPHA, cells[card_id]) is None]
    alpha_ranks = _ranks(alpha, cells, ALPHA, "higher")
    return {
        card_id: Standing(
            ranks.get(card_id),
            alpha_ranks.get(card_id),
            why[card_id],
            row[division.rank_by],
            {name: row[name] for name in EXTRA if name in columns},
        )
        for card_id, row in cells.items()
    }


_Cells = Mapping[str, Mapping[str, JsonValue]]


def _figures(board: Board, division: Division, columns: Sequence[str]) -> Iterator[tuple[Entry, _Cells]]:
    """Each card of a division with its figures over all windows."""
    entries = board.of_division(division)
    if division_kind(board, division) == "scoring":
        yield from _cells(entries, columns, score_figures(entries, columns))
        return
    windows = division.window_names()
    for samples in collect(entries, columns, benchmark_of(entries), lambda card_id: _facts(board, card_id)):
        yield from _cells(samples.entries, columns, samples.over(windows))


def _facts(board: Board, card_id: str) -> SeriesFacts | None:
    path = board.folder.series(card_id)
    return read_series(load_own(path), card_id) if path.is_file() else None


def _cells(entries: Sequence[Entry], columns: Sequence[str], figures: Figures) -> Iterator[tuple[Entry, _Cells]]:
    for row, entry in enumerate(entries):
        cells = {}
        for place, name in enumerate(columns):
            value, low, high = (float(part[row, place]) for part in (figures.value, figures.low, figures.high))
            kind = figures.kind[row][place]
            cells[name] = {
                "value": None if math.isnan(value) else value,
                "interval": None if kind is None else {"kind": kind, "low": low, "high": high},
                "n": int(figures.n[row, place]),
                "planned": int(figures.planned[row]),
                "reason": figures.reasons[row].get(name),
            }
        yield entry, cells


def _why(board: Board, division: Division, entry: Entry, cells: _Cells, better: str) -> Iterator[str]:
    if entry.baseline is not None:
        yield IS_BASELINE
        return
    yield from why_unranked(entry, board.rules, division)
    problem = _problem(division.rank_by, cells)
    if problem is not None:
        yield problem
    if better == "neither":
        yield f"of {division.rank_by} neither more nor less is better"


def _problem(column: str, cells: _Cells) -> str | None:
    """Why a figure can't be ranked over all windows."""
    figure = cells[column]
    n = figure["planned"] if column == "decided" else figure["n"]  # what the model decided is counted in steps, not episodes
    return undefined_reason(column, n, figure["planned"], figure["reason"])


def _ranks(card_ids: Sequence[str], cells: Mapping[str, _Cells], column: str, better: str) -> dict[str, int | None]:
    values = np.array([cells[card_id][column]["value"] for card_id in card_ids], dtype=np.float64)
    ranks = competition_ranks(values, better, np.ones(len(card_ids), dtype=np.bool_))
    return dict(zip(card_ids, ranks, strict=True))
