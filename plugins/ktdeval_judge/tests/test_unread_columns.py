"""Columns that change what a row means: read, or the file is refused by their name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.errors import DataError
from ktdeval.testing import errors_of
from ktdeval_judge.readers import ReadOptions, read_declared


def read(folder: Path, text: str):
    path = folder / "file.csv"
    path.write_text(text)
    return read_declared(path, ReadOptions())


TRADE = "date,symbol,side,shares,price,{}\n2025-06-09,AAPL,buy,100,204.39,{}\n"
NAV = "date,nav,{}\n2025-06-02,100000,{}\n2025-06-03,148000,{}\n2025-06-04,148500,{}\n"


def refused(folder: Path, *texts: str) -> str:
    return errors_of(partial(read, folder), *texts, folder=folder)


def test_a_trade_whose_column_says_something_else_is_refused(tmp_path: Path) -> None:
    cells = [
        ("exit_price", "202.59"),
        ("Exit Price", "202.59"),
        ("exit_date", "2025-06-24"),
        ("PnL", "-180.00"),
        ("realized_pnl", "12"),
        ("multiplier", "100"),
        ("deposit", "5000"),
        ("status", "open"),
        ("status", "canceled"),
        ("filled_qty", "0"),
        ("PricePerShare", "20439"),
    ]

    assert refused(tmp_path, *(TRADE.format(*cell) for cell in cells)) == snapshot("""\
DataError: FOLDER/file.csv: column exit_price: a row is a whole trade, but the day of the exit is missing: add a column exit_date, or name it: --map exit_date=COLUMN; its columns: date, symbol, side, shares, price, exit_price
DataError: FOLDER/file.csv: column Exit Price: a row is a whole trade, but the day of the exit is missing: add a column exit_date, or name it: --map exit_date=COLUMN; its columns: date, symbol, side, shares, price, Exit Price
DataError: FOLDER/file.csv: column exit_date: a row is a whole trade, but the price of the exit is missing: add a column exit_price, or name it: --map exit_price=COLUMN; its columns: date, symbol, side, shares, price, exit_date
DataError: FOLDER/file.csv: line 2: column PnL: '-180.00' is not read; if each row is a whole trade, give its exit, too (exit_date, exit_price); if each row is one fill, leave the profits out: --map profit=-
DataError: FOLDER/file.csv: line 2: column realized_pnl: '12' is not read; if each row is a whole trade, give its exit, too (exit_date, exit_price); if each row is one fill, leave the profits out: --map profit=-
DataError: FOLDER/file.csv: line 2: column multiplier: '100' is not read; write shares as held, and drop the column
DataError: FOLDER/file.csv: line 2: column deposit: '5000' is not read; it is not a return: give --flows 'deposit', remove it from the values, or give the returns
DataError: FOLDER/file.csv: line 2: column status: 'open' is neither filled nor canceled; keep only rows of fills
DataError: FOLDER/file.csv: has no filled order; write one row per fill
DataError: FOLDER/file.csv: has no filled order; write one row per fill
DataError: FOLDER/file.csv: columns 'price' and 'PricePerShare' all mean price; keep one, or choose: --map price='price'
""")


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("exit_price", ""), ("pnl", "0.00"), ("multiplier", "1"), ("status", "FILLED"),
        ("position_effect", ""), ("note", "momentum"), ("currency", "USD"),
        ("PricePerShare", "204.39"),
    ],
)  # fmt: skip
def test_a_column_that_says_nothing_changes_nothing(column: str, cell: str, tmp_path: Path) -> None:
    trades = read(tmp_path, TRADE.format(column, cell)).trades
    assert trades is not None
    assert trades[["code", "side", "shares"]].to_numpy().tolist() == [["AAPL", "buy", 100.0]]


@pytest.mark.parametrize("price", ["475.02", ""])
def test_orders_that_were_canceled_are_left_out(price: str, tmp_path: Path) -> None:
    text = TRADE.format("status", "filled") + f"2025-06-12,MSFT,buy,50,{price},cancelled\n"
    declared = read(tmp_path, text + "2025-06-24,AAPL,sell,100,202.59,executed\n")
    assert declared.trades is not None
    assert declared.trades["code"].tolist() == ["AAPL", "AAPL"]
    assert declared.notes == ("Left out, as canceled or rejected: 1 order.",)


@pytest.mark.parametrize("column", ["trade_type", "Transaction", "买卖方向"])
def test_a_side_under_another_name_is_a_side(column: str, tmp_path: Path) -> None:
    rows = "2025-06-16,AAPL,Buy,100,200\n2025-06-17,AAPL,SELL,100,200\n"
    trades = read(tmp_path, f"date,symbol,{column},quantity,price\n{rows}").trades
    assert trades is not None
    assert trades["side"].tolist() == ["buy", "sell"]

    orders = "2025-06-16,AAPL,Buy,100\n2025-06-17,AAPL,SELL,100\n"
    decisions = read(tmp_path, f"date,symbol,{column},quantity\n{orders}").decisions
    assert decisions is not None
    assert decisions["side"].tolist() == ["buy", "sell"]


@pytest.mark.parametrize(
    ("column", "first", "second"), [("is_buy", "True", "False"), ("bs", "1", "-1")]
)
def test_a_side_is_known_by_its_words(column: str, first: str, second: str, tmp_path: Path) -> None:
    text = f"date,symbol,{column},qty,price\n2025-06-09,AAPL,{first},100,204.39\n"
    trades = read(tmp_path, text + f"2025-06-24,AAPL,{second},90,202.59\n").trades
    assert trades is not None
    assert trades["side"].tolist() == ["buy", "sell"]


def test_sizes_that_may_be_something_else_are_refused(tmp_path: Path) -> None:
    events = (
        "date,symbol,event,qty,price\n2025-06-09,AAPL,{},100,204.39\n2025-06-24,AAPL,{},90,202.59\n"
    )
    long = "date,symbol,side,qty,price\n2025-06-09,AAPL,long,100,204.39\n"
    positions = "date,symbol,{}\n2025-06-09,AAPL,1\n2025-06-10,AAPL,-0.5\n"
    texts = [
        events.format("open", "close"),
        events.format("a", "b"),
        events.format("", ""),
        long + "2025-06-24,AAPL,Long,100,202.59\n",
        positions.format("position"),
        "date,symbol,open,high,low,close,volume\n2025-06-09,AAPL,1,2,1,2,5000\n",
        TRADE.format("currency", "USD") + "2025-06-12,0700,buy,50,475.02,HKD\n",
    ]

    assert refused(tmp_path, *texts) == snapshot("""\
