"""Adjustment factors of cash dividends in a column next to unadjusted prices."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval.market import built_in_venues

_CENTS = 100
_SLACK = 1e-3  # of a cent, since some vendors store prices in single precision
_MOSTLY = 0.95  # minimum share of closes in whole cents for unadjusted US prices


def factors_of_dividends(bars: pd.DataFrame, column: str, venue: str) -> str:
    """Multiply the factors of splits, or 1, by those of the dividends, in place; return a note.

    On an ex-day, the factor rises by 1 / (1 - D / C). D is the dividend per share; C is the
    previous close, divided by the split if the ex-day has one. Dividends are used only next to US
    prices in whole cents: adjusted prices are not in whole cents, and contain them already.

    Raises DataError if a dividend is not below the previous close.
    """
    rows = bars[["code", "date", "close", "dividend", "factor"]]
    rows = rows.sort_values(["code", "date"], kind="stable")
    paid = rows["dividend"].where(rows["dividend"] > 0, 0.0).fillna(0.0)
    known = built_in_venues().get(venue)
    if known is None or known.currency != "USD":
        return f"column {column!r} is not read: returns are those of prices, without dividends"
    if not _is_in_cents(rows["close"]):
        return (
            f"column {column!r} is not read: closes are not in whole cents, so they may be adjusted"
            " for dividends already"
        )

    code = rows["code"].astype(str)
    splits = rows["factor"].fillna(1.0)
    ratio = splits / splits.groupby(code).shift().fillna(splits)
    before = rows["close"].groupby(code).ffill().groupby(code).shift() / ratio
    share = (paid / before).where(before.notna(), 0.0)
    too_large = share >= 1
    if too_large.any():
        odd = rows[too_large].iloc[0]
        raise DataError(
            f"column {column!r}: {odd['code']} {str(odd['date'])[:10]}: a dividend of"
            f" {odd['dividend']:g} is not below the previous close; correct it, or leave the column"
            " out of the file"
        )

    steps = 1 / (1 - share)
    bars["factor"] = (splits * steps.groupby(code).cumprod()).reindex(bars.index)
    count = int((share > 0).sum())
    return f"the factor has the {count} dividends in column {column!r}: 1 / (1 - dividend / last close)"


def _is_in_cents(closes: pd.Series) -> bool:
    cents = closes.dropna().to_numpy(dtype=np.float64) * _CENTS
    slack = np.maximum(_SLACK, np.abs(cents) * 1e-7)
    return bool((np.abs(cents - np.round(cents)) <= slack).mean() >= _MOSTLY)
