"""The frame of the site's pages: one HTML file each, without any content. What they show, their scripts read from `data/`."""

from __future__ import annotations

import re
from html import escape
from typing import NamedTuple

from ktdeval_board.rules import Rules

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
"""No script, style or picture but the site's own; nothing is fetched or sent. Stands in each page, for a file has no headers."""

_SHARED = ("core", "state", "digest", "table", "controls")
_MAIL = re.compile(r"[^\s<>@\"'?&]+@[^\s<>@\"'?&]+\.[^\s<>@\"'?&]+")


class _Page(NamedTuple):
    """A page's file, heading, scripts after the shared ones, and name in the navigation (empty: reached by links only)."""

    file: str
    title: str
    scripts: tuple[str, ...]
    name: str = ""


_PAGES = (
    _Page("index.html", "Leaderboard", ("charts", "choices", "columns", "legend", "selection", "board"), "Board"),
    _Page("task.html", "Tasks", ("task",), "Tasks"),
    _Page("market.html", "Market", ("charts", "market"), "Market"),
    _Page("compare.html", "Head-to-head", ("charts", "stats", "plots", "portfolio", "compare"), "Head-to-head"),
    _Page("history.html", "History", ("charts", "history"), "History"),
    _Page("about.html", "About this board", ("about",), "About"),
    _Page("model.html", "Model", ("charts", "stats", "plots", "portfolio", "report", "model")),
    _Page("card.html", "Result card", ("card",)),
)

_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title} · {board}</title>
{description}<link rel="icon" href="assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="assets/style.css">
<link rel="stylesheet" href="assets/charts.css">
<script src="assets/core.js"></script>
{scripts}
</head>
<body>
<a class="skip" id="skip" href="#main">Skip to the content</a>
<header class="site-head">
<p class="brand"><a href="index.html">{board}</a>{market}</p>
<nav aria-label="Pages"><ul>
{navigation}
</ul></nav>
<div id="theme"></div>
</header>
<main id="main" tabindex="-1">
<h1 id="title">{title}</h1>
<noscript><p class="trouble">These pages need JavaScript to show their tables. The data are plain JSON files: begin with
<a href="data/board.json">data/board.json</a>.</p></noscript>
<div id="content" aria-busy="true"></div>
</main>
<footer class="site-foot">
<p>{board}{contact}. <a href="about.html">How figures are made and checked</a> · <a href="data/board.json">data</a></p>
<p>No trading advice: these are results of experiments on recorded or generated markets.</p>
</footer>
<div id="notice" role="status"></div>
</body>
</html>
"""


def render_pages(rules: Rules) -> dict[str, str]:
    """The HTML of every page by its file name.

    Args:
        rules: the board's rules, whose texts enter escaped.

    Returns:
        Pages without inline script or style; they load `assets/` and `data/` beside them, from a web server or from a folder.
    """
    return {page.file: _render(page, rules) for page in _PAGES}


def _render(page: _Page, rules: Rules) -> str:
    description = f'<meta name="description" content="{escape(rules.summary)}">\n' if rules.summary else ""
    synthetic = ' <span class="chip warn" title="Prices are generated, not real">synthetic market</span>'
    return _FRAME.format(
        policy=escape(CONTENT_SECURITY_POLICY),
        title=escape(page.title),
        board=escape(rules.title),
        description=description,
        market=synthetic if rules.market == "synthetic" else "",
        scripts="\n".join(f'<script defer src="assets/{name}.js"></script>' for name in (*_SHARED[1:], *page.scripts)),
        navigation="\n".join(_link(other, page) for other in _PAGES if other.name),
        contact=_contact(rules.contact),
    )


def _link(page: _Page, current: _Page) -> str:
    mark = ' aria-current="page"' if page == current else ""
    return f'<li><a href="{page.file}"{mark}>{escape(page.name)}</a></li>'


def _contact(contact: str) -> str:
    """Where to write to: a link where it is an address, else the words that stand there."""
    if not contact:
        return ""
    if contact.startswith("https://"):
        return f' · <a href="{escape(contact)}" rel="noopener">{escape(contact)}</a>'
    if _MAIL.fullmatch(contact):
        return f' · <a href="mailto:{escape(contact)}">{escape(contact)}</a>'
    return f" · {escape(contact)}"
