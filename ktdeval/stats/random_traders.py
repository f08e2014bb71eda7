"""Compare an episode with random traders that trade on the same dates with the same turnover and
number of names, but choose the names at random.

A random trader starts with the same cash, and the executor applies the same rules to it. The trader
trades only on days on which the agent had fills:

* For each name that the agent entered, the trader enters a name with the same fraction of NAV. The
  name is drawn from the tradable members that the trader does not hold.
* The trader exits names, drawn from its sellable names, until it holds as many names as the agent.
* For each name to which the agent added or which it reduced, the trader adds to or reduces a name
  drawn from its own holdings, by the same fraction of NAV.

Amounts are rounded to the nearest lot and limited by the maximum weight. If a name's lot does not
fit the amount, another name is drawn. Only the choice of names is random, so the agent's rank among
these paths shows how unusual its selection was, given its activity and costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot
from ktdeval.stats.random_trader_arrays import DrawnMoves, StepMoves, random_orders
from ktdeval.stats.series import Series
from ktdeval.trading.account_arrays import (
    AccountArrays,
    DayArrays,
    arrays_problem,
    execute_arrays,
    open_accounts,
)
from ktdeval.trading.daily_settlement import nav_minor, open_day
from ktdeval.trading.executor import execute
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import Account, Order, Position, Side, TradingConfig
from ktdeval.trading.wide_ratios import InexactArraysError, IntArray
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.progress_reports import Tell, tell_nobody

_TRIES = 8  #: maximum number of names drawn per entry


@dataclass(frozen=True, slots=True)
class EnvelopeSettings:
    """Number of random traders, seed, and quantile levels of their NAV to keep."""

    paths: int = 200
    seed: int = 0
    levels: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class TradingActivity:
    """Activity in which random traders match the agent, as averages over steps."""

    turnover: float  #: annualised two-way turnover, as in `turnover/2` strict
    names: float  #: names held at the close
    cash_ratio: float  #: cash over NAV at the close


@dataclass(frozen=True, slots=True)
class TraderEnvelope:
    """Random traders compared with one episode. `agent` and `random` are the activity of the agent
    and the mean activity of the random traders.
    """

    levels: tuple[float, ...]  #: quantile levels of the bands
    #: [levels, steps + 1] NAV quantiles of the random traders in currency units: the initial cash,
    #: then at each close
    bands: npt.NDArray[np.float64]
    returns: Series  #: [paths] total return of each random trader
    agent_return: float  #: total return of the agent
    #: fraction of random traders that the agent beats, with ties counting half; None with a
    #: `reason`
    rank: float | None
    #: one-sided p-value for "no better than chance": (1 + number of random traders with at least
    #: the agent's return) / (1 + paths)
    p_value: float | None
    agent: TradingActivity
    random: TradingActivity
    seed: int  #: seed of the draws
    reason: str | None = None  #: why there is no rank

    def to_json(self) -> dict[str, JsonValue]:
        """Return the envelope as a JSON object with bands by level."""
        fields: dict[str, JsonValue] = {
            "paths": len(self.returns),
            "seed": self.seed,
            "levels": list(self.levels),
            "bands": self.bands.tolist(),
            "agent_return": self.agent_return,
            "median_return": float(np.median(self.returns)),
            "rank": self.rank,
            "p_value": self.p_value,
            "agent": asdict(self.agent),
            "random": asdict(self.random),
        }
        if self.reason:
            fields["reason"] = self.reason
        return fields


def moves_of(step: StepRecord, held_before: frozenset[str]) -> StepMoves | None:
    """Return the moves in a step, given the codes held at the previous close. None if nothing was
    filled.
    """
    bought: dict[str, int] = {}
    sold: dict[str, int] = {}
    for order in step.fills:
        if order.code is not None and order.filled_shares:
            side = bought if order.side == "BUY" else sold
            side[order.code] = side.get(order.code, 0) + order.notional_minor

    if (not bought and not sold) or step.open_nav_minor <= 0:
        return None

    nav = step.open_nav_minor
    after = {position.code for position in step.positions}
    return StepMoves(
        entries=tuple(minor / nav for code, minor in bought.items() if code not in held_before),
        adds=tuple(minor / nav for code, minor in bought.items() if code in held_before),
        trims=tuple(minor / nav for code, minor in sold.items() if code in after),
        names_after=len(after),
    )


def envelope_problem(ledger: Ledger) -> str | None:
    """Return the reason why an episode can't be compared with random traders, or None."""
    for step in ledger.steps:
        if any(position.shares < 0 for position in step.positions):
            return "the agent sold short, and random traders do not"

    return None


