"""Repair a source's tables and assemble them into a market snapshot.

Tables with faults are refused unless the user names a repair that fixes them. Each repair fixes one
kind of fault and returns the number of rows it changed. Nothing but repairs changes data.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.market import (
    BAR_FIELDS,
    NO_QUOTES,
    FloatArray,
    Instrument,
    MarketSnapshot,
    NameSpell,
    PriceLimits,
    Quotes,
    SnapshotMeta,
)
from ktdeval.values import Finding, near_matches
from ktdeval_raw_markets.checks.adjustment_factors import chain_factor, factor_of_one, invert_factor
from ktdeval_raw_markets.checks.duplicates import drop_duplicates, keep_first, keep_last
from ktdeval_raw_markets.checks.findings import finding_of
from ktdeval_raw_markets.checks.member_checks import ACCEPT_MEMBER_COUNT
from ktdeval_raw_markets.checks.quality import (
    check,
    is_impossible,
    is_incomplete,
    is_non_positive,
    typical_price,
)
from ktdeval_raw_markets.checks.quote_checks import drop_quotes, quotes_of_days
from ktdeval_raw_markets.checks.series_checks import (
    ACCEPT_BREAKS,
    accept_breaks,
    drop_before_gap,
    drop_frozen,
    match_prices,
)
from ktdeval_raw_markets.checks.session_checks import drop_non_sessions, shift_days
from ktdeval_raw_markets.checks.unit_advice import drop_amount, match_units
from ktdeval_raw_markets.delistings import apply_delisting_returns
from ktdeval_raw_markets.repair_losses import all_together, with_losses
from ktdeval_raw_markets.sources.raw_tables import (
    INDEX_NAMES,
    LIMIT_COLUMNS,
    PRICE_FIELDS,
    UNKNOWN_INDUSTRY,
    BarTable,
    IntArray,
    RawMarket,
    as_days,
    drop_bars,
    membership,
)

Repair = Callable[[RawMarket], tuple[RawMarket, int]]


def drop_unknown_codes(raw: RawMarket) -> tuple[RawMarket, int]:
    """Drop bars and members whose code is neither on an A-share board nor a valid symbol at its
    venue.
    """
    known = {code for code in raw.codes if raw.fits_venue(code)}
    bars = raw.bars.loc[raw.bars["code"].isin(known)]
    members = raw.members.loc[raw.members["code"].isin(known)]
    return dataclasses.replace(raw, bars=bars, members=members), len(raw.codes) - len(known)


def drop_impossible(raw: RawMarket) -> tuple[RawMarket, int]:
    """Drop bars that are incomplete, have a price of zero or below, or could not occur on any
    trading day. The asset then has no bar on that day.
    """
    table = raw.table
    is_bad = (
        table.judge_parts(is_impossible) | table.judge_parts(is_non_positive) | is_incomplete(raw)
    )
    return drop_bars(raw, is_bad)


def derive_high_low(raw: RawMarket) -> tuple[RawMarket, int]:
    """Replace a missing high by the higher of open and close, and a missing low by the lower."""
    table = raw.table
    first = table["open"]
    last = table["close"]
    bounds = {
        "high": np.asarray(np.maximum(first, last), np.float64),
        "low": np.asarray(np.minimum(first, last), np.float64),
    }
    changed = np.zeros(len(table.row), dtype=np.bool_)
    columns: dict[str, FloatArray] = {}

    for name, bound in bounds.items():
        fill = table.traded & np.isnan(table[name]) & np.isfinite(bound)
        columns[name] = np.where(fill, bound, table[name])
        changed |= fill

    return _with_columns(raw, columns), int(changed.sum())


def round_prices(raw: RawMarket) -> tuple[RawMarket, int]:
    """Round A-share prices to whole fen."""
    table = raw.table
    in_fen = raw.in_fen[raw.table.column]
    columns: dict[str, FloatArray] = {}
    changed = np.zeros(len(table.row), dtype=np.bool_)

    for name in PRICE_FIELDS:
        columns[name] = np.where(in_fen, np.round(table[name], 2), table[name])
        changed |= np.abs(columns[name] - table[name]) > 0

    return _with_columns(raw, columns), int(changed.sum())


def fill_factor(raw: RawMarket) -> tuple[RawMarket, int]:
    """Replace each missing or non-positive factor by the code's previous valid factor. Without an
    earlier one, use the code's first valid factor.
    """
    if not raw.has_factor:
        return raw, 0

    table = raw.table
    bad = ~((table["factor"] > 0) & np.isfinite(table["factor"]))
    series = pd.Series(np.where(bad, np.nan, table["factor"])).groupby(table.column)
    filled: FloatArray = np.asarray(series.ffill().fillna(series.bfill()), dtype=np.float64)
    changed = bad & table.traded & np.isfinite(filled)

    return _with_columns(raw, {"factor": filled}), int(changed.sum())


def fill_amount(raw: RawMarket) -> tuple[RawMarket, int]:
    """Replace a missing amount by volume * (high + low + close) / 3 on days with trades."""
    table = raw.table
    estimate = table["volume"] * typical_price(table)
    fill = table.traded & np.isnan(table["amount"]) & np.isfinite(estimate)

    filled = np.where(fill, estimate, table["amount"])
    return _with_columns(raw, {"amount": filled}), int(fill.sum())


def _with_columns(raw: RawMarket, columns: Mapping[str, FloatArray]) -> RawMarket:
    """Replace columns of the bars; new values are in the row order of the sorted table."""
    in_source = {name: raw.table.in_source(column) for name, column in columns.items()}
    return dataclasses.replace(raw, bars=raw.bars.assign(**in_source))


def resolve_overlaps(raw: RawMarket) -> tuple[RawMarket, int]:
    """Merge overlapping membership intervals of a code, and drop intervals that end before they
    begin.
    """
    members = raw.members.sort_values(["code", "first"], kind="stable")
    firsts = as_days(members["first"])
    lasts = as_days(members["last"])
    spans = list(zip(members["code"], firsts, lasts, strict=True))
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
    """Forward-fill the index level on days that have bars but no level. Days before the first level
    stay empty.
    """
    days = raw.table.days
    tables = []
    filled = 0

    for code, group in raw.indices.groupby("code", sort=True):
        known = group[(group["close"] > 0) & np.isfinite(group["close"])]
        if known["date"].duplicated().any():
            # contradictory rows are a different fault, with repairs of its own
            tables.append(group)
            continue

        levels = known.set_index("date")["close"].sort_index()
        trading_days = pd.DatetimeIndex(days)
        # An index may also have levels on days without bars; the last of these fills the next
        # trading day.
        all_days = levels.reindex(levels.index.union(trading_days)).ffill()
        daily = all_days.reindex(trading_days).dropna()

        filled += int((~daily.index.isin(levels.index)).sum())
        tables.append(pd.DataFrame({"date": daily.index, "code": code, "close": daily.to_numpy()}))

    if not filled:
        return raw, 0

    indices = pd.concat(tables, ignore_index=True)
    return dataclasses.replace(raw, indices=indices), filled


def accept_member_count(raw: RawMarket) -> tuple[RawMarket, int]:
    """Accept a universe whose size differs considerably from the size of its index. Return the
    number of days with such a difference.
    """
    for finding in check(raw):
        if finding.rule == "member_count_far":
            return raw, finding.count

    return raw, 0


REPAIRS: Mapping[str, Repair] = {
    repair.__name__: repair
    for repair in (
        drop_unknown_codes,
        drop_duplicates,
        keep_first,
        keep_last,
        shift_days,
        drop_non_sessions,
        derive_high_low,
        round_prices,
        drop_impossible,
        drop_before_gap,
        drop_frozen,
        match_prices,
        fill_factor,
        factor_of_one,
        invert_factor,
        chain_factor,
        match_units,
        drop_amount,
        drop_quotes,
        fill_amount,
        resolve_overlaps,
        fill_indices,
        accept_member_count,
        accept_breaks,
    )
}
"""Repairs by name, in the order in which they are applied. The user's order does not matter."""


