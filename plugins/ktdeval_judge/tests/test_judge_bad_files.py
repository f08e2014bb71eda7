"""Wrong files of decisions: each is refused in one line that says what, where and how to fix it."""

from __future__ import annotations

import gzip
import pickle
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pandas as pd
import pytest
from inline_snapshot import snapshot

from ktdeval.errors import DataError, KtdevalError, UsageError
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import AccountConfig
from ktdeval_judge.market_plan import market_plan
from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_tables import cell_tables, table_sources

MARKET = snapshot_of_days(
    ["000002.SZ", "600001.SH"],
    opens=[[10.0, 20.0], [10.0, 20.0], [10.0, 20.0], [None, 20.0], [10.0, 20.0]],
    first="2024-01-01",
)
TRADING = AccountConfig(max_weight=1.0, max_positions=10).rules("test")
HEAD = "date,code,weight\n"
ROW = "2024-01-02,600001.SH,0.5\n"


def refusal(path: Path) -> str:
    """The one line that a file is refused with, by its reader or by the market."""
    with pytest.raises(KtdevalError) as caught:
        market_plan(read_declared(path, ReadOptions()), MARKET, TRADING)
    text = str(caught.value)
    assert "\n" not in text
    assert path.name in text
    return text


def one_column(word: str, cell: str) -> str:
    return f"date,code,{word}\n{ROW.rsplit(',', 1)[0]},{cell}\n"


TEXTS = {
    "nothing": "",
    "a header alone": HEAD,
    "blank lines alone": "\n\n\n",
    "no day": "code,weight\n600001.SH,1\n",
    "no code": "date,weight\n2024-01-02,1\n",
    "nothing to do": "date,code,colour\n2024-01-02,600001.SH,red\n",
    "two forms": "date,code,weight,position\n2024-01-02,600001.SH,1,100\n",
    "a day and code twice": HEAD + ROW + ROW,
    "a cell too few": HEAD + "2024-01-02,600001.SH\n",
    "a cell too many": HEAD + "2024-01-02,600001.SH,0.5,1\n",
    "no weight in a row": HEAD + "2024-01-02,600001.SH,\n",
    "no code in a row": HEAD + "2024-01-02,,0.5\n",
    "no day in a row": HEAD + ",600001.SH,0.5\n",
    "a weight that is not a number": one_column("weight", "NaN"),
    "an infinite weight": one_column("weight", "1e999"),
    "an infinite word": one_column("weight", "inf"),
    "a weight in per cent": one_column("weight", "50"),
    "weights that borrow": HEAD + "2024-01-02,600001.SH,0.8\n2024-01-02,000002.SZ,0.8\n",
    "an unknown code": HEAD + "2024-01-02,600002.SH,0.5\n",
    "a code of another market": HEAD + "2024-01-02,AAPL,0.5\n",
    "a code that is a number": HEAD + "2024-01-02,600001.0,0.5\n",
    "a day before the market": HEAD + "2023-01-02,600001.SH,0.5\n",
    "a day after the market": HEAD + "2025-01-02,600001.SH,0.5\n",
    "the last day of the market": HEAD + "2024-01-05,600001.SH,0.5\n",
    "a day that can mean two": HEAD + "03/04/2024,600001.SH,0.5\n",
    "a day that there is not": HEAD + "2024-02-30,600001.SH,0.5\n",
    "a word for a day": HEAD + "Tuesday,600001.SH,0.5\n",
    "a side that is none": "date,code,side,qty\n2024-01-02,600001.SH,up,5\n",
    "cash without a side": "date,code,cash\n2024-01-02,600001.SH,5\n",
    "cash below zero": "date,code,side,cash\n2024-01-02,600001.SH,buy,-5\n",
    "cash for what has no close": "date,code,side,cash\n2024-01-01,000002.SZ,buy,\n",
    "a negative price": "date,code,side,qty,price\n2024-01-02,600001.SH,buy,5,-1\n",
    "a price of zero": "date,code,qty,price\n2024-01-02,600001.SH,5,0\n",
    "a trade of nothing": "date,code,qty,price\n2024-01-02,600001.SH,0,9\n",
    "a trade before the market": "date,code,side,qty,price\n2024-01-01,600001.SH,buy,5,20\n",
    "a NAV below zero": "date,nav\n2024-01-02,-1\n",
    "a NAV without decisions": "date,nav\n2024-01-02,1\n",
    "JSON of one number": "[1, 2, 3]",
    "JSON nested too deeply": "[" * 3000 + "]" * 3000,
    "JSON that breaks off": '[{"date": "2024-01-02", "co',
    "JSON with a key twice": '[{"date": "2024-01-02", "date": "x"}]',
    "JSON with NaN": '[{"date": "2024-01-02", "code": "600001.SH", "weight": NaN}]',
    "a weight that is true": '[{"date": "2024-01-02", "code": "600001.SH", "weight": true}]',
    "a list for a code": '[{"date": "2024-01-02", "code": [1], "weight": 1}]',
    "a code that JSON has as a number with a part": '[{"date": "2024-01-02", "code": 600001.5, "weight": 1}]',
    "a web page": "<!doctype html><title>Sign in</title>",
    "a quotation that does not end": HEAD + '2024-01-02,"600001.SH,0.5\n',
    "a header whose quotation does not end": 'date,"',
    "a wide table with a word": ",600001.SH\n2024-01-02,much\n",
    "a wide table of shares": ",600001.SH\n2024-01-02,500\n",
    "a wide table with a day twice": ",600001.SH\n2024-01-02,1\n2024-01-02,1\n",
    "a line without end": HEAD + "2024-01-02,600001.SH," + "9" * 2_000_000,
}


