"""Stands for the library `baostock`: calls that are used, parameters and results of version 0.9.4,
over answers of our own.

As the real one it prints, gives texts only, pages by 2,000 rows, and names failures by
`error_code`.
"""

from __future__ import annotations

from support.market import vendor_answers as vendor

ASKED: list[tuple[str, str]] = []
FAULTS: dict[int, str] = {}  #: number of a request -> error code
RENAMED: dict[str, str] = {}  #: columns that have another name


class ResultData:
    def __init__(
        self,
        fields: str = "",
        rows: list[list[str]] | None = None,
        error_code: str = "0",
        error_msg: str = "success",
    ) -> None:
        self.fields = [RENAMED.get(name, name) for name in fields.split(",")]
        self.data, self.error_code, self.error_msg, self._row = rows or [], error_code, error_msg, 0

    def next(self) -> bool:
        return self._row < len(self.data)

    def get_row_data(self) -> list[str]:
        self._row += 1
        return self.data[self._row - 1]


def _result(api: str, key: str, fields: str, rows: list[list[str]]) -> ResultData:
    number = len(ASKED)
    ASKED.append((api, key))
    if number in FAULTS:
        return ResultData(error_code=FAULTS.pop(number), error_msg="网络接收错误。")

    return ResultData(fields, rows)


def _code(digits: str) -> str:
    return f"{vendor.EXCHANGE[digits].lower()}.{digits}"


def login(user_id: str = "anonymous", password: str = "123456") -> ResultData:
    print("login success!")
    return ResultData()


def query_hs300_stocks(date: str = "") -> ResultData:
    rows = [[date, _code(digits), vendor.NAMES[digits]] for digits in vendor.members(date)]
    return _result("query_hs300_stocks", date, "updateDate,code,code_name", rows)


def query_history_k_data_plus(
    code: str,
    fields: str,
    start_date: str | None = None,
    end_date: str | None = None,
    frequency: str = "d",
    adjustflag: str = "3",
) -> ResultData:
    assert (frequency, adjustflag) == ("d", "3")

    digits = code[3:]
    first = start_date or ""
    last = end_date or ""

    if code == "sh.000300":
        rows = [
            [day, code, f"{vendor.level(day):.4f}"] for day in vendor.DAYS if first <= day <= last
        ]
    else:
        rows = []
        for row in vendor.bars(digits, first, last):
            prices = [f"{price:.4f}" for price in row[1:5]]
            rows.append([row[0], code, *prices, str(row[5] * 100), f"{row[6]:.4f}", "1"])

        if digits == vendor.HALT[0]:
            rows = sorted(
                [*rows, [vendor.HALT[1], code, "9.0000", "9.0000", "9.0000", "9.0000", "", "", "0"]]
            )

    return _result("query_history_k_data_plus", code, fields, rows)


def query_adjust_factor(
    code: str, start_date: str | None = None, end_date: str | None = None
) -> ResultData:
    rows = [
        [code, "2023-06-30", "0.98", "7.500000", "7.500000"],
        [code, vendor.EX_DAY, "1.0", "7.650000", "7.650000"],
    ]
    fields = "code,dividOperateDate,foreAdjustFactor,backAdjustFactor,adjustFactor"
    return _result("query_adjust_factor", code, fields, rows if code == "sh.600519" else [])


def query_stock_industry(code: str = "", date: str = "") -> ResultData:
    rows = [
        [date, _code(digits), name, vendor.INDUSTRY[digits], "证监会行业分类"]
        for digits, name in vendor.NAMES.items()
    ]
    return _result(
        "query_stock_industry",
        date,
        "updateDate,code,code_name,industry,industryClassification",
        rows,
    )
