"""Provider SDKs: the headers that they add to a request, and which of these headers identify the
caller.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from ktdeval.errors import ProviderError
from ktdeval.secrets import SHORTEST_SECRET
from ktdeval.values import import_problem, install_command
from ktdeval_models.remote.params import looks_like_key
from ktdeval_models.remote.transport import http_libraries

# Headers, in lower case, that do not identify the caller: headers of HTTP and the SDK, and version
# headers, which are settings.
_NO_ROUTING = re.compile(
    r"accept(-.*)?|connection|content-.*|host|user-agent|x-stainless-.*|x-goog-api-client|anthropic-version"
)
_SECRET_NAME = re.compile(r"auth|cookie|credential|jwt|key|passw|secret|session|signature|token")


class RequestSigner(Protocol):
    """Credentials of this machine that sign each request with headers."""

    def headers(self, method: str, url: str, content: bytes) -> Mapping[str, str]:
        """Return the headers that authenticate the caller. Raises ProviderError if the credentials
        are refused or have expired.
        """

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets known so far, which must not appear in any message."""


def import_sdk(package: str, provider: str, extra: str) -> ModuleType:
    """Import and return an SDK package. Raises ProviderError if it can't be imported; the message
    shows the command that installs it.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise ProviderError(
            f"{provider}: {import_problem(error, package)}; get it with `{install_command(extra)}`"
        ) from None


def secret_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in the headers of a request. A server may echo them, but no message may
    show them.
    """
    for name, value in headers.items():
        if not _SECRET_NAME.search(name.lower()):
            continue

        # In `Bearer KEY` and `Basic USER:KEY`, the first word is not secret.
        scheme, _, rest = value.strip().partition(" ")
        secret = rest.strip() or scheme
        # A word such as `none`, which is sent to servers without keys, occurs in many texts.
        if len(secret) >= SHORTEST_SECRET:
            yield secret


def routing_headers(headers: Mapping[str, str], secrets: Collection[str]) -> dict[str, str]:
    """Return the headers that identify the caller for whom a request is answered, with names in
    lower case. Headers that may hold a secret are omitted.
    """
    routing = {}
    for name, value in sorted((name.lower(), value) for name, value in headers.items()):
        is_secret = (
            _SECRET_NAME.search(name)
            or looks_like_key(value)
            or any(secret in value for secret in secrets)
        )
        if not is_secret and not _NO_ROUTING.fullmatch(name):
            routing[name] = value

    return routing


def no_network(sdk: ModuleType) -> Any:
    """Return an HTTP client for an SDK that is only used to build headers. The client can't send
    anything, so it loads no certificates.
    """
    return sdk.DefaultHttpxClient(transport=http_libraries()[0].BaseTransport())
