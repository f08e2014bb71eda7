"""Rules that bars and tables must follow, in ingestion, when stored and in checks; and the bars of
each file as a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.bar_files import BarBlock, block_of, by_year
from ktdeval_qfinzero.data.layout import BarFile, TableName
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    AssetClass,
    Bars,
    ContractRow,
    DealRow,
    PriceRows,
    Resolution,
    SymbolRow,
)
from ktdeval_qfinzero.instruments import TICKER, read_contract
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_start, moment_text

#: Largest price, ten billion dollars: up to here prices are exact as numbers of JSON, too
LARGEST_E4 = 10**14
LARGEST_COUNT = 10**15

#: First and last moment of data, 1970 to the beginning of 2116, as in the stores of events and news
FIRST_NS = 0
LAST_NS = 2**62 - 1

STEP: Mapping[Resolution, int] = {"day": DAY, "minute": MINUTE}  #: Length of a bar


@dataclass(frozen=True, slots=True, eq=False)
class BrokenRule:
    """A rule, and the bars that break it."""

    field: str  #: column
    expected: str  #: rule for its values
    bad: npt.NDArray[np.bool_]  #: [n] whether a bar breaks it


def broken_rules(bars: Bars, asset_class: AssetClass, resolution: Resolution) -> list[BrokenRule]:
    """Return the broken rules among those on single bars."""
    start = bars.start_ns
    volume = bars.volume
    opened = bars.open_e4
    high = bars.high_e4
    low = bars.low_e4
    closed = bars.close_e4

    begins = "a full minute"
    if resolution == "day":
        begins = "midnight in UTC of its date"
    start_rule = f"a bar's start: {begins}, from 1970 to 2115"
    bad_start = _outside(start, FIRST_NS, LAST_NS) | (start % STEP[resolution] != 0)

    price_rule = "a price above 0 and up to 10^10"
    highest = np.maximum(np.maximum(opened, closed), low)
    lowest = np.minimum(opened, closed)
    bad_high = (high < highest) | (high > LARGEST_E4)
    bad_low = (low < 1) | (low > lowest)

    # The negation also finds NaN, which no comparison does.
    bad_volume = ~((volume >= 0) & (volume <= LARGEST_COUNT))
    bad_transactions = _outside(bars.transactions, 0, LARGEST_COUNT)
    rules = [
        BrokenRule("time", start_rule, bad_start),
        BrokenRule("open", price_rule, _outside(opened, 1, LARGEST_E4)),
        BrokenRule("close", price_rule, _outside(closed, 1, LARGEST_E4)),
        BrokenRule("high", "the highest price of the bar, up to 10^10", bad_high),
        BrokenRule("low", "the lowest price of the bar, above 0", bad_low),
        BrokenRule("volume", "a number from 0 to 10^15", bad_volume),
        BrokenRule("transactions", "a whole number from 0 to 10^15", bad_transactions),
    ]

    # Coins trade in fractions.
    if asset_class != "crypto":
        is_fraction = np.isfinite(volume) & (volume != np.floor(volume))
        rules.append(BrokenRule("volume", "a whole number", is_fraction))

    return [rule for rule in rules if rule.bad.any()]


def block_problems(bar_file: BarFile, block: BarBlock) -> list[str]:
    """Return the problems of a file's bars: a line for each broken rule, with the number of bars
    and the first of them.
    """
    broken = broken_rules(block.bars, bar_file.asset_class, bar_file.resolution)
    start = block.bars.start_ns

    # The first bar of a symbol follows no other: its step is no error.
    within = np.ones(len(block), bool)
    within[block.offsets[:-1]] = False
    steps = np.diff(start, prepend=start[:1])
    years = start.astype("datetime64[ns]").astype("datetime64[Y]").astype(np.int64) + 1970
    broken.append(BrokenRule("time", "each bar once", within & (steps == 0)))
    broken.append(BrokenRule("time", "bars in the order of their starts", within & (steps < 0)))
    broken.append(BrokenRule("time", f"bars that start in {bar_file.year}", years != bar_file.year))
    lines = [_broken_rule_line(block, rule) for rule in broken if rule.bad.any()]

    if list(block.symbols) != sorted(set(block.symbols)):
        lines.append("symbols are not in order, or one is repeated")

    return lines


def _broken_rule_line(block: BarBlock, rule: BrokenRule) -> str:
    """Describe the bars that break a rule."""
    rows = np.flatnonzero(rule.bad)
    first = rows[0]
    symbol = block.symbols[int(np.searchsorted(block.offsets, first, side="right")) - 1]
    bars = "1 bar" if len(rows) == 1 else f"{len(rows)} bars"
    first_ns = int(block.bars.start_ns[first])
    moment = f"{first_ns} ns"
    if FIRST_NS <= first_ns <= LAST_NS:
        moment = moment_text(first_ns)

    return (
        f"{rule.field}: expected {rule.expected}: {bars} of another kind, first {symbol} at"
        f" {moment}"
    )


def _outside(values: npt.NDArray[np.int64], least: int, most: int) -> npt.NDArray[np.bool_]:
    outside: npt.NDArray[np.bool_] = (values < least) | (values > most)
    return outside


SHOWN = 100  #: Problems listed in full; further ones are only counted
MAX_PROBLEMS = 100_000  #: Counted; reading ends with the last of them


class DatasetRefused(DataError):
    """Malformed rows of a dataset: their number, and the first problems in full. Nothing was
    written.
    """

    def __init__(self, problems: Sequence[str], count: int) -> None:
        self.problems = tuple(problems)
        self.count = count
        if count == 1:
            found = f"1 problem: {problems[0]}"
        elif count < MAX_PROBLEMS:
            found = f"{count} problems, the first: {problems[0]}"
        else:
            found = f"{count} problems or more, the first: {problems[0]}"
        super().__init__(f"nothing was written: {found}")


@dataclass(slots=True)
class ProblemList:
    """Collects problems, the first ones in full, and counts up to `MAX_PROBLEMS`."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, line: str) -> None:
        """Add a problem. Raises DatasetRefused: there are too many to go on."""
        self.count += 1
        if len(self.lines) < SHOWN:
            self.lines.append(line)
        if self.count >= MAX_PROBLEMS:
            self.refuse()

    def add_all(self, where: str, lines: Sequence[str]) -> None:
        """Add problems of one file or table."""
        for line in lines:
            self.add(f"{where}: {line}")

    def refuse(self) -> None:
        """Raise DatasetRefused if there are any."""
        if self.count:
            raise DatasetRefused(self.lines, self.count)


