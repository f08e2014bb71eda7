"""A board's columns, described for readers who do not know the paper, together with ranks, reasons
why a card has no rank, and system labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.cards import (
    MetricLine,
    ScoreLine,
    ScoringCard,
    System,
    TradingCard,
    could_know_reasons,
    hides_something,
    system_labels as labels_of,
)
from ktdeval.stats import PANEL_FAMILIES
from ktdeval.values import JsonValue, Value, from_plain, load_yaml, to_plain
from ktdeval_board.allowed_packages import standing_reasons
from ktdeval_board.attempts import key_reasons
from ktdeval_board.board_entries import SUBMITTERS_PRICE, BoardEntry, LoadedBoard, figures_of
from ktdeval_board.document_types import TRUST
from ktdeval_board.ranking.daily_summaries import Vector
from ktdeval_board.reasons_of_a_board import reached_reasons
from ktdeval_board.rules import Division, OpenBook, Rules

ALPHA = "selection_alpha"  #: The metric that determines the α-rank
COST = "cost_usd"  #: The board column that depends on prices


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
    unit: str = ""  #: unit to show instead of the card's; empty to show the card's


class _Columns(Value, frozen=True, kw_only=True):
    board: dict[str, Definition]
    cards: dict[str, _Words]
    first: tuple[str, ...]
    default: tuple[str, ...]
    attribution: tuple[str, ...]


_COLUMNS = from_plain(load_yaml(Path(__file__).with_name("columns.yaml")), _Columns, "columns.yaml")

#: Columns computed by the board, in display order
EXTRA: Mapping[str, Definition] = _COLUMNS.board

_SCORING_EXTRA = ("decided", "cost_usd", "tokens")
_SCORING_DEFAULT = ("decided", "cost_usd")

_GROUPS = {name: family for family, names in PANEL_FAMILIES.items() for name in names}
_GROUPS |= dict.fromkeys(_COLUMNS.attribution, "attribution")


def by_trust(entries: Iterable[BoardEntry]) -> list[BoardEntry]:
    """Sort entries by tier, with the best confirmed tier first. Within a tier, complete runs
    precede limited ones.

    Descriptions of markets and metrics are taken from the first card, so that claims do not
    override the board's own findings.
    """

    def key(entry: BoardEntry) -> tuple[int, bool, str]:
        return TRUST.index(entry.tier), entry.card.limit is not None, entry.card_id

    return sorted(entries, key=key)


def division_kind(board: LoadedBoard, division: Division) -> str:
    """Return `trading` or `scoring`; `trading` for a division without cards."""
    entries = board.of_division(division)
    return entries[0].card.kind if entries else "trading"


def division_scopes(board: LoadedBoard, division: Division) -> list[str]:
    """Return the scopes of a division: `all` and each window. A scoring task has only `all`, since
    its scores pool all answers.
    """
    if division_kind(board, division) == "scoring":
        return ["all"]

    return division.scopes()


def division_columns(board: LoadedBoard, division: Division) -> list[str]:
    """Return the names of a division's columns in table order; empty without cards.

    The names come from the task's config. The division's hash pins that config, so a submitter
    can't add columns.
    """
    entries = by_trust(board.of_division(division))
    if not entries:
        return []

    card = entries[0].card
    if isinstance(card, ScoringCard):
        return [*card.score_order, *_SCORING_EXTRA]

    names = sorted(card.metrics)
    asked = card.task.config.get("metrics")
    if isinstance(asked, list):
        names = [str(name) for name in asked if str(name) in card.metrics]

    columns = [*names, *EXTRA]
    if division.rank_by not in columns and division.rank_by in card.metrics:
        columns.append(division.rank_by)

    first = [name for name in (division.rank_by, *_COLUMNS.first) if name in columns]
    return list(dict.fromkeys([*first, *columns]))


def default_columns(columns: Sequence[str], rank_by: str) -> list[str]:
    """Return the columns shown by default: a selection of metrics for a trading task, or the first
    four scores for a scoring task.
    """
    if not columns:
        return []
    if "total_return" in columns:
        return [name for name in columns if name == rank_by or name in _COLUMNS.default]

    scores = [name for name in columns if name not in EXTRA][:4]
    if rank_by in columns:
        scores.insert(0, rank_by)

    return list(dict.fromkeys([*scores, *_SCORING_DEFAULT]))


def describe_metrics(board: LoadedBoard) -> dict[str, JsonValue]:
    """Return the definitions of all columns in the board's divisions, keyed by name."""
    definitions: dict[str, Definition] = {}
    for division in board.rules.divisions:
        own = column_definitions(board, division)
        for name in division_columns(board, division):
            definitions.setdefault(name, own[name])

    return {name: to_plain(definitions[name]) for name in sorted(definitions)}


def direction(board: LoadedBoard, division: Division, column: str) -> str:
    """Return the direction of a division's column: `higher` or `lower` if such values are better,
    or `neutral`.
    """
    definitions = column_definitions(board, division)
    return definitions[column].better if column in definitions else "neither"


def column_definitions(board: LoadedBoard, division: Division) -> dict[str, Definition]:
    """Return the definitions of the board's own columns and of the columns in the best confirmed
    card.
    """
    definitions = dict(EXTRA)
    for entry in by_trust(board.of_division(division))[:1]:
        for name, figure in figures_of(entry.card).items():
            definitions[name] = _definition(name, figure, entry.is_trading)

    return definitions


