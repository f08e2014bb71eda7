"""Sessions and days: clock movement, daily events, and what accounts, sessions and their summaries
report.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import empyrical
import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import DividendRow, SplitRow
from ktdeval_qfinzero.pmb.account_views import SessionFacts, summarise
from ktdeval_qfinzero.pmb.bar_feed import (
    bar_times,
    day_order_end,
    require_reach,
    tick_at,
    ticks_by,
)
from ktdeval_qfinzero.timestamps import MINUTE
from ktdeval_qfinzero.trading_hours import trading_hours
from qfinzero_plays import Line, on_each_play, run_play
from support.qfinzero.qfinzero_broker_play import FLAT, Play, market, minutes, thing
from support.qfinzero.qfinzero_calls import ask, pages, refused
from support.qfinzero.qfinzero_margin import e4
from support.qfinzero.qfinzero_world import at, small_dataset, with_prices


@on_each_play
def test_sessions_as_played(lines: Sequence[Line]) -> None:
    run_play(lines)


# --- The clock
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frequency", ["1m", "1d"])
def test_ticks_are_counted_as_the_exchanges_schedule_has_them(frequency: Any) -> None:
    hours = trading_hours()
    first = hours.row_of(date(2025, 7, 2))

    assert first is not None

    # July 3 closes early
    of_days = [bar_times(hours, row, frequency)[1] for row in range(first, first + 4)]
    ticks = [int(tick) for tick in np.concatenate(of_days)]
    before = ticks_by(hours, ticks[0] - 1, frequency)

    assert [tick_at(hours, before + 1 + index, frequency) for index in range(len(ticks))] == ticks
    assert [ticks_by(hours, tick, frequency) for tick in ticks] == list(
        range(before + 1, before + 1 + len(ticks))
    )

    # of a day session the day's bar has begun
    same_day = at(f"2025-01-0{6 if frequency == '1m' else 7}T21:00:00Z")
    assert day_order_end(hours, at("2025-01-06T15:00:00Z"), frequency) == same_day
    assert day_order_end(hours, at("2025-01-06T21:00:00Z"), frequency) == at("2025-01-07T21:00:00Z")


@pytest.mark.parametrize("frequency", ["1m", "1d"])
def test_the_last_tick_of_the_calendar_is_its_last_close(frequency: Any) -> None:
    hours = trading_hours()
    minutes_of_days = (hours.close_ns - hours.open_ns) // MINUTE
    count = len(hours.close_ns) if frequency == "1d" else int(minutes_of_days.sum())
    last = int(hours.close_ns[-1])

    assert tick_at(hours, 1, "1m") == int(hours.open_ns[0]) + MINUTE
    assert tick_at(hours, 1, "1d") == int(hours.close_ns[0])
    assert tick_at(hours, count, frequency) == last
    assert ticks_by(hours, last, frequency) == count
    assert ticks_by(hours, last - 1, frequency) == count - 1
    assert ticks_by(hours, last + 10 * MINUTE, frequency) == count


@pytest.mark.parametrize("frequency", ["1m", "1d"])
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_tick_beyond_the_calendar_is_refused(frequency: Any, beyond: int) -> None:
    hours = trading_hours()
    count = ticks_by(hours, int(hours.close_ns[-1]), frequency)
    number = count + 1 if beyond else 0

    error = refused(tick_at, hours, number, frequency)

    assert error.code == "invalid_argument"
    assert "the trading calendar ends before; take fewer steps" in str(error)


def test_time_in_the_last_40_trading_days_of_the_calendar_is_out_of_reach() -> None:
    hours = trading_hours()
    first_out = int(hours.open_ns[-40])

    require_reach(hours, first_out - 1, "end_ts")

    error = refused(require_reach, hours, first_out, "end_ts")

    assert error.field == "end_ts"
    assert str(hours.day(len(hours.days) - 40)) in str(error)


@on_each_row(
    "session, field",
    # no tick
    ({"end_ts": "2025-01-06T14:30:30Z"}, "end_ts"),
    # a weekend
    ({"start_ts": "2025-01-11", "end_ts": "2025-01-12"}, "end_ts"),
    ({"end_ts": "2099-01-01"}, "end_ts"),
    ({"universe": {"stocks": []}}, "universe"),
    ({"universe": {"stocks": ["AVLN", "NONE"]}}, "universe.stocks[1]"),
    ({"universe": {"options": ["O:X"]}}, "universe.options[0]"),
)
def test_sessions_that_could_not_trade_are_refused(session: dict[str, Any], field: str) -> None:
    error = refused(Play, small_dataset(), **session)
    assert (error.code, error.field) == ("invalid_argument", field)


# --- What the broker says
# ---------------------------------------------------------------------------------------------------------


def opened(
    dataset: Dataset | None = None,
    start: str = "2025-01-06T14:30:00Z",
    cash: float = 100_000,
    **more: Any,
) -> Any:
    """A workspace with a running session in AVLN and BRKT, the arguments of its account, of its
    session and of both.
    """
    workspace = Workspace(dataset or small_dataset(), at(start))
    account = {"account_id": ask(workspace, "PMB.account.create", initial_cash=cash)["account_id"]}
    span = {
        "start_ts": start,
        "end_ts": "2025-01-08T16:00:00Z",
        "universe": {"stocks": ["AVLN", "BRKT"]},
        **more,
    }
    session = {"session_id": ask(workspace, "PMB.session.create", **account, **span)["session_id"]}

    return workspace, account, session, {**account, **session}


def wanted(side: str, symbol: str, qty: int = 50, **more: Any) -> dict[str, Any]:
    return {
        "instrument": thing(symbol),
        "side": side,
        "order_type": "LIMIT" if more else "MARKET",
        "qty": qty,
        **more,
    }


def traded(dataset: Dataset | None = None) -> tuple[Workspace, dict[str, str]]:
    """A workspace with a session of minutes that has traded, and its ids."""
    workspace, _, session, both = opened(dataset)
    for symbol, side in (("AVLN", "BUY"), ("BRKT", "SELL"), ("AVLN", "SELL")):
        ask(workspace, "PMB.order.place", **both, order=wanted(side, symbol))
        ask(workspace, "PMB.session.step", **session, step=200)

    return workspace, both


def test_an_export_is_whole_in_both_forms() -> None:
    workspace, both = traded()
    session = {"session_id": both["session_id"]}
    plain = ask(workspace, "PMB.session.export", **session)
    tables = ask(workspace, "PMB.session.export", **session, format="csv")["files"]

    assert plain["log_hash"] == workspace.broker.log.last_hash

    for name in ("orders", "trades", "history"):
        rows = list(csv.DictReader(io.StringIO(tables[f"{name}.csv"])))
        assert len(rows) == len(plain[name]) > 0

    assert float(rows[-1]["equity"]) == plain["history"][-1]["equity"]


@pytest.mark.parametrize(
    ("name", "key"), [("orders", "order_id"), ("trades", "trade_id"), ("history", "date")]
)
def test_pages_make_the_whole(name: str, key: str) -> None:
    workspace, both = traded()
    account = {"account_id": both["account_id"]}
    whole = ask(workspace, f"PMB.account.{name}", **account)[name]

    assert [page[name] for page in pages(workspace, f"PMB.account.{name}", **account, limit=1)] == [
        [row] for row in whole
    ]
    assert len({row[key] for row in whole}) == len(whole) > 0


@on_each_row(
    "name, given",
    ("PMB.account.get", {"account_id": "acct-000009"}),
    ("PMB.account.orders", {"account_id": "acct-000001", "cursor": "nonsense"}),
    ("PMB.session.get", {"session_id": "sess-000009"}),
    ("PMB.session.step", {"session_id": "sess-000001", "step": 0}),
    ("PMB.session.step", {"session_id": "sess-000001", "step": 100_001}),
    ("PMB.session.step", {"session_id": "sess-000001", "until_ts": "noon"}),
    ("PMB.order.get", {"order_id": "ord-000099"}),
    ("PMB.account.create", {"initial_cash": 0}),
    ("PMB.account.create", {"initial_cash": 1e-05}),
    ("PMB.account.create", {"account_type": "FREE"}),
    ("PMB.account.create", {"start_date": "2025-01-05"}),
    ("PMB.borrow.query", {"tickers": "avln"}),
    ("PMB.borrow.query", {"tickers": "201 of them"}),
)
def test_calls_that_can_not_be_answered_are_refused_in_one_line(
    name: str, given: dict[str, Any]
) -> None:
    workspace, _ = traded()
    many = {"201 of them": ",".join(f"T{number}" for number in range(201))}
    answer = catalogue().answer(
        workspace, name, {key: many.get(str(value), value) for key, value in given.items()}
    )

    assert isinstance(answer, dict)
    assert set(answer) == {"error"}
    assert "\n" not in answer["error"]["message"]


def test_caller_cannot_set_the_price_and_modifications_are_validated() -> None:
    workspace, _, _, both = opened()
    named = catalogue().answer(
        workspace, "PMB.order.place", {**both, "order": {**wanted("BUY", "AVLN"), "price": 1.0}}
    )

    assert (named["error"]["code"], named["error"]["field"]) == ("invalid_argument", "order")  # type: ignore[call-overload,index]

    order_id = ask(
        workspace, "PMB.order.place", **both, order=wanted("BUY", "AVLN", 1, limit_price=50.0)
    )["order_id"]

    for updates in ({"qty": -5}, {"qty": 0}, {"limit_price": -1.0}, {"limit_price": 1.001}):
        refused: Any = catalogue().answer(
            workspace, "PMB.order.modify", {**both, "order_id": order_id, "updates": updates}
        )
        assert refused["error"]["code"] == "invalid_argument"

    assert workspace.broker.state.orders[order_id].status == "ACCEPTED"


def test_locked_amounts_are_shown_and_events_are_in_dollars_and_timestamps() -> None:
    workspace, account, session, both = opened(cash=10_000)
    ask(workspace, "PMB.session.step", **session)
    ask(workspace, "PMB.order.place", **both, order=wanted("BUY", "AVLN", 150))

    assert ask(workspace, "PMB.account.get", **account)["account"]["reserved"] > 0

    after = ask(workspace, "PMB.session.step", **session)
    assert (after["account"]["reserved"], after["account"]["cash"] < 0) == (0, True)

    event = after["events"][0]
    assert (event["ts"], event["type"], event["data"]["order_id"]) == (
        "2025-01-06T14:32:00Z",
        "TRADE",
        "ord-000001",
    )
    assert (
        event["data"]["price"]
        == ask(workspace, "PMB.account.trades", **account)["trades"][0]["price"]
    )
    assert "_e4" not in json.dumps(event)


def test_corporate_actions_announced_too_late_to_be_known_do_not_happen() -> None:
    late = at("2025-01-14T00:00:00Z")
    ex_day = date(2025, 1, 13)
    actions = {
        "dividend_rows": [DividendRow("AVLN", ex_day, date(2025, 1, 31), 2_500, late)],
        "split_rows": [SplitRow("AVLN", ex_day, 2, 1, late)],
    }
    play = Play(
        with_prices(small_dataset(), **actions),
        start="2025-01-06T21:00:00Z",
        frequency="1d",
        end_ts="2025-01-31",
    )
    play.order("BUY", "MARKET", 100)
    play.step(6)

    assert (play.held(), play.account.dividends_e4) == (100, 0)


def test_bars_that_are_off_the_minute_or_outside_of_hours_are_no_ticks() -> None:
    bars = minutes([FLAT, FLAT], at("2025-01-06T14:29:00Z"))
    odd = replace(bars, start_ns=bars.start_ns + np.array([0, MINUTE // 2]))
    play = Play(market({"AVLN": odd}))
    order = play.order("BUY", "LIMIT", limit_price=100.0)
    play.step(5)

    assert order.status == "ACCEPTED"


# -- figures of a session


def facts(start: float, *closes: float, **counts: int) -> SessionFacts:
    return SessionFacts(e4(start), tuple(map(e4, closes)), **counts)


def test_figures_of_three_days_by_hand() -> None:
    """Returns of 10%, −10% and 10%: mean 1/30, sample variance (2 × (1/15)² + (2/15)²) / 2 =
    1/75.
    """
    summary = summarise(facts(100, 110, 99, 108.9))

    assert summary.total_return == pytest.approx(0.089)
    assert summary.annualised_volatility == pytest.approx(math.sqrt(252 / 75))
    assert summary.sharpe == pytest.approx(1 / 30 * math.sqrt(75) * math.sqrt(252))
    assert summary.max_drawdown == pytest.approx(0.1)
    assert (summary.start_equity, summary.final_equity, summary.num_days) == (100, 108.9, 3)
    assert (summary.num_orders, summary.num_trades, summary.margin_call_count) == (0, 0, 0)
    assert (summary.fees_paid, summary.interest, summary.borrow_fees) == (0, 0, 0)
    assert (summary.dividends, summary.turnover) == (0, 0)
    assert summary.undefined == {
        "reject_rate": "no order was sent",
        "invalid_action_rate": "no command was sent",
    }


@given(st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=60))
def test_figures_match_empyrical(returns: list[float]) -> None:
    levels = [1_000_000.0]
    for change in returns:
        levels.append(round(levels[-1] * (1 + change), 4))

    observed = np.diff(levels) / np.array(levels[:-1])
    summary = summarise(facts(*levels))

    assert summary.total_return == pytest.approx(empyrical.cum_returns_final(observed), abs=1e-9)
    assert summary.annualised_volatility == pytest.approx(
        empyrical.annual_volatility(observed), rel=1e-7, abs=1e-9
    )
    assert summary.max_drawdown == pytest.approx(-empyrical.max_drawdown(observed), abs=1e-9)

    if np.std(observed) > 1e-6:
        assert summary.sharpe == pytest.approx(empyrical.sharpe_ratio(observed), rel=1e-6, abs=1e-6)


# Equity at the start and at the closes, in dollars; what else was counted, amounts in 1/10,000 of a dollar.
@on_each_row(
    "equity, counted, figures, reasons",
    (
        [100],
        {},
        {"sharpe": None, "turnover": None},
        {"sharpe": "there are less than two daily returns", "turnover": "no day was closed"},
    ),
    ([100, 101], {}, {"sharpe": None}, {"sharpe": "there are less than two daily returns"}),
    (
        [100, 100, 100],
        {},
        {"sharpe": None, "annualised_volatility": 0},
        {"sharpe": "daily returns do not vary"},
    ),
    ([100, 110, 121], {}, {"sharpe": None}, {"sharpe": "daily returns do not vary"}),
    # Equity that is gone leaves returns undefined.
    (
        [100, -5, 10],
        {},
        {"total_return": -0.9, "max_drawdown": 1.05},
        {
            "sharpe": "equity was not positive at a close",
            "annualised_volatility": "equity was not positive at a close",
        },
    ),
    (
        [0, 1],
        {},
        {"total_return": None},
        {"total_return": "equity was not", "max_drawdown": "equity was not"},
    ),
    # over mean equity
    ([100, 90, 110], {"traded_value_e4": 2_500_000}, {"turnover": 2.5}, {}),
    ([100, -90, -110], {}, {"turnover": None}, {"turnover": "mean equity was not positive"}),
    # Rates are shares of what was sent; money is in dollars.
    (
        [100, 100],
        {
            "num_orders": 8,
            "num_rejected": 2,
            "num_actions": 20,
            "num_invalid": 1,
            "num_trades": 3,
            "margin_call_count": 1,
        },
        {
            "reject_rate": 0.25,
            "invalid_action_rate": 0.05,
            "margin_call_count": 1,
            "num_orders": 8,
            "num_trades": 3,
        },
        {},
    ),
    ([100, 100], {}, {"reject_rate": None}, {"reject_rate": "no order was sent"}),
    (
        [100, 100],
        {"fees_paid_e4": 12345, "interest_e4": 1, "borrow_fees_e4": 20000, "dividends_e4": -5000},
        {"fees_paid": 1.2345, "interest": 0.0001, "borrow_fees": 2, "dividends": -0.5},
        {},
    ),
)
def test_a_figure_is_a_number_or_has_its_reason(
    equity: list[float], counted: dict[str, int], figures: dict[str, Any], reasons: dict[str, str]
) -> None:
    summary = summarise(facts(*equity, **counted))
    assert {name: getattr(summary, name) for name in figures} == pytest.approx(figures)

    for name, reason in reasons.items():
        assert getattr(summary, name) is None
        assert summary.undefined[name].startswith(reason)


@given(st.lists(st.integers(-(10**12), 10**12), max_size=5))
def test_a_summary_is_strict_json(levels: list[int]) -> None:
    figures = summarise(SessionFacts(10**9, tuple(levels)))
    json.dumps(msgspec.to_builtins(figures), allow_nan=False)
