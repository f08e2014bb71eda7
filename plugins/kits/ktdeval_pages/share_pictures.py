"""Pictures of 1200 × 630 pixels to share, as SVG and PNG: a name, marks, a sentence, drawn figures
and the origin of all of these.

Names may come from untrusted cards: texts are escaped, lose characters that are not seen, and are
cut to the room that they have. Letters are estimated on the wide side, since the font of a reader
may differ. Equal contents give equal bytes; PNG depends on the version of vl-convert.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ktdeval.cards import clean
from ktdeval_pages.colours import TOKENS
from ktdeval_pages.rendering import require_renderer
from ktdeval_pages.tear_sheet.drawing import HEIGHT as PLOT_HEIGHT, WIDTH as PLOT_WIDTH
from ktdeval_pages.value_formatting import percent

SIZE = (1200, 630)
"""Width and height in pixels, as pages that preview links show them."""

_EDGE = 56
_ROOM = SIZE[0] - 2 * _EDGE
_FONT = (
    "Liberation Sans, Arial, Noto Sans CJK SC, sans-serif"  # vl-convert has the first one inside
)
_LETTER, _WIDE_LETTER = 0.52, 1.0  # width of letters, in units of their height
_NAME, _LINE, _SENTENCE, _SMALL = 46, 22, 23, 18  # heights of letters in pixels
_SENTENCE_LINES = 3
_TOP, _BOTTOM = 268, 568  # ends of the drawn figures


@dataclass(frozen=True)
class SharedTexts:
    """Texts of a picture."""

    name: str
    line: str  # what the name is, in a line
    sentence: str  # what the figures show
    marks: Sequence[str]  # what must be known, such as `synthetic`
    origin: str  # where the figures come from, such as a card's hash


@dataclass(frozen=True)
class ShareBar:
    """A part of a return."""

    name: str
    value: float


@dataclass(frozen=True)
class SharePoint:
    """A system's mean with its interval; the ends are None without an interval."""

    name: str
    value: float
    low: float | None
    high: float | None
    is_baseline: bool


def share_svg(texts: SharedTexts, figures: Markup) -> str:
    """Return a picture as an SVG document. `figures` are drawn elements between y = 268 and 568."""
    width, height = SIZE
    label = clean(f"{texts.name}: {texts.sentence}")
    parts = [
        Markup('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}"').format(
            width, height
        ),
        Markup(' height="{}" role="img" aria-label="{}">').format(height, label),
        Markup("<style>{}</style>").format(Markup(_style())),  # noqa: S704 - tokens alone
        Markup('<rect width="{}" height="{}" class="paper"/>').format(width, height),
        Markup('<rect width="12" height="{}" class="edge"/>').format(height),
        _head(texts),
        _sentence(texts.sentence),
        figures,
        text_at(_EDGE, height - 26, texts.origin, _SMALL, _ROOM, "small"),
        Markup("</svg>\n"),
    ]
    return str(Markup("").join(parts))


def share_png(svg: str) -> bytes:
    """Return a picture as PNG. Raises UsageError if vl-convert is missing."""
    drawn: bytes = require_renderer("a picture to share").svg_to_png(svg, scale=1.0, ppi=72.0)
    return drawn


def _style() -> str:
    colours = {name: colour.light for name, colour in TOKENS.items()}
    lines = [
        f"text {{ font-family: {_FONT}; fill: {colours['ink']}; }}",
        f".paper {{ fill: {colours['paper']}; }} .edge {{ fill: {colours['one']}; }}",
        f".small, .plot text, .tick {{ fill: {colours['muted']}; }}",
        f".mark {{ fill: none; stroke: {colours['warn']}; stroke-width: 2; }}",
        f".mark-text {{ fill: {colours['warn']}; text-anchor: middle; }}",
        ".bold { font-weight: bold; }",
        f".area {{ fill: {colours['band']}; }} .axis {{ stroke: {colours['muted']}; }}",
        f".gain {{ fill: {colours['series1']}; }} .loss {{ fill: {colours['series2']}; }}",
        f".own {{ fill: {colours['series1']}; stroke: {colours['series1']}; stroke-width: 3; }}",
        f".beside {{ fill: {colours['other']}; stroke: {colours['other']}; stroke-width: 3; }}",
        # plots of `tear_sheet.drawing`, in their own units
        ".plot path { fill: none; stroke-linejoin: round; }",
        ".plot text { text-anchor: middle; font-size: 42px; }",
        ".plot text.start { text-anchor: start; } .plot text.end, .plot .end text "
        "{ text-anchor: end; }",
        f".plot .grid-line {{ stroke: {colours['rule']}; stroke-width: 2.8; }}",
        f".plot .zero {{ stroke: {colours['muted']}; stroke-width: 3.2; }}",
        f".plot .agent {{ stroke: {colours['series1']}; stroke-width: 8; }}",
        f".plot .benchmark {{ stroke: {colours['muted']}; stroke-width: 6; "
        "stroke-dasharray: 8 10; }",
        f".plot .band {{ fill: {colours['band']}; }}",
    ]
    return " ".join(lines)


