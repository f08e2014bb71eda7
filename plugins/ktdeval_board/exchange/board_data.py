"""A board as every export reads it: its cards, where they stand, the columns of its frames; and what every export leaves."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from msgspec import UNSET

from ktdeval.cards import Definition, EpisodeMetric, Interval, ScoringCard
from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue, csv_rows
from ktdeval_board.documents import Series
from ktdeval_board.entries import Board, Card, Entry, figures_of, load_board
from ktdeval_board.placement import replacing
from ktdeval_board.ranking.describe import EXTRA, by_trust, direction
from ktdeval_board.ranking.table import Ranked, ranked_cards
from ktdeval_board.reading import read_own
from ktdeval_board.rules import Division

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
    chosen = None if division is None else board.rules.division(division)
    entries = tuple(entry for entry in board.entries if not entry.is_withdrawn and (chosen is None or entry.division == chosen))
    standing_of = standings(board)
    definitions = _definitions(entries, standing_of)
    return BoardData(board, entries, standing_of, _metric_columns(definitions), definitions)


def _definitions(entries: Sequence[Entry], standing_of: Mapping[str, Standing]) -> dict[str, Definition]:
    """Metrics that tasks ask for, as the most trusted card defines them: a submitter can't add columns or change their meaning."""
    extras = {name for entry in entries for name in standing_of[entry.card_id].extra}
    definitions: dict[str, Definition] = {name: extra_definition(name) for name in extras}
    for entry in by_trust(entry for entry in entries if entry.division is not None):
        card = entry.card
        asked = card.score_order if isinstance(card, ScoringCard) else card.task.config.get("metrics")
        for name, figure in figures_of(card).items():
            if _METRIC_NAME.fullmatch(name) and (not isinstance(asked, list) or name in asked):
                definitions.setdefault(name, figure)
    return dict(sorted(definitions.items()))


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


Frame = Literal["cards", "episodes", "daily", "metrics", "imported"]
FRAMES: tuple[Frame, ...] = get_args(Frame)

Type = Literal["text", "texts", "flag", "count", "counts", "number", "day"]
"""What a column holds: a text, a list of texts, yes or no, an integer, a list of integers, a float, a day. All but lists may be
missing; a list is empty then."""

FRAME_SUMMARIES: dict[Frame, str] = {
    "cards": "one row for each card that was not withdrawn",
    "episodes": "one row for each finished episode: one window, one seed",
    "daily": "one row for each trading day of each episode whose records the board has executed again",
    "metrics": "one row for each metric or score: what it means, and in which unit",
    "imported": "one row for each result of another harness; shown, never ranked",
}


@dataclass(frozen=True)
class Column:
    """A column of a frame."""

    name: str
    type: Type
    meaning: str
    unit: str = ""  #: of its figures; empty where it has none
    value: str = ""  #: where its value stands among the facts of a row, such as `card.task.name`; empty of what is made separately


def columns_of(frame: Frame, metrics: dict[str, str] | None = None) -> tuple[Column, ...]:
    """All columns of a frame, in order."""
    shown = (metrics or {}) if frame in ("cards", "episodes") else {}
    return (*_FIXED[frame], *(column for name, unit in shown.items() for column in metric_columns(name, unit)))


def metric_columns(name: str, unit: str) -> tuple[Column, ...]:
    """Return the columns of one metric."""
    return (
        Column(name, "number", f"{name}: the card's figure or the episode's; missing exactly where a reason says why", unit),
        Column(f"{name}_low", "number", "lower end of its interval; missing where there is none", unit),
        Column(f"{name}_high", "number", "upper end of its interval", unit),
        Column(f"{name}_interval", "text", "how the interval was made, such as interquartile (over episodes) or a bootstrap"),
        Column(f"{name}_n", "count", "what it rests on: episodes of a card, days or orders of an episode, samples", "count"),
        Column(f"{name}_reason", "text", "why the figure is missing"),
    )


