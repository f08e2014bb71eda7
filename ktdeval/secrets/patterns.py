"""Secrets that can be recognised by their form: keys, tokens, home folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ktdeval.values.documents.yamlio import load_yaml

REDACTED = "[redacted]"  #: replacement for a secret without a specific replacement text


@dataclass(frozen=True, slots=True)
class SecretForm:
    """A recognisable form of a secret."""

    kind: str
    pattern: re.Pattern[str]
    replacement: str


@cache
def secret_forms() -> tuple[SecretForm, ...]:
    """Return the known forms, in the order in which they are searched for."""
    forms = []
    for form in load_yaml(Path(__file__).with_name("forms.yaml"))["forms"]:
        replacement = form.get("replacement", REDACTED)
        forms.append(SecretForm(form["kind"], re.compile(form["pattern"]), replacement))

    return tuple(forms)
