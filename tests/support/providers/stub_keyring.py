"""A keyring for the tests: it holds one password, which it takes from a variable whose name gives
nothing away.
"""

from __future__ import annotations

import os

from keyring.backend import KeyringBackend

HELD = "STUB_RING_HOLDS"


class StubKeyring(KeyringBackend):
    """`PYTHON_KEYRING_BACKEND=support.providers.stub_keyring.StubKeyring`."""

    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        return (
            os.environ.get(HELD) if service == "ktdeval" and username.endswith("_API_KEY") else None
        )

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError
