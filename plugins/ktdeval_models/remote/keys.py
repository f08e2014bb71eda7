"""API keys, from the environment, or the system's keyring. Never from options, files or model parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ktdeval.errors import ProviderError

KEYRING_SERVICE = "ktdeval"
"""Service name under which a key is stored in the system's keyring; the user name is the variable's name."""


def find_key(variables: Sequence[str], service: str | None = KEYRING_SERVICE) -> str | None:
    """Return the first key that is set: environment variables in the order given, then the keyring, when `keyring` is installed.

    Space around a key (a final newline, say) is dropped; an empty variable counts as not set. `variables`: names of environment
    variables, which are also the user names in the keyring. `service`: service name in the keyring; None: only the environment is
    looked at. Raises ProviderError: a key holds characters that can't be sent in a header; names the variable, never shows the
    value.
    """
    for variable in variables:
        if value := os.environ.get(variable, "").strip():
            return _checked(value, f"the environment variable {variable}")
    if service is not None:
        for variable in variables:
            if value := (_from_keyring(service, variable) or "").strip():
                return _checked(value, f"the keyring's entry {service} {variable}")
    return None


def missing_key(provider: str, variables: Sequence[str]) -> ProviderError:
    """Return the error to raise when a provider's key is not set."""
    names = " or ".join(variables)
    store = f"keyring set {KEYRING_SERVICE} {variables[0]}"
    return ProviderError(f"{provider}: no API key; set the environment variable {names}, or store it with `{store}`")


def _from_keyring(service: str, variable: str) -> str | None:
    try:
        import keyring  # noqa: PLC0415 - optional, and slow to start: only asked when the environment has no key
        from keyring.errors import KeyringError  # noqa: PLC0415 - as above
    except ImportError:
        return None
    try:
        return keyring.get_password(service, variable)
    except KeyringError:  # no backend on this machine, or it stays locked: the same as no key
        return None


def _checked(value: str, where: str) -> str:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ProviderError(
            f"{where} holds a space, a control character or a letter outside ASCII, which no API key has; copy the key again"
        )
    return value
