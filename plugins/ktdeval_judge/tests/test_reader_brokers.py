"""Files in the forms of brokers, each with own numbers: what is a trade among their rows, and what a
refusal names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from ktdeval.errors import DataError
from ktdeval_judge.readers import ReadOptions, read_declared

Trade = tuple[int, str, str, float, float]


class Case(NamedTuple):
    """A file and the trades in it."""

    program: str
    file: str
    text: str
    trades: list[Trade]
    note: str


def flex(*rows: str) -> str:
    """Return a Flex query with rows of trades."""
    return (
        '<FlexQueryResponse type="AF"><FlexStatements count="1">'
        '<FlexStatement accountId="U1" fromDate="2024-01-02" toDate="2024-01-05"><Trades>\n'
        + "\n".join(rows)
        + "\n</Trades></FlexStatement></FlexStatements></FlexQueryResponse>\n"
    )


def flex_trade(side: str, quantity: int, price: str, day: str = "2024-01-03") -> str:
    """Return a trade of a Flex query."""
    return (
        f'<Trade symbol="AAA" assetCategory="STK" tradeDate="{day}" buySell="{side}"'
        f' quantity="{quantity}" price="{price}" ibCommission="-1" currency="USD"/>'
    )


FIDELITY = """
Run Date,Account,Action,Symbol,Description,Quantity,Price,Commission,Fees,Amount,Settlement Date
01/25/2024,Mine, YOU SOLD   EX-DIV DATE 01/30/24, AAA,ALPHA INC,-3,12.5,1,0.02,36.48,01/29/2024
01/24/2024,Mine, REINVESTMENT, BBB,BETA ETF,0.5,20,,,-10,
01/23/2024,Mine, DIVIDEND RECEIVED, BBB,BETA ETF,,,,,10,
01/22/2024,Mine, YOU BOUGHT   OPENING TRANSACTION,-AAA240216C15,CALL (AAA),2,1.1,1,,-221,01/23/2024
01/19/2024,Mine, YOU BOUGHT, AAA,ALPHA INC,3,11,1,,-34,01/23/2024
01/18/2024,Mine, YOU BOUGHT,912796XY1,UNITED STATES TREAS BILLS,1000,99.5,,,-995,01/19/2024

"The data and information in this spreadsheet is provided to you solely for your use"
"and may not be complete, see the terms"

"Date downloaded" 01/30/2024, 6:29 PM
"""

VANGUARD = """Account Number,Investment Name,Symbol,Shares,Share Price,Total Value,
1,ALPHA ETF,AAA,7,30,210,

