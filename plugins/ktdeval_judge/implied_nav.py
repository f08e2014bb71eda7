"""Account value that is implied by declared trades at their own prices. It is the claimed NAV for a
trade file without account values.

Each trade's price and fee are paid in cash on the trade's day. Holdings are valued at the market's
last close, and grow by the ratio of adjustment factors, as if dividends were reinvested.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.attribution import filled_forward
from ktdeval.market import MarketSnapshot


def implied_nav(
    trades: Any, snapshot: MarketSnapshot, cash: float, first_row: int, last_row: int
) -> npt.NDArray[np.float64]:
    """Return the account value at the closes of the rows, [last_row - first_row + 1], in currency
    units. `trades` must have the market's `column` and `row`.
    """
    columns = sorted({int(column) for column in trades["column"]})
    closes = np.nan_to_num(filled_forward(snapshot.close[: last_row + 1, columns]))
    factors = snapshot.factor[: last_row + 1, columns]
    place = {column: number for number, column in enumerate(columns)}
    by_row: dict[int, list[Any]] = {}
    for each in trades.itertuples():
        by_row.setdefault(int(each.row), []).append(each)

    shares = np.zeros(len(columns))
    values = []
    for row in range(first_row, last_row + 1):
        if row > first_row:
            shares = shares * factors[row] / factors[row - 1]

        for each in by_row.get(row, ()):
            signed = float(each.shares) * (1.0 if each.side == "buy" else -1.0)
            shares[place[int(each.column)]] += signed
            fee = float(getattr(each, "fee", 0.0))
            cash -= signed * float(each.price) + (fee if fee == fee else 0.0)

        values.append(cash + float(shares @ closes[row]))

    return np.array(values)