DataError: FOLDER/file.csv: has shares with a price, but neither a side nor a number below 0, so these may be purchases or holdings. Add a column side of buy and sell, or declare holdings: --map position='qty'
DataError: FOLDER/file.csv: has shares with a price, but neither a side nor a number below 0, so these may be purchases or holdings. Add a column side of buy and sell, or declare holdings: --map position='qty'
DataError: FOLDER/file.csv: has shares with a price, but neither a side nor a number below 0, so these may be purchases or holdings. Add a column side of buy and sell, or declare holdings: --map position='qty'
DataError: FOLDER/file.csv: column side: long and short describe positions, and some rows may close them; write buy or sell
DataError: FOLDER/file.csv: column position: no number is beyond 1, so these may be weights or signals; name the column weight, or target_shares if it contains shares
DataError: FOLDER/file.csv: columns high and low: contains bars of a market, not decisions; import it with `ktdeval data make`
DataError: FOLDER/file.csv: column currency: USD, HKD: write one file per currency
""")
    assert read(tmp_path, long).trades is not None
    assert read(tmp_path, positions.format("target_shares")).decisions is not None


@pytest.mark.parametrize("column", ["strike", "option_type", "Expiration"])
def test_a_contract_is_no_share(column: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"column {column}: '190' is not read; keep only rows of"):
        read(tmp_path, TRADE.format(column, "190"))


def test_fees_below_zero_in_all_rows_are_what_was_paid(tmp_path: Path) -> None:
    declared = read(tmp_path, TRADE.format("commission", "-1.5"))
    assert declared.trades is not None
    assert declared.trades["fee"].tolist() == [1.5]
    assert "Negative fees are read as fees paid." in declared.notes


@pytest.mark.parametrize(("coin", "is_read"), [("USDT", True), ("BNB", False)])
def test_fees_in_another_coin_than_the_price_are_not_read(
    coin: str, is_read: bool, tmp_path: Path
) -> None:
    header = "Date(UTC),Pair,Side,Price,Executed,Fee,Fee Coin\n"
    declared = read(tmp_path, f"{header}2024-01-02,BTCUSDT,BUY,100,2,0.5,{coin}\n")
    assert declared.trades is not None
    assert ("fee" in declared.trades and declared.trades["fee"].tolist() == [0.5]) is is_read
    assert any("Fees are in BNB" in note for note in declared.notes) is not is_read


def test_a_side_beside_a_target_is_refused_where_it_would_change_it(tmp_path: Path) -> None:
    targets = "date,symbol,{},{}\n2025-06-09,AAPL,0.5,{}\n2025-06-10,AAPL,{},buy\n"
    rows = [
        ("weight", "direction", "-1", "0.5"),
        ("position", "direction", "-1", "5"),
        ("weight", "trade_type", "sell", "0.5"),
        ("weight", "Transaction", "sell", "0.5"),
        ("weight", "买卖方向", "sell", "0.5"),
    ]

    assert refused(tmp_path, *(targets.format(*row) for row in rows)) == snapshot("""\
