"""Taking secrets out of foreign text, however a server that echoes them writes them.

Found are a secret, and each long enough piece of it: in any case; with spaces, signs or line ends
inside; reversed; as escapes of JSON, URLs, HTML and C; as numbers of its characters; in hexadecimal
digits, base64, base32 and base85, the first three also of each other and compressed. Not found is
what shares no run of its letters: encrypted, mixed with other letters, or in pieces of fewer than
12 characters.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ktdeval.secrets.encoded_forms import ANCHOR, SecretSpelling, letters_of, spellings

#: Characters; shorter are words such as "true", and placeholders of local servers, that any text
#: holds
SHORTEST_SECRET = 8
_MOST_UNPACKED = 1 << 16
_DECODED_LEVELS = 2
_STRUCTURE = frozenset("{}[]\",:'\n")
"""Signs that stay where text between the pieces of a secret is taken out, so that JSON stays
JSON.
"""

_ESCAPE = re.compile(
    r"\\+u(?P<unicode>[0-9a-fA-F]{4})"
    r"|\\+u\{0*(?P<braced>[0-9a-fA-F]{2})\}"
    r"|(?:\\+x|0x|%|=)(?P<hex>[0-9a-fA-F]{2})"
    r"|&\#[xX]0*(?P<html_hex>[0-9a-fA-F]{2});"
    r"|&\#0*(?P<html>[0-9]{2,3});"
    r"|\\+(?P<octal>[0-1][0-7]{2})"
    r"|\\+(?P<sign>[nrtbf\"'\\/])",
)
_BASES = {"unicode": 16, "braced": 16, "hex": 16, "html_hex": 16, "html": 10, "octal": 8}
_NUMBERS = re.compile(r"(?<![0-9])[0-9]{2,3}(?:[\s,;\[\]]+[0-9]{2,3}){7,}(?![0-9])")
_BINARY = re.compile(r"(?<![0-9])[01]{8}(?:[\s,;]*[01]{8}){7,}(?![0-9])")
_RUN = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,6}")
_USUAL_BASE64 = str.maketrans("-_", "+/")
_BEFORE_ENCODED = re.compile(r"[A-Za-z0-9+/_-]*\Z")
_AFTER_ENCODED = re.compile(r"[A-Za-z0-9+/_-]*=*")
_LONGEST_BESIDE = 400

# Letters of other shapes that look and read as ASCII does.
_SHAPES = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}


# a tuple: sorted
class _SecretSpan(NamedTuple):
    """Part of a text that gives a secret away, and the name of the secret."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class _DecodedView:
    """A text as it reads after some decoding, with the part of the original that each character
    comes from.
    """

    text: str
    starts: list[int]
    ends: list[int]


