"""Plans of forward tests on the embedded markets, and rehearsals of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktdeval.errors import ConfigError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.values import from_plain
from ktdeval_live.deciding.past_replay import replay_plan
from ktdeval_live.plan import LivePlan
from ktdeval_live.record.folder import LiveFolder

US = {"data": "synthetic_us", "task": "market_bright", "source": "stored"}
"""Market of US stocks whose days come from the stored market."""


def plan_of(**changes: Any) -> LivePlan:
    """Return a rehearsal of a week of US stocks with one entrant, with some fields changed."""
    fields: dict[str, Any] = {
        "name": "week",
        "kind": "rehearsal",
        "first": "2024-06-03",
        "last": "2024-06-07",
        "markets": {"us": US},
        "entrants": [{"name": "momentum", "model": "builtin/momentum"}],
        **changes,
    }
    return from_plain(fields, LivePlan, "plan", ConfigError)


def rehearsed(path: Path, plugins: Plugins | None = None, **changes: Any) -> LiveFolder:
    """Replay a plan into a folder and return it."""
    lines: list[str] = []
    return replay_plan(plan_of(**changes), path, plugins or load_plugins(), lines.append)


def entrants(models: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return entrants of a plan from names and models."""
    return [{"name": name, "model": model} for name, model in models.items()]
