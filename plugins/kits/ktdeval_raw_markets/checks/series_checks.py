"""Series that break midway: another company under the same ticker, prices in another unit for some
days, volumes in another unit from some day on, or weekly bars among daily ones. Each code is
compared with its own history, so that a single odd code among many is found.

These checks do not need amounts. Where amounts are known, `unit_checks` uses them to check units.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ktdeval.market import QUOTE_COLUMNS, BoolArray, FloatArray
from ktdeval.values import Finding
from ktdeval_raw_markets.checks.findings import finding_of
from ktdeval_raw_markets.checks.unit_inference import average_price
from ktdeval_raw_markets.sources.column_units import Unit
from ktdeval_raw_markets.sources.raw_tables import (
    PRICE_FIELDS,
    BarTable,
    IntArray,
    RawMarket,
    drop_bars,
)

ACCEPT_BREAKS = "accept_breaks"
_LONG_GAP = 60  # minimum length of a long gap, in sessions without a bar
_FAR = 4.0  # a far move, in standard deviations of the code's own moves
_MIN_MOVE = np.log10(1.5)  # minimum move over a long gap
# ratio of a normal distribution's standard deviation to its median absolute deviation
_MAD = 1.4826
_STEP = np.log10(5.0)  # a smaller daily move is not a change by a power of ten
# bounds, in log10, of the tolerance within which a step is treated as a power of ten
_NEAR_POWER = (0.06, 0.15)
_WILD = 0.25  # moves are wild if a larger fraction of them is far from any power of ten
_WHOLE_BAR = 3.0  # open, high and low of a bar must be within this factor of its close
_VOLUME_STEP = 1.2  # log10 between two days: a smaller step is not a change from shares to lots
_BESIDE = 20  # bars compared on each side of a volume step
_MIN_BESIDE = 5
_MIN_ALONE = 10  # minimum bars on each side if no other code has the step
_NEAR_UNIT = 0.35  # maximum distance, in log10, of a volume step from a power of ten
_MIN_UNIT = 2  # minimum power of ten: a tenfold step may be a share split
_SHARED = 0.8  # minimum fraction with the same step, of the codes that have bars on both sides
_OVERLAP = 0.1  # fraction of the bars on one side that may lie beyond the middle of the step
_INTERVALS = (("weeks", 6, 8), ("months", 28, 31), ("quarters", 89, 92))  # days between bars
_MAX_SCOPES = 8  # maximum number of scopes that a message gives as options
_REGULAR = 0.8  # minimum fraction of the intervals between bars
_MIN_STEPS = 4
_MIN_FROZEN = 3  # minimum length of a run of equal bars
_SHORT_LIFE = 20  # a code with at most this many bars is exempt if all of them are equal


@dataclass(frozen=True)
class _CodeBars:
    """Bars with trades of one code."""

    column: int
    rows: IntArray  #: rows in the table
    price: FloatArray  #: log10 of the adjusted close

    @property
    def deviation(self) -> float:
        """Robust standard deviation of the code's daily moves, from their median absolute
        deviation, so that isolated odd moves have no effect.
        """
        return float(_MAD * np.median(np.abs(np.diff(self.price))))


def check_series(raw: RawMarket) -> Iterator[Finding]:
    """Find codes whose bars do not continue as before."""
    yield _misplaced_prices(raw)
    yield _other_intervals(raw)
    if not any(repair.startswith(ACCEPT_BREAKS) for repair in raw.repairs):
        yield _reused_tickers(raw)
        yield _price_units(raw)
        yield _volume_units(raw)
        yield _frozen_finding(raw)


def drop_frozen(raw: RawMarket) -> tuple[RawMarket, int]:
    """Drop bars that repeat the previous bar, as found by `frozen_rows`. The first bar of each run
    stays.
    """
    return drop_bars(raw, frozen_rows(raw.table))


def drop_before_gap(raw: RawMarket) -> tuple[RawMarket, int]:
    """Drop the bars of a code's previous owner, as found by `breaks_after_gaps`."""
    table = raw.table
    mask = np.zeros(len(table.row), dtype=np.bool_)
    for last, _ in breaks_after_gaps(raw):
        mask[: last + 1] |= table.column[: last + 1] == table.column[last]

    return drop_bars(raw, mask)


