"""Plan of a grid: models × agents × tasks × windows × seeds, as typed values read from YAML or
options.

A *system* is one model with its arguments plus one agent with its arguments. Each system in a grid
produces one ordinary run folder, so a system corresponds to a config of `ktdeval run`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ktdeval.errors import ConfigError, UsageError
from ktdeval.runner import RunConfig, SequentialRule, split_model
from ktdeval.values import (
    Address,
    Arguments,
    JsonValue,
    Value,
    build,
    content_hash,
    from_plain,
    load_yaml,
    split_list,
    to_plain,
)
from ktdeval_grid.planning.pruning_rules import PruneRule, shipped_rule

GridName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9._-]{0,58}[a-z0-9])?$")]
"""Name of a grid; also the name of its folder if no other is given."""

Label = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,58}[A-Za-z0-9])?$")]
"""Short name of a model or an agent; used in paths."""

Page = Literal["report", "views"]
"""Page of a grid, in addition to its index. `report` draws all cards. `views` shows one episode of
each card step by step, which takes as long as a few of the episodes.
"""

_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")
_LABEL_CHARS = 48
_DIGITS = 8  #: number of hash digits in a label

#: run options for which a plan has separate fields, or that belong to the command
_OWN_OPTIONS = (
    "model", "tasks", "agent", "model_args", "agent_args", "data", "data_args", "windows", "seeds",
    "seed", "mask_key", "base_url", "price", "registration", "max_cost", "max_tokens", "max_hours",
    "runner", "concurrency", "dry_run", "out", "extend", "plugin", "quiet", "anchor",
)  # fmt: skip


class PlannedModel(Value):
    """A model in a grid."""

    name: str  #: PROVIDER/NAME, as listed by `ktdeval list models`
    args: Arguments = msgspec.field(default_factory=dict)
    base_url: Address | None = None  #: address of the model's server
    #: US dollars per million tokens: input, output, cache_read, cache_write
    price: Arguments = msgspec.field(default_factory=dict)
    #: options of `ktdeval run` for this model only, such as temperature; they override the plan's
    options: Arguments = msgspec.field(default_factory=dict)
    #: label in names of folders and in tables; null: derived from the name
    label: Label | None = None

    @property
    def short(self) -> str:
        """Label of the model: the given label or, by default, the name with a hash of the arguments
        that differ from their defaults.

        The label depends only on this entry, so adding a model does not rename others.
        """
        if self.label is not None:
            return self.label
        return _label(self.name, [self.args, self.base_url, self.options])

    @property
    def provider(self) -> str:
        """Server of the model: the provider, and the address if one is given."""
        address = self.base_url or self.args.get("base_url") or ""
        return f"{self.name.partition('/')[0]} {address}".strip()


class PlannedAgent(Value):
    """An agent in a grid."""

    name: str = "react"  #: name, as listed by `ktdeval list agents`
    args: Arguments = msgspec.field(default_factory=dict)
    #: label in names of folders and in tables; null: derived from the name
    label: Label | None = None

    @property
    def short(self) -> str:
        """Label of the agent: the given label or, by default, one built from its name and
        arguments.
        """
        return self.label or _label(self.name, [self.args])


class GridPlan(Value):
    """A whole grid."""

    models: tuple[PlannedModel, ...]
    tasks: tuple[str, ...]  #: names, groups or globs
    agents: tuple[PlannedAgent, ...] = (PlannedAgent(),)
    #: names, globs, or FIRST:LAST days; empty: each task's own windows
    windows: tuple[str, ...] = ()
    seeds: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1  #: number of seeds
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0  #: first seed
    name: GridName = "grid"
    data: Address = "synthetic"  #: snapshot folder or data provider
    data_args: Arguments = msgspec.field(default_factory=dict)
    #: further options of `ktdeval run`, for all models
    options: Arguments = msgspec.field(default_factory=dict)
    #: further plugins; each is loaded only where the command line names it, too
    plugin: tuple[str, ...] = ()
    prune: tuple[PruneRule, ...] = ()  #: rules for omitted cells, each with a reason
    #: papers' tables to make at the end, named as in `ktdeval paper table --like`; null: those for
    #: which the cards have figures
    tables: tuple[str, ...] | None = None
    pages: tuple[Page, ...] = ()  #: pages of the bundle, in addition to its index
    #: concurrent episodes over the whole grid; null: as many as the workers have threads
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    max_cost: Annotated[float, msgspec.Meta(ge=0)] | None = None  #: US dollars for the whole grid
    #: input and output tokens for the whole grid
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_hours: Annotated[float, msgspec.Meta(gt=0)] | None = None  #: maximum hours of one launch
    mask_key: str | None = None  #: null: drawn when the grid begins, and recorded
    #: rule that settles the order of two systems on a task; can't be changed after the first unit
    settle: SequentialRule | None = None
    #: `settled`: a system runs no more windows once its order relative to every other system is
    #: settled
    stop_when: Literal["never", "settled"] = "never"


@dataclass(frozen=True)
class PlannedSystem:
    """One model with one agent. Produces one run folder."""

    slug: str  #: name of the system's folder below `runs/`; path-safe, and unique in the plan
    model: PlannedModel
    agent: PlannedAgent
    #: run config without `out`; its `mask_key` is the plan's, which is None until the grid has
    #: begun
    config: RunConfig


def batched_systems(plan: GridPlan) -> frozenset[str]:
    """Return the slugs of the systems in a plan that send their requests in batches."""
    return frozenset(system.slug for system in systems(plan) if system.config.batch)


def load_plan(path: Path) -> GridPlan:
    """Read a plan from YAML. Raises ConfigError with file and field."""
    return plan_of(named_by(path, load_yaml(path)), str(path))


def named_by(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan. If `name` is missing, the file's name is used."""
    stem = _UNSAFE.sub("-", path.stem).lower()
    return {"name": stem[:60].strip("-.") or "grid", **values}


