"""Files and pages of a site: written into a folder next to it, which replaces it when all of them
are there.

Each page is one HTML file without any content; what it shows, its scripts read from `data/`.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NotRequired, TypedDict

from ktdeval.errors import StoreError
from ktdeval.values import JsonValue, dumps_canonical, load_yaml
from ktdeval_board import templates
from ktdeval_board.rules import Rules
from ktdeval_board.templates import render
from ktdeval_pages.assets import (
    charts_script,
    pack,
    shared_script,
    source_hash,
    stylesheet,
    vendor_files,
)
from ktdeval_pages.page_templates import content_security_policy
from ktdeval_pages.text_deltas import Delta

MARKER = ".ktdeval-site"
"""File that marks a folder as a built site, which a build may replace."""

PACKED_FROM = 2_000
"""Characters from which on a value is packed."""

_QUICK, _SMALL = 6, 9
"""Levels of zlib: for values of single cards, of which there are thousands, and for tables, which
readers wait for.
"""

CONTENT_SECURITY_POLICY = content_security_policy("'self'", "'self'", "'self' data:")
"""No script, style or picture but the site's own; nothing is fetched or sent."""

NO_SOURCES_POLICY = content_security_policy("'none'", "'none'", "'none'")
"""Policy of pages without scripts and styles."""

_OWN_ASSETS = importlib.resources.files("ktdeval_board.site").joinpath("assets")
_CHART_SPECS = Path(__file__).with_name("chart_specs.yaml")
_WORDS = Path(__file__).with_name("words.yaml")
_MISSING = "missing.js"  #: Script inside the page of a wrong address, which is at no known depth
_MISSING_SCRIPT = _OWN_ASSETS.joinpath(_MISSING).read_text(encoding="utf-8")
_MISSING_HASH = source_hash(_MISSING_SCRIPT)
_MISSING_POLICY = content_security_policy(_MISSING_HASH, "'self'", "'none'")
_SERVED_POLICY = content_security_policy(f"'self' {_MISSING_HASH}", "'self'", "'self' data:")

