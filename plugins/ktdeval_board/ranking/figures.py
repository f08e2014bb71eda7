"""Figures of a division's cards by episode, and what they come to over the windows of a scope: median, quartiles, count, reasons.

A figure over a scope is what the card itself says of all its episodes (`metrics` of a card): the median over the episodes where it
is defined, the interquartile range from two on, a single episode's own interval otherwise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict

from ktdeval.cards import EpisodeMetric, Line, PriceEntry, ScoreLine, ScoringCard, TradingCard, TradingEpisode, UsageCounts
from ktdeval_board.entries import Card, Entry, given
from ktdeval_board.ranking.daily import NO_SERIES, Cell, SeriesFacts, Vector
from ktdeval_board.ranking.describe import EXTRA, by_trust

QUARTILES = "interquartile"
_NO_EPISODE = "no finished episode"
_DIGITS = 6
_MILLION = 1e6

Codes = npt.NDArray[np.int32]


@dataclass
class Words:
    """Texts by number, so that arrays can hold them; 0 is none."""

    texts: list[str] = field(default_factory=lambda: [""])
    places: dict[str, int] = field(default_factory=dict)

    def code(self, text: str) -> int:
        """Return the number of a text."""
        if text not in self.places:
            self.places[text] = len(self.texts)
            self.texts.append(text)
        return self.places[text]


@dataclass(frozen=True)
class Figures:
    """Figures of entries over one scope; arrays are [entries, columns]."""

    value: Vector
    low: Vector  #: ends of the interval; NaN where there is none (low, high)
    high: Vector
    kind: list[list[str | None]]  #: what the interval is; None where there is none
    n: npt.NDArray[np.int64]  #: episodes (scores: samples) that the value rests on
    planned: npt.NDArray[np.int64]  #: [entries] episodes that the scope asks for
    reasons: list[dict[str, str]]  #: column -> why its value is undefined, for each entry


@dataclass
class Samples:
    """Figures by episode of entries that share windows and seeds; arrays are [entries, cells, columns]."""

    entries: Sequence[Entry]
    cells: Sequence[Cell]  #: window and seed of each episode that was asked for
    columns: Sequence[str]
    value: Vector  #: NaN where undefined; low and high are the episode's own interval (value, low, high)
    low: Vector
    high: Vector
    kind: Codes
    reason: Codes
    decided: Vector  #: [entries, cells] steps (decided, planned)
    planned: Vector
    words: Words

    def over(self, windows: Collection[str]) -> Figures:
        """Return the figures over some of the windows."""
        chosen = [place for place, (window, _) in enumerate(self.cells) if window in windows]
        value = self.value[:, chosen]
        middle, low, high, n = medians(value)
        single = n == 1
        place = np.argmax(~np.isnan(value), axis=1)[:, None]
        for ends, own in ((low, self.low), (high, self.high)):
            ends[single] = np.take_along_axis(own[:, chosen], place, axis=1)[:, 0][single]
        kinds = np.where(single, np.take_along_axis(self.kind[:, chosen], place, axis=1)[:, 0], self.words.code(QUARTILES))
        self._pool_decided(chosen, (middle, low, high), n)
        kinds[np.isnan(low) | np.isnan(high)] = 0
        names: list[str | None] = [None, *self.words.texts[1:]]
        return Figures(
            middle,
            low,
            high,
            [[names[code] for code in row] for row in kinds.tolist()],
            n,
            np.full(len(self.entries), len(chosen)),
            self._reasons(np.isnan(middle), self.reason[:, chosen]),
        )

    def _pool_decided(self, chosen: Sequence[int], figures: tuple[Vector, Vector, Vector], n: npt.NDArray[np.int64]) -> None:
        """Steps are counted together: a median over episodes would hide one in which nothing was decided."""
        if "decided" in self.columns:
            place = self.columns.index("decided")
            planned = self.planned[:, chosen].sum(axis=1)
            share = self.decided[:, chosen].sum(axis=1) / np.maximum(planned, 1)
            middle, low, high = figures
            middle[:, place] = np.where(planned > 0, share, math.nan)
            low[:, place] = high[:, place] = math.nan
            n[:, place] = planned

    def _reasons(self, undefined: npt.NDArray[np.bool_], reason: Codes) -> list[dict[str, str]]:
        found: list[dict[str, str]] = [{} for _ in self.entries]
        for row, column in np.argwhere(undefined).tolist():
            said = sorted({self.words.texts[code] for code in reason[row, :, column].tolist() if code})
            found[row][self.columns[column]] = "; ".join(said) or _NO_EPISODE
        return found


def stacked(parts: Sequence[Figures]) -> Figures:
    """Return the figures of several groups of entries, one below the other."""
    return Figures(
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
        [kind for part in parts for kind in part.kind],
        np.concatenate([part.n for part in parts]),
        np.concatenate([part.planned for part in parts]),
        [reason for part in parts for reason in part.reasons],
    )


def medians(values: Vector) -> tuple[Vector, Vector, Vector, npt.NDArray[np.int64]]:
    """Median, quartiles and count along the second axis, NaN left out.

    Quartiles are linear between order statistics; they are NaN for fewer than two values. Returns each [a, c].
    """
    n = (~np.isnan(values)).sum(axis=1)
    if values.shape[1] == 0:
        none = np.full(n.shape, math.nan)
        return none, none.copy(), none.copy(), n
    ordered = np.sort(values, axis=1)  # NaN last

    def at(place: npt.NDArray[np.int64]) -> Vector:
        found: Vector = np.take_along_axis(ordered, np.maximum(place, 0)[:, None], axis=1)[:, 0]
        return found

    def quartile(quarter: int) -> Vector:
        # As statistics.quantiles(method="inclusive"), to the last bit, so that a board shows what the card says.
        place, rest = np.divmod(quarter * (n - 1), 4)
        ends = (at(place) * (4 - rest) + at(np.minimum(place + 1, n - 1)) * rest) / 4
        return np.where(n > 1, ends, math.nan) + 0.0

    lower, upper = at((n - 1) // 2), at(n // 2 - (n == 0))
    middle = np.where(lower == upper, lower, (lower + upper) / 2)
    return np.where(n > 0, middle, math.nan) + 0.0, quartile(1), quartile(3), n


def collect(
    entries: Sequence[Entry],
    columns: Sequence[str],
    benchmark: Mapping[str, Mapping[str, float]],
    facts: Callable[[str], SeriesFacts | None],
) -> list[Samples]:
    """Return the figures of trading cards by episode: one `Samples` for each set of seeds, as baselines may have more of them."""
    groups: dict[tuple[int, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(tuple(entry.card.seeds), []).append(entry)
    return [_Collector(members, columns, benchmark, facts).samples() for members in groups.values()]


class _Collector:
    """Fills the arrays of one group of entries."""

    def __init__(
        self,
        entries: Sequence[Entry],
        columns: Sequence[str],
        benchmark: Mapping[str, Mapping[str, float]],
        facts: Callable[[str], SeriesFacts | None],
    ) -> None:
        self.entries, self.columns, self.benchmark, self.facts = entries, columns, benchmark, facts
        card = entries[0].card
        self.cells: list[Cell] = [(window.name, seed) for window in card.windows for seed in card.seeds]
        self.words = Words()
        self.extras = [(place, name) for place, name in enumerate(columns) if name in EXTRA]
        self.metrics = [(place, name) for place, name in enumerate(columns) if name not in EXTRA]

    def samples(self) -> Samples:
        """Return the arrays."""
        shape = (len(self.entries), len(self.cells), len(self.columns))
        value, low, high = (np.full(shape, math.nan) for _ in range(3))
        kind, reason = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        decided, planned = np.zeros(shape[:2]), np.zeros(shape[:2])
        for row, entry in enumerate(self.entries):
            days = {window.name: window.days for window in entry.card.windows}
            limit = entry.card.limit
            planned[row] = [min(days[window], limit or days[window]) for window, _ in self.cells]
            facts = self.facts(entry.card_id)
            episodes = {(episode.window, episode.seed): episode for episode in entry.trading.episodes}
            for cell_place, cell in enumerate(self.cells):
                episode = episodes.get(cell)
                if episode is None:
                    continue
                counts = episode.decisions
                decided[row, cell_place] = counts.model + counts.model_after_retry
                for place, figure in self._figures(entry.trading, cell, episode, facts):
                    where = (row, cell_place, place)
                    if figure.value is None:
                        reason[where] = self.words.code(given(figure.reason) or "")
                        continue
                    value[where] = figure.value
                    own = given(figure.interval)
                    if own is not None and own.low is not None:
                        low[where], high[where], kind[where] = own.low, own.high, self.words.code(own.kind)
        return Samples(self.entries, self.cells, self.columns, value, low, high, kind, reason, decided, planned, self.words)

    def _figures(
        self, card: TradingCard, cell: Cell, episode: TradingEpisode, facts: SeriesFacts | None
    ) -> Iterator[tuple[int, EpisodeMetric]]:
        """Place of the column and the figure, shaped as a metric on a card."""
        metrics = episode.metrics
        for place, name in self.metrics:
            yield place, metrics.get(name) or _none(f"{name} is not on the card")
        for place, name in self.extras:
            yield place, self._extra(name, card, cell, episode, facts)

    def _extra(self, name: str, card: TradingCard, cell: Cell, episode: TradingEpisode, facts: SeriesFacts | None) -> EpisodeMetric:
        if name == "excess":
            return _excess(episode.metrics.get("total_return"), self.benchmark.get(cell[0], {}).get("total_return"))
        if name == "cost_usd":
            return episode_cost(episode.usage, given(card.cost.price))
        if name == "tokens":
            return _some(episode.usage.input_tokens + episode.usage.output_tokens)
        if name == "decided":
            counts = episode.decisions
            return _some((counts.model + counts.model_after_retry) / episode.steps)
        known = None if facts is None else (facts.gross if name == "gross_return" else facts.beaten).get(cell)
        if known is None:
            return _none(NO_SERIES)
        return _none(known) if isinstance(known, str) else _some(known)


def _some(value: float, n: int = 1) -> EpisodeMetric:
    return EpisodeMetric(value=value, n=n)


def _none(reason: str) -> EpisodeMetric:
    return EpisodeMetric(value=None, n=0, reason=reason)


def _excess(own: EpisodeMetric | None, benchmark: float | None) -> EpisodeMetric:
    if own is None:
        return _none("total_return is not on the card")
    if own.value is None:
        return own
    return _none("the benchmark has no return over the window") if benchmark is None else _some(own.value - benchmark)


def episode_cost(usage: UsageCounts, price: PriceEntry | None) -> EpisodeMetric:
    """US dollars of an episode's tokens at a card's price per million, as the card's own `cost` counts them."""
    if price is None:
        return _none("no price of the model is known")
    read, write = usage.cache_read_tokens, usage.cache_write_tokens
    read_rate, write_rate = (price.input if rate is None else rate for rate in (price.cache_read, price.cache_write))
    dollars = (usage.input_tokens - read - write) * price.input + read * read_rate + write * write_rate
    return _some((dollars + usage.output_tokens * price.output) / _MILLION)


