"""Which options are listed on an underlying: expiries, strikes, and from which session on.

Weeklies expire on Fridays, monthlies on the third Friday of their month; where that is a holiday, on the session before.
Underlyings with options never split, so no contract is ever adjusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.data.rows import ContractRow, FloatArray, IntArray
from ktdeval_qfinzero.data.synthetic.grid import Grid, new_york, session_before, shift_sessions
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.moments import as_datetime64

_STEPS = ((30.0, 0.5), (75.0, 1.0), (150.0, 2.5), (400.0, 5.0))
_WEEKLY = (28, 7)
_MONTHLY = (119, 10)  #: Days before the expiry at which its first strikes are listed, and strikes on each side of the price
AFTER_THE_END = 1_000_000  #: Row of a last session that lies beyond the grid


@dataclass(frozen=True, eq=False)
class Contracts:
    """Options on one underlying. `is_call, monthly`: [C]; `first_row, last_row`: [C] first and last day of trading on the grid."""

    rows: tuple[ContractRow, ...]  #: [C] as the store has them
    strike: FloatArray  #: [C] dollars
    is_call: npt.NDArray[np.bool_]
    monthly: npt.NDArray[np.bool_]
    first_row: IntArray
    last_row: IntArray
    end_row: IntArray  #: [C] row of the last session, `AFTER_THE_END` beyond the grid
    last_day: npt.NDArray[np.datetime64]  #: [C] datetime64[D] the last session


@dataclass(frozen=True, slots=True)
class Expiry:
    """An expiry: its day, which is a session, the session of its first listing, whether it is a monthly one."""

    day: date
    listed: date
    monthly: bool


def expiries(first: date, last: date) -> Iterator[Expiry]:
    """Expiries that are traded on some day in [first, last], ascending."""
    friday = first + timedelta(days=(4 - first.weekday()) % 7)
    while friday <= last + timedelta(days=_MONTHLY[0]):
        monthly = 15 <= friday.day <= 21
        lead = _MONTHLY[0] if monthly else _WEEKLY[0]
        listed = shift_sessions(friday - timedelta(days=lead))
        session = session_before(friday)
        if listed <= last and session >= first:
            yield Expiry(session, listed, monthly)
        friday += timedelta(days=7)


def list_contracts(ticker: str, grid: Grid, reference: FloatArray) -> Contracts:
    """Contracts around the price `reference` ([D] dollars, known before the open); strikes come as it comes near."""
    parts = [_of_expiry(grid, reference, expiry) for expiry in expiries(grid.days[0], grid.days[-1])]
    rows: list[ContractRow] = []
    for expiry, strikes, listed_row in parts:
        for strike, first_row in zip(strikes, listed_row, strict=True):
            early = first_row == 0 and expiry.listed < grid.days[0]
            listed_ns = new_york(expiry.listed, 9, 30) if early else int(grid.open_ns[first_row])
            for right in ("C", "P"):
                contract = OptionContract(ticker, expiry.day, round(strike * 10_000), "C" if right == "C" else "P")
                rows.append(ContractRow(contract.symbol, ticker, contract.expiry, contract.strike_e4, contract.right, listed_ns))
    counts = [2 * len(strikes) for _, strikes, _ in parts]
    ends = [grid.row_on_or_after(expiry.day) for expiry, _, _ in parts]
    end_row = np.repeat([AFTER_THE_END if end is None else end for end in ends], counts)
    return Contracts(
        tuple(rows),
        np.array([row.strike_e4 for row in rows]) / 1e4,
        np.array([row.right == "C" for row in rows]),
        np.repeat([expiry.monthly for expiry, _, _ in parts], counts),
        np.repeat(np.concatenate([listed for _, _, listed in parts]), 2),
        np.minimum(end_row, len(grid) - 1),
        end_row,
        np.repeat(np.array([as_datetime64(expiry.day) for expiry, _, _ in parts]), counts),
    )


def _of_expiry(grid: Grid, reference: FloatArray, expiry: Expiry) -> tuple[Expiry, FloatArray, IntArray]:
    """Strikes of an expiry, ascending, and the row from which on each is listed."""
    first = max(0, grid.row_on_or_after(expiry.listed) or 0)
    end = grid.row_on_or_after(expiry.day)
    price = reference[first : len(grid) if end is None else end + 1]
    step = next((step for below, step in _STEPS if price[0] < below), 10.0)
    width = _MONTHLY[1] if expiry.monthly else _WEEKLY[1]
    low, high = max(1, int(price.min() / step) - width), int(price.max() / step) + width + 1
    strikes: FloatArray = np.arange(low, high + 1).astype(np.float64) * step
    near = np.abs(strikes[None, :] - price[:, None]) <= width * step
    wanted = near.any(axis=0)
    listed_row: IntArray = near.argmax(axis=0)[wanted] + first
    return expiry, strikes[wanted], listed_row
