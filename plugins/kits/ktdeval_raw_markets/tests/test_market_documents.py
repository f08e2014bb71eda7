"""Documents and bars within days: which day they belong to, when they are known, what is wrong with
them, and how they are kept.
"""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError, LookAheadError
from ktdeval.market import (
    NO_DOCUMENTS,
    Close,
    Document,
    Documents,
    Entity,
    Instrument,
    MarketSnapshot,
    MinuteBars,
)
from ktdeval.market.snapshots.manifest import differences, load_manifest, snapshot_id
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval.testing import not_empty, on_each_row, snapshot_of_days
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot
from ktdeval_raw_markets.sources.document_files import read_documents
from support.market.raw_market import market
from support.searching import examples

EAST = timezone(timedelta(hours=8))
BASE = datetime(2024, 1, 1, tzinfo=UTC)
ENTITIES = (Entity("600519.SH", "product", "Feitian"), Entity("600519.SH", "ticker", "600519"))


def item(
    hours: float, title: str = "t", assets: tuple[str, ...] = ("600519.SH",), text: str = "words"
) -> Document:
    moment = BASE + timedelta(hours=hours)
    return Document(moment - timedelta(minutes=5), moment, "wire", "news", assets, title, text)


@pytest.fixture(scope="module")
def plain() -> MarketSnapshot:
    return assemble(market())


def with_documents(
    snapshot: MarketSnapshot, *items: Document, close: str = "15:00 Asia/Shanghai"
) -> MarketSnapshot:
    return replace(snapshot, documents=Documents.of(items, Close.parse(close), ENTITIES), id="")


@on_each_row(
    "close, day, instant",
    ("15:00 Asia/Shanghai", "2024-01-03", "2024-01-03T07:00:00+00:00"),
    ("16:00 America/New_York", "2024-03-08", "2024-03-08T21:00:00+00:00"),
    # daylight saving time began in between
    ("16:00 America/New_York", "2024-03-11", "2024-03-11T20:00:00+00:00"),
    ("24:00 UTC", "2024-02-29", "2024-03-01T00:00:00+00:00"),
)
def test_an_item_is_known_from_its_instant_on(close: str, day: str, instant: str) -> None:
    moment = datetime.fromisoformat(instant)
    tick = timedelta(microseconds=1)
    items = [
        item(0)._replace(known_at=moment + shift, title=str(shift))
        for shift in (-tick, 0 * tick, tick)
    ]
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


@pytest.mark.parametrize(
    "text",
    ["15:00", "25:00 UTC", "24:01 UTC", "12:60 UTC", "15:00 Asia/Nowhere", "15:00 ../etc", ""],
)
def test_a_close_is_a_time_and_a_zone(text: str) -> None:
    with pytest.raises(DataError, match="close"):
        Close.parse(text)


def test_the_identity_holds_documents_only_where_there_are_some(
    plain: MarketSnapshot, tmp_path: Path
) -> None:
    items = [item(40), item(10, "ä 茅台", (), "x" * 70_000), item(40, "a")]
    one = with_documents(plain, *items)

    assert (
        snapshot_id(one)
        == snapshot_id(with_documents(plain, *reversed(items)))
        != snapshot_id(plain)
    )
    assert (
        snapshot_id(replace(plain, documents=NO_DOCUMENTS))
        == snapshot_id(replace(plain, documents=Documents.of(())))
        == snapshot_id(plain)
    )

    others = [
        with_documents(plain, *items[:2]),
        with_documents(plain, *items, close="16:00 Asia/Shanghai"),
        with_documents(plain, items[0], items[1]._replace(text="y" * 70_000), items[2]),
        replace(one, documents=Documents.of(items)),
        with_documents(
            plain,
            *items[:2],
            items[2]._replace(published_at=items[2].published_at.astimezone(EAST)),
        ),
    ]

    assert len({snapshot_id(one), *map(snapshot_id, others)}) == 6

    save_snapshot(one, tmp_path / "m")
    loaded = load_snapshot(tmp_path / "m")

    assert [loaded.documents[row] for row in range(3)] == [items[1], items[2], items[0]]
    assert (loaded.documents.close, loaded.documents.entities) == (
        one.documents.close,
        tuple(sorted(ENTITIES)),
    )

    frame = pd.read_parquet(tmp_path / "m" / "documents.parquet")
    frame.loc[0, "text"] = "changed"
    frame.to_parquet(tmp_path / "m" / "documents.parquet")

    with pytest.raises(DataError, match=r"documents\.parquet: documents differ"):
        load_snapshot(tmp_path / "m")

    frame.assign(known_at=frame["known_at"][::-1].to_numpy()).to_parquet(
        tmp_path / "m" / "documents.parquet"
    )

    with pytest.raises(DataError, match="not sorted by known_at"):
        load_snapshot(tmp_path / "m")

    save_snapshot(replace(plain, documents=Documents.of((), None, ENTITIES)), tmp_path / "entities")

    assert load_snapshot(tmp_path / "entities").documents.entities == tuple(sorted(ENTITIES))


