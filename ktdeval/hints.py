"""Hints for names of other suites or of habit, with ktdeval's own; its commands, and groups of the options of `run`."""

from __future__ import annotations

import fnmatch
import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def hints() -> dict[str, Any]:
    """Return the content of `hints.json`."""
    content: dict[str, Any] = json.loads(Path(__file__).with_name("hints.json").read_text(encoding="utf-8"))
    return content


def hint(kind: str, name: str) -> str:
    """Return `; HINT` for a name that ktdeval does not have; empty without a hint. `kind`: commands, options, models."""
    matches = (text for pattern, text in hints()[kind].items() if fnmatch.fnmatchcase(name, pattern))
    return next((f"; {text.format(name=name)}" for text in matches), "")
