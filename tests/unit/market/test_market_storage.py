"""A stored snapshot: its identity, tampering, and what is left behind. Names and codes with their
days: what is shown on a day is what was in use by then.
"""

from __future__ import annotations

import dataclasses
import json
import resource
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError, StoreError
from ktdeval.market.snapshots.manifest import (
    differences,
    snapshot_id,
    snapshot_manifest,
    with_id,
)
from ktdeval.market.snapshots.snapshot import BAR_FIELDS, Instrument, MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MASK_KINDS, MaskConfig
from ktdeval.masking.payload_types import AssetName, AssetRef
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from support.market.raw_market import DAYS, bars, findings_of, market, same, without
from support.searching import examples


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return assemble(market(without("600519.SH", "2024-01-04")))


@pytest.fixture(scope="module")
def us_market(snapshot: MarketSnapshot) -> MarketSnapshot:
    instruments = (Instrument("stock", "USD", "us_equity"),) * len(snapshot.codes)
    return dataclasses.replace(snapshot, instruments=instruments)


def with_cell(
    snapshot: MarketSnapshot, name: str, row: int, column: int, value: float
) -> MarketSnapshot:
    array = getattr(snapshot, name).copy()
    array[row, column] = value
    return dataclasses.replace(snapshot, **{name: array})


def with_meta(snapshot: MarketSnapshot, **facts: object) -> MarketSnapshot:
    return dataclasses.replace(snapshot, meta=dataclasses.replace(snapshot.meta, **facts))


def edit_table(path: Path, **cells: tuple[int, object]) -> None:
    table = pd.read_parquet(path)
    for name, (row, value) in cells.items():
        table.loc[row, name] = value

    table.to_parquet(path)


def test_a_loaded_snapshot_equals_the_saved_one(snapshot: MarketSnapshot, tmp_path: Path) -> None:
    saved = save_snapshot(snapshot, tmp_path / "deep" / "market")
    loaded = load_snapshot(tmp_path / "deep" / "market")

    assert saved.id == loaded.id == snapshot_id(snapshot) == with_id(snapshot).id

    for name in ("days", *BAR_FIELDS, "member"):
        assert same(getattr(snapshot, name), getattr(loaded, name)), name

    for name in ("meta", "codes", "names", "industries", "index_names"):
        assert getattr(snapshot, name) == getattr(loaded, name), name

    assert same(snapshot.benchmark, loaded.benchmark)
    assert np.isnan(loaded.close[2, 1])


@given(
    name=st.sampled_from(BAR_FIELDS),
    row=st.integers(0, 4),
    column=st.integers(0, 2),
    value=st.floats(allow_infinity=False, width=64) | st.just(float("nan")),
)
@examples(30)
def test_the_identity_changes_with_any_value_and_the_difference_is_named(
    snapshot: MarketSnapshot, name: str, row: int, column: int, value: float
) -> None:
    changed = with_cell(snapshot, name, row, column, value)
    lines = differences(snapshot_manifest(snapshot), changed)
    before = getattr(snapshot, name)[row, column]

    if value == before or (np.isnan(value) and np.isnan(before)):
        assert snapshot_id(changed) == snapshot_id(snapshot)
        assert lines == []
    else:
        assert snapshot_id(changed) != snapshot_id(snapshot)
        assert lines == [f"bars.parquet: {name} differs, first on {snapshot.days[row]}"]


