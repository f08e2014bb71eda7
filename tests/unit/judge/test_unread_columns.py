"""Columns that change what a row means: read, or the file is refused by their name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.errors import DataError
from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_judge.readers.unread_columns import unread_names


def read(folder: Path, text: str):
    path = folder / "file.csv"
    path.write_text(text)
    return read_declared(path, ReadOptions())


TRADE = "date,symbol,side,shares,price,{}\n2025-06-09,AAPL,buy,100,204.39,{}\n"
NAV = "date,nav,{}\n2025-06-02,100000,{}\n2025-06-03,148000,{}\n2025-06-04,148500,{}\n"


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("exit_price", "202.59", "column exit_price: '202.59' is not read; a row is a whole trade"),
        ("Exit Price", "202.59", "column Exit Price"),
        ("exit_date", "2025-06-24", "column exit_date"),
        ("PnL", "-180.00", "column PnL: '-180.00' is not read"),
        ("realized_pnl", "12", "column realized_pnl"),
        ("position_effect", "CLOSE", "column position_effect: 'CLOSE' is not read; write whether"),
        ("direction", "short", "are all side; keep one"),
        ("multiplier", "100", "column multiplier: '100' is not read"),
        ("deposit", "5000", "column deposit"),
        ("status", "open", "column status: 'open' is neither filled nor canceled"),
        ("status", "canceled", "has no order that was filled"),
    ],
)
def test_a_trade_whose_column_says_something_else_is_refused(
    column: str, cell: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as refused:
        read(tmp_path, TRADE.format(column, cell))

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("exit_price", ""), ("pnl", "0.00"), ("multiplier", "1"), ("status", "FILLED"),
        ("position_effect", ""), ("note", "momentum"), ("currency", "USD"),
    ],
)  # fmt: skip
def test_a_column_that_says_nothing_changes_nothing(column: str, cell: str, tmp_path: Path) -> None:
    trades = read(tmp_path, TRADE.format(column, cell)).trades
    assert trades is not None
    assert trades[["code", "side", "shares"]].to_numpy().tolist() == [["AAPL", "buy", 100.0]]


def test_orders_that_were_canceled_are_left_out(tmp_path: Path) -> None:
    text = TRADE.format("status", "filled") + "2025-06-12,MSFT,buy,50,475.02,cancelled\n"
    declared = read(tmp_path, text + "2025-06-24,AAPL,sell,100,202.59,executed\n")
    assert declared.trades is not None
    assert declared.trades["code"].tolist() == ["AAPL", "AAPL"]
    assert declared.notes == ("Left out: 1 orders that were canceled or rejected.",)


def test_amounts_of_two_currencies_are_not_one_account(tmp_path: Path) -> None:
    text = TRADE.format("currency", "USD") + "2025-06-12,0700,buy,50,475.02,HKD\n"
    with pytest.raises(DataError, match=r"column currency: 'USD' is one of several; write one"):
        read(tmp_path, text)


@pytest.mark.parametrize("form", ["weight", "position"])
def test_a_side_beside_a_target_is_refused_where_it_would_change_it(
    form: str, tmp_path: Path
) -> None:
    text = "date,symbol,{},direction\n2025-06-09,AAPL,0.5,{}\n"
    assert read(tmp_path, text.format(form, "long")).decisions is not None
    with pytest.raises(
        DataError, match="column side: a sell, and the side of a target is not read"
    ):
        read(tmp_path, text.format(form, "-1"))


@pytest.mark.parametrize("value", ["nav", "account_value"])
@pytest.mark.parametrize("column", ["deposits", "cash_flow", "Net Flow", "withdrawal"])
def test_a_nav_beside_its_cash_flows_is_refused(column: str, value: str, tmp_path: Path) -> None:
    """Also where a program's reader would pass over the column."""
    text = NAV.replace("nav", value)
    with pytest.raises(DataError, match=rf"column {column}: '48000' is not read; it is no return"):
        read(tmp_path, text.format(column, 0, 48000, 0))
    assert read(tmp_path, text.format(column, 0, 0, "")).values is not None


@pytest.mark.parametrize(
    ("profits", "is_read"),
    [
        ((0, 48000, 500), True),  # of the day
        ((0, 48000, 48500), True),  # since the first
        ((0, 300, 500), False),  # 47,700 came from elsewhere
        ((0, 300, 800), False),
    ],
)
def test_a_profit_beside_a_nav_must_be_its_change(
    profits: tuple[int, ...], is_read: bool, tmp_path: Path
) -> None:
    text = NAV.format("pnl", *profits)
    if is_read:
        assert read(tmp_path, text).values is not None
        return

    with pytest.raises(DataError, match="line 3: column pnl: 300 and the value changed by 48,000"):
        read(tmp_path, text)


def test_names_are_known_with_blanks_marks_and_without() -> None:
    names = unread_names()
    assert {names[each] for each in ("exit price", "exit_price", "exitprice")} == {
        "exit: exit_price"
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("j01_round_trips_long_only.csv", "column exit_price"),
        ("j04_tradingview_list_of_trades.csv", "no column of days"),
        ("j06_backtesting_py_trades.csv", "no column of days"),
    ],
)
def test_closed_trades_of_other_programs_are_refused(
    name: str, words: str, shared_data: Path
) -> None:
    with pytest.raises(DataError, match=words):
        read_declared(shared_data / "reported" / name, ReadOptions())


def test_a_canceled_order_of_a_reported_file_is_no_trade(shared_data: Path) -> None:
    path = shared_data / "reported" / "j26_orders_canceled_with_price.csv"
    trades = read_declared(path, ReadOptions()).trades
    assert trades is not None
    assert trades["code"].tolist() == ["AAPL", "AAPL"]
