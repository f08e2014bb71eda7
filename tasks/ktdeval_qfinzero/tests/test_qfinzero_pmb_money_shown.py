"""Money as the broker shows it: each amount of an account, of its positions, orders, trades, days
and sessions, worked out by hand.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from ktdeval_qfinzero.data.rows import BorrowRow, DividendRow
from ktdeval_qfinzero.timestamps import MINUTE
from qfinzero_broker_play import EARLY, FREE, OPEN, Play, at_prices, begun, market
from qfinzero_calls import ask
from qfinzero_world import at

TUESDAY = at("2025-01-07T14:30:00Z")
STARTS = [OPEN, OPEN + MINUTE, TUESDAY, TUESDAY + MINUTE]


@pytest.fixture(scope="module")
def trader() -> Play:
    """A trader with $10,001.90, on the second minute of Tuesday.

    Monday: buys 150 AVLN at 100 and sells 40 BRKT short at 50, at a cent a share: cash
    10,001.90 − 15,000 + 2,000 − 1.90 = −3,000. With the 2,000 that the short is worth, the debit is
    5,000: a day at 7.2% costs $1.00. The 2,000 borrowed at 36% cost $2.00.

    Tuesday: AVLN pays 0.50 on 150 shares = $75 and opens at 110, BRKT at 45. Sells 30 AVLN at 110
    for 3,300 less 0.30. Cash: −3,003 + 75 + 3,299.70 = 371.70. A bid for 8 AVLN at 100 waits.
    """
    bars = {
        "AVLN": at_prices(STARTS, [100, 100, 110, 110]),
        "BRKT": at_prices(STARTS, [50, 50, 45, 45]),
    }
    dividend = DividendRow("AVLN", date(2025, 1, 7), date(2025, 1, 10), 5_000, EARLY)
    borrow = BorrowRow("BRKT", EARLY, 1_000, 3_600)
    rules = {
        **FREE,
        "fees": {"stock_per_share_e4": 100},
        "margin": {"debit_interest_bps": 720},
    }
    play = Play(
        market(bars, dividend_rows=[dividend], borrow_rows=[borrow]), cash=10_001.90, config=rules
    )

    play.step()
    play.order("BUY", "MARKET", 150)
    play.order("SELL", "MARKET", 40, "BRKT")
    play.step()
    play.until("2025-01-07T14:31:00Z")
    play.order("SELL", "MARKET", 30)
    play.step()
    play.order("BUY", "LIMIT", 8, limit_price=100.0)

    return play


def account_of(play: Play) -> dict[str, Any]:
    shown: dict[str, Any] = ask(play.workspace, "PMB.account.get", account_id=play.account_id)
    return shown["account"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("initial_cash", 10_001.90),
        ("cash", 371.70),
        ("unsettled_cash", 0),  # of a margin account, all is settled
        ("long_value", 13_200),  # 120 at 110
        ("short_value", 1_800),  # 40 at 45
        ("equity", 11_771.70),  # cash + long − short
        ("initial_requirement", 7_500),  # half of both values
        ("maintenance_requirement", 3_840),  # 25% of long, 30% of short
        ("buying_power", 8_543.40),  # 4,271.70 above the requirement, at 50%
        # The bid: 120 at 110 and 8 at 100 are 128 at 109.375; half of 800 more, and a fee of 0.08.
        ("reserved", 400.08),
        ("realized_pnl", 300),  # 30 × 10
        ("unrealized_pnl", 1_400),  # 120 × 10 + 40 × 5
        ("fees", 2.20),
        ("interest", 1),
        ("borrow_fees", 2),
        ("dividends", 75),
        ("total_pnl", 1_769.80),  # 300 + 1,400 + 75 − 2.20 − 1 − 2
        ("margin_status", "OK"),
        ("margin_call_due", None),
        ("num_positions", 2),
        ("num_open_orders", 1),
        ("account_type", "MARGIN"),
        ("opened_at", "2025-01-06T14:30:00Z"),
    ],
)
def test_an_account_shows(trader: Play, field: str, shown: object) -> None:
    assert account_of(trader)[field] == shown


@pytest.mark.parametrize(
    ("symbol", "figures"),
    [
        (
            "AVLN",
            {
                "qty": 120,
                "avg_price": 100,
                "mark_price": 110,
                "market_value": 13_200,
                "cost": 12_000,
                "unrealized_pnl": 1_200,
                "realized_pnl": 300,
            },
        ),
        (
            "BRKT",
            {
                "qty": -40,
                "avg_price": 50,
                "mark_price": 45,
                "market_value": -1_800,
                "cost": -2_000,
                "unrealized_pnl": 200,
                "realized_pnl": 0,
            },
        ),
    ],
)
def test_a_position_shows(trader: Play, symbol: str, figures: dict[str, float]) -> None:
    answer = ask(trader.workspace, "PMB.account.positions", account_id=trader.account_id)

    shown = {row["instrument"]["symbol"]: row for row in answer["positions"]}
    assert {name: shown[symbol][name] for name in figures} == figures


def test_a_day_shows_the_account_at_its_close(trader: Play) -> None:
    answer = ask(trader.workspace, "PMB.account.history", account_id=trader.account_id)

    assert answer["history"] == [
        {
            "date": "2025-01-06",
            "session_id": trader.session_id,
            "cash": -3_003,
            "equity": 9_997,
            "long_value": 15_000,
            "short_value": 2_000,
            "maintenance_requirement": 4_350,
        }
    ]


def test_a_trade_shows_its_value_and_fee(trader: Play) -> None:
    answer = ask(trader.workspace, "PMB.account.trades", account_id=trader.account_id)

    first, short, sale = answer["trades"]

    assert (first["ts"], first["price"], first["value"], first["fee"]) == (
        "2025-01-06T14:32:00Z",
        100,
        15_000,
        1.50,
    )
    assert (short["side"], short["qty"], short["value"], short["fee"]) == ("SELL", 40, 2_000, 0.40)
    assert (sale["side"], sale["qty"], sale["value"], sale["fee"]) == ("SELL", 30, 3_300, 0.30)


def test_a_summary_adds_up_what_a_session_traded_and_paid(trader: Play) -> None:
    summary = ask(trader.workspace, "PMB.session.summary", session_id=trader.session_id)

    assert summary["start_equity"] == 10_001.90
    assert summary["final_equity"] == 11_771.70
    assert summary["fees_paid"] == 2.20
    assert summary["interest"] == 1
    assert summary["borrow_fees"] == 2
    assert summary["dividends"] == 75
    assert summary["num_days"] == 2, "Monday, and Tuesday so far"
    assert summary["num_trades"] == 3
    assert summary["num_orders"] == 4
    assert summary["total_return"] == pytest.approx(11_771.70 / 10_001.90 - 1)
    assert summary["turnover"] == pytest.approx(20_300 / ((9_997 + 11_771.70) / 2))


def test_a_session_shows_its_equity_and_orders(trader: Play) -> None:
    session = ask(trader.workspace, "PMB.session.get", session_id=trader.session_id)["session"]

    assert session["start_equity"] == 10_001.90
    assert session["end_equity"] is None
    assert session["num_orders"] == 4
    assert session["num_open_orders"] == 1
    assert session["num_rejected"] == 0
    assert session["num_refused_commands"] == 0
    assert session["margin_call_count"] == 0


def test_a_sale_of_a_cash_account_is_unsettled_until_the_next_trading_day() -> None:
    """1,000 bought at 100, then 400 sold, at a cent a share: $40,000 settle on Tuesday, and the fee
    of $4 is paid at once.
    """
    rules = {**FREE, "fees": {"stock_per_share_e4": 100}}
    flat = (100, 100, 100, 100, 1_000_000)
    play = begun(flat, flat, cash=100_010, account_type="CASH", config=rules)

    play.order("BUY", "MARKET", 1_000)
    play.step()
    play.order("SELL", "MARKET", 400)
    play.step()
    sold = account_of(play)
    play.until("2025-01-07T14:31:00Z")
    settled = account_of(play)

    assert sold["cash"] == 39_996
    assert sold["unsettled_cash"] == 40_000
    assert sold["buying_power"] == 0
    assert settled["unsettled_cash"] == 0
    assert settled["buying_power"] == 39_996
    assert settled["initial_requirement"] == 60_000, "stock of a CASH account is paid in full"


def test_a_margin_call_shows_the_day_on_which_it_is_liquidated() -> None:
    """150 bought at 100 with 10,000: at 40 equity is 1,000, below 25% of 6,000."""
    play = begun((100, 100, 40, 40, 1_000), cash=10_000)
    play.order("BUY", "MARKET", 150)

    play.step()

    account = account_of(play)

    assert account["equity"] == 1_000
    assert account["maintenance_requirement"] == 1_500
    assert account["buying_power"] == 0
    assert account["margin_status"] == "MARGIN_CALL"
    assert account["margin_call_due"] == "2025-01-07"
    assert account["unrealized_pnl"] == -9_000
    assert account["total_pnl"] == -9_000


def test_an_order_filled_at_two_prices_shows_their_mean() -> None:
    """A quarter of a minute's 80 shares: 20 at 100, then 20 at 103."""
    rows = [(100, 100, 100, 100, 80), (103, 103, 103, 103, 80)]
    play = begun(*rows, config={**FREE, "fills": {**FREE["fills"], "max_volume_pct": 25}})
    order = play.order("BUY", "LIMIT", 50, limit_price=105.0)

    play.step(2)

    shown = ask(play.workspace, "PMB.order.get", order_id=order.id)["order"]

    assert shown["status"] == "PARTIALLY_FILLED"
    assert shown["filled_qty"] == 40
    assert shown["open_qty"] == 10
    assert shown["avg_fill_price"] == 101.5
    assert shown["limit_price"] == 105
    assert shown["stop_price"] is None
    assert shown["expire_ts"] == "2025-01-06T21:00:00Z"
    assert account_of(play)["reserved"] == 525, "half of 10 × 105"
