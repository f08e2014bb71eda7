"""The plan and the episodes of any task, on a market that it takes: no model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ktdeval.harness import ModelRequest
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig
from ktdeval.runner.episodes.episode_execution import EpisodeFactory
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.runner.plans.plan import choose_tasks, make_plan
from ktdeval.runner.rehearsals.rehearsal import rehearse
from ktdeval.task_api import EpisodeSpec

PLUGINS = load_plugins()
TASKS = sorted(PLUGINS.specs("tasks"))

#: market of a family of tasks that does not take the embedded one
MARKETS = {
    "investorbench": "synthetic_investorbench",
    "ama": "synthetic_arena",
    "views": "synthetic_views",
    "deepfund": "synthetic_deepfund",
}
EMBEDDED = "synthetic"
WITH_MINUTES = "synthetic_mixed"
OF_COINS = "synthetic_crypto"
DAYS_OF_MINUTES = {"first": "2024-02-01", "last": "2024-04-10", "minute_days": 12}


@dataclass(frozen=True)
class Planned:
    """One task's plan and episodes."""

    task: Any
    specs: Sequence[EpisodeSpec]
    factory: EpisodeFactory
    market: MarketSnapshot | None  #: None of a task about no market


def market_of(name: str) -> dict[str, Any]:
    """Options of a run of a task: a market that it takes, and a short window; none about no market."""
    family = PLUGINS.spec("tasks", name).groups[0]
    if family == "qfinzero":
        return {}

    data = MARKETS.get(family, EMBEDDED)
    if "minutes" in name:
        data = WITH_MINUTES

    if "coins" in name:
        data = OF_COINS

    windows: tuple[str, ...] = () if family in MARKETS else ("W1",)
    if family == "markets":
        windows = ("2024-04-01:2024-04-05",)

    return {"data": data, "data_args": _arguments(data), "windows": windows}


def planned(name: str, agent: str = "react") -> Planned:
    """Plan a task for a model of this process."""
    market = market_of(name)
    config = RunConfig(
        model="builtin/hold",
        tasks=(name,),
        agent=agent,
        limit=3,
        **market,
    )
    tasks = choose_tasks(config, PLUGINS)
    snapshot = _opened(market["data"]) if market else None
    specs = make_plan(config, PLUGINS, tasks, snapshot, None).specs

    return Planned(tasks[name], specs, EpisodeFactory(tasks, PLUGINS, snapshot), snapshot)


@cache
def first_requests(name: str) -> tuple[ModelRequest, ...]:
    """Requests of a task's first step without research, whole and, if there is one, compact."""
    plan = planned(name)
    (first, *_) = rehearse(plan.specs, lambda: plan.factory)
    requests = [*first.play_shown(with_lessons=False).requests]
    compact = first.make_compact()
    if compact is not None:
        requests += compact.play_shown(with_lessons=False).requests

    return tuple(requests)


@cache
def _opened(data: str) -> MarketSnapshot:
    return open_snapshot(PLUGINS, data, _arguments(data))


def _arguments(data: str) -> dict[str, Any]:
    return dict(DAYS_OF_MINUTES) if data == WITH_MINUTES else {}
