"""Files and pages of a site. They are written to a folder next to the site, which replaces the site
once it is complete.

Each page is an HTML file without content. Its scripts read what to show from `data/`.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NotRequired, TypedDict

from ktdeval.errors import StoreError, os_reason
from ktdeval.values import JsonValue, dumps_canonical, load_yaml
from ktdeval_board import templates
from ktdeval_board.rules import Rules
from ktdeval_board.site.front import Front
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
from ktdeval_pages.share_pictures import SIZE
from ktdeval_pages.text_deltas import Delta

MARKER = ".ktdeval-site"
"""File that marks a folder as a built site, which a later build may replace."""

PACKED_FROM = 2_000
"""Minimum number of characters of a value that is packed."""

_QUICK, _SMALL = 6, 9
"""zlib compression levels: a quick one for the values of thousands of cards, and a small one for
tables, which readers wait for.
"""

CONTENT_SECURITY_POLICY = content_security_policy("'self'", "'self'", "'self' data:")
"""Scripts, styles and images come only from the site itself; nothing is fetched or sent."""

NO_SOURCES_POLICY = content_security_policy("'none'", "'none'", "'none'")
"""Policy for pages without scripts and styles."""

_OWN_ASSETS = importlib.resources.files("ktdeval_board.site").joinpath("assets")
_CHART_SPECS = Path(__file__).with_name("chart_specs.yaml")
_WORDS = Path(__file__).with_name("words.yaml")
#: Script of the not-found page, which may be shown at any depth of the site
_MISSING = "missing.js"
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
"""Headers that a server should send with each file of a site; the pages contain most of them
themselves.
"""


def data_file(name: str, value: bytes, is_plain: bool = False, is_packed: bool = False) -> bytes:
    """Return the contents of `data/<name>.js`: a call that passes a JSON value to the page, since
    pages opened as local files can't fetch data.

    Long values are packed (zlib, in base64), so that they are also small on hosts that do not
    compress. Packed data can only ever be a value, since the page unpacks it and parses it as JSON.
    """
    quoted = dumps_canonical(name).encode()
    value = value.strip()
    if is_packed or len(value) > PACKED_FROM:
        packed = pack(value, _SMALL if is_plain else _QUICK).encode()
        return b'ktdevalReceivePacked(%s,\n"%s"\n);\n' % (quoted, packed)

    return b"ktdevalReceive(%s,\n%s\n);\n" % (quoted, value)


def delta_file(name: str, base_name: str, delta: Delta) -> bytes:
    """Return the contents of `data/<name>.js` for a value whose JSON text is a delta against the
    text of another data file. The file contains a call that passes both names and the packed delta.
    """
    quoted = dumps_canonical(name).encode()
    base = dumps_canonical(base_name).encode()
    packed = pack(dumps_canonical(delta).encode(), _QUICK).encode()
    return b'ktdevalReceiveDelta(%s,%s,\n"%s"\n);\n' % (quoted, base, packed)


class SiteWriter:
    """Writes a site's files. Equal calls give equal bytes."""

    def __init__(self, folder: Path) -> None:
        """Write below an existing folder."""
        self.folder = folder

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file at a path relative to the site."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise StoreError(
                f"{path}: can't write: {os_reason(error, 'free space or choose another --out')}"
            ) from error

    def put(self, name: str, value: JsonValue, is_plain: bool = False) -> None:
        """Write a data file."""
        self.put_json(name, dumps_canonical(value).encode(), is_plain)

    def put_json(
        self, name: str, value: bytes, is_plain: bool = False, is_packed: bool = False
    ) -> None:
        """Write a data file from JSON text. `data_file` documents the arguments."""
        self.write(f"data/{name}.js", data_file(name, value, is_plain, is_packed))
        if is_plain:
            self.write(f"data/{name}.json", value.strip() + b"\n")

    def put_delta(self, name: str, base_name: str, delta: Delta) -> None:
        """Write a data file whose text is a delta against the text of the data file `base_name`."""
        self.write(f"data/{name}.js", delta_file(name, base_name, delta))

    def add_static(self, rules: Rules, columns: Collection[str] = ()) -> None:
        """Write scripts, styles and files for web hosts. `render_pages` documents `columns`."""
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
        # Netlify, Cloudflare Pages and others read this file
        self.write("_headers", f"/*\n{''.join(lines)}")
        self.write(
            MARKER,
            "A site built by `ktdeval leaderboard build`, which replaces this folder as a whole.\n",
        )

    def count(self) -> tuple[int, int]:
        """Return the number of files and their total size in bytes."""
        sizes = [path.stat().st_size for path in self.folder.rglob("*") if path.is_file()]
        return len(sizes), sum(sizes)


def _asset_files() -> Iterator[tuple[str, str]]:
    """Yield the name and contents of each file in `assets/`: first the page kit's files, then the
    board's own.
    """
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
    """A page as listed in `pages.yaml`."""

    file: str
    title: str
    name: str  # label in the navigation; empty for a page that is reached only through links
    scripts: list[str]
    styles: NotRequired[list[str]]
    needs: NotRequired[str]


def _pages(rules: Rules, columns: Collection[str]) -> tuple[list[_Page], list[_Page]]:
    """Return the pages of a board, and the pages that are omitted because the board has no figures
    for them. A page that `needs` a figure is only for boards with a column for that figure.
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
    """Return the file names of the scripts and styles that these pages use."""
    names: set[str] = set()
    for page in pages:
        names.update(f"{script}.js" for script in page["scripts"])
        names.update(f"{style}.css" for style in page.get("styles", ()))
    return names


def render_pages(
    rules: Rules, columns: Collection[str] = (), front: Front | None = None
) -> dict[str, str]:
    """Return the HTML of every page, keyed by file name.

    The pages have no inline script or style; they load `assets/` and `data/` next to them, from a
    web server or from a folder. `columns` are the names of the figures in the board's tables. A
    page about a figure that is not among them is omitted. `front`: what the first page says without
    its scripts, and what all pages say in link previews.
    """
    pages, _ = _pages(rules, columns)
    shared = {
        "rules": rules,
        "pages": pages,
        "policy": CONTENT_SECURITY_POLICY,
        "front": front or Front((), rules.summary, "", ""),
        "image_size": SIZE,
        "is_address": rules.contact.startswith("https://"),
        "is_mail": _MAIL.fullmatch(rules.contact) is not None,
    }
    return {page["file"]: templates.render("site/page.html", page=page, **shared) for page in pages}
