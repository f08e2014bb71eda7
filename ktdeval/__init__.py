"""ktdeval: can a language-model agent invest, or does it remember the market and ride factors?"""

from __future__ import annotations

import os.path
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_OWN = ("Evaluation", "evaluate", "load_run")


def __getattr__(name: str) -> Any:
    """`evaluate` and its kin, and, by their commands' names, functions of plugins such as `compare`: loaded when first used."""
    place = os.path.join(os.path.dirname(__file__), name)  # noqa: PTH118, PTH120 - every start of the command line is here
    if not name.startswith("_") and not os.path.isdir(place) and not os.path.isfile(f"{place}.py"):  # noqa: PTH112, PTH113
        evaluation = import_module("ktdeval.evaluation")  # by name: nothing inside leans on it
        return getattr(evaluation, name) if name in _OWN else evaluation.command_function(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
