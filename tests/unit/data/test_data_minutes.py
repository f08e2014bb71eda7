"""Bars within days from tables of vendors, and those of synthetic markets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import DataError, UsageError
from ktdeval.market import MarketSnapshot, load_snapshot
from ktdeval.market.assembly import assemble
from ktdeval.market.quality import check, raw_from_snapshot
from ktdeval.market.storage import snapshot_id
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams, TwinParams
from ktdeval_data.twins import make_twin
from tables import on_each_row
from terminal import Terminal

BARS = "date,code,open,high,low,close,volume\n" + "".join(
    f"{day},{code},10,10.5,9.5,10,5000\n" for day in ("2024-11-01", "2024-11-04") for code in ("TSLA", "NVDA")
)
HEAD = "time,code,open,high,low,close,volume\n"
ROW = ",TSLA,10,10.2,9.9,10.1,100\n"
NEW_YORK = {"minutes_zone": "America/New_York"}


def read(folder: Path, minutes: str, **more: Any) -> Any:
    (folder / "bars.csv").write_text(BARS)
    (folder / "minutes.csv").write_text(minutes)
    return read_long(
        LongParams(bars=str(folder / "bars.csv"), minutes=str(folder / "minutes.csv"), **{"venue": "us_equity", **more})
    )


@on_each_row
def test_times_are_ends_in_utc_whatever_their_zone(time: str, more: dict[str, Any], ends_at: str, tmp_path: Path) -> None:
    minutes = read(tmp_path, HEAD + time + ROW, **more).minutes
    assert (minutes.codes, minutes.rows["ends_at"].tolist()) == (("TSLA",), [np.datetime64(ends_at, "m").item()])
    assert minutes.rows[["open", "high", "low", "close", "volume"]].tolist() == [(10.0, 10.2, 9.9, 10.1, 100.0)]


@on_each_row
def test_a_bad_file_is_an_error_in_a_line(minutes: str, more: dict[str, Any], says: str, tmp_path: Path) -> None:
    head = HEAD if minutes[:1] in ("2", "9", "1", "=", ",") else ""
    with pytest.raises(DataError, match=says) as caught:
        read(tmp_path, head + minutes, **more)
    assert "\n" not in str(caught.value)


def test_columns_are_mapped_and_rows_of_other_codes_and_days_left_out(tmp_path: Path) -> None:
    table = "when,ticker,o,h,l,c,v\n" + "".join(
        f"2024-11-{day}T15:31Z,{code},10,10.2,9.9,10.1,1\n" for day in ("01", "04", "05") for code in ("tsla", "NVDA", "AMZN")
    )
    names = {"time": "when", "code": "ticker", "open": "o", "high": "h", "low": "l", "close": "c", "volume": "v"}
    mapping = {f"minutes.{name}": column for name, column in names.items()}
    raw = read(tmp_path, table, map=mapping, volume_unit="lot")
    assert (raw.minutes.codes, len(raw.minutes.rows)) == (("NVDA", "TSLA"), 4)
    assert set(raw.minutes.rows["volume"]) == {100.0}, "lots, as those of the days"
    assert "minutes.csv" in raw.source
    assert "5 of 9 bars within days are of other codes or days, and left out" in raw.notes
    assert len(read(tmp_path, table, map=mapping, first="2024-11-02").minutes.rows) == 2
    with pytest.raises(UsageError, match=r"map: 'size' is no field of minutes\.csv"):
        read(tmp_path, table, map={"minutes.size": "v"})


def test_faults_refuse_the_import_with_the_first_of_each(tmp_path: Path) -> None:
    rows = HEAD + "".join(f"2024-11-01T{time}Z{ROW}" for time in ("14:31", "14:31", "14:32")) + "2024-11-02T14:31Z" + ROW
    raw = read(tmp_path, rows + "2024-11-01T14:33Z,TSLA,10,10.2,10.1,10.1,100\n")
    with pytest.raises(DataError) as caught:
        assemble(raw)
    for words in (
        "1 minutes_without_bar (first: TSLA 2024-11-02T14:31 UTC)", "1 minutes_repeated (first: TSLA 2024-11-01T14:31 UTC)",
        "1 minutes_impossible (first: TSLA 2024-11-01T14:33 UTC)",
    ):  # fmt: skip
        assert words in str(caught.value)


def test_times_of_parquet_may_be_instants(tmp_path: Path) -> None:
    times = pd.to_datetime(["2024-11-01 00:00", "2024-11-01 10:31"])
    cells = {"code": "TSLA", "open": 10.0, "high": 10.2, "low": 9.9, "close": 10.1, "volume": 100.0}
    path = tmp_path / "minutes.parquet"
    for zoned, more in ((times, NEW_YORK), (times.tz_localize("America/New_York"), {}), (times.tz_localize(None), {})):
        pd.DataFrame({"time": zoned, **cells}).to_parquet(path)
        params = LongParams(bars=str(tmp_path / "bars.csv"), minutes=str(path), venue="us_equity", **more)
        read(tmp_path, HEAD + "2024-11-01T10:31Z" + ROW)
        if zoned.tz is None and not more:
            with pytest.raises(DataError, match="has no time zone"):
                read_long(params)
        else:
            assert [str(end) for end in read_long(params).minutes.rows["ends_at"]] == ["2024-11-01T14:31"]


@pytest.mark.shared_data
def test_hours_of_a_vendor_import_by_command_and_are_counted(shared_data: Path, tmp_path: Path, terminal: Terminal) -> None:
    folder, out = shared_data / "us_daily", tmp_path / "market"
    hours = pd.read_csv(folder / "nasdaq100_60min.csv.gz").query("code in ('AAPL', 'TSLA')")
    hours.to_csv(tmp_path / "hours.csv", index=False)
    words = ["--bars", str(folder / "nasdaq100_daily.csv.gz"), "--venue", "us_equity", "--minutes", str(tmp_path / "hours.csv")]
    assert "has no time zone" in terminal.error("data", "import", "long", *words, "--minutes-length", "60", "--out", out)
    words += ["--minutes-zone", "America/New_York", "--minutes-length", "60"]
    assert main(["data", "import", "long", *words, "--out", str(out)]) == 0
    market = load_snapshot(out)
    inside = hours[hours["datetime"].str[:10] <= str(market.days[-1])]
    assert f"{len(inside)} bars of 2 assets" in terminal.out("data", "info", out)
    # What is shown at the close of a day ends with the hour before it; the hour of the closing auction and later are not yet known.
    row, asset = market.day_index("2025-09-29"), market.asset_index["AAPL"]
    shown = market.as_of(row).minutes("AAPL", row)
    assert (shown["ends_at"][-1], shown["close"][-1]) == (np.datetime64("2025-09-29T20:00"), 254.35)
    assert len(market.as_of(row + 1).minutes("AAPL", row)) == len(shown) + 4
    assert abs(shown["close"][-1] / market.close[row, asset] - 1) < 0.001


@pytest.fixture(scope="module", params=["us", "crypto", "mixed"])
def twin(request: pytest.FixtureRequest) -> tuple[MarketSnapshot, MarketSnapshot]:
    """A synthetic market with minutes of its last days, and without."""
    ranges = {"first": "2024-08-01", "last": "2024-11-06"}  # clocks went back on 2024-11-03
    return make_twin(request.param, TwinParams(**ranges, minute_days=6)), make_twin(request.param, TwinParams(**ranges))


def test_minutes_of_a_twin_make_up_its_daily_bars_and_change_nothing_else(twin: tuple[MarketSnapshot, MarketSnapshot]) -> None:
    market, plain = twin
    assert not plain.minutes
    assert snapshot_id(replace(market, minutes=plain.minutes)) == snapshot_id(plain) != snapshot_id(market)
    assert [one.count for one in check(raw_from_snapshot(market)) if one.kind.startswith("minutes")] == [len(market.minutes.rows)]
    end, seen = len(market.days) - 1, 0
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
            assert whole == tuple(getattr(market, part)[row, asset] for part in ("open", "high", "low", "close"))
            assert bars["volume"].sum() == pytest.approx(market.volume[row, asset])
            assert (bars["volume"] >= 0).all()
            assert (bars["open"][1:] == bars["close"][:-1]).all()
    assert seen == len(market.minutes.rows) > 0
