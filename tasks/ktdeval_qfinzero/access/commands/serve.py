"""`ktdeval paper qfinzero serve`: the services for agents that don't run inside ktdeval; on an address,
with a token, until Ctrl-C.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio
import click
import uvicorn

from ktdeval.cli import FilePath, Number, example, flag, options_of
from ktdeval.errors import UsageError
from ktdeval.values.files import make_folder
from ktdeval_qfinzero.access.commands.client_config import Form, connection_text
from ktdeval_qfinzero.access.commands.options import (
    ClockOptions,
    DatasetSource,
    PageOptions,
    open_data,
    start_at,
)
from ktdeval_qfinzero.access.guarded_dispatch import LOOPBACK_NAMES, AccessRules
from ktdeval_qfinzero.access.http import MCP_PATH, server_app
from ktdeval_qfinzero.access.mcp import serve_stdio
from ktdeval_qfinzero.access.server_rules import MarketRules, load_rules, served
from ktdeval_qfinzero.access.workspaces import WorkspaceLimits, Workspaces
from ktdeval_qfinzero.catalogue import catalogue

if TYPE_CHECKING:
    from types import FrameType

    from starlette.applications import Starlette

    from ktdeval_qfinzero.access.pages.playground.runs import ChatRuns
    from ktdeval_qfinzero.operations import Catalogue


_TOKEN = re.compile(r"[!-~]{16,512}")
_TOKEN_BYTES = 32
_LONGEST_FAREWELL_S = 2
"""Seconds that open streams of clients are given when the server ends."""
_LOOKS_S = 0.05  #: between two looks at whether chats have ended


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 is any that is free.
    Raises UsageError if the port is in use, or this machine does not have the host's address.
    """
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, number)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen()
        except OSError:
            bound.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"can't listen on {host} port {port}: {reason}; choose another --host or --port"
        ) from error

    return bound


def is_loopback(bound: socket.socket) -> bool:
    """Whether only this machine can reach a socket."""
    return ipaddress.ip_address(str(bound.getsockname()[0]).partition("%")[0]).is_loopback


def address_of(bound: socket.socket) -> str:
    """Where a socket is, as a URL."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def choose_security(
    bound: socket.socket,
    token_variable: str | None,
    environment: Mapping[str, str],
    show_token: Callable[[str], None] | None,
) -> AccessRules:
    """Decide who may call: on loopback anybody, else any holder of the token. `token_variable`:
    name of the environment variable that holds the token; `show_token`: shows a new token to the
    one who started the server; None where nobody looks. Raises UsageError if a token is needed and
    missing or malformed.
    """
    if token_variable is not None:
        token = environment.get(token_variable, "")
        if not _TOKEN.fullmatch(token):
            raise UsageError(
                f"--token-env {token_variable}: expected 16 to 512 visible ASCII characters in that"
                " variable"
            )

        return AccessRules(None, token)

    if is_loopback(bound):
        return AccessRules(LOOPBACK_NAMES | {str(bound.getsockname()[0])})
    if show_token is None:
        raise UsageError(
            "other machines can reach this address, so a token is needed and there is no terminal"
            " to show a new one on: put one into an environment variable and name it with"
            " --token-env"
        )

    token = secrets.token_urlsafe(_TOKEN_BYTES)
    show_token(token)
    return AccessRules(None, token)


class _ChatServer(uvicorn.Server):
    """Server that ends its chats before it ends, and logs no errors for streams that are cut off
    after it has got a signal to end.
    """

    def __init__(self, config: uvicorn.Config, chats: ChatRuns) -> None:
        super().__init__(config)
        self._chats = chats

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal. After a second one, nothing is waited for."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self.force_exit = self.should_exit
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End chats, then connections. Replies under way are waited for and recorded, since they
        are paid for; pages are answered meanwhile.
        """
        self._chats.stop_all()
        waits_for = self._chats.under_way
        if waits_for:
            chats = "1 chat" if waits_for == 1 else f"{waits_for} chats"
            click.echo(
                f"waiting for the replies of {chats}; a second signal does not wait", err=True
            )

        while self._chats.under_way and not self.force_exit:
            await anyio.sleep(_LOOKS_S)

        await super().shutdown(sockets)


def serve(app: Starlette, bound: socket.socket) -> None:
    """Serve until interrupted. Requests are not logged; defects are, on stderr; Ctrl-C raises
    KeyboardInterrupt.
    """
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_LONGEST_FAREWELL_S,
    )
    _ChatServer(config, app.state.chat_runs).run(sockets=[bound])


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ClockOptions, PageOptions):
    """Options of the server."""

    # Clients with a `--transport` of their own, such as MCP's Inspector, take that for theirs.
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
            "instead of serving, print what connects an agent by stdio: the JSON of an MCP client,"
            " or a SKILL.md with it"
        ),
    )
    host: str = flag("127.0.0.1", help="address to listen on; only this machine by default")
    port: int = flag(8765, type=click.IntRange(0, 65_535), help="port; 0: any that is free")
    token_env: str | None = flag(
        None,
        metavar="NAME",
        help="environment variable with the token that clients must send",
    )
    max_workspaces: int = flag(
        WorkspaceLimits.most, type=click.IntRange(1, 10_000), help="most workspaces at a time"
    )
    idle_minutes: float = flag(
        WorkspaceLimits.idle_s / 60,
        type=Number(0.1, 100_000),
        help="minutes without a call after which a workspace is forgotten",
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
        help="folder in which each client's broker leaves its log",
    )

    @property
    def limits(self) -> WorkspaceLimits:
        """Limits of the workspaces."""
        return WorkspaceLimits(self.max_workspaces, self.idle_minutes * 60)

    def words(self) -> list[str]:
        """Return the options of a server for one client that has the same market, with absolute
        paths.
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
    operations = served(catalogue(), rules)
    if options.logs is not None:
        make_folder(options.logs, "choose another --logs")

    if options.transport == "stdio":
        _serve_one_client(operations, source, options)
    else:
        _serve_address(operations, source, options)


def _serve_one_client(operations: Catalogue, source: DatasetSource, options: ServeOptions) -> None:
    """Serve one client over stdin and stdout."""
    dataset = open_data(source)
    limits = start_at(dataset, options.limits, options.as_of)
    # The thread that waits for stdin can't be interrupted, and there is nothing to be saved.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(serve_stdio, operations, dataset, limits, options.logs)


def _serve_address(operations: Catalogue, source: DatasetSource, options: ServeOptions) -> None:
    """Serve all clients of an address until Ctrl-C."""
    show_token = _show_token if sys.stderr.isatty() else None
    with bind(options.host, options.port) as bound:
        security = choose_security(bound, options.token_env, os.environ, show_token)
        dataset = open_data(source)
        limits = start_at(dataset, options.limits, options.as_of)
        app = server_app(
            operations,
            Workspaces(dataset, limits, time.monotonic, options.logs),
            security,
            options.pages(source),
        )
        address = address_of(bound)

        try:
            click.echo(
                f"serving {address} with {address}/openapi.json and {address}{MCP_PATH} (Ctrl-C"
                " ends it)"
            )
            serve(app, bound)
        except KeyboardInterrupt:
            click.echo("")


def _show_token(token: str) -> None:
    click.echo(f"token, shown this once: {token}", err=True)
