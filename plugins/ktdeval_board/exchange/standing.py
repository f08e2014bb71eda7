"""Ranks over all windows, and the figures that the board adds to a card's own: as the site shows them, without its tie groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import UNSET

from ktdeval.cards import Definition, EpisodeMetric, Interval
from ktdeval_board.derived import Series
from ktdeval_board.entries import Board, Card, figures_of
from ktdeval_board.ranking.describe import EXTRA, direction
from ktdeval_board.ranking.table import Ranked, ranked_cards
from ktdeval_board.reading import read_own
from ktdeval_board.rules import Division

NO_DIVISION = "the board has no division for it"
IS_BASELINE = "a baseline: shown at its place, not ranked"
"""Why these have no rank."""

_NO_FIGURE = EpisodeMetric(value=None, n=0, reason=NO_DIVISION)


@dataclass(frozen=True)
class Standing:
    """Where a card stands."""

    rank: int | None  #: place by the division's figure; None without one
    alpha_rank: int | None  #: place by selection_alpha; None where it has no rank or the figure is undefined
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
    found = {entry.card_id: Standing(None, None, (NO_DIVISION,)) for entry in board.entries if entry.division is None}
    for division in board.rules.divisions:
        if board.of_division(division):
            found |= _of_division(board, division)
    return found


def definition(card: Card, name: str) -> Definition:
    """Return what a figure is, by its name: unit, direction, formula, source."""
    own = figures_of(card).get(name)
    return own if own is not None else extra_definition(name)


def extra_definition(name: str) -> Definition:
    """Return what one of the board's own figures is, in the form of a metric on a card."""
    extra = EXTRA[name]
    return Definition(
        better=extra.better,
        formula=extra.formula,
        headline=extra.headline,
        range=[None, None],
        source=extra.source,
        unit=extra.unit,
    )


def _of_division(board: Board, division: Division) -> dict[str, Standing]:
    def load(card_id: str) -> Series | None:
        path = board.folder.series(card_id)
        return read_own(path, Series) if path.is_file() else None

    ranked = ranked_cards(board, division, load)
    can_rank = direction(board, division, division.rank_by) != "neither"
    found = {}
    for row, entry in enumerate(ranked.entries):
        why, ranks = list(ranked.why[row]), (ranked.ranks[row], ranked.alpha_ranks[row])
        if not can_rank:
            why, ranks = [*why, f"of {division.rank_by} neither more nor less is better"], (None, None)
        figures = {name: _figure(ranked, row, name) for name in {division.rank_by, *EXTRA} if name in ranked.columns}
        extra = {name: figures[name] for name in EXTRA if name in figures}
        said = (IS_BASELINE,) if entry.baseline is not None else tuple(why)
        found[entry.card_id] = Standing(*ranks, said, figures[division.rank_by], extra)
    return found


def _figure(ranked: Ranked, row: int, name: str) -> EpisodeMetric:
    """Return a figure in the form of a metric on a card."""
    figures, place = ranked.figures, ranked.columns.index(name)
    value, low, high = (float(part[row, place]) for part in (figures.value, figures.low, figures.high))
    kind = figures.kind[row][place]
    n = int(figures.n[row, place])
    if math.isnan(value):
        return EpisodeMetric(value=None, n=n, reason=figures.reasons[row][name])
    return EpisodeMetric(value=value, n=n, interval=UNSET if kind is None else Interval(kind=kind, low=low, high=high))
