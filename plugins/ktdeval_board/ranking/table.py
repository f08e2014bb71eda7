"""Tables of a division: every card with its figures, ranks and tie groups, beside benchmark, baselines and random traders.

Tie groups go by mean daily returns and ranks by the median over episodes, so a group need not be a run of ranks: it says that daily
returns do not tell its members from the best of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval.errors import CardError, ConfigError
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue
from ktdeval.stats import Ties, tie_groups
from ktdeval_board.entries import Board, Entry, settings_of
from ktdeval_board.ranking.daily import Cell, Daily, LoadSeries, SeriesFacts, facts_of, mean_by_day, same_days
from ktdeval_board.ranking.describe import (
    ALPHA,
    competition_ranks,
    direction,
    division_columns,
    division_kind,
    division_scopes,
    system_labels,
    undefined_reason,
    why_unranked,
)
from ktdeval_board.ranking.figures import Figures, Samples, benchmark_of, collect, nullable, score_figures, stacked
from ktdeval_board.ranking.references import reference_rows
from ktdeval_board.rules import Division

Row = dict[str, JsonValue]


def rank_division(board: Board, division: Division, load_series: LoadSeries) -> dict[str, JsonValue]:
    """Return the tables of a division.

    Returns scope (`all`, and each window of a trading task) -> table: columns, rows in the order in which they stand, ties, notes.
    """
    work = _Work(board, division)
    if not work.entries:
        return {scope: _empty(work, scope) for scope in division_scopes(board, division)}
    work.check_rank_by()
    facts = work.collect(load_series)
    return {scope: _table(work, scope, facts) for scope in work.scopes}


@dataclass(frozen=True)
class Ranked:
    """Cards of a division over all windows, without their tie groups."""

    entries: Sequence[Entry]
    columns: Sequence[str]
    figures: Figures
    why: Sequence[Sequence[str]]
    ranks: Ranks
    alpha_ranks: Ranks


def ranked_cards(board: Board, division: Division, load_series: LoadSeries) -> Ranked:
    """Rank the cards of a division that has some over all windows; arguments and errors as of `rank_division`."""
    work = _Work(board, division)
    work.columns += [name for name in (division.rank_by, ALPHA) if name not in work.columns]
    work.collect(load_series)
    figures = work.figures("all")
    why = [_why(work, figures, row) for row in range(len(work.entries))]
    return Ranked(work.entries, work.columns, figures, why, *_ranks(work, figures, why))


def missing_baselines(board: Board, division: Division) -> list[str]:
    """Baselines of the board's rules that have no card in a division of a trading task; none where nobody was submitted."""
    entries = board.of_division(division)
    if division_kind(board, division) == "scoring" or all(entry.baseline for entry in entries):
        return []
    there = {entry.model for entry in entries}
    return [baseline.model for baseline in board.rules.baselines if baseline.model not in there]


def require_baselines(board: Board) -> None:
    """Refuse to publish a board that does not show its baselines."""
    for division in board.rules.divisions:
        if missing := missing_baselines(board, division):
            raise CardError(f"{board.folder.path}: division {division.id}: {_missing_note(missing, division)}")


def _missing_note(missing: Sequence[str], division: Division) -> str:
    return (
        f"baselines are missing ({', '.join(missing)}); a board always shows them: "
        f"run `ktdeval leaderboard baselines . --division {division.id}`"
    )


@dataclass
class _Work:
    """Things that all tables of a division share."""

    board: Board
    division: Division
    samples: Sequence[Samples] = ()

    def __post_init__(self) -> None:
        self.entries = self.board.of_division(self.division)
        self.columns: list[str] = division_columns(self.board, self.division)
        self.kind = division_kind(self.board, self.division)
        self.scopes = division_scopes(self.board, self.division)
        self.better = direction(self.board, self.division, self.division.rank_by)
        self.benchmark = {} if self.kind == "scoring" else benchmark_of(self.entries)
        labels = system_labels(self.board)
        self.why = {entry.card_id: why_unranked(entry, self.board.rules, self.division) for entry in self.entries}
        self.fixed = {entry.card_id: _fixed(entry, labels[entry.card_id]) for entry in self.entries}
        self.missing = missing_baselines(self.board, self.division)

    def windows_of(self, scope: str) -> list[str]:
        """Names of the windows of a scope."""
        return self.division.window_names() if scope == "all" else [scope]

    def collect(self, load_series: LoadSeries) -> Mapping[str, SeriesFacts | None]:
        """Collect the figures by episode; return what is known of the cards' daily series."""
        facts: dict[str, SeriesFacts | None] = {}
        for entry in self.entries:
            series = load_series(entry.card_id)
            if series is not None and series.card != entry.card_id:
                raise CardError(f"series of card {entry.card_id}: of another card; run `ktdeval leaderboard check --all`")
            facts[entry.card_id] = None if series is None else facts_of(series)
        if self.kind == "trading":
            self.samples = collect(self.entries, self.columns, self.benchmark, facts.get)
            self.entries = [entry for group in self.samples for entry in group.entries]
        return facts

    def figures(self, scope: str) -> Figures:
        """Return the figures over a scope."""
        if self.kind == "scoring":
            return score_figures(self.entries, self.columns)
        return stacked([group.over(self.windows_of(scope)) for group in self.samples])

    def check_rank_by(self) -> None:
        """Whether a rank can go by what the rules say."""
        name = self.division.rank_by
        where = f"{self.board.folder.path}: board.yaml: divisions: {self.division.id}: rank_by"
        if name not in self.columns:
            raise ConfigError(f"{where}: {name!r} is no figure of its cards{near_matches(name, self.columns)}")
        if self.better == "neither":
            raise ConfigError(f"{where}: of {name} neither more nor less is better; name another figure")


