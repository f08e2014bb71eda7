"""Episodes under other aliases: markets with planted ties, and a ledger without the order in which
equal orders were given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from ktdeval.attribution import FACTOR_NAMES
from ktdeval.keyless import TopModel, TopParams
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.task_api import EpisodeSpec, Window
from ktdeval.testing import small_market
from ktdeval.trading import MarketTape, StepRecord
from ktdeval_builtin.react import ReactAgent
from support.market.trading_market import part_of_market
from support.tasks.ktdfin_market import FIRST, LAST

PLUGINS = load_plugins()
PRICED = ("open", "high", "low", "close", "volume", "amount", "factor", "member")
WINDOW = Window("W", FIRST, LAST)


@dataclass(frozen=True)
class SameCalls(EpisodeSpec):
    """An episode whose calls have one seed whatever the key of its mask."""

    @property
    def call_seed(self) -> int:
        return 11


def twins(assets: int = 48) -> MarketSnapshot:
    """The small market, in which every third name has a twin on its board, equal in every figure,
    and the rest has none.
    """
    market = small_market(assets)
    fields = {name: getattr(market, name).copy() for name in PRICED}
    by_board: dict[str, list[int]] = {}

    for column in range(2, assets - 4):
        by_board.setdefault(str(market.boards[column]), []).append(column)

    for columns in by_board.values():
        for one, other in zip(columns[0::3], columns[1::3], strict=False):
            for values in fields.values():
                values[:, other] = values[:, one]

    return replace(market, **fields)


def cut(market: MarketSnapshot) -> MarketSnapshot:
    """The market without the days after the last of the window, except for the next, and without the names that were
    no member by then.
    """
    rows = int(np.searchsorted(market.days, np.datetime64(LAST), side="right")) + 1
    members = np.flatnonzero(market.member[:rows].any(axis=0))

    return part_of_market(market, rows, members.tolist())


class FewScores(TopModel):
    """A trained tree of few leaves: one of three scores for each name, so that most names tie."""

    history_days = 3

    def predict(self, history: FloatArray) -> FloatArray:
        scores: FloatArray = np.sign(
            np.round(history[:, :, FACTOR_NAMES.index("MOM_12_1")].mean(axis=0), 1)
        )
        return scores


class OneScore(TopModel):
    """A tree without a split: one score for all names."""

    history_days = 1

    def predict(self, history: FloatArray) -> FloatArray:
        return np.zeros(history.shape[1])


MODELS: Mapping[str, Mapping[str, Any]] = {
    "builtin/hold": {},
    "builtin/buy_and_hold": {},
    "builtin/random": {"max_buys": 6, "sell_probability": 0.3},
    "builtin/equal_weight": {"positions": 9, "band": 0.05},
    "builtin/momentum": {"positions": 7, "keep_rank": 9},
    "builtin/reversal": {"positions": 7, "keep_rank": 8, "by": "return_5d_pct"},
    "builtin/low_volatility": {"positions": 8, "keep_rank": 9, "trim_above": 1.02},
    "builtin/linear_factor": {
        "positions": 7,
        "keep_rank": 9,
        "coefficients": "MOM_12_1:0.02 RV_60:-0.1",
    },
    "few_scores": {"positions": 7, "threshold": 0.0},
    "one_score": {"positions": 8},
}
"""Rule models of the registry that can act on tasks with figures, and two baselines, with
parameters that leave ties.
"""


def model_of(name: str) -> Any:
    """One of `MODELS`."""
    params = MODELS[name]
    made = {"few_scores": FewScores, "one_score": OneScore}.get(name)
    return PLUGINS.make_model(name, params) if made is None else made(TopParams(**params))


def played(
    task: Any,
    model: Any,
    market: MarketSnapshot,
    key: int,
    steps: int = 6,
    agent: Any = None,
    window: Window = WINDOW,
) -> list[StepRecord]:
    """The records of the first steps of an episode, of a task or one by name, under the aliases of
    a key.
    """
    plan = PLUGINS.make_task(task) if isinstance(task, str) else task
    spec = SameCalls(
        task=plan.name,
        task_version="1",
        task_hash="0",
        snapshot=market.id,
        mask=plan.mask,
        mode=plan.mode,
        window=window,
        model="test",
        model_args={},
        agent="react",
        agent_args={},
        seed=0,
        mask_key=f"{key:032x}",
    )
    tape = MarketTape.from_snapshot(market, plan.trading)
    parts = EpisodeParts(
        plan, PLUGINS.tools(plan.tools), market, tape, model, agent or ReactAgent()
    )
    episode = TradingEpisodeRun(spec, parts)

    return [episode.run_step(step).step for step in range(steps)]


def ledger(records: list[StepRecord]) -> list[Any]:
    """Decisions and bookings in true identities; orders as a set, for among equal ones their
    order says nothing.
    """
    identity = attrgetter("code", "side", "target_weight", "shares", "filled_shares", "rule")
    return [
        (Counter(map(identity, step.orders)), step.positions, step.cash_minor, step.nav_minor)
        for step in records
    ]
