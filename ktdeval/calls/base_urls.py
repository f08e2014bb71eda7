"""Server addresses as entered by users."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ktdeval.calls.failures.http_errors import one_line
from ktdeval.errors import ConfigError, os_reason
from ktdeval.values.requests.secret_free_addresses import secret_in

_PATIENCE_S = 3.0
_PORTS = {"http": 80, "https": 443}


def check_base_url(url: str, option: str = "--base-url") -> str:
    """Return a base URL without its trailing slash, so that it is safe to use, show and record.

    Raises ConfigError, with `option` in the message, if the URL is not an http or https address, or
    if it contains a user, a password, a query or a fragment. The message does not show these parts.
    """
    example = "such as http://localhost:8000/v1"
    try:
        parts = urlsplit(url)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError(f"{option} is not an address; give one {example}") from None

    if secret_in(url) is not None or parts.query or parts.fragment:
        raise ConfigError(
            f"{option} holds a user, password, query or fragment; give the bare address, {example}"
        )

    is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if not (is_http and port_is_sound and is_plain):
        raise ConfigError(
            f"{option} must be an http or https address in ASCII, {example}, was {one_line(url)!r}"
        )

    return url.rstrip("/")


def why_unreachable(url: str) -> str | None:
    """Return why no server answers at the host and port of a URL; None if a server answers, or if a
    proxy is used. No request is sent.
    """
    parts = urlsplit(url)
    host = parts.hostname
    port = parts.port or _PORTS.get(parts.scheme)
    if host is None or port is None:
        return None
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return None

    try:
        socket.create_connection((host, port), _PATIENCE_S).close()
    except OSError as error:
        return os_reason(error)

    return None
