"""Faults of market data: each check counts one kind of fault and names the first examples.

`check` works on tables fresh from a source and, through `raw_from_snapshot`, on stored snapshots. Faults of severity `error`
would change results silently, so `ktdeval.market.assembly` refuses them unless a repair that fixes them is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval.jsonio import csv_rows
from ktdeval.market import document_files
from ktdeval.market.calendar import sessions
from ktdeval.market.raw import PRICE_FIELDS, UNKNOWN_INDUSTRY, BarTable, RawMarket, as_days, membership, raw_from_snapshot
from ktdeval.market.snapshot import DAILY_LIMIT_PCT, BoolArray, DayArray, board_of, parse_code, parse_symbol
from ktdeval.market.units import MOSTLY_WHOLE, average_price, in_wholes, outside_bar, wrong_units
from ktdeval.market.venue import MAX_PRICE

__all__ = ["LOOKBACK_DAYS", "Finding", "RawMarket", "check", "raw_from_snapshot"]

Severity = Literal["error", "warning", "info"]
EXAMPLES = 5
LOOKBACK_DAYS = 252
"""The first year of data only feeds look-backs (the longest factor window): what is missing there can't be traded or held."""
UNLIMITED_DAYS = 5  #: A new listing trades its first five days without a price limit
INDEX_SIZES = {"000300.SH": 300, "000016.SH": 50, "000905.SH": 500, "000852.SH": 1000}
FAR_FROM_NOMINAL = 0.1  #: A universe that is off by more than this part of its index's size is another one
CHINEXT_REFORM = np.datetime64("2020-08-24")  #: Since this day ChiNext trades within 20 %, before it within 10 %
ACCEPT_MEMBER_COUNT = "accept_member_count"
_FEN_TOLERANCE = 0.02  # of a fen: single-precision sources are off by that much at prices of 1,000 and above
SPLIT_TOLERANCE = 0.05  #: A close that moves by a whole number of times, give or take this part, looks like a split
_PRICE_TOLERANCE = 1e-6  # relative: adjusted prices in single precision disagree by that much
_COARSE = 1e-3  # part of a price by which rounding to a tick may move it


@dataclass(frozen=True)
class Finding:
    """One kind of fault (or notable fact) in market data."""

    kind: str  #: identifier, as listed in the docs
    severity: Severity  #: `error` blocks an import, `warning` may bend results, `info` is worth knowing
    count: int  #: how many rows, codes or days; the hint says which
    examples: tuple[str, ...]  #: the first few, in words
    hint: str  #: what it means and how to fix it
    repairs: tuple[str, ...] = ()  #: names of repairs that fix it


@np.errstate(divide="ignore", invalid="ignore")  # volumes and factors of zero and infinite prices are faults of their own
def check(raw: RawMarket) -> list[Finding]:
    """Every fault found in a market's tables, errors first; an empty list means nothing at all is notable."""
    findings = [finding for judge in _CHECKS for finding in judge(raw) if finding.count]
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(findings, key=lambda finding: order[finding.severity])


@cache
def _kinds() -> Mapping[str, Mapping[str, str]]:
    """Severity, repairs and hint of each kind of finding."""
    return {row["kind"]: row for row in csv_rows(Path(__file__).with_name("findings.csv"))}


def _finding(kind: str, count: int, examples: Iterable[str] = (), about: object = "") -> Finding:
    """Return a finding in the words of its kind; `about` fills the blank in them."""
    words = _kinds()[kind]
    severity = cast("Severity", words["severity"])
    first = tuple(islice(examples, EXAMPLES))
    return Finding(kind, severity, count, first, words["hint"].format(about), tuple(words["repairs"].split()))


def _bars_finding(raw: RawMarket, kind: str, mask: BoolArray, about: object = "") -> Finding:
    rows = np.flatnonzero(mask)
    return _finding(kind, len(rows), (raw.table.label(int(row)) for row in rows), about)


def is_incomplete(raw: RawMarket) -> BoolArray:
    """[rows] a traded bar lacks at least one of its four prices, or the close of an asset that has closes only."""
    table = raw.table
    any_absent = table.judged(lambda part: np.any([~np.isfinite(part[name]) for name in PRICE_FIELDS], axis=0))
    no_close = table.judged(lambda part: ~np.isfinite(part["close"]))
    return np.asarray(table.traded & np.where(raw.close_only[table.column], no_close, any_absent))


