"""A small market in the tables of a source, for tests to break in one place each."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.values.findings import Finding
from ktdeval_raw_markets.checks.quality import check
from ktdeval_raw_markets.sources.raw_tables import RawMarket

DAYS = ("2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08")
CODES = ("000001.SZ", "600519.SH", "688981.SH")


def bars(codes: tuple[str, ...] = CODES, days: tuple[str, ...] = DAYS) -> pd.DataFrame:
    """One faultless bar for each code and day, sorted by code: 10.00 to 10.20, 1,000 shares. The
    low is 9.90, and 9.91 on each other day: three equal bars would be those of a feed that stands.
    """
    table = pd.DataFrame(
        [(pd.Timestamp(str(day)), code) for code, day in product(codes, days)],
        columns=["date", "code"],
    )
    table = table.assign(
        open=10.0, high=10.2, low=9.9, close=10.1, volume=1000.0, amount=10_080.0, factor=1.0
    )
    table.loc[table.groupby("code").cumcount() % 2 == 1, "low"] = 9.91

    return table.astype({"code": object})


def market(table: pd.DataFrame | None = None, **changes: Any) -> RawMarket:
    """A market without any fault; `table` replaces its bars, `changes` its other fields."""
    whole = RawMarket(
        name="tiny",
        source="made by hand",
        benchmark="000688.SH",
        bars=bars() if table is None else table,
        indices=pd.DataFrame(
            {
                "date": pd.to_datetime(DAYS),
                "code": "000688.SH",
                "close": [100.0, 101, 102, 103, 104],
            }
        ),
        members=pd.DataFrame(
            {"code": CODES, "first": pd.Timestamp(DAYS[0]), "last": pd.Timestamp(DAYS[-1])}
        ),
        assets=pd.DataFrame(
            {
                "code": CODES,
                "name": ["Ping An", "Moutai", "SMIC"],
                "industry": ["bank", "liquor", "chips"],
            }
        ),
        has_factor=True,
        synthetic=True,
    )
    return dataclasses.replace(whole, **changes)


def changed(code: str, day: str, **cells: float) -> pd.DataFrame:
    """The faultless bars with some cells of one row replaced."""
    table = bars()
    row = (table["code"] == code) & (table["date"] == pd.Timestamp(day))

    for name, value in cells.items():
        table.loc[row, name] = value

    return table


def without(code: str, *days: str) -> pd.DataFrame:
    """The faultless bars without some rows of one code."""
    table = bars()
    return table[
        ~((table["code"] == code) & table["date"].isin(pd.to_datetime(list(days))))
    ].reset_index(drop=True)


def findings_of(raw: RawMarket) -> dict[str, Finding]:
    """What the check of a source finds, by rule."""
    return {finding.rule: finding for finding in check(raw)}


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal arrays, where NaN equals NaN."""
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))
