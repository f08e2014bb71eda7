"""Daily curves of the cards of a division, of all seeds together, as `curves/DIVISION` holds them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from ktdeval.jsonio import JsonValue
from ktdeval.market import FloatArray
from ktdeval.typed import to_plain
from ktdeval_board.documents import Decisions, DecisionStep, EpisodeDecisions, EpisodeSeries, Series, rounded
from ktdeval_board.rules import Division

_FIGURES = ("ama_gap_to_buy_and_hold", "df_effectiveness")
"""Figures of the tasks whose divisions have curves."""


def has_curves(columns: Collection[str]) -> bool:
    """Return whether a division with these columns has curves."""
    return any(name in columns for name in _FIGURES)


def curves(division: Division, records: Iterable[tuple[Series, Decisions]]) -> dict[str, JsonValue]:
    """Return the curves of the cards of a division, each window separately.

    `windows`: days [n + 1] from the first decision on, `asset` and `benchmark` [n + 1] over their first value, null where they are
    not known. `cards`: of each card and window `seeds`; `after` and `before` fees the return since the start, [n + 1] median over
    seeds and, of several, the lowest and highest; of each decision [n] the seeds that then are `long` and `short`, and those with a
    filled order to `buy` and to `sell`. Over days and seeds: number of `orders` by side or `unfilled`, mean weight of each asset
    `held`, number of `signals` by analyst.
    """
    windows: dict[str, dict[str, JsonValue]] = {}
    cards: dict[str, dict[str, JsonValue]] = {}
    for series, decisions in records:
        known = {episode.id: episode for episode in decisions.episodes}
        for window in division.window_names():
            episodes = [episode for episode in series.episodes if episode.window == window and episode.id in known]
            if not episodes:
                continue
            days = [[episode.base_day, *episode.days] for episode in episodes]
            levels: dict[str, JsonValue] = {"asset": episodes[0].asset or None, "benchmark": episodes[0].benchmark}
            frame = windows.setdefault(window, {"days": days[0], **levels})
            if all(each == frame["days"] for each in days):
                decided = [known[episode.id] for episode in episodes]
                card = _card(episodes, [episode.steps for episode in decided])
                cards.setdefault(series.card, {})[window] = card | {"signals": _signals(decided)}
    return {"division": division.id, "windows": windows, "cards": rounded(cards)}


def _card(episodes: Sequence[EpisodeSeries], steps: Sequence[Sequence[DecisionStep]]) -> dict[str, JsonValue]:
    return {
        "seeds": len(episodes),
        "after": _spread([episode.nav for episode in episodes]),
        "before": _spread([episode.gross_nav for episode in episodes]),
        **{name: _count(steps, name) for name in ("long", "short", "buy", "sell")},
        "orders": Counter(order.side if order.filled else "unfilled" for seed in steps for step in seed for order in step.orders),
        "held": _held([step for seed in steps for step in seed]),
    }


def _held(steps: Sequence[DecisionStep]) -> dict[str, float]:
    """Mean weight of each asset that was held on any day, by code."""
    total: Counter[str] = Counter()
    for step in steps:
        total.update(dict(step.holdings))
    return {code: weight / len(steps) for code, weight in sorted(total.items())}


def _signals(episodes: Iterable[EpisodeDecisions]) -> dict[str, JsonValue]:
    by_role: dict[str, Counter[str]] = defaultdict(Counter)
    for episode in episodes:
        for role, counts in (episode.signals or {}).items():
            by_role[role].update(to_plain(counts))
    return dict(sorted(by_role.items()))


def _spread(paths: Sequence[Sequence[float]]) -> list[JsonValue]:
    """Median of paths, and their lowest and highest values where there are several; all less one."""
    values: FloatArray = np.array(paths, dtype=np.float64) - 1.0
    lines = [np.median(values, axis=0)] if len(paths) == 1 else [np.median(values, axis=0), values.min(axis=0), values.max(axis=0)]
    return [line.tolist() for line in lines]


def _count(seeds: Sequence[Sequence[DecisionStep]], name: str) -> list[int]:
    """[n] how many seeds are long or short at the close, or had an order to buy or to sell filled."""
    return [sum(name in _stands(step) for step in day) for day in zip(*seeds, strict=True)]


def _stands(step: DecisionStep) -> set[str]:
    sides = {"long" if weight > 0.0 else "short" for _, weight in step.holdings if weight}
    return sides | {order.side.lower() for order in step.orders if order.filled}
