"""Scenes of tasks on any market, with fields of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktdeval.market import MarketSnapshot
from ktdeval.task_api import Window
from ktdeval.testing import scene_on
from ktdeval.values import load_yaml
from ktdeval_markets import task as task_module
from ktdeval_markets.config import MarketConfig
from ktdeval_markets.task import MarketTask


def scene_from(
    row: int, snapshot: MarketSnapshot, mask: str = "blinded", seed: int = 0, **options: Any
) -> Any:
    """The scene of a task with the family's defaults, from a row of the market to its last day."""
    task, window = task_from(row, snapshot, mask, **options)
    return scene_on(task, snapshot, window, seed)


def task_from(
    row: int, snapshot: MarketSnapshot, mask: str = "blinded", **options: Any
) -> tuple[MarketTask, Window]:
    """A task with the family's defaults, and its window: from a row of the market to its last
    day.
    """
    plain = load_yaml(Path(task_module.__file__).parent / "markets.yaml")
    window = {"first": str(snapshot.days[row]), "last": str(snapshot.days[-1])}
    head = {
        "family": "m",
        "version": "1",
        "data_card": {},
        "sources": [],
        "windows": {"w": window},
        "default_windows": ["w"],
    }
    config = MarketConfig.load({**head, **plain["defaults"], "mask": mask, **options}, "mine")

    return MarketTask("mine", config), Window("w", **window)
