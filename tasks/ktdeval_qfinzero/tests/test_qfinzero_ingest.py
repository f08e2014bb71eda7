"""Ingestion of CSV and JSON into datasets: exact values, every bad row reported with file, line and
field, and nothing written if any row is bad.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st
from inline_snapshot import snapshot

from ktdeval.errors import ConfigError
from ktdeval.testing import errors_with, on_each_row
from ktdeval.values import build
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.ingest import IngestReport, ingest_dataset, ingest_update, read_files
from ktdeval_qfinzero.data.ingest_bars import STATEMENTS, moment_of, price_e4
from ktdeval_qfinzero.data.ingest_mapping import as_problem, files_of, shape_table
from ktdeval_qfinzero.data.ingest_spec import IngestSpec, TableFiles, load_spec
from ktdeval_qfinzero.data.problems import DatasetRefused, ProblemList
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, Bars
from ktdeval_qfinzero.data.schema import fill_words, memory
from ktdeval_qfinzero.data.writing import DatasetAddition, save_dataset
from ktdeval_qfinzero.timestamps import moment_text, parse_moment
from ktdeval_tables.readers.blocks import read_blocks
from ktdeval_tables.readers.rows import LONGEST_LINE
from qfinzero_store_play import equal_bars
from support.qfinzero.qfinzero_world import at, small_dataset, small_prices
from support.tables import beside

HEADER = "symbol,time,open,high,low,close,volume,transactions\n"
DAY_BAR = "AVLN,2025-01-06,100,101.5,99.25,101,1000,7\n"
_NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?")
_WHOLE = re.compile("[0-9]{1,16}")
SYMBOLS = "symbol,asset_class,name,listed\nAVLN,stock,Avalon Systems,2010-01-01\n"


def dollars(e4: int) -> str:
    return str(Decimal(int(e4)).scaleb(-4))


def spec_of(**fields: Any) -> IngestSpec:
    return build(
        IngestSpec,
        {"name": "mine", "default_as_of": "2025-01-06T21:00:00Z", **fields},
        "ingest.yaml",
    )


def stock_days(file: str = "day.csv", **more: Any) -> dict[str, Any]:
    return {"file": file, "asset_class": "stock", "resolution": "day", **more}


def write(base: Path, **files: str) -> None:
    for name, text in files.items():
        (base / name.replace("__", ".")).write_text(text, encoding="utf-8")


def problems_of(base: Path, spec: IngestSpec) -> list[str]:
    with pytest.raises(DatasetRefused) as caught:
        read_files(spec, base)

    assert caught.value.count == len(caught.value.problems)
    return list(caught.value.problems)


def read_days(base: Path, text: str, **more: Any) -> tuple[DatasetAddition, IngestReport]:
    write(base, day__csv=text)
    return read_files(spec_of(bars=[stock_days(**more)]), base)


# ---- a whole market, out and in again


def cells(row: Any) -> dict[str, Any]:
    """A row as files have it: moments and days as texts, prices in dollars, and the curve's tenors
    as columns.
    """
    cells_of = {}

    for name in (field.name for field in fields(row)):
        value = getattr(row, name)
        if name == "yields_pct":
            cells_of |= value
        elif name == "releases":
            cells_of[name] = [
                {"available": moment_text(one.available_ns), "values": dict(one.values)}
                for one in value
            ]
        elif name.endswith("_ns"):
            cells_of[name.removesuffix("_ns")] = moment_text(value)
        elif name.endswith("_e4"):
            cells_of[name.removesuffix("_e4")] = dollars(value)
        else:
            plain = (
                str(value).lower()
                if isinstance(value, bool)
                else value.isoformat()
                if isinstance(value, date)
                else value
            )
            cells_of[name] = [*plain] if isinstance(plain, tuple) else plain

    return cells_of


def bars_as_rows(symbol: str, bars: Bars) -> list[dict[str, Any]]:
    columns = {
        name.removesuffix("_ns").removesuffix("_e4").replace("start", "time"): getattr(bars, name)
        for name in BAR_COLUMNS
    }
    texts = {
        "time": moment_text,
        "volume": lambda volume: repr(volume).removesuffix(".0"),
        "transactions": str,
    }
    written: dict[str, Any] = {"symbol": [symbol] * len(bars)}

    for name, values in columns.items():
        written[name] = map(texts.get(name, dollars), values.tolist())

    return [dict(zip(written, row, strict=True)) for row in zip(*written.values(), strict=True)]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)

    return stream.getvalue()


def write_small_market(base: Path) -> None:
    """The small market of the tests as files, with an `ingest.yaml`: some as CSV, some as JSON."""
    small = small_prices()
    bars = []

    for asset_class in ("stock", "option", "crypto"):
        for resolution in ("day", "minute"):
            chosen = [
                key for key in small.bar_table if (key[0], key[2]) == (asset_class, resolution)
            ]
            if chosen:
                rows = chain.from_iterable(
                    bars_as_rows(key[1], small.bar_table[key]) for key in chosen
                )
                name = f"{asset_class}_{resolution}.csv"
                (base / name).write_text(to_csv(list(rows)))
                bars.append({"file": name, "asset_class": asset_class, "resolution": resolution})

    contracts = [
        {"symbol": row.symbol, "listed": moment_text(row.listed_ns)} for row in small.contract_rows
    ]
    tables = {
        "symbols.csv": to_csv(list(map(cells, small.symbol_rows))),
        "contracts.csv": to_csv(contracts),
    }
    tables |= {
        f"{name}.csv": to_csv(list(map(cells, rows)))
        for name, rows in (("rates", small.rate_rows), ("borrow", small.borrow_rows))
    }
    # Numbers of JSON are read as they are written: an amount as a number, a moment in nanoseconds.
    dividends = [
        cells(row) | {"amount": 0.25, "declared": row.declared_ns} for row in small.dividend_rows
    ]
    tables["dividends.json"] = json.dumps(dividends)
    listed = (
        ("splits", small.split_rows),
        ("events", small_dataset().calendars.rows),
        ("news", small_dataset().news.rows),
    )

    for name, rows in listed:
        tables[f"{name}.jsonl"] = "".join(json.dumps(cells(row)) + "\n" for row in rows)

    for name, text in tables.items():
        (base / name).write_text(text)

    spec = {
        "name": "small",
        "synthetic": True,
        "default_as_of": "2025-01-06T21:00:00Z",
        "bars": bars,
    }
    (base / "ingest.yaml").write_text(
        yaml.safe_dump(spec | {name.split(".")[0]: [{"file": name}] for name in tables})
    )


@pytest.mark.exhaustive
def test_a_market_written_as_files_is_the_market_again(tmp_path: Path) -> None:
    write_small_market(tmp_path)
    info, report = ingest_dataset(load_spec(tmp_path / "ingest.yaml"), tmp_path, tmp_path / "out")
    small = small_dataset()

    assert info == save_dataset(
        tmp_path / "direct", small.prices, small.calendars.rows, small.news.rows, small.info
    )
    assert (
        check_dataset(tmp_path / "out"),
        report.rows["stock minute"],
        report.rows["events"],
    ) == ((), 4_680, 4)
    assert (report.duplicates, len(report.files)) == (0, 13)


def test_an_update_through_files_gives_what_all_files_at_once_give(tmp_path: Path) -> None:
    first = HEADER + DAY_BAR
    second = HEADER + DAY_BAR.replace("-06", "-07")
    write(tmp_path, symbols__csv=SYMBOLS, a__csv=first, b__csv=second)
    spec = spec_of(bars=[stock_days("[ab].csv")], symbols=[{"file": "symbols.csv"}])
    whole, _ = ingest_dataset(spec, tmp_path, tmp_path / "whole")

    assert (whole.name, whole.synthetic, whole.default_as_of_ns) == (
        "mine",
        False,
        at("2025-01-06T21:00:00Z"),
    )

    ingest_dataset(
        replace(spec, bars=(replace(spec.bars[0], file="a.csv"),)), tmp_path, tmp_path / "parts"
    )
    report, read = ingest_update(spec_of(bars=[stock_days("b.csv")]), tmp_path, tmp_path / "parts")

    assert (report.info, read.rows) == (whole, {"stock day": 1})

    changed = HEADER + DAY_BAR.replace("1000,7", "1000,8")
    write(tmp_path, c__csv=changed)

    with pytest.raises(DatasetRefused, match="transactions is 7, the new row says 8"):
        ingest_update(spec_of(bars=[stock_days("c.csv")]), tmp_path, tmp_path / "parts")

    report, _ = ingest_update(
        spec_of(bars=[stock_days("c.csv")]), tmp_path, tmp_path / "parts", replace=True
    )

    assert len(report.replaced) == 1


# ---- prices


class Cells:
    """Reads cells by the statements that read the columns of bars."""

    def __init__(self) -> None:
        self.connection = memory()
        self.connection.execute(fill_words(STATEMENTS))
        self.connection.execute("SET VARIABLE unit = 1::DOUBLE")

    def prices(self, texts: Sequence[str], *, rounded: bool) -> list[int | None]:
        self.connection.execute("SET VARIABLE rounded = ?", (rounded,))
        found = self.connection.execute("SELECT price_e4(unnest(?::VARCHAR[]))", (texts,))
        prices = [price for (price,) in found.fetchall()]
        assert prices == [price_e4(text, rounded=rounded) for text in texts]
        return prices

    def values(self, macro: str, texts: Sequence[str]) -> list[Any]:
        """The value of a macro of `text` for each text."""
        found = self.connection.execute(
            f"SELECT {macro} FROM (SELECT unnest(?::VARCHAR[]) AS text)",
            (texts,),
        )
        return [value for (value,) in found.fetchall()]

    def moments(self, texts: Sequence[str]) -> list[tuple[int, str]]:
        """Moment and form of each text; the form of those that are malformed is empty."""
        self.connection.execute("DELETE FROM given")
        self.connection.execute(
            "INSERT INTO given (time) SELECT unnest(?::VARCHAR[])", (list(texts),)
        )
        found = {
            text: (ns, form) for text, ns, form in self.connection.execute("FROM times").fetchall()
        }
        return [found[text] for text in texts]


@pytest.fixture(scope="module")
def read_cells() -> Cells:
    return Cells()


@given(st.decimals(0, 99_999_999_999, places=4, allow_nan=False))
@settings(max_examples=60)
def test_prices_are_exact(read_cells: Cells, price: Decimal) -> None:
    prices = read_cells.prices([f"{price:f}", f"{price:f}000"], rounded=False)
    assert prices == [int(price * 10_000)] * 2


@given(st.decimals(0, 10**9, places=9, allow_nan=False))
@settings(max_examples=60)
def test_prices_of_more_decimals_are_refused_or_rounded_halves_to_even(
    read_cells: Cells, price: Decimal
) -> None:
    (exact,) = read_cells.prices([f"{price:f}"], rounded=False)
    assert (exact is None) == (price.quantize(Decimal("0.0001")) != price)

    (nearest,) = read_cells.prices([f"{price:f}"], rounded=True)
    assert nearest == int(price.quantize(Decimal("0.0001"), ROUND_HALF_EVEN) * 10_000)


#: Numbers as programs spell them, and nearly: digits, points, signs, exponents, separators
SPELLED = (
    st.text("0123456789.", min_size=1, max_size=20)
    | st.text("0019.eE+-_, ", max_size=8)
    | st.decimals(0, 10**17, allow_nan=False).map(lambda number: f"{number:f}")
    | st.integers(0, 10**17).map(str)
    | st.from_regex("0{1,3}[0-9]{1,6}([.][0-9]{0,6})?", fullmatch=True)
    | st.floats(0, 1e17).map(repr)
)


def test_a_cell_is_read_by_its_cast_as_by_its_pattern(read_cells: Cells) -> None:
    """Most cells are cast and print back; patterns read the others. Both follow the definition."""
    met = Counter[str]()

    @given(st.lists(SPELLED, min_size=20, max_size=20))
    @settings(max_examples=60)
    def read(texts: list[str]) -> None:
        prices = read_cells.prices(texts, rounded=True)

        for text, price, number, whole, is_rounded in zip(
            texts,
            prices,
            read_cells.values("number_from_0(text)", texts),
            read_cells.values("whole_from_0(text)", texts),
            read_cells.values("is_rounded(text, exact_e4(text))", texts),
            strict=True,
        ):
            assert number == (float(text) if _NUMBER.fullmatch(text) else None)
            assert whole == (int(text) if _WHOLE.fullmatch(text) else None)
            assert is_rounded == (price is not None and Decimal(text) != Decimal(price).scaleb(-4))

            met["price"] += price is not None
            met["rounded"] += is_rounded
            met["number, not whole"] += number is not None and whole is None
            met["whole"] += whole is not None
            met["malformed"] += number is None
            met["starts with 0"] += number is not None and text[:1] == "0" and text[1:2].isdigit()
            met["ends with a point"] += text.endswith(".")

    read()

    assert min(met.values()) > 5, met
    assert len(met) == 7


@pytest.mark.exhaustive
@given(
    st.sampled_from(["0.001", "0.01", "0.1", "0.003", "10"]).map(Decimal),
    st.decimals(1, 99_999, places=2, allow_nan=False),
    st.integers(1, 10**9),
    st.decimals(0, 9_999, places=8, allow_nan=False),
)
@settings(max_examples=60)
def test_prices_and_volumes_of_parts_match_decimals(
    unit: Decimal, price: Decimal, whole: int, volume: Decimal
) -> None:
    """In floats 1.001 coins were 1000 thousandths, one too few, and halves of a ten-thousandth not
    seen as such.
    """
    rows = [
        f"2025-01-0{day},{price},{price},{price},{price},{amount:f}"
        for day, amount in ((6, whole * unit), (7, volume))
    ]

    with TemporaryDirectory() as folder:
        text = "\n".join(["time,open,high,low,close,volume", *rows, ""])
        table = read_days(Path(folder), text, symbol="BTC-USD", unit=float(unit))[
            0
        ].prices.bar_table

    bars = table["stock", "BTC-USD", "day"]

    assert bars.volume.tolist() == [whole, int(volume / unit)]
    assert (
        bars.close_e4.tolist()
        == [int((price * unit * 10_000).quantize(Decimal(1), ROUND_HALF_EVEN))] * 2
    )


NO_PRICES = [
    "",
    "abc",
    "-1",
    "+1",
    "1e3",
    "1,5",
    "1_000",
    ".5",
    "5.",
    " 1",
    "1 ",
    "NaN",
    "inf",
    "0x1",
    "1" * 12,
    "١",
    "1\n",
]


@pytest.mark.parametrize("rounded", [False, True])
def test_a_value_that_is_not_a_plain_price_is_none(read_cells: Cells, rounded: bool) -> None:
    assert read_cells.prices(NO_PRICES, rounded=rounded) == [None] * len(NO_PRICES)


def test_a_float_from_another_program_is_reported_and_not_trimmed(tmp_path: Path) -> None:
    text = HEADER + DAY_BAR.replace("101.5", "101.50000000000001")
    write(tmp_path, day__csv=text)

    assert problems_of(tmp_path, spec_of(bars=[stock_days()], round=False)) == [
        "day.csv:2: high: expected dollars with at most four decimals, such as 101.25 (`round:"
        " true` rounds them), was '101.50000000000001'"
    ]

    read, _ = read_files(spec_of(bars=[stock_days()], round=True), tmp_path)
    assert read.prices.bar_table["stock", "AVLN", "day"].high_e4.tolist() == [1_015_000]


# ---- moments


@pytest.mark.slow
@given(
    st.datetimes(datetime(1974, 1, 1), datetime(2100, 1, 1)),
    st.sampled_from(["Z", "", "+00:00", "-05:00", "+05:30"]),
)
@settings(max_examples=60)
def test_moments_match_the_service(read_cells: Cells, moment: datetime, offset: str) -> None:
    text = moment.isoformat(timespec="microseconds") + offset
    expected = parse_moment(text, "x")
    form = "moment" if offset else "clock"
    read = read_cells.moments([text, str(expected)])

    assert read == [(expected, form), (expected, "moment")]
    assert [moment_of(text), moment_of(str(expected))] == [expected] * 2


SECONDS = "1736173800"
MILLISECONDS = "1736173800000"
NO_MOMENTS = [
    "",
    "noon",
    "2025-02-30T10:00:00Z",
    "2025-01-06  14:30:00",
    "2025-1-6T10:00Z",
    "-1",
    "1969-12-31T00:00:00Z",
]


def test_an_invalid_moment_is_none_and_affects_no_other(read_cells: Cells) -> None:
    good = "2025-01-06T14:30:00Z"
    for text in (*NO_MOMENTS, SECONDS, MILLISECONDS, "9" * 19):
        first, (_, form) = read_cells.moments([good, text])
        assert form == "", text
        assert moment_of(text) is None
        assert first == (at(good), "moment")


def test_a_days_bar_may_begin_at_midnight_elsewhere(tmp_path: Path) -> None:
    """Flat files of vendors give days as nanoseconds at midnight in New York: 05:00 in winter,
    04:00 in summer.
    """
    winter = at("2025-01-06T05:00:00Z")
    summer = at("2025-07-07T04:00:00Z")
    text = "ticker,volume,open,close,high,low,window_start,transactions\n"
    text += f"AVLN,1000,100,101,101.5,99.25,{winter},7\nAVLN,1000,100,101,101.5,99.25,{summer},7\n"
    read, _ = read_days(tmp_path, text, day_zone="America/New_York")

    assert read.prices.bar_table["stock", "AVLN", "day"].start_ns.tolist() == [
        at("2025-01-06"),
        at("2025-07-07"),
    ]
    assert "day.csv:2: time: expected a bar's start: midnight in UTC of its date" in problems_of(
        tmp_path, spec_of(bars=[stock_days()])
    )[0]  # fmt: skip


# ---- bad rows


# In a row of bars.
@on_each_row(
    "field, text, problem",
    ("symbol", "avln", "symbol: expected a ticker in capitals, was 'avln'"),
    ("symbol", "../AVLN", "symbol: expected a ticker in capitals, was '../AVLN'"),
    ("time", "yesterday", "time: expected a moment such as"),
    ("open", "-1", "open: expected dollars"),
    ("open", "0", "open: expected a price above 0"),
    ("high", "100.9", "high: expected the highest price of the bar"),
    ("low", "100.1", "low: expected the lowest price of the bar"),
    (
        "close",
        "",
        "close: expected dollars with at most four decimals, such as 101.25, was nothing",
    ),
    ("volume", "NaN", "volume: expected a number from 0, was 'NaN'"),
    ("volume", "0.5", "volume: expected a whole number"),
    ("transactions", "7.0", "transactions: expected a whole number from 0, was '7.0'"),
)
def test_a_bad_cell_is_named_by_file_line_and_field(
    tmp_path: Path, field: str, text: str, problem: str
) -> None:
    cells = dict(zip(HEADER.strip().split(","), DAY_BAR.strip().split(","), strict=True))
    good = ",".join(cells.values())
    bad = ",".join((cells | {field: text}).values())
    write(tmp_path, day__csv=f"{HEADER}{good.replace('-06', '-07')}\n\n{bad}\n{good}\n")
    problems = problems_of(tmp_path, spec_of(bars=[stock_days()]))

    assert problems[0].startswith(f"day.csv:4: {problem}"), problems
    assert len({each.split(":")[1] for each in problems}) == 1


def test_all_import_problems_are_counted_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    rows = (
        "".join(
            f"AVLN,2025-01-06T14:{minute:02d}:00Z,x,101.5,99.25,101,-5,7\n" for minute in range(60)
        )
        * 2
    )
    write(tmp_path, minute__csv=HEADER + rows, symbols__csv=SYMBOLS + "bad,stock,,2010\n")
    spec = spec_of(
        bars=[{"file": "minute.csv", "asset_class": "stock", "resolution": "minute"}],
        symbols=[{"file": "symbols.csv"}],
    )

    with pytest.raises(DatasetRefused) as caught:
        ingest_dataset(spec, tmp_path, tmp_path / "out")

    assert (caught.value.count, len(caught.value.problems)) == (120 * 2 + 2, 100)
    assert str(caught.value).startswith(
        "nothing was written: 242 problems, the first: minute.csv:2: open: expected dollars"
    )
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["minute.csv", "symbols.csv"]


def test_reading_ends_where_there_are_too_many_problems_to_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktdeval_qfinzero.data.problems.MAX_PROBLEMS", 50)
    write(tmp_path, day__csv=HEADER + "a,b,c\n" * 60)
    with pytest.raises(DatasetRefused) as caught:
        ingest_dataset(spec_of(bars=[stock_days()]), tmp_path, tmp_path / "out")

    assert "50 problems or more, the first: day.csv:2: " in str(caught.value)
    assert caught.value.problems[-1].startswith("day.csv:51: ")


def test_lines_that_are_no_rows_are_named_and_do_not_shift_the_others(tmp_path: Path) -> None:
    write(
        tmp_path,
        day__csv=HEADER + "AVLN,2025-01-06\n" + DAY_BAR + "a,b,c\n" + DAY_BAR.replace("101.5", "x"),
    )

    assert problems_of(tmp_path, spec_of(bars=[stock_days()])) == [
        "day.csv:2: row: expected 8 cells, was 2; quote texts with commas or line breaks",
        "day.csv:4: row: expected 8 cells, was 3; quote texts with commas or line breaks",
        "day.csv:5: high: expected dollars with at most four decimals, such as 101.25, was 'x'",
    ]


def test_the_same_row_twice_is_taken_once_and_counted(tmp_path: Path) -> None:
    read, report = read_days(tmp_path, HEADER + DAY_BAR + DAY_BAR.replace("-06", "-03") + DAY_BAR)
    assert report.duplicates == 1
    assert read.prices.bar_table["stock", "AVLN", "day"].start_ns.tolist() == [
        at("2025-01-03"),
        at("2025-01-06"),
    ]


def test_rows_that_contradict_each_other_are_both_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        a__csv=HEADER + DAY_BAR,
        b__csv=HEADER + DAY_BAR.replace(",7", ",8"),
        symbols__csv=SYMBOLS * 2,
    )

    assert problems_of(tmp_path, spec_of(bars=[stock_days("?.csv")])) == [
        "b.csv:2: time: expected each bar once: AVLN at 2025-01-06T00:00:00Z is other than on"
        " a.csv:2"
    ]

    twice = SYMBOLS + "AVLN,stock,Avalon,2010-01-01\n"
    write(tmp_path, symbols__csv=twice)

    assert problems_of(tmp_path, spec_of(symbols=[{"file": "symbols.csv"}])) == [
        "symbols.csv:3: row: expected each key once: symbols.csv:3 says something else than"
        " symbols.csv:2"
    ]


# ---- tables

GOOD = beside(__file__)["good_rows"]


@pytest.mark.parametrize(("kind", "row"), GOOD.items(), ids=GOOD)
def test_a_good_row_is_read(tmp_path: Path, kind: str, row: dict[str, Any]) -> None:
    write(tmp_path, **{f"{kind}__json": json.dumps([row])})
    _, report = read_files(spec_of(**{kind: [{"file": f"{kind}.json"}]}), tmp_path)
    assert report.rows == {kind: 1}


# What makes a good row above a bad one.
@on_each_row(
    "table, change, problem",
    ("contracts", {"symbol": "AVLN"}, "symbol: expected an OPRA symbol"),
    (
        "contracts",
        {"listed": "2025-01-18"},
        "listed: expected a moment before the end of its expiry",
    ),
    ("rates", {"1M": "high"}, "1M: expected a number, was 'high'"),
    ("rates", {"1M": None}, "yields: expected one or more of the tenors"),
    (
        "rates",
        {"available": "2025-01-05T23:00:00Z"},
        "available: expected a moment on the curve's day or later",
    ),
    (
        "rates",
        {"2M": 4.0},
        "column '2M' is not a field: map it under columns, or name it under ignore; did you mean",
    ),
    ("dividends", {"amount": "0.12345"}, "amount: expected dollars with at most four decimals"),
    ("dividends", {"amount": 0}, "amount: expected dollars a share, above 0"),
    ("dividends", {"pay_day": "2025-01-12"}, "pay_day: expected a day not before ex_day"),
    (
        "dividends",
        {"declared": None},
        (
            "declared: expected a moment such as 2025-01-06T14:30:00Z, or nanoseconds since "
            "1970, was n"
        ),
    ),
    ("splits", {"new": 2.5}, "new: expected a whole number from 0, was '2.5'"),
    ("splits", {"new": "1"}, "new: expected a whole number above 0, not that of old"),
    ("splits", {"ex_day": "13/01/2025"}, "ex_day: expected a day such as 2025-01-06"),
    ("deals", {"cash": -1}, "cash: expected dollars with at most four decimals"),
    ("deals", {"into": "AVLN"}, "into: expected another ticker, or nothing"),
    ("deals", {"announced": "2025-01-13T15:00:00Z"}, "announced: expected a moment before day"),
    ("borrow", {"shares": -1}, "shares: expected a whole number from 0, was '-1'"),
    (
        "borrow",
        {"fee_bps_per_year": True},
        "fee_bps_per_year: expected a whole number from 0, was 'True'",
    ),
    (
        "events",
        {"event_type": "daily_news"},
        "event_type: expected one of macro_calendar, earnings, was 'daily_news'",
    ),
    (
        "events",
        {"event_id": "news_7"},
        "event_id: expected an id that does not begin as those of articles",
    ),
    ("events", {"tickers": ["AVLN", 5]}, "tickers: expected a list of texts"),
    ("events", {"expected": [1]}, "expected: expected a JSON object"),
    (
        "events",
        {"releases": [{"available": "2025-01-15", "value": {}}]},
        "releases: expected objects of available (a moment)",
    ),
    (
        "events",
        {"releases": [{"available": "2024-11-30", "values": {}}]},
        "releases: expected values that are available from",
    ),
    ("events", {"title": 5}, "title: expected text, was '5'"),
    (
        "events",
        {"titel": "CPI"},
        (
            "column 'titel' is not a field: map it under columns, or name it under ignore; did "
            "you mean 'title'"
        ),
    ),
    ("news", {"importance": "huge"}, "importance: expected one of low, medium, high, was 'huge'"),
    (
        "news",
        {"publisher": {"named": "x"}},
        "publisher: expected texts under name, homepage_url, logo_url",
    ),
    ("news", {"id": "econ_5"}, "id: expected an id that begins with news_"),
    ("news", {"title": "501 characters"}, "title: expected at most 500 characters"),
)
def test_a_bad_field_of_a_row_is_named(
    tmp_path: Path, table: str, change: dict[str, Any], problem: str
) -> None:
    change = {
        name: "x" * 501 if value == "501 characters" else value for name, value in change.items()
    }
    good = json.dumps(GOOD[table])
    bad = json.dumps(GOOD[table] | change)
    write(tmp_path, **{f"{table}__jsonl": f"{good}\n\n{bad}\n"})
    spec = spec_of(round=False, **{table: [{"file": f"{table}.jsonl"}]})
    problems = problems_of(tmp_path, spec)

    assert problems[0].startswith(f"{table}.jsonl:3: {problem}"), problems


def test_lists_and_objects_in_csv_are_json_or_separated_by_semicolons(tmp_path: Path) -> None:
    row = GOOD["events"] | {
        "tickers": "AVLN; BRKT",
        "expected": '{"consensus": 2.8, "count": 3}',
        "releases": '[{"available": "2025-01-15T13:30:00Z", "values": {"actual": 2.9}}]',
    }
    write(tmp_path, events__csv=to_csv([row]))
    (event,) = read_files(spec_of(events=[{"file": "events.csv"}]), tmp_path)[0].events

    assert (event.tickers, event.expected) == (("AVLN", "BRKT"), {"consensus": 2.8, "count": 3})
    assert (event.releases[0].values, event.source) == ({"actual": 2.9}, "mine")


def test_a_text_over_several_lines_is_one_cell(tmp_path: Path) -> None:
    rows = [
        GOOD["news"] | {"body": "first\nsecond"},
        GOOD["news"] | {"id": "news_2", "body": "", "importance": "?"},
    ]
    write(tmp_path, news__csv=to_csv(rows))

    assert problems_of(tmp_path, spec_of(news=[{"file": "news.csv"}])) == [
        "news.csv:4: importance: expected one of low, medium, high, was '?'"
    ]


# ---- files


def test_json_is_strict(tmp_path: Path) -> None:
    too_deep = ["[" * 200_000, "row: not valid JSON: nested too deeply"]
    for line, expected in (*beside(__file__)["bad_lines"][1:], too_deep):
        write(tmp_path, splits__jsonl=f"{json.dumps(GOOD['splits'])}\n{line}\n")
        (problem,) = problems_of(tmp_path, spec_of(splits=[{"file": "splits.jsonl"}]))
        assert problem.startswith(f"splits.jsonl:2: {expected}")


def test_a_line_without_end_is_a_problem(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.jsonl.gz", "wb", 1) as stream:
        stream.write(b"0" * (LONGEST_LINE + 1))

    (problem,) = problems_of(tmp_path, spec_of(splits=[{"file": "bomb.jsonl.gz"}]))
    assert problem == f"bomb.jsonl.gz:1: has more than {LONGEST_LINE} characters; write less"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.csv.gz", b"no gzip"),
        ("x.csv", b"symbol,time\n\xff,1\n"),
        ("x.json", b"{}"),
        ("x.csv", b""),
    ],
    ids=["no gzip", "no UTF-8", "no list", "no header"],
)
def test_a_file_that_can_not_be_read_is_a_problem(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    splits = spec_of(splits=[{"file": name, "ignore": ["*"]}])
    assert problems_of(tmp_path, splits)[0].startswith(f"{name}:")
    assert problems_of(tmp_path, spec_of(bars=[stock_days(name)]))[0].startswith(f"{name}:")


@pytest.mark.parametrize("name", ["day.csv.gz", "bom.csv", "day.jsonl", "day.json"])
def test_packed_and_json_bars_are_the_same_bars(tmp_path: Path, name: str) -> None:
    plain = read_days(tmp_path, HEADER + DAY_BAR)[0].prices.bar_table["stock", "AVLN", "day"]
    (tmp_path / "day.csv.gz").write_bytes(gzip.compress((HEADER + DAY_BAR).encode()))
    (tmp_path / "bom.csv").write_bytes(
        b"\xef\xbb\xbf" + (HEADER + DAY_BAR).replace("\n", "\r\n").encode()
    )
    row = {
        "symbol": "AVLN",
        "time": "2025-01-06",
        "open": 100,
        "high": 101.5,
        "low": "99.25",
        "close": 101.0,
        "volume": 1e3,
        "transactions": 7,
    }
    write(tmp_path, day__jsonl=json.dumps(row) + "\n", day__json=json.dumps([row]))
    read, _ = read_files(spec_of(bars=[stock_days(name)]), tmp_path)

    assert equal_bars(read.prices.bar_table["stock", "AVLN", "day"], plain)


def test_columns_are_mapped_ignored_or_refused(tmp_path: Path) -> None:
    text = "sym,date,o,high,low,close,volume,vwap\nAVLN,2025-01-06,100,101.5,99.25,101,1000,100.7\n"
    mapped = {"symbol": "sym", "open": "o"}
    read, _ = read_days(tmp_path, text, columns=mapped, ignore=["vwap"])

    assert read.prices.bar_table["stock", "AVLN", "day"].transactions.tolist() == [0]
    assert problems_of(tmp_path, spec_of(bars=[stock_days(columns=mapped)])) == [
        "day.csv:1: column 'vwap' is not a field: map it under columns, or name it under ignore; fields:"
        " symbol, time, open, high, low, close, volume, transactions"
    ]
    assert problems_of(tmp_path, spec_of(bars=[stock_days(ignore=["*"])])) == [
        "day.csv:1: lacks the column symbol; its columns: sym, date, o, high, low, close, volume, vwap",
        "day.csv:1: lacks the column open; its columns: sym, date, o, high, low, close, volume, vwap",
    ]

    with pytest.raises(ConfigError, match="columns: 'opne' is not a field; did you mean 'open'"):
        read_files(spec_of(bars=[stock_days(columns={"opne": "o"})]), tmp_path)

    write(tmp_path, day__csv=HEADER.replace("transactions", "open") + DAY_BAR)

    assert problems_of(tmp_path, spec_of(bars=[stock_days()])) == [
        "day.csv:1: column 'open' appears twice; keep one"
    ]


def test_a_symbol_may_be_given_once_for_a_file(tmp_path: Path) -> None:
    text = (HEADER + DAY_BAR).replace("symbol,", "").replace("AVLN,", "")
    assert list(read_days(tmp_path, text, symbol="BRK.B")[0].prices.bar_table) == [
        ("stock", "BRK.B", "day")
    ]


# ---- specs


def test_a_spec_is_yaml_or_json_and_strict(tmp_path: Path) -> None:
    fields = {"name": "mine", "default_as_of": "2025-01-06", "bars": [stock_days()]}
    (tmp_path / "ingest.yaml").write_text(yaml.safe_dump(fields))
    (tmp_path / "ingest.json").write_text(json.dumps(fields))

    assert load_spec(tmp_path / "ingest.yaml") == load_spec(tmp_path / "ingest.json")

    (tmp_path / "ingest.yaml").write_text(yaml.safe_dump(fields | {"bras": []}))

    with pytest.raises(ConfigError, match="unknown field 'bras'; did you mean 'bars'"):
        load_spec(tmp_path / "ingest.yaml")

    (tmp_path / "ingest.json").write_text('{"timezone": "UTC", "timezone": "Asia/Shanghai"}')
    with pytest.raises(ConfigError, match="appears twice"):
        load_spec(tmp_path / "ingest.json")


@pytest.mark.parametrize("name", ["cut.json", "none.json", "none.yaml", "pipe.json"])
def test_a_spec_that_can_not_be_read_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "cut.json").write_text("{")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ConfigError):
        load_spec(tmp_path / name)


@pytest.mark.parametrize(
    ("pattern", "names"), [("?.csv", ["a.csv", "b.csv"]), ("bars[1].csv", ["bars[1].csv"])]
)
def test_files_are_named_by_a_pattern_or_by_their_literal_name(
    tmp_path: Path, pattern: str, names: list[str]
) -> None:
    for name in ("b.csv", "a.csv", "bars[1].csv"):
        (tmp_path / name).write_text("")

    assert files_of(tmp_path, pattern) == [(tmp_path / name, name) for name in names]

    elsewhere = files_of(Path("elsewhere"), str(tmp_path / pattern))
    assert elsewhere == [(tmp_path / name, str(tmp_path / name)) for name in names]


def test_a_spec_that_can_not_be_followed_is_refused(tmp_path: Path) -> None:
    write(tmp_path, day__txt="")

    assert errors_with(
        lambda **fields: ingest_dataset(spec_of(**fields), tmp_path, tmp_path / "out"),
        {"bars": [stock_days("none.csv")]},
        {"bars": [stock_days("*.csv")]},
        {"bars": [stock_days("**.csv")]},
        {"bars": [stock_days("day.txt")]},
        {"bars": [stock_days("x.csv", day_zone="Mars/Olympus")]},
        {"default_as_of": "soon"},
        {"default_as_of": None},
        {"currency": ""},
        folder=tmp_path,
    ) == snapshot("""\