_UNITS = {
    "drop_unknown_codes": "codes",
    "resolve_overlaps": "intervals",
    ACCEPT_MEMBER_COUNT: "days",
    ACCEPT_BREAKS: "breaks",
}


def apply_repairs(raw: RawMarket, names: Sequence[str]) -> RawMarket:
    """Apply repairs, and record each one that changed something, with its count. Raises UsageError
    if a name is unknown.
    """
    for name in names:
        if name not in REPAIRS:
            hint = near_matches(name, REPAIRS) or f"; known: {', '.join(REPAIRS)}"
            raise UsageError(f"repair {name!r} is unknown{hint}")

    if "keep_first" in names and "keep_last" in names:
        raise UsageError("repairs keep_first and keep_last contradict each other; name one of them")

    for name, repair in REPAIRS.items():
        if name not in names:
            continue

        raw, changed = repair(raw)
        if changed:
            record = f"{name}: {changed} {_UNITS.get(name, 'rows')}"
            raw = dataclasses.replace(raw, repairs=(*raw.repairs, record))

    return raw


_MADE_BY_REPAIRS = frozenset({"split_like_moves", "implausible_returns", "units_not_judged"})
"""Warnings about a market that a repair has made wrong."""

# separates the remedies that a finding offers
_WAYS = re.compile(r"; |, or |(?:,| or) (?=--repair)")


#: in CNY: single-precision prices within this distance of whole fen are rounded
_NOISE = 2e-4


