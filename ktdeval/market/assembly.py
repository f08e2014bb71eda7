"""From a source's tables to a market snapshot: refused while there are faults, unless a named repair fixes them.

Each named repair changes one kind of fault and says how many rows it changed; nothing else changes data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.fields import near_matches
from ktdeval.market.calendar import sessions
from ktdeval.market.quality import ACCEPT_MEMBER_COUNT, Finding, check, fits_venue, is_impossible, is_incomplete, is_non_positive
from ktdeval.market.raw import INDEX_NAMES, PRICE_FIELDS, UNKNOWN_INDUSTRY, BarTable, RawMarket, as_days, membership
from ktdeval.market.snapshot import BAR_FIELDS, BoolArray, FloatArray, MarketSnapshot, NameSpell, SnapshotMeta

Repair = Callable[[RawMarket], tuple[RawMarket, int]]


def _drop_bars(raw: RawMarket, mask: BoolArray) -> tuple[RawMarket, int]:
    """Drop the bars of a mask over the sorted table."""
    keep = ~raw.table.in_source(mask)
    return dataclasses.replace(raw, bars=raw.bars.loc[keep].reset_index(drop=True)), int(mask.sum())


def drop_unknown_codes(raw: RawMarket) -> tuple[RawMarket, int]:
    """Leave out bars and members whose code belongs to no A-share board, or is no symbol of its venue."""
    known = {code for code in raw.codes if fits_venue(raw, code)}
    bars, members = (table.loc[table["code"].isin(known)].reset_index(drop=True) for table in (raw.bars, raw.members))
    return dataclasses.replace(raw, bars=bars, members=members), len(raw.codes) - len(known)


def drop_duplicates(raw: RawMarket) -> tuple[RawMarket, int]:
    """Keep the first of the rows that share code and day, in bars and index levels."""
    repaired, dropped = _drop_bars(raw, raw.table.duplicated())
    keep = ~raw.indices[["date", "code"]].duplicated()
    return dataclasses.replace(repaired, indices=raw.indices.loc[keep].reset_index(drop=True)), dropped + int((~keep).sum())


def drop_non_sessions(raw: RawMarket) -> tuple[RawMarket, int]:
    """Leave out bars of days on which the asset's exchange holds no session."""
    table, wrong = raw.table, np.zeros(len(raw.table.row), dtype=np.bool_)
    for calendar in filter(None, np.unique(raw.calendars).tolist()):
        held = np.isin(table.days, sessions(table.days[0], table.days[-1], calendar))
        wrong |= ~held[table.row] & (raw.calendars == calendar)[table.column]
    return _drop_bars(raw, wrong)


def drop_impossible(raw: RawMarket) -> tuple[RawMarket, int]:
    """Leave out bars that no trading day can give, or without all four prices above zero: the asset has no bar that day."""
    table = raw.table
    return _drop_bars(raw, table.judged(is_impossible) | table.judged(is_non_positive) | is_incomplete(raw))


def derive_high_low(raw: RawMarket) -> tuple[RawMarket, int]:
    """Take the higher and lower of open and close where high or low are missing."""
    table = raw.table
    first, last = table["open"], table["close"]
    bounds = {"high": np.asarray(np.maximum(first, last), np.float64), "low": np.asarray(np.minimum(first, last), np.float64)}
    changed = np.zeros(len(table.row), dtype=np.bool_)
    columns: dict[str, FloatArray] = {}
    for name, bound in bounds.items():
        fill = table.traded & np.isnan(table[name]) & np.isfinite(bound)
        columns[name] = np.where(fill, bound, table[name])
        changed |= fill
    return _with_columns(raw, columns), int(changed.sum())


def round_prices(raw: RawMarket) -> tuple[RawMarket, int]:
    """Round prices of A-shares to whole fen."""
    table, in_fen = raw.table, raw.in_fen[raw.table.column]
    columns: dict[str, FloatArray] = {name: np.where(in_fen, np.round(table[name], 2), table[name]) for name in PRICE_FIELDS}
    changed = np.stack([np.abs(columns[name] - table[name]) > 0 for name in PRICE_FIELDS]).any(axis=0)
    return _with_columns(raw, columns), int(changed.sum())


def fill_factor(raw: RawMarket) -> tuple[RawMarket, int]:
    """Take a code's last factor before where it is missing or not positive; at its start, its first one after."""
    if not raw.has_factor:
        return raw, 0
    table = raw.table
    bad = ~((table["factor"] > 0) & np.isfinite(table["factor"]))
    series = pd.Series(np.where(bad, np.nan, table["factor"])).groupby(table.column)
    filled: FloatArray = np.asarray(series.ffill().fillna(series.bfill()), dtype=np.float64)
    return _with_columns(raw, {"factor": filled}), int((bad & table.traded).sum())


