"""A plugin with scripted models, which know the generated items, for whole runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktdeval.hookspecs import Spec, hookimpl

# A board's check imports this file in a process of its own.
sys.path.append(str(Path(__file__).parents[2]))

from support.qfinzero.qfinzero_suite_play import Perfect, Silent, embedded_items_of


def _perfect(live: bool) -> Any:
    return Perfect((*embedded_items_of("calling"), *embedded_items_of("planning")), live=live)


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    makers = {
        "perfect": lambda _=None: _perfect(False),
        "perfect_live": lambda _=None: _perfect(True),
        "silent": lambda _=None: Silent(),
    }
    return [Spec(f"agent/{name}", make, "An agent of the tests") for name, make in makers.items()]