@np.errstate(invalid="ignore")  # infinite prices have been dropped or refused
def assemble(raw: RawMarket, repairs: Sequence[str] = ()) -> MarketSnapshot:
    """Build a snapshot without an id.

    The snapshot has every day with bars, and every code that has bars or was a member. A row
    without trades gets NaN prices and volume 0; a missing row gets NaN in all fields. Raises
    DataError if a fault would silently change results, UsageError if a repair is unknown.

    Example:
        assemble(raw).codes  # ('000001.SZ', '600519.SH', '688981.SH')
    """
    raw = apply_repairs(raw, repairs)
    check_importable(raw, check(raw))
    days = raw.table.days
    codes = raw.codes
    names = dict(zip(raw.assets["code"], raw.assets["name"], strict=True))
    industries = dict(zip(raw.assets["code"], raw.assets["industry"], strict=True))

    notes = list(raw.notes)
    close_only = np.asarray(raw.table.codes, dtype=object)[raw.close_only].tolist()
    if close_only:
        notes.append(f"closes only, no open, high or low: {listed_codes(close_only)}")

    ahead = [name for name, venue in raw.rules.items() if venue.looks_ahead]
    if ahead:
        notes.append(
            f"venue {', '.join(ahead)} fills at the close that was decided on: a look-ahead; cards"
            " are not ranked unless their task prescribes it"
        )

    meta = SnapshotMeta(
        name=raw.name,
        source=raw.source,
        synthetic=raw.synthetic,
        has_factor=raw.has_factor,
        benchmark=raw.benchmark,
        repairs=raw.repairs,
        notes=tuple(dict.fromkeys(notes)),
        placebo=raw.placebo,
    )

    instruments: tuple[Instrument, ...] = ()
    if raw.instruments:
        instruments = tuple(map(raw.instrument, codes))

    indices = _indices(raw)
    index_names = {}
    for code in indices:
        index_names[code] = raw.index_names.get(code, INDEX_NAMES.get(code, code))

    market = MarketSnapshot(
        meta=meta,
        days=days,
        codes=codes,
        names=tuple(str(names.get(code) or code) for code in codes),
        industries=tuple(str(industries.get(code) or UNKNOWN_INDUSTRY) for code in codes),
        **_grids(raw),
        member=membership(raw.members, days, codes),
        indices=indices,
        spells=tuple(_spells(raw)),
        instruments=instruments,
        rules=raw.rules,
        index_names=index_names,
        documents=raw.documents,
        minutes=raw.minutes,
        price_limits=_price_limits(raw),
        quotes=_quotes(raw),
    )
    if raw.delisting_returns is None:
        return market
    return apply_delisting_returns(market, raw.delisting_returns)


def _price_limits(raw: RawMarket) -> PriceLimits:
    """Return the source's price limits as [T, N] arrays for the snapshot's days and codes."""
    table = raw.table
    columns = _snapshot_columns(raw)[table.column]
    shape = (len(table.days), len(raw.codes))
    grids: dict[str, Any] = {}

    for name, part in zip(LIMIT_COLUMNS, ("special", "upper", "lower"), strict=True):
        if name not in raw.bars.columns:
            continue

        grid: np.ndarray
        if name == "special":
            grid = np.zeros(shape, dtype=np.bool_)
        else:
            grid = np.full(shape, np.nan)

        grid[table.row, columns] = raw.bars[name].to_numpy()[table.order]
        grids[part] = grid

    listed = tuple(raw.listed.get(code, "") for code in raw.codes)
    if not any(listed):
        listed = ()

    return PriceLimits(**grids, listed=listed)


def _quotes(raw: RawMarket) -> Quotes:
    """Return the source's quotes as [T, N] arrays. If the source never has both bid and ask, return
    no quotes.
    """
    table = raw.table
    columns = _snapshot_columns(raw)[table.column]
    grids = {}
    for name, values in quotes_of_days(raw):
        grids[name] = np.full((len(table.days), len(raw.codes)), np.nan)
        grids[name][table.row, columns] = values

    return Quotes(**grids) or NO_QUOTES


def listed_codes(codes: Sequence[str], most: int = 8) -> str:
    """Join codes to one string, cut after `most` codes."""
    listed = ", ".join(codes[:most])
    if len(codes) > most:
        listed = f"{listed} and {len(codes) - most} more"
    return listed


def _spells(raw: RawMarket) -> Iterator[NameSpell]:
    known = set(raw.codes)
    table = raw.names.sort_values(["code", "first"], kind="stable")
    days = zip(as_days(table["first"]), as_days(table["last"]), strict=True)
    names = table[["code", "name", "code_then"]].itertuples(index=False)

    for (code, name, code_then), (first, last) in zip(names, days, strict=True):
        if code in known:
            yield NameSpell(code, str(first), str(last), name, code_then)