def random_envelope(
    ledger: Ledger,
    market: MarketSnapshot,
    config: TradingConfig,
    settings: EnvelopeSettings | None = None,
    tape: MarketTape | None = None,
    tell: Tell = tell_nobody,
) -> TraderEnvelope:
    """Run random traders over the days of a ledger, on its snapshot and under its rules.

    All traders are executed at once as arrays, day by day. This is not possible if there is an
    `arrays_problem` or amounts are too large for exact floats. Traders are then executed one by
    one, with the same result, and `tell` is called with the reason before each day. `tape`: the
    snapshot's tape under `config`, if already available. Raises DataError if the ledger's days are
    not days of `market`, or there is an `envelope_problem`.
    """
    problem = envelope_problem(ledger)
    if problem is not None:
        raise DataError(f"no random traders: {problem}")

    settings = settings or EnvelopeSettings()
    tape = tape or MarketTape.from_snapshot(market, config)
    days = list(_played_days(ledger, market, tape))
    cash = ledger.initial_cash_minor
    played = None
    why = arrays_problem(tape.rules)
    if why is None:
        try:
            played = _play(days, _TraderArrays(cash, config, settings), tell_nobody)
        except InexactArraysError as error:
            why = str(error)

    if played is None:
        name = f"random traders are executed one by one: {why}"
        singles = _SingleTraders(cash, config, settings)
        played = _play(days, singles, lambda _, done, total: tell(name, done, total))

    nav = np.empty((settings.paths, len(days) + 1))
    nav[:, 0] = cash
    nav[:, 1:] = np.transpose(played.nav)
    count = max(len(days) * settings.paths, 1)
    random = TradingActivity(
        ledger.days_a_year * (played.turnover / count),
        played.names / count,
        played.cash_ratio / count,
    )
    trades = sum(moves is not None for _, moves in days)
    return _envelope_of_paths(ledger, nav / ledger.minor_per_unit, settings, random, trades)


def _played_days(
    ledger: Ledger, market: MarketSnapshot, tape: MarketTape
) -> Iterator[tuple[TradingDay, StepMoves | None]]:
    """Yield each fill day in a ledger with the agent's moves on that day."""
    held: frozenset[str] = frozenset()
    for step in ledger.steps:
        yield tape.day(market.day_index(step.filled_on)), moves_of(step, held)
        held = frozenset(position.code for position in step.positions)


@dataclass(frozen=True, slots=True)
class _DayFigures:
    """Figures for P traders on one day, each [P]."""

    turnover: FloatArray  #: notional of the fills over NAV at the open
    nav: FloatArray  #: NAV at the close, in minor units
    names: FloatArray  #: number of names held at the close
    cash_ratio: FloatArray  #: cash over NAV at the close; 0 without NAV


class _Traders(Protocol):
    """Random traders that go through a ledger's days."""

    def trade(self, day: TradingDay, moves: StepMoves | None) -> _DayFigures:
        """Bring all traders to the close of the next day. `moves`: None if nobody trades."""


@dataclass(frozen=True, slots=True)
class _Played:
    """Results of random traders over D days."""

    nav: FloatArray  #: [D, P] NAV at the closes, in minor units
    turnover: float  #: sum over days and traders, like the next two fields
    names: float
    cash_ratio: float


def _play(
    days: Sequence[tuple[TradingDay, StepMoves | None]], traders: _Traders, tell: Tell
) -> _Played:
    navs = []
    turnover = names = cash_ratio = 0.0
    for done, (day, moves) in enumerate(days):
        tell("random players", done, len(days))
        figures = traders.trade(day, moves)
        navs.append(figures.nav)
        turnover = _add_in_order(turnover, figures.turnover)
        names = _add_in_order(names, figures.names)
        cash_ratio = _add_in_order(cash_ratio, figures.cash_ratio)

    return _Played(np.array(navs), turnover, names, cash_ratio)


def _add_in_order(total: float, values: FloatArray) -> float:
    """Add values to a total one by one. Pairwise summation would give different last bits."""
    return float(np.add.accumulate(np.concatenate([[total], values]))[-1])