def tables_of(prices: PriceRows) -> dict[TableName, Sequence[Any]]:
    """Return the small tables by name."""
    own: tuple[TableName, ...] = (
        "symbols",
        "contracts",
        "rates",
        "dividends",
        "splits",
        "borrow",
        "deals",
    )
    return {name: getattr(prices, f"{name.removesuffix('s')}_rows") for name in own}


def blocks_of(prices: PriceRows, problems: ProblemList) -> Iterator[tuple[BarFile, BarBlock]]:
    """Yield the bars of each file. Malformed series are reported as problems instead."""
    groups: dict[tuple[AssetClass, Resolution, str], list[str]] = {}
    for asset_class, symbol, resolution in sorted(prices.bar_table):
        owner = owner_of(asset_class, symbol)
        if owner is not None:
            groups.setdefault((asset_class, resolution, owner), []).append(symbol)
            continue

        expected = "a ticker in capitals"
        if asset_class == "option":
            expected = "an OPRA symbol"
        problems.add(f"{asset_class} {resolution} bars of {symbol[:40]!r}: expected {expected}")

    for (asset_class, resolution, owner), symbols in groups.items():
        years: dict[int, dict[str, Bars]] = {}
        for symbol in symbols:
            bars = prices.bar_table[asset_class, symbol, resolution]
            problem = _series_problem(bars)
            if problem:
                problems.add(f"{asset_class} {resolution} bars of {symbol}: {problem}")
                continue

            for year, piece in by_year(bars):
                years.setdefault(year, {})[symbol] = piece

        for year in sorted(years):
            yield BarFile(asset_class, resolution, owner, year), block_of(years[year])