DataError: FOLDER/file.csv: line 2: column direction: is a sell, but the side of a target is not used; write a short as a negative number
DataError: FOLDER/file.csv: line 2: column direction: is a sell, but the side of a target is not used; write a short as a negative number
DataError: FOLDER/file.csv: line 2: column trade_type: is a sell, but the side of a target is not used; write a short as a negative number
DataError: FOLDER/file.csv: line 2: column Transaction: is a sell, but the side of a target is not used; write a short as a negative number
DataError: FOLDER/file.csv: line 2: column 买卖方向: is a sell, but the side of a target is not used; write a short as a negative number
""")

    for form, column, _, second in rows:
        assert read(tmp_path, targets.format(form, column, "long", second)).decisions is not None


def test_a_nav_beside_its_cash_flows_is_refused(tmp_path: Path) -> None:
    """Also where a program's reader would pass over the column."""
    texts = [
        NAV.replace("nav", value).replace("{}", column, 1)
        for value in ("nav", "account_value")
        for column in ("deposits", "cash_flow", "Net Flow", "withdrawal")
    ]

    assert refused(tmp_path, *(text.format(0, 48000, 0) for text in texts)) == snapshot("""\
DataError: FOLDER/file.csv: line 3: column deposits: '48000' is not read; it is not a return: give --flows 'deposits', remove it from the values, or give the returns
DataError: FOLDER/file.csv: line 3: column cash_flow: '48000' is not read; it is not a return: give --flows 'cash_flow', remove it from the values, or give the returns
DataError: FOLDER/file.csv: line 3: column Net Flow: '48000' is not read; it is not a return: give --flows 'Net Flow', remove it from the values, or give the returns
DataError: FOLDER/file.csv: line 3: column withdrawal: '48000' is not read; it is not a return: give --flows 'withdrawal', remove it from the values, or give the returns
DataError: FOLDER/file.csv: line 3: column deposits: '48000' is not read; it is not a return: give --flows 'deposits', remove it from the values, or give the returns
DataError: FOLDER/file.csv: line 3: column cash_flow: '48000' is not read; it is not a return: give --flows 'cash_flow', remove it from the values, or give the returns
DataError: FOLDER/file.csv: line 3: column Net Flow: '48000' is not read; it is not a return: give --flows 'Net Flow', remove it from the values, or give the returns
DataError: FOLDER/file.csv: line 3: column withdrawal: '48000' is not read; it is not a return: give --flows 'withdrawal', remove it from the values, or give the returns
""")
    assert all(read(tmp_path, text.format(0, 0, "")).values is not None for text in texts)


def test_flows_that_are_no_column_and_no_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "nav.csv"
    path.write_text(NAV.format("deposit", 0, 48000, 0))
    values = read_declared(path, ReadOptions(flows="deposit")).values
    assert values is not None
    assert values.iloc[1] == pytest.approx(100_000)

    words = "--flows deposits: no such column; columns: date, nav, deposit"
    with pytest.raises(DataError, match=words):
        read_declared(path, ReadOptions(flows="deposits"))


@pytest.mark.parametrize("profits", [(0, 48000, 500), (0, 48000, 48500)])
def test_a_profit_beside_a_nav_is_of_the_day_or_since_the_first(
    profits: tuple[int, ...], tmp_path: Path
) -> None:
    assert read(tmp_path, NAV.format("pnl", *profits)).values is not None


def test_a_profit_that_is_not_the_change_of_a_nav_is_refused(tmp_path: Path) -> None:
    """47,700 came from elsewhere."""
    texts = [NAV.format("pnl", 0, 300, 500), NAV.format("pnl", 0, 300, 800)]
    assert refused(tmp_path, *texts) == snapshot("""\
DataError: FOLDER/file.csv: line 3: column pnl: 300 but the value changed by 48,000: a deposit or a withdrawal; it is not a return; remove it from the values
DataError: FOLDER/file.csv: line 3: column pnl: 300 but the value changed by 48,000: a deposit or a withdrawal; it is not a return; remove it from the values
""")


def test_closed_trades_without_a_day_of_exit_are_refused(shared_data: Path) -> None:
    with pytest.raises(DataError, match="column exit_price"):
        read_declared(shared_data / "reported" / "j01_round_trips_long_only.csv", ReadOptions())


@pytest.mark.parametrize(
    ("name", "trades"),
    [("j04_tradingview_list_of_trades.csv", 4), ("j06_backtesting_py_trades.csv", 4)],
)
def test_closed_trades_of_other_programs_are_two_fills_each(
    name: str, trades: int, shared_data: Path
) -> None:
    found = read_declared(shared_data / "reported" / name, ReadOptions(code="AAPL")).trades
    assert found is not None
    assert len(found) == trades
    assert found["side"].tolist() == ["buy", "sell"] * (trades // 2)


def test_a_canceled_order_of_a_reported_file_is_no_trade(shared_data: Path) -> None:
    path = shared_data / "reported" / "j26_orders_canceled_with_price.csv"
    trades = read_declared(path, ReadOptions()).trades
    assert trades is not None
    assert trades["code"].tolist() == ["AAPL", "AAPL"]
