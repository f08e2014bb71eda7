"""One step as seen through a market view: status, returns, factors and marks, each computed once
and only when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ktdeval.attribution import FACTORS, factor_values, filled_forward, last_known
from ktdeval.harness import HarnessConfig
from ktdeval.market import DAILY_LIMIT_PCT, Board, BoolArray, FloatArray, MarketSnapshot, MarketView
from ktdeval.masking import AssetRef, Lens, Payload, TextMask, figure
from ktdeval.trading import Account, MarketRules, TradingConfig, TradingDay, limit_ppm
from ktdeval.values.ties import grouped, places

IntArray = npt.NDArray[np.int64]

TICKS_PER_CNY = 10_000
LOOKBACK_DAYS = 60
AMOUNT_DAYS = 20
PPM = 1_000_000

FACTOR_NAMES = tuple(factor.name for factor in FACTORS)
MEASURE_NAMES = (
    "return_1d_pct",
    "return_5d_pct",
    "return_20d_pct",
    "drawdown_60d_pct",
    "amount_20d_cny",
)
_RETURN_DAYS = {f"return_{days}d_pct": days for days in (1, 5, 20)}
# Returns and ratios to a price are shown in per cent: raw daily means would lose their digits to
# rounding.
_PERCENT_FACTORS = frozenset({"MOM_12_1", "RV_60", "REV_ON", "MOM_ID", "HIGH_52W"})


@dataclass(frozen=True)
class Stage:
    """Parts that do not change within an episode."""

    lens: Lens
    harness: HarnessConfig
    trading: TradingConfig
    #: [N] distance from the previous close at which trading stops, in parts per million
    limit_ppm: IntArray
    price_limit_pct: Mapping[str, float]  #: `limit_stop_pct` of each board that an asset is on
    rules: MarketRules
    #: [N] each asset's rank in `lens.order`: the order of lists that have none of their own
    rank: IntArray
    sector_of: IntArray  #: [N] index into `sectors`
    #: industry names, ordered by the rank of their first asset, which is independent of the name
    sectors: tuple[str, ...]
    code_column: Mapping[str, int]
    texts: TextMask

    @classmethod
    def open(
        cls, snapshot: MarketSnapshot, lens: Lens, limits: tuple[HarnessConfig, TradingConfig]
    ) -> Stage:
        """Prepare an episode from the static facts of a snapshot."""
        harness, trading = limits
        sectors = tuple(dict.fromkeys(snapshot.industries[asset] for asset in lens.order))
        number = {name: index for index, name in enumerate(sectors)}
        sector_of = [number[name] for name in snapshot.industries]

        limit_of: dict[Board, int] = {}
        price_limit_pct: dict[str, float] = {}
        for board in Board:
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
            sector_of=np.array(sector_of, dtype=np.int64),
            sectors=sectors,
            code_column=snapshot.asset_index,
            texts=TextMask(lens, snapshot),
        )


def limit_stop_pct(board: Board, trading: TradingConfig) -> float:
    """Move of a day's open against the previous close at which a board's stocks stop trading, in
    per cent.
    """
    return round(DAILY_LIMIT_PCT[board] - trading.limit_buffer_pct, 6)


class Step:
    """Market and account at the close of one decision day (`number` 0 is the first). Research tools
    get it as first argument.
    """

    def __init__(self, stage: Stage, number: int, view: MarketView, account: Account) -> None:
        self.stage = stage
        self.number = number
        self.view = view
        self.account = account

    @cached_property
    def has_bar(self) -> BoolArray:
        """[N] True where the asset traded this day."""
        view = self.view
        traded: BoolArray = np.isfinite(view.close[view.day]) & (view.volume[view.day] > 0)
        return traded

    @cached_property
    def _closes(self) -> FloatArray:
        """[≤ 61, N] adjusted closes, each filled forward from the last one before it; NaN before an
        asset's first bar.
        """
        history = self.view.adjusted_close
        start = max(0, self.view.day - LOOKBACK_DAYS)
        return filled_forward(history[start:], last_known(history, start))

    @cached_property
    def marks_cny(self) -> FloatArray:
        """[N] last close in today's terms, CNY a share, NaN before the first bar."""
        view = self.view
        close = view.close[view.day]
        last_known = self._closes[-1] / view.factor[view.day]
        marks: FloatArray = np.where(np.isnan(close), last_known, close)
        return marks

    @cached_property
    def previous_cny(self) -> FloatArray:
        """[N] last close before this day in today's terms, CNY a share: what today's price limits
        refer to.
        """
        if len(self._closes) < 2:
            return np.full(len(self.view.codes), np.nan)

        previous: FloatArray = self._closes[-2] / self.view.factor[self.view.day]
        return previous

    @cached_property
    def _limit_moves(self) -> tuple[BoolArray, BoolArray]:
        known = self.has_bar & np.isfinite(self.previous_cny)
        close = _ticks(np.where(known, self.marks_cny, 0.0))
        reference = _ticks(np.where(known, self.previous_cny, 0.0))
        limit = self.stage.limit_ppm

        is_up = known & (close * PPM >= reference * (PPM + limit))
        is_down = known & (close * PPM <= reference * (PPM - limit))
        return is_up, is_down

    @property
    def limit_up(self) -> BoolArray:
        """[N] True where the close is too near the upper price limit to buy."""
        return self._limit_moves[0]

    @property
    def limit_down(self) -> BoolArray:
        """[N] True where the close is too near the lower price limit to sell."""
        return self._limit_moves[1]

    @property
    def member(self) -> BoolArray:
        """[N] True where the asset is in the index this day."""
        member: BoolArray = self.view.member[self.view.day]
        return member

    @cached_property
    def candidates(self) -> BoolArray:
        """[N] True where the asset can be bought as things stand: a member that trades and is not
        limit-up.
        """
        return self.member & self.has_bar & ~self.limit_up

    def status(self, asset: int) -> str:
        """`trading`, `limit_up`, `limit_down`, `suspended` or `not_listed` at this close."""
        if np.isnan(self.marks_cny[asset]):
            return "not_listed"
        if not self.has_bar[asset]:
            return "suspended"
        if self.limit_up[asset]:
            return "limit_up"
        if self.limit_down[asset]:
            return "limit_down"
        return "trading"

    @cached_property
    def dims(self) -> dict[str, FloatArray]:
        """Every figure that candidates can be ranked and compared by: name -> [N], in the units
        that models are shown.
        """
        return self.view.derived("ktdfin dims", self._make_dims)

    def _make_dims(self) -> dict[str, FloatArray]:
        raw = factor_values(self.view).values
        values: dict[str, FloatArray] = {}
        for name in FACTOR_NAMES:
            scale = 100.0 if name in _PERCENT_FACTORS else 1.0
            values[name] = raw[name] * scale

        for name, days in _RETURN_DAYS.items():
            values[name] = self.returns(days) * 100.0

        values["drawdown_60d_pct"] = self._drawdown_pct()
        values["amount_20d_cny"] = self._mean_amount_cny()
        for figures in values.values():  # episodes of all masks share them
            figures.setflags(write=False)

        return values

    def _drawdown_pct(self) -> FloatArray:
        """[N] distance of the close from the highest one of 60 days, in per cent."""
        closes = self._closes
        with np.errstate(all="ignore"):
            highest = np.fmax.reduce(closes[-LOOKBACK_DAYS:], axis=0)
            drawdown: FloatArray = (closes[-1] / highest - 1.0) * 100.0

        return drawdown

    def _mean_amount_cny(self) -> FloatArray:
        """[N] mean amount traded on the days with trade of the last 20, NaN without one."""
        amount = self.view.amount[-AMOUNT_DAYS:]
        usable = np.isfinite(amount) & (amount > 0)
        count = usable.sum(axis=0)
        total = np.where(usable, amount, 0.0).sum(axis=0)
        with np.errstate(all="ignore"):
            mean: FloatArray = np.where(count > 0, total / count, np.nan)

        return mean

    def returns(self, days: int) -> FloatArray:
        """[N] simple close-to-close returns over the last `days` trading days (at most 60), NaN
        where the history is shorter.
        """
        closes = self._closes
        if len(closes) <= days:
            return np.full(closes.shape[1], np.nan)
        change: FloatArray = closes[-1] / closes[-1 - days] - 1.0
        return change

    def shown(self, name: str, asset: int) -> Payload:
        """One of `dims` as a payload, null where it is not defined."""
        value = figure(self.dims[name][asset])
        if value is None:
            return None

        day = self.view.day
        days = _RETURN_DAYS.get(name)
        if days is not None:
            last = self.view.bar_row(asset, day)
            since = self.view.bar_row(asset, day - days)
            if last is not None and since is not None:
                return AssetRef(asset).change_pct(value, last, since)

        return AssetRef(asset).figure(value, name, day)

    def known_ticks(self, asset: int) -> int:
        """Last close in ticks as known under the mask, 0 before the first bar: what answers about
        the account count with.
        """
        mark = float(self.marks_cny[asset])
        if np.isnan(mark):
            return 0

        bar_row = self.view.bar_row(asset, self.view.day)
        known = self.stage.lens.known_price(asset, mark, bar_row)
        return round(known * TICKS_PER_CNY)

    def value_fen(self, asset: int, shares: int) -> int:
        """Value of a holding at the last close as known, in fen, rounded half up."""
        return (shares * self.known_ticks(asset) + 50) // 100

    @cached_property
    def held_fen(self) -> dict[int, int]:
        """Asset -> value of the holding in fen, largest first; equal values in an order that no
        label enters.
        """
        positions = self.account.positions
        values = {asset: self.value_fen(asset, held.shares) for asset, held in positions.items()}

        def by_size(asset: int) -> tuple[int, int, int]:
            return -values[asset], -positions[asset].shares, int(self.stage.rank[asset])

        return {asset: values[asset] for asset in sorted(values, key=by_size)}

    @cached_property
    def nav_fen(self) -> int:
        """Cash and holdings at the last closes, in fen."""
        return self.account.cash_minor + sum(self.held_fen.values())

    @property
    def next_day_at_closes(self) -> TradingDay:
        """Guess the next day from today: opens at the last closes as known, suspensions and limit
        states as they are.
        """
        if self.stage.lens.mask.is_coarse:
            ticks = [self.known_ticks(asset) for asset in range(len(self.marks_cny))]
        else:
            ticks = _ticks(np.nan_to_num(self.marks_cny)).tolist()
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
        """Simple return of the benchmark index from the close of `since_row` to this close."""
        levels = self.view.indices[self.view.benchmark_code]
        return float(levels[-1] / levels[since_row] - 1.0)


def ranked(step: Step, keys: list[FloatArray], pool: BoolArray) -> list[list[int]]:
    """Groups of assets of `pool` ([N]), best first by `keys` ([N] each, most important first,
    larger is better). Ties fall to all factor values, then to the other figures; assets that are
    equal in all of them are one group, in the episode's shuffled order.
    """
    assets = np.flatnonzero(pool)
    assets = assets[np.argsort(step.stage.rank[assets])]
    columns = [*keys, *step.dims.values()]

    return grouped(assets.tolist(), places([column[assets] for column in columns]))


def _ticks(cny: FloatArray) -> IntArray:
    return np.rint(cny * TICKS_PER_CNY).astype(np.int64)
