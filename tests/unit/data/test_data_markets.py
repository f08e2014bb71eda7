"""Imports of other markets than A-shares: symbols, venues by code, splits, closes alone; and the real files beside the checkout."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import DataError, KtdevalError
from ktdeval.market import Instrument, RawMarket, assemble
from ktdeval.market.quality import Finding, check, raw_from_snapshot
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from tables import changed, on_each_row
from terminal import Terminal

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


def read(folder: Path, bars: str = BARS, assets: str = ASSETS, splits: str = "", **params: object) -> RawMarket:
    files = {}
    for name, text in (("bars", bars), ("industry", assets), ("splits", splits)):
        if text:
            (folder / f"{name}.csv").write_text(text, encoding="utf-8")
            files[name] = str(folder / f"{name}.csv")
    return read_long(LongParams(**{"venue": "us_equity", **files, **params}))


def by_kind(raw: RawMarket) -> dict[str, Finding]:
    return {finding.kind: finding for finding in check(raw)}


def test_stocks_and_coins_become_one_market(tmp_path: Path) -> None:
    raw = read(tmp_path)
    market = assemble(raw)
    assert market.codes == ("BTC-USD", "ORLY")
    assert market.instruments == (Instrument("crypto", "USD", "crypto_spot"), Instrument("stock", "USD", "us_equity"))
    assert market.names == ("Bitcoin", "O'Reilly")
    assert market.volume[:, 0].tolist() == [0.5, 0.25, 0.25, 0.25]
    assert np.isnan(market.close[1]).tolist() == [False, True]  # Saturday
    assert market.indices == {}
    # Without a factor the split is a loss that nobody had, and the check says so.
    assert by_kind(raw)["split_like_moves"].examples == ("ORLY 2025-06-10",)
    assert "gaps" not in by_kind(raw)


def test_splits_make_the_factor(tmp_path: Path) -> None:
    market = assemble(read(tmp_path, splits=SPLITS))
    assert market.meta.has_factor
    assert market.factor.T.tolist() == [[1, 1, 1, 1], [1, 1, 1, 15]]
    assert market.adjusted_close[[0, 2, 3], 1].tolist() == [1354.5, 1344, 1354.5]  # 90.3 * 15
    assert market.meta.notes[1] == "factors are those of 1 splits in splits.csv; dividends are in none"
    assert "split_like_moves" not in by_kind(read(tmp_path, splits=SPLITS))


@on_each_row
def test_what_can_not_be_read_is_one_clear_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    whole = {"bars": BARS, "assets": ASSETS, "splits": SPLITS}
    with pytest.raises(KtdevalError, match=message) as caught:
        assemble(read(tmp_path, **{name: changed(whole.get(name, ""), change) for name, change in changes.items()}))
    assert "\n" not in str(caught.value)


def test_closes_alone_and_a_code_of_the_bars_as_index(tmp_path: Path) -> None:
    bars = "date,code,close\n2025-08-01,MSFT,524.1\n2025-08-04,MSFT,535.6\n2025-08-01,SPY,621.7\n2025-08-04,SPY,631.2\n"
    same = f"{tmp_path}/../{tmp_path.name}/bars.csv"  # the file is the bars' own, however its path is written
    market = assemble(read(tmp_path, bars, "", benchmark=same, benchmark_code="SPY", kind="etf"))
    assert (list(market.indices), market.benchmark.tolist()) == (["SPY"], [621.7, 631.2])
    assert market.close_only.all()
    assert set(market.kinds) == {"etf"}
    assert np.isnan(market.volume).all()
    assert "missing_volume_rows" not in by_kind(raw_from_snapshot(market))
    # A-shares need opens and volumes.
    with pytest.raises(DataError, match="no column for 'open'"):
        read(tmp_path, bars, "", venue="a_share")


@pytest.fixture(scope="module")
def folders(shared_data: Path) -> tuple[Path, Path]:
    return shared_data / "us_daily" / "nasdaq100_daily.csv.gz", shared_data / "crypto_daily" / "crypto10_daily.csv.gz"


@pytest.mark.shared_data
def test_the_nasdaq_is_what_its_notes_say(folders: tuple[Path, Path], tmp_path: Path) -> None:
    raw = read_long(LongParams(bars=str(folders[0]), venue="us_equity"))
    market, findings = assemble(raw), by_kind(raw)
    assert (len(market.codes), len(market.days), market.days_a_year) == (102, 106, 252)
    assert np.isfinite(market.close).all()
    assert {finding.kind for finding in findings.values() if finding.severity == "error"} == set()
    assert {"calendar_mismatch", "gaps"}.isdisjoint(findings)
    assert findings["split_like_moves"].examples == ("ORLY 2025-06-10",)  # and neither SNPS nor TTD
    column, row = market.codes.index("ORLY"), market.day_index("2025-06-10")
    assert round(float(market.adjusted_close[row, column] / market.adjusted_close[row - 1, column] - 1), 3) == -0.932
    (tmp_path / "splits.csv").write_text("code,date,ratio\nORLY,2025-06-10,15\n")
    split = read_long(LongParams(bars=str(folders[0]), venue="us_equity", splits=str(tmp_path / "splits.csv")))
    adjusted = assemble(split).adjusted_close[:, column]
    assert round(float(adjusted[row] / adjusted[row - 1] - 1), 4) == 0.0204  # 91.71 * 15 / 1348.1
    assert np.array_equal(assemble(split).close, market.close)
    assert "split_like_moves" not in by_kind(split)


def real_mixed(folders: tuple[Path, Path], out: Path) -> RawMarket:
    tables = [pd.read_csv(path, dtype={"date": str}) for path in folders]
    rows = pd.concat([tables[0][tables[0]["code"] == "TSLA"], tables[1][tables[1]["code"] == "BTC"]])
    rows[rows["date"].between("2025-06-02", "2025-10-30")].to_csv(out / "bars.csv", index=False)
    (out / "assets.csv").write_text("code,venue\nBTC,crypto_spot\n")
    return read_long(LongParams(bars=str(out / "bars.csv"), industry=str(out / "assets.csv"), venue="us_equity"))


@pytest.mark.shared_data
def test_coins_and_a_mixed_market_have_their_own_days(folders: tuple[Path, Path], tmp_path: Path, terminal: Terminal) -> None:
    words = ["data", "import", "long", "--bars", str(folders[1]), "--venue", "crypto_spot", "--last", "2025-11-15"]
    assert main([*words, "--out", str(tmp_path / "coins")]) == 0
    facts = json.loads(terminal.out("data", "info", tmp_path / "coins", "--json"))
    assert {name: facts[name] for name in ("days", "assets", "kinds", "currency", "days_a_year", "benchmark")} == {
        "days": 360, "assets": 10, "kinds": {"crypto": 10}, "currency": "USD", "days_a_year": 365, "benchmark": "none",
    }  # fmt: skip
    mixed = assemble(real_mixed(folders, tmp_path))
    assert (len(mixed.days), mixed.days_a_year) == (151, 365)  # every day from 2 June to 30 October
    with gzip.open(folders[0], "rt") as file:
        sessions = {line[:10] for line in file if ",TSLA," in line}
    traded = np.isfinite(mixed.close)
    assert {str(day) for day in mixed.days[traded[:, 1]]} == sessions
    assert traded[:, 0].all()
    assert {"gaps", "calendar_mismatch", "split_like_moves"}.isdisjoint(by_kind(real_mixed(folders, tmp_path)))