class SecretHider:
    """Takes some secrets out of texts. `secrets` are pairs of the words that are shown instead, and
    the secret.
    """

    def __init__(self, secrets: Iterable[tuple[str, str]]) -> None:
        self._exact: list[tuple[str, str]] = []
        self._anchors: dict[str, list[tuple[SecretSpelling, int, str]]] = {}
        for label, secret in secrets:
            # As it is, and as JSON writes it.
            written = (
                json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True)
            )
            self._exact += [(label, form) for form in dict.fromkeys((secret, *written))]
            for spelling in spellings(secret):
                for anchor, offset in spelling.anchors():
                    self._anchors.setdefault(anchor, []).append((spelling, offset, label))

    def hide(self, text: str) -> str:
        """Return the text without the secrets; the very same text where it holds none."""
        for label, secret in self._exact:
            text = text.replace(secret, label)

        spans = sorted(self._spans(text, _DECODED_LEVELS))
        if not spans:
            return text

        pieces = []
        at = 0
        for span in _merged(spans):
            between = text[span.start : span.end]
            signs = "".join(sign for sign in between[1:-1] if sign in _STRUCTURE)
            pieces += [text[at : span.start], span.label, signs]
            at = span.end

        return "".join([*pieces, text[at:]])

    def _spans(self, text: str, levels: int) -> Iterator[_SecretSpan]:
        if not self._anchors and not self._exact:
            return

        yield from self._in_view(text, lambda: _plain_view(text))
        for view in _decoded_views(text):
            yield from self._in_view(view.text, lambda view=view: view)  # type: ignore[misc]

        if levels:
            yield from self._in_runs(text, levels)

    def _in_view(self, text: str, make_view: Callable[[], _DecodedView]) -> Iterator[_SecretSpan]:
        """Yield what is found in a decoded text; the parts of the original are looked up only where
        something is.
        """
        if not text.isascii():
            text = text.translate(_SHAPES)

        found = self._anchors_in(letters_of(text))
        if not found:
            return

        view = make_view()
        places = [place for place, sign in enumerate(text) if sign.isascii() and sign.isalnum()]
        letters = "".join(text[place] for place in places).lower()

        for anchor in found:
            for spelling, offset, label in self._anchors[anchor]:
                for first, end in _matches(letters, spelling, anchor, offset):
                    start = places[first]
                    stop = places[end - 1] + 1
                    if spelling.is_encoded:
                        start, stop = _with_neighbours(text, start, stop)

                    yield _SecretSpan(view.starts[start], view.ends[stop - 1], label)

    def _anchors_in(self, letters: str) -> list[str]:
        """Return the pieces of secrets that stand in some letters."""
        known = self._anchors
        windows = (letters[place : place + ANCHOR] for place in range(len(letters) - ANCHOR + 1))
        return list(dict.fromkeys(window for window in windows if window in known))

    def _in_runs(self, text: str, levels: int) -> Iterator[_SecretSpan]:
        """Yield each unbroken run of signs that holds a secret once it is decoded."""
        for run in _RUN.finditer(text):
            for decoded in _decodings(run[0]):
                label = self._label_in(decoded, levels - 1)
                if label is not None:
                    yield _SecretSpan(run.start(), run.end(), label)
                    break

    def _label_in(self, text: str, levels: int) -> str | None:
        for label, secret in self._exact:
            if secret in text:
                return label
        return next((span.label for span in self._spans(text, levels)), None)


def hide_keys(text: str, keys: Iterable[str]) -> str:
    """Return a text without some keys; `[key]` stands in the place of each."""
    long_ones = tuple(("[key]", key) for key in keys if len(key) >= SHORTEST_SECRET)
    return hider_of(long_ones).hide(text) if long_ones else text


@lru_cache(maxsize=64)
def hider_of(secrets: tuple[tuple[str, str], ...]) -> SecretHider:
    """Return the hider of some secrets, made once."""
    return SecretHider(secrets)


def hide_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text without the values of a mapping, each replaced by its name in brackets."""
    if not secrets:
        return text
    return hider_of(tuple((f"[{name}]", value) for name, value in secrets.items())).hide(text)


def _matches(
    letters: str, spelling: SecretSpelling, anchor: str, offset: int
) -> Iterator[tuple[int, int]]:
    """Yield the longest runs around an anchor that are a piece of a spelling, if they are long
    enough.
    """
    at = letters.find(anchor)
    while at >= 0:
        first = at
        of_first = offset
        while first > 0 and of_first > 0 and letters[first - 1] == spelling.letters[of_first - 1]:
            first -= 1
            of_first -= 1

        end = at + ANCHOR
        of_end = offset + ANCHOR
        while (
            end < len(letters)
            and of_end < len(spelling.letters)
            and letters[end] == spelling.letters[of_end]
        ):
            end += 1
            of_end += 1

        if end - first >= spelling.least:
            yield first, end

        at = letters.find(anchor, end)


def _with_neighbours(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return a piece of an encoded text with what is encoded next to it: its first and last letters
    depend on both.
    """
    lowest = max(start - _LONGEST_BESIDE, 0)
    before = _BEFORE_ENCODED.search(text, lowest, start)
    after = _AFTER_ENCODED.match(text, stop, stop + _LONGEST_BESIDE)
    start = before.start() if before else start
    stop = after.end() if after else stop

    return start, stop


def _merged(spans: list[_SecretSpan]) -> list[_SecretSpan]:
    """Return spans without those that others cover; overlapping ones become one."""
    merged: list[_SecretSpan] = []
    for span in spans:
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = last._replace(end=max(last.end, span.end))
        else:
            merged.append(span)

    return merged


# ---- what a text reads as


def _plain_view(text: str) -> _DecodedView:
    return _DecodedView(text, list(range(len(text))), list(range(1, len(text) + 1)))


