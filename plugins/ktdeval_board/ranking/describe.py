"""Columns of a board: names and meanings, for readers who have not read the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ktdeval.cards import MetricLine, ScoreLine, ScoringCard
from ktdeval.jsonio import JsonValue
from ktdeval.stats import PANEL_FAMILIES
from ktdeval.typed import Value, from_plain, to_plain
from ktdeval.yamlio import load_yaml
from ktdeval_board.entries import Board, Entry, figures_of
from ktdeval_board.rules import Division

ALPHA = "selection_alpha"
"""The metric that the α-rank goes by."""


class Definition(Value, frozen=True, kw_only=True):
    """Column of a table."""

    title: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    group: str
    headline: bool
    formula: str
    source: str
    description: str


class _Words(Value, frozen=True, kw_only=True):
    title: str
    description: str


class _Columns(Value, frozen=True, kw_only=True):
    board: dict[str, Definition]
    cards: dict[str, _Words]


_COLUMNS = from_plain(load_yaml(Path(__file__).with_name("columns.yaml")), _Columns, "columns.yaml")

EXTRA: Mapping[str, Definition] = _COLUMNS.board
"""Columns made by the board, in the order in which they are shown."""

_SCORING_EXTRA = ("decided", "cost_usd", "tokens")
_SCORING_DEFAULT = ("decided", "cost_usd")

_FIRST = ("total_return", "excess", ALPHA, "sharpe", "max_drawdown", "information_ratio", "vs_random", "gross_return")
_DEFAULT = ("total_return", "excess", ALPHA, "sharpe", "max_drawdown", "vs_random", "turnover", "ece", "cost_usd")

_ATTRIBUTION = ("common_return", "style_return", ALPHA, "trading_effect")
_GROUPS = {name: family for family, names in PANEL_FAMILIES.items() for name in names} | dict.fromkeys(_ATTRIBUTION, "attribution")

_TRUST = ("re-run", "re-executed", "self-reported", "unchecked")


def by_trust(entries: Iterable[Entry]) -> list[Entry]:
    """Entries whose figures are confirmed best first, of these whole runs before limited ones.

    What cards say of the market and of metrics is taken from the first, so that no claim weighs more than the board's own finding.
    """
    return sorted(entries, key=lambda entry: (_TRUST.index(entry.tier), entry.card.limit is not None, entry.card_id))


def division_kind(board: Board, division: Division) -> str:
    """`trading` or `scoring`; a division without cards counts as trading."""
    return next((entry.card.kind for entry in board.of_division(division)), "trading")


def division_scopes(board: Board, division: Division) -> list[str]:
    """`all` and each window; scores of a scoring task are made of all answers together, so such a division has `all` alone."""
    return ["all"] if division_kind(board, division) == "scoring" else ["all", *division.window_names()]


def division_columns(board: Board, division: Division) -> list[str]:
    """Names of a division's columns, in the order in which they are shown; none without cards.

    The names are those of the task's config, which the division's hash pins: a submitter can't add columns.
    """
    entries = by_trust(board.of_division(division))
    if not entries:
        return []
    card = entries[0].card
    if isinstance(card, ScoringCard):
        return [*card.score_order, *_SCORING_EXTRA]
    asked = card.task.config.get("metrics")
    names = [str(name) for name in asked] if isinstance(asked, list) else sorted(card.metrics)
    known = [*(name for name in names if name in card.metrics), *EXTRA]
    if division.rank_by not in known and division.rank_by in card.metrics:
        known.append(division.rank_by)
    first = [name for name in dict.fromkeys((division.rank_by, *_FIRST)) if name in known]
    return [*first, *(name for name in known if name not in first)]


def default_columns(columns: Sequence[str], rank_by: str) -> list[str]:
    """Return the columns that a reader sees unasked: a choice of a trading task's, the first four scores of a scoring task."""
    if "total_return" in columns:
        return [name for name in columns if name == rank_by or name in _DEFAULT]
    scores = [name for name in columns if name not in EXTRA]
    return list(
        dict.fromkeys([*(name for name in columns if name == rank_by), *scores[:4], *(_SCORING_DEFAULT if columns else ())])
    )


def describe_metrics(board: Board) -> dict[str, JsonValue]:
    """Return what each column of the board's divisions is, as plain `Definition`s by name."""
    found: dict[str, Definition] = {}
    for division in board.rules.divisions:
        given = _definitions(board, division)
        for name in division_columns(board, division):
            found.setdefault(name, given[name])
    return {name: to_plain(found[name]) for name in sorted(found)}


def direction(board: Board, division: Division, column: str) -> str:
    """Return whether `higher`, `lower` or `neither` is better in a column of the division."""
    given = _definitions(board, division)
    return given[column].better if column in given else "neither"


def _definitions(board: Board, division: Division) -> dict[str, Definition]:
    """Return the board's own columns, and those of the card that is confirmed best."""
    found = dict(EXTRA)
    for entry in by_trust(board.of_division(division))[:1]:
        found |= {name: _definition(name, figure, entry.is_trading) for name, figure in figures_of(entry.card).items()}
    return found


def _definition(name: str, figure: MetricLine | ScoreLine, is_metric: bool) -> Definition:
    words = _COLUMNS.cards.get(name)
    return Definition(
        title=words.title if words else name.replace("_", " ").capitalize(),
        unit=figure.unit,
        better=figure.better,
        group=_GROUPS.get(name, "diagnostics") if is_metric else "scores",
        headline=figure.headline,
        formula=figure.formula,
        source=figure.source,
        description=words.description if words else figure.formula,
    )
