"""Drawing of plots: matplotlib without a screen, and the way from its SVG into a page that is light
or dark.

Plots are drawn in the light colours of the kit's design tokens. In a page each hex code becomes the
CSS variable of its token, so that the plot follows the page's theme. Files keep the light colours.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ktdeval.errors import UsageError
from ktdeval.values import install_command, load_yaml
from ktdeval_pages.colours import SERIES, TOKENS, Colour
from ktdeval_pages.figure_files import fix_layout
from ktdeval_report.value_formatting import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

_STYLE = load_yaml(Path(__file__).with_name("canvas.yaml"))
PALETTE: Mapping[str, Colour] = {name: TOKENS[name] for name in (*_STYLE["tokens"], *SERIES)}
"""Colours of plots by their design token."""

#: Inches; 72 units of the SVG each. Small, so that letters can still be read where a telephone
#: shrinks the plot
WIDTH = 5.6

_DOTS_PER_INCH = 160
_FONT: float = _STYLE["settings"]["font.size"]
_TITLE = 0.45  #: Inches above the plot in a file, for its title


@dataclass(frozen=True)
class Plot:
    """One plot, drawn when it is asked for."""

    name: str  # of its file, without folder and ending
    title: str  # what it shows
    text: str  # the same for those who don't see it, with its main figures
    draw: Callable[[FigureBase], None]  # puts it on a figure
    height: float = 3.0  # in inches
    note: str = ""  # what else a reader must know; may be empty
    # whose it is, and its labels: a file that leaves its page still says that its market is
    # synthetic
    context: str = ""


# not frozen: all plots of a page are drawn together, once it is known which there are
@dataclass(slots=True)
class Figure:
    """A plot as the page shows it."""

    title: str
    note: str
    svg: Markup | None = None  #: None until it is drawn


def colour(token: str) -> str:
    """Return the colour that plots are drawn in for a design token."""
    return PALETTE[token].light


def require_matplotlib() -> None:
    """Raise UsageError, with the command that installs matplotlib, if it is missing."""
    try:
        import matplotlib  # noqa: F401, PLC0415 - an extra, which `--help` does not need
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise UsageError(
            f"a report is drawn with matplotlib, which is not installed: {install_command('report')}"
        ) from error


@contextmanager
def _drawing(as_text: bool) -> Iterator[None]:
    """Set our own settings instead of the user's, so that equal runs give equal bytes."""
    import matplotlib  # noqa: PLC0415 - as above

    colours = {name: colour(token) for name, token in _STYLE["colours"].items()}
    # Letters as text in a page, which has fonts; as outlines in a file, which may be opened without.
    letters = "none" if as_text else "path"
    ours: Any = {**_STYLE["settings"], **colours, "svg.fonttype": letters}
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A name in letters that the measuring font lacks is still text in the page, which the
        # reader's fonts have.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(ours)
        yield


def _render(plot: Plot, form: str, as_text: bool) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - as above
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with _drawing(as_text):
        is_png = form == "png"
        height = plot.height if as_text else plot.height + _TITLE
        dots = _DOTS_PER_INCH if is_png else 72
        figure = Figure(figsize=(WIDTH, height), dpi=dots, layout="constrained")
        canvas = FigureCanvasAgg(figure) if is_png else FigureCanvasSVG(figure)

        if as_text:
            plot.draw(figure)
        else:
            heights = [_TITLE, plot.height]
            parts = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)
            title, body = parts[:, 0]
            title.text(
                0.01,
                0.95,
                f"{clean(plot.title)}\n{clean(plot.context)}",
                va="top",
                fontsize=_FONT - 1,
            )
            plot.draw(body)
        fix_layout(figure)

        sink = io.BytesIO()
        # Without dates and versions: equal runs give equal bytes.
        metadata = dict.fromkeys(["Date", "Creator", "Format", "Type"])
        if is_png:
            metadata = dict.fromkeys(["Software"])

        # `print_figure` would draw everything twice, for the layout
        print_form = getattr(canvas, f"print_{form}")
        print_form(sink, metadata=metadata)

    return sink.getvalue()


def plot_file(plot: Plot, form: str) -> bytes:
    """Return the plot as a file of its own. `form`: `png` or `svg`; the SVG holds letters as
    outlines, so it looks the same everywhere.
    """
    return _render(plot, form, as_text=False)


_VARIABLES = {colour.light: f"var(--{token})" for token, colour in PALETTE.items()}
"""CSS variable of each colour that plots are drawn in."""


def inline_svg(plot: Plot, prefix: str) -> Markup:
    """Return the plot as an element of a page: colours as CSS variables, letters as text in the
    page's font. `prefix`: of the ids in it, unique in the page.
    """
    text = _render(plot, "svg", as_text=True).decode()
    head = re.search(r'viewBox="([^"]+)"', text)
    if head is None:
        raise ValueError("matplotlib wrote an SVG without a viewBox")

    inner = text[text.index(">", head.end()) + 1 : text.rindex("</svg>")]
    inner = re.sub(
        r"<metadata>.*?</metadata>|<!--.*?-->|<style[^>]*>.*?</style>", "", inner, flags=re.S
    )
    # Only what stands in tags: letters between them are what the reader reads.
    inner = re.sub(r"<[^>]+>", lambda match: _adapted(match[0], prefix), inner)
    inner = re.sub(r"\s*\n\s*", "\n", inner).strip()
    label = escape(clean(f"{plot.title}. {plot.text}"))

    return Markup(f'<svg viewBox="{head[1]}" role="img" aria-label="{label}">{inner}</svg>')  # noqa: S704 - matplotlib's


def _adapted(element: str, prefix: str) -> str:
    """Return a tag of matplotlib's for a page with other plots: with ids that no other plot has,
    with colours of the page, and with short numbers.
    """
    element = re.sub(r'\bid="', f'id="{prefix}-', element)
    element = element.replace("url(#", f"url(#{prefix}-")
    element = element.replace('xlink:href="#', f'href="#{prefix}-')
    # The shorthand until matplotlib 3.10, single properties after it.
    element = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", element)
    element = re.sub(r"font-family: [^;\"]*;? ?", "", element)
    element = re.sub(r"#[0-9a-f]{6}\b", lambda match: _VARIABLES.get(match[0], match[0]), element)

    return re.sub(r"-?\d+\.\d{2,}", _short_number, element)


def _short_number(match: re.Match[str]) -> str:
    text = f"{float(match[0]):.2f}"
    return text.rstrip("0").rstrip(".")


def quiet(axes: Axes, horizontal: bool = True) -> None:
    """Hide the grid lines of one direction: only `horizontal` ones stay, or only vertical ones."""
    axes.grid(visible=False, axis="x" if horizontal else "y")
