"""Columns that change what a row means: read, or the file is refused by their name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.errors import DataError
from ktdeval_judge.readers import ReadOptions, read_declared


def read(folder: Path, text: str):
    path = folder / "file.csv"
    path.write_text(text)
    return read_declared(path, ReadOptions())


TRADE = "date,symbol,side,shares,price,{}\n2025-06-09,AAPL,buy,100,204.39,{}\n"
NAV = "date,nav,{}\n2025-06-02,100000,{}\n2025-06-03,148000,{}\n2025-06-04,148500,{}\n"


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        (
            "exit_price",
            "202.59",
            "column exit_price: a row is a whole trade, but the day of the exit is missing",
        ),
        ("Exit Price", "202.59", "column Exit Price"),
        ("exit_date", "2025-06-24", "column exit_date"),
        ("PnL", "-180.00", "column PnL: '-180.00' is not read"),
        ("realized_pnl", "12", "column realized_pnl"),
        ("multiplier", "100", "column multiplier: '100' is not read"),
        ("deposit", "5000", "column deposit"),
        ("status", "open", "column status: 'open' is neither filled nor canceled"),
        ("status", "canceled", "has no filled order"),
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

    weights = f"date,symbol,{column},weight\n2025-06-16,AAPL,sell,0.5\n"
    with pytest.raises(DataError, match=rf"column {column}: is a sell, but the side of a target"):
        read(tmp_path, weights)


@pytest.mark.parametrize(
    ("column", "first", "second"), [("is_buy", "True", "False"), ("bs", "1", "-1")]
)
def test_a_side_is_known_by_its_words(column: str, first: str, second: str, tmp_path: Path) -> None:
    text = f"date,symbol,{column},qty,price\n2025-06-09,AAPL,{first},100,204.39\n"
    trades = read(tmp_path, text + f"2025-06-24,AAPL,{second},90,202.59\n").trades
    assert trades is not None
    assert trades["side"].tolist() == ["buy", "sell"]


@pytest.mark.parametrize("words", [("open", "close"), ("a", "b"), ("", "")])
def test_sizes_without_a_side_on_several_days_are_refused(
    words: tuple[str, str], tmp_path: Path
) -> None:
    first, second = words
    text = f"date,symbol,event,qty,price\n2025-06-09,AAPL,{first},100,204.39\n"
    with pytest.raises(DataError, match="purchases or holdings"):
        read(tmp_path, text + f"2025-06-24,AAPL,{second},90,202.59\n")


def test_rows_that_are_all_long_may_be_ends_of_positions(tmp_path: Path) -> None:
    text = "date,symbol,side,qty,price\n2025-06-09,AAPL,long,100,204.39\n"
    assert read(tmp_path, text).trades is not None
    with pytest.raises(DataError, match="long and short describe positions"):
        read(tmp_path, text + "2025-06-24,AAPL,Long,100,202.59\n")


def test_what_was_ordered_beside_what_was_filled_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no filled order"):
        read(tmp_path, TRADE.format("filled_qty", "0"))


def test_bars_are_no_holdings(tmp_path: Path) -> None:
    text = "date,symbol,open,high,low,close,volume\n2025-06-09,AAPL,1,2,1,2,5000\n"
    with pytest.raises(DataError, match="contains bars of a market"):
        read(tmp_path, text)


def test_positions_within_one_may_be_weights(tmp_path: Path) -> None:
    text = "date,symbol,{}\n2025-06-09,AAPL,1\n2025-06-10,AAPL,-0.5\n"
    with pytest.raises(DataError, match="column position: no number is beyond 1"):
        read(tmp_path, text.format("position"))
    assert read(tmp_path, text.format("target_shares")).decisions is not None


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


def test_two_prices_that_differ_are_refused(tmp_path: Path) -> None:
    assert read(tmp_path, TRADE.format("PricePerShare", "204.39")).trades is not None
    with pytest.raises(DataError, match="all mean price; keep one"):
        read(tmp_path, TRADE.format("PricePerShare", "20439"))


def test_amounts_of_two_currencies_are_not_one_account(tmp_path: Path) -> None:
    text = TRADE.format("currency", "USD") + "2025-06-12,0700,buy,50,475.02,HKD\n"
    with pytest.raises(DataError, match="column currency: USD, HKD: write one file per currency"):
        read(tmp_path, text)


@pytest.mark.parametrize("form", ["weight", "position"])
def test_a_side_beside_a_target_is_refused_where_it_would_change_it(
    form: str, tmp_path: Path
) -> None:
    text = "date,symbol,{},direction\n2025-06-09,AAPL,0.5,{}\n2025-06-10,AAPL,5,buy\n"
    if form == "weight":
        text = text.replace("AAPL,5", "AAPL,0.5")
    assert read(tmp_path, text.format(form, "long")).decisions is not None
    with pytest.raises(
        DataError, match="column direction: is a sell, but the side of a target is not used"
    ):
        read(tmp_path, text.format(form, "-1"))


@pytest.mark.parametrize("value", ["nav", "account_value"])
@pytest.mark.parametrize("column", ["deposits", "cash_flow", "Net Flow", "withdrawal"])
def test_a_nav_beside_its_cash_flows_is_refused(column: str, value: str, tmp_path: Path) -> None:
    """Also where a program's reader would pass over the column."""
    text = NAV.replace("nav", value)
    with pytest.raises(
        DataError, match=rf"column {column}: '48000' is not read; it is not a return"
    ):
        read(tmp_path, text.format(column, 0, 48000, 0))
    assert read(tmp_path, text.format(column, 0, 0, "")).values is not None


def test_flows_that_are_no_column_and_no_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "nav.csv"
    path.write_text(NAV.format("deposit", 0, 48000, 0))
    values = read_declared(path, ReadOptions(flows="deposit")).values
    assert values is not None
    assert values.iloc[1] == pytest.approx(100_000)

    words = "--flows deposits: no such column; columns: date, nav, deposit"
    with pytest.raises(DataError, match=words):
        read_declared(path, ReadOptions(flows="deposits"))


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

    with pytest.raises(DataError, match="line 3: column pnl: 300 but the value changed by 48,000"):
        read(tmp_path, text)


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
