"""Taking secrets out of foreign text, however a server that echoes them writes them.

Found are a secret, and each piece of a random one that is long enough: as it is, escaped as JSON or
URLs do, in base64 and in hexadecimal digits, and what is encoded so and then escaped. Not found are
other encodings, other cases, and what is shorter than a piece.
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

#: Characters; shorter are words such as "true", and placeholders of local servers, that any text
#: holds
SHORTEST_SECRET = 8
PIECE = 12  #: characters of a random secret, in one of its forms, that give it away
MAX_LAYERS = 4  #: escapes of escapes that are undone, as of JSON in JSON

_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/~.][^\s]*")
_ESCAPE = re.compile(
    r"%(?P<url>[0-9A-Fa-f]{2})|\\u(?P<json>[0-9A-Fa-f]{4})|\\(?P<sign>[\"\\/bfnrt])"
)
_SIGNS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


# a tuple: sorted
class _SecretSpan(NamedTuple):
    """Part of a text that gives a secret away, and the name of the secret."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text as it reads once escapes are undone. Character i is written between places `edges[i]`
    and `edges[i + 1]` of the original.
    """

    text: str
    edges: Sequence[int]


class SecretHider:
    """Takes some secrets out of texts. `secrets` are pairs of the words that are shown instead, and
    the secret; of two that overlap in a text, the first is named.
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
        """Return the text without the secrets; the very same text where it holds none."""
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
    """Return a text in which some keys are replaced by `[key]`."""
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


def written_forms(secret: str) -> list[str]:
    """Return the forms of a secret that are looked for once escapes are undone."""
    data = secret.encode("utf-8", "surrogatepass")
    forms = [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    forms += [quote(data, safe=""), quote_plus(data)]
    forms += [data.hex(), data.hex().upper()]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # Base64 depends on where the secret begins in a longer text: all shifts are tried.
        for shift in range(3):
            encoded = encode(bytes(shift) + data).decode()
            first = math.ceil(shift * 8 / 6)
            end = (shift + len(data)) * 8 // 6
            forms.append(encoded[first:end])

    return list(dict.fromkeys(forms))


def _pieces_of(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(len(text) - PIECE + 1))


def _merge_spans(spans: Iterable[_SecretSpan]) -> list[_SecretSpan]:
    """Return spans in their order; overlapping ones become one, named as the first."""
    merged: list[_SecretSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = last._replace(end=max(last.end, span.end))
        else:
            merged.append(span)

    return merged


def _readings(text: str) -> Iterator[_Reading]:
    """Yield a text as it is, and with one layer of escapes after another undone."""
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
    """Return the character of an escape; a byte in a URL gives the character with its number."""
    if match["sign"]:
        return _SIGNS.get(match["sign"], match["sign"])
    return chr(int(match["url"] or match["json"], 16))


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