CODES = ("000001.SZ", "600519.SH", "688981.SH")
HOURS = st.lists(
    st.tuples(st.floats(-30, 250), st.sets(st.sampled_from(CODES), max_size=2)), max_size=25
)


TIED = item(40)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TIED._replace(published_at=BASE), TIED),
        (TIED._replace(source="a"), TIED._replace(source="b")),
        (TIED._replace(kind="a"), TIED._replace(kind="b")),
        (TIED._replace(assets=("000001.SZ",)), TIED),
        (TIED._replace(title="a"), TIED._replace(title="b")),
        (TIED._replace(text="a"), TIED._replace(text="b")),
        (TIED._replace(sentiment=""), TIED._replace(sentiment="good")),
        # an earlier key decides before a later one
        (TIED._replace(published_at=BASE, source="b"), TIED._replace(source="a")),
        (TIED._replace(source="a", kind="b"), TIED._replace(source="b", kind="a")),
        (TIED._replace(title="a", text="b"), TIED._replace(title="b", text="a")),
        # written at one instant, told in two zones: by the offset
        (TIED, TIED._replace(published_at=TIED.published_at.astimezone(EAST))),
    ],
)
def test_items_known_at_one_instant_are_in_the_order_of_their_content(
    first: Document, second: Document
) -> None:
    before = item(39, "z")
    after = item(41, "a")

    documents = Documents.of([after, second, first, before])

    assert list(documents) == [before, first, second, after]
    assert list(Documents.of([first, second])) == [first, second]
    assert documents[1].published_at.utcoffset() == first.published_at.utcoffset()


@pytest.mark.parametrize("name", ["known_at", "published_at"])
def test_an_item_whose_time_has_no_zone_is_refused(name: str) -> None:
    naive = TIED._replace(**{name: datetime(2024, 1, 2)})

    with pytest.raises(
        DataError, match="document 't': a time has no time zone; add one to published_at"
    ):
        Documents.of([naive])


def test_sentiment_is_had_where_an_item_has_one() -> None:
    assert not NO_DOCUMENTS.has_sentiment
    assert not Documents.of([TIED]).has_sentiment
    assert Documents.of([item(1), TIED._replace(sentiment="0.5")]).has_sentiment


def test_words_of_an_item_have_its_sentiment_where_there_is_one() -> None:
    assert TIED.words == ("wire", "news", "t", "words")
    assert TIED._replace(sentiment="0.5").words == ("wire", "news", "t", "words", "0.5")


@pytest.mark.parametrize("changed_row", [0, 1, 2])
def test_the_digest_depends_on_each_text_of_the_same_length(changed_row: int) -> None:
    items = [item(1, "a"), item(2, "b"), item(3, "c")]
    others = list(items)
    others[changed_row] = items[changed_row]._replace(text="other")

    assert Documents.of(items).digest["text"] != Documents.of(others).digest["text"]


def test_the_first_items_are_those_known_first() -> None:
    documents = Documents.of([item(3, "c"), item(1, "a"), item(2, "b")], None, ENTITIES)

    assert [each.title for each in documents.first(2)] == ["a", "b"]
    assert documents.first(2).entities == documents.entities
    assert documents.first(3) is documents
    assert documents.first(0).table is None


