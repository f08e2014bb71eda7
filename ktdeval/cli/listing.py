"""Listings of tasks, models, agents, metrics and plugins, and single tasks, models and agents in full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ktdeval.cli.options import config_option, inherited, open_plugins
from ktdeval.cli.table import param_json, params_of, plain, print_json, print_table, terminal_width
from ktdeval.discovery import find_entry_points
from ktdeval.hookspecs import Spec
from ktdeval.registry import KINDS, PluginInfo, Plugins, count_of, load_plugins

json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")

_FEW = 3  # offers of one kind that a plugin's row names


@click.group(invoke_without_command=True, subcommand_metavar="[show NAME]")
@json_option
@config_option("plugin")
@click.pass_context
def tasks(context: click.Context, as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List tasks: what `--tasks` takes, with the groups that select several at once."""
    if context.invoked_subcommand is None:
        _list("tasks", plugin, as_json, ("TASK", "GROUPS", "SUMMARY"))


@tasks.command("show")
@click.argument("name")
@json_option
@config_option("plugin")
@click.pass_context
def show(context: click.Context, /, name: str, **_: Any) -> None:
    """Print a task's resolved config, with its data card and its sources."""
    from ktdeval.contracts.task import describe_task

    plugins = open_plugins(inherited(context, "plugin") or ())
    task = plugins.make_task(name)
    description = {"plugin": plugins.owner("tasks", name), **describe_task(task, plugins.tools(task.tools))}
    if inherited(context, "as_json"):
        print_json(description)
    else:
        import yaml

        width = max(60, min(terminal_width(), 110))
        click.echo(yaml.safe_dump(plain(description), sort_keys=False, allow_unicode=True, width=width), nl=False)


@click.group(invoke_without_command=True, subcommand_metavar="[show NAME]")
@json_option
@config_option("plugin")
@click.pass_context
def models(context: click.Context, as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List models: what `--model` takes. PROVIDER/… stands for any model of a provider."""
    if context.invoked_subcommand is None:
        _list("models", plugin, as_json, ("MODEL", "PARAMETERS", "SUMMARY"))


@models.command("show")
@click.argument("name")
@json_option
@config_option("plugin")
@click.pass_context
def show_model(context: click.Context, /, name: str, **_: Any) -> None:
    """Print a model's parameters with type, default and meaning."""
    plugins = open_plugins(inherited(context, "plugin") or ())
    known = name in plugins.specs("models")
    _show_params(context, plugins, "models", name if known else plugins.model_spec_name(name)[0])


@click.group(invoke_without_command=True, subcommand_metavar="[show NAME]")
@json_option
@config_option("plugin")
@click.pass_context
def agents(context: click.Context, as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List agent scaffolds: what `--agent` takes."""
    if context.invoked_subcommand is None:
        _list("agents", plugin, as_json, ("AGENT", "PARAMETERS", "SUMMARY"))


@agents.command("show")
@click.argument("name")
@json_option
@config_option("plugin")
@click.pass_context
def show_agent(context: click.Context, /, name: str, **_: Any) -> None:
    """Print an agent's parameters with type, default and meaning."""
    plugins = open_plugins(inherited(context, "plugin") or ())
    _show_params(context, plugins, "agents", name)


def _show_params(context: click.Context, plugins: Plugins, kind: str, name: str) -> None:
    entry = _spec_json(plugins, kind, plugins.spec(kind, name))
    if inherited(context, "as_json"):
        print_json(entry)
        return
    click.echo(f"{name}: {entry['summary']} (plugin {entry['plugin']})\n")
    if entry["params"]:
        option = f"--{kind.removesuffix('s')}-args NAME=VALUE,…"
        print_table(("NAME", "TYPE", "DEFAULT", f"MEANING (set with {option})"), [_param_row(param) for param in entry["params"]])
    else:
        click.echo("no parameters")


def _param_row(param: Mapping[str, Any]) -> tuple[str, str, str, str]:
    default = "(required)" if param["required"] else json.dumps(param["default"], ensure_ascii=False)
    return param["name"], param["type"], default, param["help"]


@click.command()
@json_option
@config_option("plugin")
def metrics(as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List metrics: what `--metrics` takes."""
    _list("metrics", plugin, as_json, ("METRIC", "PARAMETERS", "SUMMARY"))


@click.command()
@json_option
@config_option("plugin")
def plugins(as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List plugins, what each offers, and plugins that fail to load and are therefore skipped."""
    loaded = load_plugins(plugin or ())  # without warnings: what is broken stands in the listing itself
    offers: dict[str, list[str]] = {name: [] for name in loaded.info}
    for kind in KINDS:
        for name in loaded.specs(kind):
            offers[loaded.owner(kind, name)].append(f"{kind}:{name}")
    advertised = {entry.value: (entry.distribution, entry.version) for entry in find_entry_points()}
    unloaded = [PluginInfo(name, *advertised.get(name, ("", "")), ()) for name in loaded.broken if name not in loaded.info]
    entries = [
        {**info._asdict(), "offers": offers.get(info.name, []), "error": loaded.broken.get(info.name)}
        for info in [*loaded.info.values(), *unloaded]
    ]
    if as_json:
        print_json(entries)
    else:
        print_table(("PLUGIN", "FROM", "OFFERS"), [_plugin_row(entry) for entry in entries])


def _plugin_row(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    names: dict[str, list[str]] = {}
    for offer in entry["offers"]:
        kind, _, name = offer.partition(":")
        names.setdefault(kind, []).append(name)
    parts = [
        count_of(kind, len(offered)) + (f" ({', '.join(offered)})" if len(offered) <= _FEW else "")
        for kind, offered in names.items()
    ]
    if "ktdeval_event" in entry["hooks"]:
        parts.append("observes runs")
    if entry["error"]:
        parts.append(f"BROKEN: {entry['error']}")
    origin = f"{entry['distribution']} {entry['version']}".strip()
    return entry["name"], origin or "--plugin", ", ".join(parts) or "nothing"


def _list(kind: str, plugin: Sequence[str] | None, as_json: bool, header: tuple[str, str, str]) -> None:
    plugins = open_plugins(plugin or ())
    specs = plugins.specs(kind).values()
    if as_json:
        print_json([_spec_json(plugins, kind, spec) for spec in specs])
    else:
        print_table(header, [_row(kind, spec) for spec in specs])


def _row(kind: str, spec: Spec) -> tuple[str, str, str]:
    if kind == "tasks":
        return spec.name, " ".join(spec.groups), spec.summary
    provider = kind == "models" and "/" not in spec.name
    return f"{spec.name}/…" if provider else spec.name, " ".join(field.name for field in params_of(spec)), spec.summary


def _spec_json(plugins: Plugins, kind: str, spec: Spec) -> dict[str, Any]:
    value: dict[str, Any] = {"name": spec.name, "summary": spec.summary, "plugin": plugins.owner(kind, spec.name)}
    if kind == "tasks":
        config = spec.extra.get("config", {})
        return value | {"groups": list(spec.groups), **{key: config.get(key) for key in ("family", "version", "default_windows")}}
    return value | {"params": [param_json(field) for field in params_of(spec)]}
