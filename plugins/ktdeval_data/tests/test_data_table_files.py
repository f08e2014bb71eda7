"""Files of tables: encodings, workbooks, what stands around rows, days and numbers in any form,
names of files.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inline_snapshot import snapshot

from ktdeval.errors import DataError
from ktdeval.testing import errors_of
from ktdeval.values import build, install_command
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_tables.codes import code_in_name, code_in_title, lost_zeros, plain_code
from ktdeval_tables.days import DayForm, parse_days
from ktdeval_tables.names import squeeze_name, unit_in
from ktdeval_tables.numbers import decimal_mark, to_numbers
from ktdeval_tables.text_layout import find_layout

ROWS = """日期,代码,开盘,最高,最低,收盘,成交量
2024-01-02,000001,9.37,9.48,9.32,9.43,2523700
2024-01-03,000001,9.41,9.56,9.36,9.51,2119600
"""


def read(path: Path, **params: Any) -> Any:
    return read_long(build(LongParams, {"bars": str(path), **params}, "long"))


def refused(path: Path, *every: dict[str, Any]) -> str:
    """What is said where a file can't be read with each of these parameters."""
    return errors_of(lambda params: read(path, **params), *(every or [{}]), folder=path.parent)


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "gb18030", "utf-16", "utf-16-le", "utf-16-be"],
)
def test_a_file_is_read_in_every_encoding_in_use(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "bars.csv"
    path.write_bytes(ROWS.encode(encoding))
    assert read(path).bars["close"].tolist() == [9.43, 9.51]


@pytest.mark.exhaustive
def test_a_letter_of_another_encoding_far_down_is_read(tmp_path: Path) -> None:
    """The start of a file of many rows is plain, and tells no encoding."""
    lines = [
        "code,name,industry",
        *(f"{number:06d},x,y" for number in range(600000, 620000)),
        "000001,平安银行,银行",
    ]
    industry = tmp_path / "industry.csv"
    industry.write_bytes("\n".join(lines).encode("gb18030"))
    bars = tmp_path / "bars.csv"
    bars.write_text(ROWS)
    assets = read(bars, industry=str(industry)).assets.set_index("code")

    assert assets.loc["000001.SZ", "name"] == "平安银行"

    industry.write_bytes(b"code,name\n000001,\xff\xff\xff\n")

    assert refused(bars, {"industry": str(industry)}) == snapshot(
        "DataError: FOLDER/industry.csv: can't read: not text in any of UTF-8, UTF-16, GB 18030; save it as UTF-8\n"
    )


def test_a_workbook_is_read_like_its_text(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["平安银行 日线", None, None, None, None, None, None])
    sheet.append(["日期", "代码", "开盘", "最高", "最低", "收盘", "成交量"])
    sheet.append([datetime(2024, 1, 2), 1, 9.37, 9.48, 9.32, 9.43, 2523700])
    sheet.append([datetime(2024, 1, 3), 1, 9.41, 9.56, 9.36, 9.51, 2119600])
    sheet.append(["数据来源:Wind"])
    book.create_sheet("others")
    book.save(tmp_path / "bars.xlsx")

    assert refused(tmp_path / "bars.xlsx") == snapshot(
        "DataError: FOLDER/bars.xlsx: code '1' has fewer than six digits: a program took codes for numbers, and 000001 lost its zeros; read them with --code-width 6\n"
    )

    raw = read(tmp_path / "bars.xlsx", code_width=6)

    assert raw.table.codes == ("000001.SZ",)
    assert raw.bars["close"].tolist() == [9.43, 9.51]
    assert "\n".join(raw.notes) == snapshot("""\
no membership file: an asset belongs to the universe from its first bar until 60 trading days after its last
bars.xlsx: its first sheet, Sheet, is read; not read: others
bars.xlsx: line 2 is the header; above it stands a title: 平安银行 日线,,,,,,
bars.xlsx: words at the end are not a row of data: 数据来源:Wind,,,,,,
no index: figures against a benchmark are null, and tasks about an index refuse the market\
""")

    _declare_one_cell(tmp_path / "bars.xlsx")
    again = read(tmp_path / "bars.xlsx", code_width=6)
    assert again.bars["close"].tolist() == [9.43, 9.51]

    (tmp_path / "none.xlsx").write_bytes(b"PK\x03\x04")
    assert refused(tmp_path / "none.xlsx") == snapshot(
        "DataError: FOLDER/none.xlsx: not a readable workbook; save it again as .xlsx, or as .csv\n"
    )


def _declare_one_cell(book: Path) -> None:
    """Write the size of one cell into each sheet of a workbook, as some programs do."""
    with zipfile.ZipFile(book) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(book, "w") as archive:
        for name, content in parts.items():
            archive.writestr(
                name, re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1"', content)
            )


def test_without_openpyxl_one_line_names_the_package_to_install(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "bars.xlsx").write_bytes(b"PK")

    with pytest.raises(
        DataError, match=f"; openpyxl is not installed: {re.escape(install_command('xlsx'))}"
    ):
        read(tmp_path / "bars.xlsx")


CONTENTS = [
    b"\xd0\xcf\x11\xe0....",
    b"\n<!DOCTYPE html><html>",
    b"version https://git-lfs.github.com/spec/v1\n",
    b"/annex/objects/SHA256E-s1--1.csv\n",
    b'{\n  "Note": "Thank you! Our limit is 5 calls."\n}',
    b'\xef\xbb\xbf{"error": "bad key AB12CD34EF56GH78"}',
    '{"code": 401}'.encode("utf-16"),
    b'[{"date": "2024-01-02"}]',
    b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
    b"\x89HDF\r\n",
]


def refused_contents(path: Path, *contents: bytes) -> str:
    said = ""
    for content in contents:
        path.write_bytes(content)
        said += refused(path).replace(path.name, "FILE")

    return said


@pytest.mark.parametrize("name", ["bars.csv", "bars.parquet", "bars.xlsx", "bars.dat", "bars.json"])
def test_other_file_types_are_recognised_by_content_under_any_name(
    tmp_path: Path, name: str
) -> None:
    assert refused_contents(tmp_path / name, *CONTENTS) == snapshot("""\
DataError: FOLDER/FILE: can't read: by its first bytes it is an old workbook: save it as .xlsx or .csv
DataError: FOLDER/FILE: can't read: by its first bytes it is a web page: download the file again
DataError: FOLDER/FILE: can't read: by its first bytes it is a pointer to a file: get that by git lfs pull
DataError: FOLDER/FILE: can't read: by its first bytes it is a pointer to a file: get that by git annex get
DataError: FOLDER/FILE: can't read: by its first bytes it is JSON ({ "Note": "Thank you! Our limit is 5 calls." }): download the table again, as .csv
DataError: FOLDER/FILE: can't read: by its first bytes it is JSON ({"error": "bad key [...]"}): download the table again, as .csv
DataError: FOLDER/FILE: can't read: by its first bytes it is JSON ({"code": 401}): download the table again, as .csv
DataError: FOLDER/FILE: can't read: by its first bytes it is JSON ([{"date": "2024-01-02"}]): save it as .csv
DataError: FOLDER/FILE: can't read: by its first bytes it is XML, as of a server's error: download the file again
DataError: FOLDER/FILE: can't read: by its first bytes it is an HDF5 file: save it as .csv or .parquet
""")


def test_an_archive_is_named_where_it_is_no_workbook(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("bars.csv", "bars.parquet", "bars.dat")]
    assert "".join(refused_contents(file, b"PK\x03\x04....") for file in files) == snapshot("""\
DataError: FOLDER/FILE: can't read: by its first bytes it is an archive: unpack it first
DataError: FOLDER/FILE: can't read: by its first bytes it is an archive: unpack it first
DataError: FOLDER/FILE: unknown kind of file; expected one of .parquet, .csv, .csv.gz, .tsv, .tsv.gz, .xlsx, .txt, .txt.gz, or a folder of them
""")


@pytest.mark.parametrize("name", ["bars.csv", "bars.txt", "bars.parquet", "bars.csv.gz", "bars"])
@pytest.mark.parametrize("kind", ["parquet", "gzip", "workbook", "text"])
def test_tables_are_read_by_their_bytes_under_any_name(
    tmp_path: Path, name: str, kind: str
) -> None:
    """`bars` and other suffixes are accepted where the bytes tell that it is a table."""
    frame = pd.read_csv(io.StringIO(ROWS), dtype={"代码": str})
    content = io.BytesIO()

    if kind == "parquet":
        frame.to_parquet(content)
    elif kind == "workbook":
        pytest.importorskip("openpyxl")
        frame.to_excel(content, index=False)
    elif kind == "gzip":
        content.write(gzip.compress(ROWS.encode()))
    else:
        content.write(ROWS.encode())

    (tmp_path / name).write_bytes(content.getvalue())
    if name == "bars" and kind == "text":
        with pytest.raises(DataError, match="unknown kind of file"):
            read(tmp_path / name)

        return

    assert read(tmp_path / name).bars["close"].tolist() == [9.43, 9.51]


@pytest.mark.parametrize(
    "footer", ["1834", '"1,834"', "20 rows selected.", "1834,,,,,,", "\n1834\n"]
)
def test_a_number_under_the_rows_is_no_row(tmp_path: Path, footer: str) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(ROWS + footer)
    raw = read(path)

    assert raw.bars["close"].tolist() == [9.43, 9.51]
    assert any("words at the end are not a row of data: " in note for note in raw.notes)


@pytest.mark.parametrize("text", ["404: Not Found", "Invalid API key AB12CD34EF56GH78, or none."])
def test_a_line_of_words_is_no_table(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(text)
    with pytest.raises(DataError, match="line 1 is all that it holds, and no table: ") as refusal:
        read(path)

    assert text[:11] in str(refusal.value)
    assert "AB12" not in str(refusal.value)


def test_options_that_would_do_nothing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(ROWS)
    pd.read_csv(path, dtype={"代码": str}).to_parquet(tmp_path / "bars.parquet")

    assert refused(path, {"code": "600000"}) == snapshot(
        "UsageError: --code 600000: FOLDER/bars.csv has a column of codes, '代码'; leave --code out\n"
    )
    assert refused(tmp_path / "bars.parquet", {"columns": ["date"]}) == snapshot(
        "UsageError: FOLDER/bars.parquet: --columns applies to files without a header, and this one has names; use --map\n"
    )
    assert read(tmp_path / "bars.parquet").bars["close"].tolist() == [9.43, 9.51]


def test_a_frames_index_of_days_without_a_name_is_read_from_parquet(tmp_path: Path) -> None:
    index = pd.to_datetime(["2024-01-02", "2024-01-03"])
    frame = pd.DataFrame({"open": [1.0, 2], "close": [1.0, 2], "volume": [100, 100]}, index=index)
    frame.to_parquet(tmp_path / "bars.parquet")
    raw = read(tmp_path / "bars.parquet", code="000001")

    assert raw.table.days.astype(str).tolist() == ["2024-01-02", "2024-01-03"]


@pytest.mark.slow
def test_parquet_files_with_columns_for_each_asset_are_read(tmp_path: Path) -> None:
    days = pd.DatetimeIndex(["2024-12-02", "2024-12-03"], name="Date")
    columns = pd.MultiIndex.from_product(
        [["Open", "Close", "Volume"], ["AAPL", "TSLA"]], names=["Price", "Ticker"]
    )
    pairs = pd.DataFrame([[1.0, 2, 1, 2, 100, 100], [1.5, 2.5, 1.5, 2.5, 100, 100]], days, columns)
    pairs.to_parquet(tmp_path / "pairs.parquet")
    pairs["Close"].reset_index().to_parquet(tmp_path / "closes.parquet")

    for name in ("pairs", "closes"):
        bars = read(tmp_path / f"{name}.parquet", venue="us_equity").bars
        own = bars[bars["code"] == "TSLA"]
        assert (own["close"].tolist(), bars["code"].nunique()) == ([2.0, 2.5], 2)


PRICES_WITHOUT_HIGH = (
    "date,code,open,low,close,volume{more}\n2024-01-02,000001,9.3,9.2,9.4,100{cell}\n"
)


def test_missing_price_column_is_refused_if_a_remaining_column_may_be_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(PRICES_WITHOUT_HIGH.format(more=",upper", cell=",9.5"))

    assert refused(path) == snapshot(
        "DataError: FOLDER/bars.csv: no column is named high; say which it is by --map high=COLUMN (columns that are left: 'upper')\n"
    )
    assert read(path, map={"high": "upper"}).bars["high"].tolist() == [9.5]


@pytest.mark.parametrize("name", ["pe", "turnover_rate", "Open"])
def test_a_column_of_a_known_meaning_is_no_candidate_for_a_missing_price(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(PRICES_WITHOUT_HIGH.format(more=f",{name}", cell=",9.5"))
    assert read(path).bars["high"].isna().all()


@pytest.mark.slow
def test_the_other_files_have_vendors_names_and_forms_too(tmp_path: Path) -> None:
    """Formats and widths are those of every file; one that a file does not have leaves days that
    mean one day alone.
    """
    (tmp_path / "bars.csv").write_text(
        ROWS.replace("2024-01-0", "0").replace("02,", "02/01/2024,").replace("03,", "03/01/2024,")
    )
    (tmp_path / "index.csv").write_bytes(
        "日期;收盘\n2024-01-02;3386,35\n2024-01-03;3390,1\n数据来源:Wind\n".encode("gb18030")
    )
    (tmp_path / "members.csv").write_text("品种代码,品种名称,纳入日期\n1,平安银行,2023-12-11\n")
    (tmp_path / "names.csv").write_text("代码,名称,in_date\n000001,平安银行,2012-08-02\n")
    (tmp_path / "industry.csv").write_text("股票代码,股票名称,行业\n1,平安银行,银行\n")
    files = {name: str(tmp_path / f"{name}.csv") for name in ("members", "names", "industry")}
    files["benchmark"] = str(tmp_path / "index.csv")
    bars = tmp_path / "bars.csv"

    assert refused(bars, {"date_format": "%d/%m/%Y", **files}) == snapshot(
        "DataError: FOLDER/members.csv: line 2: code '1' has fewer than six digits: a program took codes for numbers, and 000001 lost its zeros; read them with --code-width 6\n"
    )

    raw = read(bars, date_format="%d/%m/%Y", code_width=6, **files)

    assert raw.table.days.astype(str).tolist() == ["2024-01-02", "2024-01-03"]
    assert raw.indices["close"].tolist() == [3386.35, 3390.1]
    assert raw.members["code"].tolist() == ["000001.SZ"]
    assert raw.names["name"].tolist() == ["平安银行"]
    assert raw.assets["industry"].tolist() == ["银行"]


def test_only_words_at_the_end_are_left_out_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(ROWS + "\n来源:x\n注:y\n")
    raw = read(path)

    assert len(raw.bars) == 2
    assert "\n".join(raw.notes) == snapshot("""\
no membership file: an asset belongs to the universe from its first bar until 60 trading days after its last
bars.csv: words at the end are not a row of data: 来源:x 注:y
no index: figures against a benchmark are null, and tasks about an index refuse the market\
""")

    path.write_text(ROWS.replace("2024-01-03,", "来源:x\n2024-01-03,"))
    assert refused(path) == snapshot(
        "DataError: FOLDER/bars.csv: line 3: date: '来源:x' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily\n"
    )

    path.write_text(ROWS + "2024-01-0")
    assert refused(path) == snapshot(
        "DataError: FOLDER/bars.csv: line 4: date: '2024-01-0' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily\n"
    )


def test_the_layout_of_a_table_is_found() -> None:
    known = {"date", "code", "close", "open"}
    layout = find_layout(["# a title", "", "date;code;close", "2024-01-02;1;2,5"], known, (), "f")

    assert (layout.delimiter, layout.header, layout.header_line, layout.first_line) == (
        ";",
        ("date", "code", "close"),
        3,
        4,
    )
    assert layout.decimal == "comma"

    quoted = find_layout(['"date","close"', '"2024-01-02","1,234.5"'], known, (), "f")
    assert (quoted.delimiter, quoted.decimal) == (",", "point")
    assert find_layout(["code", "600519.SH"], known, (), "f").header == ("code",)


def test_a_layout_that_is_none_is_refused(tmp_path: Path) -> None:
    known = {"date", "close"}
    layouts = [
        (["date,close", "2024-01-02,1"], ("date", "close")),
        (["2024-01-02,1"], ("date",)),
        (["", " "], ()),
    ]

    assert errors_of(
        lambda layout: find_layout(layout[0], known, layout[1], "f"), *layouts, folder=tmp_path
    ) == snapshot("""\
UsageError: f: line 1 is a header (date,close), and --columns applies to files without one; leave it out, or use --map
DataError: f: number of columns: 1 in --columns, 2 in line 1; write `-` for others
DataError: f: can't read: No columns; the file is empty
""")


@pytest.mark.parametrize(
    ("cell", "form"),
    [
        ("2024.01.02", DayForm()),
        ("2024年1月2日", DayForm()),
        ("2024-01-02 二", DayForm()),
        ("2024-01-02,星期二", DayForm()),
        ("2024-01-02T00:00:00.000Z", DayForm()),
        ("2024-01-02 00:00:00-05:00", DayForm()),
        ("2024-01-02 00:00:00 UTC", DayForm()),
        ("1704153600", DayForm()),
        ("1704153600000", DayForm()),
        ("1704153600000000", DayForm()),
        ("1704153600000000000", DayForm()),
        ("2024-01-02 05:00:00+00:00", DayForm(zone="America/New_York")),
        ("1704171600000", DayForm(zone="America/New_York")),
        ("02/01/2024", DayForm("%d/%m/%Y")),
        ("Jan 2, 2024", DayForm("%b %d, %Y")),
        ("2024-01-02 15:00:00", DayForm("%Y-%m-%d %H:%M:%S")),
        ("45293", DayForm("excel")),
        ("1704205800", DayForm("unix_s")),
        ("1704238200", DayForm("unix_s", "America/New_York")),
    ],
)
def test_a_day_in_any_form_that_means_one_day_is_read(cell: str, form: DayForm) -> None:
    days = parse_days(pd.Series([cell, None]), "x", form)
    assert [str(day)[:10] for day in days] == ["2024-01-02", "NaT"]


def test_other_days_are_refused_with_advice_that_works(tmp_path: Path) -> None:
    forms = {
        "01/02/2024": DayForm("%d/%m/%Y"),
        "13/02/2024": DayForm("%d/%m/%Y"),
        "02.01.2024": DayForm("%d.%m.%Y"),
        "02JAN2024": DayForm("%d%b%Y"),
        "2-Jan-24": DayForm("%d-%b-%y"),
        "113/01/02": DayForm("roc"),
        "1/2/2024 12:00:00 AM": DayForm("%m/%d/%Y %I:%M:%S %p"),
        "20240102150000": DayForm("%Y%m%d%H%M%S"),
        "45293": DayForm("excel"),
        "2024-01-02 15:00:00": DayForm("%Y-%m-%d %H:%M:%S"),
        "2024-01-02 05:00:00+00:00": DayForm(zone="America/New_York"),
        "1704124800000": DayForm(zone="Asia/Shanghai"),
        "1704205800": DayForm("unix_s"),
    }
    days = errors_of(lambda cell: parse_days(pd.Series([cell]), "x: date"), *forms, folder=tmp_path)

    assert days == snapshot("""\
DataError: x: date: '01/02/2024' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; say how days are written: --date-format '%m/%d/%Y' or --date-format '%d/%m/%Y'
DataError: x: date: '13/02/2024' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; say how days are written: --date-format '%d/%m/%Y'
DataError: x: date: '02.01.2024' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; say how days are written: --date-format '%d.%m.%Y'
DataError: x: date: '02JAN2024' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; say how days are written: --date-format '%d%b%Y'
DataError: x: date: '2-Jan-24' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; say how days are written: --date-format '%d-%b-%y'
DataError: x: date: '113/01/02' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; if its years are of the Republic of China, say --date-format roc
DataError: x: date: '1/2/2024 12:00:00 AM' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; say how days are written: --date-format '%m/%d/%Y %I:%M:%S %p' or --date-format '%d/%m/%Y %I:%M:%S %p'
DataError: x: date: '20240102150000' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; say how days are written: --date-format '%Y%m%d%H%M%S'
DataError: x: date: '45293' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; if it is Excel's number for 2024-01-02, say --date-format excel
DataError: x: date: '2024-01-02 15:00:00' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; a bar that begins at such a time may end on the next day; if these are the days of their bars, take them as written: --date-format '%Y-%m-%d %H:%M:%S'
DataError: x: date: '2024-01-02 05:00:00+00:00' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; it is midnight in America/New_York: say --date-zone America/New_York
DataError: x: date: '1704124800000' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; it is midnight in Asia/Shanghai: say --date-zone Asia/Shanghai
DataError: x: date: '1704205800' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily; a bar that begins at such a time may end on the next day; if these are the days of their bars, take them as written: --date-format 'unix_s'
""")

    for cell, form in forms.items():
        assert parse_days(pd.Series([cell]), "x: date", form).notna().all()


def test_stamps_of_a_typed_column_are_days_of_their_zone(tmp_path: Path) -> None:
    stamps = pd.Series(pd.to_datetime(["2024-01-02 05:00:00+00:00", "2024-01-03 05:00:00+00:00"]))
    days = parse_days(stamps, "x: date", DayForm(zone="America/New_York"))

    assert days.dt.strftime("%Y-%m-%d").tolist() == ["2024-01-02", "2024-01-03"]
    assert errors_of(
        lambda typed: parse_days(typed, "x: date"), stamps, folder=tmp_path
    ) == snapshot(
        "DataError: x: date: dates have times of day; bars must be daily; it is midnight in America/New_York: say --date-zone America/New_York\n"
    )


def test_formats_and_zones_that_are_none_are_refused(tmp_path: Path) -> None:
    words = [{"format": "iso"}, {"zone": "Mars/X"}]
    assert errors_of(lambda given: DayForm(**given), *words, folder=tmp_path) == snapshot("""\
UsageError: --date-format 'iso' is not a format such as %d/%m/%Y, nor one of excel, roc, unix_s, unix_ms, unix_us, unix_ns
UsageError: --date-zone 'Mars/X' is not a time zone; write one such as America/New_York
""")


@pytest.mark.parametrize(
    ("cells", "decimal", "expected"),
    [
        (["1,234.5", "-", "--", ""], "point", [1234.5, np.nan, np.nan, np.nan]),
        (["$1.5", "¥2", "\uffe52", "-$3"], "point", [1.5, 2, 2, -3]),
        (["57.54M", "1.2K", "3B", "2.5万", "1.2亿"], "point", [57.54e6, 1200, 3e9, 25000, 1.2e8]),
        (["10,25", "1.234,5", "7"], "comma", [10.25, 1234.5, 7]),
    ],
)
def test_numbers_of_any_form_are_read(
    cells: list[str],
    decimal: str,
    expected: list[float],
) -> None:
    np.testing.assert_allclose(to_numbers(pd.Series(cells), "x", decimal), expected)


def test_numbers_that_may_be_two_are_refused_with_advice(tmp_path: Path) -> None:
    cells: dict[str, Any] = {"1,234": "unclear", "10,25": "point", "10.25": "comma"}
    assert errors_of(
        lambda cell: to_numbers(pd.Series([cell]), "x", cells[cell]), *cells, folder=tmp_path
    ) == snapshot("""\
DataError: x: column None holds '1,234', which can mean two numbers; say --decimal comma, or --decimal point
DataError: x: column None holds '10,25', expected numbers such as 1234.5 or 1,234.5; if commas are decimal, say --decimal comma
DataError: x: column None holds '10.25', expected numbers such as 1234,5 or 1.234,5; if points are decimal, say --decimal point
""")


def test_the_decimal_mark_is_inferred_from_cells() -> None:
    assert decimal_mark(["2024-01-02", "9,4", "1,234"]) == "comma"
    assert decimal_mark(["1,234.5", "1,234"]) == "point"
    assert decimal_mark(["1,234"]) == "unclear"
    assert decimal_mark(["9.4"]) == "point"


@pytest.mark.parametrize(
    ("stem", "code"),
    [
        ("600000.SH", "600000.SH"),
        ("SH#600000", "SH600000"),
        ("sh600000", "sh600000"),
        ("600000_浦发银行", "600000"),
        ("BTCUSDT-1d-2024-01", "BTCUSDT"),
        ("XBTUSD_1440", "XBTUSD"),
        ("BRK.B", "BRK.B"),
        ("aapl.us", "aapl.us"),
    ],
)
def test_a_files_name_gives_a_code(stem: str, code: str) -> None:
    assert code_in_name(stem) == code


def test_a_title_gives_a_code_but_not_an_index() -> None:
    assert code_in_title("600000 浦发银行 日线 不复权") == "600000"
    assert code_in_title("000001 上证指数 日线") is None
    assert code_in_title("Prices of AAPL") is None


@pytest.mark.parametrize(
    ("name", "code"), [("SH#000001.txt", "000001.SH"), ("export.txt", "000001.SZ")]
)
def test_the_name_of_a_file_identifies_the_asset_of_a_title(
    tmp_path: Path, name: str, code: str
) -> None:
    rows = ROWS.replace("代码,", "").replace("000001,", "")
    path = tmp_path / name
    path.write_text(f"000001 某某 日线\n{rows}")

    assert read(path).table.codes == (code,)
    assert read(tmp_path).table.codes == (code,)


def test_files_of_a_folder_that_count_in_other_units_are_refused(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(ROWS.replace("成交量", "成交量(手)"))
    (tmp_path / "2.csv").write_text(
        ROWS.replace("成交量", "成交量(股)").replace("000001", "600000")
    )
    both = errors_of(read, tmp_path, folder=tmp_path)

    assert both == snapshot(
        "DataError: FOLDER/2.csv: column '成交量(股)' has another unit by its name than '成交量(手)' of the files before; import the files of one unit, or bring them to one\n"
    )

    (tmp_path / "2.csv").unlink()

    assert read(tmp_path).bars["volume"].tolist() == [252370000, 211960000]


def test_a_unit_of_one_code_overrides_the_unit_in_the_name(tmp_path: Path) -> None:
    file = tmp_path / "1.csv"
    file.write_text(ROWS.replace("成交量", "成交量(手)"))
    one_code = read(file, volume_unit="100,000001.SZ=share")

    assert one_code.bars["volume"].tolist() == [2523700, 2119600]
    assert refused(file, {"volume_unit": "000001.SZ=share"}) == snapshot(
        "UsageError: --volume-unit 000001.SZ=share: column '成交量(手)' of FOLDER/1.csv says units of 100 in its name; begin it with that unit: --volume-unit 100,…\n"
    )


def test_codes_are_freed_of_marks_and_get_their_zeros_back() -> None:
    assert [plain_code(text) for text in ('="000001"', "'000001", "000001\t", "BRK.B")] == [
        "000001",
        "000001",
        "000001",
        "BRK.B",
    ]
    assert [plain_code(text, 6) for text in ("1", "1.0", "600519", "AAPL")] == [
        "000001",
        "000001",
        "600519",
        "AAPL",
    ]
    assert lost_zeros(["600519", "1"]) == "1"
    assert lost_zeros(["600519", "00700", "AAPL"]) is None


def test_names_are_compared_without_marks_and_may_state_units() -> None:
    names = ("<CLOSE>", "Adj. Close", "adj_close", "1. open", "成交量（手）")
    assert [squeeze_name(name) for name in names] == [
        "close",
        "adjclose",
        "adjclose",
        "1open",
        "成交量",
    ]
    assert [
        unit_in("volume", name) for name in ("成交量(手)", "成交量", "总手", "volume (shares)")
    ] == [100, None, 100, 1]
    assert [unit_in("amount", name) for name in ("成交额(万元)", "成交额[亿]", "amount")] == [
        1e4,
        1e8,
        None,
    ]