def is_non_positive(table: BarTable) -> BoolArray:
    """[rows] a traded bar has a price of zero or below."""
    return np.asarray(table.traded & np.any([table[name] <= 0 for name in PRICE_FIELDS], axis=0))


def is_impossible(table: BarTable) -> BoolArray:
    """[rows] no trading day can give this bar: high below low, open or close outside them, an unreal volume or amount."""
    high, low = table["high"], table["low"]
    slack = np.abs(high) * _PRICE_TOLERANCE
    wrong = high < low - slack
    for name in ("open", "close"):
        wrong |= (table[name] > high + slack) | (table[name] < low - slack)
    for name in ("volume", "amount"):
        wrong |= (table[name] < 0) | np.isinf(table[name])
    return np.asarray(table.traded & wrong)


def fits_venue(raw: RawMarket, code: str) -> bool:
    """Whether a code is one of its venue: an A-share's where there are boards (not `000300.SH`, an index), a symbol elsewhere."""
    return parse_code(code[:6]) == code if raw.venue(code).has_boards else parse_symbol(code) == code


def _check_rows(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    unknown = [code for code in raw.codes if not fits_venue(raw, code)]
    for kind, boards in (("unknown_codes", True), ("unknown_symbols", False)):
        codes = [code for code in unknown if raw.venue(code).has_boards is boards]
        yield _finding(kind, len(codes), map(repr, codes) if kind == "unknown_symbols" else codes)
    of_boards = np.array([raw.venue(code).has_boards for code in table.codes], dtype=np.bool_)[table.column]
    ticks = np.array([raw.venue(code).ticks_per_unit for code in table.codes])

    def is_coarse(part: BarTable) -> BoolArray:
        exact = np.stack([part["open"], part["close"]]) * ticks[part.column]
        return np.asarray(part.traded & (np.abs(np.floor(exact + 0.5) - exact) > _COARSE * np.abs(exact)).any(axis=0))

    masks = {
        "duplicate_rows": table.duplicated(),
        "incomplete_bars": is_incomplete(raw),
        "non_positive_price": table.judged(is_non_positive),
        "impossible_bars": table.judged(is_impossible),
        "coarse_ticks": table.judged(is_coarse),
        "untradable_price": table.traded & table.judged(lambda part: np.fmax(part["open"], part["close"]) >= MAX_PRICE),
        "suspended_rows": table.suspended,
        "missing_volume_rows": table.traded & of_boards & table.judged(lambda part: np.isnan(part["volume"])),
    }
    for kind, mask in masks.items():
        yield _bars_finding(raw, kind, mask)


def _check_gaps(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    step = np.diff(raw.session_numbers())
    gap = np.flatnonzero(~table.new_code[1:] & (step > 1))
    missing = int((step[gap] - 1).sum())
    examples = (
        f"{table.codes[table.column[row]]} {table.days[table.row[row] + 1]}…{table.days[table.row[row + 1] - 1]}" for row in gap
    )
    yield _finding("gaps", missing, examples)


def _check_amount(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    missing = table.judged(lambda part: part.traded & np.isnan(part["amount"]))
    known = np.bincount(table.column[table.traded & ~missing], minlength=len(table.codes))
    without = [code for code, count in zip(table.codes, known, strict=True) if count == 0]
    yield _finding("codes_without_amount", len(without), without)
    yield _bars_finding(raw, "missing_amount_rows", missing)
    wrong = wrong_units(raw)
    if wrong is not None:
        yield _bars_finding(raw, "wrong_units", wrong[0], wrong[1])
    elif raw.has_factor:  # adjusted prices never agree with amount and volume
        yield _bars_finding(raw, "average_price_outside_bar", table.judged(lambda part: outside_bar(part, average_price(part))))


def _check_volume(raw: RawMarket) -> Iterator[Finding]:
    """Volumes of codes that are not whole shares, or that the import had to interpret."""
    volume, column = raw.table["volume"], raw.table.column
    small, whole = (np.bincount(column[mask], minlength=len(raw.table.codes)) for mask in in_wholes(volume))
    coins = np.array([raw.instrument(code).kind == "crypto" for code in raw.table.codes], dtype=np.bool_)
    no_counts = ((whole < MOSTLY_WHOLE * small) & ~coins)[column]
    yield _bars_finding(raw, "volume_not_whole", np.isfinite(volume) & (np.round(volume) != volume) & no_counts)
    yield _finding("import_notes", len(raw.notes), raw.notes)


def _check_factor(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    if not raw.has_factor:
        yield _finding("no_factor", 1)
        return
    factor = table["factor"]
    yield _bars_finding(raw, "factor_missing", table.traded & np.isnan(factor))
    yield _bars_finding(raw, "factor_non_positive", table.traded & ((factor <= 0) | np.isinf(factor)))
    fen, priced = table["close"] * 100, table.traded & raw.in_fen[table.column]
    broken = priced & (np.abs(fen - np.round(fen)) > _FEN_TOLERANCE)
    if (factor != 1).any() and broken.sum() > 0.01 * priced.sum():
        yield _bars_finding(raw, "prices_look_adjusted", broken)


def _check_returns(raw: RawMarket) -> Iterator[Finding]:
    """Moves beyond what the price limit allows, or of stocks without one by whole numbers of times: mostly a factor or a price that
    is wrong.
    """
    table = raw.table
    bounded = np.array([raw.venue(code).has_boards for code in table.codes], dtype=np.bool_)
    known = {code for code, own in zip(table.codes, bounded, strict=True) if own and fits_venue(raw, code)}
    limits = np.array([DAILY_LIMIT_PCT[board_of(code)] / 100 if code in known else np.inf for code in table.codes])
    splits = ~bounded & np.array([raw.instrument(code).kind != "crypto" for code in table.codes], dtype=np.bool_)
    masks: dict[str, list[BoolArray]] = {"implausible_returns": [], "split_like_moves": []}
    for part in table.parts():
        rows = np.flatnonzero(part.traded & (part["close"] > 0))
        column = part.column[rows]
        adjusted = part["close"][rows] * (part["factor"][rows] if raw.has_factor else 1.0)
        move = np.abs(adjusted[1:] / adjusted[:-1] - 1)
        times = np.maximum(adjusted[1:] / adjusted[:-1], adjusted[:-1] / adjusted[1:])
        whole = (np.round(times) >= 2) & (np.abs(times / np.round(times) - 1) <= SPLIT_TOLERANCE)
        age = np.arange(len(rows)) - np.searchsorted(column, np.arange(len(table.codes)))[column]
        same, later = column[1:] == column[:-1], column[1:]
        wild = (age[1:] >= UNLIMITED_DAYS) & (move > limits[later] * 1.5)
        for kind, odd in (("implausible_returns", wild), ("split_like_moves", splits[later] & whole)):
            mask = np.zeros(len(part.row), dtype=np.bool_)
            mask[rows[1:][same & odd]] = True
            masks[kind].append(mask)
    for kind, marked in masks.items():
        yield _bars_finding(raw, kind, np.concatenate(marked))


def _check_calendar(raw: RawMarket) -> Iterator[Finding]:
    days = raw.table.days
    yield _finding("short_history", len(days) if len(days) < LOOKBACK_DAYS else 0, about=LOOKBACK_DAYS)
    for calendar in filter(None, np.unique(raw.calendars).tolist()):
        own = raw.calendar_days(calendar)
        try:
            expected = sessions(own[0], own[-1], calendar)
        except DataError as error:
            yield _finding("calendar_unknown", 1, about=error)
            continue
        extra, missing = np.setdiff1d(own, expected), np.setdiff1d(expected, own)
        examples = [*(f"{day} is no session" for day in extra), *(f"{day} has no bars" for day in missing)]
        yield _finding("calendar_mismatch", len(examples), examples, calendar)


def _check_intervals(raw: RawMarket) -> Iterator[Finding]:
    members = raw.members.sort_values(["code", "first"], kind="stable")
    codes = members["code"].to_numpy(dtype=object)
    first, last = as_days(members["first"]), as_days(members["last"])
    reversed_ = np.flatnonzero(last < first)
    examples = (f"{codes[row]} {first[row]}…{last[row]}" for row in reversed_)
    yield _finding("membership_reversed", len(reversed_), examples)
    overlap = np.flatnonzero((codes[1:] == codes[:-1]) & (first[1:] <= last[:-1]))
    examples = (f"{codes[row]} {first[row]}…{last[row]} and {first[row + 1]}…{last[row + 1]}" for row in overlap)
    yield _finding("membership_overlaps", len(overlap), examples)


def _check_members(raw: RawMarket) -> Iterator[Finding]:
    table, days = raw.table, raw.table.days
    member = membership(raw.members, days, raw.codes)
    priced = {table.codes[column] for column in np.flatnonzero(np.bincount(table.column[table.traded])).tolist()}
    unpriced = np.array([code not in priced for code in raw.codes])
    lookback = LOOKBACK_DAYS if len(days) > LOOKBACK_DAYS else 0
    later = unpriced & member[lookback:].any(axis=0)
    yield _finding("unpriced_members", int(later.sum()), _spans(member, later, raw.codes, days))
    early = unpriced & member.any(axis=0) & ~later
    yield _finding("unpriced_members_in_lookback", int(early.sum()), _spans(member, early, raw.codes, days), LOOKBACK_DAYS)
    yield _unrecorded_member_days(raw, member & ~unpriced & raw.has_members)
    counts = member.sum(axis=1)
    expected = INDEX_SIZES.get(raw.benchmark)
    if expected is not None:
        is_far = (np.abs(counts - expected) > FAR_FROM_NOMINAL * expected) & (np.arange(len(days)) >= lookback)
        is_far &= raw.has_members and not any(repair.startswith(ACCEPT_MEMBER_COUNT) for repair in raw.repairs)
        for kind, odd in (("member_count_far", is_far), ("member_count", (counts != expected) & ~is_far)):
            rows = np.flatnonzero(odd)
            yield _finding(kind, len(rows), (f"{days[row]}: {counts[row]}" for row in rows), expected)


def _spans(member: BoolArray, chosen: BoolArray, codes: tuple[str, ...], days: DayArray) -> Iterator[str]:
    for column in np.flatnonzero(chosen).tolist():
        rows = np.flatnonzero(member[:, column])
        yield f"{codes[column]} member {days[rows[0]]}…{days[rows[-1]]}"


def _unrecorded_member_days(raw: RawMarket, member: BoolArray) -> Finding:
    """Days on which a member is not listed yet or no more, as far as its bars tell. Days missing in between are `gaps`."""
    table = raw.table
    column_of = {code: column for column, code in enumerate(raw.codes)}
    columns = np.array([column_of[code] for code in table.codes], dtype=np.int64)
    starts = np.flatnonzero(table.new_code)
    first, last = table.row[starts], table.row[np.append(starts[1:], len(table.row)) - 1]
    outside = member.copy()
    rows = np.arange(len(table.days))[:, None]
    outside[:, columns] &= (rows < first) | (rows > last)
    where = np.argwhere(outside)
    return _finding("unrecorded_member_days", len(where), (f"{raw.codes[int(column)]} {table.days[row]}" for row, column in where))


def _check_names(raw: RawMarket) -> Iterator[Finding]:
    """Facts known of one day only, which show visible tasks later years; dated names that contradict each other."""
    if not raw.synthetic:
        known = raw.assets[raw.assets["code"].isin(raw.codes)]
        named = known["code"][(known["name"] != "") & (known["name"] != known["code"])] if raw.names.empty else ()
        yield _finding("names_of_one_day", len(named), named)
        has_industry = ~raw.assets["industry"].isin(("", UNKNOWN_INDUSTRY))
        classified = known["code"][has_industry.reindex(known.index)]
        yield _finding("industries_of_one_day", len(classified), classified)
        without = sorted(set(raw.codes).difference(classified)) if has_industry.any() else ()
        yield _finding("assets_without_industry", len(without), without)
        early = (raw.table.days < CHINEXT_REFORM).sum()
        chinext = any(code.startswith("30") and raw.venue(code).has_boards for code in raw.codes)
        yield _finding("limits_of_later_years", int(early) if chinext else 0)
    names = raw.names.sort_values(["code", "first"], kind="stable")
    first, last, codes = as_days(names["first"]), as_days(names["last"]), names["code"].to_numpy(dtype=object)
    wrong = last < first
    wrong[1:] |= (codes[1:] == codes[:-1]) & (first[1:] <= last[:-1])
    rows = np.flatnonzero(wrong)
    yield _finding("name_days_overlap", len(rows), (f"{codes[row]} {first[row]}…{last[row]}" for row in rows))
    owners = names.groupby("code_then")["code"].unique()
    shared = owners[owners.map(len) > 1]
    yield _finding("code_of_two_assets", len(shared), (f"{then}: {' and '.join(sorted(own))}" for then, own in shared.items()))


def _check_indices(raw: RawMarket) -> Iterator[Finding]:
    repeated = raw.indices[["date", "code"]].duplicated().to_numpy()
    codes = raw.indices["code"].to_numpy(dtype=object)
    dates = as_days(raw.indices["date"])
    examples = (f"{codes[row]} {dates[row]}" for row in np.flatnonzero(repeated))
    yield _finding("duplicate_index_rows", int(repeated.sum()), examples)
    levels = raw.indices["close"].to_numpy(dtype=np.float64)
    known = (levels > 0) & np.isfinite(levels)
    for code in sorted({raw.benchmark, *codes} - {""}):
        missing = np.setdiff1d(raw.table.days, dates[(codes == code) & known])
        kind = "benchmark_gaps" if code == raw.benchmark else "index_gaps"
        yield _finding(kind, len(missing), map(str, missing), code)


def _check_documents(raw: RawMarket) -> Iterator[Finding]:
    yield from (_finding(*fault) for fault in document_files.faults(raw.documents, frozenset(raw.codes)))


def _check_minutes(raw: RawMarket) -> Iterator[Finding]:
    """Bars within days against each other and against the daily bars; their days are those of their venues' time zones."""
    if not raw.minutes:
        return
    table, rows, ends = raw.table, raw.minutes.rows, raw.minutes.rows[["asset", "ends_at"]]
    column = (pd.Index(table.codes).get_indexer(pd.Index(raw.minutes.codes)))[rows["asset"]]
    day = pd.Index(table.days).get_indexer(pd.Index(raw.minutes.days(lambda code: raw.venue(code).zone)))
    keys = table.column * np.int64(len(table.days)) + table.row
    bar = np.minimum(np.searchsorted(keys, column * len(table.days) + day), len(keys) - 1)
    has_bar = (table.column[bar] == column) & (table.row[bar] == day) & table.traded[bar]
    prices = np.stack([rows[name] for name in PRICE_FIELDS])
    wrong = ~((prices > 0) & (prices <= rows["high"]) & (prices >= rows["low"]) & np.isfinite(prices)).all(axis=0)
    slack, (high, low) = 1 + _PRICE_TOLERANCE, (table[name][bar] for name in ("high", "low"))
    total, volume = np.bincount(bar, rows["volume"], len(keys))[bar], table["volume"][bar]
    masks = {
        "minutes": np.ones(len(rows), dtype=np.bool_),
        "minutes_without_bar": ~has_bar,
        "minutes_repeated": np.append(False, ends[1:] == ends[:-1]),
        "minutes_impossible": wrong | (rows["volume"] < 0) | np.isinf(rows["volume"]),
        "minutes_outside_bar": has_bar & ((rows["high"] > high * slack) | (rows["low"] * slack < low)),
        "minutes_volume": has_bar & ((total > 2 * volume) | (10 * total < volume)),
    }
    for kind, mask in masks.items():
        examples = (f"{raw.minutes.codes[row['asset']]} {row['ends_at']} UTC" for row in rows[mask][:EXAMPLES])
        yield _finding(kind, int(mask.sum()), examples)


_CHECKS: tuple[Callable[[RawMarket], Iterator[Finding]], ...] = (
    _check_rows, _check_gaps, _check_amount, _check_volume, _check_factor, _check_returns, _check_calendar, _check_intervals,
    _check_members, _check_names, _check_indices, _check_documents, _check_minutes,
)  # fmt: skip
