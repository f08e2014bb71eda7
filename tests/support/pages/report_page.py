"""A page taken apart, to ask what is in it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "input"}


@dataclass
class Element:
    """One element with what stands in it."""

    name: str
    attributes: dict[str, str | None]
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(piece for piece in self.pieces if piece.strip())

    def all(self, name: str) -> list[Element]:
        matches = []
        for child in self.children:
            matches += [child] * (child.name == name) + child.all(name)

        return matches


class Page(HTMLParser):
    """The tree of a page; a tag that is not closed where it must be fails the test."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = Element("page", {})
        self._open = [self.root]
        self.feed(text)
        self.close()

        assert len(self._open) == 1, f"not closed: {[element.name for element in self._open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"

        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)

        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].name == tag, f"</{tag}> closes <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.pieces.append(data)

    def all(self, name: str) -> list[Element]:
        return self.root.all(name)

    def elements(self) -> list[Element]:
        def inside(element: Element) -> Iterator[Element]:
            for child in element.children:
                yield child
                yield from inside(child)

        return list(inside(self.root))

    @property
    def text(self) -> str:
        return " ".join(element.text for element in self.all("body"))

    def table(self, caption: str) -> list[list[str]]:
        """Cells of the first table whose caption starts so, row by row, heads first."""
        for table in self.all("table"):
            if table.all("caption")[0].text.startswith(caption):
                return [[cell.text for cell in row.children] for row in table.all("tr")]

        raise AssertionError(
            f"no table {caption!r} in {[caption.text for caption in self.all('caption')]}"
        )


def check_page(text: str) -> Page:
    """A report, after what must hold of every one: whole, without a script, and without an
    undefined figure.
    """
    page = check_whole(text)

    assert not page.all("script")
    assert "javascript:" not in text.lower()
    assert text.lower().count("url(") == text.lower().count("url(#")
    assert not {"nan", "inf", "null"} & set(page.text.lower().split()), (
        "an undefined figure is shown"
    )

    return page


def check_whole(text: str, also: Collection[str] = ()) -> Page:
    """A page that is whole, self-contained (it links to itself and to pages `also`), and reachable
    without eyes or mouse.
    """
    page = Page(text)
    elements = page.elements()
    ids = Counter(element.attributes["id"] for element in elements if "id" in element.attributes)

    assert max(ids.values()) == 1, ids.most_common(2)

    for element in elements:
        for name in ("href", "src", "xlink:href", "action", "data"):
            if (target := element.attributes.get(name)) is not None:
                assert target == "data:," or target.removeprefix("#") in ids or target in also, (
                    f"<{element.name} {name}={target}>"
                )

        assert not any(name.startswith("on") for name in element.attributes), element.attributes

    assert not {"iframe", "img", "object", "embed", "form", "base"} & {
        element.name for element in elements
    }

    asked = text.lower().replace("http://www.w3.org/2000/svg", "")  # a name, which nothing fetches

    # With its dot: packed data may hold the letters before it.
    for forbidden in ("http:", "https:", "//www.", "@import", "@font-face"):
        assert forbidden not in asked, forbidden

    check_access(page)

    return page


def check_access(page: Page) -> None:
    """Headings in order, tables with captions and scopes, plots with words."""
    assert page.all("html")[0].attributes["lang"] == "en"
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("title")) == 1

    levels = [
        int(element.name[1])
        for element in page.elements()
        if element.name in ("h1", "h2", "h3", "h4")
    ]

    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), levels

    for table in page.all("table"):
        assert table.all("caption")[0].text
        assert all(head.attributes.get("scope") for head in table.all("th"))

    for box in page.elements():
        if "scroll" in (box.attributes.get("class") or "").split():
            assert box.attributes["tabindex"] == "0"
            assert box.attributes["role"] == "group"
            assert box.attributes["aria-label"]

    for plot in page.all("svg"):
        assert plot.attributes["role"] == "img"
        assert len(plot.attributes["aria-label"] or "") > 20

    assert all(figure.all("figcaption")[0].text for figure in page.all("figure"))


def contrast(one: str, other: str) -> float:
    """How much two colours differ, as WCAG 2.2 counts it: 1 to 21."""
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(code: str) -> float:
    parts = [int(code[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
