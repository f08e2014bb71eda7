"""Whole tables of drawn boards against counting and sorting: figures, intervals, places, ties and the
order of rows; and which kinds of rows the draws have met.
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from ktdeval_board.board_entries import BoardEntry
from ktdeval_board.errata import Erratum
from support.board.board_cards import changed
from support.board.board_ranks import (
    BENCHMARK,
    EMPTY,
    WINDOWS,
    make_board,
    make_entry,
    make_series,
    ranked_tables,
)

SEEDS = (0, 1)
CELLS = tuple(product(WINDOWS, SEEDS))
BASELINES = ("builtin/equal_weight", "builtin/random")
DRAWS = 60
DAYS = 40
Figures = dict[tuple[str, int], float | None]


@dataclass(frozen=True)
class Drawn:
    """An entry, and what its row must show."""

    entry: BoardEntry
    figures: dict[str, Figures]
    is_baseline: bool
    is_held: bool  #: by its tier or an erratum: it has no rank


@dataclass(frozen=True)
class Board:
    """A drawn board, and how it ranks."""

    drawn: list[Drawn]
    rank_by: str
    better: int  #: 1: higher is better; -1: lower
    series: dict[str, Any]

    def values(self, each: Drawn, name: str, scope: str) -> list[float]:
        """The defined figures of an entry over a scope."""
        cells = [cell for cell in CELLS if scope in ("all", cell[0])]
        found = [each.figures[name][cell] for cell in cells]
        return [value for value in found if value is not None]

    def is_whole(self, each: Drawn, name: str, scope: str) -> bool:
        cells = [cell for cell in CELLS if scope in ("all", cell[0])]
        return len(self.values(each, name, scope)) == len(cells)

    def ranked(self, name: str, scope: str) -> list[Drawn]:
        """The entries that have a rank by a figure, which must be whole as must the board's own."""
        return [
            each
            for each in self.drawn
            if not each.is_baseline
            and not each.is_held
            and self.is_whole(each, self.rank_by, scope)
            and self.is_whole(each, name, scope)
        ]

    def rank(self, each: Drawn, name: str, scope: str, better: int) -> int | None:
        """One more than the number of entries that are better."""
        ranked = self.ranked(name, scope)
        if each not in ranked:
            return None

        own = statistics.median(self.values(each, name, scope))
        others = [statistics.median(self.values(other, name, scope)) for other in ranked]
        return 1 + sum(better * other > better * own for other in others)


def draw_figures(rng: np.random.Generator, missing: float) -> Figures:
    """Figures in few steps, so that some are equal."""
    found: Figures = {}
    for cell in CELLS:
        found[cell] = None if rng.random() < missing else float(rng.integers(-3, 4)) / 64
    return found


def draw_entry(rng: np.random.Generator, number: int, better: int) -> Drawn:
    model = f"house/{number}"
    if rng.random() < 0.2:
        model = BASELINES[rng.integers(2)]
    missing = float(rng.choice((0.0, 0.0, 0.3)))
    figures = {
        "total_return": draw_figures(rng, missing),
        "sharpe": draw_figures(rng, missing),
        "selection_alpha": draw_figures(rng, missing),
    }
    tier = "unchecked" if rng.random() < 0.1 else "re-executed"
    effects = [effect for effect in ("note", "unranked") if rng.random() < 0.1]
    made = make_entry(
        EMPTY,
        model,
        figures["total_return"],
        alphas=figures["selection_alpha"],
        metrics={"sharpe": figures["sharpe"]},
        tier=tier,
        call={"temperature": number / 10},
        errata=[Erratum("c" * 64, "2026-03-01", effect, "a late feed") for effect in effects],
    )
    if better < 0:
        made = changed(made, lambda card: card["metrics"]["sharpe"].update(better="lower"))
    is_held = tier == "unchecked" or "unranked" in effects
    return Drawn(made, figures, model in BASELINES, is_held)


