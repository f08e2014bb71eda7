"""Orders as they are asked for: what is read from a call, what is refused at once, and what the account can't bear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from ktdeval.jsonio import content_hash
from ktdeval_qfinzero.data.rows import E4
from ktdeval_qfinzero.errors import conflict, invalid, not_found
from ktdeval_qfinzero.instruments import TICKER, parse_contract
from ktdeval_qfinzero.pmb import types
from ktdeval_qfinzero.pmb.day_events import settlement_session
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.frames import day_order_end, read_end
from ktdeval_qfinzero.pmb.margin import Circumstances, WantedTrade, order_problem, reservation_e4
from ktdeval_qfinzero.pmb.matching import price_step, slipped
from ktdeval_qfinzero.pmb.values import FillRules, Instrument, Kind, NamedInstrument, Order, OrderType, Session, Side, TimeInForce
from ktdeval_qfinzero.trading_hours import TradingHours

NOT_OURS = "don't have it"
_PRICES: Mapping[OrderType, tuple[str, ...]] = {
    "MARKET": (), "LIMIT": ("limit_price",), "STOP": ("stop_price",), "STOP_LIMIT": ("limit_price", "stop_price"),
}  # fmt: skip
_BRACKET = ("take_profit_price", "stop_loss_price")


class OrderSpec(msgspec.Struct, frozen=True):
    """Terms of an order; fields as of `Order`, `expire_ns` only of GTD."""

    instrument: Instrument
    side: Side
    order_type: OrderType
    qty: int
    limit_e4: int | None = None
    stop_e4: int | None = None
    time_in_force: TimeInForce = "DAY"
    expire_ns: int | None = None
    take_profit_e4: int | None = None
    stop_loss_e4: int | None = None
    oco_id: str = ""

    @property
    def content(self) -> str:
        """A hash that is equal for equal orders."""
        extra = ("take_profit_e4", "stop_loss_e4", "oco_id")
        return content_hash({name: value for name, value in msgspec.to_builtins(self).items() if value or name not in extra})


def read_spec(hours: TradingHours, given: types.NewOrder) -> OrderSpec:
    """An order from a call's arguments; raises ServiceError `invalid_argument`, which names the argument."""
    instrument = read_instrument(given.instrument, "order.instrument")
    prices = []
    for name, value in (("limit_price", given.limit_price), ("stop_price", given.stop_price)):
        has = name in _PRICES[given.order_type]
        if has == (value is None):
            raise invalid(f"order.{name}", f"{given.order_type} orders {'need it' if has else NOT_OURS}")
        prices.append(None if value is None else read_price(value, instrument.kind, f"order.{name}"))
    expire_ns = read_expiry(hours, given, "order.expire_ts")
    terms = (instrument, given.side, given.order_type, given.qty, prices[0], prices[1], given.time_in_force, expire_ns)
    named = ((getattr(given, name), f"order.{name}") for name in _BRACKET)
    profit, loss = (None if value is None else read_price(value, instrument.kind, field) for value, field in named)
    spec = OrderSpec(*terms, profit, loss, given.oco_with or "")
    require_bracket(spec, *(f"order.{name}" for name in _BRACKET))
    return spec


def require_bracket(spec: OrderSpec, profit_field: str, loss_field: str) -> None:
    """Refuse a bracket on the wrong side of its order's prices; raises ServiceError `invalid_argument`."""
    sign = 1 if spec.side == "BUY" else -1
    listed = ((spec.stop_loss_e4,), (spec.limit_e4, spec.stop_e4), (spec.take_profit_e4,))
    loss, prices, profit = ([sign * price for price in part if price is not None] for part in listed)
    for below, above, field in ((loss, [*prices, *profit], loss_field), (prices, profit, profit_field)):
        if below and above and max(below) >= min(above):
            raise invalid(field, "expected stop_loss < price of the order < take_profit (of a SELL the other way round)")


def read_instrument(given: NamedInstrument, field: str) -> Instrument:
    """Instrument of a call; raises ServiceError `invalid_argument`."""
    name, other = ("symbol", "contract") if given.type == "STOCK" else ("contract", "symbol")
    symbol, excluded = (given.symbol, given.contract) if given.type == "STOCK" else (given.contract, given.symbol)
    if symbol is None or excluded is not None:
        raise invalid(f"{field}.{name}", f"of the type {given.type}, an instrument has `{name}` and no `{other}`")
    if given.type == "OPTION":
        return Instrument(given.type, parse_contract(symbol, f"{field}.{name}").symbol)
    if not TICKER.fullmatch(symbol):
        raise invalid(f"{field}.{name}", "expected a ticker in capitals, such as AVLN")
    return Instrument(given.type, symbol)


def read_price(value: float, kind: Kind, field: str) -> int:
    """A price in dollars as ten-thousandths; raises ServiceError `invalid_argument`: not positive, or between two price steps."""
    price = exact_e4(value, field)
    if price <= 0:
        raise invalid(field, "prices are above 0")
    if price % price_step(kind, price):
        raise invalid(field, "prices are in whole cents" + (", below one dollar in steps of 0.0001" if kind == "STOCK" else ""))
    return price


def exact_e4(value: float, field: str) -> int:
    """Dollars as ten-thousandths; raises ServiceError `invalid_argument`: more than four decimals."""
    scaled = Decimal(str(value)) * E4
    if scaled != scaled.to_integral_value():
        raise invalid(field, "expected dollars with at most four decimals")
    return int(scaled)


