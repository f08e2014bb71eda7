"""Returns of delistings: the value of an asset after its last bar, as an assumption of the user.

CRSP's delisting return is the model: from the last price on an exchange to the value after the
delisting. Without it, a holding keeps its last price for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ktdeval.errors import UsageError
from ktdeval.market import DELISTING_REPAIR, MarketSnapshot, first_session

MAX_DELISTING_RETURN = 100.0
_PRICES = ("open", "high", "low", "close")


def apply_delisting_returns(
    market: MarketSnapshot, returns: Mapping[str, float] | float
) -> MarketSnapshot:
    """Return the market with a last bar, without volume, on the session after the last bar of each
    code that ends before the market: at its last close times 1 + the delisting return. It can't be
    traded, and its close is the value of a holding from then on.

    `returns`: one return of all such codes, or a return by code. -1 leaves one tick, the smallest
    price. The record among the market's repairs names the number of codes, and how many have bars
    to the end. Raises UsageError if a return is below -1 or above 100.
    """
    ended = ended_codes(market)
    by_code = dict.fromkeys(ended, returns) if isinstance(returns, float) else dict(returns)
    for code, each in by_code.items():
        _check_return(code, each)

    chosen = {code: each for code, each in by_code.items() if code in ended}
    grids = {name: getattr(market, name).copy() for name in (*_PRICES, "volume")}
    for code, each in chosen.items():
        column = market.asset_index[code]
        last = ended[code]
        after = first_session(market.days[last + 1 :], market.calendars[column])
        assert after is not None, "a code that ended has a session after its last bar"
        row = last + 1 + after

        ratio = market.factor[last, column] / market.factor[row, column]
        tick = 1.0 / market.rules[market.venues[column]].ticks_per_unit
        price = max(market.close[last, column] * ratio * (1.0 + each), tick)
        for name in _PRICES:
            grids[name][row, column] = price

        grids["volume"][row, column] = 0.0

    still_trading = sum(code in market.asset_index for code in by_code.keys() - ended.keys())
    record = _record(chosen, len(ended) - len(chosen), still_trading)
    meta = dataclasses.replace(market.meta, repairs=(*market.meta.repairs, record))
    return dataclasses.replace(market, meta=meta, id="", **grids)


def _check_return(code: str, value: float) -> None:
    if not -1.0 <= value <= MAX_DELISTING_RETURN:
        raise UsageError(
            f"delisting return of {code}: {value:g} is not a return from -1 (worthless) to"
            f" {MAX_DELISTING_RETURN:g}; write -0.3 for a loss of 30 %"
        )


def _record(chosen: Mapping[str, float], without: int, still_trading: int) -> str:
    """Return the record of what was assumed, for the market's repairs."""
    words = f"{DELISTING_REPAIR}: {len(chosen)} codes"
    if chosen:
        span = f"{100 * min(chosen.values()):g} %"
        if min(chosen.values()) < max(chosen.values()):
            span += f" to {100 * max(chosen.values()):g} %"

        words += f" end at {span} after their last bars"
        if len(chosen) == 1:
            words = f"{DELISTING_REPAIR}: 1 code ends at {span} after its last bar"

    if without == 1:
        words += "; 1 that ends keeps its last price"
    elif without:
        words += f"; {without} that end keep their last prices"

    if still_trading:
        has = "has" if still_trading == 1 else "have"
        words += f"; {still_trading} of the file {has} bars to the market's end"

    return words


def ended_codes(market: MarketSnapshot) -> dict[str, int]:
    """Return the row of the last bar of each code whose exchange had a session after it, up to the
    market's last day: by code, in order of the row. Codes without any bar are left out.
    """
    has_close = np.isfinite(market.close)
    last_bars = len(market.days) - 1 - np.argmax(has_close[::-1], axis=0)
    ended = []
    for column in np.flatnonzero(has_close.any(axis=0)).tolist():
        row = int(last_bars[column])
        if first_session(market.days[row + 1 :], market.calendars[column]) is not None:
            ended.append((row, market.codes[column]))

    return {code: row for row, code in sorted(ended)}
