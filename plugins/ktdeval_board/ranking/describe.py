"""Columns of a board, for readers who have not read the paper; who may be ranked, ranks, and the labels of systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ktdeval.cards import MetricLine, ScoreLine, ScoringCard, System, system_labels as labels_of
from ktdeval.jsonio import JsonValue
from ktdeval.stats import PANEL_FAMILIES
from ktdeval.typed import Value, from_plain, to_plain
from ktdeval.yamlio import load_yaml
from ktdeval_board.attempts import key_reasons
from ktdeval_board.entries import Board, Entry, figures_of
from ktdeval_board.ranking.daily import Vector
from ktdeval_board.rules import Division, Rules

ALPHA = "selection_alpha"  #: The metric that the α-rank goes by


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
    unit: str = ""  #: in the place of the card's; empty where that says enough


class _Columns(Value, frozen=True, kw_only=True):
    board: dict[str, Definition]
    cards: dict[str, _Words]
    first: tuple[str, ...]
    default: tuple[str, ...]
    attribution: tuple[str, ...]


_COLUMNS = from_plain(load_yaml(Path(__file__).with_name("columns.yaml")), _Columns, "columns.yaml")

EXTRA: Mapping[str, Definition] = _COLUMNS.board  #: Columns made by the board, in the order in which they are shown

_SCORING_EXTRA = ("decided", "cost_usd", "tokens")
_SCORING_DEFAULT = ("decided", "cost_usd")

_GROUPS = {name: family for family, names in PANEL_FAMILIES.items() for name in names}
_GROUPS |= dict.fromkeys(_COLUMNS.attribution, "attribution")

TRUST = ("re-run", "re-executed", "self-reported", "unchecked")  #: Tiers, the best confirmed first


def by_trust(entries: Iterable[Entry]) -> list[Entry]:
    """Entries whose figures are confirmed best first, of these whole runs before limited ones.

    What cards say of the market and of metrics is taken from the first, so that no claim weighs more than the board's own finding.
    """
    return sorted(entries, key=lambda entry: (TRUST.index(entry.tier), entry.card.limit is not None, entry.card_id))


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
    first = [name for name in dict.fromkeys((division.rank_by, *_COLUMNS.first)) if name in known]
    return [*first, *(name for name in known if name not in first)]


def default_columns(columns: Sequence[str], rank_by: str) -> list[str]:
    """Return the columns that a reader sees unasked: a choice of a trading task's, the first four scores of a scoring task."""
    if "total_return" in columns:
        return [name for name in columns if name == rank_by or name in _COLUMNS.default]
    scores = [name for name in columns if name not in EXTRA]
    return list(dict.fromkeys([*([rank_by] if rank_by in columns else ()), *scores[:4], *(_SCORING_DEFAULT if columns else ())]))


def describe_metrics(board: Board) -> dict[str, JsonValue]:
    """Return what each column of the board's divisions is, as plain `Definition`s by name."""
    definitions: dict[str, Definition] = {}
    for division in board.rules.divisions:
        own = _definitions(board, division)
        for name in division_columns(board, division):
            definitions.setdefault(name, own[name])
    return {name: to_plain(definitions[name]) for name in sorted(definitions)}


def direction(board: Board, division: Division, column: str) -> str:
    """Return whether `higher`, `lower` or `neither` is better in a column of the division."""
    definitions = _definitions(board, division)
    return definitions[column].better if column in definitions else "neither"


def _definitions(board: Board, division: Division) -> dict[str, Definition]:
    """Return the board's own columns, and those of the card that is confirmed best."""
    definitions = dict(EXTRA)
    for entry in by_trust(board.of_division(division))[:1]:
        definitions |= {name: _definition(name, figure, entry.is_trading) for name, figure in figures_of(entry.card).items()}
    return definitions


