"""`ktdeval data`: list providers; build, import, fetch, show and check market snapshots."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import click

from ktdeval.cards import count
from ktdeval.cli.examples import example
from ktdeval.cli.listing import spec_json
from ktdeval.cli.options import (
    FilePath,
    OutputPath,
    config_option,
    field_option,
    inherited,
    json_option,
    open_plugins,
)
from ktdeval.cli.table import params_of, print_json, print_table
from ktdeval.errors import UsageError
from ktdeval.plugins.registry import Plugins
from ktdeval.plugins.task_files import merge_layers
from ktdeval.values.fields import build_params, near_matches, parse_assignments, stored_market
from ktdeval.values.jsonio import JsonValue, csv_rows, dumps_pretty
from ktdeval.values.yamlio import load_yaml

if TYPE_CHECKING:
    from ktdeval.hookspecs import Spec
    from ktdeval.market.findings import Finding
    from ktdeval.market.raw import RawMarket
    from ktdeval.market.snapshot import MarketSnapshot
    from ktdeval.runner.recipe import Recipe

Body = Callable[..., Any]
"""Action of a provider's command, called with the plugins, the provider's Spec, the parameters
given, and the command's own options.
"""


@example("ktdeval data", "ktdeval data build synthetic --out my-market")
@click.group(invoke_without_command=True, subcommand_metavar="[build|import|fetch|info|check …]")
@json_option
@config_option("plugin")
@click.pass_context
def data(context: click.Context, as_json: bool, plugin: tuple[str, ...] | None) -> None:
    """List data providers. `--data` takes one of them, or a folder."""
    plugins = open_plugins(plugin or ())
    context.obj = plugins
    if context.invoked_subcommand is not None:
        return

    specs = plugins.specs("data").values()
    if as_json:
        print_json([spec_json(plugins, "data", spec) for spec in specs])
        return

    rows = []
    for spec in specs:
        command = f"ktdeval data {_verb(spec)} {spec.name} --help"
        rows.append((spec.name, command, spec.summary))

    print_table(("PROVIDER", "OPTIONS", "SUMMARY"), rows)


def _verb(spec: Spec) -> str:
    """Return the subcommand of `ktdeval data` that makes a provider's market."""
    if "read" in spec.extra:
        return "import"
    if "fetch" in spec.extra:
        return "fetch"
    return "build"


