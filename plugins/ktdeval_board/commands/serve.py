"""`ktdeval leaderboard serve`: the site of a board on this machine, for a look before it is published."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import click

from ktdeval_board.commands.build import show_report, tell
from ktdeval_board.serve import LiveSite, SiteServer


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", default=".")
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="port; 0: any that is free")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="HOST", help="address to listen on; only this machine by default"
)
@click.option("--open", "is_opened", is_flag=True, help="open the site in the browser")
@click.option("--verbose", is_flag=True, help="say each request")
def serve(folder: Path, port: int, host: str, is_opened: bool, verbose: bool) -> None:
    """Build the site of a board and serve it on this machine until Ctrl-C.

    DIR is the board's repository, which is only read: the site lies in a temporary folder. When a file of the board has changed,
    the site is built again at the next request for a page. Nothing else of the disk can be reached.
    """
    with tempfile.TemporaryDirectory(prefix="ktdeval-board-") as private:
        live = LiveSite(folder, Path(private), tell)
        with SiteServer((host, port), live, _say if verbose else None) as server:
            show_report(live.build())
            try:
                click.echo(f"serving {server.address} (Ctrl-C ends it)")
                if is_opened and not webbrowser.open(server.address):
                    click.echo(f"ktdeval: warning: no browser could be started; open {server.address}", err=True)
                server.serve_forever()
            except KeyboardInterrupt:
                click.echo("")


def _say(message: str) -> None:
    click.echo(f"        {message}", err=True)
