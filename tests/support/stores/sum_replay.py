"""A shared sum, read from its files by other means than the product's."""

from __future__ import annotations

import json

from ktdeval.stores import Store


def recorded_states(store: Store, prefix: str) -> list[dict]:
    """States of a sum after each change, in their order; numbers have no gaps."""
    entries = [json.loads(store.read(found.key)) for found in store.list(prefix)]
    assert [entry["number"] for entry in entries] == list(range(1, len(entries) + 1))
    return [entry["state"] for entry in entries]


def used_after(states: list[dict], limit: int | None) -> int:
    """Used amount after all changes; none that raised it may have exceeded the limit."""
    used = 0
    for state in states:
        assert limit is None or state["used"] <= max(limit, used)
        used = state["used"]

    return used