# -- texts


def cut(text: str, size: float, room: float) -> str:
    """Return a text on one line, cut with an ellipsis if letters of this height need more than
    `room` pixels.
    """
    words = " ".join(_words(text))
    if _width(words, size) <= room:
        return words

    kept = ""
    for letter in words:
        if _width(f"{kept}{letter}…", size) > room:
            break
        kept += letter

    return f"{kept.rstrip()}…"


def _words(text: str) -> list[str]:
    """Return the words of a text; a figure and its unit stay together."""
    return re.split(r"[ \t\r\n]+", clean(text).strip())


def _width(text: str, size: float) -> float:
    """Return the estimated width of a text in pixels."""
    wide = sum(unicodedata.east_asian_width(letter) in ("W", "F") for letter in text)
    return size * (_LETTER * (len(text) - wide) + _WIDE_LETTER * wide)


def _wrapped(text: str, size: float, room: float, most: int) -> list[str]:
    """Return a text as at most `most` lines."""
    lines: list[str] = []
    line = ""
    words = _words(text)
    for place, word in enumerate(words):
        longer = f"{line} {word}".strip()
        if _width(longer, size) <= room or not line:
            line = longer
            continue
        if len(lines) == most - 1:
            line = " ".join([line, *words[place:]])
            break

        lines.append(line)
        line = word

    return [cut(each, size, room) for each in [*lines, line] if each]


def text_at(x: float, y: float, text: str, size: float, room: float, role: str = "") -> Markup:
    """Return a text that begins at x, cut to its room."""
    return Markup('<text x="{:g}" y="{:g}" font-size="{:g}" class="{}">{}</text>').format(
        x, y, size, role, cut(text, size, room)
    )


def _head(texts: SharedTexts) -> Markup:
    """Return the name with its line, and the marks to their right."""
    parts = []
    right: float = SIZE[0] - _EDGE
    for mark in reversed(texts.marks):
        width = _width(clean(mark), _LINE) + 28
        right -= width
        parts.append(
            Markup('<rect x="{:g}" y="48" width="{:g}" height="40" rx="20" class="mark"/>').format(
                right, width
            )
        )
        parts.append(
            Markup('<text x="{:g}" y="76" font-size="{}" class="mark-text">{}</text>').format(
                right + width / 2, _LINE, clean(mark)
            )
        )
        right -= 14

    parts.append(text_at(_EDGE, 88, texts.name, _NAME, right - _EDGE, "bold"))
    parts.append(text_at(_EDGE, 130, texts.line, _LINE, _ROOM, "small"))
    return Markup("").join(parts)


def _sentence(sentence: str) -> Markup:
    lines = _wrapped(sentence, _SENTENCE, _ROOM, _SENTENCE_LINES)
    parts = []
    for place, line in enumerate(lines):
        parts.append(text_at(_EDGE, 176 + 33 * place, line, _SENTENCE, _ROOM))

    return Markup("").join(parts)


# -- figures


