"""Wrong units: for each code and day, amount / volume must be a price within the day's range.

The quotient of a bar reveals the power of ten (lots, thousands …) and the power of the factor by
which its volume or amount is wrong. If prices are adjusted and the factor is unknown, the quotient
reveals nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktdeval.market import BoolArray, FloatArray, board_of, parse_code
from ktdeval_raw_markets.checks.unit_inference import PRICE_SLACK, average_price
from ktdeval_raw_markets.sources.raw_tables import PRICE_FIELDS, BarTable, IntArray, RawMarket

NO_POWER = np.int8(127)  #: power of ten for a quotient that no power explains
# tolerance around the bar for a scaled average price, since sources round scaled values
_SLACK = 1.03
_SLACK_OF_ENDS = 1.05  # tolerance where high and low are just the extremes of open and close
_MAX_ROUNDING = 1.0  # maximum relative change by rounding: 199 shares are one whole lot
_MOVED = 0.03  # |log factor| from which the factor is visible in a quotient
_MOST = 0.5  # minimum fraction of a code's bars with a visible factor
_RAW = 0.75  # prices of a day are unadjusted if this fraction of its bars with a known unit says so
_AS_MANY = 0.95  # competing interpretations of a factor must explain this fraction of the bars
_NEARLY_ALL = 0.9  # like `_RAW`, but for all of a market's bars with a known unit
_CODES = 5  # minimum codes on a day for `_RAW` to apply; with fewer, the fraction may be chance
_RUN = 3  # minimum bars in a row with the same wrong unit; shorter runs are isolated odd rows
_OFTEN = 0.05  # fraction of a code's bars with the same wrong unit, given at least `_RUN` bars
_SETTLED = 0.8  # a single odd bar is a fault if at least this fraction of the code's bars agree
_SETTLED_BARS = 10  # minimum bars of a code in which a single odd bar is a fault
_RATE = 100.0  # a turnover rate in percent does not exceed this
_RATE_BARS = 0.95  # minimum fraction of a code's bars for its amounts to be turnover rates
_FAR = 1e-4  # for a turnover rate, amount / volume is a smaller fraction of the price
_SAME = 1e-6  # maximum relative difference between an amount and the volume that it repeats
_FEN_NOISE = 0.02  # in fen: rounding error of single-precision prices
_FEN = 0.95  # minimum fraction of closes in whole fen for prices to be unadjusted


@dataclass(frozen=True)
class UnitFaults:
    """Evidence of a market's units from amount / volume; arrays are [rows]."""

    wrong: BoolArray  #: whether units are wrong; `power` and `factor_power` tell by how much
    #: power of ten of amount / volume over the price; `NO_POWER` if no power explains it
    power: IntArray
    factor_power: IntArray  #: 1: amount / volume is price times factor; -1: it is price over factor
    odd: BoolArray  #: whether the average price lies outside its bar and no unit explains this
    rate: BoolArray  #: whether the amount is a turnover rate
    repeated: BoolArray  #: whether the amount repeats the volume
    is_judged: bool  #: whether the prices are unadjusted, as far as the data reveal
    is_unexplained: bool  #: whether most bars have a wrong amount / volume that no unit explains
    is_raw: bool  #: whether there is a factor, or nearly all prices look unadjusted


