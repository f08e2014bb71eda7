"""Situations that broker items start in: an account with a running session, perhaps with positions and orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval.api import JsonValue
from ktdeval_qfinzero.bench.facts import Facts
from ktdeval_qfinzero.bench.items import ACCOUNT, SESSION, Call
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.trading_hours import trading_hours

IDS: dict[str, JsonValue] = {"session_id": SESSION, "account_id": ACCOUNT}
CASH = 250_000.0


@dataclass(frozen=True, slots=True)
class Desk:
    """What a trader finds.

    Attributes:
        stocks, options: of the session's universe.
        account_type: MARGIN or CASH.
        cash: at the start.
        sessions_ahead: trading days that the session has left.
    """

    stocks: tuple[str, ...]
    options: tuple[str, ...] = ()
    account_type: str = "MARGIN"
    cash: float = CASH
    sessions_ahead: int = 15


def desk(facts: Facts, wanted: Desk) -> tuple[Call, ...]:
    """Calls that open an account and a daily session from the clock on."""
    close_ns = trading_hours().close_of(facts.session(wanted.sessions_ahead))
    universe = {"stocks": list(wanted.stocks), **({"options": list(wanted.options)} if wanted.options else {})}
    return (
        Call("PMB.account.create", {"account_type": wanted.account_type, "initial_cash": wanted.cash}),
        Call(
            "PMB.session.create",
            {
                "account_id": ACCOUNT,
                "frequency": "1d",
                "start_ts": moment_text(facts.as_of_ns),
                "end_ts": moment_text(close_ns),
                "universe": universe,
            },
        ),
    )


def stock(symbol: str) -> dict[str, JsonValue]:
    """A stock as orders name it."""
    return {"type": "STOCK", "symbol": symbol}


def option(contract: str) -> dict[str, JsonValue]:
    """An option as orders name it."""
    return {"type": "OPTION", "contract": contract}


def place(instrument: dict[str, JsonValue], side: str, qty: int, kind: str = "MARKET", **more: JsonValue) -> Call:
    """An order of the situation's account; `more` are prices, time in force and expiry."""
    order: dict[str, JsonValue] = {"instrument": instrument, "side": side, "order_type": kind, "qty": qty, **more}
    return Call("PMB.order.place", {**IDS, "order": order})


def step(count: int = 1) -> Call:
    """Go on by so many trading days."""
    return Call("PMB.session.step", {"session_id": SESSION, "step": count})


def holding(facts: Facts, symbols: Sequence[str], qty: int, wanted: Desk | None = None) -> tuple[Call, ...]:
    """A desk that bought some stocks on its first day; the clock is a day later then."""
    opened = desk(facts, wanted or Desk(tuple(symbols)))
    return (*opened, *(place(stock(symbol), "BUY", qty) for symbol in symbols), step())
