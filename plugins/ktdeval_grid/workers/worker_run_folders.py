"""Open run folders of a worker, one for each system whose units it runs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from ktdeval.calls import EpisodeRounds, Fence, StopSignal
from ktdeval.errors import StoreError
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig, RunPart, SharedRun
from ktdeval.task_api import needs_market
from ktdeval.values import Closing
from ktdeval_grid.planning.plan import GridPlan, PlannedSystem
from ktdeval_grid.state.layout import GridPlace
from ktdeval_grid.state.records import GridRecord, GridSystem
from ktdeval_grid.workers.shared_budget import GridAllowance

#: number of concurrent episodes in a worker whose models are called over a network
CALLS_AT_ONCE = 8


@dataclass(frozen=True)
class OpenRunFolders(Closing):
    """A worker's open run folders, by system slug."""

    place: GridPlace
    worker: str
    plugins: Plugins
    allowance: GridAllowance | None = None  #: budget of the whole grid; None without a budget
    #: start of the worker, in seconds of `time.monotonic`; `max_hours` is counted from here
    began_s: float = field(default_factory=time.monotonic)
    _open: dict[str, RunPart] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _rounds: dict[str, EpisodeRounds] = field(default_factory=dict)

    def rounds(self, slug: str) -> EpisodeRounds:
        """Return the rounds in which a system's units make their calls, with `--batch`."""
        return self._rounds.setdefault(slug, EpisodeRounds())

    def resolve(
        self,
        system: PlannedSystem,
        plan: GridPlan,
        mask_key: str,
        before: GridSystem | None,
        fence: Fence,
    ) -> RunPart:
        """Open the part for a system that is being resolved. `plan` has a mask key only if the user
        gave it.

        The model's tool protocol is checked, unless it is known from `before`. `fence` is called
        before each call. Raises KtdevalError.
        """
        config = self._config(system, plan, mask_key)
        key_given = plan.mask_key is not None
        shared = SharedRun(allowance=self.allowance, fence=fence, key_given=key_given)
        if before is not None:
            config = _with_protocol(config, before)
            shared = replace(shared, further_protocols=before.further_protocols)

        return self._open_part(system.slug, config, shared, StopSignal())

    def part(self, system: PlannedSystem, recorded: GridSystem, record: GridRecord) -> RunPart:
        """Return the part for a recorded system, opened on first use.

        Raises KtdevalError if the part can't be opened, or would be a different run on this
        machine.
        """
        with self._lock:
            if recorded.slug in self._open:
                return self._open[recorded.slug]

            config = self._config(system, record.plan, record.mask_key)
            config = _with_protocol(config, recorded)
            rounds = self.rounds(recorded.slug) if config.batch else None
            episodes = {unit.id for unit in recorded.units}
            shared = SharedRun(
                recorded.further_protocols,
                self.allowance,
                episodes=episodes,
                rounds=rounds,
                key_given=record.key_given,
            )
            stop = self._stop_signal(record.plan)
            part = self._open_part(recorded.slug, config, shared, stop)
            _check_same(part, recorded, record)
            return part

    def _stop_signal(self, plan: GridPlan) -> StopSignal:
        """Return the flag that ends a part. Raises BudgetError if the launch has used up
        its time.
        """
        stop = StopSignal()
        if plan.max_hours is not None:
            stop.limit_hours(plan.max_hours, self.began_s)
            stop.check()

        return stop

    def _open_part(
        self, slug: str, config: RunConfig, shared: SharedRun, stop: StopSignal
    ) -> RunPart:
        part = RunPart(config, self.plugins, stop, shared)
        self._open[slug] = part
        return part

    def _config(self, system: PlannedSystem, plan: GridPlan, mask_key: str) -> RunConfig:
        """Return the config for a system's part.

        The grid's limits on dollars and tokens also apply to the part, since a part never exceeds
        them. Tasks without a market have no mask, and so no key.
        """
        names = self.plugins.resolve_tasks(system.config.tasks)
        key = None
        if any(needs_market(self.plugins.make_task(name)) for name in names):
            key = mask_key

        return replace(
            system.config,
            out=str(self.place.part(self.worker, system.slug)),
            mask_key=key,
            concurrency=plan.concurrency or CALLS_AT_ONCE,
            max_cost=plan.max_cost,
            max_tokens=plan.max_tokens,
            quiet=True,
        )

    def list_costs(self) -> dict[str, dict[str, float | None]]:
        """Return the US dollars spent on calls recorded by open parts, by system and episode."""
        return {slug: part.list_costs() for slug, part in list(self._open.items())}

    def interrupt(self) -> None:
        """Stop the episodes in all parts after the steps in progress."""
        for part in list(self._open.values()):
            part.stop.interrupt()

    def close_one(self, slug: str) -> None:
        """Close a system's part, if it is open."""
        part = self._open.pop(slug, None)
        if part is not None:
            part.close()

    def close(self) -> None:
        """Close all parts."""
        for slug in list(self._open):
            self.close_one(slug)


def _with_protocol(config: RunConfig, recorded: GridSystem) -> RunConfig:
    """Return a config with what the check of its model found: the tool protocol, if there is one,
    and whether a temperature is sent.
    """
    if recorded.is_without_temperature:
        config = replace(config, temperature=None)
    if recorded.tool_protocol is None:
        return config
    return replace(config, tool_protocol=recorded.tool_protocol)


def _check_same(part: RunPart, recorded: GridSystem, record: GridRecord) -> None:
    """Raise StoreError if this machine would run episodes that differ from the grid's."""
    if part.snapshot != record.snapshot:
        raise StoreError(
            f"{recorded.slug}: the market here is snapshot {part.snapshot!s:.12}, that of the grid"
            f" {record.snapshot!s:.12}; give all workers the same data"
        )

    missing = [unit for unit in recorded.units if unit.id not in part.specs]
    if missing:
        raise StoreError(
            f"{recorded.slug}: {missing[0].label} is another episode here than where the grid was"
            f" begun, with ktdeval {record.suite}; install the same versions of ktdeval and plugins"
        )
