"""Read bars and interpret their columns: units in column names, currencies, rates labelled as
amounts, lost leading zeros, intervals other than a day.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.assembly import listed_codes
from ktdeval_raw_markets.sources.column_units import AMOUNT_UNITS, VOLUME_UNITS, Unit
from ktdeval_tables.codes import lost_zeros
from ktdeval_tables.currency_detection import HUNDREDTHS, PRICES, may_mean, word_in
from ktdeval_tables.days import WITHIN_DAYS, DayForm
from ktdeval_tables.names import is_asset, is_known, squeeze_name, unit_in, unread_columns
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.readers.text_encoding import at_line
from ktdeval_tables.vendor_tables import parse_flags

EVENTS = ("divisor", "return_factor", "adjusted_close", "split", "dividend", "reference")
"""Columns next to the prices from which adjustment factors can be derived."""

_UNITS = {"volume": VOLUME_UNITS, "amount": AMOUNT_UNITS}
_DATABENTO = {"tsevent", "rtype", "publisherid", "instrumentid"}  # columns of Databento's records
_FIXED = 1e9  # price units per currency unit
_UNDEFINED_PRICE = 9.2e18  # the largest 64-bit integer marks a missing price
_MIN_FIXED = 1e6  # minimum close in fixed-point units: a thousandth of a currency unit
_RATE = 5e-7  # turnover / (volume * price) below this value is a turnover rate, not an amount
# minimum median number of days between monthly bars
_MONTH = 25
_WEEK = 5
_OTHER_LINES = re.compile(
    r"[周月季年]线|分钟线?|小时线?"
)  # in titles that trading terminals write; 日线 are daily bars
_MAX_NAMED = 8  # maximum number of columns in a note
_FEW = 4  # no interval can be determined from this number of days or fewer
_MOSTLY = 0.5  # share of a code's days with zero volume
_EXCHANGED = 12  # with up to this number of days, all of them may be in January


def reading_of(params: LongParams) -> ReadingOptions:
    """Return the options for reading the files. Raises UsageError if a date format or a time zone
    is invalid.
    """
    reading = ReadingOptions(
        columns=params.columns,
        code=params.code or "",
        code_width=params.code_width,
        date_format=params.date_format or "",
        date_zone=params.date_zone or "",
        decimal=params.decimal,
        keep={column: str(value) for column, value in params.keep.items()},
    )
    DayForm(
        reading.date_format,
        reading.date_zone,
    )  # Invalid formats and zones are refused before any file is read.
    return reading


def apply_named_units(bars: pd.DataFrame, params: LongParams, reading: ReadingOptions) -> None:
    """Convert volumes and amounts in place from the units in their column names, such as `成交量(手)`,
    to shares and CNY.

    Raises UsageError if the user specifies another unit.
    """
    asked = {"volume": params.volume_unit, "amount": params.amount_unit}
    for field, text in asked.items():
        column = reading.columns_of.get(field, "")
        size = unit_in(field, column)
        if size is None:
            continue

        option = f"--{field}-unit"
        unit = Unit.parse(text, _UNITS[field], option)
        if unit == Unit():
            bars[field] *= size
            if size != 1:
                reading.note(f"column {column!r} counts in units of {size:,.0f} by its name")
        elif unit.scale != size:
            said = f"column {column!r} of {params.bars} says units of {size:,.0f} in its name"
            advice = f"leave {option} out"
            if unit.scopes:
                advice = f"begin it with that unit: {option} {size:.0f},…"
            raise UsageError(f"{option} {text}: {said}; {advice}")


def refuse_other_currencies(
    bars: pd.DataFrame, currency_of: Callable[[str], str], reading: ReadingOptions, where: str
) -> None:
    """Raise DataError if prices are labelled with a currency other than their asset's. The label
    may be in a `currency` column, which is removed, in column names, or in signs such as `€`.
    `currency_of` returns the currency of a code.
    """
    columns = [reading.columns_of[field] for field in PRICES if field in reading.columns_of]
    named = [(column, word_in(column)) for column in columns]
    signed = [(column, reading.signs.get(column, "")) for column in columns]
    codes = [str(code) for code in bars["code"].unique()]
    for column, word in (*named, *signed):
        if word:
            place = f"{where}: column {column!r}"
            for code in codes:
                _refuse_other_currency(word, code, currency_of(code), place)

    if "currency" in bars:
        place = f"{where}: column {reading.columns_of['currency']!r}"
        pairs = bars[["code", "currency"]].drop_duplicates().dropna()
        for text, cell in pairs.itertuples(index=False):
            code = str(text)
            word = str(cell).strip()
            if word:
                _refuse_other_currency(word, code, currency_of(code), place)

        del bars["currency"]


def _refuse_other_currency(word: str, code: str, currency: str, place: str) -> None:
    if word in HUNDREDTHS:
        whole, parts = HUNDREDTHS[word]
        raise DataError(
            f"{place} states {word}, and {code} is read in {currency}; divide its prices by"
            f" {parts}, to {whole}"
        )

    meant = may_mean(word)
    if meant and currency not in meant:
        raise DataError(
            f"{place} states {word}, and {code} is read in {currency}; name its currency in a"
            " column 'currency' of --industry, and convert it: --fx RATES --currency"
            f" {currency}; or name a venue of that currency (--venue)"
        )


def forget_empty_volumes(bars: pd.DataFrame, reading: ReadingOptions) -> None:
    """Set zero volumes to missing, in place, on days on which prices move.

    Zero volume means a day without trading, but currencies and indices have no volume, and some
    vendors lack old volumes. Flat bars are included if prices move on most of the code's bars
    without volume; otherwise flat bars are halts.
    """
    is_zero = bars["volume"] == 0
    if "traded" in bars or not is_zero.any():
        return

    by_code = bars.groupby("code", observed=True)
    has_range = is_zero & (bars["high"] > bars["low"])
    ordered = bars.sort_values("date", kind="stable")
    before = ordered.groupby("code", observed=True)["close"].shift().reindex(bars.index)
    has_moved = is_zero & before.notna() & (bars["close"] != before)
    moves = (has_range | has_moved).groupby(bars["code"], observed=True).sum()
    zeros = is_zero.groupby(bars["code"], observed=True).sum()
    all_moving = moves > _MOSTLY * zeros
    all_moving |= (by_code["volume"].max() == 0) & (by_code["close"].nunique() > 1)
    codes = {str(code) for code in all_moving.index[all_moving]}
    is_unknown = has_range | (is_zero & bars["code"].isin(codes))
    if not is_unknown.any():
        return

    bars.loc[is_unknown, "volume"] = np.nan
    shown = listed_codes(sorted({str(code) for code in bars.loc[is_unknown, "code"]}))
    if (is_unknown == bars["code"].isin(codes)).all():
        reading.note(f"volumes that are 0 on all days are treated as unknown: {shown}")
    else:
        count = int(is_unknown.sum())
        reading.note(
            f"{count} volumes of 0 on days with price moves are treated as unknown: {shown}"
        )


def leave_out_unfinished(bars: pd.DataFrame, where: str, reading: ReadingOptions) -> pd.DataFrame:
    """Return the bars that were complete when written, according to the `complete` flag column,
    which is removed. A note lists the others.

    Raises DataError if the flag marks no bar as complete, or has values other than true and false.
    """
    if "complete" not in bars:
        return bars

    column = reading.columns_of["complete"]
    is_over = parse_flags(bars["complete"], f"{where}: {column}")
    del bars["complete"]
    if is_over.all():
        return bars

    open_bars = bars[~is_over]
    if len(open_bars) == len(bars):
        raise DataError(
            f"{where}: column {column!r} marks every bar as incomplete; if it means something "
            "else, rename it in the file"
        )

    days = zip(open_bars["code"].astype(str), open_bars["date"], strict=True)
    named = listed_codes([f"{code} {str(day)[:10]}" for code, day in days])
    reading.note(f"bars that were not over by column {column!r} are left out: {named}")
    # The index is kept, since errors use it to find a bar's line.
    finished: pd.DataFrame = bars[is_over]
    return finished


def name_unread(reading: ReadingOptions) -> None:
    """Add a note on columns of the bars whose meaning is known but which are not read."""
    unread = unread_columns(reading.header, reading.columns_of.values())
    if not unread:
        return

    named = ", ".join(unread[:_MAX_NAMED])
    if len(unread) > _MAX_NAMED:
        named += f" and {len(unread) - _MAX_NAMED} more"
    reading.note(f"columns that are known but not read: {named}")


def refuse_unnamed_prices(reading: ReadingOptions, where: str) -> None:
    """Refuse bars that lack some price columns but have an unknown column that may hold one of
    them.

    A missing volume only gives a note. Bars that have only closes are complete.
    """
    read = set(reading.columns_of.values())
    unknown = [name for name in reading.header if name not in read and not is_known(name)]
    if not unknown:
        return

    close = reading.columns_of.get("close", "")
    if all(map(is_asset, [close, *unknown])):
        return  # a table of closes for several assets, of which one is read

    left = ", ".join(map(repr, unknown[:_MAX_NAMED]))
    prices = ("open", "high", "low")
    lacking = [name for name in prices if name not in reading.columns_of]
    if 0 < len(lacking) < len(prices):
        maps = ",".join(f"{name}=COLUMN" for name in lacking)
        raise DataError(
            f"{where}: no column is named {' or '.join(lacking)}; say which it is by --map {maps}"
            f" (columns that are left: {left})"
        )

    counts = [name for name in unknown if name not in reading.no_counts]
    if counts and "volume" not in reading.columns_of:
        left = ", ".join(map(repr, counts[:_MAX_NAMED]))
        reading.note(f"no column is named volume; if it is one of {left}, say --map volume=COLUMN")


def leave_out_rates(bars: pd.DataFrame, reading: ReadingOptions) -> None:
    """Set amounts to missing, in place, if they are turnover rates: some vendors call both
    `turnover`.
    """
    column = reading.columns_of.get("amount", "")
    if squeeze_name(column) != "turnover":
        return

    paid = bars["volume"] * bars["close"]
    ratio = (bars["amount"] / paid.where(paid > 0)).replace([0, np.inf], np.nan)
    is_rate = ratio.median() < _RATE if ratio.notna().any() else bars["amount"].max() <= 1

    if is_rate:
        bars["amount"] = np.nan
        why = "it looks like a turnover rate, not an amount"
        advice = f"if it is one, say --map amount={column}, with its --amount-unit"
        reading.note(f"column {column!r} is not read: {why}; {advice}")


def refuse_lost_zeros(codes: pd.Series, where: str) -> None:
    """Raise DataError for A-share codes that have lost their leading zeros."""
    distinct = codes.dropna().unique()
    lost = lost_zeros(str(code) for code in distinct)
    if lost is None:
        return

    whole = lost.removesuffix(".0").zfill(6)
    found = f"{at_line(where, lost)}: code {lost!r} has fewer than six digits"
    why = f"a program took codes for numbers, and {whole} lost its zeros"
    raise DataError(f"{found}: {why}; read them with --code-width 6")


def refuse_lost_zeros_beside(bars: pd.DataFrame, codes: pd.Series, where: str) -> None:
    """Raise DataError if codes in a file that accompanies A-share bars have lost their leading
    zeros.

    Rows with such codes would match no asset.
    """
    exchanges = (".SH", ".SZ", ".BJ")
    if any(str(code).endswith(exchanges) for code in bars["code"].unique()):
        refuse_lost_zeros(codes, where)


def refuse_other_intervals(bars: pd.DataFrame, where: str) -> None:
    """Raise DataError for weekly, monthly and intraday bars."""
    days = np.sort(bars["date"].unique())
    if len(days) <= _FEW:
        return

    steps = np.diff(days).astype("timedelta64[D]").astype(np.int64)
    middle = float(np.median(steps))
    if middle >= _WEEK:
        interval = "months or more" if middle >= _MONTH else "weeks"
        found = f"{where}: most days are {middle:.0f} apart: bars of {interval}"
        raise DataError(f"{found}; bars must be daily, export daily ones")

    # If day and month are swapped, the first days of each month become days in January.
    years = days.astype("M8[Y]")
    are_in_january = (days.astype("M8[M]") == years).all()
    if len(days) > _EXCHANGED and are_in_january and len(np.unique(years)) > 1:
        found = f"{where}: all days are in January, so day and month seem to be swapped"
        raise DataError(f"{found}; name their order by --date-format, such as %m/%d/%Y")


def refuse_several_sources(reading: ReadingOptions, where: str) -> None:
    """Raise DataError if a column shows that the bars of a code come from several venues or
    vendors.

    The order of such bars is arbitrary.
    """
    for column, values in reading.sources.items():
        shown = ", ".join(values[:_MAX_NAMED])
        raise DataError(
            f"{where}: days have {len(values)} rows of one code, which column {column!r} tells apart"
            f" ({shown}): bars of several sources; read those of one: --keep {column}={values[0]}"
        )


def scale_fixed_prices(bars: pd.DataFrame, reading: ReadingOptions) -> None:
    """Convert prices from whole units of 1e-9, as Databento stores them, to currency units, in
    place.
    """
    if not {squeeze_name(name) for name in reading.header} >= _DATABENTO:
        return

    prices = [name for name in ("open", "high", "low", "close") if name in bars]
    known = bars[prices].where(bars[prices] < _UNDEFINED_PRICE)
    if not (known.stack() % 1 == 0).all() or not known["close"].median() >= _MIN_FIXED:
        return

    bars[prices] = known / _FIXED
    reading.note("prices are whole numbers of 1e-9, as Databento stores them, and divided by 1e9")


def refuse_times(reading: ReadingOptions, where: str) -> None:
    """Raise DataError if the bars' title states another interval, or if their separate time column
    varies.
    """
    for title in reading.titles:
        other = _OTHER_LINES.search(title)
        if other:
            raise DataError(
                f"{where}: its title says {other[0]} ({title[:60]}): bars must be daily, 日线"
            )

    told = set(reading.times)
    if len(told) > 1:
        shown = ", ".join(sorted(told)[:2])
        raise DataError(f"{where}: its column of times has {shown} …: {WITHIN_DAYS}")
