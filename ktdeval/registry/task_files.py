"""Files in which plugins declare tasks, venues and paper tables (YAML) or metrics (CSV).

Each task is a variant: there is one YAML file per task family and one `Spec` per variant. A variant
may extend another plugin's task.

A task file is a mapping with these keys:

    family            name of the family; also a group that selects all its variants
    version           text; part of every card
    summary           one line, for variants that give none
    groups            further group names of every variant
    data_card         mapping: what the task needs from market data, and its limits
    sources           list: papers and other origins
    windows           mapping: window name -> {first, last}, ISO days, both ends included
    default_windows   list of window names used when the user names none
    defaults          mapping: config of every variant
    compact           mapping: limit of each option in a compact prompt; without it: no compact prompt
    suffixes          mapping: suffix of a variant's name, such as _flat -> its meaning
    variants          mapping: task name -> overrides of `defaults`

The config of a variant consists of `defaults` and the variant's overrides: mappings are merged key
by key, and any other value is replaced. It also contains `family`, `version`, `data_card`,
`sources`, `windows` and `default_windows`, which a variant may override as well. `summary`,
`groups`, `suffixes` and `extends` are read here and are not part of the config. A variant with
`extends: NAME` starts from the config of the task NAME, which may belong to another plugin, and is
built by that task's maker.

Metrics are the rows of a CSV table. There is one table per family, with the columns name, formula,
unit, better, low, high, source, summary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ktdeval import market
from ktdeval.errors import ConfigError, UsageError
from ktdeval.hookspecs import COMPACT, Spec, hookimpl
from ktdeval.market.venues.execution import LEFT_OUT, presets
from ktdeval.registry.task_settings import EXECUTIONS
from ktdeval.values.disk.files import csv_rows
from ktdeval.values.documents.yamlio import load_yaml, load_yaml_as
from ktdeval.values.lazy import later, maker
from ktdeval.values.options.config_options import check_plain, convert, near_matches, to_mapping

if TYPE_CHECKING:
    from ktdeval.stats import FunctionMetric

PlainConfig = Mapping[str, Any]  #: resolved config of a variant: plain YAML values

TaskMaker = Callable[[str, PlainConfig, str], Any]
"""`make(name, config, where)` builds a `Task`. `where` is the file and variant with which error
messages begin.
"""

ITEMS_KEY = "items_from"
"""Config key under which a task's maker receives the source of samples that the user named with
`--items`.
"""

_FILE_HINTS: dict[str, Any] = {
    **dict.fromkeys(("family", "version", "summary"), str),
    **dict.fromkeys(("groups", "default_windows"), tuple[str, ...]),
    **dict.fromkeys(("data_card", "windows", "defaults", "compact", "variants"), dict[str, Any]),
    "suffixes": dict[str, str],
    "sources": tuple[Any, ...],
}
_NAMES = ("family", "version", "extends")
_REQUIRED = ("family", "version", "variants")
_SHARED = ("data_card", "sources", "windows", "default_windows")
_VARIANT_HINTS: dict[str, Any] = {
    "extends": str,
    **{key: _FILE_HINTS[key] for key in ("family", "version", "summary", "groups", *_SHARED)},
}


@dataclass(frozen=True, eq=False)
class UnresolvedVariant:
    """Variant in a task file, before it is resolved against the task that it extends."""

    name: str
    where: str  #: file and variant, for use in error messages
    layers: tuple[PlainConfig, ...]  #: mappings to merge, lowest precedence first
    extends: str | None  #: name of the extended task, if any
    summary: str  #: summary in listings; if it is "", the extended task's summary is used
    groups: tuple[str, ...]
    compact: PlainConfig  #: limits of options in a compact prompt
    family_summary: str  #: summary of the family; "" if the file does not give one
    suffixes: Mapping[str, str]  #: name suffixes in the file, with their meanings


def task_specs(path: Path | str, make: TaskMaker | None = None) -> list[Spec]:
    """Return the tasks in a YAML file, for a plugin's `ktdeval_tasks` hook.

    `make` builds a task of this family. It may be omitted if every variant extends another task.
    Raises ConfigError, which names the file and the key, if the file is unreadable or not YAML, or
    if a key is duplicate, unknown, missing or ill-typed.

    Example:
        task_specs(Path("mine.yaml"))[0].name  # my_short_week
    """
    specs = []
    # cached, since commands load their plugins repeatedly
    for variant in load_yaml_as(path, _read_variants):
        if variant.extends is None and make is None:
            raise ConfigError(
                f"{variant.where}: name the task that it builds on, as in `extends:"
                " blinded_open_research`"
            )

        extra = {"variant": variant, "make": make}
        specs.append(
            Spec(
                variant.name,
                partial(_refuse_reference, variant.where),
                variant.summary,
                groups=variant.groups,
                extra=extra,
            )
        )

    return specs


def _refuse_reference(where: str) -> Any:
    raise ConfigError(
        f"{where}: this task is not resolved yet; get it through `load_plugins().make_task(...)`"
    )


def _read_variants(content: PlainConfig, where: str) -> tuple[UnresolvedVariant, ...]:
    for key in content:
        if key not in _FILE_HINTS:
            raise ConfigError(f"{where}: unknown key {key!r}{near_matches(key, _FILE_HINTS)}")

    for key in _REQUIRED:
        if key not in content:
            raise ConfigError(f"{where}: key {key!r} is missing")

    _check_types(content, _FILE_HINTS, where)
    if not content["variants"]:
        raise ConfigError(f"{where}: variants: expected at least one task, was an empty mapping")

    return tuple(
        _read_variant(f"{where}: variants: {name}", content, name, own)
        for name, own in content["variants"].items()
    )


def _read_variant(where: str, content: PlainConfig, name: str, overrides: Any) -> UnresolvedVariant:
    overrides = {} if overrides is None else overrides
    if not isinstance(overrides, Mapping):
        raise ConfigError(
            f"{where}: expected a mapping of overrides, was {type(overrides).__name__}"
        )

    _check_types(overrides, _VARIANT_HINTS, where)
    shared = {key: content[key] for key in ("family", "version", *_SHARED) if key in content}
    own = {
        key: value
        for key, value in overrides.items()
        if key not in ("extends", "summary", "groups")
    }
    layers = (shared, content.get("defaults", {}), own)
    summary = str(overrides.get("summary", content.get("summary", "")))
    groups = dict.fromkeys(
        (
            str(own.get("family", content["family"])),
            *content.get("groups", ()),
            *overrides.get("groups", ()),
        )
    )

    family_summary = ""
    if own.get("family", content["family"]) == content["family"]:
        family_summary = str(content.get("summary", ""))

    return UnresolvedVariant(
        name,
        where,
        layers,
        overrides.get("extends"),
        summary,
        tuple(groups),
        content.get("compact", {}),
        family_summary,
        content.get("suffixes", {}),
    )


def task_maker(task: str, config: str) -> TaskMaker:
    """Return the maker for a task family, which calls the class `task` with a name and with the
    result of `load` of the class `config`.

    Both classes are given as `module:Class`, and are imported when the first task is made.
    """
    return lambda name, values, where: later(task)()(name, later(config)().load(values, where))


def venue_specs(path: Path | str) -> list[Spec]:
    """Return the venues in a YAML file, for a plugin's `ktdeval_venues` hook. The file maps names
    to fields.

    With `like: us_equity`, missing fields are taken from this built-in venue. Raises ConfigError if
    a venue is not a mapping, or if a value is unknown or impossible.
    """
    return _named_specs(path, _make_venue, "summary")


def table_specs(path: Path | str) -> list[Spec]:
    """Return the tables in a YAML file, for a plugin's `ktdeval_tables` hook. The file maps names
    to fields of `ktdeval.registry.paper_tables.PaperTable`.

    Raises ConfigError if a table is not a mapping. Unknown, missing or ill-typed fields only raise
    ConfigError when the table is made.
    """
    return _named_specs(path, maker("ktdeval.registry.paper_tables:read_table"), "caption")


def _named_specs(path: Path | str, make: Callable[..., Any], summary: str) -> list[Spec]:
    """Return a spec for each name in a YAML file. `make` is called with the location and the
    fields, and `summary` is the field with the summary.
    """
    specs = []
    for name, fields in load_yaml(path).items():
        where = f"{path}: {name}"
        if not isinstance(fields, Mapping):
            raise ConfigError(f"{where}: expected a mapping of fields, was {type(fields).__name__}")

        made = partial(make, where, {**fields, "name": name})
        specs.append(Spec(name, made, str(fields.get(summary, ""))))

    return specs


def _make_venue(where: str, fields: PlainConfig) -> Any:
    like = fields.get("like")
    base = {} if like is None else to_mapping(market.find_venue(str(like)))
    return market.parse_venue(
        {**base, **{key: value for key, value in fields.items() if key != "like"}}, where
    )


def resolve_variants(specs: Mapping[str, Spec]) -> tuple[dict[str, Spec], dict[str, ConfigError]]:
    """Resolve every variant against the task that it extends.

    Returns the resolved specs, whose `make` takes no arguments. The `extra` mapping of a variant
    has the keys `config`, `make`, `where`, `extends` and `lineage`. Tasks that do not come from a
    task file are returned unchanged.

    Also returns the reasons why variants were left out, keyed by name. A variant is left out if it
    extends an unknown task, a task that is not made from a task file, or (through a cycle) itself.
    """
    resolved: dict[str, Spec] = {}
    problems: dict[str, ConfigError] = {}
    for name in specs:
        try:
            _resolve(name, specs, resolved, ())
        except ConfigError as error:
            problems[name] = error

    return {name: resolved[name] for name in specs if name in resolved}, problems


def _resolve(
    name: str, specs: Mapping[str, Spec], resolved: dict[str, Spec], chain: tuple[str, ...]
) -> Spec:
    if name in resolved:
        return resolved[name]

    spec = resolved_spec = specs[name]
    variant = spec.extra.get("variant")
    if isinstance(variant, UnresolvedVariant):
        lineage = (variant,)
        make = spec.extra["make"]
        summary = variant.summary

        if variant.extends is not None:
            base = _resolve_base(variant, specs, resolved, (*chain, name))
            lineage = (*base.extra["lineage"], variant)
            make = base.extra["make"]
            summary = summary or base.summary

        extra = {
            "make": make,
            "where": variant.where,
            "extends": variant.extends,
            "lineage": lineage,
        }
        resolved_spec = _configure_spec(
            replace(spec, extra=extra), name, _merge_lineage(lineage), summary
        )

    resolved[name] = resolved_spec
    return resolved_spec


def _resolve_base(
    variant: UnresolvedVariant,
    specs: Mapping[str, Spec],
    resolved: dict[str, Spec],
    chain: tuple[str, ...],
) -> Spec:
    """Resolve the task that a variant extends. `chain`: names being resolved, of which the variant
    is the last.
    """
    where = variant.where
    extends = str(variant.extends)
    if extends not in specs:
        raise ConfigError(
            f"{where}: extends: no task"
            f" {extends!r}{near_matches(extends, set(specs) - {variant.name})}"
        )
    if extends in chain:
        raise ConfigError(
            f"{where}: extends: a circular reference, {' -> '.join((*chain, extends))}"
        )

    base = _resolve(extends, specs, resolved, chain)
    if "config" not in base.extra:
        raise ConfigError(
            f"{where}: extends: task {extends!r} is not made from a task file, so it can't be"
            " extended"
        )

    return base


def _configure_spec(spec: Spec, name: str, config: PlainConfig, summary: str) -> Spec:
    """Return the task `name`, which is `spec` made with a different config."""
    make = partial(spec.extra["make"], name, config, spec.extra["where"])
    extra = MappingProxyType({**spec.extra, "config": config})
    return replace(spec, name=name, make=make, summary=summary, extra=extra)


@lru_cache(maxsize=1024)
def _merge_lineage(lineage: tuple[UnresolvedVariant, ...]) -> PlainConfig:
    """Return a variant's config, which is merged once per process. `lineage` starts with the task
    that extends no other and ends with the variant itself.
    """
    return merge_layers([layer for variant in lineage for layer in variant.layers])


def merge_layers(layers: Sequence[PlainConfig]) -> dict[str, Any]:
    """Merge mappings, lowest precedence first, without modifying them. Nested mappings are merged
    key by key, and any other value is replaced.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, Mapping):
                below = merged.get(key)
                merged[key] = merge_layers(
                    (below, value) if isinstance(below, Mapping) else (value,)
                )
            else:
                merged[key] = value

    return merged


