"""Replay of decisions from their recorded replies, on the markets as they were shown.

Days frozen after a decision do not change what the entrant was shown. All decisions between two
revisions therefore share one market and one episode. A revision, or data that arrive late, start a
new market and episode.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import numpy as np

from ktdeval.cards import value_difference
from ktdeval.errors import KtdevalError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import call_foreign
from ktdeval.runner import RecordedModel
from ktdeval_live.checks.checked_folder import CheckedFolder
from ktdeval_live.days.market_increments import Increment, market_as_known
from ktdeval_live.record.chain import RecordChain
from ktdeval_live.record.decision_records import DecisionRecord, record_of
from ktdeval_live.record.entrant_episode import DayAnswer, EntrantMarket, EntryEpisode, answers
from ktdeval_live.record.folder import LiveFolder


class KnownMarkets:
    """Markets of a test as known when decisions were made, by segment.

    A segment is the part of the chain between two entries that change data for earlier days.
    """

    def __init__(self, folder: LiveFolder, chain: RecordChain) -> None:
        self._folder = folder
        self._chain = chain
        self._increments: dict[str, list[tuple[int, Increment]]] = {}
        self._changes: dict[str, list[int]] = {}
        # a market's entries are checked one after the other, and share its segments
        self._market = lru_cache(maxsize=2)(self._market_of)

    def stretch(self, market: str, before: int) -> int:
        """Return the number of the segment that the chain was in when it had `before` entries.

        Raises KtdevalError if an increment can't be read.
        """
        self._load(market)
        return bisect_left(self._changes[market], before)

    def market(self, market: str, stretch: int) -> MarketSnapshot:
        """Return a market as known at the end of a segment. Raises KtdevalError."""
        self._load(market)
        return self._market(market, stretch)

    def _market_of(self, market: str, stretch: int) -> MarketSnapshot:
        end = len(self._chain.entries)
        if stretch < len(self._changes[market]):
            end = self._changes[market][stretch]

        known = [increment for seq, increment in self._increments[market] if seq < end]
        days = self._folder.schedule(market).days
        return market_as_known(self._folder.base(market), days, known)

    def _load(self, market: str) -> None:
        if market in self._increments:
            return

        increments = []
        for link, body in self._chain.find_data(market):
            increments.append((link.seq, self._folder.increment(body)))
        self._changes[market] = list(self._changing(market, increments))
        self._increments[market] = increments

    def _changing(self, market: str, increments: list[tuple[int, Increment]]) -> Iterator[int]:
        """Yield the numbers of chain entries that change known data for earlier days."""
        days = self._folder.schedule(market).days
        base = self._folder.base(market)
        latest = ""
        for seq, increment in increments:
            earlier = [day for day in days if day < increment.day]
            is_old = False
            if earlier:
                last = np.array(earlier[-1:], dtype="datetime64[D]")
                (closed,) = base.documents.cutoffs(last, base.rules.values())
                is_old = any(_instant(item.known_at) <= closed for item in increment.documents)
            if increment.day <= latest or is_old:
                yield seq
            latest = max(latest, increment.day)


def _instant(moment: datetime) -> int:
    """Return a point in time in microseconds since 1970-01-01 UTC."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class Retracer:
    """Replays the decisions of an entry in order."""

    def __init__(self, entry: EntrantMarket, checked: CheckedFolder, markets: KnownMarkets) -> None:
        #: whether a decision could not be reproduced, so that later days can't be checked
        self.broken = False
        self._entry = entry
        self._checked = checked
        self._markets = markets
        self._model = RecordedModel()
        self._episode: EntryEpisode | None = None
        self._stretch = -1
        self._ended = answers(checked.chain, entry)

    def retrace(self, record: DecisionRecord, before: int, answer: DayAnswer) -> str | None:
        """Replay a decision from its replies, on the market as known when the chain had `before`
        entries; return the first difference.
        """
        self._model.begin_step(record.transcript)
        step = record.question.step
        try:
            episode = self._episode_at(before)
            episode.settle_ended(self._ended, step)
            decided = call_foreign(
                episode.episode.decide_step, "the decision can't be reproduced", step
            )
        except KtdevalError as error:
            self.broken = True
            return str(error)

        again = record_of(
            record.question, record.asked_at, record.answered_at, decided, episode.market
        )
        difference = value_difference(record, again)
        self.broken = difference is not None
        if not answer.counts:
            self._episode = None  # the gap made invalid what this episode has shown
        return difference

    def _episode_at(self, before: int) -> EntryEpisode:
        """Return the episode for a segment, which is a new one if the market has changed."""
        stretch = self._markets.stretch(self._entry.market, before)
        if self._episode is None or stretch != self._stretch:
            market = self._markets.market(self._entry.market, stretch)
            self._episode = EntryEpisode(
                self._entry, self._checked.folder, self._checked.plugins, market, self._model
            )
            self._stretch = stretch
        return self._episode
