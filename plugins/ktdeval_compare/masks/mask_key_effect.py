"""Effect of a mask key: the spread, over many keys, of the return of a baseline that uses only list
positions.

At the first decision, the baseline (`builtin/first_listed`) buys equal amounts of the first names
in the list of the whole universe, and holds them to the end of the window. Each key gives a random
portfolio. So the spread over keys measures how much can be gained by choosing a key, and the rank
of a card's own key shows whether that key was lucky.

The mask determines the list order, and the executor settles the purchases. Names in a fully paid
long portfolio do not affect each other, so each name is simulated only once, on its own. The profit
under a key is the sum over the names bought, in whole minor units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt

from ktdeval.errors import CardError
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.masking import asset_order, listed_assets
from ktdeval.runner import RunFolder
from ktdeval.stats import rank_among
from ktdeval.task_api import EpisodeSpec
from ktdeval.trading import MarketTape, Order, TradingConfig, open_account, settle, trading_rules
from ktdeval.values import derive_seed, option
from ktdeval_compare.pairs.card_markets import CardMarkets
from ktdeval_compare.pairs.compared_cards import (
    EntrantCard,
    Values,
    by_task,
    label,
    recorded_ledger,
)
from ktdeval_compare.ranking.random_players import quantiles_of

POOLED = "all windows"
INVESTED = 0.98  #: share of the cash that the baseline invests; the remainder covers costs
_LUCKY = 0.975  #: a note mentions the key if its rank is above this value
_NO_MARKET = "the baseline trades on the run's market"


@dataclass(frozen=True)
class KeySpreadOptions:
    """Settings for the spread over keys."""

    keys: int = option(1000, help="mask keys to draw", minimum=20, maximum=100_000)
    positions: int = option(10, help="names that the baseline buys", minimum=1, maximum=1000)


@dataclass(frozen=True, slots=True)
class FirstPurchases:
    """Names bought in the first step of a card's episodes, compared with the names listed first."""

    bought: int  #: number of names bought
    among_first: int  #: number of names bought that are among the first listed
    #: expected value of `among_first` if the names were drawn at random from the universe
    by_chance: float

    def plus(self, other: FirstPurchases) -> FirstPurchases:
        """Return the field-by-field sum."""
        return FirstPurchases(
            self.bought + other.bought,
            self.among_first + other.among_first,
            self.by_chance + other.by_chance,
        )


@dataclass(frozen=True, kw_only=True)
class SpreadRow:
    """Total return of the baseline over keys in one window, with the rank of the card's own key."""

    task: str
    card: str
    unit: str = "fraction"
    n: int  #: number of keys
    window: str  #: name of the window, or `POOLED`
    q5: float
    q25: float
    q50: float
    q75: float
    q95: float
    sd: float
    own: float  #: return under the card's own key
    rank: float  #: share of keys with a lower return than the card's own key; ties count half
    bought: int  #: see `FirstPurchases`
    among_first: int
    by_chance: float


@dataclass(frozen=True, kw_only=True)
class KeyReport:
    """Report of `ktdeval compare labels --keys`."""

    keys: int
    positions: int
    #: one row per card and window, and one row per card for all windows
    spread: Sequence[SpreadRow]
    notes: Sequence[str]


def key_spread(entrants: Sequence[EntrantCard], options: KeySpreadOptions) -> KeyReport:
    """Compare each card's mask key with many other keys.

    Raises CardError if a card has no key or is not in a run folder, or if its market can't be read.
    """
    rows: list[SpreadRow] = []
    notes: list[str] = []
    markets = CardMarkets(_NO_MARKET)
    keys = []
    for number in range(options.keys):
        keys.append(f"{derive_seed('mask keys of a spread', number, bits=128):032x}")

    for members in by_task(entrants).values():
        for entrant in label(members):
            if not entrant.card.mask_key:
                raise CardError(f"{entrant.path}: has no mask key")

            market = markets.need(entrant)
            of_card = list(_card_rows(entrant, market, keys, options.positions))
            rows += of_card
            notes += _card_notes(entrant, of_card[-1])

    return KeyReport(keys=options.keys, positions=options.positions, spread=rows, notes=notes)


def _card_rows(
    entrant: EntrantCard, market: MarketSnapshot, keys: Sequence[str], positions: int
) -> Iterator[SpreadRow]:
    """Yield a row for each window that is included in the card's figures, then a row for all
    windows. Returns are means over the seeds of a window, and the last row has means over windows.
    """
    card = entrant.card
    config = trading_rules(card.task.config.get("trading") or {}, "trading rules on the card")
    tape = MarketTape.from_snapshot(market, config)
    most = min(positions, config.max_positions)
    episodes = {episode.id for episode in card.pooled}
    specs = [
        spec for spec in RunFolder.load(entrant.run_folder).manifest.specs if spec.id in episodes
    ]
    if not specs:
        raise CardError(f"{entrant.path}: has no finished episode")

    by_window: dict[str, list[EpisodeSpec]] = {}
    for spec in specs:
        by_window.setdefault(spec.span.name, []).append(spec)

    returns: list[Values] = []
    together = FirstPurchases(0, 0, 0.0)
    for window, of_window in by_window.items():
        profit = profits_of(market, tape, config, of_window[0], most)
        of_seeds, bought = _over_keys(entrant, of_window, market, profit, keys)
        returns.append(of_seeds)
        together = together.plus(bought)
        yield _spread_row(entrant, window, of_seeds, bought)

    yield _spread_row(entrant, POOLED, np.mean(returns, axis=0), together)


