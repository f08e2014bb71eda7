"""Estimate for a grid before any money is spent: calls, tokens, money and time by model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ktdeval.harness import model_traits
from ktdeval.registry import Plugins
from ktdeval.runner import (
    RunConfig,
    TaskEstimate,
    choose_tasks,
    choose_windows,
    estimate_run,
    own_model,
)
from ktdeval.task_api import Task
from ktdeval_grid.planning.estimate_types import SCENARIOS, Amount, GridEstimate, ModelEstimate
from ktdeval_grid.planning.plan import GridPlan, PlannedSystem, systems
from ktdeval_grid.planning.pruning_rules import PlannedCell, pruned_by


@dataclass
class _ModelSums:
    """Running totals for one model while its systems are added up."""

    episodes: int
    is_free: bool
    #: whether all its episodes can wait for their batches concurrently, however many there are
    is_batched: bool
    left: dict[str, list[Amount]]


def estimate_grid(
    plan: GridPlan,
    plugins: Plugins,
    is_done: Callable[[PlannedSystem, PlannedCell], bool],
    concurrency: int,
) -> GridEstimate:
    """Estimate the work that remains in a grid. Calls no model and needs no API key.

    Raises KtdevalError.
    """
    sums: dict[str, _ModelSums] = {}
    assumptions: dict[str, None] = {}
    warnings: dict[str, None] = {}
    pruned = 0
    for system in systems(plan):
        tasks = choose_tasks(system.config, plugins)
        cells = list(_system_cells(system.config, tasks.values()))
        kept = [cell for cell in cells if pruned_by(plan.prune, cell) is None]
        pruned += len(cells) - len(kept)
        left = [cell for cell in kept if not is_done(system, cell)]
        model = own_model(system.config, plugins)
        is_free = model_traits(model).is_free

        of_model = sums.setdefault(
            system.model.short,
            _ModelSums(0, is_free, system.config.batch, {name: [] for name in SCENARIOS}),
        )
        of_model.episodes += len(left)
        if is_free or not left:
            continue

        run = estimate_run(system.config, plugins)
        assumptions |= dict.fromkeys(run.assumptions)
        warnings |= dict.fromkeys(f"{system.slug}: {warning}" for warning in run.warnings)
        for task in run.tasks:
            share = sum(cell.task == task.name for cell in left) / task.episodes
            for name in SCENARIOS:
                part = _task_share(task, name, share)
                if system.config.batch:
                    part = replace(part, hours=task.left[name].hours)

                of_model.left[name].append(part)

    models = tuple(_model(name, part, concurrency) for name, part in sums.items())
    return GridEstimate(
        models=models,
        total=_total(models),
        concurrency=concurrency,
        pruned=pruned,
        assumptions=tuple(assumptions),
        warnings=tuple(warnings),
    )


def _system_cells(config: RunConfig, tasks: Iterable[Task]) -> Iterable[PlannedCell]:
    """Yield a system's episodes, before pruning."""
    for task in tasks:
        for window in choose_windows(task, config.windows):
            for seed in range(config.seed, config.seed + config.seeds):
                yield PlannedCell(
                    model=config.model,
                    agent=config.agent,
                    task=task.name,
                    mask=task.mask,
                    mode=task.mode,
                    window_name=None if window is None else window.name,
                    seed=seed,
                )


def _task_share(task: TaskEstimate, scenario: str, share: float) -> Amount:
    """Return a share of a task's amounts."""
    whole = task.left[scenario]
    cost_usd = None
    if whole.cost_usd is not None:
        cost_usd = whole.cost_usd * share

    cached_cost_usd = cost_usd
    if whole.cached_cost_usd is not None:
        cached_cost_usd = whole.cached_cost_usd * share

    return Amount(
        calls=round(whole.calls * share),
        input_tokens=round(whole.input_tokens * share),
        output_tokens=round(whole.output_tokens * share),
        cost_usd=cost_usd,
        hours=whole.hours * share,
        cache_read_tokens=round(whole.cache_read_tokens * share),
        cached_cost_usd=cached_cost_usd,
    )


def _model(name: str, sums: _ModelSums, concurrency: int) -> ModelEstimate:
    left = {}
    for scenario, parts in sums.left.items():
        amount = _add_amounts(parts, concurrency)
        if sums.is_batched:
            amount = replace(amount, hours=max((part.hours for part in parts), default=0.0))

        left[scenario] = amount

    return ModelEstimate(
        name=name,
        episodes=sums.episodes,
        is_free=sums.is_free,
        left=left,
        is_batched=sums.is_batched,
    )


def _total(models: Sequence[ModelEstimate]) -> ModelEstimate:
    """Return the sum over models. Episodes of a model in batches wait concurrently with all others."""
    left = {}
    for scenario in SCENARIOS:
        amount = _add_amounts([model.left[scenario] for model in models], 1)
        waits = [model.left[scenario].hours for model in models if model.is_batched]
        others = [model.left[scenario].hours for model in models if not model.is_batched]
        left[scenario] = replace(amount, hours=max(math.fsum(others), *waits, 0.0))

    return ModelEstimate(
        name="total",
        episodes=sum(model.episodes for model in models),
        is_free=all(model.is_free for model in models),
        left=left,
    )


def _add_amounts(parts: Sequence[Amount], concurrency: int) -> Amount:
    """Return the sum of amounts, with hours divided by the number of concurrent episodes."""
    return Amount(
        calls=sum(part.calls for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cost_usd=_sum_known(part.cost_usd for part in parts),
        hours=math.fsum(part.hours for part in parts) / concurrency,
        cache_read_tokens=sum(part.cache_read_tokens for part in parts),
        cached_cost_usd=_sum_known(part.cached_cost_usd for part in parts),
    )


def _sum_known(costs: Iterable[float | None]) -> float | None:
    """Return the sum of costs; None if any cost is unknown."""
    known = []
    for cost in costs:
        if cost is None:
            return None
        known.append(cost)

    return math.fsum(known)
