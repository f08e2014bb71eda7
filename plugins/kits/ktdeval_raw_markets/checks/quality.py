"""Find faults in market data. Each check counts one kind of fault and gives the first examples.

`check` takes the tables of a source or, through `raw_from_snapshot`, of a stored snapshot. Errors
would silently change results. Therefore, `ktdeval_raw_markets.assembly` refuses them unless the user
names a repair that fixes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ktdeval.market import DELISTING_REPAIR, MAX_PRICE, BoolArray, FloatArray, first_session
from ktdeval.values import Finding, sort_by_level
from ktdeval_raw_markets.checks.adjustment_factors import (
    factor_faults,
    last_bars,
    price_steps_near,
    without_factor,
)
from ktdeval_raw_markets.checks.code_advice import advice_on_codes
from ktdeval_raw_markets.checks.document_checks import check_documents, check_minutes
from ktdeval_raw_markets.checks.duplicates import bar_examples, bar_repeats
from ktdeval_raw_markets.checks.findings import bars_finding, finding_of
from ktdeval_raw_markets.checks.index_checks import check_indices
from ktdeval_raw_markets.checks.limit_checks import check_limit_prices, check_listings
from ktdeval_raw_markets.checks.member_checks import check_member_intervals, check_members
from ktdeval_raw_markets.checks.quote_checks import check_quotes
from ktdeval_raw_markets.checks.renumbering import renumberings
from ktdeval_raw_markets.checks.security_kinds import kind_of_security
from ktdeval_raw_markets.checks.series_checks import (
    breaks_after_gaps,
    check_series,
    price_scales,
    price_steps,
)
from ktdeval_raw_markets.checks.session_checks import check_sessions
from ktdeval_raw_markets.checks.unit_advice import unit_advice
from ktdeval_raw_markets.checks.unit_checks import unit_faults
from ktdeval_raw_markets.checks.unit_inference import MOSTLY_WHOLE, in_wholes
from ktdeval_raw_markets.checks.volume_checks import check_impossible_volumes
from ktdeval_raw_markets.sources.raw_tables import (
    PRICE_FIELDS,
    PRICE_TOLERANCE,
    UNKNOWN_INDUSTRY,
    BarTable,
    RawMarket,
    as_days,
    raw_from_snapshot,
)

__all__ = [
    "RawMarket",
    "check",
    "raw_from_snapshot",
]

UNLIMITED_DAYS = 5  #: a newly listed share trades its first five days without a price limit
#: from this day, ChiNext has a price limit of 20 %; before, it was 10 %
CHINEXT_REFORM = np.datetime64("2020-08-24")
# in fen: rounding error of single-precision prices from 1,000 on
_FEN_TOLERANCE = 0.02
#: a close that changes by an integer ratio, within this relative tolerance, looks like a split
SPLIT_TOLERANCE = 0.05
_COARSE = 1e-3  # maximum fraction by which rounding to a tick may change a price


_NO_CODES = {
    "unknown_symbols": "no option helps: correct the code column in the file",
}
"""Fixes, keyed by kind of fault, for a source in which no code is known, so that dropping unknown
codes would leave no data.
"""
_NO_BARS = "no option helps: correct the prices in the file; without these rows no bar is left"


# Division warnings are off: zero volumes, zero factors and infinite prices are reported as faults.
@np.errstate(divide="ignore", invalid="ignore")
def check(raw: RawMarket) -> list[Finding]:
    """Return the faults in a market's tables, errors first; empty without faults."""
    findings: list[Finding] = []
    for find in _CHECKS:
        findings += [finding for finding in find(raw) if finding.count]

    return sort_by_level(findings)


def typical_price(table: BarTable) -> FloatArray:
    """Return (high + low + close) / 3 for each bar. Shape: [rows]."""
    return np.asarray((table["high"] + table["low"] + table["close"]) / 3)


def is_incomplete(raw: RawMarket) -> BoolArray:
    """Return whether a bar with trades lacks any of its four prices. In a close-only asset, only
    the close is required. Shape: [rows].
    """

    def lacks_any(part: BarTable) -> BoolArray:
        absent = [~np.isfinite(part[name]) for name in PRICE_FIELDS]
        return np.asarray(np.any(absent, axis=0))

    table = raw.table
    lacks_close = table.judge_parts(lambda part: ~np.isfinite(part["close"]))
    is_close_only = raw.close_only[table.column]
    lacking = np.where(is_close_only, lacks_close, table.judge_parts(lacks_any))

    return np.asarray(table.traded & lacking)


