"""Lines printed by `ktdeval grid --json`, one JSON object per line, for programs that start and
watch grids.
"""

from __future__ import annotations

from msgspec.structs import replace

from ktdeval.values import Value
from ktdeval_grid.planning.estimate_types import GridEstimate
from ktdeval_grid.state.records import GridSystem, GridUnit
from ktdeval_grid.state.status import FoundGrid, Tally, UnitState


class LaunchLine(Value, tag_field="event", tag="launch"):
    """A launch begins."""

    launch: str  #: id of the launch
    name: str  #: name of the grid
    place: str
    workers: int
    runner: str
    pid: int  #: process id of the driver
    log: str | None  #: log file of a detached driver; null: this process is the driver
    added: tuple[str, ...]  #: additions to the grid's plan; empty when the grid begins
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    estimate: GridEstimate | None


class UnitLine(Value, tag_field="event", tag="unit"):
    """The state of a unit has changed."""

    unit: str
    system: str
    task: str
    window: str | None
    seed: int
    state: UnitState
    error: str | None = None  #: why the unit failed, which budget stopped it, or why it is not run
    cost_usd: float | None = None
    seconds: float | None = None


class EndLine(Value, tag_field="event", tag="end"):
    """A launch ends."""

    launch: str
    exit_code: int
    total: Tally
    models: tuple[Tally, ...]
    site: str | None  #: page of the bundle; null without one
    problems: tuple[str, ...]  #: one line for each kind of problem
    resume: str | None  #: command that resumes with larger budgets; null: no budget stopped a unit


class UnitEvents:
    """Units that have changed between two consecutive looks at a grid."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}

    def news(self, found: FoundGrid) -> list[UnitLine]:
        """Return a line for each unit whose state has changed since the last look, in plan
        order.
        """
        lines = []
        for system, unit in found.record.units():
            line = unit_line(found, system, unit)
            if line is None:
                self._states.pop(unit.id, None)
            elif self._states.get(unit.id) != line.state:
                self._states[unit.id] = line.state
                lines.append(line)

        return lines


def unit_line(found: FoundGrid, system: GridSystem, unit: GridUnit) -> UnitLine | None:
    """Return the line with a unit's state; None if the unit is waiting."""
    state = found.find_state(unit.id)
    if state is None:
        return None

    line = UnitLine(
        unit=unit.id,
        system=system.slug,
        task=unit.task,
        window=unit.window,
        seed=unit.seed,
        state=state,
    )
    if state == "done":
        done = found.done[unit.id]
        return replace(line, cost_usd=done.cost_usd, seconds=done.seconds)
    if state in ("failed", "stopped"):
        failure = found.failed[unit.id]
        return replace(line, error=failure.error, cost_usd=failure.cost_usd)
    return replace(line, error=found.unrun[unit.id]) if state == "settled" else line
