"""Commands. Each is fully checked before its first event, and returns the id of the object
concerned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ktdeval.values import JsonValue, content_hash
from ktdeval_qfinzero.errors import conflict, invalid, not_found
from ktdeval_qfinzero.instruments import TICKER, parse_contract
from ktdeval_qfinzero.pmb import arguments, placement, state_events
from ktdeval_qfinzero.pmb.bar_feed import BarFeed, read_end, require_reach, tick_at, ticks_by
from ktdeval_qfinzero.pmb.broker_types import WORKING, Instrument, Order, Rules, Session
from ktdeval_qfinzero.pmb.clock_advance import advance, end_session, last_tick
from ktdeval_qfinzero.pmb.engine_state import Engine
from ktdeval_qfinzero.pmb.holding_events import OptionInstructed
from ktdeval_qfinzero.pmb.lifecycle_rules import (
    EndingPosition,
    delivery_event,
    exercise_problem,
    settlement_day,
    settlement_session,
)
from ktdeval_qfinzero.pmb.margin import equity_e4
from ktdeval_qfinzero.pmb.tick_execution import review
from ktdeval_qfinzero.timestamps import day_of, moment_text, parse_day, parse_moment
from ktdeval_qfinzero.trading_hours import FIRST, LAST

MAX_ACCOUNTS = 100
MAX_WORKING = 5_000
CANCELLED = "CANCELLED: on request"


def create_account(engine: Engine, given: arguments.CreateAccount) -> str:
    """Open a paper account as of the clock."""
    if len(engine.state.accounts) >= MAX_ACCOUNTS:
        raise conflict(f"a workspace has at most {MAX_ACCOUNTS} accounts")
    if given.start_date is not None and parse_day(given.start_date, "start_date") < day_of(
        engine.now_ns
    ):
        raise conflict(
            f"the clock stands at {moment_text(engine.now_ns)}; accounts can't be opened before it",
            "start_date",
        )

    currency = engine.reference.dataset.info.currency
    if given.base_currency not in (None, currency):
        raise invalid("base_currency", f"accounts of this market are in {currency}")

    account_id = f"acct-{len(engine.state.accounts) + 1:06d}"
    engine.emit(
        state_events.AccountCreated(
            account_id, given.account_type, placement.exact_e4(given.initial_cash, "initial_cash")
        )
    )
    return account_id


def create_session(engine: Engine, given: arguments.CreateSession) -> str:
    """Begin a trading session; the one clock goes to start_ts where that is later. Only one session
    runs at a time.
    """
    account = engine.state.accounts.get(given.account_id)
    if account is None:
        raise not_found("account_id", "there is no such account")
    if engine.session is not None:
        raise conflict(
            "another session is running, and there is one clock; stop it first", "session_id"
        )

    start_ns, end_ns = _span(engine, given)
    stocks, options = _universe(engine, given.universe, start_ns)
    if start_ns > engine.now_ns:
        advance(engine, start_ns)

    engine.frame = None
    session_id = f"sess-{len(engine.state.sessions) + 1:06d}"
    rules = given.execution_config or Rules()
    terms = (
        session_id,
        account.id,
        given.frequency,
        start_ns,
        end_ns,
        list(stocks),
        list(options),
        rules,
    )
    engine.emit(state_events.SessionCreated(*terms, equity_e4(account, engine.marks())))
    # From here on the session's bars can be read; the current day's bars are loaded if the day is
    # open.
    session = engine.state.sessions[session_id]
    hours = engine.hours
    engine.feed = BarFeed(
        engine.reference.prices,
        hours,
        session.frequency,
        int(hours.close_ns.searchsorted(last_tick(hours, session))),
    )

    if engine.opened:
        before_ns = (
            int(hours.open_ns[engine.day_row]) if session.frequency == "1m" else engine.now_ns
        )
        engine.load_frame(engine.visible_marks(engine.instruments(), before_ns))

    # liquidations due in the previous session happen in this one
    if account.margin_call_due is not None:
        review(engine, session, engine.now_ns, at_close=False)

    return session_id


def step(engine: Engine, given: arguments.Step) -> str:
    """Let ticks pass, or time up to a moment; orders fill on the bars in between."""
    session = placement.running_session(engine, given.session_id)
    final = last_tick(engine.hours, session)
    if given.until_ts is None:
        number = ticks_by(engine.hours, engine.now_ns, session.frequency) + given.step
        reached = number >= ticks_by(engine.hours, final, session.frequency)
        to_ns = final if reached else tick_at(engine.hours, number, session.frequency)
    else:
        to_ns = min(parse_moment(given.until_ts, "until_ts"), final)
        if to_ns <= engine.now_ns:
            raise conflict(
                f"the clock stands at {moment_text(engine.now_ns)}; give a later moment", "until_ts"
            )

    advance(engine, to_ns)
    return session.id


def stop(engine: Engine, given: arguments.OneSession) -> str:
    """End a session now; its working orders expire, positions stay."""
    session = placement.running_session(engine, given.session_id)
    working = tuple(engine.state.working.values())
    if forced := [order.id for order in working if order.forced]:
        raise conflict(
            f"{forced[0]} of the broker is to meet a margin call; step until it is filled",
            "session_id",
        )

    _require_no_bar(engine, working, "session_id")
    end_session(engine, session, engine.now_ns, stopped=True)
    return session.id


def move_clock(engine: Engine, given: arguments.MoveClock) -> str:
    """Follow the workspace's clock, which was set forward outside of sessions."""
    advance(engine, given.to_ns)
    return ""


