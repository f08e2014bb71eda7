"""Articles in MongoDB: the queries and documents that are built, and, where there is a server, the store itself."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from qfinzero_rows import ARTICLE_LISTS, MOMENTS, PAGES, SPANS, TAGS
from qfinzero_world import at, news

from ktdeval.api import DataError, UsageError
from ktdeval_qfinzero.data.memory import MemoryNews
from ktdeval_qfinzero.data.mongo_news import (
    INDEXES,
    MongoNews,
    document_of,
    filter_of,
    open_mongo_news,
    write_mongo_news,
)
from ktdeval_qfinzero.data.row_records import Written, news_of
from ktdeval_qfinzero.data.rows import NewsRow
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.errors import ServiceError

EVER, ALL, LAST = Span(0, 2**62), Page(10**6), 2**62


# ---- queries and documents


def matches(query: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Those operators of MongoDB that the store uses, from their definition in its manual."""
    return all(_holds(name, wanted, document) for name, wanted in query.items())


def _holds(name: str, wanted: Any, document: Mapping[str, Any]) -> bool:
    if name == "$or":
        return any(matches(option, document) for option in wanted)
    if name == "$expr":
        [(found, least)] = wanted.values()
        path, literal = found["$indexOfBytes"]
        return bool(document[path.removeprefix("$")].encode().find(literal["$literal"].encode()) >= least)
    value = document[name]
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    values = value if isinstance(value, list) else [value]
    tests = {
        "$gte": lambda bound: value >= bound,
        "$gt": lambda bound: value > bound,
        "$lt": lambda bound: value < bound,
        "$in": lambda options: any(one in options for one in values),
        "$all": lambda needed: all(one in values for one in needed),
    }
    return all(tests[operator](bound) for operator, bound in wanted.items())


@settings(max_examples=100)
@given(rows=ARTICLE_LISTS, span=SPANS, tags=TAGS, page=PAGES, as_of_ns=MOMENTS)
def test_the_query_passes_what_the_store_in_memory_passes(
    rows: list[NewsRow], span: Span, tags: Tags, page: Page, as_of_ns: int
) -> None:
    query = filter_of(span, tags, page, as_of_ns)
    documents = sorted((document_of(row) for row in rows), key=lambda document: (document["published_ns"], document["_id"]))
    found = [news_of(document["record"]) for document in documents if matches(query, document)][: page.limit]
    assert found == MemoryNews(rows).news(span, tags, page, as_of_ns)


def test_the_query_of_a_call_with_everything() -> None:
    tags = Tags(("daily_news",), ("AVLN",), ("us",), "medium", "Plant avalon", "Wire")
    assert filter_of(Span(1, 90), tags, Page(5, (2, "news_0")), 50) == {
        "published_ns": {"$gte": 1, "$lt": 51},
        "event_type": {"$in": ["daily_news"]},
        "tickers": {"$in": ["AVLN"]},
        "market": {"$in": ["us"]},
        "importance": {"$gte": 1},
        "words": {"$all": ["avalon", "plant"]},
        "$expr": {"$gte": [{"$indexOfBytes": ["$publisher", {"$literal": "wire"}]}, 0]},
        "$or": [{"published_ns": {"$gt": 2}}, {"published_ns": 2, "_id": {"$gt": "news_0"}}],
    }


def test_what_a_caller_writes_is_never_an_operator() -> None:
    query = filter_of(EVER, Tags(text="$where", publisher="$publisher.*"), ALL, LAST)
    assert query["words"] == {"$all": ["where"]}
    assert query["$expr"]["$gte"][0]["$indexOfBytes"][1] == {"$literal": "$publisher.*"}


def test_the_document_of_an_article() -> None:
    document = document_of(news()[1])
    assert document.pop("record")["title"] == "Bracket cuts guidance"
    assert document == {
        "_id": "news_1",
        "published_ns": at("2025-01-06T15:02:00Z"),
        "event_type": "breaking_news",
        "importance": 2,
        "market": "us",
        "tickers": ["BRKT"],
        "publisher": "example wire",
        "words": ["bracket", "corp", "cut", "cuts", "guidance", "its"],
    }
    with pytest.raises(DataError, match="an id has 1 to 200"):
        document_of(replace(news()[1], id="a b"))


