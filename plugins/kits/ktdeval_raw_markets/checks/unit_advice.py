"""Find units of volume and amount that agree with the prices, by code, board or period, and express
them as import options or as a repair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ktdeval.market import FloatArray, board_of, parse_code
from ktdeval_raw_markets.checks.unit_checks import (
    NO_POWER,
    UnitFaults,
    closes_in_fen,
    given_scales,
    unit_faults,
)
from ktdeval_raw_markets.sources.column_units import AMOUNT_UNITS, VOLUME_UNITS, Unit, UnitScope
from ktdeval_raw_markets.sources.raw_tables import RawMarket

_USUAL_VOLUMES = (1.0, 100.0)
_VOLUMES = (1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
_AMOUNTS = ((1.0, 1e3, 1e4), (1.0, 1e3, 1e4, 1e6, 1e8))  # for A-shares, the usual units first
_AMOUNTS_ELSEWHERE = ((1.0, 1e3, 1e6), (1.0, 1e3, 1e6, 100.0, 1e9))
"""Scales for other markets; 100: prices are in pence, amounts in pounds."""
_MAX_SCOPES = 8  #: Maximum number of scopes that a message gives as options
_EXAMPLES = 5
_HIDDEN = "adjusted prices hide the day on which the unit changes"
_NEARLY_ALL = 0.95  # minimum fraction of bars that share a convention for an option to express it

Pair = tuple[float, float]  #: scales of volume and amount


@dataclass(frozen=True)
class UnitAdvice:
    """Advice on wrong units: options, repair and examples."""

    fix: str  #: import options and the repair in words, or a statement that no option helps
    #: the first codes and days, with amount / volume compared with the price
    examples: tuple[str, ...]
    is_repairable: bool  #: whether `match_units` repairs all bars


@dataclass(frozen=True)
class _ConsistentUnits:
    """Units in which all bars agree with their prices, and whether volumes contain the factor."""

    volume: Unit
    amount: Unit
    factor_power: np.ndarray  #: [rows] power of the factor by which volumes must be multiplied

    @property
    def changes_by_day(self) -> bool:
        """Return whether any unit applies on some days only."""
        scopes = [scope for scope, _ in (*self.volume.scopes, *self.amount.scopes)]
        return any(scope.first or scope.last for scope in scopes)


def unit_advice(raw: RawMarket, faults: UnitFaults) -> UnitAdvice:
    """Return how to correct the wrong units of a market."""
    reading = _reading(raw, faults)
    options = ""
    if raw.conventions.has_options:
        options = _options(raw, faults, reading)

    is_repairable = not _needs_prices(faults, raw)
    without_options = "no option helps: correct the columns in the file"

    if not faults.is_raw and reading.changes_by_day:
        options = ""
        is_repairable = False
        without_options = f"no option helps: {_HIDDEN}; add the factor to the file"

    ways = []
    if options:
        ways.append(options)
    if is_repairable:
        ways.append("--repair match_units")

    return UnitAdvice(
        fix=" or ".join(ways) or without_options,
        examples=tuple(_examples(raw, faults)),
        is_repairable=is_repairable,
    )


def match_units(raw: RawMarket) -> tuple[RawMarket, int]:
    """Convert volumes and amounts to units in which amount / volume is a price within the day's
    range.
    """
    faults = unit_faults(raw)
    if not faults.wrong.any() or not unit_advice(raw, faults).is_repairable:
        return raw, 0

    reading = _reading(raw, faults)
    table = raw.table
    days = table.days[table.row]
    given_volume, given_amount = given_scales(raw)
    wanted_volume = reading.volume.scales(table.codes, table.column, days)
    wanted_amount = reading.amount.scales(table.codes, table.column, days)
    factor = np.where(table["factor"] > 0, table["factor"], 1.0)

    volume = table["volume"] * wanted_volume / given_volume * factor**reading.factor_power
    amount = table["amount"] * wanted_amount / given_amount
    changed = (volume != table["volume"]) & np.isfinite(volume)
    changed |= (amount != table["amount"]) & np.isfinite(amount)

    # A-shares trade in whole shares: any fraction left after applying the factor is rounding error.
    in_fen = raw.in_fen[table.column]
    is_divided = changed & in_fen & (reading.factor_power != 0)
    volume = np.where(is_divided, np.round(volume), volume)
    columns = {"volume": table.in_source(volume), "amount": table.in_source(amount)}
    read = dataclasses.replace(
        raw.conventions,
        volume_unit=reading.volume,
        amount_unit=reading.amount,
    )
    bars = raw.bars.assign(**columns)

    return dataclasses.replace(raw, bars=bars, conventions=read), int(changed.sum())


def drop_amount(raw: RawMarket) -> tuple[RawMarket, int]:
    """Remove amounts that are turnover rates or repeat the volume."""
    faults = unit_faults(raw)
    wrong = (faults.rate | faults.repeated) & np.isfinite(raw.table["amount"])
    if not wrong.any():
        return raw, 0

    amount = np.where(wrong, np.nan, raw.table["amount"])
    bars = raw.bars.assign(amount=raw.table.in_source(amount))
    return dataclasses.replace(raw, bars=bars), int(wrong.sum())


def _needs_prices(faults: UnitFaults, raw: RawMarket) -> bool:
    """Return whether the prices, rather than the volumes, must be divided by the factor. No units
    repair can do this.
    """
    power = _most(faults.factor_power[faults.wrong])
    if power == -1:
        return not closes_in_fen(raw)

    given = raw.conventions
    return power == 1 and given.prices == "adjusted" and given.stored_in_fen


def _most(powers: np.ndarray) -> int:
    """Return the most frequent power of the factor (-1, 0 or 1) among the bars."""
    return int(np.bincount(powers.astype(np.int64) + 1, minlength=3).argmax()) - 1


# ---- units of bars


def _reading(raw: RawMarket, faults: UnitFaults) -> _ConsistentUnits:
    given_volume, given_amount = given_scales(raw)
    is_known = faults.power != NO_POWER
    is_known &= faults.wrong | ((faults.power == 0) & ~faults.rate & ~faults.repeated)
    power = np.where(faults.wrong, faults.power, 0).astype(np.float64)
    quotient = np.where(is_known, 10**power * given_volume / given_amount, np.nan)

    pairs = _unit_pairs(raw, faults, quotient, is_known)
    distinct = list(dict.fromkeys(pairs.values()))
    numbers = np.full(len(is_known), -1, dtype=np.int64)  # index of a row's pair in `distinct`

    for (own, given), pair in pairs.items():
        rows = is_known & np.isclose(quotient, own, rtol=1e-6)
        rows &= np.isclose(given_amount, given, rtol=1e-6)
        numbers[rows] = distinct.index(pair)

    # The most frequent units become the default; other units are given by scope.
    usual = int(np.bincount(numbers[numbers >= 0]).argmax())
    base_volume, base_amount = distinct[usual]
    volumes = []
    amounts = []
    for scope, number in _scopes(raw, numbers):
        volume, amount = distinct[number]
        if volume != base_volume:
            volumes.append((scope, volume))
        if amount != base_amount:
            amounts.append((scope, amount))

    return _ConsistentUnits(
        volume=Unit(base_volume, tuple(volumes)),
        amount=Unit(base_amount, tuple(amounts)),
        factor_power=faults.factor_power,
    )


def _unit_pairs(
    raw: RawMarket,
    faults: UnitFaults,
    quotient: FloatArray,
    is_known: np.ndarray,
) -> Mapping[Pair, Pair]:
    """Return units by pair of stored quotient and scale by which amounts were multiplied on import.

    A single unit for all amounts is preferred, then a single unit for all volumes, then separate
    units for each quotient.
    """
    _, given_amount = given_scales(raw)
    cases = pd.DataFrame(
        {
            "own": np.round(np.log10(quotient[is_known]), 6),
            "given": given_amount[is_known],
            "wrong": faults.wrong[is_known],
        }
    )
    wrong = cases.groupby(["own", "given"], sort=True)["wrong"].any().reset_index()
    keys = zip(10 ** wrong["own"], wrong["given"], strict=True)
    found: dict[Pair, bool] = dict(zip(keys, wrong["wrong"].tolist(), strict=True))

    has_boards = all(raw.venue(code).has_boards for code in raw.table.codes)
    usual = float(cases["given"].mode()[0])
    volumes = (raw.conventions.volume_unit.scale or 1.0, *_USUAL_VOLUMES)

    # Usual units are tried before unusual ones.
    choices = _AMOUNTS if has_boards else _AMOUNTS_ELSEWHERE
    for amounts in choices:
        pairs = _common_pairs(found, (usual, *amounts), volumes)
        if pairs is None:
            pairs = _single_pairs(found, amounts, _USUAL_VOLUMES)

        if pairs is not None:
            return pairs

    pairs = _single_pairs(found, choices[-1], _VOLUMES)
    if pairs:
        return pairs

    # No named unit fits: amounts stay as read, and volumes get a numeric scale.
    return {(own, given): (_rounded_scale(own * given), given) for own, given in found}


def _common_pairs(
    found: Mapping[Pair, bool],
    amounts: tuple[float, ...],
    volumes: tuple[float, ...],
) -> Mapping[Pair, Pair] | None:
    """Return units that share one unit for all amounts, or one for all volumes; None if no usual
    units fit.
    """
    for amount in amounts:
        if all(_is_one_of(own * amount, _USUAL_VOLUMES) for own, _ in found):
            return {case: (_rounded_scale(case[0] * amount), amount) for case in found}

    for volume in volumes:
        if all(_is_one_of(volume / own, amounts) for own, _ in found):
            return {case: (volume, _rounded_scale(volume / case[0])) for case in found}

    return None


def _single_pairs(
    found: Mapping[Pair, bool],
    amounts: tuple[float, ...],
    volumes: tuple[float, ...],
) -> Mapping[Pair, Pair] | None:
    """Return separate units for each quotient. Quotients that agree with the prices stay as read.
    None if a wrong quotient fits no usual unit.
    """
    pairs: dict[Pair, Pair] = {}
    for (own, given), is_wrong in found.items():
        fitting = [each for each in (given, *amounts) if _is_one_of(own * each, volumes)]
        if is_wrong and not fitting:
            return None

        amount = fitting[0] if is_wrong else given
        pairs[own, given] = (_rounded_scale(own * amount), amount)

    return pairs


def _is_one_of(scale: float, scales: tuple[float, ...]) -> bool:
    return bool(np.isclose(scale, scales, rtol=1e-4).any())


def _rounded_scale(scale: float) -> float:
    """Return a scale, rounded to remove floating-point noise from its logarithm."""
    return float(f"{scale:.5g}")


# ---- scopes


def _scopes(raw: RawMarket, numbers: np.ndarray) -> Iterator[tuple[UnitScope, int]]:
    """Yield each scope with the index of its units. `numbers`: index of each row's units, -1 if not
    known.

    The widest scope that has a single unit per day is chosen: all codes, else a board, else a code.
    """
    table = raw.table
    known = numbers >= 0
    boards = pd.Series([_board(raw, code) for code in table.codes], dtype=object)
    rows = pd.DataFrame(
        {
            "board": boards.to_numpy()[table.column[known]],
            "code": np.asarray(table.codes, dtype=object)[table.column[known]],
            "day": table.days[table.row[known]].astype("M8[s]"),
            "unit": numbers[known],
        }
    )

    if _is_uniform(rows):
        yield from _by_days("", rows)
        return

    for board, of_board in rows.groupby("board", sort=True):
        if board and of_board["code"].nunique() > 1 and _is_uniform(of_board):
            yield from _by_days(str(board), of_board)
            continue

        for code, of_code in of_board.groupby("code", sort=True):
            yield from _by_days(str(code), of_code)


def _is_uniform(rows: pd.DataFrame) -> bool:
    """Return whether, on each day, all bars have the same unit."""
    return bool((rows.groupby("day")["unit"].nunique() <= 1).all())


def _by_days(name: str, rows: pd.DataFrame) -> Iterator[tuple[UnitScope, int]]:
    """Yield one scope for each run of days with the same unit. It ends on the day before the next
    run.
    """
    daily = rows.groupby("day", sort=True)["unit"].first()
    units = daily.to_numpy()
    days = daily.index.to_numpy().astype("M8[D]")
    starts = np.flatnonzero(np.append(True, units[1:] != units[:-1]))

    for index, start in enumerate(starts.tolist()):
        # The first run has no start date, and the last run has no end date.
        first = ""
        if index > 0:
            first = str(days[start])

        last = ""
        if index < len(starts) - 1:
            next_start = days[starts[index + 1]]
            last = str(next_start - np.timedelta64(1, "D"))

        yield UnitScope(name, first, last), int(units[start])


def _board(raw: RawMarket, code: str) -> str:
    """Return the A-share board of a code; empty if it has no board."""
    if raw.venue(code).has_boards and parse_code(code) == code:
        return str(board_of(code))
    return ""


# ---- words


def _options(raw: RawMarket, faults: UnitFaults, reading: _ConsistentUnits) -> str:
    """Return import options that correct the units. Empty if there would be too many, or if options
    can't express the correction.
    """
    of_factor = _factor_options(raw, faults)
    scopes = len(reading.volume.scopes) + len(reading.amount.scopes)
    if of_factor is None or scopes > _MAX_SCOPES:
        return ""

    given = raw.conventions
    options = []
    if reading.volume != given.volume_unit:
        options.append(f"--volume-unit {_unit_text(reading.volume, VOLUME_UNITS)}")

    if reading.amount != given.amount_unit:
        in_cny = all(raw.instrument(code).currency == "CNY" for code in raw.table.codes)
        words = AMOUNT_UNITS if in_cny else {}
        options.append(f"--amount-unit {_unit_text(reading.amount, words)}")

    return " ".join((*options, *of_factor))


def _factor_options(raw: RawMarket, faults: UnitFaults) -> tuple[str, ...] | None:
    """Return options about the factor. None if options can't express how the source uses the
    factor, for instance because its use differs between bars.
    """
    # Only a factor that differs from 1 by more than noise reveals whether volumes contain the
    # factor.
    moved = np.abs(np.log(np.where(raw.table["factor"] > 0, raw.table["factor"], 1.0))) > 0.03
    known = moved & (faults.wrong | (faults.power == 0))
    powers = faults.factor_power[known if known.any() else faults.wrong]
    power = _most(powers)
    if (powers == power).sum() < _NEARLY_ALL * len(powers):
        return None

    given = raw.conventions
    if power == 0:
        return ()
    if power == 1 and given.prices == "adjusted" and given.stored_in_fen:
        return ("--prices unadjusted",)
    if power == 1:
        if given.volume == "raw":
            return ("--volume divided",)
        return None
    if given.volume == "divided" and closes_in_fen(raw):
        return ("--volume raw",)
    if given.prices == "unadjusted" and not closes_in_fen(raw):
        return ("--prices adjusted",)

    return None


def _unit_text(unit: Unit, words: Mapping[str, float]) -> str:
    names = {scale: word for word, scale in words.items()}

    def name_scale(scale: float) -> str:
        return names.get(scale) or f"{scale:.12g}"

    scopes = (f"{scope}={name_scale(scale)}" for scope, scale in unit.scopes)
    return ",".join((name_scale(unit.scale), *scopes))


def _examples(raw: RawMarket, faults: UnitFaults) -> Iterator[str]:
    """Yield `688981.SH 2024-01-02…2024-01-15: amount / volume is 0.01 times the price` for the
    first runs of consecutive bars with the same code and fault.
    """
    table = raw.table
    rows = np.flatnonzero(faults.wrong)
    agreed = np.cumsum(faults.power == 0)  # bars that agree with their price separate runs
    keys = np.stack(
        [table.column[rows], faults.power[rows], faults.factor_power[rows], agreed[rows]]
    )
    starts = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)))
    stops = np.append(starts[1:], len(rows))

    for start, stop in zip(starts[:_EXAMPLES], stops[:_EXAMPLES], strict=True):
        first = rows[start]
        last = rows[stop - 1]
        days = table.label(int(first))

        if last != first:
            days = f"{days}…{table.days[table.row[last]]}"

        yield f"{days}: amount / volume is {_price_multiple(faults, int(first))} the price"


def _price_multiple(faults: UnitFaults, row: int) -> str:
    """Return a bar's amount / volume as a multiple of its price, such as `0.01 times the factor
    times`.
    """
    scale = f"{10.0 ** int(faults.power[row]):.12g} times"
    factor_power = int(faults.factor_power[row])
    if factor_power == 0:
        return scale

    factor = "the factor times" if factor_power == 1 else "1 / factor times"
    return f"{scale} {factor}".removeprefix("1 times ")
