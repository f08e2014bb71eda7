"""Rows that are nobody's card and always there: the benchmark, random traders, and chance in a scoring task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ktdeval.cards import ScoringCard
from ktdeval.jsonio import JsonValue
from ktdeval_board.entries import Entry, market_of
from ktdeval_board.ranking.daily import Vector
from ktdeval_board.ranking.describe import EXTRA, by_trust
from ktdeval_board.ranking.figures import QUARTILES, Samples, medians, nullable

RANDOM_RANGE = (0.05, 0.95)
"""Quantiles that the row of random traders shows in the place of an interval."""
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
    return [_benchmark(columns, windows, benchmark, by_trust(entries)[0]), *_random(columns, windows, samples)]


def _benchmark(columns: Sequence[str], windows: Sequence[str], benchmark: Mapping[str, Mapping[str, float]], source: Entry) -> Row:
    """Return the index bought before the first day and held: median over windows, as an agent's is over its episodes."""
    values = np.full((1, len(windows), len(columns)), np.nan)
    for place, window in enumerate(windows):
        known = benchmark.get(window, {})
        for column, metric in enumerate(columns):
            # Nothing is traded, so there are no fees; and it is its own benchmark.
            own = "total_return" if metric in ("excess", "gross_return") else metric
            if own in known:
                values[0, place, column] = 0.0 if metric == "excess" else known[own]
    middle, low, high, n = medians(values)
    reasons = {
        metric: _NO_TRADER if metric in EXTRA else _NOT_TRACKED
        for metric, value in zip(columns, middle[0].tolist(), strict=True)
        if math.isnan(value)
    }
    name = market_of(source.card).benchmark_name
    row = _row("benchmark", f"{name} bought and held", f"benchmark ({name})", source)
    return row | _figures(middle[0], low[0], high[0], n[0].tolist(), QUARTILES) | {"reasons": reasons}


def _random(columns: Sequence[str], windows: Sequence[str], samples: Sequence[Samples]) -> Iterator[Row]:
    """All episodes of the random baselines in the scope together."""
    parts = []
    sources: list[Entry] = []
    for group in samples:
        cells = [place for place, (window, _) in enumerate(group.cells) if window in windows]
        rows = [row for row, entry in enumerate(group.entries) if entry.baseline is not None and entry.baseline.kind == "random"]
        if rows:
            sources += [group.entries[row] for row in rows]
            parts.append(group.grid.value[np.ix_(rows, cells)].reshape(-1, len(columns)))
    if not parts:
        return
    values = np.concatenate(parts)
    n = (~np.isnan(values)).sum(axis=0)
    low, middle, high = (np.full(len(columns), np.nan) for _ in range(3))
    for column in np.flatnonzero(n):
        defined = values[~np.isnan(values[:, column]), column]
        middle[column] = np.median(defined)
        if len(defined) > 1:
            low[column], high[column] = np.quantile(defined, RANDOM_RANGE)
    reasons = dict.fromkeys(
        (name for name, count in zip(columns, n.tolist(), strict=True) if count == 0),
        "not defined in any episode of random traders",
    )
    row = _row("random_traders", "random traders", "random traders", by_trust(sources)[-1])
    yield row | _figures(middle, low, high, n.tolist(), RANDOM_KIND) | {"reasons": reasons}


def _chance(columns: Sequence[str], entries: Sequence[Entry]) -> Iterator[Row]:
    """Yield what chance alone gives in a scoring task: median of what the cards say of their samples."""
    values = np.full((1, len(entries), len(columns)), np.nan)
    for place, entry in enumerate(entries):
        for column, name in enumerate(columns):
            score = entry.card.scores.get(name) if isinstance(entry.card, ScoringCard) else None
            if score is not None and score.baseline is not None:
                values[0, place, column] = score.baseline
    middle, low, high, n = medians(values)
    if not n.any():
        return
    reasons = {name: "not defined for chance" for name, count in zip(columns, n[0].tolist(), strict=True) if count == 0}
    row = _row("benchmark", "chance alone", "chance", by_trust(entries)[-1])
    yield row | _figures(middle[0], low[0], high[0], n[0].tolist(), QUARTILES) | {"reasons": reasons}


def _row(baseline: str, model: str, label: str, source: Entry) -> Row:
    """Return what such a row says in every scope; it is confirmed as far as the card that it rests on."""
    return {
        "card": None,
        "model": model,
        "agent": "",
        "label": label,
        "strategy": "",
        "baseline": baseline,
        "tier": source.tier,
        "labels": [],
        "attempts": None,
        "cutoff": None,
        "submitter": "",
        "submitted_on": "",
        "settings": "",
        "ranked": False,
        "why": [],
        "rank": None,
        "alpha_rank": None,
        "tie": None,
        "alpha_tie": None,
    }


def _figures(middle: Vector, low: Vector, high: Vector, n: Sequence[int], kind: str) -> Row:
    ends = nullable(np.stack((middle, low, high)))
    return {
        "values": ends[0],
        "low": ends[1],
        "high": ends[2],
        "interval": [None if end is None else kind for end in ends[1]],
        "n": list(n),
    }
