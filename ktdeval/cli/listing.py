"""Listings of tasks, models, agents, metrics and plugins, and single tasks, models and agents in full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ktdeval.cli.options import config_option, inherited, json_option, open_plugins
from ktdeval.cli.table import param_json, params_of, print_json, print_table, terminal_width
from ktdeval.discovery import find_entry_points
from ktdeval.fields import to_mapping
from ktdeval.hookspecs import Spec
from ktdeval.jsonio import csv_rows, plain
from ktdeval.registry import KINDS, PluginInfo, Plugins, count_of, load_plugins

_FEW = 3  # offers of one kind that a plugin's row names


class _Listing(click.Group):
    """Listing that takes names, groups and globs; `list` lists all."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; `list` for any other word, which is the name of something listed."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["list", *args])


def _listing(kind: str, header: tuple[str, str, str], help: str, show_help: str) -> click.Group:
    """Return the command that lists what plugins offer of one kind, with `show NAME` for one thing in full."""

    @click.group(kind, cls=_Listing, invoke_without_command=True, subcommand_metavar="[NAME… | show NAME]", help=help)
    @json_option
    @config_option("plugin")
    @click.pass_context
    def listing(context: click.Context, as_json: bool, plugin: tuple[str, ...] | None) -> None:
        if context.invoked_subcommand is None:
            _list(kind, open_plugins(plugin or ()), as_json, header, ())

    @listing.command("list", hidden=True, help=help)
    @click.argument("names", nargs=-1)
    @json_option
    @config_option("plugin")
    @click.pass_context
    def list_names(context: click.Context, /, names: tuple[str, ...], **_: Any) -> None:
        plugins, as_json = open_plugins(inherited(context, "plugin") or ()), bool(inherited(context, "as_json"))
        _list(kind, plugins, as_json, header, [name for name in names if name not in ("list", "ls")])

    @listing.command("show", help=show_help)
    @click.argument("name")
    @json_option
    @config_option("plugin")
    @click.pass_context
    def show(context: click.Context, /, name: str, **_: Any) -> None:
        plugins, as_json = open_plugins(inherited(context, "plugin") or ()), bool(inherited(context, "as_json"))
        if kind in _SHOWN:
            _SHOWN[kind](plugins, name, as_json)
        else:
            is_of_provider = kind == "models" and name not in plugins.specs(kind)
            _show_params(plugins, kind, plugins.model_spec_name(name)[0] if is_of_provider else name, as_json)

    return listing


tasks, models, agents, metrics, venues = (
    _listing(row["kind"], (row["name"], row["beside"], "SUMMARY"), row["help"], row["show_help"])
    for row in csv_rows(Path(__file__).with_name("listings.csv"))
)


def _show_metric(plugins: Plugins, name: str, as_json: bool) -> None:
    metric, fields = plugins.make_metric(name), ("name", "formula", "unit", "range", "better", "source", "headline")
    facts = {"plugin": plugins.owner("metrics", name), "summary": plugins.spec("metrics", name).summary}
    facts |= {field: getattr(metric, field) for field in fields}
    if as_json:
        print_json(facts)
    else:
        low, high = (any_end if end is None else f"{end:g}" for end, any_end in zip(metric.range, ("-∞", "∞")))
        facts |= {"range": f"{low} … {high}", "headline": "yes" if metric.headline else "no"}
        click.echo("".join(f"{field:<10}{facts[field]}\n" for field in (*fields, "summary", "plugin")), nl=False)


def _show_task(plugins: Plugins, name: str, as_json: bool) -> None:
    from ktdeval.contracts.task import describe_task

    task = plugins.make_task(name)
    _print_whole({"plugin": plugins.owner("tasks", name), **describe_task(task, plugins.tools(task.tools))}, as_json)


def _show_venue(plugins: Plugins, name: str, as_json: bool) -> None:
    _print_whole({"plugin": plugins.owner("venues", name), **to_mapping(plugins.make_venue(name))}, as_json)


def _print_whole(facts: Mapping[str, Any], as_json: bool) -> None:
    """Print all facts: JSON, or YAML as wide as the terminal."""
    if as_json:
        print_json(facts)
    else:
        import yaml

        width = max(60, min(terminal_width(), 110))
        click.echo(yaml.safe_dump(plain(facts), sort_keys=False, allow_unicode=True, width=width), nl=False)


_SHOWN = {"tasks": _show_task, "metrics": _show_metric, "venues": _show_venue}


def _show_params(plugins: Plugins, kind: str, name: str, as_json: bool) -> None:
    entry = spec_json(plugins, kind, plugins.spec(kind, name))
    if as_json:
        print_json(entry)
        return
    click.echo(f"{name}: {entry['summary']} (plugin {entry['plugin']})\n")
    if not entry["params"]:
        click.echo("no parameters")
        return
    rows = []
    for param in entry["params"]:
        default = "(required)" if param["required"] else json.dumps(param["default"], ensure_ascii=False)
        rows.append((param["name"], param["type"], default, param["help"]))
    print_table(("NAME", "TYPE", "DEFAULT", f"MEANING (set with --{kind.removesuffix('s')}-args NAME=VALUE,…)"), rows)


@click.command()
@json_option
@config_option("plugin")
def plugins(as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List plugins, what each offers, and plugins that fail to load and are therefore skipped."""
    loaded = load_plugins(plugin or ())  # without warnings: the listing itself shows what is broken
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


def _list(kind: str, plugins: Plugins, as_json: bool, header: tuple[str, str, str], patterns: Sequence[str]) -> None:
    specs: Sequence[Spec] = list(plugins.specs(kind).values())
    if patterns:
        names = plugins.resolve_tasks(patterns) if kind == "tasks" else [plugins.spec(kind, name).name for name in patterns]
        specs = [plugins.spec(kind, name) for name in names]
    if as_json:
        print_json([spec_json(plugins, kind, spec) for spec in specs])
    else:
        providers = {spec.name for spec in specs if kind == "models" and "/" not in spec.name}
        details = {spec.name: spec.groups if kind == "tasks" else [field.name for field in params_of(spec)] for spec in specs}
        labels = {name: f"{name}/…" if name in providers else name for name in details}
        print_table(header, [(labels[spec.name], " ".join(details[spec.name]), spec.summary) for spec in specs])


def spec_json(plugins: Plugins, kind: str, spec: Spec) -> dict[str, Any]:
    """Return what a plugin offers for listings: name, summary, plugin, and its parameters, or of a task its groups and version."""
    value: dict[str, Any] = {"name": spec.name, "summary": spec.summary, "plugin": plugins.owner(kind, spec.name)}
    if kind == "tasks":
        config = spec.extra.get("config", {})
        return value | {"groups": list(spec.groups), **{key: config.get(key) for key in ("family", "version", "default_windows")}}
    return value | {"params": [param_json(field) for field in params_of(spec)]}
