"""Files of a grid in its store, as typed values: what its opening, its workers and `status` share.

grid.json            `GridRecord`: resolved once, by `create`
plans/0001.json …    `GridRecord` after each amendment, by `create`; the last one is in force
done/<unit>.json     `UnitDone`, the claim board's one winner
looks/<pair>-<n>.json `PairLook`: a look at two systems, by `create`; see `settled_pairs`
failed/<unit>.json   `UnitFailed`: the last failure of a unit; deleted when the unit is done
paid/<worker>.json   `WorkerPaid`: what the calls of a worker cost; replaced while it works
launches/0001.json … `Launch`: each launch of a driver, by `create`, and `LaunchEnd` when it ended
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from ktdeval.cards import PriceEntry
from ktdeval.errors import BudgetError, KtdevalError
from ktdeval.harness import ToolProtocol
from ktdeval.values import Value, format_version
from ktdeval_grid.planning.plan import GridPlan, PlannedModel

FORMAT = "grid"
GRID_VERSION = format_version(FORMAT)
GRID = "grid.json"
PLANS = "plans"
FAILED = "failed"
LAUNCHES = "launches"
DONE = "done"
PAID = "paid"


class GridUnit(Value):
    """One episode of a grid, as shown in tables."""

    id: str  #: id of the episode's spec
    task: str
    window: str | None
    seed: int

    @property
    def label(self) -> str:
        """Text that identifies the unit within its system: `TASK WINDOW seed 0`."""
        return " ".join(filter(None, (self.task, self.window, f"seed {self.seed}")))


class PrunedUnits(Value):
    """Episodes of a system that a rule omits."""

    rule: str
    reason: str
    units: tuple[GridUnit, ...]


class GridSystem(Value):
    """A system in a grid, with its episodes in plan order."""

    slug: str
    model: str  #: label of the model
    agent: str  #: label of the agent
    #: how tools are offered to the model; null for a model that runs on this machine
    tool_protocol: ToolProtocol | None
    price: PriceEntry | None  #: price of the model's tokens; null if unknown
    units: tuple[GridUnit, ...]
    pruned: tuple[PrunedUnits, ...] = ()
    #: tool protocols of further models, keyed by the names that the agent uses for them
    further_protocols: dict[str, ToolProtocol] = msgspec.field(default_factory=dict)
    #: whether the check found that the model takes no temperature
    is_without_temperature: bool = False
    checked_by: str | None = (
        None  #: worker whose part contains the calls that determined the protocols
    )
    #: why the system could not be resolved and so has no units; the next launch tries again
    problem: str | None = None
    #: limits that prevented the system from being resolved, as in `UnitFailed`; null: no budget did
    needed: dict[str, float] | None = None


class GridRecord(Value):
    """A resolved grid: plan, key, market and units."""

    version: int
    suite: str  #: version of ktdeval
    plan: GridPlan
    mask_key: str
    snapshot: str | None  #: id of the market; null if no task needs a market
    begun_at: str  #: time in UTC, ISO 8601
    systems: tuple[GridSystem, ...]
    #: hash of the code of ktdeval and of each plugin, by name; empty in grids that recorded no
    #: hashes
    code: dict[str, str] = msgspec.field(default_factory=dict)
    key_given: bool = False  #: whether the plan gave the mask key, instead of the grid drawing one
    #: launch that resolved the grid or, for a worker without a launch, the worker's process
    launch: str | None = None

    def model(self, label: str) -> PlannedModel:
        """Return a model in the plan, given its label. Raises KeyError if no model has this
        label.
        """
        return {model.short: model for model in self.plan.models}[label]

    def units(self) -> Iterator[tuple[GridSystem, GridUnit]]:
        """Yield each unit to be run, with its system."""
        for system in self.systems:
            for unit in system.units:
                yield system, unit


class UnitDone(Value):
    """A finished unit."""

    unit: str
    system: str  #: slug
    worker: str
    generation: int  #: generation of the claim that finished the unit
    seconds: float  #: time that workers spent on the unit, over all generations as far as known
    steps: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None  #: null if a price is unknown
    finished_at: str  #: time in UTC, ISO 8601, by the worker's clock
    #: metric that the plan's rule compares; null without a rule, or if the metric is undefined
    figure: float | None = None
    calls: int = 0  #: number of model replies in the transcript; 0 in records that lack it


class UnitFailed(Value):
    """The last failure of a unit."""

    unit: str
    system: str  #: slug
    error: str  #: one line, without secrets
    worker: str
    generation: int
    #: how often the unit had been requeued when it was run, as in `Control.requeued`
    requeued: int
    launch: str  #: launch in which the unit failed; a later launch retries the unit
    cost_usd: float | None = None  #: US dollars spent on the unit so far
    failed_at: str = ""  #: time in UTC, ISO 8601, by the worker's clock
    #: limits that the next call would have exceeded, keyed by option, each with the minimum that
    #: allows the call (except for `max_hours`); null: no budget ended the unit
    needed: dict[str, float] | None = None

    @property
    def is_stopped(self) -> bool:
        """True if a budget stopped the unit, so that nothing failed and a larger budget would let
        it resume.
        """
        return self.needed is not None


class WorkerPaid(Value):
    """Cost in US dollars of the calls recorded in a worker's parts, including work that it has
    taken over.
    """

    #: cost by system, then by unfinished unit, `canary` and `check`; null: a price is unknown
    usd: dict[str, dict[str, float | None]] = msgspec.field(default_factory=dict)


class Launch(Value):
    """A launch: a driver that starts workers. Workers without a launch receive their plan
    directly.
    """

    id: str  #: counted up, with at least four digits
    plan: GridPlan  #: plan as given to the launch; it amends the grid's plan
    workers: int  #: processes
    runner: str  #: execution backend
    begun_at: str  #: time in UTC, ISO 8601
    host: str  #: host name of the driver's machine
    pid: int  #: process id of the driver
    #: `failed`: run only units with a failure record
    only: Literal["all", "failed"] = "all"


class LaunchEnd(Value):
    """The end of a launch."""

    id: str
    ended_at: str  #: time in UTC, ISO 8601
    exit_code: int
    done: int  #: number of units that are done
    failed: int
    left: int  #: number of units that are neither done nor failed
    stopped: str | None = None  #: why the launch stopped early; null: it did not


def needed_by(problem: KtdevalError | None) -> dict[str, float] | None:
    """Return the limits that a budget needs to let the work resume; None for other problems."""
    return problem.needed if isinstance(problem, BudgetError) else None


def launch_key(launch: str) -> str:
    """Return the key of a launch's record."""
    return f"{LAUNCHES}/{launch}.json"


def launch_end_key(launch: str) -> str:
    """Return the key of the record of a launch's end."""
    return f"{LAUNCHES}/{launch}-end.json"


def done_key(unit: str) -> str:
    """Return the key of a finished unit's record."""
    return f"{DONE}/{unit}.json"


def paid_key(worker: str) -> str:
    """Return the key of a worker's cost record."""
    return f"{PAID}/{worker}.json"


def failed_key(unit: str) -> str:
    """Return the key of the record of a unit's last failure."""
    return f"{FAILED}/{unit}.json"
