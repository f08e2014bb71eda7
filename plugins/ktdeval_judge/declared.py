"""Contents of a file, independent of the program that wrote the file. Readers pass these contents
to the other parts of `ktdeval judge`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

# imported here only for types, so that readers can be listed without importing pandas
if TYPE_CHECKING:
    import pandas as pd


class Doubt(str):
    """A note on rows that were not read, or that contradict each other, so that figures of the rest
    may not describe the account. It is a note like any other for whoever prints it.
    """

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class DeclaredBooks:
    """Cash and holdings of an account after each of K rows, in their order."""

    codes: tuple[str, ...]  #: N codes
    days: tuple[int, ...]  #: day of each row, yyyymmdd, [K]
    decided: tuple[int, ...]  #: day at whose close each row was decided, [K]
    cash: Any  #: [K] float64
    shares: Any  #: [K, N] float64


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Contents of a program's file: at least one of `decisions`, `trades` and `values`.

    `decisions` has the columns day (int yyyymmdd, the last day known at the time of the decision),
    code (str), and one of three forms, which is the same for the whole file: weight (float, share
    of the account value); shares (float, target holding); or side ("buy" or "sell") with cash
    (float, amount in the account's currency) or amount (float, shares).

    `trades` has the columns day (int, day of the fill), code, side, shares (float > 0), price
    (float > 0), and fee (float) if fees are known.

    `values` has the account value at the close, by day (int yyyymmdd index), as float. The value
    before the first day is `cash`.

    Decisions and trades can have a column `line` (int, line in the file), which errors refer to,
    and a column `minute` (int, minutes after local midnight, rounded up) if rows have times. Trades
    can have a column `decided` (int, day of the signal).

    `fees` has the fees paid by day (int yyyymmdd index), in the account's currency, for a file
    whose trades have no fees.
    """

    program: str  #: name of the reader, such as `qlib`
    source: str  #: file name, for messages
    decisions: pd.DataFrame | None = None
    trades: pd.DataFrame | None = None
    values: pd.Series | None = None
    benchmark: pd.Series | None = None
    fees: pd.Series | None = None
    #: whether the reader has found the decisions' days from the days of the fills
    is_dated: bool = False
    #: the account after each row, for a file that shows its cash and holdings
    books: DeclaredBooks | None = None
    cash: float | None = None  #: initial account value, if the file gives it
    notes: tuple[str, ...] = ()  #: what was omitted or assumed, one sentence for each
