"""A model that knows the public history of the index and tries to find the true day, and so whether
to be invested, from what a prompt shows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from ktdeval.harness import ModelTraits
from ktdeval.harness.chat_messages import Model, ModelRequest, Reply
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.registry.plugin_registry import load_plugins
from ktdeval.runner.episode import EpisodeParts, TradingEpisode
from ktdeval.task_api.episode_spec import Window
from ktdeval.trading.market_tape import MarketTape
from ktdeval_builtin.react import ReactAgent
from ktdfin_market import spec_of

PLUGINS = load_plugins()
HORIZON = 5  #: trading days that it looks ahead
NAMES = 10
NAV_NOISE_PCT = 0.9  #: daily standard deviation of ten names against their index
Evidence = Literal["index", "universe", "account"]


class IndexTimer:
    """Buys the first names listed while the index rises over the next days of the days that it may
    be, and holds cash while it falls.

    One episode long. `evidence`: `index` is the day's return of the index, to the three decimals
    that other modes show; `universe` the days on which the list of names changes; `account` the
    daily return of its own NAV. What a prompt does not show is no evidence, and all days are equally
    likely then.
    """

    traits = ModelTraits(is_free=True)

    def __init__(self, market: MarketSnapshot, evidence: Evidence) -> None:
        levels = market.benchmark
        self._evidence = evidence
        self._returns_pct = np.full(len(levels), np.nan)
        self._returns_pct[1:] = 100.0 * (levels[1:] / levels[:-1] - 1.0)
        self._ahead = np.full(len(levels), np.nan)
        self._ahead[:-HORIZON] = levels[HORIZON:] / levels[:-HORIZON] - 1.0
        self._changes = np.zeros(len(levels), dtype=bool)
        self._changes[1:] = (market.member[1:] != market.member[:-1]).any(axis=1)
        #: [T] log-likelihood that each day was the first one of the episode
        self._likelihood = np.zeros(len(levels))
        self._step = -1
        self._universe: frozenset[str] = frozenset()
        self._nav = float("nan")
        self.figures_read = 0

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request: submissions only, in a mode without tools."""
        conversation = Conversation(request)
        self._step += 1
        self._learn(conversation)
        listed = conversation.observed.universe or tuple(conversation.observed.candidates)
        held = list(conversation.observed.positions)
        expected = self._expected()

        orders = []

        if expected > 0.0 and not held:
            orders = [_order(conversation, name, "BUY", 0.98 / NAMES) for name in listed[:NAMES]]
        elif expected <= 0.0:
            orders = [_order(conversation, name, "SELL", 0.0) for name in held]

        return conversation.submit(orders, conversation.reason("what the index did"))

    def _learn(self, conversation: Conversation) -> None:
        """Compare what is shown with each day of the history."""
        rows = np.arange(len(self._likelihood)) + self._step
        inside = rows < len(self._likelihood)
        rows = np.minimum(rows, len(self._likelihood) - 1)
        self._likelihood[~inside] = -np.inf
        state = conversation.observed
        names = frozenset(state.universe)
        nav = state.account.nav or float("nan")

        if self._evidence == "index":
            value = conversation.state["performance"].get("benchmark_return_1d_pct")
            if value is not None:
                self.figures_read += 1
                misses = np.abs(self._returns_pct[rows] - value) > 5.1e-4
                self._likelihood[misses] -= 20.0
        elif self._evidence == "universe" and self._step:
            has_changed = names != self._universe
            self.figures_read += 1
            self._likelihood[self._changes[rows] != has_changed] -= 20.0
        elif self._evidence == "account" and state.positions:
            self.figures_read += 1
            own_pct = 100.0 * (nav / self._nav - 1.0)
            distance = np.nan_to_num(self._returns_pct[rows] - own_pct, nan=10.0)
            self._likelihood -= 0.5 * (distance / NAV_NOISE_PCT) ** 2

        self._universe = names
        self._nav = nav

    def _expected(self) -> float:
        """Mean return of the index over the next days, over the days that it may be."""
        rows = np.arange(len(self._likelihood)) + self._step
        inside = rows < len(self._likelihood)
        ahead = self._ahead[rows[inside]]
        likelihood = self._likelihood[inside]
        known = np.isfinite(ahead)
        weights = np.exp(likelihood[known] - likelihood[known].max())

        return float(np.average(ahead[known], weights=weights))


def _order(conversation: Conversation, name: str, side: str, weight: float) -> dict[str, object]:
    reason = conversation.reason("what the index did")
    return {
        "stock_id": name,
        "side": side,
        "target_weight": weight,
        "confidence": 0.5,
        "reason": reason,
    }


def total_return(
    model: Model,
    market: MarketSnapshot,
    window: Window,
    seed: int,
    name: str = "blinded_memory_only",
) -> float:
    """Total return of an episode of a task without tools, as a fraction."""
    task = PLUGINS.make_task(name)
    plain = spec_of(task.name, task.mask, task.mode, seed)
    spec = replace(plain, window=window, mask_key=f"{seed:032x}")
    tape = MarketTape.from_snapshot(market, task.trading)
    parts = EpisodeParts(task, (), market, tape, model, ReactAgent())
    episode = TradingEpisode(spec, parts)

    for step in range(episode.total_steps):
        record = episode.run_step(step).step

    return record.nav_minor / (task.trading.initial_cash * 100) - 1.0