def test_rows_of_the_last_days_are_newest_first() -> None:
    """One item an evening of three days, in Shanghai: known at the close of the day after."""
    titles = {10: "first", 34: "second", 58: "third"}
    assets = {10: ("600519.SH",), 34: ("000001.SZ", "600519.SH"), 58: ()}
    items = [item(hours, title, assets[hours]) for hours, title in titles.items()]
    documents = Documents.of(items, Close.parse("15:00 Asia/Shanghai"))
    days = np.datetime64("2024-01-01") + np.arange(4).astype("m8[D]")

    view = documents.as_of(days)

    assert view.rows(4).tolist() == [2, 1, 0]
    assert view.rows(2).tolist() == [2, 1]
    assert view.rows(1).tolist() == [2]
    assert view.rows(9).tolist() == [2, 1, 0]
    assert view.rows(9, ["600519.SH"]).tolist() == [1, 0]
    assert view.rows(2, ["600519.SH"]).tolist() == [1]
    assert view.rows(9, ["000001.SZ", "600519.SH"]).tolist() == [1, 0]
    assert view.rows(9, [""]).tolist() == [2], "those of the market as a whole"
    assert view.rows(9, ["688981.SH"]).tolist() == []
    assert [view.day_of(row) for row in range(3)] == [1, 2, 3]
    assert len(documents.as_of(days[:3])) == 2
    assert len(documents.as_of(days[:1])) == 0


@pytest.mark.slow
@given(
    past=HOURS,
    future=HOURS,
    other=HOURS,
    days=st.integers(1, 5),
    back=st.integers(1, 6),
    codes=st.none() | st.lists(st.sampled_from(CODES)),
)
@examples(25)
def test_nothing_of_a_view_depends_on_what_came_later(
    past: Any, future: Any, other: Any, days: int, back: int, codes: Any
) -> None:
    shown = assemble_days()[:days]
    cursor = Close().instant(shown[-1])

    def views(later: Any) -> Any:
        items = [
            item(hours, str(index), tuple(sorted(assets)))
            for index, (hours, assets) in enumerate([*past, *later])
        ]
        known = [
            document
            for index, document in enumerate(items)
            if index < len(past) or _stamp(document) > cursor
        ]
        view = Documents.of(known).as_of(shown)
        rows = view.rows(back, codes).tolist()
        oldest = Close().instant(shown[-1 - back]) if back < days else -(10**18)
        wanted = [
            one
            for one in known
            if oldest < _stamp(one) <= cursor and (codes is None or set(one.assets) & set(codes))
        ]

        assert sorted(view[row] for row in rows) == sorted(wanted)

        return len(view), [(view[row], view.day_of(row)) for row in range(len(view))], rows

    assert views(future) == views(other) == views([])


def _stamp(one: Document) -> int:
    return round(one.known_at.timestamp() * 1e6)


def assemble_days() -> Any:
    return np.array(
        ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08"],
        dtype="datetime64[D]",
    )


ROW = {
    "published_at": "2024-01-02T09:00:00Z",
    "known_at": "2024-01-02T09:30:00+08:00",
    "source": "wire",
    "kind": "news",
    "assets": "600519, sz000001",
    "title": 'Hall, "x"\nnext',
    "text": "words",
}


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
def test_files_of_every_kind_have_the_same_content(name: str, tmp_path: Path) -> None:
    rows = [{**ROW, "known_at": "2024-01-03T00:00:00Z"}, {**ROW, "known_at": ""}]
    documents = read_documents(
        write(tmp_path, name, rows),
        None,
        write(tmp_path, "e.csv", [one._asdict() for one in ENTITIES]),
    )
    first, second = documents

    assert first.known_at == first.published_at == datetime(2024, 1, 2, 9, tzinfo=UTC)
    assert (second.known_at.day, second.assets, second.title) == (
        3,
        ("600519.SH", "000001.SZ"),
        ROW["title"],
    )
    assert documents.entities == tuple(sorted(ENTITIES))