def test_a_wrong_text_is_refused_in_one_line(tmp_path: Path) -> None:
    said = ""
    for case, text in TEXTS.items():
        path = tmp_path / ("wrong.json" if text.startswith(("[", "{")) else "wrong.csv")
        path.write_text(text)
        said += f"{case}: {refusal(path)}\n"

    assert said.replace(f"{tmp_path}/", "") == snapshot("""\
nothing: wrong.csv: is empty; write a header and one row a decision
a header alone: wrong.csv: has no row below its header; write one row per decision
blank lines alone: wrong.csv: can't read: No columns; the file is empty
no day: wrong.csv: has no column of days (date, datetime, timestamp); no column contains days: save the table with its index of days, or add them; its columns: code, weight; for a file of a known program, give --from
no code: wrong.csv: has no column of codes (symbol, ticker, instrument); write one row per day and code, or give the file's asset: --code CODE; its columns: date, weight
nothing to do: wrong.csv: contains no decision, trade or account value; write one of: weight; position (the shares to hold); side with cash or shares; shares with price (a trade); entry and exit of a trade with their days; or a day with nav or return; its columns: date, code, colour; assign columns with --map ROLE=COLUMN
two forms: wrong.csv: mixes weights and holdings; a file must use one form: keep one of these columns, or name it: --map weight=COLUMN or --map position=COLUMN
a day and code twice: wrong.csv: line 3: column date: the same day and code appear twice; keep one row
a cell too few: wrong.csv: can't read: its last row has 2 of 3 cells, so that the file may be cut off; write it whole
a cell too many: wrong.csv: line 2: expected 3 cells, was 4; quote texts with commas or line breaks
no weight in a row: wrong.csv: contains no decision, trade or account value; write one of: weight; position (the shares to hold); side with cash or shares; shares with price (a trade); entry and exit of a trade with their days; or a day with nav or return; its columns: date, code, weight; assign columns with --map ROLE=COLUMN
no code in a row: wrong.csv: line 2: column code: expected a code, was empty
no day in a row: wrong.csv: line 2: column date: expected a day such as 2024-01-31, was empty
a weight that is not a number: wrong.csv: line 2: column weight: expected a number, was 'NaN'
an infinite weight: wrong.csv: line 2: column weight: expected a number, was '1e999'
an infinite word: wrong.csv: line 2: column weight: expected a number, was 'inf'
a weight in per cent: wrong.csv: line 2: column weight: 50 is more than the whole account; write fractions, such as 0.05 for 5 %
weights that borrow: wrong.csv: line 3: weights of 2024-01-02 sum to 1.6, but the account borrows no cash; divide them by their sum, or judge the leveraged account as a NAV
an unknown code: wrong.csv: line 2: '600002.SH' is not a code of tiny; did you mean '600001.SH' or '000002.SZ'?
a code of another market: wrong.csv: line 2: 'AAPL' is not a code of tiny; examples of its codes: 000002.SZ, 600001.SH
a code that is a number: wrong.csv: line 2: '600001.0' is not a code of tiny; did you mean '600001.SH' or '000002.SZ'?
a day before the market: wrong.csv: line 2: 2023-01-02 lies outside tiny, 2024-01-01 … 2024-01-05; choose other data
a day after the market: wrong.csv: line 2: 2025-01-02 lies outside tiny, 2024-01-01 … 2024-01-05; choose other data
the last day of the market: wrong.csv: line 2: 2024-01-05 is the market's last day, so decisions made on it can't be filled; drop them, or import later days
a day that can mean two: wrong.csv: line 2: column date: '03/04/2024' can mean two days; say how days are written: --date-format '%m/%d/%Y' or --date-format '%d/%m/%Y'
a day that there is not: wrong.csv: line 2: column date: '2024-02-30' is not a date; write it as 2024-01-02
a word for a day: wrong.csv: line 2: column date: 'Tuesday' is not a date; write it as 2024-01-02
a side that is none: wrong.csv: line 2: column side: expected buy or sell, was 'up'; drop rows without a trade
cash without a side: wrong.csv: contains no decision, trade or account value; write one of: weight; position (the shares to hold); side with cash or shares; shares with price (a trade); entry and exit of a trade with their days; or a day with nav or return; its columns: date, code, cash; assign columns with --map ROLE=COLUMN
cash below zero: wrong.csv: line 2: column cash: expected a number above zero, was '-5'
cash for what has no close: wrong.csv: contains no decision, trade or account value; write one of: weight; position (the shares to hold); side with cash or shares; shares with price (a trade); entry and exit of a trade with their days; or a day with nav or return; its columns: date, code, side, cash; rows buy and sell, but no column has their sizes: add a column shares
a negative price: wrong.csv: line 2: column price: expected a number above zero, was '-1'
a price of zero: wrong.csv: line 2: column price: expected a number above zero, was '0'
a trade of nothing: wrong.csv: line 2: column qty: expected a number other than zero, was '0'
a trade before the market: wrong.csv: line 2: the market has no day before 2024-01-01, on which the trade was decided; import earlier days
a NAV below zero: wrong.csv: line 2: column nav: expected a number above zero, was '-1'
a NAV without decisions: wrong.csv: contains no decision and no trade
JSON of one number: wrong.json: can't read: holds no list of objects, and no columns of one length
JSON nested too deeply: wrong.json: is not valid JSON: nested too deeply; write the file again, to its end
JSON that breaks off: wrong.json: is not valid JSON: Unterminated string starting at: line 1 column 25 (char 24); write the file again, to its end
JSON with a key twice: wrong.json: is not valid JSON: field 'date' appears twice in one object; write the file again, to its end
JSON with NaN: wrong.json: is not valid JSON: NaN is not a JSON number; write the file again, to its end
a weight that is true: wrong.json: row 1: column weight: expected a number, was 'true'
a list for a code: wrong.json: has no column of codes (symbol, ticker, instrument); write one row per day and code, or give the file's asset: --code CODE; its columns: date, weight
a code that JSON has as a number with a part: wrong.json: '600001.5' is not a code of tiny; did you mean '600001.SH' or '000002.SZ'?
a web page: wrong.csv: can't read: by its first bytes it is a web page: download the file again
a quotation that does not end: wrong.csv: line 2: is not CSV: unexpected end of data
a header whose quotation does not end: wrong.csv: line 1: is not CSV: unexpected end of data
a wide table with a word: wrong.csv: line 2: column 600001.SH: expected a number, was 'much'
a wide table of shares: wrong.csv: a table of codes must contain weights, but these look like account values; for one account, give --map nav='600001.SH'
a wide table with a day twice: wrong.csv: line 3: column (first): the same day appears twice; keep one row
a line without end: wrong.csv: line 2: column weight: expected a number, was '9999999999999999999999999999999999999999'
""")


