"""From a source's tables to a market snapshot: refused while there are faults, unless a named repair fixes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market.quality import Finding, check
from ktdeval.market.raw import INDEX_NAMES, PRICE_FIELDS, UNKNOWN_INDUSTRY, RawMarket, as_days, membership
from ktdeval.market.repairs import apply_repairs
from ktdeval.market.snapshot import BAR_FIELDS, FloatArray, MarketSnapshot, SnapshotMeta

_NOISE_CNY = 2e-4
"""Single-precision sources are off from whole fen by less than this; prices that near are fen."""


def assemble(raw: RawMarket, repairs: Sequence[str] = ()) -> MarketSnapshot:
    """Build a snapshot from a source's tables.

    Days are the days with bars; assets are the codes with bars and all members. A row of a day without trade leaves no prices and
    volume 0; a missing row leaves NaN.

    Returns:
        The snapshot, without an id.

    Raises:
        DataError: faults remain that would change results silently; names each kind, its count, an example and the repair.
        UsageError: no repair has that name.
    """
    raw = apply_repairs(raw, repairs)
    check_importable(raw, check(raw))
    days, codes = raw.table.days, raw.codes
    names = dict(zip(raw.assets["code"], raw.assets["name"], strict=True))
    industries = dict(zip(raw.assets["code"], raw.assets["industry"], strict=True))
    meta = SnapshotMeta(raw.name, raw.source, raw.synthetic, raw.has_factor, raw.benchmark, raw.repairs)
    grids, indices = _grids(raw), _indices(raw)
    return MarketSnapshot(
        meta=meta,
        days=days,
        codes=codes,
        names=tuple(str(names.get(code) or code) for code in codes),
        industries=tuple(str(industries.get(code) or UNKNOWN_INDUSTRY) for code in codes),
        open=grids["open"],
        high=grids["high"],
        low=grids["low"],
        close=grids["close"],
        volume=grids["volume"],
        amount=grids["amount"],
        factor=grids["factor"],
        member=membership(raw.members, days, codes),
        indices=indices,
        index_names={code: raw.index_names.get(code, INDEX_NAMES.get(code, code)) for code in indices},
    )


def check_importable(raw: RawMarket, findings: Sequence[Finding]) -> None:
    """Refuse a market that has faults of severity `error`.

    Raises:
        DataError: names each kind with its count, first example and repair.
    """
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    parts = []
    for finding in errors:
        example = f" (first: {finding.examples[0]})" if finding.examples else ""
        fix = f"fixed by --repair {' or '.join(finding.repairs)}" if finding.repairs else finding.hint
        parts.append(f"{finding.count} {finding.kind}{example}, {fix}")
    raise DataError(f"market {raw.name}: {'; '.join(parts)}; 'ktdeval data check' tells more")


def _grids(raw: RawMarket) -> dict[str, FloatArray]:
    """[T, N] arrays of the bar fields."""
    table = raw.table
    place = {code: column for column, code in enumerate(raw.codes)}
    columns = np.array([place[code] for code in table.codes], dtype=np.int64)[table.column]
    shape = (len(table.days), len(raw.codes))
    grids = {}
    for name in BAR_FIELDS:
        values = table.values[name]
        if name in PRICE_FIELDS:
            values = np.where(table.suspended, np.nan, _clean_prices(values) if raw.has_factor else values)
        elif name == "volume":
            values = np.where(table.suspended, 0.0, values)
        elif name == "amount":
            values = np.where(table.suspended, np.nan, values)
        grid = np.full(shape, np.nan)
        grid[table.row, columns] = values
        grids[name] = grid
    grids["factor"] = _filled_factor(grids["factor"]) if raw.has_factor else np.ones(shape)
    return grids


def _clean_prices(values: FloatArray) -> FloatArray:
    fen = np.round(values, 2)
    return np.asarray(np.where(np.abs(values - fen) < _NOISE_CNY, fen, values))


def _filled_factor(grid: FloatArray) -> FloatArray:
    """Return the last known factor of each day and asset; 1.0 before the first."""
    known = grid > 0
    last = np.maximum.accumulate(np.where(known, np.arange(len(grid))[:, None], -1), axis=0)
    filled = np.take_along_axis(grid, np.maximum(last, 0), axis=0)
    return np.asarray(np.where(last >= 0, filled, 1.0))


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
