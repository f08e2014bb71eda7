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

from ktdeval.errors import DataError, KtdevalError, UsageError
from ktdeval.trading import AccountConfig
from ktdeval_judge.market_plan import market_plan
from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_tables import cell_tables, table_sources
from support.market.trading_market import make_market

MARKET = make_market(
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
    "nothing": ("", "is empty"),
    "a header alone": (HEAD, "no row below its header"),
    "blank lines alone": ("\n\n\n", "column"),
    "no day": ("code,weight\n600001.SH,1\n", "no column of days"),
    "no code": ("date,weight\n2024-01-02,1\n", "no column of codes"),
    "nothing to do": (
        "date,code,colour\n2024-01-02,600001.SH,red\n",
        "contains no decision, trade or account value",
    ),
    "two forms": (
        "date,code,weight,position\n2024-01-02,600001.SH,1,100\n",
        "mixes weights and holdings",
    ),
    "a day and code twice": (
        HEAD + ROW + ROW,
        "line 3: column date: the same day and code appear twice",
    ),
    "a cell too few": (HEAD + "2024-01-02,600001.SH\n", "its last row has 2 of 3 cells"),
    "a cell too many": (HEAD + "2024-01-02,600001.SH,0.5,1\n", "line 2"),
    "no weight in a row": (
        HEAD + "2024-01-02,600001.SH,\n",
        "contains no decision, trade or account value",
    ),
    "no code in a row": (
        HEAD + "2024-01-02,,0.5\n",
        "line 2: column code: expected a code, was empty",
    ),
    "no day in a row": (HEAD + ",600001.SH,0.5\n", "line 2: column date: expected a day"),
    "a weight that is not a number": (
        one_column("weight", "NaN"),
        "column weight: expected a number, was 'NaN'",
    ),
    "an infinite weight": (
        one_column("weight", "1e999"),
        "column weight: expected a number, was '1e999'",
    ),
    "an infinite word": (
        one_column("weight", "inf"),
        "column weight: expected a number, was 'inf'",
    ),
    "a weight in per cent": (one_column("weight", "50"), "write fractions, such as 0.05 for 5 %"),
    "weights that borrow": (
        HEAD + "2024-01-02,600001.SH,0.8\n2024-01-02,000002.SZ,0.8\n",
        "sum to 1.6, but the account borrows no cash; divide them",
    ),
    "an unknown code": (HEAD + "2024-01-02,600002.SH,0.5\n", "did you mean"),
    "a code of another market": (HEAD + "2024-01-02,AAPL,0.5\n", "is not a code of tiny"),
    "a code that is a number": (HEAD + "2024-01-02,600001.0,0.5\n", "is not a code of tiny"),
    "a day before the market": (HEAD + "2023-01-02,600001.SH,0.5\n", "lies outside tiny"),
    "a day after the market": (HEAD + "2025-01-02,600001.SH,0.5\n", "lies outside tiny"),
    "the last day of the market": (HEAD + "2024-01-05,600001.SH,0.5\n", "the market's last day"),
    "a day that can mean two": (HEAD + "03/04/2024,600001.SH,0.5\n", "can mean two days"),
    "a day that there is not": (HEAD + "2024-02-30,600001.SH,0.5\n", "is not a date"),
    "a word for a day": (HEAD + "Tuesday,600001.SH,0.5\n", "is not a date"),
    "a side that is none": (
        "date,code,side,qty\n2024-01-02,600001.SH,up,5\n",
        "column side: expected buy or sell, was 'up'",
    ),
    "cash without a side": (
        "date,code,cash\n2024-01-02,600001.SH,5\n",
        "contains no decision, trade or account value",
    ),
    "cash below zero": (
        "date,code,side,cash\n2024-01-02,600001.SH,buy,-5\n",
        "expected a number above zero, was '-5'",
    ),
    "cash for what has no close": (
        "date,code,side,cash\n2024-01-01,000002.SZ,buy,\n",
        "contains no decision, trade or account value",
    ),
    "a negative price": (
        "date,code,side,qty,price\n2024-01-02,600001.SH,buy,5,-1\n",
        "column price: expected a number above zero, was '-1'",
    ),
    "a price of zero": (
        "date,code,qty,price\n2024-01-02,600001.SH,5,0\n",
        "expected a number above zero, was '0'",
    ),
    "a trade of nothing": (
        "date,code,qty,price\n2024-01-02,600001.SH,0,9\n",
        "expected a number other than zero",
    ),
    "a trade before the market": (
        "date,code,side,qty,price\n2024-01-01,600001.SH,buy,5,20\n",
        "no day before 2024-01-01",
    ),
    "a NAV below zero": (
        "date,nav\n2024-01-02,-1\n",
        "column nav: expected a number above zero, was '-1'",
    ),
    "a NAV without decisions": ("date,nav\n2024-01-02,1\n", "contains no decision"),
    "JSON of one number": ("[1, 2, 3]", "holds no list of objects"),
    "JSON nested too deeply": ("[" * 3000 + "]" * 3000, "nested"),
    "JSON that breaks off": ('[{"date": "2024-01-02", "co', "not valid JSON"),
    "JSON with a key twice": ('[{"date": "2024-01-02", "date": "x"}]', "not valid JSON"),
    "JSON with NaN": ('[{"date": "2024-01-02", "code": "600001.SH", "weight": NaN}]', "JSON"),
    "a weight that is true": (
        '[{"date": "2024-01-02", "code": "600001.SH", "weight": true}]',
        "column weight: expected a number, was 'true'",
    ),
    "a list for a code": ('[{"date": "2024-01-02", "code": [1], "weight": 1}]', "code"),
    "a code that JSON has as a number with a part": (
        '[{"date": "2024-01-02", "code": 600001.5, "weight": 1}]',
        "'600001.5' is not a code",
    ),
    "a web page": ("<!doctype html><title>Sign in</title>", "web page"),
    "a quotation that does not end": (HEAD + '2024-01-02,"600001.SH,0.5\n', "CSV"),
    "a header whose quotation does not end": ('date,"', "line 1: is not CSV"),
    "a wide table with a word": (
        ",600001.SH\n2024-01-02,much\n",
        "column 600001.SH: expected a number, was 'much'",
    ),
    "a wide table of shares": (
        ",600001.SH\n2024-01-02,500\n",
        "must contain weights, but these look like account",
    ),
    "a wide table with a day twice": (
        ",600001.SH\n2024-01-02,1\n2024-01-02,1\n",
        "the same day appears twice",
    ),
    "a line without end": (HEAD + "2024-01-02,600001.SH," + "9" * 2_000_000, "line 2"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_wrong_text_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    text, words = TEXTS[case]
    path = tmp_path / ("wrong.json" if text.startswith(("[", "{")) else "wrong.csv")
    path.write_text(text)
    assert words in refusal(path)


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
@pytest.mark.slow
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
