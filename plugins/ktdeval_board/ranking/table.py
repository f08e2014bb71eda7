"""A division's tables. They contain every card with its figures, ranks and tie groups, alongside
the benchmark and the baselines.

Tie groups are based on mean daily returns, but ranks on the median over episodes. A group therefore
need not consist of consecutive ranks: it contains the systems whose daily returns do not differ
significantly from the daily returns of the group's best member.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, product
from operator import itemgetter

import numpy as np

from ktdeval.cards import COULD_HAVE_BROUGHT, COULD_LOOK_UP, count
from ktdeval.errors import CardError, ConfigError
from ktdeval.stats import tie_groups
from ktdeval.values import near_matches
from ktdeval_board.attempts import attempts_of
from ktdeval_board.board_entries import BoardEntry, LoadedBoard
from ktdeval_board.ranking import column_texts
from ktdeval_board.ranking.column_texts import ALPHA, by_trust
from ktdeval_board.ranking.daily_summaries import (
    EpisodeDays,
    LoadSeries,
    SeriesFacts,
    facts_of,
    mean_by_day,
    same_days,
)
from ktdeval_board.ranking.division_figures import (
    Benchmark,
    EpisodeSamples,
    Figures,
    benchmark_of,
    collect,
    figure_rows,
    reference_rows,
    score_figures,
)
from ktdeval_board.ranking.fresh_windows import (
    FreshFacts,
    counted_windows,
    fresh_facts,
    why_not_fresh,
)
from ktdeval_board.ranking.mean_tests import ComparedSystems, TableTests, table_tests
from ktdeval_board.ranking.questions import QuestionEvidence, evidence_of
from ktdeval_board.ranking.rows import Ranks, Row, Standing, Table, Ties, place_cards
from ktdeval_board.rules import Division, OpenBook

_FRESH_NOTE = (
    "an entrant's figures cover the windows after its own training data; tie groups, the windows "
    "after the training data of all ranked cards; baselines and the benchmark, all windows"
)
MAX_TESTED = 40
"""Maximum number of entrants in the tie test, which takes the best by rank. Time and memory grow
quadratically.
"""


def rank_division(
    board: LoadedBoard, division: Division, load_series: LoadSeries
) -> dict[str, Table]:
    """Return a division's tables, keyed by scope: `all`, and each window of a trading task."""
    work = _DivisionTables(board, division)
    if work.entries:
        work.check_rank_by()
        work.collect(load_series)

    return {scope: work.table(scope) for scope in column_texts.division_scopes(board, division)}


def missing_baselines(board: LoadedBoard, division: Division) -> list[str]:
    """Return the baselines in the board's rules that have no card in a division of a trading task.
    The result is empty as long as no entrant has been submitted, and for a division open book.
    """
    entries = board.of_division(division)
    if column_texts.division_kind(board, division) == "scoring" or isinstance(division, OpenBook):
        return []
    if all(entry.baseline is not None for entry in entries):
        return []

    there = [entry.baseline for entry in entries]
    shown = board.rules.baselines_of(division)
    return [baseline.words for baseline in shown if baseline not in there]


def require_baselines(board: LoadedBoard) -> None:
    """Raise CardError if a board lacks baselines, since it must not be published without them."""
    for division in board.rules.divisions:
        missing = missing_baselines(board, division)
        if missing:
            raise CardError(
                f"{board.folder.path}: division {division.id}: {_missing_note(missing, division)}"
            )


def _missing_note(missing: Sequence[str], division: Division) -> str:
    return (
        f"baselines are missing ({', '.join(missing)}); a board must always show them; run "
        f"`ktdeval leaderboard baselines . --division {division.id}`"
    )