def _fixed() -> dict[Frame, tuple[Column, ...]]:
    """Read the columns of each frame that do not depend on the cards' metrics."""
    parts = ("column", "type", "meaning", "unit", "value")
    rows = [(row["frames"].split(), [row[part] for part in parts]) for row in csv_rows(Path(__file__).with_name("columns.csv"))]
    return {frame: tuple(Column(*cells) for frames, cells in rows if frame in frames) for frame in FRAMES}  # type: ignore[arg-type]


_FIXED = _fixed()


@dataclass
class Exported:
    """Report of an export."""

    files: dict[str, int] = field(default_factory=dict)
    unit: str = "rows"
    left_out: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave_out(self, reason: str) -> None:
        """Count a card that is left out."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def as_json(self) -> Mapping[str, JsonValue]:
        """For `--json`."""
        return {"files": self.files, "left_out": self.left_out, "notes": self.notes}


def write_folder(out: Path, write: Callable[[Path], Exported]) -> Exported:
    """Make a new or empty folder with what `write` puts there; after a failure nothing is left."""
    try:
        with replacing(out) as folder:
            return write(folder)
    except OSError as error:
        raise StoreError(f"{out}: can't write: {error.strerror or error}; free space or choose another folder") from error


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
    """Where a card stands."""

    rank: int | None  #: rank by the division's figure; None without one
    alpha_rank: int | None  #: rank by selection_alpha; None where it has no rank or the figure is undefined
    why: tuple[str, ...]  #: why it has no rank; empty where it has one
    figure: EpisodeMetric = _NO_FIGURE  #: what the rank goes by
    #: the board's own figures by name, in the form of a metric on a card.
    extra: Mapping[str, EpisodeMetric] = field(default_factory=dict)

    @property
    def ranked(self) -> bool:
        """Whether it has a rank."""
        return self.rank is not None


def standings(board: Board) -> dict[str, Standing]:
    """Return where each card stands that was not withdrawn, by card id."""
    standing_of = {entry.card_id: Standing(None, None, (NO_DIVISION,)) for entry in board.entries if entry.division is None}
    for division in board.rules.divisions:
        if board.of_division(division):
            standing_of |= _of_division(board, division)
    return standing_of


def definition(card: Card, name: str) -> Definition:
    """Return what a figure is, by its name: unit, direction, formula, source."""
    own = figures_of(card).get(name)
    return own if own is not None else extra_definition(name)


def extra_definition(name: str) -> Definition:
    """Return what one of the board's own figures is, in the form of a metric on a card."""
    parts = {part: getattr(EXTRA[name], part) for part in ("better", "formula", "headline", "source", "unit")}
    return Definition(range=[None, None], **parts)


def _of_division(board: Board, division: Division) -> dict[str, Standing]:
    def load(card_id: str) -> Series | None:
        path = board.folder.series(card_id)
        return read_own(path, Series) if path.is_file() else None

    ranked = ranked_cards(board, division, load)
    can_rank = direction(board, division, division.rank_by) != "neither"
    standing_of = {}
    for row, entry in enumerate(ranked.entries):
        why, ranks = list(ranked.why[row]), (ranked.ranks[row], ranked.alpha_ranks[row])
        if not can_rank:
            why, ranks = [*why, f"of {division.rank_by} neither more nor less is better"], (None, None)
        figures = {name: _figure(ranked, row, name) for name in {division.rank_by, *EXTRA} if name in ranked.columns}
        extra = {name: figures[name] for name in EXTRA if name in figures}
        reasons = (IS_BASELINE,) if entry.baseline is not None else tuple(why)
        standing_of[entry.card_id] = Standing(*ranks, reasons, figures[division.rank_by], extra)
    return standing_of


def _figure(ranked: Ranked, row: int, name: str) -> EpisodeMetric:
    """Return a figure in the form of a metric on a card."""
    figures, column = ranked.figures, ranked.columns.index(name)
    value, low, high = (float(part[row, column]) for part in (figures.value, figures.low, figures.high))
    kind = figures.kind[row][column]
    n = int(figures.n[row, column])
    if math.isnan(value):
        return EpisodeMetric(value=None, n=n, reason=figures.reasons[row][name])
    return EpisodeMetric(value=value, n=n, interval=UNSET if kind is None else Interval(kind=kind, low=low, high=high))
