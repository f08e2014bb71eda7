"""Columns and rows whose meaning shows only together: pairs of columns, totals, units, cash."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import ReadOptions, read_declared


def read(folder: Path, text: str, options: ReadOptions | None = None) -> Declared:
    path = folder / "file.csv"
    path.write_text(text, "utf-8")
    return read_declared(path, options or ReadOptions())


def trades_of(declared: Declared) -> list[tuple[int, str, str, float, float]]:
    assert declared.trades is not None
    columns = ["day", "code", "side", "shares", "price"]
    return [tuple(row) for row in declared.trades[columns].itertuples(index=False)]


ROUND_TRIP = [(20250609, "AAPL", "buy", 100.0, 204.39), (20250624, "AAPL", "sell", 100.0, 202.59)]


# ---- pairs of columns


@pytest.mark.parametrize(
    "head",
    [
        "Date,Ticker,Shares Bought,Buy Price,Shares Sold,Sell Price",
        "Date,Ticker,buy_qty,buy_price,sell_qty,sell_price",
        "日期,代码,买入数量,买入价格,卖出数量,卖出价格",
    ],
)
def test_columns_of_purchases_and_of_sales_are_one_trade_a_row(tmp_path: Path, head: str) -> None:
    text = f"{head}\n2025-06-09,AAPL,100,204.39,,\n2025-06-24,AAPL,,,100,202.59\n"
    assert trades_of(read(tmp_path, text)) == ROUND_TRIP


def test_targets_are_decided_on_the_day_of_the_signal(tmp_path: Path) -> None:
    text = (
        "signal_date,trade_date,ticker,target_weight,executed_weight\n"
        "2025-06-09,2025-06-10,AAPL,0.5,0.25\n2025-06-24,2025-06-25,AAPL,0.2,0.1\n"
    )
    found = read(tmp_path, text)
    assert found.decisions is not None
    assert found.decisions["day"].tolist() == [20250609, 20250624]
    assert found.decisions["weight"].tolist() == [0.5, 0.2]
    assert any(
        "Not read: 'executed_weight'; to read it, --map weight=executed_weight" in note
        for note in found.notes
    )

    filled = read(tmp_path, text, ReadOptions(dated="fill"))
    assert filled.decisions is not None
    assert filled.decisions["day"].tolist() == [20250610, 20250625]


def test_a_signal_after_its_trade_is_refused(tmp_path: Path) -> None:
    text = "signal_date,trade_date,ticker,weight\n2025-06-11,2025-06-10,AAPL,0.5\n"
    with pytest.raises(DataError, match="signal_date: is later than the day of the row"):
        read(tmp_path, text)


# ---- rows that are no trades


def test_rows_without_a_trade_are_left_out_and_listed_by_kind(tmp_path: Path) -> None:
    text = (
        "date,type,symbol,qty,price,amount\n"
        "2025-06-02,JNLC,,,,100000\n"
        "2025-06-09,buy,AAPL,100,204.39,\n"
        "2025-06-12,DIV,AAPL,,,26\n"
        "2025-06-13,DIV,AAPL,,,26\n"
        "2025-06-14,FEE,AAPL,3,,\n"
        "2025-06-20,hold,AAPL,,203,\n"
        "2025-06-23,buy,MSFT,,470,\n"
        "2025-06-24,sell,AAPL,100,202.59,\n"
        "Total,,,,,52\n"
    )
    found = read(tmp_path, text)
    assert trades_of(found) == ROUND_TRIP
    left_out = [note for note in found.notes if note.startswith("Left out")]
    assert left_out == [
        "Left out: 1 row without a day: Total 1.",
        "Left out: 5 rows without shares and price: DIV 2, JNLC 1, FEE 1, hold 1.",
        "Left out: 1 row without a size: buy 1.",
    ]


def test_a_trade_without_a_price_is_refused(tmp_path: Path) -> None:
    text = "date,side,symbol,qty,price\n2025-06-09,buy,AAPL,100,\n2025-06-24,sell,AAPL,100,202.59\n"
    with pytest.raises(DataError, match="column price: expected a number, was empty"):
        read(tmp_path, text)


POSITIONS = (
    "Date,Ticker,Shares,Buy Price,Current Price,Total Value,Cash Balance,Total Equity\n"
    "2025-06-30,ABEO,6,5.77,5.68,34.08,,\n"
    "2025-06-30,CADL,5,5.04,5.06,25.30,,\n"
    "2025-06-30,TOTAL,,,,59.38,44.82,104.20\n"
    "2025-07-01,ABEO,6,5.77,5.57,33.42,,\n"
    "2025-07-01,CADL,5,5.04,4.85,24.25,,\n"
    "2025-07-01,TOTAL,,,,57.67,44.82,102.49\n"
)


def test_rows_of_totals_are_the_value_of_the_account(tmp_path: Path) -> None:
    found = read(tmp_path, POSITIONS, ReadOptions(is_nav=True))
    assert found.values is not None
    assert found.values.to_dict() == {20250630: 104.20, 20250701: 102.49}
    assert "Rows 'TOTAL' are read as the account's value, not as a position." in found.notes


def test_a_position_is_never_taken_for_a_total(tmp_path: Path) -> None:
    text = "date,symbol,shares\n2025-06-30,AAPL,6\n2025-06-30,MSFT,5\n2025-07-01,AAPL,6\n"
    found = read(tmp_path, text)
    assert found.values is None
    assert found.decisions is not None
    assert len(found.decisions) == 3


# ---- units and cash


def test_units_in_cells_are_read(tmp_path: Path) -> None:
    text = (
        "Date,Pair,Side,Price,Executed,Fee\n"
        '2025-06-09,BTCUSDT,BUY,"$105,000.50",0.05BTC,0.00005BTC\n'
        '2025-06-24,BTCUSDT,SELL,"$106,000.00",0.05 BTC,5.3USDT\n'
    )
    found = read(tmp_path, text)
    assert trades_of(found) == [
        (20250609, "BTCUSDT", "buy", 0.05, 105_000.50),
        (20250624, "BTCUSDT", "sell", 0.05, 106_000.0),
    ]
    assert found.trades is not None
    assert "fee" not in found.trades  # one fee is in coins, which have no price here
    assert any("Fees are in BTC, USDT" in note for note in found.notes)


def test_a_size_in_money_is_refused(tmp_path: Path) -> None:
    text = "date,pair,side,price,qty\n2025-06-09,BTCUSDT,BUY,105000,500USDT\n"
    with pytest.raises(DataError, match="expected a number of units, was money"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("balances", "start"),
    [((79_561.0, 99_820.0), 100_000.0), ((100_000.0, 79_561.0), 100_000.0), ((5.0, 7.0), None)],
)
def test_the_cash_beside_trades_gives_the_initial_cash(
    tmp_path: Path, balances: tuple[float, float], start: float | None
) -> None:
    first, second = balances
    text = (
        "date,symbol,side,shares,price,Cash Balance\n"
        f"2025-06-09,AAPL,buy,100,204.39,{first}\n2025-06-24,AAPL,sell,100,202.59,{second}\n"
    )
    found = read(tmp_path, text)
    assert found.cash == start
    pd.testing.assert_frame_equal(
        found.trades, read(tmp_path, text.replace("Cash Balance", "other")).trades
    )


# ---- advice


def refusal(folder: Path, text: str, options: ReadOptions | None = None) -> str:
    with pytest.raises(DataError) as caught:
        read(folder, text, options)
    return str(caught.value)


TWO_ASSETS = "date,paper,side,shares,price\n2025-06-09,AAPL,buy,1,204\n2025-06-09,MSFT,buy,1,470\n"


def test_a_column_of_codes_is_named_instead_of_one_code_for_all(tmp_path: Path) -> None:
    assert "--map code=paper" in refusal(tmp_path, TWO_ASSETS)
    words = refusal(tmp_path, TWO_ASSETS, ReadOptions(code="AAPL"))
    assert "--code AAPL: column 'paper' has 2 codes; read it: --map code=paper" in words

    found = read(tmp_path, TWO_ASSETS, ReadOptions(roles={"code": "paper"}))
    assert [row[1] for row in trades_of(found)] == ["AAPL", "MSFT"]


def test_a_column_of_days_is_named_or_said_to_be_missing(tmp_path: Path) -> None:
    text = "when,paper,weight\n2025-06-09,AAPL,1\n"
    assert "--map date=when" in refusal(tmp_path, text)
    assert "no column contains days" in refusal(tmp_path, "AAPL,MSFT\n10,5\n0,3\n")
    months = "Year," + ",".join(["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG"])
    text = f"{months}\n2022,1,2,3,4,5,6,7,8\n2023,1,2,3,4,5,6,7,8\n"
    assert "a table of years and months ('Year', 'JAN' …)" in refusal(tmp_path, text)


def test_gains_in_money_need_the_cash_and_become_an_account(tmp_path: Path) -> None:
    text = "date,pnl\n2025-06-02,-400\n2025-06-03,0\n2025-06-04,600\n"
    assert "--cash N" in refusal(tmp_path, text)
    found = read(tmp_path, text, ReadOptions(cash=1000))
    assert found.values is not None
    assert found.values.round(12).to_dict() == {20250602: 0.6, 20250603: 0.6, 20250604: 1.2}


def test_a_loss_on_the_first_day_is_a_return_and_no_level(tmp_path: Path) -> None:
    returns = [
        -0.1,
        -0.02,
        0.003,
        -0.001,
        0.002,
        0.001,
        -0.003,
        0.002,
        -0.002,
        0.001,
        0.003,
        -0.001,
    ]
    rows = [f"2025-06-{2 + number:02},{value}" for number, value in enumerate(returns)]
    found = read(tmp_path, "date,returns\n" + "\n".join(rows) + "\n")
    assert found.values is not None
    assert found.values.iloc[0] == pytest.approx(0.9)


# ---- kinds found in files of strangers


def test_values_in_two_currencies_are_asked_about(tmp_path: Path) -> None:
    text = "date,portfolio_usd,portfolio_eur\n2025-06-02,100,90\n2025-06-03,101,92\n"
    words = refusal(tmp_path, text, ReadOptions(is_nav=True))
    assert "columns 'portfolio_usd' and 'portfolio_eur' all mean nav" in words
    found = read(tmp_path, text, ReadOptions(roles={"nav": "portfolio_eur"}))
    assert found.values is not None
    assert found.values.tolist() == [90.0, 92.0]


def test_a_first_return_counts_although_the_values_begin_after_it(tmp_path: Path) -> None:
    text = "date,net_return,equity\n2025-01-31,0.1,1.1\n2025-02-28,-0.5,0.55\n2025-03-31,1,1.1\n"
    assert read(tmp_path, text).cash == pytest.approx(1.0)
    other = "date,net_return,equity\n2025-01-31,0.1,1.1\n2025-02-28,0.5,0.55\n2025-03-31,1,1.1\n"
    assert read(tmp_path, other).cash is None


CHANGES = (
    "date,code,action,weight\n2025-06-02,AAPL,BUY,0.5\n2025-06-02,MSFT,BUY,0.5\n"
    "2025-06-10,AAPL,SELL,0\n2025-06-10,MSFT,REBALANCE,0.4\n"
)


def test_targets_of_zero_beside_sells_may_be_changes_only(tmp_path: Path) -> None:
    words = refusal(tmp_path, CHANGES)
    assert "give --keep-others" in words
    assert "--map side=-" in words
    for options in (ReadOptions(keeps_others=True), ReadOptions(roles={"side": "-"})):
        found = read(tmp_path, CHANGES, options)
        assert found.decisions is not None
        assert found.decisions["weight"].tolist() == [0.5, 0.5, 0.0, 0.4]


def test_deposits_and_flags_between_trades_are_left_out(tmp_path: Path) -> None:
    text = (
        "date,ticker,side,qty,price_usd,notional_usd\n"
        "2025-06-02,CASH,ADD_EUR,400000,1.05,421767\n"
        "2025-06-03,RISK,FLAG,0,0,0\n"
        "2025-06-09,AAPL,BUY,100,204.39,20439\n"
        "2025-06-24,AAPL,SELL,100,202.59,20259\n"
    )
    assert trades_of(read(tmp_path, text)) == ROUND_TRIP


def test_contributions_under_any_name_are_no_returns(tmp_path: Path) -> None:
    text = (
        "date,portfolio_value,strategy_contribution\n"
        "2026-01-02,5000,0\n2026-01-05,5010,0\n2026-02-02,5250,250\n2026-02-03,5250,0\n"
    )
    words = refusal(tmp_path, text, ReadOptions(is_nav=True))
    assert "250 on 20260202 are deposits or withdrawals, not returns" in words
    assert "--flows strategy_contribution" in words
    found = read(tmp_path, text, ReadOptions(is_nav=True, flows="strategy_contribution"))
    assert found.values is not None
    assert found.values.tolist() == pytest.approx([5000, 5010, 5000, 5000])


def test_the_last_price_of_an_open_position_is_never_its_entry(tmp_path: Path) -> None:
    text = "symbol,entry_date,entry_price,shares,last_price\nAAPL,2025-06-09,204.39,100,230\n"
    named = {"date": "entry_date"}
    words = refusal(tmp_path, text, ReadOptions(roles=named))
    assert "choose --map price='entry_price'" in words
    found = read(tmp_path, text, ReadOptions(roles={**named, "price": "entry_price"}))
    assert trades_of(found) == ROUND_TRIP[:1]


def test_advice_on_days_of_trades_names_entry_and_exit(tmp_path: Path) -> None:
    text = "Begun,Finished,Stock,Trade Price,Exit Price\n2025-06-09,2025-06-24,AAPL,204.39,202.59\n"
    assert "--map entry_date=Begun,exit_date=Finished" in refusal(tmp_path, text)


def test_sizes_are_never_advised_as_account_values(tmp_path: Path) -> None:
    text = "date,side,price,pieces\n2025-06-09,buy,204.39,100\n2025-06-24,sell,202.59,100\n"
    words = refusal(tmp_path, text)
    assert "--map shares=pieces" in words
    assert "nav=" not in words.partition("its columns")[2]


def test_an_exchange_is_never_advised_as_a_code(tmp_path: Path) -> None:
    text = "date,Exchange,paper,side,shares,price\n2025-06-09,NSE,AAPL,buy,1,204\n"
    assert "--map code=paper" in refusal(tmp_path, text)
