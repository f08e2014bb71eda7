"""Discovery of installed plugins through the entry points in one group."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass

GROUP = "ktdeval"


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """Entry point of a plugin: a `module`, optionally with an `attribute` in it, and the
    distribution that advertises it.
    """

    name: str
    module: str
    attribute: str
    distribution: str
    version: str

    @property
    def value(self) -> str:
        """Return the reference as written: `module` or `module:attribute`."""
        return f"{self.module}:{self.attribute}" if self.attribute else self.module


def find_entry_points() -> list[EntryPoint]:
    """Return the entry points in the group `ktdeval` on `sys.path`.

    Those of ktdeval itself come first; the others are sorted by distribution and name. If two
    distributions have the same name, the first one on the path is used.
    """
    names: dict[importlib.metadata.Distribution, tuple[str, str]] = {}
    entries = []
    for entry in importlib.metadata.entry_points(group=GROUP):
        distribution = entry.dist
        if distribution is None:  # entry point without a distribution
            continue
        if distribution not in names:
            names[distribution] = (_normalise(distribution.name), distribution.version)
        entries.append(EntryPoint(entry.name, entry.module, entry.attr or "", *names[distribution]))

    return sorted(
        entries, key=lambda entry: (entry.distribution != "ktdeval", entry.distribution, entry.name)
    )


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