# ---- settings encoded in a name


def derived_spec(spec: Spec, name: str, suffix: str) -> Spec:
    """Return the task `name`, which is `spec` with the setting that the name's suffix gives. Raises
    UsageError if the task does not support the setting.
    """
    if suffix == COMPACT:
        return compact_spec(spec, name)
    return execution_spec(spec, name)


# ---- compact prompts


def compact_spec(spec: Spec, name: str) -> Spec:
    """Return the task `name`, which is `spec` with a compact prompt. Raises UsageError if the task
    has no compact prompt.
    """
    layers = [variant.compact for variant in spec.extra.get("lineage", ())]
    most = merge_layers(layers)
    if not most:
        raise UsageError(
            f"task {spec.name} has no compact prompt: only trading tasks have one; a probe or a"
            " question is shown whole"
        )

    config, left_out = _at_most(spec.extra["config"], most)
    config |= {
        "version": f"{config['version']}{COMPACT.replace('_', '-')}",
        "prompt": "compact",
        "left_out": [*left_out, "open, high and low", "digits beyond three"],
    }
    return _configure_spec(spec, name, config, f"{spec.summary}; compact prompt")


# ---- execution


def execution_spec(spec: Spec, name: str) -> Spec:
    """Return the task `name`, which is `spec` with the execution model that the name's suffix
    gives. Raises UsageError if the task executes no orders.
    """
    suffix = name[len(spec.name) :]
    execution = EXECUTIONS[suffix]
    config = spec.extra.get("config", {})
    if "trading" not in config:
        raise UsageError(
            f"task {spec.name} executes no orders, so {execution} has no effect; leave {suffix}"
            " out, or name a trading task (see `ktdeval list tasks`)"
        )

    card = dict(config.get("data_card", {}))
    card["not_modelled"] = _not_modelled(str(card.get("not_modelled", "")), execution)
    changed = {
        **config,
        "version": f"{config['version']}{suffix.replace('_', '-')}",
        "data_card": card,
        "trading": {**config["trading"], "execution": execution},
    }
    return _configure_spec(spec, name, changed, f"{spec.summary}; execution {execution}")


