"""Plan of a run, made from its config: its episodes, with whole descriptions of tasks; checked before anything runs."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval.attribution.factors import FACTORS
from ktdeval.cards.check import ATTACHED, load_card
from ktdeval.cards.cutoff import run_cutoff
from ktdeval.config import RunConfig
from ktdeval.contracts.scoring import ScoringTask, TargetTask, is_scoring, market_problem, needs_market
from ktdeval.contracts.spec import EpisodeSpec, Window
from ktdeval.contracts.task import Task, describe_task
from ktdeval.errors import DataError, PluginError, UsageError
from ktdeval.fields import near_matches
from ktdeval.harness.messages import ToolProtocol
from ktdeval.jsonio import JsonValue, content_hash
from ktdeval.market.calendar import window_rows
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.plugin_import import call_foreign
from ktdeval.registry import Plugins
from ktdeval.trading.market_tape import MarketRules


def target_task_of(task: ScoringTask, plugins: Plugins) -> TargetTask | None:
    """Return the trading task that a scoring task names, or None. Raises UsageError where there is no such task, PluginError where
    it can't trade.
    """
    if task.target_task is None:
        return None
    target_task = plugins.make_task(task.target_task)
    if is_scoring(target_task):
        raise PluginError(f"task {task.name}: its target_task {task.target_task} does not trade; name a trading task")
    return TargetTask(target_task, plugins.tools(target_task.tools))


def describe_any(task: Any, plugins: Plugins) -> dict[str, JsonValue]:
    """Return all of a task that can change an outcome (`describe_task`); of a scoring task with all of its target task."""
    description = describe_task(task, plugins.tools(task.tools))
    if not is_scoring(task) or (target_task := target_task_of(task, plugins)) is None:
        return description
    return {**description, "subject_config": describe_task(target_task.task, target_task.tools)}


_DATE_RANGE = re.compile(r"(\d{4}-\d{2}-\d{2}):(\d{4}-\d{2}-\d{2})")


@dataclass(frozen=True)
class Plan:
    """Episodes of a run, in order, and the task objects that they name."""

    tasks: Mapping[str, Task]
    specs: tuple[EpisodeSpec, ...]
    notes: tuple[str, ...] = ()  #: what to know of the market for these episodes, a sentence each

    def specs_of(self, task: str) -> tuple[EpisodeSpec, ...]:
        """Return the episodes of one task."""
        return tuple(spec for spec in self.specs if spec.task == task)


def choose_tasks(config: RunConfig, plugins: Plugins) -> Mapping[str, Task]:
    """Return the tasks of a config, after a check of every other name in it. Raises KtdevalError, with near matches."""
    tasks: dict[str, Task] = {name: plugins.make_task(name, config.items) for name in plugins.resolve_tasks(config.tasks)}
    window_problem = getattr(plugins.make_model(config.model, config.model_args), "window_problem", None)
    plugins.make_agent(config.agent, config.agent_args)
    plugins.make_runner(config.runner)
    trading = [task for task in tasks.values() if not is_scoring(task)]
    for name in dict.fromkeys((*(name for task in trading for name in task.metrics), *config.metrics)):
        plugins.make_metric(name)
    where = f"model {config.model}: window_problem()"
    for task in tasks.values():
        for window in choose_windows(task, config.windows):
            if window is not None and window_problem is not None and (problem := call_foreign(window_problem, where, window)):
                raise UsageError(str(problem))
    run_cutoff(config.model, config.model_args, config.knowledge_cutoff)
    if config.certificate is not None:
        load_card(config.certificate, ATTACHED)  # a slip shows before a market is made or read
    refuse_market(tasks.values(), config, RunConfig(config.model, config.tasks))
    return tasks


def refuse_market(tasks: Iterable[Any], given: object, usual: object) -> None:
    """Raise UsageError where none of the tasks asks about a market, and `given` says which one, other than `usual`."""
    for name in () if any(map(needs_market, tasks)) else ("windows", "market", "data", "data_args", "mask_key"):
        if getattr(given, name, None) != getattr(usual, name, None):
            raise UsageError(f"--{name.replace('_', '-')}: none of these tasks asks about a market; leave it out")


def make_plan(
    config: RunConfig, plugins: Plugins, tasks: Mapping[str, Task], snapshot: MarketSnapshot | None, protocol: ToolProtocol | None
) -> Plan:
    """Return all tasks × windows × seeds; `protocol` is None for a model of this machine. Raises UsageError or DataError."""
    specs = []
    call = call_parameters(config, protocol)
    for task in tasks.values():
        description = call_foreign(describe_any, f"task {task.name}", task, plugins)
        task_hash = call_foreign(content_hash, f"task {task.name}: describe()", description)
        for window in choose_windows(task, config.windows):
            if window is not None and snapshot is not None:
                if problem := market_problem(task, snapshot):
                    raise DataError(problem)
                if not is_scoring(task):
                    MarketRules.of(snapshot, task.trading)  # raises where the account would be of another currency
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
                    agent_args=dict(config.agent_args),
                    call=call,
                    seed=seed,
                    limit=config.limit,
                    mask_key=None if window is None else config.mask_key,
                )
                for seed in range(config.seed, config.seed + config.seeds)
            ]
    windows = {spec.window: None for spec in specs if spec.window is not None}
    notes = () if snapshot is None else (*_short_histories(snapshot, windows), *_names_of_one_day(snapshot, specs))
    return Plan(tasks, tuple(specs), notes)


def _names_of_one_day(snapshot: MarketSnapshot, specs: Iterable[EpisodeSpec]) -> Iterator[str]:
    """Say which tasks show names and codes of one day only, which may be later ones."""
    showing = dict.fromkeys(spec.task for spec in specs if spec.snapshot and spec.mask in ("bright", "date_blind"))
    is_undated = not snapshot.meta.synthetic and not snapshot.spells and snapshot.names != snapshot.codes
    if showing and is_undated:
        yield (
            f"{', '.join(showing)}: names and codes are shown as they were on one day; a later one tells what came after;"
            " import dated names (--names)"
        )


def _short_histories(snapshot: MarketSnapshot, windows: Iterable[Window]) -> Iterator[str]:
    """Name the factors that look back further than the data before a window's first decision."""
    for window in windows:
        past_days = window_rows(snapshot.days, window.first, window.last)[0]
        short = [f"{factor.name} ({factor.window})" for factor in FACTORS if factor.window > past_days]
        if short:
            yield (
                f"window {window.name}: {past_days} days of data lie before it, and factors look back further: {', '.join(short)};"
                " until then they are undefined or rest on fewer days"
            )


