"""Rules of bars (for ingestion, storing and checks), and of tables to them; the blocks that files hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.bar_files import Block, block_of, by_year
from ktdeval_qfinzero.data.layout import BarFile, TableName
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    AssetClass,
    BarKey,
    Bars,
    ContractRow,
    DealRow,
    PriceRows,
    Resolution,
    SymbolRow,
)
from ktdeval_qfinzero.instruments import TICKER, read_contract
from ktdeval_qfinzero.moments import DAY, MINUTE, day_start, moment_text

LARGEST_E4 = 10**14  #: Ten billion dollars: up to here a price is exact as a JSON number too
LARGEST_COUNT = 10**15
FIRST_NS, LAST_NS = 0, 2**62 - 1
"""Moments that data can have: 1970 to the beginning of 2116, as the calendar and news files have it."""
STEP: Mapping[Resolution, int] = {"day": DAY, "minute": MINUTE}  #: Length of a bar


@dataclass(frozen=True, slots=True, eq=False)
class Broken:
    """A rule that some bars break."""

    field: str  #: which column
    expected: str  #: what it must be
    bad: npt.NDArray[np.bool_]  #: [n] which bars


def broken_rules(bars: Bars, asset_class: AssetClass, resolution: Resolution) -> list[Broken]:
    """Return the rules on single bars that are broken."""
    step, start, volume = STEP[resolution], bars.start_ns, bars.volume
    opened, high, low, closed = bars.open_e4, bars.high_e4, bars.low_e4, bars.close_e4
    most = np.maximum(np.maximum(opened, closed), low)
    beginning = f"a bar's start: {'midnight in UTC of its date' if resolution == 'day' else 'a full minute'}, from 1970 to 2115"
    rules = [
        Broken("time", beginning, _outside(start, FIRST_NS, LAST_NS) | (start % step != 0)),
        Broken("open", "a price above 0 and up to 10^10", _outside(opened, 1, LARGEST_E4)),
        Broken("close", "a price above 0 and up to 10^10", _outside(closed, 1, LARGEST_E4)),
        Broken("high", "the highest price of the bar, up to 10^10", (high < most) | (high > LARGEST_E4)),
        Broken("low", "the lowest price of the bar, above 0", (low < 1) | (low > np.minimum(opened, closed))),
        Broken("volume", "a number from 0 to 10^15", ~((volume >= 0) & (volume <= LARGEST_COUNT))),
        Broken("transactions", "a whole number from 0 to 10^15", _outside(bars.transactions, 0, LARGEST_COUNT)),
    ]
    if asset_class != "crypto":
        rules.append(Broken("volume", "a whole number", np.isfinite(volume) & (volume != np.floor(volume))))
    return [rule for rule in rules if rule.bad.any()]


def block_problems(bar_file: BarFile, block: Block) -> list[str]:
    """Return what is wrong with the bars of a file: one line for each broken rule, with how many and the first."""
    broken = broken_rules(block.bars, bar_file.asset_class, bar_file.resolution)
    start = block.bars.start_ns
    within = np.ones(len(block), bool)
    within[block.offsets[:-1]] = False
    steps = np.diff(start, prepend=start[:1])
    broken.append(Broken("time", "each bar once", within & (steps == 0)))
    broken.append(Broken("time", "bars in the order of their starts", within & (steps < 0)))
    years = start.astype("datetime64[ns]").astype("datetime64[Y]").astype(np.int64) + 1970
    broken.append(Broken("time", f"bars that start in {bar_file.year}", years != bar_file.year))
    lines = [_line(block, rule) for rule in broken if rule.bad.any()]
    if list(block.symbols) != sorted(set(block.symbols)):
        lines.append("symbols are not in order, or one is repeated")
    return lines


def _line(block: Block, rule: Broken) -> str:
    rows = np.flatnonzero(rule.bad)
    symbol = block.symbols[int(np.searchsorted(block.offsets, rows[0], side="right")) - 1]
    count = f"{len(rows)} bar{'s' if len(rows) > 1 else ''}"
    first_ns = int(block.bars.start_ns[rows[0]])
    moment = moment_text(first_ns) if FIRST_NS <= first_ns <= LAST_NS else f"{first_ns} ns"
    return f"{rule.field}: expected {rule.expected}: {count} of another kind, first {symbol} at {moment}"


def _outside(values: npt.NDArray[np.int64], least: int, most: int) -> npt.NDArray[np.bool_]:
    outside: npt.NDArray[np.bool_] = (values < least) | (values > most)
    return outside


SHOWN = 100  #: Problems that are listed in full; the rest are only counted


class DatasetRefused(DataError):
    """Rows that can't become (part of) a dataset, by `count` of problems and the first of them. Nothing was written."""

    def __init__(self, problems: Sequence[str], count: int) -> None:
        self.problems = tuple(problems)
        self.count = count
        many = f"1 problem: {problems[0]}" if count == 1 else f"{count} problems, the first: {problems[0]}"
        super().__init__(f"nothing was written: {many}")


