"""Market breadth on a day: how many members rise, and which sectors are strongest and weakest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ktdeval.masking import Payload, SectorRef
from ktdeval.values import group_by_place, places, whole_groups
from ktdeval_ktdfin.day_context import BREADTH, HORIZONS, day_context, sector_names
from ktdeval_ktdfin.market_day import MarketDay

SECTORS_SHOWN = 6
SECTOR_COLUMNS = (
    "sector",
    "members",
    "return_1d_pct",
    "return_5d_pct",
    "return_20d_pct",
    "advancing_pct",
)


def breadth(market: MarketDay) -> Payload:
    """Return how many members advance, decline, are suspended or are at a price limit, with the
    median return and the traded value.
    """
    member = market.member
    is_up, is_down = market.limit_moves
    counted = dict(zip(BREADTH, day_context(market)["breadth"].tolist(), strict=True))

    return {
        "members": int(counted["members"]),
        "advancing": int(counted["advancing"]),
        "declining": int(counted["declining"]),
        "suspended": int(counted["suspended"]),
        "limit_up": int((member & is_up).sum()),
        "limit_down": int((member & is_down).sum()),
        "median_return_1d_pct": market.market_figure(counted["median_return_1d_pct"]),
        "amount_cny": market.market_figure(counted["amount_cny"]),
        "amount_vs_20d_mean": market.market_figure(counted["amount_vs_20d_mean"]),
    }


@dataclass(frozen=True, slots=True)
class SectorTone:
    """Sectors that have members on a day, ranked by the mean 20-day return of their members."""

    total: int  #: number of sectors
    strongest: Sequence[Sequence[str]]  #: groups of equal sectors, strongest first
    weakest: Sequence[Sequence[str]]  #: groups of equal sectors, weakest first
    #: sector in these groups -> its row, without its name
    row_of: Mapping[str, Sequence[Payload]]

    def rows(
        self, groups: Sequence[Sequence[str]], rank: Mapping[str, int]
    ) -> list[Sequence[Payload]]:
        """Return the rows of `groups`, with tied sectors in the order of the episode's `rank`."""
        rows: list[Sequence[Payload]] = []
        for group in groups:
            for sector in sorted(group, key=rank.__getitem__):
                rows.append((SectorRef(sector), *self.row_of[sector]))

        return rows


def sector_tone(market: MarketDay) -> SectorTone:
    """Return the strongest and the weakest sectors on a day."""
    sectors = sector_names(market.view.industries)
    table = day_context(market)["sectors"]
    figures = table[:, 1:].tolist()
    members = table[:, 0].astype(np.int64).tolist()
    filled = [number for number, count in enumerate(members) if count]
    # A sector without a 20-day return is neither strong nor weak. If no sector has a 20-day return,
    # the other figures decide.
    longest = len(HORIZONS) - 1
    shown = [number for number in filled if math.isfinite(figures[number][longest])] or filled
    # Ties are broken by the other figures. Sectors that are equal in all figures are all shown or
    # all omitted.
    returns = [table[shown, 1 + horizon] for horizon in reversed(range(len(HORIZONS)))]
    keys = [*returns, -table[shown, 0], table[shown, -1]]
    groups = group_by_place([sectors[number] for number in shown], places(keys))
    most = min(SECTORS_SHOWN, (len(shown) + 1) // 2)
    strongest = list(whole_groups(groups, most))
    weakest = list(whole_groups(reversed(groups[len(strongest) :]), SECTORS_SHOWN))

    row_of: dict[str, Sequence[Payload]] = {}
    for sector in chain.from_iterable((*strongest, *weakest)):
        number = sectors.index(sector)
        cells = [market.market_figure(value) for value in figures[number]]
        row_of[sector] = (members[number], *cells)

    return SectorTone(len(filled), strongest, weakest, row_of)
