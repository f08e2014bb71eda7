"""Secrets that are known by how they are written: keys, tokens, home folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ktdeval.values.yamlio import load_yaml

REDACTED = "[redacted]"  #: what replaces a secret without words of its own


@dataclass(frozen=True, slots=True)
class SecretForm:
    """Known form of a secret."""

    kind: str
    pattern: re.Pattern[str]
    replacement: str


@cache
def secret_forms() -> tuple[SecretForm, ...]:
    """Return the known forms, in the order in which they are looked for."""
    forms = []
    for form in load_yaml(Path(__file__).with_name("forms.yaml"))["forms"]:
        replacement = form.get("replacement", REDACTED)
        forms.append(SecretForm(form["kind"], re.compile(form["pattern"]), replacement))

    return tuple(forms)