def _not_modelled(words: str, execution: str) -> str:
    """Return the list of what a task does not model, adapted to its execution model."""
    chosen = presets()[execution]
    modelled = set()
    if chosen.impact:
        modelled.add("market impact")
    if chosen.max_participation is not None:
        modelled.add("partial fills by volume")

    kept = [item for item in words.split(", ") if item and item not in modelled]
    return ", ".join([*kept, LEFT_OUT[execution]])


def _at_most(config: PlainConfig, most: PlainConfig) -> tuple[dict[str, Any], list[str]]:
    """Return a config in which options are reduced to their limits, and descriptions of the
    reductions. Options that the config does not set, or sets to null, are not added.
    """
    bounded = dict(config)
    left_out: list[str] = []
    for name, limit in most.items():
        value = config.get(name)
        if isinstance(value, Mapping) and isinstance(limit, Mapping):
            bounded[name], inner = _at_most(value, limit)
            left_out += inner
        elif isinstance(value, int) and value > limit:
            bounded[name] = limit
            left_out.append(f"{name} {limit} of {value}")

    return bounded, left_out


def _check_types(mapping: PlainConfig, hints: Mapping[str, Any], where: str) -> None:
    for key, value in mapping.items():
        if key in hints:
            convert(hints[key], value, f"{where}: {key}")

        if (key in _NAMES and not value) or (key == "groups" and "" in value):
            raise ConfigError(f"{where}: {key}: expected text, was ''; fill it in")

        if key in ("data_card", "sources"):  # free-form contents, which appear on the run's card
            check_plain(value, f"{where}: {key}")


