"""Adjustment factors for bars, from a separate file or from a column next to the prices: a divisor,
an adjusted close, splits, or the exchange's reference price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval_data.bar_column_checks import refuse_lost_zeros_beside
from ktdeval_data.dividend_factors import factors_of_dividends
from ktdeval_data.params import LongParams
from ktdeval_tables.dated_events import read_events
from ktdeval_tables.options import ReadingOptions

_MAX_EX_DAYS = 0.1  # maximum share of a code's days that are ex-days
_ADJUSTED = "prices are adjusted for"
_NEAR = np.log(
    1.35,
)  # if the close does not move inversely within this tolerance, the change is on another day


def factors_of_file(
    bars: pd.DataFrame,
    path: str,
    mapping: Mapping[str, str],
    codes: Callable[[pd.Series], pd.Series],
    reading: ReadingOptions,
) -> str:
    """Fill missing factors in place from a file (date, code, factor) and return a note. Each factor
    holds until the code's next one.

    If the file lists only the days on which factors change, its first row is the first change. The
    factor before that row is 1, provided that the closes move accordingly.

    Raises UsageError if the bars already have a factor; DataError if a factor or day is invalid, is
    given twice, or is missing at the start.
    """
    if bars["factor"].notna().any():
        raise UsageError("--factors: the bars have a factor already; leave out one of the two")

    table = read_events(path, "code", "factor", mapping, codes, reading)
    refuse_lost_zeros_beside(bars, table["code"], path)
    table = table[table["code"].isin(bars["code"].unique())]
    if table.empty:
        raise DataError(f"{path}: no row has a code of the bars; check its column of codes")

    rows = bars[["code", "date", "close"]].astype({"code": str, "date": "datetime64[ns]"})
    rows = rows.sort_values("date", kind="stable")
    joined = pd.merge_asof(
        rows,
        table[["code", "date", "factor"]].astype({"code": str}),
        on="date",
        by="code",
    )
    joined = joined.set_axis(rows.index)
    started = _with_starts(joined, table, path)
    bars["factor"] = joined["factor"]
    words = f"factors are those of {Path(path).name}, each held until the next one of its code"

    return f"{words}; 1 before the first of {', '.join(started[:8])}" if started else words


def _with_starts(joined: pd.DataFrame, table: pd.DataFrame, path: str) -> list[str]:
    """Set factors before a code's first row to 1, in place, if the closes show that the first row
    is a change; return the codes concerned.
    """
    first = table.groupby("code")[["date", "factor"]].first()
    days = dict(zip(first.index, first["date"], strict=True))
    factors = dict(zip(first.index, first["factor"], strict=True))
    started = []

    for code, rows in joined.groupby("code", sort=True):
        before = rows["factor"].isna()
        if code not in factors or not before.any():
            continue

        closes = rows["close"].to_numpy(dtype=np.float64)
        change = int(before.sum())
        factor = float(factors[code])
        move = closes[change] / closes[change - 1] if change < len(closes) else 1.0

        if not abs(np.log(move * factor)) < _NEAR:
            day = str(days[code])[:10]
            found = f"{path}: {code} has bars before {day}, the day of its first factor, {factor:g}"
            why = "the close does not show whether it was 1 before"
            advice = "add a row with the factor of its first bar, or leave out the bars before"
            raise DataError(f"{found}; {why}; {advice}: --first {day}")

        joined.loc[rows.index[before], "factor"] = 1.0
        started.append(str(code))

    return started


def factors_beside(
    bars: pd.DataFrame, params: LongParams, reading: ReadingOptions
) -> tuple[str, ...]:
    """Fill missing factors in place from columns next to the prices; return notes on the
    columns.
    """
    column = reading.columns_of
    has_factor = bool(bars["factor"].notna().any())
    notes = []

    if "divisor" in bars:
        notes.append(_of_divisors(bars, reading, has_factor))
        has_factor = has_factor or bool(bars["factor"].notna().any())

    if "adjusted_close" in bars:
        wanted = params.adjusted_close == "factor" and params.prices == "unadjusted"
        read = wanted and not has_factor and factors_of_adjusted_closes(bars)
        names = f"{column['adjusted_close']} / {column['close']}"

        if read:
            how = "one value between its changes (otherwise: --adjusted-close ignore)"
            notes.append(f"the factor is {names}, {how}")
        else:
            notes.append(f"column {column['adjusted_close']!r} is not read")

        has_factor = has_factor or read

    if "split" in bars and has_factor:
        notes.append(f"column {column['split']!r} is not read: there is a factor")
    elif "split" in bars:
        notes.append(factors_of_splits(bars, column["split"]))

    if "dividend" in bars and (bars["dividend"] > 0).any():
        # A factor from splits alone lacks the dividends.
        if has_factor and not params.splits:
            notes.append(f"column {column['dividend']!r} is not read: there is a factor")
        elif params.prices == "unadjusted" and not _is_adjusted(notes):
            notes.append(factors_of_dividends(bars, column["dividend"], params.venue))
        else:
            notes.append(f"column {column['dividend']!r} is not read: prices are adjusted")

    if "reference" in bars:
        has_factor = bool(bars["factor"].notna().any())
        notes.append(_of_references(bars, column["reference"], params, has_factor))

    return tuple(filter(None, notes))


def _is_adjusted(notes: Iterable[str]) -> bool:
    return any(note.startswith(_ADJUSTED) for note in notes)


def _of_divisors(bars: pd.DataFrame, reading: ReadingOptions, has_factor: bool) -> str:
    """Fill missing factors in place; return a note.

    The factor is 1 divided by the column of price divisors, times the dividend factor if there is
    such a column.
    """
    divisor = reading.columns_of["divisor"]
    if has_factor:
        return f"column {divisor!r} is not read: there is a factor"

    numbers = bars["divisor"].where(bars["divisor"] > 0)
    factor = 1 / numbers
    names = f"1 / {divisor}"
    if "return_factor" in bars:
        factor *= bars["return_factor"]
        names = f"{reading.columns_of['return_factor']} / {divisor}"

    bars["factor"] = factor
    return f"the factor is {names}"


def _of_references(bars: pd.DataFrame, column: str, params: LongParams, has_factor: bool) -> str:
    """Fill missing factors in place from reference prices; return a note.

    On an ex-day the exchange lowers the last close to the reference price, and the factor rises by
    the same ratio.
    """
    if has_factor or params.prices != "unadjusted":
        return f"column {column!r} is not read: there is a factor or prices are adjusted"

    rows = bars[["code", "date", "close", "reference"]]
    rows = rows.sort_values(["code", "date"], kind="stable")
    code = rows["code"].astype(str)
    known = rows["close"].where(rows["close"] > 0).groupby(code).ffill()
    last = known.groupby(code).shift()
    reference = rows["reference"].where(rows["reference"] > 0)

    usable = (last > 0) & (reference > 0)
    half = 0.5 * 10.0 ** -min(_decimals(rows["close"]), _decimals(rows["reference"].dropna()))
    is_ex_day = usable & ((last - reference).abs() > 1.2 * half)
    count = int(is_ex_day.sum())
    if not count:
        return f"column {column!r} is the last close on all days: no ex-day, and no factor from it"

    # If the column often differs, it holds some other price, such as one adjusted differently.
    steps = usable.groupby(code).sum()
    often = is_ex_day.groupby(code).sum() > np.maximum(_MAX_EX_DAYS * steps, 1)
    if often.any():
        odd = str(often.index[often][0])
        own = f"{int(is_ex_day[code == odd].sum())} of {int(steps[odd])} days"
        why = f"it differs from the last close of {odd} on {own}, too often for ex-days"
        return f"column {column!r} is not read: {why}"

    ratio = (last / reference).where(is_ex_day, 1.0)
    bars["factor"] = ratio.groupby(code).cumprod().reindex(bars.index)
    first = rows[is_ex_day].iloc[0]
    named = f"{first['code']} {str(first['date'])[:10]}"
    return (
        f"the factor is that of {count} ex-days on which column {column!r} differs from the last"
        f" close, first {named}"
    )


def factors_of_adjusted_closes(bars: pd.DataFrame) -> bool:
    """Fill missing factors in place with adjusted close / close, held constant between changes;
    return whether the column has any values.
    """
    adjusted = bars["adjusted_close"].to_numpy(dtype=np.float64)
    close = bars["close"].to_numpy(dtype=np.float64)
    usable = (adjusted > 0) & (close > 0)
    if not usable.any():
        return False

    rows = bars.loc[usable, ["code", "date"]].assign(adjusted=adjusted[usable], close=close[usable])
    rows = rows.sort_values(["code", "date"], kind="stable")
    ratio = rows["adjusted"] / rows["close"]
    tolerance = _tolerance(rows["adjusted"], rows["close"])

    # All days between two changes have the same factor, up to the rounding of both closes.
    same_code = rows["code"].astype(str) == rows["code"].astype(str).shift()
    moved = (np.log(ratio) - np.log(ratio.shift())).abs() > tolerance
    spell = (moved | ~same_code).cumsum()
    sums = rows.groupby(spell)[["adjusted", "close"]].transform("sum")
    factor = sums["adjusted"] / sums["close"]
    bars["factor"] = factor.where((factor - 1).abs() > tolerance, 1.0).reindex(bars.index)

    return True


def _tolerance(adjusted: pd.Series, close: pd.Series) -> pd.Series:
    """Return how far rounding can move the ratio of two closes, given the number of decimals with
    which they are written.
    """
    decimals = max(_decimals(adjusted), _decimals(close))
    half = 0.5 * 10.0**-decimals
    smaller = adjusted.where(adjusted < close, close)
    rounding = 4 * half / smaller

    return rounding + 1e-6


def _decimals(values: pd.Series) -> int:
    """Return the number of decimals that most values have, at most 6."""
    sample = values.iloc[:1000].to_numpy(dtype=np.float64)
    for decimals in range(7):
        if np.isclose(sample, sample.round(decimals), rtol=0, atol=1e-9).mean() > 0.9:
            return decimals
    return 6


def factors_of_splits(bars: pd.DataFrame, where: str) -> str:
    """Check a split column against the closes and fill missing factors in place if the closes move
    with the splits; return a note. If no close moves, the prices are already split-adjusted.

    Raises DataError if the closes move with some of the splits but not with others.
    """
    rows = bars[["code", "date", "close", "split"]].sort_values(["code", "date"], kind="stable")
    ratio = rows["split"].where(rows["split"] > 0, 1.0).fillna(1.0)
    before = rows["close"].groupby(rows["code"], observed=True).shift()
    events = (ratio != 1) & before.notna()
    if not events.any():
        return ""

    move = pd.Series(np.log(rows["close"] / before))
    is_raw = (move + np.log(ratio)).abs() < move.abs()
    count = int(events.sum())
    if not is_raw[events].any():
        return f"{_ADJUSTED} the {count} splits in column {where} already"

    if not is_raw[events].all():
        odd = rows[events & ~is_raw].iloc[0]
        bar = f"column {where!r}: {odd['code']} {str(odd['date'])[:10]}"
        found = (
            f"the close does not move by the split of {odd['split']:g}, as it does on other days"
        )
        advice = "give the splits that it moves by in a file: --splits FILE"
        raise DataError(f"{bar}: {found}; {advice}")

    inside = ratio.where(events, 1.0)
    bars["factor"] = inside.groupby(rows["code"], observed=True).cumprod().reindex(bars.index)
    return f"factors are those of {count} splits in column {where}; dividends are in none"