ConfigError: none.csv: no such file in FOLDER
ConfigError: *.csv: no such file in FOLDER
ConfigError: **.csv: no such file in FOLDER
ConfigError: FOLDER/day.txt: unknown kind of file; expected one of .csv, .csv.gz, .jsonl, .jsonl.gz, .json, .parquet
ConfigError: day_zone: no time zone 'Mars/Olympus'; expected one such as UTC or America/New_York
ConfigError: default_as_of: expected a moment such as 2025-01-06T21:00:00Z
ConfigError: default_as_of: expected a moment such as 2025-01-06T21:00:00Z; a new dataset needs one
ConfigError: currency: expected a code such as USD, CNY or USDT, was ''
""")
    assert not (tmp_path / "out").exists()


def test_a_short_row_that_is_not_text_is_a_problem_and_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "day.csv").write_bytes(b"symbol,time,open\nAVLN,\xff\n")
    table = shape_table(
        (tmp_path / "day.csv", "day.csv"), ("symbol", "time", "open"), (), TableFiles("day.csv")
    )
    problems = ProblemList()

    assert [
        len(batch.lines) for batch in read_blocks(table, as_problem(table.name, problems))
    ] == []
    assert problems.lines == ["day.csv:2: is not UTF-8 text; save the file as UTF-8"]
    assert capfd.readouterr().err == ""
