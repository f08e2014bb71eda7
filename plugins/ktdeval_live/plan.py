"""Plan of a forward test: who decides on which markets, over which period, and with which
deadlines.

A plan is written once, before the first day. Its hash is in the chain's first entry, so changing an
entrant, market or rule requires a new record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ktdeval.errors import ConfigError
from ktdeval.market import parse_day
from ktdeval.runner import StampAuthority, read_certificates
from ktdeval.values import (
    Address,
    Arguments,
    GitAddress,
    Value,
    content_hash,
    from_plain,
    load_yaml,
    near_matches,
    to_plain,
)

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
"""Name of an entrant, a market or a plan; used in paths."""

Minutes = Annotated[float, msgspec.Meta(ge=0, le=100_000)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]

Kind = Literal["live", "rehearsal"]
"""`live`: days as they happen, by the machine's clock. `rehearsal`: past days or a user-supplied
clock; marked as such everywhere, and never shown on a board's live page.
"""


class Stamping(StampAuthority):
    """Time-stamping authority (RFC 3161) that stamps each commitment."""

    required: bool = True  #: whether a decision without a stamp before its cutoff is a gap


class Publishing(Value):
    """Where commitments are published before they can be filled."""

    remote: GitAddress | None = None  #: git remote to push to; null: only commit locally
    branch: str = "main"
    stamp: Stamping | None = None


class PlannedMarket(Value):
    """A market in a plan."""

    #: snapshot folder or data provider for the days before the test; copied when the test begins
    data: Address
    task: str  #: trading task that is run on the market
    data_args: Arguments = msgspec.field(default_factory=dict)
    #: source of the test's days: `drop`, a folder into which files are moved, or the name of a
    #: plugin's source
    source: Address = "drop"
    source_args: Arguments = msgspec.field(default_factory=dict)
    #: wait after the last close of a day before its data are requested
    delay_minutes: Minutes = 15.0


class Entrant(Value):
    """A system that decides: a model, an agent and their settings."""

    name: Name
    model: str
    agent: str = "react"
    model_args: Arguments = msgspec.field(default_factory=dict)
    agent_args: Arguments = msgspec.field(default_factory=dict)
    #: further options of `ktdeval run`, such as temperature or max_cost (for the whole test)
    options: Arguments = msgspec.field(default_factory=dict)
    markets: tuple[Name, ...] = ()  #: names of the entrant's markets; empty: all
    #: first fill day of an entrant who joined later; null: the plan's first day
    first: str | None = None


class LivePlan(Value):
    """A whole forward test."""

    name: Name
    first: str  #: ISO day of the first session on which orders can fill
    last: str  #: ISO day of the last session
    markets: dict[Name, PlannedMarket]
    entrants: tuple[Entrant, ...]
    kind: Kind = "live"
    shadow_days: Annotated[int, msgspec.Meta(ge=0, le=250)] = 0
    """Number of sessions at the start of each market that are recorded but not counted."""
    #: minimum time between a decision's commitment and the earliest time at which it could fill
    margin_minutes: Minutes = 10.0
    #: maximum time for one decision of one entrant, including retries
    deadline_minutes: Minutes = 60.0
    #: entrants with an order or a position on a smaller fraction of the counted days are not ranked
    least_activity: Fraction = 0.05
    #: expected tracking error of the returns against a benchmark, in per cent a year. Intervals are
    #: narrowest after one year at this value. Any value is valid; it can't be changed once the test
    #: has begun
    tracking_error_pct: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 10.0
    #: whether texts stay sealed until the orders fill, with only hashes published before
    sealed: bool = True
    seed: int = 0
    #: drawn when the test begins
    mask_key: str | None = None
    publish: Publishing = Publishing()

    @property
    def id(self) -> str:
        """SHA-256 of the whole plan."""
        return content_hash(to_plain(self))

    def entrant(self, name: str) -> Entrant:
        """Return an entrant by name. Raises ConfigError if there is no such entrant."""
        for entrant in self.entrants:
            if entrant.name == name:
                return entrant
        names = [entrant.name for entrant in self.entrants]
        raise ConfigError(f"no entrant {name!r} in this plan{near_matches(name, names)}")

    def entries(self) -> Iterator[tuple[Entrant, str]]:
        """Yield each entrant with each of its markets, in plan order."""
        for entrant in self.entrants:
            for market in entrant.markets or self.markets:
                yield entrant, market


#: Run options that the plan itself sets
_OWN_OPTIONS = (
    "model", "tasks", "agent", "model_args", "agent_args", "data", "data_args", "windows", "seeds",
    "seed", "mask_key", "registration", "items", "limit", "certificate", "runner", "concurrency",
    "dry_run", "out", "extend", "cache", "canary", "max_hours", "batch", "anchor",
)  # fmt: skip


def load_plan(path: Path) -> LivePlan:
    """Read a plan from YAML. Raises ConfigError with file and field."""
    plan = from_plain(load_yaml(path), LivePlan, str(path), ConfigError)
    check_plan(plan, str(path))
    return _with_certificates(plan, path)


def _with_certificates(plan: LivePlan, path: Path) -> LivePlan:
    """Return the plan with the paths of its certificates replaced by their contents."""
    stamp = plan.publish.stamp
    if stamp is None:
        return plan

    texts = read_certificates(stamp, path, f"{path}: publish.stamp.")
    stamp = msgspec.structs.replace(stamp, **texts)
    publish = msgspec.structs.replace(plan.publish, stamp=stamp)
    return msgspec.structs.replace(plan, publish=publish)


def load_entrant(path: Path) -> Entrant:
    """Read an entrant from YAML. Raises ConfigError with file and field."""
    return from_plain(load_yaml(path), Entrant, str(path), ConfigError)


def check_plan(plan: LivePlan, where: str) -> None:
    """Raise ConfigError, with a message that starts with `where`, if fields of a plan contradict
    each other.
    """
    problem = next(_plan_problems(plan), None)
    if problem is not None:
        raise ConfigError(f"{where}: {problem}")


def _plan_problems(plan: LivePlan) -> Iterator[str]:
    """Yield the contradictions within a plan, one line each."""
    first = parse_day(plan.first, "first: ", ConfigError)
    last = parse_day(plan.last, "last: ", ConfigError)
    if first > last:
        yield "last: is before first; swap the days"
    if not plan.markets:
        yield "markets: name at least one"
    if not plan.entrants:
        yield "entrants: name at least one"

    if plan.mask_key is not None and not re.fullmatch("[0-9a-f]{32}", plan.mask_key):
        yield "mask_key: expected 32 hexadecimal digits; leave it out to have one drawn"

    seen: set[str] = set()
    for index, entrant in enumerate(plan.entrants):
        where = f"entrants[{index}]"
        if entrant.name in seen:
            yield f"{where}.name: {entrant.name} is taken; give each entrant a name of its own"
        seen.add(entrant.name)
        yield from _entrant_problems(plan.markets, entrant, where, (plan.first, plan.last))


def _entrant_problems(
    markets: Mapping[str, PlannedMarket], entrant: Entrant, where: str, days: tuple[str, str]
) -> Iterator[str]:
    for market in entrant.markets:
        if market not in markets:
            yield f"{where}.markets: no market {market!r}{near_matches(market, markets)}"

    for option in entrant.options:
        if option in _OWN_OPTIONS:
            yield f"{where}.options.{option}: is fixed by the plan; leave it out"

    if entrant.first is not None:
        parse_day(entrant.first, f"{where}.first: ", ConfigError)
        if not days[0] <= entrant.first <= days[1]:
            yield f"{where}.first: is outside of the test, {days[0]} to {days[1]}"