def fill_amount(raw: RawMarket) -> tuple[RawMarket, int]:
    """Take volume * (high + low + close) / 3 where amount is missing on a day with trade."""
    table = raw.table
    typical = (table["high"] + table["low"] + table["close"]) / 3
    estimate = table["volume"] * typical
    fill = table.traded & np.isnan(table["amount"]) & np.isfinite(estimate)
    return _with_columns(raw, {"amount": np.where(fill, estimate, table["amount"])}), int(fill.sum())


def _with_columns(raw: RawMarket, columns: Mapping[str, FloatArray]) -> RawMarket:
    """Replace columns, given in the sorted table's order."""
    return dataclasses.replace(raw, bars=raw.bars.assign(**{name: raw.table.in_source(columns[name]) for name in columns}))


def resolve_overlaps(raw: RawMarket) -> tuple[RawMarket, int]:
    """Join membership intervals of one code that overlap, and leave out those that end before they begin."""
    members = raw.members.sort_values(["code", "first"], kind="stable")
    spans = list(zip(members["code"], as_days(members["first"]), as_days(members["last"]), strict=True))
    joined: list[tuple[str, np.datetime64, np.datetime64]] = []
    for code, first, last in spans:
        if last < first:
            continue
        if joined and joined[-1][0] == code and first <= joined[-1][2]:
            joined[-1] = (code, joined[-1][1], max(last, joined[-1][2]))
        else:
            joined.append((code, first, last))
    table = pd.DataFrame(joined, columns=["code", "first", "last"])
    return dataclasses.replace(raw, members=table), len(spans) - len(joined)


def fill_indices(raw: RawMarket) -> tuple[RawMarket, int]:
    """On days with bars but without an index level, take the index's last one before. A start without levels stays without."""
    days = raw.table.days
    tables, filled = [], 0
    for code, group in raw.indices.groupby("code", sort=True):
        known = group[(group["close"] > 0) & np.isfinite(group["close"])]
        levels = known.drop_duplicates("date").set_index("date")["close"].sort_index()
        daily = levels.reindex(levels.index.union(pd.DatetimeIndex(days))).ffill().reindex(pd.DatetimeIndex(days)).dropna()
        filled += int((~daily.index.isin(levels.index)).sum())
        tables.append(pd.DataFrame({"date": daily.index, "code": code, "close": daily.to_numpy()}))
    return (dataclasses.replace(raw, indices=pd.concat(tables, ignore_index=True)) if filled else raw), filled


def accept_member_count(raw: RawMarket) -> tuple[RawMarket, int]:
    """Keep a universe that is far from its index's size, as it is; the record of it says on how many days."""
    return raw, next((finding.count for finding in check(raw) if finding.kind == "member_count_far"), 0)


REPAIRS: Mapping[str, Repair] = {
    repair.__name__: repair
    for repair in (
        drop_unknown_codes, drop_duplicates, drop_non_sessions, derive_high_low, round_prices, drop_impossible, fill_factor,
        fill_amount, resolve_overlaps, fill_indices, accept_member_count,
    )
}  # fmt: skip
"""Repairs by name, in the order in which they are applied whatever the order they were asked for in."""


_UNITS = {"drop_unknown_codes": "codes", "resolve_overlaps": "intervals", ACCEPT_MEMBER_COUNT: "days"}


def apply_repairs(raw: RawMarket, names: Sequence[str]) -> RawMarket:
    """Apply named repairs and record each that changed something, with its count. Raises UsageError on an unknown name."""
    for name in names:
        if name not in REPAIRS:
            raise UsageError(f"repair {name!r} is unknown{near_matches(name, REPAIRS) or '; known: ' + ', '.join(REPAIRS)}")
    for name, repair in REPAIRS.items():
        if name in names:
            raw, changed = repair(raw)
            if changed:
                raw = dataclasses.replace(raw, repairs=(*raw.repairs, f"{name}: {changed} {_UNITS.get(name, 'rows')}"))
    return raw


_NOISE = 2e-4  #: Single-precision sources are off from whole fen by less than this; prices that near are fen


