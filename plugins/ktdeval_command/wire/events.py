"""Server-sent events, as the HTML standard defines them."""

from __future__ import annotations

from ktdeval.values import JsonValue, dumps_compact


def event(data: JsonValue, name: str = "") -> bytes:
    """Return one event. Compact JSON has no line break, so one data line holds it."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {dumps_compact(data)}\n\n".encode()
