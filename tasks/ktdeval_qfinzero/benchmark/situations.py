"""Situations that broker items start in: an account with a running session, perhaps with positions; and orders in them."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.benchmark.facts import Facts
from ktdeval_qfinzero.benchmark.items import ACCOUNT, SESSION, Call
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.trading_hours import trading_hours

IDS: dict[str, JsonValue] = {"session_id": SESSION, "account_id": ACCOUNT}
_CASH = 250_000.0
_SESSIONS_AHEAD = 15


def order(fields: dict[str, JsonValue]) -> Call:
    """Return an order of the situation's account."""
    return Call("PMB.order.place", {**IDS, "order": fields})


def opening(facts: Facts, stocks: Sequence[str], options: Sequence[str] = (), held: int = 0) -> tuple[Call, ...]:
    """Return calls that open an account and a daily session from the clock on. `facts`: the market at the clock; `stocks`: of the
    session's universe; `options`: of the session's universe; `held`: how many of each stock are bought on the first day; the clock
    is a day later then. 0 for none.
    """
    universe = {"stocks": list(stocks), **({"options": list(options)} if options else {})}
    ends_ns = trading_hours().close_of(facts.session(_SESSIONS_AHEAD))
    span = {"start_ts": moment_text(facts.as_of_ns), "end_ts": moment_text(ends_ns)}
    opened = (
        Call("PMB.account.create", {"account_type": "MARGIN", "initial_cash": _CASH}),
        Call("PMB.session.create", {"account_id": ACCOUNT, "frequency": "1d", **span, "universe": universe}),
    )
    if not held:
        return opened
    bought = (
        order({"instrument": {"type": "STOCK", "symbol": symbol}, "side": "BUY", "order_type": "MARKET", "qty": held})
        for symbol in stocks
    )
    return (*opened, *bought, Call("PMB.session.step", {"session_id": SESSION, "step": 1}))