def with_repairs_that_work(raw: RawMarket, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, advising only repairs that work. Each repair suggested for an error is
    tried. If it leaves the fault, or causes more of another fault than its alternatives do, the
    advice is replaced by a note on what it leaves.
    """
    before = {finding.rule: finding for finding in findings}
    judged = []
    for finding in findings:
        left = {}
        if finding.level == "error":
            left = {name: _faults_after(raw, name) for name in finding.repairs}

        for name, faults in left.items():
            others = [faults_of for other, faults_of in left.items() if other != name]
            worse = _worse(faults, finding, [before, *others])
            if worse:
                finding = _without_repair(finding, name, worse)
        judged.append(with_losses(raw, finding, apply_repairs))
    return judged


def _faults_after(raw: RawMarket, repair: str) -> Mapping[str, Finding]:
    """Return the faults that remain after a repair, by kind: errors, and price moves that a wrong
    repair causes.
    """
    try:
        after = check(apply_repairs(raw, [repair]))
    except DataError:  # no bars are left
        return {"": finding_of("gaps", len(raw.bars), ["no bars"])}
    return {
        finding.rule: finding
        for finding in after
        if finding.level == "error" or finding.rule in _MADE_BY_REPAIRS
    }


def _worse(
    faults: Mapping[str, Finding], finding: Finding, others: Sequence[Mapping[str, Finding]]
) -> str:
    """Return the first fault that counts against a repair; otherwise empty. Either the fault of the
    finding remains, or another fault is more frequent than without the repair and than with each
    alternative repair.
    """
    for kind, fault in faults.items():
        least = min(other[kind].count if kind in other else 0 for other in others)
        if (kind == finding.rule and fault.count >= finding.count) or fault.count > least:
            example = f" (first: {fault.examples[0]})" if fault.examples else ""
            return f"{fault.count} {fault.rule}{example}"
    return ""


def _without_repair(finding: Finding, name: str, left: str) -> Finding:
    """Return the finding without its advice to use a repair. Instead, the fix names the fault that
    the repair would leave.
    """
    ways = [way for way in _WAYS.split(finding.fix) if f"--repair {name}" not in way]
    ways = ways or ["no option helps: correct the file"]
    fix = f"{', or '.join(ways)} ({name} was tried: it leaves {left})"
    repairs = tuple(repair for repair in finding.repairs if repair != name)
    return dataclasses.replace(finding, fix=fix, repairs=repairs)


def check_importable(raw: RawMarket, findings: Sequence[Finding]) -> None:
    """Raise DataError if any finding is an error. The message lists each rule with its count, its
    first example and the repairs that work.
    """
    errors = [finding for finding in findings if finding.level == "error"]
    if not errors:
        return

    parts = []
    tried = with_repairs_that_work(raw, findings)
    for finding in tried:
        if finding.level != "error":
            continue

        example = f" (first: {finding.examples[0]})" if finding.examples else ""
        parts.append(f"{finding.count} {finding.rule}{example}: {finding.fix}")

    together = all_together(raw, tried, apply_repairs)
    raise DataError(
        f"market {raw.name}: {'; '.join(parts)}{together}; `ktdeval data make … --check-only` shows"
        " all findings"
    )


def _snapshot_columns(raw: RawMarket) -> IntArray:
    """Return the snapshot column of each code of the table. The snapshot also has members without
    bars. Shape: [codes of the table].
    """
    column_of = {code: column for column, code in enumerate(raw.codes)}
    return np.array([column_of[code] for code in raw.table.codes], dtype=np.int64)


def _grids(raw: RawMarket) -> dict[str, Any]:
    """Return the bar fields as [T, N] arrays."""
    table = raw.table
    columns = _snapshot_columns(raw)
    grids = {name: np.full((len(table.days), len(raw.codes)), np.nan) for name in BAR_FIELDS}

    for part in table.parts():
        for name, grid in grids.items():
            grid[part.row, columns[part.column]] = _clean_values(raw, part, name)

    _fill_factor(grids["factor"], raw.has_factor)
    return grids


def _clean_values(raw: RawMarket, part: BarTable, name: str) -> FloatArray:
    """Return the values of a field, [rows]: noisy prices are rounded to fen, and suspended rows get
    NaN prices and volume 0.
    """
    values = part[name]
    if name == "factor":
        return values

    if name in PRICE_FIELDS and raw.has_factor:
        fen = np.round(values, 2)
        is_noise = raw.in_fen[part.column] & (np.abs(values - fen) < _NOISE)
        values = np.where(is_noise, fen, values)

    without_trade = 0.0 if name == "volume" else np.nan
    return np.where(part.suspended, without_trade, values)


def _fill_factor(grid: FloatArray, has_factor: bool) -> None:
    """Replace missing factors by the asset's last known factor, or by 1.0 before the first known
    factor. If the source has no factors, all become 1.0.
    """
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