def _fixed(entry: Entry, label: str) -> Row:
    """Return what a row says in every scope."""
    card, submission = entry.card, entry.submission
    return {
        "card": entry.card_id,
        "model": entry.model,
        "agent": entry.agent,
        "label": label,
        "strategy": submission.agent.strategy,
        "baseline": entry.baseline_kind,
        "tier": entry.tier,
        "labels": list(card.labels),
        "attempts": submission.attempts.runs,
        "cutoff": submission.model.cutoff_date,
        "submitter": submission.submitter.name,
        "submitted_on": submission.submitted_on,
        "settings": settings_of(card),
    }


def _table(work: _Work, scope: str, facts: Mapping[str, SeriesFacts | None]) -> JsonValue:
    figures = work.figures(scope)
    why = [_why(work, figures, row) for row in range(len(work.entries))]
    standing = _stand(work, scope, figures, why, facts)
    rows = _rows(work, figures, why, standing)
    rows += reference_rows(work.columns, work.windows_of(scope), work.benchmark, work.entries, work.samples)
    place = work.columns.index(work.division.rank_by)
    sign = -1.0 if work.better == "higher" else 1.0
    exact = dict(zip((entry.card_id for entry in work.entries), figures.value[:, place].tolist(), strict=True))

    def order(row: Row) -> tuple[bool, float, str, str]:
        value = exact.get(row["card"] or "", row["values"][place])
        undefined = value is None or math.isnan(value)
        stands = not undefined and (row["ranked"] or (row["baseline"] is not None and not row["why"]))
        return not stands, math.inf if undefined else sign * value, row["label"], row["card"] or ""

    rows.sort(key=order)
    return {
        **_frame(work, scope),
        "rows": rows,
        "notes": [*standing.notes, *_notes(work, why)],
        "ties": {"return": standing.ties, "alpha": standing.alpha_ties},
    }


def _frame(work: _Work, scope: str) -> Row:
    return {
        "division": work.division.id,
        "scope": scope,
        "rank_by": work.division.rank_by,
        "columns": work.columns,
        "missing_baselines": work.missing,
    }


def _empty(work: _Work, scope: str) -> JsonValue:
    none = {"groups": 0, "tested": 0, "days": 0, "p": {}, "reason": "nobody was submitted"}
    return {**_frame(work, scope), "rows": [], "notes": [], "ties": {"return": none, "alpha": dict(none)}}


def _why(work: _Work, figures: Figures, row: int) -> list[str]:
    name = work.division.rank_by
    place = work.columns.index(name)
    n = int(figures.planned[row]) if name == "decided" else int(figures.n[row, place])  # counts steps, not episodes
    found = undefined_reason(name, n, int(figures.planned[row]), figures.reasons[row].get(name))
    why = work.why[work.entries[row].card_id]
    return why if found is None else [*why, found]


def _ranks(work: _Work, figures: Figures, why: Sequence[Sequence[str]]) -> tuple[Ranks, Ranks]:
    """Return the ranks of entrants by the division's figure and by selection alpha."""
    ranked = np.array([not reasons and entry.baseline is None for reasons, entry in zip(why, work.entries, strict=True)])
    place = work.columns.index(work.division.rank_by)
    ranks = competition_ranks(figures.value[:, place], work.better, ranked)
    if work.kind == "scoring" or ALPHA not in work.columns:
        return ranks, [None] * len(work.entries)
    alpha = work.columns.index(ALPHA)
    return ranks, competition_ranks(figures.value[:, alpha], "higher", ranked & (figures.n[:, alpha] >= figures.planned))


def _stand(
    work: _Work, scope: str, figures: Figures, why: Sequence[Sequence[str]], facts: Mapping[str, SeriesFacts | None]
) -> Standing:
    cells = [(window, seed) for window in work.windows_of(scope) for seed in work.division.seeds]
    test = TieTest(work.entries, cells, facts, work.board.rules.tie_level)
    return stand(work.division, work.kind, _ranks(work, figures, why), test)


def _rows(work: _Work, figures: Figures, why: Sequence[list[str]], standing: Standing) -> list[Row]:
    value, low, high = (nullable(part) for part in (figures.value, figures.low, figures.high))
    n = figures.n.tolist()
    return [
        {
            **work.fixed[entry.card_id],
            "ranked": standing.ranks[row] is not None,
            "why": why[row],
            "rank": standing.ranks[row],
            "alpha_rank": standing.alpha_ranks[row],
            "tie": standing.groups.get(entry.card_id),
            "alpha_tie": standing.alpha_groups.get(entry.card_id),
            "values": value[row],
            "low": low[row],
            "high": high[row],
            "interval": figures.kind[row],
            "n": n[row],
            "reasons": figures.reasons[row],
        }
        for row, entry in enumerate(work.entries)
    ]


