"""Commands about orders: place, spread, cancel, modify, exercise. Each is checked in full before its first event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktdeval.api import JsonValue, content_hash
from ktdeval_qfinzero.errors import ServiceError, conflict, invalid, not_found
from ktdeval_qfinzero.instruments import parse_contract
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.events import order_payload
from ktdeval_qfinzero.pmb.lifecycle import life_event
from ktdeval_qfinzero.pmb.option_life import exercise_event, exercise_problem
from ktdeval_qfinzero.pmb.placement import (
    OrderSpec,
    exact_e4,
    judge,
    new_order,
    read_expiry,
    read_instrument_argument,
    read_price,
    read_spec,
    require_later,
    require_room,
    require_tradable,
    running_session,
)
from ktdeval_qfinzero.pmb.records import Session
from ktdeval_qfinzero.pmb.types import WORKING, Account, Instrument, Order
from ktdeval_qfinzero.trading_hours import trading_hours

Given = Mapping[str, JsonValue]

CANCELLED = "CANCELLED: on request"
_MOST_QTY = 1_000_000


def place(engine: Engine, given: Given) -> JsonValue:
    """Place one order; one that the account can't bear is on record as REJECTED."""
    session = running_session(engine, given["session_id"], given["account_id"])
    spec = read_spec(given["order"])
    client_id = given.get("client_order_id") or ""
    content = content_hash([session.id, spec.content])
    known = _known(engine, session, client_id, content)
    if known is not None:
        return {"order_id": known, "idempotent": True}
    require_later(spec, engine.now_ns, "order")
    require_room(engine, 1)
    require_tradable(engine, session, spec.instrument, "order.instrument")
    order = new_order(engine, session, spec, client_order_id=client_id)
    verdict = judge(engine, session, [spec])
    _send(engine, order, verdict.reason, verdict.reserve_e4)
    _remember(engine, order, content)
    return {"order_id": order.id, "idempotent": False}


def place_spread(engine: Engine, given: Given) -> JsonValue:
    """Place a spread: an order for each leg, all filled on one tick or none."""
    session = running_session(engine, given["session_id"], given["account_id"])
    specs = _read_legs(given)
    net = given.get("net_limit_price")
    net_limit_e4 = None if net is None else exact_e4(net, "net_limit_price")
    client_id = given.get("client_order_id") or ""
    content = content_hash([session.id, given["qty"], net_limit_e4, [spec.content for spec in specs]])
    known = _known(engine, session, client_id, content)
    if known is not None:
        return {"order_id": known, "idempotent": True}
    require_later(specs[0], engine.now_ns, "")
    require_room(engine, len(specs))
    for number, spec in enumerate(specs):
        require_tradable(engine, session, spec.instrument, f"legs[{number}].instrument")
    verdict = judge(engine, session, specs)
    spread_id = f"spr-{len(engine.book.spreads) + 1:06d}"
    orders: list[Order] = []
    for spec in specs:
        order = new_order(engine, session, spec, client_order_id=client_id, spread_id=spread_id)
        _send(engine, order, verdict.reason, 0 if orders else verdict.reserve_e4)
        orders.append(order)
    engine.journal.emit(
        engine.now_ns,
        "SPREAD_PLACED",
        spread_id=spread_id,
        order_ids=[order.id for order in orders],
        units=given["qty"],
        net_limit_e4=net_limit_e4,
    )
    _remember(engine, orders[0], content)
    return {"order_id": orders[0].id, "idempotent": False}


def cancel(engine: Engine, given: Given) -> JsonValue:
    """Cancel a working order; of a spread, all its legs."""
    order = _working(engine, given)
    for leg in engine.legs_of(order):
        engine.journal.emit(engine.now_ns, "ORDER_CANCELLED", order_id=leg.id, reason=CANCELLED, replaced_by="")
    return {"order_id": order.id}


def modify(engine: Engine, given: Given) -> JsonValue:
    """Replace a working order by one with other prices or another quantity, which loses its place in time."""
    order = _working(engine, given)
    if order.spread_id:
        raise conflict("legs of a spread can't be modified; cancel the spread and place another", "order_id")
    session = engine.book.sessions[order.session_id]
    spec = _modified(order, given["updates"])
    verdict = judge(engine, session, [spec], [order])
    if verdict.reason:
        raise conflict(f"the order stays as it was: {verdict.reason}", "updates")
    changed = new_order(engine, session, spec, triggered=order.triggered, replaces=order.id)
    changed = replace(changed, expire_ns=order.expire_ns)
    engine.journal.emit(
        engine.now_ns, "ORDER_CANCELLED", order_id=order.id, reason="REPLACED: by a modification", replaced_by=changed.id
    )
    _send(engine, changed, "", verdict.reserve_e4)
    return {"order_id": changed.id, "replaces": order.id}


