"""Figures of a division's cards, by episode and over a scope, and the reference rows. Reference
rows do not belong to a card: they are the benchmark and, for a scoring task, the chance level.

A figure over a scope is defined like the card's own figure over all its episodes (`metrics` in a
card). It is the median over the episodes in which it is defined. Its interval is the interquartile
range if there are at least two such episodes; otherwise, it is the single episode's own interval.
Random traders show the range of their episodes instead, to indicate what chance can produce.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from ktdeval.cards import (
    QUARTILES,
    EpisodeMetric,
    Line,
    ScoreLine,
    ScoringCard,
    TradingCard,
    TradingEpisode,
    card_prices,
    episode_cost,
    episode_tokens,
    shown_benchmark,
    shown_metric,
    spread_of,
)
from ktdeval.stats import is_never, never_in
from ktdeval_board.board_entries import BoardEntry, Card, unset_to_none
from ktdeval_board.document_types import DIGITS
from ktdeval_board.ranking.column_texts import EXTRA, by_trust
from ktdeval_board.ranking.daily_summaries import NO_SERIES, Cell, SeriesFacts, Vector
from ktdeval_board.ranking.rows import FigureRow, Row, no_standing

Benchmark = Mapping[str, Mapping[str, float]]
"""Values obtained by buying and holding the benchmark, keyed by window and metric."""

_NO_EPISODE = "no finished episode"
_NO_WINDOW = "no window counts for this figure"
CHANCE_RANGE = (0.05, 0.95)  #: quantiles shown as the range of random traders
CHANCE_KIND = "5-95 % of episodes"


Figures = npt.NDArray[np.void]
"""Array of figures with the fields in `_FIGURE`; its shape over a scope is [entries, columns]."""

_FIGURE = np.dtype(
    [
        ("value", np.float64),  # NaN where undefined
        ("low", np.float64),  # bounds of the interval; NaN if undefined
        ("high", np.float64),
        ("kind", np.object_),  # kind of the interval; None if undefined
        ("reason", np.object_),  # why the value is undefined; None if it is defined
        ("n", np.int64),  # number of episodes (for scores: samples) with a value
        ("planned", np.int64),  # number of episodes that the scope should have
    ]
)


def _undefined_figures(*shape: int) -> Figures:
    figures = np.empty(shape, _FIGURE)
    figures[...] = (math.nan, math.nan, math.nan, None, None, 0, 0)
    return figures


def _figure_fields(figure: ScoreLine | Line | EpisodeMetric) -> tuple[object, ...]:
    """Return a card's figure as an element of `Figures`."""
    low: float | None = math.nan
    high: float | None = math.nan
    kind = None
    if figure.value is None:
        reason = unset_to_none(figure.reason) or ""
        # An event that never happens is treated as later than any number of days, so its time is
        # infinite rather than missing.
        value = math.inf if is_never(reason) else math.nan
        return value, low, high, kind, reason, figure.n, 0

    spread = spread_of(figure)
    if spread is not None and spread.low is not None:
        low = spread.low
        high = spread.high
        kind = spread.kind

    return figure.value, low, high, kind, None, figure.n, 0