def _definition(name: str, figure: MetricLine | ScoreLine, is_metric: bool) -> Definition:
    words = _COLUMNS.cards.get(name)
    return Definition(
        title=words.title if words else name.replace("_", " ").capitalize(),
        unit=(words and words.unit) or figure.unit,
        better=figure.better,
        group=_GROUPS.get(name, "diagnostics") if is_metric else "scores",
        headline=figure.headline,
        formula=figure.formula,
        source=figure.source,
        description=words.description if words else figure.formula,
    )


def why_unranked(entry: Entry, board: Board, division: Division) -> list[str]:
    """Return why a card has no rank in any scope; empty where it may have one. It is listed all the same."""
    return list(dict.fromkeys((*_reasons(entry, board.rules, division), *key_reasons(board, entry, division))))


def _reasons(entry: Entry, rules: Rules, division: Division) -> Iterator[str]:
    card = entry.card
    if entry.tier == "unchecked":
        yield "not checked yet: the board has no verdict on it"
    if not card.rankable.value:
        yield from card.rankable.reasons or ["the card says that it may not be ranked"]
    if "placebo" in card.labels:
        yield "the market is a placebo, on which there is nothing to select"
    if card.snapshot is not None and card.snapshot.synthetic != (rules.market == "synthetic"):
        of = "synthetic" if card.snapshot.synthetic else "real"
        yield f"the market is {of}, and this board is of {rules.market} markets"
    if division.certificate == "required" and not {"mask not certified", "certificate claimed"}.isdisjoint(entry.labels):
        yield "the division asks for a certificate of the mask that the board has verified"
    elif division.certificate == "required" and (problem := _attacker_problem(card, division)):
        yield problem
    for erratum in entry.errata:
        if erratum.effect != "note":
            yield f"erratum of {erratum.date}: {erratum.what}"


def _attacker_problem(card: Any, division: Division) -> str | None:
    """Return why the certificate of a trading card with a mask does not count; None where it does, or where none is needed."""
    certificate = getattr(card, "certificate", None)
    return None if certificate is None or certificate.value is None else division.attacker_problem(certificate.value)


def undefined_reason(column: str, n: int, planned: int, reason: str | None) -> str | None:
    """Return why a figure can't be ranked in a scope; None where it can.

    A median over some of the windows is not comparable with one over all of them: who could leave out a window by having no figure
    there would choose which windows count.
    """
    if reason is not None:
        return f"{column} is not defined: {reason}"
    return f"{column} is defined in {n} of {planned} episodes only" if n < planned else None


def competition_ranks(values: Vector, better: str, eligible: npt.NDArray[np.bool_]) -> list[int | None]:
    """Ranks 1, 2, 2, 4 among the eligible: one more than how many of them are strictly better."""
    keys = -values if better == "higher" else values
    ordered = np.sort(keys[eligible])
    ranks = np.searchsorted(ordered, keys, side="left") + 1
    return [int(rank) if takes_part else None for rank, takes_part in zip(ranks, eligible, strict=True)]


def system_labels(board: Board) -> dict[str, str]:
    """Card id -> what its system is called on this board: the model's name, with all that tells it from others of that model.

    Cards of one system have one label in all divisions; where cards of one division would share it still, the beginning of the
    card's id is added.
    """
    named = labels_of(System.of(entry.card) for entry in board.entries)
    labels = {entry.card_id: named[System.of(entry.card)] for entry in board.entries}
    return _distinct(board.entries, labels)


def _distinct(entries: Sequence[Entry], labels: dict[str, str]) -> dict[str, str]:
    """Add the beginning of the card's id to a label that several cards of a division share; only a withdrawn one gives way."""
    standing: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        standing[_scope_of(entry, labels)] += not entry.is_withdrawn
    shared = {entry.card_id for entry in entries if standing[_scope_of(entry, labels)] > (not entry.is_withdrawn)}
    return {card_id: f"{label} #{card_id[:8]}" if card_id in shared else label for card_id, label in labels.items()}


def _scope_of(entry: Entry, labels: dict[str, str]) -> tuple[str, str]:
    return (entry.division.id if entry.division else "", labels[entry.card_id])
