"""What a probe shows: the answers of three research tools, as the harness sends them to a model that trades behind this mask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ktdeval.contracts import EpisodeSpec, TargetTask
from ktdeval.errors import ConfigError
from ktdeval.harness import call
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.masking import Lens, Payload
from ktdeval.seeds import derive_seed
from ktdeval.trading import Account
from ktdeval_deanon.config import DeanonConfig
from ktdeval_deanon.probes import Probe

TOOL_NAMES = ("get_market_context", "screen_candidates", "get_stock_snapshot")


@dataclass(frozen=True)
class View:
    """View of a probe."""

    lens: Lens  #: the probe's own mask
    text: str  #: JSON text of `{"market_context", "screen", "snapshot"}`, each the answer of one tool as a trading model gets it


def subject_spec(target_task: TargetTask, spec: EpisodeSpec, number: int) -> EpisodeSpec:
    """Episode of the target task that a probe is taken from.

    Its seed is the probe's own, so its scene draws a fresh alias map: nothing that an attacker learns from one probe, or any other
    episode, says what a handle stands for in the next.
    """
    task = target_task.task
    return replace(
        spec,
        task=task.name,
        task_version=task.version,
        mask=task.mask,
        mode=task.mode,
        seed=derive_seed(spec.mask_seed, "probe", number),
    )


def view_probe(config: DeanonConfig, target_task: TargetTask, spec: EpisodeSpec, snapshot: MarketSnapshot, probe: Probe) -> View:
    """Call the subject's tools through its own scene, at the probe's close, as a model with an untouched account would.

    Raises ConfigError: a tool is missing, or refuses its arguments.
    """
    first, _ = window_rows(snapshot.days, spec.window.first, spec.window.last)
    task = target_task.task
    scene = task.scene(spec, snapshot)
    opening = Account(task.trading.initial_cash_cny * 100, {})
    step = probe.row - (first - 1)  # the episode's first decision falls on the close before the window
    context = scene.tool_context(step, snapshot.as_of(probe.row), opening)
    arguments: tuple[Mapping[str, JsonValue], ...] = (
        {},
        {"factors": list(config.screen_factors), "k": task.harness.max_candidates},
        {"stock_id": scene.lens.asset_handle(probe.asset), "lookback": config.lookback},
    )
    answers = [_answer(target_task, name, context, given, scene.lens) for name, given in zip(TOOL_NAMES, arguments, strict=True)]
    shown = dict(zip(("market_context", "screen", "snapshot"), answers, strict=True))
    return View(scene.lens, scene.lens.render_text(shown))


def _answer(target_task: TargetTask, name: str, context: Any, arguments: Mapping[str, JsonValue], lens: Lens) -> Payload:
    """Answer of one tool, not yet masked."""
    tool = next((tool for tool in target_task.tools if tool.name == name), None)
    if tool is None:
        raise ConfigError(
            f"task {target_task.task.name}: has no tool {name!r}, which a probe shows; choose an open_research subject"
        )
    outcome = call(tool, context, dumps_canonical(arguments), lens)
    if outcome.failure is not None:
        problem = outcome.payload["error"]
        raise ConfigError(f"task {target_task.task.name}: {name} refuses {problem['argument']}: expected {problem['expected']}")
    return outcome.payload
