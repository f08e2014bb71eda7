"""Tables of a division: every card with its figures, ranks and tie groups, next to benchmark, baselines and random traders.

Tie groups go by mean daily returns and ranks by the median over episodes, so a group need not be a run of ranks: it says that daily
returns show no difference between its members and the best of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from ktdeval.errors import CardError, ConfigError
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue
from ktdeval.stats import tie_groups
from ktdeval_board.attempts import attempts_of
from ktdeval_board.entries import Board, Entry
from ktdeval_board.ranking import describe
from ktdeval_board.ranking.daily import Daily, LoadSeries, SeriesFacts, facts_of, mean_by_day, same_days
from ktdeval_board.ranking.describe import ALPHA
from ktdeval_board.ranking.figures import Figures, Samples, benchmark_of, collect, nullable, reference_rows, score_figures, stacked
from ktdeval_board.rules import Division

Row = dict[str, JsonValue]
Ranks = Sequence[int | None]

MOST_TESTED = 40  #: Entrants that take part in the tie test, the best by rank: time and memory grow with the square of their number


def rank_division(board: Board, division: Division, load_series: LoadSeries) -> dict[str, JsonValue]:
    """Return the tables of a division: scope (`all`, and each window of a trading task) -> columns, rows in order, ties, notes."""
    work = _Work(board, division)
    if work.entries:
        work.check_rank_by()
        work.collect(load_series)
    return {scope: work.table(scope) for scope in describe.division_scopes(board, division)}


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
    why = work.why(figures)
    return Ranked(work.entries, work.columns, figures, why, *work.ranks(figures, why))


def missing_baselines(board: Board, division: Division) -> list[str]:
    """Baselines of the board's rules that have no card in a division of a trading task; none where nobody was submitted."""
    entries = board.of_division(division)
    if describe.division_kind(board, division) == "scoring" or all(entry.baseline for entry in entries):
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


