"""Modules and data that a launch's forked workers share, loaded once in the launching process.

The process has no API client, thread or lock when it forks, so forking is safe.
"""

from __future__ import annotations

from contextlib import suppress

# Imported so that workers find these modules already loaded:
import ktdeval_grid.launch.forecast
import ktdeval_grid.workers.worker_command  # noqa: F401 - as above
from ktdeval.cli import can_fork, open_plugins
from ktdeval.errors import KtdevalError
from ktdeval.runner import choose_tasks, open_market
from ktdeval_grid.planning.plan import GridPlan, systems

LOCAL = "local"  #: backend whose workers are processes on this machine


def preload(plan: GridPlan, runner: str) -> bool:
    """Load what the workers for a plan read, and return whether they may be forks of this
    process.
    """
    if runner != LOCAL or not can_fork():
        return False

    plugins = open_plugins(plan.plugin, None)  # the estimate warns about skipped plugins
    for system in systems(plan):
        with suppress(KtdevalError):  # the estimate, which follows, will report the error
            tasks = choose_tasks(system.config, plugins)
            open_market(plugins, system.config, tasks.values())

    return can_fork()  # a plugin may have started a thread
