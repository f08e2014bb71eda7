"""A page of a run as one file: style, scripts and data are inside, and its policy forbids requests.

Data contain no secrets and are packed in pieces, which the page unpacks when a reader looks at them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from ktdeval.cards import clean
from ktdeval.secrets.redaction import hide_secrets, secrets_of
from ktdeval.values.strict_json import JsonValue, dumps_canonical
from ktdeval_pages.assets import pack, shared_script, source_hash, stylesheet
from ktdeval_pages.page_templates import content_security_policy, make_environment

_ASSETS = files("ktdeval_view").joinpath("assets")
_CHUNK_BYTES = 192 * 1024
"""JSON of the days in one piece: short enough to unpack in a few milliseconds, and long enough to
pack days that repeat each other well.
"""


@functools.cache
def _templates() -> Environment:
    return make_environment("ktdeval_view")


def render(title: str, template: str, scripts: Sequence[str], data: Mapping[str, str]) -> str:
    """Return a page as HTML, from a template, the scripts that draw it, and packed data by name,
    which they unpack.

    The page's policy names the hashes of its own style and scripts: anything else is not run.
    """
    style = stylesheet() + _read_asset("view.css")
    shared = shared_script()
    own_scripts = [_read_asset(name) for name in scripts]
    script = "\n".join(['"use strict";', *own_scripts])
    policy = content_security_policy(
        f"{source_hash(shared)} {source_hash(script)}", source_hash(style), "data:"
    )

    return (
        _templates()
        .get_template(template)
        .render(
            title=clean(title),
            policy=policy,
            style=Markup(style),  # noqa: S704 - files of this package and of the kit
            shared_script=Markup(shared),  # noqa: S704
            script=Markup(script),  # noqa: S704
            data=data,
        )
    )


def _read_asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8").strip()


class Redactor:
    """Removes the values of secret-looking environment variables, such as those of `os.environ`,
    from all that goes into a page.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Looked up once: a page has hundreds of thousands of texts.
        self._secrets = secrets_of(environment)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return hide_secrets(text, self._secrets)

    def value(self, value: JsonValue) -> JsonValue:
        """Return a JSON value without secrets, in keys too."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.value(item) for item in value]

        return value


def pack_value(value: JsonValue) -> str:
    """Return a JSON value as a page holds it."""
    return pack(dumps_canonical(value).encode())


def pack_days(days: Iterable[JsonValue]) -> tuple[list[int], list[str]]:
    """Return the number of days in each piece, and the packed pieces. A piece has a line of JSON for
    each day; pieces are of about equal size.
    """
    groups: list[list[str]] = []
    size = _CHUNK_BYTES
    for line in map(dumps_canonical, days):
        if size >= _CHUNK_BYTES:
            groups.append([])
            size = 0

        groups[-1].append(line)
        size += len(line)

    counts = [len(lines) for lines in groups]
    pieces = [pack("\n".join(lines).encode()) for lines in groups]
    return counts, pieces
