"""Rules that are known to be broken when an action is decided."""

from __future__ import annotations

from hypothesis import given, strategies as st
from test_trading_executor import CHINEXT, STAR, A, B, day_at, order_of, sell, under

from ktdeval.trading.constraints import known_breaches
from ktdeval.trading.executor import execute
from ktdeval.trading.types import Account, Order, Position, TradingConfig
from searching import examples
from tables import on_each_row

TWO = TradingConfig(max_positions=2, max_weight=0.6, constraint_feedback=True)
WORTH = {A: 1_000, CHINEXT: 2_000, B: 5_000, STAR: 4_000}  # fen a share: the closes of `day_at`
HALF = Account(50_000_000, {A: Position(50_000, 100)})
FULL = Account(0, {A: Position(50_000), CHINEXT: Position(25_000)})
ACCOUNTS = {"half": HALF, "full": FULL}


def breaches(account: Account, *action: Order, config: TradingConfig = TWO) -> list[tuple[int, str]]:
    values = {asset: held.shares * WORTH[asset] for asset, held in account.positions.items()}
    return [tuple(breach) for breach in known_breaches(account, values, action, config)]


@on_each_row
def test_an_order_breaks_a_rule_as_known_at_the_close(account: str, action: list[str], found: list[str]) -> None:
    assert [f"{place} {rule}" for place, rule in breaches(ACCOUNTS[account], *map(order_of, action))] == found


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
