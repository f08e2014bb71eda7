"""A plugin with scripted models, and with the variants of the suites on a market that is made fast, for whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktdeval.hookspecs import Spec, hookimpl
from qfinzero_suite_play import VARIANTS, Perfect, Silent, generated_items, generated_task


def _perfect(_params: None = None) -> Any:
    return Perfect((*generated_items("calling"), *generated_items("planning")))


def _perfect_live(_params: None = None) -> Any:
    return Perfect((*generated_items("calling"), *generated_items("planning")), live=True)


def _silent(_params: None = None) -> Any:
    return Silent()


def _task(variant: str) -> Any:
    task = generated_task(variant)
    task.name = f"small_{variant}"
    return task


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    makers = {"perfect": _perfect, "perfect_live": _perfect_live, "silent": _silent}
    return [Spec(f"agent/{name}", make, "An agent of the tests") for name, make in makers.items()]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    return [Spec(f"small_{name}", lambda name=name: _task(name), "A variant on a small market") for name in VARIANTS]
