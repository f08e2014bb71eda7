"""Keeps secrets out of messages that may reach a log, a card or a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 8  # shorter values are words such as "true" that would blank out ordinary text


def redact_secrets(text: str, environment: Mapping[str, str]) -> str:
    """`text` with the value of every secret-looking environment variable replaced by its name."""
    for name, value in environment.items():
        if len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name):
            text = text.replace(value, f"[{name}]")
    return text