@dataclass(frozen=True)
class EpisodeSamples:
    """Per-episode figures for entries with the same windows and seeds, on a grid of [entries,
    cells, columns].
    """

    entries: Sequence[BoardEntry]
    cells: Sequence[Cell]  #: window and seed of each required episode
    columns: Sequence[str]
    grid: Figures
    decided: Vector  #: [entries, cells] steps (decided, planned)
    planned: Vector
    windows: Collection[str]  #: windows that count for all of these entries

    def _put_pooled_decisions(self, figures: Figures, chosen: Sequence[int]) -> None:
        """Set the share of decided steps to that of all steps in the chosen cells together. A
        median over episodes would hide an episode without decisions.
        """
        pooled = figures[:, self.columns.index("decided")]
        planned = self.planned[:, chosen].sum(axis=1)
        share = self.decided[:, chosen].sum(axis=1) / np.maximum(planned, 1)
        pooled["value"] = np.where(planned > 0, share, math.nan)
        pooled["n"] = planned
        pooled["low"] = math.nan
        pooled["high"] = math.nan

    def over(self, windows: Collection[str]) -> Figures:
        """Return the figures over the given windows, leaving out windows that do not count."""
        chosen = []
        for number, (window, _) in enumerate(self.cells):
            if window in windows and window in self.windows:
                chosen.append(number)

        missing = _NO_EPISODE
        if chosen:
            grid = self.grid[:, chosen]
        else:
            missing = _NO_WINDOW
            grid = _undefined_figures(len(self.entries), 1, len(self.columns))

        values = grid["value"]
        middle, low, high, n = medians(values)

        # A single episode uses its own interval instead of quartiles.
        first = np.argmax(~np.isnan(values), axis=1)[:, None]
        figures = np.take_along_axis(grid, first, axis=1)[:, 0]
        several = n != 1
        for name, ends in (("low", low), ("high", high), ("kind", QUARTILES)):
            figures[name] = np.where(several, ends, figures[name])

        figures["value"] = middle
        figures["n"] = n
        figures["planned"] = len(chosen)
        self._put_chance_ranges(values, figures)

        if "decided" in self.columns:
            self._put_pooled_decisions(figures, chosen)

        # An infinite median is shown as undefined, with the number of infinite episodes in its
        # reason.
        times = np.isinf(values).sum(axis=1)
        is_infinite = np.isinf(figures["value"])
        for name in ("value", "low", "high"):
            figures[name][~np.isfinite(figures[name])] = math.nan

        figures["kind"][np.isnan(figures["low"]) | np.isnan(figures["high"])] = None
        figures["reason"] = None
        for row, column in np.argwhere(np.isnan(figures["value"])).tolist():
            texts = sorted({text for text in grid["reason"][row, :, column] if text})
            if is_infinite[row, column]:
                texts = [never_in(int(times[row, column]), int(figures["n"][row, column]))]

            figures["reason"][row, column] = "; ".join(texts) or missing

        return figures

    def _put_chance_ranges(self, values: Vector, figures: Figures) -> None:
        """Give random traders the range of their episodes instead of quartiles. `values` has shape
        [entries, episodes, columns].
        """
        for row, entry in enumerate(self.entries):
            if entry.baseline is None or entry.baseline.kind != "random":
                continue

            for column, figure in enumerate(figures[row]):
                of_column = values[row, :, column]
                defined = of_column[~np.isnan(of_column)]
                if len(defined) > 1 and np.isfinite(defined).all():
                    figure["low"], figure["high"] = np.quantile(defined, CHANCE_RANGE)
                    figure["kind"] = CHANCE_KIND


