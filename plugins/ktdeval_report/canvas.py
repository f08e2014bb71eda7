"""Plots of a report as Vega-Lite specs, rendered both inline in a light or dark page and as
separate files.

On a page, each colour becomes the CSS variable of its design token, so that the plot follows the
page's theme. Separate files keep the light colours.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from ktdeval_pages.colours import SERIES, TOKENS, Colour
from ktdeval_pages.marks import Spec, whole_spec
from ktdeval_pages.rendering import png_of, svg_of
from ktdeval_report.value_formatting import clean

_TOKENS = ("paper", "ink", "muted", "rule", "band", "band2", "other", *SERIES)

PALETTE: Mapping[str, Colour] = {name: TOKENS[name] for name in _TOKENS}
"""Colours of plots, keyed by design token."""

#: Width in pixels; small enough that letters stay legible when a phone shrinks the plot
WIDTH = 400

_LETTERS = 68  #: maximum number of characters per line above a plot in a file


@dataclass(frozen=True)
class Plot:
    """A single plot, as a spec with its texts."""

    name: str  # name for files, which says what the plot shows
    title: str  # heading, which says what the plot shows
    text: str  # text alternative, with the main figures
    drawn: Spec  # Vega-Lite layers, or parts side by side, without title and settings
    note: str = ""  # additional note for the reader; may be empty
    # the card that the plot belongs to, with its labels, so that a file shared without its page
    # still says that the market is synthetic
    context: str = ""


# not frozen: the plots of a page are rendered together once all of them are known
@dataclass(slots=True)
class PageFigure:
    """A plot as the page shows it."""

    title: str
    note: str
    svg: Markup | None = None  #: None until it is drawn


def picture(layers: list[Spec], height: float) -> Spec:
    """Return layers as a single picture that is as wide as the page needs. `height` is the distance
    between the axes in pixels.
    """
    fit = {"type": "fit-x", "contains": "padding"}
    return {"layer": layers, "width": WIDTH, "height": height, "autosize": fit}


def _spec_of(plot: Plot) -> Spec:
    return whole_spec(plot.drawn, clean(f"{plot.title}. {plot.text}"))


def plot_file(plot: Plot, form: str) -> bytes:
    """Return the plot as a separate file, with its title and context. `form` is `png` or `svg`."""
    title = {
        "text": textwrap.wrap(clean(plot.title), _LETTERS),
        "subtitle": textwrap.wrap(clean(plot.context), _LETTERS),
        "offset": 12,
    }
    spec = {**_spec_of(plot), "title": title}
    if form == "png":
        return png_of(spec)
    return svg_of(spec).encode()


_VARIABLES = {colour.light: f"var(--{token})" for token, colour in PALETTE.items()}
"""CSS variable of each colour that occurs in plots."""


def inline_svg(plot: Plot) -> Markup:
    """Return the plot as an inline SVG element. Colours are CSS variables, and text uses the page's
    font.
    """
    # Change only tags: the characters between them are the visible text.
    head, _, inner = svg_of(_spec_of(plot)).partition(">")
    inner = re.sub(r"<[^>]+>", _adapt_tag, inner)
    return Markup(f"{head}>{inner}")  # noqa: S704 - vl-convert's


def _adapt_tag(match: re.Match[str]) -> str:
    """Return a tag with the colours and font of the page."""
    tag = re.sub(r' font-family="[^"]*"', "", match[0])
    return re.sub(r"#[0-9a-f]{6}\b", lambda code: _VARIABLES.get(code[0], code[0]), tag)
