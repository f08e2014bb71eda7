"""Documents shown at a close. Assets take turns, each showing its newest document first, so that an
asset with more documents does not crowd out the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ktdeval.market import DocumentsView, MarketView
from ktdeval.masking import DayRef, Payload, ShownDocument, table
from ktdeval_markets.episode_setting import MarketStage

NEWS_COLUMNS = ("day", "source", "kind", "stock_ids", "title", "text")
# column before which sentiment is inserted, if documents have it
_SENTIMENT_AT = NEWS_COLUMNS.index("title")


def news(stage: MarketStage, view: MarketView, listed: Sequence[int]) -> Payload:
    """Return the documents known at this close, as the mask shows them, newest first, with the
    number of documents that would have been shown but can't be masked safely.

    `listed`: columns of the assets shown.
    """
    documents = view.documents
    choice = _DocumentChoice(stage, view)
    choice.take(_document_groups(stage, documents, listed))

    if not stage.only:
        choice.take([_DocumentGroup(stage, documents, choice.rest(stage.news_days))])

    chosen = choice.chosen
    has_sentiment = any(document.sentiment.plain for document in chosen.values())
    columns = list(NEWS_COLUMNS)
    if has_sentiment:
        columns.insert(_SENTIMENT_AT, "sentiment")

    rows: list[list[Payload]] = []
    for row in stage.lens.sort_documents(documents, chosen):
        document = chosen[row]
        day = DayRef(documents.day_of(row))
        assets = list(document.assets)
        cells: list[Payload] = [
            *(day, document.source, document.kind, assets, document.title, document.text)
        ]
        if has_sentiment:
            cells.insert(_SENTIMENT_AT, document.shown_sentiment)
        rows.append(cells)

    return {**table(columns, rows), "withheld": choice.withheld}


def _document_groups(
    stage: MarketStage, documents: DocumentsView, listed: Sequence[int]
) -> list[_DocumentGroup]:
    """Return one group of documents for each asset shown, and one for the market as a whole."""
    codes = stage.snapshot.codes
    subjects = [codes[asset] for asset in stage.only or listed]
    return [
        _DocumentGroup(stage, documents, documents.rows(stage.news_days, [code]).tolist())
        for code in (*subjects, "")
    ]


class _DocumentGroup:
    """Documents about one asset, or about the market as a whole, in the order in which they are
    chosen.
    """

    def __init__(self, stage: MarketStage, documents: DocumentsView, rows: Sequence[int]) -> None:
        self.rows = frozenset(rows)
        self.queue: Iterator[int] = stage.lens.in_turn(documents, rows)


class _DocumentChoice:
    """Documents chosen so far."""

    def __init__(self, stage: MarketStage, view: MarketView) -> None:
        self.chosen: dict[int, ShownDocument] = {}  #: chosen documents by row
        self.withheld = 0  #: number of documents reached that can't be masked safely
        self._stage = stage
        self._view = view
        self._seen: dict[int, ShownDocument | None] = {}
        self._grouped: set[int] = set()

    def take(self, groups: Sequence[_DocumentGroup]) -> None:
        """Choose documents from `groups` in rounds. The n-th round takes the next document of each
        group, unless n of the group's documents have already been chosen, possibly through other
        groups. If the last round is too large, only its newest documents are chosen.
        """
        most = self._stage.news
        each = self._stage.news_each or most
        for group in groups:
            self._grouped.update(group.rows)

        turn = 1
        while turn <= each and len(self.chosen) < most:
            found = self._round(groups, turn)
            if not found:
                return

            in_turn = self._stage.lens.in_turn(self._view.documents, sorted(found, reverse=True))
            for row in in_turn:
                if len(self.chosen) < most:
                    self.chosen[row] = found[row]

            turn += 1

    def rest(self, days: int) -> list[int]:
        """Return the rows of documents from the last `days` days that are in no group so far,
        newest first.
        """
        rows = self._view.documents.rows(days).tolist()
        return [row for row in rows if row not in self._grouped]

    def _round(self, groups: Iterable[_DocumentGroup], turn: int) -> dict[int, ShownDocument]:
        """Return the next document of each group of which fewer than `turn` documents are
        chosen.
        """
        found: dict[int, ShownDocument] = {}
        for group in groups:
            if len(group.rows & self.chosen.keys()) >= turn:
                continue

            for row in group.queue:
                document = self._show_document(row)
                if document is not None and row not in self.chosen:
                    found[row] = document
                    break

        return found

    def _show_document(self, row: int) -> ShownDocument | None:
        """Return a document as the mask shows it, or None if it can't be masked safely."""
        if row not in self._seen:
            stage = self._stage
            document = self._view.documents[row]
            shown = stage.texts.show(document, self._view.day, stage.news_characters)
            self._seen[row] = shown
            if shown is None:
                self.withheld += 1

        return self._seen[row]
