"""Stocks and coins from long tables: splits, closes alone, real vendors' files; bars within days
from tables of vendors, and those of synthetic markets.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import DataError, KtdevalError, UsageError
from ktdeval.market import Instrument, MarketSnapshot
from ktdeval.market.snapshots.manifest import snapshot_id
from ktdeval.testing import Terminal, on_each_row
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams, TwinParams
from ktdeval_data.synthetic_us_crypto import make_twin
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from support.market.long_imports import Imports
from support.market.raw_market import findings_of
from support.tables import changed

BARS = """date,symbol,open,high,low,close,volume
2025-06-06,ORLY,1350,1360,1340,1354.5,100
2025-06-09,orly,1350,1360,1340,1344,100
2025-06-10,ORLY,90.3,91,90,90.3,1500
2025-06-06,btc-usd,104000,105000,103000,104390.5,0.5
2025-06-07,BTC-USD,104500,106000,103000,105615.25,0.25
2025-06-09,BTC-USD,105500,106000,103000,105793,0.25
2025-06-10,BTC-USD,105800,111000,103000,110294,0.25
"""
ASSETS = "code,name,venue,kind\nbtc-usd,Bitcoin,crypto_spot,\nORLY,O'Reilly,,\n"
SPLITS = "code,date,ratio\nORLY,2025-06-10,15\nORLY,2020-01-01,2\nAAPL,2025-06-10,4\n"


def read(
    folder: Path, bars: str = BARS, assets: str = ASSETS, splits: str = "", **params: object
) -> RawMarket:
    files = {}
    for name, text in (("bars", bars), ("industry", assets), ("splits", splits)):
        if text:
            (folder / f"{name}.csv").write_text(text, encoding="utf-8")
            files[name] = str(folder / f"{name}.csv")

    return read_long(LongParams(**{"venue": "us_equity", **files, **params}))


@pytest.mark.exhaustive
def test_stocks_and_coins_become_one_market(tmp_path: Path) -> None:
    raw = read(tmp_path)
    market = assemble(raw)

    assert market.codes == ("BTC-USD", "ORLY")
    assert market.instruments == (
        Instrument("crypto", "USD", "crypto_spot"),
        Instrument("stock", "USD", "us_equity"),
    )
    assert market.names == ("Bitcoin", "O'Reilly")
    assert market.volume[:, 0].tolist() == [0.5, 0.25, 0.25, 0.25]

    # Volumes of shares that are divided by splits cut no coin's to whole ones, nor to none, which
    # is no trade.
    divided = read(tmp_path, BARS.replace("90.3,1500", "90.3,100"), splits=SPLITS, volume="divided")
    assert divided.bars["volume"].tolist() == [100, 100, 1500, 0.5, 0.25, 0.25, 0.25]
    assert np.isnan(market.close[1]).tolist() == [False, True]  # Saturday
    assert market.indices == {}
    # Without a factor the split is a loss that nobody had, and the check says so.
    assert findings_of(raw)["split_like_moves"].examples == ("ORLY 2025-06-10",)
    assert "gaps" not in findings_of(raw)


@pytest.mark.exhaustive
def test_splits_make_the_factor(tmp_path: Path) -> None:
    market = assemble(read(tmp_path, splits=SPLITS))
    assert market.meta.has_factor
    assert market.factor.T.tolist() == [[1, 1, 1, 1], [1, 1, 1, 15]]
    assert market.adjusted_close[[0, 2, 3], 1].tolist() == [1354.5, 1344, 1354.5]  # 90.3 * 15
    assert (
        market.meta.notes[1] == "factors are those of 1 splits in splits.csv; dividends are in none"
    )
    assert "split_like_moves" not in findings_of(read(tmp_path, splits=SPLITS))


# A mapping replaces words of the faultless table, a list adds lines to it.
@on_each_row(
    "changes, message",
    (
        {"splits": ("code,date,ratio\nORLY,2025-06-10,0\n")},
        "ORLY 2025-06-10: ratio 0: each row has a code, a day",
    ),
    ({"splits": [",2025-06-10,15"]}, "no code 2025-06-10: ratio 15: each row has a code"),
    ({"splits": ["orly,2025-06-10,15"]}, "ORLY 2025-06-10: ratio 15: each row"),
    ({"splits": {}, "bars": {"volume\n": "factor\n"}}, "have a factor already"),
    ({"assets": ("code,venue\nBTC-USD,nyse\n")}, "industry.csv: venue 'nyse' is unknown"),
    (
        {"assets": ("code,kind\nBTC-USD,a coin\n")},
        "industry.csv: BTC-USD: kind 'a coin' or currency 'USD' is not a word",
    ),
    ({"venue": "moon"}, "venue 'moon' is unknown; known: a_share, "),
    ({"bars": {"orly": "OR/LY"}}, "1 unknown_symbols \\(first: 'OR/LY'\\)"),
    ({"assets": ("code,currency\nBTC-USD,EUR\n")}, "prices in EUR and USD"),
    (
        {"venue": "a_share", "assets": ""},
        (
            "4 unknown_codes \\(first: BTC-USD\\): correct the code column, or name their venues "
            "\\(--industry FILE"
        ),
    ),
)
def test_what_can_not_be_read_is_one_clear_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    whole = {"bars": BARS, "assets": ASSETS, "splits": SPLITS}
    with pytest.raises(KtdevalError, match=message) as caught:
        assemble(
            read(
                tmp_path,
                **{name: changed(whole.get(name, ""), change) for name, change in changes.items()},
            )
        )

    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_split_under_a_former_code_is_that_of_the_asset(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text(
        "code,name,in_date,out_date,code_then\nORLY,Old,,2025-06-09,OLD\nORLY,New,2025-06-10,,ORLY\n"
    )
    bars = BARS.replace("ORLY,1350", "OLD,1350").replace("orly", "old")
    splits = "code,date,ratio\nold,2025-06-10,15\n"
    raw = read(tmp_path, bars, splits=splits, names=str(tmp_path / "names.csv"))

    assert raw.bars.query("code == 'ORLY'")["factor"].tolist() == [1, 1, 15]
    assert "split_like_moves" not in findings_of(raw)


SPY_BARS = (
    "date,code,close\n2025-08-01,MSFT,524.1\n2025-08-04,MSFT,535.6\n2025-08-01,SPY,621.7\n"
    "2025-08-04,SPY,631.2\n"
)


def spy_of(folder: Path) -> dict[str, str]:
    """Options for an index of the bars' own file, written in another way."""
    return {"benchmark": f"{folder}/../{folder.name}/bars.csv", "benchmark_code": "SPY"}


