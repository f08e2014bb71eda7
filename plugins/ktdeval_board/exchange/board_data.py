"""A board as every export reads it: its cards without the withdrawn ones, where they stand, and which metrics they have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.cards import Definition, ScoringCard
from ktdeval_board.entries import Board, Entry, figures_of, load_board
from ktdeval_board.exchange.columns import Frame, columns_of, metric_columns
from ktdeval_board.exchange.standing import Standing, extra_definition, standings
from ktdeval_board.ranking.describe import EXTRA, by_trust

_METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_@.-]{0,99}")
_CLASH = "metric."


@dataclass(frozen=True)
class BoardData:
    """A board with what several frames are made of."""

    board: Board
    entries: tuple[Entry, ...]
    standings: Mapping[str, Standing]
    metrics: Mapping[str, str]
    definitions: Mapping[str, Definition]

    def metrics_of(self, frame: Frame) -> dict[str, str]:
        """The metrics that have columns in a frame: name to first column. What the board adds and scores are not by episode."""
        by_episode = {name for entry in self.entries if entry.is_trading for name in entry.trading.metrics}
        return {name: column for name, column in self.metrics.items() if frame == "cards" or name in by_episode - set(EXTRA)}

    def units(self, frame: Frame) -> dict[str, str]:
        """First column of each metric of a frame to its unit."""
        return {column: self.definitions[name].unit for name, column in self.metrics_of(frame).items()}


def read_board(path: Path | str, division: str | None = None) -> BoardData:
    """Read a board for its frames."""
    board = load_board(Path(path))
    wanted = None if division is None else board.rules.division(division)
    entries = tuple(entry for entry in board.entries if not entry.is_withdrawn and (wanted is None or entry.division == wanted))
    places = standings(board)
    definitions = _definitions(entries, places)
    return BoardData(board, entries, places, _metric_columns(definitions), definitions)


def _definitions(entries: Sequence[Entry], places: Mapping[str, Standing]) -> dict[str, Definition]:
    """Metrics that tasks ask for, as the most trusted card tells them; so a submitter can't add columns or change their meaning."""
    found: dict[str, Definition] = {name: extra_definition(name) for entry in entries for name in places[entry.card_id].extra}
    for entry in by_trust(entry for entry in entries if entry.division is not None):
        card = entry.card
        asked = card.score_order if isinstance(card, ScoringCard) else card.task.config.get("metrics")
        for name, figure in figures_of(card).items():
            if _METRIC_NAME.fullmatch(name) and (not isinstance(asked, list) or name in asked):
                found.setdefault(name, figure)
    return dict(sorted(found.items()))


def _metric_columns(definitions: Mapping[str, Definition]) -> dict[str, str]:
    """First column of each metric: its name, with a prefix where that would take another column's."""
    taken = {column.name for frame in ("cards", "episodes") for column in columns_of(frame)}
    named: dict[str, str] = {}
    for name in definitions:
        column = name
        while taken & {each.name for each in metric_columns(column, "")}:
            column = _CLASH + column
        taken |= {each.name for each in metric_columns(column, "")}
        named[name] = column
    return named
