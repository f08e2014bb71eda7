"""Frame of a page: one file with style, script and data in it, under a policy that lets it ask nobody for anything.

Data travel without secrets, compressed, in pieces that are unpacked only when they are looked at.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from ktdeval.cards import clean
from ktdeval.errors import replace_secrets, secrets_of
from ktdeval.jsonio import JsonValue, dumps_canonical

_ASSETS = files("ktdeval_view").joinpath("assets")
_CHUNK_BYTES = 192 * 1024
"""JSON of the days in one piece: unpacked in a few milliseconds, and long enough to pack days that repeat each other well."""


@functools.cache
def _template() -> Template:
    settings = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return settings.from_string(_ASSETS.joinpath("page.html").read_text(encoding="utf-8"))


def render(title: str, body: str, scripts: Sequence[str], data: Mapping[str, str]) -> str:
    """Return a page as HTML, from the assets that are its body and its script, and packed data by name, which the script unpacks.

    Its policy names the hashes of its own style and script: anything else that got in is not run.
    """
    style, script = _asset("view.css"), "\n".join(['"use strict";', *map(_asset, scripts)])
    own = {name: Markup(text) for name, text in (("style", style), ("script", script), ("body", _asset(body)))}  # noqa: S704
    hashes = {"style_hash": _source_hash(style), "script_hash": _source_hash(script)}
    return _template().render(own, title=clean(title), data=data, **hashes)


def _asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8").strip()


def _source_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


class Redactor:
    """Takes the values of secret-looking environment variables, such as of `os.environ`, out of whatever goes into a page."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Asked once, so that hundreds of thousands of texts are not each compared with the name of every variable.
        self._secrets = secrets_of(environment)

    def text(self, text: str) -> str:
        """A text without them."""
        return replace_secrets(text, self._secrets)

    def value(self, value: JsonValue) -> JsonValue:
        """A JSON value without them, in keys as well."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.value(item) for item in value]
        return value


def pack(text: str) -> str:
    """A text as a page holds it: zlib, then base64, so that nothing in it can end the element that it stands in."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def pack_value(value: JsonValue) -> str:
    """A JSON value as a page holds it."""
    return pack(dumps_canonical(value))


def pack_days(days: Iterable[JsonValue]) -> tuple[list[int], list[str]]:
    """Return how many days each piece holds, and the pieces, of about equal size, a line of JSON for each day."""
    groups: list[list[str]] = []
    size = _CHUNK_BYTES
    for line in map(dumps_canonical, days):
        if size >= _CHUNK_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(line)
        size += len(line)
    return [len(lines) for lines in groups], [pack("\n".join(lines)) for lines in groups]
