"""Figures of a division's cards by episode, what they come to over a scope, and rows that are nobody's card and always there.

A figure over a scope is what the card itself says of all its episodes (`metrics` of a card): the median over the episodes where it
is defined, the interquartile range from two on, a single episode's own interval otherwise. The rows that are always there: the
benchmark, random traders, and chance in a scoring task.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict

from ktdeval.cards import EpisodeMetric, Line, ScoreLine, ScoringCard, TradingCard, TradingEpisode, episode_cost, episode_tokens
from ktdeval.jsonio import JsonValue
from ktdeval.stats import is_never, never_in
from ktdeval_board.documents import DIGITS
from ktdeval_board.entries import Card, Entry, unset_to_none
from ktdeval_board.ranking.daily import NO_SERIES, Cell, SeriesFacts, Vector
from ktdeval_board.ranking.describe import EXTRA, by_trust

QUARTILES = "interquartile"
_NO_EPISODE = "no finished episode"


@dataclass(frozen=True)
class Figures:
    """Figures of entries over one scope; arrays are [entries, columns]."""

    value: Vector  #: NaN where undefined
    low: Vector  #: ends of the interval; NaN where there is none (low, high)
    high: Vector
    kind: list[list[str | None]]  #: what the interval is; None where there is none
    n: npt.NDArray[np.int64]  #: episodes (scores: samples) that the value rests on
    planned: npt.NDArray[np.int64]  #: [entries] episodes that the scope asks for
    reasons: list[dict[str, str]]  #: column -> why its value is undefined, for each entry


class _Grid:
    """Figures with their intervals and the reasons why they are undefined."""

    def __init__(self, *shape: int) -> None:
        self.value, self.low, self.high = (np.full(shape, math.nan) for _ in range(3))
        self.kind, self.reason = (np.full(shape, None, dtype=object) for _ in range(2))

    def put(self, index: tuple[int, ...], figure: ScoreLine | Line | EpisodeMetric) -> None:
        if figure.value is None:
            self.reason[index] = unset_to_none(figure.reason) or ""
            if is_never(self.reason[index]):  # later than any number, and so not missing
                self.value[index] = math.inf
            return
        self.value[index] = figure.value
        interval = unset_to_none(figure.interval)
        if interval is not None and interval.low is not None:
            self.low[index], self.high[index], self.kind[index] = interval.low, interval.high, interval.kind


@dataclass(frozen=True)
class Samples:
    """Figures by episode of entries that share windows and seeds; the grid is [entries, cells, columns]."""

    entries: Sequence[Entry]
    cells: Sequence[Cell]  #: window and seed of each episode that was asked for
    columns: Sequence[str]
    grid: _Grid
    decided: Vector  #: [entries, cells] steps (decided, planned)
    planned: Vector

    def over(self, windows: Collection[str]) -> Figures:
        """Return the figures over some of the windows."""
        chosen = [number for number, (window, _) in enumerate(self.cells) if window in windows]
        value, reason = self.grid.value[:, chosen], self.grid.reason[:, chosen]
        middle, low, high, n = medians(value)
        single, first = n == 1, np.argmax(~np.isnan(value), axis=1)[:, None]
        for ends, own in ((low, self.grid.low), (high, self.grid.high)):
            ends[single] = np.take_along_axis(own[:, chosen], first, axis=1)[:, 0][single]
        kind = np.where(single, np.take_along_axis(self.grid.kind[:, chosen], first, axis=1)[:, 0], QUARTILES)
        if "decided" in self.columns:  # counted together: a median over episodes would hide one in which nothing was decided
            at, planned = self.columns.index("decided"), self.planned[:, chosen].sum(axis=1)
            share = self.decided[:, chosen].sum(axis=1) / np.maximum(planned, 1)
            middle[:, at], n[:, at] = np.where(planned > 0, share, math.nan), planned
            low[:, at] = high[:, at] = math.nan
        times = np.isinf(value).sum(axis=1)
        is_infinite = np.isinf(middle)
        for vector in (middle, low, high):
            vector[~np.isfinite(vector)] = math.nan
        kind[np.isnan(low) | np.isnan(high)] = None
        reasons: list[dict[str, str]] = [{} for _ in self.entries]
        for row, column in np.argwhere(np.isnan(middle)).tolist():
            texts = sorted({text for text in reason[row, :, column] if text})
            if is_infinite[row, column]:
                texts = [never_in(int(times[row, column]), int(n[row, column]))]
            reasons[row][self.columns[column]] = "; ".join(texts) or _NO_EPISODE
        return Figures(middle, low, high, kind.tolist(), n, np.full(len(self.entries), len(chosen)), reasons)


def stacked(parts: Sequence[Figures]) -> Figures:
    """Return the figures of several groups of entries, one below the other."""
    arrays = ([getattr(part, name) for part in parts] for name in ("value", "low", "high", "n", "planned"))
    value, low, high, n, planned = map(np.concatenate, arrays)
    kinds, reasons = ([row for part in parts for row in getattr(part, name)] for name in ("kind", "reasons"))
    return Figures(value, low, high, kinds, n, planned, reasons)


def medians(values: Vector) -> tuple[Vector, Vector, Vector, npt.NDArray[np.int64]]:
    """Median, quartiles and count along the second axis, NaN left out.

    Quartiles are linear between order statistics; they are NaN for fewer than two values. Returns each [a, c].
    """
    n = (~np.isnan(values)).sum(axis=1)
    if values.shape[1] == 0:
        none = np.full(n.shape, math.nan)
        return none, none.copy(), none.copy(), n
    ordered = np.sort(values, axis=1)  # NaN last

    def at(index: npt.NDArray[np.int64]) -> Vector:
        return np.take_along_axis(ordered, np.maximum(index, 0)[:, None], axis=1)[:, 0]

    def quartile(quarter: int) -> Vector:
        # As statistics.quantiles(method="inclusive"), to the last bit, so that a board shows what the card says.
        index, rest = np.divmod(quarter * (n - 1), 4)
        above = np.where(rest == 0, 0.0, at(np.minimum(index + 1, n - 1)))  # infinite times 0 is no number
        ends = (at(index) * (4 - rest) + above * rest) / 4
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
    samples = []
    for members in groups.values():
        card = members[0].card
        cells = {cell: number for number, cell in enumerate((window.name, seed) for window in card.windows for seed in card.seeds)}
        grid = _Grid(len(members), len(cells), len(columns))
        decided, planned = np.zeros((len(members), len(cells))), np.zeros((len(members), len(cells)))
        for row, entry in enumerate(members):
            days, limit = {window.name: window.days for window in entry.card.windows}, entry.card.limit
            series = facts(entry.card_id)
            planned[row] = [min(days[window], limit or days[window]) for window, _ in cells]
            for episode in entry.trading.episodes:
                if (at := cells.get((episode.window, episode.seed))) is not None:
                    decided[row, at] = episode.decisions.model + episode.decisions.model_after_retry
                    for column, name in enumerate(columns):
                        own = episode.metrics.get(name) or _none(f"{name} is not on the card")
                        figure = _extra(name, entry.trading, episode, benchmark, series) if name in EXTRA else own
                        grid.put((row, at, column), figure)
        samples.append(Samples(members, list(cells), columns, grid, decided, planned))
    return samples


def _extra(
    name: str, card: TradingCard, episode: TradingEpisode, benchmark: Mapping[str, Mapping[str, float]], facts: SeriesFacts | None
) -> EpisodeMetric:
    """Return one of the board's own figures, shaped as a metric on a card."""
    if name == "excess":
        own, other = episode.metrics.get("total_return"), benchmark.get(episode.window, {}).get("total_return")
        if own is None or own.value is None:
            return own or _none("total_return is not on the card")
        return _none("the benchmark has no return over the window") if other is None else _some(own.value - other)
    if name == "cost_usd":
        price = unset_to_none(card.cost.price)
        return _none("no price of the model is known") if price is None else episode_cost(episode, price)
    if name == "tokens":
        return episode_tokens(episode)
    if name == "decided":
        return _some((episode.decisions.model + episode.decisions.model_after_retry) / episode.steps)
    cell = (episode.window, episode.seed)
    figure = None if facts is None else (facts.gross if name == "gross_return" else facts.beaten).get(cell)
    return _none(NO_SERIES if figure is None else figure) if figure is None or isinstance(figure, str) else _some(figure)