def placed_plot(svg: Markup, title: str, has_bars: bool) -> Markup:
    """Return a plot of `tear_sheet.drawing` at its place, with a title; narrower beside bars."""
    width = 720 if has_bars else 800
    height = width * PLOT_HEIGHT / PLOT_WIDTH
    inner = svg.split(">", 1)[1]
    head = Markup('<svg class="plot" x="{}" y="{}" width="{}" height="{:g}" viewBox="0 0 {} {}">')
    placed = head.format(_EDGE - 12, _TOP + 34, width, height, PLOT_WIDTH, PLOT_HEIGHT)
    return text_at(_EDGE, _TOP + 14, title, _SMALL, width, "small") + placed + Markup(inner)  # noqa: S704 - drawn by the kit


def bars(title: str, parts: Sequence[ShareBar]) -> Markup:
    """Return parts of a return as bars on the right side."""
    left, right = 800, SIZE[0] - _EDGE
    middle = (left + right) / 2
    reach = max((abs(part.value) for part in parts), default=0.0) or 1.0
    drawn = [text_at(left, _TOP + 14, title, _SMALL, right - left, "small")]
    for place, part in enumerate(parts):
        y = _TOP + 40 + place * 48
        width = (right - middle - 4) * abs(part.value) / reach
        start = middle if part.value >= 0 else middle - width
        role = "gain" if part.value >= 0 else "loss"
        value = percent(part.value)
        room = right - left - _width(value, _SMALL) - 12
        drawn.append(text_at(left, y + 12, part.name, _SMALL, room))
        drawn.append(
            Markup('<text x="{}" y="{}" font-size="{}" text-anchor="end">{}</text>').format(
                right, y + 12, _SMALL, value
            )
        )
        drawn.append(
            Markup('<rect x="{:.1f}" y="{}" width="{:.1f}" height="12" class="{}"/>').format(
                start, y + 19, width, role
            )
        )

    drawn.append(_upright(middle, _TOP + 56, _TOP + 40 + 48 * len(parts) - 10))
    return Markup("").join(drawn)


def points(title: str, rows: Sequence[SharePoint], band: tuple[float, float] | None) -> Markup:
    """Return means with their intervals, best first, over the band of random traders."""
    left, right = 470, SIZE[0] - _EDGE
    values = [0.0, *(band or ())]
    for row in rows:
        values += [value for value in (row.value, row.low, row.high) if value is not None]

    low, high = min(values), max(values)
    reach = high - low or 1.0

    def x(value: float) -> float:
        share: float = (value - low) / reach
        return left + (right - left) * share

    drawn = [text_at(_EDGE, _TOP + 14, title, _SMALL, _ROOM, "small")]
    top, bottom = _TOP + 32, _BOTTOM - 26
    if band is not None:
        drawn.append(
            Markup('<rect x="{:.1f}" y="{}" width="{:.1f}" height="{}" class="area"/>').format(
                x(band[0]), top, x(band[1]) - x(band[0]), bottom - top
            )
        )

    drawn.append(_upright(x(0.0), top, bottom))
    step = (bottom - top) / max(len(rows), 1)
    for place, row in enumerate(rows):
        drawn += _point(row, top + step * (place + 0.5), x, left - _EDGE - 20)

    for value in dict.fromkeys([low, 0.0, high]):
        text = f"{100 * value:+.3f} %".replace("-", "−") if value else "0"
        drawn.append(
            Markup(
                '<text x="{:.1f}" y="{}" font-size="16" text-anchor="middle" class="tick">{}</text>'
            ).format(min(max(x(value), left + 30), right - 30), _BOTTOM, text)
        )

    return Markup("").join(drawn)


def _point(row: SharePoint, y: float, x: Callable[[float], float], room: float) -> list[Markup]:
    role = "beside" if row.is_baseline else "own"
    drawn = [text_at(_EDGE, y + 6, row.name, _SMALL, room, "small" if row.is_baseline else "")]
    if row.low is not None and row.high is not None:
        drawn.append(
            Markup('<path d="M{:.1f} {:.1f}H{:.1f}" class="{}"/>').format(
                x(row.low), y, x(row.high), role
            )
        )

    drawn.append(
        Markup('<circle cx="{:.1f}" cy="{:.1f}" r="5" class="{}"/>').format(x(row.value), y, role)
    )
    return drawn


def _upright(x: float, top: float, bottom: float) -> Markup:
    return Markup('<path d="M{:.1f} {:.1f}V{:.1f}" class="axis"/>').format(x, top, bottom)
