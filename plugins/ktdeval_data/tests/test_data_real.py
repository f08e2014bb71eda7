"""Real prices beside the checkout: what the notes that came with them say is what import and check
find.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import DataError
from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from qlib_writer import write_qlib
from support.accept.accept_runs import REAL
from support.market.raw_market import findings_of

pytestmark = pytest.mark.shared_data


def params(folder: Path, **changes: object) -> LongParams:
    mapping = {name: f"raw_{name}" for name in ("open", "high", "low", "close")}
    return LongParams(
        **{**{name: str(folder / file) for name, file in REAL.items()}, "map": mapping, **changes}
    )


@pytest.fixture(scope="module")
def raw(shared_data: Path) -> RawMarket:
    return read_long(params(shared_data / "a_share"))


@pytest.fixture(scope="module")
def snapshot(raw: RawMarket) -> MarketSnapshot:
    return assemble(raw)


def test_the_check_finds_what_the_notes_list_also_when_stored(
    raw: RawMarket, snapshot: MarketSnapshot, tmp_path: Path
) -> None:
    # The check finds what the notes list.
    findings = check(raw)
    found = findings_of(raw)

    assert [example[:9] for example in found["unpriced_members"].examples] == [
        "600837.SH",
        "601989.SH",
    ]

    counts = {"unpriced_members": 2, "codes_without_amount": 22, "suspended_rows": 380}
    assert {kind: found[kind].count for kind in counts} == counts
    assert not [finding for finding in findings if finding.level == "error"]

    # The stored snapshot gives the same findings.
    save_snapshot(snapshot, tmp_path / "m")
    assert check(raw_from_snapshot(load_snapshot(tmp_path / "m"))) == findings


def test_the_benchmark_returns_as_noted_over_the_long_window(snapshot: MarketSnapshot) -> None:
    start, stop = window_rows(snapshot.days, "2024-01-01", "2026-04-10")
    assert stop - start == 548
    assert snapshot.benchmark[stop - 1] / snapshot.benchmark[start - 1] == 4636.5654 / 3431.1099


def test_every_day_has_three_hundred_members(snapshot: MarketSnapshot) -> None:
    assert (snapshot.member.sum(axis=1) == 300).all()


@pytest.mark.parametrize(
    ("day", "n_priced"),
    [
        ("2022-12-12", 298),
        ("2025-06-13", 298),
        ("2025-06-16", 299),
        ("2025-12-12", 299),
        ("2025-12-15", 300),
    ],
)
def test_as_many_members_are_priced_as_noted(
    snapshot: MarketSnapshot, day: str, n_priced: int
) -> None:
    priced = np.isfinite(snapshot.close).any(axis=0)
    assert (snapshot.member[snapshot.day_index(day)] & priced).sum() == n_priced


def test_adjusted_prices_are_unadjusted_or_refused(
    shared_data: Path, snapshot: MarketSnapshot
) -> None:
    # Adjusted prices give the same unadjusted ones.
    other = assemble(read_long(params(shared_data / "a_share", map={}, prices="adjusted")))
    for name in ("open", "high", "low", "close"):
        assert np.array_equal(getattr(other, name), getattr(snapshot, name), equal_nan=True), name

    # Adjusted prices taken for unadjusted ones are refused.
    with pytest.raises(DataError, match="prices_look_adjusted"):
        assemble(read_long(params(shared_data / "a_share", map={})))


@pytest.mark.parametrize("stored", ["raw", "divided"])
def test_partial_qlib_folder_yields_the_same_market_in_either_volume_form(
    shared_data: Path, snapshot: MarketSnapshot, tmp_path: Path, stored: str
) -> None:
    fields = {"open", "high", "low", "close", "volume", "amount", "factor"}
    bars = pd.read_parquet(
        shared_data / "a_share" / "csi300_ever_daily.parquet",
        columns=["date", "code", "traded", *fields],
    )
    own = snapshot.codes[::8]
    bars = bars[bars["traded"] & bars["code"].isin(own)]

    if stored == "divided":
        bars["volume"] /= bars["factor"]

    features = {"SH000300": {"close": (0, snapshot.benchmark.tolist())}}
    for code, rows in bars.groupby("code"):
        grid = rows.set_index("date").reindex(pd.DatetimeIndex(snapshot.days))
        features[f"{code[7:]}{code[:6]}"] = {name: (0, grid[name].tolist()) for name in fields}

    features["SH000688"] = features.pop("SH000300")  # 46 names are no CSI300
    spells = pd.read_csv(shared_data / "a_share" / "csi300_members_by_rebalance.csv")
    members = [
        (f"{one.code[7:]}{one.code[:6]}", one.in_date, one.out_date)
        for one in spells.itertuples()
        if one.code in own
    ]
    write_qlib(tmp_path / "q", [str(day) for day in snapshot.days], features, {"csi300": members})
    words = [
        "--folder",
        str(tmp_path / "q"),
        "--universe",
        "csi300",
        "--benchmark-code",
        "000688",
        "--out",
        str(tmp_path / "m"),
    ]

    assert main(["data", "make", "qlib", *words]) == 0

    read = load_snapshot(tmp_path / "m")
    columns = [snapshot.asset_index[code] for code in read.codes]
    expected = snapshot.volume[:, columns]
    traded = np.isfinite(read.close)

    assert np.allclose(read.volume[traded], expected[traded], rtol=1e-6)

    for name in ("open", "high", "low", "close", "member"):
        assert np.array_equal(
            getattr(read, name), getattr(snapshot, name)[:, columns], equal_nan=name != "member"
        ), name

    np.testing.assert_allclose(read.factor, snapshot.factor[:, columns], rtol=1e-6)
    known = traded & np.isfinite(snapshot.amount[:, columns])
    np.testing.assert_allclose(read.amount[known], snapshot.amount[:, columns][known], rtol=1e-6)


def test_filled_amounts_are_near_the_known_ones_and_recorded(raw: RawMarket) -> None:
    filled = assemble(raw, ["fill_amount"])
    assert filled.meta.repairs == ("fill_amount: 104106 rows",)

    traded = filled.volume > 0
    assert np.isfinite(filled.amount[traded]).all()

    ratio = filled.amount[traded] / (filled.volume[traded] * filled.close[traded])
    assert 0.9 < np.percentile(ratio, 0.1) < np.percentile(ratio, 99.9) < 1.1


def test_another_vendors_units_give_the_same_bars(shared_data: Path) -> None:
    folder = shared_data / "a_share_sse50"
    common = {"benchmark": str(folder / "index_sse50_daily.csv.gz"), "benchmark_code": "000016.SH"}
    lots = read_long(
        LongParams(
            bars=str(folder / "daily_prices_sse_50.csv"),
            members=str(folder / "sse_50_weight.csv"),
            volume_unit="lot",
            amount_unit="thousand_CNY",
            **common,
        )
    )
    shares = read_long(LongParams(bars=str(folder / "sse50_daily.csv.gz"), **common))
    both = pd.merge(lots.bars, shares.bars, on=["date", "code"])

    assert len(both) > 1000

    for name in ("open", "high", "low", "close", "volume"):
        assert np.isclose(both[f"{name}_x"], both[f"{name}_y"], rtol=1e-6).mean() > 0.99, name

    average = lots.bars["amount"] / lots.bars["volume"]

    assert ((average > lots.bars["low"] * 0.99) & (average < lots.bars["high"] * 1.01)).all()
    # Its reference prices give a factor; `change` and `pct_chg` are named as not read.
    assert set(findings_of(lots)) == {"import_notes", "short_history"}


def test_hourly_bars_are_refused(shared_data: Path) -> None:
    folder = shared_data / "a_share_sse50"
    with pytest.raises(DataError, match="'2025-10-09 10:30' is not a day"):
        read_long(
            LongParams(
                bars=str(folder / "A_stock_hourly.csv"),
                benchmark=str(folder / "index_sse50_daily.csv.gz"),
            )
        )
