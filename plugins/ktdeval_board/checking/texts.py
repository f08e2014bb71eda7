"""Every text of a submitted document: nothing that a browser, terminal, spreadsheet or reader could take for something else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ktdeval.jsonio import JsonValue
from ktdeval_board.checking.findings import Stage, rule

DEEPEST = 40  #: Levels of nesting; documents of the suite have about ten

_LONGEST = 20_000
_UNREADABLE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # controls
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0"  # unseen
    "\ufff0-\uffff\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # unseen, beyond the others
    "\ud800-\udfff\ue000-\uf8ff\U000f0000-\U0010ffff"  # surrogates without their half, private signs
    "]"
)
_PILE = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{5}")
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])")
_SCRIPT = re.compile(r"(?:java|vb|live)script\s*:|data\s*:\s*(?:text/html|text/xml|image/svg|application/)", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z0-9+.-]{0,20})://")  # bounded: without an end, a long word costs the square of its length
_SPECIAL_KEYS = {"__proto__", "constructor", "prototype"}
_FORMULA = ("=", "+", "-", "@")


class Text(NamedTuple):
    """A text of a document: where it stands, such as `metrics.sharpe.source`, and whether it is the name of a field."""

    path: str
    text: str
    is_key: bool

    @property
    def words(self) -> str:
        """How findings begin."""
        return f"{self.path}: {'name of a field ' if self.is_key else ''}"


@dataclass(frozen=True)
class Read:
    """A document as it was read."""

    where: str  #: the file, relative to the board
    value: JsonValue  #: its JSON; None where it could not be read
    faults: tuple[tuple[str, str], ...] = ()  #: why it could not be read, by the rule that it breaks
    #: schemes that addresses may have. A card holds that of the server that a model ran on, which may be http.
    schemes: Sequence[str] = ("https",)
    is_table: bool = False  #: whether its texts become cells of tables, which spreadsheets compute

    @cached_property
    def is_too_deep(self) -> bool:
        """Whether it is nested deeper than `DEEPEST` levels; asked before anything else, as what recurses would fail."""
        level, nodes = 0, [self.value]
        while nodes:
            level += 1
            if level > DEEPEST:
                return True
            inner = (node.values() if isinstance(node, dict) else node for node in nodes if isinstance(node, dict | list))
            nodes = [child for children in inner for child in children if isinstance(child, dict | list)]
        return False

    @cached_property
    def texts(self) -> list[Text]:
        """Every text and every field's name, without recursion; none of a document that is nested too deeply."""
        return [] if self.is_too_deep else list(_texts(self.value))

    @cached_property
    def short(self) -> list[Text]:
        """Texts that are short enough to be searched."""
        return [each for each in self.texts if len(each.text) <= _LONGEST]


@rule("depth", Stage.JSON)
def _depth(read: Read) -> Iterator[str]:
    if read.is_too_deep:
        yield f"is nested deeper than {DEEPEST} levels"


@rule("text", Stage.JSON)
def _text(read: Read) -> Iterator[str]:
    for each in read.texts:
        if len(each.text) > _LONGEST:
            yield f"{each.words}has {len(each.text):,} characters; at most {_LONGEST:,} are taken"
        elif unreadable := _UNREADABLE.search(each.text):
            yield f"{each.words}holds the character U+{ord(unreadable[0]):04X}, which can't be seen or does something"
        elif _PILE.search(each.text):
            yield f"{each.words}piles up combining marks"


@rule("markup", Stage.JSON)
def _markup(read: Read) -> Iterator[str]:
    for each in read.short:
        if match := _MARKUP.search(each.text) or _SCRIPT.search(each.text):
            start = match.start()
            yield f"{each.words}holds markup or a script at character {start + 1}: {each.text[start : start + 30]!r}"


@rule("key", Stage.JSON)
def _key(read: Read) -> Iterator[str]:
    yield from (
        f"{each.path}: a field can't be called {each.text}" for each in read.texts if each.is_key and each.text in _SPECIAL_KEYS
    )


@rule("url", Stage.JSON)
def _url(read: Read) -> Iterator[str]:
    for each in read.short:
        for scheme in _SCHEME.findall(each.text):
            if scheme.lower() not in read.schemes:
                yield f"{each.words}holds an address that begins with {scheme}://; {' or '.join(read.schemes)} is taken"


@rule("formula", Stage.JSON)
def _formula(read: Read) -> Iterator[str]:
    for each in read.texts if read.is_table else ():
        if not each.is_key and each.text.lstrip().startswith(_FORMULA):
            yield f"{each.path}: begins with {each.text.lstrip()[0]!r}, which a spreadsheet takes for a formula"


def _texts(value: JsonValue) -> Iterator[Text]:
    waiting: list[tuple[str, JsonValue]] = [("", value)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, str):
            yield Text(_shortened(path), node, False)
        elif isinstance(node, list):
            waiting.extend((f"{path}[{number}]", child) for number, child in reversed(list(enumerate(node))))
        elif isinstance(node, dict):
            for name in node:
                yield Text(_shortened(f"{path}.{name[:60]}"), name, True)
            waiting.extend((f"{path}.{name[:60]}", child) for name, child in reversed(node.items()))


def _shortened(path: str) -> str:
    return path.removeprefix(".")[:200] or "document"
