"""From CSV and JSON files to a dataset folder: everything is read and checked first, and nothing is written if a row is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Literal

from ktdeval.errors import ConfigError
from ktdeval_qfinzero.data.blocks import Problems
from ktdeval_qfinzero.data.folder import save_dataset
from ktdeval_qfinzero.data.ingest_bars import BarReader, moment_of
from ktdeval_qfinzero.data.ingest_rows import RowReader
from ktdeval_qfinzero.data.ingest_spec import IngestSpec, whole
from ktdeval_qfinzero.data.rows import AssetClass, BarKey, Bars, EventRow, NewsRow, PriceRows, SymbolRow
from ktdeval_qfinzero.data.stores import DatasetInfo
from ktdeval_qfinzero.data.tables import TABLES
from ktdeval_qfinzero.data.update import Addition, UpdateReport, update_dataset
from ktdeval_qfinzero.trading_hours import trading_hours

_NO_DAY = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Ingested:
    """Rows that were read from files, all of them sound. `events, news`: calendar and articles."""

    prices: PriceRows  #: bars and small tables
    events: tuple[EventRow, ...]
    news: tuple[NewsRow, ...]
    report: IngestReport  #: what was read


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Report of what was read."""

    files: tuple[str, ...]  #: names of the files
    rows: Mapping[str, int]  #: by kind (`stock minute`, `symbols`, …)
    duplicates: int  #: rows that said again what another one said; each was taken once
    notes: tuple[str, ...] = ()  #: what was done to what the files say


def read_files(spec: IngestSpec, base: Path, *, is_new: bool = False) -> Ingested:
    """Read everything that a spec names; its paths are relative to `base`. `is_new`: symbols may be made of the bars. Raises
    DatasetRefused: rows that are wrong, with file, line and field; all of them counted; ConfigError: there is no such file, or the
    spec contradicts itself.
    """
    problems = Problems()
    bars = BarReader(base, problems, spec.round)
    for source in spec.bars:
        bars.read(whole(spec, source))
    rows = RowReader(base, problems, spec.round, spec.name)
    for kind in TABLES:
        for table in getattr(spec, kind):
            rows.read(kind, table)
    table_of_bars = bars.bar_table()
    notes = []
    if bars.rounded_prices:
        notes.append(
            f"{bars.rounded_prices} prices had more than four decimals and were rounded to these; `round: false` refuses them"
        )
    made = _symbols_of(table_of_bars, bars.units) if is_new and not spec.symbols else ()
    if made:
        notes.append(f"no symbols were given: {len(made)} were made of the bars, each listed from its first one on")
    problems.refuse()
    counts: dict[str, int] = {}
    for (asset_class, _, resolution), found in table_of_bars.items():
        name = f"{asset_class} {resolution}"
        counts[name] = counts.get(name, 0) + len(found)
    counts |= {kind: len(rows.rows(kind)) for kind in TABLES if rows.rows(kind)}
    prices = PriceRows(table_of_bars, *(rows.rows(name) for name, table in TABLES.items() if table.own))
    prices = replace(prices, symbol_rows=made) if made else prices
    report = IngestReport((*bars.files, *rows.files), counts, bars.duplicates + rows.duplicates, tuple(notes))
    return Ingested(prices, tuple(rows.rows("events")), tuple(rows.rows("news")), report)


def _symbols_of(table: Mapping[BarKey, Bars], units: Mapping[tuple[AssetClass, str], float]) -> tuple[SymbolRow, ...]:
    """Stocks and coins that have bars, listed from their first one on."""
    first: dict[tuple[Literal["stock", "crypto"], str], int] = {}
    for (asset_class, symbol, _), bars in table.items():
        if asset_class != "option" and len(bars):
            key = asset_class, symbol
            first[key] = min(first.get(key, int(bars.start_ns[0])), int(bars.start_ns[0]))
    names = {key: key[1] if units[key] == 1.0 else f"{units[key]:g} {key[1]}" for key in first}
    return tuple(SymbolRow(key[1], key[0], names[key], "", ns) for key, ns in sorted(first.items()))


def ingest_dataset(spec: IngestSpec, base: Path, folder: Path) -> tuple[DatasetInfo, IngestReport]:
    """Make a dataset folder of a spec, which needs `default_as_of`; raises what `read_files` and `save_dataset` do."""
    moment = _default_as_of(spec)
    if moment is None:
        raise ConfigError("default_as_of: expected a moment such as 2025-01-06T21:00:00Z; a new dataset needs one")
    found = read_files(spec, base, is_new=True)
    trading_hours(spec.calendar)
    info = DatasetInfo(spec.name, spec.synthetic, "", _NO_DAY, _NO_DAY, _NO_DAY, _NO_DAY, moment, spec.calendar, spec.currency)
    return save_dataset(folder, found.prices, found.events, found.news, info), found.report


def ingest_update(spec: IngestSpec, base: Path, folder: Path, *, replace: bool = False) -> tuple[UpdateReport, IngestReport]:
    """Add everything that a spec names to a dataset folder; raises what `read_files` and `update_dataset` do."""
    moment = _default_as_of(spec)
    found = read_files(spec, base)
    addition = Addition(found.prices, found.events, found.news, moment)
    return update_dataset(folder, addition, replace=replace), found.report


def _default_as_of(spec: IngestSpec) -> int | None:
    if spec.default_as_of is None:
        return None
    moment = moment_of(spec.default_as_of)
    if moment is None:
        raise ConfigError("default_as_of: expected a moment such as 2025-01-06T21:00:00Z")
    return moment