class ProviderGroup(click.Group):
    """Group with a command for each data provider, whose options are the provider's parameters."""

    def __init__(
        self,
        *args: Any,
        body: Body,
        own: Sequence[click.Option],
        only: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Give every provider's command `body` and its `own` options.

        `only`: a key that the `extra` of a provider must have.
        """
        super().__init__(*args, **kwargs)
        self.body = body
        self.own = own
        self.only = only

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the providers."""
        specs = _plugins(ctx).specs("data")
        if self.only is None:
            return list(specs)
        return [name for name, spec in specs.items() if self.only in spec.extra]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a provider, or None if there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None

        plugins = _plugins(ctx)
        spec = plugins.spec("data", cmd_name)
        callback = partial(_call_body, self.body, plugins, spec)
        options: list[click.Parameter] = [*_param_options(spec), *self.own]

        command = click.Command(
            cmd_name,
            params=options,
            callback=callback,
            help=f"Source: {spec.summary}.",
            short_help=spec.summary,
        )
        return example(self._example(spec))(command)

    def _example(self, spec: Spec) -> str:
        """Return a line that calls a provider's command; its Spec's `extra` has the arguments that
        the provider needs.
        """
        words = ["ktdeval data", str(self.name), spec.name, spec.extra.get("example", "")]
        if any(option.required for option in self.own):
            words.append("--out my-market")

        return " ".join(word for word in words if word)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the provider that the first word names.

        Raises UsageError, with near names, if there is none.
        """
        name, *rest = args
        command = self.get_command(ctx, name)
        if command is not None:
            return name, command, rest

        providers = _plugins(ctx).specs("data")
        if name in providers:
            right_command = f"ktdeval data {_verb(providers[name])} {name}"
            raise UsageError(
                f"data provider {name!r} is not for {self.name}; use `{right_command}`"
            )

        names = self.list_commands(ctx)
        advice = near_matches(name, names) or f"; known: {', '.join(names)}"
        raise UsageError(f"unknown data provider {name!r}{advice}")


class CheckGroup(ProviderGroup):
    """Group of the providers that also takes the path of a stored snapshot."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a provider's command, or the one for a stored snapshot."""
        # A stored snapshot precedes a provider of the same name, as it does after `--data`.
        is_stored = stored_market(args[0]) is not None
        if is_stored or self.get_command(ctx, args[0]) is None:
            return args[0], _check_folder, args
        return super().resolve_command(ctx, args)


def _plugins(context: click.Context) -> Plugins:
    plugins = context.find_object(Plugins)
    return plugins or open_plugins()


def _param_options(spec: Spec) -> list[click.Parameter]:
    """Return an option for each parameter of a provider, `--set` and `--spec`."""
    options: list[click.Parameter] = []
    if spec.params is not None:
        hints = get_type_hints(spec.params)
        for field in params_of(spec):
            options.append(field_option(field, hints[field.name]))

    assignments = click.Option(
        ["--set", "assignments"],
        multiple=True,
        metavar="KEY=VALUE,…",
        help="parameters by name",
    )
    file = click.Option(
        ["--spec", "spec_file"],
        type=FilePath(),
        metavar="FILE",
        help="YAML file of parameters; options override it",
    )
    return [*options, assignments, file]


def _call_body(body: Body, plugins: Plugins, spec: Spec, **values: Any) -> Any:
    """Call a command's body with the provider's parameters.

    `--set` overrides the file, and single options override both; mappings merge key by key.
    """
    options = {}
    for field in params_of(spec):
        value = values.pop(field.name)
        if value is not None:
            options[field.name] = value

    assigned = parse_assignments(values.pop("assignments"), "--set")
    spec_file = values.pop("spec_file")
    in_file = {} if spec_file is None else load_yaml(spec_file)
    args = merge_layers((in_file, assigned, options))
    return body(plugins, spec, args, **values)


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
    """Body of `data import NAME`: build, then warn of problems in the data."""
    _build(plugins, spec, args, out)
    _warn(out)


def _warn(out: Path) -> None:
    """Print the warnings on a snapshot's data."""
    from ktdeval.market.quality import check, raw_from_snapshot
    from ktdeval.market.storage import load_snapshot

    findings = check(raw_from_snapshot(load_snapshot(out)))
    warnings = [finding for finding in findings if finding.severity == "warning"]
    for finding in warnings:
        first = f" (first: {finding.examples[0]})" if finding.examples else ""
        click.echo(f"note: {finding.count} {finding.kind}{first}: {finding.hint}; {finding.fix}")

    if warnings:
        click.echo(f"`ktdeval data check {out}` shows more")


def _fetch(
    plugins: Plugins,
    spec: Spec,
    args: Mapping[str, Any],
    out: Path,
    expected: tuple[Path, Recipe] | None = None,
) -> None:
    """Body of `data fetch NAME`: fetch with a recipe, then warn of problems in the data."""
    from ktdeval.runner.recipe import RECIPE, fetch_snapshot

    # Pinning fixes what would change with the day of the query, so that the recipe repeats it.
    pin = spec.extra.get("pin", dict)
    query = pin({"answers": f"{out}.answers", **args})
    _print_summary(fetch_snapshot(plugins, spec.name, query, out, expected), out)
    _warn(out)
    click.echo(f"the recipe is {out / RECIPE}, the vendor's answers are in {query['answers']}")


@click.pass_context
def _fetch_again(
    context: click.Context, recipe: Path | None, out: Path | None, assignments: tuple[str, ...]
) -> None:
    """Fetch the market of a recipe again and compare. With a provider, its command fetches."""
    if context.invoked_subcommand is not None:
        if recipe is not None:
            raise UsageError("--recipe already names its market; omit the provider and its options")

        return

    if recipe is None or out is None:
        raise UsageError(
            "name what to fetch (`ktdeval data fetch --help` lists it), or --recipe FILE --out DIR"
        )

    from ktdeval.runner.recipe import load_recipe

    plugins = _plugins(context)
    loaded = load_recipe(recipe, plugins)
    own = parse_assignments(assignments, "--set")
    spec = plugins.spec("data", loaded.market)
    allowed = spec.extra["fetch"]
    for name in own:
        if name not in allowed:
            raise UsageError(f"--set {name}: the recipe sets that; set only {', '.join(allowed)}")

    _fetch(plugins, spec, {**loaded.query, **own}, out, (recipe, loaded))
    click.echo(f"equal to the snapshot of {recipe}")


def _check_source(plugins: Plugins, spec: Spec, args: Mapping[str, Any], as_json: bool) -> int:
    """Body of `data check NAME`: check a source before it is imported, with its repairs applied."""
    from ktdeval.market.assembly import apply_repairs
    from ktdeval.market.quality import raw_from_snapshot

    if "read" not in spec.extra:
        return _report(raw_from_snapshot(plugins.make_snapshot(spec.name, args)), as_json)

    params = None
    if spec.params is not None:
        params = build_params(spec.params, args, f"data provider {spec.name}")

    raw = spec.extra["read"](params)
    repaired = apply_repairs(raw, getattr(params, "repair", ()))
    return _report(repaired, as_json)


def _report(raw: RawMarket, as_json: bool) -> int:
    """Print the findings of a check; return 1 if there are errors."""
    from ktdeval.market.quality import check

    findings = check(raw)
    errors = sum(finding.severity == "error" for finding in findings)
    exit_code = 1 if errors else 0
    if as_json or inherited(click.get_current_context(), "as_json"):
        report: dict[str, JsonValue] = {
            "market": raw.name,
            "errors": errors,
            "findings": [dataclasses.asdict(finding) for finding in findings],
        }
        click.echo(dumps_pretty(report), nl=False)
        return exit_code

    rows: list[tuple[str, str, str]] = []
    for finding in findings:
        rows.extend(_finding_rows(finding))

    if rows:
        print_table(("SEVERITY", "   COUNT", "FINDING"), rows)

    days = raw.table.days
    click.echo(
        f"{raw.name}: {len(days)} days {days[0]}…{days[-1]}, {len(raw.codes)} assets,"
        f" {count(errors, 'kind')} of error"
    )
    return exit_code


def _finding_rows(finding: Finding) -> Iterator[tuple[str, str, str]]:
    """Yield a finding's row, and below it its examples and how to fix it."""
    from ktdeval.market.findings import EXAMPLES, NOTHING

    yield finding.severity, f"{finding.count:>8}", f"{finding.kind}: {finding.hint}"
    if finding.examples:
        examples = ", ".join(finding.examples)
        if finding.count > len(finding.examples) == EXAMPLES:
            examples += ", …"

        yield "", "", examples

    if not finding.fix.startswith(NOTHING):
        yield "", "", f"fix: {finding.fix}"


@click.command("check")
@click.argument("folder", type=FilePath())
@json_option
@click.pass_context
def _check_folder(context: click.Context, folder: Path, as_json: bool) -> int:
    """Check a stored snapshot."""
    from ktdeval.market.quality import raw_from_snapshot
    from ktdeval.market.storage import load_snapshot

    if not folder.exists():
        names = _plugins(context).specs("data")
        raise UsageError(
            f"{folder} is neither a folder nor a data provider{near_matches(str(folder), names)}"
        )

    return _report(raw_from_snapshot(load_snapshot(folder)), as_json)


_SNAPSHOT = OutputPath("new folder", mark="manifest.json")
_OUT = click.Option(["--out"], required=True, type=_SNAPSHOT, metavar="DIR", help="folder to write")
_JSON = click.Option(["--json", "as_json"], is_flag=True, help="print JSON")
_AGAIN = (
    click.Option(
        ["--recipe"], type=FilePath(), metavar="FILE", help="fetch the market of a recipe again"
    ),
    click.Option(["--out"], type=_SNAPSHOT, metavar="DIR", help="folder to write, with --recipe"),
    click.Option(
        ["--set", "assignments"],
        multiple=True,
        metavar="KEY=VALUE,…",
        help="parameters that a recipe omits, such as answers=DIR",
    ),
)
_GROUPS: dict[str, dict[str, Any]] = {
    "build": {"body": _build, "own": [_OUT]},
    "import": {"body": _import, "own": [_OUT]},
    "fetch": {
        "body": _fetch,
        "own": [_OUT],
        "callback": _fetch_again,
        "invoke_without_command": True,
        "params": [*_AGAIN],
    },
    # The group's own callback does nothing: the subcommand reads the group's `--json`.
    "check": {
        "body": _check_source,
        "own": [_JSON],
        "params": [_JSON],
        "callback": lambda **_: None,
    },
}
for _row in csv_rows(Path(__file__).with_name("data_groups.csv")):
    _name = _row["name"]
    _texts: dict[str, Any] = {column: text or None for column, text in _row.items()}
    _line = _texts.pop("example")
    _kind = CheckGroup if _name == "check" else ProviderGroup
    data.add_command(example(_line)(_kind(**_texts, **_GROUPS[_name])))


@example("ktdeval data info my-market")
@data.command("info", short_help="Show the content of a stored snapshot.")
@click.argument("folder", type=FilePath())
@json_option
def info(folder: Path, as_json: bool) -> None:
    """Show the content of a stored snapshot, after checking that it is unchanged."""
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
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _counts(labels: Iterable[str]) -> dict[str, int]:
    """Return how often each label occurs, in the order of the labels."""
    return {str(label): number for label, number in sorted(Counter(labels).items())}


def _kinds(snapshot: MarketSnapshot) -> dict[str, Any]:
    """Return the boards of a market of A-shares; kinds, venues and units of any other."""
    if not snapshot.instruments:
        return {"boards": _counts(snapshot.boards)}

    return {
        "kinds": _counts(snapshot.kinds),
        "venues": _counts(snapshot.venues),
        "currency": snapshot.currency,
        "days_a_year": snapshot.days_a_year,
        "assets_with_closes_only": int(snapshot.close_only.sum()),
    }


def _facts(snapshot: MarketSnapshot, folder: Path) -> dict[str, Any]:
    """Return the facts that `data info` shows, by name."""
    meta = snapshot.meta
    members = snapshot.member.sum(axis=1)
    files = [path for path in folder.iterdir() if path.is_file()]

    return {
        "name": meta.name,
        "id": snapshot.id,
        "source": meta.source,
        "synthetic": meta.synthetic,
        "has_factor": meta.has_factor,
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
        **_optional_facts(snapshot),
        "bytes": sum(path.stat().st_size for path in files),
    }


def _optional_facts(snapshot: MarketSnapshot) -> dict[str, str]:
    """Return the sizes of minutes and documents, if the snapshot has them."""
    facts = {}
    minutes = snapshot.minutes
    if minutes:
        facts["minutes"] = f"{len(minutes.rows)} bars of {len(minutes.codes)} assets"

    texts = snapshot.documents
    if texts:
        facts["documents"] = f"{len(texts)} known by {texts.close}, {len(texts.entities)} entities"

    return facts