@pytest.mark.parametrize(
    ("mapping", "last"),
    [({}, 2 * 631.2), ({"benchmark.close": "close"}, 631.2)],
    ids=["unnamed column", "named column"],
)
def test_a_split_of_the_indexs_asset_is_no_fall_unless_its_column_is_named(
    tmp_path: Path, mapping: dict[str, str], last: float
) -> None:
    splits = "code,date,ratio\nSPY,2025-08-04,2\n"
    raw = read(tmp_path, SPY_BARS, "", splits, **spy_of(tmp_path), map=mapping)
    assert assemble(raw).benchmark.tolist() == [621.7, last]


def test_a_factor_scaled_to_the_last_day_shows_no_later_split_in_a_level(tmp_path: Path) -> None:
    scaled = "date,code,close,factor\n2025-08-01,SPY,621.7,0.5\n2025-08-04,SPY,631.2,1\n"
    market = assemble(read(tmp_path, scaled, "", **spy_of(tmp_path)))
    assert market.benchmark.tolist() == [621.7, 2 * 631.2]


@pytest.fixture(scope="module")
def folders(shared_data: Path) -> tuple[Path, Path]:
    return (
        shared_data / "us_daily" / "nasdaq100_daily.csv.gz",
        shared_data / "crypto_daily" / "crypto10_daily.csv.gz",
    )


@pytest.mark.shared_data
def test_the_nasdaq_matches_its_notes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    raw = read_long(LongParams(bars=str(folders[0]), venue="us_equity"))
    market = assemble(raw)
    findings = findings_of(raw)

    assert (len(market.codes), len(market.days), market.days_a_year) == (102, 106, 252)
    assert np.isfinite(market.close).all()
    assert {finding.rule for finding in findings.values() if finding.level == "error"} == set()
    assert {"calendar_mismatch", "gaps"}.isdisjoint(findings)
    assert findings["split_like_moves"].examples == ("ORLY 2025-06-10",)  # and neither SNPS nor TTD

    column = market.codes.index("ORLY")
    row = market.day_index("2025-06-10")

    fallen = market.adjusted_close[row, column] / market.adjusted_close[row - 1, column]
    assert fallen - 1 == pytest.approx(-0.932, abs=5e-4)

    (tmp_path / "splits.csv").write_text("code,date,ratio\nORLY,2025-06-10,15\n")
    split = read_long(
        LongParams(bars=str(folders[0]), venue="us_equity", splits=str(tmp_path / "splits.csv"))
    )
    adjusted = assemble(split).adjusted_close[:, column]

    # 91.71 * 15 / 1348.1
    assert adjusted[row] / adjusted[row - 1] - 1 == pytest.approx(0.0204, abs=5e-5)
    assert np.array_equal(assemble(split).close, market.close)
    assert "split_like_moves" not in findings_of(split)


