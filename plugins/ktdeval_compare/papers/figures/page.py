"""HTML page for a figure: one file with the chart, its data and caveats."""

from __future__ import annotations

import functools
from importlib.resources import files

import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from ktdeval.cards import clean
from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_compare.papers.figures.definitions import PaperFigure
from ktdeval_compare.papers.figures.vega_specs import WIDTH, records_of, vega_spec
from ktdeval_compare.papers.table_writing import notes_of
from ktdeval_pages.assets import (
    charts_script,
    pack,
    shared_script,
    source_hash,
    stylesheet,
    vendor_files,
)
from ktdeval_pages.page_templates import content_security_policy, make_environment

_PACKAGE = "ktdeval_compare.papers.figures"
_ASSETS = files(_PACKAGE).joinpath("assets")
# ordered by dependency
_LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-interpreter.js")


@functools.cache
def _templates() -> Environment:
    return make_environment(_PACKAGE)


def figure_page(figure: PaperFigure, frame: pd.DataFrame) -> str:
    """Return the page as HTML. Its content security policy allows only the page's own style and
    scripts, identified by hash, and blocks network access.
    """
    vendored = dict(vendor_files())
    libraries = [vendored[name].strip() for name in _LIBRARIES]
    style = stylesheet() + _asset("figure.css")
    shared = shared_script()
    script = "\n".join(['"use strict";', charts_script(), _asset("figure.js")])
    # Vega sets styles on individual elements through the DOM, so the policy need not allow inline
    # styles.
    hashes = " ".join(source_hash(text) for text in (shared, *libraries, script))
    policy = content_security_policy(hashes, source_hash(style), "data:")

    return (
        _templates()
        .get_template("figure.html")
        .render(
            title=clean(figure.caption),
            source=clean(figure.source),
            name=figure.name,
            notes=[clean(note) for note in notes_of(frame)],
            policy=policy,
            style=Markup(style),  # noqa: S704 - files of this package and of the kit
            shared_script=Markup(shared),  # noqa: S704
            libraries=[Markup(text) for text in libraries],  # noqa: S704
            script=Markup(script),  # noqa: S704
            packed=pack(dumps_canonical(_content(figure, frame)).encode()),
        )
    )


def _asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8").strip()


def _content(figure: PaperFigure, frame: pd.DataFrame) -> dict[str, JsonValue]:
    """Return the data for the page's script: the spec, and the same figures as a table."""
    columns: list[JsonValue] = [[str(name), ""] for name in frame]
    rows: list[JsonValue] = [list(record.values()) for record in records_of(frame)]
    return {
        "title": clean(figure.caption),
        "spec": vega_spec(figure, frame),
        "width": WIDTH,
        "columns": columns,
        "rows": rows,
    }
