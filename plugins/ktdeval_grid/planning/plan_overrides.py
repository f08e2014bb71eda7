"""Grid options on the command line: a plan, and options that override its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import click
from click.shell_completion import CompletionItem

from ktdeval.cli import complete_words, flag
from ktdeval.errors import UsageError
from ktdeval.runner import split_model
from ktdeval.values import load_yaml, split_list
from ktdeval_grid.planning.plan import GridPlan, named_by, plan_of
from ktdeval_grid.planning.pruning_rules import shipped_rules
from ktdeval_grid.planning.shipped_plans import plan_path, shipped_plans

#: options of `ktdeval run` for which a plan has separate fields
_OF_PLAN = (
    "windows", "seeds", "seed", "data", "data_args", "mask_key", "plugin",
    "max_cost", "max_tokens", "max_hours",
)  # fmt: skip
#: options of `ktdeval run` that a plan holds under `options`, for all models
_OF_RUNS = (
    "limit", "items", "metrics", "rules", "certificate", "knowledge_cutoff", "temperature",
    "max_output_tokens", "context_tokens", "reasoning_effort", "reasoning_tokens", "tool_protocol",
    "timeout_s", "first_timeout_s", "max_retries", "max_wait_s", "max_failures", "call_gap_s", "price_table", "cache",
    "canary", "batch",
)  # fmt: skip
_NEEDED = (
    "a grid needs a plan, PLAN.yaml or the name of a shipped one, or --models and --tasks (see"
    " `ktdeval grid --help`)"
)


def _plans(context: click.Context, parameter: click.Parameter, text: str) -> list[CompletionItem]:
    """Complete a plan argument, with shipped names first and then files."""
    shipped = complete_words(shipped_plans())(context, parameter, text)
    return shipped or [CompletionItem(text, type="file")]


# ---- options

PLAN = click.argument("plan", required=False, metavar="[PLAN]", shell_complete=_plans)

RUN_NAMES = ("tasks", *_OF_PLAN, "base_url", "price", "concurrency", "runner", *_OF_RUNS)
"""Options of `ktdeval run` that override a plan. See `RunOptionsCommand`."""


class _EachText(click.types.StringParamType):
    """Text in which commas within parentheses do not separate items, as in `NAME(a=1,b=2)`."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options that override fields of a plan and that `ktdeval run` does not have."""

    models: tuple[str, ...] = flag(
        (),
        help="models: PROVIDER/NAME or PROVIDER/NAME(option=…) (see `ktdeval list models`)",
        type=_EachText(),
        metavar="MODEL,…",
    )
    agents: tuple[str, ...] = flag(
        (),
        help="agents, NAME or NAME(option=value,…) (see `ktdeval list agents`) [default: react]",
        type=_EachText(),
        metavar="AGENT,…",
    )
    prune: tuple[str, ...] = flag(
        (),
        help="pruning rules that leave out cells (see `ktdeval list plans`); none: no rule",
        complete=lambda *asked: complete_words(shipped_rules())(*asked),
    )
    tables: tuple[str, ...] = flag(
        (), help="tables of papers to make at the end, as of `ktdeval paper table --like`"
    )
    pages: tuple[str, ...] = flag(
        (),
        help="pages besides the bundle's index: report, views; none: neither [default: none]",
    )
    stop_when: Literal["settled", "never"] | None = flag(
        None,
        help=(
            "settled: stop running a system once its order against every other system is settled "
            "by the plan's rule; never: run all windows"
        ),
        type=click.Choice(["settled", "never"]),
        metavar="WHEN",
    )


# ---- plans


def plan_of_line(plan: str | None, options: PlanOptions, values: dict[str, Any]) -> GridPlan:
    """Return the plan for a command line: PLAN with the options that override its fields.

    `values`: values of the `ktdeval run` options, by name. Raises ConfigError or UsageError.
    """
    own = {field.name: getattr(options, field.name) for field in fields(PlanOptions)}
    return resolved_plan(plan, {**values, **own})


def resolved_plan(plan: str | None, given: Mapping[str, Any]) -> GridPlan:
    """Return the plan from a file or a shipped name, with its fields overridden by options.

    Options that are None or empty are treated as not given. Raises ConfigError or UsageError.
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
        plan_of(values, where)  # so that an error in the file is reported with the file's name
        where = f"{where} with options"

    return plan_of({**values, **_overrides(values, options)}, where)


def _overrides(below: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan that options override."""
    fields_alike = (*_OF_PLAN, "concurrency", "stop_when")
    replaced = {name: _tuple_as_list(options[name]) for name in fields_alike if name in options}
    if "data_args" in replaced:
        replaced["data_args"] = {**(below.get("data_args") or {}), **replaced["data_args"]}

    for name in ("agents", "tasks", "tables"):
        if name in options:
            replaced[name] = list(split_list(*options[name]))

    if "models" in options:
        replaced["models"] = _models(options)
    elif "base_url" in options or "price" in options:
        raise UsageError("--base-url and --price need --models with one model")

    for name in ("prune", "pages"):
        if name in options:
            replaced[name] = names_or_none(options[name])

    of_runs = {name: _tuple_as_list(options[name]) for name in _OF_RUNS if name in options}
    if of_runs:
        replaced["options"] = {**(below.get("options") or {}), **of_runs}

    return replaced


def names_or_none(given: Sequence[str]) -> list[str]:
    """Return the names that an option lists; empty for `none`."""
    names = split_list(*given)
    return [] if names == ("none",) else list(names)


def _models(options: Mapping[str, Any]) -> list[Any]:
    names = split_list(*options["models"])
    if "base_url" not in options and "price" not in options:
        return list(names)

    if len(names) != 1:
        raise UsageError(
            f"--base-url and --price apply to one model, --models names {len(names)}; write a plan"
            " with `base_url` and `price` of each"
        )

    name, args = split_model(names[0])
    model: dict[str, Any] = {"name": name, "args": args}
    if "base_url" in options:
        model["base_url"] = options["base_url"]
    if "price" in options:
        model["price"] = options["price"]

    return [model]


def _tuple_as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
