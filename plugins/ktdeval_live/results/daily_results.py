"""Results of an entry: its daily returns, with gaps treated as held, as flat, and by bounds.

A fill day is missing if there was no decision before it. Three results are given:

* **held**: positions are held, as in the account;
* **flat**: the day's return is 0, as if the entrant had been in cash;
* **bounds**: the highest and lowest returns that the missing decision could have led to until the
  orders of the next decision fill (`ktdeval_live.results.missing_decision_bounds`).

Days in the shadow period are recorded but not counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.market import BoolArray, FloatArray, MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.trading import StepRecord, TradingConfig
from ktdeval_live.record.chain import RecordChain
from ktdeval_live.record.entrant_episode import DayAnswer, EntrantMarket, EntryEpisode, answers
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.missing_decision_bounds import AccountMoves, carry_forward, return_bounds


@dataclass(frozen=True)
class EntryResult:
    """Results of one entry over its T fill days, on the market as known now.

    Returns are simple daily returns, as fractions.
    """

    entry: EntrantMarket
    days: tuple[str, ...]  #: [T] ISO fill days
    counted: BoolArray  #: [T] whether the day is after the shadow days and after the entrant joined
    decided: BoolArray  #: [T] whether there was a decision that no gap made void
    active: BoolArray  #: [T] whether there was an order before the day, or a position at its close
    nav: FloatArray  #: [T] NAV in currency units
    held: FloatArray  #: [T] daily returns of the account
    low: FloatArray  #: [T] lowest possible return if a decision is missing; otherwise as `held`
    high: FloatArray  #: [T] highest possible return if a decision is missing; otherwise as `held`
    index: FloatArray | None  #: [T] daily returns of the market's index; None without an index
    buy_and_hold: FloatArray  #: [T] daily returns of an equal-weight Buy & Hold of all assets
    records: tuple[StepRecord, ...]
    currency: str
    days_a_year: int

    @property
    def flat(self) -> FloatArray:
        """[T] returns of the account, set to 0 on days without a decision."""
        return np.where(self.decided, self.held, 0.0)

    @property
    def activity(self) -> float | None:
        """Share of counted days with an order or a position; None without counted days."""
        if not self.counted.any():
            return None
        return float(self.active[self.counted].mean())


def total_return(returns: npt.NDArray[np.float64]) -> float | None:
    """Return the compound return over days, as a fraction; None without days."""
    if not len(returns):
        return None
    return float(np.prod(1.0 + returns) - 1.0)


def settled_sessions(folder: LiveFolder, chain: RecordChain, market: str) -> int:
    """Return the number of decisions in a market whose fill day is frozen, counted from the first
    decision.

    The count ends at the first day that is not frozen.
    """
    frozen = chain.list_frozen_days(market)
    days = folder.schedule(market).days
    count = 0
    for day in days[1:]:
        if day not in frozen:
            break
        count += 1
    return count


def entry_result(
    folder: LiveFolder,
    chain: RecordChain,
    entry: EntrantMarket,
    plugins: Plugins,
    market: MarketSnapshot,
) -> EntryResult:
    """Return the results of an entry on `market`, as known now."""
    settled = settled_sessions(folder, chain, entry.market)
    episode = EntryEpisode(entry, folder, plugins, market)
    episode.settle(chain, settled)

    schedule_days = folder.schedule(entry.market).days
    days = schedule_days[1 : settled + 1]
    ended = answers(chain, entry)
    decided = [ended.get(day, DayAnswer()).counts for day in schedule_days[:settled]]
    nav, account = _nav_and_moves(episode, market)
    first_row = int(np.searchsorted(market.days, np.datetime64(schedule_days[0], "D")))
    is_decided = np.array(decided, dtype=np.bool_)
    joined = _joined_days(entry, days)
    trading = _limits(episode, market)
    low, high = return_bounds(market, trading, first_row, account, joined & ~is_decided)

    return EntryResult(
        entry=entry,
        days=days,
        counted=joined & (np.arange(len(days)) >= entry.plan.shadow_days),
        decided=is_decided,
        active=np.array(
            [bool(record.orders or record.positions) for record in episode.records], dtype=np.bool_
        ),
        nav=nav,
        held=account.whole,
        low=low,
        high=high,
        index=_index_returns(market, first_row, settled),
        buy_and_hold=buy_and_hold(market, first_row, settled),
        records=tuple(episode.records),
        currency=market.currency,
        days_a_year=market.days_a_year,
    )


def _joined_days(entry: EntrantMarket, days: Sequence[str]) -> BoolArray:
    """Return, for each day, whether it is on or after the entrant's first fill day, [T]."""
    first = entry.entrant.first or ""
    return np.array([day >= first for day in days], dtype=np.bool_)


def _limits(episode: EntryEpisode, market: MarketSnapshot) -> TradingConfig:
    """Return the limits on the positions that a missing decision could have led to."""
    task = episode.parts.task
    if not task.scene(episode.spec, market).lens.mask.is_coarse:
        return task.trading
    # An order is sized when it is decided, at prices changed by the mask. When it fills, its weight
    # can therefore be anything that the account can pay for.
    return dataclasses.replace(task.trading, max_weight=1.0)


def _nav_and_moves(
    episode: EntryEpisode, market: MarketSnapshot
) -> tuple[FloatArray, AccountMoves]:
    """Return the [T] NAV in currency units, and the account's moves."""
    ledger = episode.parts.ledger(episode.spec, episode.records)
    before = float(ledger.initial_cash_minor)
    navs = []
    returns = []
    until_open = []
    after_open = []
    weights = np.zeros((len(episode.records), len(market.codes)))
    for number, record in enumerate(episode.records):
        navs.append(record.nav_minor / ledger.minor_per_unit)
        returns.append(record.nav_minor / before - 1.0)
        until_open.append(record.open_nav_minor / before - 1.0)
        after_open.append(record.nav_minor / record.open_nav_minor - 1.0)
        for code, weight in record.weights.items():
            weights[number, market.asset_index[code]] = weight
        before = float(record.nav_minor)

    moves = AccountMoves(np.array(returns), np.array(until_open), np.array(after_open), weights)
    return np.array(navs), moves


def _index_returns(market: MarketSnapshot, first_row: int, days: int) -> FloatArray | None:
    """Return the [T] returns of the benchmark; NaN where a level is missing."""
    if not market.meta.benchmark:
        return None
    levels = market.indices[market.meta.benchmark][first_row : first_row + days + 1]
    return np.asarray(levels[1:] / levels[:-1] - 1.0)


def buy_and_hold(market: MarketSnapshot, first_row: int, days: int) -> FloatArray:
    """Return the [T] returns of an equal-weight portfolio of all assets with a price on
    `first_row`, held from that day's close; missing prices are forward-filled.
    """
    prices = market.adjusted_close[first_row : first_row + days + 1]
    prices = carry_forward(prices[:, np.isfinite(prices[0])])
    if not prices.shape[1]:
        return np.full(days, np.nan)
    worth = (prices / prices[0]).mean(axis=1)
    return np.asarray(worth[1:] / worth[:-1] - 1.0)
