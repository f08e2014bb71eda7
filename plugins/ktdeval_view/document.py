"""A page of a run. Its style, scripts and data are either inline or in files shared between pages,
and its content security policy blocks everything else.

The data contain no secrets. They are compressed in pieces, which the page unpacks on demand.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from ktdeval.cards import clean
from ktdeval.secrets import hide_secrets, secrets_of
from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_pages.assets import pack, shared_script, source_hash, stylesheet
from ktdeval_pages.page_templates import content_security_policy, make_environment

_ASSETS = files("ktdeval_view").joinpath("assets")
_CHUNK_BYTES = 192 * 1024
"""Size of the JSON of the days in one piece: small enough to unpack in a few milliseconds, and
large enough that repetition between days compresses well.
"""


@functools.cache
def _templates() -> Environment:
    return make_environment("ktdeval_view")


@dataclass(frozen=True)
class SharedFiles:
    """Names of the files that a page shares with other pages in its folder."""

    style: str
    kit: str  #: script of the kit
    script: str  #: script of the view
    base: str = ""  #: data against which the page stores differences; empty if there is no base


@functools.cache
def view_style() -> str:
    """Return the stylesheet of all pages of a run."""
    return stylesheet() + _read_asset("view.css")


@functools.cache
def view_script(scripts: tuple[str, ...]) -> str:
    """Return scripts of this package, joined into one."""
    return "\n".join(['"use strict";', *map(_read_asset, scripts)])


def render(title: str, template: str, scripts: tuple[str, ...], data: Mapping[str, str]) -> str:
    """Return a self-contained HTML page, made from a template, the scripts that draw it, and packed
    data that the scripts unpack. `data` is keyed by name.

    The page's policy allows its own style and scripts by hash, and blocks all others.
    """
    style = view_style()
    kit = shared_script()
    script = view_script(scripts)
    policy = content_security_policy(
        f"{source_hash(kit)} {source_hash(script)}", source_hash(style), "data:"
    )
    inside = {
        "style": Markup(style),  # noqa: S704 - files of this package and of the kit
        "shared_script": Markup(kit),  # noqa: S704
        "script": Markup(script),  # noqa: S704
    }

    return (
        _templates()
        .get_template(template)
        .render(title=clean(title), policy=policy, data=data, shared=None, **inside)
    )


def render_shared(title: str, template: str, shared: SharedFiles, data: Mapping[str, str]) -> str:
    """Return a page as HTML that loads its style and scripts from files next to it. The arguments
    are those of `render`. The page's policy allows only files in its own folder.
    """
    policy = content_security_policy("'self'", "'self'", "data:")

    return (
        _templates()
        .get_template(template)
        .render(title=clean(title), policy=policy, data=data, shared=shared)
    )


def _read_asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8").strip()


class EnvironmentRedactor:
    """Removes the values of environment variables that look like secrets from a page's data. The
    variables usually come from `os.environ`.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Secrets are looked up only once, since a page has hundreds of thousands of texts.
        self._secrets = secrets_of(environment)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return hide_secrets(text, self._secrets)

    def record(self, record: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return a JSON object without secrets, including in its keys."""
        return {self.text(name): self.value(item) for name, item in record.items()}

    def value(self, value: JsonValue) -> JsonValue:
        """Return a JSON value without secrets, including in its keys."""
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
    """Return a JSON value in the packed form used in a page."""
    return pack_text(dumps_canonical(value))


def pack_text(text: str) -> str:
    """Return a text in the packed form used in a page."""
    return pack(text.encode())


@dataclass(frozen=True)
class PageData:
    """Contents of a page before they are packed."""

    title: str
    template: str
    scripts: tuple[str, ...]
    head: Mapping[str, JsonValue]
    values: Mapping[str, JsonValue]  #: additional values, keyed by name
    days: Sequence[str]  #: one JSON text for each day or sample

    def even_counts(self) -> list[int]:
        """Return the number of days in each piece, chosen so that pieces have about equal size."""
        counts: list[int] = []
        size = _CHUNK_BYTES
        for line in self.days:
            if size >= _CHUNK_BYTES:
                counts.append(0)
                size = 0

            counts[-1] += 1
            size += len(line)

        return counts

    def texts(self, counts: Sequence[int]) -> dict[str, str]:
        """Return the texts of the page, keyed by name. The days are split into pieces with the
        given numbers of days.
        """
        texts = {"head": dumps_canonical({**self.head, "pieces": list(counts)})}
        for name, value in self.values.items():
            texts[name] = dumps_canonical(value)

        start = 0
        for number, count in enumerate(counts):
            texts[f"days-{number}"] = "\n".join(self.days[start : start + count])
            start += count

        return texts


def single_page(data: PageData) -> str:
    """Return a page as HTML in one file."""
    texts = data.texts(data.even_counts())
    packed = {name: pack_text(text) for name, text in texts.items()}
    return render(data.title, data.template, data.scripts, packed)