def _definition(name: str, figure: MetricLine | ScoreLine, is_metric: bool) -> Definition:
    title = name.replace("_", " ").capitalize()
    unit = figure.unit
    description = figure.formula
    words = _COLUMNS.cards.get(name)
    if words is not None:
        title = words.title
        unit = words.unit or unit
        description = words.description

    return Definition(
        title=title,
        unit=unit,
        better=figure.better,
        group=_GROUPS.get(name, "diagnostics") if is_metric else "scores",
        headline=figure.headline,
        formula=figure.formula,
        source=figure.source,
        description=description,
    )


HUMAN = "human"  #: Label of a card whose decisions were made by a person


def why_unranked(entry: BoardEntry, board: LoadedBoard, division: Division) -> list[str]:
    """Return why a listed card has no rank in any scope; empty if it can be ranked."""
    reasons = [*_reasons(entry, board.rules, division), *key_reasons(board, entry, division)]
    return list(dict.fromkeys(reasons))


def _reasons(entry: BoardEntry, rules: Rules, division: Division) -> Iterator[str]:
    card = entry.card
    if entry.tier == "unchecked":
        yield "not checked yet: the board has no verdict on it"

    yield from _card_reasons(entry, rules, division)

    if "placebo" in card.labels:
        yield "the market is a placebo, in which selection is impossible"

    if card.snapshot is not None and card.snapshot.synthetic != (rules.market == "synthetic"):
        of = "synthetic" if card.snapshot.synthetic else "real"
        yield f"the market is {of}, but this board is for {rules.market} markets"

    if division.rank_by == COST and entry.has_submitters_price:
        yield (
            f"its cost uses a {SUBMITTERS_PRICE}: the board lists no price for {entry.model} "
            "(prices in board.yaml) and ranks only by its own prices"
        )

    if HUMAN in card.labels and division.people == "listed":
        yield "a person decided, but this division ranks only models (people in board.yaml)"

    if division.certificate == "required":
        yield from _certificate_reasons(entry, division)

    for erratum in entry.errata:
        if erratum.effect != "note":
            yield f"erratum of {erratum.date}: {erratum.what}"


def _card_reasons(entry: BoardEntry, rules: Rules, division: Division) -> Iterator[str]:
    """Yield the card's own reasons, and those that follow from who decided. The latter do not count
    in a division open book, nor for a program that the board had registered before the windows.
    """
    card = entry.card
    known = could_know_reasons(card)
    standing = standing_reasons(card, rules.packages)
    if not card.rankable.value and not card.rankable.reasons:
        yield "the card says that it may not be ranked"

    reached = reached_reasons(entry, division)
    if isinstance(division, OpenBook) or entry.registered_before is not None:
        yield from (reason for reason in standing if reason not in (*known, *reached))
        return

    yield from (reason for reason in (*standing, *known) if reason not in reached)
    is_untold = entry.tier == "self-reported" and entry.baseline is None and not card.deciders
    if hides_something(card) and is_untold:
        yield (
            "its card does not say who decided, and its records are not here to show it; score the"
            " run again"
        )


def _certificate_reasons(entry: BoardEntry, division: Division) -> Iterator[str]:
    """Yield why a mask's certificate does not suffice for a division that requires one."""
    card = entry.card
    if "mask not certified" in entry.labels or "certificate claimed" in entry.labels:
        yield "the division requires a certificate of the mask that the board has verified"
    elif isinstance(card, TradingCard) and card.certificate.value is not None:
        problem = division.attacker_problem(card.certificate.value)
        if problem is not None:
            yield problem


def undefined_reason(column: str, n: int, planned: int, reason: str | None) -> str | None:
    """Return why a figure can't be ranked in a scope; None if it can be ranked.

    A median over some windows can't be compared with a median over all of them. If it could, a
    system could choose which windows count by having no figure in the others.
    """
    if reason is not None:
        return f"{column} is not defined: {reason}"
    if n < planned:
        return f"{column} is defined in {n} of {planned} episodes only"

    return None


def competition_ranks(
    values: Vector, better: str, eligible: npt.NDArray[np.bool_]
) -> list[int | None]:
    """Return the competition ranks (1, 2, 2, 4) of the eligible values: one plus the number of
    eligible values that are strictly better. All other values get None.
    """
    keys = -values if better == "higher" else values
    ordered = np.sort(keys[eligible])
    ranks = (np.searchsorted(ordered, keys, side="left") + 1).astype(object)
    ranks[~eligible] = None
    listed: list[int | None] = ranks.tolist()

    return listed


def system_labels(board: LoadedBoard) -> dict[str, str]:
    """Return the label of each card's system on this board, keyed by card id. A label is the
    model's name, plus whatever distinguishes the system from others with the same model.

    All cards of a system have the same label in every division. If cards in the same division would
    still share a label, the beginning of the card id is added.
    """
    named = labels_of(System.of(entry.card) for entry in board.entries)
    labels = {entry.card_id: named[System.of(entry.card)] for entry in board.entries}
    return _distinct(board.entries, labels)


def _distinct(entries: Sequence[BoardEntry], labels: dict[str, str]) -> dict[str, str]:
    """Add the beginning of the card id to each label that is shared with another card in the same
    division. Withdrawn cards are ignored.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        if not entry.is_withdrawn:
            counts[_scope_of(entry, labels)] += 1

    distinct = dict(labels)
    for entry in entries:
        own = 0 if entry.is_withdrawn else 1
        if counts[_scope_of(entry, labels)] > own:
            distinct[entry.card_id] += f" #{entry.card_id[:8]}"

    return distinct


def _scope_of(entry: BoardEntry, labels: dict[str, str]) -> tuple[str, str]:
    return (entry.division.id if entry.division else "", labels[entry.card_id])
