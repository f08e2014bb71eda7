"""What a mask key alone is worth: a baseline that looks at nothing but positions in a list, over many keys.

The baseline buys the first names that a list of the whole universe shows at the first decision, in equal parts, and keeps them to
the end of the window (`builtin/first_listed`). A key gives it a portfolio at random, so its spread over keys is what somebody
gains who may choose the key, and the rank of a card's own key among them says whether that key is a lucky one.

The order is that of the mask, and purchases settle by the executor. Names of a long portfolio that is paid in full do not affect
each other, so each name is bought once by itself; a key's profit is the sum over its names, in whole minor units.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import CardError
from ktdeval.fields import option
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.masking import asset_order
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, recorded_market
from ktdeval.seeds import derive_seed
from ktdeval.trading import MarketTape, Order, TradingConfig, open_account, settle, trading_rules
from ktdeval_compare.entrants import Entrant, Row, Values, by_task, label, recorded_ledger

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
POOLED = "all windows"
INVESTED = 0.98  #: Share of the cash that the baseline spends; the rest covers costs
_LUCKY = 0.975  #: Rank above which a key is named
_NO_MARKET = "the baseline trades on the run's market"


@dataclass(frozen=True)
class KeyOptions:
    """Settings of the spread over keys."""

    keys: int = option(1000, help="mask keys to draw", minimum=20, maximum=100_000)
    positions: int = option(10, help="names that the baseline buys", minimum=1, maximum=1000)


class Purchases(NamedTuple):
    """What a card bought at the first steps of its episodes."""

    bought: int  #: names
    among_first: int  #: of these, names among the first listed
    by_chance: float  #: how many these would be on average if they were drawn from the universe

    def plus(self, other: Purchases) -> Purchases:
        """Return the counts of both."""
        return Purchases(self.bought + other.bought, self.among_first + other.among_first, self.by_chance + other.by_chance)


def key_spread(entrants: Sequence[Entrant], options: KeyOptions) -> Row:
    """Set each card's mask key among many others.

    Returns `spread`, a row for each card and window and one for all windows of a card: quantiles of the baseline's total return
    over keys (`q5` … `q95`), `own` under the card's key and its `rank`, the share of keys that do worse, ties counting half; of
    what the card bought at first steps the counts of `Purchases`. Raises CardError: a card has no key, lies in no run folder, or
    its market is not at hand.
    """
    rows: list[Row] = []
    notes: list[str] = []
    keys = [f"{derive_seed('mask keys of a spread', number, bits=128):032x}" for number in range(options.keys)]
    markets: dict[str, MarketSnapshot] = {}
    for entrant in itertools.chain.from_iterable(map(label, by_task(entrants).values())):
        market = _market(entrant, markets)
        of_card = list(_card_rows(entrant, market, keys, options.positions))
        rows += of_card
        notes += _card_notes(entrant, of_card[-1])
    return {"keys": options.keys, "positions": options.positions, "spread": rows, "notes": notes}


def _market(entrant: Entrant, markets: dict[str, MarketSnapshot]) -> MarketSnapshot:
    """Return the market of a card's run, from `markets` where it was opened before."""
    if not entrant.card.mask_key:
        raise CardError(f"{entrant.path}: has no mask key")
    if not entrant.is_in_run:
        raise CardError(f"{entrant.path}: lies in no run folder, which says where the market is")
    identity = entrant.card.snapshot.id
    if identity not in markets:
        opened = recorded_market(RunFolder.load(entrant.run_folder), load_plugins(), None, _NO_MARKET)
        if isinstance(opened, str):
            raise CardError(f"{entrant.path}: {opened}")
        markets[identity] = opened
    return markets[identity]


def _card_rows(entrant: Entrant, market: MarketSnapshot, keys: Sequence[str], positions: int) -> Iterator[Row]:
    """Rows of the windows that the card's figures pool, then that of all of them: its mean over windows, each that of its seeds."""
    card = entrant.card
    config = trading_rules(card.task.config.get("trading") or {}, "trading rules on the card")
    tape, most = MarketTape.from_snapshot(market, config), min(positions, config.max_positions)
    episodes = {episode.id for episode in card.pooled}
    specs = [spec for spec in RunFolder.load(entrant.run_folder).manifest.specs if spec.id in episodes]
    if not specs:
        raise CardError(f"{entrant.path}: has no finished episode")
    head = {"task": card.task.name, "card": entrant.label, "unit": "fraction", "n": len(keys)}
    by_window: dict[str, list[EpisodeSpec]] = {}
    for spec in specs:
        by_window.setdefault(spec.span.name, []).append(spec)
    returns: list[Values] = []
    purchases: list[Purchases] = []
    for window, of_window in by_window.items():
        profit = profits_of(market, tape, config, of_window[0], most)
        of_seeds, bought = _over_keys(entrant, of_window, market, profit, keys)
        returns.append(of_seeds)
        purchases.append(bought)
        yield {**head, "window": window, **_placed(of_seeds), **bought._asdict()}
    together = functools.reduce(Purchases.plus, purchases)
    yield {**head, "window": POOLED, **_placed(np.mean(returns, axis=0)), **together._asdict()}


