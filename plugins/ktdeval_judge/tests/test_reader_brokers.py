"""Files in the forms of brokers, each with own numbers: what is a trade among their rows, and what a
refusal names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from inline_snapshot import snapshot

from ktdeval.errors import DataError
from ktdeval.testing import errors_of
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

BITVAVO = """Timezone,Date,Time,Type,Currency,Amount,Quote Currency,Quote Price,Fee currency,Fee amount,Status
Europe/Amsterdam,2024-02-02,10:29:44.141,sell,ETH,-0.5,EUR,1600,EUR,0.8,Completed
Europe/Amsterdam,2024-02-01,11:36:46.620,buy,ETH,0.5,EUR,1500,EUR,0.75,Completed
Europe/Amsterdam,2024-02-01,11:33:24,deposit,EUR,1000,,,EUR,0,Completed
"""

COINBASE = """Transactions
User,Any,x

ID,Timestamp,Transaction Type,Asset,Quantity Transacted,Price Currency,Price at Transaction,Subtotal,Total (inclusive of fees and/or spread),Fees and/or Spread,Notes
c,2024-02-03 10:00:00 UTC,Staking Income,ETH,0.001,EUR,€2000,€2,€2,€0.00,
b,2024-02-02 10:00:00 UTC,Advanced Trade Sell,BTC,-0.25,EUR,€41000.5,€10250.1,€10200,€50.1,
a,2024-02-01 10:00:00 UTC,Buy,BTC,0.5,EUR,€40000,€20000,€20100,€100.00,
"""

INVESTENGINE = """Security / ISIN,Transaction Type,Quantity,Share Price,Total Trade Value,Trade Date/Time,Settlement Date,Broker
Alpha All-World / ISIN IE0000000001,Buy,2.5,£110.5,£276.25,23/01/24 15:18:12,25/01/24,None
Alpha All-World / ISIN IE0000000001,Sell,1,£112,£112,13/02/24 09:00:01,15/02/24,None
"""

KRAKEN = """"txid","ordertxid","pair","time","type","ordertype","price","cost","fee","vol","margin","misc","ledgers"
"T1","O1","XXBTZEUR","2024-02-01 19:43:31.6798","buy","limit",40000.0,1000.0,1.5,0.025,0.0,"","L1,L2"
"""

METATRADER = """Time,Deal,Symbol,Type,Direction,Volume,Price,Order,Commission,Fee,Swap,Profit,Balance
2024.02.01 09:00:00,1,,balance,,,,,0,0,0,10000,10000
2024.02.01 10:00:00,2,AAA,buy,in,20,50.5,2,-1,0,0,0,9999
2024.02.02 10:00:00,3,AAA,sell,out,20,52.5,3,-1,0,0,40,10038
"""

NAUTILUS_POSITIONS = """position_id,instrument_id,entry,side,quantity,peak_qty,ts_opened,ts_closed,avg_px_open,avg_px_close,commissions,realized_pnl
P-1,AAA.XNAS,BUY,FLAT,0,10,2024-02-01 14:31:00+00:00,2024-02-02 15:00:00+00:00,50.5,51.5,['1.00 USD'],9.00 USD
P-2,AAA.XNAS,SELL,FLAT,0,4,2024-02-05 14:31:00+00:00,2024-02-06 15:00:00+00:00,53,52,['1.00 USD'],3.00 USD
"""

RABOBANK = """Portefeuille;Naam;Datum;Type mutatie;Valuta mutatie;Volume;Koers;Valuta koers;Waarde;Bedrag;Isin code;Tijd
1;Alpha;13-02-2024;Verkoop Fondsen;EUR;-1,5;84,5;EUR;126,75;126,75;NL0000000001;11:46:03.004
1;Alpha;12-02-2024;Koop Fondsen;EUR;2,5;84,25;EUR;210,63;-210,63;NL0000000001;11:46:03.004
1;;09-02-2024;Storting;EUR;;;;;500;;
"""

REVOLUT = """Date,Ticker,Type,Quantity,Price per share,Total Amount,Currency,FX Rate
2024-02-01T08:23:08.459586Z,,CASH TOP-UP,,,$500,USD,1.1
2024-02-02T14:30:10.514Z,AAA,BUY - MARKET,1.5,$50.5,$75.75,USD,1.1
2024-02-05T15:30:00.797Z,AAA,SELL - MARKET,0.5,$52,$26,USD,1.1
"""

SAXO = """Client ID,Trade Date,Value Date,Type,Instrument,Instrument ISIN,Instrument currency,Event,Amount
1,05-Feb-2024,07-Feb-2024,Trade,Alpha ETF,IE0000000001,USD,Sell 3 @ 139.75 USD,419.25
1,02-Feb-2024,02-Feb-2024,Corporate action,Alpha ETF,IE0000000001,USD,Dividend,1.5
1,01-Feb-2024,05-Feb-2024,Trade,Alpha ETF,IE0000000001,USD,Buy 5 @ 138.5 USD,-692.5
"""

SCHWAB = """"Transactions for account Any"
"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"
"02/06/2024","Sell to Open","AAA 02/16/2024 55.00 C","CALL ALPHA","2","$1.5","$1","$299"
"02/05/2024 as of 02/02/2024","Reinvest Shares","AAA","ALPHA INC","0.5","$52","","-$26"
"02/05/2024","Qual Div Reinvest","AAA","ALPHA INC","","","","$26"
"02/01/2024","Buy","AAA","ALPHA INC","1,000","$50.5","$1","-$50501"
"""

SWISSQUOTE = """Date;Order #;Transaction;Symbol;Name;ISIN;Quantity;Unit price;Costs;Accrued Interest;Net Amount;Balance;Currency
05-02-2024 07:00:15;0;Debit;;;;1.0;2000.00;2.00;0.00;-2002.00;6612.40;USD
01-02-2024 15:30:02;1;Buy;AAA;ALPHA;US0000000001;20.0;19.85;5.96;0.00;-402.96;8614.40;USD
"""

AVANZA = """Datum;Konto;Typ av transaktion;Värdepapper/beskrivning;Antal;Kurs;Belopp;Transaktionsvaluta;Courtage (SEK);Valutakurs;Instrumentvaluta;ISIN;Resultat
2024-02-05;Mine;Sälj;Alpha S;-3,5;155,25;543,38;SEK;0;;SEK;SE0000000001;14,6
2024-02-02;Mine;Uttag;Uttag till X;;;-54400;SEK;;;;;
2024-02-01;Mine;Köp;Alpha S;5;150,5;-752,5;SEK;0;;SEK;SE0000000001;
"""

OTHER_BUSINESS = "Left out: 1 rows of other business: deposits, interest, dividends, fees."
BROKERS = [
    Case(
        "avanza",
        "avanza.csv",
        AVANZA,
        [
            (20240201, "SE0000000001", "buy", 5.0, 150.5),
            (20240205, "SE0000000001", "sell", 3.5, 155.25),
        ],
        OTHER_BUSINESS,
    ),
    Case(
        "bitvavo",
        "bitvavo.csv",
        BITVAVO,
        [(20240201, "ETH", "buy", 0.5, 1500.0), (20240202, "ETH", "sell", 0.5, 1600.0)],
        OTHER_BUSINESS,
    ),
    Case(
        "coinbase",
        "coinbase.csv",
        COINBASE,
        [(20240201, "BTC", "buy", 0.5, 40000.0), (20240202, "BTC", "sell", 0.25, 41000.5)],
        "Left out: 1 rows of other business: transfers, rewards, conversions.",
    ),
    Case(
        "investengine",
        "investengine.csv",
        INVESTENGINE,
        [
            (20240123, "IE0000000001", "buy", 2.5, 110.5),
            (20240213, "IE0000000001", "sell", 1.0, 112.0),
        ],
        "",
    ),
    Case("kraken", "kraken.csv", KRAKEN, [(20240201, "XXBTZEUR", "buy", 0.025, 40000.0)], ""),
    Case(
        "metatrader",
        "deals.csv",
        METATRADER,
        [(20240201, "AAA", "buy", 20.0, 50.5), (20240202, "AAA", "sell", 20.0, 52.5)],
        "Left out: 1 operations of the balance.",
    ),
    Case(
        "nautilus",
        "positions.csv",
        NAUTILUS_POSITIONS,
        [
            (20240201, "AAA.XNAS", "buy", 10.0, 50.5),
            (20240202, "AAA.XNAS", "sell", 10.0, 51.5),
            (20240205, "AAA.XNAS", "sell", 4.0, 53.0),
            (20240206, "AAA.XNAS", "buy", 4.0, 52.0),
        ],
        "Commissions of nautilus_trader are not read.",
    ),
    Case(
        "rabobank",
        "rabobank.csv",
        RABOBANK,
        [
            (20240212, "NL0000000001", "buy", 2.5, 84.25),
            (20240213, "NL0000000001", "sell", 1.5, 84.5),
        ],
        OTHER_BUSINESS,
    ),
    Case(
        "revolut",
        "revolut.csv",
        REVOLUT,
        [(20240202, "AAA", "buy", 1.5, 50.5), (20240205, "AAA", "sell", 0.5, 52.0)],
        OTHER_BUSINESS,
    ),
    Case(
        "saxo",
        "saxo.csv",
        SAXO,
        [
            (20240201, "IE0000000001", "buy", 5.0, 138.5),
            (20240205, "IE0000000001", "sell", 3.0, 139.75),
        ],
        "Left out: 1 rows of other business: deposits, dividends, fees, exchanges of currency, corporate actions.",
    ),
    Case(
        "schwab",
        "schwab.csv",
        SCHWAB,
        [(20240201, "AAA", "buy", 1000.0, 50.5), (20240205, "AAA", "buy", 0.5, 52.0)],
        "Left out: 2 rows other than purchases and sales of shares: dividends, transfers, options.",
    ),
    Case(
        "swissquote",
        "swissquote.csv",
        SWISSQUOTE,
        [(20240201, "AAA", "buy", 20.0, 19.85)],
        OTHER_BUSINESS,
    ),
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
        "Left out, as cancelled later: 1 trade.",
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
    assert not case.note or case.note in declared.notes


REFUSED = [
    (
        "all_cancelled.xml",
        flex(flex_trade("BUY", 10, "50.5"), flex_trade("BUY (Ca.)", -10, "50.5")),
    ),
    (
        "cancelled_elsewhere.xml",
        flex(flex_trade("BUY", 10, "50.5"), flex_trade("SELL (Ca.)", 3, "49")),
    ),
    ("no_trades.xml", flex('<OpenPosition symbol="AAA" position="3"/>')),
    ("comma_in_part.csv", DEGIRO.replace('"66,00"', "66.00").replace("0,125", "0,12")),
    ("lots.csv", METATRADER.replace(",20,", ",0.2,")),
    ("signs_of_money.csv", SCHWAB.replace("$52", "€52")),
    (
        "account_of_coinbase_pro.csv",
        "portfolio,type,time,amount,balance,amount/balance unit\n"
        "default,match,2024-02-01T14:39:36Z,0.5,0.5,BTC\n",
    ),
    ("premium.csv", "date,symbol,contracts,premium\n2024-02-01,AAA,2,1.5\n2024-02-02,AAA,3,1.25\n"),
    (
        "one_odd_day.csv",
        XTB.replace("a broken day of no trade", "OPEN BUY 1 @ 2").replace(";;OPEN", ";AAA.DE;OPEN"),
    ),
]


def test_a_refused_statement_names_what_was_found(tmp_path: Path) -> None:
    for file, text in REFUSED:
        (tmp_path / file).write_text(text, encoding="utf-8")

    files = [tmp_path / file for file, _ in REFUSED]
    assert errors_of(
        lambda path: read_declared(path, ReadOptions()), *files, folder=tmp_path
    ) == snapshot("""\
