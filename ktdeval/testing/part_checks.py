"""Checks of a plugin's components, one check for each kind. The component is made and called with
small, safe inputs. Nothing uses a network, reads a vendor's file, or writes.

If a component is faulty, the check raises `ConformanceError`, or passes on the exception raised by
the author's code. If a component can't be called here, the check raises `NotCalled`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from ktdeval.errors import KtdevalError, LeakError
from ktdeval.harness.chat_messages import ModelRequest, Reply, as_remote
from ktdeval.harness.traits import agent_traits, model_traits
from ktdeval.hookspecs import Spec
from ktdeval.market.snapshots.manifest import with_id
from ktdeval.registry.contracts import near_trait_problem
from ktdeval.registry.plugin_boundary import kind_of_made
from ktdeval.runner.plans.plan import target_task_of
from ktdeval.task_api.episode_spec import EpisodeOutcome, EpisodeSpec
from ktdeval.task_api.events import EpisodeFailed, EpisodeFinished, EpisodeStarted, Event
from ktdeval.task_api.scoring import is_scoring
from ktdeval.testing.conformance import (
    check_metric,
    check_model,
    check_scoring_task,
    check_task,
)
from ktdeval.testing.findings import ConformanceError, NotCalled
from ktdeval.testing.trial_episode import PluginTrial, TrialModel
from ktdeval.trading.types import DECIDED
from ktdeval.values.documents.strict_json import dumps_canonical
from ktdeval.values.lazy import later
from ktdeval.values.seeds import derive_seed

_MIN_HELP = 3  # minimum number of characters in a help text


def check_made_without_arguments(spec: Spec) -> None:
    """Raise NotCalled if a component can't be made without arguments from the user."""
    if spec.params is None:
        return

    needed = [
        field.name
        for field in dataclasses.fields(spec.params)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if needed:
        raise NotCalled(f"needs {', '.join(needed)}: make it in your own test, and check it there")


def check_trait_names(kind: str, made: Any) -> None:
    """Raise ConformanceError if an attribute of a task, model or agent looks like a
    misspelt trait.
    """
    problem = near_trait_problem(kind_of_made(kind, made), made)
    if problem:
        raise ConformanceError(f"{problem} Else begin its name with an underscore")


def call_model(trial: PluginTrial, spec: Spec) -> None:
    """Check that a model answers requests of every form, and acts in an episode."""
    name = spec.name if "/" in spec.name else f"{spec.name}/check"
    model = trial.plugins.make_model(name)
    check_trait_names("models", model)
    remote = as_remote(model)
    if remote is not None:
        dumps_canonical(remote.settings())
        raise NotCalled("calls a server, so only its declaration and its settings are checked")

    traits = model_traits(model)
    if traits.is_person:
        raise NotCalled("is a person, so only its declaration is checked")

    counted = _CountedModel(model)
    check_model(counted, deterministic=not traits.draws_chance)
    if counted.failures == counted.calls and traits.request_problem is not None:
        raise NotCalled(f"can't act on what the check shows ({counted.last_failure})")
    if counted.failures == counted.calls:
        raise ConformanceError(
            f"each call fails ({counted.last_failure}); answer requests with a Reply, also those"
            " that show nothing to act on"
        )

    list(trial.entries(trial.stage, model))


class _CountedModel:
    """Model that wraps another model and counts its calls and failures."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.calls = 0
        self.failures = 0
        self.last_failure = ""

    def reply(self, request: ModelRequest) -> Reply:
        self.calls += 1
        try:
            reply: Reply = self._model.reply(request)
        except KtdevalError as error:
            self.failures += 1
            self.last_failure = str(error)
            raise

        return reply


def call_agent(trial: PluginTrial, spec: Spec) -> None:
    """Check how an agent decides.

    Two equal episodes must give the same records. If the model submits nothing, the agent must
    hold. If a model call fails, the agent must pass on the exception.
    """
    agent = trial.plugins.make_agent(spec.name)
    check_trait_names("agents", agent)
    if agent_traits(agent).acts_outside:
        raise NotCalled("lets an external program decide, so only its declaration is checked")

    first = trial.with_agent(spec.name, "submits")
    if first != trial.with_agent(spec.name, "submits"):
        raise ConformanceError(
            "two equal episodes gave different records; keep no state but `memory`, and draw"
            f" nothing but from {derive_seed.__name__}"
        )

    for entry in trial.with_agent(spec.name, "writes text"):
        if entry.step.provenance in DECIDED and not entry.step.submissions:
            raise ConformanceError(
                f"decides with provenance {entry.step.provenance!r}, but the model submitted"
                " nothing; hold with provenance 'fallback'"
            )

    for entry in trial.with_agent(spec.name, "fails"):
        if entry.step.provenance in DECIDED:
            raise ConformanceError(
                f"decides with provenance {entry.step.provenance!r}, but each model call failed;"
                " do not catch ModelError"
            )


def call_task(trial: PluginTrial, spec: Spec) -> None:
    """Check a task's declaration and its samples or observations, and play a short episode."""
    task: Any = trial.plugins.make_task(spec.name)
    check_trait_names("tasks", task)
    # may raise NotCalled, which must come before checks that use the market
    entries = list(trial.entries(task, TrialModel()))
    if not is_scoring(task):
        trial.plugins.tools(task.tools)
        check_task(task, trial.market)
        return

    target = target_task_of(task, trial.plugins)
    check_scoring_task(task, target)
    records = [entry.step for entry in entries]
    scores = task.summarise(records)
    if set(scores) != set(task.scores):
        raise ConformanceError(
            f"summarise() gave the scores {', '.join(sorted(scores)) or 'none'}, expected"
            f" {', '.join(sorted(task.scores))}; give one for each name of `scores`"
        )


def call_tool(trial: PluginTrial, spec: Spec) -> None:
    """Check a tool's schema. Its function is called in the episodes of tasks that name the tool."""
    (tool,) = trial.plugins.tools([spec.name])
    try:
        Draft202012Validator.check_schema(dict(tool.parameters))
    except SchemaError as error:
        raise ConformanceError(
            f"its parameters are not a JSON Schema: {error.message}; make it with @tool"
        ) from error

    if tool.parameters.get("additionalProperties", True) is not False:
        raise ConformanceError(
            "its parameters are an open object; set additionalProperties to false, as @tool does"
        )

    naming = [
        name
        for name, task in trial.plugins.specs("tasks").items()
        if spec.name in task.extra.get("config", {}).get("tools", ())
    ]
    if not naming:
        raise NotCalled("no task of a file names it, so its function was not called")


def call_metric(trial: PluginTrial, spec: Spec) -> None:
    """Check a metric on all sample ledgers."""
    check_metric(trial.plugins.make_metric(spec.name), trial.market)


def call_data(trial: PluginTrial, spec: Spec) -> None:
    """Check that building a market twice gives the same market."""
    if {"read", "fetch"} & set(spec.extra):
        raise NotCalled("reads a vendor's files or calls a server")
    if "form" in spec.extra:
        raise NotCalled("writes data that is not a market")

    ids = {with_id(trial.plugins.make_snapshot(spec.name)).id for _ in range(2)}
    if len(ids) > 1:
        raise ConformanceError(
            "two builds with equal parameters gave different markets; take chance and days from"
            " parameters"
        )


def call_venue(trial: PluginTrial, spec: Spec) -> None:
    """Make a venue, which validates itself."""
    trial.plugins.make_venue(spec.name)


def call_card_kind(trial: PluginTrial, spec: Spec) -> None:
    """Check that the schema of a card kind can be read and is valid."""
    kind = trial.plugins.make("cards", spec.name)
    try:
        schema = json.loads(kind.schema.read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
    except (OSError, ValueError, SchemaError) as error:
        raise ConformanceError(
            f"its schema {kind.schema} can't be read: {error}; write it with"
            " ktdeval.values.documents.typed_json.json_schema, and ship the file with the package"
        ) from error


def call_table(trial: PluginTrial, spec: Spec) -> None:
    """Make a table, and import the function that returns its rows if it has one."""
    table = trial.plugins.make("tables", spec.name)
    if ":" in table.rows:
        later(table.rows)()


def call_runner(trial: PluginTrial, spec: Spec) -> None:
    """Check that a runner executes each of three specs once, and returns their outcomes in
    order.
    """
    task: Any = trial.stage
    base = trial.spec(task)
    specs = [dataclasses.replace(base, seed=seed) for seed in range(3)]
    executed: list[EpisodeSpec] = []

    def execute(one: EpisodeSpec) -> EpisodeOutcome:
        executed.append(one)
        return EpisodeOutcome(one, f"seed {one.seed}")

    outcomes = list(trial.plugins.make_runner(spec.name).run(specs, execute, 2))
    if sorted(one.seed for one in executed) != [0, 1, 2]:
        raise ConformanceError(
            f"executed {len(executed)} episodes of 3; call `execute` once for each spec"
        )
    if outcomes != [EpisodeOutcome(one, f"seed {one.seed}") for one in specs]:
        raise ConformanceError("its outcomes must be those of `execute`, in the order of `specs`")


def call_command(trial: PluginTrial, spec: Spec) -> None:
    """Show the help of a command and its subcommands. Each command and each option must have a help
    text.
    """
    import click  # noqa: PLC0415 - only for commands

    command = trial.plugins.make("commands", spec.name)
    for path, one in _commands(spec.name, command, click.Context(command, info_name=spec.name)):
        one.get_help(click.Context(one, info_name=path))
        if not (one.help or one.short_help):
            raise ConformanceError(f"`{path}` has no help; write a docstring for it")
        for parameter in one.params:
            words = getattr(parameter, "help", "") or ""
            if isinstance(parameter, click.Option) and len(words) < _MIN_HELP:
                raise ConformanceError(
                    f"`{path}`: option {parameter.opts[0]} has no help; give it one"
                )


def _commands(path: str, command: Any, context: Any) -> list[tuple[str, Any]]:
    commands = [(path, command)]
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            commands += _commands(f"{path} {name}", command.get_command(context, name), context)

    return commands


def call_observer(
    trial: PluginTrial, observe: Callable[..., Any], arguments: Sequence[str]
) -> None:
    """Pass events of a run to an observer."""
    spec = trial.spec(trial.stage)
    events: tuple[Event, ...] = (
        EpisodeStarted(spec, 2, 0),
        EpisodeFinished(spec, already_done=False),
        EpisodeFailed(spec, "a failure of the check"),
    )
    for event in events:
        observe(*((event,) if arguments else ()))


CALLS: Mapping[str, Callable[[PluginTrial, Spec], None]] = {
    "tasks": call_task,
    "models": call_model,
    "agents": call_agent,
    "tools": call_tool,
    "metrics": call_metric,
    "data": call_data,
    "venues": call_venue,
    "cards": call_card_kind,
    "tables": call_table,
    "runners": call_runner,
    "commands": call_command,
}
"""Check for each kind of component."""


def advice_of(error: BaseException) -> str:
    """Return advice for an error whose message contains none; empty if no advice is known."""
    if isinstance(error, LeakError):
        return (
            "show labels only through the lens: AssetRef and DayRef in payloads, lens.mask_text"
            " in texts"
        )
    return ""
