"""Random traders do as much as the agent, at its dates, under its rules, and know nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.stats.metric_panel import panel_metric
from ktdeval.stats.random_trader_arrays import StepMoves
from ktdeval.stats.random_traders import (
    EnvelopeSettings,
    TraderEnvelope,
    TradingActivity,
    _RandomTrader,
    moves_of,
    random_envelope,
    rank_among,
)
from ktdeval.testing.markets import SnapshotDetails, random_snapshot, tiny_snapshot
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Action, Order, Position, TradingConfig
from support.figures.metric_cases import ledger, order, step
from support.figures.stats_play import Strategy, play, rotation

MARKET = random_snapshot(seed=4, n_assets=60, n_days=140)
ROWS = range(5, 125)
CONFIG = TradingConfig()
FEW = EnvelopeSettings(paths=40)


@pytest.fixture(scope="module")
def busy() -> tuple[Ledger, TraderEnvelope]:
    ledger = play(MARKET, rotation(MARKET, 1, names=12, swaps=2), ROWS)
    return ledger, random_envelope(ledger, MARKET, CONFIG, FEW)


def buy_once(*assets: int, weight: float = 0.09) -> Strategy:
    def strategy(account: Account, row: int) -> Action:
        return (
            tuple(Order(asset, "BUY", 0.6, "once", weight, None) for asset in assets)
            if row == ROWS[0]
            else ()
        )

    return strategy


def foresight(market: MarketSnapshot, names: int) -> Strategy:
    """Each day all in the names that will rise most from the next open to the one after."""

    def strategy(account: Account, row: int) -> Action:
        gains = np.nan_to_num(
            market.adjusted_open[row + 2] / market.adjusted_open[row + 1], nan=0.0
        )
        best = [int(asset) for asset in np.argsort(-gains)[:names]]
        sells = [
            Order(a, "SELL", 0.9, "", None, p.shares)
            for a, p in account.positions.items()
            if a not in best
        ]

        return (
            *sells,
            *(Order(a, "BUY", 0.9, "", 0.09, None) for a in best if a not in account.positions),
        )

    return strategy


# -- the moves
# ----------------------------------------------------------------------------------------------------------


def record(orders: list[dict[str, object]], after: list[str]) -> StepRecord:
    return ledger([step(0, 1000, dict.fromkeys(after, 0), orders=orders)]).steps[0]


def fill(code: str, side: str, notional: int, shares: int = 100) -> dict[str, object]:
    return order(code, side, filled=shares, notional_minor=notional)


def test_moves_distinguish_entries_additions_and_reductions() -> None:
    orders = [
        fill("A", "BUY", 100),
        fill("B", "BUY", 50),
        fill("C", "SELL", 30),
        fill("D", "SELL", 200),
        fill("A", "BUY", 20),
    ]

    assert moves_of(record(orders, ["A", "B", "C"]), frozenset("BCD")) == StepMoves(
        (0.12,), (0.05,), (0.03,), 3
    )
    assert moves_of(record([], []), frozenset()) is None
    assert moves_of(record([fill("A", "BUY", 0, 0)], []), frozenset()) is None


# -- what random traders share with the agent
# ---------------------------------------------------------------------------


@pytest.mark.slow
def test_random_traders_have_the_agents_turnover_names_and_cash(
    busy: tuple[Ledger, TraderEnvelope],
) -> None:
    ledger, envelope = busy
    assert envelope.agent.turnover == pytest.approx(
        panel_metric("turnover").compute(ledger, MARKET, "strict").value
    )
    assert envelope.agent.cash_ratio == pytest.approx(
        panel_metric("cash_ratio").compute(ledger, MARKET, "strict").value
    )
    assert envelope.random.turnover == pytest.approx(envelope.agent.turnover, rel=0.03)
    assert envelope.random.names == pytest.approx(envelope.agent.names, abs=0.1)
    assert envelope.random.cash_ratio == pytest.approx(envelope.agent.cash_ratio, abs=0.02)


def test_adding_and_reducing_is_matched_too() -> None:
    def strategy(account: Account, row: int) -> Action:
        if row == ROWS[0]:
            return tuple(Order(asset, "BUY", 0.6, "", 0.05, None) for asset in range(8))

        held = sorted(account.positions)
        return tuple(
            Order(asset, "BUY" if row % 2 else "SELL", 0.6, "", None, 300) for asset in held[:3]
        )

    envelope = random_envelope(play(MARKET, strategy, ROWS), MARKET, CONFIG, FEW)

    assert envelope.agent.names == pytest.approx(8)
    assert envelope.random.names == pytest.approx(8, abs=0.1)
    assert envelope.random.turnover == pytest.approx(envelope.agent.turnover, rel=0.1)


def test_random_traders_are_idle_when_the_agent_is() -> None:
    # Until its first fill nobody holds anything; after it nobody trades, so paths part only by
    # their names.
    ledger = play(MARKET, lambda account, row: buy_once(3)(account, row - 20), ROWS)
    envelope = random_envelope(ledger, MARKET, CONFIG, FEW)

    assert (envelope.bands[:, :21] == 1_000_000).all()
    assert (envelope.bands[0, 21:] < envelope.bands[-1, 21:]).all()
    assert envelope.random.names == pytest.approx(envelope.agent.names)


def first_day(asset: int) -> Strategy:
    return lambda account, row: (Order(asset, "BUY", 0.6, "", 0.09, None),) if row == 0 else ()


def test_names_outside_the_index_and_suspended_ones_are_not_drawn() -> None:
    away = "609000.SH"
    stopped = "609001.SH"
    closes = {f"60900{number}.SH": [10.0] * 6 for number in range(4)}
    closes[away] = closes[stopped] = [10.0, 20.0, 40.0, 80.0, 160.0, 320.0]
    market = tiny_snapshot(
        closes, SnapshotDetails(members={away: [False] * 6}, volumes={stopped: [0.0] * 6})
    )
    envelope = random_envelope(play(market, first_day(2), range(5)), market, CONFIG, FEW)

    assert envelope.returns.max() <= 0


def test_a_name_that_opens_limit_up_or_has_left_the_index_is_not_added_to() -> None:
    """Of four names held, one opens limit-up and one has left the index."""
    days = 8
    closes = {f"60000{number}.SH": [10.0] * days for number in range(4)}
    opens = {"600000.SH": [10.0] * 4 + [11.0] + [10.0] * 3}  # limit-up at the open of day 4
    members = {"600001.SH": [True] * 3 + [False] * 5}
    market = tiny_snapshot(closes, SnapshotDetails(opens=opens, members=members))
    tape = MarketTape.from_snapshot(market, CONFIG)
    held = {asset: Position(1_000) for asset in range(4)}
    moves = StepMoves(entries=(), adds=(0.02, 0.02, 0.02, 0.02), trims=(), names_after=4)
    traders = _RandomTrader(tape.day(4), CONFIG, moves, np.random.default_rng(0), 50)
    bought = set()

    for path in range(50):
        bought |= {order.asset for order in traders.orders(path, held, 100_000_000)}

    assert bought == {2, 3}


def test_a_random_buy_is_cut_to_the_maximum_weight_in_whole_shares() -> None:
    """A tenth of a million is 10,000 shares at 10, of which 1,000 are held."""
    market = tiny_snapshot({"600000.SH": [10.0] * 5}, SnapshotDetails())
    day = MarketTape.from_snapshot(market, CONFIG).day(4)
    moves = StepMoves(entries=(), adds=(0.2,), trims=(), names_after=1)
    traders = _RandomTrader(day, CONFIG, moves, np.random.default_rng(0), 1)

    (order,) = traders.orders(0, {0: Position(1_000)}, 100_000_000)

    assert order.shares == 9_000
    assert isinstance(order.shares, int)


def test_dividends_and_splits_make_random_traders_no_money() -> None:
    factors = {"609000.SH": [1.0, 1.0, 2.0, 2.0], "609001.SH": [1.0, 1.0, 1.0, 1.0]}
    closes = {"609000.SH": [10.0, 10.0, 5.0, 5.0], "609001.SH": [10.0] * 4}
    market = tiny_snapshot(closes, SnapshotDetails(factors=factors))
    envelope = random_envelope(play(market, first_day(0), range(3)), market, CONFIG, FEW)

    assert envelope.returns == pytest.approx(envelope.agent_return, abs=1e-12)
    assert envelope.rank == 0.5


# -- rank
# ---------------------------------------------------------------------------------------------------------------


def test_ties_count_half_in_a_rank_and_the_agent_itself_in_a_p_value() -> None:
    """Of four, one is worse, one equal: 1.5 of 4; three are as good: 4 of 5 with the agent."""
    assert rank_among(2.0, np.array([1.0, 2.0, 3.0, 4.0])) == (0.375, 0.8)


@pytest.mark.exhaustive
def test_foresight_beats_every_random_trader() -> None:
    envelope = random_envelope(
        play(MARKET, foresight(MARKET, 8), range(5, 65)), MARKET, CONFIG, FEW
    )
    assert (envelope.rank, envelope.p_value) == (1.0, pytest.approx(1 / 41))


@pytest.mark.slow
def test_an_agent_without_skill_has_an_even_rank() -> None:
    agents = [
        play(MARKET, rotation(MARKET, seed, names=10, swaps=2, every=5), range(5, 65))
        for seed in range(25)
    ]
    settings = [EnvelopeSettings(20, seed) for seed in range(25)]
    ranks = [
        random_envelope(agent, MARKET, CONFIG, each).rank
        for agent, each in zip(agents, settings, strict=True)
    ]

    # The mean of 25 even draws has a standard deviation of 0.058.
    assert np.mean([rank for rank in ranks if rank is not None]) == pytest.approx(0.5, abs=0.17)
    assert min(ranks) < 0.25 < 0.75 < max(ranks)


@pytest.mark.exhaustive
def test_bands_are_ordered_from_the_initial_cash_and_equal_for_equal_seeds(
    busy: tuple[Ledger, TraderEnvelope],
) -> None:
    ledger, envelope = busy
    assert envelope.bands.shape == (5, len(ledger.steps) + 1)
    assert (np.diff(envelope.bands, axis=0) >= 0).all()
    assert (envelope.bands[:, 0] == 1_000_000).all()
    assert envelope.bands[2, -1] == pytest.approx(1_000_000 * (1 + np.median(envelope.returns)))
    assert random_envelope(ledger, MARKET, CONFIG, FEW).to_json() == envelope.to_json()

    other = random_envelope(ledger, MARKET, CONFIG, EnvelopeSettings(paths=40, seed=1))
    assert not np.array_equal(other.returns, envelope.returns)
    assert json.loads(json.dumps(envelope.to_json(), allow_nan=False))["paths"] == 40


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (ROWS, "no order was filled"),
        (range(5, 5), "no steps"),
        (range(5, 6), "no order was filled"),
    ],
    ids=["an episode", "no step", "one step"],
)
def test_an_agent_that_did_nothing_has_no_rank(rows: range, reason: str) -> None:
    envelope = random_envelope(play(MARKET, lambda account, row: (), rows), MARKET, CONFIG, FEW)
    assert (envelope.rank, envelope.p_value, envelope.reason) == (None, None, reason)
    assert (envelope.bands == 1_000_000).all()
    assert json.dumps(envelope.to_json(), allow_nan=False)
    assert envelope.agent.names == envelope.agent.turnover == 0


def test_one_traded_day_is_enough_for_a_rank() -> None:
    one_day = play(MARKET, buy_once(1, 2), ROWS[:1])
    envelope = random_envelope(one_day, MARKET, CONFIG, FEW)

    assert envelope.rank is not None
    assert envelope.random.names == pytest.approx(2)

    (only,) = one_day.steps
    assert envelope.agent == TradingActivity(
        252 * only.traded_minor / only.open_nav_minor,
        2,
        only.cash_minor / only.nav_minor,
    )
