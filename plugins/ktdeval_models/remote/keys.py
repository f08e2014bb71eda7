"""API keys, read from the environment or the system's keyring; never from options, files or model
parameters.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain

from ktdeval.errors import ProviderError

KEYRING_SERVICE = "ktdeval"


def find_key(variables: Sequence[str], service: str | None = KEYRING_SERVICE) -> str | None:
    """Return the first key that is set. Environment variables are tried in the order given, then
    the keyring if `keyring` is installed.

    Whitespace around a key (such as a final newline) is dropped; an empty variable is treated as
    not set. If `service` is None, only the environment is read. Raises ProviderError if a key
    contains characters that can't be sent in a header; the message does not show the key.
    """
    from_environment = [
        (f"the environment variable {variable}", os.environ.get(variable, ""))
        for variable in variables
    ]
    from_keyring = (
        (f"the keyring's entry {service} {name}", _from_keyring(service, name) or "")
        for name in variables
        if service
    )
    for where, text in chain(from_environment, from_keyring):
        if key := text.strip():
            if not key.isascii() or not key.isprintable() or " " in key:
                raise ProviderError(
                    f"{where} holds a space, a control character or a letter outside ASCII, "
                    "which an API key can't contain; copy the key again"
                )

            return key

    return None


def missing_key(provider: str, variables: Sequence[str]) -> ProviderError:
    """Return the error for a provider whose key is not set."""
    names = " or ".join(variables)
    store = f"keyring set {KEYRING_SERVICE} {variables[0]}"
    return ProviderError(
        f"{provider}: no API key; set the environment variable {names}, or store it with `{store}`"
    )


def _from_keyring(service: str, variable: str) -> str | None:
    try:
        import keyring  # noqa: PLC0415 - optional, and slow to start: only asked when the environment has no key
        from keyring.errors import KeyringError  # noqa: PLC0415 - as above
    except ImportError:
        return None

    try:
        return keyring.get_password(service, variable)
    except KeyringError:  # no backend on this machine, or it stays locked: treated as no key
        return None
