"""A shared sum, computed again from its log by other means than the product's."""

from __future__ import annotations

import json

from ktdeval.stores import Store


def logged_changes(store: Store, prefix: str) -> list[dict]:
    """Changes of all epochs, in their order, packed or not; every state is checked on the way."""
    epochs: dict[str, dict[str, bytes]] = {}
    for found in store.list(prefix):
        epoch, name = found.key.removeprefix(f"{prefix}/").split("/", 1)
        epochs.setdefault(epoch, {})[name] = store.read(found.key)

    changes = []
    for _, files in sorted(epochs.items()):
        if "packed.json" in files:
            changes += json.loads(files["packed.json"])["changes"]
        else:
            changes += [
                json.loads(files[name])["change"]
                for name in sorted(files)
                if name.startswith("entries/")
            ]

    return changes


def replayed(changes: list[dict], limit: int | None) -> tuple[int, dict[str, int]]:
    """Used amount and open grants after all changes; no reservation may have exceeded the limit."""
    used = 0
    grants: dict[str, int] = {}

    for change in changes:
        if change["kind"] == "reserve":
            (name,) = change["grants"]
            assert name not in grants
            grants[name] = change["amount"]
            assert limit is None or used + sum(grants.values()) <= limit
        elif change["kind"] in ("settle", "charge"):
            used += change["amount"]

        for name in change["grants"]:
            if change["kind"] in ("settle", "return"):
                grants.pop(name, None)

    return used, grants
