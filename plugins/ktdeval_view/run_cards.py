"""Cards of a run's trading tasks, and the parts of an episode's return that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ktdeval.cards import PARTS, EpisodeMetric, TradingCard, card_files, load_evaluation
from ktdeval.errors import KtdevalError
from ktdeval_view.episode_records import EpisodeRecords

NO_CARD = "the run has no readable card of this task yet"
_LINES = {
    "common_return": "common",
    "industry_return": "industry",
    "selection_alpha": "selection",
}
"""Parts that are a single line of the attribution, for which the card has an interval."""


@dataclass(frozen=True)
class ReturnPart:
    """One of the five parts of the total return, as a fraction of the initial cash."""

    name: str  #: its metric, such as `style_return`
    value: float | None  #: None if it is undefined
    reason: str = ""  #: why it is undefined
    #: 95 % interval over the days of the episode; None if the card has none
    interval: tuple[float, float] | None = None


class RunCards:
    """Readable cards of a run's trading tasks. A card is read when its task is asked for."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._unread: list[Path] | None = None
        self._cards: dict[str, TradingCard] = {}

    def of(self, task: str) -> TradingCard | None:
        """Return the card of a trading task; None if there is no readable one. Cards are named
        after their tasks; other files are read only if no card has the expected name.
        """
        if self._unread is None:
            self._unread = _card_files(self._run)

        self._unread.sort(key=lambda file: file.stem != task)
        while task not in self._cards and self._unread:
            card = _read_card(self._unread.pop(0))
            if card is not None:
                self._cards.setdefault(card.task.name, card)

        return self._cards.get(task)

    def return_parts(self, records: EpisodeRecords) -> list[ReturnPart] | str:
        """Return the parts of an episode's total return in their order, or the reason why the run's
        cards have none of them.
        """
        card = self.of(records.spec.task)
        if card is None:
            return NO_CARD

        for episode in card.episodes:
            if episode.id != records.spec.id:
                continue

            last = records.steps[-1]
            figures = (episode.steps, episode.last_day, episode.final_nav_minor)
            if figures != (len(records.steps), last.filled_on, last.nav_minor):
                return "the card is of other records than these: ktdeval score makes a new one"

            return _parts(episode.metrics)

        return "the episode is not among the finished ones of the run's card"


def _card_files(run: Path) -> list[Path]:
    try:
        return card_files([run])
    except KtdevalError:  # there are no cards until the run has ended
        return []


def _read_card(file: Path) -> TradingCard | None:
    try:
        card = load_evaluation(file)
    except KtdevalError:  # the ledgers can be shown without a card
        return None

    if isinstance(card, TradingCard):
        return card
    return None


def _parts(metrics: Mapping[str, EpisodeMetric]) -> list[ReturnPart] | str:
    if not any(name in metrics for name in PARTS):
        return "the card has no attribution among its metrics"

    parts = []
    for name in PARTS:
        metric = metrics.get(name)
        if metric is None:
            parts.append(ReturnPart(name, None, "not among the card's metrics"))
        elif metric.value is None:
            parts.append(ReturnPart(name, None, metric.reason or "no reason is given"))
        else:
            parts.append(ReturnPart(name, metric.value, interval=_interval(name, metrics)))

    return parts


def _interval(name: str, metrics: Mapping[str, EpisodeMetric]) -> tuple[float, float] | None:
    """Return the 95 % interval of a part, which is in the detail of the selection."""
    line = _LINES.get(name)
    detail = metrics["selection_alpha"].detail if "selection_alpha" in metrics else None
    if line is None or not isinstance(detail, Mapping):
        return None

    intervals = detail.get("intervals")
    recorded = intervals.get(line) if isinstance(intervals, Mapping) else None
    if not isinstance(recorded, Mapping) or recorded.get("level") != 0.95:
        return None

    low = recorded.get("low")
    high = recorded.get("high")
    if isinstance(low, float) and isinstance(high, float):
        return low, high
    return None
