from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import DataError
from ktdeval.market import raw as tables
from ktdeval.market.assembly import assemble
from ktdeval.market.quality import check
from ktdeval.market.snapshot import BAR_FIELDS
from raw_market import CODES, bars, changed, market, same, without


def test_rows_become_a_grid_of_days_and_codes() -> None:
    snapshot = assemble(market(changed("600519.SH", "2024-01-04", close=10.15).sample(frac=1, random_state=3)))
    assert snapshot.days.astype(str).tolist()[2] == "2024-01-04"
    assert snapshot.codes == CODES
    assert snapshot.close[2].tolist() == [10.1, 10.15, 10.1]
    assert snapshot.benchmark.tolist() == [100, 101, 102, 103, 104]
    assert snapshot.names == ("Ping An", "Moutai", "SMIC")
    assert snapshot.index_names == {"000688.SH": "STAR50"}
    assert snapshot.member.all()
    assert snapshot.id == ""


def test_a_suspended_day_has_no_price_and_no_volume_but_is_recorded() -> None:
    table = bars().assign(traded=True)
    table.loc[(table["code"] == "600519.SH") & (table["date"] == "2024-01-04"), "traded"] = False
    snapshot = assemble(market(table))
    assert all(np.isnan(getattr(snapshot, name)[2, 1]) for name in ("open", "high", "low", "close", "amount"))
    assert snapshot.volume[2, 1] == 0
    assert np.isfinite(snapshot.close).sum() == 14


def test_a_day_without_a_row_is_no_record_at_all() -> None:
    snapshot = assemble(market(without("600519.SH", "2024-01-04")))
    assert np.isnan(snapshot.close[2, 1])
    assert np.isnan(snapshot.volume[2, 1])


def test_the_factor_holds_until_it_changes_and_is_one_before_the_first_bar() -> None:
    table = without("600519.SH", "2024-01-02", "2024-01-04")
    table.loc[table["code"] == "600519.SH", "factor"] = [2.0, 3.0, 3.000001]
    factor = assemble(market(table)).factor[:, 1]
    assert factor.tolist() == [1.0, 2.0, 2.0, 3.0, 3.000001]


def test_prices_of_single_precision_become_whole_fen_unless_they_are_adjusted() -> None:
    table = bars().assign(close=np.float32(10.1).astype(np.float64))
    assert table["close"].iloc[0] != 10.1
    assert (assemble(market(table)).close == 10.1).all()
    snapshot = assemble(market(bars().assign(close=10.12345, factor=np.nan), has_factor=False))
    assert not snapshot.meta.has_factor
    assert snapshot.close[0, 0] == 10.12345
    assert (snapshot.factor == 1).all()


def test_members_without_bars_have_a_column_without_prices() -> None:
    members = pd.concat([market().members, market().members.iloc[:1].assign(code="600837.SH")])
    snapshot = assemble(market(members=members))
    column = snapshot.asset_index["600837.SH"]
    assert snapshot.member[:, column].all()
    assert np.isnan(snapshot.close[:, column]).all()
    assert snapshot.names[column] == "600837.SH"
    assert snapshot.industries[column] == "unknown"
    assert (snapshot.factor[:, column] == 1).all()


def test_faults_are_refused_with_count_example_and_repair() -> None:
    table = pd.concat([changed("600519.SH", "2024-01-04", high=1.0), bars().iloc[:2]], ignore_index=True)
    with pytest.raises(DataError) as caught:
        assemble(market(table))
    message = str(caught.value)
    assert "2 duplicate_rows (first: 000001.SZ 2024-01-02), fixed by --repair drop_duplicates" in message
    assert "1 impossible_bars (first: 600519.SH 2024-01-04), fixed by --repair drop_impossible" in message
    assert "\n" not in message


def test_a_repair_of_one_fault_does_not_let_another_through() -> None:
    table = pd.concat([changed("600519.SH", "2024-01-04", high=1.0), bars().iloc[:2]], ignore_index=True)
    with pytest.raises(DataError, match="impossible_bars"):
        assemble(market(table), ["drop_duplicates"])
    snapshot = assemble(market(table), ["drop_impossible", "drop_duplicates"])
    assert snapshot.meta.repairs == ("drop_duplicates: 2 rows", "drop_impossible: 1 rows")
    assert np.isnan(snapshot.close[2, 1])


