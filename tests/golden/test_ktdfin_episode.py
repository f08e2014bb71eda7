"""Whole episodes of KTD-Fin tasks with the built-in models: blind to labels, blind to the future, and never leaking."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ktdeval.harness.messages import ModelRequest, Reply
from ktdeval.masking.identities import LeakGuard
from ktdeval.registry import load_plugins
from ktdfin_market import poisoned, small_market
from ktdfin_play import Play, trades

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
TASKS = [f"{mask}_{mode}" for mask in MASKS for mode in ("memory_only", "fixed_candidate", "open_research")]
BLIND_MODELS = ("momentum", "reversal", "low_volatility", "equal_weight")
MARKET = small_market()
PLUGINS = load_plugins()


class Overheard:
    """Passes requests on to a model and keeps them."""

    def __init__(self, name: str) -> None:
        self.model = PLUGINS.make_model(f"builtin/{name}")
        self.requests: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        return self.model.reply(request)


def play(task: str, model: str, steps: int = 8, seed: int = 0, market: Any = MARKET) -> Play:
    episode = Play(PLUGINS.make_task(task), Overheard(model), market, seed)
    episode.run(steps)
    return episode


@pytest.mark.parametrize("mode", ["open_research", "fixed_candidate"])
@pytest.mark.parametrize("model", BLIND_MODELS)
def test_label_blind_models_leave_the_same_trades_under_all_masks_and_mask_seeds(model: str, mode: str) -> None:
    reference = trades(play(f"bright_{mode}", model).records)
    assert sum(order[4] == "filled" for step in reference for order in step) >= 15
    for mask, seed in (("stock_blind", 0), ("date_blind", 0), ("blinded", 0), ("blinded", 1), ("bright", 2)):
        assert trades(play(f"{mask}_{mode}", model, seed=seed).records) == reference, (mask, seed)


@pytest.mark.parametrize("model", ["hold", "random", *BLIND_MODELS])
def test_well_behaved_models_use_tools_fail_at_nothing_and_hold_without_data(model: str) -> None:
    records = play("blinded_open_research", model).records
    assert all(record.failures == {} and record.provenance == "model" for record in records)
    assert all(record.tool_calls_valid == record.tool_calls >= 2 for record in records)
    if model != "random":
        idle = play("blinded_memory_only", model, 3).records
        assert all(record.orders == () and record.provenance == "model" for record in idle)


def test_momentum_holds_the_highest_momentum() -> None:
    episode = play("blinded_open_research", "momentum", 1)
    step = episode.scene.tool_context(0, MARKET.as_of(episode.scene.lens.base_row), episode.account)
    values = np.where(step.candidates, step.dims["MOM_12_1"], -np.inf)
    best = {MARKET.codes[asset] for asset in np.argsort(-values)[:20]}
    bought = {order.code for order in episode.records[0].orders if order.status == "filled"}
    assert len(bought) >= 15
    assert bought <= {MARKET.codes[asset] for asset in np.argsort(-values)[:30]}
    assert len(bought & best) >= 12


def test_the_nav_shown_is_the_ledgers_and_decisions_do_not_depend_on_what_happens_after_them() -> None:
    steps = 5
    episode = play("blinded_open_research", "momentum", steps)
    # Garbage after the last fill day; the fill day itself settles on the truth.
    row = episode.scene.lens.base_row + steps
    assert play("blinded_open_research", "momentum", steps, market=poisoned(MARKET, row)).records == episode.records
    assert episode.scene.tool_context(steps, MARKET.as_of(row), episode.account).nav_fen == episode.records[-1].nav_minor


@pytest.mark.parametrize("task", TASKS)
def test_chaos_ends_without_a_traceback_and_nothing_sent_to_it_leaks(task: str) -> None:
    episode = play(task, "chaos", 12)
    guard = LeakGuard(episode.scene.lens, MARKET)
    texts = {
        text
        for request in episode.model.requests
        for message in request.messages
        for text in (message.content, *(part for call in message.tool_calls for part in (call.name, call.arguments)))
    }
    for text in texts:
        guard.check(text)
    assert len(episode.records) == 12
    assert Counter(record.provenance for record in episode.records).keys() <= {"model", "model_after_retry", "fallback", "error"}


def test_chaos_trades_and_fails_in_many_ways() -> None:
    records = play("blinded_open_research", "chaos", 18).records
    failures = Counter()
    for record in records:
        failures.update(record.failures)
    assert len(failures) >= 8
    assert any(order.status == "filled" for record in records for order in record.orders)
    assert sum(record.unmask_attempts for record in records) > 0
