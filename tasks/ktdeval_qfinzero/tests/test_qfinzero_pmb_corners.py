"""Corner cases of the broker, reached only by an account in an unusual state, a late time or an
unusual day.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import msgspec
import numpy as np
import pytest

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.data.rows import DividendRow, SplitRow, SymbolRow
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.pmb.account_views import summary_shown
from ktdeval_qfinzero.pmb.broker import Broker, verify
from ktdeval_qfinzero.pmb.broker_types import Instrument
from ktdeval_qfinzero.pmb.reference_data import BrokerReference
from ktdeval_qfinzero.timestamps import MINUTE, Clock
from qfinzero_plays import Line, on_each_play, run_play
from support.qfinzero.qfinzero_broker_play import FLAT, OPEN, Play, by_days, market, minutes, table
from support.qfinzero.qfinzero_calls import refused
from support.qfinzero.qfinzero_margin import STOCK
from support.qfinzero.qfinzero_world import at, bars_of, small_dataset, with_prices


@on_each_play
def test_corners_as_played(lines: Sequence[Line]) -> None:
    run_play(lines)


# --- Prices over splits
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "before", "after"),
    [
        # 19:30 in New York: of old shares, with the dividend
        ("2025-01-08T00:30:00Z", 500_000, 240_000),
        # 04:30 in New York: of new shares, which no account holds before the open
        ("2025-01-08T09:30:00Z", 1_020_000, 500_000),
    ],
)
def test_last_price_from_outside_sessions_is_adjusted_to_the_held_shares(
    moment: str, before: int, after: int
) -> None:
    day = date(2025, 1, 8)
    actions = {
        "split_rows": [SplitRow("BRKT", day, 2, 1, 0)],
        "dividend_rows": [DividendRow("BRKT", day, day, 10_000, 0)],
    }
    late = bars_of(np.array([at(moment)]), np.array([500_000]))
    reference = BrokerReference(
        with_prices(small_dataset(), {("stock", "BRKT", "minute"): late}, **actions)
    )

    for now, mark in (("2025-01-08T13:00:00Z", before), ("2025-01-08T14:30:00Z", after)):
        assert reference.visible_mark(Instrument("STOCK", "BRKT"), at(now)) == mark


# --- Margin calls
# -------------------------------------------------------------------------------------------------------------


def test_bankrupt_account_keeps_its_debt_and_reports_all_figures() -> None:
    """Short 1,000 at 100 with $60,000; the next day opens at 1,000."""
    trader = by_days({"AVLN": [100, 100, 1_000, 1_000, 1_000, 1_000]}, 60_000, days=5)
    trader.send("SELL", 1_000, STOCK)
    trader.step(5)

    assert trader.held(STOCK) == 0

    debt = 60_000 - 900_000 - trader.account.interest_e4 / 10_000
    assert trader.cash == trader.equity == pytest.approx(debt)
    assert trader.account.interest_e4 > 0

    session = trader.broker.state.sessions[trader.session_id]
    figures: Any = summary_shown(trader.broker.engine, session)
    json.dumps(msgspec.to_builtins(figures), allow_nan=False)

    assert figures.final_equity == trader.equity
    assert figures.total_return == pytest.approx(trader.equity / 60_000 - 1)
    assert figures.sharpe is None
    assert "not positive" in figures.undefined["sharpe"]

    verify(trader.broker.log.to_lines(), trader.workspace.dataset)


# --- Days and moments
# ---------------------------------------------------------------------------------------------------------


@on_each_row(
    "day, start, close",
    ("2024-11-29", "14:30", "18:00"),
    ("2024-12-24", "14:30", "18:00"),
    ("2025-03-07", "14:30", "21:00"),
    ("2025-03-10", "13:30", "20:00"),
)
def test_an_order_on_the_last_tick_of_a_day_fills_and_its_day_ends_there(
    day: str, start: str, close: str
) -> None:
    end = at(f"{day}T{close}:00Z")
    dataset = market(
        {"AVLN": minutes([FLAT], end - MINUTE)},
        symbol_rows=[SymbolRow("AVLN", "stock", "Avalon", "technology", 0)],
    )
    info = replace(
        dataset.info, minute_first_day=date(2024, 11, 1), minute_last_day=date(2025, 3, 31)
    )
    play = Play(replace(dataset, info=info), start=f"{day}T{start}:00Z", end_ts=day)
    filled = play.order("BUY", "LIMIT", limit_price=100.0)
    waiting = play.order("BUY", "LIMIT", limit_price=99.0)
    play.step(390)

    assert [(trade.ts_ns, trade.qty) for trade in play.state.trades] == [(end, 100)]
    assert (filled.status, waiting.status, waiting.reason[:8]) == ("FILLED", "EXPIRED", "DAY_OVER")
    assert (play.state.sessions[play.session_id].status, play.state.now_ns) == ("FINISHED", end)


def test_option_is_delivered_even_if_its_underlying_has_no_earlier_price() -> None:
    """The stock's first bar is of the day of expiry, and the session of minutes has none of it."""
    call = OptionContract("AVLN", date(2025, 1, 6), 900_000, "C").symbol
    options: Any = market({call: minutes([(9, 9, 9, 9, 100_000)] * 10)}).prices
    stock = market({"AVLN": minutes([FLAT], at("2025-01-06T00:00:00Z"))}, "day")
    play = Play(
        with_prices(stock, options.bar_table, contract_rows=options.contract_rows),
        universe={"options": [call]},
    )
    play.order("BUY", "LIMIT", 1, symbol=call, limit_price=9.0)
    play.until("2025-01-07T15:00:00Z")

    assert (play.held(), play.held(call)) == (100, 0)
    assert play.state.days[play.account_id][0].equity_e4 == (1_000_000 - 900 + 1_000) * 10_000


def test_sessions_and_clocks_end_before_the_calendar_does() -> None:
    assert "end_ts: the broker's calendar ends at the open of 2035-" in str(
        refused(Play, [FLAT], end_ts="2035-12-20")
    )

    play = Play([FLAT])
    play.broker.clock.advance(at("2035-12-20T12:00:00Z"))

    assert "calendar ends" in str(refused(play.step))
    assert "calendar ends" in str(refused(Broker, play.dataset, Clock(at("2036-01-10T00:00:00Z"))))


# --- Orders
# -------------------------------------------------------------------------------------------------------------------


def test_a_session_of_minutes_has_a_sharpe_ratio_of_days() -> None:
    """5,000 shares at 100, which close at 101, 99 and 102, on a million: equity of 1,005,000,
    995,000 and 1,010,000.
    """
    ends = [at(f"2025-01-{day:02d}T20:59:00Z") for day in (6, 7, 8)]
    prices = [(price, price, price, price, 1_000_000) for price in (101.0, 99.0, 102.0)]
    play = Play(market({"AVLN": table([OPEN, *ends], [FLAT, *prices])}), end_ts="2025-01-08")
    play.order("BUY", "LIMIT", 5_000, limit_price=100.0)
    play.step(3 * 390)
    figures: Any = summary_shown(play.broker.engine, play.state.sessions[play.session_id])
    levels = np.array([1_000_000, 1_005_000, 995_000, 1_010_000])
    returns = levels[1:] / levels[:-1] - 1

    assert figures.num_days == 3
    assert figures.sharpe == pytest.approx(returns.mean() / returns.std(ddof=1) * 252**0.5)
