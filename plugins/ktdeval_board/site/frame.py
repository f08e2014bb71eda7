"""Pages of the site: one HTML file each, without any content. What they show, their scripts read from `data/`."""

from __future__ import annotations

import re
from pathlib import Path

from ktdeval.yamlio import load_yaml
from ktdeval_board import templates
from ktdeval_board.rules import Rules

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'none'; base-uri 'none'; "
    "form-action 'none'"
)
"""No script, style or picture but the site's own; nothing is fetched or sent. Stands in each page, for a file has no headers."""

_MAIL = re.compile(r"[^\s<>@\"'?&]+@[^\s<>@\"'?&]+\.[^\s<>@\"'?&]+")


def render_pages(rules: Rules) -> dict[str, str]:
    """Return the HTML of every page by its file name.

    Returns pages without inline script or style; they load `assets/` and `data/` beside them, from a web server or from a folder.
    """
    pages = load_yaml(Path(templates.__file__).parent / "site" / "pages.yaml")["pages"]
    shared = {
        "rules": rules,
        "pages": pages,
        "policy": CONTENT_SECURITY_POLICY,
        "is_address": rules.contact.startswith("https://"),
        "is_mail": _MAIL.fullmatch(rules.contact) is not None,
    }
    return {page["file"]: templates.render("site/page.html", page=page, **shared) for page in pages}
