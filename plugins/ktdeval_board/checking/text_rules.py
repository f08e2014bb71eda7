"""Rules for the texts in a submitted document: no browser, terminal, spreadsheet or reader may
mistake them for something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ktdeval.values import JsonValue
from ktdeval_board.checking.findings import Stage, rule

DEEPEST = 40  #: Maximum nesting depth; the suite's own documents have about ten levels

_LONGEST = 20_000
_UNREADABLE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters
    # invisible characters
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0"
    # invisible characters in further planes
    "\ufff0-\uffff\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # lone surrogates, private use
    "\ud800-\udfff\ue000-\uf8ff\U000f0000-\U0010ffff"
    "]"
)
_PILE = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{5}"
)
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])")
_SCRIPT = re.compile(
    r"(?:java|vb|live)script\s*:|data\s*:\s*(?:text/html|text/xml|image/svg|application/)",
    re.IGNORECASE,
)
# bounded, since a long word would otherwise take quadratic time
_SCHEME = re.compile(r"([A-Za-z0-9+.-]{0,20})://")
_SPECIAL_KEYS = {"__proto__", "constructor", "prototype"}
_FORMULA = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A text in a document."""

    path: str  #: path to the text in the document, such as `metrics.sharpe.source`
    text: str
    is_key: bool  #: whether the text is the name of a field

    @property
    def words(self) -> str:
        """Beginning of a finding about this text."""
        if self.is_key:
            return f"{self.path}: name of a field "

        return f"{self.path}: "


@dataclass(frozen=True)
class ReadDocument:
    """A document that was read."""

    where: str  #: the file, relative to the board
    value: JsonValue  #: JSON value of the file; None if it could not be read
    #: why the file could not be read, keyed by the rule that it violates
    faults: tuple[tuple[str, str], ...] = ()
    #: allowed URL schemes: a card contains the address of its model's server, which may use http
    schemes: Sequence[str] = ("https",)
    #: whether the document's texts become table cells that a spreadsheet may evaluate
    is_table: bool = False

    @cached_property
    def is_too_deep(self) -> bool:
        """Return whether the document is nested deeper than `DEEPEST` levels. This check comes
        first and avoids recursion, which would fail on such a document.
        """
        nodes = [self.value]
        for _ in range(DEEPEST):
            nodes = [child for node in nodes for child in _children(node)]

        return any(isinstance(node, dict | list) for node in nodes)

    @cached_property
    def texts(self) -> list[DocumentText]:
        """All texts and field names, found without recursion; empty if the document is nested too
        deeply.
        """
        if self.is_too_deep:
            return []

        return list(_document_texts(self.value))

    @cached_property
    def short(self) -> list[DocumentText]:
        """Texts short enough to be searched."""
        return [each for each in self.texts if len(each.text) <= _LONGEST]


def _children(value: JsonValue) -> Iterable[JsonValue]:
    if isinstance(value, dict):
        return value.values()

    return value if isinstance(value, list) else ()


@rule("depth", Stage.JSON)
def _depth(read: ReadDocument) -> Iterator[str]:
    if read.is_too_deep:
        yield f"is nested deeper than {DEEPEST} levels"


@rule("text", Stage.JSON)
def _text(read: ReadDocument) -> Iterator[str]:
    for each in read.texts:
        if len(each.text) > _LONGEST:
            yield f"{each.words}has {len(each.text):,} characters; at most {_LONGEST:,} are allowed"
            continue

        unreadable = _UNREADABLE.search(each.text)
        if unreadable is not None:
            yield (
                f"{each.words}contains the character U+{ord(unreadable[0]):04X}, which is "
                "invisible or a control character"
            )
        elif _PILE.search(each.text):
            yield f"{each.words}has too many combining marks in a row"


@rule("markup", Stage.JSON)
def _markup(read: ReadDocument) -> Iterator[str]:
    for each in read.short:
        match = _MARKUP.search(each.text) or _SCRIPT.search(each.text)
        if match is not None:
            start = match.start()
            yield (
                f"{each.words}contains markup or a script at character {start + 1}:"
                f" {each.text[start : start + 30]!r}"
            )


@rule("key", Stage.JSON)
def _key(read: ReadDocument) -> Iterator[str]:
    for each in read.texts:
        if each.is_key and each.text in _SPECIAL_KEYS:
            yield f"{each.path}: not a valid name of a field: {each.text}"


@rule("url", Stage.JSON)
def _url(read: ReadDocument) -> Iterator[str]:
    for each in read.short:
        for scheme in _SCHEME.findall(each.text):
            if scheme.lower() not in read.schemes:
                yield (
                    f"{each.words}contains an address that begins with {scheme}://; use "
                    f"{' or '.join(read.schemes)}"
                )


@rule("formula", Stage.JSON)
def _formula(read: ReadDocument) -> Iterator[str]:
    if not read.is_table:
        return

    for each in read.texts:
        text = each.text.lstrip()
        if not each.is_key and text.startswith(_FORMULA):
            yield f"{each.path}: begins with {text[0]!r}, which a spreadsheet would treat as a formula"


def _document_texts(value: JsonValue) -> Iterator[DocumentText]:
    """Yield every text and every field name in a document, in order."""
    waiting: list[tuple[str, JsonValue]] = [("", value)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, str):
            yield DocumentText(_shortened_path(path), node, False)
        elif isinstance(node, list):
            for number in reversed(range(len(node))):
                waiting.append((f"{path}[{number}]", node[number]))
        elif isinstance(node, dict):
            for name in node:
                yield DocumentText(_shortened_path(f"{path}.{name[:60]}"), name, True)

            for name, child in reversed(node.items()):
                waiting.append((f"{path}.{name[:60]}", child))


def _shortened_path(path: str) -> str:
    return path.removeprefix(".")[:200] or "document"
