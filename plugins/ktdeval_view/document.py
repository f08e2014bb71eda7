"""Frame of a page: one file with style, script and data in it, under a policy that lets it ask nobody for anything."""

from __future__ import annotations

import base64
import functools
import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

_ASSETS = files("ktdeval_view").joinpath("assets")


@dataclass(frozen=True)
class Page:
    """Contents in which one page differs from another."""

    title: str  # of the window; plain text
    body: str  # name of the asset with the elements that the script fills
    scripts: Sequence[str]  # names of the assets that make up its script, in order
    data: Mapping[str, str]  # name -> packed data, which the script unpacks


@functools.cache
def _template() -> Template:
    settings = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return settings.from_string(_ASSETS.joinpath("page.html").read_text(encoding="utf-8"))


def render(page: Page) -> str:
    """Return the page as HTML. Its policy names the hashes of its own style and script: anything else that got in is not run."""
    style, script = _asset("view.css"), "\n".join(['"use strict";', *map(_asset, page.scripts)])
    own = {name: Markup(text) for name, text in (("style", style), ("script", script), ("body", _asset(page.body)))}  # noqa: S704
    return _template().render(
        own, title=clean(page.title), data=page.data, style_hash=_source_hash(style), script_hash=_source_hash(script)
    )


def clean(text: str) -> str:
    """One line without control and direction characters: what stands in a title may come from a stranger's plugin."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp", "Cs") else letter for letter in text)


def _asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8").strip()


def _source_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
