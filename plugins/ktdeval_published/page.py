"""Page of boards: one file with pictures, for any browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ktdeval_pages.assets import stylesheet
from ktdeval_pages.page_templates import content_security_policy, make_environment
from ktdeval_published.plots import Picture, pictures_of
from ktdeval_published.report import BoardReport
from ktdeval_published.texts import HEADS, table_rows

#: elements of plots have inline styles, which can't be allowed by hash
_POLICY = content_security_policy("'none'", "'unsafe-inline'", "data:")


_LAYOUT = """
body { max-width: 76rem; margin: 0 auto; padding: 1rem 1.2rem 3rem; }
section { margin-top: 2.5rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem; }
.plots figure { margin: 0; }
.plots svg { max-width: 100%; height: auto; }
"""


@dataclass(frozen=True)
class BoardView:
    """Board as the template shows it."""

    report: BoardReport
    rows: Sequence[tuple[str, ...]]
    pictures: Sequence[Picture]


def page_of(reports: Sequence[BoardReport]) -> str:
    """Return the page as HTML. Equal reports give equal bytes. Raises UsageError if the renderer of
    figures is not installed.
    """
    views = [BoardView(one, table_rows(one), pictures_of(one)) for one in reports]
    template = make_environment("ktdeval_published").get_template("boards.html")
    title = reports[0].title if len(reports) == 1 else "What published agents show"
    values: dict[str, Any] = {
        "title": title,
        "boards": views,
        "heads": HEADS,
        "policy": _POLICY,
        "style": Markup(stylesheet() + _LAYOUT),  # noqa: S704 - files of the kit
    }
    return template.render(values)
