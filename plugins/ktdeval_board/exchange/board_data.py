"""A board as every export reads it: its cards, their standings, and the columns of its frames; and
the report of an export.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ktdeval.cards import Definition, EpisodeMetric, Interval, ScoringCard
from ktdeval.errors import StoreError
from ktdeval.values import JsonValue, csv_rows
from ktdeval_board.atomic_moves import replacing
from ktdeval_board.board_entries import Board, Card, Entry, figures_of, load_board
from ktdeval_board.document_types import Series
from ktdeval_board.ranking.column_texts import EXTRA, by_trust, direction
from ktdeval_board.ranking.table import RankedCards, ranked_cards
from ktdeval_board.read_documents import read_own
from ktdeval_board.rules import Division

_METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_@.-]{0,99}")
_CLASH = "metric."


@dataclass(frozen=True)
class BoardData:
    """A board, with values that several frames share."""

    board: Board
    entries: tuple[Entry, ...]
    standings: Mapping[str, Standing]
    metrics: Mapping[str, str]
    definitions: Mapping[str, Definition]

    def metrics_of(self, frame: Frame) -> dict[str, str]:
        """Return the metrics that have columns in a frame: name to first column. Figures that the
        board adds and scores are not by episode.
        """
        if frame == "cards":
            return dict(self.metrics)

        by_episode = set[str]()
        for entry in self.entries:
            if entry.is_trading:
                by_episode |= entry.trading.metrics.keys()

        names = by_episode - EXTRA.keys()
        return {name: column for name, column in self.metrics.items() if name in names}

    def units(self, frame: Frame) -> dict[str, str]:
        """Return first column of each metric of a frame -> its unit."""
        metrics = self.metrics_of(frame)
        return {column: self.definitions[name].unit for name, column in metrics.items()}


def read_board(path: Path | str, division: str | None = None) -> BoardData:
    """Read a board for its frames."""
    board = load_board(Path(path))
    chosen = None if division is None else board.rules.division(division)
    entries = tuple(
        entry
        for entry in board.entries
        if not entry.is_withdrawn and (chosen is None or entry.division == chosen)
    )
    standing_of = standings(board)
    definitions = _metric_definitions(entries, standing_of)

    return BoardData(board, entries, standing_of, _metric_columns(definitions), definitions)


def _metric_definitions(
    entries: Sequence[Entry], standing_of: Mapping[str, Standing]
) -> dict[str, Definition]:
    """Return the metrics that tasks ask for, as the best confirmed card defines them: a submitter
    can't add columns or change their meaning.
    """
    definitions: dict[str, Definition] = {}
    for entry in entries:
        for name in standing_of[entry.card_id].extra:
            definitions[name] = extra_definition(name)

    for entry in by_trust(entry for entry in entries if entry.division is not None):
        card = entry.card
        asked = card.task.config.get("metrics")
        if isinstance(card, ScoringCard):
            asked = card.score_order

        for name, figure in figures_of(card).items():
            is_asked = not isinstance(asked, list) or name in asked
            if is_asked and _METRIC_NAME.fullmatch(name):
                definitions.setdefault(name, figure)

    return dict(sorted(definitions.items()))


def _metric_columns(definitions: Mapping[str, Definition]) -> dict[str, str]:
    """Return the first column of each metric: its name, with a prefix if another column would have
    the same name.
    """
    taken = _column_names(columns_of("cards")) | _column_names(columns_of("episodes"))
    named: dict[str, str] = {}
    for name in definitions:
        column = name
        while taken & _column_names(metric_columns(column, "")):
            column = _CLASH + column

        taken |= _column_names(metric_columns(column, ""))
        named[name] = column

    return named


def _column_names(columns: Sequence[Column]) -> set[str]:
    return {column.name for column in columns}


Frame = Literal["cards", "episodes", "daily", "metrics", "imported"]
FRAMES: tuple[Frame, ...] = get_args(Frame)

Type = Literal["text", "texts", "flag", "count", "counts", "number", "day"]
"""Type of a column: a text, a list of texts, yes or no, an integer, a list of integers, a float, a
day. All but lists may be missing; a list is empty then.
"""

FRAME_SUMMARIES: dict[Frame, str] = {
    "cards": "one row for each card that was not withdrawn",
    "episodes": "one row for each finished episode: one window, one seed",
    "daily": (
        "one row for each trading day of each episode whose records the board has executed again"
    ),
    "metrics": "one row for each metric or score: what it means, and in which unit",
    "imported": "one row for each result of another harness; shown, never ranked",
}


@dataclass(frozen=True)
class Column:
    """A column of a frame."""

    name: str
    type: Type
    meaning: str
    unit: str = ""  #: unit of its figures; empty where there is none
    #: path of its value among the facts of a row, such as `card.task.name`; empty if the value is
    #: computed
    value: str = ""


def columns_of(frame: Frame, metrics: dict[str, str] | None = None) -> tuple[Column, ...]:
    """Return all columns of a frame, in order. `metrics`: unit by name, of those of the board."""
    columns = list(_FIXED[frame])
    if metrics is not None and frame in ("cards", "episodes"):
        for name, unit in metrics.items():
            columns += metric_columns(name, unit)

    return tuple(columns)


def metric_columns(name: str, unit: str) -> tuple[Column, ...]:
    """Return the columns of one metric."""
    return (
        Column(
            name,
            "number",
            f"{name}: the card's figure or the episode's; missing exactly where a reason says why",
            unit,
        ),
        Column(
            f"{name}_low", "number", "lower end of its interval; missing where there is none", unit
        ),
        Column(f"{name}_high", "number", "upper end of its interval", unit),
        Column(
            f"{name}_bounds",
            "text",
            "what low and high are: interquartile (quartiles over episodes), or how an interval was made",
        ),
        Column(
            f"{name}_n",
            "count",
            "what it rests on: episodes of a card, days or orders of an episode, samples",
            "count",
        ),
        Column(f"{name}_reason", "text", "why the figure is missing"),
    )


def _read_fixed_columns() -> dict[Frame, tuple[Column, ...]]:
    """Read the columns of each frame that do not depend on the cards' metrics."""
    columns: dict[Frame, list[Column]] = {frame: [] for frame in FRAMES}
    for row in csv_rows(Path(__file__).with_name("columns.csv")):
        column = Column(
            row["column"],
            row["type"],  # type: ignore[arg-type]  # a test holds the file to the types
            row["meaning"],
            row["unit"],
            row["value"],
        )
        for frame in FRAMES:
            if frame in row["frames"].split():
                columns[frame].append(column)

    return {frame: tuple(own) for frame, own in columns.items()}


