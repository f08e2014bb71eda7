"""What could not be filled is listed by day and code, with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from ktdeval.harness import Decision
from ktdeval.market import Instrument, MarketSnapshot
from ktdeval.runner.episodes.bookkeeper import Bookkeeper, episode_ledger
from ktdeval.task_api import EpisodeSpec, Window
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import AccountConfig, CountsRecord, Ledger, MarketTape, Order, TradingConfig
from ktdeval_judge.document import Unfilled
from ktdeval_judge.market_plan import MarketPlan, market_plan
from ktdeval_judge.plan import Held, PlanReader
from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_judge.unfilled import count_reasons, unfilled_of

OTHER, CODE = "000002.SZ", "600001.SH"


def rules(**more: object) -> TradingConfig:
    account = AccountConfig(
        initial_cash=100_000,
        max_weight=1.0,
        max_positions=10,
        **more,  # type: ignore[arg-type]
    )
    return account.rules("test")


def executed(made: MarketPlan, market: MarketSnapshot, trading: TradingConfig) -> Ledger:
    """The ledger of a plan, by the suite's own bookkeeper."""
    tape = MarketTape.from_snapshot(market, trading)
    books = Bookkeeper(market, tape, trading, made.first_row)
    reader = PlanReader(made.plan)
    counts = CountsRecord(**dict.fromkeys(CountsRecord.__struct_fields__, 0) | {"failures": {}})  # type: ignore[arg-type]
    records = []
    for step, row in enumerate(range(made.first_row, made.last_row)):
        held = {}
        nav = trading.initial_cash * 100
        if books.last is not None:
            nav = books.last.nav_minor
            for each in books.last.positions:
                steps = tape.rules.scales[market.asset_index[each.code]].steps_per_unit
                held[each.code] = Held(each.shares / steps, each.value_minor / 100)
        action = []
        for order in reader.orders(str(market.days[row]), held, nav / 100):
            column = market.asset_index[order.code]
            steps = tape.rules.scales[column].steps_per_unit
            shares = None if order.shares is None else round(order.shares * steps)
            action.append(Order(column, order.side, 0.5, "as declared", order.weight, shares))
        records.append(books.book(step, Decision(tuple(action), "model"), counts))

    spec = EpisodeSpec(
        task="t", task_version="1", task_hash="", snapshot=None, mask="bright", mode="market",
        window=Window("w", str(market.days[1]), str(market.days[-1])), model="declared/decisions",
        model_args={}, agent="react", agent_args={}, call={}, seed=0, limit=None, mask_key=None,
    )  # fmt: skip
    return episode_ledger(spec, records, market, tape, trading)


def listed(
    folder: Path, text: str, market: MarketSnapshot, trading: TradingConfig | None = None
) -> list[Unfilled]:
    path = folder / "declared.csv"
    path.write_text(text)
    trading = trading or rules()
    made = market_plan(read_declared(path, ReadOptions()), market, trading)
    return unfilled_of(made, executed(made, market, trading), market, trading)


def buys(*days: str, code: str = CODE, shares: int = 1000) -> str:
    rows = [f"{day},{code},buy,{shares}" for day in days]
    return "\n".join(["date,code,side,qty", *rows]) + "\n"


def test_a_day_without_trade_is_suspended(tmp_path: Path) -> None:
    market = snapshot_of_days(
        [CODE], [[10.0]] * 4, volume=[[1e6], [0.0], [1e6], [1e6]], first="2024-01-01"
    )
    (found,) = listed(tmp_path, buys("2024-01-01"), market)
    assert (found.day, found.code, found.reason) == ("2024-01-02", CODE, "suspended")
    assert found.missing == pytest.approx(0.1)


def test_an_open_at_the_limit_is_not_bought(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0], [11.0], [11.0]], first="2024-01-01")
    (found,) = listed(tmp_path, buys("2024-01-01"), market)
    assert found.reason == "price_limit"


def test_a_share_before_its_first_bar_is_not_yet_listed(tmp_path: Path) -> None:
    market = snapshot_of_days(
        [OTHER, CODE],
        [[10.0, None], [10.0, None], [10.0, 20.0], [10.0, 20.0]],
        member=[[True, False], [True, False], [True, True], [True, True]],
        first="2024-01-01",
    )
    (found,) = listed(tmp_path, buys("2024-01-01"), market)
    assert (found.reason, found.detail) == ("universe", "not yet listed")


def test_a_share_after_its_last_bar_is_delisted(tmp_path: Path) -> None:
    market = snapshot_of_days(
        [OTHER, CODE],
        [[10.0, 20.0], [10.0, 20.0], [10.0, None], [10.0, None]],
        member=[[True, True], [True, True], [True, False], [True, False]],
        first="2024-01-01",
    )
    (found,) = listed(tmp_path, buys("2024-01-02"), market)
    assert found.detail == "delisted: its last bar is of 2024-01-02"