def exercise(engine: Engine, given: Given) -> JsonValue:
    """Exercise held contracts at once, or say whether they are to be exercised at expiry."""
    session = running_session(engine, given["session_id"], given["account_id"])
    instrument = Instrument("OPTION", parse_contract(given["contract"], "contract").symbol)
    account = engine.book.accounts[session.account_id]
    qty = given.get("qty")
    keep = given.get("do_not_exercise")
    if (qty is None) == (keep is None):
        raise invalid("qty", "give either qty, to exercise now, or do_not_exercise, for what happens at expiry")
    if qty is None:
        _instruct(engine, account, instrument, bool(keep))
        return {"contract": instrument.symbol}
    problem = exercise_problem(account, instrument, qty, trading_hours().session_day(engine.now_ns + 1))
    if problem is not None:
        raise conflict(problem, "contract")
    spot = engine.marks().get(f"STOCK:{instrument.underlying}")
    if spot is None:
        raise conflict("no price of the underlying is known yet; exercise later", "contract")
    life_event(engine, account, exercise_event(account.positions[instrument.id], qty, spot, session.rules.fees), engine.now_ns)
    return {"contract": instrument.symbol}


def _instruct(engine: Engine, account: Account, instrument: Instrument, do_not_exercise: bool) -> None:
    position = account.positions.get(instrument.id)
    if position is None or position.qty <= 0:
        raise conflict("the account holds no such contract", "contract")
    engine.journal.emit(
        engine.now_ns, "OPTION_INSTRUCTED", account_id=account.id, contract=instrument.symbol, do_not_exercise=do_not_exercise
    )


def _read_legs(given: Given) -> list[OrderSpec]:
    """Specs of a spread's legs, as market orders: what limits them is the net price."""
    expire_ns = read_expiry(given, "")
    specs = []
    for number, leg in enumerate(given["legs"]):
        instrument = read_instrument_argument(leg["instrument"], f"legs[{number}].instrument")
        qty = given["qty"] * leg.get("ratio", 1)
        if qty > _MOST_QTY:
            raise invalid(f"legs[{number}].ratio", f"qty × ratio is at most {_MOST_QTY}")
        time_in_force = given.get("time_in_force", "DAY")
        specs.append(OrderSpec(instrument, leg["side"], "MARKET", qty, None, None, time_in_force, expire_ns))
    if len({spec.instrument for spec in specs}) < len(specs):
        raise invalid("legs", "each leg has an instrument of its own")
    if len({spec.instrument.underlying for spec in specs}) > 1:
        raise invalid("legs", "all legs are about one underlying")
    return specs


def _modified(order: Order, updates: Given) -> OrderSpec:
    """The spec of what is left of an order after updates; `qty` counts what is filled already.

    Raises:
        ServiceError: `invalid_argument`: nothing to update, or a price that the type does not have; `conflict`: too late for it.
    """
    prices: dict[str, int | None] = {"limit_price": order.limit_e4, "stop_price": order.stop_e4}
    given = {name: value for name, value in updates.items() if value is not None}
    if not given:
        raise invalid("updates", "give at least one of qty, limit_price, stop_price")
    for name in prices:
        if name in given:
            if prices[name] is None:
                raise invalid(f"updates.{name}", f"{order.order_type} orders don't have it")
            prices[name] = read_price(given[name], order.instrument.kind, f"updates.{name}")
    if order.triggered and "stop_price" in given:
        raise conflict("the stop has been reached already", "updates.stop_price")
    left = given.get("qty", order.qty) - order.filled_qty
    if left <= 0:
        raise conflict(f"{order.filled_qty} are filled already; cancel the order instead", "updates.qty")
    expire_ns = order.expire_ns if order.time_in_force == "GTD" else None
    return OrderSpec(
        order.instrument,
        order.side,
        order.order_type,
        left,
        prices["limit_price"],
        prices["stop_price"],
        order.time_in_force,
        expire_ns,
    )


def _working(engine: Engine, given: Given) -> Order:
    session = running_session(engine, given["session_id"], given["account_id"])
    order = engine.book.orders.get(given["order_id"])
    if order is None or order.session_id != session.id:
        raise not_found("order_id", "the session has no such order")
    if order.status not in WORKING:
        raise conflict(f"the order is {order.status}", "order_id")
    if order.forced:
        raise conflict("the broker placed the order to meet a margin call; it can't be changed", "order_id")
    return order


def _known(engine: Engine, session: Session, client_id: str, content: str) -> str | None:
    """Id of the order that a client's id stands for already.

    Raises:
        ServiceError: `conflict`: it stands for another one.
    """
    known = engine.book.client_calls.get((session.account_id, client_id)) if client_id else None
    if known is not None and known.content != content:
        raise ServiceError("conflict", "the id was used for another order; take a new one", "client_order_id")
    return None if known is None else known.order_id


def _remember(engine: Engine, order: Order, content: str) -> None:
    if order.client_order_id:
        engine.journal.emit(
            engine.now_ns,
            "CLIENT_ID_USED",
            account_id=order.account_id,
            client_order_id=order.client_order_id,
            order_id=order.id,
            content=content,
        )


def _send(engine: Engine, order: Order, reason: str, reserve_e4: int) -> None:
    if reason:
        rejected = replace(order, status="REJECTED", reason=reason)
        engine.journal.emit(engine.now_ns, "ORDER_REJECTED", order=order_payload(rejected))
    else:
        engine.journal.emit(engine.now_ns, "ORDER_ACCEPTED", order=order_payload(order), reserve_e4=reserve_e4)