_FIXED = _read_fixed_columns()


@dataclass(frozen=True)
class ExportReport:
    """Report of an export."""

    files: dict[str, int] = field(default_factory=dict)
    unit: str = "rows"
    excluded: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def exclude(self, reason: str) -> None:
        """Count a card that is excluded."""
        self.excluded[reason] = self.excluded.get(reason, 0) + 1

    def as_json(self) -> Mapping[str, JsonValue]:
        """Return the report as `--json` prints it."""
        return {"files": self.files, "left_out": self.excluded, "notes": self.notes}


def write_folder(out: Path, write: Callable[[Path], ExportReport]) -> ExportReport:
    """Make a new or empty folder with the files that `write` adds; after a failure nothing is left."""
    try:
        with replacing(out) as folder:
            return write(folder)
    except OSError as error:
        raise StoreError(
            f"{out}: can't write: {error.strerror or error}; free space or choose another folder"
        ) from error


def write_text(folder: Path, name: str, text: str) -> None:
    """Write a file below a folder; folders on the way are made."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


NO_DIVISION = "the board has no division for it"  #: Why a card has no rank, as `IS_BASELINE` is
IS_BASELINE = "a baseline: shown at its place, not ranked"

_NO_FIGURE = EpisodeMetric(value=None, n=0, reason=NO_DIVISION)


@dataclass(frozen=True)
class Standing:
    """Standing of a card."""

    rank: int | None  #: rank by the division's figure; None without one
    #: rank by selection_alpha; None where it has no rank or the figure is undefined
    alpha_rank: int | None
    why: tuple[str, ...]  #: why it has no rank; empty where it has one
    figure: EpisodeMetric = _NO_FIGURE  #: figure that the rank goes by
    #: the board's own figures by name, in the form of a metric on a card.
    extra: Mapping[str, EpisodeMetric] = field(default_factory=dict)

    @property
    def ranked(self) -> bool:
        """Whether it has a rank."""
        return self.rank is not None


def standings(board: Board) -> dict[str, Standing]:
    """Return the standing of each card that was not withdrawn, by card id."""
    standing_of = {}
    for entry in board.entries:
        if entry.division is None:
            standing_of[entry.card_id] = Standing(None, None, (NO_DIVISION,))

    for division in board.rules.divisions:
        if board.of_division(division):
            standing_of |= _of_division(board, division)

    return standing_of


def definition(card: Card, name: str) -> Definition:
    """Return the definition of a figure: unit, direction, formula, source."""
    own = figures_of(card).get(name)
    return own if own is not None else extra_definition(name)


def extra_definition(name: str) -> Definition:
    """Return the definition of one of the board's own figures, in the form of a card's metric."""
    own = EXTRA[name]
    return Definition(
        better=own.better,
        formula=own.formula,
        headline=own.headline,
        source=own.source,
        unit=own.unit,
        range=[None, None],
    )


def _of_division(board: Board, division: Division) -> dict[str, Standing]:
    def load(card_id: str) -> Series | None:
        path = board.folder.series(card_id)
        return read_own(path, Series) if path.is_file() else None

    ranked = ranked_cards(board, division, load)
    can_rank = direction(board, division, division.rank_by) != "neither"
    standing_of = {}

    for row, entry in enumerate(ranked.entries):
        why = list(ranked.why[row])
        ranks = (ranked.ranks[row], ranked.alpha_ranks[row])
        if not can_rank:
            why = [*why, f"of {division.rank_by} neither more nor less is better"]
            ranks = (None, None)

        if entry.baseline is not None:
            why = [IS_BASELINE]

        figure = _ranked_figure(ranked, row, division.rank_by)
        extra = {
            name: _ranked_figure(ranked, row, name) for name in EXTRA if name in ranked.columns
        }
        standing_of[entry.card_id] = Standing(*ranks, tuple(why), figure, extra)

    return standing_of


def _ranked_figure(ranked: RankedCards, row: int, name: str) -> EpisodeMetric:
    """Return a figure in the form of a metric on a card."""
    figures = ranked.figures
    column = ranked.columns.index(name)
    value = float(figures.value[row, column])
    n = int(figures.n[row, column])
    if math.isnan(value):
        return EpisodeMetric(value=None, n=n, reason=figures.reasons[row][name])

    kind = figures.kind[row][column]
    if kind is None:
        return EpisodeMetric(value=value, n=n)

    low = float(figures.low[row, column])
    high = float(figures.high[row, column])
    return EpisodeMetric(value=value, n=n, interval=Interval(kind=kind, low=low, high=high))
