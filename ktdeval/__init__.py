"""ktdeval: can a language-model agent invest, or does it remember the market and ride factors?

Example:
    import ktdeval

    run = ktdeval.evaluate("builtin/hold", "blinded_open_research", windows="W1", limit=3)
    run.cards()  # data frame: a row a card
    run.episodes()  # a row an episode, a column a metric

`help(ktdeval.evaluate)` lists every option of a run, `ktdeval.load_run(FOLDER)` opens a run that is there,
`ktdeval.compare(run, other)` compares two runs.
"""

from __future__ import annotations

import os.path
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_OWN = ("Evaluation", "evaluate", "load_run")
_MODULES = ("api", "errors", "testing")  #: public modules


def __getattr__(name: str) -> Any:
    """`evaluate` and related names, modules such as `api`, and functions behind plugin commands
    such as `compare`, all loaded on first use.
    """
    if name == "__all__":  # what `help(ktdeval)` lists
        return __dir__()
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    path = os.path.join(os.path.dirname(__file__), name)  # noqa: PTH118, PTH120 - every start of the command line is here
    if os.path.isdir(path) or os.path.isfile(f"{path}.py"):  # noqa: PTH112, PTH113
        return import_module(f"{__name__}.{name}")

    evaluation = import_module("ktdeval.cli.python_api")  # by name: nothing inside depends on it
    return getattr(evaluation, name) if name in _OWN else evaluation.command_function(name)


def __dir__() -> list[str]:
    """Public names: `evaluate` and related names, plugin command functions, public modules."""
    commands = import_module("ktdeval.cli.python_api").command_function_names()
    return sorted({*_OWN, *_MODULES, *commands, "__version__"})
