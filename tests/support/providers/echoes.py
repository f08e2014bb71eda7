"""Ways in which a server writes a secret that it was sent, each of which gives it away to who reads
it.
"""

from __future__ import annotations

import base64
import codecs
import gzip
import html
import json
import quopri
import re
import urllib.parse
from collections.abc import Callable
from itertools import chain, product


def _between(sign: str, size: int = 1) -> Callable[[str], str]:
    return lambda key: sign.join(key[at : at + size] for at in range(0, len(key), size))


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ECHOES: dict[str, Callable[[str], str]] = {
    "plain": lambda key: key,
    "in capitals": str.upper,
    "in lower case": str.lower,
    "with cases swapped": str.swapcase,
    "reversed": lambda key: key[::-1],
    "reversed in capitals": lambda key: key[::-1].upper(),
    "spaced": _between(" "),
    "dashed": _between("-", 4),
    "dotted": _between("."),
    "with invisible spaces": _between("\u200b", 3),
    "over lines": _between("\n", 7),
    "over indented lines": _between("\n    ", 10),
    "in two halves": lambda key: f"{key[: len(key) // 2]} and then {key[len(key) // 2 :]}",
    "in a list of characters": lambda key: json.dumps(list(key)),
    "joined by plus": lambda key: '" + "'.join([key[:9], key[9:20], key[20:]]),
    "base64": _b64,
    "base64 for addresses": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "base64 of a header": lambda key: _b64(f"Authorization: Bearer {key}"),
    "base64 of user and key": lambda key: "Basic " + _b64(f"user:{key}"),
    "base64 over lines": lambda key: re.sub("(.{12})", r"\1\n", _b64(key)),
    "base64 in lower case": lambda key: _b64(key).lower(),
    "base64 of base64": lambda key: _b64(_b64(key)),
    "base64 reversed": lambda key: _b64(key)[::-1],
    "base64 of it reversed": lambda key: _b64(key[::-1]),
    "base64 of gzip": lambda key: base64.b64encode(gzip.compress(key.encode(), mtime=0)).decode(),
    "base32": lambda key: base64.b32encode(key.encode()).decode(),
    "base85": lambda key: base64.b85encode(key.encode()).decode(),
    "ASCII 85": lambda key: base64.a85encode(key.encode(), adobe=True).decode(),
    "hex": lambda key: key.encode().hex(),
    "HEX": lambda key: key.encode().hex().upper(),
    "hex with spaces": lambda key: key.encode().hex(" "),
    "hex of C": lambda key: "".join(f"\\x{ord(sign):02x}" for sign in key),
    "hex numbers": lambda key: ", ".join(f"0x{ord(sign):02X}" for sign in key),
    "decimal numbers": lambda key: str([ord(sign) for sign in key]),
    "binary": lambda key: " ".join(f"{ord(sign):08b}" for sign in key),
    "octal": lambda key: "".join(f"\\{ord(sign):03o}" for sign in key),
    "escapes of JSON": lambda key: "".join(f"\\u{ord(sign):04x}" for sign in key),
    "escapes of JSON twice": lambda key: json.dumps("".join(f"\\u{ord(sign):04x}" for sign in key)),
    "escapes of addresses": lambda key: "".join(f"%{ord(sign):02X}" for sign in key),
    "escapes of addresses twice": lambda key: urllib.parse.quote(
        "".join(f"%{ord(sign):02x}" for sign in key)
    ),
    "escapes of HTML": lambda key: "".join(f"&#{ord(sign)};" for sign in key),
    "hex escapes of HTML": lambda key: "".join(f"&#x{ord(sign):x};" for sign in key),
    "quoted-printable": lambda key: "".join(f"={ord(sign):02X}" for sign in key),
    "wide letters": lambda key: "".join(chr(ord(sign) + 0xFEE0) for sign in key),
    "rot13": lambda key: codecs.encode(key, "rot13"),
}
"""Each way by its name, as a function of the key."""


def readings(text: str) -> list[str]:
    """Return what a text reads as to someone who undoes what `ECHOES` do; to look for a key in."""
    views = [text]
    for read in (_escapes, _numbers):
        views += [read(view) for view in list(views)]

    views += [_encodings(view) for view in list(views)]
    views += [_encodings(view) for view in list(views)]
    views += [codecs.encode(view, "rot13") for view in list(views)]

    return [*views, *(view[::-1] for view in views)]


def gives_away(text: str, key: str) -> bool:
    """Whether a piece of a key of 12 letters stands in a text, in some reading of it."""
    letters = _letters(key)
    pieces = {letters[at : at + 12] for at in range(len(letters) - 11)}
    views = map(_letters, readings(text))

    return any(piece in view for view, piece in product(views, pieces))


def _letters(text: str) -> str:
    narrow = "".join(
        chr(ord(sign) - 0xFEE0) if 0xFF01 <= ord(sign) < 0xFF5F else sign for sign in text
    )
    return re.sub(r"[^A-Za-z0-9]", "", narrow).lower()


def _escapes(text: str) -> str:
    for _ in range(2):
        text = urllib.parse.unquote(text, errors="replace")
        text = html.unescape(text)
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
        text = re.sub(r"(?:\\+x|0x)([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), text)
        text = re.sub(r"\\+([01][0-7]{2})", lambda match: chr(int(match[1], 8)), text)
        text = re.sub(r"\\+n", "\n", text)

    return quopri.decodestring(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _numbers(text: str) -> str:
    text = re.sub(r"\b[01]{8}\b", lambda match: chr(int(match[0], 2)), text)
    return re.sub(r"(?<![0-9])[0-9]{2,3}(?![0-9])", lambda match: chr(int(match[0])), text)


def _encodings(text: str) -> str:
    """Return a text with each run of signs followed by what it is in every encoding that it may be
    in.
    """
    tight = re.sub(r"\s+", "", text)
    found = []
    forms = (
        r"[!-~]{12,}",
        r"[A-Za-z0-9+/_-]{12,}={0,2}",
        r"<~[!-~]+~>",
        r"[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{12,}",
    )
    runs = list(chain.from_iterable(re.findall(form, text) for form in forms))

    # Over lines and between spaces.
    runs += [
        re.sub(r"\s", "", run)
        for run in re.findall(r"(?:[A-Za-z0-9+/]{4,}\n)+[A-Za-z0-9+/=]*", text)
    ]
    runs += [
        re.sub(r"\s", "", run) for run in re.findall(r"(?:[0-9a-fA-F]{2} ){8,}[0-9a-fA-F]{2}", text)
    ]

    for run in (*runs, tight):
        found += [run, run[::-1]]
        for candidate in (run, run[::-1]):
            found += _decoded(candidate)

    return " ".join(found)


def _decoded(run: str) -> list[str]:
    tidy = run.rstrip("=")
    tries: list[Callable[[], bytes]] = [
        lambda: base64.b64decode(
            tidy.translate(str.maketrans("-_", "+/")) + "=" * (-len(tidy) % 4), validate=True
        ),
        lambda: base64.b32decode(tidy.upper() + "=" * (-len(tidy) % 8)),
        lambda: bytes.fromhex(run),
        lambda: base64.b85decode(run),
        lambda: base64.a85decode(run, adobe=True),
    ]
    found = []

    for attempt in tries:
        try:
            data = attempt()
        except ValueError:
            continue

        found.append(data.decode("latin-1"))
        try:
            found.append(gzip.decompress(data).decode("latin-1"))
        except (OSError, EOFError):
            continue

    return found
