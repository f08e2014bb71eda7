"""The broker against a slow one written from its documents: equal fills, orders, cash, positions,
fees and daily equity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, reject, settings, strategies as st

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import (
    Bars,
    BorrowRow,
    ContractRow,
    DividendRow,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.pmb.broker import Broker
from ktdeval_qfinzero.pmb.broker_types import Order
from ktdeval_qfinzero.timestamps import MINUTE, Clock, day_start, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours
from support.qfinzero.qfinzero_broker_play import thing
from support.qfinzero.qfinzero_invariants import check_invariants
from support.qfinzero.qfinzero_memory import MemoryPrices
from support.qfinzero.qfinzero_reference_broker import (
    ReferenceBroker,
    Refused,
    Row,
    Spread,
    Terms,
    Ticket,
    World,
)
from support.qfinzero.qfinzero_world import at, small_dataset

pytestmark = pytest.mark.slow

EARLY = at("2024-06-01T00:00:00Z")
STOCKS = ("AVLN", "BRKT", "CSTL")
PRICES = {"AVLN": 200_000, "BRKT": 9_900, "CSTL": 4_000_000}
# Around early closes (Thanksgiving, Christmas), a change of daylight saving time, and a holiday.
BEGINNINGS = (
    date(2024, 11, 25),
    date(2024, 12, 20),
    date(2025, 3, 5),
    date(2025, 1, 6),
    date(2024, 10, 30),
)
FACTORS = ((2, 1), (3, 1), (1, 10), (3, 2), (1, 3))
MARGIN_CODES = {"INSUFFICIENT_BUYING_POWER", "MARGIN_RESTRICTED", "NO_LOCATE", "NO_MARK"}
RICH = 10**12
"""Cash with which nothing is ever refused; with less there is interest, and plays that margin has a
part in are left out.
"""
KINDS = ("MARKET", "LIMIT", "STOP", "STOP_LIMIT")
TERMS = (
    Terms(),
    Terms(
        share_fee=5,
        contract_fee=6_500,
        exercise_fee=1_000,
        slippage_bps=1,
        spread_bps=100,
        volume_pct=10,
        interest_bps=700,
    ),
    Terms(
        share_fee=7,
        contract_fee=99,
        slippage_bps=37,
        spread_bps=333,
        volume_pct=33,
        interest_bps=1_234,
    ),
)


@dataclass(frozen=True)
class Scene:
    """A market with its days of a session, all days, and symbols."""

    world: World
    days: list[date]
    contracts: list[OptionContract]

    @property
    def symbols(self) -> list[str]:
        return [*STOCKS, *(each.symbol for each in self.contracts)]


def scene(seed: int, frequency: str, first: date, count: int) -> Scene:
    """A market with gaps, bars without volume, missing bars, splits and dividends."""
    rng = Random(seed)
    hours = trading_hours()
    row = hours.row_of(first)

    assert row is not None

    days = [hours.day(row + step) for step in range(-1, count + 8)]
    splits = [
        SplitRow(symbol, rng.choice(days[1:-1]), *rng.choice(FACTORS), EARLY)
        for symbol in STOCKS
        if rng.random() < (0.5 if count > 2 else 0.2)
    ]
    ex_days = [
        (symbol, rng.choice(days[1:]), rng.choice((100, 2_500, 37)))
        for symbol in STOCKS
        if rng.random() < 0.6
    ]
    dividends = [DividendRow(symbol, day, day, amount, EARLY) for symbol, day, amount in ex_days]
    strikes = [180_000, 190_000, 195_000, 200_000, 205_000, 220_000]
    contracts = [
        OptionContract("AVLN", rng.choice(days[1:]), rng.choice(strikes), rng.choice("CP"))
        for _ in range(rng.choice((0, 2, 4)))  # type: ignore[arg-type]
    ]
    contracts = sorted(set(contracts))
    world = World(
        {},
        {},
        splits,
        dividends,
        {symbol: [(EARLY, 25), (EARLY + 1, rng.choice((0, 90, 1_111)))] for symbol in STOCKS},
    )

    for symbol in STOCKS:
        _walk(rng, world, symbol, days, frequency)

    for split in splits:
        for contract in list(contracts):
            if contract.underlying == split.symbol and split.old == 1:
                strike = (contract.strike_e4 * 2 + split.new * 100) // (split.new * 200) * 100
                contracts.append(OptionContract("AVLN", contract.expiry, strike, contract.right))

    contracts = sorted(set(contracts))
    for contract in contracts:
        _walk_option(rng, world, contract, days, frequency)

    return Scene(world, days, contracts)


def _bar(rng: Random, opens: int, unit: int) -> Row:
    closes = max(unit, opens + rng.randint(-6, 6) * unit)
    high = max(opens, closes) + rng.choice((0, 0, 1, 3)) * unit
    low = max(1, min(opens, closes) - rng.choice((0, 0, 1, 3)) * unit)
    volume = rng.choice((0, 1, 9, 10, 11, 30, 100, 250, 10_000, 10_000))

    return opens, high, low, closes, volume


def _walk(rng: Random, world: World, symbol: str, days: list[date], frequency: str) -> None:
    price = PRICES[symbol]
    unit = {"AVLN": 100, "BRKT": 1, "CSTL": 5_000}[symbol]
    world.days[symbol], world.minutes[symbol] = {}, {}

    for day in days:
        for split in world.splits:
            if split.symbol == symbol and split.ex_day == day:
                price = max(unit, price * split.old // split.new)
                price -= price % (100 if price >= 10_000 else 1)

        opens = max(unit, price + rng.choice((0, 0, -1, 1, -20, 20)) * unit)
        bar = _bar(rng, opens, unit)
        if day == days[0] or rng.random() < 0.9:
            world.days[symbol][day] = bar
            price = bar[3]

        if frequency == "1m":
            price = _walk_minutes(rng, world.minutes[symbol], day, price, unit)


def _walk_minutes(rng: Random, rows: dict[int, Row], day: date, price: int, unit: int) -> int:
    hours = trading_hours()
    row = hours.row_of(day)

    assert row is not None

    starts = [int(start) for start in hours.minutes(row)]

    for start in (*starts[:5], *starts[60:63], *starts[-4:]):
        if rng.random() < 0.75:
            rows[start] = _bar(rng, max(unit, price + rng.choice((0, 0, 0, -2, 2)) * unit), unit)
            price = rows[start][3]

    return price


def _walk_option(
    rng: Random, world: World, contract: OptionContract, days: list[date], frequency: str
) -> None:
    world.days[contract.symbol], world.minutes[contract.symbol] = {}, {}

    def bar(spot: int) -> Row:
        return _bar(
            rng,
            max(100, contract.intrinsic_e4(spot) // 100 * 100 + rng.choice((-100, 0, 100, 5_000))),
            100,
        )

    for day in days:
        if day <= contract.expiry and day in world.days["AVLN"] and rng.random() < 0.8:
            world.days[contract.symbol][day] = bar(world.days["AVLN"][day][0])

    if frequency == "1m":
        for start, row in world.minutes["AVLN"].items():
            if start < day_start(contract.expiry) + 86_400 * 10**9 and rng.random() < 0.7:
                world.minutes[contract.symbol][start] = bar(row[0])


def dataset_of(scene: Scene) -> Dataset:
    """The market as the broker reads it."""
    world = scene.world
    table = {}

    for symbol in scene.symbols:
        kind: Any = "option" if symbol.startswith("O:") else "stock"
        table[kind, symbol, "day"] = _bars(
            [day_start(day) for day in world.days[symbol]], list(world.days[symbol].values())
        )
        table[kind, symbol, "minute"] = _bars(
            list(world.minutes[symbol]), list(world.minutes[symbol].values())
        )

    fees = []
    for symbol, rows in world.fees.items():
        fees += [BorrowRow(symbol, since, 10**9, bps) for since, bps in rows]

    prices = MemoryPrices(
        table,
        [SymbolRow(symbol, "stock", symbol, "technology", EARLY) for symbol in STOCKS],
        [
            ContractRow(
                each.symbol, each.underlying, each.expiry, each.strike_e4, each.right, EARLY
            )
            for each in scene.contracts
        ],
        (),
        world.dividends,
        world.splits,
        fees,
    )
    small = small_dataset()
    first = scene.days[0]
    last = scene.days[-1]
    info = replace(
        small.info, first_day=first, last_day=last, minute_first_day=first, minute_last_day=last
    )

    return replace(small, info=info, prices=prices)


def _bars(starts: list[int], rows: list[Row]) -> Bars:
    columns = np.array(rows, np.int64).reshape(-1, 5)
    return Bars(
        np.array(starts, np.int64),
        *columns[:, :4].T,
        columns[:, 4].astype(np.float64),
        np.ones(len(starts), np.int64),
    )


def same(what: str, engine: Any, plain: Any) -> None:
    """Both have come to the same; the first difference is told."""
    pairs = zip(engine, plain) if isinstance(engine, list) else ()
    ours, theirs = next(((left, right) for left, right in pairs if left != right), (engine, plain))
    assert engine == plain, f"{what}: the broker has {ours}, the documents say {theirs}"


def shown(order: Order) -> tuple[Any, ...]:
    symbol = order.instrument.symbol
    sign = 1 if order.side == "BUY" else -1
    return (
        symbol,
        sign,
        order.order_type,
        order.qty,
        order.limit_e4,
        order.stop_e4,
        order.filled_qty,
        order.status,
    )


def plainly(ticket: Ticket) -> tuple[Any, ...]:
    return (
        ticket.symbol,
        ticket.sign,
        ticket.kind,
        ticket.qty,
        ticket.limit,
        ticket.stop,
        ticket.filled,
        ticket.status,
    )


class Duel:
    """The two brokers, given the same commands."""

    def __init__(self, scene: Scene, terms: Terms, cash: int, start: int, end: int) -> None:
        self.scene = scene
        self.terms = terms
        self.cash = cash
        begin = trading_hours().close_of(scene.days[0])
        self.dataset = dataset_of(scene)
        self.broker = Broker(self.dataset, Clock(begin))
        self.plain = ReferenceBroker(scene.world, begin, cash)
        account = {"account_type": "MARGIN", "initial_cash": cash / 10_000}
        self.account_id = self.broker.execute("account.create", account).id
        self.ids: list[str] = []
        self.begin(start, end)

    def begin(self, start: int, end: int) -> None:
        expiries = trading_hours().last_expiry_session
        self.contracts = [
            each
            for each in self.scene.contracts
            if trading_hours().close_of(expiries(each.expiry)) > start
        ]
        terms = self.terms
        pcts = [
            f"{side}_{kind}_pct"
            for side, kind in product(("long", "short"), ("initial", "maintenance"))
        ]
        margin = dict.fromkeys([*pcts, "option_short_pct", "option_short_floor_pct"], 1)
        fees = {"stock_per_share_e4": terms.share_fee, "option_per_contract_e4": terms.contract_fee}
        config = {
            "fees": {**fees, "option_exercise_e4": terms.exercise_fee},
            "fills": {
                "slippage_bps": terms.slippage_bps,
                "option_spread_bps": terms.spread_bps,
                "max_volume_pct": terms.volume_pct,
            },
            "margin": {**margin, "short_minimum_e4": 0, "debit_interest_bps": terms.interest_bps},
        }
        universe = {"stocks": list(STOCKS), "options": [each.symbol for each in self.contracts]}
        span = {
            "start_ts": moment_text(start),
            "end_ts": moment_text(end),
            "frequency": terms.frequency,
            "universe": universe,
        }
        asked = {"account_id": self.account_id, **span, "execution_config": config}
        self.session_id = self.broker.execute("session.create", asked).id
        self.plain.begin(start, end, self.terms)

    def both(self, command: str, given: dict[str, Any], plain: Any) -> None:
        """The command to both; both must do it, or both refuse it."""
        given = {"session_id": self.session_id, **given}
        if command != "session.step" and command != "session.stop":
            given["account_id"] = self.account_id

        error = None
        try:
            self.broker.execute(command, given)
        except ServiceError as refusal:
            error = refusal
            if self.cash < RICH and any(code in refusal.message for code in MARGIN_CODES):
                reject()

        try:
            plain()
        except Refused:
            assert error is not None, f"{command} {given} must be refused"
        else:
            assert error is None, f"{command} {given}: {error}"

        self.ids = [order.id for order in self.broker.state.orders.values()]
        self.compare()

    def compare(self) -> None:
        book = self.broker.state
        plain = self.plain
        margin = {order.reason.partition(":")[0] for order in book.orders.values()} & MARGIN_CODES

        if margin or book.sessions[self.session_id].margin_calls:
            assert self.cash < RICH or margin == {"NO_MARK"}, margin
            reject()

        assert self.broker.clock.as_of_ns == plain.now

        number = {order_id: index for index, order_id in enumerate(self.ids)}
        same(
            "fills",
            [(number[each.order_id], each.ts_ns, each.qty, each.price_e4) for each in book.trades],
            plain.trades,
        )
        same(
            "orders",
            [shown(each) for each in book.orders.values()],
            [plainly(each) for each in plain.orders],
        )
        account = book.accounts[self.account_id]
        held = {
            each.instrument.symbol: (each.qty, each.cost_e4, each.realized_e4)
            for each in account.positions.values()
        }
        same(
            "holdings",
            held,
            {symbol: (each.qty, each.cost, each.profit) for symbol, each in plain.holdings.items()},
        )

        for name in ("cash", "fees", "interest", "borrow_fees", "dividends"):
            same(name, getattr(account, f"{name}_e4"), getattr(plain, name))

        history = [
            (date.fromisoformat(each.day), each.cash_e4, each.equity_e4)
            for each in book.days[self.account_id]
        ]
        same("history", history, plain.history)

    def place(self, wish: dict[str, Any]) -> None:
        symbols = [*STOCKS, *(each.symbol for each in self.contracts)]
        symbol = symbols[wish["symbol"] % len(symbols)]
        kind = wish["kind"]
        sign = wish["sign"]
        ticket = Ticket(symbol, sign, kind, wish["qty"], wish["tif"], self.plain.now)
        order: dict[str, Any] = {
            "instrument": thing(symbol),
            "side": "BUY" if sign > 0 else "SELL",
            "order_type": kind,
            "qty": wish["qty"],
            "time_in_force": wish["tif"],
        }

        if "LIMIT" in kind:
            ticket.limit = self._near(symbol, wish["limit"])
            order["limit_price"] = ticket.limit / 10_000

        if "STOP" in kind:
            ticket.stop = self._near(symbol, wish["stop"])
            order["stop_price"] = ticket.stop / 10_000

        if wish["tif"] == "GTD":
            ticket.until = self._later(wish["until"])
            order["expire_ts"] = moment_text(ticket.until)

        self.both("order.place", {"order": order}, lambda: self.plain.place(ticket))

    def spread(self, wish: dict[str, Any]) -> None:
        chosen = dict.fromkeys(["AVLN", *(each.symbol for each in self.contracts)])
        symbols = list(chosen)[wish["symbol"] % len(chosen) :][:3]
        if len(symbols) < 2:
            return

        legs = []
        asked = []
        ratios = []

        for index, symbol in enumerate(symbols):
            ratio = 100 if symbol == "AVLN" else 1 + index
            sign = 1 if (index + (wish["sign"] > 0)) % 2 else -1
            legs.append(
                Ticket(symbol, sign, "MARKET", ratio * wish["units"], "DAY", self.plain.now)
            )
            asked.append(
                {"instrument": thing(symbol), "side": "BUY" if sign > 0 else "SELL", "ratio": ratio}
            )
            ratios.append(ratio)

        given: dict[str, Any] = {"legs": asked, "qty": wish["units"], "time_in_force": "DAY"}
        limit = None
        if wish["limit"]:
            net = (
                sum(
                    leg.sign
                    * ratio
                    * self.plain.marks.get(leg.symbol, 100)
                    * (1 if leg.symbol == "AVLN" else 100)
                    for leg, ratio in zip(legs, ratios, strict=True)
                )
                // 10_000
                * 100
            )
            limit = net + wish["limit"] * 1_000
            given["net_limit_price"] = limit / 10_000

        self.both(
            "spread.place", given, lambda: self.plain.place_spread(Spread(legs, ratios, limit))
        )

    def cancel(self, wish: dict[str, Any]) -> None:
        if self.ids:
            number = wish["order"] % len(self.ids)
            self.both(
                "order.cancel", {"order_id": self.ids[number]}, lambda: self.plain.cancel(number)
            )

    def modify(self, wish: dict[str, Any]) -> None:
        if not self.ids:
            return

        number = wish["order"] % len(self.ids)
        ticket = self.plain.orders[number]
        updates: dict[str, int | None] = {
            "qty": wish["qty"] if wish["what"] & 1 else None,
            "limit": None,
            "stop": None,
        }

        if wish["what"] & 2 and ticket.limit:
            updates["limit"] = self._near(ticket.symbol, wish["limit"])

        if wish["what"] & 4 and ticket.stop:
            updates["stop"] = self._near(ticket.symbol, wish["stop"])

        if all(value is None for value in updates.values()):
            return

        prices = {
            f"{name}_price": value / 10_000
            for name in ("limit", "stop")
            if (value := updates[name]) is not None
        }
        asked = {**({} if updates["qty"] is None else {"qty": updates["qty"]}), **prices}
        self.both(
            "order.modify",
            {"order_id": self.ids[number], "updates": asked},
            lambda: self.plain.modify(number, **updates),
        )

    def exercise(self, wish: dict[str, Any]) -> None:
        if self.contracts:
            symbol = self.contracts[wish["symbol"] % len(self.contracts)].symbol
            self.both(
                "option.exercise",
                {"contract": symbol, "qty": 1},
                lambda: self.plain.exercise(symbol, 1),
            )

    def keep(self, wish: dict[str, Any]) -> None:
        held = [each.symbol for each in self.scene.contracts if self.plain.qty(each.symbol) > 0]
        if held:
            symbol = held[wish["symbol"] % len(held)]
            self.both(
                "option.exercise",
                {"contract": symbol, "do_not_exercise": True},
                lambda: self.plain.keep(symbol),
            )

    def step(self, wish: dict[str, Any]) -> None:
        self.both("session.step", {"step": wish["ticks"]}, lambda: self.plain.step(wish["ticks"]))

    def until(self, wish: dict[str, Any]) -> None:
        to = self._later(wish["until"])
        self.both("session.step", {"until_ts": moment_text(to)}, lambda: self.plain.until(to))

    def stop(self, wish: dict[str, Any]) -> None:
        if wish["sure"]:
            self.both("session.stop", {}, self.plain.stop)

    def move(self, wish: dict[str, Any]) -> None:
        """Somebody else sets the clock forward."""
        self._pass(self._later(wish["until"]))

    def wait(self, days: int) -> None:
        self._pass(self.plain.now + days * 86_400 * 10**9)

    def _pass(self, to: int) -> None:
        to = max(self.plain.now, min(to, trading_hours().close_of(self.scene.days[-1])))
        self.broker.clock.advance(to)
        self.plain.go(to)
        self.compare()

    def _near(self, symbol: str, offset: int) -> int:
        """A price some steps from the last one."""
        mark = self.plain.marks.get(symbol, 1_000)
        unit = (
            1
            if not symbol.startswith("O:") and mark + offset < 10_000
            else 5_000
            if symbol == "CSTL"
            else 100
        )
        price = max(unit, mark // unit * unit + offset * unit)

        return price if unit > 1 or price < 10_000 else price // 100 * 100

    def _later(self, ticks: int) -> int:
        """A moment at, or a little before or after, a later tick or open."""
        half = (ticks % 3 - 1) * 7 * 10**9
        later = self.plain.ticks(self.plain.now, self.plain.now + 12 * 86_400 * 10**9)
        return max(self.plain.now + 10**9, later[min(ticks // 3, len(later) - 1)] + half)


OFFSETS = st.integers(-8, 8)
NUMBERS = st.integers(0, 12)
SIGNS = st.sampled_from((1, -1))


def wish(do: str, **more: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"do": st.just(do), **more})


ORDER = wish(
    "place",
    symbol=NUMBERS,
    kind=st.sampled_from(KINDS),
    sign=SIGNS,
    qty=st.sampled_from((1, 2, 3, 7, 10, 40, 101, 1_000)),
    tif=st.sampled_from(("DAY", "GTC", "GTD")),
    limit=OFFSETS,
    stop=OFFSETS,
    until=st.integers(0, 20),
)
STEP = wish("step", ticks=st.sampled_from((1, 1, 1, 2, 3)))
WISHES = st.one_of(
    *(ORDER, ORDER, ORDER, STEP, STEP),
    wish("spread", symbol=NUMBERS, sign=SIGNS, units=st.integers(1, 3), limit=st.integers(-3, 3)),
    wish("cancel", order=NUMBERS),
    wish(
        "modify",
        order=NUMBERS,
        qty=st.integers(1, 60),
        what=st.integers(1, 7),
        limit=OFFSETS,
        stop=OFFSETS,
    ),
    wish("exercise", symbol=NUMBERS),
    wish("keep", symbol=NUMBERS),
    wish("until", until=st.integers(0, 20)),
    wish("move", until=st.integers(0, 20)),
    wish("stop", sure=st.sampled_from((False,) * 19 + (True,))),
)
PLAYS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "first": st.sampled_from(BEGINNINGS),
        "count": st.integers(1, 5),
        "terms": st.sampled_from(TERMS),
        "cash": st.sampled_from((RICH, RICH, 10**9, 3 * 10**8)),
        "start": st.sampled_from(("midnight", "open", "middle")),
        "end": st.sampled_from(("day", "close", "middle")),
        "wishes": st.lists(WISHES, min_size=6, max_size=30),
        "wait": st.integers(0, 5),
        "again": st.lists(WISHES, max_size=8),
        "swap": st.booleans(),
    }
)


def play(frequency: str, plan: dict[str, Any]) -> Duel:
    """A market and what is done on it; the brokers are compared after each command."""
    hours = trading_hours()
    made = scene(plan["seed"], frequency, plan["first"], plan["count"])
    row = hours.row_of(plan["first"])

    assert row is not None

    open_ns = int(hours.open_ns[row])
    last = made.days[plan["count"]]
    start = {
        "midnight": day_start(plan["first"]),
        "open": open_ns,
        "middle": open_ns + 61 * MINUTE + 10**9,
    }[plan["start"]]
    end = {
        "day": day_start(last) + 86_400 * 10**9 - 1,
        "close": hours.close_of(last),
        "middle": hours.close_of(last) - 2 * MINUTE + 10**9
        if frequency == "1m"
        else hours.close_of(last) + 10**9,
    }[plan["end"]]
    duel = Duel(made, replace(plan["terms"], frequency=frequency), plan["cash"], start, end)

    for each in plan["wishes"]:
        getattr(duel, each["do"])(each)

    if duel.plain.running:
        duel.both("session.step", {"step": 100_000}, lambda: duel.plain.step(100_000))

    duel.wait(plan["wait"])
    last = hours.close_of(made.days[-3])
    if plan["again"] and duel.plain.now < last:
        duel.terms = replace(duel.terms, frequency="1d" if plan["swap"] else duel.terms.frequency)
        duel.begin(duel.plain.now, last)
        for each in plan["again"]:
            getattr(duel, each["do"])(each)

        if duel.plain.running:
            duel.both(
                "session.step", {"until_ts": moment_text(last)}, lambda: duel.plain.until(last)
            )

    duel.wait(10)
    check_invariants(duel.broker)

    return duel


MARKET_ORDER = {
    "do": "place",
    "symbol": 0,
    "kind": "MARKET",
    "sign": 1,
    "qty": 1,
    "tif": "DAY",
    "limit": 0,
    "stop": 0,
    "until": 0,
}
STOPS_INSIDE_A_BAR: dict[str, Any] = {
    "seed": 0,
    "first": BEGINNINGS[0],
    "count": 1,
    "terms": TERMS[0],
    "cash": RICH,
    "start": "midnight",
    "end": "day",
    "wishes": [MARKET_ORDER, {"do": "until", "until": 0}],
    "wait": 0,
    "again": [],
    "swap": False,
}
"""The clock stops inside the bar whose open fills an order: it is told at the bar's end."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("frequency", ["1d", "1m"])
@example(plan=STOPS_INSIDE_A_BAR)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(PLAYS)
def test_a_session_follows_the_documents(frequency: str, plan: dict[str, Any]) -> None:
    play(frequency, plan)