class _Work:
    """Tables of a division, and what they share."""

    def __init__(self, board: Board, division: Division) -> None:
        self.board, self.division, self.samples = board, division, list[Samples]()
        self.entries = board.of_division(division)
        self.columns = describe.division_columns(board, division)
        self.kind = describe.division_kind(board, division)
        self.better = describe.direction(board, division, division.rank_by)
        self.benchmark = {} if self.kind == "scoring" else benchmark_of(self.entries)
        self.facts: dict[str, SeriesFacts | None] = {}
        self.labels = describe.system_labels(board)
        self.missing = missing_baselines(board, division)

    def windows_of(self, scope: str) -> list[str]:
        return self.division.window_names() if scope == "all" else [scope]

    def collect(self, load_series: LoadSeries) -> None:
        """Collect the figures by episode, and what is known of the cards' daily series."""
        for entry in self.entries:
            series = load_series(entry.card_id)
            if series is not None and series.card != entry.card_id:
                raise CardError(f"series of card {entry.card_id}: of another card; run `ktdeval leaderboard check --all`")
            self.facts[entry.card_id] = None if series is None else facts_of(series)
        if self.kind == "trading":
            self.samples = collect(self.entries, self.columns, self.benchmark, self.facts.get)
            self.entries = [entry for group in self.samples for entry in group.entries]

    def figures(self, scope: str) -> Figures:
        if self.kind == "scoring":
            return score_figures(self.entries, self.columns)
        return stacked([group.over(self.windows_of(scope)) for group in self.samples])

    def check_rank_by(self) -> None:
        """Refuse rules by which nothing can be ranked."""
        name = self.division.rank_by
        where = f"{self.board.folder.path}: board.yaml: divisions: {self.division.id}: rank_by"
        if name not in self.columns:
            raise ConfigError(f"{where}: {name!r} is no figure of its cards{near_matches(name, self.columns)}")
        if self.better == "neither":
            raise ConfigError(f"{where}: of {name} neither more nor less is better; name another figure")

    def why(self, figures: Figures) -> list[list[str]]:
        """Return why each entry has no rank in the scope of the figures."""
        name, reasons = self.division.rank_by, []
        for row, entry in enumerate(self.entries):
            planned = int(figures.planned[row])
            n = planned if name == "decided" else int(figures.n[row, self.columns.index(name)])  # counts steps, not episodes
            undefined = describe.undefined_reason(name, n, planned, figures.reasons[row].get(name))
            why = describe.why_unranked(entry, self.board, self.division)
            reasons.append(why if undefined is None else [*why, undefined])
        return reasons

    def ranks(self, figures: Figures, why: Sequence[Sequence[str]]) -> tuple[Ranks, Ranks]:
        """Return the ranks of entrants by the division's figure and by selection alpha."""
        ranked = np.array([not reasons and entry.baseline is None for reasons, entry in zip(why, self.entries, strict=True)])
        column = self.columns.index(self.division.rank_by)
        ranks = describe.competition_ranks(figures.value[:, column], self.better, ranked)
        if self.kind == "scoring" or ALPHA not in self.columns:
            return ranks, [None] * len(self.entries)
        alpha = self.columns.index(ALPHA)
        whole = ranked & (figures.n[:, alpha] >= figures.planned)
        return ranks, describe.competition_ranks(figures.value[:, alpha], "higher", whole)

    def table(self, scope: str) -> Row:
        division = self.division
        frame: Row = {"division": division.id, "scope": scope, "rank_by": division.rank_by, "columns": self.columns}
        frame["missing_baselines"] = self.missing
        if not self.entries:
            ties = {name: _ties("nobody was submitted") for name in ("return", "alpha")}
            return frame | {"rows": [], "notes": [], "ties": ties}
        figures = self.figures(scope)
        why = self.why(figures)
        ranks = self.ranks(figures, why)
        returns, alpha = self._tie_groups(scope, ranks)
        rows = [*self._rows(figures, why, ranks, (returns.groups, alpha.groups))]
        rows += reference_rows(self.columns, self.windows_of(scope), self.benchmark, self.entries, self.samples)
        column, sign = self.columns.index(division.rank_by), -1.0 if self.better == "higher" else 1.0
        exact = dict(zip((entry.card_id for entry in self.entries), figures.value[:, column].tolist(), strict=True))

        def order(row: Row) -> tuple[bool, float, str, str]:
            value = exact.get(row["card"] or "", row["values"][column])
            undefined = value is None or math.isnan(value)
            stands = not undefined and (row["ranked"] or (row["baseline"] is not None and not row["why"]))
            return not stands, math.inf if undefined else sign * value, row["label"], row["card"] or ""

        rows.sort(key=order)
        notes = dict.fromkeys([*returns.notes, *alpha.notes, *self._notes(why)])
        return frame | {"rows": rows, "notes": list(notes), "ties": {"return": returns.ties, "alpha": alpha.ties}}

    def _rows(
        self, figures: Figures, why: Sequence[list[str]], ranks: tuple[Ranks, Ranks], groups: tuple[Mapping[str, int], ...]
    ) -> Iterator[Row]:
        value, low, high = (nullable(part) for part in (figures.value, figures.low, figures.high))
        n = figures.n.tolist()
        for row, entry in enumerate(self.entries):
            yield {
                **entry.facts(self.labels[entry.card_id]),
                "model": entry.model,
                "strategy": entry.submission.agent.strategy,
                "attempts": attempts_of(self.board, entry),
                "registration": entry.card.registration or None,
                "ranked": ranks[0][row] is not None,
                "why": why[row],
                "rank": ranks[0][row],
                "alpha_rank": ranks[1][row],
                "tie": groups[0].get(entry.card_id),
                "alpha_tie": groups[1].get(entry.card_id),
                "values": value[row],
                "low": low[row],
                "high": high[row],
                "interval": figures.kind[row],
                "n": n[row],
                "reasons": figures.reasons[row],
            }

    def _notes(self, why: Sequence[Sequence[str]]) -> Iterator[str]:
        if self.missing:
            yield _missing_note(self.missing, self.division)
        entrants = [bool(reasons) for reasons, entry in zip(why, self.entries, strict=True) if entry.baseline is None]
        if any(entrants):
            yield f"{sum(entrants)} of {len(entrants)} entrants are not ranked; their rows say why"

    def _tie_groups(self, scope: str, ranks: tuple[Ranks, Ranks]) -> tuple[_Groups, _Groups]:
        """Return the tie groups next to the rank and next to the rank by selection alpha.

        Those next to the rank are of daily NAV returns where it goes by the total return, of daily selection returns where it goes
        by selection alpha; no daily returns say which other figures are tied.
        """
        by = self.division.rank_by
        if self.kind == "scoring":
            none = _Groups({}, _ties("scores of a scoring task have no daily returns"))
            return none, none
        alpha = self._tested(scope, ranks[1], "selection", "tie groups by selection")
        if by == ALPHA:
            return alpha, alpha
        if by != "total_return":
            return _Groups({}, _ties(f"the rank goes by {by}, and tie groups are of mean daily returns")), alpha
        return self._tested(scope, ranks[0], "returns", "tie groups by return"), alpha

    def _tested(self, scope: str, ranks: Ranks, attribute: str, what: str) -> _Groups:
        cells = [(window, seed) for window in self.windows_of(scope) for seed in self.division.seeds]
        ordered = sorted((rank, entry.card_id) for rank, entry in zip(ranks, self.entries, strict=True) if rank is not None)
        chosen: dict[str, list[Daily]] = {}
        is_cut = False
        for _, sharing in groupby(ordered, key=itemgetter(0)):
            whole = dict(self._whole_days([card_id for _, card_id in sharing], cells, attribute, chosen))
            is_cut = len(chosen) + len(whole) > MOST_TESTED  # cards that share a rank take part all or none
            if is_cut:
                break
            chosen |= whole
        groups = tie_groups(mean_by_day(list(chosen.values()), attribute), self.board.rules.tie_level)
        left = len(ordered) - len(chosen)
        why = f"the best {len(chosen)} were tested" if is_cut else "no daily series of theirs"
        p = {} if groups.p is None else dict(zip(chosen, (round(value, 6) for value in groups.p), strict=True))
        ties = {"groups": max(groups.group or (0,)), "tested": len(p), "days": groups.days, "p": p, "reason": groups.reason}
        notes = (f"{what}: {left} ranked without a tie group: {why}",) if left else ()
        return _Groups(dict(zip(chosen, groups.group or (), strict=False)), ties, notes)

    def _whole_days(
        self, cards: Sequence[str], cells: Sequence[tuple[str, int]], attribute: str, chosen: Mapping[str, list[Daily]]
    ) -> Iterator[tuple[str, list[Daily]]]:
        """Yield cards with their days, those with all cells and the days of the cards chosen before."""
        same_as = next(iter(chosen.values()), None)
        for card_id in cards:
            facts = self.facts.get(card_id)
            days = [] if facts is None else [facts.daily[cell] for cell in cells if cell in facts.daily]
            is_whole = len(days) == len(cells) and all(np.isfinite(getattr(each, attribute)).all() for each in days)
            if facts is not None and is_whole and (same_as is None or same_days(days, same_as)):
                same_as = days
                yield card_id, days


@dataclass(frozen=True)
class _Groups:
    """Tie groups: card id -> group, for those that took part; the test, as the site shows it; notes for readers."""

    groups: Mapping[str, int]
    ties: JsonValue
    notes: tuple[str, ...] = ()


def _ties(reason: str) -> Row:
    return {"groups": 0, "tested": 0, "days": 0, "p": {}, "reason": reason}
