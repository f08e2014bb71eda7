"""Contributions, round trips and the sentence of an episode are those worked by hand, and gains and
what no asset explains add up to the return whatever is traded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError
from ktdeval_view.asset_gains import asset_gains
from ktdeval_view.return_summary import Benchmark, ReturnSummary, summarise_return
from ktdeval_view.round_trips import RoundTrip, round_trips
from ktdeval_view.run_cards import ReturnPart
from support.figures.hand_account import CASH, A, Account, B, sold_in_two_parts


def summary(account: Account, **given_facts: Any) -> ReturnSummary:
    facts: dict[str, Any] = {"parts": "no card", "benchmark": None, "is_finished": True}
    return summarise_return(account.ledger, **(facts | given_facts))


def sentence(account: Account, **given_facts: Any) -> str:
    """The sentence with plain spaces and minus signs."""
    words = summary(account, **given_facts).sentence
    return words.replace("\N{NARROW NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-")


# -- contributions


def test_gains_by_day_and_asset_are_those_worked_by_hand() -> None:
    gains = asset_gains(sold_in_two_parts().ledger)

    assert gains.codes == [A]
    assert gains.gains[:, 0].tolist() == [900, 1_200, -100]
    assert gains.unexplained.tolist() == [0, 0, 0]
    assert gains.largest_loss(1) is None
    assert gains.largest_loss(2) == (A, -100)


def test_interest_margin_calls_splits_and_dividends_are_their_assets() -> None:
    account = Account()
    account.trade(A, -15, 45_000, fee=100)
    account.trade(B, 7, 7_000)
    account.close({A: 3_000, B: 1_000})
    account.charge("borrow", A, -15, -12)
    account.split(B, 3, 140)
    account.charge("margin_call", A, 5, -15_100, fee=100)
    account.close({A: 3_100, B: 2_000})
    gains = asset_gains(account.ledger)

    assert gains.codes == [A, B]
    # A: -31,000 + 45,000 - 12 - 15,100; B: 6,000 - 7,000 + 140
    assert gains.gains.tolist() == [[-100, 0], [-1_112, -860]]
    assert gains.unexplained.tolist() == [0, 0]


def test_money_that_no_asset_explains_is_stated_beside_the_contributions() -> None:
    account = sold_in_two_parts()
    account.cash += 777
    account.close({})
    found = summary(account)
    assets = found.to_json()["assets"]

    assert found.gains.unexplained.tolist() == [0, 0, 0, 777]
    assert isinstance(assets, dict)
    assert assets["unexplained"] == 777 / CASH
    assert found.total == pytest.approx((2_000 + 777) / CASH)


# -- round trips


def test_a_trip_lasts_until_its_last_share_is_sold() -> None:
    trips = round_trips(sold_in_two_parts().ledger)

    assert trips == [RoundTrip(A, False, 0, 2, 2, 20_000, 2_000)]
    assert trips[0].gain == 0.1


def test_a_position_that_is_held_at_the_end_is_an_open_trip_valued_there() -> None:
    account = Account()
    account.trade(A, 10, 20_000, fee=100)
    account.close({A: 2_100})
    account.close({A: 1_900})

    assert round_trips(account.ledger) == [RoundTrip(A, False, 0, None, 1, 20_000, -1_100)]


def test_a_fill_through_zero_closes_a_holding_and_opens_a_short() -> None:
    account = Account()
    account.trade(A, 10, 20_000)
    account.close({A: 2_000})
    account.trade(A, -16, 35_200, fee=16)
    account.close({A: 2_100})
    account.charge("borrow", A, -6, -5)
    account.trade(A, 6, 12_000)
    account.close({A: 2_000})

    assert round_trips(account.ledger) == [
        RoundTrip(A, False, 0, 1, 1, 20_000, 22_000 - 20_000 - 10),
        RoundTrip(A, True, 1, 2, 1, 13_200, 13_200 - 12_000 - 6 - 5),
    ]


def test_a_trip_within_a_day_takes_no_day_and_one_closed_by_a_split_ends_there() -> None:
    account = Account()
    account.trade(A, -3, 6_000)
    account.trade(A, 3, 5_000)
    account.trade(B, 1, 900)
    account.close({B: 1_000})
    account.split(B, 0, 950)
    account.close({})

    assert round_trips(account.ledger) == [
        RoundTrip(A, True, 0, 0, 0, 6_000, 1_000),
        RoundTrip(B, False, 0, 1, 1, 900, 50),
    ]


def test_a_position_that_no_fill_explains_has_no_trips_and_says_so() -> None:
    account = Account()
    account.move(B, 5)
    account.close({B: 100})
    day = account.steps[0].filled_on
    problem = f"the fills of 600006.SH don't explain its position on {day}"

    with pytest.raises(DataError) as refused:
        round_trips(account.ledger)

    assert str(refused.value) == problem
    assert summary(account).trips == problem


# -- the sentence


def test_the_sentence_has_the_return_its_parts_and_both_ends() -> None:
    account = sold_in_two_parts()
    parts = [
        ReturnPart("common_return", 0.03),
        ReturnPart("industry_return", None, "no industry is known"),
        ReturnPart("style_return", -0.002),
        ReturnPart("selection_alpha", -0.004),
        ReturnPart("trading_effect", -0.004),
    ]
    levels = np.array([10.0, 10.1, 10.2, 10.3])
    benchmark = Benchmark("CSI 300", levels)

    assert sentence(account, parts=parts, benchmark=benchmark) == (
        "+2.00 % in 3 days (CSI 300 +3.00 %): market +3.00 %, styles -0.20 %, selection -0.40 %,"
        " trading -0.40 %; largest gain 600001.SH +2.00 %."
    )
    assert summary(account, parts=parts).unattributed == pytest.approx(0.0, abs=1e-12)


def test_both_ends_failures_and_unfinished_episodes_are_in_the_sentence() -> None:
    account = Account()
    account.trade(A, 10, 20_000)
    account.trade(B, 10, 10_000)
    account.close({A: 2_100, B: 800})
    account.close({A: 2_100, B: 800}, provenance="fallback", failures={"bad_json": 4})
    account.close({A: 2_100, B: 800}, provenance="error", failures={"bad_response": 1})

    assert sentence(account, is_finished=False) == (
        "-1.00 % in 3 days so far; largest gain 600001.SH +1.00 %; largest loss 600006.SH -2.00 %;"
        " 2 days not decided by the model."
    )


def test_an_account_that_never_traded_says_so() -> None:
    account = Account()
    account.close({})
    account.close({})
    shown: Any = summary(account).to_json()

    assert sentence(account) == "0.00 % in 2 days; nothing was bought or sold."
    assert not shown["has_traded"]
    assert shown["worst_days"] == []
    assert shown["assets"]["count"] == 0
    assert shown["trips"] == {"problem": "", "best": [], "worst": [], "closed": 0, "open": 0}


# -- the tables


def test_five_are_listed_at_each_end_and_the_others_are_summed() -> None:
    codes = [f"60000{number}.SH" for number in range(9)] + [A]
    account = Account()
    prices = {}
    for number, code in enumerate(sorted(set(codes))):
        account.trade(code, 1, 1_000)
        prices[code] = 1_000 + 10 * (number - 2)

    account.close(prices)
    assets: Any = summary(account).to_json()["assets"]

    assert [row["gain"] for row in assets["best"]] == [0.6, 0.5, 0.4, 0.3, 0.2]
    assert [row["gain"] for row in assets["worst"]] == [-0.2, -0.1]
    assert (assets["count"], assets["others"]) == (9, 2)
    assert assets["others_contribution"] == pytest.approx(10 / CASH)


def test_worst_days_are_losses_with_the_asset_that_lost_most() -> None:
    account = Account()
    account.trade(A, 10, 10_000)
    account.trade(B, 10, 10_000)
    for price_a, price_b in ((900, 1_000), (950, 1_000), (950, 700), (940, 690), (940, 690)):
        account.close({A: price_a, B: price_b})

    levels = np.full(6, 10.0)
    shown: Any = summary(account, benchmark=Benchmark("index", levels)).to_json()["worst_days"]

    assert [(row["day"], row["code"]) for row in shown] == [(2, B), (0, A), (3, A)]
    assert shown[0]["return"] == pytest.approx(-3_000 / 99_500)
    assert shown[0]["contribution"] == pytest.approx(-3_000 / 99_500)
    assert [row["benchmark"] for row in shown] == [0.0, 0.0, 0.0]


def test_a_day_that_begins_without_a_nav_has_no_return() -> None:
    account = Account()
    account.trade(A, -100, CASH)
    account.close({A: 2_500})
    account.close({A: 2_600})
    found = summary(account)
    shown: Any = found.to_json()["worst_days"]

    assert [row["day"] for row in shown] == [0]
    assert found.total == pytest.approx(-1.6)


# -- whatever is traded

MONEY = st.integers(0, 3_000)
TRADES = st.tuples(st.sampled_from([A, B]), st.integers(-20, 20).filter(bool), MONEY, MONEY)
DAYS = st.lists(
    st.tuples(
        st.lists(TRADES, max_size=4),
        st.integers(1, 3_000),
        st.integers(1, 3_000),
        st.sampled_from(["nothing", "interest", "split", "margin call"]),
        st.integers(-50, 50) | st.just(0),
    ),
    min_size=1,
    max_size=8,
)


def played(days: Sequence[Any]) -> Account:
    """An account after days of trades, each with an event before them and money that no event
    explains after them.
    """
    account = Account()
    for trades, price_a, price_b, event, extra in days:
        held = [code for code, shares in sorted(account.shares.items()) if shares]
        if held and event == "interest":
            account.charge("borrow", held[0], account.shares[held[0]], -3)
        elif held and event == "split":
            account.split(held[0], account.shares[held[0]] * 2, 7)
        elif held and event == "margin call":
            account.charge("margin_call", held[0], -account.shares[held[0]], 1_000, fee=9)

        for code, shares, money, fee in sorted(trades, key=lambda trade: trade[1] > 0):
            account.trade(code, shares, money, fee)

        account.cash += extra
        account.close({A: price_a, B: price_b})

    return account


@given(DAYS)
def test_gains_and_what_no_asset_explains_add_up_to_the_return(days: Sequence[Any]) -> None:
    account = played(days)
    ledger = account.ledger
    gains = asset_gains(ledger)
    change = ledger.steps[-1].nav_minor - CASH

    assert gains.unexplained.tolist() == [extra for *_, extra in days]
    assert sum(gains.by_asset.values()) + int(gains.unexplained.sum()) == change

    of_trips = dict.fromkeys(gains.codes, 0)
    for trip in round_trips(ledger):
        of_trips[trip.code] += trip.gain_minor

    still_open = sorted(trip.code for trip in round_trips(ledger) if trip.exit is None)

    assert of_trips == gains.by_asset
    assert still_open == [held.code for held in ledger.steps[-1].positions]


@given(DAYS)
def test_the_page_adds_up_to_the_return(days: Sequence[Any]) -> None:
    shown: Any = summary(played(days)).to_json()
    assets = shown["assets"]
    listed = sum(row["contribution"] for row in (*assets["best"], *assets["worst"]))
    whole = listed + assets["others_contribution"] + assets["unexplained"]

    assert whole == pytest.approx(shown["total"], abs=1e-12)


def test_shares_of_another_unit_are_counted_in_money_of_the_market() -> None:
    ledger = dataclasses.replace(
        sold_in_two_parts().ledger, currency="JPY", minor_per_unit=1, days_a_year=245
    )
    found = summarise_return(ledger, "no card", None, is_finished=True)
    assets: Any = found.to_json()["assets"]

    assert assets["best"] == [{"code": A, "contribution": 0.02, "gain": 2_000.0}]
