"""Markets from long tables: columns, codes and days of any vendor; and the command that imports,
checks and describes them.
"""

from __future__ import annotations

import gzip
import json
import os
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inline_snapshot import snapshot

from ktdeval.cli.main import main
from ktdeval.errors import DataError, UsageError
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval.testing import Terminal, errors_of, on_each_row
from ktdeval.values import build
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import check
from ktdeval_tables import vendor_tables
from support.market.raw_market import changed as changed_bar, findings_of, market
from support.tables import changed

BARS = """date,code,open,high,low,close,volume,amount,factor
2024-01-02,600519.SH,10,10.3,9.9,10.1,1200,12100,1.5
2024-01-03,600519.SH,10.1,10.3,10,10.2,34500,350000,1.5
2024-01-02,000001.SZ,5,5.1,4.9,5.05,100,505,1
2024-01-03,000001.SZ,5,5.1,4.9,5.1,100,505,1
"""
INDEX = "000688.SH"  # an index without a nominal size
LEVELS = "date,close\n2024-01-02,3386.35\n2024-01-03,3390\n"
MEMBERS = "code,in_date,out_date\n600519.SH,2023-12-11,2024-06-16\n000001.SZ,2024-01-03,\n"
INDUSTRY = "code,name,area,industry\n600519.SH,贵州茅台,贵州,白酒\n"


def write(folder: Path, **files: str) -> dict[str, str]:
    """Write the faultless tables, or other contents by name; returns the parameters that name
    them.
    """
    contents = {"bars": BARS, "benchmark": LEVELS, "members": MEMBERS, "industry": INDUSTRY} | files
    paths = {}

    for name, text in contents.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
        paths[name] = str(folder / f"{name}.csv")

    return paths


def read(folder: Path, files: dict[str, str] | None = None, **params: Any) -> Any:
    return read_long(
        build(
            LongParams,
            {**write(folder, **(files or {})), "benchmark_code": INDEX, **params},
            "long",
        )
    )


def refused(folder: Path, *every: dict[str, Any]) -> str:
    """What is said where a market can't be read with each of these parameters."""
    return errors_of(lambda params: read(folder, **params), *every, folder=folder)


@on_each_row(
    "header, code, day",
    ("date,code", "{}.SH", "2024-01-0{}"),
    ("trade_date,ts_code", "{}.SH", "2024010{}"),
    ("datetime,instrument", "SH{}", "2024/1/{}"),
    ("Day,Symbol", "{}", "2024-01-0{} 00:00:00"),
    ("date,stock_code", "sh.{}", "2024/01/0{}"),
    ("date,code", "{}.SHH", "2024-01-0{}"),
    ("date,code", "{}.SHG", "2024-01-0{}"),
    ("date,code", "{} CH Equity", "2024-01-0{}"),
    ("date,code", "{} C1", "2024-01-0{}"),
)
def test_columns_codes_and_days_of_any_vendor_are_the_same_market(
    tmp_path: Path, header: str, code: str, day: str
) -> None:
    rows = "".join(
        f"{day.format(number)},{code.format(600519)},10,10.3,9.9,10.1,1200,12100,1.5\n"
        for number in (2, 3)
    )
    raw = read(tmp_path, {"bars": f"{header},open,high,low,close,vol,turnover,adj_factor\n{rows}"})

    assert raw.table.codes == ("600519.SH",)
    assert raw.table.days.astype(str).tolist() == ["2024-01-02", "2024-01-03"]
    assert raw.bars[["volume", "amount", "factor"]].to_numpy().tolist() == [[1200, 12100, 1.5]] * 2


