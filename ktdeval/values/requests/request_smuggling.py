"""HTTP requests that can be interpreted in two ways: a proxy might see one request, and the server
behind it another (RFC 9112, section 11.2). h11 itself rejects duplicate lengths and hosts;
`http.server` rejects neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_ONCE = frozenset({
    "authorization", "content-length", "content-type", "host", "origin", "proxy-authorization",
    "transfer-encoding",
})  # fmt: skip


def ambiguity(headers: Iterable[tuple[str, str]], once: Iterable[str] = ()) -> str | None:
    """Return why a request with the given headers can be interpreted in two ways; None if it can't.
    `once` contains additional header names, in lower case, that may occur at most once per request.
    """
    counts = Counter(name.lower() for name, _ in headers)
    for name in (*sorted(_ONCE), *once):
        if counts[name] > 1:
            return f"the header {name} appears more than once"

    if counts["content-length"] and counts["transfer-encoding"]:
        return "a request has content-length or transfer-encoding, not both"
    return None