class _DivisionTables:
    """A division's tables, and the values that they share."""

    def __init__(self, board: LoadedBoard, division: Division) -> None:
        self.board = board
        self.division = division
        self.samples: list[EpisodeSamples] = []
        self.entries = board.of_division(division)
        self.columns = column_texts.division_columns(board, division)
        self.kind = column_texts.division_kind(board, division)
        self.better = column_texts.direction(board, division, division.rank_by)
        self.benchmark: Benchmark = {}
        if self.kind == "trading":
            self.benchmark = benchmark_of(self.entries)

        self.facts: dict[str, SeriesFacts | None] = {}
        self.labels = column_texts.system_labels(board)
        self.missing = missing_baselines(board, division)

    def windows_of(self, scope: str) -> list[str]:
        return self.division.window_names() if scope == "all" else [scope]

    def collect(self, load_series: LoadSeries) -> None:
        """Collect the figures by episode and the facts from the cards' daily series."""
        for entry in self.entries:
            series = load_series(entry.card_id)
            if series is not None and series.card != entry.card_id:
                raise CardError(
                    f"series of card {entry.card_id}: belongs to another card; run `ktdeval "
                    "leaderboard check --all`"
                )

            self.facts[entry.card_id] = None if series is None else facts_of(series)

        if self.kind == "trading":
            self.samples = collect(
                self.entries, self.columns, self.benchmark, self.facts.get, self.counted_windows
            )
            # in the same order as the figures
            self.entries = [entry for group in self.samples for entry in group.entries]

    # These values are the same in all scopes of the division, so they are computed only once.

    @cached_property
    def counted(self) -> Mapping[str, tuple[str, ...]]:
        """Windows that count for each card, keyed by card id."""
        return {
            entry.card_id: counted_windows(entry, self.division, self.board.rules)
            for entry in self.entries
        }

    @cached_property
    def evidence(self) -> Mapping[str, QuestionEvidence]:
        """Evidence from each card on its registered question, keyed by card id."""
        return {entry.card_id: evidence_of(self.board, entry) for entry in self.entries}

    @cached_property
    def fresh(self) -> Mapping[str, FreshFacts]:
        """Windows after the end of each card's training data, keyed by card id; empty in a division
        without fresh windows.
        """
        if not self.division.fresh or self.kind == "scoring":
            return {}

        return {
            entry.card_id: fresh_facts(
                entry, self.division, self.board.rules, self.facts.get(entry.card_id)
            )
            for entry in self.entries
        }

    def counted_windows(self, entry: BoardEntry) -> tuple[str, ...]:
        """Return the windows that count for an entry."""
        return self.counted[entry.card_id]

    def figures(self, scope: str) -> Figures:
        if self.kind == "scoring":
            return score_figures(self.entries, self.columns)

        windows = self.windows_of(scope)
        return np.concatenate([group.over(windows) for group in self.samples])

    def check_rank_by(self) -> None:
        """Raise ConfigError if the rules make ranking impossible."""
        name = self.division.rank_by
        where = f"{self.board.folder.path}: board.yaml: divisions: {self.division.id}: rank_by"
        if name not in self.columns:
            raise ConfigError(
                f"{where}: {name!r} is not a figure on its cards{near_matches(name, self.columns)}"
            )
        if self.better == "neither":
            raise ConfigError(f"{where}: {name} has no better direction; name another figure")

    def why(self, figures: Figures, scope: str) -> list[list[str]]:
        """Return the reasons why each entry is unranked in a scope, given the figures over that
        scope.
        """
        name = self.division.rank_by
        reasons = []
        of_rank = figures[:, self.columns.index(name)]
        for entry, figure in zip(self.entries, of_rank, strict=True):
            planned = int(figure["planned"])
            n = int(figure["n"])
            if name == "decided":  # its `n` counts steps, not episodes
                n = planned

            why = column_texts.why_unranked(entry, self.board, self.division)
            if self.division.fresh and planned == 0:
                why.append(why_not_fresh(entry, self.board.rules, self.windows_of(scope)))
                reasons.append(why)
                continue

            undefined = column_texts.undefined_reason(name, n, planned, figure["reason"])
            if undefined is not None:
                why.append(undefined)

            reasons.append(why)

        return reasons

    def ranks(self, figures: Figures, why: Sequence[Sequence[str]]) -> tuple[Ranks, Ranks]:
        """Return entrants' ranks by the division's figure and by selection alpha."""
        eligible = [
            not reasons and entry.baseline is None
            for reasons, entry in zip(why, self.entries, strict=True)
        ]
        ranked = np.array(eligible, dtype=bool)
        column = self.columns.index(self.division.rank_by)
        ranks = column_texts.competition_ranks(figures["value"][:, column], self.better, ranked)
        if self.kind == "scoring" or ALPHA not in self.columns:
            return ranks, [None] * len(self.entries)

        alpha = self.columns.index(ALPHA)
        whole = ranked & (figures["n"][:, alpha] >= figures["planned"][:, alpha])
        return ranks, column_texts.competition_ranks(figures["value"][:, alpha], "higher", whole)

    def table(self, scope: str) -> Table:
        table: Table = {
            "division": self.division.id,
            "scope": scope,
            "rank_by": self.division.rank_by,
            "columns": self.columns,
            "missing_baselines": self.missing,
            "rows": [],
            "notes": [],
            "verdict": "",
            "verdict_figures": "",
            "tests": [],
            "ties": {name: _no_ties("there are no submissions") for name in ("return", "alpha")},
        }
        if not self.entries:
            return table

        figures = self.figures(scope)
        why = self.why(figures, scope)
        ranks = self.ranks(figures, why)
        returns, alpha = self._tie_groups(scope, ranks)
        ids = [entry.card_id for entry in self.entries]
        own_ties = [returns.groups.get(card_id) for card_id in ids]
        alpha_ties = [alpha.groups.get(card_id) for card_id in ids]
        standings = place_cards(why, ranks, (own_ties, alpha_ties))
        rows = list(self._rows(figures, standings))
        rows += reference_rows(
            self.columns, self.windows_of(scope), self.benchmark, self.entries, self.samples
        )
        tests = self._test_means(scope, ranks[0])
        for row in rows:
            row["excess"] = tests.excess.get(row["card"], [])

        notes = [*returns.notes, *alpha.notes, *tests.notes, *self._notes(why)]

        table["rows"] = self._sort_rows(rows, figures)
        table["notes"] = list(dict.fromkeys(notes))
        table["verdict"] = tests.sentence
        table["verdict_figures"] = tests.figures
        table["tests"] = tests.facts
        table["ties"] = {"return": returns.ties, "alpha": alpha.ties}
        return table

    def _sort_rows(self, rows: list[Row], figures: Figures) -> list[Row]:
        """Sort rows by the division's figure, anchored runs first among equals; rows without a rank
        come last.
        """
        column = self.columns.index(self.division.rank_by)
        sign = -1.0 if self.better == "higher" else 1.0
        # Rows show six digits, but cards are sorted at full precision.
        ids = [entry.card_id for entry in self.entries]
        exact = dict(zip(ids, figures["value"][:, column].tolist(), strict=True))

        def order(row: Row) -> tuple[bool, float, bool, str, str]:
            card_id = row["card"] or ""
            value = exact.get(card_id, row["values"][column])
            if value is None or math.isnan(value):
                return True, math.inf, False, row["label"], card_id

            has_place = row["ranked"] or (row["baseline"] is not None and not row["why"])
            return not has_place, sign * value, not row["anchored"], row["label"], card_id

        return sorted(rows, key=order)

    def _rows(self, figures: Figures, standings: Iterable[Standing]) -> Iterator[Row]:
        shown = figure_rows(figures, self.columns)
        for entry, standing, cells in zip(self.entries, standings, shown, strict=True):
            found = self.evidence[entry.card_id]
            yield {
                **entry.facts(self.labels[entry.card_id]),
                "labels": [*entry.labels, *found.labels],
                "model": entry.model,
                "strategy": entry.submission.agent.strategy,
                "attempts": attempts_of(self.board, entry),
                "registration": entry.card.registration or None,
                "fresh": self.fresh.get(entry.card_id),
                "evidence": found.facts,
                "excess": [],
                **standing,
                **cells,
            }

    def _notes(self, why: Sequence[Sequence[str]]) -> Iterator[str]:
        if self.missing:
            yield _missing_note(self.missing, self.division)

        if self.division.fresh:
            yield _FRESH_NOTE

        yield from self._open_book_note()

        entrants = 0
        unranked = 0
        for entry, reasons in zip(self.entries, why, strict=True):
            if entry.baseline is None:
                entrants += 1
                unranked += bool(reasons)

        if unranked:
            yield f"{unranked} of {entrants} entrants are not ranked; their rows give the reason"

    def _open_book_note(self) -> Iterator[str]:
        """Yield where a reader finds the entrants who could know the market."""
        for other in self.board.rules.divisions:
            if isinstance(other, OpenBook) and other.of == self.division:
                others = count(len(self.board.of_division(other)), "entrant")
                yield (
                    f"{others} who {COULD_LOOK_UP} or {COULD_HAVE_BROUGHT}: division {other.id} "
                    "(open book)"
                )

    def _tie_groups(self, scope: str, ranks: tuple[Ranks, Ranks]) -> tuple[_TieGroups, _TieGroups]:
        """Return the tie groups for the rank and for the rank by selection alpha.

        The groups for the main rank are based on daily NAV returns if cards are ranked by total
        return, and on daily selection returns if they are ranked by selection alpha. Other figures
        lack daily returns with which to test for ties.
        """
        by = self.division.rank_by
        if self.kind == "scoring":
            none = _TieGroups({}, _no_ties("scores of a scoring task have no daily returns"))
            return none, none

        alpha = self._test_ties(scope, ranks[1], "selection", "tie groups by selection")
        if by == ALPHA:
            return alpha, alpha
        if by != "total_return":
            reason = f"ranks use {by}, but tie groups compare mean daily returns"
            return _TieGroups({}, _no_ties(reason)), alpha

        return self._test_ties(scope, ranks[0], "returns", "tie groups by return"), alpha

    def _test_ties(self, scope: str, ranks: Ranks, attribute: str, what: str) -> _TieGroups:
        """Test ranked cards for ties. `attribute` names the daily returns in `EpisodeDays` to test,
        and `what` describes them in notes.
        """
        tested = self._tested_days(scope, ranks, attribute, MAX_TESTED)
        returns = mean_by_day(list(tested.days.values()), attribute)
        groups = tie_groups(returns, self.board.rules.tie_level)
        p: dict[str, float] = {}
        if groups.p is not None:
            for card_id, value in zip(tested.days, groups.p, strict=True):
                p[card_id] = round(value, 6)

        ties = Ties(
            groups=max(groups.group or (0,)),
            tested=len(p),
            days=groups.days,
            p=p,
            reason=groups.reason,
        )
        notes = []
        if tested.left_out:
            notes.append(f"{what}: {tested.left_out} ranked without a tie group: {tested.why}")

        # There are no groups if the test could not be made.
        return _TieGroups(dict(zip(tested.days, groups.group or (), strict=False)), ties, notes)

    def _tested_days(self, scope: str, ranks: Ranks, attribute: str, most: int) -> _TestedDays:
        """Return the days of the best ranked cards, at most `most` of them, over the windows that
        count for all ranked cards.
        """
        ordered = []
        windows = self.windows_of(scope)
        for rank, entry in zip(ranks, self.entries, strict=True):
            if rank is None:
                continue

            ordered.append((rank, entry.card_id))
            counted = self.counted_windows(entry)
            windows = [window for window in windows if window in counted]

        ordered.sort()
        cells = list(product(windows, self.division.seeds))
        chosen: dict[str, list[EpisodeDays]] = {}
        why = "they have no daily series"

        for _, sharing in groupby(ordered, key=itemgetter(0)):
            cards = [card_id for _, card_id in sharing]
            whole = dict(self._whole_days(cards, cells, attribute, chosen))
            # Cards that share a rank are included together or not at all.
            if len(chosen) + len(whole) > most:
                why = f"the best {len(chosen)} were tested"
                break

            chosen |= whole

        return _TestedDays(windows, chosen, len(ordered) - len(chosen), why)

    def _test_means(self, scope: str, ranks: Ranks) -> TableTests:
        """Test the mean daily returns of all ranked cards against the index and random traders."""
        if self.kind == "scoring":
            return TableTests()

        tested = self._tested_days(scope, ranks, "returns", len(self.entries))
        baselines: dict[str, list[EpisodeDays]] = {}
        traders: dict[str, list[EpisodeDays]] = {window: [] for window in tested.windows}
        for entry in self.entries:
            facts = self.facts.get(entry.card_id)
            if entry.baseline is None or facts is None:
                continue

            for (window, _), days in facts.daily.items():
                if window not in traders:
                    continue

                baselines.setdefault(entry.card_id, []).append(days)
                if entry.baseline.kind == "random":
                    traders[window].append(days)

        systems = ComparedSystems(
            labels=self.labels,
            days=tested.days,
            left_out=tested.left_out,
            baselines=baselines,
            traders=traders,
            index_name=str(by_trust(self.entries)[0].trading.snapshot.benchmark_name),
            seeds=len(self.division.seeds),
        )
        return table_tests(systems, self.board.rules.tie_level)

    def _whole_days(
        self,
        cards: Sequence[str],
        cells: Sequence[tuple[str, int]],
        attribute: str,
        chosen: Mapping[str, list[EpisodeDays]],
    ) -> Iterator[tuple[str, list[EpisodeDays]]]:
        """Yield each card that has all cells, with its days. The days must be the same as those of
        the cards already chosen.
        """
        same_as = next(iter(chosen.values()), None)
        for card_id in cards:
            facts = self.facts.get(card_id)
            if facts is None:
                continue

            days = [facts.daily[cell] for cell in cells if cell in facts.daily]
            is_whole = len(days) == len(cells) and all(
                np.isfinite(getattr(each, attribute)).all() for each in days
            )
            if is_whole and (same_as is None or same_days(days, same_as)):
                same_as = days
                yield card_id, days


@dataclass(frozen=True)
class _TestedDays:
    """Days of the ranked cards that are to be tested against each other."""

    windows: Sequence[str]  #: windows that count for all ranked cards
    days: Mapping[str, list[EpisodeDays]]  #: days, keyed by card id
    left_out: int  #: number of ranked cards that are left out of the test
    why: str  #: why they are left out


@dataclass(frozen=True)
class _TieGroups:
    """Tie groups of a table."""

    groups: Mapping[str, int]  #: tie groups of the tested cards, keyed by card id
    ties: Ties  #: the test, as the site shows it
    notes: Sequence[str] = ()  #: notes for readers


def _no_ties(reason: str) -> Ties:
    return {"groups": 0, "tested": 0, "days": 0, "p": {}, "reason": reason}
