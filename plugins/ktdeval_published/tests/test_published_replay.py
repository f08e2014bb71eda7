"""Execution of declared orders again, against hand-worked accounts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ktdeval.market import Fees, find_venue
from ktdeval_published.clone import open_clone
from ktdeval_published.fills import OPEN_OF_BAR, breaches_of, infer_fills
from ktdeval_published.forms.position_rows import DeclaredAccount, read_account
from ktdeval_published.prices import BoardBars, read_bars
from ktdeval_published.random_names import random_final_values
from ktdeval_published.recipe import load_recipe
from ktdeval_published.replay import (
    ReplayTerms,
    declared_nav,
    execute,
    fee_of,
    honest_gap,
    nav_of,
    terms_of,
    traded_days,
)

A_SHARE = find_venue("a_share")


@pytest.fixture
def account(board: Path) -> DeclaredAccount:
    data = (board / "runs/one/position.jsonl").read_bytes()
    return read_account(data, Path("position.jsonl"), "CASH")


@pytest.fixture
def bars(board: Path) -> BoardBars:
    recipe = load_recipe(board / "recipe.yaml")
    assert recipe.market is not None
    return read_bars(open_clone(board, "0123456"), recipe.market.prices)


def test_a_row_of_amount_zero_is_no_trade(account: DeclaredAccount) -> None:
    assert len(account.orders) == 3
    assert account.of_zero == 1
    assert account.unexplained == 0


def test_the_price_of_a_fill_follows_from_cash(account: DeclaredAccount) -> None:
    assert [order.price for order in account.orders] == [10.0, 11.0, 52.0]


def test_own_rows_yield_the_declared_value(account: DeclaredAccount, bars: BoardBars) -> None:
    days = traded_days(account, bars)
    declared = declared_nav(account, bars, days)
    again = nav_of(execute(account, bars, ReplayTerms("declared")), bars, days)

    # 600 * 11.5 + 94,400 on the first day; 600 * 13.5 + 100 * 53.5 + 89,200 on the second
    assert declared == pytest.approx([101300.0, 102650.0], abs=1e-9)
    assert again == pytest.approx(declared, abs=1e-9)


def test_a_fill_never_comes_before_the_moment_of_its_row(
    account: DeclaredAccount, bars: BoardBars
) -> None:
    done = execute(account, bars, ReplayTerms("first_price", "end"))

    # each at the open of the bar that begins at the row's stamp: 11, 12, 53 instead of 10, 11, 52
    assert [trade.price for trade in done.trades] == [11.0, 12.0, 53.0]
    assert honest_gap(account.orders, bars, "end") == pytest.approx(1000 - 400 + 100)


def test_shares_bought_on_a_day_cannot_be_sold_on_it(
    account: DeclaredAccount, bars: BoardBars
) -> None:
    # bars that end at the stamp of a row begin before it: the sell would fill on the next day
    same_day = execute(account, bars, replace(terms_of(A_SHARE, "begin", 0), stamp="begin"))
    assert same_day.refused == {"T+1": 1}
    assert [trade.quantity for trade in same_day.trades] == [1000, 100]

    next_day = execute(account, bars, terms_of(A_SHARE, "end", 0))
    assert next_day.refused == {}


def test_a_star_buy_below_its_minimum_is_refused(account: DeclaredAccount, bars: BoardBars) -> None:
    done = execute(account, bars, terms_of(A_SHARE, "end", 200))
    assert done.refused == {"STAR minimum": 1}
    assert [trade.quantity for trade in done.trades] == [1000, -400]


def test_breaches_are_counted_in_the_account_as_declared(account: DeclaredAccount) -> None:
    assert breaches_of(account, A_SHARE, 200) == {"T+1": 1, "STAR minimum": 1}


def test_the_convention_of_fills_is_inferred(account: DeclaredAccount, bars: BoardBars) -> None:
    counts = infer_fills(account.orders, bars, None)
    assert counts[OPEN_OF_BAR] == 1  # the second row; the first bars of days have both opens
    assert sum(counts.values()) == 3


def test_costs_follow_the_formula_of_the_venue() -> None:
    assert fee_of(A_SHARE.fees, 1000, 10.0) == pytest.approx(5.0)  # 5 bp of 10,000; minimum 5
    assert fee_of(A_SHARE.fees, -1000, 20.0) == pytest.approx(30.0)  # 15 bp of 20,000
    us = find_venue("us_equity").fees
    assert fee_of(us, 10, 100.0) == pytest.approx(1.0)  # the minimum
    assert fee_of(us, 1, 50.0) == pytest.approx(0.5)  # at most 1 %
    # sells: 0.278 bp of 1,000 and 0.000166 a share
    assert fee_of(us, -10, 100.0) == pytest.approx(1.0 + 0.0278 + 0.00166)


def test_a_buy_is_cut_to_what_the_cash_pays_for(account: DeclaredAccount, bars: BoardBars) -> None:
    poor = replace(account, states=(replace(account.states[0], cash=5400.0), *account.states[1:]))
    done = execute(poor, bars, replace(terms_of(A_SHARE, "end", 0), fees=Fees()))
    assert done.trades[0].quantity == 400  # 4 lots at 11
    assert done.refused["cash"] == 1


def test_random_traders_of_the_only_name_are_the_trader(
    account: DeclaredAccount, bars: BoardBars
) -> None:
    alone = replace(account, orders=account.orders[:2])
    one = BoardBars(
        stamps=bars.stamps,
        symbols=bars.symbols[:1],
        **{name: getattr(bars, name)[:, :1] for name in ("open", "high", "low", "close", "volume")},
    )
    days = traded_days(alone, one)
    done = execute(alone, one, terms_of(A_SHARE, "end", 0))
    values = random_final_values(done.trades, one, 100000.0, days, "seed")
    assert values == pytest.approx(np.full(len(values), nav_of(done, one, days)[-1]))


def test_an_id_that_repeats_begins_a_branch_from_an_earlier_state() -> None:
    def row(number: int, day: str, amount: float, held: float) -> bytes:
        action = f'{{"action": "buy", "symbol": "A", "amount": {amount}}}'
        positions = f'{{"A": {held}, "CASH": {100 - held}}}'
        return (
            f'{{"date": "{day}", "id": {number}, "this_action": {action},'
            f' "positions": {positions}}}'
        ).encode()

    rows = [
        b'{"date": "2025-11-01", "id": 0, "positions": {"A": 0, "CASH": 100}}',
        row(1, "2025-11-02", 1, 1),
        row(2, "2025-11-03", 7, 8),
        row(2, "2025-11-04", 2, 3),
    ]
    account = read_account(b"\n".join(rows), Path("x"), "CASH")
    assert account.forked_rows == 1
    assert [order.quantity for order in account.orders] == [1, 2]
    assert account.unexplained == 0
    assert account.states[-1].cash == 97
