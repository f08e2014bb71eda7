"""Sentiment of a document: read from the end of its text or from a column, stored with the market,
and part of its identity.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ktdeval.market import Document, Documents, read_documents
from ktdeval.market.sources.document_files import faults
from ktdeval.market.sources.sentiment import LabelledText, split_sentiment
from support.tables import on_each_row

MOMENT = datetime(2024, 1, 2, 9, tzinfo=UTC)
ROW = {"published_at": MOMENT.isoformat(), "source": "wire", "kind": "news", "title": "t"}


def item(sentiment: str = "", text: str = "Up.") -> Document:
    return Document(MOMENT, MOMENT, "wire", "news", ("600519.SH",), "t", text, sentiment)


@on_each_row
def test_the_label_at_the_end_of_a_text_is_taken_out_of_it(
    text: str, rest: str, sentiment: str
) -> None:
    assert split_sentiment(text) == LabelledText(rest, sentiment)


def test_a_long_text_is_searched_at_its_end_alone() -> None:
    text = f"{' ' * 1_000_000}(sentiment: {'x ' * 1_000_000}"
    assert split_sentiment(text) == LabelledText(text, "")


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.parquet"])
@on_each_row
def test_a_column_of_sentiments_is_read(
    name: str, text: str, cells: dict[str, Any], rest: str, sentiment: str, tmp_path: Path
) -> None:
    row = {**ROW, **cells, "text": text}
    path = tmp_path / name
    if name == "d.jsonl":
        path.write_text(json.dumps(row))
    elif name == "d.csv":
        pd.DataFrame([row]).to_csv(path, index=False)
    else:
        pd.DataFrame([row]).to_parquet(path)

    (document,) = read_documents(path)

    assert (document.text, document.sentiment) == (rest, sentiment)


def test_items_that_differ_in_sentiment_alone_are_no_repetition() -> None:
    documents = Documents.of([item("positive"), item("negative"), item("negative")])
    counts = {kind: count for kind, count, _ in faults(documents, frozenset({"600519.SH"}))}
    assert counts["documents_repeated"] == 1