def match_prices(raw: RawMarket) -> tuple[RawMarket, int]:
    """Rescale prices that differ from the prices before and after them by a power of ten."""
    scales = price_scales(raw)
    if not scales.any():
        return raw, 0

    table = raw.table
    columns = {}
    for name in PRICE_FIELDS:
        prices = table[name] / 10.0 ** scales.astype(np.float64)
        in_fen = (scales != 0) & raw.in_fen[table.column]
        columns[name] = table.in_source(np.where(in_fen, np.round(prices, 2), prices))

    scale = table.in_source(10.0 ** scales.astype(np.float64))
    for name in set(QUOTE_COLUMNS).intersection(raw.bars.columns):
        columns[name] = raw.bars[name].to_numpy(dtype=np.float64) / scale

    return dataclasses.replace(raw, bars=raw.bars.assign(**columns)), int((scales != 0).sum())


def accept_breaks(raw: RawMarket) -> tuple[RawMarket, int]:
    """Accept moves over long gaps, price and volume steps, and repeated bars as real. Return the
    number of findings accepted.
    """
    findings = (
        _reused_tickers(raw),
        _price_units(raw),
        _volume_units(raw),
        _frozen_finding(raw),
    )
    return raw, sum(finding.count for finding in findings)


# ---- prices


def _moving_series(raw: RawMarket, least: float) -> Iterator[_CodeBars]:
    """Yield the series of each code whose adjusted close moves by more than `least` (log10) between
    two bars.
    """
    start = 0
    for part in raw.table.parts():
        rows, price = _log_prices(part, raw.has_factor)
        column = part.column[rows]
        is_same = column[1:] == column[:-1]
        moves = is_same & (np.abs(np.diff(price)) > least)

        for code in np.unique(column[1:][moves]).tolist():
            own = column == code
            yield _CodeBars(code, rows[own] + start, price[own])

        start += len(part.row)


def _log_prices(part: BarTable, has_factor: bool) -> tuple[IntArray, FloatArray]:
    """Return the rows that have a price, and log10 of their adjusted closes."""
    adjusted = part["close"]
    if has_factor:
        adjusted = adjusted * part["factor"]

    rows = np.flatnonzero(part.traded & (adjusted > 0) & np.isfinite(adjusted))
    return rows, np.log10(adjusted[rows])


def breaks_after_gaps(raw: RawMarket) -> list[tuple[int, int]]:
    """Return long gaps across which a price moves by more than the code's own moves explain, as
    (last row before, first row after). Such a ticker was given to another company. Codes of A-share
    boards are never reused.
    """
    table = raw.table
    found = []
    for series in _moving_series(raw, float(_MIN_MOVE)):
        code = table.codes[series.column]
        if raw.venue(code).has_boards:
            continue

        days = table.days[table.row[series.rows]]
        if raw.venue(code).calendar == "24/7":
            sessions = np.diff(days).astype(np.int64)
        else:
            sessions = np.busday_count(days[:-1], days[1:])

        likely = _FAR * series.deviation * np.sqrt(sessions)
        move = np.abs(np.diff(series.price))
        breaks = (sessions > _LONG_GAP) & (move > np.maximum(likely, _MIN_MOVE))
        for place in np.flatnonzero(breaks).tolist():
            found.append((int(series.rows[place]), int(series.rows[place + 1])))

    return found


def _reused_tickers(raw: RawMarket) -> Finding:
    table = raw.table
    examples = []
    for last, first in breaks_after_gaps(raw):
        closes = f"{table['close'][last]:.6g} to {table['close'][first]:.6g}"
        ends = f"ends {table.days[table.row[last]]}, begins {table.days[table.row[first]]}"
        examples.append(f"{table.codes[table.column[last]]} {ends}: close {closes}")

    return finding_of("reused_tickers", len(examples), examples)


