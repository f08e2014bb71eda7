"""Articles in MongoDB: a `NewsStore` through pymongo (extra `mongo`); filters, limit and the cut by the clock run in the query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktdeval.api import DataError, UsageError
from ktdeval_qfinzero.data.row_records import Written, bounded, checked_article, news_of, searched_text
from ktdeval_qfinzero.data.rows import IMPORTANCE, NewsRow
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.data.words import words
from ktdeval_qfinzero.errors import ServiceError

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.collection import Collection

Document = dict[str, Any]

ORDER: Final = (("published_ns", 1), ("_id", 1))
"""What results are sorted by. MongoDB compares texts by their bytes, which is the order of `row_key`."""

INDEXES: Final = (
    ORDER,
    (("tickers", 1), *ORDER),
    (("event_type", 1), *ORDER),
    (("words", 1), *ORDER),
)
"""Compound indexes; those of tickers and words have an entry for each of an article's."""

_BATCH: Final = 500
_NOT_INSTALLED: Final = "news in MongoDB need the package pymongo, which is not installed: pip install 'ktdeval[mongo]'"


def document_of(row: NewsRow) -> Document:
    """The document of an article: its record, and what queries look into.

    Raises:
        DataError: a row that can't be stored.
    """
    return {
        "_id": row.id,
        "published_ns": row.published_ns,
        "event_type": row.event_type,
        "importance": IMPORTANCE.index(row.importance),
        "market": row.market,
        "tickers": sorted(set(row.tickers)),
        "publisher": row.publisher.get("name", "").casefold(),
        "words": sorted(set(words(searched_text(row)))),
        "record": checked_article(row),
    }


def filter_of(span: Span, tags: Tags, page: Page, as_of_ns: int) -> Document:
    """The query for articles published in the span and by then that pass the tags and come after the page's key.

    What a caller wrote stands only where a value is expected, never as an operator or a pattern.
    """
    end_ns = bounded(min(span.end_ns, as_of_ns + 1))
    found: Document = {"published_ns": {"$gte": bounded(span.start_ns), "$lt": end_ns}}
    if tags.types:
        found["event_type"] = {"$in": list(tags.types)}
    if tags.markets:
        found["market"] = {"$in": list(tags.markets)}
    if tags.tickers:
        found["tickers"] = {"$in": list(tags.tickers)}
    if IMPORTANCE.index(tags.least):
        found["importance"] = {"$gte": IMPORTANCE.index(tags.least)}
    if wanted := words(tags.text):
        found["words"] = {"$all": sorted(set(wanted))}
    if tags.publisher:
        place = {"$indexOfBytes": ["$publisher", {"$literal": tags.publisher.casefold()}]}
        found["$expr"] = {"$gte": [place, 0]}
    if page.after is not None:
        after_ns, after_id = bounded(page.after[0]), page.after[1]
        found["$or"] = [{"published_ns": {"$gt": after_ns}}, {"published_ns": after_ns, "_id": {"$gt": after_id}}]
    return found


@dataclass(frozen=True, slots=True)
class MongoNews:
    """A `NewsStore` in a collection; its client is safe to use from several threads.

    Attributes:
        collection: the articles.
    """

    collection: Collection[Document] = field(repr=False)

    def news(self, span: Span, tags: Tags, page: Page, as_of_ns: int) -> Sequence[NewsRow]:
        """Articles published in the span and by then, by (published_ns, id)."""
        if page.limit <= 0:
            return []
        with _reaching():
            query = self.collection.find(filter_of(span, tags, page, as_of_ns), {"record": 1})
            return [_row(found) for found in query.sort(list(ORDER)).limit(min(page.limit, 2**31 - 1))]

    def article(self, news_id: str, as_of_ns: int) -> NewsRow | None:
        """One article; None where there is none by then."""
        with _reaching():
            found = self.collection.find_one({"_id": news_id, "published_ns": {"$lte": bounded(as_of_ns)}}, {"record": 1})
        return _row(found) if found else None

    def close(self) -> None:
        """End the connections."""
        self.collection.database.client.close()