def draw(seed: int) -> Board:
    rng = np.random.default_rng(seed)
    rank_by = str(rng.choice(("total_return", "sharpe", "selection_alpha")))
    better = -1 if rank_by == "sharpe" and rng.random() < 0.5 else 1
    drawn = [draw_entry(rng, number, better) for number in range(rng.integers(2, 10))]
    series = {}
    for each in drawn:
        if rng.random() < 0.8:
            mean = float(rng.choice((-0.02, 0.0, 0.0)))
            daily = {cell: rng.normal(mean, 0.01, DAYS) for cell in CELLS}
            chosen = {cell: rng.normal(mean, 0.01, DAYS) for cell in CELLS}
            made = make_series(each.entry, daily, chosen)
            series[each.entry.card_id] = made
    return Board(drawn, rank_by, better, series)


# -- what a table must show


def check_figures(board: Board, each: Drawn, row: Any, columns: list[str], scope: str) -> None:
    figures = {
        **each.figures,
        "excess": {
            cell: None if value is None else value - BENCHMARK[cell[0]]
            for cell, value in each.figures["total_return"].items()
        },
    }
    for name, by_cell in figures.items():
        at = columns.index(name)
        values = [
            value
            for cell, value in by_cell.items()
            if value is not None and scope in ("all", cell[0])
        ]
        shown = (row["values"][at], row["low"][at], row["high"][at])
        assert row["n"][at] == len(values)
        if not values:
            assert shown == (None, None, None)
            assert row["reasons"][name]
            continue

        ends: tuple[float | None, float | None] = (None, None)
        kind = None
        if len(values) > 1 and each.entry.model == "builtin/random":
            low, high = np.quantile(values, (0.05, 0.95))
            ends, kind = (low, high), "5-95 % of episodes"
        elif len(values) > 1:
            low, _, high = statistics.quantiles(values, n=4, method="inclusive")
            ends, kind = (low, high), "quartiles"
        expected = (statistics.median(values), *ends)
        assert shown == tuple(
            None if value is None else pytest.approx(value, rel=1e-5, abs=1e-9)
            for value in expected
        )
        assert (row["interval"][at] is None) == (kind is None)
        REACH[f"interval: {kind}"] += 1


def check_places(board: Board, rows: dict[str, Any], scope: str) -> None:
    for each in board.drawn:
        row = rows[each.entry.card_id]
        rank = board.rank(each, board.rank_by, scope, board.better)
        assert (row["rank"], row["ranked"]) == (rank, rank is not None)
        assert row["alpha_rank"] == board.rank(each, "selection_alpha", scope, 1)
        if not each.is_baseline:
            assert bool(row["why"]) == (rank is None)
        for rank_name, tie_name, prefix in (
            ("rank", "tie", ""),
            ("alpha_rank", "alpha_tie", "alpha_"),
        ):
            check_group(rows, row, (rank_name, tie_name, prefix))
        note_reach(board, each, row, scope)


def check_group(rows: dict[str, Any], row: Any, names: tuple[str, str, str]) -> None:
    """Check the places of a tie group, which are those of its members."""
    rank_name, tie_name, prefix = names
    group = [row[rank_name]]
    places = {row[rank_name]}
    if row[tie_name] is not None:
        group = [each[rank_name] for each in rows.values() if each[tie_name] == row[tie_name]]
        # two that share rank 3 have the places 3 and 4
        ranks = [each[rank_name] for each in rows.values()]
        places = {rank + more for rank in group for more in range(ranks.count(rank))}
        REACH["a place of an equal rank"] += places != set(group)
    if row[rank_name] is None:
        assert row[tie_name] is None
        group = []
        places = set()

    assert row[f"shared_{prefix}rank"] == min(places, default=None)
    assert row[f"worst_{prefix}rank"] == max(places, default=None)
    assert row[f"{prefix}tied_with"] == max(0, len(group) - 1)
    assert unfolded(row[f"{prefix}group_ranks"]) == sorted(places)
    if places and sorted(places) != list(range(min(places), max(places) + 1)):
        REACH["a tie group with a gap"] += 1
    REACH["a tie group of several"] += len(group) > 1
    REACH["a second tie group"] += row[tie_name] == 2


