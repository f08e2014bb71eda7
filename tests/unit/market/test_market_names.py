"""Names and codes with their days: what is shown on a day is what was in use by then."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from ktdeval.errors import DataError
from ktdeval.market.assembly import assemble
from ktdeval.market.quality import RawMarket, check, raw_from_snapshot
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.market.storage import load_snapshot, save_snapshot, with_id
from ktdeval.masking.identities import LeakGuard
from ktdeval.masking.lens import MASK_KINDS, Lens, MaskConfig
from ktdeval.masking.payload import AssetName, AssetRef
from raw_market import bars, market

CODES = ("302132.SZ", "600519.SH", "601211.SH")
ROWS = [
    ("601211.SH", "1900-01-01", "2024-01-04", "国泰君安", "601211.SH"),
    ("601211.SH", "2024-01-05", "2200-01-01", "国泰海通", "601211.SH"),
    ("302132.SZ", "1900-01-01", "2024-01-04", "中航电测", "300114.SZ"),
    ("302132.SZ", "2024-01-05", "2200-01-01", "中航成飞", "302132.SZ"),
]
BEFORE, AFTER = 2, 3  # rows of 2024-01-04 and 2024-01-05


def dated(rows: list[tuple[str, str, str, str, str]] = ROWS) -> RawMarket:
    names = pd.DataFrame(rows, columns=["code", "first", "last", "name", "code_then"])
    assets = pd.DataFrame({"code": CODES, "name": ["中航成飞", "贵州茅台", "国泰海通"], "industry": ["航空", "白酒", "证券"]})
    members = pd.DataFrame({"code": CODES, "first": pd.Timestamp("2024-01-02"), "last": pd.Timestamp("2024-01-08")})
    names = names.astype({"first": "datetime64[s]", "last": "datetime64[s]"})
    return market(bars(CODES), names=names, assets=assets, members=members, synthetic=False)


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return with_id(assemble(dated()))


def test_names_and_codes_are_those_of_the_day(snapshot: MarketSnapshot) -> None:
    assert [snapshot.called(2, row)[1] for row in (BEFORE, AFTER)] == ["国泰君安", "国泰海通"]
    assert [snapshot.called(0, row) for row in (BEFORE, AFTER)] == [("300114.SZ", "中航电测"), ("302132.SZ", "中航成飞")]
    assert snapshot.called(1, BEFORE) == ("600519.SH", "600519.SH"), "today's name is not taken for one of another day"
    assert snapshot.as_of(BEFORE).names == ("中航电测", "600519.SH", "国泰君安")
    assert [snapshot.asset_of(code, BEFORE) for code in ("300114.SZ", "302132.SZ", "601211.SH", "000001.SZ")] == [0, None, 2, None]
    assert [snapshot.asset_of(code, AFTER) for code in ("300114.SZ", "302132.SZ", "601211.SH")] == [0, 0, 2]
    assert [snapshot.canonical(code) for code in ("300114.SZ", "302132.SZ", "000001.SZ")] == ["302132.SZ", "302132.SZ", "000001.SZ"]
    undated = dataclasses.replace(snapshot, spells=())
    assert undated.called(2, BEFORE) == ("601211.SH", "国泰海通")


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_a_lens_shows_no_later_name_or_code_and_guards_all_of_them(snapshot: MarketSnapshot, kind: str) -> None:
    lens = Lens(MaskConfig(kind), 7, snapshot, BEFORE)  # type: ignore[arg-type]
    shown = []
    for row in (BEFORE, AFTER):
        lens.move_to(row)
        shown.append(lens.render([AssetRef(0), AssetName(0), AssetName(2)]))
        assert lens.parse_asset(shown[-1][0]) == 0
    if kind in ("bright", "date_blind"):
        assert shown == [["300114.SZ", "中航电测", "国泰君安"], ["302132.SZ", "中航成飞", "国泰海通"]]
        assert lens.parse_asset("300114") == 0, "an order may still name the code shown before"
        assert Lens(MaskConfig(kind), 7, snapshot, BEFORE).parse_asset("302132") is None  # type: ignore[arg-type]
    else:
        assert shown[0] == shown[1]
        assert shown[0][1:] == [None, None]
        for text in ("buy 300114 now", "国泰君安", "中航电测", "国泰海通", "302132.SZ"):
            assert LeakGuard(lens, snapshot).redact(text) != text, text


def test_dated_names_are_stored_and_part_of_the_identity_and_a_market_without_them_keeps_its_own(
    snapshot: MarketSnapshot, tmp_path: Path
) -> None:
    plain = with_id(dataclasses.replace(snapshot, spells=()))
    assert plain.id == with_id(assemble(dataclasses.replace(dated(), names=dated([]).names))).id != snapshot.id
    save_snapshot(snapshot, tmp_path / "m")
    loaded = load_snapshot(tmp_path / "m")
    assert (loaded.spells, loaded.id) == (snapshot.spells, snapshot.id)
    assert len(loaded.spells) == len(ROWS)
    assert check(raw_from_snapshot(loaded)) == check(dated())
    table = pq.read_table(tmp_path / "m" / "names.parquet")
    pq.write_table(table.slice(1), tmp_path / "m" / "names.parquet")
    with pytest.raises(DataError, match=r"names\.parquet: spells differ"):
        load_snapshot(tmp_path / "m")
    save_snapshot(plain, tmp_path / "plain")
    assert not (tmp_path / "plain" / "names.parquet").exists()
    assert "spells" not in (tmp_path / "plain" / "manifest.json").read_text()


def test_what_is_known_of_one_day_only_is_named() -> None:
    counts = {finding.kind: (finding.severity, finding.count) for finding in check(dated([]))}
    assert counts["names_of_one_day"] == ("warning", 3)
    assert counts["industries_of_one_day"] == ("info", 3)
    assert "names_of_one_day" not in {finding.kind for finding in check(dated())}
    early = bars(CODES, days=("2020-08-20", "2020-08-21", "2020-08-24"))
    (limits,) = (finding for finding in check(dataclasses.replace(dated(), bars=early)) if finding.kind == "limits_of_later_years")
    assert limits.count == 2
    assert "assets_without_industry" not in counts
    lost = dated([]).assets.replace({"code": {dated([]).assets["code"].iloc[0]: "1"}})  # a code whose zeros a table calculator lost
    (left,) = (
        finding for finding in check(dataclasses.replace(dated([]), assets=lost)) if finding.kind == "assets_without_industry"
    )
    assert (left.severity, left.examples) == ("warning", (dated([]).assets["code"].iloc[0],))
    assert not {"names_of_one_day", "industries_of_one_day"} & {finding.kind for finding in check(market())}, "a synthetic one"


@pytest.mark.parametrize("days", [("2024-01-01", "2024-01-09"), ("2025-01-09", "2024-01-08")])
def test_dated_names_that_contradict_each_other_are_refused(days: tuple[str, str]) -> None:
    raw = dated([*ROWS, ("601211.SH", *days, "another", "601211.SH")])
    with pytest.raises(DataError, match="name_days_overlap"):
        assemble(raw)