def real_mixed(folders: tuple[Path, Path], out: Path) -> RawMarket:
    tables = [pd.read_csv(path, dtype={"date": str}) for path in folders]
    rows = pd.concat(
        [tables[0][tables[0]["code"] == "TSLA"], tables[1][tables[1]["code"] == "BTC"]]
    )
    rows[rows["date"].between("2025-06-02", "2025-10-30")].to_csv(out / "bars.csv", index=False)
    (out / "assets.csv").write_text("code,venue\nBTC,crypto_spot\n")

    return read_long(
        LongParams(bars=str(out / "bars.csv"), industry=str(out / "assets.csv"), venue="us_equity")
    )


@pytest.mark.shared_data
def test_coins_and_a_mixed_market_have_their_own_days(
    folders: tuple[Path, Path], tmp_path: Path, terminal: Terminal, imports: Imports
) -> None:
    imports.made(folders[1], "--venue", "crypto_spot", "--last", "2025-11-15")

    facts = json.loads(terminal.out("data", "info", tmp_path / "market", "--json"))
    assert (facts["days"], facts["assets"], facts["kinds"]) == (360, 10, {"crypto": 10})
    assert (facts["currency"], facts["days_a_year"], facts["benchmark"]) == ("USD", 365, "none")

    mixed = assemble(real_mixed(folders, tmp_path))
    assert (len(mixed.days), mixed.days_a_year) == (151, 365)  # every day from 2 June to 30 October

    with gzip.open(folders[0], "rt") as file:
        sessions = {line[:10] for line in file if ",TSLA," in line}

    traded = np.isfinite(mixed.close)

    assert {str(day) for day in mixed.days[traded[:, 1]]} == sessions
    assert traded[:, 0].all()
    assert {"gaps", "calendar_mismatch", "split_like_moves"}.isdisjoint(
        findings_of(real_mixed(folders, tmp_path))
    )


# ---- bars within days


DAYS = "date,code,open,high,low,close,volume\n" + "".join(
    f"{day},{code},10,10.5,9.5,10,5000\n"
    for day, code in product(("2024-11-01", "2024-11-04"), ("TSLA", "NVDA"))
)
HEAD = "time,code,open,high,low,close,volume\n"
ROW = ",TSLA,10,10.2,9.9,10.1,100\n"
NEW_YORK = {"minutes_zone": "America/New_York"}


def read_minutes(folder: Path, minutes: str, **more: Any) -> RawMarket:
    (folder / "minutes.csv").write_text(minutes, encoding="utf-8")
    return read(folder, DAYS, "", minutes=str(folder / "minutes.csv"), **more)


@pytest.mark.slow
@on_each_row(
    "time, more, ends_at",
    ("2024-11-01T10:31:00-04:00", {}, "2024-11-01T14:31"),
    ("2024-11-01 14:31Z", {}, "2024-11-01T14:31"),
    ("2024-11-01T14:31:00.000+0000", {}, "2024-11-01T14:31"),
    # daylight saving time
    ("2024-11-01 10:31", {"minutes_zone": "America/New_York"}, "2024-11-01T14:31"),
    # and without
    ("2024-11-04 10:31:00", {"minutes_zone": "America/New_York"}, "2024-11-04T15:31"),
    (
        "2024-11-04 10:31",
        {"minutes_zone": "America/New_York", "minutes_length": 60},
        "2024-11-04T16:31",
    ),
    # a zone of its own counts
    ("2024-11-04T15:31Z", {"minutes_zone": "America/New_York"}, "2024-11-04T15:31"),
)
def test_times_are_ends_in_utc_for_any_zone(
    time: str, more: dict[str, Any], ends_at: str, tmp_path: Path
) -> None:
    minutes = read_minutes(tmp_path, HEAD + time + ROW, **more).minutes
    assert (minutes.codes, minutes.rows["ends_at"].tolist()) == (
        ("TSLA",),
        [np.datetime64(ends_at, "m").item()],
    )
    assert minutes.rows[["open", "high", "low", "close", "volume"]].tolist() == [
        (10.0, 10.2, 9.9, 10.1, 100.0)
    ]


