"""Parameters of the model that submits declared decisions. They are in a separate module so that
listing the model imports nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.values import option


@dataclass(frozen=True)
class DeclaredParams:
    """Parameters of `declared/decisions`."""

    sha256: str = option(help="SHA-256 of the plan that `ktdeval judge` stored")