def read_expiry(hours: TradingHours, given: types.NewOrder | types.PlaceSpread, field: str) -> int | None:
    """When a GTD order expires; None of others; raises ServiceError `invalid_argument`."""
    if (given.time_in_force == "GTD") == (given.expire_ts is None):
        raise invalid(field, "GTD orders need it, others don't have it")
    return None if given.expire_ts is None else read_end(hours, given.expire_ts, field)


def require_tradable(engine: Engine, session: Session, instrument: Instrument, field: str) -> None:
    """Refuse what is not in the session's universe (nor held), not listed by now, or expired.
    Raises ServiceError `invalid_argument`.
    """
    account = engine.state.accounts[session.account_id]
    universe = session.stocks if instrument.kind == "STOCK" else session.options
    held = account.held(instrument.id) != 0
    if instrument.symbol not in universe and not held:
        raise invalid(field, "the instrument is not in the session's universe; create the session with it")
    deal = engine.reference.deal_on(instrument.underlying, engine.hours.session_day(engine.now_ns + 1), engine.now_ns)
    if deal is not None:
        raise invalid(field, f"{deal.symbol} trades no more since {deal.day}")
    if instrument.kind == "STOCK":
        return
    if not held and not engine.reference.listed(instrument, engine.now_ns):
        raise invalid(field, "no such contract is listed as of the clock")
    if settlement_session(engine.hours, instrument) < engine.hours.session_day(engine.now_ns + 1):
        raise invalid(field, "the contract has expired")


def judge(engine: Engine, session: Session, specs: Sequence[OrderSpec], replaced: Sequence[Order] = ()) -> tuple[str, int]:
    """Whether the account can bear an order, or the legs of a spread, at present prices: (why not, or empty; what it ties up).

    `replaced`: working orders that don't count, for these replace them.
    """
    marks = engine.marks()
    trades = []
    for spec in specs:
        price = expected_price(spec, marks, session.rules.fills)
        if price is None:
            return f"NO_MARK: no price of {spec.instrument.symbol} is known yet; send a limit order", 0
        fees = session.rules.fees.trade_e4(spec.instrument, spec.qty)
        trades.append(WantedTrade(spec.instrument, spec.side, spec.qty, price, fees))
    account = engine.state.accounts[session.account_id]
    sold = [spec.instrument.symbol for spec in specs if spec.side == "SELL" and spec.instrument.kind == "STOCK"]
    reserved = reserved_e4(engine, account.id, replaced)
    today = engine.hours.session_day(engine.now_ns + 1)
    circumstances = Circumstances(today, engine.borrowable(account, sold, engine.now_ns), reserved)
    problem = order_problem(account, trades, marks, session.rules, circumstances)
    if problem is not None:
        return f"{problem.code}: {problem.words}", 0
    return "", reservation_e4(account, trades, marks, session.rules)


def reserved_e4(engine: Engine, account_id: str, replaced: Sequence[Order] = ()) -> int:
    """What an account's working orders tie up; of what is filled in part, the part that is open, rounded up."""
    excluded = {order.id for order in replaced}
    reserves, working = engine.state.reserves, engine.state.working
    open_orders = (order for order in working.values() if order.account_id == account_id and order.id not in excluded)
    return sum(-(-reserves[order.id] * order.open_qty // order.qty) for order in open_orders)


def expected_price(spec: OrderSpec, marks: Mapping[str, int], rules: FillRules) -> int | None:
    """What the order would fill at, as far as one can tell: its limit, its stop or the last price, with slippage; None without."""
    if spec.limit_e4 is not None:
        return spec.limit_e4
    reference = spec.stop_e4 if spec.stop_e4 is not None else marks.get(spec.instrument.id)
    return None if reference is None else slipped(reference, spec.side, spec.instrument, rules)


def new_order(engine: Engine, session: Session, spec: OrderSpec, **more: str | int | bool | None) -> Order:
    """Order of a spec, with the next number. `more`: further fields, and such as are not those of the spec and of now."""
    number = len(engine.state.orders) + 1
    expire_ns = day_order_end(engine.hours, engine.now_ns, session.frequency) if spec.time_in_force == "DAY" else spec.expire_ns
    ids = (f"ord-{number:06d}", number, session.account_id, session.id)
    now: dict[str, Any] = {"expire_ns": expire_ns, "accepted_ns": engine.now_ns, "client_order_id": ""}
    return Order(*ids, **{**msgspec.structs.asdict(spec), **now, **more})


def running_session(engine: Engine, session_id: str, account_id: str | None = None) -> Session:
    """Session of a call; raises ServiceError `not_found`; `conflict`: it does not run, or belongs to another account."""
    session = session_of(engine, session_id)
    if account_id is not None and account_id != session.account_id:
        raise conflict("the session belongs to another account", "account_id")
    if session.status != "RUNNING":
        raise conflict(f"the session is {session.status}; create a new one", "session_id")
    return session


def session_of(engine: Engine, session_id: str) -> Session:
    """A session by id; raises ServiceError `not_found`."""
    session = engine.state.sessions.get(session_id)
    if session is None:
        raise not_found("session_id", "there is no such session")
    return session