class TaskFile:
    """Plugin made from a single task file outside any package. Each of its variants extends an
    installed task.
    """

    def __init__(self, path: str) -> None:
        self._specs = task_specs(path)
        self.names = tuple(spec.name for spec in self._specs)

    @hookimpl
    def ktdeval_tasks(self) -> list[Spec]:
        """Return the tasks in the file."""
        return self._specs


# ---- metrics

_rows = cache(csv_rows)  # cached, since a command may load its plugins several times


def metric_specs(path: Path | str, figure: str) -> list[Spec]:
    """Return the metrics in a table, for a plugin's `ktdeval_metrics` hook.

    `figure`: a function, given as `module:function`, that makes a metric from its name. It is
    imported when the first metric is made.
    """
    return [
        Spec(row["name"], maker(figure, row["name"]), row["summary"]) for row in _rows(Path(path))
    ]


def table_metrics(
    path: Path | str, function_of: Callable[[str], Callable[..., Any]]
) -> dict[str, FunctionMetric]:
    """Make the metrics in a table, keyed by name. `function_of` returns the function for
    each name.
    """
    describe_metric = later(
        "ktdeval.stats.metric:describe_metric"
    )()  # manifests import this module
    return {
        row["name"]: describe_metric(row, function_of(row["name"])) for row in _rows(Path(path))
    }


def find_figure(family: str, figures: Mapping[str, FunctionMetric], name: str) -> FunctionMetric:
    """Return a metric of a family. Raises UsageError if the family has no metric with this name."""
    if name not in figures:
        raise UsageError(f"unknown figure {name!r} of {family}{near_matches(name, figures)}")
    return figures[name]
