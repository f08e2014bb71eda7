"""Attribution on markets of several calendars: factors, weights, betas and returns over the sessions
of each asset, against pandas and numpy on its own bars.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from ktdeval.attribution import FACTOR_NAMES, attribute, factor_history, factor_panel, factor_values
from ktdeval.attribution.asset_exposures import exposures
from ktdeval.attribution.factor_returns import close_to_close, fit_factors, market_model
from ktdeval.market import MarketSnapshot
from ktdeval.testing import not_empty, step_record
from ktdeval.testing.ledger_fixtures import ledger_of
from support.accept.accept_figures import nine_factors
from support.market.mixed_market import mixed_market, of_each, own_bars, week_of

MARKET = mixed_market(of_each({"us_equity": 14, "asia": 12, "crypto_spot": 8}))
FEW = mixed_market(of_each({"us_equity": 3, "asia": 2, "crypto_spot": 3}))


def with_index(market: MarketSnapshot) -> MarketSnapshot:
    """The market with an index of the New York stocks, which has no level on other days."""
    stocks = [column for column, venue in enumerate(market.venues) if venue == "us_equity"]
    is_open = np.isfinite(market.close[:, stocks]).any(axis=1)
    levels = pd.DataFrame(market.adjusted_close[:, stocks])[is_open].ffill().bfill()
    index = (levels / levels.iloc[0]).mean(axis=1).reindex(range(len(market.days)))

    meta = dataclasses.replace(market.meta, benchmark="NYI")
    return dataclasses.replace(
        market, meta=meta, indices={"NYI": index.to_numpy()}, index_names={"NYI": "NYI"}
    )


# ---- factors


@pytest.mark.parametrize("row", week_of(MARKET)[1:7:2])
def test_factors_are_those_of_the_assets_own_sessions(row: int) -> None:
    values = factor_values(MARKET.as_of(row)).values
    panel = factor_panel(MARKET, range(row - 3, row + 1))
    history = factor_history(MARKET.as_of(row), 30)

    for asset in not_empty(range(len(MARKET.codes))):
        bars = own_bars(MARKET, asset, row).reset_index(drop=True)
        truth = nine_factors(bars)
        if MARKET.codes[asset].endswith("01"):  # suspended while the others of its calendar trade
            continue
        for place, name in enumerate(FACTOR_NAMES):
            where = f"{MARKET.codes[asset]} {name}"
            found = [values[name][asset], panel[place, -1, asset], history[-1, asset, place]]
            np.testing.assert_allclose(found, truth[name], rtol=1e-8, atol=1e-10, err_msg=where)


def test_a_suspended_asset_counts_the_sessions_of_its_exchange() -> None:
    """As on a market of its calendar alone: what suspends an asset closes no exchange."""
    row = len(MARKET.days) - 1
    mixed = factor_values(MARKET.as_of(row))
    for venue in ("us_equity", "asia", "crypto_spot"):
        columns = [column for column, name in enumerate(MARKET.venues) if name == venue]
        rows = np.isfinite(MARKET.close[:, columns]).any(axis=1)
        alone = part_of(MARKET, rows, columns)
        own = factor_values(alone.as_of(len(alone.days) - 1))
        for name in FACTOR_NAMES:
            np.testing.assert_array_equal(mixed.values[name][columns], own.values[name])


def part_of(market: MarketSnapshot, rows: np.ndarray, columns: list[int]) -> MarketSnapshot:
    """The market of some days and assets alone."""
    grids = {
        name: getattr(market, name)[rows][:, columns]
        for name in ("open", "high", "low", "close", "volume", "amount", "factor", "member")
    }
    texts = {
        name: tuple(getattr(market, name)[column] for column in columns)
        for name in ("codes", "names", "industries", "instruments")
    }
    return dataclasses.replace(market, days=market.days[rows], id="", **grids, **texts)


def test_a_history_has_the_last_sessions_of_each_asset() -> None:
    row = len(MARKET.days) - 1
    history = factor_history(MARKET.as_of(row), 10)
    panel = factor_panel(MARKET, range(row + 1))
    for asset, code in enumerate(not_empty(MARKET.codes)):
        if not code.endswith("01"):
            sessions = np.flatnonzero(np.isfinite(MARKET.close[:, asset]))[-10:]
            np.testing.assert_array_equal(history[:, asset].T, panel[:, sessions, asset])


def test_a_later_day_changes_no_factor() -> None:
    row = len(MARKET.days) - 9
    cut = part_of(MARKET, np.arange(len(MARKET.days)) <= row, list(range(len(MARKET.codes))))
    for name, values in not_empty(factor_values(cut.as_of(row)).values.items()):
        np.testing.assert_array_equal(values, factor_values(MARKET.as_of(row)).values[name])


# ---- the regression


def test_weights_are_of_twenty_sessions_before_the_day() -> None:
    rows = range(len(MARKET.days) - 8, len(MARKET.days))
    found = exposures(MARKET, rows).weights
    for day, row in enumerate(not_empty(rows)):
        amounts = []
        for asset in not_empty(range(len(MARKET.codes))):
            bars = own_bars(MARKET, asset, row - 1)
            amounts.append(bars["amount"].tail(20).mean())

        roots = np.sqrt(amounts)
        plain = [not code.endswith("01") for code in MARKET.codes]
        shares = roots / np.median(roots)
        np.testing.assert_allclose(found[day][plain], shares[plain], rtol=1e-12)


def test_monday_has_the_returns_of_stocks_since_friday() -> None:
    mondays = [
        row for row in week_of(MARKET) if pd.Timestamp(MARKET.days[row]).day_name() == "Monday"
    ]
    row = mondays[0]
    returns, has_return, one_session = close_to_close(MARKET, range(row, row + 1))
    fitted = fit_factors(MARKET, row, row)
    for asset, code in enumerate(not_empty(MARKET.codes)):
        change = own_bars(MARKET, asset, row)["adjusted"].pct_change().iloc[-1]
        assert returns[0, asset] == pytest.approx(change, rel=1e-12), code
        assert has_return[0, asset]
        assert one_session[0, asset]
        assert fitted.weights[0, asset] > 0


# ---- the market model of few assets


def equal_weights(market: MarketSnapshot) -> pd.Series:
    """Level of the members at equal weights, rebalanced each day."""
    closes = pd.DataFrame(market.adjusted_close)
    known = closes.ffill()
    moves = (closes / known.shift() - 1.0).fillna(0.0)
    held = known.shift().notna()
    return (1.0 + (moves * held).sum(axis=1) / held.sum(axis=1).clip(lower=1)).cumprod()


@pytest.mark.parametrize("market", [FEW, with_index(FEW)], ids=["equal weights", "index"])
def test_a_beta_is_of_returns_between_days_that_asset_and_market_share(
    market: MarketSnapshot,
) -> None:
    level = equal_weights(market)
    if market.meta.benchmark:
        level = pd.Series(market.benchmark)

    rows = range(len(market.days) - 8, len(market.days))
    fitted = market_model(market, rows)
    closes = pd.DataFrame(market.adjusted_close)
    for asset, code in enumerate(not_empty(market.codes)):
        for day, row in enumerate(not_empty(rows)):
            shared = pd.DataFrame({"asset": closes[asset], "market": level}).dropna()
            returns = shared.pct_change().dropna()
            before = returns[returns.index < row].tail(252)
            slope = np.polyfit(before["market"], before["asset"], 1)[0]
            has_bar = np.isfinite(market.close[row, asset])
            expected = slope if has_bar else 0.0
            where = f"{code} {market.days[row]}"
            found = fitted.exposures.design[day, 0, asset]
            assert found == pytest.approx(expected, rel=1e-8), where

            last = closes[asset][:row].last_valid_index()
            known = level.ffill()
            moved = known[row] / known[last] - 1.0
            assert fitted.explained[day, asset] == pytest.approx(expected * moved, abs=1e-12), where


def test_market_moves_during_a_closure_are_common_on_the_next_session() -> None:
    """A coin doubles on a weekend; the stock follows on Monday with its beta of half of that."""
    rng = np.random.default_rng(3)
    market = mixed_market({"COIN": "crypto_spot", "STOCK": "us_equity"}, last="2024-12-31")
    days = pd.DatetimeIndex(market.days)
    coin = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.01, len(days))))
    index = coin / coin[0]
    is_open = np.isfinite(market.close[:, 1])
    stock = np.where(is_open, 50.0 * np.sqrt(index), np.nan)
    closes = np.column_stack([coin, stock])
    grids = dict.fromkeys(("open", "high", "low", "close"), closes)
    meta = dataclasses.replace(market.meta, benchmark="COINS")
    market = dataclasses.replace(
        market,
        meta=meta,
        indices={"COINS": index},
        index_names={"COINS": "COINS"},
        factor=np.ones_like(closes),
        id="",
        **grids,
    )
    monday = int(np.flatnonzero((days.day_name() == "Monday") & is_open)[-1])
    position = {"code": "STOCK", "shares": 1, "locked": 0, "price_ticks": 1, "value_minor": 10_000}
    steps = []
    for number, row in enumerate(range(monday - 2, monday + 1)):
        nav = {"nav_minor": 10_000, "cash_minor": 0, "holdings_minor": 10_000}
        steps.append(step_record(market, number, row, positions=[position], **nav))

    parts = attribute(ledger_of(steps), market)
    moved = index[monday] / index[monday - 3] - 1.0
    fitted = market_model(market, range(monday, monday + 1))
    beta = fitted.exposures.design[0, 0, 1]

    assert beta == pytest.approx(0.5, abs=0.01)
    assert parts.common[1] == 0.0  # Sunday
    assert parts.common[2] == pytest.approx(beta * moved, rel=1e-9)
    assert parts.common[2] + parts.selection[2] == pytest.approx(
        stock[monday] / stock[monday - 3] - 1
    )