def _zip_bomb() -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("decisions.csv", HEAD + "0" * 300_000_000)
    return packed.getvalue()


BYTES: dict[str, tuple[Callable[[], bytes], str]] = {
    "a pickle": (lambda: pickle.dumps({"a": 1}), "is a pickle"),
    "a pickled table": (lambda: pickle.dumps(pd.DataFrame({"a": [1]})), "to_parquet"),
    "binary": (lambda: b"\x00\x01\x02" * 50, "NUL"),
    "neither UTF-8 nor GB 18030": (lambda: HEAD.encode() + b"2024-01-02,\xff\xff,1\n", "UTF-8"),
    "an archive": (lambda: b"PK\x03\x04" + b"\0" * 60, "wrong.csv"),
    "a broken Parquet": (lambda: b"PAR1" + b"\0" * 40 + b"PAR1", "wrong.csv"),
    "packed and cut off": (lambda: gzip.compress(HEAD.encode() * 99)[:30], "wrong.csv"),
}


@pytest.mark.parametrize("case", BYTES)
def test_wrong_bytes_are_refused_in_one_line(case: str, tmp_path: Path) -> None:
    make, words = BYTES[case]
    path = tmp_path / "wrong.csv"
    path.write_bytes(make())
    assert words in refusal(path)


@pytest.mark.exhaustive
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv"
    path.write_bytes(_zip_bomb())
    assert "bomb.csv" in refusal(path)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "opened",)

    (tmp_path / "wrong.csv").write_bytes(pickle.dumps(Touch()))
    assert "pickle" in refusal(tmp_path / "wrong.csv")
    assert not (tmp_path / "opened").exists()


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    assert "contains no .csv, .json or .parquet file" in refusal(tmp_path)
    assert "can't read" in refusal(tmp_path / "none.csv")


