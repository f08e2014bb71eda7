"""Check that a grid's planned looks fit its windows, before any unit runs."""

from __future__ import annotations

from collections.abc import Iterable

from ktdeval.errors import ConfigError
from ktdeval.runner import shared_days
from ktdeval.task_api import EpisodeSpec
from ktdeval_grid.planning.plan import GridPlan


def check_looks(plan: GridPlan, specs: Iterable[EpisodeSpec]) -> None:
    """Check that each task's windows fit the planned looks.

    Raises ConfigError if a task has fewer windows than its last look needs, or if its windows share
    days, so that differences between systems would not be independent.
    """
    rule = plan.settle
    if rule is None:
        return

    windows: dict[str, dict[tuple[str, str, str], None]] = {}
    for spec in specs:
        if spec.window is not None:
            days = (spec.window.name, str(spec.window.first), str(spec.window.last))
            windows.setdefault(spec.task, {})[days] = None

    for task, names in windows.items():
        if len(names) < rule.looks[-1]:
            raise ConfigError(
                f"settle: looks: the last takes {rule.looks[-1]} windows, {task} has {len(names)} in"
                " this plan; plan more windows or fewer looks"
            )
        for one, other in shared_days(list(names)):
            raise ConfigError(
                f"settle: windows {one} and {other} of {task} share days, so their differences "
                "are not independent; choose windows that do not overlap"
            )