class _TraderArrays:
    """Random traders executed as arrays."""

    def __init__(self, cash: int, config: TradingConfig, settings: EnvelopeSettings) -> None:
        self._config = config
        self._rng = np.random.default_rng(settings.seed)
        self._accounts = AccountArrays.open(cash, settings.paths)

    def trade(self, day: TradingDay, moves: StepMoves | None) -> _DayFigures:
        """Bring all traders to the close of the next day."""
        arrays = DayArrays(day)
        accounts = open_accounts(self._accounts, arrays)
        turnover = np.zeros(len(accounts.cash))
        if moves is not None:
            nav = arrays.nav(accounts, arrays.opens)
            chances = self._rng.random((len(nav), _max_draws(moves, self._config)))
            drawn = DrawnMoves(moves, chances, _TRIES, self._config.max_weight)
            sells, buys = random_orders(accounts, arrays, nav, drawn)
            accounts, traded = execute_arrays(accounts, arrays, nav, sells, buys)
            turnover = _shares_of_nav(traded, nav)

        self._accounts = accounts
        nav = arrays.nav(accounts, arrays.closes)
        return _DayFigures(
            turnover,
            nav.astype(np.float64),
            accounts.names.astype(np.float64),
            _shares_of_nav(accounts.cash, nav),
        )


def _shares_of_nav(amounts: IntArray, nav: IntArray) -> FloatArray:
    """Return amounts as fractions of NAV; 0 without NAV. Shape: [P]."""
    return np.divide(amounts, nav, out=np.zeros(len(nav)), where=nav > 0)


class _SingleTraders:
    """Random traders executed one by one."""

    def __init__(self, cash: int, config: TradingConfig, settings: EnvelopeSettings) -> None:
        self._config = config
        self._rng = np.random.default_rng(settings.seed)
        self._accounts = [Account(cash, {})] * settings.paths

    def trade(self, day: TradingDay, moves: StepMoves | None) -> _DayFigures:
        """Bring all traders to the close of the next day."""
        paths = len(self._accounts)
        turnover, nav, names, cash_ratio = np.zeros((4, paths))
        trader = None
        if moves is not None:
            trader = _RandomTrader(day, self._config, moves, self._rng, paths)

        for path in range(paths):
            account, _, _ = open_day(self._accounts[path], day)
            if trader is not None:
                account, turnover[path] = trader.trade(path, account)

            self._accounts[path] = account
            worth = nav_minor(account, day.close_ticks, day.rules.units)
            nav[path] = worth
            names[path] = len(account.positions)
            if worth:
                cash_ratio[path] = account.cash_minor / worth

        return _DayFigures(turnover, nav, names, cash_ratio)


def _max_draws(moves: StepMoves, config: TradingConfig) -> int:
    """Return the maximum number of draws that a trader may need on a day."""
    # A trader's number of names may differ from the agent's number, so it may have more names to
    # exit than the agent had.
    exits = config.max_positions + len(moves.entries)
    return _TRIES * len(moves.entries) + exits + len(moves.adds) + len(moves.trims)