def call_parameters(config: RunConfig, protocol: ToolProtocol | None) -> dict[str, JsonValue]:
    """Return the fields of `CallParams` that can change a reply, less those left to the provider: a spec holds them."""
    call = {name: getattr(config, name) for name in ("temperature", "max_output_tokens", "timeout_s")}
    optional = {"reasoning_effort": config.reasoning_effort, "reasoning_tokens": config.reasoning_tokens, "tool_protocol": protocol}
    return call | {name: value for name, value in optional.items() if value is not None}


def choose_windows(task: Task | ScoringTask, wanted: Sequence[str]) -> tuple[Window | None, ...]:
    """Return the windows named: names, globs, dates; the task's own when none, (None,) without a market. Raises UsageError."""
    if not needs_market(task):
        return (None,)
    chosen: dict[str, Window] = {}
    for text in wanted or task.default_windows:
        if match := _DATE_RANGE.fullmatch(text):
            if match[1] > match[2]:
                raise UsageError(f"window {text!r}: the first day is after the last")
            chosen[text] = Window(text, match[1], match[2])
            continue
        names = [name for name in task.windows if fnmatch.fnmatchcase(name, text)]
        if not names:
            unknown = f"task {task.name} has no window {text!r}{near_matches(text, task.windows)}"
            raise UsageError(f"{unknown} (it has {', '.join(task.windows)}; or FIRST:LAST days)")
        chosen.update((name, task.windows[name]) for name in names)
    for text, window in chosen.items():  # a task's own windows of equal days may differ in what comes before them
        equal = [name for name, other in chosen.items() if Window(text, other.first, other.last) == window]
        if _DATE_RANGE.fullmatch(text) and len(equal) > 1:
            raise UsageError(f"windows {' and '.join(equal)} are the same days, which would count twice; name one of them")
    return tuple(chosen.values())
