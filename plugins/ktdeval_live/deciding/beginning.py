"""Start of a forward test: the folder with everything that is fixed, and the first chain entry."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

import ktdeval
from ktdeval.errors import ConfigError, StoreError, UsageError, wrap_os_error
from ktdeval.market import MarketSnapshot, save_snapshot
from ktdeval.registry import Plugins
from ktdeval.runner import open_snapshot, own_model
from ktdeval.values import content_hash, format_version, make_folder, new_folder, to_plain
from ktdeval_live.checks.chain_coverage import begun_files
from ktdeval_live.days.clock import TimeSource, in_text
from ktdeval_live.days.day_sources import make_source
from ktdeval_live.days.market_increments import days_before
from ktdeval_live.days.market_sessions import Schedule, plan_schedule
from ktdeval_live.plan import Entrant, LivePlan, check_plan
from ktdeval_live.publication.publish_chain import begin_repository
from ktdeval_live.record.chain import Begun, Joined, RecordChain
from ktdeval_live.record.entrant_episode import EntrantMarket, find_entries
from ktdeval_live.record.folder import CHAIN, FORMAT, PLAN, LiveFolder, write_plan


def begin(plan: LivePlan, path: Path, plugins: Plugins, clock: TimeSource) -> LiveFolder:
    """Create the folder of a test.

    Raises ConfigError or DataError if the plan can't be run; StoreError if the folder is not empty
    or can't be written; UsageError if the test would start in the past.
    """
    if path.exists() and any(path.iterdir()):
        raise StoreError(f"{path}: is not empty; choose another folder")

    if plan.mask_key is None:
        plan = msgspec.structs.replace(plan, mask_key=secrets.token_hex(16))

    bases = {name: _base(plan, name, plugins) for name in plan.markets}
    schedules = {name: _schedule(plan, name, bases[name], plugins, path) for name in plan.markets}
    _check_future(schedules, clock)
    systems = _systems(plan, bases, plugins)

    with wrap_os_error(f"{path}: can't be written"), new_folder(path) as inside:
        make_folder(inside / "schedules")
        for name, base in bases.items():
            save_snapshot(base, inside / "base" / name)
            write_plan(inside / "schedules" / f"{name}.json", schedules[name])

        begin_repository(inside, plan.publish)
        write_plan(inside / PLAN, plan)
        first = Begun(
            plan=plan.id,
            schedules={name: content_hash(to_plain(one)) for name, one in schedules.items()},
            base={name: base.id for name, base in bases.items()},
            files=begun_files(inside),
            systems=systems,
            software=ktdeval.__version__,
            version=format_version(FORMAT),
        )
        RecordChain(inside / CHAIN).append(first, in_text(clock.now()))

    return LiveFolder(path)


def _base(plan: LivePlan, name: str, plugins: Plugins) -> MarketSnapshot:
    """Return the pre-test part of a market."""
    planned = plan.markets[name]
    market = open_snapshot(plugins, planned.data, planned.data_args)
    return market_before(market, plan.first)


def market_before(market: MarketSnapshot, day: str) -> MarketSnapshot:
    """Return the days of a market before `day`. Raises ConfigError if the market begins later than
    `day`.
    """
    cut = int(np.searchsorted(market.days, np.datetime64(day, "D")))
    if cut < 1:
        raise ConfigError(
            f"{market.meta.name} has no day before {day}, on which the test begins; import earlier"
            " days"
        )
    return days_before(market, cut)


def _schedule(
    plan: LivePlan, name: str, base: MarketSnapshot, plugins: Plugins, path: Path
) -> Schedule:
    task = plugins.make_task(plan.markets[name].task)
    make_source(
        plan.markets[name], plan.kind, plugins, path
    )  # raises an error if the certificate is invalid
    return plan_schedule(plan, name, base, task.trading)


def _check_future(schedules: dict[str, Schedule], clock: TimeSource) -> None:
    """Raise UsageError if a test would start in the past, since a backtest is not a forward
    test.
    """
    for one in schedules.values():
        cutoff = one.sessions[0].cutoff
        if cutoff is not None and cutoff <= clock.now():
            raise UsageError(
                f"first: decisions on {one.sessions[0].day} had to be committed before"
                f" {in_text(cutoff)}, which is past; choose a later day, or rehearse it with --replay"
            )


def _systems(
    plan: LivePlan, bases: Mapping[str, MarketSnapshot], plugins: Plugins
) -> dict[str, str]:
    """Return the identity of each entry, after checking that its model and agent can be created."""
    systems = {}
    for entry in find_entries(plan):
        systems.update(_system_by_name(entry, bases[entry.market], plugins))
    return systems


def _system_by_name(entry: EntrantMarket, base: MarketSnapshot, plugins: Plugins) -> dict[str, str]:
    config = entry.config()
    own_model(config, plugins)
    plugins.make_agent(config.agent, config.agent_args)
    return {entry.name: entry.spec(base, config, plugins).id}


def join(folder: LiveFolder, entrant: Entrant, plugins: Plugins, clock: TimeSource) -> Entrant:
    """Let an entrant join a running test, starting on the next day that can be decided in time.
    Return the entrant with this day set.

    Raises ConfigError if the entrant does not fit the plan or would start in the past; UsageError
    if no day is left.
    """
    plan = folder.plan
    names = entrant.markets or tuple(plan.markets)
    first = max(_first_day(folder, name, clock) for name in names)
    if entrant.first is None:
        entrant = msgspec.structs.replace(entrant, first=first)
    if (entrant.first or "") < first:
        raise ConfigError(
            f"first: {entrant.first} is past; the first day that {entrant.name} can decide on in"
            f" time has its fills on {first}"
        )

    joined = msgspec.structs.replace(plan, entrants=(*plan.entrants, entrant))
    check_plan(joined, entrant.name)
    systems = {}
    for name in names:
        entry = EntrantMarket(joined, entrant, name)
        systems.update(_system_by_name(entry, folder.base(name), plugins))

    folder.chain().append(Joined(entrant=entrant, systems=systems), in_text(clock.now()))
    return entrant


def _first_day(folder: LiveFolder, market: str, clock: TimeSource) -> str:
    """Return the first fill day whose decision can still be committed in time."""
    now = clock.now()
    for session, fill in pairwise(folder.schedule(market).sessions):
        if session.cutoff is not None and session.cutoff > now:
            return fill.day
    raise UsageError(f"{market}: no day of the test is left for a decision")
