"""Files next to the bars (members, splits, factors, assets, names), in the spellings of vendors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.errors import DataError
from ktdeval.testing import errors_of
from ktdeval.values import build
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_tables.codes import as_among, listed_in, us_symbol
from ktdeval_tables.split_ratios import ratio_of

DAYS = ["2024-01-18", "2024-01-19", "2024-01-22", "2024-01-23", "2024-01-24"]
SPLIT = [20.0, 20.4, 20.2, 10.1, 10.0]


def bars_of(code: str, closes: list[float] | None = None) -> str:
    rows = [
        f"{day},{code},{close},{close},{close},{close},100"
        for day, close in zip(DAYS, closes or SPLIT, strict=True)
    ]
    return "\n".join(rows) + "\n"


BARS = "date,code,open,high,low,close,volume\n" + bars_of("AAPL") + bars_of("BRK-B", [10.0] * 5)


def read(folder: Path, bars: str = BARS, **given: Any) -> Any:
    """Read bars of US shares; a text that is given for a file is written to it."""
    params: dict[str, Any] = {"venue": "us_equity"}
    for name, value in {"bars": bars, **given}.items():
        if isinstance(value, str) and "\n" in value:
            (folder / f"{name}.csv").write_text(value)
            params[name] = str(folder / f"{name}.csv")
        else:
            params[name] = value

    return read_long(build(LongParams, params, "long"))


def factors(raw: Any, code: str = "AAPL") -> list[float]:
    return [float(factor) for factor in raw.bars.loc[raw.bars["code"] == code, "factor"]]


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("2", 2), ("2:1", 2), ("2 : 1", 2), ("2.000000/1.000000", 2), ("2-for-1", 2),
        ("2 for 1", 2), ("3-to-2", 1.5), ("1:10", 0.1), ("0.1", 0.1), ("4-1", 4), ("0", 0),
    ],
)  # fmt: skip
def test_a_ratio_is_read_in_every_spelling(text: str, ratio: float) -> None:
    assert ratio_of(text) == pytest.approx(ratio)


@pytest.mark.parametrize("text", ["", "2:0", "two", "2:1:1", "-2:1", "=2+1", "2024-01-02", "1e"])
def test_a_text_that_is_no_ratio_has_none(text: str) -> None:
    assert np.isnan(ratio_of(text))


@pytest.mark.parametrize(
    "splits",
    [
        "date,code,ratio\n2024-01-23,AAPL,2:1\n",
        "Date,Split\n2024-01-23,2.000000/1.000000\n",
        "execution_date,split_from,split_to,ticker\n2024-01-23,1,2,AAPL\n",
        "symbol,ex_date,old_rate,new_rate\nAAPL,2024-01-23,1,2\n",
        "date,symbol,numerator,denominator\n2024-01-23,AAPL,2,1\n",
        "effective_date,split_factor\n2024-01-23,2.0000\n",
        "exDate,ticker,splitFrom,splitTo,splitFactor\n2024-01-23,aapl,1,2,2.0\n",
        "Date,Dividends,Stock Splits\n2024-01-19,0.24,0.0\n2024-01-23,0.0,2.0\n2024-01-24,0.1,0\n",
        "date,code,ratio\n2024-01-22,AAPL,\n2024-01-23,AAPL US Equity,2-for-1\n2024-01-24,AAPL,1\n",
    ],
)
def test_splits_are_read_as_vendors_write_them(tmp_path: Path, splits: str) -> None:
    """A file without codes is of the only asset of the bars."""
    bars = "date,code,open,high,low,close,volume\n" + bars_of("AAPL")
    assert factors(read(tmp_path, bars, splits=splits)) == [1, 1, 1, 2, 2]


def test_splits_that_can_not_be_read_are_named(tmp_path: Path) -> None:
    every = [
        "date,code,ratio\n2024-01-23,AAPL,two\n",
        "date,code,ratio\n2024-01-23,AAPL,2:0\n",
        "date,code,ratio\n2024-01-23,AAPL,-2\n",
        "date,code,ratio\n2024-01-23,AAPL,0\n",
        "date,code,split_to\n2024-01-23,AAPL,2\n",
        "date,code,split_to,split_from\n2024-01-23,AAPL,2,0\n",
        "date,ratio\n2024-01-23,2\n",
        "when,who,how\n2024-01-23,AAPL,2:1\n",
    ]

    assert errors_of(
        lambda splits: read(tmp_path, splits=splits), *every, folder=tmp_path
    ) == snapshot("""\
