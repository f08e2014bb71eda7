"""Ways in which a server writes a secret that it was sent, each of which gives it away to who reads
it.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Callable
from itertools import product


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ECHOES: dict[str, Callable[[str], str]] = {
    "plain": lambda key: key,
    "cut off": lambda key: key[:16],
    "in two halves": lambda key: f"{key[: len(key) // 2]} and then {key[len(key) // 2 :]}",
    "base64": _b64,
    "base64 for addresses": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "base64 of a header": lambda key: _b64(f"Authorization: Bearer {key}"),
    "base64 of user and key": lambda key: "Basic " + _b64(f"user:{key}"),
    "base64 of user and key in an address": lambda key: urllib.parse.quote(_b64(f"u:{key}")),
    "hex": lambda key: key.encode().hex(),
    "HEX": lambda key: key.encode().hex().upper(),
    "escapes of JSON": lambda key: "".join(f"\\u{ord(sign):04x}" for sign in key),
    "escapes of JSON twice": lambda key: json.dumps("".join(f"\\u{ord(sign):04x}" for sign in key)),
    "escapes of addresses": lambda key: "".join(f"%{ord(sign):02X}" for sign in key),
    "escapes of addresses twice": lambda key: urllib.parse.quote(
        "".join(f"%{ord(sign):02x}" for sign in key)
    ),
}
"""Each way by its name, as a function of the key."""


def readings(text: str) -> list[str]:
    """Return what a text reads as to someone who undoes what `ECHOES` do; to look for a key in."""
    views = [text, _escapes(text)]
    return [*views, *map(_decoded, views)]


def gives_away(text: str, key: str) -> bool:
    """Whether a piece of 12 characters of a key stands in a text, in some reading of it."""
    pieces = {key[at : at + 12] for at in range(len(key) - 11)}
    return any(piece in view for view, piece in product(readings(text), pieces))


def _escapes(text: str) -> str:
    for _ in range(4):
        text = urllib.parse.unquote(text, errors="replace")
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)

    return text


def _decoded(text: str) -> str:
    """Return what the runs of signs are in base64 and in hexadecimal digits, wherever in a run the
    encoded text begins.
    """
    found = []
    for run in re.findall(r"[A-Za-z0-9+/_-]{12,}", text):
        usual = run.translate(str.maketrans("-_", "+/"))
        for start in range(4):
            size = (len(run) - start) // 4 * 4
            found.append(base64.b64decode(usual[start : start + size]).decode("latin-1"))

    for run in re.findall(r"[0-9a-fA-F]{24,}", text):
        for start in range(2):
            size = (len(run) - start) // 2 * 2
            found.append(bytes.fromhex(run[start : start + size]).decode("latin-1"))

    return " ".join(found)
