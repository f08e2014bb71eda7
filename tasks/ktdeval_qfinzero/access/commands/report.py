"""What data commands print of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import click

from ktdeval_qfinzero.data.blocks import DatasetRefused
from ktdeval_qfinzero.data.ingest import IngestReport
from ktdeval_qfinzero.data.stores import DatasetInfo
from ktdeval_qfinzero.moments import moment_text


def show_info(folder: Path, info: DatasetInfo) -> None:
    """Print what a dataset says of itself."""
    kind = "synthetic market" if info.synthetic else "market"
    click.echo(f"{folder}: {info.name}, {kind}, id {info.content_id}")
    click.echo(f"day bars     {_days(info.first_day, info.last_day)}")
    click.echo(f"minute bars  {_days(info.minute_first_day, info.minute_last_day)}")
    click.echo(f"clock        starts at {moment_text(info.default_as_of_ns)}")


def _days(first: date, last: date) -> str:
    return f"{first} … {last}" if first <= last else "none"


def show_read(report: IngestReport) -> None:
    """Print what was read from files."""
    for kind, count in report.rows.items():
        click.echo(f"read  {count:>10,}  {kind}")
    if report.duplicates:
        click.echo(f"note: {report.duplicates} rows said again what others had said; each was taken once")


@contextmanager
def problems_shown() -> Iterator[None]:
    """Print every problem that rows are refused for, before the error that counts them."""
    try:
        yield
    except DatasetRefused as refused:
        for line in refused.problems:
            click.echo(line)
        if refused.count > len(refused.problems):
            click.echo(f"… and {refused.count - len(refused.problems)} more")
        raise