def is_non_positive(table: BarTable) -> BoolArray:
    """Return whether a bar with trades has a price of zero or below. Shape: [rows]."""
    not_positive = [table[name] <= 0 for name in PRICE_FIELDS]
    return np.asarray(table.traded & np.any(not_positive, axis=0))


def is_impossible(table: BarTable) -> BoolArray:
    """Return whether a bar could not occur on any trading day. Its high is below its low, its open
    or close is outside this range, or its volume or amount is negative or infinite. Shape: [rows].
    """
    high = table["high"]
    low = table["low"]
    slack = np.abs(high) * PRICE_TOLERANCE
    wrong = high < low - slack

    for name in ("open", "close"):
        wrong |= (table[name] > high + slack) | (table[name] < low - slack)

    for name in ("volume", "amount"):
        wrong |= (table[name] < 0) | np.isinf(table[name])

    return np.asarray(table.traded & wrong)


def _with_kind(code: str) -> str:
    """Return a code, followed in brackets by its kind of security if the digits reveal it."""
    kind = kind_of_security(code)
    if not kind:
        return code
    return f"{code} ({kind})"


def _check_renumbering(raw: RawMarket) -> Iterator[Finding]:
    """Find codes that end where another code begins, as if the asset had been renumbered."""
    pairs = [] if raw.synthetic else renumberings(raw)
    about = ""
    if pairs:
        about = f"{pairs[0].code},NAME,,{pairs[0].last},{pairs[0].former}"
    yield finding_of("renumbered_codes", len(pairs), map(str, pairs), about)


def _check_ends(raw: RawMarket) -> Iterator[Finding]:
    """Find codes whose bars end before the market's, in order of their last bars."""
    was_settled = any(repair.startswith(DELISTING_REPAIR) for repair in raw.repairs)
    is_settled = was_settled or raw.delisting_returns is not None
    table = raw.table
    rows = np.full(len(table.codes), -1)
    # rows are in the order of days: the last assignment to a code wins
    rows[table.column[table.traded]] = table.row[table.traded]
    ended = []
    for column in np.flatnonzero((rows >= 0) & (rows < len(table.days) - 1)).tolist():
        later = table.days[rows[column] + 1 :]
        if first_session(later, str(raw.calendars[column])) is not None:
            ended.append((rows[column], table.codes[column]))

    if raw.synthetic or is_settled:
        ended = []

    examples = (f"{code} on {table.days[row]}" for row, code in sorted(ended))
    yield finding_of("ended_codes", len(ended), examples)


def _check_rows(raw: RawMarket) -> Iterator[Finding]:
    yield from _unknown_codes(raw)

    repeats = bar_repeats(raw)
    yield bars_finding(raw, "duplicate_rows", repeats.same)
    yield finding_of("conflicting_rows", int(repeats.differing.sum()), bar_examples(raw, repeats))

    yield from _wrong_bars(raw)


def _unknown_codes(raw: RawMarket) -> Iterator[Finding]:
    unknown = [code for code in raw.codes if not raw.fits_venue(code)]
    of_boards = [code for code in unknown if raw.venue(code).has_boards]
    of_others = [code for code in unknown if not raw.venue(code).has_boards]
    findings = (
        finding_of("unknown_codes", len(of_boards), map(_with_kind, of_boards)),
        finding_of("unknown_symbols", len(of_others), map(repr, of_others)),
    )

    for finding in findings:
        if len(unknown) == len(raw.codes):
            # Dropping unknown codes would drop all codes.
            fix = _NO_CODES.get(finding.rule) or advice_on_codes(of_boards)
            yield dataclasses.replace(finding, repairs=(), fix=fix)
        else:
            yield finding


