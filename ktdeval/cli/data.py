"""`ktdeval data`: list providers; build, import or fetch a snapshot; show its content; check the quality of data."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import click

from ktdeval.cards import count
from ktdeval.cli.listing import spec_json
from ktdeval.cli.options import FilePath, config_option, field_option, inherited, json_option, open_plugins
from ktdeval.cli.table import params_of, print_json, print_table
from ktdeval.errors import UsageError
from ktdeval.fields import build_params, near_matches, parse_assignments, stored_market
from ktdeval.jsonio import csv_rows, dumps_pretty
from ktdeval.registry import Plugins
from ktdeval.task_files import merge_layers
from ktdeval.yamlio import load_yaml

if TYPE_CHECKING:
    from ktdeval.hookspecs import Spec
    from ktdeval.market.raw import RawMarket
    from ktdeval.market.snapshot import MarketSnapshot
    from ktdeval.runner.recipe import Recipe

Body = Callable[..., Any]
"""Action of a provider's command: called with the plugins, the Spec, the parameters given, and the command's own options."""


@click.group(invoke_without_command=True, subcommand_metavar="[build|import|fetch|info|check …]")
@json_option
@config_option("plugin")
@click.pass_context
def data(context: click.Context, as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List data providers: what `--data` takes besides a folder."""
    context.obj = plugins = open_plugins(plugin or ())
    if context.invoked_subcommand is not None:
        return
    specs = plugins.specs("data").values()
    if as_json:
        print_json([spec_json(plugins, "data", spec) for spec in specs])
        return
    rows = [(spec.name, f"ktdeval data {_verb(spec)} {spec.name} --help", spec.summary) for spec in specs]
    print_table(("PROVIDER", "OPTIONS", "SUMMARY"), rows)


def _verb(spec: Spec) -> str:
    """Return the subcommand of `ktdeval data` that makes a provider's market."""
    return "import" if "read" in spec.extra else "fetch" if "fetch" in spec.extra else "build"


class ProviderGroup(click.Group):
    """Group with one command for each data provider; its options derive from the provider's parameters."""

    def __init__(self, *args: Any, body: Body, own: Sequence[click.Option], only: str | None = None, **kwargs: Any) -> None:
        """Give every provider's command `body` and its `own` options; `only` is an `extra` that providers must have."""
        super().__init__(*args, **kwargs)
        self.body, self.own, self.only = body, own, only

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the providers."""
        return [name for name, spec in _plugins(ctx).specs("data").items() if self.only is None or self.only in spec.extra]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of one provider; None where there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        plugins = _plugins(ctx)
        spec = plugins.spec("data", cmd_name)
        callback = partial(_call_body, self.body, plugins, spec)
        options: list[click.Parameter] = [*_param_options(spec), *self.own]
        return click.Command(cmd_name, params=options, callback=callback, help=f"Source: {spec.summary}.", short_help=spec.summary)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the provider that the first word names; UsageError, with near names, where there is none."""
        command = self.get_command(ctx, args[0])
        if command is None:
            names = self.list_commands(ctx)
            providers = _plugins(ctx).specs("data")
            if args[0] in providers:
                raise UsageError(
                    f"data provider {args[0]!r} is not for {self.name}; say `ktdeval data {_verb(providers[args[0]])} {args[0]}`"
                )
            raise UsageError(f"unknown data provider {args[0]!r}{near_matches(args[0], names) or '; known: ' + ', '.join(names)}")
        return args[0], command, args[1:]


class CheckGroup(ProviderGroup):
    """Group of the providers that also takes the path of any stored snapshot."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a provider's command, or the one for a stored snapshot."""
        is_stored = stored_market(args[0]) is not None  # comes first, as after `--data`
        if is_stored or self.get_command(ctx, args[0]) is None:
            return args[0], _check_folder, args
        return super().resolve_command(ctx, args)


def _plugins(context: click.Context) -> Plugins:
    plugins = context.find_object(Plugins)
    return plugins or open_plugins()


def _param_options(spec: Spec) -> list[click.Parameter]:
    """One option for each parameter of a provider, `--set` and `--spec`."""
    hints = get_type_hints(spec.params) if spec.params is not None else {}
    options: list[click.Parameter] = [field_option(field, hints[field.name]) for field in params_of(spec)]
    options.append(click.Option(["--set", "assignments"], multiple=True, metavar="KEY=VALUE,…", help="parameters by name"))
    file = click.Option(
        ["--spec", "spec_file"], type=FilePath(), metavar="FILE", help="YAML file of parameters; options count more"
    )
    return [*options, file]


def _call_body(body: Body, plugins: Plugins, spec: Spec, **values: Any) -> Any:
    """Call a command's body with the parameters from the file, then `--set`, then single options; mappings merge key by key."""
    options = {field.name: value for field in params_of(spec) if (value := values.pop(field.name)) is not None}
    assigned, spec_file = parse_assignments(values.pop("assignments"), "--set"), values.pop("spec_file")
    layers = (load_yaml(spec_file) if spec_file is not None else {}, assigned, options)
    return body(plugins, spec, merge_layers(layers), **values)


