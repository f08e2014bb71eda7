"""Every text of a submitted document: nothing that a browser, terminal, spreadsheet or reader could take for something else."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice

from ktdeval.api import JsonValue
from ktdeval_board.checking.findings import Finding

DEEPEST = 40
"""Levels of nesting; documents of the suite have about ten."""

_LONGEST = 20_000
_MOST_FINDINGS = 20
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

Place = tuple[str | int, ...]


def check_texts(value: JsonValue, where: str, schemes: Collection[str] = ("https",)) -> Iterator[Finding]:
    """Hold every text and every field's name of a document against what may be shown; at most twenty findings.

    Args:
        value: a JSON value.
        where: the file, relative to the board.
        schemes: schemes that addresses may have. A card holds that of the server that a model ran on, which may be http.
    """
    return islice(_findings(value, where, schemes), _MOST_FINDINGS)


def check_formulas(value: JsonValue, where: str) -> Iterator[Finding]:
    """Texts that a spreadsheet would compute when somebody opens a table of the board in one; at most twenty findings."""
    found = (
        Finding(where, "formula", f"{_place(place)}: begins with {text[0]!r}, which a spreadsheet takes for a formula")
        for place, text, _ in _texts(value)
        if text.lstrip().startswith(_FORMULA)
    )
    return islice(found, _MOST_FINDINGS)


def is_too_deep(value: JsonValue) -> bool:
    """Whether a document is nested deeper than `DEEPEST` levels. Asked before anything else, as what recurses would fail."""
    level, nodes = 0, [value]
    while nodes:
        level += 1
        if level > DEEPEST:
            return True
        inner = (node.values() if isinstance(node, dict) else node for node in nodes if isinstance(node, dict | list))
        nodes = [child for children in inner for child in children if isinstance(child, dict | list)]
    return False


def _findings(value: JsonValue, where: str, schemes: Collection[str]) -> Iterator[Finding]:
    if is_too_deep(value):
        yield Finding(where, "depth", f"is nested deeper than {DEEPEST} levels")
        return
    for place, text, is_key in _texts(value):
        what = "name of a field" if is_key else ""
        for rule, problem in _problems(text, schemes):
            yield Finding(where, rule, f"{_place(place)}: {what and what + ' '}{problem}")
        if is_key and text in _SPECIAL_KEYS:
            yield Finding(where, "key", f"{_place(place)}: a field can't be called {text}")


def _problems(text: str, schemes: Collection[str]) -> Iterator[tuple[str, str]]:
    """The rules that a text breaks, and how."""
    if len(text) > _LONGEST:
        yield "text", f"has {len(text):,} characters; at most {_LONGEST:,} are taken"
        return
    if unreadable := _UNREADABLE.search(text):
        yield "text", f"holds the character U+{ord(unreadable[0]):04X}, which can't be seen or does something"
    if _PILE.search(text):
        yield "text", "piles up combining marks"
    if found := _MARKUP.search(text) or _SCRIPT.search(text):
        yield "markup", f"holds markup or a script at character {found.start() + 1}: {_excerpt(text, found.start())!r}"
    for scheme in _SCHEME.findall(text):
        if scheme.lower() not in schemes:
            yield "url", f"holds an address that begins with {scheme}://; {' or '.join(schemes)} is taken"


def _texts(value: JsonValue) -> Iterator[tuple[Place, str, bool]]:
    """Each text with its place, and whether it is a field's name; without recursion."""
    waiting: list[tuple[Place, JsonValue]] = [((), value)]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, str):
            yield place, node, False
        elif isinstance(node, list):
            waiting.extend(((*place, number), child) for number, child in reversed(list(enumerate(node))))
        elif isinstance(node, dict):
            for name in node:
                yield (*place, name), name, True
            waiting.extend(((*place, name), child) for name, child in reversed(node.items()))


def _place(place: Place) -> str:
    """Where a text stands, such as `metrics.sharpe.source` or `files[3].path`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part[:60]}" for part in place)
    return "".join(parts).removeprefix(".")[:200] or "document"


def _excerpt(text: str, start: int) -> str:
    return text[start : start + 30]
