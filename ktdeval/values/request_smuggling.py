"""Requests over HTTP that can be read in two ways: a proxy could take one of them, the server behind
it the other (RFC 9112, section 11.2). Of these, h11 refuses two lengths and two hosts by itself,
`http.server` none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_ONCE = frozenset({
    "authorization", "content-length", "content-type", "host", "origin", "proxy-authorization",
    "transfer-encoding",
})  # fmt: skip


def ambiguity(headers: Iterable[tuple[str, str]], once: Iterable[str] = ()) -> str | None:
    """Return why a request with these headers can be read in two ways; None if it can't be. `once`:
    further names of headers that a request has at most once, in small letters.
    """
    counts = Counter(name.lower() for name, _ in headers)
    for name in (*sorted(_ONCE), *once):
        if counts[name] > 1:
            return f"the header {name} appears more than once"

    if counts["content-length"] and counts["transfer-encoding"]:
        return "a request has content-length or transfer-encoding, not both"
    return None
