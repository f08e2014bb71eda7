"""Plans: what declared decisions come to as orders, in the market's codes and days."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import ConfigError, DataError
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import AccountConfig, TradingConfig
from ktdeval_judge.market_plan import (
    MarketPlan,
    _check_weights,
    market_plan,
)
from ktdeval_judge.plan import (
    PLAN_VERSION,
    DeclaredOrder,
    DeclaredPlan,
    Held,
    PlannedDay,
    PlanReader,
    read_plan,
)
from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_judge.schemas import SCHEMA, schema_text

DAY = "2024-01-02"
CODE = "600001.SH"
TRADING = AccountConfig(max_weight=1.0, max_positions=10).rules("test")
MARKET = snapshot_of_days(["000002.SZ", CODE], opens=[[10.0, 20.0]] * 5, first="2024-01-01")


def plan_of(form: str, *rows: tuple[str, float], others: str = "sell", **lots: float) -> PlanReader:
    days = (PlannedDay(day=DAY, rows=rows),)
    return PlanReader(
        DeclaredPlan(version=PLAN_VERSION, form=form, others=others, days=days, lots=lots)  # type: ignore[arg-type]
    )


def planned(
    folder: Path, text: str, trading: TradingConfig = TRADING, **more: object
) -> MarketPlan:
    path = folder / "file.csv"
    path.write_text(text)
    declared = read_declared(path, ReadOptions())
    return market_plan(declared, MARKET, trading, **more)  # type: ignore[arg-type]


# ---- orders


def test_a_weight_above_what_is_held_is_a_buy_to_it() -> None:
    orders = plan_of("weight", ("a", 0.5)).orders(DAY, {"a": Held(10, 100.0)}, 1000.0)
    assert orders == [DeclaredOrder("a", "BUY", weight=0.5)]


def test_holdings_missing_from_a_days_weights_are_sold_before_any_purchase() -> None:
    orders = plan_of("weight", ("a", 0.5)).orders(DAY, {"b": Held(10, 100.0)}, 1000.0)
    assert orders == [DeclaredOrder("b", "SELL", weight=0.0), DeclaredOrder("a", "BUY", weight=0.5)]


def test_a_holding_is_reached_in_whole_lots() -> None:
    orders = plan_of("shares", ("a", 550.0), a=100.0).orders(DAY, {"a": Held(100, 1.0)}, 10.0)
    assert orders == [DeclaredOrder("a", "BUY", shares=400.0)]


def test_a_holding_of_none_sells_all_whatever_the_lot() -> None:
    orders = plan_of("shares", ("a", 0.0), a=100.0).orders(DAY, {"a": Held(155, 1.0)}, 10.0)
    assert orders == [DeclaredOrder("a", "SELL", weight=0.0)]


def test_a_sell_of_all_that_is_held_is_no_odd_lot() -> None:
    orders = plan_of("orders", ("a", -155.0), a=100.0).orders(DAY, {"a": Held(155, 1.0)}, 10.0)
    assert orders == [DeclaredOrder("a", "SELL", weight=0.0)]


def test_a_sell_of_more_than_is_held_keeps_its_size() -> None:
    """The venue decides: a short, or a sell of what there is."""
    orders = plan_of("orders", ("a", -199.0), a=100.0).orders(DAY, {"a": Held(155, 1.0)}, 10.0)
    assert orders == [DeclaredOrder("a", "SELL", shares=199.0)]


@pytest.mark.parametrize("size", [123_455.6, 123_456.0, 123_456.9])
def test_an_order_of_a_holding_as_it_is_shown_closes_it(size: float) -> None:
    """A holding is shown at six digits, so that the sell may be above it or below."""
    sell = plan_of("orders", ("a", -size)).orders(DAY, {"a": Held(123_456.0, 1.0)}, 10.0)
    cover = plan_of("orders", ("a", size)).orders(DAY, {"a": Held(-123_456.0, 1.0)}, 10.0)

    assert sell == [DeclaredOrder("a", "SELL", weight=0.0)]
    assert cover == [DeclaredOrder("a", "BUY", weight=0.0)]


@pytest.mark.parametrize("size", [123_400.0, 123_500.0])
def test_an_order_of_another_size_does_not_close(size: float) -> None:
    (order,) = plan_of("orders", ("a", -size)).orders(DAY, {"a": Held(123_456.0, 1.0)}, 10.0)
    assert order.shares == size


def test_two_sells_of_a_day_share_the_holding() -> None:
    held = {"a": Held(1000, 1.0)}
    orders = plan_of("orders", ("a", -600.0), ("a", -400.0)).orders(DAY, held, 10.0)
    beyond = plan_of("orders", ("a", -1000.0), ("a", -500.0)).orders(DAY, held, 10.0)

    assert [(each.shares, each.weight) for each in orders] == [(600.0, None), (None, 0.0)]
    assert [(each.shares, each.weight) for each in beyond] == [(None, 0.0), (500.0, None)]


def test_what_brings_cash_comes_before_what_needs_it() -> None:
    held = {"a": Held(100, 100.0), "b": Held(-100, -100.0), "c": Held(100, 100.0)}
    rows = (("a", -300.0), ("b", 100.0), ("c", -50.0), ("d", 10.0), ("e", -10.0))
    orders = plan_of("orders", *rows).orders(DAY, held, 1000.0)
    assert [order.code for order in orders] == ["c", "a", "e", "b", "d"]

    # what a day of weights does not name is sold before a short that needs the cash
    orders = plan_of("weight", ("e", -0.5)).orders(DAY, {"a": Held(100, 100.0)}, 1000.0)
    assert [order.code for order in orders] == ["a", "e"]


def test_an_order_below_a_lot_is_none() -> None:
    assert plan_of("orders", ("a", 99.0), a=100.0).orders(DAY, {}, 10.0) == []


@pytest.mark.exhaustive
@given(
    st.dictionaries(st.sampled_from("abcd"), st.floats(0.0, 1.0), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), st.floats(1.0, 1e6)),
)
def test_sells_come_before_buys_and_each_code_has_one_order(
    goals: dict[str, float], values: dict[str, float]
) -> None:
    held = {code: Held(value / 10, value) for code, value in values.items()}
    orders = plan_of("weight", *goals.items()).orders(DAY, held, math.fsum(values.values()) + 1.0)

    sides = [order.side for order in orders]
    assert sides == sorted(sides, reverse=True)
    assert len({order.code for order in orders}) == len(orders)


# ---- from files


@given(st.permutations(range(6)))
def test_a_file_means_the_same_in_whatever_order_its_rows_stand(order: list[int]) -> None:
    codes = ("600001.SH", "000002.SZ")
    rows = [f"2024-01-0{1 + n // 2},{codes[n % 2]},{'buy' if n < 3 else 'sell'},{n + 1}00"
            for n in range(6)]  # fmt: skip
    plans = []
    with TemporaryDirectory() as folder:
        for places in (range(6), order):
            text = "\n".join(["date,code,side,qty", *(rows[place] for place in places)])
            plans.append(planned(Path(folder), text + "\n").plan)

    assert plans[0] == plans[1]


def test_cash_becomes_shares_at_the_close_of_the_decision(tmp_path: Path) -> None:
    made = planned(tmp_path, "date,code,side,cash\n2024-01-02,600001,buy,5000\n")
    assert made.plan.days[0].rows == ((CODE, 250.0),)


def test_a_trade_is_decided_at_the_close_before_it(tmp_path: Path) -> None:
    made = planned(tmp_path, "date,code,qty,price\n2024-01-03,sh600001,-200,20\n")
    assert made.plan.days[0] == PlannedDay(day="2024-01-02", rows=((CODE, -200.0),))


def test_decisions_dated_by_their_fill_were_taken_at_the_close_before(tmp_path: Path) -> None:
    text = "date,code,weight\n2024-01-03,600001.SH,1\n"
    assert planned(tmp_path, text, dated="fill").plan.days[0].day == "2024-01-02"


def test_short_is_refused_at_a_long_only_venue_and_the_holding_closed(
    tmp_path: Path,
) -> None:
    made = planned(tmp_path, "date,code,weight\n2024-01-02,600001.SH,-0.5\n")
    assert made.plan.days[0].rows == ((CODE, 0.0),)
    assert [each.code for each in made.refused] == [CODE]


def test_a_wide_table_of_weights_is_read_and_empty_cells_are_no_position(tmp_path: Path) -> None:
    text = ",600001.SH,000002.SZ\n2024-01-01,0.5,\n2024-01-02,,0.25\n"
    made = planned(tmp_path, text)
    rows = [day.rows for day in made.plan.days]
    assert rows == [((CODE, 0.5),), (("000002.SZ", 0.25),)]


def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    text = "date,code,weight\n2024-01-02,600001.SH,0.3\n2024-01-02,000002.SZ,0.3\n"
    assert planned(tmp_path, text).plan.sha256 == planned(tmp_path, text).plan.sha256


# ---- the kept plan


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = planned(tmp_path, "date,code,weight\n2024-01-02,600001.SH,0.3\n").plan
    assert read_plan(plan.encode(), "plan") == plan


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((b'"version":2', b'"version":1'), "judge the file of decisions again"),
        ((b'"form":"weight"', b'"form":"wish"'), "form"),
        ((b'"others":"sell"', b'"others":"give"'), "others"),
        ((b"0.3", b"1e999"), "plan"),
        ((b'"lots":', b'"plots":'), "plots"),
    ],
)
def test_a_plan_that_is_none_is_refused(
    change: tuple[bytes, bytes], words: str, tmp_path: Path
) -> None:
    data = planned(tmp_path, "date,code,weight\n2024-01-02,600001.SH,0.3\n").plan.encode()
    with pytest.raises(ConfigError, match=words):
        read_plan(data.replace(*change), "plan")


def test_the_schema_of_the_document_is_the_one_on_file() -> None:
    assert SCHEMA.read_text() == schema_text()


def test_a_fill_on_the_first_day_of_the_market_has_no_day_of_its_decision(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no day before 2024-01-01.*import earlier days"):
        planned(tmp_path, "date,code,weight\n2024-01-01,600001.SH,0.3\n", dated="fill")


def test_the_earliest_day_whose_weights_are_too_large_is_named() -> None:
    table = pd.DataFrame({"day": [20240103, 20240102], "weight": [1.5, 1.6]})
    with pytest.raises(DataError, match=r"weights of 2024-01-02 sum to 1\.6,"):
        _check_weights("plan.csv", table)