def unfolded(words: str) -> list[int]:
    """The ranks that words such as `1, 3–5` name."""
    ranks = []
    for part in filter(None, words.split(", ")):
        first, _, last = part.partition("–")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def check_ties(board: Board, table: Any, rows: dict[str, Any]) -> None:
    """The first group are those that the test does not tell from the best."""
    for name, tie_name in (("return", "tie"), ("alpha", "alpha_tie")):
        if name == "return" and board.rank_by != "total_return":
            continue

        p = table["ties"][name]["p"]
        assert p.keys() <= {card for card in board.series if rows[card]["ranked"]}
        first = {card for card, value in p.items() if value > 0.05}
        assert first == {card for card, row in rows.items() if row[tie_name] == 1 and card in p}


def check_order(board: Board, table: Any) -> None:
    """Rows with a place come first, the better one before the other."""
    column = table["columns"].index(board.rank_by)
    places = []
    for row in table["rows"]:
        value = row["values"][column]
        has_place = row["ranked"] or (row["baseline"] is not None and not row["why"])
        if value is None:
            places.append((2, 0.0))
        else:
            places.append((int(not has_place), -board.better * value))
    assert places == sorted(places)


REACH: Counter[str] = Counter()


def note_reach(board: Board, each: Drawn, row: Any, scope: str) -> None:
    others = [other for other in board.drawn if other is not each]
    same = [other for other in others if row["rank"] is not None]
    ranks = [board.rank(other, board.rank_by, scope, board.better) for other in same]
    REACH["an equal rank"] += row["rank"] is not None and row["rank"] in ranks
    REACH["two ranks that differ"] += None not in (row["rank"], row["alpha_rank"]) and (
        row["rank"] != row["alpha_rank"]
    )
    REACH["no rank by its tier or an erratum"] += each.is_held
    REACH["no rank for want of a figure"] += (
        not each.is_held and not each.is_baseline and row["rank"] is None
    )
    REACH["a rank with a note"] += row["rank"] is not None and bool(each.entry.errata)
    REACH["a rank, but none by alpha"] += row["rank"] is not None and row["alpha_rank"] is None
    REACH["a baseline"] += each.is_baseline
    REACH["ranked without a tie group"] += row["rank"] is not None and row["tie"] is None
    REACH[f"better: {board.better}, by {board.rank_by}"] += 1
    REACH[f"scope: {scope}"] += 1


EXPECTED = {
    "an equal rank",
    "two ranks that differ",
    "no rank by its tier or an erratum",
    "no rank for want of a figure",
    "a rank with a note",
    "a rank, but none by alpha",
    "a baseline",
    "ranked without a tie group",
    "a tie group of several",
    "a tie group with a gap",
    "a place of an equal rank",
    "a second tie group",
    "better: 1, by total_return",
    "better: 1, by sharpe",
    "better: -1, by sharpe",
    "better: 1, by selection_alpha",
    "interval: None",
    "interval: quartiles",
    "interval: 5-95 % of episodes",
    "scope: all",
    "scope: W1",
    "scope: W2",
}


def test_a_table_has_the_figures_places_and_order_of_its_cards() -> None:
    REACH.clear()
    for seed in range(DRAWS):
        board = draw(seed)
        loaded = make_board(
            [each.entry for each in board.drawn], rank_by=board.rank_by, seeds=SEEDS
        )
        tables = ranked_tables(loaded, board.series)
        for scope, table in tables.items():
            rows = {row["card"]: row for row in table["rows"] if row["card"] is not None}
            for each in board.drawn:
                check_figures(board, each, rows[each.entry.card_id], table["columns"], scope)
            check_places(board, rows, scope)
            check_ties(board, table, rows)
            check_order(board, table)

    missing = {name for name in EXPECTED if not REACH[name]}
    assert not missing, f"never met: {sorted(missing)}"
