"""Track of an episode, from its ledger and the market."""

from __future__ import annotations

import numpy as np

from ktdeval.market import MarketSnapshot
from ktdeval.stats import benchmark_levels, benchmark_problem
from ktdeval.trading import Ledger, StepRecord
from ktdeval_pages.tear_sheet.tracks import Book, Track, TrackHolding
from ktdeval_view.episode_records import EpisodeRecords


def track_of(records: EpisodeRecords, market: MarketSnapshot | None, no_market: str) -> Track:
    """Return the track of an episode with at least one step."""
    ledger = records.ledger
    benchmark = None
    no_benchmark = no_market
    if market is not None:
        levels = benchmark_levels(ledger, market)
        no_benchmark = benchmark_problem(market, levels) or ""
        if not no_benchmark:
            benchmark = levels

    return Track(
        name=records.spec.span.name,
        seed=records.spec.seed,
        is_whole=records.state == "finished",
        days=np.concatenate([[ledger.base_day], ledger.days]),
        levels=ledger.nav,
        benchmark=benchmark,
        no_benchmark=no_benchmark,
        book=_book(ledger),
        days_a_year=ledger.days_a_year,
        resolution=ledger.return_resolution,
    )


def _book(ledger: Ledger) -> Book:
    columns: dict[str, list[float]] = {name: [] for name in ("gross", "net", "cash", "turnover")}
    columns |= {"names": [], "largest": []}
    holdings: dict[str, TrackHolding] = {}

    for step in ledger.steps:
        for name, value in _day_of_book(step).items():
            columns[name].append(value)

        if step.nav_minor <= 0:
            continue

        for position in step.positions:
            weight = position.value_minor / step.nav_minor
            today = TrackHolding(position.code, 1, weight, weight)
            before = holdings.get(position.code)
            holdings[position.code] = today if before is None else before.joined(today)

    arrays = {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
    return Book(**arrays, holdings=holdings)


def _day_of_book(step: StepRecord) -> dict[str, float]:
    """Return the figures of one day by the field of `Book`."""
    values = [position.value_minor for position in step.positions]
    sizes = [abs(value) for value in values]
    found = {"names": float(len(values))}
    shares = {
        "gross": sum(sizes),
        "net": sum(values),
        "cash": step.cash_minor,
        "largest": max(sizes, default=0),
    }
    for name, amount in shares.items():
        found[name] = amount / step.nav_minor if step.nav_minor > 0 else np.nan

    found["turnover"] = np.nan
    if step.open_nav_minor > 0:
        found["turnover"] = step.traded_minor / step.open_nav_minor

    return found
