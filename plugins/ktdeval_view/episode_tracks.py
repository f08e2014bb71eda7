"""An episode's track, computed from its ledger and the market."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from ktdeval.attribution import FACTOR_NAMES, FEW_ASSETS, factor_panel, has_few_assets, standardise
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.stats import Same, benchmark_levels, benchmark_problem
from ktdeval.trading import Ledger, StepRecord
from ktdeval_pages.tear_sheet.tracks import Book, GroupExposures, Track, TrackHolding
from ktdeval_view.asset_gains import asset_gains
from ktdeval_view.episode_records import EpisodeRecords

_UNKNOWN = "unknown"  #: label of assets without an industry


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
        book=_book(ledger, market, no_market),
        days_a_year=ledger.days_a_year,
        resolution=ledger.return_resolution,
    )


def _book(ledger: Ledger, market: MarketSnapshot | None, no_market: str) -> Book:
    columns: dict[str, list[float]] = {name: [] for name in ("gross", "net", "cash", "turnover")}
    columns |= {"names": [], "largest": []}
    holdings: dict[str, TrackHolding] = {}

    for step in ledger.steps:
        for name, value in _day_of_book(step).items():
            columns[name].append(value)

        if step.nav_minor <= 0:
            continue

        for code, weight in step.weights.items():
            today = TrackHolding(code, 1, weight, weight)
            before = holdings.get(code)
            holdings[code] = today if before is None else before.add_track(today)

    gains = asset_gains(ledger).by_asset
    for code, holding in holdings.items():
        contribution = gains[code] / ledger.initial_cash_minor
        holdings[code] = replace(holding, contribution=contribution)

    arrays = {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
    problem = no_market if market is None else _market_problem(ledger, market)
    sectors = factors = GroupExposures({}, problem)
    if market is not None and not problem:
        sectors = _sector_exposures(ledger, market)
        factors = _factor_exposures(ledger, market)
    return Book(**arrays, holdings=holdings, sectors=sectors, factors=factors)


def _market_problem(ledger: Ledger, market: MarketSnapshot) -> str:
    """Return why a ledger's positions can't be looked up in the market; empty if they can."""
    if not np.isin(ledger.days, market.days).all():
        return "the ledger's days are not days of this market"
    codes = {position.code for step in ledger.steps for position in step.positions}
    if not codes <= market.asset_index.keys():
        return "a holding is not an asset of this market"
    return ""


def _sector_exposures(ledger: Ledger, market: MarketSnapshot) -> GroupExposures:
    """Return the net weight of each industry with a position, [days]."""
    if set(market.industries) <= {_UNKNOWN, ""}:
        return GroupExposures({}, "the market names no industries")

    weights, columns = _weights(ledger, market)
    names = np.array(market.industries)[columns]
    lines = {}
    for name in sorted(set(names.tolist())):
        lines[name] = weights[:, names == name].sum(axis=1)
    return GroupExposures(lines)


def _factor_exposures(ledger: Ledger, market: MarketSnapshot) -> GroupExposures:
    """Return the NAV's exposure to each style, [days]: weights at the close times the exposures
    known by then. A holding without a style value gets the cross-sectional mean, 0.
    """
    if has_few_assets(market):
        return GroupExposures({}, FEW_ASSETS)

    weights, columns = _weights(ledger, market)
    rows = np.searchsorted(market.days, ledger.days)
    styles = _style_exposures(Same(market), int(rows[0]), int(rows[-1]))
    held = styles[rows - rows[0]][:, :, columns]
    exposures = np.einsum("dn,dkn->dk", weights, np.nan_to_num(held))
    has_value = ((weights[:, None, :] != 0.0) & np.isfinite(held)).any(axis=2)
    is_empty = (weights == 0.0).all(axis=1)
    exposures[~has_value & ~is_empty[:, None]] = np.nan
    lines = {}
    for name, values in zip(FACTOR_NAMES, exposures.T, strict=True):
        if np.isfinite(values).any():
            lines[name] = values
    if not lines:
        return GroupExposures({}, "no style exposure is known on any day")
    return GroupExposures(lines)


@lru_cache(maxsize=1)
def _style_exposures(market: Same[MarketSnapshot], first: int, last: int) -> FloatArray:
    """Return the [D, K, N] standardised styles at the closes of a range of rows. The result is
    cached for the other seeds of the window.
    """
    values = factor_panel(market.value, range(first, last + 1)).transpose(1, 0, 2)
    return standardise(values, market.value.member[first : last + 1, None, :])


def _weights(ledger: Ledger, market: MarketSnapshot) -> tuple[FloatArray, list[int]]:
    """Return the weights at the close of all assets that were ever held, [days, held], and the
    assets' columns in the market. Weights are NaN on days when the NAV is not positive.
    """
    codes = sorted({position.code for step in ledger.steps for position in step.positions})
    place = {code: number for number, code in enumerate(codes)}
    weights = np.zeros((len(ledger.steps), len(codes)))
    for day, step in enumerate(ledger.steps):
        if step.nav_minor <= 0:
            weights[day] = np.nan

        for code, weight in step.weights.items():
            weights[day, place[code]] = weight

    return weights, [market.asset_index[code] for code in codes]


def _day_of_book(step: StepRecord) -> dict[str, float]:
    """Return the figures of a single day, keyed by `Book` field."""
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