def test_a_share_after_its_last_bar_is_not_suspended(tmp_path: Path) -> None:
    """It stays a member, and nothing says when it was delisted but its bars."""
    market = snapshot_of_days(
        [OTHER, CODE],
        [[10.0, 20.0], [10.0, 20.0], *[[10.0, None]] * 4],
        first="2024-01-01",
    )
    text = buys("2024-01-01") + "2024-01-04,600001.SH,sell,1000\n"
    (found,) = listed(tmp_path, text, market)
    assert (found.side, found.reason) == ("SELL", "universe")
    assert found.detail == "delisted: its last bar is of 2024-01-02"


def test_a_sell_of_more_than_is_held_is_named_where_shorts_are_not_allowed(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 6, first="2024-01-01")
    text = buys("2024-01-01") + "2024-01-03,600001.SH,sell,2000\n"
    (found,) = listed(tmp_path, text, market)
    assert (found.day, found.side, found.reason) == ("2024-01-04", "SELL", "holding")
    assert found.missing == pytest.approx(0.1, abs=0.001)


def test_a_sell_of_what_is_not_held_is_named_below_a_lot_too(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 4, first="2024-01-01")
    (found,) = listed(tmp_path, "date,code,side,qty\n2024-01-01,600001.SH,sell,50\n", market)
    assert (found.side, found.reason) == ("SELL", "holding")


def test_the_odd_part_of_a_sell_is_named(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 6, first="2024-01-01")
    text = buys("2024-01-01") + "2024-01-03,600001.SH,sell,250\n"
    (found,) = listed(tmp_path, text, market)
    assert found.detail == "250 shares, rounded to whole lots of 100, are 200"


# a stock of a US venue, where shorts are allowed
US = {"instruments": (Instrument("stock", "USD", "us_equity"),)}
SHORT = "date,code,side,qty\n2024-01-01,AAPL,{}\n"


def test_a_sell_of_more_than_is_held_is_a_short_where_they_are_allowed(tmp_path: Path) -> None:
    market = snapshot_of_days(["AAPL"], [[10.0]] * 6, first="2024-01-01", **US)
    text = SHORT.format("buy,1000") + "2024-01-03,AAPL,sell,2000\n"
    path = tmp_path / "orders.csv"
    path.write_text(text)
    made = market_plan(read_declared(path, ReadOptions()), market, rules())
    ledger = executed(made, market, rules())

    assert [each.shares / 10_000 for each in ledger.steps[-1].positions] == [-1000.0]
    assert unfilled_of(made, ledger, market, rules()) == []


def test_a_position_that_a_margin_call_closes_is_named(tmp_path: Path) -> None:
    prices = [[10.0], [10.0], [26.0], [26.0], [26.0]]
    market = snapshot_of_days(["AAPL"], prices, first="2024-01-01", **US)
    text = SHORT.format("sell,5000") + "2024-01-03,AAPL,buy,1\n"
    (found,) = listed(tmp_path, text, market)
    assert (found.day, found.side, found.reason) == ("2024-01-03", "BUY", "margin_call")
    assert found.detail == "a margin call: 5,000 shares were bought back at the open"


def test_what_is_bought_and_sold_on_one_day_waits_for_the_next(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 4, first="2024-01-01")
    text = buys("2024-01-01") + "2024-01-01,600001.SH,sell,500\n"
    (found,) = listed(tmp_path, text, market)
    assert found.reason == "holding"
    assert found.side == "SELL"


def test_more_than_the_cash_is_cut(tmp_path: Path) -> None:
    market = snapshot_of_days([OTHER, CODE], [[10.0, 10.0]] * 4, first="2024-01-01")
    text = buys("2024-01-01", shares=6000) + f"2024-01-01,{OTHER},buy,6000\n"
    (found,) = listed(tmp_path, text, market)
    assert (found.code, found.reason) == (OTHER, "cash")
    assert found.missing == pytest.approx(0.2, abs=0.011)


def test_an_order_of_more_than_the_account_is_returned_whole(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 4, first="2024-01-01")
    (found,) = listed(tmp_path, buys("2024-01-01", shares=20_000), market)
    assert found.detail == "above the whole account"
    assert found.missing == pytest.approx(2.0)


def test_more_than_a_tenth_of_the_volume_is_cut_where_execution_is_on(tmp_path: Path) -> None:
    market = snapshot_of_days(
        [CODE], [[10.0 + row % 3 / 10] for row in range(80)], volume=[[20_000.0]] * 80,
        first="2024-01-01",
    )  # fmt: skip
    (found,) = listed(tmp_path, buys("2024-03-11", shares=5000), market, rules(execution="sqrt"))
    assert found.reason == "volume"


def test_an_odd_lot_is_cut_to_whole_ones_and_said(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 4, first="2024-01-01")
    (found,) = listed(tmp_path, buys("2024-01-01", shares=1550), market)
    assert found.detail == "1,550 shares, rounded to whole lots of 100, are 1,500"


STAR = "688041.SH"


