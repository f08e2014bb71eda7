"""`ktdeval leaderboard build` and `serve`: write a board's static site, or serve it here."""

from __future__ import annotations

import itertools
import signal
import sys
import webbrowser
from pathlib import Path

import click

from ktdeval.cards import count
from ktdeval.cli import FilePath, OutputPath, example, warn
from ktdeval.values.temporary import temporary_folder
from ktdeval_board.options import say
from ktdeval_board.serve import LiveSite, SiteServer
from ktdeval_board.site.build import BuildReport, build_site


@example("ktdeval leaderboard build my-board --out my-site")
@click.command()
@click.argument("folder", type=FilePath(), metavar="[DIR]", default=".")
@click.option(
    "--out",
    type=OutputPath("folder"),
    metavar="OUT",
    help="folder of the site [default: DIR/site]",
)
@click.option("--quiet", is_flag=True, help="no progress")
def build(folder: Path, out: Path | None, quiet: bool) -> None:
    """Write the static site of a board.

    DIR is the board's repository, which is only read. The site needs no server of its own: any host
    of static files shows it, and so does a browser that opens index.html from the disk. Equal
    boards give equal bytes. A site that was built before is replaced as a whole; anything else that
    lies in OUT is left alone, and named.
    """
    progress = None if quiet else tell
    show_report(build_site(folder, out or folder / "site", progress))


def tell(message: str) -> None:
    """Print progress on a terminal."""
    if sys.stderr.isatty():
        say(message)


def show_report(report: BuildReport) -> None:
    """Print what was built, and warnings."""
    for note in report.notes:
        warn(note)

    counts = ((report.cards, "card"), (report.divisions, "division"), (report.files, "file"))
    facts = f"{', '.join(itertools.starmap(count, counts))}, {report.size / 1e6:.1f} MB"
    click.echo(f"site    {report.out / 'index.html'} ({facts})")


@example("ktdeval leaderboard serve my-board")
@click.command()
@click.argument("folder", type=FilePath(), metavar="[DIR]", default=".")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8000,
    show_default=True,
    help="port; 0: any that is free",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="HOST",
    help="address to listen on; only this machine by default",
)
@click.option("--open", "is_opened", is_flag=True, help="open the site in the browser")
@click.option("--verbose", is_flag=True, help="say each request")
def serve(folder: Path, port: int, host: str, is_opened: bool, verbose: bool) -> None:
    """Build the site of a board and serve it on this machine until Ctrl-C.

    DIR is the board's repository, which is only read: the site lies in a temporary folder. When a
    file of the board has changed, the site is built again at the next request for a page. Nothing
    else of the disk can be reached.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with temporary_folder("ktdeval-board-") as private:
        live = LiveSite(folder, private, tell)
        log = say if verbose else None
        with SiteServer((host, port), live, log) as server:
            show_report(live.build())
            try:
                click.echo(f"serving {server.address} (Ctrl-C ends it)")
                if is_opened and not webbrowser.open(server.address):
                    warn(f"no browser could be started; open {server.address}")

                server.serve_forever()
            except KeyboardInterrupt:
                click.echo("")