def _notes(work: _Work, why: Sequence[Sequence[str]]) -> Iterator[str]:
    if work.missing:
        yield _missing_note(work.missing, work.division)
    entrants = [bool(reasons) for reasons, entry in zip(why, work.entries, strict=True) if entry.baseline is None]
    if any(entrants):
        yield f"{sum(entrants)} of {len(entrants)} entrants are not ranked; their rows say why"


Ranks = Sequence[int | None]

MOST_TESTED = 40
"""Entrants that take part, the best by rank: time and memory grow with the square of their number."""


@dataclass(frozen=True)
class Standing:
    """Ranks and tie groups of one table."""

    ranks: Ranks  #: of each entry; None where it has none (ranks, alpha_ranks)
    alpha_ranks: Ranks
    groups: Mapping[str, int]  #: card id -> tie group, for those that took part in the test (groups, alpha_groups)
    alpha_groups: Mapping[str, int]
    ties: JsonValue  #: how the groups were found, as the site shows it (ties, alpha_ties)
    alpha_ties: JsonValue
    notes: Sequence[str]  #: what a reader must know of them


def stand(division: Division, kind: str, ranks: tuple[Ranks, Ranks], test: TieTest) -> Standing:
    """Tie groups beside the ranks.

    The groups beside the rank are those of daily NAV returns where the rank goes by the total return, those of daily selection
    returns where it goes by selection alpha; no daily returns say which other figures are tied.
    """
    by = division.rank_by
    if kind == "scoring":
        none = _untested("scores of a scoring task have no daily returns")
        return Standing(*ranks, {}, {}, none, dict(none), [])
    alpha_groups, alpha_ties, notes = test.groups(ranks[1], "selection", "tie groups by selection")
    if by == ALPHA:
        return Standing(*ranks, alpha_groups, alpha_groups, alpha_ties, dict(alpha_ties), notes)
    if by != "total_return":
        none = _untested(f"the rank goes by {by}, and tie groups are of mean daily returns")
        return Standing(*ranks, {}, alpha_groups, none, alpha_ties, notes)
    groups, ties, own = test.groups(ranks[0], "returns", "tie groups by return")
    return Standing(*ranks, groups, alpha_groups, ties, alpha_ties, [*own, *notes])


def _untested(reason: str) -> dict[str, JsonValue]:
    return {"groups": 0, "tested": 0, "days": 0, "p": {}, "reason": reason}


class TieTest:
    """Tie test of one table.

    `entries`: cards. `cells`: windows and seeds of the scope. `facts`: card id -> what is known of its daily series. `level`: of
    the model confidence sets.
    """

    def __init__(
        self, entries: Sequence[Entry], cells: Sequence[Cell], facts: Mapping[str, SeriesFacts | None], level: float
    ) -> None:
        self.entries, self.cells, self.facts, self.level = entries, cells, facts, level

    def groups(self, ranks: Ranks, attribute: str, what: str) -> tuple[dict[str, int], dict[str, JsonValue], list[str]]:
        """Card id -> group; how it was found; notes."""
        ordered = sorted(
            (place for place, rank in enumerate(ranks) if rank is not None),
            key=lambda place: (ranks[place], self.entries[place].card_id),
        )
        chosen: list[tuple[str, list[Daily]]] = []
        for place in ordered:
            card_id = self.entries[place].card_id
            days = self._days(card_id, attribute)
            if days is not None and (not chosen or same_days(days, chosen[0][1])):
                chosen.append((card_id, days))
            if len(chosen) == MOST_TESTED:
                break
        found = tie_groups(mean_by_day([days for _, days in chosen], attribute), self.level)
        left = len(ordered) - len(chosen)
        why = f"the best {MOST_TESTED} were tested" if len(chosen) == MOST_TESTED else "no daily series of theirs"
        notes = [f"{what}: {left} ranked without a tie group: {why}"] if left else []
        cards = [card_id for card_id, _ in chosen]
        return dict(zip(cards, found.group or (), strict=False)), _shown(cards, found), notes

    def _days(self, card_id: str, attribute: str) -> list[Daily] | None:
        """Return the days of a card, None where one is missing or not defined."""
        facts = self.facts.get(card_id)
        if facts is None or not all(cell in facts.daily for cell in self.cells):
            return None
        days = [facts.daily[cell] for cell in self.cells]
        return days if all(np.isfinite(getattr(each, attribute)).all() for each in days) else None


def _shown(cards: Sequence[str], found: Ties) -> dict[str, JsonValue]:
    p = {} if found.p is None else dict(zip(cards, (round(value, 6) for value in found.p), strict=True))
    groups = 0 if found.group is None else max(found.group)
    return {"groups": groups, "tested": len(p), "days": found.days, "p": p, "reason": found.reason}
