"""Tear sheets of a run. Tracks are collected by episode and rendered as one page per task."""

from __future__ import annotations

from collections.abc import Iterable

from ktdeval.cards import TradingCard, account_claims, price_index
from ktdeval.market import MarketSnapshot
from ktdeval.runner import RunFolder
from ktdeval.task_api import EpisodeSpec
from ktdeval_pages.tear_sheet.page import SheetFacts, make_tear_sheet, sheet_name
from ktdeval_pages.tear_sheet.tracks import Track
from ktdeval_view.document import EnvironmentRedactor
from ktdeval_view.episode_records import EpisodeRecords, episode_label
from ktdeval_view.episode_tracks import track_of
from ktdeval_view.run_cards import RunCards


class TearSheets:
    """Makes the tear sheets of one run, which is only read. Only the track of each episode is kept,
    since the records of many episodes can be large.
    """

    def __init__(
        self, run: RunFolder, cards: RunCards, market: MarketSnapshot | None, no_market: str
    ) -> None:
        self._run = run
        self._cards = cards
        self._market = market
        self._no_market = no_market
        self._tracks: dict[str, list[Track]] = {}
        self._notes: dict[str, list[str]] = {}
        self._pages: dict[str, dict[tuple[str, int], str]] = {}
        self._specs: dict[str, EpisodeSpec] = {}

    def add(self, records: EpisodeRecords, page: str) -> None:
        """Add an episode. `page` is the file name of its page, or empty if it has no page."""
        spec = records.spec
        self._specs.setdefault(spec.task, spec)
        if records.problem:
            self._notes.setdefault(spec.task, []).append(records.problem)
        if not records.steps:
            note = f"{episode_label(spec)} is {records.state} and not in any figure"
            self._notes.setdefault(spec.task, []).append(note)
            return

        track = track_of(records, self._market, self._no_market)
        self._tracks.setdefault(spec.task, []).append(track)
        if page:
            self._pages.setdefault(spec.task, {})[track.name, spec.seed] = page

    def pages(self, tasks: Iterable[str], redactor: EnvironmentRedactor) -> dict[str, str]:
        """Return the tear sheets of the given tasks as HTML, keyed by file name. Tasks without a
        track are left out.
        """
        found = {}
        for task in tasks:
            if task not in self._tracks:
                continue

            facts = self._facts(task, self._cards.of(task))
            text = make_tear_sheet(self._tracks[task], facts, self._market)
            found[sheet_name(task)] = redactor.text(text)

        return found

    def links(self, written: Iterable[str]) -> dict[str, str]:
        """Return the file name of each task's tear sheet, for tasks that have one in `written`."""
        names = set(written)
        found = {}
        for task in self._tracks:
            if sheet_name(task) in names:
                found[task] = sheet_name(task)
        return found

    def _facts(self, task: str, card: TradingCard | None) -> SheetFacts:
        spec = self._specs[task]
        notes = [self._no_market, *self._notes.get(task, [])]
        labels: list[str] = []
        if card is not None:
            labels += card.labels
            notes += account_claims(card)
            dividends = price_index(card.episodes, card.snapshot.days_a_year)
            if dividends:
                notes.append(f"The benchmark is the index as it is in the data{dividends}")
        else:
            notes.append("The run has no readable card of this task yet, so labels are missing")
            if self._market is not None and self._market.meta.synthetic:
                labels.append("synthetic")

        line = [spec.model, f"agent {spec.agent}", f"mask {spec.mask}"]
        if self._market is not None:
            line.append(f"market {self._market.meta.name}")
        line.append(f"run {self._run.path.resolve().name}")
        return SheetFacts(
            title=f"{task} · {spec.model}",
            line=" · ".join(line),
            account="agent",
            command="ktdeval view",
            labels=labels,
            notes=list(dict.fromkeys(note for note in notes if note)),
            pages=self._pages.get(task, {}),
        )