DataError: FOLDER/splits.csv: line 2: ratio 'two', expected new shares for an old one: 2, or 2:1 (0.1 or 1:10 for a reverse split)
DataError: FOLDER/splits.csv: line 2: ratio '2:0', expected new shares for an old one: 2, or 2:1 (0.1 or 1:10 for a reverse split)
DataError: FOLDER/splits.csv: AAPL 2024-01-23: ratio -2: each row has a code, a day of its own and a ratio above 0
DataError: FOLDER/splits.csv: AAPL 2024-01-23: ratio 0: each row has a code, a day of its own and a ratio above 0
DataError: FOLDER/splits.csv: no column for 'split_from', the shares before, next to 'split_to'; name it: --map splits.split_from=COLUMN
DataError: FOLDER/splits.csv: AAPL 2024-01-23: ratio inf: each row has a code, a day of its own and a ratio above 0
DataError: FOLDER/splits.csv: no column for 'code' (tried code, ts_code, stock_code, con_code, symbol, instrument); none of its columns (date, ratio) holds codes; add it to the file
DataError: FOLDER/splits.csv: no columns for 'date' and 'code' and 'ratio' or 'split_to' (tried date, trade_date, datetime, day; code, ts_code, stock_code, con_code, symbol, instrument; ratio, split_ratio, stock splits, split_to, new); name it: --map splits.date=when,splits.code=who,splits.ratio=how
""")


def members(raw: Any) -> list[tuple[str, str, str]]:
    rows = raw.members.sort_values(["code", "first"])
    cells = zip(rows["code"], rows["first"], rows["last"], strict=True)
    return [(str(code), str(first)[:10], str(last)[:10]) for code, first, last in cells]


OPEN = "2200-01-01"
FROM_22ND = [("AAPL", "2024-01-18", OPEN), ("BRK-B", "2024-01-22", OPEN)]


@pytest.mark.parametrize(
    "table",
    [
        'date,tickers\n2024-01-18,"AAPL,MSFT"\n2024-01-22,"AAPL,BRK.B,MSFT"\n',
        "date,tickers\n2024-01-18,AAPL MSFT\n2024-01-22,AAPL BRK.B MSFT\n",
        "date;constituents\n2024-01-18;['AAPL', 'MSFT']\n2024-01-22;['AAPL', 'BRK/B', 'MSFT']\n",
        "Symbol,Security,Date added\nAAPL,Apple,2024-01-18\nBRK.B,Berkshire,2024-01-22\n"
        "MSFT,Microsoft,2024-01-18\n",
        "ticker,from,thru\nAAPL US Equity,2024-01-18,\nBRK/B US Equity,2024-01-22,\n"
        "MSFT UW Equity,2024-01-18,\n",
        "code,date_added,date_removed\nAAPL.US,2024-01-18,\nBRK-B.US,2024-01-22,\n"
        "MSFT.US,2024-01-18,\n",
    ],
)
def test_members_are_read_as_lists_write_them(tmp_path: Path, table: str) -> None:
    raw = read(tmp_path, members=table)
    own = [row for row in members(raw) if not row[0].startswith("MSFT")]

    assert own == FROM_22ND
    assert any(row[0].startswith("MSFT") for row in members(raw))

    has_no_ends = "Date added" in table
    assert any("has no last days of members" in note for note in raw.notes) is has_no_ends


@pytest.mark.slow
def test_all_columns_that_members_lack_are_named_at_once(tmp_path: Path) -> None:
    tables = [
        'day0,list\n2024-01-18,"AAPL,BRK.B"\n',
        "name\nMoutai\n",
        "000001.SZ,600519.SH,date\n1,0,2024-01-18\n",
    ]

    assert errors_of(
        lambda table: read(tmp_path, members=table), *tables, folder=tmp_path
    ) == snapshot("""\