def test_the_order_in_which_repairs_are_named_does_not_matter() -> None:
    table = pd.concat([changed("600519.SH", "2024-01-04", high=np.nan), bars().iloc[:2]], ignore_index=True)
    names = ["derive_high_low", "drop_impossible", "drop_duplicates"]
    left, right = (assemble(market(table), order) for order in (names, [names[2], names[1], names[0]]))
    assert left.meta == right.meta
    assert left.high[2, 1] == right.high[2, 1] == 10.1


def test_a_benchmark_that_starts_too_late_can_not_be_filled() -> None:
    raw = market(indices=market().indices.iloc[1:])
    with pytest.raises(DataError, match=r"1 benchmark_gaps \(first: 2024-01-02\)"):
        assemble(raw, ["fill_indices"])


def test_index_levels_outside_the_days_of_the_bars_are_left_out() -> None:
    more = pd.DataFrame({"date": pd.to_datetime(["2023-12-29", "2024-01-09"]), "code": "000688.SH", "close": 1.0})
    assert assemble(market(indices=pd.concat([more, market().indices]))).benchmark.tolist() == [100, 101, 102, 103, 104]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_bars_with_infinite_prices_are_dropped_without_a_warning() -> None:
    endless = bars().assign(close=lambda table: table["close"].where(table["code"] != "600519.SH", np.inf), amount=np.nan)
    made = assemble(market(endless), ("round_prices", "fill_amount", "drop_impossible"))
    assert np.isnan(made.close[:, made.asset_index["600519.SH"]]).all()


def many(days: int, codes: int, faults: float = 0.0) -> pd.DataFrame:
    """Bars day by day, with a fault of most kinds here and there."""
    rng, shape = np.random.default_rng(5), days * codes
    day = np.repeat(np.arange(np.datetime64("2023-01-02"), np.datetime64("2023-01-02") + np.timedelta64(days, "D")), codes)
    table = pd.DataFrame({"date": day, "code": [f"{600000 + code}.SH" for code in range(codes)] * days})
    close = np.round(rng.uniform(8, 12, shape), 2)
    table = table.assign(open=close, high=close + 0.1, low=close - 0.1, close=close, volume=np.round(rng.uniform(0, 9e5, shape)))
    table = table.assign(amount=table["volume"] * close, factor=1.0, traded=rng.random(shape) > faults)
    for name in BAR_FIELDS:
        for wrong in (np.nan, 0.0, -1.0, 11.5):
            table.loc[rng.random(shape) < faults, name] = wrong
    return table


def test_parts_of_any_size_give_the_same_findings_and_the_same_market(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = market(pd.concat([many(60, 30, 0.002), many(1, 3)], ignore_index=True))
    days = pd.DataFrame({"date": raw.table.days, "code": raw.benchmark, "close": 1.0})
    raw = dataclasses.replace(raw, indices=days, members=raw.members[:0])
    repairs = ("drop_duplicates", "derive_high_low", "drop_impossible", "fill_factor")
    findings, made = check(raw), assemble(raw, repairs)
    assert len(findings) > 10
    monkeypatch.setattr(tables, "_PART", 100)
    raw = dataclasses.replace(raw)
    assert check(raw) == findings
    again = assemble(raw, repairs)
    assert all(same(getattr(again, name), getattr(made, name)) for name in BAR_FIELDS)


def test_beside_the_source_an_import_holds_little_more_than_its_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_PART", 2**12)
    raw = market(many(500, 200).astype({"code": "category"}))
    raw = dataclasses.replace(raw, indices=raw.bars[["date", "code", "close"]][::200].assign(code=raw.benchmark))
    assemble(market())  # so that what it imports is not counted
    tracemalloc.start()
    made = assemble(raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    grids = sum(getattr(made, name).nbytes for name in BAR_FIELDS)
    assert grids < peak < 2 * grids
