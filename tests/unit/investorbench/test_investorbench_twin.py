"""The synthetic market of InvestorBench's form: the same bytes from the same seed, and news that carry what was planted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ktdeval.contracts.scoring import market_problem
from ktdeval.market import MarketSnapshot, with_id
from ktdeval.registry import load_plugins
from ktdeval.testing import random_snapshot
from ktdeval_investorbench.params import TwinParams
from ktdeval_investorbench.twin import make_twin
from market_scene import market_scene

WORDS = {"good": ("raised", "rose", "cleared"), "bad": ("cut its", "customer left", "opened a case")}


def effects(market: MarketSnapshot) -> dict[str, np.ndarray]:
    """Log returns of the day after news of each kind, all assets together."""
    found: dict[str, list[float]] = {"good": [], "bad": [], "talk": []}
    for item in market.documents:
        if item.kind == "news":
            closes = market.close[:, market.asset_index[item.assets[0]]]
            rows = np.flatnonzero(np.isfinite(closes))
            place = int(np.searchsorted(rows, market.day_index(item.published_at.date().isoformat())))
            if place + 1 < len(rows):
                told = [kind for kind, words in WORDS.items() if any(word in item.text for word in words)]
                kind = told[0] if told else "talk"
                found[kind].append(float(np.log(closes[rows[place + 1]] / closes[rows[place]])))
    return {kind: np.array(values) for kind, values in found.items()}


@pytest.fixture(scope="module")
def twin() -> MarketSnapshot:
    return make_twin(TwinParams())


def test_the_same_seed_gives_the_same_market_and_another_seed_another_one(twin: MarketSnapshot) -> None:
    assert with_id(twin).id == with_id(make_twin(TwinParams())).id != with_id(make_twin(TwinParams(seed=8))).id
    assert twin.meta.synthetic
    assert {item.kind for item in twin.documents} == {"news", "annual report", "quarterly report"}


def test_news_that_tell_are_followed_by_what_was_planted_and_talk_by_nothing(twin: MarketSnapshot) -> None:
    for market, planted in ((twin, 0.006), (make_twin(TwinParams(effect=0.0)), 0.0)):
        found = effects(market)
        for kind, side in (("good", 1), ("bad", -1), ("talk", 0)):
            returns = found[kind]
            error = float(np.std(returns, ddof=1)) / len(returns) ** 0.5
            assert len(returns) > 300
            assert abs(float(returns.mean()) - side * planted) < 4 * error
            assert error < 0.0012


def test_a_masked_prompt_names_neither_the_benchmark_nor_its_asset_nor_a_day(twin: MarketSnapshot) -> None:
    task = load_plugins().make_task("investorbench_msft")
    assert task.mask == "blinded"
    scene, row = market_scene(task, twin, task.windows["stock"]), twin.day_index("2020-10-01")
    for day in range(row, row + 60, 7):
        shown = scene.observe(day - row, twin.as_of(day), type("Account", (), {"positions": {}})(), None)
        text = (shown.system + shown.user).lower()
        for word in ("investor", "bench", "msft", "microsoft", "btc", "crypto", "2020"):
            assert word not in text, word
        assert json.loads(shown.user.split("```json\n")[1].split("\n```")[0])["candidates"]["rows"][0][1] == "stock"


def test_a_market_without_the_asset_is_refused_before_a_run(twin: MarketSnapshot) -> None:
    task = load_plugins().make_task("investorbench_msft")
    assert market_problem(task, twin) is None
    refused = market_problem(task, random_snapshot())
    assert refused is not None
    assert refused.startswith("investorbench_msft is about MSFT, which random-0 has not: import it, or choose other --data")
