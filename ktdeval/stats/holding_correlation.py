"""Rank correlation of an account's holdings with the returns that follow.

A holding is the value of a position right after the fills of a day, at the prices of the fills; an
asset that was not bought counts with 0, cash does not count. The return that follows is from that
price to the price at which the position can be changed next, that of the next day's fills. Nothing
after the last fills of an episode is read. In weights, one basis point of NAV is the smallest
difference.

* `assets`: four or more assets are ranked against each other on each day. With
  midranks R of holdings and of returns, the day's figure is cov(R_h, R_r) / var(R_h): Spearman's
  correlation divided by the highest value that it can have when as many holdings are equal (most are
  0). The episode's figure is the mean over days. Of k equal holdings among n assets, it is Glass's
  rank-biserial correlation: 2 / n times the difference of mean ranks between what is held and what
  is not.
* `days`: of three assets or fewer, each is compared with itself over days. R_r compares a return with
  the asset's last 60 returns before the fills, R_h the weight with those of the episode's earlier
  days: (smaller - larger) / number, -1 … 1. Ranks within the whole episode would use its future,
  and give who buys after falls a positive correlation by arithmetic (Stambaugh 1999). The
  figure is the slope, sum of R_h * R_r by the sum of R_h squared, over assets and days.

Days are the clusters: figures of several episodes on one calendar day are averaged first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot
from ktdeval.market.venues.venue import FillRule
from ktdeval.stats.betting_bounds import betting_interval, lower_bound
from ktdeval.stats.intervals import Interval
from ktdeval.stats.series import day_rows
from ktdeval.trading.ledger import Ledger
from ktdeval.trading.minute_fills import mean_prices

MIN_ASSETS = 4  #: to rank assets against each other; fewer are compared over days
HISTORY = 60  #: earlier returns with which a return is compared
MIN_HISTORY = 20
EARLIER_WEIGHTS = 5  #: days whose weights are known before a weight is compared with them
FLOOR_LEVEL = 0.99999
"""One-sided level of the floor: among 1,000 accounts without more skill than it, at most 1 % of all
such thousands have one account above it.
"""
_BASIS_POINTS = 1e4
_DECIMALS = 9  # of returns, below which two are equal

NO_NEXT = "no day has fills after it, so that no return follows a holding"
ALL_EQUAL = "on no day did holdings differ among four or more assets with a next price"
ALWAYS_EQUAL = "after the first five days, no holding changed on a day with a next price"


@dataclass(frozen=True, slots=True)
class HoldingCorrelation:
    """A rank correlation of holdings with the returns that follow."""

    value: float  #: -1 … 1; 1: perfect order among holdings that differ
    over: Literal["assets", "days"]  #: what is ranked
    days: int  #: calendar days, the clusters
    interval: Interval
    floor: float  #: lower bound at `FLOOR_LEVEL`
    #: Spearman's correlation as it is, mean over days; None over days
    spearman: float | None


@dataclass(frozen=True, slots=True)
class _Day:
    """Figures of one episode on one day; for the fields, see `betting_bounds`."""

    day: np.datetime64
    value: float
    weight: float
    reach: float
    spearman: float = np.nan


def holding_correlation(
    ledgers: Sequence[Ledger], market: MarketSnapshot, codes: Collection[str] = ()
) -> HoldingCorrelation | str:
    """Return the rank correlation over the episodes of one system, or the reason why it is not
    defined. `codes`: assets of the task; none: all members of the universe. Raises DataError if a
    day is unknown to `market`.
    """
    if all(len(ledger.steps) < 2 for ledger in ledgers):
        return NO_NEXT

    prices = _fill_prices(ledgers, market)
    across = _universe_size(ledgers, market, codes) >= MIN_ASSETS
    found: dict[np.datetime64, list[_Day]] = {}
    for ledger in ledgers:
        episode = _Episode.of(ledger, market, prices, codes)
        each = _across_assets(episode) if across else _over_days(episode, prices)
        for day in each:
            found.setdefault(day.day, []).append(day)

    if not found:
        return ALL_EQUAL if across else ALWAYS_EQUAL

    return _summarise(found, "assets" if across else "days")


def _summarise(
    found: Mapping[np.datetime64, Sequence[_Day]], over: Literal["assets", "days"]
) -> HoldingCorrelation:
    """Return the figure over calendar days, each the mean of its episodes."""
    rows = []
    for day in sorted(found):
        parts = [(one.value, one.weight, one.reach, one.spearman) for one in found[day]]
        rows.append(np.mean(parts, axis=0))

    values, weights, reach, spearman = np.array(rows).T
    slope = float(values.sum() / weights.sum())
    low, high = betting_interval(values, weights, reach)
    interval = Interval(low, high, 0.95, "betting, by calendar day", len(rows))

    return HoldingCorrelation(
        value=min(1.0, max(-1.0, slope)),  # a slope over few days may lie outside
        over=over,
        days=len(rows),
        interval=interval,
        floor=lower_bound(values, weights, reach, FLOOR_LEVEL),
        spearman=float(spearman.mean()) if over == "assets" else None,
    )


# ---- an episode


def _fill_prices(ledgers: Sequence[Ledger], market: MarketSnapshot) -> FloatArray:
    """Return the adjusted prices at which orders of each day fill; NaN on days without trading.
    Shape: [T, N].
    """
    no_trade = market.volume == 0
    prices = np.empty(market.open.shape)
    rules = np.array(_fill_rules(ledgers, market))
    for rule in dict.fromkeys(rules.tolist()):
        columns = rules == rule
        if rule == "next_open":
            own = market.adjusted_open
        elif rule in ("next_close", "same_close"):
            own = market.adjusted_close
        else:
            own = mean_prices(market, rule)

        own = np.where(no_trade, np.nan, own)[:, columns]
        if rule == "same_close":  # filled at the close of the decision day, the day before
            own = np.concatenate([np.full_like(own[:1], np.nan), own[:-1]])

        prices[:, columns] = own

    return prices


def _fill_rules(ledgers: Sequence[Ledger], market: MarketSnapshot) -> list[FillRule]:
    """Return the rule for each asset's fills. Shape: [N].

    A ledger knows those of the assets that it traded. An account may set one venue for all assets;
    if all that traded have one rule, it is that of all.
    """
    known: dict[str, FillRule] = {}
    for ledger in ledgers:
        for code, scale in ledger.scales.items():
            known[code] = scale.fill

    different = set(known.values())
    if not different:
        return ["next_open"] * len(market.codes)
    if len(different) == 1:
        return list(different) * len(market.codes)

    rules = []
    for code, venue in zip(market.codes, market.venues, strict=True):
        rules.append(known.get(code, market.rules[venue].fill))
    return rules


def _universe_size(
    ledgers: Sequence[Ledger], market: MarketSnapshot, codes: Collection[str]
) -> int:
    """Return the number of assets of the task or, without a list, the most members on a day."""
    if codes:
        return len(codes)

    rows = np.concatenate([day_rows(market, ledger.days) for ledger in ledgers])
    return int(market.member[rows].sum(axis=1).max())


@dataclass(frozen=True, slots=True)
class _Episode:
    """Holdings and the returns that follow, for all steps but the last."""

    rows: npt.NDArray[np.int64]  #: [T] of the fills in the market
    days: npt.NDArray[np.datetime64]  #: [T] of the fills
    weights: FloatArray  #: [T, N] whole basis points of NAV after the fills; NaN: no price
    #: [T, N] NaN outside the universe, or without a price on the day or on the next
    returns: FloatArray

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        market: MarketSnapshot,
        prices: FloatArray,
        codes: Collection[str],
    ) -> _Episode:
        """Return the holdings and returns of one ledger. `prices`: `_fill_prices`."""
        rows = day_rows(market, ledger.days)
        weights = _weights(ledger, market, prices, rows)
        universe = market.member[rows]
        if codes:
            columns = [market.asset_index[code] for code in codes if code in market.asset_index]
            is_subject = np.zeros(len(market.codes), dtype=np.bool_)
            is_subject[columns] = True
            universe = universe & is_subject

        with np.errstate(divide="ignore", invalid="ignore"):
            returns = np.round(prices[rows[1:]] / prices[rows[:-1]] - 1.0, _DECIMALS)

        is_used = np.isfinite(returns) & (universe | (weights != 0.0))[:-1]
        returns[~is_used] = np.nan
        has_nav = ledger.column("open_nav_minor")[:-1] > 0
        returns[~has_nav] = np.nan
        return cls(rows[:-1], ledger.days[:-1], weights[:-1], returns)


def _weights(
    ledger: Ledger, market: MarketSnapshot, prices: FloatArray, rows: npt.NDArray[np.int64]
) -> FloatArray:
    """Return the holdings at the prices of the fills, in whole basis points of NAV; negative for
    shorts, NaN for what is held without a price on the day. Shape: [T, N].

    A position's value at the close has risen with the day. Ranked by it, any account would seem to
    foresee the part of the next return that lies between fill and close.
    """
    weights = np.zeros((len(rows), len(market.codes)))
    for number, (row, step) in enumerate(zip(rows.tolist(), ledger.steps, strict=True)):
        for held in step.positions:
            column = market.asset_index[held.code]
            since_fill = prices[row, column] / market.adjusted_close[row, column]
            nav = step.open_nav_minor if step.open_nav_minor > 0 else np.nan
            share = held.value_minor * since_fill / nav
            weights[number, column] = np.rint(share * _BASIS_POINTS)

    return weights


# ---- across assets


def _across_assets(episode: _Episode) -> Iterator[_Day]:
    """Yield the rank correlation of each day on which four assets have a return and holdings
    differ.
    """
    for day, weights, returns in zip(episode.days, episode.weights, episode.returns, strict=True):
        is_known = np.isfinite(returns)
        if int(is_known.sum()) < MIN_ASSETS:
            continue

        held = _centred_ranks(weights[is_known])
        earned = _centred_ranks(returns[is_known])
        spread = float(held @ held)
        spread_earned = float(earned @ earned)
        if spread == 0.0 or spread_earned == 0.0:
            continue

        product = float(held @ earned)
        spearman = product / math.sqrt(spread * spread_earned)
        yield _Day(day, product / spread, 1.0, 1.0, spearman)


def _centred_ranks(values: FloatArray) -> FloatArray:
    """Return midranks less their mean. Shape: [n]."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    midranks = last - (sizes - 1) / 2.0
    centred: FloatArray = midranks[group] - (len(values) + 1) / 2.0
    return centred


