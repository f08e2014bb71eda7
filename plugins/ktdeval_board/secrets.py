"""Texts that must not be published with a run: values of secret variables, keys of known forms, and folders of somebody's home.

Nothing here ever says what was found, only what kind of thing it was and where it stood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ktdeval.jsonio import JsonValue
from ktdeval.runner import redact_secrets
from ktdeval.typed import Value

REDACTED = "[redacted]"
"""What stands in the place of a secret."""
HOME = "/home/[user]"
"""What stands in the place of a home folder."""

_LONGEST_KEPT = 1_000_000
_CACHED = 50_000


class _Form(NamedTuple):
    """Something that is known by how it is written."""

    kind: str
    pattern: re.Pattern[str]
    replacement: str


# Patterns ask for a digit where words alone could have the form: a key has one, `risk-adjusted-…` has none.
_FORMS = (
    _Form(
        "a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S), REDACTED
    ),
    _Form("an API key (sk-…)", re.compile(r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}"), REDACTED),
    _Form("an API key (AIza…)", re.compile(r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30,}"), REDACTED),
    _Form("an access key (AKIA…)", re.compile(r"(?<![A-Za-z0-9])A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])"), REDACTED),
    _Form("a token (ghp_…)", re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"), REDACTED),
    _Form("a token (hf_…)", re.compile(r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}"), REDACTED),
    _Form("a token (xox…)", re.compile(r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}"), REDACTED),
    _Form("a JSON web token", re.compile(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"), REDACTED),
    _Form("a bearer token", re.compile(r"\b[Bb]earer\s+(?=[A-Za-z._~+/-]*\d)[A-Za-z0-9._~+/-]{16,}=*"), f"Bearer {REDACTED}"),
    _Form("a home folder", re.compile(r"(?<![\w./~-])/(?:home|Users)/[^\s/\\\"'<>\[\](){}:;,]+"), HOME),
    _Form("a home folder", re.compile(r"\b[A-Za-z]:\\+Users\\+[^\s/\\\"'<>\[\](){}:;,]+"), HOME),
)


class Found(Value, frozen=True, kw_only=False):
    """Something that must not be published: where it stands, and what kind of thing it is."""

    place: str
    kind: str


class Redactor:
    """Finds and replaces what must not be published. Equal texts give equal texts, so that a record and its copies stay equal.

    `environment`: its secret-looking variables are looked for by their values (`redact_secrets` says which these are). `home`: home
    folder of the user; looked for where it is none of the usual ones.
    """

    def __init__(self, environment: Mapping[str, str], home: str = "") -> None:
        self._values: list[tuple[str, str, str]] = []
        for name, value in sorted(environment.items(), key=lambda item: (-len(item[1]), item[0])):
            if redact_secrets(value, {name: value}) != value:
                forms = dict.fromkeys((value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]))
                self._values += [(form, f"the value of ${name}", REDACTED) for form in forms]
        if home.count("/") > 1 or "\\" in home:  # `/root` and `/` say nothing of anybody
            self._values.append((home, "a home folder", HOME))
        self._seen: dict[str, tuple[str, tuple[str, ...]]] = {}

    def redact(self, text: str) -> tuple[str, tuple[str, ...]]:
        """A text without what must not be published, and the kinds of things that were found."""
        known = self._seen.get(text)
        if known is None:
            known = self._look(text)
            if len(self._seen) < _CACHED and len(text) < _LONGEST_KEPT:  # prompts come again at every step
                self._seen[text] = known
        return known

    def redact_value(self, value: JsonValue, told: Callable[[str], None]) -> JsonValue:
        """A JSON value with every text in it redacted, keys apart; `told` is called with the kind of each thing found."""
        if isinstance(value, str):
            text, kinds = self.redact(value)
            for kind in kinds:
                told(kind)
            return text
        if isinstance(value, dict):
            return {key: self.redact_value(item, told) for key, item in value.items()}
        if isinstance(value, list):
            return [self.redact_value(item, told) for item in value]
        return value

    def find(self, value: JsonValue, place: str) -> Iterator[Found]:
        """Yield what must not be published in a JSON value, keys among it; each kind at a place once."""
        kinds: dict[str, None] = {}
        for text in _texts(value):
            kinds |= dict.fromkeys(self.redact(text)[1])
        yield from (Found(place, kind) for kind in kinds)

    def _look(self, text: str) -> tuple[str, tuple[str, ...]]:
        kinds: dict[str, None] = {}
        for secret, kind, replacement in self._values:
            if secret in text:
                text = text.replace(secret, replacement)
                kinds[kind] = None
        for form in _FORMS:
            text, count = form.pattern.subn(form.replacement, text)
            if count:
                kinds[form.kind] = None
        return text, tuple(kinds)


def _texts(value: JsonValue) -> Iterator[str]:
    """Every text of a JSON value, keys among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
