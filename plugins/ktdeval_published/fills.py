"""Convention of a board's fills, inferred from cash and quantity, and the rules that they break."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from ktdeval.market import Venue
from ktdeval_published.forms.position_rows import DeclaredAccount, RowOrder
from ktdeval_published.prices import BoardBars

OPEN_OF_DAY = "open of the day"
OPEN_OF_BAR = "open of the bar"
BOTH_OPENS = "open of the day, which is the bar's"
CLOSE_OF_BAR = "close of the bar"
OTHER = "another price"
NO_BAR = "no bar"
_CENT = 0.011  #: rounding of cash that an implied price can bear, in currency


def infer_fills(
    orders: Sequence[RowOrder], bars: BoardBars, daily: BoardBars | None
) -> dict[str, int]:
    """Return how many orders were filled at which price. `daily`: bars whose open is that of the
    exchange's day, if the bars within days do not begin with it.
    """
    return dict(Counter(_fill_of(order, bars, daily) for order in orders))


def _fill_of(order: RowOrder, bars: BoardBars, daily: BoardBars | None) -> str:
    column = bars.column.get(order.symbol)
    rows = bars.day_rows.get(order.day)
    if column is None or rows is None:
        return NO_BAR

    row = rows[0]
    if order.has_hour:
        row = int(np.searchsorted(bars.stamps, order.stamp))
        if row == len(bars.stamps) or bars.stamps[row] != order.stamp:
            return NO_BAR

    day_open = float(bars.open[rows[0], column])
    if daily is not None and order.symbol in daily.column and order.day in daily.day_rows:
        day_open = float(daily.open[daily.day_rows[order.day][0], daily.column[order.symbol]])
    return _name(order, day_open, float(bars.open[row, column]), float(bars.close[row, column]))


def _name(order: RowOrder, day_open: float, bar_open: float, bar_close: float) -> str:
    is_day = _is_equal(order, day_open)
    is_bar = _is_equal(order, bar_open)
    if is_day and is_bar:
        return BOTH_OPENS if order.has_hour else OPEN_OF_DAY
    if is_day:
        return OPEN_OF_DAY
    if is_bar:
        return OPEN_OF_BAR
    if _is_equal(order, bar_close):
        return CLOSE_OF_BAR
    return OTHER


def _is_equal(order: RowOrder, price: float) -> bool:
    """Return whether a price is the implied one, within the rounding of cash."""
    implied = order.price
    if order.amount:
        implied *= abs(order.quantity) / order.amount  # a board may round what it books
    return abs(implied - price) <= _CENT / abs(order.quantity) + 1e-6 * price


def breaches_of(account: DeclaredAccount, venue: Venue, star_lot: float) -> dict[str, int]:
    """Return how many declared fills break a rule of the venue, by rule. The account is taken as
    declared: a fill that breaks a rule still changes it.
    """
    found: Counter[str] = Counter()
    held: dict[str, float] = defaultdict(float, account.states[0].positions)
    bought: dict[str, float] = defaultdict(float)
    day: np.datetime64 | None = None
    for order in account.orders:
        if order.day != day:
            day = order.day
            bought.clear()

        if order.quantity > 0:
            found.update(_broken_by_buy(order, venue, star_lot))
            bought[order.symbol] += order.quantity
        elif venue.settlement_lock and -order.quantity > held[order.symbol] - bought[order.symbol]:
            found["T+1"] += 1
        if -order.quantity > held[order.symbol] + 1e-9:
            found["not held"] += 1
        held[order.symbol] += order.quantity
    return dict(found)


def _broken_by_buy(order: RowOrder, venue: Venue, star_lot: float) -> list[str]:
    broken = []
    lot = venue.lot_steps / venue.steps_per_unit
    if venue.lot_steps > 1 and abs(order.quantity / lot - round(order.quantity / lot)) > 1e-9:
        broken.append("lot")
    if star_lot > 1 and order.symbol.startswith("688") and order.quantity < star_lot:
        broken.append("STAR minimum")
    if venue.minimum_notional and order.quantity * order.price < venue.minimum_notional:
        broken.append("minimum order")
    return broken


def one_price_a_day(accounts: Sequence[DeclaredAccount]) -> dict[str, tuple[int, int]]:
    """Return, by month, how many pairs of symbol and day with fills at several hours have a single
    price, and how many there are.
    """
    hours: dict[tuple[str, np.datetime64], set[np.datetime64]] = defaultdict(set)
    prices: dict[tuple[str, np.datetime64], list[float]] = defaultdict(list)
    for account in accounts:
        for order in account.orders:
            if order.has_hour:
                hours[order.symbol, order.day].add(order.stamp)
                prices[order.symbol, order.day].append(order.price)

    found: dict[str, tuple[int, int]] = {}
    for key, stamps in sorted(hours.items(), key=lambda item: item[0][1]):
        if len(stamps) < 2:
            continue
        month = str(key[1])[:7]
        single, total = found.get(month, (0, 0))
        spread = max(prices[key]) - min(prices[key])
        is_single = spread <= 2e-4 * min(prices[key])
        found[month] = (single + is_single, total + 1)
    return found