@on_each_row(
    "name, change, message",
    (
        "d.jsonl",
        {"published_at": "2024-01-02T09:00:00"},
        "line 2: published_at: '2024-01-02T09:00:00' has no time zone; write 2024",
    ),
    (
        "d.csv",
        {"published_at": "2024-01-02 09:00"},
        "line 5: published_at: '2024-01-02 09:00' has no time zone",
    ),
    (
        "d.parquet",
        {"known_at": "yesterday"},
        "row 2: known_at: 'yesterday' is not a time; write 2024",
    ),
    ("d.jsonl", {"published_at": None}, "line 2: published_at: 'None' is not a time"),
    ("d.jsonl", {"text": 7}, "line 2: text: expected text, was int; put it in quotes"),
    ("d.jsonl", {"assets": ["a b"]}, "line 2: assets: expected codes"),
    (
        "d.jsonl",
        {"headline": "x"},
        "line 2: column 'headline' is not a field: leave it out; fields: published_at",
    ),
    (
        "d.csv",
        {"titles": "x"},
        "line 1: column 'titles' is not a field: leave it out; did you mean 'title'",
    ),
    (
        "d.jsonl",
        {"sentiment": True},
        "line 2: sentiment: expected a label or a number, was bool; write",
    ),
    (
        "d.jsonl",
        {"sentiment_score": [1]},
        "line 2: sentiment_score: expected a label or a number, was list",
    ),
    ("d.csv", {"sentiment": "nan"}, "line 5: sentiment: is not a finite number; write a label"),
    (
        "d.jsonl",
        {
            "sentiment": (
                "a label that is a sentence and far longer than any label of a source "
                "would ever be, so that it is refused"
            )
        },
        "line 2: sentiment: has 105 characters; write a label of at most 80",
    ),
)
def test_a_bad_row_is_one_line_with_its_place(
    name: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, name, [ROW, {**ROW, **change}])
    with pytest.raises(DataError) as error:
        read_documents(path)

    assert str(error.value).startswith(f"{path}")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.jsonl", "{", "line 1: not valid JSON"),
        ("d.jsonl", "[]", "line 1: expected an object"),
        (
            "d.jsonl",
            '{"text": "a", "text": "b"}',
            "line 1: not valid JSON: field 'text' appears twice",
        ),
        ("d.csv", "text,text\na,b\n", "line 1: column 'text' appears twice"),
        ("d.txt", "", "line 1: is empty; write the names of its columns"),
        ("d.csv", "source,text\na,b,c\n", "line 2: expected 2 cells"),
        ("d.jsonl", b"\xff\xf0", "line 1: is not UTF-8 text; save the file as UTF-8"),
        ("d.parquet", "no", "line 1: column 'no' is not a field"),
        ("d.jsonl.gz", b"\x1f\x8bno", "can't read"),
        ("d.jsonl", "{\n  'a': 1", "line 1: not valid JSON"),
        ("d.csv", b"PAR1....", "can't read"),
        ("d.csv", "version https://git-lfs.github.com/spec/v1", "a pointer to a file: .*lfs pull"),
        ("d.parquet", "version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        ("d.jsonl", "<!DOCTYPE html>", "by its first bytes it is a web page"),
        ("d.csv", b"PK\x03\x04", "an archive: unpack it first"),
        ("d.csv", "[{", "can't read: not valid JSON"),
        ("absent.csv", None, "can't read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    name: str, content: str | bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(DataError, match=message):
        read_documents(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"kind": "nick"}, "line 2: kind 'nick' is unknown"), ({"text": " "}, "must not be empty")],
)
def test_entities_are_checked(tmp_path: Path, change: Any, message: str) -> None:
    path = write(tmp_path, "d.jsonl", [ROW])
    with pytest.raises(DataError, match=message):
        read_documents(path, None, write(tmp_path, "e.csv", [{**ENTITIES[0]._asdict(), **change}]))


def test_faults_are_found_in_sources_and_snapshots(plain: MarketSnapshot) -> None:
    early = item(9, "early")._replace(published_at=BASE + timedelta(hours=10))
    items = [
        item(1),
        item(1)._replace(assets=()),
        item(2, text=" \n"),
        early,
        item(3, assets=("600000.SH", "600519.SH")),
    ]
    raw = raw_from_snapshot(with_documents(plain, *items))
    findings = {
        finding.rule: finding for finding in check(raw) if finding.rule.startswith("documents")
    }

    assert {kind: finding.count for kind, finding in findings.items()} == {
        "documents": 5,
        "documents_known_early": 1,
        "documents_empty": 1,
        "documents_repeated": 1,
        "documents_of_unknown_assets": 1,
    }
    assert findings["documents_known_early"].level == "error"
    assert findings["documents_of_unknown_assets"].examples == ("600000.SH 1",)

    with pytest.raises(
        DataError, match=r"1 documents_known_early \(first: 2024-01-01T10:00:00\+00:00 early\)"
    ):
        assemble(raw)

    assert not [one for one in check(raw_from_snapshot(plain)) if one.rule.startswith("documents")]