@np.errstate(divide="ignore", invalid="ignore")
def unit_faults(raw: RawMarket) -> UnitFaults:
    """Check the units of a market's bars."""
    table = raw.table
    known = table.judge_parts(_is_known)
    powers = {0: _powers(raw, 0)}
    explained = known & (powers[0] != NO_POWER)

    repeated = _of_codes(table, known, table.judge_parts(_repeats) & (powers[0] != 0))
    rate = _rates(raw, known, explained) & ~repeated
    known &= ~rate & ~repeated
    explained &= known

    factor_power = np.zeros(len(known), dtype=np.int8)
    power = powers[0]
    if raw.has_factor and (known & (power != 0)).any():
        for each in (1, -1):
            powers[each] = _powers(raw, each)

        factor_power = _factor_powers(table, known, powers)
        for each in (1, -1):
            own = factor_power == each
            power = np.where(own, powers[each], power)

    may_be_raw = explained & (table.judge_parts(_in_fen) | ~raw.in_fen[table.column])
    is_raw = raw.has_factor or bool(may_be_raw.sum() > _NEARLY_ALL * known.sum())
    judged = known

    if not raw.has_factor:
        judged = known & _raw_days(table, known, may_be_raw, 1 if is_raw else _CODES)

    off = judged & (powers[0] != 0)
    scaled = off & (power != NO_POWER)
    wrong = scaled & _is_common(raw, judged, scaled, power)

    most = _MOST * known.sum()
    return UnitFaults(
        wrong=wrong,
        power=power,
        factor_power=factor_power,
        odd=off & ~wrong & is_raw,
        rate=rate,
        repeated=repeated,
        is_judged=not known.any() or bool(judged.sum() > most),
        is_raw=is_raw,
        is_unexplained=bool(raw.has_factor and not wrong.any() and off.sum() > most),
    )


def _is_known(part: BarTable) -> BoolArray:
    """Return whether a bar's volume and amount can be compared with its prices. Shape: [rows]."""
    average = average_price(part)
    low = part["low"]
    high = part["high"]
    has_average = (average > 0) & np.isfinite(average)
    has_prices = (low > 0) & (high >= low) & np.isfinite(high)

    return np.asarray(part.traded & has_average & has_prices)


def _repeats(part: BarTable) -> BoolArray:
    return np.asarray(np.abs(part["amount"] - part["volume"]) <= _SAME * np.abs(part["volume"]))


def _rounding(values: FloatArray) -> FloatArray:
    """Return the relative change that rounding to an integer or to two decimals may cause. Shape:
    [rows].
    """
    step = np.where(values == np.round(values), 1.0, 0.0)
    hundredths = (step == 0) & (np.abs(values * 100 - np.round(values * 100)) < 1e-6)
    step[hundredths] = 0.01

    return np.asarray(np.minimum(step / values, _MAX_ROUNDING))


def _powers(raw: RawMarket, factor_power: int) -> IntArray:
    """Return the power of ten that puts amount / volume, divided by a power of the factor, inside
    its bar; `NO_POWER` if none does. Shape: [rows].
    """
    volume_scale, amount_scale = given_scales(raw)
    powers = []
    start = 0

    for part in raw.table.parts():
        rows = slice(start, start + len(part.row))
        start = rows.stop
        quotient = average_price(part)

        if factor_power:
            factor = np.where(part["factor"] > 0, part["factor"], np.nan)
            quotient = quotient / factor**factor_power

        inside = (quotient >= part["low"] / PRICE_SLACK) & (quotient <= part["high"] * PRICE_SLACK)
        power = np.where(inside, 0, NO_POWER).astype(np.int8)
        off = np.flatnonzero(~inside & (quotient > 0) & np.isfinite(quotient))

        if len(off):
            stored_volume = (part["volume"] / volume_scale[rows])[off]
            stored_amount = (part["amount"] / amount_scale[rows])[off]
            rounding = _rounding(np.abs(stored_volume)) + _rounding(np.abs(stored_amount))
            prices = {name: part[name][off] for name in PRICE_FIELDS}
            power[off] = _power_of(quotient[off], prices, rounding)

        powers.append(power)

    return np.concatenate(powers)


def _power_of(
    quotient: FloatArray, prices: dict[str, FloatArray], rounding: FloatArray
) -> IntArray:
    """Return the power of ten that puts a quotient inside its bar, within rounding; `NO_POWER` if
    none does. Shape: [rows].
    """
    low = prices["low"]
    high = prices["high"]
    power = np.round(np.log10(quotient / np.sqrt(low * high)))
    scaled = quotient / 10**power

    ends = np.stack([prices["open"], prices["close"]])
    is_made = (high == ends.max(axis=0)) & (low == ends.min(axis=0)) & (high > low)
    slack = np.where(power == 0, PRICE_SLACK, _SLACK)
    slack = np.where(is_made, _SLACK_OF_ENDS, slack) + rounding
    fits = (scaled >= low / slack) & (scaled <= high * slack) & (np.abs(power) < NO_POWER)

    return np.where(fits, power, NO_POWER).astype(np.int8)


