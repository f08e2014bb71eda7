"""A small source for each kind of finding, that has its fault, and what its advice is made of.

A case names one way out: an option that the message prints (`way`), or the correction of files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.market.rules.calendar import sessions

CODES = ("000001.SZ", "600519.SH", "688981.SH")
DAYS = tuple(sessions("2024-01-02", "2024-01-15").astype(str))
PRICES = ["open", "high", "low", "close"]
INDEX = ("--benchmark", "index.csv", "--benchmark-code", "000688.SH")
US = ("--venue", "us_equity")
KEEP = ("--repair keep_first", "--repair keep_last")
Files = Mapping[str, pd.DataFrame | str]


@dataclass(frozen=True)
class Case:
    """A source with a fault, and a way out of it."""

    kind: str
    files: Files  #: by name; `bars.csv` is the one of bars
    options: tuple[str, ...] = INDEX  #: of the import, beside `--bars`
    way: str = ""  #: how the advised options begin that are tried; empty: none is
    blanks: Mapping[str, str] = field(default_factory=dict)  #: what stands for words in capitals
    corrected: Files = field(default_factory=dict)  #: files as the advice says to correct them
    is_whole: bool = True  #: whether the way out leaves nothing of the kind

    def __str__(self) -> str:
        return f"{self.kind} {self.way}".strip()


def ways_out(
    kind: str,
    files: Files,
    *ways: str,
    options: tuple[str, ...] = INDEX,
    blanks: Mapping[str, str] | None = None,
    corrected: Files | None = None,
) -> Iterator[Case]:
    """A case for each way out of a fault, and one for its correction where there is one."""
    for way in ways:
        yield Case(kind, files, options, way, blanks or {})

    if corrected is not None:
        yield Case(kind, files, options, corrected=corrected)


def write(files: Files, folder: Path) -> None:
    """Write the files of a case."""
    for name, content in files.items():
        if isinstance(content, str):
            (folder / name).write_text(content)
        else:
            content.to_csv(folder / name, index=False)


def bars(codes: tuple[str, ...] = CODES, days: tuple[str, ...] = DAYS) -> pd.DataFrame:
    """Bars without a fault, in yuan and whole fen, with a factor."""
    table = pd.DataFrame(product(codes, days), columns=["code", "date"])[["date", "code"]]
    rise = table.groupby("code").cumcount() % 4 / 100
    table = table.assign(open=10.0 + rise, high=10.3, low=9.9, close=10.1 + rise, volume=1000.0)

    return table.assign(amount=10_080.0, factor=1.0).round(2)


def levels(days: tuple[str, ...] = DAYS, code: str = "000688.SH") -> pd.DataFrame:
    """Levels of an index."""
    return pd.DataFrame({"date": days, "code": code, "close": 100.0})


def source(
    table: pd.DataFrame | None = None,
    **others: pd.DataFrame | str,
) -> dict[str, pd.DataFrame | str]:
    """Files of bars and an index; others by their names without `.csv`."""
    files: dict[str, pd.DataFrame | str] = {
        "bars.csv": bars() if table is None else table,
        "index.csv": levels(),
    }
    named = {f"{name}.csv": each for name, each in others.items()}

    return {**files, **named}


RIGHT = source()


def cells(row: int = 12, **values: float) -> pd.DataFrame:
    """The bars with some cells of one row changed."""
    table = bars()
    for name, value in values.items():
        table.loc[row, name] = value

    return table


def more(*rows: dict[str, object]) -> pd.DataFrame:
    """The bars, and the first one again with changes."""
    first = bars().iloc[0].to_dict()
    return pd.concat([bars(), pd.DataFrame([{**first, **row} for row in rows])], ignore_index=True)


def cases() -> Iterator[Case]:
    """At least one for each kind of finding."""
    yield from _cases_of_rows()
    yield from _cases_of_amounts()
    yield from _cases_of_units()
    yield from _cases_of_factors()
    yield from _cases_of_prices()
    yield from _cases_of_series()
    yield from _cases_of_volumes()
    yield from _cases_of_days()
    yield from _cases_of_members()
    yield from _cases_of_names()
    yield from _cases_of_indices()
    yield from _cases_of_documents()
    yield from _cases_of_minutes()


# ---- rows


def _cases_of_rows() -> Iterator[Case]:
    strange = more({"code": "AAPL"})
    yield Case("unknown_codes", source(strange), way="--repair drop_unknown_codes")
    foreign = source(bars(("AAPL", "MSFT")))
    yield from ways_out("unknown_codes", foreign, "--venue us_equity", corrected=RIGHT)
    elsewhere = source(bars(("ANANDRATHI",)))
    venues = ("--venue us_equity", "--venue unrestricted_usd")
    yield from ways_out("unknown_codes", elsewhere, *venues, corrected=RIGHT)
    words = source(more({"code": "BAD CODE!"}))
    yield Case("unknown_symbols", words, (*INDEX, *US), way="--repair drop_unknown_codes")
    yield Case("unknown_symbols", source(bars(("BAD CODE!",))), (*INDEX, *US), corrected=RIGHT)

    yield Case("duplicate_rows", source(more({})), way="--repair drop_duplicates")
    differing = source(more({"close": 10.0}))
    yield from ways_out("conflicting_rows", differing, *KEEP, corrected=RIGHT)

    yield Case("incomplete_bars", source(cells(high=np.nan)), way="--repair derive_high_low")
    yield Case(
        "incomplete_bars",
        source(bars().drop(columns=["high", "low"])),
        way="--repair derive_high_low",
    )
    yield Case("incomplete_bars", source(cells(open=np.nan)), way="--repair drop_impossible")
    yield Case("incomplete_bars", source(bars().assign(open=np.nan)), corrected=RIGHT)

    drop = "--repair drop_impossible"
    yield from ways_out("non_positive_price", source(cells(low=0.0)), drop, corrected=RIGHT)
    yield from ways_out("impossible_bars", source(cells(high=9.0)), drop, corrected=RIGHT)
    yield Case("impossible_bars", source(bars().assign(high=1.0)), corrected=RIGHT)

    last_close = bars()["close"][11]  # which a halt repeats
    yield Case("suspended_rows", source(cells(volume=0.0, **dict.fromkeys(PRICES, last_close))))
    yield Case("missing_volume_rows", source(cells(volume=np.nan)), corrected=RIGHT)
    yield Case("gaps", source(bars().drop(index=12)), corrected=RIGHT)


# ---- amounts and units


def _cases_of_amounts() -> Iterator[Case]:
    own = bars()["code"] == CODES[1]
    bare = bars().assign(amount=bars()["amount"].mask(own))
    silent = bare.assign(volume=bars()["volume"].mask(own))

    yield Case("codes_without_amount", source(bare), way="--repair fill_amount")
    yield Case("codes_without_amount", source(silent), corrected=RIGHT)

    yield Case("missing_amount_rows", source(cells(amount=np.nan)), way="--repair fill_amount")
    mixed = silent.assign(amount=silent["amount"].mask(silent.index == 0))
    yield Case("missing_amount_rows", source(mixed), way="--repair fill_amount")
    yield Case("average_price_outside_bar", source(cells(amount=3e5)), corrected=RIGHT)


def _cases_of_units() -> Iterator[Case]:
    table = bars()
    lots = table.assign(
        volume=table["volume"].where(table["code"] == CODES[2], table["volume"] / 100)
    )
    ways = ("--volume-unit lot,688981.SH=share", "--repair match_units")
    yield from ways_out("wrong_units", source(lots), *ways)
    both = table.assign(volume=table["volume"] / 100, amount=table["amount"] / 1000)
    yield Case("wrong_units", source(both), way="--volume-unit lot --amount-unit thousand_CNY")
    divided = table.assign(factor=3.7, volume=table["volume"] / 3.7)
    yield Case("wrong_units", source(divided), way="--volume divided")
    adjusted = table.assign(factor=3.71, **{name: table[name] * 3.71 for name in PRICES})
    yield Case("wrong_units", source(adjusted), way="--prices adjusted")

    rate = table.rename(columns={"amount": "value"}).assign(amount=table["volume"] / 7e5)
    blanks = {"COLUMN": "value"}
    ways = ("--map amount=", "--repair drop_amount")
    yield from ways_out("turnover_rate", source(rate), *ways, blanks=blanks)
    values = source(table.assign(volume=table["amount"]))
    yield Case("amount_repeats_volume", values, way="--volume-unit value")
    counts = source(table.assign(amount=table["volume"]))
    yield Case("amount_repeats_volume", counts, way="--repair drop_amount")
    strange = table.assign(value=table["amount"], amount=table["amount"] * 37)
    files = source(strange)
    yield from ways_out("unknown_units", files, "--map amount=", blanks=blanks, corrected=RIGHT)
    scaled = table.assign(**{name: (table[name] * 3.71).round(2) for name in PRICES})
    yield Case("units_not_judged", source(scaled.drop(columns="factor")), corrected=RIGHT)

    bare = table.assign(amount=np.nan)
    decimals = bare.assign(volume=10.25)
    yield Case("volume_not_whole", source(decimals), way="--volume-unit lot")
    odd = bare.assign(factor=3.7, volume=1001 / 3.7)
    yield Case("volume_not_whole", source(odd), way="--volume divided")
    yield Case("import_notes", RIGHT)


# ---- factors


def _split(table: pd.DataFrame, ratio: float = 2.0, factor: float | None = None) -> pd.DataFrame:
    """A split of one code on the sixth day, which its prices follow."""
    late = (table["code"] == CODES[1]) & (table["date"] >= DAYS[5])
    names = [*PRICES, "amount"]
    table = table.astype(dict.fromkeys(names, float))
    table.loc[late, names] = (table.loc[late, names] / ratio).round(2)
    table.loc[late, "factor"] = ratio if factor is None else factor

    return table


def _cases_of_factors() -> Iterator[Case]:
    table = bars()
    no_factor = _split(table).drop(columns="factor")
    splits = f"code,date,ratio\n600519.SH,{DAYS[5]},2\n"
    given = source(no_factor, splits=splits)
    yield Case("no_factor", given, way="--splits", blanks={"FILE": "splits.csv"})
    yield Case("no_factor", source(no_factor), corrected=source(_split(table)))

    yield Case("factor_missing", source(cells(factor=np.nan)), way="--repair fill_factor")
    yield Case("factor_non_positive", source(cells(factor=0.0)), way="--repair fill_factor")
    without = source(table.assign(factor=table["factor"].mask(table["code"] == CODES[1])))
    repair = "--repair factor_of_one"
    yield from ways_out("codes_without_factor", without, repair, corrected=RIGHT)

    restarted = table.assign(factor=np.where(table["date"] < DAYS[5], 1.12, 1.0))
    repair = "--repair chain_factor"
    yield from ways_out("factor_jumps", source(restarted), repair, corrected=RIGHT)
    foreign = table.assign(factor=np.where(table["date"] < DAYS[5], 1.0, 4.0), code="AAPL")
    foreign = foreign.drop_duplicates("date").drop(columns="amount")
    yield Case("factor_jumps", source(foreign), (*INDEX, *US), way="--prices adjusted")
    inverse = source(_split(table, 2.0, 0.5))
    yield Case("factor_inverse", inverse, way="--repair invert_factor")

    raw = {f"raw_{name}": table[name] for name in PRICES}
    scaled = table.assign(factor=3.71, amount=np.nan, **raw)
    adjusted = scaled.assign(**{name: table[name] * 3.71 for name in PRICES})
    columns = ",".join(f"{name}=raw_{name}" for name in PRICES)
    ways = ("--prices adjusted", "--map open=")
    blanks = {"open=COLUMN": columns}
    yield from ways_out("prices_look_adjusted", source(adjusted), *ways, blanks=blanks)
    noisy = scaled.assign(**{name: table[name] + 0.0012 for name in PRICES})
    yield Case("prices_look_adjusted", source(noisy), way="--repair round_prices")


# ---- prices and days


def _cases_of_prices() -> Iterator[Case]:
    wrong = cells(row=17, **dict.fromkeys(PRICES, 14.0), amount=14_000.0)
    yield Case("implausible_returns", source(wrong), corrected=RIGHT)

    stock = bars(("AAPL",)).drop(columns=["amount", "factor"])
    stock = stock.assign(volume=1000.0 + np.arange(len(stock)))  # no bar repeats the one before
    small = stock.assign(**dict.fromkeys(PRICES, 0.00337))
    options = (*INDEX, *US)
    yield from ways_out(
        "coarse_ticks",
        source(small),
        "--venue",
        options=options,
        blanks={"--venue": "--venue crypto_spot"},
        corrected=source(stock),
    )
    large = stock.assign(**dict.fromkeys(PRICES, 200000000.0))
    yield Case("untradable_price", source(large), options, corrected=source(stock))

    split = _split(bars(), 15.0)
    bare = split.drop(columns=["factor", "amount"])
    splits = f"code,date,ratio\n600519.SH,{DAYS[5]},15\n"
    given = source(bare, splits=splits)
    yield Case("split_like_moves", given, options, way="--splits", blanks={"FILE": "splits.csv"})
    yield Case("split_like_moves", source(bare), options, corrected=source(split))


MONTHS = tuple(sessions("2024-01-02", "2024-06-28").astype(str))


def bare_stocks(*codes: str) -> pd.DataFrame:
    """US stocks over half a year, without amounts and factors."""
    return bars(codes, MONTHS).drop(columns=["amount", "factor"])


def scaled(table: pd.DataFrame, rows: pd.Series, scale: float) -> pd.DataFrame:
    """The bars with the prices of some rows in another unit."""
    return table.assign(**{name: table[name].mask(rows, table[name] * scale) for name in PRICES})


def _cases_of_series() -> Iterator[Case]:
    options = (*INDEX, *US)
    index = levels(MONTHS)
    stocks = bare_stocks("AAPL", "META")
    is_meta = stocks["code"] == "META"
    right = source(stocks, index=index)

    later = is_meta & (stocks["date"] >= MONTHS[90])
    earlier = is_meta & (stocks["date"] < MONTHS[20])
    third = is_meta & ~later & ~earlier
    two = scaled(stocks, later, 3.4)
    reused = source(two[~third], index=index)
    renamed = two.assign(code=two["code"].mask(earlier, "METV"))
    apart = source(renamed[~third], index=index)
    repairs = ("--repair drop_before_gap", "--repair accept_breaks")
    yield from ways_out("reused_tickers", reused, *repairs, options=options, corrected=apart)

    some = is_meta & stocks["date"].isin(MONTHS[30:33])
    pence = source(scaled(stocks, some, 100), index=index)
    repair = "--repair match_prices"
    yield from ways_out("misplaced_prices", pence, repair, options=options, corrected=right)

    pence = source(scaled(stocks, is_meta & (stocks["date"] >= MONTHS[30]), 100), index=index)
    repair = "--repair accept_breaks"
    yield from ways_out("price_unit_changes", pence, repair, options=options, corrected=right)

    stands = stocks.copy()
    bar = [*PRICES, "volume"]
    stands.loc[41:43, bar] = stocks.loc[[40, 40, 40], bar].to_numpy()
    frozen = source(stands, index=index)
    repairs = ("--repair drop_frozen", "--repair accept_breaks")
    yield from ways_out("frozen_bars", frozen, *repairs, options=options, corrected=right)

    moved = pd.to_datetime(stocks["date"]) + pd.Timedelta(days=1)
    late = source(stocks.assign(date=moved.dt.strftime("%Y-%m-%d")), index=index)
    repair = "--repair shift_days"
    yield from ways_out("shifted_days", late, repair, options=options, corrected=right)

    is_weekly = is_meta & ~stocks["date"].isin(MONTHS[::5])
    weekly = source(stocks[~is_weekly], index=index)
    daily = source(bare_stocks("AAPL"), index=index)
    yield Case("other_intervals", weekly, options, corrected=daily)


def _cases_of_volumes() -> Iterator[Case]:
    options = (*INDEX, *US)
    index = levels(MONTHS)
    stocks = bare_stocks("AAPL", "META")
    late = stocks["date"] >= MONTHS[40]
    volume = stocks["volume"].mask(late, stocks["volume"] / 100)
    lots = source(stocks.assign(volume=volume), index=index)
    ways = ("--volume-unit share,2024-", "--repair accept_breaks")
    yield from ways_out("volume_unit_changes", lots, *ways, options=options)

    average = stocks.assign(volume=stocks["low"] + 0.11, units=stocks["volume"])
    prices = source(average, index=index)
    yield from ways_out(
        "volume_is_price",
        prices,
        "--map volume=",
        options=options,
        blanks={"COLUMN": "units"},
        corrected=source(stocks, index=index),
    )

    coins = bars(("BTC-USD",)).drop(columns=["amount", "factor"])
    values = source(coins.assign(volume=1e8))
    options = (*INDEX, "--venue", "crypto_spot")
    right = source(coins.assign(volume=5e5))
    way = "--volume-unit value"
    yield from ways_out("volume_beyond_supply", values, way, options=options, corrected=right)


def _cases_of_days() -> Iterator[Case]:
    far = more({"date": "2060-01-06"})
    wrong_year = source(far, index=levels((*DAYS, "2060-01-06")))
    yield Case("calendar_unknown", wrong_year, corrected=RIGHT)
    saturday = more({"date": "2024-01-06"})
    at_weekend = source(saturday, index=levels((*DAYS, "2024-01-06")))
    yield Case("calendar_mismatch", at_weekend, way="--repair drop_non_sessions")
    short = bars()[bars()["date"] != DAYS[4]]
    yield Case("calendar_mismatch", source(short), corrected=RIGHT)

    long_days = tuple(sessions("2022-12-01", "2024-01-15").astype(str))
    longer = source(bars(days=long_days), index=levels(long_days))
    yield Case("short_history", RIGHT, corrected=longer)
    early_days = tuple(sessions("2020-08-17", "2020-08-28").astype(str))
    early = source(bars(("300750.SZ", *CODES), early_days), index=levels(early_days))
    yield Case("limits_of_later_years", early)
    late = bars()[lambda table: (table["code"] != CODES[0]) | (table["date"] > DAYS[1])]
    yield Case("listings_assumed", source(late))
    limited = bars().assign(limit_up=11.0, limit_down=9.0)
    beyond = limited.assign(limit_up=10.2)
    yield Case("bar_beyond_limit_prices", source(beyond), corrected=source(limited))
    quoted = bars().assign(bid=10.0, ask=10.2)
    yield Case("impossible_quotes", source(quoted.assign(bid=10.3)), corrected=source(quoted))
    crossed = quoted.assign(bid=[10.3, *[10.0] * (len(quoted) - 1)])
    yield Case("impossible_quotes", source(crossed), way="--repair drop_quotes")
    in_fen = quoted.assign(bid=1000.0, ask=1020.0)
    repair = "--repair drop_quotes"
    yield from ways_out("quotes_far_from_close", source(in_fen), repair, corrected=source(quoted))
    yield Case("one_sided_quotes", source(quoted.assign(ask=0.0, bid=quoted["bid"])))
    old = "430047.BJ"
    new = "920047.BJ"
    spells = [bars((old, *CODES), DAYS[:5]), bars((new, *CODES), DAYS[5:])]
    names = pd.DataFrame(
        [(new, "A", "", DAYS[4], old), (new, "A", DAYS[5], "", new)],
        columns=["code", "name", "in_date", "out_date", "code_then"],
    )
    renumbered = {**source(pd.concat(spells)), "names.csv": names}
    shorter = source(pd.concat([bars(CODES[:1], DAYS[:5]), bars(CODES[1:])]))
    yield from ways_out("ended_codes", shorter, "--delisting-return")
    yield Case("ended_codes", renumbered, way="--names", blanks={"FILE": "names.csv"})
    yield Case("renumbered_codes", renumbered, way="--names", blanks={"FILE": "names.csv"})


# ---- members and names


def _intervals(*rows: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["code", "in_date", "out_date"])


_MEMBERS = _intervals(*((code, "2020-01-01", "") for code in CODES))
_WITH_MEMBERS = (*INDEX, "--members", "members.csv")


def _index_of(count: int) -> dict[str, pd.DataFrame | str]:
    """A market of so many stocks, members of the SSE 50."""
    codes = tuple(f"60{number:04d}.SH" for number in range(count))
    members = _intervals(*((code, "2020-01-01", "") for code in codes))
    both = pd.concat([levels(code="000016.SH"), levels(code="000905.SH"), levels()])

    return source(bars(codes), index=both, members=members)


def _cases_of_members() -> Iterator[Case]:
    spans = {"membership_reversed": "2024-01-10", "membership_overlaps": "2020-01-01"}
    for kind, first in spans.items():
        members = pd.concat([_MEMBERS, _intervals((CODES[0], first, "2024-01-04"))])
        files = source(members=members)
        yield Case(kind, files, _WITH_MEMBERS, way="--repair resolve_overlaps")

    stranger = "600837.SH"
    files = source(members=pd.concat([_MEMBERS, _intervals((stranger, "2020-01-01", ""))]))
    complete = source(bars((*CODES, stranger)))
    yield Case("unpriced_members", files, _WITH_MEMBERS, corrected=complete)
    long_days = tuple(sessions("2022-12-01", "2024-01-15").astype(str))
    left = pd.concat([_MEMBERS, _intervals((stranger, "2020-01-01", long_days[200]))])
    longer = source(bars(days=long_days), index=levels(long_days), members=left)
    yield Case("unpriced_members_in_lookback", longer, _WITH_MEMBERS)

    late = bars()
    late = late[(late["code"] != CODES[0]) | (late["date"] > DAYS[2])]
    files = source(late, members=_MEMBERS)
    right_days = _intervals(
        (CODES[0], DAYS[3], ""), *((code, "2020-01-01", "") for code in CODES[1:])
    )
    yield Case(
        "unrecorded_member_days", files, _WITH_MEMBERS, corrected={"members.csv": right_days}
    )
    yield Case("unrecorded_member_days", files, _WITH_MEMBERS, corrected=RIGHT)

    options = (*INDEX[:3], "000016.SH", "--members", "members.csv")
    yield Case("member_count", _index_of(49), options, corrected=_index_of(50))
    far = {**_index_of(20), "whole.csv": _index_of(50)["members.csv"]}
    yield Case("member_count_far", far, options, way="--members", blanks={"FILE": "whole.csv"})
    other = {"--benchmark-code": "--benchmark-code 000688.SH"}
    yield Case("member_count_far", far, options, way="--benchmark-code", blanks=other)
    yield Case("member_count_far", far, options, way="--repair accept_member_count")


def _cases_of_names() -> Iterator[Case]:
    assets = pd.DataFrame(
        {
            "code": CODES,
            "name": ["Ping An", "Moutai", "SMIC"],
            "industry": ["bank", "wine", "chips"],
        }
    )
    names = assets[["code", "name"]].assign(in_date="2010-01-01", out_date="")
    listed = (*INDEX, "--industry", "assets.csv")
    files = source(assets=assets, names=names)
    yield Case("names_of_one_day", files, listed, way="--names", blanks={"FILE": "names.csv"})
    yield Case("industries_of_one_day", files, listed)
    some = source(assets=assets.iloc[:2])
    yield Case("assets_without_industry", some, listed, corrected={"assets.csv": assets})

    named = (*INDEX, "--names", "names.csv")
    overlap = pd.concat([names, names.iloc[:1].assign(name="Old", in_date="2012-01-01")])
    yield Case("name_days_overlap", source(names=overlap), named, corrected={"names.csv": names})
    shared = names.assign(code_then=[CODES[1], CODES[1], CODES[2]], out_date=["2015-12-31", "", ""])
    shared = shared.assign(in_date=["2010-01-01", "2016-01-01", "2010-01-01"])
    yield Case("code_of_two_assets", source(names=shared), named, corrected={"names.csv": names})


# ---- indices


def _cases_of_indices() -> Iterator[Case]:
    twice = pd.concat([levels(), levels().iloc[:1]])
    yield Case("duplicate_index_rows", source(index=twice), way="--repair drop_duplicates")
    differing = pd.concat([levels(), levels().iloc[:1].assign(close=99.0)])

    files = source(index=differing)
    yield from ways_out("conflicting_index_rows", files, *KEEP, corrected=RIGHT)

    for kind, code in (("benchmark_gaps", "000688.SH"), ("index_gaps", "000905.SH")):
        whole = levels(code=code)
        other = levels() if code != "000688.SH" else whole.iloc[:0]
        inside = pd.concat([other, whole.drop(index=4)])
        yield Case(kind, source(index=inside), way="--repair fill_indices")
        at_start = pd.concat([other, whole.iloc[2:]])
        yield Case(kind, source(index=at_start), way=f"--first {DAYS[2]}")
        in_both = pd.concat([other, whole.drop(index=[0, 1, 4])])
        yield Case(kind, source(index=in_both), way=f"--first {DAYS[2]} --repair fill_indices")
        none = pd.concat([other, whole.assign(close=0.0)])
        yield Case(kind, source(index=none), corrected=RIGHT)


# ---- documents and minutes


def _documents(**changes: object) -> str:
    item = {"published_at": "2024-01-03T10:00:00+08:00", "known_at": "2024-01-03T10:05:00+08:00"}
    item |= {
        "source": "wire",
        "kind": "news",
        "assets": CODES[1],
        "title": "Wine",
        "text": "Wine sells.",
    }
    return json.dumps({**item, **changes}) + "\n"


def _cases_of_documents() -> Iterator[Case]:
    options = (*INDEX, "--documents", "news.jsonl")
    right = {"news.jsonl": _documents()}
    files = {**RIGHT, **right}
    yield Case("documents", files, options)
    entities = {**files, "entities.csv": f"code,kind,text\n{CODES[1]},name,Moutai\n"}
    yield Case(
        "documents_without_entities",
        entities,
        options,
        way="--entities",
        blanks={"FILE": "entities.csv"},
    )

    faults = {
        "documents_known_early": _documents(known_at="2024-01-02T10:05:00+08:00"),
        "documents_empty": _documents(text=" "),
        "documents_repeated": _documents() * 2,
        "documents_of_unknown_assets": _documents(assets="600837.SH"),
    }

    for kind, text in faults.items():
        yield Case(kind, {**RIGHT, "news.jsonl": text}, options, corrected=right)


_MINUTE = {"time": f"{DAYS[1]}T14:31+08:00", "code": CODES[1], "volume": 500}
_MINUTE |= {"open": 10.0, "high": 10.2, "low": 10.0, "close": 10.1}


def _minutes(*changes: dict[str, object]) -> dict[str, pd.DataFrame | str]:
    return {
        **RIGHT,
        "minutes.csv": pd.DataFrame([{**_MINUTE, **change} for change in changes or ({},)]),
    }


def _cases_of_minutes() -> Iterator[Case]:
    options = (*INDEX, "--minutes", "minutes.csv")
    yield Case("minutes", _minutes(), options)

    abroad = (*options, "--minutes-zone", "America/New_York")
    local = _minutes({"time": f"{DAYS[3]}T14:31"})  # a Friday there, a Saturday here
    zone = {"--minutes-zone": "--minutes-zone Asia/Shanghai"}
    yield Case("minutes_without_bar", local, abroad, way="--minutes-zone", blanks=zone)
    weekend = _minutes({"time": "2024-01-06T14:31+08:00"}, {})
    yield Case("minutes_without_bar", weekend, options, corrected=_minutes())

    begins = [{"time": f"{DAYS[1]}T{time}+08:00"} for time in ("09:30", "09:31", "14:59")]
    yield Case("minutes_stamped_at_start", _minutes(*begins), options, way="--minutes-length 1")

    yield Case("minutes_repeated", _minutes({}, {}), options, way="--repair drop_duplicates")
    differing = _minutes({}, {"close": 10.05})

    yield from ways_out(
        "minutes_conflicting", differing, *KEEP, options=options, corrected=_minutes()
    )

    faults: dict[str, dict[str, object]] = {
        "minutes_impossible": {"high": 9.95},
        "minutes_outside_bar": {"high": 10.9},
        "minutes_volume": {"volume": 50_000},
    }

    for kind, change in faults.items():
        yield Case(kind, _minutes(change), options, corrected=_minutes())
