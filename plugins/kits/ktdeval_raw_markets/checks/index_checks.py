"""Find faults in index levels: repeated rows, and days without a level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktdeval.market import DayArray
from ktdeval.values import Finding
from ktdeval_raw_markets.checks.duplicates import index_examples, index_repeats
from ktdeval_raw_markets.checks.findings import finding_of
from ktdeval_raw_markets.sources.raw_tables import RawMarket, as_days


def check_indices(raw: RawMarket) -> Iterator[Finding]:
    """Find repeated or contradictory index rows, and days without a level."""
    codes = raw.indices["code"].to_numpy(dtype=object)
    dates = as_days(raw.indices["date"])
    repeats = index_repeats(raw)
    examples = (f"{codes[row]} {dates[row]}" for row in np.flatnonzero(repeats.same))
    yield finding_of("duplicate_index_rows", int(repeats.same.sum()), examples)
    differing = int(repeats.differing.sum())
    yield finding_of("conflicting_index_rows", differing, index_examples(raw, repeats))

    levels = raw.indices["close"].to_numpy(dtype=np.float64)
    known = (levels > 0) & np.isfinite(levels)
    for code in sorted({raw.benchmark, *codes} - {""}):
        kind = "benchmark_gaps" if code == raw.benchmark else "index_gaps"
        own = dates[(codes == code) & known]
        missing = np.setdiff1d(raw.table.days, own)
        yield finding_of(kind, len(missing), map(str, missing), code, _gap_fix(missing, own))


def _gap_fix(missing: DayArray, own: DayArray) -> str:
    """Return the fix for days without an index level. Days before the first level can't be
    filled.
    """
    if not len(own):
        return "no option helps: add index levels above zero to its file"

    fill = "--repair fill_indices uses the index's previous level"
    first = own.min()
    if not len(missing) or missing[0] > first:
        return fill

    start_later = f"--first {first} excludes the days before its first level"
    if missing[-1] < first:
        return start_later
    return f"{start_later}, and {fill}"
