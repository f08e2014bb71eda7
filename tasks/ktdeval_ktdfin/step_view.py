"""One step as seen through a market view: the day's market, the account, and how the episode's mask
shows both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ktdeval.harness import HarnessConfig
from ktdeval.market import DAILY_LIMIT_PCT, Board, BoolArray, FloatArray, MarketSnapshot, MarketView
from ktdeval.masking import Lens, Payload, TextMask
from ktdeval.trading import Account, MarketRules, TradingConfig, TradingDay, limit_ppm
from ktdeval_ktdfin.market_day import TICKS_PER_CNY, IntArray, MarketDay


@dataclass(frozen=True)
class EpisodeStage:
    """Parts of an episode that do not change from step to step."""

    lens: Lens
    harness: HarnessConfig
    trading: TradingConfig
    #: [N] distance from the previous close at which trading stops, in parts per million
    limit_ppm: IntArray
    price_limit_pct: Mapping[str, float]  #: `limit_stop_pct` by board, for the assets' boards
    rules: MarketRules
    #: [N] each asset's rank in `lens.order`, used by lists that have no order of their own
    rank: IntArray
    #: industry name -> rank among industries by first appearance in `lens.order`, independent of
    #: names
    sector_rank: Mapping[str, int]
    code_column: Mapping[str, int]
    texts: TextMask

    @cached_property
    def day_key(self) -> str:
        """Key under which episodes with equal price limits share a day."""
        return f"ktdfin day {sorted(self.price_limit_pct.items())}"

    @classmethod
    def open(
        cls, snapshot: MarketSnapshot, lens: Lens, limits: tuple[HarnessConfig, TradingConfig]
    ) -> EpisodeStage:
        """Prepare an episode from a snapshot's static data."""
        harness, trading = limits
        sectors = dict.fromkeys(snapshot.industries[asset] for asset in lens.order)

        limit_of: dict[Board, int] = {}
        price_limit_pct: dict[str, float] = {}
        for board in Board:
            # KTD-Fin Appendix H
            limit_of[board] = limit_ppm(board, trading)
            if board in snapshot.boards:
                price_limit_pct[str(board)] = limit_stop_pct(board, trading)

        limits_ppm = [limit_of[board] for board in snapshot.boards]
        return cls(
            lens=lens,
            harness=harness,
            trading=trading,
            limit_ppm=np.array(limits_ppm, dtype=np.int64),
            price_limit_pct=price_limit_pct,
            rules=MarketRules.of(snapshot, trading),
            rank=np.array(lens.rank, dtype=np.int64),
            sector_rank={name: index for index, name in enumerate(sectors)},
            code_column=snapshot.asset_index,
            texts=TextMask(lens, snapshot),
        )


def limit_stop_pct(board: Board, trading: TradingConfig) -> float:
    """Return the move from the previous close to the open, in per cent, at which a board stops
    trading.
    """
    return round(DAILY_LIMIT_PCT[board] - trading.limit_buffer_pct, 6)