def given_scales(raw: RawMarket) -> tuple[FloatArray, FloatArray]:
    """Return the scales by which volumes and amounts were multiplied on import; 1 where they were
    not. Shape: [rows].
    """
    table = raw.table
    given = raw.conventions
    if not given.volume_unit.scopes and not given.amount_unit.scopes:
        shape = len(table.row)
        volume = np.broadcast_to(np.float64(given.volume_unit.scale or 1.0), shape)
        return volume, np.broadcast_to(np.float64(given.amount_unit.scale), shape)

    days = table.days[table.row]
    volume = given.volume_unit.scales(table.codes, table.column, days)
    amount = given.amount_unit.scales(table.codes, table.column, days)

    return np.where(volume > 0, volume, 1.0), amount


def _of_codes(table: BarTable, known: BoolArray, found: BoolArray) -> BoolArray:
    """Return the bars of codes for which `found` is true on nearly all known bars. Shape:
    [rows].
    """
    size = len(table.codes)
    count = np.bincount(table.column[known], minlength=size)
    own = np.bincount(table.column[known & found], minlength=size)

    return np.asarray(((own > 0) & (own >= _RATE_BARS * count))[table.column])


def _rates(raw: RawMarket, known: BoolArray, explained: BoolArray) -> BoolArray:
    """Return the bars of codes whose amounts are small and, in any unit, not price times volume.
    Shape: [rows].
    """
    _, scale = given_scales(raw)
    start = 0
    parts = []

    for part in raw.table.parts():
        rows = slice(start, start + len(part.row))
        start = rows.stop
        is_far = average_price(part) < _FAR * part["low"]
        parts.append((part["amount"] <= _RATE * scale[rows]) & is_far)

    small = known & np.concatenate(parts)
    if not small.any():
        return small

    small = known & _of_codes(raw.table, known, small)
    return small & bool((small & explained).sum() < _MOST * small.sum())


def _factor_powers(table: BarTable, known: BoolArray, powers: dict[int, IntArray]) -> IntArray:
    """Return the power of the factor in the quotients of a bar's code. It is the power that
    explains most bars in which the factor is visible. Shape: [rows].
    """
    moved = known & table.judge_parts(_is_moved)
    size = len(table.codes)
    count = np.bincount(table.column[moved], minlength=size)
    fitting = {}

    for each, power in powers.items():
        fits = moved & (power != NO_POWER)
        fitting[each] = np.bincount(table.column[fits], minlength=size)

    # A factor near 10, or near its root, also looks like a unit. In this case, the market's other
    # codes decide.
    order = np.array([0, 1, -1], dtype=np.int8)
    scores = np.stack([fitting[int(each)] for each in order]).astype(np.float64)
    scores[scores.sum(axis=1).argmax()] /= _AS_MANY
    best = scores.argmax(axis=0)
    is_most = scores.max(axis=0) > _MOST * count

    return np.asarray(np.where(is_most, order[best], 0).astype(np.int8)[table.column])


def _is_moved(part: BarTable) -> BoolArray:
    """Return whether the factor differs enough from 1 to be visible in a quotient. Shape:
    [rows].
    """
    return np.asarray((part["factor"] > 0) & (np.abs(np.log(part["factor"])) > _MOVED))


def _raw_days(table: BarTable, known: BoolArray, may_be: BoolArray, least: int) -> BoolArray:
    """Return the bars on days on which nearly all prices may be unadjusted. Shape: [rows].

    `least`: minimum number of codes on a day, since a few codes may fit by chance.
    """
    days = len(table.days)
    count, fitting = (np.bincount(table.row[mask], minlength=days) for mask in (known, may_be))
    own = (count >= least) & (fitting >= _RAW * count)

    return np.asarray(own[table.row])


