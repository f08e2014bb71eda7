"""Where prices are hidden, nothing that a model is sent depends on one, whatever account it chooses;
and who holds the whole history of the market earns no more than one who buys the first names listed.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from informed_traders import POLICIES, InformedTrader, KnownHistory, attack, baseline

from ktdeval.harness import Model, ModelRequest, ModelTraits, Reply
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.testing import small_market
from ktdeval.trading.market_tape import MarketTape
from support.accept.accept_runs import import_real, synthetic
from support.masking.two_markets import KINDS, Shown
from support.tasks.ktdfin_market import spec_of

PLUGINS = load_plugins()
MARKET = small_market()
MASKS = ("bright", "stock_blind", "date_blind", "blinded")
AT_BOOK = [f"{mask}_memory_only" for mask in MASKS]
SHORT = [f"W{number}" for number in range(1, 11)]
STEPS = 6


class Chooser:
    """Chooses its account at random, every choice a function of a seed and of all that it was shown:
    names, weights with nine digits, orders that break rules, orders in shares.
    """

    traits = ModelTraits(is_free=True)

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def reply(self, request: ModelRequest) -> Reply:
        shown = [message.to_json() for message in request.messages]
        digest = hashlib.sha256(json.dumps([self._seed, shown]).encode()).hexdigest()
        chance = random.Random(digest)
        conversation = Conversation(request)
        state = conversation.observed
        orders = list(self._orders(chance, [*state.universe], [*state.positions]))
        return conversation.submit(orders, "what comes back tells a price")

    @staticmethod
    def _orders(
        chance: random.Random, listed: list[str], held: list[str]
    ) -> Iterator[dict[str, Any]]:
        for _ in range(chance.choice((0, 1, 3, 10))):
            is_sale = chance.random() < 0.4
            label = chance.choice(held if is_sale and held else listed)
            order = {
                "stock_id": label if chance.random() < 0.97 else "asset_0000",
                "side": "SELL" if is_sale else "BUY",
                "confidence": 0.5,
                "reason": "to see what comes back",
            }
            size = {"target_weight": chance.choice((0.0, 0.1, round(chance.uniform(0, 0.105), 9)))}
            if chance.random() < 0.02:
                size = {"shares": 100}
            yield {**order, **size}


class Overheard:
    """A model, and every request to it."""

    traits = ModelTraits(is_free=True)

    def __init__(self, model: Model) -> None:
        self._model = model
        self.requests: list[Any] = []

    def reply(self, request: ModelRequest) -> Reply:
        messages = [message.to_json() for message in request.messages]
        tools = [(tool.name, tool.description, str(tool.parameters)) for tool in request.tools]
        self.requests.append([messages, tools, request.predictions])
        return self._model.reply(request)


def played(
    name: str, model: Model, market: MarketSnapshot, agent: str = "react"
) -> tuple[list[Any], list[Any]]:
    """What a model was sent in an episode, and the records of its steps."""
    overheard = Overheard(model)
    return overheard.requests, play(name, overheard, market, agent)


def play(name: str, model: Model, market: MarketSnapshot, agent: str = "react") -> list[Any]:
    task = PLUGINS.make_task(name)
    spec = spec_of(task.name, task.mask, task.mode)
    tape = MarketTape.from_snapshot(market, task.trading)
    made = PLUGINS.make_agent(agent, {})
    episode = TradingEpisodeRun(spec, EpisodeParts(task, (), market, tape, model, made))
    return [episode.run_step(step).step for step in range(STEPS)]


def with_other_prices() -> MarketSnapshot:
    """All prices, volumes, suspensions, splits and index levels are others."""
    shown = Shown(spec_of("", "bright", ""), 0, ())
    other, _ = KINDS["prices"](MARKET, shown)
    other, _ = KINDS["index"](other, shown)
    return other


OTHER = with_other_prices()


@pytest.mark.slow
@settings(max_examples=8)
@given(st.integers(0, 2**32), st.sampled_from(AT_BOOK))
def test_no_account_that_a_model_chooses_tells_two_markets_apart(seed: int, name: str) -> None:
    one, records = played(name, Chooser(seed), MARKET)
    two, others = played(name, Chooser(seed), OTHER)

    assert one == two
    assert len(one) >= STEPS
    decided = [(step.provenance, len(step.orders)) for step in records]
    assert decided == [(step.provenance, len(step.orders)) for step in others]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["blinded_memory_only", "date_blind_memory_only"])
def test_who_holds_the_history_is_sent_the_same_on_two_markets(name: str, policy: Any) -> None:
    history = KnownHistory(MARKET)
    one, records = played(name, InformedTrader(history, policy), MARKET)
    two, others = played(name, InformedTrader(history, policy), OTHER)

    assert one == two
    is_idle = policy == "cash"
    assert ([step.nav_minor for step in records] == [step.nav_minor for step in others]) == is_idle


def test_an_account_in_money_tells_them_apart() -> None:
    """The control: the paper's own view."""
    one, _ = played("blinded_memory_only_paper", Chooser(1), MARKET)
    two, _ = played("blinded_memory_only_paper", Chooser(1), OTHER)
    assert one != two