def score_figures(entries: Sequence[Entry], columns: Sequence[str]) -> Figures:
    """Return the figures of cards of scoring tasks over all their answers: scores with their own intervals."""
    shape = (len(entries), len(columns))
    value, low, high = (np.full(shape, math.nan) for _ in range(3))
    counts = np.zeros(shape, np.int64)
    kinds: list[list[str | None]] = [[None] * len(columns) for _ in entries]
    reasons: list[dict[str, str]] = [{} for _ in entries]
    for row, entry in enumerate(entries):
        for column, name in enumerate(columns):
            figure = _score(entry.card, name)
            counts[row, column] = figure.n
            if figure.value is None:
                reasons[row][name] = given(figure.reason) or ""
            else:
                value[row, column] = figure.value
            own = given(figure.interval)
            if own is not None and own.low is not None:
                low[row, column], high[row, column], kinds[row][column] = own.low, own.high, own.kind
    planned = np.zeros(len(entries), dtype=np.int64)  # a score has no episodes to be missing from
    return Figures(value, low, high, kinds, counts, planned, reasons)


def _score(card: Card, name: str) -> ScoreLine | Line | EpisodeMetric:
    if isinstance(card, ScoringCard) and name in card.scores:
        return card.scores[name]
    if name == "decided":
        planned = card.coverage.steps_planned
        return _some(card.coverage.steps_decided / planned, planned) if planned else _none("no sample was planned")
    if name == "cost_usd":
        return given(card.cost.per_episode) or _none(str(card.cost.reason))
    if name == "tokens":
        used = [episode.usage.input_tokens + episode.usage.output_tokens for episode in card.episodes]
        return _some(statistics.median(used), len(used)) if used else _none(_NO_EPISODE)
    return _none(f"{name} is not on the card")


