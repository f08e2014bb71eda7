"""Ranks and tie groups of one table, from the daily series of the best.

Groups go by mean daily returns and ranks by the median over episodes, so a group need not be a run of ranks: it says that daily
returns do not tell its members from the best of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval.jsonio import JsonValue
from ktdeval.stats import Ties, tie_groups
from ktdeval_board.entries import Entry
from ktdeval_board.ranking.daily import Cell, Daily, SeriesFacts, mean_by_day, same_days
from ktdeval_board.ranking.describe import ALPHA
from ktdeval_board.rules import Division

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