def test_a_file_too_large_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_sources, "MAX_BYTES", 10)
    path = tmp_path / "large.csv"
    path.write_text(HEAD + ROW)
    assert "at most 10 bytes are read" in refusal(path)


def test_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_tables, "MAX_ROWS", 1)
    path = tmp_path / "long.csv"
    path.write_text(HEAD + ROW + ROW)
    assert "line 3: more than 1 rows" in refusal(path)


def test_a_reader_that_there_is_not_is_named_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEAD + ROW)
    with pytest.raises(UsageError, match=r"no reader 'plian'.*plain"):
        read_declared(path, ReadOptions(program="plian"))


# ---- what is right in an unusual form


RIGHT = {
    "a mark of the encoding": "\ufeff" + HEAD + ROW,
    "Windows lines": (HEAD + ROW).replace("\n", "\r\n"),
    "days without marks": "date,code,weight\n20240102,600001.SH,0.5\n",
    "days with slashes": "date,code,weight\n2024/01/02,600001.SH,0.5\n",
    "a moment of midnight": "date,code,weight\n2024-01-02 00:00:00,600001.SH,0.5\n",
    "midnight of a zone": "date,code,weight\n2024-01-02T00:00:00+00:00,600001.SH,0.5\n",
    "names as others have them": "Datetime,Ticker,Target_Weight\n2024-01-02,SH600001,0.5\n",
    "further columns": "date,code,weight,why\n2024-01-02,600001,0.5,momentum\n",
    "JSON": '[{"date": "2024-01-02", "symbol": "600001.SH", "weight": 0.5}]',
    "JSON lines": '{"date": "2024-01-02", "symbol": "600001.SH", "weight": 0.5}\n',
    "a wide table": "date,600001.SH\n2024-01-02,0.5\n",
    "two columns of one weight": "date,code,weight,w\n2024-01-02,600001.SH,0.5,0.5\n",
    "a sign of per cent": "date,code,weight\n2024-01-02,600001.SH,50%\n",
    "a decimal comma": 'date,code,weight\n2024-01-02,600001.SH,"0,5"\n',
    "semicolons": "date;code;weight\n2024-01-02;600001.SH;0.5\n",
    "a moment of another zone": "date,code,weight\n2024-01-02T16:00:00-05:00,600001.SH,0.5\n",
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_usual_form_is_read(case: str, tmp_path: Path) -> None:
    text = RIGHT[case]
    path = tmp_path / ("right.json" if text.startswith("[") else "right.csv")
    path.write_text(text, encoding="utf-8", newline="")
    made = market_plan(read_declared(path, ReadOptions()), MARKET, TRADING)
    assert made.plan.days[0].day == "2024-01-02"
    assert made.plan.days[0].rows == (("600001.SH", 0.5),)


def test_a_line_of_an_error_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEAD + ROW + "2024-01-03,NOPE,0.5\n")
    with pytest.raises(DataError, match=r"a\.csv: line 3: 'NOPE' is not a code of tiny"):
        market_plan(read_declared(path, ReadOptions()), MARKET, TRADING)
