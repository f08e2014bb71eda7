"""The gap between a declared and an executed account is a sum of causes, worked by hand."""

import numpy as np
import pytest

from ktdeval.attribution import (
    GAP_CAUSES,
    AccountFill,
    AccountPath,
    account_gap,
    book_fills,
    declared_nav,
)
from ktdeval.errors import DataError

CLOSES = np.array([[20.0], [25.0]])


def path(cash, fills, closes=CLOSES):
    """Return an account whose values follow from its fills."""
    values = np.full(len(closes), cash)
    for fill in fills:
        gains = fill.shares * closes[fill.row :, fill.asset] - fill.paid
        values[fill.row :] += gains - fill.fee
    return AccountPath(fills=tuple(fills), values=values)


def parts_at_the_end(gap):
    return {cause: round(float(gap.parts[cause][-1]), 9) for cause in GAP_CAUSES}


def test_price_quantity_and_fees_of_one_decision_are_told_apart():
    declared = path(1000.0, [AccountFill(0, 0, 10.0, 200.0, fee=1.0, decision="a")])
    executed = path(1000.0, [AccountFill(0, 0, 8.0, 168.0, fee=2.0, decision="a")])

    gap = account_gap(declared, executed, CLOSES)

    assert gap.gap[-1] == 1049.0 - 1030.0
    assert parts_at_the_end(gap) == {
        "price_and_moment": 8.0,
        "lots_and_limits": 10.0,
        "fees": 1.0,
        "rows_left_out": 0.0,
        "corporate_actions": 0.0,
        "residual": 0.0,
    }


def test_a_fill_a_row_later_is_a_matter_of_the_moment_from_its_first_day():
    declared = path(1000.0, [AccountFill(0, 0, 10.0, 150.0, decision="a")])
    executed = path(1000.0, [AccountFill(1, 0, 10.0, 220.0, decision="a")])

    gap = account_gap(declared, executed, CLOSES)

    # at the first close only the declared account holds: 10 (20 - 15); then 10 (22 - 15)
    assert gap.parts["price_and_moment"].tolist() == [50.0, 70.0]
    assert gap.largest_residual == 0.0


def test_a_decision_that_was_left_out_is_a_cause_of_its_own():
    declared = path(1000.0, [AccountFill(0, 0, 10.0, 200.0, decision="late")])
    executed = path(1000.0, [])

    gap = account_gap(declared, executed, CLOSES, left_out=["late"])

    assert parts_at_the_end(gap)["rows_left_out"] == 50.0
    assert parts_at_the_end(gap)["lots_and_limits"] == 0.0


def test_a_split_that_only_the_executor_books_is_a_corporate_action():
    closes = np.array([[20.0], [10.0]])
    bought = AccountFill(0, 0, 10.0, 200.0, decision="a")
    declared = path(1000.0, [bought], closes)
    executed = path(1000.0, [bought, AccountFill(1, 0, 10.0, 0.0)], closes)

    gap = account_gap(declared, executed, closes)

    assert gap.gap.tolist() == [0.0, -100.0]
    assert parts_at_the_end(gap)["corporate_actions"] == -100.0


def test_money_that_no_fill_explains_stays_in_the_residual():
    declared = path(1000.0, [])
    paid_in = AccountPath(fills=(), values=np.array([1000.0, 1007.5]))

    gap = account_gap(paid_in, declared, CLOSES)

    assert parts_at_the_end(gap)["residual"] == 7.5
    assert gap.largest_residual == 7.5


def test_a_round_trip_within_a_day_is_a_matter_of_its_prices():
    trip = [
        AccountFill(0, 0, 10.0, 180.0, decision="a"),
        AccountFill(0, 0, -10.0, -190.0, decision="a"),
    ]

    gap = account_gap(path(1000.0, trip), path(1000.0, []), CLOSES)

    assert parts_at_the_end(gap)["price_and_moment"] == 10.0


def test_books_become_fills_whose_money_is_the_change_of_cash():
    cash = np.array([1000.0, 700.0, 700.0, 900.0])
    holdings = np.array([[0.0, 0.0], [10.0, 5.0], [20.0, 5.0], [20.0, 0.0]])
    references = np.full((4, 2), [20.0, 10.0])

    fills = book_fills(cash, holdings, (0, 0, 1, 1), ("", "a", "b", "c"), references)

    # 300 for two assets that are worth 250 at the references: 240 and 60
    assert fills[0] == AccountFill(0, 0, 10.0, 240.0, decision="a")
    assert fills[1] == AccountFill(0, 1, 5.0, 60.0, decision="a")
    # ten shares without cash: a split, although the file has a row of it
    assert fills[2] == AccountFill(1, 0, 10.0, 0.0)
    assert fills[3] == AccountFill(1, 1, -5.0, -200.0, decision="c")


def test_the_declared_value_is_cash_and_shares_at_the_close():
    closes = np.array([[20.0, np.nan], [25.0, np.nan]])
    held = np.array([[10.0, 0.0], [10.0, 1.0]])

    values = declared_nav(np.array([100.0, 100.0]), held, closes)

    # an asset that is not held needs no price; one that is held does
    assert values[0] == 300.0
    assert np.isnan(values[1])


def test_accounts_of_other_days_are_refused():
    with pytest.raises(DataError, match="2 declared and 1 executed values for 2 rows"):
        account_gap(path(1.0, []), path(1.0, [], CLOSES[:1]), CLOSES)