def _some(value: float, n: int = 1) -> EpisodeMetric:
    return EpisodeMetric(value=value, n=n)


def _none(reason: str) -> EpisodeMetric:
    return EpisodeMetric(value=None, n=0, reason=reason)


def score_figures(entries: Sequence[Entry], columns: Sequence[str]) -> Figures:
    """Return the figures of cards of scoring tasks over all their answers: scores with their own intervals."""
    grid, counts = _Grid(len(entries), len(columns)), np.zeros((len(entries), len(columns)), np.int64)
    reasons: list[dict[str, str]] = [{} for _ in entries]
    for row, entry in enumerate(entries):
        for column, name in enumerate(columns):
            figure = _score(entry.card, name)
            counts[row, column] = figure.n
            grid.put((row, column), figure)
            if figure.value is None:
                reasons[row][name] = grid.reason[row, column]
    planned = np.zeros(len(entries), dtype=np.int64)  # a score has no episodes to be missing from
    return Figures(grid.value, grid.low, grid.high, grid.kind.tolist(), counts, planned, reasons)


def _score(card: Card, name: str) -> ScoreLine | Line | EpisodeMetric:
    if isinstance(card, ScoringCard) and name in card.scores:
        return card.scores[name]
    if name == "decided":
        planned = card.coverage.steps_planned
        return _some(card.coverage.steps_decided / planned, planned) if planned else _none("no sample was planned")
    if name == "cost_usd":
        return unset_to_none(card.cost.per_episode) or _none(str(card.cost.reason))
    if name == "tokens":
        used = [episode_tokens(episode) for episode in card.episodes]
        if not used:
            return _none(_NO_EPISODE)
        unknown = next((figure for figure in used if figure.value is None), None)
        return unknown or _some(statistics.median(figure.value or 0 for figure in used), len(used))
    return _none(f"{name} is not on the card")


