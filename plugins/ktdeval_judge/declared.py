"""Contents of a file, independent of the program that wrote it: readers pass this value to the
rest of `ktdeval judge`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # so that readers can be listed without importing pandas
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Contents of a program's file: at least one of decisions, trades and values.

    `decisions`: columns day (int yyyymmdd, the last day known when it was decided), code (str), and
    either weight (share of account value, float), or shares (target holding, float), or side ("buy"/"sell") with
    cash (amount in the account's currency, float) or amount (shares, float); one form per file.
    `trades`: columns day (int, of the fill), code, side, shares (float > 0), price (float > 0), and fee (float) if known.
    `values`: account value by day (int yyyymmdd index, of the close), float, preceded by `cash`.

    Decisions and trades may have a column `line` (int, of the file), which errors name. Trades may
    have a column `decided` (int, the day of the signal).

    `fees`: fees paid by day (int yyyymmdd index), in the account's currency, for a file whose
    trades have none.
    """  # noqa: E501

    program: str  #: name of the reader, such as `qlib`
    source: str  #: file name, for messages
    decisions: pd.DataFrame | None = None
    trades: pd.DataFrame | None = None
    values: pd.Series | None = None
    benchmark: pd.Series | None = None
    fees: pd.Series | None = None
    cash: float | None = None  #: initial account value, if the file states it
    notes: tuple[str, ...] = ()  #: what was omitted or assumed, one sentence each
