"""Common parts of the tests of dataset folders: a market that crosses new years, folders as bytes, and
crashes at every step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path

import numpy as np

from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    BarKey,
    Bars,
    ContractRow,
    DatasetInfo,
    RateRow,
    SymbolRow,
)
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_start
from support.qfinzero.qfinzero_memory import MemoryPrices, joined_bars
from support.qfinzero.qfinzero_world import at, bars_of, events, news, small_prices

INFO = DatasetInfo("play", True, "", *[date(1970, 1, 1)] * 4, at("2025-01-06T21:00:00Z"))
"""Description of the tests' datasets; days and identity are worked out."""


def random_bars(start_ns: np.ndarray, seed: int, volume: float = 100.0) -> Bars:
    close = (
        np.round(
            100 * np.exp(np.cumsum(np.random.default_rng(seed).normal(0, 0.001, len(start_ns)))), 2
        )
        * 10_000
    )
    return bars_of(start_ns, close, volume)


def long_contracts() -> list[OptionContract]:
    """Some hundred contracts, with expiries on both sides of a new year; one root has a dot."""
    expiries = (date(2024, 12, 20), date(2025, 1, 3), date(2025, 1, 17), date(2026, 1, 16))
    strikes = range(900_000, 1_300_000, 25_000)

    return [
        OptionContract(root, expiry, strike, right)
        for root, expiry, strike, right in product(("AVLN", "A.B"), expiries, strikes, ("C", "P"))
    ]


def long_prices() -> MemoryPrices:
    """Bars over three years and over several row groups, tickers with dots, and the small tables of
    the small market.
    """
    small = small_prices()
    minutes = np.arange(at("2024-12-20T00:00:00Z"), at("2025-01-08T00:00:00Z"), MINUTE)
    days = np.arange(day_start(date(2023, 12, 1)), day_start(date(2025, 3, 1)), DAY)
    table: dict[BarKey, Bars] = {
        ("crypto", "COIN", "minute"): random_bars(minutes, 1, 0.125),
        ("crypto", "COIN", "day"): random_bars(days, 2, 0.5),
        ("stock", "A.B", "day"): random_bars(days[::3], 3),
        ("stock", "AB", "day"): random_bars(days[1::3], 4),
        ("stock", "AVLN", "day"): random_bars(days, 5),
        ("stock", "AVLN", "minute"): random_bars(minutes[:3_000:2], 6),
    }
    contracts = long_contracts()

    for index, contract in enumerate(contracts):
        alive = days[
            (days <= day_start(contract.expiry))
            & (days > day_start(contract.expiry) - (30 + index % 50) * DAY)
        ]
        table["option", contract.symbol, "day"] = random_bars(alive, 100 + index)

    table["option", contracts[0].symbol, "minute"] = random_bars(minutes[:500], 7)
    first = at("2010-01-01T00:00:00Z")
    rows = [
        ContractRow(
            one.symbol, one.underlying, one.expiry, one.strike_e4, one.right, first + index * DAY
        )
        for index, one in enumerate(contracts)
    ]
    symbols = [
        SymbolRow("COIN", "crypto", "Coin", "", first),
        SymbolRow("A.B", "stock", "A, class B", "Energy", first + DAY, True),
        SymbolRow("AB", "stock", "Another", "Energy", first),
        *(replace(row, listed_ns=first) for row in small.symbol_rows if row.symbol != "BTCX"),
    ]

    return MemoryPrices(
        table,
        symbols,
        rows,
        small.rate_rows,
        small.dividend_rows,
        small.split_rows,
        small.borrow_rows,
    )


def _part(days: slice, strike_e4: int, new: str, curve: RateRow, **series: slice) -> MemoryPrices:
    """Some days of AVLN and other series of the small market, an option on AVLN, the symbol that is
    new, a curve.
    """
    small = small_prices()
    contract = OptionContract("AVLN", date(2025, 1, 17), strike_e4, "C")
    rows = {("stock", "AVLN", "day"): days, ("option", contract.symbol, "day"): slice(0, 3)}
    rows |= {("stock", *name.split("_")): part for name, part in series.items()}
    table = {key: small.bar_table[key].take(part) for key, part in rows.items()}  # type: ignore[index]
    row = ContractRow(
        contract.symbol, "AVLN", contract.expiry, strike_e4, "C", at("2024-12-01T00:00:00Z")
    )

    return MemoryPrices(
        table, [row for row in small.symbol_rows if row.symbol == new], [row], [curve]
    )  # type: ignore[arg-type]


def tiny_prices() -> MemoryPrices:
    """One stock with one option, three days, half an hour of minutes."""
    curve = RateRow(date(2025, 1, 2), {"1M": 4.25, "10Y": 4.5}, at("2025-01-02T23:00:00Z"))
    return _part(slice(0, 3), 1_000_000, "AVLN", curve, AVLN_minute=slice(0, 30))


def more_prices() -> MemoryPrices:
    """Later additions to the tiny market: another day, a new stock, a contract, a rate."""
    curve = RateRow(date(2025, 1, 3), {"1M": 4.5}, at("2025-01-03T23:00:00Z"))
    return _part(slice(3, 5), 1_050_000, "BRKT", curve, BRKT_day=slice(0, 5))


def together(first: MemoryPrices, second: MemoryPrices) -> MemoryPrices:
    """All rows of two markets."""
    table = dict(first.bar_table)
    for key, bars in second.bar_table.items():
        table[key] = joined_bars(table[key], bars) if key in table else bars

    lists = (
        "symbol_rows",
        "contract_rows",
        "rate_rows",
        "dividend_rows",
        "split_rows",
        "borrow_rows",
    )

    return replace(
        first,
        bar_table=table,
        **{name: [*getattr(first, name), *getattr(second, name)] for name in lists},
    )


def save_tiny(folder: Path) -> DatasetInfo:
    return save_dataset(folder, tiny_prices(), events()[:2], news()[:2], INFO)


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def equal_bars(one: Bars, other: Bars) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in BAR_COLUMNS)


STEPS = ("mkdir", "rename", "replace", "fsync", "unlink", "rmdir")
"""Calls of the system by which files become part of a dataset, or cease to be."""


@contextmanager
def failing_at(step: int, fail: Callable[[], None]) -> Iterator[list[str]]:
    """Call `fail` before the step-th such call and each later one; gives the calls that were
    made.
    """
    made: list[str] = []
    originals = {name: getattr(os, name) for name in STEPS}

    def broken(name: str) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            made.append(name)
            if len(made) >= step:
                fail()

            return originals[name](*arguments, **options)

        return call

    for name in STEPS:
        setattr(os, name, broken(name))

    try:
        yield made
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


def disk_full() -> None:
    raise OSError(28, "No space left on device")