def benchmark_of(entries: Sequence[Entry]) -> dict[str, dict[str, float]]:
    """Window -> metric -> value of buying and holding the benchmark, from the cards confirmed best."""
    benchmark: dict[str, dict[str, float]] = {}
    for entry in by_trust(entries):
        for window, policy in entry.trading.reference.benchmark_buy_and_hold.items():
            values = {name: metric.value for name, metric in asdict(policy.metrics).items() if metric.value is not None}
            benchmark.setdefault(window, values)
    return benchmark


def six_digits(values: Vector) -> Vector:
    """Rounded to six significant digits, so that JSON shows no more; NaN and zero stay."""
    size = np.where((values == 0) | np.isnan(values), 1.0, np.abs(values))
    places = DIGITS - 1 - np.floor(np.log10(size)).astype(np.int64)
    # Powers of ten up to 22 are exact, so one rounding of a whole number and one division give the nearest decimal.
    scale = 10.0 ** np.clip(np.abs(places), 0, 22)
    rounded = np.where(places >= 0, np.rint(values * scale) / scale, np.rint(values / scale) * scale)
    return np.where(np.abs(places) > 22, values, rounded) + 0.0


def nullable(values: Vector) -> list[list[float | None]]:
    """Return values to six significant digits, None for NaN."""
    rounded = six_digits(values).astype(object)
    rounded[np.isnan(values)] = None
    rows: list[list[float | None]] = rounded.tolist()
    return rows


RANDOM_RANGE = (0.05, 0.95)  #: Quantiles that the row of random traders shows instead of an interval
RANDOM_KIND = "5-95 % of episodes"

_NO_TRADER = "buying and holding the index takes no decisions"
_NOT_TRACKED = "not worked out for the benchmark"

Row = dict[str, JsonValue]


def reference_rows(
    columns: Sequence[str],
    windows: Sequence[str],
    benchmark: Mapping[str, Mapping[str, float]],
    entries: Sequence[Entry],
    samples: Sequence[Samples],
) -> list[Row]:
    """Return the rows of a scope that are not of a card."""
    if not samples:
        return list(_chance(columns, entries))
    source = by_trust(entries)[0]
    held = [_benchmark(columns, windows, benchmark, source)] if source.trading.snapshot.benchmark != "none" else []
    return [*held, *_random(columns, windows, samples)]


