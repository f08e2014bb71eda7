"""Files as vendors ship them: times with a zone, columns named once, prices with many decimals, no table of symbols."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.cli.main import main
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.folder import open_dataset
from ktdeval_qfinzero.data.stores import Span
from ktdeval_qfinzero.moments import moment_text, parse_moment
from ktdeval_qfinzero.workspace import Workspace
from paths import REPOSITORY

SHARED = REPOSITORY.parent / "shared" / "data"
EVER = Span(0, 2**62)
HEAD = "name: vendor\ndefault_as_of: 2025-01-08\n"


def made(folder: Path, spec: str, **files: str) -> Path:
    """A dataset imported from some files."""
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    (folder / "spec.yaml").write_text(HEAD + spec)
    assert main(["qfinzero", "data", "import", str(folder / "spec.yaml"), str(folder / "made")]) == 0
    return folder / "made"


TIMES = {
    "A": ("2025-01-06 09:30:00-05:00", "2025-01-06 09:31:00-05:00", ""),
    "B": ("2025-01-06 14:30:00+00:00", "2025-01-06 14:31:00+00:00", ", zone: UTC"),
    "C": ("2025-01-06T09:30:00-0500", "2025-01-06T09:31:00-0500", ""),
    "D": ("2025-01-06 09:30:00", "2025-01-06 09:31:00", ""),
    "E": ("2025-01-06T09:30", "2025-01-06T09:31", ", zone: America/New_York"),
    "F": ("2025-01-06 14:30:00 UTC", "2025-01-06 14:31:00 UTC", ""),
    "G": ("2025-01-06 14:30:00", "2025-01-06 14:31:00", ", zone: UTC"),
}  #: By ticker: two spellings of times, and what its source says of its zone; the spec says New York


def test_times_of_minutes_have_a_zone_of_their_own_or_that_of_their_source_or_of_the_spec(tmp_path: Path) -> None:
    head = "Datetime,Ticker,Open,High,Low,Close,Volume\n"
    files = {
        ticker: head + "".join(f"{time},{ticker},10.123456,11,9.5,10.5,100\n" for time in times)
        for ticker, (*times, _) in TIMES.items()
    }
    days = head + "".join(f"2025-01-06,{ticker},10,11,9.5,10.5,200\n" for ticker in TIMES)
    sources = [
        f"  - {{file: {ticker}.csv, asset_class: stock, resolution: minute{zone}}}\n" for ticker, (*_, zone) in TIMES.items()
    ]
    spec = "zone: America/New_York\nbars:\n  - {file: days.csv, asset_class: stock, resolution: day}\n" + "".join(sources)
    prices = open_dataset(made(tmp_path, spec, days=days, **files)).prices
    for ticker in TIMES:
        starts = prices.bars("stock", ticker, "minute", EVER).start_ns.tolist()
        assert [moment_text(start) for start in starts] == ["2025-01-06T14:30:00Z", "2025-01-06T14:31:00Z"], ticker


def test_minutes_may_be_stamped_with_their_end_and_hours_begin_anew_after_lunch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [f"{hour:02}:{minute:02}" for hour in (9, 10, 11, 13, 14, 15) for minute in range(60)]
    ends = [time for time in times if "09:31" <= time <= "11:30" or "13:01" <= time <= "15:00"]
    rows = [f"2025-01-06 {time},{10 + place},{10 + place},{10 + place},{10 + place},100" for place, time in enumerate(ends)]
    files = {
        "minutes": "\n".join(["time,open,high,low,close,volume", *rows]),
        "days": "time,open,high,low,close,volume\n2025-01-06,10,249,10,249,24000\n",
    }
    source = "asset_class: stock, symbol: 600519.SH, resolution"
    spec = "calendar: XSHG\nzone: Asia/Shanghai\nbars:\n  - {file: days.csv, %s: day}\n  - {file: minutes.csv, %s: minute%s}\n"
    for name, stamped, warned in (("a", "", True), ("b", ", stamped: end", False)):
        (tmp_path / name).mkdir()
        folder = made(tmp_path / name, spec % (source, source, stamped), **files)
        assert main(["qfinzero", "data", "check", str(folder)]) == 0
        told = capsys.readouterr().out
        assert ("2 bars start outside the exchange's sessions" in told and "`stamped: end`" in told) is warned
    given = {"tickers": "600519.SH", "start": "2025-01-06", "end": "2025-01-06", "interval": "60m"}
    morning = [("01:30", "02:30", 10), ("02:30", "03:30", 70)]
    for as_of, afternoon in (
        ("2025-01-06T07:00:00Z", [("05:00", "06:00", 130), ("06:00", "07:00", 190)]),
        ("2025-01-06T05:10:30Z", [("05:00", "05:10", 130)]),
    ):
        workspace = Workspace(open_dataset(folder), parse_moment(as_of, "as_of"))
        bars = catalogue().find("UPQ.stock.minute").call(workspace, given)["bars"]
        found = [(row["window_start"][11:16], row["window_end"][11:16], row["open"]) for row in bars]
        assert found == morning + afternoon


def test_columns_are_named_once_decimals_are_rounded_and_told_and_symbols_come_from_the_bars(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = (
        "zone: America/New_York\ncolumns: {symbol: code, open: o, high: h, low: l, close: c, volume: v}\n"
        "ignore: [Adj Close]\nbars:\n"
        "  - {file: one.csv, asset_class: stock, resolution: day}\n  - {file: two.csv, asset_class: crypto, resolution: day}\n"
    )
    head = "Date,code,o,h,l,c,v,Adj Close\n"
    one = f"{head}2025-01-06 00:00:00-05:00,AVLN,10.12345,11,9.5,10.50000001,100.0,10\n"
    folder = made(tmp_path, spec, one=one, two=f"{head}2025-01-06,BTC-USD,1,2,1,2,0.5,2\n")
    told = capsys.readouterr().out
    assert "note: 2 prices had more than four decimals and were rounded to these; `round: false` refuses them" in told
    assert "note: no symbols were given: 2 were made of the bars, each listed from its first one on" in told
    dataset = open_dataset(folder)
    bars = dataset.prices.bars("stock", "AVLN", "day", EVER)
    assert (moment_text(int(bars.start_ns[0])), int(bars.open_e4[0])) == ("2025-01-06T00:00:00Z", 101_234)
    assert [row.symbol for row in dataset.prices.symbols(2**62)] == ["AVLN", "BTC-USD"]
    assert main(["qfinzero", "data", "check", str(folder)]) == 0


def test_a_price_that_is_not_to_be_rounded_says_how_it_could_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.csv").write_text("date,symbol,open,high,low,close,volume\n2025-01-06,AVLN,10.12345,11,9.5,10.5,100\n")
    spec = f"{HEAD}round: false\nbars: [{{file: one.csv, asset_class: stock, resolution: day}}]\n"
    (tmp_path / "spec.yaml").write_text(spec)
    assert main(["qfinzero", "data", "import", str(tmp_path / "spec.yaml"), str(tmp_path / "made")]) == 2
    assert "one.csv:2: open: expected dollars with at most four decimals, such as 101.25 (`round: true` rounds them)" in (
        capsys.readouterr().out
    )


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs the data at {SHARED}")
def test_real_vendor_files_are_imported_with_one_column_map(tmp_path: Path) -> None:
    us, coins = SHARED / "us_daily" / "nasdaq100_daily.csv.gz", SHARED / "crypto_daily" / "crypto10_daily.csv.gz"
    spec = (
        "columns: {symbol: code}\nbars:\n"
        f"  - {{file: {us}, asset_class: stock, resolution: day}}\n  - {{file: {coins}, asset_class: crypto, resolution: day}}\n"
    )
    dataset = open_dataset(made(tmp_path, spec))
    bars = dataset.prices.bars("stock", "AAPL", "day", EVER)
    assert (len(bars), int(bars.close_e4[0])) == (106, 2_017_000)
    assert len(dataset.prices.symbols(2**62)) == 112
