"""`ktdeval qfinzero data check` and `… info`: what a dataset holds, and whether it is sound."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from ktdeval_qfinzero.access.commands.report import show_info
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.layout import load_manifest, read_place

_FOLDER = click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")


@click.command()
@_FOLDER
def check(folder: Path) -> int:
    """Read a whole dataset: hashes, order, prices, moments, and whether its tables fit each other.

    Exits with 1 when there are errors.
    """
    findings = check_dataset(folder)
    for finding in findings:
        click.echo(str(finding))
    errors = sum(finding.severity == "error" for finding in findings)
    if not findings:
        click.echo(f"{folder}: sound")
    return 1 if errors else 0


@click.command()
@_FOLDER
def info(folder: Path) -> None:
    """Say what a dataset holds, from its manifest alone."""
    manifest = load_manifest(folder)
    show_info(folder, manifest.info)
    rows: Counter[str] = Counter()
    for key, part in manifest.parts.items():
        place = read_place(key)
        rows[key.partition("/")[0] if place is None else f"{place.asset_class} {place.resolution}"] += part.rows
    for kind, count in sorted(rows.items()):
        click.echo(f"{count:>12,}  {kind}")
    click.echo(f"{sum(part.bytes for part in manifest.parts.values()):>12,}  bytes in {len(manifest.parts)} files")
