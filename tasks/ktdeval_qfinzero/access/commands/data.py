"""`ktdeval qfinzero data`: datasets generated or made of files of one's own, updated, checked and
shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import FilePath, OutputPath, example
from ktdeval_qfinzero.data.blocks import DatasetRefused
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.folder import save_dataset
from ktdeval_qfinzero.data.ingest import IngestReport, ingest_dataset, ingest_update
from ktdeval_qfinzero.data.ingest_spec import load_spec
from ktdeval_qfinzero.data.layout import bar_file_of, load_manifest
from ktdeval_qfinzero.data.rows import DatasetInfo
from ktdeval_qfinzero.data.synthetic.market import generate
from ktdeval_qfinzero.data.synthetic.params import SyntheticParams, ranges_of
from ktdeval_qfinzero.moments import moment_text

Decorated = Callable[..., Any]

_SPEC = click.argument("spec", type=FilePath(), metavar="SPEC")
_FOLDER = click.argument("folder", type=FilePath(), metavar="FOLDER")
_NEW_FOLDER = click.argument(
    "folder",
    type=OutputPath("new folder", mark="manifest.json"),
    metavar="FOLDER",
)


def _parameters(function: Decorated) -> Decorated:
    """An option for each parameter of the market."""
    for field in reversed(fields(SyntheticParams)):
        default = field.default
        bounds = field.metadata.get("minimum"), field.metadata.get("maximum")
        kind = click.IntRange(*bounds) if isinstance(default, int) else click.STRING
        name = f"--{field.name.replace('_', '-')}"
        function = click.option(
            name, type=kind, default=default, show_default=True, help=field.metadata["help"]
        )(function)

    return function


@example("ktdeval qfinzero data build my-market")
@click.command()
@_NEW_FOLDER
@_parameters
def build(folder: Path, **chosen: Any) -> None:
    """Make a synthetic dataset: an invented market, all of it from one seed.

    FOLDER must not exist yet, be empty, or hold this very dataset. Equal parameters give equal
    datasets.
    """
    parameters = SyntheticParams(**chosen)
    ranges_of(parameters)  # before the line that says that work begins
    click.echo("generating the market: some seconds", err=True)
    market = generate(parameters)
    _show_info(folder, save_dataset(folder, market.prices, market.events, market.news, market.info))


@example("ktdeval qfinzero data import ingest.yaml my-market")
@click.command("import")
@_SPEC
@_NEW_FOLDER
def import_data(spec: Path, folder: Path) -> None:
    """Make a dataset of CSV and JSON files.

    SPEC is a YAML or JSON file that says which files hold what; FOLDER must not exist yet, or be
    empty. Every row is checked, and nothing is written if one is wrong: the problems are printed,
    each with its file and line.
    """
    with _problems_shown():
        info, report = ingest_dataset(load_spec(spec), spec.parent, folder)
    _show_read(report)
    _show_info(folder, info)


@example("ktdeval qfinzero data update ingest.yaml my-market")
@click.command()
@_SPEC
@_FOLDER
@click.option(
    "--replace",
    is_flag=True,
    help="let rows that contradict stored ones replace them; else they are refused",
)
def update(spec: Path, folder: Path, replace: bool) -> None:
    """Add what a SPEC names to the dataset in FOLDER, all or nothing.

    Rows that are stored already are passed over. Services that have the dataset open go on with
    what they opened.
    """
    with _problems_shown():
        done, report = ingest_update(load_spec(spec), spec.parent, folder, replace=replace)

    _show_read(report)
    for kind, tally in done.tallies.items():
        click.echo(
            f"{kind}: {tally.new} new, {tally.same} as stored, {tally.grown} grown, {tally.other}"
            " replaced"
        )

    for line in done.replaced:
        click.echo(f"replaced: {line}")

    _show_info(folder, done.info)
    if done.info.content_id == done.before:
        click.echo("nothing has changed")


@example("ktdeval qfinzero data check my-market")
@click.command()
@_FOLDER
def check(folder: Path) -> int:
    """Read a whole dataset: hashes, order, prices, moments, and whether its tables fit each other.

    Exits with 1 when there are errors.
    """
    findings = check_dataset(folder)
    for finding in findings:
        click.echo(str(finding))

    if not findings:
        click.echo(f"{folder}: sound")

    return int(any(finding.severity == "error" for finding in findings))


@example("ktdeval qfinzero data info my-market")
@click.command()
@_FOLDER
def info(folder: Path) -> None:
    """Say what a dataset holds, from its manifest alone."""
    manifest = load_manifest(folder)
    _show_info(folder, manifest.info)
    rows: Counter[str] = Counter()

    for key, part in manifest.parts.items():
        bar_file = bar_file_of(key)
        rows[
            (
                key.partition("/")[0]
                if bar_file is None
                else f"{bar_file.asset_class} {bar_file.resolution}"
            )
        ] += part.rows

    for kind, count in sorted(rows.items()):
        click.echo(f"{count:>12,}  {kind}")

    click.echo(
        f"{sum(part.bytes for part in manifest.parts.values()):>12,}  bytes in"
        f" {len(manifest.parts)} files"
    )


def _show_info(folder: Path, info: DatasetInfo) -> None:
    kind = "synthetic market" if info.synthetic else "market"
    click.echo(f"{folder}: {info.name}, {kind}, id {info.content_id}")
    click.echo(f"day bars     {_days(info.first_day, info.last_day)}")
    click.echo(f"minute bars  {_days(info.minute_first_day, info.minute_last_day)}")
    click.echo(f"clock        starts at {moment_text(info.default_as_of_ns)}")


def _days(first: date, last: date) -> str:
    return f"{first} … {last}" if first <= last else "none"


def _show_read(report: IngestReport) -> None:
    for kind, count in report.rows.items():
        click.echo(f"read  {count:>10,}  {kind}")

    for note in report.notes:
        click.echo(f"note: {note}")

    if report.duplicates:
        click.echo(f"note: {report.duplicates} rows repeat others; each was taken once")


@contextmanager
def _problems_shown() -> Iterator[None]:
    """Print every problem that rows are refused for, before the error that counts them."""
    try:
        yield
    except DatasetRefused as refused:
        for line in refused.problems:
            click.echo(line)

        if refused.count > len(refused.problems):
            click.echo(f"… and {refused.count - len(refused.problems)} more")

        raise
