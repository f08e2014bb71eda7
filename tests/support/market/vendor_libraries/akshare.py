"""Stands for the library `akshare`: calls that are used, parameters and data frames of version
1.19, over answers of our own.
"""

from __future__ import annotations

import datetime

import pandas as pd

from support.market import vendor_answers as vendor

ASKED: list[tuple[str, str]] = []
FAULTS: dict[int, Exception] = {}  #: number of a request -> what it raises


def _ask(api: str, key: str) -> None:
    number = len(ASKED)
    ASKED.append((api, key))
    if number in FAULTS:
        raise FAULTS.pop(number)


def stock_zh_a_hist(
    symbol: str = "000001",
    period: str = "daily",
    start_date: str = "19700101",
    end_date: str = "20500101",
    adjust: str = "",
) -> pd.DataFrame:
    _ask("stock_zh_a_hist", symbol)
    assert (period, adjust) == ("daily", "")

    rows = [
        (
            datetime.date.fromisoformat(row[0]),
            symbol,
            row[1],
            row[4],
            row[2],
            row[3],
            row[5],
            row[6],
            1.4,
            0.3,
            0.03,
            0.2,
        )
        for row in vendor.bars(symbol, vendor.dashed(start_date), vendor.dashed(end_date))
    ]
    columns = [
        "日期",
        "股票代码",
        "开盘",
        "收盘",
        "最高",
        "最低",
        "成交量",
        "成交额",
        "振幅",
        "涨跌幅",
        "涨跌额",
        "换手率",
    ]

    return pd.DataFrame(rows, columns=columns)


def stock_zh_a_daily(symbol: str = "sh603843", adjust: str = "") -> pd.DataFrame:
    _ask("stock_zh_a_daily", symbol)
    assert adjust == "hfq-factor"

    rows = (
        [("1900-01-01", "1.0")]
        if symbol != "sh600519"
        else [(vendor.EX_DAY, "7.65"), ("2023-06-30", "7.5"), ("1900-01-01", "1.0")]
    )
    table = pd.DataFrame(rows, columns=["date", "hfq_factor"])

    return table.assign(date=pd.to_datetime(table["date"]))


def stock_info_a_code_name() -> pd.DataFrame:
    _ask("stock_info_a_code_name", "")
    return pd.DataFrame({"code": list(vendor.NAMES), "name": list(vendor.NAMES.values())})


def stock_industry_clf_hist_sw() -> pd.DataFrame:
    _ask("stock_industry_clf_hist_sw", "")
    rows = [
        ("600519", "2014-02-21", "330303"),
        ("600519", "2021-07-30", "340501"),
        ("000001", "2021-07-30", "480301"),
    ]
    rows.append(("688981", "2030-01-01", "270101"))
    table = pd.DataFrame(rows, columns=["symbol", "start_date", "industry_code"])
    days = [datetime.date.fromisoformat(day) for day in table["start_date"]]

    return table.assign(start_date=days, update_time=pd.Timestamp("2024-01-02"))


def stock_zh_index_daily(symbol: str = "sh000922") -> pd.DataFrame:
    _ask("stock_zh_index_daily", symbol)
    levels = [vendor.level(day) for day in vendor.DAYS]
    return pd.DataFrame(
        {
            "date": [datetime.date.fromisoformat(day) for day in vendor.DAYS],
            "open": levels,
            "close": levels,
        }
    )