def open_mongo_news(url: str, database: str = "ktdeval", collection: str = "news", timeout_s: float = 5.0) -> MongoNews:
    """The store behind a `mongodb://` address; it connects at the first query.

    Raises:
        UsageError: pymongo is not installed, or the address is none. It is not quoted: it may hold a password.
    """
    return MongoNews(_client(url, timeout_s)[database][collection])


def write_mongo_news(store: MongoNews, rows: Iterable[NewsRow], *, replace: bool = False) -> Written:
    """Add articles to a collection, and its indexes. An article that is stored already as it is is passed over.

    All rows are checked before anything is written. A single server has no transactions: when the connection breaks on the way,
    a part is stored, and the same call made again completes it.

    Raises:
        DataError: a row that can't be stored; another one under its id without `replace`.
        ServiceError: `unavailable`.
    """
    documents = _unique(map(document_of, rows), replace=replace)
    with _reaching():
        from pymongo import ReplaceOne  # noqa: PLC0415 - an extra

        for index in INDEXES:
            store.collection.create_index(list(index))
        stored = _stored(store, list(documents))
        changed = [key for key, document in documents.items() if key in stored and stored[key] != document]
        if changed and not replace:
            raise DataError(f"article {changed[0]} is stored already with other content: pass replace=True to change it")
        fresh = [key for key in documents if key not in stored]
        for first in range(0, len(todo := fresh + changed), _BATCH):
            batch = todo[first : first + _BATCH]
            store.collection.bulk_write([ReplaceOne({"_id": key}, documents[key], upsert=True) for key in batch])
    return Written(len(fresh), len(documents) - len(fresh) - len(changed), len(changed))


def _row(found: Document) -> NewsRow:
    record = found["record"]
    return news_of(record | {"published_ns": int(record["published_ns"])})  # it comes as a type of the driver's own


def _unique(documents: Iterable[Document], *, replace: bool) -> dict[str, Document]:
    """Documents by id; of several under one id the last, which must be equal without `replace`."""
    unique: dict[str, Document] = {}
    for document in documents:
        key = document["_id"]
        if not replace and unique.get(key, document) != document:
            raise DataError(f"article {key} is given twice with different content")
        unique[key] = document
    return unique


def _stored(store: MongoNews, keys: Sequence[str]) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for first in range(0, len(keys), _BATCH):
        query = store.collection.find({"_id": {"$in": list(keys[first : first + _BATCH])}})
        found |= {document["_id"]: document for document in query}
    return found


def _client(url: str, timeout_s: float) -> MongoClient[Document]:
    try:
        from pymongo import MongoClient, errors  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UsageError(_NOT_INSTALLED) from error
    if not url.startswith(("mongodb://", "mongodb+srv://")):
        raise UsageError("the address of the news database is not valid: it begins with mongodb:// or mongodb+srv://")
    milliseconds = max(1, round(timeout_s * 1000))
    try:
        return MongoClient(
            url,
            connect=False,
            serverSelectionTimeoutMS=milliseconds,
            connectTimeoutMS=milliseconds,
            socketTimeoutMS=milliseconds,
            appname="ktdeval",
        )
    except (errors.PyMongoError, ValueError, TypeError) as error:
        # Neither the message nor the cause goes on: both may quote the address.
        raise UsageError(f"the address of the news database is not valid ({type(error).__name__})") from None


@contextmanager
def _reaching() -> Iterator[None]:
    """Failures of the database as one typed error, without an address in it."""
    from pymongo.errors import PyMongoError  # noqa: PLC0415 - an extra

    try:
        yield
    except PyMongoError as error:
        raise ServiceError("unavailable", f"the news database can't be reached or read ({type(error).__name__})") from None
