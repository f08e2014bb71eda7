"""`ktdeval list`: list the items of a kind, or show a single item in full."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ktdeval.cli.command_tree import all_commands, by_title
from ktdeval.cli.families import WIDTH, family_lines, model_family_lines
from ktdeval.cli.help.completers import complete_names
from ktdeval.cli.help.examples import example
from ktdeval.cli.options import (
    JsonOptions,
    PluginOptions,
    flag,
    open_plugins,
    options_of,
)
from ktdeval.cli.terminal_tables import (
    param_json,
    params_of,
    print_groups,
    print_json,
    print_table,
    terminal_width,
)
from ktdeval.errors import UsageError
from ktdeval.hookspecs import Spec
from ktdeval.registry.discovery import find_entry_points
from ktdeval.registry.plugin_registry import KINDS, PluginInfo, Plugins, count_of, load_plugins
from ktdeval.values.disk.files import csv_rows
from ktdeval.values.documents.strict_json import plain
from ktdeval.values.options.config_options import near_matches, to_mapping

T = TypeVar("T")

_FEW = 3  # maximum number of items of a kind that a plugin's row names
_WORDS_BEFORE = ("show", "list", "ls")

#: rows of listings.csv by kind, with the kind's header and summary
_ROWS = {row["kind"]: row for row in csv_rows(Path(__file__).with_name("listings.csv"))}


@dataclass(frozen=True, kw_only=True)
class ListingOptions(JsonOptions, PluginOptions):
    """Options for every listing."""

    every: bool = flag(False, name="--all", help="one task or model a line, instead of families")


class _ListCommand(click.Command):
    """Command `list KIND`. A kind that a plugin adds has its own command, named `list KIND`."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of this command, or of the command that lists a kind added by a
        plugin.
        """
        if args and args[0] not in _ROWS and not args[0].startswith("-"):
            plugins = open_plugins()
            words = f"list {args[0]}"
            if words in plugins.specs("commands"):
                own: click.Command = plugins.make("commands", words)
                return own.make_context(words, args[1:], parent, **extra)

        return super().make_context(info_name, args, parent, **extra)


def _complete_listed(
    context: click.Context, parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    """Complete the names of the kind being listed."""
    kind = context.params.get("kind")
    if kind not in KINDS or kind == "commands":
        return []
    return complete_names(kind)(context, parameter, text)


def _complete_kinds(
    _context: click.Context, _parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    """Complete the kinds that can be listed, including those of plugins."""
    kinds = _kind_summaries(load_plugins())
    return [CompletionItem(kind, help=kinds[kind]) for kind in kinds if kind.startswith(text)]


@example("ktdeval list metrics")
@click.command("list", cls=_ListCommand)
@click.argument("kind", required=False, shell_complete=_complete_kinds)
@click.argument("names", nargs=-1, metavar="[NAME]…", shell_complete=_complete_listed)
@options_of(ListingOptions)
def list_(kind: str | None, names: tuple[str, ...], options: ListingOptions) -> None:
    """List what there is of a kind, or explain what NAME is.

    KIND: tasks, models, agents, metrics, venues, data, runners, tools, cards, plugins, commands, or
    one that a plugin adds; without it the kinds are listed. Tasks and models are listed by family.

    NAME of a task: its resolved config, data card and sources; a family, group or glob lists its
    tasks. NAME of a model or provider: its parameters with type, default and meaning; a family
    lists its models.
    """
    plugins = _loaded_plugins(kind, options)
    kinds = _kind_summaries(plugins)
    if kind is None:
        _print_kinds(kinds, options.as_json)
    elif kind in kinds:
        _list_kind(kind, plugins, names, options)
    else:
        near = near_matches(kind, kinds)
        raise UsageError(f"list: unknown kind {kind!r}{near}; kinds are {', '.join(kinds)}")


def _loaded_plugins(kind: str | None, options: ListingOptions) -> Plugins:
    """Return the plugins. A listing of plugins is loaded without warnings, since it shows itself
    which plugins fail to load.
    """
    if kind == "plugins":
        return open_plugins(options.plugin or (), None)
    return open_plugins(options.plugin or ())


def _kind_summaries(plugins: Plugins) -> dict[str, str]:
    """Return the summary of each kind, including kinds added by plugins."""
    kinds = {kind: row["summary"] for kind, row in _ROWS.items()}
    for words, spec in plugins.specs("commands").items():
        first, _, kind = words.partition(" ")
        if first == "list" and kind:
            kinds[kind] = spec.summary

    return kinds


def _print_kinds(kinds: Mapping[str, str], as_json: bool) -> None:
    if as_json:
        print_json([{"name": kind, "summary": summary} for kind, summary in kinds.items()])
        return

    print_table(("KIND", "SUMMARY"), kinds.items())


# ---- a single item in full


def _show(plugins: Plugins, kind: str, name: str, as_json: bool) -> None:
    """Print one item of a kind in full."""
    if kind in _SHOWN:
        _SHOWN[kind](plugins, name, as_json)
        return

    # `openai/gpt-…` has its provider's parameters
    if kind == "models" and name not in plugins.specs(kind):
        name, *_rest = plugins.model_spec_name(name)

    _show_params(plugins, kind, name, as_json)


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
    from ktdeval.task_api.trading_task import describe_task

    task = plugins.make_task(name)
    described = describe_task(task, plugins.tools(task.tools))
    _print_whole({"plugin": plugins.owner("tasks", name), **described}, as_json)


def _show_venue(plugins: Plugins, name: str, as_json: bool) -> None:
    from ktdeval.market.rules.fees import duty_rows, is_dated

    venue = plugins.make_venue(name)
    facts: dict[str, Any] = {"plugin": plugins.owner("venues", name), **to_mapping(venue)}
    if is_dated(venue):
        facts["duties"] = [row.facts() for row in duty_rows()[venue.name]]

    _print_whole(facts, as_json)


def _print_whole(facts: Mapping[str, Any], as_json: bool) -> None:
    """Print all facts as JSON, or as YAML that fits the width of the terminal."""
    if as_json:
        print_json(facts)
        return

    import yaml

    width = max(60, min(terminal_width(), 110))
    text = yaml.safe_dump(plain(facts), sort_keys=False, allow_unicode=True, width=width)
    click.echo(text, nl=False)


#: functions that show an item in full, for kinds whose items are not described by their parameters
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


def _list_plugins(plugins: Plugins, names: Sequence[str], as_json: bool) -> None:
    """List plugins with what each one offers, including plugins that were skipped because they fail
    to load.
    """
    offers: dict[str, list[str]] = {name: [] for name in plugins.info}
    for kind in KINDS:
        for name in plugins.specs(kind):
            offers[plugins.owner(kind, name)].append(f"{kind}:{name}")

    listed = {info.name: info for info in [*plugins.info.values(), *_list_failed_plugins(plugins)]}
    chosen = _chosen_entries("plugin", listed, names)
    if as_json:
        print_json(
            [
                {
                    **asdict(info),
                    "offers": offers.get(info.name, []),
                    "error": plugins.broken.get(info.name),
                }
                for info in chosen
            ]
        )
        return

    rows = []
    for info in chosen:
        row = _plugin_row(info, offers.get(info.name, []), plugins.broken.get(info.name))
        rows.append(row)

    print_table(("PLUGIN", "FROM", "OFFERS"), rows)


def _list_commands(plugins: Plugins, names: Sequence[str], as_json: bool) -> None:
    """List all commands by group, each with its summary."""
    rows = {}
    for group, members in by_title(all_commands(plugins)).items():
        for name, command in members.items():
            rows[name] = (name, group, command.short_help or "")

    chosen = _chosen_entries("command", rows, names)
    if as_json:
        print_json([dict(zip(("name", "group", "summary"), row, strict=True)) for row in chosen])
    else:
        print_table(("COMMAND", "GROUP", "SUMMARY"), chosen)


def _chosen_entries(kind: str, listed: Mapping[str, T], names: Sequence[str]) -> list[T]:
    """Return the listed items with the given names, or all items if no names are given. Raises
    UsageError if a name is unknown.
    """
    for name in names:
        if name not in listed:
            raise UsageError(f"unknown {kind} {name!r}{near_matches(name, list(listed))}")

    return [listed[name] for name in names or listed]


def _list_failed_plugins(loaded: Plugins) -> list[PluginInfo]:
    """Return the plugins that fail to load, with the packages that contain them."""
    origins = {entry.value: (entry.distribution, entry.version) for entry in find_entry_points()}
    unloaded = []
    for name in loaded.broken:
        if name not in loaded.info:
            distribution, version = origins.get(name, ("", ""))
            unloaded.append(PluginInfo(name, distribution, version, ()))

    return unloaded


def _plugin_row(info: PluginInfo, offers: Sequence[str], error: str | None) -> tuple[str, str, str]:
    """Return a plugin's name, its package, and the number of its items by kind. If there are only a
    few items of a kind, they are named.
    """
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


def _list_kind(kind: str, plugins: Plugins, given: Sequence[str], options: ListingOptions) -> None:
    """Print the items of a kind. A single name is shown in full; several names limit the list to
    these items.

    The word `show` before names has no effect.
    """
    names = list(given)
    if names and names[0] in _WORDS_BEFORE:
        del names[0]

    if kind in _LISTS:
        _LISTS[kind](plugins, names, options.as_json)
        return

    if len(names) == 1 and _is_one(kind, plugins, names[0]):
        _show(plugins, kind, names[0], options.as_json)
        return

    specs = list(plugins.specs(kind).values())
    if kind in _FAMILY_LINES and not (names or options.every or options.as_json):
        width = WIDTH
        if sys.stdout.isatty():
            width = min(WIDTH, terminal_width())

        click.echo("\n".join(_FAMILY_LINES[kind](specs, width)))
        return

    if names:
        specs = _named_specs(kind, plugins, names)

    _print_specs(kind, plugins, specs, options.as_json)


def _named_specs(kind: str, plugins: Plugins, names: Sequence[str]) -> list[Spec]:
    """Return the items of a kind that names refer to, with families expanded to their members."""
    if kind == "tasks":
        return [plugins.spec(kind, name) for name in plugins.resolve_tasks(names)]

    found = []
    for name in names:
        members = []
        if kind == "models":
            members = _family_members(plugins, name)

        found += members or [plugins.spec(kind, name)]

    return found


def _family_members(plugins: Plugins, family: str) -> list[Spec]:
    """Return the models with a full name FAMILY/NAME."""
    specs = plugins.specs("models")
    return [spec for name, spec in specs.items() if name.startswith(f"{family}/")]


def _is_one(kind: str, plugins: Plugins, name: str) -> bool:
    """Return whether a name refers to a single item, which is then shown in full. Families of tasks
    or models, and globs of tasks, refer to several.
    """
    if name in plugins.specs(kind):
        return True

    if kind == "tasks":
        return plugins.is_derived(name)

    return kind != "models" or not _family_members(plugins, name)


def _print_specs(kind: str, plugins: Plugins, specs: Sequence[Spec], as_json: bool) -> None:
    """Print items of a kind as JSON, in groups (on a terminal), or one per line."""
    row = _ROWS[kind]
    if as_json:
        print_json([spec_json(plugins, kind, spec) for spec in specs])
    elif kind in _HEADINGS and sys.stdout.isatty():
        _print_grouped(kind, specs)
    else:
        header = (row["name"], row["beside"], "SUMMARY")
        print_table(header, [_spec_row(kind, spec) for spec in specs])


def _print_grouped(kind: str, specs: Sequence[Spec]) -> None:
    """Print items of a kind in groups, followed by the command that shows an item in full."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for spec in specs:
        label, _details, summary = _spec_row(kind, spec)
        groups.setdefault(_HEADINGS[kind](spec), []).append((label, summary))

    titled = {}
    for heading in sorted(groups):
        rows = groups[heading]
        titled[f"{heading} ({len(rows)})"] = rows

    print_groups(titled)
    click.echo(f"\none in full: ktdeval list {kind} NAME")


