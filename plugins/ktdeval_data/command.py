"""`ktdeval data`: list data providers, and make, check and show market data."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktdeval.cards import count
from ktdeval.cli import (
    FilePath,
    JsonOptions,
    PluginOptions,
    example,
    flag,
    inherit_option,
    is_required,
    open_plugins,
    options_of,
    params_of,
    print_json,
    print_table,
    spec_json,
)
from ktdeval.errors import UsageError
from ktdeval.registry import Plugins
from ktdeval.values import dumps_pretty, stored_market
from ktdeval_data.check_command import report_facts, report_form, report_market
from ktdeval_data.make_command import loaded_plugins, make, provider_kind

if TYPE_CHECKING:
    from ktdeval.market import MarketSnapshot
    from ktdeval.registry import DataForm


@dataclass(frozen=True, kw_only=True)
class DataOptions(JsonOptions, PluginOptions):
    """Options of the command group `data`."""


@example("ktdeval data")
@click.group(invoke_without_command=True, subcommand_metavar="[make|check|info …]")
@options_of(DataOptions)
@click.pass_context
def data(context: click.Context, options: DataOptions) -> None:
    """List data providers. `--data` takes one of them, or a folder."""
    plugins = open_plugins(options.plugin)
    context.obj = plugins
    if context.invoked_subcommand is None:
        print_providers(plugins, options.as_json)


def print_providers(plugins: Plugins, as_json: bool) -> None:
    """Print each data provider with its kind (generated, imported, fetched) and its description."""
    specs = plugins.specs("data").values()
    if as_json:
        print_json(
            [{**spec_json(plugins, "data", spec), "kind": provider_kind(spec)} for spec in specs]
        )
        return

    rows = [(spec.name, provider_kind(spec), spec.summary) for spec in specs]
    print_table(("PROVIDER", "KIND", "SUMMARY"), rows)
    click.echo("options of one: ktdeval data make PROVIDER --help")


data.add_command(make)


class _CheckCommand(click.Command):
    """Command that rejects the name of a provider unless `--facts` is given. A provider's source is
    checked by `data make` instead.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError if they name a provider without `--facts`."""
        name = next((word for word in args if not word.startswith("-")), "")
        providers = loaded_plugins(ctx).specs("data")
        is_provider = name in providers and "--facts" not in args
        # this command takes a folder, so a stored snapshot with the name of a provider is meant
        if is_provider and stored_market(name) is None and not ctx.resilient_parsing:
            raise UsageError(
                f"{name!r} is a data provider, and `data check` takes a folder; check a source with"
                f" `ktdeval data make {shlex.join(args)} --check-only`"
            )

        return super().parse_args(ctx, args)


@dataclass(frozen=True, kw_only=True)
class DataCheckOptions(JsonOptions):
    """Options for `data check`."""

    facts: bool = flag(
        False,
        help="instead show stylised facts of a market (tails, clusters of volatility, correlations"
        " …) next to those of real markets; FOLDER may be a data provider",
    )


@example("ktdeval data check my-market")
@data.command("check", cls=_CheckCommand)
@click.argument("folder", type=FilePath())
@options_of(DataCheckOptions)
@click.pass_context
def check(context: click.Context, folder: Path, options: DataCheckOptions) -> int:
    """Check stored data. Exits with 1 if there are errors; whatever the facts, with 0."""
    plugins = loaded_plugins(context)
    if options.facts:
        report_facts(_market_of(plugins, folder), options.as_json)
        return 0

    form = _form_of(plugins, folder)
    if form is not None:
        return report_form(form, folder, options.as_json)

    from ktdeval.market import load_snapshot
    from ktdeval_raw_markets.checks.quality import raw_from_snapshot

    return report_market(raw_from_snapshot(load_snapshot(folder)), options.as_json)


def _market_of(plugins: Plugins, given: Path) -> MarketSnapshot:
    """Return a stored market, or the market that a data provider makes with default parameters.

    Raises UsageError or DataError if the folder does not contain a market, or if the provider
    requires parameters.
    """
    from ktdeval.runner import open_snapshot

    spec = plugins.specs("data").get(str(given))
    if spec is None:
        form = _form_of(plugins, given)
        if form is not None:
            raise UsageError(f"{given}: holds a {form.name}; --facts needs a folder of a market")
    elif any(map(is_required, params_of(spec))):
        raise UsageError(
            f"--facts can't make {given}, which needs options: store the market with `ktdeval data"
            f" make {given}`, and name its folder"
        )

    return open_snapshot(plugins, str(given), {})


def _form_of(plugins: Plugins, folder: Path) -> DataForm | None:
    """Return the form of the data in a folder; None for a market. Raises UsageError if the folder
    does not exist.
    """
    if not folder.exists():
        raise UsageError(
            f"{folder}: no such folder; make one with `ktdeval data make PROVIDER --out DIR`"
        )

    for spec in plugins.specs("data").values():
        form: DataForm | None = spec.extra.get("form")
        if form is not None and form.holds(folder):
            return form

    return None


@example("ktdeval data info my-market")
@data.command("info")
@click.argument("folder", type=FilePath())
@options_of(JsonOptions)
@click.pass_context
def info(context: click.Context, folder: Path, options: JsonOptions) -> None:
    """Show what stored data hold, after checking that they are unchanged."""
    form = _form_of(loaded_plugins(context), folder)
    if form is None:
        from ktdeval.market import load_snapshot

        facts = _snapshot_facts(load_snapshot(folder), folder)
    else:
        facts = dict(form.facts(folder))

    if options.as_json or inherit_option(context, "as_json"):
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


def _label_counts(labels: Iterable[str]) -> dict[str, int]:
    """Return the number of occurrences of each label, in the order of the labels."""
    return {str(label): number for label, number in sorted(Counter(labels).items())}


def _kind_facts(snapshot: MarketSnapshot) -> dict[str, Any]:
    """Return the boards of an A-share market, or the kinds, venues and units of any other
    market.
    """
    if not snapshot.instruments:
        return {"boards": _label_counts(snapshot.boards)}

    return {
        "kinds": _label_counts(snapshot.kinds),
        "venues": _label_counts(snapshot.venues),
        "currency": snapshot.currency,
        "days_a_year": snapshot.days_a_year,
        "assets_with_closes_only": int(snapshot.close_only.sum()),
    }


def _snapshot_facts(snapshot: MarketSnapshot, folder: Path) -> dict[str, Any]:
    """Return the facts that `data info` shows, keyed by name."""
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
        **_kind_facts(snapshot),
        "industries": len(set(snapshot.industries)),
        "members_a_day": {"smallest": int(members.min()), "largest": int(members.max())},
        "bars": int((snapshot.close == snapshot.close).sum()),
        "benchmark": meta.benchmark or "none",
        "indices": [f"{code} ({name})" for code, name in sorted(snapshot.index_names.items())],
        **_optional_facts(snapshot),
        "bytes": sum(path.stat().st_size for path in files),
    }


def _optional_facts(snapshot: MarketSnapshot) -> dict[str, str]:
    """Return facts about minute bars and documents, if the snapshot has any."""
    facts = {}
    minutes = snapshot.minutes
    if minutes:
        assets = count(len(minutes.codes), "asset")
        facts["minutes"] = f"{count(len(minutes.rows), 'bar')} of {assets}"

    texts = snapshot.documents
    if texts:
        facts["documents"] = f"{len(texts)} known by {texts.close}, {len(texts.entities)} entities"

    return facts
