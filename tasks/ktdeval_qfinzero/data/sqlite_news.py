"""Articles in an SQLite file with a full-text index: a `NewsStore` whose filters, limit and cut by the clock run in the query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktdeval.api import dumps_canonical, loads_strict
from ktdeval_qfinzero.data.row_records import Written, bounded, checked_article, news_of, searched_text
from ktdeval_qfinzero.data.rows import IMPORTANCE, NewsRow
from ktdeval_qfinzero.data.sqlite_files import Layout, check_file, reading, select, upsert, writing
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.data.words import words

LAYOUT: Final = Layout(
    "news store",
    0x6B74_6E65,
    1,
    (
        """CREATE TABLE articles (
            number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, event_type TEXT NOT NULL, published_ns INTEGER NOT NULL,
            importance INTEGER NOT NULL, market TEXT NOT NULL, publisher TEXT NOT NULL, record TEXT NOT NULL
        )""",
        "CREATE INDEX articles_by_date ON articles (published_ns, id)",
        "CREATE INDEX articles_by_type ON articles (event_type, published_ns, id)",
        """CREATE TABLE article_tickers (
            ticker TEXT NOT NULL, published_ns INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (ticker, published_ns, number)
        ) WITHOUT ROWID""",
        # What the index gets are the words as `words` finds them: the tokenizer `ascii` parts them at the spaces and nowhere else.
        "CREATE VIRTUAL TABLE article_words USING fts5(words, content='', detail=none, columnsize=0, tokenize='ascii')",
    ),
)
"""Tables: `articles.publisher` is its name with the case folded; `record` is what no query looks into, as JSON."""

_TYPES = "event_type IN (SELECT value FROM json_each(:types))"
_MARKETS = "market IN (SELECT value FROM json_each(:markets))"
_TICKERS = """number IN (SELECT number FROM article_tickers
    WHERE ticker IN (SELECT value FROM json_each(:tickers)) AND published_ns >= :start AND published_ns < :end)"""
_TEXT = "number IN (SELECT rowid FROM article_words WHERE article_words MATCH :match)"
_PUBLISHER = "instr(publisher, :publisher) > 0"
_AFTER = "(published_ns, id) > (:after_ns, :after_id)"


@dataclass(frozen=True, slots=True)
class SqliteNews:
    """A `NewsStore` in a file that nobody writes while it is read.

    Attributes:
        path: the file.
    """

    path: Path

    def news(self, span: Span, tags: Tags, page: Page, as_of_ns: int) -> Sequence[NewsRow]:
        """Articles published in the span and by then, by (published_ns, id)."""
        conditions = ["published_ns >= :start", "published_ns < :end", "importance >= :least"]
        conditions += [_TYPES] if tags.types else []
        conditions += [_MARKETS] if tags.markets else []
        conditions += [_TICKERS] if tags.tickers else []
        match = _match(tags.text)
        conditions += [_TEXT] if match else []
        conditions += [_PUBLISHER] if tags.publisher else []
        conditions += [_AFTER] if page.after else []
        after_ns, after_id = page.after or (0, "")
        values = {
            "start": bounded(span.start_ns),
            "end": bounded(min(span.end_ns, as_of_ns + 1)),
            "least": IMPORTANCE.index(tags.least),
            "types": dumps_canonical(tags.types),
            "markets": dumps_canonical(tags.markets),
            "tickers": dumps_canonical(tags.tickers),
            "match": match,
            "publisher": tags.publisher.casefold(),
            "after_ns": bounded(after_ns),
            "after_id": after_id,
            "limit": bounded(page.limit),
        }
        query = select("record", "articles", conditions) + " ORDER BY published_ns, id LIMIT :limit"
        with reading(self.path, LAYOUT) as connection:
            return [news_of(loads_strict(record)) for (record,) in connection.execute(query, values)]

    def article(self, news_id: str, as_of_ns: int) -> NewsRow | None:
        """One article; None where there is none by then."""
        query = "SELECT record FROM articles WHERE id = ? AND published_ns <= ?"
        with reading(self.path, LAYOUT) as connection:
            found = connection.execute(query, (news_id, bounded(as_of_ns))).fetchone()
            return news_of(loads_strict(found[0])) if found else None


def open_news(path: Path) -> SqliteNews:
    """The store of a file.

    Raises:
        DataError: the file is not there, damaged, or no news store.
    """
    check_file(path, LAYOUT)
    return SqliteNews(path)


def write_news(path: Path, rows: Iterable[NewsRow], *, replace: bool = False) -> Written:
    """Add articles to a file, which is made where there is none; all of them, or none when anything fails.

    An article that is stored already as it is is passed over.

    Raises:
        DataError: a row that can't be stored; another one under its id without `replace`; a file that can't be written.
    """
    with writing(path, LAYOUT) as connection:
        return upsert(_Articles(connection), ((row, dumps_canonical(checked_article(row))) for row in rows), replace=replace)


@dataclass(frozen=True, slots=True)
class _Articles:
    """The tables, inside a transaction."""

    connection: sqlite3.Connection

    def key(self, record: tuple[NewsRow, str]) -> str:
        return f"article {record[0].id}"

    def holds(self, record: tuple[NewsRow, str]) -> bool | None:
        row, text = record
        found = self.connection.execute("SELECT record FROM articles WHERE id = ?", (row.id,)).fetchone()
        return None if found is None else bool(found[0] == text)

    def insert(self, record: tuple[NewsRow, str]) -> None:
        row, text = record
        importance, publisher = IMPORTANCE.index(row.importance), row.publisher.get("name", "").casefold()
        number = self.connection.execute(
            "INSERT INTO articles VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
            (row.id, row.event_type, row.published_ns, importance, row.market, publisher, text),
        ).lastrowid
        tickers = [(ticker, row.published_ns, number) for ticker in set(row.tickers)]
        self.connection.executemany("INSERT INTO article_tickers VALUES (?, ?, ?)", tickers)
        self.connection.execute("INSERT INTO article_words (rowid, words) VALUES (?, ?)", (number, _indexed(row)))

    def delete(self, record: tuple[NewsRow, str]) -> None:
        found = self.connection.execute("SELECT number, record FROM articles WHERE id = ?", (record[0].id,)).fetchone()
        number, old = found[0], news_of(loads_strict(found[1]))
        # An index without content of its own has to be told what it is to forget.
        self.connection.execute(
            "INSERT INTO article_words (article_words, rowid, words) VALUES ('delete', ?, ?)", (number, _indexed(old))
        )
        tickers = [(ticker, old.published_ns, number) for ticker in old.tickers]
        self.connection.executemany("DELETE FROM article_tickers WHERE ticker = ? AND published_ns = ? AND number = ?", tickers)
        self.connection.execute("DELETE FROM articles WHERE number = ?", (number,))


def _indexed(row: NewsRow) -> str:
    return " ".join(words(searched_text(row)))


def _match(text: str) -> str:
    """The full-text query for all words of a text. Words hold letters and digits only, so none can be part of its syntax."""
    return " ".join(f'"{word}"' for word in dict.fromkeys(words(text)))