# ---- bars within days


# a Friday, a Saturday, a Monday after clocks went forward
DAYS = np.array(["2024-03-08", "2024-03-09", "2024-03-11"], "M8[D]")
COINS_AND_STOCKS = (
    Instrument("crypto", "USD", "crypto_spot"),
    Instrument("stock", "USD", "us_equity"),
)
COLUMNS = ("code", "ends_at", "open", "high", "low", "close", "volume")
# By hand: three minutes of each asset on Friday and Monday. New York closes at 21:00 UTC on Friday,
# at 20:00 UTC on Monday.
ROWS = [
    ("BTC", "2024-03-08T23:59", 9.9, 10.2, 9.8, 10.1, 1.5),
    ("BTC", "2024-03-09T00:00", 10.1, 10.1, 10.0, 10.0, 2.5),  # the last minute of Friday
    ("BTC", "2024-03-09T00:01", 10.0, 10.0, 9.9, 9.9, 0.5),
    ("TSLA", "2024-03-08T14:31", 19.8, 20.0, 19.7, 20.0, 300.0),
    ("TSLA", "2024-03-08T21:00", 20.0, 20.2, 20.0, 20.0, 100.0),
    ("TSLA", "2024-03-08T21:01", 20.1, 20.1, 20.1, 20.1, 7.0),  # after the close
    ("TSLA", "2024-03-11T13:31", 20.0, 20.1, 20.0, 20.1, 50.0),
    ("TSLA", "2024-03-11T20:00", 20.1, 20.1, 19.9, 20.0, float("nan")),
    ("TSLA", "2024-03-11T20:01", 20.0, 20.0, 19.8, 19.8, 9.0),  # after the close of Monday
]


