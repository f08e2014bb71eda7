"""Two research tools over the market's documents, for tasks that name them: what is known at the step's close, masked.

A query is matched with texts as they are shown, never with what the mask took out of them, and a document's id is a name of this
episode: neither says what a handle stands for. Documents that can't be masked safely are left out and counted.
"""

# ruff: noqa: D417 - docstrings are what a model reads of a tool, and it never sees the first parameter

from __future__ import annotations

import re
from itertools import islice
from typing import Annotated, Any

from ktdeval.harness import AssetArg, Bounds, Length, Refusal
from ktdeval.masking import DayRef, DocumentRef, Payload, ShownDocument, normalise, table
from ktdeval_ktdfin.step import Step

MAX_LOOKBACK_DAYS = 120
MAX_FOUND = 50
MAX_SEARCHED = 500
MAX_CHARACTERS = 20_000
NEWS_COLUMNS = ("document_id", "day", "source", "kind", "stock_ids", "title")
_TERM = re.compile(r"[^\W_]+")


def search_news(
    step: Step,
    query: Annotated[str, Length(0, 200)] = "",
    stock_ids: Annotated[list[AssetArg], Length(1, 50)] | None = None,
    lookback: Annotated[int, Bounds(1, MAX_LOOKBACK_DAYS)] = 20,
    limit: Annotated[int, Bounds(1, MAX_FOUND)] = 10,
) -> Payload:
    """News, filings and macro releases that were known at today's close: titles, with ids for get_document.

    Those with most words of the query come first, then the newest. At most the 500 newest are searched. withheld counts those of
    them that can't be shown.

    Args:
        query: words, such as "dividend"; none: the newest.
        stock_ids: only documents filed under one of these stocks.
        lookback: trading days to look back, today included.
        limit: how many to return.
    """
    view = step.view.documents
    codes = None if stock_ids is None else [step.view.codes[asset] for asset in stock_ids]
    lens = step.stage.lens
    rows = [*islice(lens.in_turn(view, view.rows(lookback, codes).tolist()), MAX_SEARCHED)]
    terms = [_pattern(term) for term in dict.fromkeys(_TERM.findall(normalise(query).lower()))]
    matches = [(row, document, _hits(document, terms)) for row in rows if (document := _shown(step, row)) is not None]
    best = sorted((match for match in matches if match[2] or not terms), key=lambda match: -match[2])[:limit]
    position = {row: index for index, row in enumerate(lens.listed(view, [row for row, _, _ in best]))}
    best.sort(key=lambda match: (-match[2], position[match[0]]))
    listed = table(NEWS_COLUMNS, ([*_head(step, row, document).values()] for row, document, _ in best))
    return {"day": DayRef(step.view.day), "documents": listed, "searched": len(rows), "withheld": len(rows) - len(matches)}


def get_document(step: Step, document_id: Annotated[str, Length(1, 40)]) -> Payload:
    """One document that search_news has shown, with its text (the first 20,000 characters; cut says whether there is more).

    Args:
        document_id: its id.
    """
    row = step.stage.lens.parse_document(document_id)
    document = None
    if row is not None and row < len(step.view.documents):
        document = _shown(step, row, MAX_CHARACTERS)
    if row is None or document is None:
        error = {"kind": "bad_arguments", "argument": "document_id", "expected": "an id as search_news shows them"}
        return Refusal({"error": error}, "bad_arguments")
    return {**_head(step, row, document), "text": document.text, "cut": document.is_cut}


FUNCTIONS = (search_news, get_document)


def _shown(step: Step, row: int, most: int | None = None) -> ShownDocument | None:
    return step.stage.texts.show(step.view.documents[row], step.view.day, most)


def _head(step: Step, row: int, document: ShownDocument) -> dict[str, Payload]:
    day, assets = DayRef(step.view.documents.day_of(row)), list(document.assets)
    values = (DocumentRef(row), day, document.source, document.kind, assets, document.title)
    return dict(zip(NEWS_COLUMNS, values, strict=True))


def _pattern(term: str) -> re.Pattern[str]:
    """Pattern that finds a term at the start of a word; a Chinese one anywhere."""
    return re.compile(rf"(?<![^\W_]){re.escape(term)}" if term.isascii() else re.escape(term))


def _hits(document: ShownDocument, terms: list[re.Pattern[str]]) -> int:
    """Return how many terms are in what is shown of title and text."""
    if not terms:
        return 0
    parts: Any = (*document.title.parts, *document.text.parts)
    texts = [normalise(part).lower() for part in parts if isinstance(part, str)]
    return sum(any(term.search(text) for text in texts) for term in terms)