@pytest.mark.sampled(8)
@on_each_row(
    "minutes, more, says",
    (
        "2024-11-01 10:31,TSLA,10,10.2,9.9,10.1,100",
        {},
        "time '2024-11-01 10:31' has no time zone; write .* \\(--minutes-zone\\)",
    ),
    (
        "2024-11-01,TSLA,10,10.2,9.9,10.1,100",
        {"minutes_zone": "America/New_York"},
        "time '2024-11-01' is not a time of a whole minute; write",
    ),
    ("2024-11-01T10:31:30Z,TSLA,10,10.2,9.9,10.1,100", {}, "is not a time of a whole minute"),
    ("2024-13-01T10:31Z,TSLA,10,10.2,9.9,10.1,100", {}, "is not a time of a whole minute"),
    ("9999-12-31T23:59Z,TSLA,10,10.2,9.9,10.1,100", {}, "is not a time of a whole minute"),
    ("1730457060,TSLA,10,10.2,9.9,10.1,100", {}, "is not a time of a whole minute"),
    ("=cmd|' /C calc'!A0,TSLA,10,10.2,9.9,10.1,100", {}, "is not a time of a whole minute"),
    (",TSLA,10,10.2,9.9,10.1,100", {}, "time '' is not a time of a whole minute"),
    (
        "2024-11-03 01:30,TSLA,10,10.2,9.9,10.1,100",
        {"minutes_zone": "America/New_York"},
        "occurs twice or never in America/New_York, since clocks change",
    ),
    (
        "2024-03-10 02:30,TSLA,10,10.2,9.9,10.1,100",
        {"minutes_zone": "America/New_York"},
        "occurs twice or never in America/New_York, since clocks change",
    ),
    (
        "2024-11-01 10:31,TSLA,10,10.2,9.9,10.1,100",
        {"minutes_zone": "Mars/Base"},
        "--minutes-zone 'Mars/Base' is not a time zone",
    ),
    (
        "2024-11-01 10:31,TSLA,10,10.2,9.9,10.1,100",
        {"minutes_zone": "../etc"},
        "--minutes-zone '../etc' is not a time zone",
    ),
    (
        "2024-11-05T10:31Z,TSLA,10,10.2,9.9,10.1,100",
        {},
        "no row matches a code and day of .*bars.csv; check its codes and times",
    ),
    ("2024-11-01T10:31Z,AMZN,10,10.2,9.9,10.1,100", {}, "no row matches a code and day of"),
    (
        "2024-11-01T10:31Z,TSLA,10,dear,9.9,10.1,100",
        {},
        "column 'high' holds 'dear', expected numbers",
    ),
    (
        ("time,code,open,high,low,close,size\n2024-11-01T10:31Z,TSLA,10,10.2,9.9,10.1,100"),
        {},
        "no column for 'volume'",
    ),
    ("time,code,open,high,low,close,volume\n", {}, "no row matches a code and day of"),
    ("", {}, "can't read"),
)
def test_a_bad_file_is_an_error_in_a_line(
    minutes: str, more: dict[str, Any], says: str, tmp_path: Path
) -> None:
    head = HEAD if minutes[:1] in ("2", "9", "1", "=", ",") else ""
    with pytest.raises(DataError, match=says) as caught:
        read_minutes(tmp_path, head + minutes, **more)

    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_columns_are_mapped_and_rows_of_other_codes_and_days_left_out(tmp_path: Path) -> None:
    table = "when,ticker,o,h,l,c,v\n" + "".join(
        f"2024-11-{day}T15:31Z,{code},10,10.2,9.9,10.1,1\n"
        for day, code in product(("01", "04", "05"), ("tsla", "NVDA", "AMZN"))
    )
    names = HEAD.strip().split(",")
    columns = table.splitlines()[0].split(",")
    mapping = {f"minutes.{name}": column for name, column in zip(names, columns, strict=True)}
    raw = read_minutes(tmp_path, table, map=mapping, volume_unit="lot")

    assert (raw.minutes.codes, len(raw.minutes.rows)) == (("NVDA", "TSLA"), 4)
    assert set(raw.minutes.rows["volume"]) == {100.0}, "lots, as those of the days"
    assert "minutes.csv" in raw.source
    assert "5 of 9 bars within days have other codes or days and are left out" in raw.notes
    assert len(read_minutes(tmp_path, table, map=mapping, first="2024-11-02").minutes.rows) == 2

    with pytest.raises(UsageError, match=r"map: 'size' is not a field of minutes\.csv"):
        read_minutes(tmp_path, table, map={"minutes.size": "v"})


