"""`ktdeval leaderboard build`: a board's repository in, a folder of static pages out."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktdeval_board.site.build import BuildReport, build_site


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", default=".")
@click.option("--out", type=click.Path(path_type=Path), metavar="OUT", help="folder of the site [default: DIR/site]")
@click.option("--quiet", is_flag=True, help="no progress")
def build(folder: Path, out: Path | None, quiet: bool) -> None:
    """Write the static site of a board.

    DIR is the board's repository, which is only read. The site needs no server of its own: any host of static files shows it, and
    so does a browser that opens index.html from the disk. Equal boards give equal bytes. A site that was built before is replaced
    as a whole; anything else that lies in OUT is left alone, and said.
    """
    report = build_site(folder, out or folder / "site", None if quiet else tell)
    show_report(report)


def tell(message: str) -> None:
    """Say what is done, where somebody watches."""
    if sys.stderr.isatty():
        click.echo(f"        {message}", err=True)


def show_report(report: BuildReport) -> None:
    """Print what was built, and what is amiss."""
    for note in report.notes:
        click.echo(f"ktdeval: warning: {note}", err=True)
    facts = f"{report.cards:,} cards, {report.divisions} divisions, {report.files:,} files, {report.size / 1e6:.1f} MB"
    click.echo(f"site    {report.out / 'index.html'} ({facts})")
