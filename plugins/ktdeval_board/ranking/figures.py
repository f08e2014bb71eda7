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

from ktdeval.api import JsonValue
from ktdeval_board.entries import Card, Entry
from ktdeval_board.ranking.describe import EXTRA, by_trust
from ktdeval_board.ranking.series_facts import NO_SERIES, Cell, SeriesFacts, Vector

QUARTILES = "interquartile"
_NO_EPISODE = "no finished episode"
_DIGITS = 6
_MILLION = 1e6

Codes = npt.NDArray[np.int32]
Episode = Mapping[str, JsonValue]


@dataclass
class Words:
    """Texts by number, so that arrays can hold them; 0 is none."""

    texts: list[str] = field(default_factory=lambda: [""])
    places: dict[str, int] = field(default_factory=dict)

    def code(self, text: str) -> int:
        """The number of a text."""
        if text not in self.places:
            self.places[text] = len(self.texts)
            self.texts.append(text)
        return self.places[text]


@dataclass(frozen=True)
class Figures:
    """Figures of entries over one scope; arrays are [entries, columns].

    Attributes:
        value: NaN where undefined.
        low, high: ends of the interval; NaN where there is none.
        kind: what the interval is; None where there is none.
        n: episodes (scores: samples) that the value rests on.
        planned: [entries] episodes that the scope asks for.
        reasons: column -> why its value is undefined, for each entry.
    """

    value: Vector
    low: Vector
    high: Vector
    kind: list[list[str | None]]
    n: npt.NDArray[np.int64]
    planned: npt.NDArray[np.int64]
    reasons: list[dict[str, str]]


@dataclass
class Samples:
    """Figures by episode of entries that share windows and seeds; arrays are [entries, cells, columns].

    Attributes:
        entries: the cards.
        cells: window and seed of each episode that was asked for.
        columns: names.
        value, low, high: NaN where undefined; low and high are the episode's own interval.
        kind, reason: numbers in `words`.
        decided, planned: [entries, cells] steps.
        words: the texts.
    """

    entries: Sequence[Entry]
    cells: Sequence[Cell]
    columns: Sequence[str]
    value: Vector
    low: Vector
    high: Vector
    kind: Codes
    reason: Codes
    decided: Vector
    planned: Vector
    words: Words

    def over(self, windows: Collection[str]) -> Figures:
        """The figures over some of the windows."""
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


def medians(values: Vector) -> tuple[Vector, Vector, Vector, npt.NDArray[np.int64]]:
    """Median, quartiles and count along the second axis, NaN left out.

    Quartiles are linear between order statistics; they are NaN for fewer than two values.

    Args:
        values: [a, b, c].

    Returns:
        Each [a, c].
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
    """The figures of trading cards by episode: one `Samples` for each set of seeds, as baselines may have more of them.

    Args:
        entries: cards of one division.
        columns: names of metrics, and of `describe.EXTRA`.
        benchmark: window -> metric -> value of the benchmark.
        facts: card id -> what is known of its daily series.
    """
    groups: dict[tuple[int, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(tuple(entry.card["seeds"]), []).append(entry)
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
        self.cells: list[Cell] = [(window["name"], seed) for window in card["windows"] for seed in card["seeds"]]
        self.words = Words()
        self.extras = [(place, name) for place, name in enumerate(columns) if name in EXTRA]
        self.metrics = [(place, name) for place, name in enumerate(columns) if name not in EXTRA]

    def samples(self) -> Samples:
        """The arrays."""
        shape = (len(self.entries), len(self.cells), len(self.columns))
        value, low, high = (np.full(shape, math.nan) for _ in range(3))
        kind, reason = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        decided, planned = np.zeros(shape[:2]), np.zeros(shape[:2])
        for row, entry in enumerate(self.entries):
            days = {window["name"]: window["days"] for window in entry.card["windows"]}
            limit = entry.card["limit"]
            planned[row] = [min(days[window], limit or days[window]) for window, _ in self.cells]
            facts = self.facts(entry.card_id)
            episodes = {(episode["window"], episode["seed"]): episode for episode in entry.card["episodes"]}
            for cell_place, cell in enumerate(self.cells):
                episode = episodes.get(cell)
                if episode is None:
                    continue
                counts = episode["decisions"]
                decided[row, cell_place] = counts["model"] + counts["model_after_retry"]
                for place, figure in self._figures(entry.card, cell, episode, facts):
                    where = (row, cell_place, place)
                    if figure["value"] is None:
                        reason[where] = self.words.code(figure["reason"])
                        continue
                    value[where] = figure["value"]
                    own = figure.get("interval")
                    if own is not None and own["low"] is not None:
                        low[where], high[where], kind[where] = own["low"], own["high"], self.words.code(own["kind"])
        return Samples(self.entries, self.cells, self.columns, value, low, high, kind, reason, decided, planned, self.words)

    def _figures(self, card: Card, cell: Cell, episode: Episode, facts: SeriesFacts | None) -> Iterator[tuple[int, Episode]]:
        """Place of the column and the figure, shaped as a metric on a card."""
        metrics = episode["metrics"]
        for place, name in self.metrics:
            yield place, metrics.get(name) or _none(f"{name} is not on the card")
        for place, name in self.extras:
            yield place, self._extra(name, card, cell, episode, facts)

    def _extra(self, name: str, card: Card, cell: Cell, episode: Episode, facts: SeriesFacts | None) -> Episode:
        if name == "excess":
            return _excess(episode["metrics"].get("total_return"), self.benchmark.get(cell[0], {}).get("total_return"))
        if name == "cost_usd":
            return episode_cost(episode["usage"], card["cost"].get("price"))
        if name == "tokens":
            return {"value": float(episode["usage"]["input_tokens"] + episode["usage"]["output_tokens"])}
        if name == "decided":
            counts = episode["decisions"]
            return (
                {"value": (counts["model"] + counts["model_after_retry"]) / episode["steps"]}
                if episode["steps"]
                else _none("no steps")
            )
        known = None if facts is None else (facts.gross if name == "gross_return" else facts.beaten).get(cell)
        if known is None:
            return _none(NO_SERIES)
        return _none(known) if isinstance(known, str) else {"value": known}


def _none(reason: str) -> Episode:
    return {"value": None, "reason": reason}


def _excess(own: Episode | None, benchmark: float | None) -> Episode:
    if own is None or own["value"] is None:
        return _none("total_return is not on the card" if own is None else own["reason"])
    return _none("the benchmark has no return over the window") if benchmark is None else {"value": own["value"] - benchmark}


def episode_cost(usage: Mapping[str, int], price: Mapping[str, JsonValue] | None) -> Episode:
    """US dollars of an episode's tokens at a card's price per million, as the card's own `cost` counts them."""
    if price is None:
        return _none("no price of the model is known")
    read, write = usage["cache_read_tokens"], usage["cache_write_tokens"]
    rates = {name: price["input"] if price.get(name) is None else price[name] for name in ("cache_read", "cache_write")}
    dollars = (usage["input_tokens"] - read - write) * price["input"] + read * rates["cache_read"] + write * rates["cache_write"]
    return {"value": (dollars + usage["output_tokens"] * price["output"]) / _MILLION}


