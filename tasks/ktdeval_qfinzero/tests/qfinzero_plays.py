"""Plays in YAML: what is done with a broker, line by line, and what is true after each line.

The first name of a line says what is done: a market and its session (`minutes`, `days`), a method
of `Play`, such as `ask` with its `answer`, or `look`. All others are facts: a path from the play, such as `account/fees_e4` or
`ord-000001/status`, or one of `FACTS`, with its value. `refused` has words of the refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import reduce
from typing import Any

import pytest

from ktdeval_qfinzero.data.rows import Bars, BorrowRow, DealRow, DividendRow, SplitRow
from ktdeval_qfinzero.pmb.broker import verify
from ktdeval_qfinzero.pmb.broker_types import Order
from ktdeval_qfinzero.pmb.log import state_of_log
from ktdeval_qfinzero.timestamps import moment_text
from support.qfinzero.qfinzero_broker_play import (
    FLAT,
    Play,
    Row,
    at_prices,
    by_days,
    market,
    minutes,
    types,
    with_rules,
)
from support.qfinzero.qfinzero_calls import refused
from support.qfinzero.qfinzero_invariants import check_invariants
from support.qfinzero.qfinzero_world import at, small_dataset
from support.tables import beside

Line = Mapping[str, Any]
Test = Callable[[Sequence[Line]], None]
ROWS = {
    "borrow_rows": BorrowRow,
    "deal_rows": DealRow,
    "dividend_rows": DividendRow,
    "split_rows": SplitRow,
}


def on_each_play(test: Test) -> Test:
    """Run a test on each play beside its module."""
    plays = beside(test.__code__.co_filename)["plays"]
    return pytest.mark.parametrize("lines", plays.values(), ids=plays)(test)


def run_play(lines: Sequence[Line]) -> None:
    """Do what the lines say and compare what is true after each. At the end the log must bring
    about the state, the commands the log, and the records must agree with each other.
    """
    (created, given), *facts = lines[0].items()
    play = CREATED[created](given)
    compare(play, dict(facts))
    for line in lines[1:]:
        follow(play, line)

    check_invariants(play.broker)
    recorded = play.broker.log.to_lines()
    assert state_of_log(recorded) == play.state
    verify(recorded, play.dataset)


def follow(play: Play, line: Line) -> None:
    """Do what a line says and compare what is true after it."""
    (name, given), *rest = line.items()
    facts = dict(rest)
    call, arguments, named = action_of(play, name, given)
    words = facts.pop("refused", None)
    last = len(play.broker.log.entries)
    if words is None:
        call(*arguments, **named)
    else:
        error = refused(call, *arguments, **named)
        assert words in f"{error.code} {error}", line

    facts_of_events = {"events": types(list(play.broker.log.events(after=last - 1)))}
    compare(play, facts, facts_of_events)


def action_of(play: Play, name: str, given: Any) -> tuple[Callable[..., Any], list[Any], Line]:
    """Return what is called, and its arguments; the last ones may be named."""
    arguments = list(given) if isinstance(given, list) else [given]
    named = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
    if name == "look":
        return play.broker.synchronise, [], {}
    if name == "wait":
        return play.broker.clock.advance, [at(given)], {}
    if hasattr(play, name):
        return getattr(play, name), arguments, named

    return play.call, [name], named


def compare(play: Play, facts: Line, more: Line | None = None) -> None:
    """Compare facts of a play with what they should be."""
    for path, expected in facts.items():
        found = more[path] if more and path in more else fact(play, path)
        assert found == expected, path


def fact(play: Play, path: str) -> Any:
    """Return a fact by its path."""
    first, *rest = path.split("/")
    if first in FACTS:
        return FACTS[first](play, *rest)

    root = play.state.orders if first.startswith("ord-") else play
    return reduce(_part, (first, *rest), root)


def _part(whole: Any, name: str) -> Any:
    if isinstance(whole, Mapping):
        return whole[name]
    if isinstance(whole, list):
        return whole[int(name)]
    return getattr(whole, name)


def orders(play: Play) -> list[Order]:
    return list(play.state.orders.values())


FACTS: Mapping[str, Callable[..., Any]] = {
    "statuses": lambda play: [order.status for order in orders(play)],
    "reasons": lambda play: [order.reason.partition(":")[0] for order in orders(play)],
    "filled": lambda play: [order.filled_qty for order in orders(play)],
    "open": lambda play: [order.open_qty for order in orders(play)],
    "prices": lambda play: play.prices(),
    "held": lambda play, symbol="AVLN": play.held(symbol),
    "forbidden": lambda play: [contract for _, contract in sorted(play.state.do_not_exercise)],
    "shown": lambda play: [order["order_id"] for order in play.answer["orders"]],
    "now": lambda play: moment_text(play.broker.clock.as_of_ns),
    "marks": lambda play, symbol: play.broker.engine.marks()[f"STOCK:{symbol}"],
    "session": lambda play, name: getattr(play.state.sessions[play.session_id], name),
    "times": lambda play, kind: [moment_text(event.ts_ns) for event in play.events(kind)],
    "each": lambda play, kind, name: [getattr(event.data, name) for event in play.events(kind)],
}


# ---- markets


def row(value: Any) -> Row | None:
    """Return a bar: a price; price and volume; open, high and low with a volume or a great one; or
    all five.
    """
    match value:
        case None:
            return None
        case [price, volume]:
            return (price, price, price, price, volume)
        case [opens, high, low]:
            return (opens, high, low, opens, FLAT[-1])
        case [opens, high, low, volume]:
            return (opens, high, low, opens, volume)
        case [*five]:
            return tuple(five)
    return (value, value, value, value, FLAT[-1])


def rows_of(given: Line) -> dict[str, Any]:
    """Return the rows of a market: corporate actions and shares to borrow."""
    made: dict[str, Any] = {}
    for name, kind in ROWS.items():
        if name in given:
            made[name] = [kind(*map(read_cell, values)) for values in given[name]]

    return made


def read_cell(value: Any) -> Any:
    """Return a cell of a row, where a day is a text."""
    is_day = isinstance(value, str) and value[:2] == "20"
    return date.fromisoformat(value) if is_day else value


def arguments_of(given: Line) -> dict[str, Any]:
    """Return the arguments of a play, without its market; `rules` are on top of none that cost."""
    own = {name: value for name, value in given.items() if name not in ("bars", *ROWS)}
    if "rules" in own:
        own["config"] = with_rules(own.pop("rules"))
    return own


def of_minutes(given: Line) -> Play:
    """Minutes from the open of Monday 2025-01-06 on, by symbol."""
    bars = {symbol: bars_of(rows) for symbol, rows in given["bars"].items()}
    return Play(market(bars, **rows_of(given)), **arguments_of(given))


def bars_of(rows: Any) -> Bars:
    """Return bars of minutes, one after the other or by moment."""
    if isinstance(rows, dict):
        return at_prices(list(map(at, rows)), list(rows.values()))
    return minutes(list(map(row, rows)))


def price_of(value: Any) -> Any:
    """Return a day's price, its open and close, or its whole row."""
    return tuple(value) if isinstance(value, list) else value


def of_days(given: Line) -> Play:
    """Days from Friday 2025-01-03 on, one before the session, by symbol."""
    own = {name: read_cell(value) for name, value in arguments_of(given).items()}
    longest = max(map(len, given["bars"].values()))
    own = {"days": longest - 1, "config": {}, **own}
    prices = {symbol: list(map(price_of, bars)) for symbol, bars in given["bars"].items()}
    return by_days(prices, **own, **rows_of(given))


CREATED: Mapping[str, Callable[[Line], Play]] = {
    "minutes": of_minutes,
    "days": of_days,
    "small": lambda given: Play(small_dataset(), **given),
}
