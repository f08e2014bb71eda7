"""Addresses of servers that users name."""

from __future__ import annotations

from urllib.parse import urlsplit

from ktdeval.calls.http_errors import one_line
from ktdeval.errors import ConfigError


def check_base_url(url: str, option: str = "--base-url") -> str:
    """Return a base URL as it may be used, shown and recorded, without a final slash. Raises ConfigError, which names `option`: it
    is no http or https address, or holds a user, a password, a query or a fragment. What it holds is not shown.
    """
    example = "such as http://localhost:8000/v1"
    try:
        parts = urlsplit(url)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError(f"{option} is no address; give one {example}") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(f"{option} holds a user, password, query or fragment; give the bare address, {example}")
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_sound or not is_plain:
        raise ConfigError(f"{option} must be an http or https address in ASCII, {example}, was {one_line(url)!r}")
    return url.rstrip("/")