def test_parameters_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    files = [str(tmp_path / name) for name in ("pipe.csv", "none.csv", "bars.doc", "empty")]
    every: list[dict[str, Any]] = [
        {"first": "2999-01-01"},
        {"map": {"clse": "close"}},
        {"map": {"close": "clsoe"}},
        {"map": {"index.close": "close"}},
        {"map": {"benchmark.level": "close"}},
        {"map": {"names.code": "id"}},
        {"minutes_length": 1},
        {"minutes_zone": "UTC"},
        {"documents_close": "16:00 UTC"},
        *({"bars": file} for file in files),
    ]

    assert refused(tmp_path, *every) == snapshot("""\
DataError: first or last: '2999-01-01' is not a day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily
UsageError: map: 'clse' is not a field of bars.csv; did you mean 'close' or 'complete' or 'code'?
DataError: FOLDER/bars.csv: no column 'clsoe'; did you mean 'close' or 'code' or 'low'?
UsageError: map: 'index.close' names no file; did you mean 'minutes'?
UsageError: map: 'level' is not a field of benchmark.csv; fields: date, close, code
UsageError: --map names.code applies to a file that is not given; give --names too, or leave it out
UsageError: --minutes-zone and --minutes-length apply to bars within days; give --minutes too, or leave them out
UsageError: --minutes-zone and --minutes-length apply to bars within days; give --minutes too, or leave them out
UsageError: --entities and --documents-close apply to documents; give --documents too, or leave them out
DataError: FOLDER/pipe.csv: a pipe or device, not a file
DataError: FOLDER/none.csv: no such file
DataError: FOLDER/bars.doc: unknown kind of file; expected one of .parquet, .csv, .csv.gz, .tsv, .tsv.gz, .xlsx, .txt, .txt.gz, or a folder of them
DataError: FOLDER/empty: the folder holds no .parquet, .csv, .csv.gz, .tsv, .tsv.gz, .xlsx, .txt, .txt.gz file
""")


def test_a_typed_day_out_of_the_range_of_nanoseconds_is_refused(tmp_path: Path) -> None:
    bars = pd.read_csv(write(tmp_path)["bars"], dtype={"code": str})
    bars["date"] = np.array(
        ["2024-01-02", "2999-01-03", "2024-01-02", "2024-01-03"], dtype="datetime64[ms]"
    )
    bars.to_parquet(tmp_path / "bars.parquet")

    assert refused(tmp_path, {"bars": str(tmp_path / "bars.parquet")}) == snapshot(
        "DataError: FOLDER/bars.parquet: date: 2999-01-03 is not a day from 1678 to 2261\n"
    )


def test_units_are_brought_to_shares_and_yuan(tmp_path: Path) -> None:
    raw = read(tmp_path, volume_unit="lot", amount_unit="thousand_CNY")
    assert raw.bars["volume"].iloc[0] == 120_000
    assert raw.bars["amount"].iloc[0] == 12_100_000


def test_adjusted_prices_are_divided_by_the_factor_to_whole_fen(tmp_path: Path) -> None:
    adjusted = BARS.replace("600519.SH,10,10.3,9.9,10.1", "600519.SH,15,15.45,14.85,15.15")
    raw = read(tmp_path, {"bars": adjusted}, prices="adjusted")
    assert raw.bars.loc[0, ["open", "high", "low", "close"]].tolist() == [10, 10.3, 9.9, 10.1]
    assert raw.has_factor


def test_dated_lists_are_valid_until_the_next_one(tmp_path: Path) -> None:
    days = pd.bdate_range("2024-01-02", "2024-01-12").strftime("%Y-%m-%d")
    bars = "date,code,open,high,low,close,volume\n" + "".join(
        f"{day},{code},5,5,5,5,1\n" for day, code in product(days, ("600519", "000001"))
    )
    levels = "date,close\n" + "".join(f"{day},1\n" for day in days)
    lists = "date,code\n20240103,600519\n20240103,000001\n20240105,600519\n20240110,000001\n20240110,600519\n"
    raw = read(tmp_path, {"bars": bars, "benchmark": levels, "members": lists})

    assert raw.table.codes == (
        "000001.SZ",
        "600519.SH",
    ), "zeros at the start of bare digits are kept"
    assert not {"membership_overlaps", "membership_reversed"} & {
        finding.rule for finding in check(raw)
    }

    member = assemble(raw).member
    assert member[:, 1].tolist() == [day >= "2024-01-03" for day in days]
    assert member[:, 0].tolist() == [
        "2024-01-03" <= day < "2024-01-05" or day >= "2024-01-10" for day in days
    ]


