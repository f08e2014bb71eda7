"""Reading of orders from calls, refusal of malformed or untradable orders, and the check whether
the account can carry an order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from ktdeval.values import JsonValue, content_hash
from ktdeval_qfinzero.data.rows import E4
from ktdeval_qfinzero.errors import conflict, invalid, not_found
from ktdeval_qfinzero.instruments import TICKER, parse_contract
from ktdeval_qfinzero.pmb import arguments
from ktdeval_qfinzero.pmb.bar_feed import day_order_end, read_end
from ktdeval_qfinzero.pmb.broker_types import (
    FillRules,
    Instrument,
    Kind,
    NamedInstrument,
    Order,
    OrderType,
    Session,
    Side,
    TimeInForce,
)
from ktdeval_qfinzero.pmb.engine_state import Engine
from ktdeval_qfinzero.pmb.lifecycle_rules import settlement_session
from ktdeval_qfinzero.pmb.margin import (
    TradeCircumstances,
    WantedTrade,
    order_problem,
    reservation_e4,
)
from ktdeval_qfinzero.pmb.matching import add_slippage, price_step
from ktdeval_qfinzero.trading_hours import TradingHours

NOT_OURS = "don't have it"
_PRICES: Mapping[OrderType, tuple[str, ...]] = {
    "MARKET": (),
    "LIMIT": ("limit_price",),
    "STOP": ("stop_price",),
    "STOP_LIMIT": ("limit_price", "stop_price"),
}


class OrderSpec(msgspec.Struct, frozen=True):
    """Terms of an order. `Order` explains the fields; only GTD orders have `expire_ns`."""

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
        """Hash of the terms."""
        # Empty fields are omitted, so that the hashes of recorded orders without these fields stay
        # valid.
        extra = ("take_profit_e4", "stop_loss_e4", "oco_id")
        fields: dict[str, JsonValue] = msgspec.to_builtins(self)
        present = {name: value for name, value in fields.items() if value or name not in extra}
        return content_hash(present)


def read_spec(hours: TradingHours, given: arguments.NewOrder) -> OrderSpec:
    """Read an order from a call's arguments. Raises ServiceError `invalid_argument`, which names
    the argument.
    """
    instrument = read_instrument(given.instrument, "order.instrument")
    limit_e4 = _read_own_price(given, instrument.kind, "limit_price", given.limit_price)
    stop_e4 = _read_own_price(given, instrument.kind, "stop_price", given.stop_price)
    expire_ns = read_expiry(hours, given, "order.expire_ts")
    profit_field = "order.take_profit_price"
    loss_field = "order.stop_loss_price"
    spec = OrderSpec(
        instrument=instrument,
        side=given.side,
        order_type=given.order_type,
        qty=given.qty,
        limit_e4=limit_e4,
        stop_e4=stop_e4,
        time_in_force=given.time_in_force,
        expire_ns=expire_ns,
        take_profit_e4=_read_if_given(given.take_profit_price, instrument.kind, profit_field),
        stop_loss_e4=_read_if_given(given.stop_loss_price, instrument.kind, loss_field),
        oco_id=given.oco_with or "",
    )
    require_bracket(spec, profit_field, loss_field)

    return spec


def _read_own_price(
    given: arguments.NewOrder, kind: Kind, name: str, value: float | None
) -> int | None:
    """Read the limit price or stop price of an order, which its type either requires or
    excludes.
    """
    field = f"order.{name}"
    is_needed = name in _PRICES[given.order_type]
    if is_needed and value is None:
        raise invalid(field, f"{given.order_type} orders need it")
    if not is_needed and value is not None:
        raise invalid(field, f"{given.order_type} orders {NOT_OURS}")

    return _read_if_given(value, kind, field)


def _read_if_given(value: float | None, kind: Kind, field: str) -> int | None:
    if value is None:
        return None
    return read_price(value, kind, field)


def require_bracket(spec: OrderSpec, profit_field: str, loss_field: str) -> None:
    """Refuse a bracket on the wrong side of its order's prices. Raises ServiceError
    `invalid_argument`.
    """
    # With the signs flipped for a sale, the stop loss is below and the take profit above in both
    # cases.
    sign = 1 if spec.side == "BUY" else -1
    losses = [sign * price for price in (spec.stop_loss_e4,) if price is not None]
    prices = [sign * price for price in (spec.limit_e4, spec.stop_e4) if price is not None]
    profits = [sign * price for price in (spec.take_profit_e4,) if price is not None]

    _require_below(losses, [*prices, *profits], loss_field)
    _require_below(prices, profits, profit_field)


def _require_below(lower: Sequence[int], higher: Sequence[int], field: str) -> None:
    if lower and higher and max(lower) >= min(higher):
        raise invalid(
            field,
            "expected stop_loss < price of the order < take_profit (of a SELL the other way round)",
        )


def read_instrument(given: NamedInstrument, field: str) -> Instrument:
    """Read the instrument of a call. Raises ServiceError `invalid_argument`."""
    name, other = "symbol", "contract"
    symbol, excluded = given.symbol, given.contract
    if given.type == "OPTION":
        name, other = other, name
        symbol, excluded = excluded, symbol

    if symbol is None or excluded is not None:
        raise invalid(
            f"{field}.{name}",
            f"of the type {given.type}, an instrument has `{name}` and no `{other}`",
        )
    if given.type == "OPTION":
        return Instrument(given.type, parse_contract(symbol, f"{field}.{name}").symbol)
    if not TICKER.fullmatch(symbol):
        raise invalid(f"{field}.{name}", "expected a ticker in capitals")

    return Instrument(given.type, symbol)


def read_price(value: float, kind: Kind, field: str) -> int:
    """Convert a price in dollars to ten-thousandths. Raises ServiceError `invalid_argument` if the
    price is not positive, or not a multiple of the price step.
    """
    price = exact_e4(value, field)
    if price <= 0:
        raise invalid(field, "prices are above 0")
    # Rule 612 of Regulation NMS
    if price % price_step(kind, price):
        steps = "prices are in whole cents"
        if kind == "STOCK":
            steps += ", below one dollar in steps of 0.0001"
        raise invalid(field, steps)

    return price


def exact_e4(value: float, field: str) -> int:
    """Convert dollars to ten-thousandths. Raises ServiceError `invalid_argument` if there are more
    than four decimals.
    """
    scaled = Decimal(str(value)) * E4
    if scaled != scaled.to_integral_value():
        raise invalid(field, "expected dollars with at most four decimals")
    return int(scaled)


def read_expiry(
    hours: TradingHours, given: arguments.NewOrder | arguments.PlaceSpread, field: str
) -> int | None:
    """Return when a GTD order expires; None for other orders. Raises ServiceError
    `invalid_argument` if the expiry is missing or malformed, or if another order has one.
    """
    is_needed = given.time_in_force == "GTD"
    is_given = given.expire_ts is not None
    if is_needed != is_given:
        raise invalid(field, "GTD orders need it, others don't have it")
    if given.expire_ts is None:
        return None
    return read_end(hours, given.expire_ts, field)


def require_tradable(engine: Engine, session: Session, instrument: Instrument, field: str) -> None:
    """Refuse an instrument that is neither in the session's universe nor held, or that is not
    listed yet, expired or delisted. Raises ServiceError `invalid_argument`.
    """
    account = engine.state.accounts[session.account_id]
    universe = session.stocks if instrument.kind == "STOCK" else session.options
    held = account.count_units(instrument.id) != 0
    if instrument.symbol not in universe and not held:
        raise invalid(
            field, "the instrument is not in the session's universe; create the session with it"
        )

    deal = engine.reference.deal_on(
        instrument.underlying, engine.hours.session_day(engine.now_ns + 1), engine.now_ns
    )
    if deal is not None:
        raise invalid(field, f"{deal.symbol} trades no more since {deal.day}")
    if instrument.kind == "STOCK":
        return
    if not held and not engine.reference.is_listed(instrument, engine.now_ns):
        raise invalid(field, "no such contract is listed as of the clock")
    if settlement_session(engine.hours, instrument) < engine.hours.session_day(engine.now_ns + 1):
        raise invalid(field, "the contract has expired")


def judge(
    engine: Engine, session: Session, specs: Sequence[OrderSpec], replaced: Sequence[Order] = ()
) -> tuple[str, int]:
    """Check whether the account can carry an order, or the legs of a spread, at present prices.
    Return the reason for a refusal (empty if it can) and the amount to reserve.

    `replaced`: working orders that the new ones replace; their reservations do not count.
    """
    marks = engine.marks()
    trades = []
    for spec in specs:
        price = expected_price(spec, marks, session.rules.fills)
        if price is None:
            symbol = spec.instrument.symbol
            return f"NO_MARK: no price of {symbol} is known yet; send a limit order", 0

        fees = session.rules.fees.trade_e4(spec.instrument, spec.qty)
        trades.append(WantedTrade(spec.instrument, spec.side, spec.qty, price, fees))

    account = engine.state.accounts[session.account_id]
    sold: list[str] = []
    for spec in specs:
        if spec.side == "SELL" and spec.instrument.kind == "STOCK":
            sold.append(spec.instrument.symbol)

    today = engine.hours.session_day(engine.now_ns + 1)
    borrowable = engine.borrowable(account, sold, engine.now_ns)
    reserved = reserved_e4(engine, account.id, replaced)
    circumstances = TradeCircumstances(today, borrowable, reserved)
    problem = order_problem(account, trades, marks, session.rules, circumstances)
    if problem is not None:
        return f"{problem.code}: {problem.words}", 0

    return "", reservation_e4(account, trades, marks, session.rules)


def reserved_e4(engine: Engine, account_id: str, replaced: Sequence[Order] = ()) -> int:
    """Return the amount that an account's working orders reserve. A partly filled order counts pro
    rata to its open units, rounded up.
    """
    excluded = {order.id for order in replaced}
    total_e4 = 0
    for order in engine.state.working.values():
        if order.account_id == account_id and order.id not in excluded:
            full_e4 = engine.state.reserves[order.id]
            total_e4 += -(-full_e4 * order.open_qty // order.qty)

    return total_e4


def expected_price(spec: OrderSpec, marks: Mapping[str, int], rules: FillRules) -> int | None:
    """Return the price at which an order is checked: its limit, or else its stop or the last price,
    with slippage; None if no such price is known.
    """
    if spec.limit_e4 is not None:
        return spec.limit_e4

    reference = spec.stop_e4
    if reference is None:
        reference = marks.get(spec.instrument.id)
    if reference is None:
        return None

    return add_slippage(reference, spec.side, spec.instrument, rules)


def new_order(
    engine: Engine, session: Session, spec: OrderSpec, **more: str | int | bool | None
) -> Order:
    """Make an order from a spec, with the next number.

    `more` sets further fields, or overrides the fields from the spec and the time of acceptance.
    """
    number = len(engine.state.orders) + 1
    fields: dict[str, Any] = msgspec.structs.asdict(spec)
    fields["accepted_ns"] = engine.now_ns
    fields["client_order_id"] = ""
    if spec.time_in_force == "DAY":
        fields["expire_ns"] = day_order_end(engine.hours, engine.now_ns, session.frequency)

    fields.update(more)
    return Order(f"ord-{number:06d}", number, session.account_id, session.id, **fields)


def running_session(engine: Engine, session_id: str, account_id: str | None = None) -> Session:
    """Return a running session. Raises ServiceError `not_found` if it does not exist;
    `conflict` if it has ended or belongs to another account.
    """
    session = session_of(engine, session_id)
    if account_id is not None and account_id != session.account_id:
        raise conflict("the session belongs to another account", "account_id")
    if session.status != "RUNNING":
        raise conflict(f"the session is {session.status}; create a new one", "session_id")

    return session


def session_of(engine: Engine, session_id: str) -> Session:
    """Return a session by id. Raises ServiceError `not_found` if it does not exist."""
    session = engine.state.sessions.get(session_id)
    if session is None:
        raise not_found("session_id", "there is no such session")
    return session
