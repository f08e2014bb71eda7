"""Money of a batch: all of it reserved before it is submitted, at the price of a batch, and settled
at what each request used.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.calls.batches.batch_client import BatchClient
from ktdeval.calls.budget import Budget, max_request_tokens
from ktdeval.calls.client import ClientSettings
from ktdeval.calls.costs.prices import Price, PriceTier
from ktdeval.calls.records.call_log import CallLog
from ktdeval.calls.records.record import Spent
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.errors import BudgetError
from ktdeval.harness import ModelTraits
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, Usage
from support.providers.call_clients import ScriptedModel

ORDINARY = Price(input=2.0, output=10.0, cache_read=0.5, cache_write=2.5, as_of="2026-10-01")
HALF = ORDINARY.in_batch()
PARAMS = CallParams(max_output_tokens=1_000)
ASKED = [ModelRequest((Message("user", "x" * 84),), params=PARAMS) for _ in range(3)]

# by hand: 84 bytes and a frame of 16 tokens in, 1,000 tokens out; the dearest input is 2.5 / 2
MOST = 100 * 1.25e-6 + 1_000 * 5e-6


def budget(max_cost: float | None = None, max_tokens: int | None = None) -> Budget:
    return Budget((max_cost, max_tokens), ORDINARY, Spent(), StopSignal())


def test_batch_cache_reads_may_keep_their_price_and_unknown_stay_unknown() -> None:
    kept = ORDINARY.in_batch(halves_cache_reads=False)
    assert (kept.input, kept.cache_read) == (1.0, 0.5)
    plain = Price(2.0, 10.0).in_batch()
    assert (plain.cache_read, plain.cache_write) == (None, None)


def test_long_prompts_cost_half_of_their_tier_in_a_batch() -> None:
    tier = PriceTier(above=1_000, input=4.0, output=20.0, cache_read=1.0, cache_write=None)
    tiered = Price(2.0, 10.0, tiers=(tier,))
    half = tiered.in_batch()

    assert half.tiers == (
        PriceTier(above=1_000, input=2.0, output=10.0, cache_read=0.5, cache_write=None),
    )
    assert half.call_cost(Usage(2_000, 100)) == pytest.approx((2_000 * 2 + 100 * 10) / 1e6)

    kept = tiered.in_batch(halves_cache_reads=False)
    assert kept.tiers == (
        PriceTier(above=1_000, input=2.0, output=10.0, cache_read=1.0, cache_write=None),
    )


def test_the_most_of_all_requests_is_reserved_together_or_not_at_all() -> None:
    assert max_request_tokens(ASKED[0]) == (100, 1_000)

    with pytest.raises(BudgetError, match=r"the batch may cost up to 0\.0154") as caught:
        budget(max_cost=3 * MOST * 0.999).reserve_batch(ASKED, HALF)

    assert caught.value.needed["max_cost"] == pytest.approx(3 * MOST)

    limits = budget(max_cost=3 * MOST * 1.001)
    reserved = limits.reserve_batch(ASKED, HALF)

    assert [each.most.usd for each in reserved] == pytest.approx([MOST] * 3)

    with pytest.raises(BudgetError):  # nothing is left, and nobody waits
        limits.reserve_batch(ASKED[:1], HALF)


def test_each_request_settles_at_half_and_gives_back_what_it_did_not_use() -> None:
    limits = budget(max_cost=3 * MOST * 1.001)
    first, second, third = limits.reserve_batch(ASKED, HALF)

    assert limits.settle(first, Usage(100, 200)) == pytest.approx(100e-6 + 200 * 5e-6)
    assert limits.release(second) == 0
    assert limits.hold(third) == pytest.approx(MOST)

    # spent 0.0011 and held 0.005125 of 0.015390: one more fits, and a second one does not
    limits.reserve_batch(ASKED[:1], HALF)

    with pytest.raises(BudgetError):
        limits.reserve_batch(ASKED[:1], HALF)


def test_an_ordinary_call_beside_it_is_settled_at_the_ordinary_price() -> None:
    limits = budget(max_cost=1)
    (batched,) = limits.reserve_batch(ASKED[:1], HALF)
    call = limits.reserve(ASKED[0])
    usage = Usage(100, 200)

    assert limits.settle(call, usage) == pytest.approx(100 * 2e-6 + 200 * 10e-6)
    assert limits.settle(batched, usage) == pytest.approx(100e-6 + 200 * 5e-6)


def test_a_batch_that_was_sent_is_reserved_whatever_is_left() -> None:
    limits = budget(max_cost=MOST, max_tokens=1)
    reserved = limits.reserve_batch(ASKED, HALF, is_sent=True)
    assert sum(each.most.usd for each in reserved) == pytest.approx(3 * MOST)


@pytest.mark.exhaustive
def test_waits_pass_by_the_clock_that_a_signal_is_given() -> None:
    slept: list[float] = []
    stop = StopSignal(lambda: sum(slept), slept.append)
    stop.wait(0.25)

    assert sum(slept) == pytest.approx(0.25)

    stop.limit_hours(1)

    with pytest.raises(BudgetError, match="--max-hours 1"):
        stop.wait(4_000)

    assert sum(slept) == pytest.approx(3_600, abs=1)


class Batched(ScriptedModel):
    """A model with a batch interface, which nothing is asked of."""

    traits = ModelTraits(batches=object())


def test_episode_requests_share_one_opening_and_each_check_has_its_own(
    tmp_path: Path,
) -> None:
    with CallLog(tmp_path) as log:
        client = BatchClient(Batched(), ClientSettings(), None, log, StopSignal())

        openings = {
            label: [client.for_episode(label).asker.opening for _ in range(2)]
            for label in ("e", "canary", "check")
        }

    assert openings == {"e": [1, 1], "canary": [1, 2], "check": [1, 2]}
