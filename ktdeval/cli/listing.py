"""List tasks, models, agents, metrics, venues and plugins, and show a single one in full."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ktdeval.cli.completers import complete_names
from ktdeval.cli.examples import example
from ktdeval.cli.options import config_option, inherited, json_option, open_plugins
from ktdeval.cli.table import (
    param_json,
    params_of,
    print_groups,
    print_json,
    print_table,
    terminal_width,
)
from ktdeval.hookspecs import Spec
from ktdeval.plugins.discovery import find_entry_points
from ktdeval.plugins.registry import KINDS, PluginInfo, Plugins, count_of, load_plugins
from ktdeval.values.fields import to_mapping
from ktdeval.values.jsonio import csv_rows, plain

_FEW = 3  # a plugin's row names its offers of a kind up to this number


class _Listing(click.Group):
    """Command `KIND NAME…` that lists what names, groups and globs select."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete `show`, and the names that can be listed."""
        items = super().shell_complete(ctx, incomplete)
        if not incomplete.startswith("-"):
            names = self.commands["list"].params[0]
            items += names.shell_complete(ctx, incomplete)

        return items

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names. Any other word is a name to list."""
        if args[0] not in self.commands:
            args = ["list", *args]
        return super().resolve_command(ctx, args)


def _listing(row: Mapping[str, str]) -> click.Group:
    """Return the command that lists what plugins offer of a kind; `show NAME` shows one in full.

    `row`: of listings.csv.
    """
    kind = row["kind"]
    header = (row["name"], row["beside"], "SUMMARY")

    @example(f"ktdeval {kind}", f"ktdeval {kind} show {row['name_example']}")
    @click.group(
        kind,
        cls=_Listing,
        invoke_without_command=True,
        subcommand_metavar="[NAME… | show NAME]",
        help=row["help"],
    )
    @json_option
    @config_option("plugin")
    @click.pass_context
    def listing(context: click.Context, as_json: bool, plugin: tuple[str, ...] | None) -> None:
        if context.invoked_subcommand is None:
            _list(kind, open_plugins(plugin or ()), as_json, header, ())

    @listing.command("list", hidden=True, help=row["help"])
    @click.argument("names", nargs=-1, shell_complete=complete_names(kind))
    @json_option
    @config_option("plugin")
    @click.pass_context
    def list_names(context: click.Context, /, names: tuple[str, ...], **_: Any) -> None:
        plugins = open_plugins(inherited(context, "plugin") or ())
        as_json = bool(inherited(context, "as_json"))
        patterns = [name for name in names if name not in ("list", "ls")]
        _list(kind, plugins, as_json, header, patterns)

    @example(f"ktdeval {kind} show {row['name_example']}")
    @listing.command("show", help=row["show_help"])
    @click.argument("name", shell_complete=complete_names(kind))
    @json_option
    @config_option("plugin")
    @click.pass_context
    def show(context: click.Context, /, name: str, **_: Any) -> None:
        plugins = open_plugins(inherited(context, "plugin") or ())
        as_json = bool(inherited(context, "as_json"))
        if kind in _SHOWN:
            _SHOWN[kind](plugins, name, as_json)
            return

        # `openai/gpt-…` has the parameters of its provider.
        if kind == "models" and name not in plugins.specs(kind):
            name, *_rest = plugins.model_spec_name(name)

        _show_params(plugins, kind, name, as_json)

    return listing


tasks, models, agents, metrics, venues = map(
    _listing, csv_rows(Path(__file__).with_name("listings.csv"))
)


def _show_metric(plugins: Plugins, name: str, as_json: bool) -> None:
    metric = plugins.make_metric(name)
    fields = ("name", "formula", "unit", "range", "better", "source", "headline")
    facts = {
        "plugin": plugins.owner("metrics", name),
        "summary": plugins.spec("metrics", name).summary,
    }
    for field in fields:
        facts[field] = getattr(metric, field)

    if as_json:
        print_json(facts)
        return

    low, high = metric.range
    lowest = "-∞" if low is None else f"{low:g}"
    highest = "∞" if high is None else f"{high:g}"
    facts["range"] = f"{lowest} … {highest}"
    facts["headline"] = "yes" if metric.headline else "no"
    for field in (*fields, "summary", "plugin"):
        click.echo(f"{field:<10}{facts[field]}")


def _show_task(plugins: Plugins, name: str, as_json: bool) -> None:
    from ktdeval.tasks.task import describe_task

    task = plugins.make_task(name)
    described = describe_task(task, plugins.tools(task.tools))
    _print_whole({"plugin": plugins.owner("tasks", name), **described}, as_json)


def _show_venue(plugins: Plugins, name: str, as_json: bool) -> None:
    from ktdeval.market.fees import duty_rows, is_dated

    venue = plugins.make_venue(name)
    facts: dict[str, Any] = {"plugin": plugins.owner("venues", name), **to_mapping(venue)}
    if is_dated(venue):
        facts["duties"] = [row.facts() for row in duty_rows()[venue.name]]

    _print_whole(facts, as_json)


def _print_whole(facts: Mapping[str, Any], as_json: bool) -> None:
    """Print all facts: JSON, or YAML as wide as the terminal."""
    if as_json:
        print_json(facts)
        return

    import yaml

    width = max(60, min(terminal_width(), 110))
    text = yaml.safe_dump(plain(facts), sort_keys=False, allow_unicode=True, width=width)
    click.echo(text, nl=False)


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
        default = "(required)"
        if not param["required"]:
            default = json.dumps(param["default"], ensure_ascii=False)

        rows.append((param["name"], param["type"], default, param["help"]))

    meaning = f"MEANING (set with --{kind.removesuffix('s')}-args NAME=VALUE,…)"
    print_table(("NAME", "TYPE", "DEFAULT", meaning), rows)


@example("ktdeval plugins")
@click.command()
@json_option
@config_option("plugin")
def plugins(as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List plugins, what each offers, and plugins that fail to load and are therefore skipped."""
    loaded = load_plugins(plugin or ())  # no warnings: the listing itself shows what is broken
    offers: dict[str, list[str]] = {name: [] for name in loaded.info}
    for kind in KINDS:
        for name in loaded.specs(kind):
            offers[loaded.owner(kind, name)].append(f"{kind}:{name}")

    listed = [*loaded.info.values(), *_unloaded(loaded)]
    if as_json:
        print_json(
            [
                {
                    **info._asdict(),
                    "offers": offers.get(info.name, []),
                    "error": loaded.broken.get(info.name),
                }
                for info in listed
            ]
        )
        return

    rows = []
    for info in listed:
        row = _plugin_row(info, offers.get(info.name, []), loaded.broken.get(info.name))
        rows.append(row)

    print_table(("PLUGIN", "FROM", "OFFERS"), rows)