def medians(values: Vector) -> tuple[Vector, Vector, Vector, npt.NDArray[np.int64]]:
    """Return the median, quartiles and count along the second axis, ignoring NaN. Each has shape
    [entries, columns].

    Quartiles are interpolated linearly between order statistics. They are NaN for fewer than two
    values.
    """
    n = (~np.isnan(values)).sum(axis=1)
    if values.shape[1] == 0:
        none = np.full(n.shape, math.nan)
        return none, none.copy(), none.copy(), n

    ordered = np.sort(values, axis=1)  # NaN last

    def at(index: npt.NDArray[np.int64]) -> Vector:
        return np.take_along_axis(ordered, np.maximum(index, 0)[:, None], axis=1)[:, 0]

    def quartile(quarter: int) -> Vector:
        # Equal to the last bit to statistics.quantiles(method="inclusive"), so that a board shows
        # the same values as the card.
        index, rest = np.divmod(quarter * (n - 1), 4)
        # A weight of 0 times infinity would be NaN.
        above = np.where(rest == 0, 0.0, at(np.minimum(index + 1, n - 1)))
        ends = (at(index) * (4 - rest) + above * rest) / 4

        return np.where(n > 1, ends, math.nan) + 0.0

    lower = at((n - 1) // 2)
    upper = at(n // 2 - (n == 0))
    middle = np.where(lower == upper, lower, (lower + upper) / 2)

    return np.where(n > 0, middle, math.nan) + 0.0, quartile(1), quartile(3), n


def collect(
    entries: Sequence[BoardEntry],
    columns: Sequence[str],
    benchmark: Benchmark,
    facts: Callable[[str], SeriesFacts | None],
    windows_of: Callable[[BoardEntry], tuple[str, ...]],
) -> list[EpisodeSamples]:
    """Return the figures of trading cards by episode, with one `EpisodeSamples` for each
    combination of seeds and windows that count (`windows_of`). Baselines may have more seeds than
    entrants.
    """
    groups: dict[tuple[tuple[int, ...], tuple[str, ...]], list[BoardEntry]] = {}
    for entry in entries:
        key = (tuple(entry.card.seeds), windows_of(entry))
        groups.setdefault(key, []).append(entry)

    return [
        _samples(members, columns, benchmark, facts, windows)
        for (_, windows), members in groups.items()
    ]


def _samples(
    entries: Sequence[BoardEntry],
    columns: Sequence[str],
    benchmark: Benchmark,
    facts: Callable[[str], SeriesFacts | None],
    windows: tuple[str, ...],
) -> EpisodeSamples:
    """Return the figures of cards that share their seeds and the windows that count."""
    card = entries[0].card
    cells = list(product([window.name for window in card.windows], card.seeds))
    number_of = {cell: number for number, cell in enumerate(cells)}
    grid = _undefined_figures(len(entries), len(cells), len(columns))
    decided = np.zeros((len(entries), len(cells)))
    planned = np.zeros((len(entries), len(cells)))

    for row, entry in enumerate(entries):
        days = {window.name: window.days for window in entry.card.windows}
        limit = entry.card.limit
        planned[row] = [min(days[window], limit or days[window]) for window, _ in cells]
        series = facts(entry.card_id)

        for episode in entry.trading.episodes:
            at = number_of.get((episode.window, episode.seed))
            if at is None:
                continue

            decided[row, at] = _count_decided(episode)
            for column, name in enumerate(columns):
                if name in EXTRA:
                    figure = _extra(name, entry.trading, episode, benchmark, series)
                else:
                    figure = shown_metric(entry.trading, episode, name) or _none(
                        f"{name} is not on the card"
                    )

                grid[row, at, column] = _figure_fields(figure)

    return EpisodeSamples(entries, cells, columns, grid, decided, planned, windows)


def _count_decided(episode: TradingEpisode) -> int:
    """Return the number of steps in an episode that the model decided."""
    return episode.decisions.model + episode.decisions.model_after_retry


def _extra(
    name: str,
    card: TradingCard,
    episode: TradingEpisode,
    benchmark: Benchmark,
    facts: SeriesFacts | None,
) -> EpisodeMetric:
    """Return one of the board's own figures, shaped like a metric in a card."""
    if name == "excess":
        return _excess(episode, benchmark)

    if name == "cost_usd":
        price = unset_to_none(card.cost.price)
        if price is None:
            return _none("no price of the model is known")

        return episode_cost(episode, card_prices(card, price))

    if name == "tokens":
        return episode_tokens(episode)
    if name == "decided":
        return _some(_count_decided(episode) / episode.steps)
    if facts is None:
        return _none(NO_SERIES)

    figures = facts.gross if name == "gross_return" else facts.beaten
    figure = figures.get((episode.window, episode.seed), NO_SERIES)
    return _none(figure) if isinstance(figure, str) else _some(figure)


def _excess(episode: TradingEpisode, benchmark: Benchmark) -> EpisodeMetric:
    own = episode.metrics.get("total_return")
    if own is None:
        return _none("total_return is not on the card")
    if own.value is None:
        return own

    other = benchmark.get(episode.window, {}).get("total_return")
    if other is None:
        return _none("the benchmark has no return over the window")

    return _some(own.value - other)


def _some(value: float, n: int = 1) -> EpisodeMetric:
    return EpisodeMetric(value=value, n=n)


def _none(reason: str) -> EpisodeMetric:
    return EpisodeMetric(value=None, n=0, reason=reason)


def score_figures(entries: Sequence[BoardEntry], columns: Sequence[str]) -> Figures:
    """Return the figures for scoring-task cards over all their answers: scores, each with its own
    interval. The number of planned episodes is 0, since a score can't lack an episode.
    """
    figures = _undefined_figures(len(entries), len(columns))
    for row, entry in enumerate(entries):
        for column, name in enumerate(columns):
            figures[row, column] = _figure_fields(_card_figure(entry.card, name))

    return figures


def _card_figure(card: Card, name: str) -> ScoreLine | Line | EpisodeMetric:
    if isinstance(card, ScoringCard) and name in card.scores:
        return card.scores[name]

    if name == "decided":
        planned = card.coverage.steps_planned
        if not planned:
            return _none("no sample was planned")

        return _some(card.coverage.steps_decided / planned, planned)

    if name == "cost_usd":
        return unset_to_none(card.cost.per_episode) or _none(str(card.cost.reason))

    if name == "tokens":
        used = [episode_tokens(episode) for episode in card.episodes]
        if not used:
            return _none(_NO_EPISODE)

        values = []
        for figure in used:
            if figure.value is None:
                return figure

            values.append(figure.value)

        return _some(statistics.median(values), len(values))

    return _none(f"{name} is not on the card")


def benchmark_of(entries: Sequence[BoardEntry]) -> dict[str, dict[str, float]]:
    """Return the benchmark's figures for each window, taken from the best confirmed card that has
    them.
    """
    benchmark: dict[str, dict[str, float]] = {}
    for entry in by_trust(entries):
        for window, policy in entry.trading.reference.benchmark_buy_and_hold.items():
            if window in benchmark:
                continue

            shown = shown_benchmark(entry.trading, policy.metrics.panel)
            benchmark[window] = {
                name: metric.value for name, metric in shown.items() if metric.value is not None
            }

    return benchmark


def six_digits(values: Vector) -> Vector:
    """Round to six significant digits, so that the JSON has no more. NaN and zero are unchanged."""
    size = np.where((values == 0) | np.isnan(values), 1.0, np.abs(values))
    places = DIGITS - 1 - np.floor(np.log10(size)).astype(np.int64)
    # Powers of ten up to 22 are exact, so rounding to an integer and dividing once gives the
    # nearest decimal.
    scale = 10.0 ** np.clip(np.abs(places), 0, 22)
    rounded = np.where(
        places >= 0, np.rint(values * scale) / scale, np.rint(values / scale) * scale
    )

    return np.where(np.abs(places) > 22, values, rounded) + 0.0


def nullable(values: Vector) -> list[list[float | None]]:
    """Return values rounded to six significant digits, with None for NaN."""
    rounded = six_digits(values).astype(object)
    rounded[np.isnan(values)] = None
    rows: list[list[float | None]] = rounded.tolist()

    return rows


def figure_rows(figures: Figures, columns: Sequence[str]) -> Iterator[FigureRow]:
    """Yield the figures for each row of a table."""
    value = nullable(figures["value"])
    low = nullable(figures["low"])
    high = nullable(figures["high"])
    for row, of_row in enumerate(figures):
        named = zip(columns, of_row["reason"], strict=True)
        yield {
            "values": value[row],
            "low": low[row],
            "high": high[row],
            "interval": of_row["kind"].tolist(),
            "n": of_row["n"].tolist(),
            "reasons": {name: reason for name, reason in named if reason is not None},
        }


_NO_TRADER = "buying and holding the index involves no decisions"
_NOT_TRACKED = "not computed for the benchmark"
_NO_CHANCE = "not defined for chance"


def reference_rows(
    columns: Sequence[str],
    windows: Sequence[str],
    benchmark: Benchmark,
    entries: Sequence[BoardEntry],
    samples: Sequence[EpisodeSamples],
) -> Iterator[Row]:
    """Yield a scope's rows that do not belong to a card. For a scoring task, this is the chance
    level: the median of the cards' figures for it. Otherwise, it is the index, bought before the
    first day and held, with medians over windows.
    """
    if not samples:
        chance = _figure_table([_chance_figures(entry.card) for entry in entries], columns)
        if not np.isnan(chance).all():
            reasons = dict.fromkeys(columns, _NO_CHANCE)
            source = by_trust(entries)[-1]
            yield _reference_row("chance alone", "chance", source, chance, reasons)

        return

    source = by_trust(entries)[0]
    snapshot = source.trading.snapshot
    if snapshot.benchmark != "none":
        held = [_benchmark_figures(benchmark.get(window, {})) for window in windows]
        reasons = {name: _NO_TRADER if name in EXTRA else _NOT_TRACKED for name in columns}
        name = snapshot.benchmark_name
        yield _reference_row(
            f"{name} bought and held",
            f"benchmark ({name})",
            source,
            _figure_table(held, columns),
            reasons,
        )


def _chance_figures(card: Card) -> dict[str, float]:
    """Return the figures expected by chance on a card's samples, keyed by score."""
    if not isinstance(card, ScoringCard):
        return {}

    return {
        name: score.baseline for name, score in card.scores.items() if score.baseline is not None
    }


def _benchmark_figures(policy: Mapping[str, float]) -> Mapping[str, float]:
    """Return the figures for holding the index: no trades, no fees, and the index itself as
    benchmark.
    """
    if "total_return" not in policy:
        return policy

    return {**policy, "gross_return": policy["total_return"], "excess": 0.0}


def _figure_table(rows: Sequence[Mapping[str, float]], columns: Sequence[str]) -> Vector:
    """Return figures as a [rows, columns] array, with NaN where a row lacks a figure."""
    table = np.full((len(rows), len(columns)), math.nan)
    for number, figures in enumerate(rows):
        table[number] = [figures.get(name, math.nan) for name in columns]

    return table


def _reference_row(
    model: str, label: str, source: BoardEntry, table: Vector, reasons: Mapping[str, str]
) -> Row:
    """Return the row of column medians of a table. The row has the tier of `source`, the card on
    which it is based. `reasons` says why a figure is undefined, keyed by column.
    """
    figures = _undefined_figures(1, len(reasons))
    middle, low, high, n = medians(table[None])
    fields = {"value": middle, "low": low, "high": high, "n": n}
    for name, values in fields.items():
        figures[name] = values

    figures["kind"][~np.isnan(low)] = QUARTILES
    figures["reason"] = list(reasons.values())
    figures["reason"][~np.isnan(middle)] = None
    (shown,) = figure_rows(figures, list(reasons))
    return {
        "card": None,
        "model": model,
        "agent": "",
        "label": label,
        "settings": "",
        "strategy": "",
        "submitter": "",
        "submitted_on": "",
        "cutoff": None,
        "attempts": None,
        "registration": None,
        "fresh": None,
        "evidence": None,
        "excess": [],
        "baseline": "benchmark",
        "tier": source.tier,
        "labels": [],
        "knowledge": "",
        "anchored": "",
        **no_standing(),
        **shown,
    }