def _over_keys(
    entrant: Entrant, specs: Sequence[EpisodeSpec], market: MarketSnapshot, profit: Profits, keys: Sequence[str]
) -> tuple[Values, Purchases]:
    """Return the baseline's total return in a window under each key, and last the card's own: means over the seeds of `specs`."""
    base_row = window_rows(market.days, specs[0].span.first, specs[0].span.last)[0] - 1
    if not market.member[base_row].any():
        raise CardError(f"{entrant.path}: nothing is in the universe before window {specs[0].span.name}; leave the card out")
    returns: list[Values] = []
    bought = Purchases(0, 0, 0.0)
    for spec in specs:
        own = [*keys, spec.mask_key]
        listed = [first_listed(replace(spec, mask_key=key), market, base_row, profit.names) for key in own]
        returns.append(profit.of_each[np.array(listed)].sum(axis=1) / profit.cash)
        codes = [market.codes[asset] for asset in listed[-1]]
        bought = bought.plus(_first_purchases(entrant, spec, codes, market, base_row))
    return np.mean(returns, axis=0), bought


def first_listed(spec: EpisodeSpec, market: MarketSnapshot, base_row: int, count: int) -> list[int]:
    """Return the first members of the universe in the order in which an episode's mask lists them, at its first decision."""
    inside = market.member[base_row]
    return [asset for asset in asset_order(spec.mask_seed, len(market.codes)) if inside[asset]][:count]


class Profits(NamedTuple):
    """What each name brings that is bought at the first open and kept, in minor units."""

    of_each: npt.NDArray[np.int64]  #: [N] assets; 0 where nothing was filled
    cash: int  #: at the start
    names: int  #: how many are bought, each for its part of the cash


def profits_of(market: MarketSnapshot, tape: MarketTape, config: TradingConfig, spec: EpisodeSpec, names: int) -> Profits:
    """Buy each name of the universe by itself at a window's first open, and keep it to the window's end."""
    start, stop = window_rows(market.days, spec.span.first, spec.span.last)
    stop = stop if spec.limit is None else min(stop, start + spec.limit)
    weight = min(config.max_weight, INVESTED / names)
    cash = open_account(config, tape.rules.minor_per_unit)
    of_each = np.zeros(len(market.codes), dtype=np.int64)
    for asset in np.flatnonzero(market.member[start - 1]).tolist():
        order = Order(asset, "BUY", 0.5, "among the first listed", weight)
        booked = settle(cash, tape.day(start), (order,), start - 1)
        for row in range(start + 1, stop):
            if not booked.after.positions:
                break
            booked = settle(booked.after, tape.day(row), (), row - 1)
        of_each[asset] = booked.nav_minor - cash.cash_minor
    return Profits(of_each, cash.cash_minor, names)


def _placed(returns: Values) -> Row:
    """Return quantiles over keys, and the last value, that of the card's own key, among them."""
    others, own = returns[:-1], float(returns[-1])
    places = {f"q{100 * level:g}": float(value) for level, value in zip(LEVELS, np.quantile(others, LEVELS), strict=True)}
    rank = float((others < own).mean() + 0.5 * (others == own).mean())
    return {**places, "sd": float(others.std(ddof=1)), "own": own, "rank": rank}


def _first_purchases(
    entrant: Entrant, spec: EpisodeSpec, listed: Sequence[str], market: MarketSnapshot, base_row: int
) -> Purchases:
    """Count what an episode bought at its first step; nothing where its ledger is not at hand."""
    ledger = recorded_ledger(entrant, spec.id)
    orders = () if isinstance(ledger, str) or not ledger.steps else ledger.steps[0].orders
    bought = {order.code for order in orders if order.side == "BUY" and order.filled_shares}
    return Purchases(len(bought), len(bought & set(listed)), len(bought) * len(listed) / int(market.member[base_row].sum()))


def _card_notes(entrant: Entrant, pooled: Row) -> Iterator[str]:
    """Say when a card's key is among the luckiest."""
    if pooled["rank"] > _LUCKY:
        share = 100 * (1 - pooled["rank"])
        yield (
            f"{entrant.label}: only {share:.2g} % of keys do better for a model that buys the first listed; where the card bought "
            "much more of them than chance gives, its return may be that of a key that was chosen"
        )