@dataclass(slots=True)
class Problems:
    """Collects problems: the first in full, and how many there are."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, line: str) -> None:
        """Add one."""
        self.count += 1
        if len(self.lines) < SHOWN:
            self.lines.append(line)

    def add_all(self, where: str, lines: Sequence[str]) -> None:
        """Add several about one file or table."""
        for line in lines:
            self.add(f"{where}: {line}")

    def refuse(self) -> None:
        """Raise DatasetRefused if there are any."""
        if self.count:
            raise DatasetRefused(self.lines, self.count)


def tables_of(prices: PriceRows) -> dict[TableName, Sequence[Any]]:
    """Return the small tables by name."""
    own: tuple[TableName, ...] = ("symbols", "contracts", "rates", "dividends", "splits", "borrow", "deals")
    return {name: getattr(prices, f"{name.removesuffix('s')}_rows") for name in own}


def blocks_of(prices: PriceRows, problems: Problems) -> Iterator[tuple[BarFile, Block]]:
    """Yield the bars of each file. Series that can't be cut into files are left out and become problems."""
    groups: dict[tuple[AssetClass, Resolution, str], list[BarKey]] = {}
    for key in sorted(prices.bar_table):
        owner = owner_of(key[0], key[1])
        if owner is None:
            problems.add(f"{key[0]} {key[2]} bars of {key[1][:40]!r}: expected {_EXPECTED_SYMBOL[key[0] == 'option']}")
        else:
            groups.setdefault((key[0], key[2], owner), []).append(key)
    for (asset_class, resolution, owner), keys in groups.items():
        years: dict[int, dict[str, Bars]] = {}
        for key in keys:
            bars = prices.bar_table[key]
            problem = _series_problem(bars)
            if problem:
                problems.add(f"{asset_class} {resolution} bars of {key[1]}: {problem}")
                continue
            for year, piece in by_year(bars):
                years.setdefault(year, {})[key[1]] = piece
        for year in sorted(years):
            yield BarFile(asset_class, resolution, owner, year), block_of(years[year])


_EXPECTED_SYMBOL = ("a ticker in capitals", "an OPRA symbol")
_KINDS = {name: np.dtype(np.float64 if name == "volume" else np.int64) for name in BAR_COLUMNS}


def owner_of(asset_class: AssetClass, symbol: str) -> str | None:
    """Return the ticker by which the files of bars are named; None if the symbol is malformed."""
    if asset_class == "option":
        contract = read_contract(symbol)
        return contract.underlying if contract else None
    return symbol if TICKER.fullmatch(symbol) else None


def _series_problem(bars: Bars) -> str:
    """Return why the bars of an instrument can't be cut into years; empty where they can."""
    for name, dtype in _KINDS.items():
        column = getattr(bars, name)
        if column.dtype != dtype or column.shape != (len(bars),):
            return f"{name}: expected an array of {len(bars)} {dtype.name}, as many as start_ns"
    if not len(bars):
        return ""
    if (bars.start_ns[1:] <= bars.start_ns[:-1]).any():
        return "time: expected bars in the order of their starts, each once"
    if bars.start_ns[0] < FIRST_NS or bars.start_ns[-1] > LAST_NS:
        return "time: expected starts from 1970 to 2115"
    return ""


Instrument = tuple[AssetClass, str]
Reaches = dict[Instrument, tuple[int, int]]  #: When the first bar of an instrument was complete, and when its last one starts


def add_reach(reaches: Reaches, bar_file: BarFile, block: Block) -> None:
    """Extend the reaches, in place, by the bars of a file."""
    if not len(block):
        return
    complete_ns = (block.bars.start_ns[block.offsets[:-1]] + STEP[bar_file.resolution]).tolist()
    last = block.bars.start_ns[block.offsets[1:] - 1].tolist()
    for symbol, first_ns, last_ns in zip(block.symbols, complete_ns, last):
        before = reaches.get((bar_file.asset_class, symbol), (first_ns, last_ns))
        reaches[bar_file.asset_class, symbol] = (min(before[0], first_ns), max(before[1], last_ns))


def instrument_problems(reaches: Reaches, symbols: Iterable[SymbolRow], contracts: Mapping[str, ContractRow]) -> Iterator[str]:
    """Yield instruments that have bars and are not in their table, listed after their first bar, or expired before their last."""
    listed = {(row.asset_class, row.symbol): row.listed_ns for row in symbols}
    for (asset_class, symbol), (known_ns, last_ns) in sorted(reaches.items()):
        if asset_class != "option":
            since, last_day = listed.get((asset_class, symbol)), last_ns
        else:
            row = contracts.get(symbol)
            since = None if row is None else row.listed_ns
            last_day = last_ns if row is None else day_start(row.expiry) + DAY - 1
        if since is None:
            table = "contracts" if asset_class == "option" else "symbols"
            yield f"{asset_class} {symbol}: has bars, but is not in {table}"
        elif known_ns <= since:
            yield f"{asset_class} {symbol}: was listed at {moment_text(since)}, after its first bar"
        elif last_ns > last_day:
            yield f"{asset_class} {symbol}: has bars after its expiry"


def reference_problems(symbols: Iterable[SymbolRow], referring: Mapping[TableName, Iterable[Any]]) -> Iterator[str]:
    """Stocks that dividends, splits, borrow or contracts are about and that are not in the table of symbols."""
    stocks = {row.symbol for row in symbols if row.asset_class == "stock"}
    for name, rows in referring.items():
        about = {row.underlying if name == "contracts" else row.symbol for row in rows}
        for symbol in sorted(about - stocks):
            yield f"tables/{name}: {symbol[:40]} is not a stock in symbols"


def deal_problems(deals: Iterable[DealRow]) -> Iterator[str]:
    """Yield stocks of which a share becomes, by one deal after another, a share of the same stock."""
    becomes = {row.symbol: row.into for row in deals}
    for symbol in sorted(becomes):
        into = becomes[symbol]
        for _ in becomes:
            if into == symbol:
                yield f"tables/deals: a share of {symbol} becomes {becomes[symbol]}, and that in the end {symbol} again"
                break
            into = becomes.get(into, "")