@np.errstate(invalid="ignore")  # infinite prices are dropped or refused
def assemble(raw: RawMarket, repairs: Sequence[str] = ()) -> MarketSnapshot:
    """Build a snapshot, without an id: its days are those with bars, its assets the codes with bars and all members. A row without
    trade leaves no prices and volume 0, a missing row NaN. Raises DataError on faults that would change results silently,
    UsageError on an unknown repair.
    """
    raw = apply_repairs(raw, repairs)
    check_importable(raw, check(raw))
    days, codes = raw.table.days, raw.codes
    names = dict(zip(raw.assets["code"], raw.assets["name"], strict=True))
    industries = dict(zip(raw.assets["code"], raw.assets["industry"], strict=True))
    only = tuple(code for code, is_only in zip(raw.table.codes, raw.close_only, strict=True) if is_only)
    closes = (f"closes only, no open, high or low: {_listed(only)}",) if only else ()
    notes = tuple(dict.fromkeys((*raw.notes, *closes)))
    meta = SnapshotMeta(raw.name, raw.source, raw.synthetic, raw.has_factor, raw.benchmark, raw.repairs, notes)
    grids, indices = _grids(raw), _indices(raw)
    return MarketSnapshot(
        meta=meta,
        days=days,
        codes=codes,
        names=tuple(str(names.get(code) or code) for code in codes),
        industries=tuple(str(industries.get(code) or UNKNOWN_INDUSTRY) for code in codes),
        **grids,
        member=membership(raw.members, days, codes),
        indices=indices,
        spells=tuple(_spells(raw)),
        instruments=tuple(map(raw.instrument, codes)) if raw.instruments else (),
        rules=raw.rules,
        index_names={code: raw.index_names.get(code, INDEX_NAMES.get(code, code)) for code in indices},
        documents=raw.documents,
        minutes=raw.minutes,
    )


def _listed(codes: Sequence[str], most: int = 8) -> str:
    return ", ".join(codes[:most]) + (f" and {len(codes) - most} more" if len(codes) > most else "")


def _spells(raw: RawMarket) -> Iterator[NameSpell]:
    known, table = set(raw.codes), raw.names.sort_values(["code", "first"], kind="stable")
    days = zip(as_days(table["first"]), as_days(table["last"]), strict=True)
    names = table[["code", "name", "code_then"]].itertuples(index=False)
    for (code, name, code_then), (first, last) in zip(names, days, strict=True):
        if code in known:
            yield NameSpell(code, str(first), str(last), name, code_then)


def check_importable(raw: RawMarket, findings: Sequence[Finding]) -> None:
    """Raise DataError on faults of severity `error`, each kind with its count, first example and repair."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    parts = []
    for finding in errors:
        example = f" (first: {finding.examples[0]})" if finding.examples else ""
        fix = f"fixed by --repair {' or '.join(finding.repairs)}" if finding.repairs else finding.hint
        if finding.kind == "unknown_codes":
            fix = f"of another market: name it by --venue, or {fix}"
        parts.append(f"{finding.count} {finding.kind}{example}, {fix}")
    raise DataError(f"market {raw.name}: {'; '.join(parts)}; 'ktdeval data check' tells more")


def _grids(raw: RawMarket) -> dict[str, Any]:
    """[T, N] arrays of the bar fields."""
    table = raw.table
    column_of = {code: column for column, code in enumerate(raw.codes)}
    columns = np.array([column_of[code] for code in table.codes], dtype=np.int64)
    grids = {name: np.full((len(table.days), len(raw.codes)), np.nan) for name in BAR_FIELDS}
    for part in table.parts():
        for name, grid in grids.items():
            grid[part.row, columns[part.column]] = _cleaned(raw, part, name)
    _fill_factor(grids["factor"], raw.has_factor)
    return grids


def _cleaned(raw: RawMarket, part: BarTable, name: str) -> FloatArray:
    """[rows] values of a field, without noise, and without prices on days without trade."""
    values = part[name]
    if name in PRICE_FIELDS and raw.has_factor:
        fen = np.round(values, 2)
        values = np.where(raw.in_fen[part.column] & (np.abs(values - fen) < _NOISE), fen, values)
    return values if name == "factor" else np.where(part.suspended, 0.0 if name == "volume" else np.nan, values)


def _fill_factor(grid: FloatArray, has_factor: bool) -> None:
    """Fill in the last known factor of each day and asset; 1.0 before the first, or throughout where there is none."""
    last = np.ones(grid.shape[1])
    for row in grid:
        np.copyto(row, last, where=~(row > 0) | (not has_factor))
        last = row


def _indices(raw: RawMarket) -> dict[str, FloatArray]:
    days = raw.table.days
    dates = as_days(raw.indices["date"])
    codes = raw.indices["code"].to_numpy(dtype=object)
    levels = raw.indices["close"].to_numpy(dtype=np.float64)
    indices = {}
    for code in sorted(set(codes)):
        rows = (codes == code) & np.isin(dates, days)
        series = np.full(len(days), np.nan)
        series[np.searchsorted(days, dates[rows])] = levels[rows]
        indices[str(code)] = series
    return indices
