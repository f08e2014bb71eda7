"""Removal of secrets from third-party text, in whatever encoding a server returns them.

A secret is found, as is any sufficiently long piece of a random secret: verbatim, escaped as in
JSON or URLs, in base64, in hexadecimal digits, and in these encodings with escapes on top. Other
encodings, a different case, and shorter pieces are not found.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, quote_plus

#: In characters. Shorter secrets are words such as "true", or placeholders for local servers, which
#: occur in any text.
SHORTEST_SECRET = 8
#: number of characters of a random secret, in one of its forms, that give the secret away
PIECE = 12
MAX_LAYERS = 4  #: maximum layers of nested escapes that are undone, such as JSON in JSON

_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/~.][^\s]*")
_ESCAPE = re.compile(
    r"%(?P<url>[0-9A-Fa-f]{2})|\\u(?P<json>[0-9A-Fa-f]{4})|\\(?P<sign>[\"\\/bfnrt])"
)
_SIGNS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


# a tuple: spans are sorted
class _SecretSpan(NamedTuple):
    """Part of a text that reveals a secret, with the name of the secret."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text with escapes undone. Character i corresponds to the original text between the offsets
    `edges[i]` and `edges[i + 1]`.
    """

    text: str
    edges: Sequence[int]


class SecretHider:
    """Removes secrets from text. `secrets` are pairs of replacement text and secret. If two secrets
    overlap in a text, the replacement of the first is used.
    """

    def __init__(self, secrets: Iterable[tuple[str, str]]) -> None:
        self._whole: list[tuple[str, str]] = []
        self._pieces: dict[str, str] = {}
        for label, secret in secrets:
            is_random = bool(_RANDOM.fullmatch(secret)) and "://" not in secret
            for form in written_forms(secret):
                if is_random and len(form) >= PIECE:
                    self._add_pieces(form, label)
                else:
                    self._whole.append((form, label))

    def _add_pieces(self, form: str, label: str) -> None:
        for piece in _pieces_of(form):
            self._pieces.setdefault(piece, label)

    def hide(self, text: str) -> str:
        """Return the text without the secrets. If it contains no secrets, the same object is
        returned.
        """
        pieces = []
        at = 0
        for span in _merge_spans(self._spans(text)):
            pieces += [text[at : span.start], span.label]
            at = span.end

        return "".join([*pieces, text[at:]]) if pieces else text

    def _spans(self, text: str) -> Iterator[_SecretSpan]:
        for reading in _readings(text):
            for start, end, label in self._find_secrets(reading.text):
                yield _SecretSpan(reading.edges[start], reading.edges[end], label)

    def _find_secrets(self, text: str) -> Iterator[_SecretSpan]:
        for form, label in self._whole:
            for match in re.finditer(re.escape(form), text):
                yield _SecretSpan(match.start(), match.end(), label)

        if self._pieces:
            for start, piece in enumerate(_pieces_of(text)):
                if piece in self._pieces:
                    yield _SecretSpan(start, start + PIECE, self._pieces[piece])


def hide_keys(text: str, keys: Iterable[str]) -> str:
    """Return text with each of the given keys replaced by `[key]`."""
    long_ones = tuple(("[key]", key) for key in keys if len(key) >= SHORTEST_SECRET)
    return hider_of(long_ones).hide(text) if long_ones else text


@lru_cache(maxsize=64)
def hider_of(secrets: tuple[tuple[str, str], ...]) -> SecretHider:
    """Return the hider for the given secrets, which is created only once."""
    return SecretHider(secrets)


def hide_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """Return text with each value of a mapping replaced by its key in brackets."""
    if not secrets:
        return text
    return hider_of(tuple((f"[{name}]", value) for name, value in secrets.items())).hide(text)


def written_forms(secret: str) -> list[str]:
    """Return the forms of a secret to search for after escapes are undone."""
    data = secret.encode("utf-8", "surrogatepass")
    forms = [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    forms += [quote(data, safe=""), quote_plus(data)]
    forms += [data.hex(), data.hex().upper()]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # The base64 form depends on the secret's offset in a longer text, so all shifts are tried.
        for shift in range(3):
            encoded = encode(bytes(shift) + data).decode()
            first = math.ceil(shift * 8 / 6)
            end = (shift + len(data)) * 8 // 6
            forms.append(encoded[first:end])

    return list(dict.fromkeys(forms))


def _pieces_of(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(len(text) - PIECE + 1))


def _merge_spans(spans: Iterable[_SecretSpan]) -> list[_SecretSpan]:
    """Return spans in order. Overlapping spans are merged under the name of the first one."""
    merged: list[_SecretSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = last._replace(end=max(last.end, span.end))
        else:
            merged.append(span)

    return merged


def _readings(text: str) -> Iterator[_Reading]:
    """Yield a text as it is, then with successive layers of escapes undone."""
    reading = _Reading(text, range(len(text) + 1))
    yield reading
    for _ in range(MAX_LAYERS):
        if not _ESCAPE.search(reading.text):
            return

        reading = _unescape_text(reading)
        yield reading


def _unescape_text(reading: _Reading) -> _Reading:
    text: list[str] = []
    edges: list[int] = []
    at = 0
    for match in _ESCAPE.finditer(reading.text):
        text += [reading.text[at : match.start()], _character(match)]
        edges += reading.edges[at : match.start() + 1]
        at = match.end()

    return _Reading("".join([*text, reading.text[at:]]), [*edges, *reading.edges[at:]])


def _character(match: re.Match[str]) -> str:
    """Return the character for an escape. A URL-escaped byte becomes the character with the same
    number.
    """
    if match["sign"]:
        return _SIGNS.get(match["sign"], match["sign"])
    return chr(int(match["url"] or match["json"], 16))


# ---- secrets in the environment


_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SECRET_HEADER = re.compile(
    r"auth|cookie|credential|jwt|key|passw|secret|session|signature|token", re.IGNORECASE
)
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/@:]*:([^\s/@]+)@")
_HEADER = re.compile(
    r"^\s*([\w-]+)\s*:\s*(?:Bearer\s+|Basic\s+)?(\S.*?)\s*$", re.MULTILINE | re.IGNORECASE
)


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets in an environment by variable name, longest first, since a secret may
    contain a shorter one. These are the values of variables and headers whose names suggest
    secrets, and passwords in addresses.
    """
    found: dict[str, str] = {}
    for name, value in environment.items():
        if _SECRET_NAME.search(name):
            found[name] = value

        # Proxies and servers are given as addresses, which may contain a password.
        for password in _PASSWORD.findall(value):
            found.setdefault(name, password)

        # Variables such as OPENAI_CUSTOM_HEADERS contain one header per line.
        for header, held in _HEADER.findall(value) if name.upper().endswith("HEADERS") else ():
            if _SECRET_HEADER.search(header):
                found[f"{name}: {header}"] = held

    long_ones = [each for each in found.items() if len(each[1]) >= SHORTEST_SECRET]
    return dict(sorted(long_ones, key=lambda each: (-len(each[1]), each[0])))


def redact_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Return `text` with every secret from an environment replaced by the name of its variable."""
    return hide_secrets(text, secrets_of(environment))
