"""Refuse to execute an account over a split that the market does not have.

Without the split, a holder of 10 shares loses 14 parts of 15 at a split of 15:1, and a sale of the
150 shares that follow is a short sale. Both give a return that nobody had.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market import MarketSnapshot
from ktdeval_judge.declared import Declared
from ktdeval_judge.market_plan import MarketPlan, iso_day

_TOLERANCE = 0.05  #: relative distance to a whole ratio, as in the check of imported bars
_MIN_RATIO = 2
_MIN_COIN_RATIO = 5  #: coins may halve in a day, but redenominations are larger
_GAP = 10  #: number of sessions without a bar after which a code may belong to another company
_MIN_CHANGE = 1.8  #: price ratio over such a gap above which it is another company or a split
_PRICE_TOLERANCE = 0.3  #: relative distance of a price ratio to the ratio of the shares sold


class _Spell(NamedTuple):
    """A holding from the row of its first fill to that of its last."""

    column: int
    first: int
    last: int


def check_held_splits(declared: Declared, made: MarketPlan, snapshot: MarketSnapshot) -> None:
    """Raise DataError if an asset that is held moves as at a split, or if a sale is a multiple of
    the holding at a price that is lower by the same factor. Markets with factors are not checked,
    because splits are known there.
    """
    if snapshot.meta.has_factor:
        return

    for spell in _spells(made, snapshot):
        _check_moves(declared.source, spell, snapshot)
    if made.trades is not None:
        _check_sales(declared.source, made.trades, snapshot)


def _spells(made: MarketPlan, snapshot: MarketSnapshot) -> Iterator[_Spell]:
    rows = {str(day): row for row, day in enumerate(snapshot.days)}
    held: dict[str, float] = {}
    since: dict[str, int] = {}
    for each in made.plan.days:
        filled = rows[each.day] + 1
        after = _after(held, dict(_sums(each.rows)), made)
        for code in sorted(held.keys() - after.keys()):
            yield _Spell(snapshot.asset_index[code], since.pop(code), filled)
        for code in after.keys() - held.keys():
            since[code] = filled
        held = after

    for code in sorted(held):
        yield _Spell(snapshot.asset_index[code], since[code], made.last_row)


def _sums(rows: tuple[tuple[str, float], ...]) -> Mapping[str, float]:
    sums: dict[str, float] = {}
    for code, number in rows:
        sums[code] = sums.get(code, 0.0) + number
    return sums


def _after(
    held: Mapping[str, float], day: Mapping[str, float], made: MarketPlan
) -> dict[str, float]:
    """Return the holdings, or their weights, after a day of decisions."""
    after = dict(held)
    if made.plan.form == "orders":
        for code, shares in day.items():
            after[code] = after.get(code, 0.0) + shares
    elif made.plan.others == "sell":
        after = dict(day)
    else:
        after.update(day)
    return {code: number for code, number in after.items() if abs(number) > 1e-9}


def _check_moves(source: str, spell: _Spell, snapshot: MarketSnapshot) -> None:
    closes = snapshot.close[spell.first : spell.last + 1, spell.column]
    known = np.flatnonzero(np.isfinite(closes) & (closes > 0))
    if len(known) < 2:
        return

    earlier = closes[known[:-1]]
    later = closes[known[1:]]
    times = np.maximum(earlier / later, later / earlier)
    whole = np.round(times)
    code = snapshot.codes[spell.column]
    is_coin = snapshot.rules[snapshot.venues[spell.column]].calendar == "24/7"
    is_like = (whole >= (_MIN_COIN_RATIO if is_coin else _MIN_RATIO)) & (
        np.abs(times / whole - 1) <= _TOLERANCE
    )
    is_other = (np.diff(known) > _GAP) & (times >= _MIN_CHANGE)
    found = np.flatnonzero(is_like | is_other)
    if not len(found):
        return

    at = int(found[0])
    day = snapshot.days[spell.first + known[at + 1]]
    ratio = f"{whole[at]:.0f}:1" if later[at] < earlier[at] else f"1:{whole[at]:.0f}"
    words = f"as at a split of {ratio}"
    fix = f"import it with --splits FILE (a row {code}, {day}, the ratio), which may also list only"
    fix += " other splits if this move is real"
    if is_other[at]:
        words = f"after {int(np.diff(known)[at]) - 1} sessions without a bar"
        fix = "give another company under this code a code of its own, or " + fix
    raise DataError(
        f"{source}: {code} is held from {snapshot.days[spell.first]}, and its close goes from "
        f"{earlier[at]:g} to {later[at]:g} on {day}, {words}, but {snapshot.meta.name} has no splits; "
        f"{fix}"
    )


def _check_sales(source: str, trades: Any, snapshot: MarketSnapshot) -> None:
    """Raise DataError at a sale of N times the holding at about an N-th of the purchase price. The
    market's prices may be adjusted for a split at which the file's shares are not.
    """
    held: dict[int, float] = {}
    paid: dict[int, float] = {}
    for each in trades.itertuples():
        column = int(each.column)
        own = held.get(column, 0.0)
        shares = float(each.shares)
        if each.side == "buy":
            held[column] = own + shares
            paid[column] = float(each.price)
            continue

        times = shares / own if own > 0 else 0.0
        fall = paid.get(column, 0.0) / float(each.price)
        if times >= 1.5 and abs(fall / times - 1.0) <= _PRICE_TOLERANCE:
            code = snapshot.codes[column]
            raise DataError(
                f"{source}: {code}: {shares:g} shares are sold at {each.price:g} on "
                f"{iso_day(int(each.day))}, but {own:g} are held, bought at {paid[column]:g}: as after "
                f"a split of {times:.3g}:1, but {snapshot.meta.name} has no splits; import it with "
                "--splits FILE and unadjusted prices"
            )
        held[column] = own - shares