class Predicting(Chooser):
    """A model of this process that is given the factors of the market, if it may have them."""

    history_days = 2

    def __init__(self) -> None:
        super().__init__(1)
        self.predictions: list[object] = []

    def predict(self, history: Any) -> Any:
        return history[-1, :, 0]

    def reply(self, request: ModelRequest) -> Reply:
        self.predictions.append(request.predictions)
        return super().reply(request)


@pytest.mark.parametrize("mask", MASKS)
def test_a_model_that_predicts_is_given_no_factors_where_prices_are_hidden(mask: str) -> None:
    model = Predicting()
    play(f"{mask}_memory_only", model, MARKET)
    assert set(model.predictions) == {None}

    control = Predicting()
    play("bright_memory_only_paper", control, MARKET)
    assert all(control.predictions)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("agent", ["investor", "trade", "deepfund", "hedge_fund", "finmem", "vote"])
def test_an_agent_that_trades_is_sent_the_same_on_two_markets(agent: str) -> None:
    model = PLUGINS.make_model("builtin/first_listed", {})
    one, _ = played("blinded_memory_only", model, MARKET, agent)
    two, _ = played("blinded_memory_only", model, OTHER, agent)

    assert one == two
    assert len(one) >= STEPS


# ---- what they earn


def check_chance(history: KnownHistory, name: str) -> None:
    """No trader finds a day, and none earns more on average than the baseline's 95 % interval."""
    plain = baseline(history.market, name, "builtin/first_listed", SHORT, 1)
    _, high = plain.interval
    for policy in POLICIES:
        found = attack(history, name, policy, SHORT, 1)
        assert found.found_at == [], policy
        assert found.mean <= high, (policy, plain, found)


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["blinded_memory_only", "date_blind_memory_only"])
def test_who_holds_the_history_of_the_csi300_earns_what_chance_does(
    name: str, csi300: KnownHistory
) -> None:
    check_chance(csi300, name)


@pytest.mark.slow
@pytest.mark.shared_data
def test_an_account_in_money_names_the_day_of_the_csi300(csi300: KnownHistory) -> None:
    """The control: the attackers can do what they claim."""
    found = attack(csi300, "blinded_memory_only_paper", "one", ["W1", "W2", "W7"], 1)
    assert found.right == 3
    assert max(found.found_at) <= 2
    assert min(found.returns) > 0.2


@pytest.mark.slow
def test_knowing_the_embedded_market_history_earns_no_more_than_chance() -> None:
    check_chance(KnownHistory(synthetic()), "blinded_memory_only")


@pytest.fixture(scope="module")
def csi300(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> KnownHistory:
    folder = import_real(shared_data, tmp_path_factory.mktemp("real") / "csi300")
    return KnownHistory(load_snapshot(folder))
