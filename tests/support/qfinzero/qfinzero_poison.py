"""A dataset whose future is another one: what a service says as of a moment must not change when
all that is not yet known does.

`poison` alters, deletes and adds rows of every store (bars, symbols, contracts, rates, dividends,
splits, borrow, calendar events, their releases, news) wherever they are not known at the moment,
and leaves every known row as it was. What is known is judged here from the rows themselves, not by
`View`, which is under test. `info` stays: it describes the files, not the market.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from itertools import chain, product
from typing import Any, TypeVar

import numpy as np

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import (
    BarKey,
    Bars,
    BorrowRow,
    ContractRow,
    DividendRow,
    EventRelease,
    EventRow,
    NewsRow,
    RateRow,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.data.schema import TABLES, TableName
from ktdeval_qfinzero.data.writing import tables_of
from ktdeval_qfinzero.instruments import OptionContract, read_contract
from ktdeval_qfinzero.timestamps import DAY, MINUTE, SECOND, day_of, day_start
from ktdeval_qfinzero.trading_hours import trading_hours
from support.qfinzero.qfinzero_memory import MemoryCalendars, MemoryNews, MemoryPrices, joined_bars
from support.qfinzero.qfinzero_upq import MINUTE_OPTION, market
from support.qfinzero.qfinzero_world import at, bars_of, with_prices

Row = TypeVar("Row")
NEW_STOCK = "ZNEW"
NEW_COIN = "ZCOIN"
"""A stock and a coin that are listed only after the moment, with bars from before it all the
same.
"""
NEAR = MINUTE_OPTION
FAR = "O:AVLN250117C00105000"
PUT = "O:AVLN250221P00100000"
LATER = "O:AVLN250221C00115000"
NEVER = "O:AVLN250221C00116000"
"""Contracts on AVLN: two calls that expire soon, a put that expires later, one that is listed late,
and one that never is.
"""


@cache
def small_world() -> Dataset:
    """The small market with more to come: an option with minutes, one that is listed late, actions,
    locates, estimates.
    """
    prices, calendars, _ = in_memory(market())
    days = prices.bar_table["stock", "AVLN", "day"].start_ns
    late = days[(days >= day_start(date(2025, 1, 10))) & (days <= day_start(date(2025, 2, 21)))]
    later = read_contract(LATER)

    assert later is not None

    listed = ContractRow(
        LATER, "AVLN", later.expiry, later.strike_e4, later.right, at("2025-01-08T21:00:00Z")
    )
    dividends = [
        DividendRow("BRKT", date(2025, 1, 8), date(2025, 1, 20), 4_000, at("2025-01-06T22:00:00Z")),
        DividendRow(
            "CSTL", date(2025, 1, 22), date(2025, 2, 3), 12_345, at("2025-01-15T12:00:00Z")
        ),
        DividendRow(
            "AVLN", date(2025, 2, 10), date(2025, 2, 20), 2_600, at("2025-02-03T12:00:00Z")
        ),
    ]
    splits = [
        SplitRow("BRKT", date(2025, 1, 29), 1, 10, at("2025-01-27T12:00:00Z")),
        SplitRow("AVLN", date(2025, 2, 5), 3, 2, at("2025-02-04T22:00:00Z")),
    ]
    borrow = [
        BorrowRow("BRKT", at("2025-01-08T12:00:00Z"), 50, 3_000),
        BorrowRow("AVLN", at("2025-01-15T12:00:00Z"), 0, 9_000),
    ]
    estimated = EventRow(
        "econ_estimated",
        "macro_calendar",
        "Estimated anew",
        at("2025-01-09T15:00:00Z"),
        at("2025-01-02T12:00:00Z"),
        "high",
        expected={"consensus": 1.0},
        releases=(
            EventRelease(at("2025-01-08T12:00:00Z"), {"consensus": 1.5}),
            EventRelease(at("2025-01-09T15:00:00Z"), {"actual": [1.4, {"core": 1.3}]}),
        ),
    )
    further = with_prices(
        market(),
        {("option", LATER, "day"): bars_of(late, np.full(len(late), 20_000), 300.0)},
        contract_rows=[*prices.contract_rows, listed],
        dividend_rows=[*prices.dividend_rows, *dividends],
        split_rows=[*prices.split_rows, *splits],
        borrow_rows=[*prices.borrow_rows, *borrow],
    )

    return replace(further, calendars=MemoryCalendars([*calendars.rows, estimated]))


def poison(dataset: Dataset, as_of_ns: int) -> Dataset:
    """The dataset with everything that is not known at a moment altered, deleted or added to;
    stores in memory only.
    """
    prices, calendars, news = in_memory(dataset)
    return replace(
        dataset,
        prices=_prices(prices, as_of_ns),
        calendars=MemoryCalendars(_events(calendars.rows, as_of_ns)),
        news=MemoryNews(_news(news.rows, as_of_ns)),
    )


def lawful(dataset: Dataset) -> Dataset:
    """A poisoned dataset without the rows that no file takes, such as bars from before a
    listing.
    """
    prices, calendars, news = in_memory(dataset)
    tables = tables_of(prices)
    allowed: dict[str, dict[Any, Any]] = {name: {} for name in tables}

    for name, rows in tables.items():
        for row in without_faults(name, rows):  # those that are known come first
            allowed[name].setdefault(TABLES[name].key_of(row), row)

    since = {
        ("option", row.symbol): (row.listed_ns, day_start(row.expiry))
        for row in allowed["contracts"].values()
    }
    since |= {
        (row.asset_class, row.symbol): (row.listed_ns, 2**62) for row in allowed["symbols"].values()
    }
    table = {}

    for key, bars in prices.bar_table.items():
        listed_ns, last_ns = since.get(key[:2], (2**62, 0))
        step = DAY if key[2] == "day" else MINUTE
        table[key] = bars.take((bars.start_ns + step > listed_ns) & (bars.start_ns < last_ns + DAY))

    small = {
        f"{name.removesuffix('s')}_rows": list(entries.values())
        for name, entries in allowed.items()
    }

    return replace(
        dataset,
        prices=MemoryPrices({key: bars for key, bars in table.items() if len(bars)}, **small),
        calendars=MemoryCalendars(without_faults("events", calendars.rows)),
        news=MemoryNews(without_faults("news", news.rows)),
    )


def without_faults(name: TableName, rows: Sequence[Any]) -> list[Any]:
    """The rows that break no rule of their table."""
    faults, _ = TABLES[name].faults(rows)
    broken = {fault.number for fault in faults}
    return [row for number, row in enumerate(rows) if number not in broken]


def in_memory(dataset: Dataset) -> tuple[MemoryPrices, MemoryCalendars, MemoryNews]:
    """The stores of a dataset of the tests, which are in memory."""
    prices = dataset.prices
    calendars = dataset.calendars
    news = dataset.news

    assert isinstance(prices, MemoryPrices)
    assert isinstance(calendars, MemoryCalendars)
    assert isinstance(news, MemoryNews)

    return prices, calendars, news


def known_bars(key: BarKey, bars: Bars, as_of_ns: int) -> np.ndarray:
    """[n] whether each bar is complete at a moment, from the rule itself: end of minute, session
    close, midnight after.
    """
    asset_class, _, resolution = key

    if resolution == "minute":
        return np.asarray(bars.start_ns + MINUTE <= as_of_ns)

    if asset_class == "crypto":
        return np.asarray(bars.start_ns + DAY <= as_of_ns)

    hours = trading_hours()

    return np.array(
        [hours.close_of(day_of(int(start))) <= as_of_ns for start in bars.start_ns], dtype=bool
    )


def _prices(prices: MemoryPrices, as_of_ns: int) -> MemoryPrices:
    stocks = [row.symbol for row in prices.symbol_rows if row.asset_class == "stock"]
    underlyings = sorted({row.underlying for row in prices.contract_rows} | {NEW_STOCK})
    later = as_of_ns + 1
    day = day_of(as_of_ns)

    def around(days: int) -> date:
        return day + timedelta(days=days)

    return MemoryPrices(
        _bar_table(prices, as_of_ns),
        [
            *_rows(
                prices.symbol_rows, "listed_ns", as_of_ns, lambda row: replace(row, name="Poisoned")
            ),
            SymbolRow(NEW_STOCK, "stock", "New Stock", "new", later, True),
            SymbolRow(NEW_COIN, "crypto", "New Coin", "crypto", later),
        ],
        _rows(
            prices.contract_rows,
            "listed_ns",
            as_of_ns,
            lambda row: replace(row, listed_ns=row.listed_ns + DAY),
        )
        + [
            ContractRow(one.symbol, one.underlying, one.expiry, one.strike_e4, one.right, later)
            for one in chain.from_iterable(new_contracts(name, as_of_ns) for name in underlyings)
        ],
        _rows(prices.rate_rows, "available_ns", as_of_ns, _other_curve)
        + [RateRow(around(days), {"1M": 66.0, "30Y": 6.0}, later) for days in (-1, 0, 1)],
        _rows(
            prices.dividend_rows,
            "declared_ns",
            as_of_ns,
            lambda row: replace(row, amount_e4=row.amount_e4 * 3),
        )
        + [
            DividendRow(name, around(days), around(days + 9), 6_600, later)
            for name, days in product(stocks, (-2, 0, 3))
        ],
        _rows(
            prices.split_rows, "announced_ns", as_of_ns, lambda row: replace(row, new=row.new + 5)
        )
        + [SplitRow(name, around(days), 6, 1, later) for name, days in product(stocks, (-3, 0, 2))],
        _rows(
            prices.borrow_rows,
            "available_ns",
            as_of_ns,
            lambda row: replace(row, shares=row.shares + 66),
        )
        + [BorrowRow(name, later, 0, 66_600) for name in [*stocks, NEW_STOCK]],
    )


def _rows(
    rows: Sequence[Row], known_from: str, as_of_ns: int, alter: Callable[[Row], Row]
) -> list[Row]:
    """Known rows as they are; of the others every second is altered, the rest deleted; in the
    opposite order.
    """
    known = [row for row in rows if getattr(row, known_from) <= as_of_ns]
    others = [row for row in rows if getattr(row, known_from) > as_of_ns]

    return [*reversed(known), *(alter(row) for row in others[::2])]


def _other_curve(row: RateRow) -> RateRow:
    return replace(
        row, yields_pct={tenor: 3 * value + 1 for tenor, value in row.yields_pct.items()}
    )


def new_contracts(underlying: str, as_of_ns: int) -> list[OptionContract]:
    """Contracts that nobody can know of yet: an expiry past and two to come, at a strike off the
    usual grid.
    """
    day = day_of(as_of_ns)
    expiries: list[date] = [day + timedelta(days=days) for days in (-3, 2, 33)]

    return [
        OptionContract(underlying, expiry, 1_015_000, right)
        for expiry, right in product(expiries, ("C", "P"))
    ]  # type: ignore[arg-type]


def _bar_table(prices: MemoryPrices, as_of_ns: int) -> dict[BarKey, Bars]:
    table = {key: _poisoned(key, bars, as_of_ns) for key, bars in prices.bar_table.items()}
    new: list[BarKey] = [
        ("stock", NEW_STOCK, "day"),
        ("stock", NEW_STOCK, "minute"),
        ("crypto", NEW_COIN, "day"),
    ]
    new += [("crypto", NEW_COIN, "minute")]
    underlyings = {row.underlying for row in prices.contract_rows} | {NEW_STOCK}
    listed = {row.symbol for row in prices.contract_rows}

    for name in sorted(underlyings):
        symbols = [
            contract.symbol
            for contract in new_contracts(name, as_of_ns)
            if contract.symbol not in listed
        ]
        for symbol in symbols:
            new += [("option", symbol, "day"), ("option", symbol, "minute")]

    starts = {resolution: _recent(resolution, as_of_ns) for resolution in ("day", "minute")}

    return table | {
        key: _made_up(np.union1d(starts[key[2]], _coming(key, as_of_ns))) for key in new
    }


def _poisoned(key: BarKey, bars: Bars, as_of_ns: int) -> Bars:
    known = known_bars(key, bars, as_of_ns)
    rest = bars.take(~known)
    rest = rest.take(np.arange(len(rest)) % 3 != 2)  # every third of them is deleted
    added = np.setdiff1d(_coming(key, as_of_ns), bars.start_ns)
    wrong = Bars(
        rest.start_ns,
        *(3 * getattr(rest, f"{name}_e4") for name in ("open", "high", "low", "close")),
        rest.volume * 7,
        rest.transactions + 66,
    )

    return joined_bars(bars.take(known), wrong, _made_up(added))


def _coming(key: BarKey, as_of_ns: int) -> np.ndarray:
    """Starts of the next bars that are not complete at the moment."""
    if key[2] == "minute":
        first = (as_of_ns - MINUTE) // MINUTE * MINUTE + MINUTE
        return np.arange(first, first + 5 * MINUTE, MINUTE, dtype=np.int64)

    if key[0] == "crypto":
        return np.arange(as_of_ns // DAY * DAY, as_of_ns + 5 * DAY, DAY, dtype=np.int64)

    hours = trading_hours()
    first = int(np.searchsorted(hours.close_ns, as_of_ns, side="right"))

    return np.array([day_start(hours.day(row)) for row in range(first, first + 5)], dtype=np.int64)


def _recent(resolution: str, as_of_ns: int) -> np.ndarray:
    """Starts of bars that are complete at the moment, for instruments that are not listed yet."""
    if resolution == "minute":
        return np.arange(
            as_of_ns // MINUTE * MINUTE - 5 * MINUTE, as_of_ns - MINUTE + 1, MINUTE, dtype=np.int64
        )

    hours = trading_hours()
    last = int(np.searchsorted(hours.close_ns, as_of_ns, side="right"))

    return np.array([day_start(hours.day(row)) for row in range(last - 5, last)], dtype=np.int64)


def _made_up(start_ns: np.ndarray) -> Bars:
    count = len(start_ns)
    price = np.full(count, 6_660_000, np.int64)
    return Bars(
        start_ns,
        price,
        price + 100,
        price - 100,
        price,
        np.full(count, 666.0),
        np.full(count, 6, np.int64),
    )


def _events(rows: Sequence[EventRow], as_of_ns: int) -> list[EventRow]:
    wrong: dict[str, Any] = {"title": "Poisoned", "importance": "low", "expected": {"eps": 66.6}}
    changed = _rows(
        rows, "announced_ns", as_of_ns, lambda row: replace(row, **wrong, time_ns=row.time_ns + DAY)
    )
    later = as_of_ns + 1
    shifts = {"past": -3_600 * SECOND, "now": 0, "soon": 3_600 * SECOND}
    added = [
        EventRow(
            f"earn_{name}_{when}",
            "earnings",
            "Poisoned",
            as_of_ns + shift,
            later,
            "high",
            (name,),
            expected={"eps": 66.6},
        )
        for name, (when, shift) in product(("AVLN", "BRKT"), shifts.items())
    ]

    return [replace(row, releases=_releases(row, as_of_ns)) for row in changed + added]


def _releases(row: EventRow, as_of_ns: int) -> tuple[EventRelease, ...]:
    """Released values as they are; what is released later is replaced."""
    known = tuple(release for release in row.releases if release.available_ns <= as_of_ns)
    wrong: dict[str, Any] = {"actual": 66.6, "eps_actual": 66.6}

    return (
        *known,
        EventRelease(as_of_ns + 1, wrong),
        EventRelease(as_of_ns + DAY, {**wrong, "previous": 6.6}),
    )


def _news(rows: Sequence[NewsRow], as_of_ns: int) -> list[NewsRow]:
    changed = _rows(
        rows,
        "published_ns",
        as_of_ns,
        lambda row: replace(row, title="Poisoned", body="Poisoned", importance="high"),
    )
    template = rows[0] if rows else None

    if template is None:
        return changed

    added = [
        replace(
            template,
            id=f"news_poison_{later}",
            title="Poisoned",
            body="Poisoned Avalon",
            published_ns=as_of_ns + later,
            importance="high",
            event_type="breaking_news",
            tickers=("AVLN", "BRKT", "CSTL"),
        )
        for later in (1, 60 * SECOND, DAY)
    ]

    return changed + added