@pytest.mark.exhaustive
def test_membership_comes_from_intervals_index_lists_or_the_bars(
    tmp_path: Path,
) -> None:
    # Lists of several indices give the benchmarks members.
    lists = "index_code,con_code,trade_date\n000300.SH,600519.SH,20230929\n000905.SH,000001.SZ,20230929\n"
    assert read(tmp_path, {"members": lists}, benchmark_code="000300").members["code"].tolist() == [
        "600519.SH"
    ]

    others = {"members": lists, "benchmark": "date,code,close\n2024-01-02,000016,1\n"}
    strangers = {"members": "code,in_date,out_date\n600000.SH,2023-12-11,2024-06-16\n"}
    assert refused(
        tmp_path, {"files": others, "benchmark_code": "000016"}, {"files": strangers}
    ) == snapshot("""\
DataError: FOLDER/members.csv: no members of 000016.SH
DataError: FOLDER/bars.csv: no bars of any member of FOLDER/members.csv; check both code columns
""")

    # Without a membership file assets are members while they have bars.
    paths = write(
        tmp_path, bars=BARS.replace("2024-01-02,000001.SZ,5,5.1,4.9,5.05,100,505,1\n", "")
    )
    raw = read_long(LongParams(bars=paths["bars"], benchmark=paths["benchmark"]))

    assert assemble(raw).member.tolist() == [[False, True], [True, True]]
    assert "an asset belongs to the universe" in raw.source
    assert findings_of(raw)["member_count"].level == "warning", "it claims to be no index"

    # Assets that were never members are left out unless asked for.
    members = {"members": "code,in_date,out_date\n600519.SH,2023-12-11,2024-06-16\n"}
    assert read(tmp_path, members).table.codes == ("600519.SH",)
    assert read(tmp_path, members, assets="all").table.codes == ("000001.SZ", "600519.SH")


@pytest.mark.exhaustive
def test_dated_names_map_rows_of_a_former_code_to_its_asset(
    tmp_path: Path,
) -> None:
    names = tmp_path / "names.csv"
    names.write_text(
        "ts_code,name,start_date,end_date,former_code\n600519.SH,旧名,,20240102,600001\n600519.SH,贵州茅台,20240103,,\n"
    )
    renumbered = BARS.replace("2024-01-02,600519.SH", "2024-01-02,600001")
    members = MEMBERS.replace(
        "600519.SH,2023-12-11", "600001,2023-12-11,2024-01-02\n600519.SH,2024-01-03"
    )
    expected = assemble(read(tmp_path))
    changed_files = {"bars": renumbered, "members": members}
    market = assemble(read(tmp_path, changed_files, names=str(names)))

    assert market.codes == expected.codes
    assert np.array_equal(market.close, expected.close)
    assert np.array_equal(market.member, expected.member)
    assert [market.name_asset(1, row) for row in (0, 1)] == [
        ("600001.SH", "旧名"),
        ("600519.SH", "贵州茅台"),
    ]
    assert not any("former codes" in note for note in market.meta.notes)

    late = {"bars": BARS.replace("600519.SH", "600001")}
    notes = assemble(read(tmp_path, late, names=str(names))).meta.notes
    assert (
        "former codes with bars after their last day, perhaps of another asset: 600001.SH" in notes
    )

    names.write_text("code,name\n600519,x\n")
    assert refused(tmp_path, {"names": str(names)}) == snapshot(
        "DataError: FOLDER/names.csv: no column for 'in_date' (tried in_date, first, start, start_date); none of its columns (code, name) holds days; add it to the file\n"
    )


@pytest.mark.exhaustive
def test_a_range_of_days_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, first="2024-01-03").table.days.astype(str).tolist() == ["2024-01-03"]
    assert read(tmp_path, last="2024-01-02").table.days.astype(str).tolist() == ["2024-01-02"]
    assert refused(tmp_path, {"first": "2025-01-01"}) == snapshot(
        "DataError: FOLDER/bars.csv: no bars from 2025-01-01 to the end\n"
    )


def test_the_levels_of_several_indices_are_all_kept(tmp_path: Path) -> None:
    levels = "date,code,close\n" + "".join(
        f"2024-01-0{day},{code},{day}\n"
        for day, code in product((2, 3), ("000300", "399006", "000905.SH"))
    )
    market = assemble(read(tmp_path, {"benchmark": levels}, benchmark_code="399006"))

    assert dict(market.index_names) == {
        "000300.SH": "CSI300",
        "000905.SH": "CSI500",
        "399006.SZ": "ChiNext Index",
    }

    assert refused(
        tmp_path, {"files": {"benchmark": levels}, "benchmark_code": "000016.SH"}
    ) == snapshot(
        "DataError: FOLDER/benchmark.csv: no levels of benchmark 000016.SH; it has 000300.SH, 000905.SH, 399006.SZ\n"
    )


