"""Daily curves of a division's cards over all seeds: the value of `curves/DIVISION`."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from msgspec import structs

from ktdeval.market import FloatArray
from ktdeval.values import JsonValue
from ktdeval_board.document_types import (
    Decisions,
    DecisionStep,
    EpisodeDecisions,
    EpisodeSeries,
    Series,
    round_floats,
)
from ktdeval_board.rules import Division

_FIGURES = ("ama_gap_to_buy_and_hold", "df_effectiveness")
"""Figures that identify the tasks whose divisions have curves."""


def has_curves(columns: Collection[str]) -> bool:
    """Return whether a division with these columns has curves."""
    return not set(_FIGURES).isdisjoint(columns)


def curves(division: Division, records: Iterable[tuple[Series, Decisions]]) -> dict[str, JsonValue]:
    """Return the curves of the cards of a division, each window separately.

    `windows` has for each window:
    `days`: from the first decision on, [n + 1].
    `asset`, `benchmark`: values divided by the first one, [n + 1]; null if unknown.

    `cards` has for each card and window:
    `seeds`: their number.
    `after`, `before`: return since the start after and before fees, [n + 1]: the median over
    seeds, and with several seeds the lowest and the highest.
    `long`, `short`, `buy`, `sell`: number of seeds that are long or short at the close, and with a
    filled order to buy or to sell, [n].
    `orders`: number by side, or `unfilled`, over days and seeds.
    `held`: mean weight of each asset over days and seeds.
    `signals`: number by analyst and kind, over days and seeds.
    """
    windows: dict[str, dict[str, JsonValue]] = {}
    cards: dict[str, dict[str, JsonValue]] = {}
    for series, decisions in records:
        decisions_of = {episode.id: episode for episode in decisions.episodes}
        of_window: defaultdict[str, list[EpisodeSeries]] = defaultdict(list)
        for episode in series.episodes:
            if episode.id in decisions_of:
                of_window[episode.window].append(episode)

        for window in division.window_names():
            episodes = of_window[window]
            if not episodes:
                continue

            # The first card with episodes in the window determines the window's days.
            if window not in windows:
                windows[window] = _window(episodes[0])

            # A median over seeds requires equal days, so a card with a different calendar has no
            # curve.
            if all(_episode_days(episode) == windows[window]["days"] for episode in episodes):
                decided = [decisions_of[episode.id] for episode in episodes]
                cards.setdefault(series.card, {})[window] = _card_curves(episodes, decided)

    return {"division": division.id, "windows": windows, "cards": round_floats(cards)}


def _episode_days(episode: EpisodeSeries) -> list[str]:
    """Return the day of the first decision and all subsequent days, [n + 1]."""
    return [episode.base_day, *episode.days]


def _window(episode: EpisodeSeries) -> dict[str, JsonValue]:
    """Return the days, asset values and benchmark values for a window, taken from one of its
    episodes.
    """
    return {
        "days": _episode_days(episode),
        "asset": episode.asset or None,
        "benchmark": episode.benchmark,
    }


def _card_curves(
    episodes: Sequence[EpisodeSeries], decided: Sequence[EpisodeDecisions]
) -> dict[str, JsonValue]:
    """Return a card's curves in a window, from the series and decisions of its seeds."""
    seeds = [episode.steps for episode in decided]
    steps = list(itertools.chain.from_iterable(seeds))
    orders: Counter[str] = Counter()
    for step in steps:
        for order in step.orders:
            orders[order.side if order.filled else "unfilled"] += 1

    curves: dict[str, JsonValue] = {
        "seeds": len(episodes),
        "after": _find_range([episode.nav for episode in episodes]),
        "before": _find_range([episode.gross_nav for episode in episodes]),
        "orders": orders,
        "held": _average_weights(steps),
        "signals": _signals(decided),
    }
    for name in ("long", "short", "buy", "sell"):
        curves[name] = _count_seeds(seeds, name)

    return curves


def _average_weights(steps: Sequence[DecisionStep]) -> dict[str, float]:
    """Return the mean weight of each asset held on any day, keyed by code."""
    total: Counter[str] = Counter()
    for step in steps:
        total.update(dict(step.holdings))

    return {code: weight / len(steps) for code, weight in sorted(total.items())}


def _signals(episodes: Iterable[EpisodeDecisions]) -> dict[str, JsonValue]:
    """Return the number of signals of each kind, keyed by analyst."""
    by_role: dict[str, Counter[str]] = defaultdict(Counter)
    for episode in episodes:
        for role, counts in (episode.signals or {}).items():
            by_role[role].update(structs.asdict(counts))

    return dict(sorted(by_role.items()))


def _find_range(paths: Sequence[Sequence[float]]) -> list[JsonValue]:
    """Return the median over paths, minus one. If there are several paths, also return their lowest
    and highest values, minus one.
    """
    values: FloatArray = np.array(paths, dtype=np.float64) - 1.0
    lines = [np.median(values, axis=0)]
    if len(paths) > 1:
        lines += [values.min(axis=0), values.max(axis=0)]

    return [line.tolist() for line in lines]


def _count_seeds(seeds: Sequence[Sequence[DecisionStep]], name: str) -> list[int]:
    """Return the [n] number of seeds to which `name` applies on each day: seeds that are long or
    short at the close, or that had a buy or sell order filled.
    """
    counts = []
    for steps_of_day in zip(*seeds, strict=True):
        counts.append(sum(name in _states(step) for step in steps_of_day))

    return counts


def _states(step: DecisionStep) -> set[str]:
    """Return which of `long`, `short`, `buy` and `sell` apply to a step."""
    states = set()
    for _, weight in step.holdings:
        if weight > 0.0:
            states.add("long")
        elif weight < 0.0:
            states.add("short")

    for order in step.orders:
        if order.filled:
            states.add(order.side.lower())

    return states