def test_the_identity_is_of_content_not_of_how_it_is_held(snapshot: MarketSnapshot) -> None:
    negative_nan = np.copysign(np.nan, -1)
    held = {
        name: np.asfortranarray(
            np.where(np.isnan(grid := getattr(snapshot, name)), negative_nan, grid)
        )
        for name in BAR_FIELDS
    }

    assert snapshot_id(dataclasses.replace(snapshot, **held, id="x")) == snapshot_id(snapshot)

    zero = with_cell(snapshot, "volume", 2, 1, 0.0)
    minus_zero = with_cell(snapshot, "volume", 2, 1, -0.0)

    assert snapshot_id(zero) == snapshot_id(minus_zero)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"names": ("Ping An", "Moutai", "Other")}, "assets.parquet: names differ"),
        ({"industries": ("bank", "liquor", "steel")}, "assets.parquet: industries differ"),
        ({"codes": ("000001.SZ", "600519.SH", "688999.SH")}, "assets.parquet: codes differ"),
        ({"index_names": {"000688.SH": "X"}}, "manifest.json: index_names differ"),
        (
            {"indices": {"000688.SH": np.array([100.0, 101, 102, 99, 104])}},
            "indices.parquet: 000688.SH differs, first on 2024-01-05",
        ),
        (
            {"indices": {"000688.SH": np.arange(5.0), "000300.SH": np.ones(5)}},
            "indices.parquet: 000300.SH is new",
        ),
        ({"days": np.array([*DAYS[:4], "2024-01-09"], "M8[D]")}, "bars.parquet: days differ"),
    ],
)
def test_everything_else_is_part_of_the_identity_too(
    snapshot: MarketSnapshot, change: dict[str, object], line: str
) -> None:
    changed = dataclasses.replace(snapshot, **change)
    assert snapshot_id(changed) != snapshot_id(snapshot)
    assert line in differences(snapshot_manifest(snapshot), changed)


@pytest.mark.parametrize("fact", ["synthetic", "has_factor", "placebo"])
def test_facts_are_part_of_the_identity(snapshot: MarketSnapshot, fact: str) -> None:
    changed = with_meta(snapshot, **{fact: not getattr(snapshot.meta, fact)})

    assert snapshot_id(changed) != snapshot_id(snapshot)
    assert differences(snapshot_manifest(snapshot), changed) == [
        f"manifest.json: meta.{fact} differs"
    ]


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.exhaustive
@given(
    name=WORDS,
    source=WORDS,
    repairs=st.lists(WORDS, max_size=3),
    notes=st.lists(WORDS, max_size=3),
    summary=WORDS,
)
@examples(40)
def test_labels_never_change_the_identity(
    us_market: MarketSnapshot,
    name: str,
    source: str,
    repairs: list[str],
    notes: list[str],
    summary: str,
) -> None:
    labels = {"repairs": tuple(repairs), "notes": tuple(notes)}
    labelled = with_meta(us_market, name=name, source=source, **labels)
    rules = {
        venue: dataclasses.replace(rule, summary=summary) for venue, rule in us_market.rules.items()
    }
    relabelled = dataclasses.replace(labelled, rules=rules)

    assert snapshot_id(relabelled) == snapshot_id(us_market)
    assert differences(snapshot_manifest(us_market), relabelled) == []


def test_a_rule_or_an_instrument_of_a_venue_is_part_of_the_identity(
    us_market: MarketSnapshot,
) -> None:
    rule = us_market.rules["us_equity"]
    dearer = dataclasses.replace(
        us_market, rules={"us_equity": dataclasses.replace(rule, settlement_lock=True)}
    )
    funds = dataclasses.replace(
        us_market, instruments=(Instrument("etf", "USD", "us_equity"),) * len(us_market.codes)
    )

    assert len({snapshot_id(us_market), snapshot_id(dearer), snapshot_id(funds)}) == 3
    assert differences(snapshot_manifest(us_market), dearer) == ["manifest.json: venues differ"]


def test_one_market_under_two_names_has_one_id_and_two_labels(
    snapshot: MarketSnapshot,
    tmp_path: Path,
) -> None:
    other = with_meta(snapshot, name="other", source="another vendor")
    first = save_snapshot(snapshot, tmp_path / "first")
    second = save_snapshot(other, tmp_path / "second")

    assert first.id == second.id == load_snapshot(tmp_path / "second").id
    assert load_snapshot(tmp_path / "first").meta == snapshot.meta
    assert load_snapshot(tmp_path / "second").meta == other.meta

    # A folder keeps the labels that it has, and says so.
    with pytest.raises(
        StoreError, match=r"contains the same market .* as 'tiny', with another name; use it"
    ):
        save_snapshot(other, tmp_path / "first")

    with pytest.raises(
        StoreError, match=r"contains the same market .* as 'tiny', without recipe\.yaml"
    ):
        save_snapshot(snapshot, tmp_path / "first", {"recipe.yaml": b""})