Account Number,Trade Date,Settlement Date,Transaction Type,Investment Name,Symbol,Shares,Share Price,Commission Fees,
1,01/23/2024,01/25/2024,Buy,ALPHA ETF,AAA,10,29,0.5,
1,01/22/2024,01/22/2024,Dividend,ALPHA ETF,AAA,0,1,0,
1,01/22/2024,01/24/2024,Reinvestment,ALPHA ETF,AAA,0.25,28,0,
1,01/16/2024,01/18/2024,Sell,BETA ETF,BBB,-4,50,0.5,
1,01/15/2024,01/17/2024,Buy,U S TREASURY BILL,,5000,99,0,
"""

XTB = """ID;Type;Time;Symbol;Comment;Amount
3;Stocks/ETF sale;13.02.2024 10:00:01;AAA.DE;CLOSE BUY 2/5 @ 12.50;25
2;Deposit;12.02.2024 09:30:00;;bank deposit;500
1;Stocks/ETF purchase;010.01.2024 09:30:00;;a broken day of no trade;5
0;Stocks/ETF purchase;15.01.2024 11:00:00;AAA.DE;OPEN BUY 5 @ 12.00;-60
"""

DEGIRO = """Datum,Tijd,Valutadatum,Product,ISIN,Omschrijving,FX,Mutatie,,Saldo,,Order Id
15-02-2024,10:00,15-02-2024,ALPHA,NL0000000001,"Verkoop 2 @ 12,5 EUR",,EUR,"25,00",EUR,"90,00",b
15-02-2024,10:00,15-02-2024,ALPHA,NL0000000001,DEGIRO Transactiekosten,,EUR,"-1,00",EUR,"65,00",b
16-01-2024,09:30,16-01-2024,ALPHA,NL0000000001,"Koop 5 @ 0,125 EUR",,EUR,"-0,63",EUR,"66,00",a
15-01-2024,09:30,15-01-2024,,,iDEAL Deposit,,EUR,"100,00",EUR,"100,00",
"""

IB_BY_ISIN = """"Buy/Sell","TradeDate","ISIN","Quantity","TradePrice","CurrencyPrimary","IBCommission"
"BUY","20240103","US0000000001","7","20.5","USD","-1"
"SELL","20240104","","-800","1.1","USD","-2"
"""

BROKERS = [
    Case(
        "fidelity",
        "history.csv",
        FIDELITY,
        [
            (20240119, "AAA", "buy", 3.0, 11.0),
            (20240124, "BBB", "buy", 0.5, 20.0),
            (20240125, "AAA", "sell", 3.0, 12.5),
        ],
        "Left out: 3 rows other than purchases and sales of shares: dividends, transfers, options, bonds.",
    ),
    Case(
        "vanguard",
        "two_tables.csv",
        VANGUARD,
        [
            (20240116, "BBB", "sell", 4.0, 50.0),
            (20240122, "AAA", "buy", 0.25, 28.0),
            (20240123, "AAA", "buy", 10.0, 29.0),
        ],
        "Left out: 2 rows other than purchases and sales of shares: dividends, transfers, bonds.",
    ),
    Case(
        "xtb",
        "cash_operations.csv",
        XTB,
        [(20240115, "AAA.DE", "buy", 5.0, 12.0), (20240213, "AAA.DE", "sell", 2.0, 12.5)],
        "Prices of XTB are in the currency of each asset.",
    ),
    Case(
        "degiro",
        "account.csv",
        DEGIRO,
        [
            (20240116, "NL0000000001", "buy", 5.0, 0.125),
            (20240215, "NL0000000001", "sell", 2.0, 12.5),
        ],
        "Fees are rows of their own, and are not read.",
    ),
    Case(
        "interactive-brokers",
        "by_isin.csv",
        IB_BY_ISIN,
        [(20240103, "US0000000001", "buy", 7.0, 20.5)],
        "Left out: 1 trades without an ISIN (of currencies).",
    ),
    Case(
        "interactive-brokers",
        "cancelled.xml",
        flex(
            flex_trade("BUY", 10, "50.5"),
            flex_trade("BUY", 10, "50.5"),
            flex_trade("BUY (Ca.)", -10, "50.5"),
            flex_trade("SELL", -4, "51"),
        ),
        [(20240103, "AAA", "sell", 4.0, 51.0), (20240103, "AAA", "buy", 10.0, 50.5)],
        "Left out: 1 trades that were cancelled later.",
    ),
]


@pytest.mark.parametrize("case", BROKERS, ids=lambda case: case.file)
def test_trades_are_told_from_the_other_rows_of_a_broker(tmp_path: Path, case: Case) -> None:
    path = tmp_path / case.file
    path.write_text(case.text, encoding="utf-8")
    declared = read_declared(path, ReadOptions())

    assert declared.program == case.program
    assert declared.trades is not None
    columns = ["day", "code", "side", "shares", "price"]
    assert list(declared.trades[columns].itertuples(index=False, name=None)) == case.trades
    assert case.note in declared.notes


REFUSED = [
    (
        "all_cancelled.xml",
        flex(flex_trade("BUY", 10, "50.5"), flex_trade("BUY (Ca.)", -10, "50.5")),
        "each trade was cancelled; export a period with others",
    ),
    (
        "cancelled_elsewhere.xml",
        flex(flex_trade("BUY", 10, "50.5"), flex_trade("SELL (Ca.)", 3, "49")),
        "line 3: column buySell: cancels a trade that is not in the file",
    ),
    (
        "no_trades.xml",
        flex('<OpenPosition symbol="AAA" position="3"/>'),
        "a Flex statement without trades; add the section Trades to its query",
    ),
    (
        "comma_in_part.csv",
        DEGIRO.replace('"66,00"', "66.00").replace("0,125", "0,12"),
        "column price in Omschrijving: expected a number, was '12,5'; if its comma is that of decimals:"
        " --decimal comma",
    ),
    (
        "one_odd_day.csv",
        XTB.replace("a broken day of no trade", "OPEN BUY 1 @ 2").replace(";;OPEN", ";AAA.DE;OPEN"),
        "line 4: column Time: '010.01.2024 09:30:00' is no date as '13.02.2024 10:00:01' is",
    ),
]


@pytest.mark.parametrize(("file", "text", "words"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_refused_statement_names_what_was_found(
    tmp_path: Path, file: str, text: str, words: str
) -> None:
    path = tmp_path / file
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_declared(path, ReadOptions())
    assert words in str(caught.value)


def test_lines_of_a_log_are_tables_by_their_type(tmp_path: Path) -> None:
    lines = [
        {"type": "snapshot", "timestamp_ms": 1704229200000, "portfolio_value_usd": 1000.0},
        {
            "type": "signal",
            "timestamp_ms": 1704229200001,
            "pair": "A/USD",
            "action": "HOLD",
            "why": "-",
        },
        {"type": "snapshot", "timestamp_ms": 1704315600000, "portfolio_value_usd": 1010.0},
        {
            "type": "signal",
            "timestamp_ms": 1704315600001,
            "pair": "A/USD",
            "action": "HOLD",
            "why": "-",
        },
    ]
    path = tmp_path / "bot.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")

    declared = read_declared(path, ReadOptions())
    assert declared.values is not None
    assert declared.values.to_dict() == {20240102: 1000.0, 20240103: 1010.0}


def test_fills_with_a_type_of_their_own_stay_one_table(tmp_path: Path) -> None:
    lines = [
        {"type": "buy", "date": "2024-01-02", "symbol": "AAA", "shares": 5, "price": 10.0},
        {
            "type": "sell",
            "date": "2024-01-03",
            "symbol": "AAA",
            "shares": 5,
            "price": 11.0,
            "tag": "x",
        },
    ]
    path = tmp_path / "fills.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")

    declared = read_declared(path, ReadOptions())
    assert declared.trades is not None
    assert declared.trades["side"].tolist() == ["buy", "sell"]


RATINGS = [
    ("## 1. 评级：买入 (Buy)", 1.0),
    ("We weigh a (sell) first.\n**Buy** it.", 1.0),
]


@pytest.mark.parametrize(("text", "weight"), RATINGS)
def test_a_rating_may_stand_in_brackets(tmp_path: Path, text: str, weight: float) -> None:
    assert weights_of_log(tmp_path, text) == [weight]


def test_a_log_without_a_rating_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"names none of buy, overweight, .* as Rating: Buy"):
        weights_of_log(tmp_path, "التصنيف: شراء")
    assert weights_of_log(tmp_path, "التصنيف: شراء\nRating: Buy") == [1.0]


def weights_of_log(folder: Path, text: str) -> list[float]:
    state = {"company_of_interest": "AAA", "trade_date": "2024-01-02", "final_trade_decision": text}
    path = folder / "full_states_log_2024-01-02.json"
    path.write_text(json.dumps({"2024-01-02": state}), encoding="utf-8")
    declared = read_declared(path, ReadOptions())
    assert declared.decisions is not None
    return [float(weight) for weight in declared.decisions["weight"]]


def strategy(profit: float) -> dict[str, object]:
    """Return the result of a strategy of freqtrade with one trade that wins 5."""
    trade = {
        "pair": "A/USDT",
        "amount": 2.0,
        "open_date": "2024-01-02 07:15:00+00:00",
        "close_date": "2024-01-03 07:20:00+00:00",
        "open_rate": 10.0,
        "close_rate": 12.5,
        "fee_open": 0.0,
        "fee_close": 0.0,
        "profit_abs": profit,
    }
    return {"trades": [trade], "total_trades": 1, "strategy_name": "Any"}


def test_wrong_profits_and_two_strategies_have_options_that_read_them(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    other = strategy(5.0)
    other["trades"][0]["amount"] = 3.0  # type: ignore[index]
    path.write_text(
        json.dumps({"strategy": {"One": strategy(0.5), "Two": other}}), encoding="utf-8"
    )
    with pytest.raises(DataError, match="if the profits are wrong, leave them out: --map profit=-"):
        read_declared(path, ReadOptions())

    without = {"profit": "-"}
    with pytest.raises(
        DataError, match=r"One\.trades and .*Two\.trades both declare trades; .*--table"
    ):
        read_declared(path, ReadOptions(roles=without))

    declared = read_declared(path, ReadOptions(roles=without, table="strategy.One.trades"))
    assert declared.trades is not None
    assert declared.trades["price"].tolist() == [10.0, 12.5]