RESPONSE_HEADERS = {
    "Content-Security-Policy": f"{_SERVED_POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers that a server should send with each file of a site; the pages say most of it
themselves.
"""


def data_file(name: str, value: bytes, is_plain: bool = False, is_packed: bool = False) -> bytes:
    """Return the content of `data/<name>.js`: a call that hands a JSON value to the page, for pages
    of a file can't fetch one.

    Long values come packed (zlib, in base64), so that they are small on hosts that pack nothing,
    too. What is packed can't be anything but a value: the page unpacks it and reads it as JSON.
    """
    quoted = dumps_canonical(name).encode()
    value = value.strip()
    if is_packed or len(value) > PACKED_FROM:
        packed = pack(value, _SMALL if is_plain else _QUICK).encode()
        return b'ktdevalReceivePacked(%s,\n"%s"\n);\n' % (quoted, packed)

    return b"ktdevalReceive(%s,\n%s\n);\n" % (quoted, value)


def delta_file(name: str, base_name: str, delta: Delta) -> bytes:
    """Return the content of `data/<name>.js` for a value whose JSON text is a delta of another data
    file's text: a call that names both and hands over the packed delta.
    """
    quoted = dumps_canonical(name).encode()
    base = dumps_canonical(base_name).encode()
    packed = pack(dumps_canonical(delta).encode(), _QUICK).encode()
    return b'ktdevalReceiveDelta(%s,%s,\n"%s"\n);\n' % (quoted, base, packed)


class SiteWriter:
    """Writes the files of one site. Equal calls give equal bytes."""

    def __init__(self, folder: Path) -> None:
        """Write under a folder, which is there."""
        self.folder = folder

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, by its path under the site."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise StoreError(
                f"{path}: can't write: {error.strerror or error}; free space or choose another"
                " --out"
            ) from error

    def put(self, name: str, value: JsonValue, is_plain: bool = False) -> None:
        """Write a data file."""
        self.put_json(name, dumps_canonical(value).encode(), is_plain)

    def put_json(
        self, name: str, value: bytes, is_plain: bool = False, is_packed: bool = False
    ) -> None:
        """Write a data file from JSON text; arguments as in `data_file`."""
        self.write(f"data/{name}.js", data_file(name, value, is_plain, is_packed))
        if is_plain:
            self.write(f"data/{name}.json", value.strip() + b"\n")

    def put_delta(self, name: str, base_name: str, delta: Delta) -> None:
        """Write a data file whose text is a delta of the text in the data file `base_name`."""
        self.write(f"data/{name}.js", delta_file(name, base_name, delta))

    def add_static(self, rules: Rules, columns: Collection[str] = ()) -> None:
        """Scripts, styles and what hosts look for; `columns` as of `render_pages`."""
        pages, absent = _pages(rules, columns)
        own = _own_assets(pages)
        unused = _own_assets(absent) - own
        for name, content in _asset_files():
            if name not in unused:
                self.write(f"assets/{name}", content)

        missing = {"policy": _MISSING_POLICY, "script": _MISSING_SCRIPT}
        self.write("404.html", render("site/404.html", rules=rules, **missing))
        self.write("robots.txt", "User-agent: *\nAllow: /\n")
        self.write(".nojekyll", "")
        lines = (f"  {name}: {value}\n" for name, value in RESPONSE_HEADERS.items())
        # Netlify, Cloudflare Pages and others read it
        self.write("_headers", f"/*\n{''.join(lines)}")
        self.write(
            MARKER,
            "A site built by `ktdeval leaderboard build`, which replaces this folder as a whole.\n",
        )

    def count(self) -> tuple[int, int]:
        """Return the number of files and their size in bytes."""
        sizes = [path.stat().st_size for path in self.folder.rglob("*") if path.is_file()]
        return len(sizes), sum(sizes)


def _asset_files() -> Iterator[tuple[str, str]]:
    """Yield name and content of each file of `assets/`: those of the kit, then the board's own."""
    yield "pages.css", stylesheet()
    yield "pages.js", shared_script(_WORDS)
    yield "charts.js", charts_script(_CHART_SPECS)
    for name, content in vendor_files():
        yield f"vendor/{name}", content

    for item in sorted(_OWN_ASSETS.iterdir(), key=lambda item: item.name):
        if item.name.endswith((".css", ".js", ".svg")) and item.name != _MISSING:
            yield item.name, item.read_text(encoding="utf-8")


_MAIL = re.compile(r"[^\s<>@\"'?&]+@[^\s<>@\"'?&]+\.[^\s<>@\"'?&]+")


class _Page(TypedDict):
    """A page as `pages.yaml` lists it."""

    file: str
    title: str
    name: str  # in the navigation; empty for a page that only links lead to
    scripts: list[str]
    styles: NotRequired[list[str]]
    needs: NotRequired[str]


def _pages(rules: Rules, columns: Collection[str]) -> tuple[list[_Page], list[_Page]]:
    """Return the pages of a board, and those that its figures give nothing to show: a page that
    `needs` a figure belongs to boards with a column of it.
    """
    listed: list[_Page] = load_yaml(Path(templates.__file__).parent / "site" / "pages.yaml")[
        "pages"
    ]
    available = set(columns)
    if rules.draws_keys:
        available.add("registrations")

    shown = []
    absent = []
    for page in listed:
        needed = page.get("needs")
        if needed is not None and needed not in available:
            absent.append(page)
        elif page["file"] != "market.html" or rules.snapshots:
            shown.append(page)

    return shown, absent


def _own_assets(pages: Iterable[_Page]) -> set[str]:
    """Return the file names of scripts and styles that these pages name."""
    names: set[str] = set()
    for page in pages:
        names.update(f"{script}.js" for script in page["scripts"])
        names.update(f"{style}.css" for style in page.get("styles", ()))
    return names


def render_pages(rules: Rules, columns: Collection[str] = ()) -> dict[str, str]:
    """Return the HTML of every page by its file name.

    Returns pages without inline script or style; they load `assets/` and `data/` next to them, from
    a web server or from a folder. `columns`: names of the figures in the board's tables; pages
    about figures that are not there are left out.
    """
    pages, _ = _pages(rules, columns)
    shared = {
        "rules": rules,
        "pages": pages,
        "policy": CONTENT_SECURITY_POLICY,
        "is_address": rules.contact.startswith("https://"),
        "is_mail": _MAIL.fullmatch(rules.contact) is not None,
    }
    return {page["file"]: templates.render("site/page.html", page=page, **shared) for page in pages}
