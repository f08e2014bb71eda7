from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError, LookAheadError
from ktdeval.market import NO_DOCUMENTS, Close, Document, Documents, Entity, read_documents
from ktdeval.market.assembly import assemble
from ktdeval.market.quality import check, raw_from_snapshot
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.market.storage import load_snapshot, save_snapshot, snapshot_id
from raw_market import market
from searching import examples
from tables import on_each_row

EAST = timezone(timedelta(hours=8))
BASE = datetime(2024, 1, 1, tzinfo=UTC)
ENTITIES = (Entity("600519.SH", "product", "Feitian"), Entity("600519.SH", "ticker", "600519"))


def item(hours: float, title: str = "t", assets: tuple[str, ...] = ("600519.SH",), text: str = "words") -> Document:
    moment = BASE + timedelta(hours=hours)
    return Document(moment - timedelta(minutes=5), moment, "wire", "news", assets, title, text)


@pytest.fixture(scope="module")
def plain() -> MarketSnapshot:
    return assemble(market())


def with_documents(snapshot: MarketSnapshot, *items: Document, close: str = "15:00 Asia/Shanghai") -> MarketSnapshot:
    return replace(snapshot, documents=Documents.of(items, Close.parse(close), ENTITIES), id="")


@on_each_row
def test_an_item_is_known_from_its_instant_on(plain: MarketSnapshot, close: str, day: str, instant: str) -> None:
    moment = datetime.fromisoformat(instant)
    tick = timedelta(microseconds=1)
    items = [item(0)._replace(known_at=moment + shift, title=str(shift)) for shift in (-tick, 0 * tick, tick)]
    documents = Documents.of(items, Close.parse(close))
    days = np.datetime64(day) + np.array([-1, 0, 1], "m8[D]")
    view = documents.as_of(days[:2])
    assert [view[row].title for row in range(len(view))] == [str(-tick), str(0 * tick)]
    assert [view.day_of(row) for row in range(2)] == [1, 1]
    assert (len(documents.as_of(days[:1])), len(documents.as_of(days))) == (0, 3)
    for read in (view.__getitem__, view.day_of):
        with pytest.raises(LookAheadError, match="2 are known"):
            read(2)
    with pytest.raises(DataError):
        view[-1]


@pytest.mark.parametrize("text", ["15:00", "25:00 UTC", "24:01 UTC", "12:60 UTC", "15:00 Asia/Nowhere", "15:00 ../etc", ""])
def test_a_close_is_a_time_and_a_zone(text: str) -> None:
    with pytest.raises(DataError, match="close"):
        Close.parse(text)


def test_the_identity_holds_documents_only_where_there_are_some(plain: MarketSnapshot, tmp_path: Path) -> None:
    items = [item(40), item(10, "ä 茅台", (), "x" * 70_000), item(40, "a")]
    one = with_documents(plain, *items)
    assert snapshot_id(one) == snapshot_id(with_documents(plain, *reversed(items))) != snapshot_id(plain)
    assert (
        snapshot_id(replace(plain, documents=NO_DOCUMENTS))
        == snapshot_id(replace(plain, documents=Documents.of(())))
        == snapshot_id(plain)
    )
    others = [
        with_documents(plain, *items[:2]), with_documents(plain, *items, close="16:00 Asia/Shanghai"),
        with_documents(plain, items[0], items[1]._replace(text="y" * 70_000), items[2]),
        replace(one, documents=Documents.of(items)),
        with_documents(plain, *items[:2], items[2]._replace(published_at=items[2].published_at.astimezone(EAST))),
    ]  # fmt: skip
    assert len({snapshot_id(one), *map(snapshot_id, others)}) == 6
    save_snapshot(one, tmp_path / "m")
    loaded = load_snapshot(tmp_path / "m")
    assert [loaded.documents[row] for row in range(3)] == [items[1], items[2], items[0]]
    assert (loaded.documents.close, loaded.documents.entities) == (one.documents.close, tuple(sorted(ENTITIES)))
    frame = pd.read_parquet(tmp_path / "m" / "documents.parquet")
    frame.loc[0, "text"] = "changed"
    frame.to_parquet(tmp_path / "m" / "documents.parquet")
    with pytest.raises(DataError, match=r"documents\.parquet: documents differ"):
        load_snapshot(tmp_path / "m")
    frame.assign(known_at=frame["known_at"][::-1].to_numpy()).to_parquet(tmp_path / "m" / "documents.parquet")
    with pytest.raises(DataError, match="not sorted by known_at"):
        load_snapshot(tmp_path / "m")
    save_snapshot(replace(plain, documents=Documents.of((), None, ENTITIES)), tmp_path / "entities")
    assert load_snapshot(tmp_path / "entities").documents.entities == tuple(sorted(ENTITIES))


CODES = ("000001.SZ", "600519.SH", "688981.SH")
HOURS = st.lists(st.tuples(st.floats(-30, 250), st.sets(st.sampled_from(CODES), max_size=2)), max_size=25)


