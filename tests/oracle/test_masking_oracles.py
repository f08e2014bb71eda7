"""What answers a question tells no digit that the mask does not show, whatever is asked, day after
day.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import pytest

from ktdeval.masking.aliases_and_noise import cut_significant, round_significant
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig
from ktdeval.masking.payload_types import Price, Shares
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.testing import small_market
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Order
from ktdeval_builtin.react import ReactAgent
from support.masking.oracle_play import Prober, moved_below, scaled_below
from support.tasks.ktdfin_market import spec_of
from support.tasks.ktdfin_play import PLUGINS, Play

MARKET = small_market()
STEPS = 12
TASK = "blinded_rebased_open_research"


def played(market: Any) -> tuple[list[str], Play]:
    """What a model that asks all that can be asked was shown, and its episode."""
    prober = Prober()
    play = Play(PLUGINS.make_task(TASK), prober, market)
    play.run(STEPS)

    return prober.requests, play


def orders_of(play: Play) -> list[Order]:
    return [*chain.from_iterable(record.orders for record in play.records)]


@pytest.mark.slow
@pytest.mark.parametrize("differ", [scaled_below, moved_below])
def test_two_markets_that_a_mask_shows_alike_answer_every_question_alike(differ: Any) -> None:
    """No question, order, fill, rejection, cost, cash or NAV tells which of two markets it is, and no
    return, factor or place in a ranking: prices of each asset, or of each bar by itself, differ below
    three digits. Fills are at the true prices of each.
    """
    base = Play(PLUGINS.make_task(TASK), Prober(), MARKET).scene.lens.base_row
    other = differ(MARKET, base, 3)

    moves = np.abs(other.close[base + 1 :] / MARKET.close[base + 1 :] - 1.0)
    assert np.nanmedian(moves) > 1e-4

    (one, first), (two, second) = (played(market) for market in (MARKET, other))
    assert len(one) > 4 * STEPS
    assert one == two

    orders = orders_of(first)
    others = orders_of(second)
    ends = Counter(order.rule for order in orders)

    assert ends[None] > 20
    assert ends.keys() > {"lot", "weight_limit"}
    assert [order.filled_shares for order in orders] == [order.filled_shares for order in others]
    assert [record.nav_minor for record in first.records] != [
        record.nav_minor for record in second.records
    ]


@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("asset", [2, 4, 11])
def test_a_level_is_known_to_the_digits_of_the_mask_and_no_more(digits: int, asset: int) -> None:
    """Prices, shares and money of all sizes come from one level: multiples of it, each rounded,
    would tell it all.
    """
    base = len(MARKET.days) - 30
    mask = MaskConfig(rebase_prices=True, round_digits=digits)
    true = Lens(mask, 1, MARKET, base)
    other = Lens(mask, 1, scaled_below(MARKET, base, digits), base)
    level = float(MARKET.close[base, asset])

    assert true.figures.known_price(asset, level, base) == pytest.approx(
        round_significant(level, digits)
    )

    lots = [true.render(Shares(asset, 100 * number)) for number in range(1, 400)]
    assert lots == [other.render(Shares(asset, 100 * number)) for number in range(1, 400)]

    shown = true.render(Price(asset, level * 1.2345, base + 5))
    assert true.figures.known_price(asset, level * 1.2345, base + 5) == pytest.approx(
        round_significant(level, digits) * shown / 100
    )


def test_a_weight_counts_with_the_digits_of_the_mask_cut_towards_zero() -> None:
    weights = {
        0.05: 0.05,
        0.1: 0.1,
        0.123456: 0.123,
        0.0999999: 0.0999,
        1.0: 1.0,
        0.0: 0.0,
        -0.12999: -0.129,
        3.4567e-5: 3.45e-5,
    }

    assert {weight: cut_significant(weight, 3) for weight in weights} == weights

    plain, coarse = (
        Lens(mask, 1, MARKET, 300) for mask in (MaskConfig(), MaskConfig(round_digits=3))
    )

    assert (plain.figures.known_weight(0.123456), coarse.figures.known_weight(0.123456)) == (
        0.123456,
        0.123,
    )


def test_order_is_recorded_with_the_shares_of_its_weight_and_settles_again() -> None:
    """So that a ledger can be settled again without the mask; two buys of one stock don't come to
    twice the largest weight.
    """
    play = Play(PLUGINS.make_task(TASK), Prober(), MARKET)
    asset = int(np.flatnonzero(MARKET.member[play.scene.lens.base_row])[3])
    buy = Order(asset, "BUY", 0.5, "", 0.1)
    once, again, shares = play.seen.size_orders(
        (buy, buy, Order(asset, "BUY", 0.5, "", None, 30_000))
    )
    price = play.scene.lens.figures.known_price(
        asset, float(MARKET.close[play.scene.lens.base_row, asset]), play.scene.lens.base_row
    )
    worth = int(100_000 / price)

    assert (once.target_weight, once.shares) == (0.1, worth // 100 * 100)
    assert (again.target_weight, again.shares) == (0.1, worth % 100), (
        "less than a lot, which the executor rejects as such"
    )
    assert shares.shares == 30_000
    assert shares.target_weight == pytest.approx((worth + 30_000) * price / 1e6, rel=1e-3)
    assert play.seen.size_orders((Order(asset, "SELL", 0.5, "", 0.0),)) == (
        Order(asset, "SELL", 0.5, "", 0.0),
    )


@pytest.mark.slow
def test_a_resumed_episode_knows_the_account_as_the_uninterrupted_one() -> None:
    """Cash as known follows from all fills so far; it is taken up from the records of the
    journal.
    """
    task = PLUGINS.make_task(TASK)
    tools = PLUGINS.tools(PLUGINS.make_task(TASK).tools)
    spec = spec_of(TASK, task.mask, task.mode)

    def episode() -> TradingEpisodeRun:
        tape = MarketTape.from_snapshot(MARKET, task.trading)
        return TradingEpisodeRun(
            spec, EpisodeParts(task, tools, MARKET, tape, Prober(), ReactAgent())
        )

    whole = episode()
    entries = [whole.run_step(step) for step in range(8)]
    early_orders = chain.from_iterable(entry.step.orders for entry in entries[:5])

    assert sum(order.filled_shares > 0 for order in early_orders) > 5

    resumed = episode()
    resumed.resume(entries[:5])
    again = [resumed.run_step(step) for step in range(5, 8)]

    assert [(entry.step, entry.transcript) for entry in again] == [
        (entry.step, entry.transcript) for entry in entries[5:]
    ]
