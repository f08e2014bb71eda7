"""Costs of the day: what the state, clearing houses and regulators take of fills, by the rows of
`fees.csv`.
"""

from __future__ import annotations

import dataclasses
import json
from itertools import chain, pairwise, product
from pathlib import Path

import numpy as np
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import ConfigError, InvariantError
from ktdeval.harness import Decision
from ktdeval.market import Board, Fees, Instrument, MarketSnapshot, duty_rows, find_venue
from ktdeval.runner.episodes.bookkeeper import Bookkeeper
from ktdeval.runner.records.ledger_file import encode_ledger, load_ledger
from ktdeval.testing import not_empty, snapshot_of_days
from ktdeval.testing.ledger_fixtures import ledger_of, step_record
from ktdeval.trading import (
    Account,
    AccountConfig,
    MarketRules,
    MarketTape,
    Order,
    Outcome,
    TradingConfig,
)
from ktdeval.trading.executor import execute
from ktdeval.trading.types import Position
from ktdeval.trading.venue_terms import cost

DATED = AccountConfig(initial_cash=1_000_000, max_weight=1.0).rules("test")
PAPER = AccountConfig(initial_cash=1_000_000, max_weight=1.0, board_rules="paper").rules("test")


def market_on(day: str, code: str = "600001.SH", price: float = 10.0) -> MarketSnapshot:
    """One asset at one price on the day before and on the day."""
    more = {}
    if "." not in code:
        more = {"instruments": (Instrument("stock", "USD", "us_equity"),)}

    market = snapshot_of_days([code], [[price]] * 2, **more)
    last = np.datetime64(day, "D")

    return dataclasses.replace(market, days=np.array([last - 1, last]))


def filled(
    day: str,
    side: str,
    shares: int,
    code: str = "600001.SH",
    price: float = 10.0,
    config: TradingConfig = DATED,
) -> Outcome:
    """Outcome of an order of so many shares that is filled on a day."""
    tape = MarketTape.from_snapshot(market_on(day, code, price), config)
    steps = shares * tape.rules.scales[0].steps_per_unit
    held = {0: Position(steps)} if side == "SELL" else {}
    order = Order(0, side, 0.5, "test", None, steps)  # type: ignore[arg-type]
    _, (outcome,) = execute(Account(10**10, held), tape.day(1), (order,))

    assert outcome.status == "filled"

    return outcome


@pytest.mark.parametrize(
    ("day", "side", "fee"),
    [
        ("2023-08-25", "SELL", 151_00),  # commission 50, stamp duty 100, transfer fee 1
        ("2023-08-28", "SELL", 101_00),  # stamp duty 50
        ("2023-08-25", "BUY", 51_00),
        ("2023-08-28", "BUY", 51_00),
        ("2022-04-28", "SELL", 152_00),  # transfer fee 2
        ("2022-04-28", "BUY", 52_00),
        ("2015-07-31", "SELL", 150_00),  # the transfer fee of Shanghai was one of face value
        ("2008-09-19", "BUY", 50_00),
        ("2008-09-18", "BUY", 150_00),  # buyers paid stamp duty, too: 10 bps
        ("2008-04-23", "SELL", 350_00),  # 30 bps
    ],
)
def test_an_a_share_pays_the_stamp_duty_and_transfer_fee_of_its_day(
    day: str, side: str, fee: int
) -> None:
    assert filled(day, side, 10_000).fee_minor == fee


@pytest.mark.parametrize(
    ("day", "fee"),
    [
        ("2024-05-21", 5_97),  # commission 5.00, SEC 0.80, FINRA 0.166
        ("2024-05-22", 7_95),  # SEC 2.78
        ("2025-05-13", 7_95),
        ("2025-05-14", 5_17),  # SEC 0
        ("2026-04-02", 5_20),  # FINRA 0.195
        ("2026-04-06", 7_26),  # SEC 2.06
        ("2026-10-01", 7_06),  # no fee of FINRA for three months
    ],
)
def test_a_us_share_pays_the_fees_of_sec_and_finra_of_its_day(day: str, fee: int) -> None:
    assert filled(day, "SELL", 1_000, code="AAPL", price=100.0).fee_minor == fee


@pytest.mark.parametrize("venue", duty_rows())
def test_each_day_of_each_venue_and_board_has_one_rate_of_each_duty(venue: str) -> None:
    """No day without a row, none with two, and no source missing."""
    rows = duty_rows()[venue]
    boards = list(Board) if find_venue(venue).has_boards else [None]

    for board, kind in not_empty(product(boards, {row.kind for row in rows})):
        own = [row for row in rows if row.kind == kind and row.board in (None, board)]
        spells = sorted((row.first, row.last) for row in own)
        assert str(spells[0][0]) == "0001-01-01"
        assert str(spells[-1][1]) == "9999-12-31"
        gaps = [after[0] - before[1] for before, after in pairwise(spells)]
        assert gaps == [np.timedelta64(1, "D")] * len(gaps), (board, kind)


def test_each_row_that_is_not_assumed_has_an_address_to_look_it_up() -> None:
    rows = list(chain.from_iterable(duty_rows().values()))
    assert {row.status for row in rows} == {"sourced", "second_hand", "assumed"}
    assert [row for row in rows if row.status != "assumed" and "http" not in row.source] == []


@pytest.mark.parametrize("side", ["BUY", "SELL"])
@pytest.mark.parametrize("day", ["2008-04-23", "2023-08-25", "2023-08-28"])
def test_the_costs_of_the_paper_are_the_same_on_all_days(day: str, side: str) -> None:
    assert filled(day, side, 10_000, config=PAPER).fee_minor == {"BUY": 50_00, "SELL": 150_00}[side]