def plan_of(values: Mapping[str, Any], where: str) -> GridPlan:
    """Return the plan given by a mapping in the form that users write.

    Models, agents and rules may be given as bare names, and lists as comma-separated text. Raises
    ConfigError with a message that starts with `where`.
    """
    full = dict(values)
    for name in ("models", "agents"):
        if name in full:
            full[name] = [_entry_mapping(each) for each in _listed_items(full[name])]

    for name in ("tasks", "windows", "plugin", "tables", "pages"):
        if isinstance(full.get(name), str):
            full[name] = list(split_list(full[name]))

    if "prune" in full:
        full["prune"] = [_rule(each, where) for each in _listed_items(full["prune"])]

    plan = from_plain(full, GridPlan, where, ConfigError)
    check_plan(plan, where)
    return plan


def systems(plan: GridPlan, where: str = "plan") -> tuple[PlannedSystem, ...]:
    """Return the systems in a plan: each model with each agent, in plan order.

    Raises ConfigError if an option is unknown, has the wrong type or is out of range.
    """
    made = []
    for index, model in enumerate(plan.models):
        for agent in plan.agents:
            config = _config(plan, model, agent, f"{where}: models[{index}]")
            made.append(PlannedSystem(f"{model.short}_{agent.short}", model, agent, config))

    return tuple(made)


def check_plan(plan: GridPlan, where: str) -> None:
    """Raise ConfigError, with a message that starts with `where`, if fields of a plan contradict
    each other.
    """
    problem = next(_plan_problems(plan), None)
    if problem is not None:
        raise ConfigError(f"{where}: {problem}")

    systems(plan, where)  # raises an error if a run has no such option


