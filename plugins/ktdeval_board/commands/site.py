"""`ktdeval leaderboard build`: write a board's static site, or serve it locally."""

from __future__ import annotations

import itertools
import signal
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cards import count
from ktdeval.cli import OutputPath, example, flag, options_of, warn
from ktdeval.errors import UsageError
from ktdeval.values import temporary_folder
from ktdeval_board.options import board_argument, say
from ktdeval_board.serve import LiveSite, SiteServer
from ktdeval_board.site.build import BuildReport, build_site


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Options of `leaderboard build`."""

    out: Path | None = flag(
        None,
        type=OutputPath("folder"),
        metavar="OUT",
        help="folder of the site [default: DIR/site]",
    )
    serve: bool = flag(
        False, help="serve the site on this machine until Ctrl-C, instead of writing it"
    )
    host: str = flag(
        "127.0.0.1",
        metavar="HOST",
        help="with --serve: address to listen on; only this machine by default",
    )
    port: int = flag(
        8000,
        type=click.IntRange(0, 65_535),
        metavar="N",
        help="with --serve: port; 0: any free port",
    )
    is_opened: bool = flag(False, name="--open", help="with --serve: open the site in the browser")


@example("ktdeval leaderboard build my-board --out my-site")
@click.command()
@board_argument
@options_of(BuildOptions)
def build(board: Path, options: BuildOptions) -> None:
    """Write the static site of a board, or serve it on this machine with --serve.

    DIR is the board's repository, which is only read. The site needs no server of its own: any
    static file host can serve it, and a browser can open index.html from the disk. Equal boards
    give equal bytes. An earlier site in OUT is replaced as a whole; a folder with other content is
    refused. With --serve, the site is built in a temporary folder and rebuilt at the next request
    after a file of the board has changed; no other files can be reached.
    """
    if not options.serve:
        show_report(build_site(board, options.out or board / "site", tell))
        return

    if options.out is not None:
        raise UsageError("--serve does not write the site; use either --out or --serve")

    _serve(board, options)


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


def _serve(board: Path, options: BuildOptions) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with temporary_folder("ktdeval-board-") as private:
        live = LiveSite(board, private, tell)
        with SiteServer((options.host, options.port), live, None) as server:
            show_report(live.build())
            try:
                click.echo(f"serving {server.address} (Ctrl-C ends it)")
                if options.is_opened and not webbrowser.open(server.address):
                    warn(f"no browser could be started; open {server.address}")

                server.serve_forever()
            except KeyboardInterrupt:
                click.echo("")
