"""Opening a grid: its plan is resolved once, and so is each amendment.

The first worker resolves the plan: systems and units, the mask key, the market, and each model's
tool protocol, which takes a few calls. All other workers wait for the record and use it unchanged.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import structs

import ktdeval
from ktdeval.calls import Fence
from ktdeval.errors import BudgetError, FencedError, ProviderError, StoreError
from ktdeval.registry import Plugins, code_differences, code_hashes
from ktdeval.runner import RunPart
from ktdeval.stores import encode_value
from ktdeval.task_api import EpisodeSpec
from ktdeval.values import undone_on_error
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.planning.plan import GridPlan, PlannedSystem, systems
from ktdeval_grid.planning.planned_looks import check_looks
from ktdeval_grid.planning.pruning_rules import pruned_by
from ktdeval_grid.state.amend import amendment, with_key
from ktdeval_grid.state.layout import OPEN_JOB, GridPlace, amend_job
from ktdeval_grid.state.records import (
    GRID,
    GRID_VERSION,
    PLANS,
    GridRecord,
    GridSystem,
    GridUnit,
    PrunedUnits,
    needed_by,
)
from ktdeval_grid.state.status import load_record
from ktdeval_grid.workers.worker_run_folders import OpenRunFolders

#: sleeps; raises KeyboardInterrupt if the worker is to stop
Wait = Callable[[float], None]
_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True)
class GridOpening:
    """Objects and settings with which a worker opens a grid."""

    place: GridPlace
    board: ClaimBoard
    parts: OpenRunFolders
    wait: Wait
    launch: str  #: id of this worker's launch
    #: whether a driver started the launch; a later launch may then continue with its own code
    is_driven: bool = False


def open_grid(plan: GridPlan, opening: GridOpening) -> GridRecord:
    """Return the record of the grid with this plan: the record in force, or a new one.

    Raises UsageError if the plan changes a fixed setting of the grid; KtdevalError if the plan
    can't be resolved; KeyboardInterrupt.
    """
    while True:
        before = read_record(opening.place)
        if before is not None and not _needs_work(before, plan, opening):
            return before

        if _resolve_as_job(plan, before, opening):
            continue

        opening.wait(_LOOK_AGAIN_S)


def read_record(place: GridPlace) -> GridRecord | None:
    """Return the record in force; None before the grid has begun."""
    return load_record(place.store) if place.store.exists(GRID) else None


def _needs_work(before: GridRecord, plan: GridPlan, opening: GridOpening) -> bool:
    """Return whether a grid must be resolved again: because the plan amends it, because a later
    driven launch runs other code, or because a system that an earlier launch could not resolve is
    to be retried.
    """
    if not amendment(before.plan, plan).is_empty:
        return True
    if before.launch == opening.launch:
        return False
    if opening.is_driven and made_by_other_code(before, opening.parts.plugins):
        return True
    # systems that earlier launches could not resolve
    return any(system.problem is not None for system in before.systems)


def made_by_other_code(record: GridRecord, plugins: Plugins) -> list[str]:
    """Return the packages whose code in this process differs from the code in the grid's record.

    The list is empty if the record has no hashes.
    """
    if record.suite != ktdeval.__version__:
        return [f"ktdeval {record.suite} there, {ktdeval.__version__} here"]
    if not record.code:
        return []
    return code_differences(record.code, code_hashes(plugins))


def check_code(record: GridRecord, plugins: Plugins) -> None:
    """Raise StoreError if this process would run other code than that with which the grid was
    resolved.
    """
    differing = made_by_other_code(record, plugins)
    if differing:
        raise StoreError(
            f"this worker's code is not the grid's: {', '.join(differing):.300}; install the "
            "same versions of ktdeval and plugins, or continue with this code by `ktdeval grid "
            "PLAN`"
        )


def _resolve_as_job(plan: GridPlan, before: GridRecord | None, opening: GridOpening) -> bool:
    """Resolve a plan, unless another worker is resolving it.

    Return whether there may be a new record.
    """
    store = opening.place.store
    number = 0 if before is None else 1 + sum(1 for _ in store.list(PLANS))
    job = OPEN_JOB if before is None else amend_job(number)
    key = GRID if before is None else f"{PLANS}/{number:04}.json"
    claim = opening.board.claim(job)
    if claim is None:
        return False

    try:
        with undone_on_error(lambda _: claim.release()):
            record = resolve(plan, before, opening.parts, claim.check)
            record = structs.replace(record, launch=opening.launch)
            claim.check()
            store.create(key, encode_value(record))
            claim.finish(b"{}\n")
    except FencedError:
        return False  # the worker that took over this job resolves the plan
    finally:
        opening.parts.close()  # the plans in run parts may have grown

    return True


def resolve(
    plan: GridPlan, before: GridRecord | None, parts: OpenRunFolders, fence: Fence
) -> GridRecord:
    """Return the record for a plan, keeping what `before` records about models.

    `fence` is called before each paid call. If a model does not answer, or if the budget does not
    cover the check, its system is recorded with a `problem`. Raises KtdevalError.
    """
    key_given = plan.mask_key is not None
    mask_key = plan.mask_key or secrets.token_hex(16)
    begun_at = datetime.now(UTC).isoformat(timespec="seconds")
    known: Mapping[str, GridSystem] = {}
    snapshot = None
    if plan.settle is not None:
        parts.plugins.make_metric(plan.settle.metric)  # raises an error for an unknown metric

    if before is not None:
        key_given = before.key_given
        mask_key = before.mask_key
        begun_at = before.begun_at
        known = {system.slug: system for system in before.systems if system.problem is None}
        snapshot = before.snapshot

    if not key_given:  # the plan of a recorded grid has the key that the grid drew
        plan = structs.replace(plan, mask_key=None)

    found = []
    for system in systems(plan):
        known_system = known.get(system.slug)
        resolved, market = _resolve_system(system, plan, mask_key, known_system, parts, fence)
        if snapshot is not None and market is not None and market != snapshot:
            raise StoreError(
                f"{system.slug}: the market is snapshot {market:.12} now, the grid was begun with"
                f" {snapshot:.12}; give the same data, or choose another --out"
            )

        snapshot = snapshot or market
        found.append(resolved)

    return GridRecord(
        version=GRID_VERSION,
        suite=ktdeval.__version__,
        code=code_hashes(parts.plugins),
        plan=with_key(plan, mask_key),
        mask_key=mask_key,
        key_given=key_given,
        snapshot=snapshot,
        begun_at=begun_at,
        systems=tuple(found),
    )


def _resolve_system(
    system: PlannedSystem,
    plan: GridPlan,
    mask_key: str,
    before: GridSystem | None,
    parts: OpenRunFolders,
    fence: Fence,
) -> tuple[GridSystem, str | None]:
    """Return a system in the form in which it is recorded, and the id of its market."""
    blank = GridSystem(
        slug=system.slug,
        model=system.model.short,
        agent=system.agent.short,
        tool_protocol=None,
        price=None,
        units=(),
    )
    try:
        part = parts.resolve(system, plan, mask_key, before, fence)
    except (ProviderError, BudgetError) as error:  # the server is down or rejects the API key
        return structs.replace(blank, problem=error.line, needed=needed_by(error)), None

    checked_by = parts.worker if before is None else before.checked_by
    try:
        check_looks(plan, part.specs.values())
        found = _with_units(blank, part, plan)
        return structs.replace(found, checked_by=checked_by), part.snapshot
    finally:
        parts.close_one(system.slug)


def _with_units(blank: GridSystem, part: RunPart, plan: GridPlan) -> GridSystem:
    """Return a system with its units and its model's detected settings."""
    units: list[GridUnit] = []
    pruned: dict[str, list[GridUnit]] = {}
    for spec in part.specs.values():
        rule = pruned_by(plan.prune, spec)
        if rule is None:
            units.append(_unit(spec))
        else:
            pruned.setdefault(rule.name, []).append(_unit(spec))

    return structs.replace(
        blank,
        tool_protocol=part.protocol,
        is_without_temperature=not part.sends_temperature,
        further_protocols=part.further_protocols,
        price=part.price,
        units=tuple(units),
        pruned=_describe_pruned(pruned, plan),
    )


def _describe_pruned(
    units: Mapping[str, Sequence[GridUnit]], plan: GridPlan
) -> tuple[PrunedUnits, ...]:
    reasons = {rule.name: rule.reason for rule in plan.prune}
    return tuple(
        PrunedUnits(rule=name, reason=reasons[name], units=tuple(each))
        for name, each in units.items()
    )


def _unit(spec: EpisodeSpec) -> GridUnit:
    return GridUnit(id=spec.id, task=spec.task, window=spec.window_name, seed=spec.seed)