def _in_fen(part: BarTable) -> BoolArray:
    """Return whether open and close are in whole fen. Shape: [rows]."""
    fen = np.stack([part["open"], part["close"]]) * 100
    return np.asarray((np.abs(fen - np.round(fen)) < _FEN_NOISE).all(axis=0))


def _is_common(raw: RawMarket, judged: BoolArray, scaled: BoolArray, power: IntArray) -> BoolArray:
    """Return whether a wrong unit is common to a code, to a stretch of its days, to a day, or to a
    board on a day. Shape: [rows].
    """
    if not scaled.any():
        return scaled

    table = raw.table
    kind = table.column * np.int64(256) + power.astype(np.int64) + 128
    number = np.unique(kind[scaled], return_inverse=True)[1]
    per_kind = np.zeros(len(kind), dtype=np.int64)
    per_kind[scaled] = np.bincount(number)[number]
    count = np.bincount(table.column[judged], minlength=len(table.codes))[table.column]
    common = (per_kind > _MOST * count) | ((per_kind >= _RUN) & (per_kind >= _OFTEN * count))
    common |= _in_run(judged, np.where(scaled, kind, -1))
    common |= _alone(table, judged, power)

    boards = np.array([_board(raw, code) for code in table.codes])
    groups = np.unique(boards, return_inverse=True)[1][table.column] * np.int64(len(table.days))
    for key, least in ((table.row.astype(np.int64), 2), (groups + table.row, 3)):
        count, own = (np.bincount(key[mask], minlength=key.max() + 1) for mask in (judged, scaled))
        common |= ((count >= least) & (own > _MOST * count))[key]

    return np.asarray(common & scaled)


def _in_run(judged: BoolArray, kind: IntArray) -> BoolArray:
    """Return the bars in a run of at least `_RUN` judged bars with the same code and wrong unit.
    Shape: [rows].
    """
    rows = np.flatnonzero(judged)
    own = kind[rows]
    run = np.cumsum(np.append(False, own[1:] != own[:-1]))
    long = (np.bincount(run) >= _RUN)[run] & (own >= 0)

    mask = np.zeros(len(kind), dtype=np.bool_)
    mask[rows[long]] = True
    return mask


def _alone(table: BarTable, judged: BoolArray, power: IntArray) -> BoolArray:
    """Return isolated bars in another unit, such as a row in lots among rows in shares. Scaled by a
    power of ten, the quotient of such a bar is a price within the day's range, while nearly all
    other bars of the code agree unscaled. Shape: [rows].
    """
    size = len(table.codes)
    count = np.bincount(table.column[judged], minlength=size)
    agreeing = np.bincount(table.column[judged & (power == 0)], minlength=size)
    settled = (count >= _SETTLED_BARS) & (agreeing >= _SETTLED * count)
    suspects = judged & (power != 0) & (power != NO_POWER) & settled[table.column]
    if not suspects.any():
        return np.asarray(suspects)

    rows = np.flatnonzero(suspects)
    scale = 10.0 ** -power[rows].astype(np.float64)
    average = table["amount"][rows] / table["volume"][rows] * scale
    exact = average >= table["low"][rows] / PRICE_SLACK
    exact &= average <= table["high"][rows] * PRICE_SLACK

    suspects[rows] = exact
    return np.asarray(suspects)


def _board(raw: RawMarket, code: str) -> str:
    return str(board_of(code)) if raw.venue(code).has_boards and parse_code(code) == code else ""


def closes_in_fen(raw: RawMarket) -> bool:
    """Return whether, among A-shares priced in CNY, most bars have open and close in whole fen."""
    table = raw.table
    own = table.traded & raw.in_fen[table.column] & np.isfinite(table["close"])
    return bool(own.any() and table.judge_parts(_in_fen)[own].mean() > _FEN)