DataError: FOLDER/all_cancelled.xml: Trade: each trade was cancelled; export a period with others
DataError: FOLDER/cancelled_elsewhere.xml: Trade: line 3: column buySell: cancels a trade that is not in the file; also export the period of that trade
DataError: FOLDER/no_trades.xml: a Flex statement without trades; add the section Trades to its query
DataError: FOLDER/comma_in_part.csv: line 2: column price in Omschrijving: expected a number, was '12,5'; if the comma is the decimal mark, give --decimal comma
DataError: FOLDER/lots.csv: column Profit: AAA has 40 in total, but the shares and prices give 0.4: contracts or lots with a multiplier, another currency, or other sides: write shares, sides and prices of the account; if the profits are wrong, leave them out: --map profit=-
DataError: FOLDER/signs_of_money.csv: column Price: €, $: write one file per currency
DataError: FOLDER/account_of_coinbase_pro.csv: an account statement of Coinbase Pro, in which a trade is two rows; export the fills instead
DataError: FOLDER/premium.csv: line 2: column premium: '1.5' is not read; keep only rows of shares, and drop the column
DataError: FOLDER/one_odd_day.csv: line 4: column Time: '010.01.2024 09:30:00' is no date as '13.02.2024 10:00:01' is; write it as that
""")


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
        DataError, match=r"One\.trades and .*Two\.trades both contain trades; .*--table"
    ):
        read_declared(path, ReadOptions(roles=without))

    declared = read_declared(path, ReadOptions(roles=without, table="strategy.One.trades"))
    assert declared.trades is not None
    assert declared.trades["price"].tolist() == [10.0, 12.5]
