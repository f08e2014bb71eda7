"""Two research tools that read the market's documents, for tasks that list these tools. They show
documents known at the step's close, masked.

Neither tool reveals the identity behind a handle: a query is matched only against the text as
shown, without the parts that the mask removed, and a document's id is valid only in this episode.
Documents that can't be masked safely are omitted and counted.
"""

# ruff: noqa: D417 - docstrings are what a model reads of a tool, and it never sees the first parameter

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

from ktdeval.harness import AssetArg, Bounds, Length, Refusal
from ktdeval.masking import DayRef, DocumentRef, Payload, ShownDocument, normalise, table
from ktdeval_ktdfin.step_view import ResearchStep

MAX_LOOKBACK_DAYS = 120
MAX_FOUND = 50
MAX_SEARCHED = 500
MAX_CHARACTERS = 20_000
NEWS_COLUMNS = ("document_id", "day", "source", "kind", "stock_ids", "title")
# column before which sentiment is inserted, if documents have it
_SENTIMENT_AT = NEWS_COLUMNS.index("title")
_TERM = re.compile(r"[^\W_]+")


def search_news(
    step: ResearchStep,
    query: Annotated[str, Length(0, 200)] = "",
    stock_ids: Annotated[list[AssetArg], Length(1, 50)] | None = None,
    lookback: Annotated[int, Bounds(1, MAX_LOOKBACK_DAYS)] = 20,
    limit: Annotated[int, Bounds(1, MAX_FOUND)] = 10,
) -> Payload:
    """News, filings and macro releases that were known at today's close: titles, with ids for
    get_document.

    Those with most words of the query come first, then the newest. At most the 500 newest are
    searched. withheld counts those of them that can't be shown.

    Args:
        query: words, such as "dividend"; none: the newest.
        stock_ids: only documents filed under one of these stocks.
        lookback: trading days to look back, today included.
        limit: how many to return.
    """
    documents = step.view.documents
    lens = step.stage.lens
    codes = None
    if stock_ids is not None:
        codes = [step.view.codes[asset] for asset in stock_ids]

    known = documents.rows(lookback, codes).tolist()
    rows = list(islice(lens.in_turn(documents, known), MAX_SEARCHED))
    words = dict.fromkeys(_TERM.findall(normalise(query).lower()))
    terms = [_pattern(word) for word in words]

    shown = 0
    matches: list[_DocumentMatch] = []
    for row in rows:
        document = _shown_document(step, row)
        if document is None:
            continue

        shown += 1
        hits = _hits(document, terms)
        if hits or not terms:
            matches.append(_DocumentMatch(row, document, hits))

    matches.sort(key=lambda match: -match.hits)
    best = matches[:limit]
    position: dict[int, int] = {}
    for index, row in enumerate(lens.sort_documents(documents, [match.row for match in best])):
        position[row] = index

    best.sort(key=lambda match: (-match.hits, position[match.row]))
    has_sentiment = any(match.document.sentiment.plain for match in best)
    heads = [_head(step, match.row, match.document, has_sentiment) for match in best]

    return {
        "day": DayRef(step.view.day),
        "documents": table(_news_columns(has_sentiment), [list(head.values()) for head in heads]),
        "searched": len(rows),
        "withheld": len(rows) - shown,
    }


def get_document(
    step: ResearchStep, document_id: Annotated[str, Length(1, 40)]
) -> Payload | Refusal:
    """One document that search_news has shown, with its text (at most 20,000 characters: of a
    longer one beginning and end; cut says whether it is longer).

    Args:
        document_id: its id.
    """
    row = step.stage.lens.parse_document(document_id)
    document = None
    if row is not None and row < len(step.view.documents):
        document = _shown_document(step, row, MAX_CHARACTERS)

    if row is None or document is None:
        error = {
            "kind": "bad_arguments",
            "argument": "document_id",
            "expected": "an id as search_news shows them",
        }
        return Refusal({"error": error}, "bad_arguments")

    head = _head(step, row, document, bool(document.sentiment.plain))
    return {**head, "text": document.text, "cut": document.is_cut}


FUNCTIONS = (search_news, get_document)


@dataclass(frozen=True, slots=True)
class _DocumentMatch:
    """A document found by a search."""

    row: int
    document: ShownDocument
    hits: int  #: number of query words that the document contains


def _shown_document(step: ResearchStep, row: int, most: int | None = None) -> ShownDocument | None:
    return step.stage.texts.show(step.view.documents[row], step.view.day, most)


def _news_columns(has_sentiment: bool) -> list[str]:
    columns = list(NEWS_COLUMNS)
    if has_sentiment:
        columns.insert(_SENTIMENT_AT, "sentiment")
    return columns


def _head(
    step: ResearchStep, row: int, document: ShownDocument, has_sentiment: bool
) -> dict[str, Payload]:
    """Return a document's cells by column. They include its sentiment if the table has a sentiment
    column.
    """
    day = DayRef(step.view.documents.day_of(row))
    assets = list(document.assets)
    values: list[Payload] = [
        *(DocumentRef(row), day, document.source, document.kind, assets, document.title)
    ]
    if has_sentiment:
        values.insert(_SENTIMENT_AT, document.shown_sentiment)

    return dict(zip(_news_columns(has_sentiment), values, strict=True))


def _pattern(term: str) -> re.Pattern[str]:
    """Return a pattern that matches a term at the start of a word; a Chinese term matches
    anywhere.
    """
    if term.isascii():
        return re.compile(rf"(?<![^\W_]){re.escape(term)}")
    return re.compile(re.escape(term))


def _hits(document: ShownDocument, terms: list[re.Pattern[str]]) -> int:
    """Return how many terms occur in the title and text as shown."""
    if not terms:
        return 0

    parts: Any = (*document.title.parts, *document.text.parts)
    texts = [normalise(part).lower() for part in parts if isinstance(part, str)]
    hits = 0
    for term in terms:
        if any(term.search(text) for text in texts):
            hits += 1

    return hits
