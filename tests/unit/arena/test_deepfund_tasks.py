"""DeepFund's tasks: their rules follow the paper and its public code, and their generated market has all that they trade."""

from __future__ import annotations

import numpy as np
import pytest

from ktdeval.market import sessions
from ktdeval.registry import load_plugins
from ktdeval_data.params import TwinParams
from ktdeval_data.twins import make_twin

PLUGINS = load_plugins()
TASKS = sorted(name for name, spec in PLUGINS.specs("tasks").items() if "deepfund" in spec.groups)


@pytest.mark.parametrize("name", TASKS)
def test_rules_of_a_task(name: str) -> None:
    told = PLUGINS.make_task(name).describe()
    count = len(told["assets"])
    assert told["trading"]["max_weight"] == round(2 / count * 20) / 20
    sizes = (told["trading"]["max_positions"], told["shown"], told["news"], told["harness"]["max_candidates"])
    assert sizes == (count, count, 10 * count, count)
    assert (told["trading"]["initial_cash"], told["history"], told["harness"]["schema_retries"]) == (100_000, 100, 3)
    rules = told["venue_rules"]
    assert (rules["short"], rules["fill"]) == (None, "same_close")
    assert {rules["fees"][side] for side in ("buy_bps", "sell_bps", "per_unit", "minimum")} == {0.0}


def test_the_window_has_the_returns_of_the_papers_24_days() -> None:
    live = PLUGINS.make_task("deepfund_berkshire").windows["live"]
    days = sessions("2025-03-17", "2025-04-17", "XNYS")
    assert len(days) == 24
    assert sessions(live.first, live.last, "XNYS").tolist() == days[1:].tolist()


def test_the_generated_market_has_every_asset_and_an_index() -> None:
    market = make_twin("deepfund", TwinParams(first="2025-01-02", last="2025-04-17"))
    wanted = {code for name in TASKS for code in PLUGINS.make_task(name).describe()["assets"]}
    assert set(market.codes) == wanted
    assert market.member.all()
    assert np.isfinite(market.benchmark).all()
    assert any(True for _ in market.documents)