@pytest.mark.exhaustive
def test_parquet_gzip_and_folders_are_the_same_market(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {**write(tmp_path), "benchmark_code": INDEX}
    table = pd.read_csv(paths["bars"], dtype={"code": str})
    (tmp_path / "bars.csv.gz").write_bytes(gzip.compress(BARS.encode()))
    table.assign(date=pd.to_datetime(table["date"])).to_parquet(tmp_path / "bars.parquet")
    years, codes, kinds = (tmp_path / name for name in ("years", "codes", "kinds"))
    for folder in (years, codes, kinds):
        folder.mkdir()

    table[:3].to_csv(years / "0.csv", index=False)
    table[3:].to_csv(years / "1.csv", index=False)
    for code, rows in table.groupby("code"):
        rows.drop(columns="code").to_csv(codes / f"{code}.csv", index=False)

    own = table["code"] == "600519.SH"
    table[own].set_index("date").to_parquet(kinds / "0.parquet")
    table[~own].drop(columns="amount").to_csv(kinds / "1.csv", index=False)

    # a year or code without a row
    empty = table[:0].set_index("date")
    empty.to_csv(years / "600000.SH.csv")
    empty.to_csv(codes / "600000.SH.csv")
    empty.to_parquet(kinds / "600000.SH.parquet")

    expected = assemble(read_long(LongParams(**paths)))
    monkeypatch.setattr(vendor_tables, "_ROWS", 3)  # text files are read in two parts
    for name in ("bars.csv.gz", "bars.parquet", "years", "codes", "kinds"):
        actual = assemble(read_long(LongParams(**{**paths, "bars": str(tmp_path / name)})))
        assert np.array_equal(actual.close, expected.close), name
        assert np.array_equal(actual.volume, expected.volume), name


@pytest.mark.exhaustive
def test_rows_with_more_cells_than_the_header_are_refused(tmp_path: Path) -> None:
    """Cells beyond the header are left of a number whose separators nobody quoted: 1,234 shares
    would be 1.
    """
    rows = [
        with_ends("", "", "", "", ",1,234"),
        with_ends("", ",1,234", "", "", ""),
        with_ends("", *[",1"] * 4),
    ]

    assert refused(tmp_path, *({"files": {"bars": text}} for text in rows)) == snapshot("""\
DataError: FOLDER/bars.csv: can't read: line 5: expected 9 cells, was 11; quote texts with commas or line breaks
DataError: FOLDER/bars.csv: can't read: line 2: expected 9 cells, was 11; quote texts with commas or line breaks
DataError: FOLDER/bars.csv: can't read: line 2: expected 9 cells, was 10; quote texts with commas or line breaks
""")


@pytest.mark.exhaustive
def test_a_comma_at_the_end_of_each_row_is_no_cell(tmp_path: Path) -> None:
    ended = assemble(read(tmp_path, {"bars": with_ends("", *[","] * 4)}))
    assert np.array_equal(ended.close, assemble(read(tmp_path)).close)


@pytest.mark.exhaustive
def test_a_column_that_appears_twice_has_to_be_named(tmp_path: Path) -> None:
    twice = {"bars": with_ends(",close", *[",9"] * 4)}
    assert refused(tmp_path, {"files": twice}) == snapshot(
        "DataError: FOLDER/bars.csv: column 'close' appears twice; keep one, or name it: --map close=close or close.1\n"
    )
    assert read(tmp_path, twice, map={"close": "close.1"}).bars["close"].eq(9).all()


def with_ends(*ends: str) -> str:
    """The faultless bars with words at the end of the header and each row."""
    lines = zip(BARS.splitlines(), ends, strict=True)
    return "\n".join(line + end for line, end in lines)


@on_each_row(
    "file, change, message",
    ("bars", {"2024-01-03": "2024-01-03 10:30"}, "'2024-01-03 10:30' is not a day"),
    ("bars", {"2024-01-03": "today"}, "'today' is not a day"),
    ("bars", {"2024-01-03": ""}, "2 rows have no date"),
    ("bars", {"10.2,": "ten,"}, "column 'close' holds 'ten', expected numbers"),
    (
        "bars",
        {"10.2,": '"10,25",'},
        "column 'close' holds '10,25', expected numbers such as 1234.5 or 1,234.5",
    ),
    ("bars", {"10.2,": '"1.010,25",'}, "column 'close' holds '1.010,25', expected numbers"),
    ("bars", {"10.2,": "true,"}, "column 'close' holds 'true', expected numbers"),
    (
        "bars",
        {"open,": "opening,"},
        "no column for 'open' \\(tried open\\); name it: --map open=opening",
    ),
    ("bars", "", "can't read: No columns"),
    ("bars", "date,code,open,high,low,close,volume\n", "no bars"),
    (
        "members",
        ("code\n600519.SH\n"),
        "no column for 'in_date' or 'date' .* none of its columns \\(code\\) holds days",
    ),
    (
        "members",
        ("code,in_date\n600519.SH,2024-01-02\n000001,\n"),
        "members.csv: 1 rows have no in_date; fill it in",
    ),
    ("members", ("code,date\n600519.SH,2024-01-02\n000001,\n"), "members.csv: 1 rows have no date"),
    (
        "members",
        ("name\nMoutai\n"),
        "no columns for 'code' and 'in_date' or 'date' .* holds codes or days; add them",
    ),
    (
        "industry",
        ("code,industry\n600519.SH,a\nSH600519,b\n"),
        "the rows of 600519.SH differ in name, industry, venue, kind, currency",
    ),
    (
        "bars",
        {"factor": "traded", ",1.5\n": ",perhaps\n"},
        "'perhaps' is neither true nor false: write 1 or 0 in every row",
    ),
)
def test_cells_and_columns_that_can_not_be_read_are_named(
    tmp_path: Path, file: str, change: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(
            tmp_path,
            {file: changed({"bars": BARS, "members": MEMBERS, "industry": INDUSTRY}[file], change)},
        )


@pytest.mark.exhaustive
def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no parquet")
    (tmp_path / "headers.csv").write_text("date,code,open,high,low,close,volume\n")
    assert refused(tmp_path, {"bars": str(tmp_path / "headers.csv")}) == snapshot(
        "DataError: FOLDER/headers.csv: has only a header and no bars; check the file\n"
    )

    with pytest.raises(DataError, match="can't read"):
        read(tmp_path, bars=str(tmp_path / "broken.parquet"))

    packed = gzip.compress((BARS * 500).encode())
    for broken in (packed[: len(packed) // 2], packed[:20] + b"\xff\xff" + packed[22:]):
        (tmp_path / "broken.csv.gz").write_bytes(broken)
        with pytest.raises(DataError, match=r"broken\.csv\.gz: can't read"):
            read(tmp_path, bars=str(tmp_path / "broken.csv.gz"))

        (tmp_path / "broken.jsonl.gz").write_bytes(broken)
        with pytest.raises(DataError, match=r"broken\.jsonl\.gz: (can't read|line 1)"):
            read(tmp_path, documents=str(tmp_path / "broken.jsonl.gz"))


def test_the_code_of_a_benchmark_without_its_levels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"--benchmark-code applies to a file of levels; give --benchmark too"
    ):
        read_long(LongParams(bars=write(tmp_path)["bars"], benchmark_code="QQQ"))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_row_without_a_code_is_named_and_given_to_no_asset(tmp_path: Path, suffix: str) -> None:
    table = pd.read_csv(write(tmp_path)["bars"], dtype={"code": str})
    table.loc[3, "code"] = None
    path = tmp_path / f"holes.{suffix}"
    store = partial(table.to_csv, index=False) if suffix == "csv" else table.to_parquet
    store(path)
    named = findings_of(read(tmp_path, bars=str(path), assets="all"))
    assert named["unknown_codes"].examples == ("no code",)

    table["code"] = ["TSLA", "TSLA", "AAPL", None]  # where codes are symbols, NAN would be one
    store(path)
    symbols = read_long(LongParams(bars=str(path), venue="us_equity"))
    assert findings_of(symbols)["unknown_symbols"].examples == ("'no code'",)


# ---- the command


def options(folder: Path, **files: str) -> list[str]:
    words = ["--benchmark-code", "000688"]
    for name, path in write(folder, **files).items():
        words += [f"--{name}", path]

    return words


def test_the_listing_names_every_provider(terminal: Terminal) -> None:
    text = terminal.out("data")
    kinds = {line.split()[0]: line.split()[1] for line in text.splitlines()}
    assert (kinds["long"], kinds["us"], kinds["synthetic"]) == ("imported", "fetched", "generated")
    assert text.endswith("options of one: ktdeval data make PROVIDER --help\n")


def test_the_listing_in_json_has_the_parameters_of_every_provider(terminal: Terminal) -> None:
    entries = {entry["name"]: entry for entry in json.loads(terminal.out("data", "--json"))}
    assert {"long", "qlib", "synthetic"} <= entries.keys()
    assert entries["hf"]["kind"] == "fetched"

    (unit,) = (field for field in entries["long"]["params"] if field["name"] == "volume_unit")
    assert (unit["required"], unit["default"]) == (False, "share")
    assert unit["help"].startswith("share, lot (100 shares), a number of shares")

    fields = chain.from_iterable(entry["params"] for entry in entries.values())
    assert all(field["help"] for field in fields)


@pytest.mark.slow
def test_an_import_writes_a_snapshot_and_prints_notes(tmp_path: Path, terminal: Terminal) -> None:
    text = terminal.out("data", "make", "long", *options(tmp_path), "--out", tmp_path / "m")
    snapshot = load_snapshot(tmp_path / "m")
    assert f"2 days 2024-01-02…2024-01-03, 2 assets, id {snapshot.id}" in text


@pytest.mark.exhaustive
def test_documents_are_imported_with_the_bars(tmp_path: Path, terminal: Terminal) -> None:
    rows = tmp_path / "news.jsonl"
    rows.write_text(
        '{"published_at": "2024-01-02T14:00:00+08:00", "assets": "600519", "title": "A", "text":'
        ' "b"}\n'
    )
    (tmp_path / "entities.csv").write_text("code,kind,text\n600519,product,Feitian\n")
    words = [*options(tmp_path), "--entities", str(tmp_path / "entities.csv")]

    assert "give --documents too" in terminal.error(
        "data", "make", "long", *words, "--out", tmp_path / "m"
    )

    words += ["--documents", str(rows), "--documents-close", "16:00 Asia/Shanghai"]
    terminal.out("data", "make", "long", *words, "--out", tmp_path / "m")

    documents = load_snapshot(tmp_path / "m").documents
    assert (len(documents), documents[0].assets, str(documents.close)) == (
        1,
        ("600519.SH",),
        "16:00 Asia/Shanghai",
    )
    assert "1 known by 16:00 Asia/Shanghai, 1 entities" in terminal.out(
        "data", "info", tmp_path / "m"
    )
    assert "news, filings and other dated items" in terminal.out("data", "check", tmp_path / "m")

    rows.write_text('{"published_at": "2024-01-02 14:00"}\n')
    assert "line 1: published_at: '2024-01-02 14:00' has no time zone" in terminal.error(
        "data", "make", "long", *words, "--check-only"
    )


@pytest.mark.exhaustive
def test_faults_are_refused_until_a_repair_is_named(tmp_path: Path, terminal: Terminal) -> None:
    doubled = BARS + BARS.splitlines()[1] + "\n"
    words = ["data", "make", "long", *options(tmp_path, bars=doubled), "--out", tmp_path / "m"]
    error = terminal.refusal(*words)

    assert "market bars: 1 duplicate_rows (first: 600519.SH 2024-01-02)" in error
    assert not (tmp_path / "m").exists()
    assert "repaired: drop_duplicates: 1 rows" in terminal.out(
        *words, "--repair", "drop_duplicates"
    )
    assert load_snapshot(tmp_path / "m").meta.repairs == ("drop_duplicates: 1 rows",)


@pytest.mark.exhaustive
def test_file_set_and_options_give_parameters_in_that_order(
    tmp_path: Path, terminal: Terminal
) -> None:
    paths = write(tmp_path, bars=BARS.replace("open", "o").replace("close", "c"))
    own = {"name": "from file", "volume_unit": "lot", "benchmark_code": "000688.SH"}
    mapping = {"open": "o", "close": "nothing"}
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps({**paths, **own, "map": mapping}))
    words = ["--spec", spec, "--set", "name=from set,volume_unit=share", "--map", "close=c"]
    terminal.out("data", "make", "long", *words, "--name", "from option", "--out", tmp_path / "m")

    snapshot = load_snapshot(tmp_path / "m")
    assert snapshot.meta.name == "from option"
    assert snapshot.volume[0, 1] == 1200


@pytest.mark.exhaustive
def test_choices_keep_their_spelling(tmp_path: Path, terminal: Terminal) -> None:
    in_units = BARS.replace("12100", "1210").replace("350000", "35000").replace("505,", "50.5,")
    words = [*options(tmp_path, bars=in_units), "--amount-unit", "thousand_CNY"]
    words += ["--volume_unit", "lot", "--out", str(tmp_path / "n")]
    terminal.out("data", "make", "long", *words)

    assert load_snapshot(tmp_path / "n").amount[0, 1] == 1_210_000


@pytest.mark.exhaustive
def test_check_and_info_judge_a_source_or_a_stored_snapshot(
    tmp_path: Path, terminal: Terminal
) -> None:
    # Check judges a source and its exit code tells.
    assert (
        terminal.out("data", "make", "long", *options(tmp_path), "--check-only")
        .rstrip()
        .endswith("0 kinds of error")
    )

    bad = options(tmp_path, bars=BARS.replace("10.3,9.9", "1,9.9"))
    code, text, _ = terminal.call("data", "make", "long", *bad, "--check-only")

    assert (code, "impossible_bars" in text) == (1, True)
    assert main(["data", "make", "long", *bad, "--repair", "drop_impossible", "--check-only"]) == 0

    # Check judges a stored snapshot.
    save_snapshot(
        assemble(market(changed_bar("600519.SH", "2024-01-04", volume=0.0))), tmp_path / "m"
    )

    for words in (["--json", str(tmp_path / "m")], [str(tmp_path / "m"), "--json"]):
        report = json.loads(terminal.out("data", "check", *words))
        assert report["errors"] == 0
        assert [(entry["rule"], entry["count"]) for entry in report["findings"]] == [
            ("short_history", 5),
            ("suspended_rows", 1),
        ]

    # Info says what a snapshot holds.
    stored = save_snapshot(assemble(market()), tmp_path / "n")
    facts = json.loads(terminal.out("data", "info", tmp_path / "n", "--json"))

    assert facts["id"] == stored.id
    assert (facts["days"], facts["assets"], facts["bars"], facts["boards"]) == (
        5,
        3,
        15,
        {"main": 2, "star": 1},
    )
    assert "benchmark      000688.SH" in terminal.out("data", "info", tmp_path / "n")


@on_each_row(
    "words, message",
    (["make", "lon"], "unknown data provider 'lon'; did you mean 'long'?"),
    (
        ["make"],
        (
            "name a provider (`ktdeval data` lists them), or the recipe of a fetched market: "
            "--recipe FILE --out DIR"
        ),
    ),
    (
        ["make", "--first", "2024-01-02", "us"],
        (
            "no such option --first before a provider; options of a provider follow its name: "
            "`ktdeval data make PROVIDER --first …`"
        ),
    ),
    (
        ["make", "synthetic"],
        "name the folder to write: --out DIR; or only check the source: --check-only",
    ),
    (
        ["make", "synthetic", "--json", "--out", "x"],
        "--json prints the findings of --check-only; add --check-only, or omit --json",
    ),
    (
        ["make", "synthetic", "x"],
        "unexpected argument 'x'; the folder to write is given by --out x",
    ),
    # in the words of the click that is installed
    (["make", "long", "--bas", "x.csv"], "--bars"),
    (
        ["make", "hf", "a/b", "c d"],
        "unexpected argument 'c d'; the folder to write is given by --out 'c d'",
    ),
    (
        ["check", "long", "--bars", "a b.csv"],
        "check a source with `ktdeval data make long --bars 'a b.csv' --check-only`",
    ),
    (
        ["check", "--json", "long"],
        "check a source with `ktdeval data make --json long --check-only`",
    ),
    (
        ["check", "nowhere"],
        "nowhere: no such folder; make one with `ktdeval data make PROVIDER --out DIR`",
    ),
    (["info", "synthetc"], "synthetc: no such folder"),
    (["info", "."], ".: not a market snapshot"),
    (["make", "long", "--out", "x"], "give --bars FILE, which long needs"),
    (
        ["make", "long", "--bars", "x.csv", "--benchmark", "y.csv", "--out", "x"],
        "x.csv: no such file",
    ),
    (["make", "long", "--spec", "none.yaml", "--out", "x"], "none.yaml: can't read"),
    (["make", "long", "--set", "brs=x", "--out", "x"], "unknown field 'brs'; did you mean 'bars'"),
    (["make", "long", "--map", "close", "--out", "x"], "--map: expected key=value"),
)
def test_bad_input_is_one_clear_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    terminal: Terminal,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in terminal.refusal("data", *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_generated_market_is_stored_with_its_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    span = ("--first", "2024-01-02", "--last", "2024-02-08")
    terminal.out("data", "make", "synthetic", "--set", "seed=3", *span, "--out", tmp_path / "m")

    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert {"manifest.json", "truth.json", "truth.parquet"} <= names
    assert load_snapshot(tmp_path / "m").meta.synthetic

    (tmp_path / "m").rename(tmp_path / "us")  # which is also the name of a provider
    monkeypatch.chdir(tmp_path)

    assert "0 kinds of error" in terminal.text("data", "check", "us")


def test_a_code_is_taken_from_file_names_of_a_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "bars"
    folder.mkdir()
    for code in ("600519.SH", "000001.SZ"):
        (folder / f"{code}.csv").write_text("date,close\n2024-01-02,10\n")

    table = vendor_tables.read_table(folder, ["code", "date", "close"], [], {}, repeated=["code"])

    assert dict(zip(table["code"], table["close"], strict=True)) == {
        "000001.SZ": 10.0,
        "600519.SH": 10.0,
    }
    assert isinstance(table["code"].dtype, pd.CategoricalDtype)

    as_text = vendor_tables.read_table(folder, ["code", "date", "close"], [], {})
    assert as_text["code"].tolist() == ["000001.SZ", "600519.SH"]

    with pytest.raises(
        DataError,
        match=r"no column for 'code' \(tried code, .*\(date, close\) holds codes; .*--code CODE",
    ):
        vendor_tables.read_table(folder / "600519.SH.csv", ["code", "date", "close"], [], {})

    # A folder whose files lack another column too names that one.
    with pytest.raises(DataError, match=r"no column for '(code|open)'"):
        vendor_tables.read_table(folder, ["code", "date", "open"], [], {})


def test_changed_texts_keep_their_kind_of_column() -> None:
    def capital(text: str) -> str:
        return {"a": "A", "b": "B"}.get(text, text)

    texts = ["a", None, "b", "a"]
    plain = vendor_tables.with_texts(pd.Series(texts), capital)

    assert (plain.tolist(), plain.map(type).tolist()) == (["A", "no code", "B", "A"], [str] * 4)

    labelled = vendor_tables.with_texts(pd.Series(texts, dtype="category"), capital)
    assert isinstance(labelled.dtype, pd.CategoricalDtype)
    assert labelled.astype(str).tolist() == ["A", "no code", "B", "A"]
    # Two texts that become one are one category.
    assert list(
        vendor_tables.with_texts(pd.Series(["a", "A"], dtype="category"), capital).cat.categories
    ) == ["A"]


def test_tickers_that_others_take_for_missing_are_codes(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-02,{code},5,5,5,5,N/A\n" for code in ("NA", "null", "NaN"))
    paths = write(tmp_path, bars=f"date,code,open,high,low,close,volume\n{rows}")
    raw = read_long(build(LongParams, {"bars": paths["bars"], "venue": "us_equity"}, "long"))

    assert raw.table.codes == ("NA", "NAN", "NULL")
    assert raw.bars["volume"].isna().all()
