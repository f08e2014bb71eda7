"""Plugin of the made-up providers of forged boards: language models behind a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ktdeval.hookspecs import Spec, hookimpl

PLUGIN = Path(__file__)
PROVIDERS = ("alder", "birch", "cedar", "elm")


def _make(*_: object) -> NoReturn:
    raise AssertionError("a forged board asks no model")


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    return [Spec(name, _make, "Made up.", remote=True) for name in PROVIDERS]
