"""The account at book: what orders come to, whatever the market made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktdeval.runner.episodes.book_account import BookAccount
from ktdeval.testing import on_each_row
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.types import BOOK_NAV, Account, Order, TradingConfig
from ktdeval.values import from_plain
from support.figures.metric_cases import order, step

CODES = {"600000.SH": 0, "600001.SH": 1, "600002.SH": 2, "600003.SH": 3}
NAMES = dict(zip("ABCD", CODES, strict=True))
RULES = TradingConfig(max_positions=2, max_weight=0.6, constraint_feedback=True)
SIDES = {"+": "BUY", "-": "SELL"}


def parsed(text: str) -> tuple[str | None, str, float]:
    """Code, side and target weight of an order such as `A+0.5`; `?` names no asset."""
    return NAMES.get(text[0]), SIDES[text[1]], float(text[2:])


def record(orders: Sequence[str], **outcome: Any) -> StepRecord:
    """A step with these orders; money and positions are of some market."""
    rows = []
    for code, side, weight in map(parsed, orders):
        rows.append(order(code, side, target_weight=weight, **outcome))

    filled = step(0, 12_345, dict.fromkeys(CODES, 777), orders=rows)
    return from_plain(filled, StepRecord, "a step", ValueError)


def followed(steps: Sequence[str], config: TradingConfig = RULES, **outcome: Any) -> BookAccount:
    """Books after some steps, each the orders of one text."""
    books = BookAccount(config, CODES)
    for orders in steps:
        books.follow(Account(98_765, {}), record(orders.split(), **outcome))

    return books


@on_each_row(
    "steps, weights, cash",
    ([], {}, 1.0),
    (["A+0.1"], {"A": 0.1}, 0.9),
    (["A+0.1", ""], {"A": 0.1}, 0.9),
    (["A+0.1", "A+0.3"], {"A": 0.3}, 0.7),
    (["A+0.3", "A-0.1"], {"A": 0.1}, 0.9),
    (["A+0.3", "A-0"], {}, 1.0),
    # a buy never lowers a weight, a sell never raises one
    (["A+0.3", "A+0.1"], {"A": 0.3}, 0.7),
    (["A+0.3", "A-0.5"], {"A": 0.3}, 0.7),
    (["A-0.5"], {}, 1.0),
    # cash cuts a buy; sells come first
    (["A+0.6 B+0.6"], {"A": 0.6, "B": 0.4}, 0.0),
    (["A+0.6 B+0.4", "C+0.3 A-0.2"], {"A": 0.2, "B": 0.4, "C": 0.3}, 0.1),
    (["A+1.0", "B+0.1"], {"A": 1.0}, 0.0),
    (["?+0.5"], {}, 1.0),
    (["A+0.123456789"], {"A": 0.123456789}, 0.876543211),
)
def test_an_account_at_book_is_what_was_ordered(
    steps: list[str], weights: dict[str, float], cash: float
) -> None:
    account = followed(steps).account
    held = {
        name: account.positions[CODES[code]].shares
        for name, code in NAMES.items()
        if CODES[code] in account.positions
    }

    assert held == {name: round(weight * BOOK_NAV) for name, weight in weights.items()}
    assert account.cash_minor == round(cash * BOOK_NAV)
    assert account.cash_minor + sum(held.values()) == BOOK_NAV


def test_no_outcome_of_an_order_is_in_it() -> None:
    steps = ["A+0.5", "A-0.2 B+0.3"]
    filled = followed(steps)
    rejected = followed(steps, filled=0, rule="suspended", price_ticks=0)

    assert filled.account == rejected.account
    assert filled.last == rejected.last
    assert filled.last is not None
    assert (filled.last.positions, filled.last.nav_minor) == ((), 0)


@on_each_row(
    "steps, orders, expected",
    ([], "A+0.5", []),
    ([], "?+0.5", ["0 universe"]),
    ([], "A-0", ["0 holding"]),
    ([], "A+0.61", ["0 weight_limit"]),
    (["A+0.3 B+0.3"], "C+0.1", ["0 position_limit"]),
    (["A+0.3 B+0.3"], "C+0.1 A-0", []),
    (["A+0.6 B+0.4"], "A+0.6", []),
    (["A+0.5 B+0.5"], "A+0.6", ["0 cash"]),
    (["A+0.5 B+0.5"], "A+0.6 B-0.4", []),
    # a sale may have found no buyer: it may be given again
    (["A+0.5", "A-0"], "A-0 B-0", ["1 holding"]),
)
def test_a_rule_is_broken_at_book(steps: list[str], orders: str, expected: list[str]) -> None:
    action = []
    for code, side, weight in map(parsed, orders.split()):
        asset = None if code is None else CODES[code]
        action.append(Order(asset, side, 0.5, "", weight))  # type: ignore[arg-type]

    books = followed(steps)
    assert [f"{index} {rule}" for index, rule in books.breaches(tuple(action))] == expected

    silent = followed(steps, TradingConfig(max_positions=2, max_weight=0.6))
    assert silent.breaches(tuple(action)) == []