def owner_of(asset_class: AssetClass, symbol: str) -> str | None:
    """Return the ticker in the name of the bars' file; None if the symbol is malformed."""
    if asset_class != "option":
        return symbol if TICKER.fullmatch(symbol) else None

    contract = read_contract(symbol)
    return None if contract is None else contract.underlying


def _series_problem(bars: Bars) -> str:
    """Return the problem of an instrument's series as a whole; empty if there is none."""
    for name in BAR_COLUMNS:
        dtype = np.dtype(np.float64 if name == "volume" else np.int64)
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
#: By instrument: the end of its first bar, and the start of its last bar
Reaches = dict[Instrument, tuple[int, int]]


def add_reach(reaches: Reaches, bar_file: BarFile, block: BarBlock) -> None:
    """Extend the reaches, in place, by the bars of a file."""
    if not len(block):
        return

    starts = block.bars.start_ns
    first_end = (starts[block.offsets[:-1]] + STEP[bar_file.resolution]).tolist()
    last_start = starts[block.offsets[1:] - 1].tolist()
    for symbol, first_ns, last_ns in zip(block.symbols, first_end, last_start):
        instrument = (bar_file.asset_class, symbol)
        known_first, known_last = reaches.get(instrument, (first_ns, last_ns))
        reaches[instrument] = (min(known_first, first_ns), max(known_last, last_ns))


def instrument_problems(
    reaches: Reaches, symbols: Iterable[SymbolRow], contracts: Mapping[str, ContractRow]
) -> Iterator[str]:
    """Yield a problem for each instrument whose bars contradict its table: it is missing, was
    listed after its first bar, or expired before its last bar.
    """
    listed: dict[Instrument, int] = {}
    for each in symbols:
        listed[each.asset_class, each.symbol] = each.listed_ns

    for (asset_class, symbol), (first_ns, last_ns) in sorted(reaches.items()):
        table = "symbols"
        listed_ns = listed.get((asset_class, symbol))
        end_ns = last_ns
        if asset_class == "option":
            table = "contracts"
            listed_ns = None
            row = contracts.get(symbol)
            if row is not None:
                listed_ns = row.listed_ns
                end_ns = day_start(row.expiry) + DAY - 1

        name = f"{asset_class} {symbol}"
        if listed_ns is None:
            yield f"{name}: has bars, but is not in {table}"
        elif first_ns <= listed_ns:
            yield f"{name}: was listed at {moment_text(listed_ns)}, after its first bar"
        elif last_ns > end_ns:
            yield f"{name}: has bars after its expiry"


def reference_problems(
    symbols: Iterable[SymbolRow], referring: Mapping[TableName, Iterable[Any]]
) -> Iterator[str]:
    """Yield a problem for each stock that another table names and the table of symbols lacks."""
    stocks = {row.symbol for row in symbols if row.asset_class == "stock"}
    for name, rows in referring.items():
        column = "underlying" if name == "contracts" else "symbol"
        named = {getattr(row, column) for row in rows}
        for symbol in sorted(named - stocks):
            yield f"tables/{name}: {symbol[:40]} is not a stock in symbols"


def deal_problems(deals: Iterable[DealRow]) -> Iterator[str]:
    """Yield a problem for each stock that its own deals turn back into itself."""
    becomes = {row.symbol: row.into for row in deals}
    for symbol in sorted(becomes):
        into = becomes[symbol]
        # A chain without a cycle has at most as many deals as there are.
        for _ in becomes:
            if into == symbol:
                yield (
                    f"tables/deals: a share of {symbol} becomes {becomes[symbol]}, and that in the"
                    f" end {symbol} again"
                )
                break

            into = becomes.get(into, "")