def _wrong_bars(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    has_boards = np.array([raw.venue(code).has_boards for code in table.codes], dtype=np.bool_)
    ticks = np.array([raw.venue(code).ticks_per_unit for code in table.codes])

    def is_coarse(part: BarTable) -> BoolArray:
        exact = np.stack([part["open"], part["close"]]) * ticks[part.column]
        rounding = np.abs(np.floor(exact + 0.5) - exact)
        return np.asarray(part.traded & (rounding > _COARSE * np.abs(exact)).any(axis=0))

    is_untradable = table.judge_parts(
        lambda part: np.fmax(part["open"], part["close"]) >= MAX_PRICE
    )
    lacks_volume = table.judge_parts(lambda part: np.isnan(part["volume"]))
    masks = {
        "incomplete_bars": is_incomplete(raw),
        "non_positive_price": table.judge_parts(is_non_positive),
        "impossible_bars": table.judge_parts(is_impossible),
        "coarse_ticks": table.judge_parts(is_coarse),
        "untradable_price": table.traded & is_untradable,
        "suspended_rows": table.suspended,
        "missing_volume_rows": table.traded & has_boards[table.column] & lacks_volume,
    }
    dropped = masks["non_positive_price"] | masks["impossible_bars"] | _lacks_a_price(raw)
    leaves_nothing = dropped[table.traded].all()

    for kind, mask in masks.items():
        finding = bars_finding(raw, kind, mask)
        if "drop_impossible" in finding.repairs and leaves_nothing:
            finding = dataclasses.replace(finding, repairs=(), fix=_NO_BARS)

        yield finding


def _lacks_a_price(raw: RawMarket) -> BoolArray:
    """Return whether a bar is incomplete beyond repair. A missing high or low can be derived from
    open and close; a missing open or close cannot. Shape: [rows].
    """
    table = raw.table
    ends = table.judge_parts(lambda part: ~np.isfinite(part["open"]) | ~np.isfinite(part["close"]))
    return np.asarray(is_incomplete(raw) & ends)


def _check_gaps(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    step = np.diff(raw.session_numbers())
    gaps = np.flatnonzero(~table.new_code[1:] & (step > 1))
    missing = int((step[gaps] - 1).sum())
    yield finding_of("gaps", missing, (_gap_example(table, row) for row in gaps.tolist()))


def _gap_example(table: BarTable, row: int) -> str:
    """Return `600519.SH 2024-01-03…2024-01-05`: the days between a bar and its asset's next bar."""
    code = table.codes[table.column[row]]
    first = table.days[table.row[row] + 1]
    last = table.days[table.row[row + 1] - 1]
    return f"{code} {first}…{last}"


def _check_amount(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    missing = table.judge_parts(lambda part: part.traded & np.isnan(part["amount"]))
    known = np.bincount(table.column[table.traded & ~missing], minlength=len(table.codes))
    without = [code for code, count in zip(table.codes, known, strict=True) if count == 0]
    fillable = int((missing & np.isfinite(table["volume"] * typical_price(table))).sum())
    fix = _amount_fix(fillable, int(missing.sum()))
    single = missing & (known[table.column] > 0)
    findings = (
        finding_of("codes_without_amount", len(without), without, fix=fix),
        bars_finding(raw, "missing_amount_rows", single, fix=fix),
    )

    for finding in findings:
        if fillable:
            yield finding
        else:
            yield dataclasses.replace(finding, repairs=())

    yield from _check_units(raw)


def _amount_fix(fillable: int, missing: int) -> str:
    if not fillable:
        return "no option helps: give the amounts, or the volumes and prices, in the file"

    fix = "--repair fill_amount takes volume*(high+low+close)/3"
    if fillable < missing:
        fix = f"{fix} on {fillable} of the days; the others lack a volume or a price"

    return fix


def _check_units(raw: RawMarket) -> Iterator[Finding]:
    """Find bars whose amount / volume is not a price within the day's range."""
    faults = unit_faults(raw)
    yield bars_finding(raw, "turnover_rate", faults.rate)
    yield bars_finding(raw, "amount_repeats_volume", faults.repeated)

    if faults.wrong.any():
        advice = unit_advice(raw, faults)
        wrong = finding_of("wrong_units", int(faults.wrong.sum()), advice.examples, fix=advice.fix)
        if not advice.is_repairable:
            wrong = dataclasses.replace(wrong, repairs=())
        yield wrong

    yield bars_finding(raw, "unknown_units", faults.odd & faults.is_unexplained)
    yield bars_finding(raw, "average_price_outside_bar", faults.odd & (not faults.is_unexplained))
    yield finding_of("units_not_judged", int(not faults.is_judged))


def _check_volume(raw: RawMarket) -> Iterator[Finding]:
    """Find assets whose volumes are not in whole shares, and report how the import interpreted
    volumes.
    """
    table = raw.table
    volume = table["volume"]
    is_small, is_whole = in_wholes(volume)
    small = np.bincount(table.column[is_small], minlength=len(table.codes))
    whole = np.bincount(table.column[is_whole], minlength=len(table.codes))

    kinds = [raw.instrument(code).kind for code in table.codes]
    is_coin = np.array([kind == "crypto" for kind in kinds], dtype=np.bool_)
    # Judged per asset: isolated fractional volumes among whole ones are not reported.
    is_fractional = (whole < MOSTLY_WHOLE * small) & ~is_coin
    is_odd = np.isfinite(volume) & (np.round(volume) != volume)

    yield bars_finding(raw, "volume_not_whole", is_odd & is_fractional[table.column])
    yield finding_of("import_notes", len(raw.notes), raw.notes)


def _check_factor(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    if not raw.has_factor:
        yield finding_of("no_factor", 1)
        return

    factor = table["factor"]
    without = without_factor(raw)
    yield finding_of("codes_without_factor", int(without.sum()), np.asarray(table.codes)[without])

    others = table.traded & ~without[table.column]
    yield bars_finding(raw, "factor_missing", others & np.isnan(factor))
    yield bars_finding(raw, "factor_non_positive", others & ((factor <= 0) | np.isinf(factor)))

    fen = table["close"] * 100
    priced = table.traded & raw.in_fen[table.column]
    broken = priced & (np.abs(fen - np.round(fen)) > _FEN_TOLERANCE)

    if (factor != 1).any() and broken.sum() > 0.01 * priced.sum():
        yield bars_finding(raw, "prices_look_adjusted", broken)

    if broken.sum() > 0.5 * len(broken):
        return  # adjusted prices don't move at splits and dividends

    faults = factor_faults(raw)
    inverse = np.unique(table.column[faults.inverse])
    yield finding_of("factor_inverse", len(inverse), np.asarray(table.codes)[inverse])
    yield _jumps_finding(raw, faults.jump)


def _jumps_finding(raw: RawMarket, jump: BoolArray) -> Finding:
    steps = price_steps_near(raw.table, jump)
    finding = finding_of("factor_jumps", int(jump.sum()), _jumps(raw, jump, steps))
    if not steps:
        return finding

    fix = "date the factor, or its split (--splits), on the day of the price's step"
    if len(steps) < finding.count:
        return dataclasses.replace(finding, fix=f"{fix}; for the others {finding.fix}")
    return dataclasses.replace(finding, fix=fix, repairs=())


def _jumps(raw: RawMarket, jump: BoolArray, steps: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    """Yield each jump as `600519.SH 2024-01-04: factor 1.12 to 1, close 10.2 to 10.1`. If the price
    step is on another day, its day is added.
    """
    if not jump.any():
        return

    table = raw.table
    close = table["close"]
    rows, before = last_bars(table)
    for row, last in zip(rows, before, strict=True):
        if jump[row]:
            factors = f"factor {table['factor'][last]:.6g} to {table['factor'][row]:.6g}"
            words = (
                f"{table.label(int(row))}: {factors}, close {close[last]:.6g} to {close[row]:.6g}"
            )
            if int(row) in steps:
                step, earlier = steps[int(row)]
                times = close[step] / close[earlier]
                words += (
                    f"; the price changes by a factor of {times:.3g} on"
                    f" {table.days[table.row[step]]}"
                )
            yield words


def _check_returns(raw: RawMarket) -> Iterator[Finding]:
    """Find moves that hint at a wrong factor or price: moves beyond the price limit or, for stocks
    without a limit, moves by an integer ratio, as at a split.
    """
    table = raw.table
    limits = raw.daily_limits
    has_limit = np.array([raw.venue(code).has_boards for code in table.codes], dtype=np.bool_)
    kinds = [raw.instrument(code).kind for code in table.codes]
    may_split = ~has_limit & np.array([kind != "crypto" for kind in kinds], dtype=np.bool_)
    masks: dict[str, list[BoolArray]] = {"implausible_returns": [], "split_like_moves": []}
    own_kind = _named_otherwise(raw)
    start = 0

    for part in table.parts():
        rows = np.flatnonzero(part.traded & (part["close"] > 0))
        column = part.column[rows]
        adjusted = part["close"][rows]
        if raw.has_factor:
            adjusted = adjusted * part["factor"][rows]

        earlier = adjusted[:-1]
        later = adjusted[1:]
        asset = column[1:]
        is_same = asset == column[:-1]

        # Counts bars since the asset's first bar, because a newly listed share has no price limit.
        age = np.arange(len(rows)) - np.searchsorted(column, np.arange(len(table.codes)))[column]
        move = np.abs(later / earlier - 1)
        is_wild = (age[1:] >= UNLIMITED_DAYS) & (move > limits[asset] * 1.5)

        times = np.maximum(later / earlier, earlier / later)
        whole = np.round(times)
        is_split_like = (whole >= 2) & (np.abs(times / whole - 1) <= SPLIT_TOLERANCE)

        for kind, odd in (
            ("implausible_returns", is_wild),
            ("split_like_moves", may_split[asset] & is_split_like),
        ):
            mask = np.zeros(len(part.row), dtype=np.bool_)
            mask[rows[1:][is_same & odd]] = True
            masks[kind].append(mask & ~own_kind[start : start + len(mask)])

        start += len(part.row)

    for kind, marked in masks.items():
        yield bars_finding(raw, kind, np.concatenate(marked))


def _named_otherwise(raw: RawMarket) -> BoolArray:
    """Return whether a bar's move is reported by another check. The price changes to another unit
    or back, or another company begins. Shape: [rows].
    """
    scales = price_scales(raw)
    named = np.zeros(len(scales), dtype=np.bool_)
    if scales.any():
        rows = np.flatnonzero(raw.table.traded)
        named[rows[1:]] = (scales[rows[1:]] != 0) | (scales[rows[:-1]] != 0)

    named[[first for _, first in breaks_after_gaps(raw)]] = True
    named[[first for first, _ in price_steps(raw)]] = True

    return named


def _check_names(raw: RawMarket) -> Iterator[Finding]:
    """Find dated names that contradict each other, and facts that the source gives for one date
    only. A task that shows such a fact would reveal later years.
    """
    if not raw.synthetic:
        yield from _check_facts_of_one_day(raw)
        yield from check_listings(raw)

    names = raw.names.sort_values(["code", "first"], kind="stable")
    first = as_days(names["first"])
    last = as_days(names["last"])
    codes = names["code"].to_numpy(dtype=object)
    wrong = last < first
    wrong[1:] |= (codes[1:] == codes[:-1]) & (first[1:] <= last[:-1])
    rows = np.flatnonzero(wrong)
    spans = (f"{codes[row]} {first[row]}…{last[row]}" for row in rows)
    yield finding_of("name_days_overlap", len(rows), spans)

    owners = names.groupby("code_then")["code"].unique()
    shared = owners[owners.map(len) > 1]
    examples = (f"{then}: {' and '.join(sorted(own))}" for then, own in shared.items())
    yield finding_of("code_of_two_assets", len(shared), examples)


def _check_facts_of_one_day(raw: RawMarket) -> Iterator[Finding]:
    known = raw.assets[raw.assets["code"].isin(raw.codes)]
    named: Sequence[str] = ()
    if raw.names.empty:
        has_name = (known["name"] != "") & (known["name"] != known["code"])
        named = known["code"][has_name].tolist()
    yield finding_of("names_of_one_day", len(named), named)

    has_industry = ~raw.assets["industry"].isin(("", UNKNOWN_INDUSTRY))
    classified = known["code"][has_industry.reindex(known.index)]
    yield finding_of("industries_of_one_day", len(classified), classified)

    without: list[str] = []
    if has_industry.any():
        without = sorted(set(raw.codes).difference(classified))
    yield finding_of("assets_without_industry", len(without), without)

    # The snapshot has one limit per board: the current one.
    early = int((raw.table.days < CHINEXT_REFORM).sum())
    has_chinext = any(code.startswith("30") and raw.venue(code).has_boards for code in raw.codes)
    yield finding_of("limits_of_later_years", early if has_chinext else 0)


_CHECKS: tuple[Callable[[RawMarket], Iterator[Finding]], ...] = (
    _check_rows,
    _check_renumbering,
    _check_ends,
    _check_gaps,
    _check_amount,
    _check_volume,
    _check_factor,
    _check_returns,
    check_sessions,
    check_member_intervals,
    check_members,
    _check_names,
    check_indices,
    check_documents,
    check_minutes,
    check_limit_prices,
    check_quotes,
    check_series,
    check_impossible_volumes,
)