def _span(engine: Engine, given: arguments.CreateSession) -> tuple[int, int]:
    """Return the (start, end) of a session."""
    start_ns = parse_moment(given.start_ts, "start_ts")
    end_ns = read_end(engine.hours, given.end_ts, "end_ts")
    if start_ns < engine.now_ns:
        raise conflict(
            f"the clock stands at {moment_text(engine.now_ns)}; a session can't start before it",
            "start_ts",
        )
    if not FIRST <= day_of(start_ns) <= day_of(end_ns) <= LAST:
        raise invalid("end_ts", f"expected start_ts before end_ts, both between {FIRST} and {LAST}")

    require_reach(engine.hours, end_ns, "end_ts")
    if ticks_by(engine.hours, end_ns, given.frequency) <= ticks_by(
        engine.hours, start_ns, given.frequency
    ):
        raise invalid("end_ts", "the market is not open between start_ts and end_ts")

    info = engine.reference.dataset.info
    # The end of the data is not revealed, since it may lie ahead of the clock. Beyond the end, a
    # session has ticks but no bars.
    first = info.first_day if given.frequency == "1d" else info.minute_first_day
    if given.frequency == "1m" and first > info.minute_last_day:
        raise invalid("frequency", "the market has no bars of minutes; take 1d")
    if day_of(end_ns - 1) < first:
        raise invalid("end_ts", f"bars of {given.frequency} begin on {first} only")

    return start_ns, end_ns