def _over_keys(
    entrant: EntrantCard,
    specs: Sequence[EpisodeSpec],
    market: MarketSnapshot,
    profit: HoldingProfits,
    keys: Sequence[str],
) -> tuple[Values, FirstPurchases]:
    """Return the baseline's total return in a window under each key; the last value is the return
    under the card's own key. Values are means over the seeds in `specs`. Also return the card's
    first purchases.
    """
    base_row = window_rows(market.days, specs[0].span.first, specs[0].span.last)[0] - 1
    if not market.member[base_row].any():
        raise CardError(
            f"{entrant.path}: the universe is empty before window {specs[0].span.name}; leave "
            "the card out"
        )

    returns: list[Values] = []
    bought = FirstPurchases(0, 0, 0.0)
    for spec in specs:
        listed = []
        for key in (*keys, spec.mask_key):
            drawn = replace(spec, mask_key=key)
            listed.append(first_listed(drawn, market, base_row, profit.names))

        returns.append(profit.of_each[np.array(listed)].sum(axis=1) / profit.cash)
        codes = [market.codes[asset] for asset in listed[-1]]
        names = len(_list_universe(spec, market, base_row))
        bought = bought.plus(_first_purchases(entrant, spec, codes, names))

    return np.mean(returns, axis=0), bought


def first_listed(spec: EpisodeSpec, market: MarketSnapshot, base_row: int, count: int) -> list[int]:
    """Return the first `count` assets that an episode lists at its first decision."""
    return _list_universe(spec, market, base_row)[:count]


def _list_universe(spec: EpisodeSpec, market: MarketSnapshot, base_row: int) -> list[int]:
    """Return the assets in the universe, in the order in which an episode lists them at its first
    decision.
    """
    order = asset_order(spec.mask_seed, len(market.codes))
    if spec.mode == "memory_only" and spec.mask is not None:
        return listed_assets(order, market.member, spec.mask, base_row)

    inside = market.member[base_row]
    return [asset for asset in order if inside[asset]]


@dataclass(frozen=True, slots=True)
class HoldingProfits:
    """Profit from buying each name at the first open and holding it, in minor units."""

    of_each: npt.NDArray[np.int64]  #: [N assets]; 0 if nothing was filled
    cash: int  #: initial cash
    names: int  #: number of names bought, each for an equal share of the cash


def profits_of(
    market: MarketSnapshot, tape: MarketTape, config: TradingConfig, spec: EpisodeSpec, names: int
) -> HoldingProfits:
    """Buy each name in the universe, on its own, at a window's first open, and hold it to the end
    of the window. `names`: number of names that share the cash, or the size of the universe if that
    is smaller.
    """
    start, stop = window_rows(market.days, spec.span.first, spec.span.last)
    stop = stop if spec.limit is None else min(stop, start + spec.limit)
    names = max(1, min(names, len(_list_universe(spec, market, start - 1))))
    weight = min(config.max_weight, INVESTED / names)
    cash = open_account(config, tape.rules.minor_per_unit)
    of_each = np.zeros(len(market.codes), dtype=np.int64)

    may_be_listed = market.member[start - 1]
    if spec.mode == "memory_only":
        may_be_listed = market.member.any(axis=0)

    for asset in np.flatnonzero(may_be_listed).tolist():
        order = Order(asset, "BUY", 0.5, "among the first listed", weight)
        booked = settle(cash, tape.day(start), (order,), start - 1)
        for row in range(start + 1, stop):
            if not booked.after.positions:
                break

            booked = settle(booked.after, tape.day(row), (), row - 1)

        of_each[asset] = booked.nav_minor - cash.cash_minor

    return HoldingProfits(of_each, cash.cash_minor, names)


def _spread_row(
    entrant: EntrantCard, window: str, returns: Values, purchases: FirstPurchases
) -> SpreadRow:
    """Return the quantiles over keys, and the rank of the last value, the return under the card's
    own key.
    """
    others = returns[:-1]
    own = float(returns[-1])
    rank, _ = rank_among(own, others)
    return SpreadRow(
        task=entrant.card.task.name,
        card=entrant.label,
        n=len(others),
        window=window,
        **quantiles_of(others),
        sd=float(others.std(ddof=1)),
        own=own,
        rank=rank,
        **asdict(purchases),
    )


def _first_purchases(
    entrant: EntrantCard, spec: EpisodeSpec, listed: Sequence[str], names: int
) -> FirstPurchases:
    """Count the names that an episode bought in its first step. The counts are zero if the ledger
    can't be read. `names`: size of the universe.
    """
    ledger = recorded_ledger(entrant, spec.id)
    if isinstance(ledger, str) or not ledger.steps:
        return FirstPurchases(0, 0, 0.0)

    orders = ledger.steps[0].orders
    bought = {order.code for order in orders if order.side == "BUY" and order.filled_shares}
    return FirstPurchases(len(bought), len(bought & set(listed)), len(bought) * len(listed) / names)


def _card_notes(entrant: EntrantCard, pooled: SpreadRow) -> Iterator[str]:
    """Yield a note if a card's key is among the luckiest."""
    if pooled.rank > _LUCKY:
        share = 100 * (1 - pooled.rank)
        yield (
            f"{entrant.label}: only {share:.2g} % of keys do better for a model that buys the first"
            " listed; if the card bought far more of them than by chance, its key may have been"
            " chosen for its return"
        )