def price_scales(raw: RawMarket) -> IntArray:
    """Return the power of ten by which a bar's prices differ from the same code's prices before and
    after; 0 if they do not. Only a series that steps there and back counts, since a split or
    reverse split does not step back. Shape: [rows].
    """
    table = raw.table
    scales = np.zeros(len(table.row), dtype=np.int8)
    for series in _moving_series(raw, float(_STEP)):
        level = _levels(series)
        starts = np.flatnonzero(np.append(True, level[1:] != level[:-1]))
        values = level[starts]
        bars = {value: int((level == value).sum()) for value in np.unique(values).tolist()}

        for place in range(1, len(starts) - 1):
            usual = values[place - 1]
            is_back = values[place + 1] == usual
            if is_back and bars[values[place]] < bars[usual]:
                run = series.rows[starts[place] : starts[place + 1]]
                scales[run] = values[place] - usual

    if scales.any():
        scales[~_is_whole_bar(table, scales != 0)] = 0
    return scales


def price_steps(raw: RawMarket) -> list[tuple[int, int]]:
    """Return price steps by a factor of 100, 1000 …, up or down, that don't revert, as (first row
    after, power of ten): prices are in another unit from that day on. A step at which volumes move
    in the opposite direction is a split, and is omitted.
    """
    table = raw.table
    misplaced = price_scales(raw)
    found = []
    for series in _moving_series(raw, float(_STEP)):
        level = _levels(series) - misplaced[series.rows]
        volume = table["volume"][series.rows]
        for place in np.flatnonzero(np.diff(level)).tolist():
            power = int(level[place + 1] - level[place])
            comes_back = bool((level[place + 1 :] == level[place]).any())
            if abs(power) < _MIN_UNIT or comes_back:
                continue

            before = volume[max(0, place + 1 - _BESIDE) : place + 1]
            after = volume[place + 1 : place + 1 + _BESIDE]
            if not _is_split(power, before, after):
                found.append((int(series.rows[place + 1]), power))

    return found


def _is_split(power: int, before: FloatArray, after: FloatArray) -> bool:
    """Return whether volumes move in the opposite direction to a price step by a power of ten. If
    volumes are not known, the answer is False: splits by 100 or more are rare.
    """
    sides = []
    for volumes in (before, after):
        known = volumes[volumes > 0]
        if not len(known):
            return False

        sides.append(float(np.median(np.log10(known))))

    return (sides[1] - sides[0]) / -power > 1 / 2


def _levels(series: _CodeBars) -> IntArray:
    """Return each bar's power of ten relative to the first bar. Only steps near a power of ten that
    the code's own moves don't explain count. Shape: [bars].
    """
    steps = np.diff(series.price)
    power = np.round(steps)
    distance = np.abs(steps - power)  # distance of each move from a change of unit
    least, most = _NEAR_POWER
    slack = min(max(least, 2 * _FAR * series.deviation), most)
    is_wild = np.mean(distance > most) > _WILD
    min_power = 2 if is_wild else 1  # if moves are wild, some are about tenfold by chance
    is_step = (np.abs(power) >= min_power) & (distance <= slack)

    return np.append(0, np.cumsum(np.where(is_step, power, 0))).astype(np.int64)


def _is_whole_bar(table: BarTable, suspects: BoolArray) -> BoolArray:
    """Return the suspects whose four prices are all in one unit. Shape: [rows]."""
    rows = np.flatnonzero(suspects)
    whole = np.zeros(len(suspects), dtype=np.bool_)
    close = table["close"][rows]
    fits = np.ones(len(rows), dtype=np.bool_)

    for name in PRICE_FIELDS:
        price = table[name][rows]
        near = (price < close * _WHOLE_BAR) & (price * _WHOLE_BAR > close)
        fits &= near | np.isnan(price)  # NaN for close-only codes

    whole[rows] = fits
    return whole