def _plan_problems(plan: GridPlan) -> Iterator[str]:
    """Yield the contradictions within a plan, one line each."""
    for name in ("models", "agents", "tasks"):
        if not getattr(plan, name):
            yield f"{name}: name at least one"

    yield from _find_taken(plan.models, "models")
    yield from _find_taken(plan.agents, "agents")
    yield from _find_fixed(plan.options, "options")
    for index, model in enumerate(plan.models):
        yield from _find_fixed(model.options, f"models[{index}].options")

    yield from _settling_problems(plan)
    names = [rule.name for rule in plan.prune]
    for name in sorted(set(names)):
        if names.count(name) > 1:
            yield f"prune: two rules are called {name}; give each a name of its own"


def _settling_problems(plan: GridPlan) -> Iterator[str]:
    if plan.stop_when == "settled" and plan.settle is None:
        yield (
            "stop_when: settled needs the rule that settles an order, `settle: {metric:"
            " total_return, looks: [4, 7, 10], effect: 0.02}`, before the grid begins"
        )
    if plan.settle is not None and len(plan.models) * len(plan.agents) < 2:
        yield "settle: compares systems, and the plan has one; name another model or agent"


def _find_taken(entries: Sequence[PlannedModel | PlannedAgent], where: str) -> Iterator[str]:
    """Yield entries that would share a folder. Names that differ only in case do so, too."""
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        first = seen.setdefault(entry.short.lower(), index)
        if first == index:
            continue
        if entries[first] == entry:
            yield f"{where}[{index}]: {entry.name} is listed twice; leave one out"
        else:
            yield (
                f"{where}[{index}]: has the label {entry.short} of {where}[{first}]; give one of"
                " them another `label`"
            )


def _find_fixed(options: Mapping[str, JsonValue], where: str) -> Iterator[str]:
    for name in options:
        if name in _OWN_OPTIONS:
            yield f"{where}.{name}: is not set here; {_where_set(name)}"


def _where_set(name: str) -> str:
    if name in ("base_url", "price"):
        return f"give `{name}` of the model"
    if name in GridPlan.__struct_fields__:
        return f"give `{name}` of the plan"
    if name in ("model_args", "agent_args"):
        return "give `args` of the model or agent"
    return "leave it out"


def _config(plan: GridPlan, model: PlannedModel, agent: PlannedAgent, where: str) -> RunConfig:
    values: dict[str, Any] = {
        **plan.options,
        **model.options,
        "model": model.name,
        "model_args": model.args,
        "base_url": model.base_url,
        "price": model.price,
        "agent": agent.name,
        "agent_args": agent.args,
        "tasks": plan.tasks,
        "windows": plan.windows,
        "seeds": plan.seeds,
        "seed": plan.seed,
        "data": plan.data,
        "data_args": plan.data_args,
        "mask_key": plan.mask_key,
        "plugin": plan.plugin,
    }
    return build(RunConfig, values, where)


def _label(name: str, details: Sequence[object]) -> str:
    """Return a name as a label, with a hash of the details, if any, and of characters that are
    lost.
    """
    plain = _UNSAFE.sub("-", name).strip("-.")
    label = plain[:_LABEL_CHARS].rstrip("-.")
    is_short = label == name.replace("/", "-") and plain == label
    if is_short and not any(details):
        return label

    digest = content_hash([name, *map(to_plain, details)])[:_DIGITS]
    return f"{label}-{digest}".lstrip("-")


def _listed_items(value: object) -> list[object]:
    """Return the items in a list or in comma-separated text. Any other value is a single item."""
    if isinstance(value, str):
        return list(split_list(value))
    return list(value) if isinstance(value, list | tuple) else [value]


def _entry_mapping(value: object) -> object:
    """Return a model or agent as a mapping, given as text: `NAME` or `NAME(option=value,…)`."""
    if not isinstance(value, str):
        return value

    name, args = split_model(value)
    return {"name": name, "args": args}


def _rule(value: object, where: str) -> object:
    """Return a rule as a mapping, given by name."""
    if not isinstance(value, str):
        return value
    try:
        return to_plain(shipped_rule(value))
    except UsageError as error:
        raise ConfigError(f"{where}: prune: {error}") from error
