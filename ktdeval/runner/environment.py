"""Where and when a card was made: the only part of it that differs between two equal runs."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import ktdeval
from ktdeval.jsonio import JsonValue

_PACKAGES = ("numpy", "pandas", "pyarrow", "scipy", "zstandard")


def source_revision() -> str | None:
    """Return the commit of the checkout that ktdeval runs from; None for an installed wheel or without git."""
    root = Path(ktdeval.__file__).parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def describe_environment(wall_s: float) -> Mapping[str, JsonValue]:
    """Return the card's provenance block."""
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "suite_version": ktdeval.__version__,
        "source_revision": source_revision(),
        "wall_time_s": round(wall_s, 3),
        "environment": {
            "python": platform.python_version(),
            "platform": platform.platform(terse=True),
            **{name: metadata.version(name) for name in _PACKAGES},
        },
    }