DataError: FOLDER/members.csv: no columns for 'code' and 'in_date' or 'date' (tried code, ts_code, stock_code, con_code, symbol, instrument; in_date, first, start, start_date, date, trade_date, datetime, day); name it: --map members.code=list,members.in_date=day0
DataError: FOLDER/members.csv: no columns for 'code' and 'in_date' or 'date' (tried code, ts_code, stock_code, con_code, symbol, instrument; in_date, first, start, start_date, date, trade_date, datetime, day); none of its columns (name) holds codes or days; add them to the file
DataError: FOLDER/members.csv: its columns are codes (000001.SZ, 600519.SH …): a table of one field; make it one with a row for each day and code, in pandas: frame.melt('date', var_name='code', value_name='in').query('`in` > 0')
""")


def test_a_share_class_has_one_spelling_in_all_files(tmp_path: Path) -> None:
    raw = read(
        tmp_path,
        industry="code,industry,kind\nBRK.B,finance,etf\nAAPL,tech,stock\n",
        factors="date,code,factor\n2024-01-01,BRK/B,3\n2024-01-01,AAPL,1\n",
        names="code,name,in_date,out_date\nBRK.B,Berkshire,,\n",
    )

    assert factors(raw, "BRK-B") == [3] * 5
    assert raw.assets["code"].tolist() == ["BRK-B", "AAPL"]
    assert raw.instrument("BRK-B").kind == "etf"
    assert raw.names["code"].tolist() == ["BRK-B"]


def test_codes_are_only_renamed_where_one_asset_is_meant() -> None:
    assert as_among(["BRK.B", "AAPL.US", "BTC-USD"], ["BRK-B", "AAPL"]) == {
        "BRK.B": "BRK-B",
        "AAPL.US": "AAPL",
    }
    assert as_among(["BRK/B"], ["BRK-B", "BRK.B"]) == {}
    assert as_among(["BRK-B"], ["BRK-B", "BRK.B"]) == {}
    assert as_among(["BRKB"], ["BRK-B"]) == {}


def test_lists_of_codes_in_a_cell() -> None:
    assert listed_in("600519 CH Equity") == ["600519 CH Equity"]
    assert listed_in('["AAPL"; "MSFT"]') == ["AAPL", "MSFT"]
    assert listed_in(" AAPL ") == ["AAPL"]
    assert us_symbol("BRK/B US Equity") == "BRK.B"
    assert us_symbol("700 HK Equity") == "700 HK Equity"


HOSTILE = [
    (b"", "the file is empty"),
    (b'{\n "Note": "limit of 5 calls"\n}', "JSON .*limit of 5 calls"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
    (b"<!DOCTYPE html><html></html>", "a web page"),
    (b"PK\x03\x04....", "an archive"),
    (b"PAR1....", "can't read"),
    (b"\x1f\x8b....", "can't read"),
    (b"404: Not Found\n", "line 1 is all that it holds, and no table: 404: Not Found"),
    (b"date,code\n\xff\xff\xff\n", "not text in any of UTF-8"),
    (b"a,b\n1,2\n3,4\n", "no columns? for"),
    (b"date,code,code,in_date,ratio,factor,name,close,currency,rate\n1,2,3,4,5,6,7,8,9,10\n",
     "'code' appears twice|no day|expected"),
]  # fmt: skip
SIDE = ("members", "splits", "factors", "industry", "names", "benchmark", "minutes")


@pytest.mark.sampled(40)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("file", SIDE)
@pytest.mark.parametrize(("content", "message"), HOSTILE)
def test_files_that_are_no_tables_are_named_for_every_side_file(
    tmp_path: Path, file: str, suffix: str, content: bytes, message: str
) -> None:
    path = tmp_path / f"{file}.{suffix}"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as refusal:
        read(tmp_path, **{file: str(path)}, benchmark_code="SPX") if file == "benchmark" else read(
            tmp_path, **{file: str(path)}
        )

    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)
