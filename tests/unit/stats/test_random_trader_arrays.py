"""Random traders as arrays do what each of them does alone, to the last bit."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.market.venues.execution import Execution
from ktdeval.stats.random_trader_arrays import StepMoves
from ktdeval.stats.random_traders import (
    EnvelopeSettings,
    _DayFigures,
    _SingleTraders,
    _TraderArrays,
    random_envelope,
)
from ktdeval.testing.markets import random_snapshot
from ktdeval.trading.account_arrays import arrays_problem
from ktdeval.trading.market_rules import MarketRules
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig
from ktdeval.trading.wide_ratios import InexactArraysError
from support.figures.stats_play import play, rotation
from support.market.random_plays import N_DAYS, random_play, random_venue
from support.searching import examples

TRADERS = 12
SPREADS = (
    None,
    None,
    "spread",
    Execution(half_spread_bps=7.5, tick=0.01),
    Execution(half_spread_bps=20, spread="liquidity", reference_activity=1e3, window_days=5),
    Execution(half_spread_bps=300, inside_bar=True),
)


def drawn_moves(chance: random.Random) -> StepMoves | None:
    """Moves of an agent: none, or some of each kind, of small and of large amounts."""
    if chance.random() < 0.15:
        return None

    def amounts() -> tuple[float, ...]:
        return tuple(
            chance.choice((0.001, 0.04, 0.1, 0.35, 1.0)) for _ in range(chance.randrange(4))
        )

    return StepMoves(amounts(), amounts(), amounts(), chance.randrange(5))


def drawn_rules(chance: random.Random, a_shares: bool) -> tuple[Any, TradingConfig]:
    """A market and rules: boards of A-shares, or one random venue for all assets."""
    drawn = random_play(chance, a_shares)
    changes: dict[str, Any] = {"execution": chance.choice(SPREADS)}
    if not a_shares:
        changes["venue"] = random_venue(chance, "one")
        if changes["execution"] == "spread":
            changes["execution"] = None
    elif chance.random() < 0.3:
        changes["board_rules"] = "exchange"
        for name in ("lot_shares", "star_min_shares", "limit_buffer_pct", "sell_fee_bps"):
            changes[name] = getattr(TradingConfig(), name)

    return drawn.market, dataclasses.replace(drawn.config, **changes)


def holdings(traders: _TraderArrays) -> list[tuple[int, dict[int, int]]]:
    """Cash and shares by asset of each trader."""
    accounts = traders._accounts
    found = []
    for trader, cash in enumerate(accounts.cash.tolist()):
        column = zip(accounts.assets[:, trader], accounts.shares[:, trader], strict=True)
        found.append((cash, {int(asset): int(shares) for asset, shares in column if shares}))

    return found


def single_holdings(traders: _SingleTraders) -> list[tuple[int, dict[int, int]]]:
    """The same of traders that are executed one by one."""
    return [
        (account.cash_minor, {asset: held.shares for asset, held in account.positions.items()})
        for account in traders._accounts
    ]


def same_figures(one: _DayFigures, other: _DayFigures) -> bool:
    return all(
        getattr(one, part.name).tobytes() == getattr(other, part.name).tobytes()
        for part in dataclasses.fields(_DayFigures)
    )


def compare(seed: int, a_shares: bool) -> int:
    """Play both kinds of traders over a random market; return how many positions were held."""
    chance = random.Random(seed)
    market, config = drawn_rules(chance, a_shares)
    tape = MarketTape.from_snapshot(market, config)
    settings = EnvelopeSettings(TRADERS, seed)
    cash = config.initial_cash * 100
    together = _TraderArrays(cash, config, settings)
    singles = _SingleTraders(cash, config, settings)
    held = 0

    for row in range(1, N_DAYS):
        moves = drawn_moves(chance)
        try:
            figures = together.trade(tape.day(row), moves)
        except InexactArraysError:
            return held

        assert same_figures(figures, singles.trade(tape.day(row), moves)), (seed, row)
        assert holdings(together) == single_holdings(singles), (seed, row)
        held += int(figures.names.sum())

    return held


@pytest.mark.slow
@examples(10, search=150)
@given(seed=st.integers(0, 2**32), a_shares=st.booleans())
def test_traders_together_end_as_each_of_them_alone(seed: int, a_shares: bool) -> None:
    """Over random markets with limits, suspensions, factor changes, T+1, costs and spreads."""
    compare(seed, a_shares)


@pytest.mark.exhaustive
@pytest.mark.parametrize("a_shares", [True, False], ids=["a_share", "any venue"])
def test_three_hundred_random_markets_give_both_the_same_accounts(a_shares: bool) -> None:
    held = [compare(seed, a_shares) for seed in range(300)]

    assert sum(number > 0 for number in held) > 100


MARKET = random_snapshot(seed=4, n_assets=30, n_days=24)


@pytest.mark.parametrize("execution", [None, "spread", "sqrt"])
def test_an_envelope_is_the_same_by_either_road(
    execution: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TradingConfig(execution=execution)
    ledger = play(MARKET, rotation(MARKET, 1, names=8, swaps=2), range(6, 16), config)
    settings = EnvelopeSettings(30, 7)
    together = random_envelope(ledger, MARKET, config, settings)

    monkeypatch.setattr("ktdeval.stats.random_traders.arrays_problem", lambda _: "a test")
    alone = random_envelope(ledger, MARKET, config, settings)

    assert together.to_json() == alone.to_json()
    assert together.returns.tobytes() == alone.returns.tobytes()


def test_who_watches_hears_why_traders_are_executed_one_by_one() -> None:
    config = TradingConfig(execution="sqrt")
    ledger = play(MARKET, rotation(MARKET, 1, names=4, swaps=1), range(6, 9), config)
    heard: list[tuple[str, int, int]] = []

    random_envelope(
        ledger, MARKET, config, EnvelopeSettings(3), tell=lambda *words: heard.append(words)
    )

    why = "random traders are executed one by one: prices or sizes of fills depend on the day's volume"
    assert heard == [(why, 0, 3), (why, 1, 3), (why, 2, 3)]


def test_amounts_beyond_whole_floats_are_executed_one_by_one() -> None:
    """An account of 10^14 yuan has more fen than a float has whole numbers."""
    config = TradingConfig(initial_cash=10**14)
    ledger = play(MARKET, rotation(MARKET, 1, names=4, swaps=1), range(6, 9), config)
    heard: list[str] = []

    envelope = random_envelope(
        ledger, MARKET, config, EnvelopeSettings(3), tell=lambda name, *_: heard.append(name)
    )

    assert len(envelope.returns) == 3
    assert set(heard) == {
        "random traders are executed one by one: amounts are too large for exact arrays"
    }


def test_assets_that_count_values_in_different_units_have_no_arrays() -> None:
    chance = random.Random(2)
    drawn = random_play(chance, a_shares=False)
    rules = MarketRules.of(drawn.market, drawn.config)

    assert len(set(rules.units)) == 2
    assert arrays_problem(rules) == "the assets count values in different units"
