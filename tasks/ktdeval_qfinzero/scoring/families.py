"""Tool names of the benchmark, their families, and the addresses that a planning call without one is taken to mean."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

UNKNOWN_FAMILY: Final = "UNKNOWN"
PREFIXES: Final = ("UPQ", "ESP", "PMB")

# Pseudo-calls that say "I will not do this" (compared in upper case).
REFUSAL_NAMES: Final = frozenset({"REFUSE", "CANNOT_COMPLY", "NONE"})

_ROWS: Final = tuple(csv.DictReader(Path(__file__).with_name("tools.csv").read_text(encoding="utf-8").splitlines()))

# Name -> (address, method) of the 26 service tools.
SERVICE_TOOLS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {row["name"]: (row["path"], row["method"]) for row in _ROWS if row["is_public"] == "yes"}
)

# Tools of the services here that the public registry does not have.
FURTHER_TOOLS: Final = frozenset(row["name"] for row in _ROWS) - SERVICE_TOOLS.keys()

# Name -> (address, method) that the planning reference assumes for a call that names neither. The public planning scorer has
# addresses for 24 of the 26: a run makes its account and session before an episode begins.
PLANNING_ENDPOINTS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {name: address for name, address in SERVICE_TOOLS.items() if name not in ("PMB.account.create", "PMB.session.create")}
)

# Name -> family of all 27 registered names; the refusal is a family of its own.
REGISTRY: Final[Mapping[str, str]] = MappingProxyType(
    {**{name: name.partition(".")[0] for name in SERVICE_TOOLS}, "REFUSE": "REFUSE"}
)


def registry_family(name: str | None) -> str | None:
    """Family of a registered name, looked up exactly and case-sensitively; None for every other name."""
    return REGISTRY.get(name) if name is not None else None


def known_family(name: str) -> str | None:
    """Family of a tool that a service has, public or one of `FURTHER_TOOLS`; None for every other name."""
    return name.partition(".")[0] if name in FURTHER_TOOLS else registry_family(name)


def prefix_family(name: str) -> str:
    """Family by the first letters of a name, `UNKNOWN` for the rest: the planning reference's rule."""
    return next((prefix for prefix in PREFIXES if name.startswith(prefix)), UNKNOWN_FAMILY)


def is_refusal_name(name: str) -> bool:
    """Whether a tool name is one of the pseudo-calls that refuse."""
    return name.strip().upper() in REFUSAL_NAMES