def test_the_smallest_commission_is_paid_besides_the_duties() -> None:
    # of 1,000 yuan: commission 5 in place of 0.50, stamp duty 0.50, transfer fee 0.01
    assert filled("2023-08-28", "SELL", 100).fee_minor == 5_51


def test_beijing_paid_another_transfer_fee_until_all_boards_paid_one() -> None:
    # of 100,000 yuan 0.25 bps, and 0.1
    assert filled("2022-04-28", "BUY", 10_000, code="830005.BJ").fee_minor == 52_50
    assert filled("2022-04-29", "BUY", 10_000, code="830005.BJ").fee_minor == 51_00


def test_the_fee_of_finra_has_an_upper_bound() -> None:
    # 60,000 shares at 0.10: commission 60 of at most 1 %, SEC 0.17, FINRA 9.96 of at most 8.30
    assert filled("2024-06-03", "SELL", 60_000, code="AAPL", price=0.1).fee_minor == 68_47


@pytest.mark.parametrize("price", [0.5, 3.0, 10.01])
@pytest.mark.parametrize("day", ["2007-06-01", "2022-04-28", "2023-08-28"])
def test_a_buy_is_cut_to_the_most_lots_that_cash_covers_with_the_duties(
    day: str, price: float
) -> None:
    tape = MarketTape.from_snapshot(market_on(day, price=price), DATED)
    cash = round(30_000 * price * 100)  # of 30,000 shares without any cost
    order = Order(0, "BUY", 0.5, "test", 1.0)
    _, (outcome,) = execute(Account(cash, {}), tape.day(1), (order,))
    terms = tape.rules_on(1).terms[0]
    more, fee = cost(outcome.shares + 100, outcome.price_ticks, terms, selling=False)

    assert outcome.rule == "cash"
    assert outcome.notional_minor + outcome.fee_minor <= cash < more + fee


@pytest.mark.parametrize("day", ["2023-08-25", "2023-08-28"])
def test_costs_of_a_shares_that_a_task_names_are_flat_on_all_days(day: str) -> None:
    own = AccountConfig(venue="a_share", fees=Fees(buy_bps=2, sell_bps=7), max_weight=1.0)
    assert filled(day, "BUY", 10_000, config=own.rules("test")).fee_minor == 20_00
    assert filled(day, "SELL", 10_000, config=own.rules("test")).fee_minor == 70_00


def test_costs_that_a_shares_do_not_have_are_refused() -> None:
    own = AccountConfig(venue="a_share", fees=Fees(buy_bps=2, per_unit=0.01))
    with pytest.raises(ConfigError, match=r"t: fees\.per_unit: costs of A-shares are buy_bps"):
        own.rules("t")

    with pytest.raises(ConfigError, match="sell_fee_bps applies only to board_rules paper"):
        TradingConfig(board_rules="exchange", sell_fee_bps=10.0)


def test_a_fill_without_a_day_is_refused_where_the_day_decides_on_its_cost() -> None:
    rules = MarketRules.of(market_on("2024-01-02"), DATED)
    with pytest.raises(InvariantError, match="a fill's duties depend on its day"):
        cost(100, 100_000, rules.terms[0], selling=True)


@pytest.mark.parametrize("change", ["2023-08-28", "2022-04-29", "2015-08-01"])
def test_a_market_trades_under_the_duties_of_each_of_its_days(change: str) -> None:
    market = snapshot_of_days(["600001.SH"], [[10.0]] * 9)
    first = np.datetime64(change) - 4
    market = dataclasses.replace(market, days=first + np.arange(9))
    tape = MarketTape.from_snapshot(market, DATED)
    fees = [cost(10_000, 100_000, tape.rules_on(row).terms[0], selling=True)[1] for row in range(9)]

    assert len(set(fees[:4])) == len(set(fees[4:])) == 1
    assert fees[3] != fees[4]


def test_a_ledger_names_each_duty_and_is_read_again(tmp_path: Path) -> None:
    market = snapshot_of_days(["600001.SH"], [[10.0]] * 4)
    market = dataclasses.replace(market, days=np.datetime64("2023-08-25") + np.arange(4))
    config = dataclasses.replace(DATED, max_weight=1.0)
    books = Bookkeeper(market, MarketTape.from_snapshot(market, config), config, 0)
    quiet = step_record(market, 0, 1)
    actions = [
        (Order(0, "BUY", 0.5, "a reason", None, 10_000),),
        (Order(0, "SELL", 0.5, "a reason", None, 4_000),),
        (Order(0, "SELL", 0.5, "a reason", None, 6_000),),
    ]
    steps = [
        books.book(number, Decision(action, "model", ""), quiet)
        for number, action in enumerate(actions)
    ]
    duties = [step.orders[0].duties for step in steps]

    assert duties == [
        {"transfer_fee": 1_00},
        {"stamp_duty": 40_00, "transfer_fee": 40},  # 2023-08-27
        {"stamp_duty": 30_00, "transfer_fee": 60},
    ]

    ledger = dataclasses.replace(ledger_of(steps), spec={"task": "test"})
    (tmp_path / "ledger.parquet").write_bytes(encode_ledger(ledger))

    assert load_ledger(tmp_path / "ledger.parquet") == ledger


def test_the_command_shows_the_dated_duties_of_a_venue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "venues", "a_share", "--json"]) == 0

    duties = json.loads(capsys.readouterr().out)["duties"]
    (halved,) = [row for row in duties if row["first"] == "2023-08-28"]

    assert (halved["kind"], halved["side"], halved["bps"], halved["last"]) == (
        "stamp_duty",
        "sell",
        5.0,
        None,
    )
    assert main(["list", "venues", "crypto_spot", "--json"]) == 0
    assert "duties" not in json.loads(capsys.readouterr().out)