def _misplaced_prices(raw: RawMarket) -> Finding:
    table = raw.table
    scales = price_scales(raw)
    rows = np.flatnonzero(scales)
    examples = []
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else ():
        days = table.label(int(run[0]))
        if len(run) > 1:
            days = f"{days}…{table.days[table.row[run[-1]]]}"
        times = f"{10.0 ** int(scales[run[0]]):.12g}"
        examples.append(f"{days}: prices are {times} times those before and after")

    return finding_of("misplaced_prices", len(rows), examples)


def _price_units(raw: RawMarket) -> Finding:
    """Find codes whose prices are in another unit from some day on."""
    table = raw.table
    examples = []
    for row, power in price_steps(raw):
        times = f"{10.0**power:.12g}"
        examples.append(f"{table.label(row)} on: prices are {times} times those before")

    return finding_of("price_unit_changes", len(examples), examples)


# ---- volumes


@dataclass(frozen=True)
class _VolumeStep:
    """A change of a code's volumes by a power of ten."""

    column: int
    row: int  #: day of the first bar after the step
    power: int
    is_clear: bool  #: whether volumes typical of one side never occur on the other


def _volume_units(raw: RawMarket) -> Finding:
    steps = _volume_steps(raw)
    table = raw.table
    examples = []
    scopes = []
    by_day: dict[tuple[int, int], list[_VolumeStep]] = {}
    for step in steps:
        by_day.setdefault((step.row, step.power), []).append(step)

    for (row, power), own in sorted(by_day.items()):
        is_of_all = len(own) > 1 and len(own) >= _SHARED * _codes_across(table, row)
        clear = own if is_of_all else [step for step in own if step.is_clear]
        if not clear:
            continue

        codes = [table.codes[step.column] for step in clear]
        named = ", ".join(codes[:3]) + (" …" if len(codes) > 3 else "")
        times = f"{10.0**power:.12g}"
        day = table.days[row]
        examples.append(f"{named} from {day} on: volumes are {times} times those before")

        days = f"..{day - 1}" if power > 0 else f"{day}.."  # the side with the smaller volumes
        unit = "lot" if abs(power) == 2 else str(10 ** abs(power))
        scopes += [
            f"{where}{days}={unit}" for where in ([""] if is_of_all else _code_scopes(codes))
        ]

    return finding_of("volume_unit_changes", len(examples), examples, fix=_fix(raw, scopes))


def _code_scopes(codes: list[str]) -> list[str]:
    return [f"{code}@" for code in codes]


def _fix(raw: RawMarket, scopes: list[str]) -> str:
    """Return a fix that converts all volumes to the larger scale, which is shares."""
    unit = raw.conventions.volume_unit
    accept = f"--repair {ACCEPT_BREAKS} if they are real"
    if not raw.conventions.has_options or unit != Unit() or len(scopes) > _MAX_SCOPES:
        return f"correct the volumes in the file, or {accept}"

    return f"--volume-unit share,{','.join(scopes)}, or {accept}"


def _codes_across(table: BarTable, row: int) -> int:
    """Return how many codes have `_MIN_BESIDE` bars on each side of a day."""
    before = np.bincount(table.column[table.traded & (table.row < row)], minlength=len(table.codes))
    after = np.bincount(table.column[table.traded & (table.row >= row)], minlength=len(table.codes))
    return int(((before >= _MIN_BESIDE) & (after >= _MIN_BESIDE)).sum())


def _volume_steps(raw: RawMarket) -> list[_VolumeStep]:
    """Return volume steps by a power of ten, for codes without amounts that could be used to check
    volumes.
    """
    found = []
    for part in raw.table.parts():
        volume = part["volume"]
        rows = np.flatnonzero(part.traded & (volume > 0) & (part["close"] > 0))
        column = part.column[rows]
        levels = np.log10(volume[rows])
        prices = np.log10(part["close"][rows])
        has_amount = np.bincount(
            column[np.isfinite(average_price(part)[rows])], minlength=len(part.codes)
        )

        is_same = column[1:] == column[:-1]
        # at a split, the price step and the volume step cancel
        moves = np.diff(levels) + np.diff(prices)
        jumps = is_same & (np.abs(moves) > _VOLUME_STEP) & (has_amount[column[1:]] == 0)

        for place in np.flatnonzero(jumps).tolist():
            start, stop = np.searchsorted(column, [column[place], column[place] + 1])
            before = levels[max(start, place + 1 - _BESIDE) : place + 1]
            after = levels[place + 1 : min(stop, place + 1 + _BESIDE)]
            step = _step_of(before, after)
            if step is not None:
                power, is_clear = step
                day = int(part.row[rows[place + 1]])
                found.append(_VolumeStep(int(column[place]), day, power, is_clear))

    return found