def _build(plugins: Plugins, spec: Spec, args: Mapping[str, Any], out: Path) -> None:
    """Body of `data build NAME`: make a snapshot, store it and print its summary."""
    from ktdeval.runner.data_source import store_snapshot

    _print_summary(store_snapshot(plugins, spec.name, args, out), out)


def _print_summary(stored: MarketSnapshot, out: Path) -> None:
    """Print name, days and assets of a stored snapshot, its repairs and notes."""
    days = f"{len(stored.days)} days {stored.days[0]}…{stored.days[-1]}"
    click.echo(f"{out}: {stored.meta.name}, {days}, {len(stored.codes)} assets, id {stored.id}")
    for repair in stored.meta.repairs:
        click.echo(f"repaired: {repair}")
    for note in stored.meta.notes:
        click.echo(f"note: {note}")


def _import(plugins: Plugins, spec: Spec, args: Mapping[str, Any], out: Path) -> None:
    """Body of `data import NAME`: as build, with warnings on the data."""
    _build(plugins, spec, args, out)
    _warn(out)


def _warn(out: Path) -> None:
    """Print the warnings on a snapshot's data."""
    from ktdeval.market.quality import check, raw_from_snapshot
    from ktdeval.market.storage import load_snapshot

    warnings = [finding for finding in check(raw_from_snapshot(load_snapshot(out))) if finding.severity == "warning"]
    for finding in warnings:
        click.echo(f"note: {finding.count} {finding.kind}: {finding.hint}")
    if warnings:
        click.echo(f"`ktdeval data check {out}` shows more")


def _fetch(plugins: Plugins, spec: Spec, args: Mapping[str, Any], out: Path, expected: tuple[Path, Recipe] | None = None) -> None:
    """Body of `data fetch NAME`: as import, with a recipe."""
    from ktdeval.runner.recipe import RECIPE, fetch_snapshot

    query = spec.extra.get("pin", dict)({"answers": f"{out}.answers", **args})
    _print_summary(fetch_snapshot(plugins, spec.name, query, out, expected), out)
    _warn(out)
    click.echo(f"the recipe is {out / RECIPE}, the vendor's answers are in {query['answers']}")


@click.pass_context
def _fetch_again(context: click.Context, recipe: Path | None, out: Path | None, assignments: tuple[str, ...]) -> None:
    """Make the market of a recipe and compare; without a recipe a command of the group does the work."""
    if context.invoked_subcommand is not None:
        if recipe is not None:
            raise UsageError("--recipe names its market itself; leave out the provider and its options")
        return
    if recipe is None or out is None:
        raise UsageError("say what to fetch (`ktdeval data fetch --help` lists it), or --recipe FILE --out DIR")
    from ktdeval.runner.recipe import load_recipe

    plugins = _plugins(context)
    loaded, own = load_recipe(recipe, plugins), parse_assignments(assignments, "--set")
    spec = plugins.spec("data", loaded.market)
    if foreign := [name for name in own if name not in spec.extra["fetch"]]:
        raise UsageError(f"--set {foreign[0]}: the recipe sets that; set only {', '.join(spec.extra['fetch'])}")
    _fetch(plugins, spec, {**loaded.query, **own}, out, (recipe, loaded))
    click.echo(f"equal to the snapshot of {recipe}")


def _check_source(plugins: Plugins, spec: Spec, args: Mapping[str, Any], as_json: bool) -> int:
    """Body of `data check NAME`: check a source before it is imported, after the repairs asked for."""
    from ktdeval.market.assembly import apply_repairs
    from ktdeval.market.quality import raw_from_snapshot

    if "read" not in spec.extra:
        return _report(raw_from_snapshot(plugins.make_snapshot(spec.name, args)), as_json)
    params = build_params(spec.params, args, f"data provider {spec.name}") if spec.params is not None else None
    return _report(apply_repairs(spec.extra["read"](params), getattr(params, "repair", ())), as_json)


def _report(raw: RawMarket, as_json: bool) -> int:
    """Print the findings of a check; return 1 when there are errors."""
    from ktdeval.market.quality import check

    findings = check(raw)
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json or inherited(click.get_current_context(), "as_json"):
        report = {"market": raw.name, "errors": errors, "findings": [dataclasses.asdict(finding) for finding in findings]}
        click.echo(dumps_pretty(report), nl=False)
        return 1 if errors else 0
    rows: list[tuple[str, str, str]] = []
    for finding in findings:
        rows.append((finding.severity, f"{finding.count:>8}", f"{finding.kind}: {finding.hint}"))
        if finding.examples:
            rows.append(("", "", f"{', '.join(finding.examples)}{', …' if finding.count > len(finding.examples) else ''}"))
        if finding.repairs and finding.severity != "info":
            rows.append(("", "", f"fix with --repair {' or --repair '.join(finding.repairs)}"))
    if rows:
        print_table(("SEVERITY", "   COUNT", "FINDING"), rows)
    days = raw.table.days
    click.echo(f"{raw.name}: {len(days)} days {days[0]}…{days[-1]}, {len(raw.codes)} assets, {count(errors, 'kind')} of error")
    return 1 if errors else 0


