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

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import BoolArray, FloatArray, MarketSnapshot
from ktdeval.market.venues.venue import FILLS_OF_MINUTES, FillRule
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
class _Days:
    """Figures of one episode by day, each [days]; for value, weight and reach see
    `betting_bounds`.
    """

    days: npt.NDArray[np.datetime64]
    values: FloatArray
    weights: FloatArray
    reach: FloatArray
    spearman: FloatArray  #: NaN over days


def holding_correlation(
    ledgers: Sequence[Ledger], market: MarketSnapshot, codes: Collection[str] = ()
) -> HoldingCorrelation | str:
    """Return the rank correlation over the episodes of one system, or the reason why it is not
    defined. `codes`: assets of the task; none: all members of the universe. Raises DataError if a
    day is unknown to `market`.
    """
    if all(len(ledger.steps) < 2 for ledger in ledgers):
        return NO_NEXT

    by_ledger = [day_rows(market, ledger.days) for ledger in ledgers]
    rows = np.concatenate(by_ledger)
    across = _universe_size(rows, market, codes) >= MIN_ASSETS
    first = int(rows.min()) if across else 0  # over days, earlier returns are read
    prices = _fill_prices(ledgers, market, slice(first, int(rows.max()) + 1))
    found = []
    for ledger, own in zip(ledgers, by_ledger, strict=True):
        episode = _Episode.of(ledger, own, market, prices, codes)
        found.append(_across_assets(episode) if across else _over_days(episode, prices))

    if not any(len(each.days) for each in found):
        return ALL_EQUAL if across else ALWAYS_EQUAL

    return _summarise(found, "assets" if across else "days")


def _summarise(found: Sequence[_Days], over: Literal["assets", "days"]) -> HoldingCorrelation:
    """Return the figure over calendar days, each the mean of its episodes."""
    days = np.concatenate([each.days for each in found])
    _, place, episodes = np.unique(days, return_inverse=True, return_counts=True)
    values, weights, reach, spearman = (
        np.bincount(place, np.concatenate([getattr(each, name) for each in found])) / episodes
        for name in ("values", "weights", "reach", "spearman")
    )
    slope = float(values.sum() / weights.sum())
    low, high = betting_interval(values, weights, reach)

    return HoldingCorrelation(
        value=min(1.0, max(-1.0, slope)),  # a slope over few days may lie outside
        over=over,
        days=len(values),
        interval=Interval(low, high, 0.95, "betting, by calendar day", len(values)),
        floor=lower_bound(values, weights, reach, FLOOR_LEVEL),
        spearman=float(spearman.mean()) if over == "assets" else None,
    )


# ---- an episode


def _fill_prices(ledgers: Sequence[Ledger], market: MarketSnapshot, rows: slice) -> FloatArray:
    """Return the adjusted prices at which orders of each day fill; NaN on days without trading, and
    outside these rows. Shape: [T, N].
    """
    prices = np.full(market.open.shape, np.nan)
    rules = np.array(_fill_rules(ledgers, market))
    for rule in dict.fromkeys(rules.tolist()):
        own = market.adjusted_close
        if rule == "next_open":
            own = market.adjusted_open
        elif rule in FILLS_OF_MINUTES:
            own = mean_prices(market, rule)

        bars, fills = rows, rows
        if rule == "same_close":  # filled at the close of the decision day, the day before
            bars = slice(max(0, rows.start - 1), rows.stop - 1)
            fills = slice(bars.start + 1, rows.stop)

        traded = np.where(market.volume[bars] == 0, np.nan, own[bars])
        columns = rules == rule
        prices[fills, columns] = traded[:, columns]

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
    rows: npt.NDArray[np.int64], market: MarketSnapshot, codes: Collection[str]
) -> int:
    """Return the number of assets of the task or, without a list, the most members on a day of these
    rows.
    """
    if codes:
        return len(codes)
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
        rows: npt.NDArray[np.int64],
        market: MarketSnapshot,
        prices: FloatArray,
        codes: Collection[str],
    ) -> _Episode:
        """Return the holdings and returns of one ledger. `rows`: its days in the market. `prices`:
        `_fill_prices`.
        """
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