def frame(rows: list[Any]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.assign(ends_at=pd.to_datetime(table["ends_at"]))


def coin_and_stock(rows: list[Any] = ROWS) -> MarketSnapshot:
    """A coin of every day at 10, a stock of Friday and Monday at 20; low and high are 2 % off."""
    closes = [[10.0, 20.0], [10.0, None], [10.0, 20.0]]
    made = snapshot_of_days(("BTC", "TSLA"), closes, instruments=COINS_AND_STOCKS)
    meta = replace(made.meta, benchmark="")
    wide = {"high": made.close * 1.02, "low": made.close * 0.98}

    return replace(
        made,
        meta=meta,
        indices={},
        index_names={},
        days=DAYS,
        minutes=MinuteBars.of(frame(rows)),
        **wide,
    )


def moments_shown(rows: Any) -> list[str]:
    return [str(end)[5:] for end in rows["ends_at"]]


def test_minute_bars_belong_to_their_local_day_and_are_known_at_the_close() -> None:
    snapshot = coin_and_stock()
    at_friday, at_saturday, at_monday = (snapshot.as_of(row).minutes for row in range(3))

    assert moments_shown(at_friday("BTC", 0)) == ["03-08T23:59", "03-09T00:00"]
    assert moments_shown(at_friday("TSLA", 0)) == ["03-08T14:31", "03-08T21:00"]
    assert moments_shown(at_saturday("TSLA", 0)) == [
        "03-08T14:31",
        "03-08T21:00",
        "03-08T21:01",
    ], "trades after the close, a day later"
    assert (moments_shown(at_saturday("BTC", 1)), moments_shown(at_saturday("TSLA", 1))) == (
        ["03-09T00:01"],
        [],
    )
    assert moments_shown(at_monday("TSLA", 2)) == [
        "03-11T13:31",
        "03-11T20:00",
    ], "an hour earlier, since clocks went forward"
    assert at_monday("TSLA", 2)["close"].tolist() == [20.1, 20.0]
    assert len(at_monday("ETH", 2)) == 0

    with pytest.raises(
        LookAheadError, match="minute bars of day 1 requested at the close of day 0"
    ):
        at_friday("BTC", 1)

    zones = {"BTC": "UTC", "TSLA": "America/New_York"}

    assert [str(day) for day in snapshot.minutes.days(zones.__getitem__)] == [
        *["2024-03-08"] * 2, "2024-03-09", *["2024-03-08"] * 3, *["2024-03-11"] * 3,
    ]  # fmt: skip

    with pytest.raises(ValueError, match="read-only"):
        snapshot.minutes.rows["close"][0] = 1.0


BARS = st.lists(
    st.tuples(st.sampled_from(["BTC", "TSLA"]), st.integers(0, 5 * 1440), st.floats(1, 99)),
    max_size=30,
)


@pytest.mark.slow
@given(past=BARS, future=BARS, row=st.integers(0, 2))
@examples(25)
def test_nothing_of_a_view_depends_on_bars_that_end_later(past: Any, future: Any, row: int) -> None:
    start = np.datetime64("2024-03-07T12:00", "m")
    closes = {
        "BTC": [1, 2, 4],
        "TSLA": ["2024-03-08T21:00", "2024-03-09T21:00", "2024-03-11T20:00"],
    }
    limit = {
        "BTC": (
            np.datetime64("2024-03-08", "m") + np.timedelta64(1440 * int(closes["BTC"][row]), "m")
        ),
        "TSLA": np.datetime64(closes["TSLA"][row], "m"),
    }
    bars = [
        [
            (code, start + np.timedelta64(shift, "m"), *[price] * 4, 1.0)
            for code, shift, price in listed
        ]
        for listed in (past, future)
    ]
    known = [bar for bar in bars[0] if bar[1] <= limit[bar[0]]]
    later = [bar for listed in bars for bar in listed if bar[1] > limit[bar[0]]]
    views = [
        coin_and_stock(rows).as_of(row).minutes for rows in (known or ROWS[:0], [*known, *later])
    ]

    for code in ("BTC", "TSLA"):
        for day in not_empty(range(row + 1)):
            assert (
                views[0](code, day)[["ends_at", "close"]].tolist()
                == views[1](code, day)[["ends_at", "close"]].tolist()
            )


def test_minutes_are_part_of_the_identity_and_come_back_as_they_were(tmp_path: Path) -> None:
    snapshot = coin_and_stock()
    plain = coin_and_stock([])

    assert snapshot_id(coin_and_stock(ROWS[::-1])) == snapshot_id(snapshot) != snapshot_id(plain)

    others = [
        ROWS[1:],
        [(*ROWS[0][:6], 1.25), *ROWS[1:]],
        [("BTC", "2024-03-08T23:58", *ROWS[0][2:]), *ROWS[1:]],
    ]

    assert (
        len({snapshot_id(snapshot), *(snapshot_id(coin_and_stock(rows)) for rows in others)}) == 4
    )

    minus = [(*ROWS[0][:6], -0.0), *ROWS[1:]]
    assert snapshot_id(coin_and_stock(minus)) == snapshot_id(
        coin_and_stock([(*ROWS[0][:6], 0.0), *ROWS[1:]])
    )

    saved = save_snapshot(snapshot, tmp_path / "market")
    loaded = load_snapshot(tmp_path / "market")

    assert saved.id == loaded.id == snapshot_id(snapshot)
    assert (loaded.minutes.codes, loaded.minutes.rows.tobytes()) == (
        snapshot.minutes.codes,
        snapshot.minutes.rows.tobytes(),
    )

    save_snapshot(plain, tmp_path / "plain")
    assert not (tmp_path / "plain" / "minutes.parquet").exists()
    assert differences(load_manifest(tmp_path / "market"), plain) == [
        "minutes.parquet: minutes differ"
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda table: table.assign(close=table["close"] + 0.01),
            r"minutes\.parquet: minutes differ",
        ),
        (
            lambda table: table.assign(ends_at=table["ends_at"] - pd.Timedelta("1D")),
            r"minutes\.parquet: minutes differ",
        ),
        (lambda table: table[:0], r"minutes\.parquet: minutes differ"),
        (lambda table: table.drop(columns="ends_at"), "can't read the snapshot: 'ends_at'"),
        (lambda table: table.assign(high="much"), "can't read the snapshot"),
        (lambda table: table.assign(ends_at="soon"), "can't read the snapshot"),
        (lambda table: table.assign(code=None), "changed after it was stored|can't read"),
        (None, r"can't read the snapshot: .*minutes\.parquet"),
    ],
)
def test_a_hostile_file_is_refused_in_a_line(change: Any, says: str, tmp_path: Path) -> None:
    save_snapshot(coin_and_stock(), tmp_path / "market")
    path = tmp_path / "market" / "minutes.parquet"
    table = pd.read_parquet(path)
    path.unlink()

    if change is not None:
        change(table).to_parquet(path)

    with pytest.raises(DataError, match=says) as caught:
        load_snapshot(tmp_path / "market")

    assert "\n" not in str(caught.value)


