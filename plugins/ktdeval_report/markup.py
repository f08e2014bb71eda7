"""HTML that can't be injected into: whatever is not `Html` already is escaped on its way into a page."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_VOID = frozenset({"meta", "link", "br"})


class Html(str):
    """Text that is HTML; any other string is plain text."""

    __slots__ = ()


def clean(text: object) -> str:
    """One line without control and direction characters: a card may come from a stranger, and a page obeys what it shows."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp", "Cs") else letter for letter in str(text))


def escape(text: object) -> Html:
    """The text as HTML; `Html` stays as it is."""
    return text if isinstance(text, Html) else Html(html.escape(clean(text)))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Parts one after the other, each escaped unless it is `Html`."""
    return Html(escape(between).join(escape(part) for part in parts))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element.

    Args:
        name: of the element.
        children: text or `Html`.
        attributes: by name; `class_` and `for_` lose the underscore, inner ones become dashes. None leaves the attribute out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(clean(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{join(children)}</{name}>")


@dataclass(frozen=True)
class Table:
    """A table to show.

    Attributes:
        caption: what it shows, in a sentence.
        heads: names of the columns; empty for none.
        rows: cells; the first of each row names it. A row of one cell is a heading of those below it.
        words: how many columns, from the left, hold words; the others hold figures.
    """

    caption: str
    heads: Sequence[object]
    rows: Sequence[Sequence[object]]
    words: int = 1


def table(content: Table) -> Html:
    """The table in a box of its own that scrolls sideways where the screen is narrow."""
    kinds = [None if place < content.words else "n" for place in range(max(map(len, [content.heads, *content.rows])))]

    def line(row: Sequence[object]) -> Html:
        if len(row) == 1:
            return tag("tr", tag("th", row[0], colspan=len(kinds), scope="colgroup"), class_="group")
        first, *others = zip(row, kinds, strict=False)
        cells = [tag("td", value, class_=kind) for value, kind in others]
        return tag("tr", tag("th", first[0], scope="row", class_=first[1]), *cells)

    heads = [tag("th", head, scope="col", class_=kind) for head, kind in zip(content.heads, kinds, strict=False)]
    top = tag("thead", tag("tr", *heads)) if heads else ""
    caption = tag("caption", tag("span", content.caption))
    # A box that scrolls must be reachable by keyboard, and so must have a name.
    return tag(
        "div",
        tag("table", caption, top, tag("tbody", *map(line, content.rows))),
        class_="scroll",
        role="region",
        tabindex="0",
        aria_label=f"Table: {content.caption}",
    )


def unbroken(text: object) -> Html:
    """Words that stay on one line."""
    return tag("span", text, class_="nb")


def paragraph(*parts: object, class_: str | None = None) -> Html:
    """A paragraph."""
    return tag("p", *parts, class_=class_)


def bullets(items: Iterable[object]) -> Html:
    """A list, or nothing when there are no items."""
    found = [tag("li", item) for item in items]
    return tag("ul", *found) if found else Html("")