def score_figures(entries: Sequence[Entry], columns: Sequence[str]) -> Figures:
    """The figures of cards of scoring tasks over all their answers: scores with their own intervals."""
    found = [[_score(entry.card, name) for name in columns] for entry in entries]
    shape = (len(entries), len(columns))

    def array(name: str) -> Vector:
        made = np.array([[math.nan if each[name] is None else each[name] for each in row] for row in found], dtype=np.float64)
        return made.reshape(shape)

    reasons = [{name: each["reason"] for name, each in zip(columns, row, strict=True) if each["value"] is None} for row in found]
    kinds: list[list[str | None]] = [[each["kind"] for each in row] for row in found]
    counts = array("n").astype(np.int64)
    planned = np.zeros(len(entries), dtype=np.int64)  # a score has no episodes to be missing from
    return Figures(array("value"), array("low"), array("high"), kinds, counts, planned, reasons)


def _score(card: Card, name: str) -> dict[str, JsonValue]:
    coverage = card["coverage"]
    if name in card["scores"]:
        entry: Mapping[str, JsonValue] = card["scores"][name]
    elif name == "decided":
        planned = coverage["steps_planned"]
        entry = {"value": coverage["steps_decided"] / planned, "n": planned} if planned else _none("no sample was planned")
    elif name == "cost_usd":
        entry = card["cost"].get("per_episode") or _none(str(card["cost"].get("reason")))
    elif name == "tokens":
        used = [episode["usage"]["input_tokens"] + episode["usage"]["output_tokens"] for episode in card["episodes"]]
        entry = {"value": statistics.median(used), "n": len(used)} if used else _none(_NO_EPISODE)
    else:
        entry = _none(f"{name} is not on the card")
    interval = entry.get("interval") or {"low": None, "high": None, "kind": None}
    kind = None if interval["low"] is None else interval["kind"]
    ends = {"low": interval["low"], "high": interval["high"], "kind": kind}
    return {"value": entry["value"], "n": entry.get("n", 0), "reason": entry.get("reason", ""), **ends}


def benchmark_of(entries: Sequence[Entry]) -> dict[str, dict[str, float]]:
    """Window -> metric -> value of buying and holding the benchmark, from the cards confirmed best."""
    found: dict[str, dict[str, float]] = {}
    for entry in by_trust(entries):
        for window, policy in entry.card["reference"]["benchmark_buy_and_hold"].items():
            values = {name: metric["value"] for name, metric in policy["metrics"].items() if metric["value"] is not None}
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