# ---- over days


def _over_days(episode: _Episode, prices: FloatArray) -> Iterator[_Day]:
    """Yield the products of ranks over days, as means over the assets, for each day on which a
    weight differs from earlier ones.
    """
    columns = np.flatnonzero(np.isfinite(episode.returns).any(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = np.round(prices[1:, columns] / prices[:-1, columns] - 1.0, _DECIMALS)

    for number in range(EARLIER_WEIGHTS, len(episode.rows)):
        held = []
        earned = []
        for place, column in enumerate(columns.tolist()):
            # the change to a row lies one row earlier; that to the fills is the last one known
            past = changes[: episode.rows[number], place]
            past = past[np.isfinite(past)][-HISTORY:]
            change = episode.returns[number, column]
            if len(past) < MIN_HISTORY or not np.isfinite(change):
                continue

            earlier = episode.weights[:number, column]
            earlier = earlier[np.isfinite(earlier)]
            if not len(earlier):
                continue

            held.append(_rank_among(earlier, episode.weights[number, column]))
            earned.append(_rank_among(past, change))

        ranks = np.array(held)
        if ranks.any():
            value = float(np.mean(ranks * np.array(earned)))
            reach = float(np.mean(np.abs(ranks)))
            yield _Day(episode.days[number], value, float(np.mean(ranks**2)), reach)


def _rank_among(earlier: FloatArray, value: float) -> float:
    """Return where a value lies among earlier ones: -1 below all, 1 above all."""
    smaller = int(np.count_nonzero(earlier < value))
    larger = int(np.count_nonzero(earlier > value))
    return (smaller - larger) / len(earlier)
