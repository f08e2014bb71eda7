"""`ktdeval data make`: make the data of a provider, whose parameters are additional options of the
command.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import click

from ktdeval.cards import count
from ktdeval.cli import (
    FilePath,
    JsonOptions,
    OutputPath,
    complete_names,
    example,
    field_option,
    flag,
    is_required,
    open_plugins,
    options_of,
    params_of,
    print_findings,
    write_groups,
)
from ktdeval.errors import PluginError, UsageError
from ktdeval.registry import Plugins, merge_layers
from ktdeval.values import build_params, load_yaml, near_matches, option
from ktdeval_data.check_command import report_market

if TYPE_CHECKING:
    from ktdeval.hookspecs import Spec
    from ktdeval.market import MarketSnapshot
    from ktdeval_data.recipes import Recipe


@dataclass(frozen=True)
class MakeOptions(JsonOptions):
    """Options for `ktdeval data make` that apply to every provider."""

    out: Path | None = flag(
        None,
        type=OutputPath("new folder", mark="manifest.json"),
        metavar="DIR",
        help="folder to write",
    )
    check_only: bool = flag(
        False,
        help="check the source without storing a market; the exit code is 1 if there are errors",
    )
    recipe: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help="fetch the market of a recipe again and compare it; needs no PROVIDER",
    )
    set: Mapping[str, Any] = option(factory=dict, help="parameters by name")
    spec: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help="YAML file of parameters; options override it",
    )


def provider_kind(spec: Spec) -> str:
    """Return how a provider obtains its data: generated, imported or fetched."""
    if "read" in spec.extra:
        return "imported"
    if "fetch" in spec.extra:
        return "fetched"

    return str(spec.extra.get("kind", "generated"))


class ProviderCommand(click.Command):
    """`ktdeval data make PROVIDER`, with the provider's parameters as options in addition to the
    common options.
    """

    def __init__(self, plugins: Plugins, spec: Spec, common: Sequence[click.Parameter]) -> None:
        hints = {} if spec.params is None else get_type_hints(spec.params)
        self._fields = {field.name: field for field in params_of(spec)}
        #: the provider's own options and arguments
        self.own = [field_option(field, hints[name]) for name, field in self._fields.items()]
        _check_names(spec, self.own, common)
        super().__init__(
            spec.name,
            params=[*self.own, *common],
            callback=partial(_make_of_provider, plugins, spec),
            help=f"Source: {spec.summary}.",
            short_help=spec.summary,
            # the callback handles unexpected words
            context_settings={"allow_extra_args": True},
        )
        words = ("ktdeval data make", spec.name, spec.extra.get("example", ""), "--out my-market")
        example(" ".join(word for word in words if word))(self)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises UsageError if a required parameter is missing both as an option and in `--set` and
        `--spec`. The message lists the options to add.
        """
        rest = super().parse_args(ctx, args)
        is_whole = ctx.resilient_parsing or ctx.params["recipe"] is not None
        missing = [] if is_whole else self._missing(ctx)
        if missing:
            raise UsageError(
                f"give {' '.join(missing)}, which {self.name} needs (see `ktdeval data make"
                f" {self.name} --help`)"
            )

        return rest

    def _missing(self, ctx: click.Context) -> list[str]:
        """Return the required options that are missing, as written in help; empty if a misspelt
        name explains why they are missing.
        """
        given = given_params(
            {name: ctx.params[name] for name in self._fields}, ctx.params["set"], ctx.params["spec"]
        )
        if not set(given) <= set(self._fields):
            return []

        missing = []
        for parameter in self.own:
            field = self._fields[str(parameter.name)]
            if not is_required(field) or field.name in given:
                continue

            if isinstance(parameter, click.Argument):
                # older versions of click have no help record for arguments
                missing.append(parameter.human_readable_name)
            elif (record := parameter.get_help_record(ctx)) is not None:
                missing.append(record[0])

        return missing

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the provider's options, then the options common to all providers."""
        common = [each for each in self.get_params(ctx) if each not in self.own]
        groups = {f"Options of {self.name}": self.own, "Options": common}
        write_groups(ctx, formatter, groups, col_max=30)


def _check_names(
    spec: Spec, own: Sequence[click.Parameter], common: Sequence[click.Parameter]
) -> None:
    """Raise PluginError if a provider's parameter has the same name as a common option."""
    taken = {name for each in common for name in (each.name, *each.opts)}
    for parameter in own:
        if taken & {parameter.name, *parameter.opts}:
            raise PluginError(
                f"data provider {spec.name!r}: its parameter {parameter.name!r} has the name of an"
                " option of `ktdeval data make`; rename it"
            )


