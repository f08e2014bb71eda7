"""From rows in memory to the blocks that files hold, with everything wrong about them said at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.bar_files import Block, block_of, by_year
from ktdeval_qfinzero.data.bar_rules import FIRST_NS, LAST_NS
from ktdeval_qfinzero.data.layout import BarsPlace, TableName
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, AssetClass, BarKey, Bars, PriceRows, Resolution
from ktdeval_qfinzero.instruments import TICKER, read_contract

SHOWN = 100  #: Problems that are told in full; of the rest only how many there are


class DatasetRefused(DataError):
    """Rows that can't become a dataset, or part of one. Nothing was written. `problems`: one line each, the first of them; `count`:
    of all.
    """

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
        """Add several about one place."""
        for line in lines:
            self.add(f"{where}: {line}")

    def refuse(self) -> None:
        """Raise DatasetRefused if there are any."""
        if self.count:
            raise DatasetRefused(self.lines, self.count)


def tables_of(prices: PriceRows) -> dict[TableName, Sequence[Any]]:
    """Return the small tables by name."""
    return {
        "symbols": prices.symbol_rows,
        "contracts": prices.contract_rows,
        "rates": prices.rate_rows,
        "dividends": prices.dividend_rows,
        "splits": prices.split_rows,
        "borrow": prices.borrow_rows,
    }


def blocks_of(prices: PriceRows, problems: Problems) -> Iterator[tuple[BarsPlace, Block]]:
    """Yield the bars of each file. Series that can't be cut into files are left out and become problems."""
    groups: dict[tuple[AssetClass, Resolution, str], list[BarKey]] = {}
    for key in sorted(prices.bar_table):
        owner = _owner(key)
        if owner is None:
            problems.add(f"{key[0]} {key[2]} bars of {key[1][:40]!r}: expected {_WANTED[key[0] == 'option']}")
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
            yield BarsPlace(asset_class, resolution, owner, year), block_of(years[year])


_WANTED = ("a ticker in capitals", "an OPRA symbol")


def _owner(key: BarKey) -> str | None:
    """Return the ticker by which the files of bars are named; None where the symbol is none."""
    asset_class, symbol, _ = key
    if asset_class == "option":
        contract = read_contract(symbol)
        return contract.underlying if contract else None
    return symbol if TICKER.fullmatch(symbol) else None


def _series_problem(bars: Bars) -> str:
    """Return why the bars of an instrument can't be cut into years; empty where they can."""
    for name in BAR_COLUMNS:
        wanted = np.dtype(np.float64 if name == "volume" else np.int64)
        column = getattr(bars, name)
        if column.dtype != wanted or column.shape != (len(bars),):
            return f"{name}: expected an array of {len(bars)} {wanted.name}, as many as start_ns"
    if not len(bars):
        return ""
    if (np.diff(bars.start_ns) <= 0).any():
        return "time: expected bars in the order of their starts, each once"
    if bars.start_ns[0] < FIRST_NS or bars.start_ns[-1] > LAST_NS:
        return "time: expected starts from 1970 to 2115"
    return ""
