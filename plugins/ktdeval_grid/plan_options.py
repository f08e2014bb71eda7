"""Options of a grid on the command line: a plan, and whatever stands over it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ktdeval.cli import complete_names, complete_words, config_option
from ktdeval.errors import UsageError
from ktdeval.runner import split_model
from ktdeval.values.fields import parse_assignments
from ktdeval.values.yamlio import load_yaml
from ktdeval_grid.plan import GridPlan, named_by, plan_of, split_outside
from ktdeval_grid.pruning import shipped_rules
from ktdeval_grid.shipped import plan_path, shipped_plans

F = TypeVar("F", bound=Callable[..., Any])

#: Options of `ktdeval run` that a plan has as fields of its own
_OF_PLAN = (
    "windows", "seeds", "seed", "data", "data_args", "mask_key", "plugin",
    "max_cost", "max_tokens", "max_hours",
)  # fmt: skip
#: Options of `ktdeval run` that a plan has under `options`, for all models
_OF_RUNS = (
    "limit", "items", "metrics", "rules", "certificate", "knowledge_cutoff", "temperature",
    "max_output_tokens", "context_tokens", "reasoning_effort", "reasoning_tokens", "tool_protocol",
    "timeout_s", "max_retries", "max_wait_s", "max_failures", "call_gap_s", "price_table", "cache",
    "canary",
)  # fmt: skip
_NEEDED = (
    "a grid needs a plan, PLAN.yaml or the name of a shipped one, or --models and --tasks (see"
    " `ktdeval grid --help`)"
)


def _plans(context: click.Context, parameter: click.Parameter, text: str) -> list[CompletionItem]:
    """Complete a plan: shipped names, then files."""
    shipped = complete_words(shipped_plans())(context, parameter, text)
    return shipped or [CompletionItem(text, type="file")]


# ---- options

_PLAN = click.argument("plan", required=False, metavar="[PLAN]", shell_complete=_plans)
_MODELS = click.option(
    "--models",
    multiple=True,
    metavar="MODEL,…",
    shell_complete=complete_names("models"),
    help="models, PROVIDER/NAME or PROVIDER/NAME(option=value,…) (see `ktdeval models`)",
)
_AGENTS = click.option(
    "--agents",
    multiple=True,
    metavar="AGENT,…",
    shell_complete=complete_names("agents"),
    help="agents, NAME or NAME(option=value,…) (see `ktdeval agents`) [default: react]",
)
_TASKS = click.option(
    "--tasks",
    multiple=True,
    metavar="TASK,…",
    shell_complete=complete_names("tasks"),
    help="tasks, groups or globs (see `ktdeval tasks`)",
)
_PRUNE = click.option(
    "--prune",
    multiple=True,
    metavar="RULE,…",
    shell_complete=lambda *asked: complete_words(shipped_rules())(*asked),
    help="rules by which cells are left out (see `ktdeval grid plans`); none: no rule",
)
_TABLES = click.option(
    "--tables",
    multiple=True,
    metavar="TABLE,…",
    help="tables of papers to make at the end, as of `ktdeval table --like`",
)
_PAGES = click.option(
    "--pages",
    multiple=True,
    metavar="PAGE,…",
    help="pages besides the bundle's index: report, views; none: neither [default: both]",
)
_CONCURRENCY = click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="episodes at once over the whole grid; `grid ctl` changes it while it runs",
)
_BASE_URL = click.option(
    "--base-url",
    metavar="URL",
    help="address of the model's server, where --models names one model",
)
_PRICE = click.option(
    "--price",
    multiple=True,
    metavar="KEY=VALUE,…",
    help="US dollars a million tokens, where --models names one model",
)

#: In the order of help
_DECORATORS: Sequence[Callable[[Any], Any]] = (
    _PLAN,
    _MODELS,
    _AGENTS,
    _TASKS,
    config_option(*_OF_PLAN),
    _PRUNE,
    _TABLES,
    _PAGES,
    _CONCURRENCY,
    _BASE_URL,
    _PRICE,
    config_option(*_OF_RUNS),
)


# ---- plans


def plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command body: its first argument is a `GridPlan` from PLAN and options."""

    @functools.wraps(function)
    def body(plan: str | None, **values: Any) -> Any:
        given = {name: values.pop(name) for name in _names()}
        return function(resolved_plan(plan, given), **values)

    decorated: Callable[..., Any] = body
    for decorate in reversed(_DECORATORS):  # help shows the last one first
        decorated = decorate(decorated)
    return decorated


def _names() -> tuple[str, ...]:
    own = (
        "models",
        "agents",
        "tasks",
        "prune",
        "tables",
        "pages",
        "concurrency",
        "base_url",
        "price",
    )
    return (*own, *_OF_PLAN, *_OF_RUNS)


def resolved_plan(plan: str | None, given: Mapping[str, Any]) -> GridPlan:
    """Return the plan of a file or a shipped name, with options over it; those that are None or
    empty were not given. Raises ConfigError or UsageError.
    """
    values: dict[str, Any] = {}
    where = "options"
    if plan is not None:
        path = plan_path(plan)
        values = named_by(path, load_yaml(path))
        where = str(path)

    options = {name: value for name, value in given.items() if value not in (None, ())}
    if plan is None and ("models" not in options or "tasks" not in options):
        raise UsageError(_NEEDED)
    if plan is not None and options:
        plan_of(values, where)  # so that a mistake in the file is reported with the file's name
        where = f"{where} with options"

    return plan_of({**values, **_overrides(values, options)}, where)


def _overrides(below: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan that options replace."""
    fields = {name: _plain(options[name]) for name in _OF_PLAN if name in options}
    if "data_args" in fields:
        fields["data_args"] = {**(below.get("data_args") or {}), **fields["data_args"]}

    for name in ("agents", "tasks", "tables"):
        if name in options:
            fields[name] = list(_pieces(options[name]))

    if "models" in options:
        fields["models"] = _models(options)
    elif "base_url" in options or "price" in options:
        raise UsageError("--base-url and --price go with --models, which names one model")

    for name in ("prune", "pages"):
        if name in options:
            names = _pieces(options[name])
            fields[name] = [] if names == ("none",) else list(names)

    if "concurrency" in options:
        fields["concurrency"] = options["concurrency"]

    of_runs = {name: _plain(options[name]) for name in _OF_RUNS if name in options}
    if of_runs:
        fields["options"] = {**(below.get("options") or {}), **of_runs}

    return fields


def _models(options: Mapping[str, Any]) -> list[Any]:
    names = _pieces(options["models"])
    if "base_url" not in options and "price" not in options:
        return list(names)

    if len(names) != 1:
        raise UsageError(
            f"--base-url and --price are of one model, --models names {len(names)}; write a plan"
            " with `base_url` and `price` of each"
        )

    name, args = split_model(names[0])
    model: dict[str, Any] = {"name": name, "args": args}
    if "base_url" in options:
        model["base_url"] = options["base_url"]
    if "price" in options:
        model["price"] = parse_assignments(options["price"], "--price")

    return [model]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _pieces(texts: Sequence[str]) -> tuple[str, ...]:
    pieces: list[str] = []
    for text in texts:
        pieces += split_outside(text)
    return tuple(pieces)
