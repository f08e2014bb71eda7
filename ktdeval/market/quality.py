"""What is wrong with market data: each check counts one kind of fault and names the first examples.

`check` works on tables fresh from a source and, through `raw_from_snapshot`, on stored snapshots. Faults of severity `error`
would change results silently, so `ktdeval.market.assemble` refuses them unless told which repair to apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market.calendar import sessions
from ktdeval.market.codes import DAILY_LIMIT_PCT, board_of, parse_code
from ktdeval.market.raw import PRICE_FIELDS, BarTable, RawMarket, as_days, membership, raw_from_snapshot
from ktdeval.market.snapshot import BoolArray, DayArray, FloatArray

__all__ = ["LOOKBACK_DAYS", "Finding", "RawMarket", "check", "raw_from_snapshot"]

Severity = Literal["error", "warning", "info"]
EXAMPLES = 5
LOOKBACK_DAYS = 252
"""The first year of data only feeds look-backs (the longest factor window): what is missing there can't be traded or held."""
UNLIMITED_DAYS = 5
"""A new listing trades its first five days without a price limit."""
INDEX_SIZES = {"000300.SH": 300, "000016.SH": 50, "000905.SH": 500, "000852.SH": 1000}
_FEN_TOLERANCE = 0.02  # of a fen: single-precision sources are off by that much at 1,000 CNY and above
_VWAP_SLACK = 1.01
_PRICE_TOLERANCE = 1e-6  # relative: adjusted prices in single precision disagree by that much


@dataclass(frozen=True)
class Finding:
    """One kind of fault (or notable fact) in market data.

    Attributes:
        kind: identifier, as listed in the docs.
        severity: `error` blocks an import, `warning` may bend results, `info` is worth knowing.
        count: how many rows, codes or days; the hint says which.
        examples: the first few, in words.
        hint: what it means and how to mend it.
        repairs: names of repairs that mend it.
    """

    kind: str
    severity: Severity
    count: int
    examples: tuple[str, ...]
    hint: str
    repairs: tuple[str, ...] = ()


def check(raw: RawMarket) -> list[Finding]:
    """Every fault found in a market's tables, errors first; an empty list means nothing at all is notable."""
    found = [finding for judge in _CHECKS for finding in judge(raw) if finding.count]
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda finding: order[finding.severity])


def _bars_finding(raw: RawMarket, mask: BoolArray, kind: str, severity: Severity, hint: str, *repairs: str) -> Finding:
    places = np.flatnonzero(mask)
    examples = tuple(raw.table.label(int(place)) for place in places[:EXAMPLES])
    return Finding(kind, severity, len(places), examples, hint, repairs)


