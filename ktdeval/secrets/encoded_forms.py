"""How a secret may be written in a text: plainly, reversed, or in an encoding, alone or inside of
what is encoded with it.
"""

from __future__ import annotations

import base64
import codecs
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

ANCHOR = 8
"""Letters and digits of a secret that are looked for at once."""

_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/~.][^\s]*")
_NOT_LETTERS = re.compile(r"[^A-Za-z0-9]+")
_LEAST_OF_WORDS = 16
_BASE85 = (base64.b85encode, base64.a85encode)


@dataclass(frozen=True, slots=True)
class SecretSpelling:
    """One way to write a secret, as its letters and digits in lower case.

    `least`: how many of them in a row give it away. `is_encoded`: what stands next to it without a
    space belongs to it.
    """

    letters: str
    least: int
    is_encoded: bool

    def anchors(self) -> Iterator[tuple[str, int]]:
        """Yield pieces with their offsets, of which one stands in every run of `least` letters."""
        step = max(self.least - ANCHOR + 1, 1)
        for offset in range(0, len(self.letters) - ANCHOR + 1, step):
            yield self.letters[offset : offset + ANCHOR], offset


def letters_of(text: str) -> str:
    """Return the letters and digits of ASCII in a text, in lower case."""
    return _NOT_LETTERS.sub("", text).lower()


def spellings(secret: str) -> list[SecretSpelling]:
    """Return the ways to write a secret that are looked for; what is no random text is looked for
    whole.
    """
    plain = letters_of(secret)
    has_fragments = len(plain) >= 12 and bool(_RANDOM.fullmatch(secret)) and "://" not in secret

    found = []
    if has_fragments or len(plain) >= _LEAST_OF_WORDS:
        rotated = codecs.encode(plain, "rot13")
        for letters in (plain, plain[::-1], rotated):
            found.append(SecretSpelling(letters, 12, is_encoded=False))

    for letters in _encoded_spellings(secret):
        found.append(SecretSpelling(letters, 16, is_encoded=True))

    usable = []
    for spelling in found:
        size = len(spelling.letters)
        if has_fragments and size >= spelling.least:
            usable.append(spelling)
        elif not has_fragments and size >= ANCHOR:
            usable.append(replace(spelling, least=size))

    return list(dict.fromkeys(usable))


def _encoded_spellings(secret: str) -> Iterator[str]:
    """Yield a secret in hexadecimal digits, base64, base32 and base85, each also reversed, and of
    the reversed secret.
    """
    for text in (secret, secret[::-1]):
        data = text.encode("utf-8", "surrogatepass")
        size = len(data)
        forms = [data.hex()]
        # An encoding depends on where the secret begins in a longer text: all shifts are tried.
        for shift in range(3):
            encoded = base64.b64encode(bytes(shift) + data)
            forms.append(_core(encoded, 6, shift, size))

        for shift in range(5):
            encoded = base64.b32encode(bytes(shift) + data)
            forms.append(_core(encoded, 5, shift, size))

        for encode in _BASE85:
            for shift in range(4):
                end = size - (size - shift) % 4
                forms.append(encode(data[shift:end]).decode())

        for form in forms:
            letters = letters_of(form)
            yield letters
            yield letters[::-1]


def _core(encoded: bytes, bits: int, shift: int, size: int) -> str:
    """Return the characters of an encoding, so many bits each, that only `size` bytes behind
    `shift` others decide.
    """
    first = math.ceil(shift * 8 / bits)
    end = (shift + size) * 8 // bits
    return encoded[first:end].decode()