def test_a_manifest_that_hides_its_minutes_is_refused(tmp_path: Path) -> None:
    save_snapshot(coin_and_stock(), tmp_path / "market")
    path = tmp_path / "market" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["statics"]["minutes"]
    path.write_text(json.dumps(manifest))

    with pytest.raises(DataError, match="id differs"):
        load_snapshot(tmp_path / "market")


# the row of the minutes above that is changed, and its cells
@on_each_row(
    "row, cells, kind, example",
    (3, {}, None, ""),
    # its exchange is closed
    (3, {"ends_at": "2024-03-09T14:31"}, "minutes_without_bar", "TSLA 2024-03-09T14:31 UTC"),
    # after the last day
    (0, {"ends_at": "2024-03-12T00:01"}, "minutes_without_bar", "BTC 2024-03-12T00:01 UTC"),
    (0, {"code": "ETH"}, "minutes_without_bar", "ETH 2024-03-08T23:59 UTC"),
    (1, {"ends_at": "2024-03-08T23:59"}, "minutes_conflicting", "BTC 2024-03-08T23:59 UTC"),
    (3, {"low": 19.9}, "minutes_impossible", "TSLA 2024-03-08T14:31 UTC"),
    (3, {"high": 19.9}, "minutes_impossible", "TSLA 2024-03-08T14:31 UTC"),
    (3, {"open": 0.0, "low": 0.0}, "minutes_impossible", "TSLA 2024-03-08T14:31 UTC"),
    (3, {"close": math.nan}, "minutes_impossible", "TSLA 2024-03-08T14:31 UTC"),
    (3, {"high": math.inf}, "minutes_impossible", "TSLA 2024-03-08T14:31 UTC"),
    (3, {"volume": -1.0}, "minutes_impossible", "TSLA 2024-03-08T14:31 UTC"),
    (3, {"high": 20.41}, "minutes_outside_bar", "TSLA 2024-03-08T14:31 UTC"),
    (3, {"low": 19.59}, "minutes_outside_bar", "TSLA 2024-03-08T14:31 UTC"),
    # all of a day of 0.5
    (2, {"volume": 1.1}, "minutes_volume", "BTC 2024-03-09T00:01 UTC"),
    (2, {"volume": 0.04}, "minutes_volume", "BTC 2024-03-09T00:01 UTC"),
    (2, {"volume": 0.9}, None, ""),
    # rounding
    (3, {"high": 20.400001, "low": 19.599999}, None, ""),
)
def test_a_fault_is_found_and_named(
    row: int, cells: dict[str, Any], kind: str | None, example: str
) -> None:
    rows: list[Any] = [*ROWS]
    rows[row] = tuple({**dict(zip(COLUMNS, ROWS[row], strict=True)), **cells}.values())
    # as the minutes add up
    daily = replace(coin_and_stock(rows), volume=np.array([[4.0, 407.0], [0.5, 0.0], [1.0, 59.0]]))
    findings = {
        finding.rule: finding
        for finding in check(raw_from_snapshot(daily))
        if finding.rule.startswith("minutes")
    }

    assert findings.pop("minutes").count == 9

    if kind != "minutes_outside_bar":  # a price of 0 is outside, too
        findings.pop("minutes_outside_bar", None)

    assert list(findings) == ([] if kind is None else [kind])

    if kind is not None:
        (found,) = findings[kind].examples
        assert (findings[kind].count, found.partition(" UTC")[0]) == (
            1,
            example.removesuffix(" UTC"),
        )
        assert findings[kind].level == (
            "warning" if kind in ("minutes_outside_bar", "minutes_volume") else "error"
        )