def _step_of(before: FloatArray, after: FloatArray) -> tuple[int, bool] | None:
    """Return the step between two stretches of log10 volumes as a power of ten, and whether it is
    clear; None if there is no step.
    """
    if min(len(before), len(after)) < _MIN_BESIDE:
        return None

    size = float(np.median(after) - np.median(before))
    power = round(size)
    if abs(power) < 2 or abs(size - power) > _NEAR_UNIT:
        return None

    sign = 1 if power > 0 else -1
    middle = (np.median(after) + np.median(before)) / 2
    beyond = max(np.mean(sign * (before - middle) > 0), np.mean(sign * (middle - after) > 0))
    if beyond > _OVERLAP:
        return None

    apart = np.min(sign * after) - np.max(sign * before)
    is_long = min(len(before), len(after)) >= _MIN_ALONE
    return power, bool(is_long and apart > abs(power) / 2)


# ---- repeated bars


def frozen_rows(table: BarTable) -> BoolArray:
    """Return the bars with trades that repeat all prices and the volume of their code's previous
    bar, in runs of at least three equal bars. A code that has only a few bars, all equal, is
    exempt. Shape: [rows].
    """
    rows = np.flatnonzero(table.traded & (table["volume"] > 0))
    same = table.column[rows[1:]] == table.column[rows[:-1]]
    for name in (*PRICE_FIELDS, "volume"):
        values = table[name][rows]
        equal = values[1:] == values[:-1]
        same &= equal | (np.isnan(values[1:]) & np.isnan(values[:-1]))  # close-only rows

    life = np.bincount(table.column[rows], minlength=len(table.codes))
    starts = np.flatnonzero(np.diff(same.astype(np.int8), prepend=0, append=0))
    frozen = np.zeros(len(table.row), dtype=np.bool_)
    for first, stop in starts.reshape(-1, 2).tolist():
        bars = stop - first + 1
        is_short_life = bars == life[table.column[rows[first]]] < _SHORT_LIFE
        if bars >= _MIN_FROZEN and not is_short_life:
            frozen[rows[first + 1 : stop + 1]] = True
    return frozen


def _frozen_finding(raw: RawMarket) -> Finding:
    table = raw.table
    rows = np.flatnonzero(frozen_rows(table))
    breaks = np.flatnonzero((np.diff(rows) > 1) | (np.diff(table.column[rows]) != 0)) + 1
    examples = []
    for run in np.split(rows, breaks) if len(rows) else ():
        last = table.days[table.row[run[-1]]]
        examples.append(f"{table.label(int(run[0]))}…{last}: equal to the bar before")
    return finding_of("frozen_bars", len(rows), examples)


# ---- intervals


def _other_intervals(raw: RawMarket) -> Finding:
    """Find codes with weekly, monthly or quarterly bars in a market of daily bars."""
    table = raw.table
    numbers = table.days[table.row].astype(np.int64)
    is_same = ~table.new_code[1:]
    steps = np.diff(numbers)[is_same]
    column = table.column[1:][is_same]
    count = np.bincount(column, minlength=len(table.codes))
    examples = []

    for name, least, most in _INTERVALS:
        regular = (steps >= least) & (steps <= most)
        own = np.bincount(column[regular], minlength=len(table.codes))
        odd = (count >= _MIN_STEPS) & (own >= _REGULAR * count)
        examples += [f"{table.codes[code]}: bars of {name}" for code in np.flatnonzero(odd)]

    return finding_of("other_intervals", len(examples), examples)
