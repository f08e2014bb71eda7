"""A plugin with scripted models, and with the variants of the suites on a market that is made fast, for whole runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktdeval.hookspecs import Spec, hookimpl

sys.path.insert(0, str(Path(__file__).parent))  # a board's check imports it in a process of its own

from qfinzero_suite_play import VARIANTS, Perfect, Silent, generated_items, generated_task


def _perfect(live: bool) -> Any:
    return Perfect((*generated_items("calling"), *generated_items("planning")), live=live)


def _task(variant: str) -> Any:
    task = generated_task(variant)
    task.name = f"small_{variant}"
    return task


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    makers = {
        "perfect": lambda _=None: _perfect(False),
        "perfect_live": lambda _=None: _perfect(True),
        "silent": lambda _=None: Silent(),
    }
    return [Spec(f"agent/{name}", make, "An agent of the tests") for name, make in makers.items()]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    return [Spec(f"small_{name}", lambda name=name: _task(name), "A variant on a small market") for name in VARIANTS]
