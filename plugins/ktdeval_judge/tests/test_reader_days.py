"""A day read from a file is the day that the program meant: its fills have that day's prices, and its
values are cash and holdings at that day's closes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.testing import not_empty
from ktdeval.values import load_yaml
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import ReadOptions, read_declared
from program_files import FILES, bars, declared

CASH = 1_000_000.0
DAYS = bars("close").index
CLOSES = bars("close").to_dict("index")


def day_before(day: int) -> int:
    return int(DAYS[DAYS.get_loc(day) - 1])


def day_after(day: int) -> int:
    return int(DAYS[DAYS.get_loc(day) + 1])


def trades_of(name: str) -> pd.DataFrame:
    trades = declared(name).trades
    assert trades is not None
    return trades


# ---- fills


AT_OPEN = ("backtrader", "backtrader_transactions", "interactive_brokers",
           "interactive_brokers_flex", "lean", "lean_events", "alpaca", "alpaca_orders",
           "alpaca_table")  # fmt: skip
AT_CLOSE = ("bt", "vectorbt", "vectorbt_trades", "ai_hedge_fund", "ai_hedge_fund_v1",
            "backtrader_cheat_on_close")  # fmt: skip


@pytest.mark.parametrize("name", AT_OPEN)
def test_fills_at_the_open_have_the_open_of_their_day(name: str) -> None:
    for trade in trades_of(name).itertuples():
        assert trade.price == pytest.approx(bars("open").loc[trade.day, trade.code], abs=1e-9)


@pytest.mark.parametrize("name", AT_CLOSE)
def test_fills_at_the_close_have_the_close_of_their_day(name: str) -> None:
    for trade in trades_of(name).itertuples():
        assert trade.price == pytest.approx(bars("close").loc[trade.day, trade.code], abs=1e-9)


def test_zipline_fills_within_its_slippage_of_the_close_of_the_day() -> None:
    for trade in not_empty(trades_of("zipline").itertuples()):
        close = bars("close").loc[trade.day, trade.code]
        assert trade.price == pytest.approx(close, rel=0.0011)


def test_backtrader_names_the_day_after_a_fill_that_cheated_on_the_close() -> None:
    cheated = trades_of("backtrader_cheat_on_close_transactions")
    for trade in not_empty(cheated.itertuples()):
        close = bars("close").loc[day_before(trade.day), trade.code]
        assert trade.price == pytest.approx(close, abs=1e-9)


# ---- decisions


@pytest.mark.parametrize(
    ("name", "is_same_day"),
    [("backtrader", False), ("backtrader_cheat_on_close", True), ("bt", True),
     ("ai_hedge_fund_v1", True)],
)  # fmt: skip
def test_a_decision_stands_on_the_day_of_its_fill_or_on_the_day_before(
    name: str, is_same_day: bool
) -> None:
    found = declared(name)
    assert found.decisions is not None
    assert found.trades is not None

    days = found.decisions.day if is_same_day else found.decisions.day.map(day_after)
    decided = sorted(zip(days, found.decisions.code, found.decisions.amount, strict=True))
    filled = sorted(zip(found.trades.day, found.trades.code, found.trades.shares, strict=True))
    assert decided == filled


def test_a_book_of_qlib_was_decided_on_the_session_before_a_holiday() -> None:
    # positions.csv: 2025-04-07 follows the holiday of Friday 2025-04-04.
    decisions = declared("qlib/positions.csv").decisions
    assert decisions is not None
    rows = pd.read_csv(FILES / "qlib/positions.csv", parse_dates=["datetime"])
    book = rows[rows.datetime == "2025-04-07"].set_index("instrument").amount
    decided = decisions[decisions.day == 20250403].set_index("code").shares
    assert decided[book.index].tolist() == book.tolist()
    assert decided.drop(book.index).eq(0).all()


def test_without_trading_days_qlib_takes_the_weekday_before_and_says_so() -> None:
    found = read_declared(FILES / "qlib/positions.csv", ReadOptions())
    assert found.decisions is not None
    assert found.decisions.day.iloc[0] == 20250310
    assert 20250404 in set(found.decisions.day)
    assert any("weekday before" in note for note in found.notes)


def test_qlib_position_sold_today_is_not_a_holding() -> None:
    assert declared("qlib_parsed").decisions is not None
    pd.testing.assert_frame_equal(
        declared("qlib_parsed").decisions, declared("qlib/positions.csv").decisions
    )


def test_an_action_of_finrl_is_paid_at_the_close_of_its_own_day() -> None:
    # value(t + 1) = cash after the actions of t + shares * close(t + 1), fees 0.03 %.
    found = declared("finrl")
    assert found.decisions is not None
    assert found.values is not None
    cash = CASH
    held: dict[str, float] = {}
    decided = {day: list(rows.itertuples()) for day, rows in found.decisions.groupby("day")}
    for day in DAYS[:-1]:
        for row in decided.get(day, []):
            shares = row.amount if row.side == "buy" else -row.amount
            price = CLOSES[day][row.code]
            held[row.code] = held.get(row.code, 0.0) + shares
            cash -= shares * price + abs(shares) * price * 0.0003
        closes = CLOSES[day_after(day)]
        value = cash + sum(shares * closes[code] for code, shares in held.items())
        assert found.values[day_after(day)] == pytest.approx(value, abs=1e-6)


def test_weights_of_finrl_s_portfolio_were_decided_on_the_row_before() -> None:
    # return(t + 1) = sum of weights decided on t * (close(t + 1) / close(t) - 1)
    found = declared("finrl_portfolio/actions.csv", "finrl")
    values = declared("finrl_portfolio/returns.csv").values
    assert found.decisions is not None
    assert values is not None
    returns = values.pct_change()
    books = found.decisions.pivot(index="day", columns="code", values="weight")
    assert books.index.tolist() == DAYS[:-1].tolist()
    for day, book in books.iterrows():
        after = day_after(day)
        earned = sum(
            weight * (CLOSES[after][code] / CLOSES[day][code] - 1) for code, weight in book.items()
        )
        assert returns[after] == pytest.approx(earned, abs=1e-9)


def test_logs_of_older_versions_of_tradingagents_repeat_earlier_days(tmp_path: Path) -> None:
    folder = FILES / "tradingagents/009005.SZ/TradingAgentsStrategy_logs"
    states: dict[str, object] = {}
    for path in sorted(folder.glob("*.json")):
        state = json.loads(path.read_text())
        states[state["trade_date"]] = state
        (tmp_path / path.name).write_text(json.dumps(states))
    decisions = read_declared(tmp_path, ReadOptions()).decisions
    assert decisions is not None
    # Buy, Hold, Overweight, Underweight, Sell, Hold of the only asset; days of Hold trade nothing.
    assert decisions.weight.tolist() == [1.0, 1.0, 0.5, 0.0]


def test_ratings_of_tradingagents_move_an_asset_within_its_share() -> None:
    # 009005.SZ: Buy, Hold, Overweight, Underweight, Sell, Hold; 009083.SZ the reverse. Share 1/2.
    decisions = declared("tradingagents").decisions
    assert decisions is not None
    book = decisions.pivot(index="day", columns="code", values="weight")
    assert book["009005.SZ"].tolist() == [0.5, 0.5, 0.5, 0.25, 0.0, 0.0]
    assert book["009083.SZ"].tolist() == [0.0, 0.0, 0.0, 0.25, 0.25, 0.5]
    assert book.index[0] == 20250317


def test_a_weight_of_ai_hedge_fund_stands_on_the_day_of_its_record() -> None:
    # records[1] of 2025-03-21: 009012.SZ 0.5, all others 0.
    decisions = declared("ai_hedge_fund").decisions
    assert decisions is not None
    book = decisions[decisions.day == 20250321].set_index("code").weight
    assert book["009012.SZ"] == 0.5
    assert book.drop("009012.SZ").eq(0).all()


# ---- values


def rebuilt(found: Declared, fee_rate: float | None = None) -> pd.Series:
    """Values at each close from cash and the trades, with their fees or those of a rate."""
    assert found.trades is not None
    cash = CASH
    held: dict[str, float] = {}
    values = {}
    filled = {day: list(rows.itertuples()) for day, rows in found.trades.groupby("day")}
    for day in DAYS:
        for row in filled.get(day, []):
            shares = row.shares if row.side == "buy" else -row.shares
            fee = row.fee if fee_rate is None else row.shares * row.price * fee_rate
            held[row.code] = held.get(row.code, 0.0) + shares
            cash -= shares * row.price + fee
        closes = CLOSES[day]
        values[day] = cash + sum(shares * closes[code] for code, shares in held.items())

    return pd.Series(values)


@pytest.mark.parametrize(
    ("trades", "values", "program", "fee_rate"),
    [
        ("backtrader/orders.csv", "backtrader_writer", "", None),
        ("bt/transactions.csv", "bt/values.csv", "bt", 0.0003),
        ("vectorbt/orders.csv", "vectorbt/value.csv", "vectorbt", None),
        ("interactive_brokers_flex", "interactive_brokers_flex", "", None),
        ("lean_events", "lean", "", None),
        ("ai_hedge_fund", "ai_hedge_fund", "", 0.0),
        ("ai_hedge_fund_v1", "ai_hedge_fund_v1", "", 0.0),
    ],
)
def test_the_value_of_a_day_is_cash_and_holdings_at_its_close(
    trades: str, values: str, program: str, fee_rate: float | None
) -> None:
    found = declared(values, program).values
    assert found is not None
    expected = rebuilt(declared(trades), fee_rate)[found.index]
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.01)


@pytest.mark.parametrize("name", ["backtrader/returns.csv", "zipline/returns.csv"])
def test_returns_compound_to_an_account_of_one_before_the_first_day(name: str) -> None:
    found = declared(name)
    money = declared("backtrader_writer" if name.startswith("back") else "zipline_perf").values
    assert found.values is not None
    assert money is not None
    assert found.cash == 1.0
    np.testing.assert_allclose(found.values * CASH, money, rtol=1e-6)


def test_the_first_account_of_qlib_follows_from_its_return_and_cost() -> None:
    # 991774.2464 / (1 - 0.00794202556610106 - 0.0002837280038452148) = 1000000
    found = declared("qlib/report.csv")
    assert found.cash == pytest.approx(CASH, abs=1e-4)
    assert found.values is not None
    assert found.values.index[0] == 20250311


def test_a_book_of_qlib_and_its_cash_are_the_account_of_that_day() -> None:
    found = declared("qlib")
    report = pd.read_csv(FILES / "qlib/report.csv", parse_dates=["datetime"])
    report.index = report.datetime.dt.strftime("%Y%m%d").astype(int)
    assert found.decisions is not None
    assert found.values is not None
    for day in not_empty(report.index):
        book = found.decisions[found.decisions.day == day_before(day)]
        closes = bars("close").loc[day]
        holdings = sum(closes[row.code] * row.shares for row in book.itertuples())
        value = holdings + report.loc[day, "cash"]
        assert found.values[day] == pytest.approx(value, rel=1e-6)


def test_books_of_qlib_filled_at_the_next_open_give_its_account() -> None:
    rules = load_yaml(FILES / "qlib_rules.yaml")
    found = declared("qlib")
    assert found.decisions is not None
    assert found.values is not None
    cash = rules["cash"]
    opens = bars("open").to_dict("index")
    held: dict[str, float] = {}
    for day, rows in not_empty(found.decisions.groupby("day")):
        after = day_after(day)
        for row in rows.itertuples():
            shares = row.shares - held.get(row.code, 0.0)
            money = shares * opens[after][row.code]
            rate = rules["open_cost"] if shares > 0 else rules["close_cost"]
            cost = max(rules["min_cost"], abs(money) * rate) if shares else 0.0
            held[row.code] = row.shares
            cash -= money + cost
        value = cash + sum(shares * CLOSES[after][code] for code, shares in held.items())
        assert found.values[after] == pytest.approx(value, rel=2e-7)  # Qlib's prices are float32


def test_the_first_row_of_bt_is_the_account_before_its_first_day() -> None:
    # values.csv begins with 2025-03-02, a Sunday, and the capital.
    found = declared("bt/values.csv", "bt")
    assert found.values is not None
    assert found.cash == CASH
    assert found.values.index[0] == 20250303


def test_finrl_s_first_value_is_its_capital() -> None:
    found = declared("finrl/account_value.csv")
    assert found.cash == CASH
    assert found.values is not None
    assert found.values.index[0] == 20250303
    assert found.values[20250304] == pytest.approx(999540.7731)


def test_zipline_values_are_position_sums_and_match_the_runs_table() -> None:
    positions = declared("zipline/positions.csv").values
    run = declared("zipline_perf").values
    assert positions is not None
    assert run is not None
    np.testing.assert_allclose(positions, run, atol=1e-6)
    # 2025-03-11: 446580.40 + 438186.56 + 114525.0937 = 999292.0537
    assert positions[20250311] == pytest.approx(999292.0537, abs=1e-4)
