"""A plan's cost with a provider's prompt cache: against the bill of a server with such a cache, which
finds its cached tokens by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig, estimate_run, evaluate
from support.providers.caching_server import CACHED, INPUT, OUTPUT, CachingServer, caching_server
from support.runs.run_support import WINDOW

AGENTS = ("react", "investor", "trade", "deepfund", "hedge_fund", "finmem")
STEPS = 4


def config(server: CachingServer, market: Path, **changes: Any) -> RunConfig:
    given: dict[str, Any] = {
        "model": "openai_compatible/stub",
        "model_args": {"base_url": server.address},
        "tasks": ("blinded_open_research",),
        "windows": (WINDOW,),
        "data": str(market),
        "price": {"input": INPUT, "output": OUTPUT, "cache_read": CACHED},
        "tool_protocol": "native",
        "limit": STEPS,
        "canary": 0,
        "cache": "run",
    }
    return RunConfig(**given | changes)


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_a_plan_with_a_cache_is_what_a_server_with_one_bills(
    agent: str, plugins: Plugins, market: Path, tmp_path: Path
) -> None:
    with caching_server() as server:
        run = config(server, market, agent=agent, out=str(tmp_path / "run"))
        typical = estimate_run(run, plugins).left["typical"]
        evaluate(run, plugins)
        paid = estimate_run(run, plugins).paid

    bill = server.bill
    assert paid.cost_usd == pytest.approx(bill.cached_usd)
    assert typical.cost_usd is not None
    assert typical.cached_cost_usd is not None
    planned = typical.cached_cost_usd / typical.cost_usd
    assert planned == pytest.approx(bill.cached_usd / bill.full_usd, abs=0.05)
    # per call: how many a model makes is its own decision
    planned_per_call = typical.cached_cost_usd / typical.calls
    assert planned_per_call == pytest.approx(bill.cached_usd / bill.calls, rel=0.15)
