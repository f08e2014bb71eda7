"""Manifest for the commands on cards: `compare`, `demo`, `fork`, `paper figure` and `paper table`."""

from __future__ import annotations

from typing import Any

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later

_COMMANDS = {
    "compare agents": (
        "Test whether agents differ, paired by window and seed, and name those that are tied."
    ),
    "compare masks": (
        "Report the value of knowing stock, date, data and tools, from cards of several masks "
        "and modes."
    ),
    "compare labels": (
        "Report how much results change if only the mask's labels change: the noise floor."
    ),
    "compare luck": (
        "Report how much of a result is luck, and whether rankings by return and by selection "
        "agree."
    ),
    "compare cutoff": "Compare a model's results before and after the end of its training data.",
    "compare cohorts": (
        "Report how cohorts of models differ: style exposures, returns over seeds, trades "
        "declined under a mask."
    ),
    "compare power": "Report which differences a plan of windows and seeds can detect, before it is run.",
    "compare transplant": (
        "Execute a run's decisions again with other capitals and costs: at which size does the "
        "edge vanish?"
    ),
    "fork": "Repeat a run's steps with one input changed: does the model read what it is shown?",
    "paper figure": "Draw a paper's figure from your own runs: ama-2 RUN… --out a.svg.",
    "demo": "Show what masks and attribution are for, on the embedded market, in under a minute.",
    "paper table": "Print a paper's table from your own cards: --like ktdfin-4.",
}
_GROUPS = {
    "demo": ("evaluate",),
    "fork": ("compare",),
    "paper figure": ("papers",),
    "paper table": ("papers",),
}
_ELSEWHERE = {
    "compare cutoff": "cutoffs.study:cutoff",
    "demo": "demo:demo",
    "fork": "forks.fork_command:fork",
    "paper figure": "papers.figure_command:figure",
    "compare power": "plans.power_command:power",
    "paper table": "papers.table_command:table",
    "compare transplant": "transplants.transplant_command:transplant",
}
#: Commands that are also functions in `ktdeval`, with the function names
_FUNCTIONS = {
    "compare agents": "compare",
    "compare masks": "effects",
    "compare labels": "invariance",
    "compare luck": "luck",
    "compare cohorts": "cohort",
    "paper table": "table",
}


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the commands that operate on cards."""
    specs = []
    for name, summary in _COMMANDS.items():
        own = name.removeprefix("compare ")
        maker = later(f"ktdeval_compare.{_ELSEWHERE.get(name, f'commands:{own}')}")
        extra: dict[str, Any] = {}
        if name in _FUNCTIONS:
            function = _FUNCTIONS[name]
            extra = {
                "function": later(f"ktdeval_compare.functions:{function}"),
                "function_name": function,
            }

        if name == "compare agents":
            tables = later("ktdeval_compare.functions:compare_tables")
            extra["more_functions"] = {"compare_tables": tables}

        specs.append(Spec(name, maker, summary, groups=_GROUPS.get(name, ()), extra=extra))

    return specs