def test_the_order_of_rows_and_columns_does_not_change_the_identity(
    snapshot: MarketSnapshot,
) -> None:
    raw = market(without("600519.SH", "2024-01-04"))
    shuffled = dataclasses.replace(raw, bars=raw.bars.sample(frac=1.0, random_state=1))
    reordered = dataclasses.replace(
        raw, bars=raw.bars[raw.bars.columns[::-1]], assets=raw.assets[::-1]
    )

    assert (
        snapshot_id(assemble(shuffled)) == snapshot_id(assemble(reordered)) == snapshot_id(snapshot)
    )


def test_columns_out_of_order_are_refused(snapshot: MarketSnapshot) -> None:
    with pytest.raises(DataError, match="codes are not in ascending order"):
        dataclasses.replace(snapshot, codes=snapshot.codes[::-1])


TAMPERED = [
    (
        "bars",
        {"close": (10, 99.0), "open": (4, 1.0)},
        r"bars.parquet: close differs, first on 2024-01-05 \(and 1 more\)",
    ),
    ("assets", {"name": (0, "Somebody")}, r"assets\.parquet: names differ"),
    ("indices", {"close": (2, 1.0)}, r"indices\.parquet: 000688\.SH differs, first on 2024-01-04"),
]


@pytest.mark.parametrize(("table", "cells", "message"), TAMPERED)
def test_tampering_with_a_table_is_caught_with_field_and_day(
    snapshot: MarketSnapshot,
    tmp_path: Path,
    table: str,
    cells: dict[str, tuple[int, object]],
    message: str,
) -> None:
    save_snapshot(snapshot, tmp_path / "m")
    edit_table(tmp_path / "m" / f"{table}.parquet", **cells)
    with pytest.raises(DataError, match=f"changed after it was stored: {message}"):
        load_snapshot(tmp_path / "m")


