"""`builtin/memory`: what it recalls of a market that it has seen, with codes or days in sight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.market.storage import save_snapshot
from ktdeval.registry.plugin_registry import load_plugins
from ktdeval.trading.ledger import StepRecord
from ktdeval_models.memorizing_model import MemoryModel
from ktdeval_models.params import MemoryParams
from ktdfin_market import small_market
from ktdfin_play import Play

PLUGINS = load_plugins()
POSITIONS = 5


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    """The name that rises most joins the index after the first decision, the next one leaves it."""
    market = small_market()
    joins = len(market.codes) - 4
    leaves = 0
    bars = {name: getattr(market, name).copy() for name in ("open", "high", "low", "close")}

    for values in bars.values():
        values[0, joins] = 0.01
        values[0, leaves] = 0.1

    return replace(market, **bars, id="")


def first_step(market: MarketSnapshot, folder: Path, task: str) -> tuple[StepRecord, list[str]]:
    """The first decision of the model in a task, and the names that its prompt shows."""
    save_snapshot(market, folder)
    model = MemoryModel("", MemoryParams(market=str(folder), positions=POSITIONS))
    play = Play(PLUGINS.make_task(task), model, market)
    state = play.session(0)[0].state
    (record,) = play.run(1)

    return record, [*state.universe, *state.candidates]


@pytest.mark.parametrize("mode", ["memory_only", "fixed_candidate"])
def test_on_a_hidden_day_it_ranks_the_names_that_it_is_shown(
    mode: str, market: MarketSnapshot, tmp_path: Path
) -> None:
    """Who is in the index on the true day can't be remembered: an order for another name would turn
    the whole submission down.
    """
    record, shown = first_step(market, tmp_path / "market", f"date_blind_{mode}")
    adjusted = pd.DataFrame(market.adjusted_close).ffill().to_numpy()
    growth = dict(zip(market.codes, adjusted[-1] / adjusted[0], strict=True))
    known = [code for code in shown if np.isfinite(growth[code])]
    best = sorted(known, key=growth.__getitem__, reverse=True)[:POSITIONS]

    assert record.provenance == "model"
    assert [order.code for order in record.orders] == best

    joins = market.codes[-4]
    assert joins not in shown
    assert growth[joins] == max(growth.values())

    if mode == "memory_only":
        assert best[0] == market.codes[0], "a member of the day, and no longer one at the end"


def test_on_a_known_day_it_ranks_the_members_that_it_remembers(
    market: MarketSnapshot, tmp_path: Path
) -> None:
    record, _ = first_step(market, tmp_path / "market", "bright_fixed_candidate")
    row = market.day_index(record.decided_on)
    adjusted = pd.DataFrame(market.adjusted_close).ffill().to_numpy()
    growth = np.where(market.member[row], adjusted[row + 20] / adjusted[row], np.nan)
    best = [market.codes[asset] for asset in np.argsort(-growth)[:POSITIONS]]

    assert [order.code for order in record.orders] == best
