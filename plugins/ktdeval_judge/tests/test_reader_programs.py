"""Files in the forms of programs, each with own numbers: AI-Trader, freqtrade, brokers, rqalpha, LEAN,
TradingView in Chinese, and series without a header.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import ReadOptions, read_declared

SESSIONS = (20240102, 20240103, 20240104, 20240105)


def read(path: Path, text: str, **options: object) -> Declared:
    path.write_text(text, encoding="utf-8")
    return read_declared(path, ReadOptions(**options))  # type: ignore[arg-type]


def trades_of(declared: Declared) -> list[tuple[object, ...]]:
    assert declared.trades is not None
    columns = ["day", "code", "side", "shares", "price"]
    return list(declared.trades[columns].itertuples(index=False, name=None))


def snapshot(day: str, number: int, **positions: float) -> str:
    return json.dumps({"date": day, "id": number, "positions": positions})


def test_positions_of_ai_trader_are_decided_on_the_session_before(tmp_path: Path) -> None:
    rows = [
        snapshot("2024-01-02", 0, AAA=0, BBB=0, CASH=1000.0),
        snapshot("2024-01-03", 1, AAA=4, BBB=0, CASH=600.0),
        snapshot("2024-01-03", 2, AAA=4, BBB=2, CASH=500.0),
        snapshot("2024-01-05", 3, AAA=0, BBB=2, CASH=900.0),
    ]
    declared = read(tmp_path / "position.jsonl", "\n".join(rows) + "\n", sessions=SESSIONS)

    assert declared.program == "ai-trader"
    assert declared.cash == 1000.0
    assert declared.decisions is not None
    assert declared.decisions.to_numpy().tolist() == [
        [20240102, "AAA", 4.0],
        [20240102, "BBB", 2.0],
        [20240104, "AAA", 0.0],
        [20240104, "BBB", 2.0],
    ]


def freqtrade_trade(pair: str, *, is_short: bool) -> dict[str, object]:
    profit = -5.0 if is_short else 5.0
    return {
        "pair": pair,
        "amount": 2.0,
        "open_date": "2024-01-02 07:15:00+00:00",
        "close_date": "2024-01-03 07:20:00+00:00",
        "open_rate": 10.0,
        "close_rate": 12.5,
        "fee_open": 0.001,
        "fee_close": 0.002,
        "profit_abs": profit,
        "is_short": is_short,
        "leverage": 1.0,
    }


def test_trades_of_freqtrade_have_sides_and_fees(tmp_path: Path) -> None:
    trades = [
        freqtrade_trade("BTC/USDT", is_short=False),
        freqtrade_trade("ETH/USDT", is_short=True),
    ]
    document = {"strategy": {"Mine": {"trades": trades, "total_trades": 2}}}
    declared = read(tmp_path / "backtest-result.json", json.dumps(document))

    assert declared.program == "freqtrade"
    assert trades_of(declared) == [
        (20240102, "ETH/USDT", "sell", 2.0, 10.0),
        (20240102, "BTC/USDT", "buy", 2.0, 10.0),
        (20240103, "BTC/USDT", "sell", 2.0, 12.5),
        (20240103, "ETH/USDT", "buy", 2.0, 12.5),
    ]
    assert declared.trades is not None
    assert declared.trades["fee"].tolist() == pytest.approx([0.02, 0.02, 0.05, 0.05])


def test_two_strategies_of_freqtrade_are_not_one_account(tmp_path: Path) -> None:
    strategies = {}
    for name, pair in (("First", "BTC/USDT"), ("Second", "ETH/USDT")):
        trades = [freqtrade_trade(pair, is_short=False)]
        strategies[name] = {"trades": trades, "total_trades": 1, "stake_currency": "USDT"}
    path = tmp_path / "backtest-result.json"
    text = json.dumps({"strategy": strategies})

    with pytest.raises(DataError, match=r"strategy\.First\.trades.*both contain trades.*--table"):
        read(path, text)

    declared = read(path, text, table="strategy.Second.trades")
    assert {code for _, code, *_ in trades_of(declared)} == {"ETH/USDT"}


def test_business_of_a_chinese_broker_tells_trades(tmp_path: Path) -> None:
    text = (
        "交易日期,证券代码,证券名称,买卖标志,成交价格,成交数量,成交金额,业务名称,佣金\n"
        "20240102,600519,贵州茅台,买入,1700.5,100,170050,证券买入,5\n"
        "20240103,787001,某某申购,买入,0,4,0,申购配号,0\n"
        "20240104,600519,贵州茅台,卖出,1710,-100,171000,证券卖出,5\n"
    )
    declared = read(tmp_path / "trades.csv", text)

    assert trades_of(declared) == [
        (20240102, "600519", "buy", 100.0, 1700.5),
        (20240104, "600519", "sell", 100.0, 1710.0),
    ]
    assert any("Left out: 1 rows of other business" in note for note in declared.notes)


def test_transaction_history_of_interactive_brokers(tmp_path: Path) -> None:
    text = (
        "Statement,Header,Field Name,Field Value\n"
        "Statement,Data,Title,Transaction History\n"
        "Transaction History,Header,Date,Account,Description,Transaction Type,Symbol,Quantity,Price,"
        "Gross Amount,Commission,Net Amount\n"
        "Transaction History,Data,2024-01-03,U1,Dividend,Dividend,FOO,-,-,20.0,-,20.0\n"
        "Transaction History,Data,2024-01-02,U1,FOO,Buy,FOO,10,30.0,-300.0,-1.5,-301.5\n"
    )
    declared = read(tmp_path / "history.csv", text)

    assert trades_of(declared) == [(20240102, "FOO", "buy", 10.0, 30.0)]
    assert declared.trades is not None
    assert declared.trades["fee"].tolist() == [1.5]


def test_a_flex_statement_without_trades_says_so(tmp_path: Path) -> None:
    text = (
        '<FlexQueryResponse queryName="Q" type="AF"><FlexStatements count="1">'
        '<FlexStatement accountId="U1" fromDate="20240101" toDate="20240131" period="M">'
        '<StmtFunds><StatementOfFundsLine accountId="U1" currency="EUR" date="20240105" tradePrice="0"/>'
        "</StmtFunds></FlexStatement></FlexStatements></FlexQueryResponse>"
    )
    with pytest.raises(DataError, match="add the section Trades"):
        read(tmp_path / "statement.xml", text)


def test_rows_without_shares_and_price_are_left_out(tmp_path: Path) -> None:
    text = (
        "Date,Action,Symbol,Quantity,Price,Amount\n"
        "2024-01-02,Buy,FOO,10,30.0,-300.0\n"
        "2024-01-03,Credit Interest,,,,1.2\n"
    )
    declared = read(tmp_path / "transactions.csv", text)

    assert len(trades_of(declared)) == 1
    assert any("1 row without shares and price: Credit Interest" in note for note in declared.notes)


def test_the_portfolio_of_rqalpha_is_its_total_value(tmp_path: Path) -> None:
    text = (
        ",cash,total_value,market_value,unit_net_value,units,static_unit_net_value\n"
        "2024-01-02 00:00:00,900.0,1000.0,100.0,1.0,1000.0,1.0\n"
        "2024-01-03 00:00:00,900.0,1010.0,110.0,1.01,1000.0,1.01\n"
    )
    declared = read(tmp_path / "portfolio.csv", text)

    assert declared.values is not None
    assert declared.values.to_dict() == {20240102: 1000.0, 20240103: 1010.0}


def test_equity_stands_in_any_chart_of_a_lean_result(tmp_path: Path) -> None:
    nights = [1704171600, 1704258000, 1704344400]  # midnight in New York from 2024-01-02 on
    equity = [[night, 100.0, 100.0, 100.0, 100.0 + step] for step, night in enumerate(nights)]
    series = {
        "Equity": {"name": "Equity", "values": equity},
        "Return": {"name": "Return", "values": []},
    }
    charts = {
        "Drawdown": {"name": "Drawdown", "series": {}},
        "Strategy Equity": {"name": "Strategy Equity", "series": series},
    }
    event = {
        "symbolValue": "FOO", "time": 1704210000.0, "fillPrice": 10.0, "fillQuantity": 1.0,
        "status": "filled",
    }  # fmt: skip
    (tmp_path / "1.json").write_text(json.dumps({"charts": charts, "orders": {}}))
    (tmp_path / "1-order-events.json").write_text(
        json.dumps([event, event | {"time": 1704296400.0}])
    )
    declared = read_declared(tmp_path, ReadOptions(zone="America/New_York"))

    assert declared.values is not None
    assert declared.values.to_dict() == {20240102: 101.0, 20240103: 102.0}


def test_tradingview_in_chinese_with_days_of_excel(tmp_path: Path) -> None:
    text = (
        "交易 #,类型,日期/时间,信号,价格 USDT,仓位大小（数量）,净损益 USDT\n"
        "1,多头出场,45295.25,止盈,12.5,2,5\n"
        "1,多头进场,45293.5,做多,10,2,5\n"
    )
    path = tmp_path / "trades.csv"
    with pytest.raises(DataError, match="--date-format excel"):
        read(path, text, code="AAA")

    declared = read(path, text, code="AAA", date_format="excel")
    assert trades_of(declared) == [
        (20240102, "AAA", "buy", 2.0, 10.0),
        (20240104, "AAA", "sell", 2.0, 12.5),
    ]


def test_a_series_without_a_header_is_of_returns(tmp_path: Path) -> None:
    declared = read(tmp_path / "returns.csv", "2024-01-02,0.01\n2024-01-03,-0.02\n")

    assert declared.values is not None
    assert declared.values.tolist() == pytest.approx([1.01, 1.01 * 0.98])


def test_account_values_beside_each_other_are_no_weights(tmp_path: Path) -> None:
    text = "date,first,second\n2024-01-02,100,100\n2024-01-03,101.5,99\n"
    path = tmp_path / "curves.csv"
    with pytest.raises(DataError, match=r"look like account values.*--map nav='first'"):
        read(path, text)

    declared = read(path, text, roles={"nav": "first"})
    assert declared.values is not None
    assert declared.values.tolist() == [100.0, 101.5]


def test_close_price_is_the_exit_beside_open_price(tmp_path: Path) -> None:
    text = (
        "ISIN;OPEN_DATE;CLOSE_DATE;OPEN_PRICE;CLOSE_PRICE;SHARES;FEES\n"
        "AT0000000001;2024-01-02;2024-01-04;100.0;110.0;40;1.0\n"
    )
    declared = read(tmp_path / "trades.csv", text)

    assert [row[2:] for row in trades_of(declared)] == [("buy", 40.0, 100.0), ("sell", 40.0, 110.0)]


def test_long_and_short_of_events_are_no_purchases_and_sales(tmp_path: Path) -> None:
    text = (
        "timestamp,symbol,side,price,shares,event\n"
        "2024-01-02 15:00:00,FOO,LONG,10.0,5,ENTRY\n"
        "2024-01-03 15:00:00,FOO,LONG,11.0,5,CLOSE_EOD\n"
        "2024-01-03 15:00:00,BAR,SHORT,20.0,5,ENTRY\n"
    )
    with pytest.raises(DataError, match="long and short describe positions"):
        read(tmp_path / "trades.csv", text)