def test_tampering_with_the_manifest_is_caught(snapshot: MarketSnapshot, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    save_snapshot(snapshot, folder)
    manifest = json.loads((folder / "manifest.json").read_text())

    for change, message in [
        ({"id": "0" * 64}, "manifest.json: id differs"),
        ({"version": 99}, "made by a later ktdeval"),
        ({"format": "zip"}, "not the manifest of a market snapshot"),
        ({"meta": {**manifest["meta"], "nmae": "x"}}, "unknown field 'nmae'; did you mean 'name'"),
        (
            {"meta": {**manifest["meta"], "has_factor": False}},
            "content was changed after it was stored: manifest.json: id differs",
        ),
        ({"index_names": 7}, "'index_names' is missing or of another type"),
        ({"statics": []}, "'statics' is missing or of another type"),
    ]:
        (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(DataError, match=message):
            load_snapshot(folder)

    del manifest["arrays"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="'arrays' is missing"):
        load_snapshot(folder)


def test_unreadable_folders_are_one_clear_line(snapshot: MarketSnapshot, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a market snapshot"):
        load_snapshot(tmp_path / "none")

    folder = tmp_path / "m"
    save_snapshot(snapshot, folder)
    for table in ("bars", "indices"):
        whole = (folder / f"{table}.parquet").read_bytes()
        pd.read_parquet(folder / f"{table}.parquet").assign(close="ten").to_parquet(
            folder / f"{table}.parquet"
        )
        with pytest.raises(DataError, match=r"can't read the snapshot: .*string.*'ten'"):
            load_snapshot(folder)

        (folder / f"{table}.parquet").write_bytes(whole)

    (folder / "bars.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(DataError, match="can't read the snapshot"):
        load_snapshot(folder)

    (folder / "bars.parquet").unlink()
    with pytest.raises(DataError, match="can't read the snapshot"):
        load_snapshot(folder)

    (folder / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        load_snapshot(folder)


def test_rows_out_of_order_are_refused(snapshot: MarketSnapshot, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    save_snapshot(snapshot, folder)
    table = pd.read_parquet(folder / "bars.parquet")

    for rows in (table.iloc[::-1], table.iloc[:-1]):
        rows.to_parquet(folder / "bars.parquet", index=False)
        with pytest.raises(DataError, match="not every code on every day"):
            load_snapshot(folder)


def test_saving_keeps_an_equal_snapshot_and_overwrites_nothing_else(
    snapshot: MarketSnapshot, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    save_snapshot(snapshot, folder, {"truth.json": b"{}"})

    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"], "nothing is left beside it"

    names = ["assets.parquet", "bars.parquet", "indices.parquet", "manifest.json", "truth.json"]
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}

    assert sorted(before) == names

    save_snapshot(snapshot, folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before

    (tmp_path / "file").write_text("mine")

    for other, name in ((with_cell(snapshot, "close", 0, 0, 1.0), "m"), (snapshot, "file")):
        with pytest.raises(StoreError, match="exists and is not this snapshot"):
            save_snapshot(other, tmp_path / name)

    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_is_reported_and_leaves_nothing(
    snapshot: MarketSnapshot, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # every file larger than this fails to be written
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StoreError, match="can't write"):
            save_snapshot(snapshot, tmp_path / "m")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_process_are_removed_by_the_next(
    snapshot: MarketSnapshot, tmp_path: Path
) -> None:
    (tmp_path / ".market.new-dead" / "content").mkdir(parents=True)
    (tmp_path / ".market.new-dead" / "content" / "bars.parquet").write_bytes(b"half")
    save_snapshot(snapshot, tmp_path / "market")
    assert [path.name for path in tmp_path.iterdir()] == ["market"]


# ---- names and codes with their days


CODES = ("302132.SZ", "600519.SH", "601211.SH")
ROWS = [
    ("601211.SH", "1900-01-01", "2024-01-04", "国泰君安", "601211.SH"),
    ("601211.SH", "2024-01-05", "2200-01-01", "国泰海通", "601211.SH"),
    ("302132.SZ", "1900-01-01", "2024-01-04", "中航电测", "300114.SZ"),
    ("302132.SZ", "2024-01-05", "2200-01-01", "中航成飞", "302132.SZ"),
]
BEFORE = 2
AFTER = 3  # rows of 2024-01-04 and 2024-01-05


def dated(rows: list[tuple[str, str, str, str, str]] = ROWS) -> RawMarket:
    names = pd.DataFrame(rows, columns=["code", "first", "last", "name", "code_then"])
    assets = pd.DataFrame(
        {
            "code": CODES,
            "name": ["中航成飞", "贵州茅台", "国泰海通"],
            "industry": ["航空", "白酒", "证券"],
        }
    )
    members = pd.DataFrame(
        {"code": CODES, "first": pd.Timestamp("2024-01-02"), "last": pd.Timestamp("2024-01-08")}
    )
    names = names.astype({"first": "datetime64[s]", "last": "datetime64[s]"})

    return market(bars(CODES), names=names, assets=assets, members=members, synthetic=False)


@pytest.fixture(scope="module")
def named() -> MarketSnapshot:
    return with_id(assemble(dated()))


def test_names_and_codes_are_those_of_the_day(named: MarketSnapshot) -> None:
    assert [named.name_asset(2, row)[1] for row in (BEFORE, AFTER)] == ["国泰君安", "国泰海通"]
    assert [named.name_asset(0, row) for row in (BEFORE, AFTER)] == [
        ("300114.SZ", "中航电测"),
        ("302132.SZ", "中航成飞"),
    ]
    assert named.name_asset(1, BEFORE) == (
        "600519.SH",
        "600519.SH",
    ), "today's name is not taken for one of another day"
    assert named.as_of(BEFORE).names == ("中航电测", "600519.SH", "国泰君安")
    assert [
        named.asset_of(code, BEFORE)
        for code in ("300114.SZ", "302132.SZ", "601211.SH", "000001.SZ")
    ] == [0, None, 2, None]
    assert [named.asset_of(code, AFTER) for code in ("300114.SZ", "302132.SZ", "601211.SH")] == [
        0,
        0,
        2,
    ]
    assert [named.canonical(code) for code in ("300114.SZ", "302132.SZ", "000001.SZ")] == [
        "302132.SZ",
        "302132.SZ",
        "000001.SZ",
    ]

    undated = dataclasses.replace(named, spells=())
    assert undated.name_asset(2, BEFORE) == ("601211.SH", "国泰海通")


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_a_lens_shows_no_later_name_or_code_and_guards_all_of_them(
    named: MarketSnapshot, kind: str
) -> None:
    lens = Lens(MaskConfig(kind), 7, named, BEFORE)  # type: ignore[arg-type]
    shown = []
    for row in (BEFORE, AFTER):
        lens.move_to(row)
        shown.append(lens.render([AssetRef(0), AssetName(0), AssetName(2)]))
        assert lens.parse_asset(shown[-1][0]) == 0

    if kind in ("bright", "date_blind"):
        assert shown == [
            ["300114.SZ", "中航电测", "国泰君安"],
            ["302132.SZ", "中航成飞", "国泰海通"],
        ]
        assert lens.parse_asset("300114") == 0, "an order may still name the code shown before"
        assert Lens(MaskConfig(kind), 7, named, BEFORE).parse_asset("302132") is None  # type: ignore[arg-type]
    else:
        assert shown[0] == shown[1]
        assert shown[0][1:] == [None, None]
        for text in ("buy 300114 now", "国泰君安", "中航电测", "国泰海通", "302132.SZ"):
            assert LeakGuard(lens, named).redact(text) != text, text


def test_dated_names_are_stored_as_part_of_the_identity_if_present(
    named: MarketSnapshot, tmp_path: Path
) -> None:
    plain = with_id(dataclasses.replace(named, spells=()))
    assert (
        plain.id
        == with_id(assemble(dataclasses.replace(dated(), names=dated([]).names))).id
        != named.id
    )

    save_snapshot(named, tmp_path / "m")
    loaded = load_snapshot(tmp_path / "m")

    assert (loaded.spells, loaded.id) == (named.spells, named.id)
    assert len(loaded.spells) == len(ROWS)
    assert check(raw_from_snapshot(loaded)) == check(dated())

    table = pq.read_table(tmp_path / "m" / "names.parquet")
    pq.write_table(table.slice(1), tmp_path / "m" / "names.parquet")

    with pytest.raises(DataError, match=r"names\.parquet: spells differ"):
        load_snapshot(tmp_path / "m")

    save_snapshot(plain, tmp_path / "plain")

    assert not (tmp_path / "plain" / "names.parquet").exists()
    assert "spells" not in (tmp_path / "plain" / "manifest.json").read_text()


@pytest.mark.exhaustive
def test_data_known_for_one_day_only_is_named() -> None:
    found = findings_of(dated([]))
    named, industries = found["names_of_one_day"], found["industries_of_one_day"]
    assert (named.level, named.count) == ("warning", 3)
    assert (industries.level, industries.count) == ("note", 3)
    assert "names_of_one_day" not in findings_of(dated())

    early = bars(CODES, days=("2020-08-20", "2020-08-21", "2020-08-24"))
    limits = findings_of(dataclasses.replace(dated(), bars=early))["limits_of_later_years"]
    assert limits.count == 2
    assert "assets_without_industry" not in found

    # a code whose zeros a table calculator lost
    assets = dated([]).assets
    first = assets["code"].iloc[0]
    lost = assets.replace({"code": {first: "1"}})
    left = findings_of(dataclasses.replace(dated([]), assets=lost))["assets_without_industry"]

    assert (left.level, left.examples) == ("warning", (first,))
    assert found.keys() - findings_of(market()).keys() >= {
        "names_of_one_day",
        "industries_of_one_day",
    }, "a synthetic one"


def test_on_days_without_a_name_the_code_is_no_later_one() -> None:
    gap = [*ROWS[:2], (*ROWS[2][:1], "2024-01-03", "2024-01-03", *ROWS[2][3:]), ROWS[3]]
    market = assemble(dated(gap))
    assert [market.name_asset(0, row) for row in (0, BEFORE)] == [("300114.SZ",) * 2] * 2
    assert [market.asset_of("302132.SZ", row) for row in (0, BEFORE, AFTER)] == [None, None, 0]