def _universe(
    engine: Engine, given: arguments.Universe, start_ns: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the (stocks, options) of a universe, each symbol once."""
    stocks = tuple(dict.fromkeys(given.stocks or ()))
    options = tuple(dict.fromkeys(given.options or ()))
    if not stocks and not options:
        raise invalid("universe", "give at least one stock or option")

    for number, symbol in enumerate(stocks):
        if not TICKER.fullmatch(symbol) or not engine.reference.is_listed(
            Instrument("STOCK", symbol), engine.now_ns
        ):
            raise invalid(f"universe.stocks[{number}]", "no such stock is listed as of the clock")

    first_day = engine.hours.session_day(start_ns + 1)
    for number, symbol in enumerate(options):
        contract = parse_contract(symbol, f"universe.options[{number}]")
        if settlement_session(engine.hours, Instrument("OPTION", contract.symbol)) < first_day:
            raise invalid(f"universe.options[{number}]", "the contract has expired at the start")

    return stocks, options


def place(engine: Engine, given: arguments.PlaceOrder) -> str:
    """Place an order; it can fill on bars that start at or after the clock."""
    session = placement.running_session(engine, given.session_id, given.account_id)
    spec = placement.read_spec(engine.hours, given.order)
    content = content_hash([session.id, spec.content]) if given.client_order_id else ""
    earlier_id = _earlier_order(engine, session, given.client_order_id, content)
    if earlier_id is not None:
        return earlier_id

    if spec.oco_id:
        spec = msgspec.structs.replace(spec, oco_id=_oco_group(engine, session, spec))

    order = _send(engine, session, {"order": spec}, given.client_order_id)[0]
    _remember(engine, order, content)
    return order.id


def place_spread(engine: Engine, given: arguments.PlaceSpread) -> str:
    """Place a spread of two to four legs: all fill at one tick's opens, as market orders do, or
    none does.
    """
    session = placement.running_session(engine, given.session_id, given.account_id)
    specs = _read_legs(engine, given)
    net_limit_e4 = (
        None
        if given.net_limit_price is None
        else placement.exact_e4(given.net_limit_price, "net_limit_price")
    )
    terms: list[JsonValue] = [
        session.id,
        given.qty,
        net_limit_e4,
        [spec.content for spec in specs],
    ]
    content = content_hash(terms) if given.client_order_id else ""
    earlier_id = _earlier_order(engine, session, given.client_order_id, content)
    if earlier_id is not None:
        return earlier_id

    spread_id = f"spr-{len(engine.state.spreads) + 1:06d}"
    orders = _send(
        engine,
        session,
        {f"legs[{number}]": spec for number, spec in enumerate(specs)},
        given.client_order_id,
        spread_id,
    )
    engine.emit(
        state_events.SpreadPlaced(
            spread_id, [order.id for order in orders], given.qty, net_limit_e4
        )
    )
    _remember(engine, orders[0], content)

    return orders[0].id


def cancel(engine: Engine, given: arguments.SentOrder) -> str:
    """Cancel a working order; of a spread, all its legs."""
    order = _working(engine, given)
    for leg in engine.legs_of(order):
        engine.emit(state_events.OrderCancelled(order_id=leg.id, reason=CANCELLED))
    return order.id


def modify(engine: Engine, given: arguments.ModifyOrder) -> str:
    """Replace a working order by one with other prices or another quantity; it loses its place in
    time.
    """
    order = _working(engine, given)
    if order.spread_id:
        raise conflict(
            "legs of a spread can't be modified; cancel the spread and place another", "order_id"
        )

    session = engine.state.sessions[order.session_id]
    spec = _modify_order(order, given.updates)
    reason, reserve_e4 = placement.judge(engine, session, [spec], [order])
    if reason:
        raise conflict(f"the order stays as it was: {reason}", "updates")

    group = {
        "parent_id": order.parent_id,
        "oco_id": order.group if order.group in engine.state.groups else "",
    }
    kept = {"triggered": order.triggered, "expire_ns": order.expire_ns, **group}
    changed = placement.new_order(engine, session, spec, replaces=order.id, **kept)
    engine.emit(
        state_events.OrderCancelled(
            order_id=order.id, reason="REPLACED: by a modification", replaced_by=changed.id
        )
    )
    engine.emit(state_events.OrderAccepted(state_events.order_payload(changed), reserve_e4))

    return changed.id


def exercise(engine: Engine, given: arguments.ExerciseOption) -> str:
    """Exercise held contracts at once, or say that they are not to be exercised at expiry."""
    session = placement.running_session(engine, given.session_id, given.account_id)
    instrument = Instrument("OPTION", parse_contract(given.contract, "contract").symbol)
    account = engine.state.accounts[session.account_id]
    if (given.qty is None) == (given.do_not_exercise is None):
        raise invalid(
            "qty",
            "give either qty, to exercise now, or do_not_exercise, for what happens at expiry",
        )

    position = account.positions.get(instrument.id)
    if given.qty is None:
        if position is None or position.qty <= 0:
            raise conflict("the account holds no such contract", "contract")

        engine.emit(OptionInstructed(account.id, instrument.symbol, bool(given.do_not_exercise)))
        return instrument.symbol

    problem = exercise_problem(
        account, instrument, given.qty, engine.hours.session_day(engine.now_ns + 1)
    )
    if problem is not None or position is None:
        raise conflict(str(problem), "contract")

    _require_no_bar(engine, tuple(engine.state.working.values()), "contract")
    spot = engine.marks().get(f"STOCK:{instrument.underlying}")
    if spot is None:
        raise conflict("no price of the underlying is known yet; exercise later", "contract")

    settles = settlement_day(engine.hours, engine.day).isoformat()
    engine.emit(
        delivery_event(
            EndingPosition(account.id, position, spot, session.rules.fees, settles), given.qty
        )
    )
    return instrument.symbol


def _read_legs(engine: Engine, given: arguments.PlaceSpread) -> list[placement.OrderSpec]:
    """Return the specs of a spread's legs as market orders, since only the net price limits
    them.
    """
    expire_ns = placement.read_expiry(engine.hours, given, "expire_ts")
    specs = []
    for number, leg in enumerate(given.legs):
        instrument = placement.read_instrument(leg.instrument, f"legs[{number}].instrument")
        if given.qty * leg.ratio > arguments.MAX_QTY:
            raise invalid(f"legs[{number}].ratio", f"qty × ratio is at most {arguments.MAX_QTY}")

        specs.append(
            placement.OrderSpec(
                instrument,
                leg.side,
                "MARKET",
                given.qty * leg.ratio,
                None,
                None,
                given.time_in_force,
                expire_ns,
            )
        )

    if len({spec.instrument for spec in specs}) < len(specs):
        raise invalid("legs", "each leg has an instrument of its own")
    if len({spec.instrument.underlying for spec in specs}) > 1:
        raise invalid("legs", "all legs are about one underlying")

    return specs


def _modify_order(order: Order, updates: arguments.Updates) -> placement.OrderSpec:
    """Return the spec of an order's open part after the updates, whose `qty` includes the filled
    units.
    """
    if updates == arguments.Updates():
        raise invalid("updates", "give at least one of qty, limit_price, stop_price")

    prices = {
        "limit_price": (order.limit_e4, updates.limit_price),
        "stop_price": (order.stop_e4, updates.stop_price),
    }
    new: dict[str, int | None] = {}
    for name, (had_e4, price) in prices.items():
        if price is not None and had_e4 is None:
            raise invalid(f"updates.{name}", f"{order.order_type} orders don't have it")

        new[name] = (
            had_e4
            if price is None
            else placement.read_price(price, order.instrument.kind, f"updates.{name}")
        )

    if order.triggered and updates.stop_price is not None:
        raise conflict("the stop has been reached already", "updates.stop_price")

    left = (order.qty if updates.qty is None else updates.qty) - order.filled_qty
    if left <= 0:
        raise conflict(
            f"{order.filled_qty} are filled already; cancel the order instead", "updates.qty"
        )

    expire_ns = order.expire_ns if order.time_in_force == "GTD" else None
    terms = (
        order.instrument,
        order.side,
        order.order_type,
        left,
        new["limit_price"],
        new["stop_price"],
    )
    spec = placement.OrderSpec(
        *terms, order.time_in_force, expire_ns, order.take_profit_e4, order.stop_loss_e4
    )
    placement.require_bracket(spec, "updates", "updates")

    return spec


def _oco_group(engine: Engine, session: Session, spec: placement.OrderSpec) -> str:
    """Return the one-cancels-other group of the working order that a new order names. Raises
    ServiceError if the order does not exist, or if its instrument, side or open quantity differs.
    """
    other = engine.state.orders.get(spec.oco_id)
    if (
        other is None
        or other.session_id != session.id
        or other.status not in WORKING
        or other.forced
        or other.spread_id
    ):
        raise not_found("order.oco_with", "the session has no such single working order")

    if (other.instrument, other.side, other.open_qty) != (spec.instrument, spec.side, spec.qty):
        words = (
            f"has the instrument {other.instrument.id}, side {other.side} and {other.open_qty}"
            " open; give the same"
        )
        raise invalid("order.oco_with", f"{other.id} {words}")

    return other.group


def _working(engine: Engine, given: arguments.SentOrder) -> Order:
    session = placement.running_session(engine, given.session_id, given.account_id)
    order = engine.state.orders.get(given.order_id)
    if order is None or order.session_id != session.id:
        raise not_found("order_id", "the session has no such order")
    if order.status not in WORKING:
        raise conflict(f"the order is {order.status}", "order_id")
    if order.forced:
        raise conflict(
            "the broker placed the order to meet a margin call; it can't be changed", "order_id"
        )

    _require_no_bar(engine, (order,), "order_id")
    return order


def _require_no_bar(engine: Engine, orders: Sequence[Order], field: str) -> None:
    """Refuse a change that would withdraw orders from a bar in progress: the start of the bar may
    have been shown, while its end determines their fills. Raises ServiceError `conflict`.
    """
    for order in orders:
        if (end_ns := engine.bar_end(order)) is not None:
            words = (
                f"{order.id} works in the bar that ends at {moment_text(end_ns)} since its open;"
                " step to that moment first"
            )
            raise conflict(words, field)


def _earlier_order(
    engine: Engine, session: Session, client_id: str | None, content: str
) -> str | None:
    """Return the id of the order that already uses a client order id; None for a new id. Raises
    ServiceError `conflict` if the earlier order had other content.
    """
    earlier = engine.state.client_calls.get((session.account_id, client_id)) if client_id else None
    if earlier is not None and earlier.content != content:
        raise conflict("the id was used for another order; take a new one", "client_order_id")
    return None if earlier is None else earlier.order_id


def _remember(engine: Engine, order: Order, content: str) -> None:
    if order.client_order_id:
        engine.emit(
            state_events.ClientIdUsed(order.account_id, order.client_order_id, order.id, content)
        )


def _send(
    engine: Engine,
    session: Session,
    specs: Mapping[str, placement.OrderSpec],
    client_id: str | None,
    spread_id: str = "",
) -> list[Order]:
    """Accept or reject all orders in `specs` (path in the arguments -> spec) together."""
    expire_ns = next(iter(specs.values())).expire_ns
    if expire_ns is not None and expire_ns <= engine.now_ns:
        raise invalid(
            "expire_ts" if spread_id else "order.expire_ts", "expected a moment after the clock"
        )
    if len(engine.state.working) + len(specs) > MAX_WORKING:
        raise conflict(
            f"at most {MAX_WORKING} orders can work at one time; cancel some first", "order"
        )

    for path, spec in specs.items():
        placement.require_tradable(engine, session, spec.instrument, f"{path}.instrument")

    reason, reserve_e4 = placement.judge(engine, session, list(specs.values()))
    orders: list[Order] = []
    for spec in specs.values():
        ids = {"client_order_id": client_id or "", "spread_id": spread_id}
        order = placement.new_order(
            engine, session, spec, reason=reason, status="REJECTED" if reason else "ACCEPTED", **ids
        )
        if reason:
            engine.emit(state_events.OrderRejected(state_events.order_payload(order)))
        else:
            engine.emit(
                state_events.OrderAccepted(
                    state_events.order_payload(order), 0 if orders else reserve_e4
                )
            )

        orders.append(order)

    return orders