def _across_assets(episode: _Episode) -> _Days:
    """Return the rank correlation of each day on which four assets have a return and holdings
    differ.
    """
    is_known = np.isfinite(episode.returns)
    held = _centred_ranks(episode.weights, is_known)
    earned = _centred_ranks(episode.returns, is_known)
    spreads = (held**2).sum(axis=1)
    spreads_earned = (earned**2).sum(axis=1)

    is_ranked = is_known.sum(axis=1) >= MIN_ASSETS
    is_ranked &= (spreads > 0.0) & (spreads_earned > 0.0)
    products = (held * earned).sum(axis=1)[is_ranked]
    values = products / spreads[is_ranked]
    spearman = products / np.sqrt(spreads[is_ranked] * spreads_earned[is_ranked])
    ones = np.ones(len(values))

    return _Days(episode.days[is_ranked], values, ones, ones, spearman)


def _centred_ranks(values: FloatArray, is_known: BoolArray) -> FloatArray:
    """Return the midranks of each row's known values less their mean; 0 where unknown.
    Shape: [T, N].
    """
    ranks = np.empty(values.shape)
    for row, known in enumerate(np.where(is_known, values, np.nan)):
        ranks[row] = _midranks(known)

    mean = (is_known.sum(axis=1, keepdims=True) + 1) / 2.0
    return np.where(is_known, ranks - mean, 0.0)


def _midranks(values: FloatArray) -> FloatArray:
    """Return the ranks of values from 1 on; equal ones share the mean of theirs. NaN where NaN."""
    is_missing = np.isnan(values)
    ascending = np.sort(values[~is_missing])
    below = np.searchsorted(ascending, values, side="left")
    up_to = np.searchsorted(ascending, values, side="right")
    return np.where(is_missing, np.nan, (below + up_to + 1) / 2.0)


# ---- over days


def _over_days(episode: _Episode, prices: FloatArray) -> _Days:
    """Return the products of ranks over days, as means over the assets, of each day on which a
    weight differs from earlier ones.
    """
    columns = np.flatnonzero(np.isfinite(episode.returns).any(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = np.round(prices[1:, columns] / prices[:-1, columns] - 1.0, _DECIMALS)

    numbers = []
    figures = []
    for number in range(EARLIER_WEIGHTS, len(episode.rows)):
        # the change to a row lies one row earlier; that to the fills is the last one known
        past = changes[: episode.rows[number]]
        held, earned = _ranks_over_days(episode, number, columns, past)
        if held.any():
            numbers.append(number)
            figures.append((np.mean(held * earned), np.mean(held**2), np.mean(np.abs(held))))

    values, weights, reach = np.array(figures).reshape(-1, 3).T
    days = episode.days[np.array(numbers, dtype=np.int64)]
    return _Days(days, values, weights, reach, np.full(len(values), np.nan))


def _ranks_over_days(
    episode: _Episode, number: int, columns: npt.NDArray[np.int64], past: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ranks of weights and of returns, each among its asset's earlier ones, of the
    assets that have enough of both. Shape of both: [assets]. `past`: [T, columns] changes up to the
    fills.
    """
    held = []
    earned = []
    for place, column in enumerate(columns.tolist()):
        changes = past[:, place]
        changes = changes[np.isfinite(changes)][-HISTORY:]
        weights = episode.weights[:number, column]
        weights = weights[np.isfinite(weights)]
        change = episode.returns[number, column]
        if len(changes) >= MIN_HISTORY and len(weights) and np.isfinite(change):
            held.append(_rank_among(weights, episode.weights[number, column]))
            earned.append(_rank_among(changes, change))

    return np.array(held), np.array(earned)


def _rank_among(earlier: FloatArray, value: float) -> float:
    """Return where a value lies among earlier ones: -1 below all, 1 above all."""
    smaller = int(np.count_nonzero(earlier < value))
    larger = int(np.count_nonzero(earlier > value))
    return (smaller - larger) / len(earlier)
