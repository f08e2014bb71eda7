"""Tables in the forms of vendors: JSON, fixed-precision prices, several sources, wide tables, klines
without a header. Each is read right, or refused with advice that works.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from ktdeval_tables.missing_columns import may_be_count
from ktdeval_tables.text_layout import find_layout
from support.market.long_imports import Imports

US = ("--venue", "us_equity")
COIN = ("--venue", "crypto_spot", "--code", "DOGE-USDT")
DAYS = ("2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09")
CLOSES = (10.0, 10.5, 10.4, 10.6, 10.2, 10.3)


def bars() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for number, (day, close) in enumerate(zip(DAYS, CLOSES, strict=True)):
        volume = 1000 * (number + 1)
        rows.append(
            {"date": day, "open": close, "high": close + 1, "low": close - 1, "close": close}
            | {"volume": volume}
        )
    return rows


def by_day(symbol: str, names: dict[str, str]) -> dict[str, object]:
    """A document of bars by day, as Alpha Vantage sends it."""
    series = {}
    for row in bars():
        series[row["date"]] = {names[name]: str(row[name]) for name in names}
    return {"Meta Data": {"2. Symbol": symbol}, "Time Series (Daily)": series}


def attributes(row: dict[str, object]) -> str:
    """Attributes of an element of XML."""
    return " ".join(f'{name}="{value}"' for name, value in row.items())


ALPHA = {
    name: f"{place}. {name}"
    for place, name in enumerate(("open", "high", "low", "close", "volume"), 1)
}
TRADER = ALPHA | {"open": "1. buy price", "close": "4. sell price"}
STAMPS = [int(pd.Timestamp(day).timestamp() * 1000) for day in DAYS]
NAMES = ("volume", "close", "low", "high", "open", "date")
REVERSED = [[row[name] for name in NAMES] for row in bars()]
LISTS = [[stamp, *list(row.values())[1:]] for stamp, row in zip(STAMPS, bars(), strict=True)]
COLUMNS = {name: [row[name] for row in bars()] for name in NAMES}
ELEMENTS = "".join(f'<bar symbol="AAPL" {attributes(row)}/>' for row in bars())
XML = f'<?xml version="1.0"?><bars>{ELEMENTS}</bars>'

JSON_FORMS = {
    "bars by day": (json.dumps(by_day("AAPL", ALPHA)), ()),
    "bars by day, a document a line": (
        "\n".join(json.dumps(by_day(code, TRADER)) for code in ("AAPL", "MSFT")),
        (),
    ),
    "rows beside a ticker": (json.dumps({"ticker": "AAPL", "results": bars()}), ()),
    "rows beside a header": (json.dumps({"meta": {"symbol": "AAPL"}, "values": bars()}), ()),
    "a list of rows": (json.dumps(bars()), ("--code", "AAPL")),
    "a row a line": ("\n".join(map(json.dumps, bars())), ("--code", "AAPL")),
    "lists of ccxt": (json.dumps(LISTS), ("--code", "AAPL")),
    "lists in an answer": (json.dumps({"code": 0, "data": LISTS}), ("--code", "AAPL")),
    "tables by their assets": (json.dumps({"bars": {"AAPL": bars(), "MSFT": bars()}}), ()),
    "columns of one length": (json.dumps(COLUMNS), ("--code", "AAPL")),
    "rows of XML": (XML, ()),
    "tables beside what is said of them": (
        json.dumps({"status": "ok", "AAPL": {"meta": {}, "values": bars()}}),
        (),
    ),
    "names beside lists, under other keys": (
        json.dumps({"code": 0, "data": {"fields": [*NAMES], "items": REVERSED}}),
        ("--code", "AAPL"),
    ),
    "names beside lists": (json.dumps({"columns": [*NAMES], "data": REVERSED}), ("--code", "AAPL")),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", JSON_FORMS)
def test_json_is_read_as_the_same_market(form: str, tmp_path: Path, imports: Imports) -> None:
    text, options = JSON_FORMS[form]
    file = tmp_path / "bars.json"
    file.write_text(text)
    snapshot = imports.made(file, *US, *options)

    assert snapshot.codes[0] == "AAPL"
    assert tuple(snapshot.days.astype(str)) == DAYS
    assert tuple(snapshot.close[:, 0]) == CLOSES
    assert snapshot.volume[:, 0].tolist() == [row["volume"] for row in bars()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        '{"Information": "rate limit"}',
        "[]",
        '{"a": 1, "a": 2}',
        '[{"close": 1}]',
        "[1, 2",
        json.dumps([*LISTS, None]),
        json.dumps([*LISTS, LISTS[0][:5]]),
        json.dumps({"prices": bars(), "dividends": [{"date": DAYS[0], "amount": 0.2}]}),
        "\n".join(map(json.dumps, [*bars(), {"Information": "limit"}, *bars()])),
    ],
)
def test_json_with_a_row_that_is_none_is_refused_in_one_line(text: str, imports: Imports) -> None:
    assert "bars.csv" in imports.refused(text, *US, "--code", "AAPL")


# ---- wide tables, several sources, fixed precision


@pytest.mark.slow
def test_prices_of_another_asset_are_not_offered_as_a_volume(imports: Imports) -> None:
    frame = pd.DataFrame({"Date": DAYS, "AAPL": CLOSES, "MSFT": [each * 3 for each in CLOSES]})
    imports.made(frame, *US, "--code", "AAPL", "--map", "close=AAPL")

    assert "map volume" not in imports.printed


@pytest.mark.slow
def test_rows_of_two_publishers_are_refused_with_the_distinguishing_column(
    imports: Imports,
) -> None:
    frame = pd.DataFrame(bars()).assign(code="AAPL")
    both = pd.concat([frame.assign(venue_id=2), frame.assign(venue_id=43, volume=7)])
    both = both.sort_values("date")
    message = imports.refused(both, *US)

    assert "column 'venue_id' tells apart (2, 43)" in message
    assert "keep_first" not in message
    advised = message.partition("read those of one: ")[2].split()
    snapshot = imports.made(both, *US, *advised)
    assert (len(snapshot.days), snapshot.volume[0, 0]) == (len(DAYS), bars()[0]["volume"])
    assert "it has 2, 43" in imports.refused(both, *US, "--keep", "venue_id=3")
    assert "did you mean 'venue_id'" in imports.refused(both, *US, "--keep", "venue=3")


@pytest.mark.slow
def test_prices_in_whole_billionths_are_brought_to_units(imports: Imports) -> None:
    frame = pd.DataFrame(bars()).rename(columns={"date": "ts_event"})
    prices = ["open", "high", "low", "close"]
    frame[prices] = (frame[prices] * 1e9).round().astype("int64")
    frame = frame.assign(rtype=35, publisher_id=2, instrument_id=38, symbol="AAPL")
    snapshot = imports.made(frame, *US)
    assert tuple(snapshot.close[:, 0]) == CLOSES


# ---- which column is a volume


KLINES = [
    [
        str(stamp),
        "10",
        "12",
        "9",
        str(close),
        "500.0",
        str(stamp + 86399999),
        "5200.0",
        "31",
        "9.5",
        "99",
        "0",
    ]
    for stamp, close in zip(STAMPS, CLOSES, strict=True)
]


def test_an_amount_of_klines_that_is_none_is_left_out() -> None:
    lines = [",".join([*row[:7], "1.0", *row[8:]]) for row in KLINES]
    assert "amount" not in find_layout(lines, {"close"}, (), "klines.csv").header


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["37142624", "44060910", "55570372", "21946507", "40011222"], True),
        (["33.74M", "956.1K", "41.05M", "33.35M", "39.41M"], True),
        (["1704171600000", "1704258000000", "1704344400000"], False),
        (["1234.5"] * 6, False),
        (["461.97", "462.97", "463.87", "467.68", "470.38", "472.75"], False),
        (["a", "b"], False),
        ([], False),
    ],
    ids=["shares", "with letters", "stamps", "a constant", "prices", "words", "nothing"],
)
def test_a_column_may_be_a_volume_by_its_cells(cells: list[str], expected: bool) -> None:
    assert may_be_count(cells) is expected


# ---- the reported files


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "options", "closes"),
    [
        (
            "d03_investing_german.csv",
            (*US, "--code", "GC", "--date-format", "%d.%m.%Y"),
            [2017.0, 2032.7, 2028.2, 2006.3],
        ),
        ("d17_databento_ohlcv_fixed.csv", US, [201.7, 203.27, 202.82, 200.63]),
        (
            "d18_databento_two_publishers.csv",
            (*US, "--keep", "publisher_id=43"),
            [201.71, 203.28, 202.83, 200.64],
        ),
        ("d28_wide_closes.csv", US, [201.7, 203.27, 202.82, 200.63]),
        ("d24_ccxt_ohlcv.json", (*US, "--code", "X"), [20170.0, 20327.0, 20282.0, 20063.0]),
        ("d25_alpha_vantage.json", US, [201.7, 203.27, 202.82, 200.63]),
        ("d27_aitrader_merged.jsonl", US, [201.7, 203.27, 202.82, 200.63]),
    ],
)
def test_reported_files_have_their_forty_days(
    name: str, options: tuple[str, ...], closes: list[float], reported: Path, imports: Imports
) -> None:
    snapshot = imports.made(reported / name, *options)

    assert (len(snapshot.days), str(snapshot.days[0])) == (40, "2025-06-02")
    assert snapshot.close[:4, 0].tolist() == closes


@pytest.mark.slow
@pytest.mark.shared_data
def test_the_reported_klines_are_read(reported: Path, imports: Imports) -> None:
    snapshot = imports.made(reported / "d36_klines_cheap_coin_no_header.csv", *COIN)

    assert snapshot.volume[:, 0].tolist() == [98765432.0] * len(snapshot.days)
