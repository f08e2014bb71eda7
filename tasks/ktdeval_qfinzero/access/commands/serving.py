"""Servers of the services, at an address or for one client over stdin and stdout."""

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
from typing import TYPE_CHECKING

import anyio
import click
import uvicorn

from ktdeval.errors import UsageError, os_reason
from ktdeval_qfinzero.access.commands.options import DatasetSource, open_data, start_at
from ktdeval_qfinzero.access.guarded_dispatch import LOOPBACK_NAMES, AccessRules
from ktdeval_qfinzero.access.http import MCP_PATH, server_app
from ktdeval_qfinzero.access.mcp import serve_stdio
from ktdeval_qfinzero.access.workspaces import Workspaces

if TYPE_CHECKING:
    from types import FrameType

    from starlette.applications import Starlette

    from ktdeval_qfinzero.access.commands.serve import ServeOptions
    from ktdeval_qfinzero.access.pages.chat_runs import ChatRuns
    from ktdeval_qfinzero.operations import Catalogue

_TOKEN = re.compile(r"[!-~]{16,512}")
_TOKEN_BYTES = 32
_LONGEST_FAREWELL_S = 2
"""Seconds for which clients' open streams may continue when the server ends."""
_LOOKS_S = 0.05  #: interval for polling whether chats have ended


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0 means any free port. Raises UsageError if the
    port is in use, or if the host's address does not belong to this machine.
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
        reason = os_reason(error, "choose another --host or --port")
        raise UsageError(f"can't listen on {host} port {port}: {reason}") from error

    return bound


def is_loopback(bound: socket.socket) -> bool:
    """Return whether only this machine can reach a socket."""
    return ipaddress.ip_address(str(bound.getsockname()[0]).partition("%")[0]).is_loopback


def address_of(bound: socket.socket) -> str:
    """Return a socket's address as a URL."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def choose_security(
    bound: socket.socket,
    token_variable: str | None,
    environment: Mapping[str, str],
    show_token: Callable[[str], None] | None,
) -> AccessRules:
    """Decide who may call: anyone on loopback, otherwise only holders of the token.

    `token_variable`: name of the environment variable with the token; `show_token`: shows a new
    token to the user who started the server, None without a terminal. Raises UsageError if a token
    is needed but is missing or malformed.
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
    """Server that ends its chats before it ends. After a signal to end, it logs no errors about
    streams that are cut off.
    """

    def __init__(self, config: uvicorn.Config, chats: ChatRuns) -> None:
        super().__init__(config)
        self._chats = chats

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal. After a second signal, the server ends without waiting."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self.force_exit = self.should_exit
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End chats, then connections. Replies in progress are awaited and recorded, since they are
        paid for; pages are still served meanwhile.
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
    """Serve until interrupted. Requests are not logged, defects are logged on stderr, and Ctrl-C
    raises KeyboardInterrupt.
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


def serve_one_client(operations: Catalogue, source: DatasetSource, options: ServeOptions) -> None:
    """Serve one client over stdin and stdout."""
    dataset = open_data(source)
    limits = start_at(dataset, options.limits, options.as_of)
    # The thread that waits for stdin can't be interrupted, and there is nothing to save.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(serve_stdio, operations, dataset, limits, options.logs)


def serve_address(operations: Catalogue, source: DatasetSource, options: ServeOptions) -> None:
    """Serve all clients at an address until Ctrl-C."""
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