# ---- failures


def test_a_server_that_is_not_there_is_unavailable_and_its_address_is_not_told() -> None:
    pytest.importorskip("pymongo")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = open_mongo_news(f"mongodb://someone:secret@127.0.0.1:{port}/?authSource=admin", timeout_s=0.1)
    calls = (
        lambda: store.news(EVER, Tags(), ALL, LAST),
        lambda: store.article("news_1", LAST),
        lambda: write_mongo_news(store, news()),
    )
    for call in calls:
        with pytest.raises(ServiceError) as caught:
            call()
        assert caught.value.code == "unavailable"
        told = f"{caught.value} {caught.value.__cause__} {store}"
        assert not any(part in told for part in ("secret", "someone", "127.0.0.1", str(port)))
    store.close()


@pytest.mark.parametrize("url", ["http://someone:secret@host", "mongodb://someone:sec/ret@host", "mongodb://", "secret"])
def test_an_address_that_is_none_is_refused_without_being_told(url: str) -> None:
    pytest.importorskip("pymongo")
    with pytest.raises(UsageError, match="the address of the news database is not valid") as caught:
        open_mongo_news(url).close()
    assert not any(part in str(caught.value) for part in ("sec", "someone", "host"))
    assert caught.value.__cause__ is None


def test_the_driver_is_imported_only_when_a_store_is_opened() -> None:
    code = "import sys, ktdeval_qfinzero.data.mongo_news; assert 'pymongo' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- a server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server: the one of $KTDEVAL_TEST_MONGODB, else one that is started."""
    pytest.importorskip("pymongo")
    if url := os.environ.get("KTDEVAL_TEST_MONGODB"):
        yield url
        return
    program = shutil.which("mongod")
    if program is None:
        pytest.skip("needs MongoDB: mongod is not on PATH and KTDEVAL_TEST_MONGODB is not set")
    folder: Path = tmp_path_factory.mktemp("mongo")
    path = folder / "server.sock"
    command = [program, "--dbpath", str(folder), "--bind_ip", str(path), "--unixSocketPrefix", str(folder), "--quiet"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        for _ in range(300):
            if path.exists():
                break
            time.sleep(0.1)
        yield f"mongodb://{str(path).replace('/', '%2F')}"
        process.terminate()


@pytest.fixture
def store(server: str) -> Iterator[MongoNews]:
    found = open_mongo_news(server, database="ktdeval_test")
    found.collection.drop()
    yield found
    found.collection.drop()
    found.close()


def test_a_server_answers_as_the_store_in_memory(store: MongoNews) -> None:
    rows = [replace(row, id=f"{row.id}_{copy}", body=f"{row.body} Straße {copy}") for row in news() for copy in range(3)]
    assert write_mongo_news(store, rows) == Written(new=12)
    assert write_mongo_news(store, rows) == Written(same=12)
    memory = MemoryNews(rows)
    for tags in (Tags(), Tags(text="STRASSE 1"), Tags(tickers=("AVLN",)), Tags(publisher="wire"), Tags(least="high")):
        for page in (ALL, Page(2), Page(3, (at("2025-01-06T15:02:00Z"), "news_1_1"))):
            for now in (LAST, at("2025-01-07T18:00:00Z"), 0):
                assert store.news(EVER, tags, page, now) == memory.news(EVER, tags, page, now)
                assert store.article("news_3_0", now) == memory.article("news_3_0", now)
    assert len(store.collection.index_information()) == len(INDEXES) + 1


def test_a_server_keeps_what_it_has_unless_replacing_is_meant(store: MongoNews) -> None:
    write_mongo_news(store, news())
    changed = replace(news()[0], title="Another")
    with pytest.raises(DataError, match="news_0 is stored already with other content"):
        write_mongo_news(store, [replace(news()[0], id="news_9"), changed])
    assert store.article("news_9", LAST) is None
    assert write_mongo_news(store, [changed], replace=True) == Written(replaced=1)
    assert store.article("news_0", LAST) == changed