def _task_heading(spec: Spec) -> str:
    """Return the groups that contain a task, widest first."""
    return ", ".join(spec.groups) or "in no group"


def _model_heading(spec: Spec) -> str:
    provider, slash, _ = spec.name.partition("/")
    return provider if slash else "providers, each followed by the name of a model"


#: functions that return the lines of a listing, for kinds that are listed by family
_FAMILY_LINES: Mapping[str, Callable[[Sequence[Spec], int], list[str]]] = {
    "tasks": family_lines,
    "models": model_family_lines,
}


#: heading function by kind, for kinds that a terminal listing groups under headings
_HEADINGS: Mapping[str, Callable[[Spec], str]] = {"tasks": _task_heading, "models": _model_heading}


def _spec_row(kind: str, spec: Spec) -> tuple[str, str, str]:
    """Return the columns of a listing: name, groups (of a task) or parameters, and summary."""
    label = spec.name
    if kind == "models" and "/" not in label:
        label = f"{label}/…"  # a provider, whose name any of its models may follow

    details: Sequence[str] = ()
    if kind == "tasks":
        details = spec.groups
    elif _ROWS[kind]["beside"]:
        details = [field.name for field in params_of(spec)]

    return label, " ".join(details), spec.summary


def spec_json(plugins: Plugins, kind: str, spec: Spec) -> dict[str, Any]:
    """Return the name, summary, plugin and parameters of an item that a plugin offers.

    Instead of parameters, a task has its groups, family, version and default windows.
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


#: functions that list kinds whose items are not Specs of plugins
_LISTS: Mapping[str, Callable[[Plugins, Sequence[str], bool], None]] = {
    "plugins": _list_plugins,
    "commands": _list_commands,
}