@pytest.mark.exhaustive
def test_times_of_parquet_may_be_instants(tmp_path: Path) -> None:
    times = pd.to_datetime(["2024-11-01 00:00", "2024-11-01 10:31"])
    cells = {"code": "TSLA", "open": 10.0, "high": 10.2, "low": 9.9, "close": 10.1, "volume": 100.0}
    path = tmp_path / "minutes.parquet"

    def ends(zoned: pd.DatetimeIndex, **more: str) -> list[str]:
        pd.DataFrame({"time": zoned, **cells}).to_parquet(path)
        minutes = read(tmp_path, DAYS, "", minutes=str(path), **more).minutes
        return minutes.rows["ends_at"].astype(str).tolist()

    assert ends(times, **NEW_YORK) == ["2024-11-01T14:31"]
    assert ends(times.tz_localize("America/New_York")) == ["2024-11-01T14:31"]

    with pytest.raises(DataError, match="has no time zone"):
        ends(times)


@pytest.mark.shared_data
def test_hours_of_a_vendor_import_by_command_and_are_counted(
    shared_data: Path, tmp_path: Path, terminal: Terminal, imports: Imports
) -> None:
    folder = shared_data / "us_daily"
    hours = pd.read_csv(folder / "nasdaq100_60min.csv.gz").query("code in ('AAPL', 'TSLA')")
    hours.to_csv(tmp_path / "hours.csv", index=False)
    daily = folder / "nasdaq100_daily.csv.gz"
    words = ["--venue", "us_equity", "--minutes", tmp_path / "hours.csv", "--minutes-length", "60"]

    assert "has no time zone" in imports.refused(daily, *words)

    market = imports.made(daily, *words, "--minutes-zone", "America/New_York")
    inside = hours[hours["datetime"].str[:10] <= str(market.days[-1])]

    assert f"{len(inside)} bars of 2 assets" in terminal.out("data", "info", tmp_path / "market")

    # What is shown at the close of a day ends with the hour before it; the hour of the closing
    # auction and later are not yet known.
    row = market.day_index("2025-09-29")
    asset = market.asset_index["AAPL"]
    shown = market.as_of(row).minutes("AAPL", row)

    assert (shown["ends_at"][-1], shown["close"][-1]) == (np.datetime64("2025-09-29T20:00"), 254.35)
    assert len(market.as_of(row + 1).minutes("AAPL", row)) == len(shown) + 4
    assert abs(shown["close"][-1] / market.close[row, asset] - 1) < 0.001


@pytest.fixture(scope="module", params=["us", "crypto", "mixed"])
def twin(request: pytest.FixtureRequest) -> tuple[MarketSnapshot, MarketSnapshot]:
    """A synthetic market with minutes of its last days, and without."""
    ranges = {"first": "2024-08-01", "last": "2024-11-06"}  # clocks went back on 2024-11-03
    return make_twin(request.param, TwinParams(**ranges, minute_days=6)), make_twin(
        request.param, TwinParams(**ranges)
    )


@pytest.mark.exhaustive
def test_minutes_of_a_twin_make_up_its_daily_bars_and_change_nothing_else(
    twin: tuple[MarketSnapshot, MarketSnapshot],
) -> None:
    market, plain = twin
    assert not plain.minutes
    assert (
        snapshot_id(replace(market, minutes=plain.minutes))
        == snapshot_id(plain)
        != snapshot_id(market)
    )
    assert [
        one.count for one in check(raw_from_snapshot(market)) if one.rule.startswith("minutes")
    ] == [len(market.minutes.rows)]

    end = len(market.days) - 1
    seen = 0

    for row in range(end - 9, end + 1):
        minutes = market.as_of(row).minutes
        for asset, code in enumerate(market.codes):
            bars = minutes(code, row)
            if not len(bars):
                assert row <= end - 4 or not np.isfinite(market.close[row, asset])
                continue

            seen += len(bars)
            assert len(bars) == (1440 if market.kinds[asset] == "crypto" else 390)
            whole = (bars["open"][0], bars["high"].max(), bars["low"].min(), bars["close"][-1])
            assert whole == tuple(
                getattr(market, part)[row, asset] for part in ("open", "high", "low", "close")
            )
            assert bars["volume"].sum() == pytest.approx(market.volume[row, asset])
            assert (bars["volume"] >= 0).all()
            assert (bars["open"][1:] == bars["close"][:-1]).all()

    assert seen == len(market.minutes.rows) > 0
