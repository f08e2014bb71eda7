"""Listening: on which address, with which token, until Ctrl-C."""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import uvicorn

from ktdeval.errors import UsageError
from ktdeval_qfinzero.access.dispatch import LOOPBACK_NAMES, Security

if TYPE_CHECKING:
    from types import FrameType

    from starlette.types import ASGIApp

_TOKEN = re.compile(r"[!-~]{16,512}")
_TOKEN_BYTES = 32
_LONGEST_FAREWELL_S = 2
"""Seconds that open streams of clients are given when the server ends."""


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 is any that is free.
    Raises UsageError if the port is in use, or this machine does not have the host's address.
    """
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
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
        raise UsageError(f"can't listen on {host} port {port}: {reason}; choose another --host or --port") from error
    return bound


def is_loopback(bound: socket.socket) -> bool:
    """Whether only this machine can reach a socket."""
    return ipaddress.ip_address(str(bound.getsockname()[0]).partition("%")[0]).is_loopback


def address_of(bound: socket.socket) -> str:
    """Where a socket is, as a URL."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def choose_security(
    bound: socket.socket, token_variable: str | None, environment: Mapping[str, str], show_token: Callable[[str], None] | None
) -> Security:
    """Decide who may call: on loopback anybody, else any holder of the token.
    `token_variable`: name of the environment variable that holds the token; `show_token`: shows a new token to the one who started
    the server; None where nobody looks. Raises UsageError if a token is needed and missing or malformed.
    """
    if token_variable is not None:
        token = environment.get(token_variable, "")
        if not _TOKEN.fullmatch(token):
            raise UsageError(f"--token-env {token_variable}: expected 16 to 512 visible ASCII characters in that variable")
        return Security(None, token)
    if is_loopback(bound):
        return Security(LOOPBACK_NAMES | {str(bound.getsockname()[0])})
    if show_token is None:
        raise UsageError(
            "other machines can reach this address, so a token is needed and there is no terminal to show a new one on: "
            "put one into an environment variable and name it with --token-env"
        )
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    show_token(token)
    return Security(None, token)


class _QuietServer(uvicorn.Server):
    """Server that logs no errors for streams that are cut off after it has got a signal to end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        super().handle_exit(sig, frame)


def serve(app: ASGIApp, bound: socket.socket) -> None:
    """Serve until interrupted. Requests are not logged; defects are, on stderr; Ctrl-C raises KeyboardInterrupt."""
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
    _QuietServer(config).run(sockets=[bound])
