"""Files of the live page: a single HTML file that contains style, scripts and data, and the data as
JSON.

The page makes no network requests: its policy allows only the scripts and the style in the file.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from ktdeval.cards import clean
from ktdeval.errors import UsageError
from ktdeval.values import dumps_canonical, encode_canonical, load_yaml, make_folder, write_atomic
from ktdeval_live.page.data import LivePage
from ktdeval_live.page.sentence import live_sentences
from ktdeval_live.record.folder import SITE, LiveFolder
from ktdeval_pages.assets import pack, shared_script, source_hash, stylesheet
from ktdeval_pages.page_templates import (
    content_security_policy,
    make_environment,
    refuse_foreign_page,
)

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE = "index.html"
DATA = "live.json"

_ASSETS = files("ktdeval_live.page").joinpath("assets")
_SCRIPTS = ("base", "today", "entrants", "days", "returns", "intervals", "pairs", "main")


@functools.cache
def _environment() -> Environment:
    return make_environment("ktdeval_live.page")


def site_folder(test: LiveFolder, out: Path | None) -> Path:
    """Return the folder for the page. Raises UsageError if the folder is part of the record."""
    own = test.path / SITE
    if out is None:
        return own

    folder = out.absolute()
    if folder.is_relative_to(test.path) and not folder.is_relative_to(own):
        raise UsageError(
            f"--out {out}: lies in the folder of the test, and would be published as part of its"
            f" record; leave --out out to write {own}, or choose a folder elsewhere"
        )
    return folder


def write_page(page: LivePage, folder: Path) -> Path:
    """Write the page and its data to a folder, and return the path of the page.

    Raises StoreError if they can't be written, or if the folder contains the page of another test.
    """
    refuse_foreign_page(folder / PAGE, "ktdeval live")
    make_folder(folder)
    data = encode_canonical(page)
    write_atomic(folder / DATA, f"{data}\n")
    write_atomic(folder / PAGE, page_html(page, data))
    return folder / PAGE


def page_html(page: LivePage, data: str) -> str:
    """Return the page as HTML. `data`: the page as JSON. Equal pages give equal bytes."""
    words = load_yaml(Path(__file__).with_name("words.yaml"))
    style = stylesheet() + _read_asset("live.css")
    shared = shared_script()
    script = "\n".join(['"use strict";', *(_read_asset(f"{name}.js") for name in _SCRIPTS)])
    policy = content_security_policy(
        f"{source_hash(shared)} {source_hash(script)}", source_hash(style), "data:"
    )
    is_rehearsal = page.kind == "rehearsal"
    title = words["title"][page.kind].replace("{name}", page.name)
    packed = {
        "page": pack(data.encode()),
        "words": pack(dumps_canonical(words).encode()),
    }
    return (
        _environment()
        .get_template("live.html")
        .render(
            title=clean(title),
            words=words,
            page=page,
            sentences=list(live_sentences(page)),
            is_rehearsal=is_rehearsal,
            policy=policy,
            style=Markup(style),  # noqa: S704 - files of this package and of the kit
            shared_script=Markup(shared),  # noqa: S704
            script=Markup(script),  # noqa: S704
            packed=packed,
        )
    )


def _read_asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8").strip() + "\n"