class MakeCommand(click.Command):
    """Single command for all providers. Its first word names the provider, whose options may
    follow.
    """

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the arguments. If they name a provider, the provider's own command parses them."""
        context = click.Context(self, info_name=info_name, parent=parent, **extra)
        position = self._provider_at(context, args)
        if position is None:
            return super().make_context(info_name, args, parent, **extra)

        name = args[position]
        command = self.of_provider(context, name)
        if command is None:
            if context.resilient_parsing:
                return super().make_context(info_name, args, parent, **extra)

            names = list(loaded_plugins(context).specs("data"))
            advice = near_matches(name, names) or f"; known: {', '.join(names)}"
            raise UsageError(f"unknown data provider {name!r}{advice}")

        rest = [*args[:position], *args[position + 1 :]]
        return command.make_context(f"{info_name} {name}", rest, parent, **extra)

    def of_provider(self, context: click.Context, name: str) -> ProviderCommand | None:
        """Return the command for a provider; None if no provider has this name."""
        plugins = loaded_plugins(context)
        spec = plugins.specs("data").get(name)
        if spec is None:
            return None

        common = [each for each in self.params if isinstance(each, click.Option)]
        return ProviderCommand(plugins, spec, common)

    def of_providers(self, context: click.Context) -> list[ProviderCommand]:
        """Return the commands for all providers."""
        names = loaded_plugins(context).specs("data")
        commands = [self.of_provider(context, name) for name in names]
        return [command for command in commands if command is not None]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Return the parts of the usage line."""
        return ["PROVIDER", "[OPTIONS OF PROVIDER]", "--out DIR"]

    def _provider_at(self, context: click.Context, args: Sequence[str]) -> int | None:
        """Return the index of the word that names a provider: the first word that is neither a
        common option nor the value of one. None if no word fits.

        Raises UsageError if another option precedes the name.
        """
        parser = self.make_parser(context)
        parser.allow_interspersed_args = False
        try:
            values, rest, _ = parser.parse_args(list(args))
        except click.NoSuchOption as error:
            common = [name for parameter in self.params for name in parameter.opts]
            near = near_matches(error.option_name, common)
            raise UsageError(
                f"no such option {error.option_name} before a provider; options of a provider"
                f" follow its name: `ktdeval data make PROVIDER {error.option_name} …`{near}"
            ) from error

        if not isinstance(values.get("provider"), str):
            return None
        return len(args) - len(rest) - 1


def loaded_plugins(context: click.Context) -> Plugins:
    """Return the plugins that the group `data` has loaded; load them if it has not."""
    return context.find_object(Plugins) or open_plugins()


@example("ktdeval data make synthetic --out my-market")
@click.command("make", cls=MakeCommand)
@click.argument("provider", required=False, shell_complete=complete_names("data"))
@options_of(MakeOptions)
@click.pass_context
def make(context: click.Context, provider: str | None, options: MakeOptions) -> None:  # noqa: ARG001 - a provider's own command takes it
    """Generate, import or fetch data of a provider.

    `ktdeval data` lists the providers, `ktdeval data make PROVIDER --help` the options of one. An
    import refuses data with errors, unless --repair names their repairs. A fetch leaves a recipe
    that repeats it, and resumes where it was interrupted.
    """
    if options.recipe is None:
        raise UsageError(
            "name a provider (`ktdeval data` lists them), or the recipe of a fetched market:"
            " --recipe FILE --out DIR"
        )

    _fetch_again(loaded_plugins(context), options.recipe, options)


def _make_of_provider(plugins: Plugins, spec: Spec, /, **values: Any) -> int:
    """Make a provider's data, given the values of all options."""
    own = {field.name: values.pop(field.name) for field in params_of(spec)}
    return _make_given(plugins, spec, own, **values)


@options_of(MakeOptions)
def _make_given(plugins: Plugins, spec: Spec, own: Mapping[str, Any], options: MakeOptions) -> int:
    """Make a provider's data, or only check its source. Return the exit code."""
    unexpected = click.get_current_context().args
    if unexpected:
        raise UsageError(
            f"unexpected argument {unexpected[0]!r}; the folder to write is given by --out"
            f" {shlex.quote(unexpected[0])}"
        )

    if options.recipe is not None:
        raise UsageError("--recipe already names its market; omit the provider and its options")

    args = given_params(own, options.set, options.spec)
    if options.check_only:
        return _check_source(plugins, spec, args, options)
    if options.as_json:
        raise UsageError(
            "--json prints the findings of --check-only; add --check-only, or omit --json"
        )

    out = _named_out(options)
    form = spec.extra.get("form")
    if form is not None:
        for line in spec.make(_params(spec, args), out):
            click.echo(line)

        return 0

    if provider_kind(spec) == "fetched":
        _fetch(plugins, spec, args, out)
        return 0

    from ktdeval.runner import store_snapshot

    stored = store_snapshot(plugins, spec.name, args, out)
    _print_summary(stored, out)
    if provider_kind(spec) == "imported":
        _warn(stored, out)

    return 0


