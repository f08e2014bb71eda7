"""Rules that are known to be broken when an action is decided."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from test_trading_executor import CHINEXT, STAR, A, B, buy, day_at, sell, under

from ktdeval.trading.constraints import known_breaches
from ktdeval.trading.executor import execute
from ktdeval.trading.types import Account, Action, Order, Position, TradingConfig
from searching import examples

TWO = TradingConfig(max_positions=2, max_weight=0.6, constraint_feedback=True)
WORTH = {A: 1_000, CHINEXT: 2_000, B: 5_000, STAR: 4_000}  # fen a share: the closes of `day_at`
HALF = Account(50_000_000, {A: Position(50_000, 100)})  # half of the NAV in cash, the other in A
FULL = Account(0, {A: Position(50_000), CHINEXT: Position(25_000)})


def breaches(account: Account, *action: Order, config: TradingConfig = TWO) -> list[tuple[int, str]]:
    values = {asset: held.shares * WORTH[asset] for asset, held in account.positions.items()}
    return [tuple(breach) for breach in known_breaches(account, values, action, config)]


@pytest.mark.parametrize(
    ("account", "action", "expected"),
    [
        (HALF, (), []),
        (HALF, (buy(None, 100), sell(None, 100)), [(1, "universe"), (0, "universe")]),
        (HALF, (sell(B, 100), sell(A, 60_000), sell(A, 100)), [(0, "holding"), (2, "holding")]),
        (HALF, (sell(A, 100),), []),  # what was bought today can be sold at the next open
        (HALF, (buy(B, weight=0.6),), []),
        (HALF, (buy(B, weight=0.601),), [(0, "weight_limit")]),
        (HALF, (buy(A, 10_000),), []),  # 60 % exactly
        (HALF, (buy(A, 10_100),), [(0, "weight_limit")]),
        (HALF, (buy(B, 10_000_000),), []),  # the price of a name that is not held is not known here
        (HALF, (buy(B, weight=0.1), buy(STAR, weight=0.1)), [(1, "position_limit")]),
        (HALF, (buy(B, weight=0.1), buy(STAR, weight=0.1), sell(A, weight=0.0)), []),  # sells come first
        (HALF, (buy(B, weight=0.1), buy(STAR, weight=0.1), sell(A, 50_000)), []),
        (HALF, (buy(B, weight=0.1), buy(STAR, weight=0.1), sell(A, weight=0.01)), [(1, "position_limit")]),
        (HALF, (buy(B, weight=0.5), buy(A, weight=0.6)), [(1, "cash")]),
        (HALF, (buy(B, weight=0.4), buy(A, weight=0.6)), []),  # exactly all of it
        (HALF, (buy(B, weight=0.45), buy(A, weight=0.6)), []),  # the last is cut, not rejected
        (FULL, (buy(A, weight=0.55),), [(0, "cash")]),
        (FULL, (buy(A, weight=0.55), sell(CHINEXT, weight=0.45)), []),
    ],
)  # fmt: skip
def test_an_order_breaks_a_rule_as_known_at_the_close(account: Account, action: Action, expected: list[tuple[int, str]]) -> None:
    assert breaches(account, *action) == expected


ORDERS = st.builds(
    lambda asset, side, weight, shares: sell(asset, shares) if shares and side == "SELL" else Order(asset, side, 0.5, "", weight),
    st.sampled_from([A, CHINEXT, B, None]),
    st.sampled_from(["BUY", "SELL"]),
    st.sampled_from([0.0, 0.1, 0.3, 0.6, 0.8, 1.0]),
    st.none() | st.integers(1, 600).map(lambda lots: lots * 100),
)


@examples(60, search=150)
@given(st.lists(ORDERS, max_size=6), st.sampled_from([HALF, FULL, Account(100_000_000, {})]))
def test_the_executor_fills_no_order_whole_that_is_known_to_break_a_rule(orders: list[Order], account: Account) -> None:
    found = breaches(account, *orders)
    _, outcomes = execute(account, under(day_at(10.0), TWO), tuple(orders))
    assert all(outcomes[place].status != "filled" for place, _ in found)
    if found and found[0][1] != "cash":  # the orders before the first are filled as they were judged
        assert outcomes[found[0][0]].status == "rejected"