def _benchmark(columns: Sequence[str], windows: Sequence[str], benchmark: Mapping[str, Mapping[str, float]], source: Entry) -> Row:
    """Return the index bought before the first day and held: median over windows, as an agent's is over its episodes."""
    values = np.full((1, len(windows), len(columns)), np.nan)
    for number, window in enumerate(windows):
        policy = benchmark.get(window, {})
        for column, metric in enumerate(columns):
            # Nothing is traded, so there are no fees; and it is its own benchmark.
            own = "total_return" if metric in ("excess", "gross_return") else metric
            if own in policy:
                values[0, number, column] = 0.0 if metric == "excess" else policy[own]
    middle, low, high, n = medians(values)
    reasons = {
        metric: _NO_TRADER if metric in EXTRA else _NOT_TRACKED
        for metric, value in zip(columns, middle[0].tolist(), strict=True)
        if math.isnan(value)
    }
    name = source.trading.snapshot.benchmark_name
    row = _row("benchmark", f"{name} bought and held", f"benchmark ({name})", source)
    return row | _figures(middle[0], low[0], high[0], n[0].tolist(), QUARTILES) | {"reasons": reasons}


def _random(columns: Sequence[str], windows: Sequence[str], samples: Sequence[Samples]) -> Iterator[Row]:
    """All episodes of the random baselines in the scope together."""
    parts = []
    sources: list[Entry] = []
    for group in samples:
        cells = [number for number, (window, _) in enumerate(group.cells) if window in windows]
        rows = [row for row, entry in enumerate(group.entries) if entry.baseline is not None and entry.baseline.kind == "random"]
        if rows:
            sources += [group.entries[row] for row in rows]
            parts.append(group.grid.value[np.ix_(rows, cells)].reshape(-1, len(columns)))
    if not parts:
        return
    values = np.concatenate(parts)
    n = (~np.isnan(values)).sum(axis=0)
    low, middle, high = (np.full(len(columns), np.nan) for _ in range(3))
    undefined = (name for name, count in zip(columns, n.tolist(), strict=True) if count == 0)
    reasons = dict.fromkeys(undefined, "not defined in any episode of random traders")
    for column in np.flatnonzero(n).tolist():
        defined = values[~np.isnan(values[:, column]), column]
        middle[column] = np.median(defined)
        if len(defined) > 1 and np.isfinite(defined).all():
            low[column], high[column] = np.quantile(defined, RANDOM_RANGE)
        if np.isinf(middle[column]):
            middle[column] = math.nan
            reasons[columns[column]] = never_in(int(np.isinf(defined).sum()), len(defined))
    row = _row("random_traders", "random traders", "random traders", by_trust(sources)[-1])
    yield row | _figures(middle, low, high, n.tolist(), RANDOM_KIND) | {"reasons": reasons}


def _chance(columns: Sequence[str], entries: Sequence[Entry]) -> Iterator[Row]:
    """Yield what chance alone gives in a scoring task: median of what the cards say of their samples."""
    values = np.full((1, len(entries), len(columns)), np.nan)
    for number, entry in enumerate(entries):
        for column, name in enumerate(columns):
            score = entry.card.scores.get(name) if isinstance(entry.card, ScoringCard) else None
            if score is not None and score.baseline is not None:
                values[0, number, column] = score.baseline
    middle, low, high, n = medians(values)
    if not n.any():
        return
    reasons = {name: "not defined for chance" for name, count in zip(columns, n[0].tolist(), strict=True) if count == 0}
    row = _row("benchmark", "chance alone", "chance", by_trust(entries)[-1])
    yield row | _figures(middle[0], low[0], high[0], n[0].tolist(), QUARTILES) | {"reasons": reasons}


def _row(baseline: str, model: str, label: str, source: Entry) -> Row:
    """Return what such a row says in every scope; it is confirmed as far as the card that it rests on."""
    return {
        **dict.fromkeys(("card", "attempts", "registration", "cutoff", "rank", "alpha_rank", "tie", "alpha_tie")),
        **dict.fromkeys(("agent", "strategy", "submitter", "submitted_on", "settings"), ""),
        "model": model,
        "label": label,
        "baseline": baseline,
        "tier": source.tier,
        "labels": [],
        "ranked": False,
        "why": [],
    }


def _figures(middle: Vector, low: Vector, high: Vector, n: Sequence[int], kind: str) -> Row:
    values, lows, highs = nullable(np.stack((middle, low, high)))
    kinds = [None if end is None else kind for end in lows]
    return {"values": values, "low": lows, "high": highs, "interval": kinds, "n": list(n)}