def given_params(
    own: Mapping[str, Any], by_name: Mapping[str, Any] | None, file: Path | None
) -> Mapping[str, Any]:
    """Return the parameters that a command line sets for a provider.

    `own`: values of the provider's options, where None means that the option was not given.
    `by_name`: values from `--set`. `file`: the YAML file from `--spec`. `own` overrides `by_name`,
    which overrides the file; mappings are merged key by key.
    """
    given = {name: value for name, value in own.items() if value is not None}
    in_file = {}
    if file is not None:
        in_file = load_yaml(file)

    return merge_layers((in_file, by_name or {}, given))


def _params(spec: Spec, args: Mapping[str, Any]) -> Any:
    """Return a provider's parameters; None if it takes none. Raises ConfigError if a parameter is
    invalid.
    """
    if spec.params is None:
        return None
    return build_params(spec.params, args, f"data provider {spec.name}")


def _named_out(options: MakeOptions) -> Path:
    """Return the output folder. Raises UsageError if none is given."""
    if options.out is None:
        raise UsageError(
            "name the folder to write: --out DIR; or only check the source: --check-only"
        )
    return options.out


def _print_summary(stored: MarketSnapshot, out: Path) -> None:
    """Print the name, days, assets, repairs and notes of a stored snapshot."""
    days = f"{count(len(stored.days), 'day')} {stored.days[0]}…{stored.days[-1]}"
    assets = count(len(stored.codes), "asset")
    click.echo(f"{out}: {stored.meta.name}, {days}, {assets}, id {stored.id}")
    for repair in stored.meta.repairs:
        click.echo(f"repaired: {repair}")

    for note in stored.meta.notes:
        click.echo(f"note: {note}")


def _warn(stored: MarketSnapshot, out: Path) -> None:
    """Print warnings about the data in a snapshot that was just stored."""
    from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot

    findings = check(raw_from_snapshot(stored))
    warnings = [finding for finding in findings if finding.level == "warning"]
    print_findings(warnings)
    if warnings:
        click.echo(f"`ktdeval data check {out}` shows more")


def _fetch(
    plugins: Plugins,
    spec: Spec,
    args: Mapping[str, Any],
    out: Path,
    expected: tuple[Path, Recipe] | None = None,
) -> None:
    """Fetch a market, store it with a recipe, and warn about problems with the data."""
    from ktdeval_data.recipes import RECIPE, fetch_snapshot

    query = _pin_query(spec, args, out)
    stored = fetch_snapshot(plugins, spec.name, query, out, expected)
    _print_summary(stored, out)
    _warn(stored, out)
    click.echo(f"the recipe is {out / RECIPE}, the vendor's answers are in {query['answers']}")


def _pin_query(spec: Spec, args: Mapping[str, Any], out: Path) -> Mapping[str, Any]:
    """Return the query for a fetch, with everything fixed that would otherwise depend on the day of
    the query. A recipe can then repeat the fetch.
    """
    pin = spec.extra.get("pin", dict)
    query: Mapping[str, Any] = pin({"answers": f"{out}.answers", **args})
    return query


def _fetch_again(plugins: Plugins, recipe: Path, options: MakeOptions) -> None:
    """Fetch the market in a recipe again, and compare it with the recipe."""
    from ktdeval_data.recipes import load_recipe

    if options.check_only or options.as_json or options.spec is not None:
        raise UsageError("--recipe takes only --out DIR, and --set for what a recipe omits")

    out = _named_out(options)
    loaded = load_recipe(recipe, plugins)
    spec = plugins.spec("data", loaded.market)
    allowed = spec.extra["fetch"]
    for name in options.set:
        if name not in allowed:
            raise UsageError(f"--set {name}: the recipe sets that; set only {', '.join(allowed)}")

    _fetch(plugins, spec, {**loaded.query, **options.set}, out, (recipe, loaded))
    click.echo(f"equal to the snapshot of {recipe}")


def _check_source(
    plugins: Plugins, spec: Spec, args: Mapping[str, Any], options: MakeOptions
) -> int:
    """Check a source before it is stored, with its repairs applied. Return the exit code."""
    from ktdeval_raw_markets.assembly import apply_repairs
    from ktdeval_raw_markets.checks.quality import raw_from_snapshot

    form = spec.extra.get("form")
    if form is not None:
        raise UsageError(
            f"--check-only is for markets; check a {form.name} once it is made: `ktdeval data check"
            " DIR`"
        )

    if provider_kind(spec) == "fetched" and options.out is not None:
        args = _pin_query(spec, args, options.out)
    if "read" not in spec.extra:
        snapshot = plugins.make_snapshot(spec.name, args)
        return report_market(raw_from_snapshot(snapshot), options.as_json)

    params = _params(spec, args)
    raw = spec.extra["read"](params)
    repaired = apply_repairs(raw, getattr(params, "repair", ()))
    return report_market(repaired, options.as_json)
