"""`ktdeval serve qfinzero`: the services for agents that don't run inside ktdeval."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import anyio
import click

from ktdeval.cli import FilePath, Number
from ktdeval.jsonio import make_folder
from ktdeval_qfinzero.access.commands.options import Source, data_options, open_data, start_at
from ktdeval_qfinzero.access.http import MCP_PATH, server_app
from ktdeval_qfinzero.access.listen import address_of, bind, choose_security, serve
from ktdeval_qfinzero.access.mcp import serve_stdio
from ktdeval_qfinzero.access.served_market import MarketRules, load_rules, served
from ktdeval_qfinzero.access.workspaces import Limits, Workspaces
from ktdeval_qfinzero.catalogue import catalogue


@click.command()
@click.option(
    "--transport",
    type=click.Choice(["http", "stdio"]),
    default="http",
    show_default=True,
    help="http: REST, its OpenAPI document and MCP at /mcp; stdio: MCP over stdin and stdout, for one client",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="HOST", help="address to listen on; only this machine by default"
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8765, show_default=True, help="port; 0: any that is free")
@data_options
@click.option("--token-env", metavar="NAME", help="environment variable with the token that clients must send")
@click.option(
    "--max-workspaces", type=click.IntRange(1, 10_000), default=Limits.most, show_default=True, help="most workspaces at a time"
)
@click.option(
    "--idle-minutes",
    type=Number(0.1, 100_000),
    default=Limits.idle_s / 60,
    show_default=True,
    help="minutes without a call after which a workspace is forgotten",
)
@click.option(
    "--rules",
    type=FilePath(),
    metavar="FILE",
    help="YAML with the market's fees, fills, margin and accounts, which clients can't choose; the defaults when not given",
)
@click.option("--logs", type=FilePath(), metavar="DIR", help="folder in which each client's broker leaves its log")
def qfinzero(  # noqa: PLR0913 - a command takes one parameter for each option
    transport: str,
    host: str,
    port: int,
    source: Source,
    as_of: str | None,
    token_env: str | None,
    max_workspaces: int,
    idle_minutes: float,
    rules: Path | None,
    logs: Path | None,
) -> None:
    """Serve prices, events and the paper broker until Ctrl-C.

    Each client has a workspace: a clock and a broker of its own, which no other sees. On an address that other machines can reach,
    every request needs a token: the one in the variable that --token-env names, or a new one that is shown once on the terminal.
    """
    limits = Limits(max_workspaces, idle_minutes * 60)
    operations = served(catalogue(), MarketRules() if rules is None else load_rules(rules))
    if logs is not None:
        make_folder(logs, "choose another --logs")
    if transport == "stdio":
        # The thread that waits for stdin can't be interrupted, and there is nothing to be saved.
        dataset = open_data(source)
        limits = start_at(dataset, limits, as_of)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        anyio.run(serve_stdio, operations, dataset, limits, logs)
        return
    with bind(host, port) as bound:
        security = choose_security(bound, token_env, os.environ, _show_token if sys.stderr.isatty() else None)
        dataset = open_data(source)
        app = server_app(operations, Workspaces(dataset, start_at(dataset, limits, as_of), time.monotonic, logs), security)
        address = address_of(bound)
        try:
            click.echo(f"serving {address} with {address}/openapi.json and {address}{MCP_PATH} (Ctrl-C ends it)")
            serve(app, bound)
        except KeyboardInterrupt:
            click.echo("")


def _show_token(token: str) -> None:
    click.echo(f"token, shown this once: {token}", err=True)