@click.command("check")
@click.argument("folder", type=FilePath())
@json_option
@click.pass_context
def _check_folder(context: click.Context, folder: Path, as_json: bool) -> int:
    """Judge a stored snapshot."""
    from ktdeval.market.quality import raw_from_snapshot
    from ktdeval.market.storage import load_snapshot

    if not folder.exists():
        names = _plugins(context).specs("data")
        raise UsageError(f"{folder} is neither a folder nor a data provider{near_matches(str(folder), names)}")
    return _report(raw_from_snapshot(load_snapshot(folder)), as_json)


_OUT = click.Option(["--out"], required=True, type=FilePath(), metavar="DIR", help="folder to write")
_JSON = click.Option(["--json", "as_json"], is_flag=True, help="print JSON")
_AGAIN = (
    click.Option(["--recipe"], type=FilePath(), metavar="FILE", help="make the market of a recipe again"),
    click.Option(["--out"], type=FilePath(), metavar="DIR", help="folder to write, with --recipe"),
    click.Option(["--set", "assignments"], multiple=True, metavar="KEY=VALUE,…", help="what no recipe says, such as answers=DIR"),
)
_GROUPS: dict[str, dict[str, Any]] = {
    "build": {"body": _build, "own": [_OUT]},
    "import": {"body": _import, "own": [_OUT]},
    "fetch": {"body": _fetch, "own": [_OUT], "callback": _fetch_again, "invoke_without_command": True, "params": [*_AGAIN]},
    # The command that it calls reads the group's `--json`.
    "check": {"body": _check_source, "own": [_JSON], "params": [_JSON], "callback": lambda **_: None},
}
for _row in csv_rows(Path(__file__).with_name("data_groups.csv")):
    _words: dict[str, Any] = {column: text or None for column, text in _row.items()}
    data.add_command((CheckGroup if _row["name"] == "check" else ProviderGroup)(**_words, **_GROUPS[_row["name"]]))


@data.command("info", short_help="Show what a stored snapshot holds.")
@click.argument("folder", type=FilePath())
@json_option
def info(folder: Path, as_json: bool) -> None:
    """Show what a stored snapshot holds, after checking that it is unchanged."""
    from ktdeval.market.storage import load_snapshot

    facts = _facts(load_snapshot(folder), folder)
    if as_json:
        click.echo(dumps_pretty(facts), nl=False)
        return
    print_table(("FACT", "VALUE"), [(name, _fact_text(value)) for name, value in facts.items()])


def _fact_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {count}" for key, count in value.items())
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _kinds(snapshot: MarketSnapshot) -> dict[str, Any]:
    """Return the boards of a market of A-shares; kinds, venues and units of any other."""
    if not snapshot.instruments:
        return {"boards": {str(board): count for board, count in sorted(Counter(snapshot.boards).items())}}
    counts = {name: dict(sorted(Counter(of).items())) for name, of in (("kinds", snapshot.kinds), ("venues", snapshot.venues))}
    closes = int(snapshot.close_only.sum())
    return counts | {"currency": snapshot.currency, "days_a_year": snapshot.days_a_year, "assets_with_closes_only": closes}


def _facts(snapshot: MarketSnapshot, folder: Path) -> dict[str, Any]:
    meta, members, texts = snapshot.meta, snapshot.member.sum(axis=1), snapshot.documents
    return {
        "name": meta.name,
        "id": snapshot.id,
        **{name: getattr(meta, name) for name in ("source", "synthetic", "has_factor")},
        "repairs": list(meta.repairs),
        "notes": list(meta.notes),
        "days": len(snapshot.days),
        "first_day": str(snapshot.days[0]),
        "last_day": str(snapshot.days[-1]),
        "assets": len(snapshot.codes),
        **_kinds(snapshot),
        "industries": len(set(snapshot.industries)),
        "members_a_day": {"smallest": int(members.min()), "largest": int(members.max())},
        "bars": int((snapshot.close == snapshot.close).sum()),
        "benchmark": meta.benchmark or "none",
        "indices": [f"{code} ({name})" for code, name in sorted(snapshot.index_names.items())],
        **({"minutes": f"{len(snapshot.minutes.rows)} bars of {len(snapshot.minutes.codes)} assets"} if snapshot.minutes else {}),
        **({"documents": f"{len(texts)} known by {texts.close}, {len(texts.entities)} entities"} if texts else {}),
        "bytes": sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
    }