def _decoded_views(text: str) -> Iterator[_DecodedView]:
    """Yield a text with its escapes decoded, once and twice, and with numbers read as
    characters.
    """
    view = _plain_view(text) if _ESCAPE.search(text) else None
    for _ in range(2):
        if view is None or not _ESCAPE.search(view.text):
            break

        view = _replaced(view, _ESCAPE, _character)
        yield view

    for pattern, one, base in ((_NUMBERS, r"[0-9]+", 10), (_BINARY, r"[01]{8}", 2)):
        for run in pattern.finditer(text):
            numbers = list(re.finditer(one, run[0]))
            characters = "".join(chr(int(number[0], base)) for number in numbers)
            starts = [run.start() + number.start() for number in numbers]
            ends = [run.start() + number.end() for number in numbers]
            yield _DecodedView(characters, starts, ends)


def _character(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "sign":
        return match[kind] if match[kind] in "\"'\\/" else " "
    return chr(int(match[kind], _BASES[kind]))


def _replaced(
    view: _DecodedView, pattern: re.Pattern[str], read: Callable[[re.Match[str]], str]
) -> _DecodedView:
    """Return a view with each match replaced by the character that it stands for."""
    text: list[str] = []
    starts: list[int] = []
    ends: list[int] = []

    at = 0
    for match in pattern.finditer(view.text):
        text += [view.text[at : match.start()], read(match)]
        starts += [*view.starts[at : match.start()], view.starts[match.start()]]
        ends += [*view.ends[at : match.start()], view.ends[match.end() - 1]]
        at = match.end()

    return _DecodedView(
        "".join([*text, view.text[at:]]), [*starts, *view.starts[at:]], [*ends, *view.ends[at:]]
    )


def _decodings(run: str) -> Iterator[str]:
    """Yield what a run of signs is when it is read in each encoding that it may be in."""
    for data in _decoded_bytes(run):
        if data:
            yield data.decode("utf-8", "replace")
            yield from _unpacked(data)


def _decoded_bytes(run: str) -> Iterator[bytes]:
    tidy = run.rstrip("=")
    with suppress(ValueError):
        yield base64.b64decode(
            tidy.translate(_USUAL_BASE64) + "=" * (-len(tidy) % 4), validate=True
        )

    with suppress(ValueError):
        yield bytes.fromhex(tidy)

    with suppress(ValueError):
        yield base64.b32decode(tidy + "=" * (-len(tidy) % 8), casefold=True)


def _unpacked(data: bytes) -> Iterator[str]:
    """Yield what compressed data hold, as far as it is small."""
    with suppress(zlib.error):
        yield zlib.decompressobj(47).decompress(data, _MOST_UNPACKED).decode("utf-8", "replace")


# ---- secrets of the environment


_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SECRET_HEADER = re.compile(
    r"auth|cookie|credential|jwt|key|passw|secret|session|signature|token", re.IGNORECASE
)
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/@:]*:([^\s/@]+)@")
_HEADER = re.compile(
    r"^\s*([\w-]+)\s*:\s*(?:Bearer\s+|Basic\s+)?(\S.*?)\s*$", re.MULTILINE | re.IGNORECASE
)


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of an environment by the name of their variable, the longest first: it may
    hold a shorter one. They are the values of secret-looking variables, the passwords of addresses,
    and what secret-looking headers hold.
    """
    found: dict[str, str] = {}
    for name, value in environment.items():
        if _SECRET_NAME.search(name):
            found[name] = value

        # Proxies and servers are named with a password in the address.
        for password in _PASSWORD.findall(value):
            found.setdefault(name, password)

        # OPENAI_CUSTOM_HEADERS and its like hold a header a line.
        for header, held in _HEADER.findall(value) if name.upper().endswith("HEADERS") else ():
            if _SECRET_HEADER.search(header):
                found[f"{name}: {header}"] = held

    long_ones = [each for each in found.items() if len(each[1]) >= SHORTEST_SECRET]
    return dict(sorted(long_ones, key=lambda each: (-len(each[1]), each[0])))


def redact_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Return `text` with every secret of an environment replaced by the name of its variable."""
    return hide_secrets(text, secrets_of(environment))
