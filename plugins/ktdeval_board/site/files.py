"""Files and pages of a site: written into a folder next to it, which replaces it when all of them are there.

Each page is one HTML file without any content; what it shows, its scripts read from `data/`.
"""

from __future__ import annotations

import base64
import importlib.resources
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.yamlio import load_yaml
from ktdeval_board import templates
from ktdeval_board.rules import Rules
from ktdeval_board.templates import render

MARKER = ".ktdeval-site"
"""File that marks a folder as a built site, which a build may replace."""

PACKED_FROM = 50_000
"""Characters from which on a value is packed."""

_QUICK, _SMALL = 1, 9
"""Levels of zlib: for values of single cards, of which there are thousands, and for tables, which readers wait for."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'none'; base-uri 'none'; "
    "form-action 'none'"
)
"""No script, style or picture but the site's own; nothing is fetched or sent. Stands in each page, for a file has no headers."""


RESPONSE_HEADERS = {
    "Content-Security-Policy": f"{CONTENT_SECURITY_POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers that a server should send with each file of a site; the pages say most of it themselves."""


def data_file(name: str, value: bytes, is_plain: bool = False, is_packed: bool = False) -> bytes:
    """Return the content of `data/<name>.js`: a call that hands a JSON value to the page, for pages of a file can't fetch one.

    Long values come packed (zlib, in base64), so that they are small on hosts that pack nothing, too. What is packed can't be
    anything but a value: the page unpacks it and reads it as JSON.
    """
    quoted = dumps_canonical(name).encode()
    value = value.strip()
    if is_packed or len(value) > PACKED_FROM:
        packed = base64.b64encode(zlib.compress(value, _SMALL if is_plain else _QUICK))
        return b'ktdevalReceivePacked(%s,\n"%s"\n);\n' % (quoted, packed)
    return b"ktdevalReceive(%s,\n%s\n);\n" % (quoted, value)


class SiteWriter:
    """Writes the files of one site. Equal calls give equal bytes."""

    def __init__(self, folder: Path) -> None:
        """Write under a folder, which is there."""
        self.folder = folder

    def write(self, name: str, content: str | bytes) -> None:
        """A file, by its path under the site."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise StoreError(f"{path}: can't write: {error.strerror or error}; free space or choose another --out") from error

    def put(self, name: str, value: JsonValue, is_plain: bool = False) -> None:
        """A data file."""
        self.put_json(name, dumps_canonical(value).encode(), is_plain)

    def put_json(self, name: str, value: bytes, is_plain: bool = False, is_packed: bool = False) -> None:
        """A data file whose JSON is written already; arguments as of `data_file`."""
        self.write(f"data/{name}.js", data_file(name, value, is_plain, is_packed))
        if is_plain:
            self.write(f"data/{name}.json", value.strip() + b"\n")

    def add_static(self, rules: Rules, columns: Collection[str] = ()) -> None:
        """Scripts, styles and what hosts look for; `columns` as of `render_pages`."""
        own, others = (_own_assets(pages) for pages in _pages(rules, columns))
        for name, content in _assets(importlib.resources.files("ktdeval_board.site").joinpath("assets"), "assets"):
            if name in own or name not in others:
                self.write(name, content)
        self.write("404.html", render("site/404.html", rules=rules))
        self.write("robots.txt", "User-agent: *\nAllow: /\n")
        self.write(".nojekyll", "")
        lines = (f"  {name}: {value}\n" for name, value in RESPONSE_HEADERS.items())
        self.write("_headers", f"/*\n{''.join(lines)}")  # Netlify, Cloudflare Pages and others read it
        self.write(MARKER, "A site built by `ktdeval leaderboard build`, which replaces this folder as a whole.\n")

    def count(self) -> tuple[int, int]:
        """Files, and bytes of them."""
        sizes = [path.stat().st_size for path in self.folder.rglob("*") if path.is_file()]
        return len(sizes), sum(sizes)


def _assets(folder: Traversable, where: str) -> Iterator[tuple[str, str]]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        name = f"{where}/{item.name}"
        if item.is_dir():
            yield from _assets(item, name)
        elif not item.name.startswith(".") and not item.name.endswith((".py", ".pyc")):
            yield name, item.read_text(encoding="utf-8")


_OWN = (("js", "scripts"), ("css", "styles"))  #: Kinds of assets, and the lists of a page that name its own
_MAIL = re.compile(r"[^\s<>@\"'?&]+@[^\s<>@\"'?&]+\.[^\s<>@\"'?&]+")


def _pages(rules: Rules, columns: Collection[str]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Pages of a board, and those that it has nothing for: a page that `needs` a figure belongs to boards with a column of it."""
    pages = load_yaml(Path(templates.__file__).parent / "site" / "pages.yaml")["pages"]
    there = {"", *columns, *(["registrations"] if rules.draws_keys else [])}
    has = {page["file"]: page.get("needs", "") in there for page in pages} | {"market.html": bool(rules.snapshots)}
    return [page for page in pages if has[page["file"]]], [page for page in pages if not has[page["file"]] and "needs" in page]


def _own_assets(pages: Iterable[Mapping[str, Any]]) -> set[str]:
    return {f"assets/{name}.{kind}" for page in pages for kind, key in _OWN for name in page.get(key, ())}


def render_pages(rules: Rules, columns: Collection[str] = ()) -> dict[str, str]:
    """Return the HTML of every page by its file name.

    Returns pages without inline script or style; they load `assets/` and `data/` next to them, from a web server or from a folder.
    `columns`: names of the figures in the board's tables; pages about figures that are not there are left out.
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
