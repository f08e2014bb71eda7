"""The kit's styles and scripts, as texts that a site writes to files or a page embeds."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import msgspec

from ktdeval.values import load_yaml
from ktdeval_pages.colours import SERIES, TOKENS, css_variables
from ktdeval_pages.marks import look_of
from ktdeval_pages.page_words import WORDS

_KIT = files("ktdeval_pages")

#: scripts that every page needs, in the order of their dependencies; `theme` comes first, so that
#: the page has its colours before it is painted
_SHARED_SCRIPTS = ("theme", "elements", "figures", "actions", "table", "controls", "drawing")

_CHART_SCRIPTS = ("charts", "interval_charts")


def stylesheet() -> str:
    """Return the shared stylesheet of all pages: tokens, then rules."""
    rules = _KIT.joinpath("styles", "pages.css").read_text(encoding="utf-8")
    return css_variables() + rules


def shared_script(own_words: Path | None = None) -> str:
    """Return the script that defines `kt`, the object used by a page's scripts. `own_words` is a
    YAML file with a site's own words, which are added to the shared ones.
    """
    parts = ['"use strict";', f"window.kt = {{values: {_values_json()}}};"]
    if own_words is not None:
        words = msgspec.json.encode(load_yaml(own_words)).decode()
        parts.append(f"Object.assign(kt.values.words, {words});")
    parts += [_script(name) for name in _SHARED_SCRIPTS]
    return "\n".join(parts) + "\n"


def part_script(*names: str) -> str:
    """Return a script with parts of the kit for a small page: first `elements`, then the named
    parts that depend on it.
    """
    parts = ['"use strict";', "window.kt = {};"]
    parts += [_script(name) for name in names]
    return "\n".join(parts) + "\n"


def charts_script(own_specs: Path | None = None) -> str:
    """Return the script that adds `kt.charts`, which loads Vega-Lite from the site's `vendor_files`
    when a chart comes into view. `own_specs` is a YAML file with the site's own chart specs.
    """
    specs = dict(load_yaml(Path(__file__).with_name("chart_specs.yaml")))
    if own_specs is not None:
        specs |= load_yaml(own_specs)
    specs.pop("parts", None)
    parts = [_script(name) for name in _CHART_SCRIPTS]
    parts.append(f"kt.values.figures = {msgspec.json.encode(look_of('page')).decode()};")
    parts.append(f"kt.charts.specs = {msgspec.json.encode(specs).decode()};")
    return "\n".join(parts) + "\n"


def vendor_files() -> Iterator[tuple[str, str]]:
    """Yield the name and contents of each file of the third-party libraries, including licences."""
    for item in sorted(_KIT.joinpath("vendor").iterdir(), key=lambda item: item.name):
        yield item.name, item.read_text(encoding="utf-8")


def _script(name: str) -> str:
    return _KIT.joinpath("scripts", f"{name}.js").read_text(encoding="utf-8").strip()


def _values_json() -> str:
    """Return tokens and words as JSON. They are in file order, in which pages list them."""
    light = {name: colour.light for name, colour in TOKENS.items()}
    dark = {name: colour.dark for name, colour in TOKENS.items()}
    values = {"light": light, "dark": dark, "series": SERIES, "words": WORDS}
    return msgspec.json.encode(values).decode()


def pack(data: bytes, level: int = 9) -> str:
    """Return data in the form in which a page embeds it: zlib, then base64. The result can't end
    the script or element that contains it; `kt.unpack` reads it.
    """
    return base64.b64encode(zlib.compress(data, level)).decode()


def source_hash(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
