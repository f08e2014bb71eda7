"""What there is: the listings of tasks, models, agents, metrics and plugins, and one task in full."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from ktdeval.cli.options import config_option, open_plugins
from ktdeval.hookspecs import Spec
from ktdeval.registry import KINDS, PluginInfo, Plugins, count_of, load_plugins

json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")


@click.group(invoke_without_command=True)
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
def show(name: str, as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """Print a task's resolved config, with its data card and its sources."""
    from ktdeval.runner.task import describe_task

    plugins = open_plugins(plugin or ())
    task = plugins.make_task(name)
    description = {"plugin": plugins.owner("tasks", name), **describe_task(task, plugins.tools(task.tools))}
    if as_json:
        _print_json(description)
    else:
        import yaml

        click.echo(yaml.safe_dump(_plain(description), sort_keys=False, allow_unicode=True, width=110), nl=False)


@click.command()
@json_option
@config_option("plugin")
def models(as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List models: what `--model` takes. PROVIDER/… stands for any model of a provider."""
    _list("models", plugin, as_json, ("MODEL", "PARAMETERS", "SUMMARY"))


@click.command()
@json_option
@config_option("plugin")
def agents(as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List agent scaffolds: what `--agent` takes."""
    _list("agents", plugin, as_json, ("AGENT", "PARAMETERS", "SUMMARY"))


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
    """List plugins, what each offers, and those that are broken and therefore skipped."""
    loaded = load_plugins(plugin or ())  # without warnings: what is broken stands in the listing itself
    offers: dict[str, list[str]] = {name: [] for name in loaded.info}
    for kind in KINDS:
        for name in loaded.specs(kind):
            offers[loaded.owner(kind, name)].append(f"{kind}:{name}")
    unloaded = [PluginInfo(name, "", "", ()) for name in loaded.broken if name not in loaded.info]
    entries = [
        {**info._asdict(), "offers": offers.get(info.name, []), "error": loaded.broken.get(info.name)}
        for info in [*loaded.info.values(), *unloaded]
    ]
    if as_json:
        _print_json(entries)
    else:
        _print_table(("PLUGIN", "FROM", "OFFERS"), [_plugin_row(entry) for entry in entries])


def _plugin_row(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    kinds = [offer.partition(":")[0] for offer in entry["offers"]]
    parts = [count_of(kind, kinds.count(kind)) for kind in dict.fromkeys(kinds)]
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
        _print_json([_spec_json(plugins, kind, spec) for spec in specs])
    else:
        _print_table(header, [_row(kind, spec) for spec in specs])


def _row(kind: str, spec: Spec) -> tuple[str, str, str]:
    if kind == "tasks":
        return spec.name, " ".join(spec.groups), spec.summary
    provider = kind == "models" and "/" not in spec.name
    return f"{spec.name}/…" if provider else spec.name, " ".join(field.name for field in _fields(spec)), spec.summary


def _fields(spec: Spec) -> Sequence[dataclasses.Field[Any]]:
    return dataclasses.fields(spec.params) if spec.params is not None else ()


def _spec_json(plugins: Plugins, kind: str, spec: Spec) -> dict[str, Any]:
    value: dict[str, Any] = {"name": spec.name, "summary": spec.summary, "plugin": plugins.owner(kind, spec.name)}
    if kind == "tasks":
        config = spec.extra.get("config", {})
        return value | {"groups": list(spec.groups), **{key: config.get(key) for key in ("family", "version", "default_windows")}}
    return value | {"params": [_field_json(field) for field in _fields(spec)]}


def _field_json(field: dataclasses.Field[Any]) -> dict[str, Any]:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    default = None if field.default is dataclasses.MISSING else _plain(field.default)
    kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    return {"name": field.name, "type": kind, "required": required, "default": default, "help": field.metadata.get("help", "")}


def _plain(value: Any) -> Any:
    """Tuples and mappings of any kind as the lists and dicts that JSON and YAML writers know."""
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if hasattr(value, "items"):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _print_json(value: Any) -> None:
    click.echo(json.dumps(_plain(value), indent=1, ensure_ascii=False, allow_nan=False))


def _print_table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Columns for eyes, `cut` and `grep` alike: aligned, nothing truncated; a column that is empty throughout is left out."""
    rows = list(rows)
    kept = [place for place in range(len(header)) if place == 0 or any(row[place] for row in rows)]
    table = [[row[place] for place in kept] for row in (header, *rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(kept))]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