@example("ktdeval commands")
@click.command()
@json_option
@config_option("plugin")
def commands(as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List all commands by what they are for, each with what it does."""
    from ktdeval.cli.main import command_groups, command_summaries

    of_plugins = open_plugins(plugin or ()).specs("commands")
    summaries = command_summaries(of_plugins)
    rows = []
    for group, names in command_groups(of_plugins).items():
        for name in names:
            rows.append((name, group, summaries[name]))

    if as_json:
        print_json([dict(zip(("name", "group", "summary"), row, strict=True)) for row in rows])
    else:
        print_table(("COMMAND", "GROUP", "SUMMARY"), rows)


def _unloaded(loaded: Plugins) -> list[PluginInfo]:
    """Return the plugins that fail to load, with the packages that advertise them."""
    origins = {entry.value: (entry.distribution, entry.version) for entry in find_entry_points()}
    unloaded = []
    for name in loaded.broken:
        if name not in loaded.info:
            distribution, version = origins.get(name, ("", ""))
            unloaded.append(PluginInfo(name, distribution, version, ()))

    return unloaded


def _plugin_row(info: PluginInfo, offers: Sequence[str], error: str | None) -> tuple[str, str, str]:
    """Return a plugin's name, package, and number of offers by kind; a few offers with names."""
    names_by_kind: dict[str, list[str]] = {}
    for offer in offers:
        kind, _, name = offer.partition(":")
        names_by_kind.setdefault(kind, []).append(name)

    parts = []
    for kind, names in names_by_kind.items():
        part = count_of(kind, len(names))
        if len(names) <= _FEW:
            part += f" ({', '.join(names)})"

        parts.append(part)

    if "ktdeval_event" in info.hooks:
        parts.append("observes runs")

    if error:
        parts.append(f"BROKEN: {error}")

    origin = f"{info.distribution} {info.version}".strip()
    return info.name, origin or "--plugin", ", ".join(parts) or "nothing"


def _list(
    kind: str,
    plugins: Plugins,
    as_json: bool,
    header: tuple[str, str, str],
    patterns: Sequence[str],
) -> None:
    """Print the things of a kind that patterns select, or all of them."""
    specs = list(plugins.specs(kind).values())
    if patterns:
        names = plugins.resolve_tasks(patterns) if kind == "tasks" else patterns
        specs = [plugins.spec(kind, name) for name in names]

    if as_json:
        print_json([spec_json(plugins, kind, spec) for spec in specs])
    elif kind in _HEADINGS and sys.stdout.isatty():
        _print_grouped(kind, specs)
    else:
        print_table(header, [_spec_row(kind, spec) for spec in specs])


def _print_grouped(kind: str, specs: Sequence[Spec]) -> None:
    """Print things of a kind for a reader: by group, with what shows one of them in full."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for spec in specs:
        label, _details, summary = _spec_row(kind, spec)
        groups.setdefault(_HEADINGS[kind](spec), []).append((label, summary))

    titled = {}
    for heading in sorted(groups):
        rows = groups[heading]
        titled[f"{heading} ({len(rows)})"] = rows

    print_groups(titled)
    click.echo(f"\none in full: ktdeval {kind} show NAME")


def _task_heading(spec: Spec) -> str:
    """Return the groups that select a task, the widest first."""
    return ", ".join(spec.groups) or "in no group"


def _model_heading(spec: Spec) -> str:
    provider, slash, _ = spec.name.partition("/")
    return provider if slash else "providers, each followed by the name of a model"


#: Kinds that a terminal shows in groups, and the heading of each thing
_HEADINGS: Mapping[str, Callable[[Spec], str]] = {"tasks": _task_heading, "models": _model_heading}


def _spec_row(kind: str, spec: Spec) -> tuple[str, str, str]:
    """Return name, groups (of a task) or parameters, and summary for a listing."""
    label = spec.name
    if kind == "models" and "/" not in label:
        label = f"{label}/…"  # a provider: any of its models may follow

    details: Sequence[str] = spec.groups
    if kind != "tasks":
        details = [field.name for field in params_of(spec)]

    return label, " ".join(details), spec.summary


def spec_json(plugins: Plugins, kind: str, spec: Spec) -> dict[str, Any]:
    """Describe what a plugin offers: name, summary, plugin and parameters.

    A task has its groups, family, version and default windows in place of parameters.
    """
    value: dict[str, Any] = {
        "name": spec.name,
        "summary": spec.summary,
        "plugin": plugins.owner(kind, spec.name),
    }
    if kind != "tasks":
        value["params"] = [param_json(field) for field in params_of(spec)]
        return value

    config = spec.extra.get("config", {})
    value["groups"] = list(spec.groups)
    for key in ("family", "version", "default_windows"):
        value[key] = config.get(key)

    return value
