"""Plan of a run: its episodes and task descriptions, checked before the run starts."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktdeval.attribution.style_factors import FACTORS
from ktdeval.cards.card_reading import ATTACHED, load_card
from ktdeval.cards.fields.knowledge.listed_cutoffs import run_cutoff
from ktdeval.cards.fields.origin.task import BY_ACCOUNT, NEVER_RANKED
from ktdeval.errors import DataError, PluginError, UsageError
from ktdeval.harness.chat_messages import ToolProtocol
from ktdeval.harness.traits import model_traits
from ktdeval.market.rules.calendar import parse_day, window_rows
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.plans.additional_models import own_model
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.lot_costs import notes_on_lots
from ktdeval.runner.plans.warm_up_notes import missing_warm_ups
from ktdeval.task_api.episode_spec import EpisodeSpec, FurtherModel, Window
from ktdeval.task_api.scoring import (
    ScoringTask,
    TargetTask,
    is_scoring,
    market_problem,
    needs_market,
)
from ktdeval.task_api.trading_task import Task, describe_task
from ktdeval.task_api.traits import task_traits
from ktdeval.trading.market_rules import MarketRules
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.hashes import content_hash
from ktdeval.values.options.config_options import near_matches, split_local


def target_task_of(task: ScoringTask, plugins: Plugins) -> TargetTask | None:
    """Return the trading task that a scoring task refers to; None if it refers to no task.

    Raises UsageError if that task does not exist; PluginError if it is not a trading task.
    """
    if task.target_task is None:
        return None

    target_task = plugins.make_task(task.target_task)
    if is_scoring(target_task):
        raise PluginError(
            f"task {task.name}: its target_task {task.target_task} is not a trading task; choose"
            " one"
        )

    return TargetTask(target_task, plugins.tools(target_task.tools))


def describe_any(task: Any, plugins: Plugins) -> dict[str, JsonValue]:
    """Return everything about a task that can change an outcome, including its target task and any
    trait that keeps its cards out of rankings.
    """
    description = describe_task(task, plugins.tools(task.tools))
    traits = task_traits(task)
    if traits.never_ranked:
        description[NEVER_RANKED] = traits.never_ranked
    if traits.identifiable_by_account:
        description[BY_ACCOUNT] = True

    if not is_scoring(task):
        return description

    target_task = target_task_of(task, plugins)
    if target_task is None:
        return description
    return {**description, "subject_config": describe_task(target_task.task, target_task.tools)}


_DATE_RANGE = re.compile(r"(\d{4}-\d{2}-\d{2}):(\d{4}-\d{2}-\d{2})")


@dataclass(frozen=True)
class Plan:
    """Episodes of a run, in order, and the task objects that they refer to."""

    tasks: Mapping[str, Task]
    specs: tuple[EpisodeSpec, ...]
    notes: tuple[str, ...] = ()  #: notes about these episodes, one sentence each

    def specs_of(self, task: str) -> tuple[EpisodeSpec, ...]:
        """Return the episodes of one task."""
        return tuple(spec for spec in self.specs if spec.task == task)


def choose_tasks(config: RunConfig, plugins: Plugins) -> Mapping[str, Task]:
    """Return the tasks that a config names, after checking every other name in the config.

    Raises KtdevalError; if a name is unknown, the message suggests similar names.
    """
    tasks: dict[str, Task] = {}
    for name in plugins.resolve_tasks(config.tasks):
        tasks[name] = plugins.make_task(name, config.items)

    model = own_model(config, plugins)
    plugins.make_agent(config.agent, config.agent_args)
    plugins.make_runner(config.runner)
    metrics: list[str] = []
    for task in tasks.values():
        if not is_scoring(task):
            metrics.extend(task.metrics)

    for name in dict.fromkeys([*metrics, *config.metrics]):
        plugins.make_metric(name)

    _check_windows(config, model, tasks.values())
    run_cutoff(config.model, config.model_args, config.knowledge_cutoff)
    if config.certificate is not None:
        load_card(config.certificate, ATTACHED)  # checked before any market is generated or read

    refuse_market(tasks.values(), config, RunConfig(config.model, config.tasks))
    return tasks


def _check_windows(config: RunConfig, model: object, tasks: Iterable[Task]) -> None:
    """Raise UsageError if the model rejects a window."""
    window_problem = model_traits(model).window_problem
    if window_problem is None:
        return

    where = f"model {config.model}: window_problem()"
    for task in tasks:
        for window in choose_windows(task, config.windows):
            if window is None:
                continue

            problem = call_foreign(window_problem, where, window)
            if problem:
                raise UsageError(str(problem))


def refuse_market(tasks: Iterable[Any], given: object, usual: object) -> None:
    """Raise UsageError if market options are set although no task needs a market.

    `usual` holds the default values of the options in `given`.
    """
    if any(map(needs_market, tasks)):
        return

    for name in ("windows", "market", "data", "data_args", "mask_key"):
        if getattr(given, name, None) != getattr(usual, name, None):
            raise UsageError(
                f"--{name.replace('_', '-')}: none of these tasks needs a market; omit the option"
            )


def make_plan(
    config: RunConfig,
    plugins: Plugins,
    tasks: Mapping[str, Task],
    snapshot: MarketSnapshot | None,
    protocol: ToolProtocol | None,
    further: tuple[FurtherModel, ...] = (),
) -> Plan:
    """Return the plan of a run: one episode for each task, window and seed.

    `protocol` is None for a local model; `further` are the run's additional models. Raises
    UsageError or DataError.
    """
    specs = []
    agent_args, _ = split_local(plugins.spec("agents", config.agent).params, config.agent_args)
    call = call_parameters(config, protocol)
    for task in tasks.values():
        description = call_foreign(describe_any, f"task {task.name}", task, plugins)
        task_hash = call_foreign(content_hash, f"task {task.name}: describe()", description)
        for window in choose_windows(task, config.windows):
            if window is not None and snapshot is not None:
                problem = market_problem(task, snapshot)
                if problem:
                    raise DataError(problem)

                if not is_scoring(task):
                    # raises if the account would need another currency
                    MarketRules.of(snapshot, task.trading)

                window_rows(snapshot.days, window.first, window.last)

            specs += [
                EpisodeSpec(
                    task=task.name,
                    task_version=task.version,
                    task_hash=task_hash,
                    snapshot=None if window is None or snapshot is None else snapshot.id,
                    mask=task.mask,
                    mode=task.mode,
                    window=window,
                    model=config.model,
                    model_args=dict(config.model_args),
                    agent=config.agent,
                    agent_args=agent_args,
                    call=call,
                    seed=seed,
                    limit=config.limit,
                    mask_key=None if window is None else config.mask_key,
                    further_models=further,
                )
                for seed in range(config.seed, config.seed + config.seeds)
            ]

    notes = _notes_on_options(config)
    if snapshot is not None:
        windows = dict.fromkeys(spec.window for spec in specs if spec.window is not None)
        notes.extend(_short_histories(snapshot, windows))
        notes.extend(_names_of_one_day(snapshot, specs))
        traded = [task for task in tasks.values() if not is_scoring(task)]
        notes.extend(notes_on_lots(traded, snapshot, windows))

    for task in tasks.values():
        notes.extend(missing_warm_ups(task, [spec for spec in specs if spec.task == task.name]))

    return Plan(tasks, tuple(specs), tuple(notes))


def _notes_on_options(config: RunConfig) -> list[str]:
    """Return notes about options that are valid but rarely intended."""
    notes = []
    reasoning = config.reasoning_tokens
    limit = config.max_output_tokens
    if reasoning is not None and limit is not None and reasoning >= limit:
        notes.append(
            f"--reasoning-tokens {reasoning} is not below --max-output-tokens"
            f" {limit}: with most providers, reasoning is part of the reply,"
            " which would be truncated before the answer"
        )

    return notes


def _names_of_one_day(snapshot: MarketSnapshot, specs: Iterable[EpisodeSpec]) -> Iterator[str]:
    """Yield a warning if tasks show names and codes that all date from a single, possibly later,
    day.
    """
    showing: dict[str, None] = {}
    for spec in specs:
        if spec.snapshot and spec.mask in ("bright", "date_blind"):
            showing[spec.task] = None

    has_names = not snapshot.meta.synthetic and snapshot.names != snapshot.codes
    is_undated = has_names and not snapshot.spells
    if showing and is_undated:
        yield (
            f"{', '.join(showing)}: names and codes are from a single day; if that day is later,"
            " they reveal the future; import dated names (--names)"
        )


def _short_histories(snapshot: MarketSnapshot, windows: Iterable[Window]) -> Iterator[str]:
    """Yield a warning for each window that has less earlier data than some factors look back on."""
    for window in windows:
        past_days = window_rows(snapshot.days, window.first, window.last)[0]
        short = [
            f"{factor.name} ({factor.window})" for factor in FACTORS if factor.window > past_days
        ]
        if short:
            yield (
                f"window {window.name}: only {past_days} days of data precede it, and some factors"
                f" look back further: {', '.join(short)}; at first they are undefined or based on"
                " fewer days"
            )


def call_parameters(config: RunConfig, protocol: ToolProtocol | None) -> dict[str, JsonValue]:
    """Return the call parameters that a spec records. Unset parameters are null or omitted: they are
    not sent, so an agent's own program or the provider chooses their values. Those of the transport
    are never recorded (`TRANSPORT`).
    """
    call = {name: getattr(config, name) for name in ("temperature", "max_output_tokens")}
    optional = {
        "reasoning_effort": config.reasoning_effort,
        "reasoning_tokens": config.reasoning_tokens,
        "tool_protocol": protocol,
    }
    for name, value in optional.items():
        if value is not None:
            call[name] = value

    return call


def as_recorded(
    planned: Sequence[EpisodeSpec], recorded: Sequence[EpisodeSpec]
) -> tuple[EpisodeSpec, ...]:
    """Return planned episodes, each as it is recorded if an earlier version recorded it with
    parameters of the transport.
    """
    known = {spec.identity: spec for spec in recorded}
    return tuple(known.get(spec.identity, spec) for spec in planned)


def as_first_recorded(spec: EpisodeSpec, timeout_s: float) -> EpisodeSpec:
    """Return a spec as versions recorded it that counted the time limit of calls as part of it."""
    return replace(spec, call={**spec.call, "timeout_s": timeout_s})


def under_known_ids(
    planned: Sequence[EpisodeSpec],
    recorded: Sequence[EpisodeSpec],
    ids: Collection[str],
    timeout_s: float,
) -> tuple[EpisodeSpec, ...]:
    """Return planned episodes under the ids that a folder (`recorded`), or the whole run of which it
    is a part (`ids`), has for them. `timeout_s`: time limit that the run was begun with.
    """
    specs = []
    for spec in as_recorded(planned, recorded):
        first = as_first_recorded(spec, timeout_s)
        specs.append(first if first.id in ids else spec)

    return tuple(specs)


def choose_windows(task: Task | ScoringTask, wanted: Sequence[str]) -> tuple[Window | None, ...]:
    """Return the windows of a task that are selected by name, glob or FIRST:LAST date range.

    If `wanted` is empty, returns the task's default windows. For a task without a market, returns
    `(None,)`. Raises UsageError if a window is unknown, or if the same days are selected twice.
    """
    if not needs_market(task):
        return (None,)

    chosen: dict[str, Window] = {}
    for text in wanted or task.default_windows:
        match = _DATE_RANGE.fullmatch(text)
        if match:
            for day in match.groups():
                parse_day(day, f"window {text!r}: ", UsageError)

            if match[1] > match[2]:
                raise UsageError(f"window {text!r}: the first day is after the last")

            chosen[text] = Window(text, match[1], match[2])
            continue

        names = [name for name in task.windows if fnmatch.fnmatchcase(name, text)]
        if not names:
            unknown = f"task {task.name} has no window {text!r}{near_matches(text, task.windows)}"
            raise UsageError(f"{unknown} (it has {', '.join(task.windows)}; or FIRST:LAST days)")

        chosen.update((name, task.windows[name]) for name in names)

    _refuse_equal_days(chosen)
    return tuple(chosen.values())


def _refuse_equal_days(chosen: Mapping[str, Window]) -> None:
    """Raise UsageError if a FIRST:LAST range covers the same days as another window.

    Two named windows of a task may cover the same days, since their warm-ups may differ.
    """
    for text, window in chosen.items():
        if not _DATE_RANGE.fullmatch(text):
            continue

        equal = [
            name
            for name, other in chosen.items()
            if Window(text, other.first, other.last) == window
        ]
        if len(equal) > 1:
            raise UsageError(
                f"windows {' and '.join(equal)} cover the same days, which would count twice;"
                " choose one of them"
            )


def in_turn(work: Sequence[EpisodeSpec]) -> list[EpisodeSpec]:
    """Return episodes in execution order: task by task, and within each task in an order drawn from
    the mask key.

    The plan's order is public. If episodes ran in that order, an endpoint would know, under any
    mask, that the first episode it sees belongs to the first window.
    """
    task_turns: dict[str, int] = {}
    turns: dict[str, int] = {}
    for number, spec in enumerate(work):
        task_turns.setdefault(spec.task, number)
        turns[spec.id] = number
        if spec.mask_key is not None:
            turns[spec.id] = spec.hidden_seed("turn")

    return sorted(work, key=lambda spec: (task_turns[spec.task], turns[spec.id]))
