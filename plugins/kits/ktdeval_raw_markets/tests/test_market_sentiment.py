"""Sentiment of a document: read from the end of its text or from a column, stored with the market,
and part of its identity.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ktdeval.market import Document, Documents, load_snapshot, save_snapshot
from ktdeval.market.snapshots.manifest import snapshot_id
from ktdeval.testing import on_each_row
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.sources.document_files import faults, read_documents
from ktdeval_raw_markets.sources.sentiment import LabelledText, split_sentiment
from support.market.raw_market import market

MOMENT = datetime(2024, 1, 2, 9, tzinfo=UTC)
ROW = {"published_at": MOMENT.isoformat(), "source": "wire", "kind": "news", "title": "t"}


def item(sentiment: str = "", text: str = "Up.") -> Document:
    return Document(MOMENT, MOMENT, "wire", "news", ("600519.SH",), "t", text, sentiment)


@on_each_row(
    "text, rest, sentiment",
    ("Shares rose. (Sentiment: positive)", "Shares rose.", "positive"),
    ("coins fell.(sentiment:negative)", "coins fell.", "negative"),
    ("Up. [Sentiment: Somewhat-Bullish].", "Up.", "Somewhat-Bullish"),
    (("Up.\n(Sentiment: neutral)\n"), "Up.", "neutral"),
    ("Up. (Sentiment: positive) (Sentiment: Positive)", "Up.", "Positive"),
    ("Up. (Sentiment: negative) (Sentiment: positive)", "Up. (Sentiment: negative)", "positive"),
    ("(Sentiment: positive)", "", "positive"),
    (("Up.\nSentiment: bullish"), "Up.", "bullish"),
    ("Up. Sentiment: bullish.", "Up.", "bullish"),
    (
        (
            "Up. The positive score for this news is 2.36e-08. The neutral score for this news "
            "is 0.9999. The negative score for this news is 0.125."
        ),
        "Up.",
        "positive 0.00, neutral 1.00, negative 0.12",
    ),
    # not at the end
    ("(Sentiment: positive) Up.", "(Sentiment: positive) Up.", ""),
    (
        "Markets showed poor sentiment: investors fled",
        "Markets showed poor sentiment: investors fled",
        "",
    ),
    # part of a sentence
    ("A survey of sentiment: negative", "A survey of sentiment: negative", ""),
    ("Investors wait (sentiment)", "Investors wait (sentiment)", ""),
    ("", "", ""),
)
def test_the_label_at_the_end_of_a_text_is_taken_out_of_it(
    text: str, rest: str, sentiment: str
) -> None:
    assert split_sentiment(text) == LabelledText(rest, sentiment)


def test_a_long_text_is_searched_at_its_end_alone() -> None:
    text = f"{' ' * 1_000_000}(sentiment: {'x ' * 1_000_000}"
    assert split_sentiment(text) == LabelledText(text, "")


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.parquet"])
# cells of a row besides its text
@on_each_row(
    "text, cells, rest, sentiment",
    ("Up.", {"sentiment": "positive"}, "Up.", "positive"),
    (
        "Up.",
        {"overall_sentiment_label": "Somewhat-Bullish", "overall_sentiment_score": 0.2},
        "Up.",
        "Somewhat-Bullish",
    ),
    ("Up.", {"overall_sentiment_score": 0.234561}, "Up.", "0.23"),
    ("Up.", {"sentiment_score": "-0.0001"}, "Up.", "0"),
    ("Up.", {"sentiment": 4}, "Up.", "4"),
    ("Up.", {"sentiment": "", "sentiment_label": "  very\tgood "}, "Up.", "very good"),
    ("Up. (Sentiment: positive)", {"sentiment": ""}, "Up.", "positive"),
    ("Up. (Sentiment: positive)", {"sentiment": "Positive"}, "Up.", "Positive"),
    # two statements: both stay
    (
        "Up. (Sentiment: positive)",
        {"sentiment": "negative"},
        "Up. (Sentiment: positive)",
        "negative",
    ),
)
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


def test_the_sentiment_is_stored_and_part_of_the_identity(tmp_path: Path) -> None:
    plain = assemble(market())
    markets = {
        sentiment: replace(plain, documents=Documents.of([item(sentiment)]), id="")
        for sentiment in ("", "positive", "negative")
    }

    assert len({snapshot_id(one) for one in markets.values()}) == 3

    save_snapshot(markets["positive"], tmp_path / "m")
    loaded = load_snapshot(tmp_path / "m")

    assert list(loaded.documents) == [item("positive")]
    assert loaded.id == snapshot_id(markets["positive"])


def test_items_that_differ_in_sentiment_alone_are_no_repetition() -> None:
    documents = Documents.of([item("positive"), item("negative"), item("negative")])
    counts = {kind: count for kind, count, _ in faults(documents, frozenset({"600519.SH"}))}
    assert counts["documents_repeated"] == 1
