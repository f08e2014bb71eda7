"""Drawn trades written in the form of each program come back as they were: in any order of rows, with
either sign, across midnight in another zone, among orders that were not filled and rows of other
business; and which of these the draws have met.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest

from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_judge.readers.roles import word_kinds

DRAWS = 6
ORDERS = ("rising", "falling", "any order")
NEW_YORK = ZoneInfo("America/New_York")
TICKERS = ("AAA", "BBB", "CCC")
ISINS = ("US0000000001", "NL0000000002", "IE0000000003")
REACH: Counter[tuple[str, str]] = Counter()


@dataclass(frozen=True)
class Fill:
    """A trade as it was."""

    at: datetime  # in UTC
    asset: int
    is_buy: bool
    shares: float
    price: float
    fee: float

    @property
    def side(self) -> str:
        return "buy" if self.is_buy else "sell"

    @property
    def signed(self) -> float:
        return self.shares if self.is_buy else -self.shares


@dataclass
class Writer:
    """What a form is written with: trades and chance."""

    fills: list[Fill]
    chance: random.Random
    name: str
    order: str

    def met(self, what: str) -> None:
        REACH[self.name, what] += 1

    def often(self, what: str) -> bool:
        """Whether to do something this time, which is noted."""
        is_done = self.chance.random() < 0.5
        if is_done:
            self.met(what)
        return is_done

    def words(self, kind: str) -> str:
        """One of the words of a kind."""
        known = sorted(word for word, kinds in word_kinds().items() if kinds == {kind})
        return self.chance.choice(known)

    def table(self, header: str, rows: list[str], between: str = ",") -> str:
        """Rows in one of the orders that programs write."""
        self.met(self.order)
        if self.order == "falling":
            rows = rows[::-1]
        elif self.order == "any order":
            rows = self.chance.sample(rows, len(rows))
        return "\n".join([header.replace(",", between), *rows]) + "\n"


def comma(number: float) -> str:
    return f"{number}".replace(".", ",")


# ---- forms: what each program writes


def plain(writer: Writer) -> str:
    sign = -1 if writer.often("fees below zero") else 1
    buy, sell = writer.words("buy"), writer.words("sell")
    rows = []
    for fill in writer.fills:
        side = buy if fill.is_buy else sell
        at = f"{fill.at:%Y-%m-%d %H:%M:%S}"
        rows.append(
            f"{at},{TICKERS[fill.asset]},{side},{fill.shares},{fill.price},{sign * fill.fee}"
        )
    return writer.table("date,symbol,side,shares,price,fee", rows)


def plain_signed(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        at = f"{fill.at:%Y-%m-%d %H:%M:%S}"
        rows.append(f"{TICKERS[fill.asset]},{fill.price},{fill.signed},{at},{fill.fee}")
    return writer.table("symbol,price,shares,date,commission", rows)


def plain_statuses(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        begin = f"{fill.at:%Y-%m-%d %H:%M:%S},{TICKERS[fill.asset]},{fill.side}"
        rows.append(f"{begin},{fill.shares},{fill.price},{writer.words('done')}")
        if writer.often("an order that was not filled"):
            rows.append(f"{begin},{fill.shares + 1},{fill.price},{writer.words('undone')}")
    return writer.table("date,symbol,side,filled shares,price,status", rows)


def alpaca_orders(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        name = TICKERS[fill.asset]
        at = f"{fill.at:%Y-%m-%dT%H:%M:%S}Z"
        rows.append(f"{name},{fill.side},{fill.shares},{at},{fill.shares},{fill.price},filled")
        if writer.often("an order that was not filled"):
            rows.append(f"{name},{fill.side},{fill.shares},,0,,canceled")
    return writer.table("symbol,side,qty,filled_at,filled_qty,filled_avg_price,status", rows)


def alpaca_activities(writer: Writer) -> str:
    rows = []
    for number, fill in enumerate(writer.fills):
        at = f"{fill.at:%Y-%m-%dT%H:%M:%S}.123456Z"
        begin = f"{number},FILL,{at},{fill.price},{fill.shares},{fill.side}"
        rows.append(f"{begin},{TICKERS[fill.asset]}")
        if writer.often("rows of other business"):
            rows.append(f"{number}d,DIV,{at},,,,{TICKERS[fill.asset]}")
    return writer.table("id,activity_type,transaction_time,price,qty,side,symbol", rows)


def interactive_brokers(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        local = fill.at.astimezone(NEW_YORK)
        day = f"{local:%Y%m%d}"
        side = fill.side.upper()
        begin = f"U1,{TICKERS[fill.asset]},{day};{local:%H%M%S},{day}"
        end = f"{fill.signed},{fill.price},{side},{-fill.fee},USD"
        rows.append(f"{begin},{end},EXECUTION,STK")
        if writer.often("rows of other business"):
            rows.append(f"{begin},{end},EXECUTION,OPT")
        if writer.often("rows of another level"):
            rows.append(f"{begin},{end},CLOSED_LOT,STK")
    header = "ClientAccountID,Symbol,DateTime,TradeDate,Quantity,TradePrice,Buy/Sell,IBCommission"
    return writer.table(f"{header},CurrencyPrimary,LevelOfDetail,AssetClass", rows)


def kraken(writer: Writer) -> str:
    rows = []
    for number, fill in enumerate(writer.fills):
        cost = fill.shares * fill.price
        at = f"{fill.at:%Y-%m-%d %H:%M:%S}.5"
        begin = f"T{number},O{number},{TICKERS[fill.asset]}EUR,{at},{fill.side},limit"
        rows.append(f"{begin},{fill.price},{cost},{fill.fee},{fill.shares}")
    return writer.table("txid,ordertxid,pair,time,type,ordertype,price,cost,fee,vol", rows)


def coinbase(writer: Writer) -> str:
    rows = []
    for number, fill in enumerate(writer.fills):
        side = fill.side.title()
        if writer.often("another name of a side"):
            side = f"Advanced Trade {side}"
        at = f"{fill.at:%Y-%m-%d %H:%M:%S} UTC"
        price = f"EUR,€{fill.price}"
        rows.append(f"{number},{at},{side},{TICKERS[fill.asset]},{fill.signed},{price},€{fill.fee}")
        if writer.often("rows of other business"):
            rows.append(f"{number}s,{at},Staking Income,ETH,0.001,EUR,€2000,€0.00")
    header = "ID,Timestamp,Transaction Type,Asset,Quantity Transacted,Price Currency"
    return writer.table(f"{header},Price at Transaction,Fees and/or Spread", rows)


def rabobank(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        at = fill.at
        side = "Koop" if fill.is_buy else "Verkoop"
        begin = f"1;Alpha;{at:%d-%m-%Y};{side} Fondsen;EUR"
        end = f"{comma(fill.signed)};{comma(fill.price)};EUR"
        rows.append(f"{begin};{end};{ISINS[fill.asset]};{at:%H:%M:%S}.004")
        if writer.often("rows of other business"):
            rows.append(f"1;;{at:%d-%m-%Y};Storting;EUR;;;;;{at:%H:%M:%S}.004")
    header = "Portefeuille,Naam,Datum,Type mutatie,Valuta mutatie,Volume,Koers,Valuta koers"
    return writer.table(f"{header},Isin code,Tijd", rows, between=";")


def revolut(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        at = f"{fill.at:%Y-%m-%dT%H:%M:%S}.514Z"
        side = f"{fill.side.upper()} - {writer.chance.choice(('MARKET', 'LIMIT'))}"
        begin = f"{at},{TICKERS[fill.asset]},{side},{fill.shares},${fill.price}"
        rows.append(f"{begin},${fill.shares * fill.price},USD,1.1")
        if writer.often("rows of other business"):
            rows.append(f"{at},,CASH TOP-UP,,,$500,USD,1.1")
    header = "Date,Ticker,Type,Quantity,Price per share,Total Amount,Currency,FX Rate"
    return writer.table(header, rows)


def schwab(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        day = f"{fill.at:%m/%d/%Y}"
        if writer.often("booked on a later day"):
            # the first of the two days is that of the row
            day = f"{day} as of {fill.at - timedelta(days=1):%m/%d/%Y}"
        begin = f'"{day}","{fill.side.title()}","{TICKERS[fill.asset]}","X"'
        rows.append(f'{begin},"{fill.shares}","${fill.price}","${fill.fee}","$1"')
        if writer.often("rows of other business"):
            rows.append(f'"{day}","Qual Div Reinvest","{TICKERS[fill.asset]}","X","","","","$26"')
    header = '"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"'
    return writer.table(header, rows)


def avanza(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        day = f"{fill.at:%Y-%m-%d}"
        side = "Köp" if fill.is_buy else "Sälj"
        end = f"{comma(fill.signed)};{comma(fill.price)};SEK;{ISINS[fill.asset]}"
        rows.append(f"{day};Mine;{side};Alpha;{end}")
        if writer.often("rows of other business"):
            rows.append(f"{day};Mine;Uttag;Uttag till X;;;;")
    header = (
        "Datum,Konto,Typ av transaktion,Värdepapper/beskrivning,Antal,Kurs,Instrumentvaluta,ISIN"
    )
    return writer.table(header, rows, between=";")


def degiro(writer: Writer) -> str:
    names = {
        True: ("Koop", "Buy", "Kauf", "Achat"),
        False: ("Verkoop", "Sell", "Verkauf", "Vente"),
    }
    rows = []
    for fill in writer.fills:
        begin = f"{fill.at:%d-%m-%Y},{fill.at:%H:%M},ALPHA,{ISINS[fill.asset]}"
        side = writer.chance.choice(names[fill.is_buy])
        text = f'"{side} {comma(fill.shares)} @ {comma(fill.price)} EUR"'
        rows.append(f'{begin},{text},"90,00"')
        if writer.often("rows of other business"):
            rows.append(f'{begin},DEGIRO Transactiekosten,"65,00"')
    return writer.table("Datum,Tijd,Product,ISIN,Omschrijving,Saldo", rows)


def trading212(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        at = f"{fill.at:%Y-%m-%d %H:%M:%S}"
        action = f"{writer.chance.choice(('Market', 'Limit', 'Stop', 'Stop limit'))} {fill.side}"
        begin = f"{action},{at},{ISINS[fill.asset]},{TICKERS[fill.asset]}"
        rows.append(f"{begin},{fill.shares},{fill.price},USD")
        if writer.often("rows of other business"):
            rows.append(f"Deposit,{at},,,,,")
    header = "Action,Time,ISIN,Ticker,No. of shares,Price / share,Currency (Price / share)"
    return writer.table(header, rows)


def zipline(writer: Writer) -> str:
    rows = []
    for number, fill in enumerate(writer.fills):
        at = f"{fill.at:%Y-%m-%d %H:%M:%S}+00:00"
        name = f"Equity({fill.asset} [{TICKERS[fill.asset]}])"
        begin = f"{at},{name},{name},{fill.price},o{number},{fill.signed},{fill.fee}"
        rows.append(f"{begin},{at},{-fill.signed * fill.price}")
    return writer.table(",sid,symbol,price,order_id,amount,commission,dt,txn_dollars", rows)


def bt(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        rows.append(f"{fill.at:%Y-%m-%d},{TICKERS[fill.asset]},{fill.price},{fill.signed}")
    return writer.table("Date,Security,price,quantity", rows)


def vectorbt(writer: Writer) -> str:
    rows = []
    for number, fill in enumerate(writer.fills):
        begin = f"{number},{TICKERS[fill.asset]},{fill.at:%Y-%m-%d %H:%M:%S}"
        rows.append(f"{begin},{fill.shares},{fill.price},{fill.fee},{fill.side.title()}")
    return writer.table("Order Id,Column,Timestamp,Size,Price,Fees,Side", rows)


def nautilus(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        at = f"{fill.at:%Y-%m-%d %H:%M:%S}+00:00"
        begin = f"{TICKERS[fill.asset]}.XNAS,{fill.side.upper()}"
        rows.append(f"{begin},{fill.shares},{fill.price},{at}")
    return writer.table("instrument_id,side,filled_qty,avg_px,ts_last", rows)


def china_broker(writer: Writer) -> str:
    rows = []
    for fill in writer.fills:
        day = f"{fill.at:%Y%m%d}"
        code = f"60051{fill.asset}"
        side = writer.chance.choice(
            ("证券买入", "买入", "融资买入") if fill.is_buy else ("证券卖出", "卖出", "卖券还款")
        )
        rows.append(f"{day},{code},{fill.price},{fill.signed},{side},{fill.fee}")
        if writer.often("rows of other business"):
            rows.append(f"{day},787001,0,4,申购配号,0")
    return writer.table("交易日期,证券代码,成交价格,成交数量,业务名称,佣金", rows)


@dataclass(frozen=True)
class Form:
    """A form, and what its rows can say."""

    write: Callable[[Writer], str]
    program: str
    codes: tuple[str, ...] = TICKERS
    has_fees: bool = False
    has_times: bool = True
    zone: Any = UTC  #: in which its days are counted
    file: str = "trades.csv"
    decimal: Literal["auto", "comma"] = "auto"


CHINA = ("600510", "600511", "600512")
FORMS = [
    Form(plain, "plain", has_fees=True),
    Form(plain_signed, "plain", has_fees=True),
    Form(plain_statuses, "plain"),
    Form(alpaca_orders, "alpaca", zone=NEW_YORK),
    Form(alpaca_activities, "alpaca", zone=NEW_YORK),
    Form(interactive_brokers, "interactive-brokers", has_fees=True, has_times=False, zone=NEW_YORK),
    Form(kraken, "kraken", tuple(f"{name}EUR" for name in TICKERS), has_fees=True),
    Form(coinbase, "coinbase", has_fees=True),
    Form(rabobank, "rabobank", ISINS, decimal="comma"),
    Form(revolut, "revolut"),
    Form(schwab, "schwab", has_fees=True, has_times=False),
    Form(avanza, "avanza", ISINS, has_times=False, decimal="comma"),
    Form(degiro, "degiro", ISINS, decimal="comma"),
    Form(trading212, "trading212"),
    Form(zipline, "zipline", has_fees=True),
    Form(bt, "bt", has_times=False),
    Form(vectorbt, "vectorbt", has_fees=True),
    Form(nautilus, "nautilus", tuple(f"{name}.XNAS" for name in TICKERS)),
    Form(china_broker, "china-broker", CHINA, has_fees=True, has_times=False),
]


def draw(chance: random.Random) -> list[Fill]:
    """Trades of both sides over two weeks, whose days can't be months; some are at night, when New York
    has the day before.
    """
    fills = []
    for number in range(chance.randint(3, 12)):
        at = datetime(2024, 3, 13, tzinfo=UTC) + timedelta(
            days=chance.randrange(12),
            hours=chance.choice((2, 14, 15, 20)),
            minutes=chance.randrange(1, 60),
        )
        fill = Fill(
            at=at,
            asset=chance.randrange(3),
            is_buy=number == 0 or (number > 1 and chance.random() < 0.5),
            shares=chance.randint(4, 400) / 4,
            price=chance.randint(40, 4_000) / 8,
            fee=chance.randint(1, 40) / 8,
        )
        fills.append(fill)
    return sorted(fills, key=lambda fill: fill.at)


def expected(form: Form, fills: list[Fill]) -> list[tuple[object, ...]]:
    """The trades in the order of their moments; at one moment sales come first."""
    rows = []
    for fill in fills:
        local = fill.at.astimezone(form.zone)
        moment = local.replace(tzinfo=None) if form.has_times else local.date()
        code = form.codes[fill.asset]
        key = (moment, fill.is_buy, code, fill.shares, fill.price)
        day = int(f"{local:%Y%m%d}")
        row = (day, code, fill.side, fill.shares, fill.price, fill.fee if form.has_fees else None)
        rows.append((key, row))
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def read(form: Form, path: Path) -> list[tuple[object, ...]]:
    declared = read_declared(path, ReadOptions(decimal=form.decimal))
    assert declared.program == form.program
    assert declared.trades is not None
    columns = ["day", "code", "side", "shares", "price"]
    trades = list(declared.trades[columns].itertuples(index=False, name=None))
    fees = declared.trades["fee"].tolist() if form.has_fees else [None] * len(trades)
    return [(*trade, fee) for trade, fee in zip(trades, fees, strict=True)]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.write.__name__)
def test_trades_in_the_form_of_a_program_come_back(form: Form, tmp_path: Path) -> None:
    name = form.write.__name__
    own = {key for key in REACH if key[0] == name}
    for key in own:
        del REACH[key]

    for seed in range(DRAWS):
        chance = random.Random(f"{name} {seed}")
        fills = draw(chance)
        writer = Writer(fills, chance, name, ORDERS[seed % len(ORDERS)])
        path = tmp_path / form.file
        path.write_text(form.write(writer), encoding="utf-8")
        wanted = expected(form, fills)
        assert read(form, path) == wanted
        for fill, row in zip(sorted(fills, key=lambda each: each.at), wanted, strict=True):
            REACH[name, fill.side] += 1
            if row[0] != int(f"{fill.at:%Y%m%d}"):
                REACH[name, "the day before in its zone"] += 1

    met = {what for form_name, what in REACH if form_name == name}
    wanted_kinds = {"buy", "sell", *ORDERS}
    if form.zone is not UTC:
        wanted_kinds.add("the day before in its zone")
    assert met >= wanted_kinds, f"never met: {sorted(wanted_kinds - met)}"


# ---- whole trades: an entry and, unless it is open, an exit in one row


@dataclass(frozen=True)
class Trip:
    """A whole trade as it was."""

    entry: Fill
    exit: Fill | None


def draw_trips(chance: random.Random) -> list[Trip]:
    trips = []
    fills = draw(chance)
    for number, entry in enumerate(fills):
        leaves = replace(
            entry,
            at=entry.at + timedelta(days=chance.randint(1, 4)),
            is_buy=not entry.is_buy,
            price=entry.price + chance.choice((-1.0, 0.5, 2.0)),
            fee=chance.randint(1, 40) / 8,
        )
        is_open = 0 < number < len(fills) - 1 and chance.random() < 0.3
        trips.append(Trip(entry, None if is_open else leaves))
    return trips


def plain_trips(writer: Writer, trips: list[Trip]) -> str:
    sign = -1 if writer.often("fees below zero") else 1
    rows = []
    for trip in trips:
        entry, leaves = trip.entry, trip.exit
        # an open trade shows its last price
        status, shown = "closed", leaves
        if shown is None:
            status, shown = writer.words("live"), replace(entry, at=entry.at + timedelta(days=1))
        side = "long" if entry.is_buy else "short"
        begin = f"{TICKERS[entry.asset]},{side},{entry.shares}"
        first = f"{entry.at:%Y-%m-%d %H:%M:%S},{entry.price},{sign * entry.fee}"
        last = f"{shown.at:%Y-%m-%d %H:%M:%S},{shown.price},{sign * shown.fee}"
        rows.append(f"{begin},{first},{last},{status}")
    header = "symbol,type,shares,entry_date,entry_price,entry fee,exit_date,exit_price,exit fee"
    return writer.table(f"{header},status", rows)


def vectorbt_trips(writer: Writer, trips: list[Trip]) -> str:
    rows = []
    for number, trip in enumerate(trips):
        entry, leaves = trip.entry, trip.exit
        status, shown = "Closed", leaves
        if shown is None:
            status, shown = "Open", replace(entry, at=entry.at + timedelta(days=1), fee=0.0)
        side = "Long" if entry.is_buy else "Short"
        begin = f"{number},{TICKERS[entry.asset]},{entry.shares}"
        first = f"{entry.at:%Y-%m-%d %H:%M:%S},{entry.price},{entry.fee}"
        last = f"{shown.at:%Y-%m-%d %H:%M:%S},{shown.price},{shown.fee}"
        rows.append(f"{begin},{first},{last},{side},{status}")
    header = "Exit Trade Id,Column,Size,Entry Timestamp,Avg Entry Price,Entry Fees,Exit Timestamp"
    return writer.table(f"{header},Avg Exit Price,Exit Fees,Direction,Status", rows)


def freqtrade_trips(writer: Writer, trips: list[Trip]) -> str:
    rows: list[dict[str, Any]] = []
    for trip in trips:
        entry, leaves = trip.entry, trip.exit
        row = {
            "pair": f"{TICKERS[entry.asset]}/USDT",
            "amount": entry.shares,
            "open_date": f"{entry.at:%Y-%m-%d %H:%M:%S}+00:00",
            "open_rate": entry.price,
            "fee_open": entry.fee / (entry.shares * entry.price),
            "close_date": None,
            "close_rate": None,
            "fee_close": 0.001,
            "is_short": not entry.is_buy,
            "profit_abs": None,
        }
        if leaves is not None:
            row["close_date"] = f"{leaves.at:%Y-%m-%d %H:%M:%S}+00:00"
            row["close_rate"] = leaves.price
            row["fee_close"] = leaves.fee / (leaves.shares * leaves.price)
            row["profit_abs"] = entry.signed * (leaves.price - entry.price) - entry.fee - leaves.fee
        rows.append(row)

    rows = writer.chance.sample(rows, len(rows))
    trades = {"trades": rows, "total_trades": len(rows), "stake_currency": "USDT"}
    return json.dumps({"strategy": {"Mine": trades}})


PAIRS = tuple(f"{name}/USDT" for name in TICKERS)
TRIPS = [
    (plain_trips, Form(plain, "plain", has_fees=True)),
    (vectorbt_trips, Form(vectorbt, "vectorbt", has_fees=True)),
    (freqtrade_trips, Form(plain, "freqtrade", PAIRS, has_fees=True, file="result.json")),
]


@pytest.mark.parametrize(("write", "form"), TRIPS, ids=lambda each: getattr(each, "__name__", ""))
def test_whole_trades_come_back_as_entries_and_exits(
    write: Callable[[Writer, list[Trip]], str], form: Form, tmp_path: Path
) -> None:
    met: Counter[str] = Counter()
    for seed in range(DRAWS):
        chance = random.Random(f"{write.__name__} {seed}")
        trips = draw_trips(chance)
        writer = Writer([], chance, write.__name__, ORDERS[seed % len(ORDERS)])
        path = tmp_path / form.file
        path.write_text(write(writer, trips), encoding="utf-8")
        fills = [trip.entry for trip in trips] + [trip.exit for trip in trips if trip.exit]
        found, wanted = read(form, path), expected(form, fills)
        assert [row[:-1] for row in found] == [row[:-1] for row in wanted]
        assert [row[-1] for row in found] == pytest.approx([row[-1] for row in wanted])
        for trip in trips:
            met["long" if trip.entry.is_buy else "short"] += 1
            met["closed" if trip.exit else "open"] += 1

    assert met.keys() >= {"long", "short", "open", "closed"}, met
