"""`ktdeval paper qfinzero serve`: serve agents that run outside ktdeval, at an address with a
token, until Ctrl-C.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from ktdeval.cli import FilePath, FiniteNumber, example, flag, options_of
from ktdeval.values import later, make_folder
from ktdeval_qfinzero.access.commands.client_config import Form, connection_text
from ktdeval_qfinzero.access.commands.options import ClockOptions, PageOptions
from ktdeval_qfinzero.access.server_rules import MarketRules, load_rules, make_served_catalogue
from ktdeval_qfinzero.access.workspaces import WorkspaceLimits
from ktdeval_qfinzero.catalogue import catalogue

_SERVING = "ktdeval_qfinzero.access.commands.serving"  # needs the extra, which help does not


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ClockOptions, PageOptions):
    """Options of the server."""

    # Clients with their own `--transport`, such as MCP's Inspector, would mistake it for theirs.
    transport: Literal["http", "stdio"] = flag(
        "http",
        name="--over --transport",
        help=(
            "http: REST, its OpenAPI document and MCP at /mcp; stdio: MCP over stdin and stdout,"
            " for one client; --transport is another name of this option"
        ),
    )
    connect: Form | None = flag(
        None,
        help=(
            "instead of serving, print how to connect an agent by stdio: JSON for an MCP client, "
            "or a SKILL.md with it"
        ),
    )
    host: str = flag("127.0.0.1", help="address to listen on; only this machine by default")
    port: int = flag(8765, type=click.IntRange(0, 65_535), help="port; 0: any free port")
    token_env: str | None = flag(
        None,
        metavar="NAME",
        help="environment variable with the token that clients must send",
    )
    max_workspaces: int = flag(
        WorkspaceLimits.most,
        type=click.IntRange(1, 10_000),
        help="maximum number of workspaces at a time",
    )
    idle_minutes: float = flag(
        WorkspaceLimits.idle_s / 60,
        type=FiniteNumber(0.1, 100_000),
        help="minutes without a call after which a workspace is dropped",
    )
    rules: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help=(
            "YAML with the market's fees, fills, margin and accounts, which clients can't choose;"
            " the defaults when not given"
        ),
    )
    logs: Path | None = flag(
        None,
        type=FilePath(),
        metavar="DIR",
        help="folder for the log of each client's broker",
    )

    @property
    def limits(self) -> WorkspaceLimits:
        """Limits on the workspaces."""
        return WorkspaceLimits(self.max_workspaces, self.idle_minutes * 60)

    def words(self) -> list[str]:
        """Return the options that start a server with the same market for one client. Paths are
        absolute.
        """
        source = self.source
        words = []
        paths = {"--data": source.folder, "--rules": self.rules, "--logs": self.logs}
        for name, path in paths.items():
            if path is not None:
                words += [name, str(path.resolve())]

        if source.folder is None and source.seed:
            words += ["--seed", str(source.seed)]
        if self.as_of is not None:
            words += ["--as-of", self.as_of]
        return words


@example("ktdeval paper qfinzero serve")
@click.command("serve")
@options_of(ServeOptions)
def serve_market(options: ServeOptions) -> None:
    """Serve prices, events and the paper broker until Ctrl-C.

    Each client has a workspace: a clock and a broker of its own, which no other sees. On an address
    that other machines can reach, every request for data needs a token: the one in the variable
    that --token-env names, or a new one that is shown once on the terminal. --connect mcp prints
    the JSON by which a client of the Model Context Protocol starts a server of its own, with
    absolute paths, so that it works from any folder and with any PATH.
    """
    if options.connect is not None:
        click.echo(connection_text(options.connect, options.words()), nl=False)
        return

    source = options.source
    rules = MarketRules() if options.rules is None else load_rules(options.rules)
    operations = make_served_catalogue(catalogue(), rules)
    if options.logs is not None:
        make_folder(options.logs, "choose another --logs")

    way = "serve_one_client" if options.transport == "stdio" else "serve_address"
    later(f"{_SERVING}:{way}")()(operations, source, options)