class _RandomTrader:
    """A day for random traders that are executed one by one."""

    def __init__(
        self,
        day: TradingDay,
        config: TradingConfig,
        moves: StepMoves,
        rng: np.random.Generator,
        paths: int,
    ) -> None:
        self.day = day
        self.config = config
        self.moves = moves

        flags = zip(day.member, day.tradable, day.limit_up, strict=True)
        self.buyable = []
        for asset, (member, tradable, up) in enumerate(flags):
            if member and tradable and not up:
                self.buyable.append(asset)

        draws = _max_draws(moves, config)
        self._chances: list[list[float]] = rng.random((paths, draws)).tolist()

    def trade(self, path: int, account: Account) -> tuple[Account, float]:
        """Return one trader's account after its fills, and its turnover as a fraction of its NAV.
        `account`: the account at the open.
        """
        nav = nav_minor(account, self.day.open_ticks, self.day.rules.units)
        if nav <= 0:
            return account, 0.0

        orders = self.orders(path, account.positions, nav)
        after, outcomes = execute(account, self.day, orders)
        traded = sum(outcome.notional_minor for outcome in outcomes)
        return after, traded / nav

    def orders(self, path: int, held: Mapping[int, Position], nav: int) -> tuple[Order, ...]:
        """Return random orders that match the agent's fills, for a trader with these positions and
        this NAV at the open.
        """
        day = self.day
        moves = self.moves
        chance = iter(self._chances[path])
        sellable = [
            asset for asset in sorted(held) if day.tradable[asset] and not day.limit_down[asset]
        ]
        orders = []

        surplus = max(len(held) + len(moves.entries) - moves.names_after, 0)
        for _ in range(min(surplus, len(sellable))):
            asset = sellable.pop(int(next(chance) * len(sellable)))
            orders.append(_random_order(asset, "SELL", held[asset].shares))

        trimmed = sellable.copy()
        for amount in moves.trims[: len(trimmed)]:
            asset = trimmed.pop(int(next(chance) * len(trimmed)))
            lot = day.rules.terms[asset].lot
            most = (held[asset].shares - 1) // lot * lot  # a trim keeps at least one lot
            shares = min(self._lots(asset, amount * nav), most)
            if shares > 0:
                orders.append(_random_order(asset, "SELL", shares))

        own = [asset for asset in trimmed if day.member[asset] and not day.limit_up[asset]]
        for amount in moves.adds[: len(own)]:
            asset = own.pop(int(next(chance) * len(own)))
            orders += self._buy(asset, amount, nav, held[asset].shares)

        taken = set(held)
        for amount in moves.entries:
            # All tries are drawn, whether used or not, so that later draws do not depend on them.
            tries = [next(chance) for _ in range(_TRIES)]
            orders += self._enter(amount, nav, taken, tries)

        return tuple(orders)

    def _enter(
        self, amount: float, nav: int, taken: set[int], chances: Sequence[float]
    ) -> list[Order]:
        if not self.buyable:
            return []

        for chance in chances:
            asset = self.buyable[int(chance * len(self.buyable))]
            if asset in taken:
                continue

            order = self._buy(asset, amount, nav, 0)
            if order:
                taken.add(asset)
                return order

        return []

    def _buy(self, asset: int, amount: float, nav: int, held: int) -> list[Order]:
        """Return a buy for this fraction of NAV, up to the maximum weight. No order if it would be
        below the minimum order.
        """
        terms = self.day.rules.terms[asset]
        unit = self.day.rules.units[asset]
        most = int(self.config.max_weight * nav) * unit // self.day.open_ticks[asset]
        room = most - held
        shares = min(self._lots(asset, amount * nav), room // terms.lot * terms.lot)

        if shares < terms.min_buy:
            return []
        return [_random_order(asset, "BUY", shares)]

    def _lots(self, asset: int, value_minor: float) -> int:
        """Return the shares worth `value_minor` at the open, rounded to the nearest lot, because
        rounding down would reduce the turnover.
        """
        rules = self.day.rules
        lot = rules.terms[asset].lot
        lots = value_minor * rules.units[asset] / self.day.open_ticks[asset] / lot
        return int(lots + 0.5) * lot


def _random_order(asset: int, side: Side, shares: int) -> Order:
    return Order(asset, side, 0.5, "random trader", None, shares)


def rank_among(own: float, others: FloatArray) -> tuple[float, float]:
    """Return the fraction of [n] values that `own` exceeds, with ties counting half, and a
    one-sided p-value: (1 + number of values at least as large) / (1 + n).
    """
    rank = float((others < own).mean() + 0.5 * (others == own).mean())
    # One is added to both counts, so that a finite sample never gives a p-value of 0.
    p_value = float((1 + (others >= own).sum()) / (1 + len(others)))
    return rank, p_value


def _envelope_of_paths(
    ledger: Ledger,
    nav: npt.NDArray[np.float64],
    settings: EnvelopeSettings,
    random: TradingActivity,
    trades: int,
) -> TraderEnvelope:
    returns = nav[:, -1] / nav[:, 0] - 1.0
    own = float(ledger.nav[-1] / ledger.nav[0] - 1.0)
    rank: float | None = None
    p_value: float | None = None
    reason = None

    if trades:
        rank, p_value = rank_among(own, returns)
    elif ledger.steps:
        reason = "no order was filled"
    else:
        reason = "no steps"

    bands = np.quantile(nav, settings.levels, axis=0)
    return TraderEnvelope(
        settings.levels,
        bands,
        returns,
        own,
        rank,
        p_value,
        _agent_activity(ledger),
        random,
        settings.seed,
        reason,
    )


def _agent_activity(ledger: Ledger) -> TradingActivity:
    steps = [step for step in ledger.steps if step.open_nav_minor > 0 and step.nav_minor > 0]
    n = max(len(steps), 1)
    traded = math.fsum(step.traded_minor / step.open_nav_minor for step in steps)
    names = sum(len(step.positions) for step in steps)

    return TradingActivity(
        ledger.days_a_year * traded / n,
        names / n,
        math.fsum(step.cash_minor / step.nav_minor for step in steps) / n,
    )