class ResearchStep:
    """Market and account at the close of one decision day (`number` 0 is the first day). Research
    tools receive this object as their first argument.
    """

    def __init__(
        self, stage: EpisodeStage, number: int, view: MarketView, account: Account
    ) -> None:
        self.stage = stage
        self.number = number
        self.view = view
        self.account = account

    @cached_property
    def shown_view(self) -> MarketView:
        """Market on this day, rounded to the mask's digits."""
        return self.stage.lens.figures.as_shown(self.view)

    @cached_property
    def market(self) -> MarketDay:
        """Market on this day, shared by all episodes whose masks show figures as they are."""
        limits = self.stage.limit_ppm
        shown = self.shown_view
        return shown.derive_figures(self.stage.day_key, lambda: MarketDay(self.view, limits, shown))

    @property
    def has_bar(self) -> BoolArray:
        """[N] True where the asset trades on this day."""
        return self.market.has_bar

    @property
    def marks_cny(self) -> FloatArray:
        """[N] last close in today's share terms, in CNY per share; NaN before the first bar."""
        return self.market.closes.marks

    @property
    def previous_cny(self) -> FloatArray:
        """[N] last close before this day in today's share terms, in CNY per share. Today's price
        limits refer to this close.
        """
        return self.market.closes.previous

    @property
    def limit_up(self) -> BoolArray:
        """[N] True where the close is too near the upper price limit to buy."""
        return self.market.limit_moves[0]

    @property
    def limit_down(self) -> BoolArray:
        """[N] True where the close is too near the lower price limit to sell."""
        return self.market.limit_moves[1]

    @property
    def member(self) -> BoolArray:
        """[N] True where the asset is in the index on this day."""
        return self.market.member

    @property
    def candidates(self) -> BoolArray:
        """[N] True where the asset can be bought now: a member that trades and is not limit-up."""
        return self.market.candidates

    def status(self, asset: int) -> str:
        """Return an asset's status at this close: `trading`, `limit_up`, `limit_down`, `suspended`
        or `not_listed`.
        """
        return self.market.statuses[asset]

    @property
    def dims(self) -> Mapping[str, FloatArray]:
        """All figures by which candidates can be ranked and compared: name -> [N], in the units
        shown to models.
        """
        return self.market.dims

    def show_figure(self, name: str, asset: int) -> Payload:
        """Return one figure of `dims` as a payload; null where undefined."""
        return self.market.show_figure(name, asset)

    def share_answer(self, key: Hashable, make: Callable[[], Payload]) -> Payload:
        """Return the result of `make`, which the day's market and `key` must determine. If the mask
        shows figures as they are, the result is text that is rendered once for all episodes.
        """
        if not self.stage.lens.shares_prepared_texts:
            return make()
        return self.market.answer(key, make)

    def in_turn(self, groups: Iterable[Sequence[int]]) -> list[Sequence[int]]:
        """Return groups of equal assets, each group in the episode's shuffled order."""
        return [sorted(group, key=self.stage.rank.__getitem__) for group in groups]

    def known_ticks(self, asset: int) -> int:
        """Return the last close in ticks, as known under the mask; 0 before the first bar. Tool
        results about the account are computed from this price.
        """
        if not self.stage.lens.mask.is_coarse:
            return self.market.close_ticks[asset]

        mark = float(self.marks_cny[asset])
        if np.isnan(mark):
            return 0

        bar_row = self.view.bar_row(asset, self.view.day)
        known = self.stage.lens.figures.known_price(asset, mark, bar_row)
        return round(known * TICKS_PER_CNY)

    def value_fen(self, asset: int, shares: int) -> int:
        """Return the value of a holding at the last close as known under the mask, in fen, rounded
        half up.
        """
        return (shares * self.known_ticks(asset) + 50) // 100

    @cached_property
    def held_fen(self) -> dict[int, int]:
        """Asset -> value of its holding in fen, largest first. The order of equal values does not
        depend on labels.
        """
        positions = self.account.positions
        values = {asset: self.value_fen(asset, held.shares) for asset, held in positions.items()}

        def by_size(asset: int) -> tuple[int, int, int]:
            return -values[asset], -positions[asset].shares, int(self.stage.rank[asset])

        return {asset: values[asset] for asset in sorted(values, key=by_size)}

    @cached_property
    def nav_fen(self) -> int:
        """Cash plus holdings at the last closes, in fen."""
        return self.account.cash_minor + sum(self.held_fen.values())

    @property
    def next_day_at_closes(self) -> TradingDay:
        """Next day, simulated from today: it opens at the last closes as known under the mask, with
        today's suspensions and limit states.
        """
        if self.stage.lens.mask.is_coarse:
            ticks = [self.known_ticks(asset) for asset in range(len(self.marks_cny))]
        else:
            ticks = self.market.close_ticks
        return TradingDay(
            row=self.view.day + 1,
            open_ticks=ticks,
            close_ticks=ticks,
            events={},
            rules=self.stage.rules,
            tradable=self.has_bar.tobytes(),
            member=self.member.tobytes(),
            limit_up=self.limit_up.tobytes(),
            limit_down=self.limit_down.tobytes(),
        )

    def benchmark_return(self, since_row: int) -> float:
        """Return the simple return of the benchmark index from the close of row `since_row` to this
        close.
        """
        levels = self.view.indices[self.view.benchmark_code]
        return float(levels[-1] / levels[since_row] - 1.0)