def test_a_buy_below_the_smallest_order_of_star_says_so_not_lots(tmp_path: Path) -> None:
    """STAR's smallest buy is 200 shares, in single shares from there on: 100 break no rule of
    lots.
    """
    market = snapshot_of_days([STAR], [[50.0]] * 4, first="2024-01-01")
    (found,) = listed(tmp_path, buys("2024-01-01", code=STAR, shares=100), market)
    assert found.reason == "smallest_order"
    assert found.detail == "100 shares, below the smallest order of 200"


def test_a_weight_of_less_than_a_lot_is_below_the_smallest_order(tmp_path: Path) -> None:
    # 5 % of 100,000 at 80 are 62 shares
    market = snapshot_of_days([CODE], [[80.0]] * 4, first="2024-01-01")
    (found,) = listed(tmp_path, f"date,code,weight\n2024-01-01,{CODE},0.05\n", market)
    assert (found.reason, found.times) == ("smallest_order", 1)
    assert found.detail == "the rest of the target is below the smallest order of 100 shares"


def test_a_target_that_is_refused_every_day_counts_once(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[80.0]] * 6, first="2024-01-01")
    rows = [f"2024-01-0{day},{CODE},0.05" for day in (1, 2, 3, 4)]
    (found,) = listed(tmp_path, "\n".join(["date,code,weight", *rows]) + "\n", market)
    assert (found.day, found.until, found.times) == ("2024-01-02", "2024-01-05", 4)
    assert found.missing == pytest.approx(0.05)
    assert count_reasons([found]) == {"smallest_order": 1}


def test_each_refused_order_of_a_file_of_orders_counts(tmp_path: Path) -> None:
    market = snapshot_of_days([STAR], [[50.0]] * 6, first="2024-01-01")
    text = buys("2024-01-01", "2024-01-02", code=STAR, shares=100)
    assert [each.times for each in listed(tmp_path, text, market)] == [1, 1]


def test_a_short_is_listed_where_the_venue_is_long_only(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 4, first="2024-01-01")
    (found,) = listed(tmp_path, "date,code,weight\n2024-01-01,600001.SH,-1\n", market)
    assert found.reason == "short"


TRADE = "date,code,side,qty,price\n2024-01-03,600001.SH,buy,1000,{}\n"


@pytest.mark.parametrize("price", ["9.99", "10.51"])
def test_a_price_that_the_bar_does_not_have_is_impossible(price: str, tmp_path: Path) -> None:
    market = snapshot_of_days(
        [CODE], [[10.0]] * 4, [[10.5], [10.5], [10.5], [10.5]], first="2024-01-01"
    )
    (found,) = listed(tmp_path, TRADE.format(price), market)
    assert found.reason == "impossible_price"
    assert found.detail == f"{price} lies outside the day's 10 … 10.5"


@pytest.mark.parametrize("price", ["10", "10.25", "10.5"])
def test_a_price_of_the_bar_is_possible(price: str, tmp_path: Path) -> None:
    market = snapshot_of_days(
        [CODE], [[10.0]] * 4, [[10.5], [10.5], [10.5], [10.5]], first="2024-01-01"
    )
    assert listed(tmp_path, TRADE.format(price), market) == []


def test_an_adjusted_price_is_recognised(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 4, factor=[[2.0]] * 4, first="2024-01-01")
    (found,) = listed(tmp_path, TRADE.format("20"), market)
    assert found.detail.endswith("it fits the adjusted bar; give unadjusted prices and shares")


@pytest.mark.parametrize("signal", ["2024-01-03", "2024-01-04"])
def test_a_trade_on_the_day_of_its_signal_or_before_is_listed(signal: str, tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 4, first="2024-01-01")
    text = TRADE.format("10").replace("price\n", "price,signal_date\n")
    (found,) = listed(tmp_path, text.replace(",10\n", f",10,{signal}\n"), market)
    assert found.reason == "before_decision"
    assert found.detail == f"filled on 2024-01-03, but its signal is of {signal}"


def test_reasons_are_counted_the_most_frequent_first() -> None:
    lot = Unfilled(day="2024-01-02", code=CODE, reason="lot", detail="")
    cash = Unfilled(day="2024-01-02", code=CODE, reason="cash", detail="")
    assert list(count_reasons([cash, lot, lot]).items()) == [("lot", 2), ("cash", 1)]


def test_an_order_that_names_no_asset_is_listed_with_its_text(tmp_path: Path) -> None:
    market = snapshot_of_days([CODE], [[10.0]] * 4, first="2024-01-01")
    trading = rules()
    path = tmp_path / "declared.csv"
    path.write_text(buys("2024-01-01"))
    made = market_plan(read_declared(path, ReadOptions()), market, trading)
    ledger = executed(made, market, trading)
    step = ledger.steps[0]
    unread = structs.replace(
        step.orders[0], code=None, stock_id="XYZ", status="rejected", rule="universe"
    )
    ledger = replace(ledger, steps=(structs.replace(step, orders=(unread,)), *ledger.steps[1:]))

    (found,) = [
        each for each in unfilled_of(made, ledger, market, trading) if each.reason == "unknown"
    ]
    assert (found.day, found.code, found.side) == ("2024-01-02", "XYZ", "BUY")
    assert found.detail == "not read: 'XYZ' names no asset of this market that day"