def _first(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(item for item, _ in zip(items, range(EXAMPLES), strict=False))


def is_incomplete(table: BarTable) -> BoolArray:
    """[rows] a traded bar lacks at least one of its four prices."""
    absent = np.stack([~np.isfinite(table.values[name]) for name in PRICE_FIELDS])
    return np.asarray(table.traded & absent.any(axis=0))


def is_non_positive(table: BarTable) -> BoolArray:
    """[rows] a traded bar has a price of zero or below."""
    return np.asarray(table.traded & np.stack([table.values[name] <= 0 for name in PRICE_FIELDS]).any(axis=0))


def is_impossible(table: BarTable) -> BoolArray:
    """[rows] no trading day can give this bar: high below low, open or close outside them, an unreal volume or amount."""
    high, low = table.values["high"], table.values["low"]
    slack = np.abs(high) * _PRICE_TOLERANCE
    wrong = high < low - slack
    for name in ("open", "close"):
        wrong |= (table.values[name] > high + slack) | (table.values[name] < low - slack)
    for name in ("volume", "amount"):
        wrong |= (table.values[name] < 0) | np.isinf(table.values[name])
    return np.asarray(table.traded & wrong)


def _check_codes(raw: RawMarket) -> Iterator[Finding]:
    unknown = [code for code in raw.codes if not is_known_code(code)]
    hint = "codes that belong to no A-share board; correct the code column or drop them"
    yield Finding("unknown_codes", "error", len(unknown), _first(unknown), hint, ("drop_unknown_codes",))


def is_known_code(code: str) -> bool:
    """Whether a code is normalised (`600519.SH`) and belongs to an A-share board."""
    try:
        board_of(code)
    except DataError:
        return False
    return parse_code(code) == code


def _check_rows(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    yield _bars_finding(
        raw, table.duplicated(), "duplicate_rows", "error",
        "rows that repeat a code and day; drop_duplicates keeps the first of each", "drop_duplicates",
    )  # fmt: skip
    yield _bars_finding(
        raw, is_incomplete(table), "incomplete_bars", "error",
        "days with trade but without all four prices", "derive_high_low", "drop_impossible",
    )  # fmt: skip
    yield _bars_finding(
        raw, is_non_positive(table), "non_positive_price", "error",
        "days with trade and a price of zero or below", "drop_impossible",
    )  # fmt: skip
    yield _bars_finding(
        raw, is_impossible(table), "impossible_bars", "error",
        "high below low, open or close outside them, or negative or infinite volume or amount", "drop_impossible",
    )  # fmt: skip
    yield _bars_finding(
        raw, table.suspended, "suspended_rows", "info",
        "rows of days without trade (marked so, zero volume, or a flat bar without volume); they become days without a bar",
    )  # fmt: skip
    yield _bars_finding(
        raw, table.traded & np.isnan(table.values["volume"]), "missing_volume_rows", "warning",
        "days with prices but without volume: such a day can't be traded on",
    )  # fmt: skip


def _check_gaps(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    step = table.row[1:] - table.row[:-1]
    gap = np.flatnonzero(~table.new_code[1:] & (step > 1))
    missing = int((step[gap] - 1).sum())
    examples = (
        f"{table.codes[table.column[place]]} {table.days[table.row[place] + 1]}…{table.days[table.row[place + 1] - 1]}"
        for place in gap
    )
    hint = "days inside a code's life without a row; they are treated as suspended"
    yield Finding("gaps", "warning", missing, _first(examples), hint)


def _check_amount(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    missing = table.traded & np.isnan(table.values["amount"])
    known = np.bincount(table.column[table.traded & ~missing], minlength=len(table.codes))
    without = [code for code, count in zip(table.codes, known, strict=True) if count == 0]
    hint = "codes that have no amount on any day; factors that use amount are not defined for them"
    yield Finding("codes_without_amount", "warning", len(without), _first(without), hint, ("fill_amount",))
    hint = "days with trade but without amount (the codes without any among them); fill_amount takes volume*(high+low+close)/3"
    yield _bars_finding(raw, missing, "missing_amount_rows", "warning", hint, "fill_amount")
    with np.errstate(divide="ignore", invalid="ignore"):
        average = table.values["amount"] / table.values["volume"]
    off = table.traded & ((average < table.values["low"] / _VWAP_SLACK) | (average > table.values["high"] * _VWAP_SLACK))
    # Adjusted prices never agree with amount and volume; units that are wrong are off by a factor of 100 or more on every day.
    if raw.has_factor or _wrong_units(average[table.traded], table.values["close"][table.traded]):
        hint = "days whose average price, amount / volume, lies outside low and high; when it is most of them, look at the units"
        yield _bars_finding(raw, off, "average_price_outside_bar", "warning", hint)


def _wrong_units(average: FloatArray, close: FloatArray) -> bool:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = average / close
    ratio = ratio[np.isfinite(ratio)]
    return bool(len(ratio) and not 0.02 < np.median(ratio) < 50)


def _check_factor(raw: RawMarket) -> Iterator[Finding]:
    table = raw.table
    if not raw.has_factor:
        hint = (
            "prices came without an adjustment factor: they are traded as they are, and cards say so; if they are unadjusted,"
            " splits and dividends show as losses"
        )
        yield Finding("no_factor", "info", 1, (), hint)
        return
    factor = table.values["factor"]
    yield _bars_finding(
        raw, table.traded & np.isnan(factor), "factor_missing", "error",
        "days with trade but without adjustment factor; fill_factor takes the code's last one before (at its start, the next)",
        "fill_factor",
    )  # fmt: skip
    yield _bars_finding(
        raw, table.traded & ((factor <= 0) | np.isinf(factor)), "factor_non_positive", "error",
        "adjustment factors of zero or below, or infinite; fill_factor takes the code's last one before", "fill_factor",
    )  # fmt: skip
    fen = table.values["close"] * 100
    broken = table.traded & (np.abs(fen - np.round(fen)) > _FEN_TOLERANCE)
    if (factor != 1).any() and broken.sum() > 0.01 * table.traded.sum():
        yield _bars_finding(
            raw, broken, "prices_look_adjusted", "error",
            "there is a factor, but closes are not in whole fen: they look adjusted already; map the unadjusted columns"
            " or say prices=adjusted (or round_prices, if they are unadjusted nevertheless)",
        )  # fmt: skip


def _check_returns(raw: RawMarket) -> Iterator[Finding]:
    """Moves beyond what the price limit allows: mostly a factor or a price that is wrong."""
    table = raw.table
    places = np.flatnonzero(table.traded & (table.values["close"] > 0))
    column = table.column[places]
    adjusted = table.values["close"][places] * (table.values["factor"][places] if raw.has_factor else 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # a factor of zero has a finding of its own
        move = np.abs(adjusted[1:] / adjusted[:-1] - 1)
    limits = np.array([DAILY_LIMIT_PCT[board_of(code)] / 100 if is_known_code(code) else np.inf for code in table.codes])
    starts = np.searchsorted(column, np.arange(len(table.codes)))
    age = np.arange(len(places)) - starts[column]
    wild = (column[1:] == column[:-1]) & (age[1:] >= UNLIMITED_DAYS) & (move > limits[column[1:]] * 1.5)
    mask = np.zeros(len(table.column), dtype=np.bool_)
    mask[places[1:][wild]] = True
    hint = (
        "adjusted closes that move by more than 1.5 times the daily limit: look for a wrong price or factor, or a long suspension"
    )
    yield _bars_finding(raw, mask, "implausible_returns", "warning", hint)


def _check_calendar(raw: RawMarket) -> Iterator[Finding]:
    days = raw.table.days
    try:
        expected = sessions(days[0], days[-1])
    except DataError as error:
        yield Finding("calendar_unknown", "info", 1, (), f"days could not be compared with XSHG's: {error}")
        return
    extra, missing = np.setdiff1d(days, expected), np.setdiff1d(expected, days)
    examples = _first([*(f"{day} is no session" for day in extra), *(f"{day} has no bars" for day in missing)])
    hint = "days that differ from the sessions of XSHG; drop_non_sessions drops bars of days that are none"
    yield Finding("calendar_mismatch", "warning", len(extra) + len(missing), examples, hint, ("drop_non_sessions",))


def _check_intervals(raw: RawMarket) -> Iterator[Finding]:
    members = raw.members.sort_values(["code", "first"], kind="stable")
    codes = members["code"].to_numpy(dtype=object)
    first, last = as_days(members["first"]), as_days(members["last"])
    reversed_ = np.flatnonzero(last < first)
    hint = "membership intervals that end before they begin; resolve_overlaps leaves them out"
    examples = _first(f"{codes[place]} {first[place]}…{last[place]}" for place in reversed_)
    yield Finding("membership_reversed", "error", len(reversed_), examples, hint, ("resolve_overlaps",))
    overlap = np.flatnonzero((codes[1:] == codes[:-1]) & (first[1:] <= last[:-1]))
    examples = _first(f"{codes[place]} {first[place]}…{last[place]} and {first[place + 1]}…{last[place + 1]}" for place in overlap)
    hint = "membership intervals of one code that overlap; resolve_overlaps joins them"
    yield Finding("membership_overlaps", "error", len(overlap), examples, hint, ("resolve_overlaps",))


def _check_members(raw: RawMarket) -> Iterator[Finding]:
    table, days = raw.table, raw.table.days
    member = membership(raw.members, days, raw.codes)
    priced = set(np.array(table.codes, dtype=object)[np.unique(table.column[table.traded])])
    unpriced = np.array([code not in priced for code in raw.codes])
    lookback = LOOKBACK_DAYS if len(days) > LOOKBACK_DAYS else 0
    later = unpriced & member[lookback:].any(axis=0)
    hint = "members without a single bar: they can't be traded, and the universe is smaller than the index"
    yield Finding("unpriced_members", "warning", int(later.sum()), _spans(member, later, raw.codes, days), hint)
    early = unpriced & member.any(axis=0) & ~later
    hint = f"the same, but members only in the first {LOOKBACK_DAYS} days, which only feed look-backs"
    yield Finding("unpriced_members_in_lookback", "info", int(early.sum()), _spans(member, early, raw.codes, days), hint)
    yield _unrecorded_member_days(raw, member & ~unpriced)
    counts = member.sum(axis=1)
    expected = INDEX_SIZES.get(raw.benchmark)
    if expected is not None:
        odd = np.flatnonzero(counts != expected)
        examples = _first(f"{days[row]}: {counts[row]}" for row in odd)
        hint = f"days on which the number of members is not the index's {expected}"
        yield Finding("member_count", "info", len(odd), examples, hint)


def _spans(member: BoolArray, chosen: BoolArray, codes: tuple[str, ...], days: DayArray) -> tuple[str, ...]:
    def span(column: int) -> str:
        rows = np.flatnonzero(member[:, column])
        return f"{codes[column]} member {days[rows[0]]}…{days[rows[-1]]}"

    return _first(span(int(column)) for column in np.flatnonzero(chosen))


def _unrecorded_member_days(raw: RawMarket, member: BoolArray) -> Finding:
    """Days on which a member is not listed yet or no more, as far as its bars tell. Days missing in between are `gaps`."""
    table = raw.table
    place = {code: column for column, code in enumerate(raw.codes)}
    columns = np.array([place[code] for code in table.codes], dtype=np.int64)
    starts = np.flatnonzero(table.new_code)
    first, last = table.row[starts], table.row[np.append(starts[1:], len(table.row)) - 1]
    outside = member.copy()
    rows = np.arange(len(table.days))[:, None]
    outside[:, columns] &= (rows < first) | (rows > last)
    where = np.argwhere(outside)
    examples = _first(f"{raw.codes[int(column)]} {table.days[row]}" for row, column in where)
    hint = "days on which a member has no bar yet, or no more: it can't be traded then"
    return Finding("unrecorded_member_days", "warning", len(where), examples, hint)


def _check_indices(raw: RawMarket) -> Iterator[Finding]:
    rows = raw.indices[["date", "code"]].duplicated().to_numpy()
    codes = raw.indices["code"].to_numpy(dtype=object)
    dates = as_days(raw.indices["date"])
    examples = _first(f"{codes[place]} {dates[place]}" for place in np.flatnonzero(rows))
    hint = "index levels that repeat a code and day; drop_duplicates keeps the first of each"
    yield Finding("duplicate_index_rows", "error", int(rows.sum()), examples, hint, ("drop_duplicates",))
    levels = raw.indices["close"].to_numpy(dtype=np.float64)
    known = (levels > 0) & np.isfinite(levels)
    for code in sorted({raw.benchmark, *codes}):
        missing = np.setdiff1d(raw.table.days, dates[(codes == code) & known])
        kind = "benchmark_gaps" if code == raw.benchmark else "index_gaps"
        hint = f"days with bars but without a level of index {code}; fill_indices takes its last one before"
        yield Finding(kind, "error", len(missing), _first(map(str, missing)), hint, ("fill_indices",))


_CHECKS: tuple[Callable[[RawMarket], Iterator[Finding]], ...] = (
    _check_codes, _check_rows, _check_gaps, _check_amount, _check_factor, _check_returns, _check_calendar, _check_intervals,
    _check_members, _check_indices,
)  # fmt: skip