@given(
    past=HOURS,
    future=HOURS,
    other=HOURS,
    days=st.integers(1, 5),
    back=st.integers(1, 6),
    codes=st.none() | st.lists(st.sampled_from(CODES)),
)
@examples(25)
def test_nothing_of_a_view_depends_on_what_came_later(past: Any, future: Any, other: Any, days: int, back: int, codes: Any) -> None:
    shown = assemble_days()[:days]
    cursor = Close().instant(shown[-1])

    def views(later: Any) -> Any:
        items = [item(hours, str(index), tuple(sorted(assets))) for index, (hours, assets) in enumerate([*past, *later])]
        known = [document for index, document in enumerate(items) if index < len(past) or _stamp(document) > cursor]
        view = Documents.of(known).as_of(shown)
        rows = view.rows(back, codes).tolist()
        oldest = Close().instant(shown[-1 - back]) if back < days else -(10**18)
        wanted = [one for one in known if oldest < _stamp(one) <= cursor and (codes is None or set(one.assets) & set(codes))]
        assert sorted(view[row] for row in rows) == sorted(wanted)
        return len(view), [(view[row], view.day_of(row)) for row in range(len(view))], rows

    assert views(future) == views(other) == views([])


def _stamp(one: Document) -> int:
    return round(one.known_at.timestamp() * 1e6)


def assemble_days() -> Any:
    return np.array(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08"], dtype="datetime64[D]")


ROW = {
    "published_at": "2024-01-02T09:00:00Z", "known_at": "2024-01-02T09:30:00+08:00", "source": "wire", "kind": "news",
    "assets": "600519, sz000001", "title": "Hall, \"x\"\nnext", "text": "words",
}  # fmt: skip


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / name
    frame = pd.DataFrame(rows)
    if "jsonl" in name:
        text = "\n".join(json.dumps(row) for row in rows) + "\n\n"
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    else:
        frame.to_csv(path, index=False) if "csv" in name else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "d.csv", "d.csv.gz", "d.parquet"])
def test_files_of_every_kind_say_the_same(name: str, tmp_path: Path) -> None:
    rows = [{**ROW, "known_at": "2024-01-03T00:00:00Z"}, {**ROW, "known_at": ""}]
    documents = read_documents(write(tmp_path, name, rows), None, write(tmp_path, "e.csv", [one._asdict() for one in ENTITIES]))
    first, second = documents
    assert first.known_at == first.published_at == datetime(2024, 1, 2, 9, tzinfo=UTC)
    assert (second.known_at.day, second.assets, second.title) == (3, ("600519.SH", "000001.SZ"), ROW["title"])
    assert documents.entities == tuple(sorted(ENTITIES))


@on_each_row
def test_a_bad_row_is_one_line_with_its_place(name: str, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, [ROW, {**ROW, **change}])
    with pytest.raises(DataError) as error:
        read_documents(path)
    assert str(error.value).startswith(f"{path}")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.jsonl", "{", "line 1: not valid JSON"), ("d.jsonl", "[]", "line 1: expected an object"),
        ("d.jsonl", '{"text": "a", "text": "b"}', "line 1: not valid JSON: field 'text' stands twice"),
        ("d.csv", "text,text\na,b\n", "line 1: column 'text' stands twice"), ("d.txt", "", "unknown kind of file"),
        ("d.csv", "source,text\na,b,c\n", "line 2: expected 2 cells"), ("d.jsonl", b"\xff\xfe", "can't read"),
        ("d.parquet", "no", "can't read"), ("d.jsonl.gz", "no", "can't read"), ("absent.csv", None, "can't read"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named(name: str, content: str | bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=message):
        read_documents(path)


def test_entities_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", [ROW])
    for change, message in (({"kind": "nick"}, "line 2: kind 'nick' is unknown"), ({"text": " "}, "must not be empty")):
        with pytest.raises(DataError, match=message):
            read_documents(path, None, write(tmp_path, "e.csv", [{**ENTITIES[0]._asdict(), **change}]))


def test_faults_are_found_in_sources_and_snapshots(plain: MarketSnapshot) -> None:
    early = item(9, "early")._replace(published_at=BASE + timedelta(hours=10))
    items = [item(1), item(1)._replace(assets=()), item(2, text=" \n"), early, item(3, assets=("600000.SH", "600519.SH"))]
    raw = raw_from_snapshot(with_documents(plain, *items))
    findings = {finding.kind: finding for finding in check(raw) if finding.kind.startswith("documents")}
    assert {kind: finding.count for kind, finding in findings.items()} == {
        "documents": 5, "documents_known_early": 1, "documents_empty": 1, "documents_repeated": 1, "documents_of_unknown_assets": 1,
    }  # fmt: skip
    assert findings["documents_known_early"].severity == "error"
    assert findings["documents_of_unknown_assets"].examples == ("600000.SH 1",)
    with pytest.raises(DataError, match=r"1 documents_known_early \(first: 2024-01-01T10:00:00\+00:00 early\)"):
        assemble(raw)
    assert not [one for one in check(raw_from_snapshot(plain)) if one.kind.startswith("documents")]