def benchmark_of(entries: Sequence[Entry]) -> dict[str, dict[str, float]]:
    """Window -> metric -> value of buying and holding the benchmark, from the cards confirmed best."""
    found: dict[str, dict[str, float]] = {}
    for entry in by_trust(entries):
        for window, policy in entry.trading.reference.benchmark_buy_and_hold.items():
            values = {name: metric.value for name, metric in asdict(policy.metrics).items() if metric.value is not None}
            found.setdefault(window, values)
    return found


def six_digits(values: Vector) -> Vector:
    """Rounded to six significant digits, so that JSON shows no more; NaN and zero stay."""
    size = np.where((values == 0) | np.isnan(values), 1.0, np.abs(values))
    places = _DIGITS - 1 - np.floor(np.log10(size)).astype(np.int64)
    # Powers of ten up to 22 are exact, so one rounding of a whole number and one division give the nearest decimal.
    scale = 10.0 ** np.clip(np.abs(places), 0, 22)
    rounded = np.where(places >= 0, np.rint(values * scale) / scale, np.rint(values / scale) * scale)
    return np.where(np.abs(places) > 22, values, rounded) + 0.0


def nullable(values: Vector) -> list[list[float | None]]:
    """Return values to six significant digits, None for NaN."""
    shown = six_digits(values).astype(object)
    shown[np.isnan(values)] = None
    rows: list[list[float | None]] = shown.tolist()
    return rows
