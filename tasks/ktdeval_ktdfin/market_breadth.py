"""Market of a day as a whole: how many members rise, and which sectors are strongest and weakest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval.market import FloatArray
from ktdeval.masking import Payload, SectorRef
from ktdeval.values.tie_breaking import grouped, places, whole_groups
from ktdeval_ktdfin.market_day import MarketDay

SECTORS_SHOWN = 6
HORIZONS = (1, 5, 20)
SECTOR_COLUMNS = (
    "sector",
    "members",
    "return_1d_pct",
    "return_5d_pct",
    "return_20d_pct",
    "advancing_pct",
)


def breadth(market: MarketDay) -> Payload:
    """Return how many members advance, decline, are suspended or at a limit, and what they
    traded.
    """
    member = market.member
    has_bar = market.has_bar
    is_up, is_down = market.limit_moves
    trading = member & has_bar
    change = market.dims["return_1d_pct"][trading]
    median = None
    if len(change):
        median = market.market_figure(float(np.median(change)))

    amount = market.view.amount[-20:, member]
    daily = np.where(np.isfinite(amount), amount, 0.0).sum(axis=1)
    mean = float(daily.mean())
    against_mean = None
    if mean > 0:
        against_mean = market.market_figure(float(daily[-1]) / mean)

    return {
        "members": int(member.sum()),
        "advancing": int((change > 0).sum()),
        "declining": int((change < 0).sum()),
        "suspended": int((member & ~has_bar & ~np.isnan(market.closes.marks)).sum()),
        "limit_up": int((member & is_up).sum()),
        "limit_down": int((member & is_down).sum()),
        "median_return_1d_pct": median,
        "amount_cny": market.market_figure(float(daily[-1])),
        "amount_vs_20d_mean": against_mean,
    }


@dataclass(frozen=True, slots=True)
class SectorTone:
    """Sectors with members on a day, by their members' mean 20-day return."""

    total: int  #: how many
    strongest: Sequence[Sequence[str]]  #: groups of equal sectors, the strongest first
    weakest: Sequence[Sequence[str]]  #: groups of equal sectors, the weakest first
    row_of: Mapping[str, Sequence[Payload]]  #: sector -> its row, without its name

    def rows(
        self, groups: Sequence[Sequence[str]], rank: Mapping[str, int]
    ) -> list[Sequence[Payload]]:
        """Return the rows of some groups; equal sectors are ordered by the episode's `rank`."""
        rows: list[Sequence[Payload]] = []
        for group in groups:
            for sector in sorted(group, key=rank.__getitem__):
                rows.append((SectorRef(sector), *self.row_of[sector]))

        return rows


def sector_tone(market: MarketDay) -> SectorTone:
    """Return the strongest and the weakest sectors of a day."""
    sectors = sorted(set(market.view.industries))
    number = {sector: index for index, sector in enumerate(sectors)}
    sector_of = np.array([number[sector] for sector in market.view.industries], dtype=np.int64)
    size = len(sectors)

    def mean_by_sector(values: FloatArray) -> FloatArray:
        used = market.member & np.isfinite(values)
        total = np.bincount(sector_of[used], values[used], size)
        count = np.bincount(sector_of[used], minlength=size)
        with np.errstate(all="ignore"):
            mean: FloatArray = total / count

        return mean

    means = [mean_by_sector(market.dims[f"return_{days}d_pct"]) for days in HORIZONS]
    change = market.dims["return_1d_pct"]
    is_advancing_pct = np.where(change > 0, 100.0, 0.0)
    advancing = mean_by_sector(np.where(np.isfinite(change), is_advancing_pct, np.nan))
    members = np.bincount(sector_of[market.member], minlength=size)
    filled = [number for number in range(size) if members[number]]
    # A sector without a 20-day return is neither strong nor weak; where none has one, the other
    # figures decide.
    shown = [number for number in filled if np.isfinite(means[-1][number])] or filled
    # Ties fall to the other figures; sectors that are equal in all of them are shown all or none.
    keys = [
        *(mean[shown] for mean in reversed(means)),
        -members[shown].astype(np.float64),
        advancing[shown],
    ]
    groups = grouped([sectors[number] for number in shown], places(keys))
    row_of: dict[str, Sequence[Payload]] = {}
    for index in shown:
        figures = [market.market_figure(mean[index]) for mean in (*means, advancing)]
        row_of[sectors[index]] = (int(members[index]), *figures)

    most = min(SECTORS_SHOWN, (len(shown) + 1) // 2)
    strongest = list(whole_groups(groups, most))
    weakest = list(whole_groups(reversed(groups[len(strongest) :]), SECTORS_SHOWN))

    return SectorTone(len(filled), strongest, weakest, row_of)
