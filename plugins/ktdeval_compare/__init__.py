"""Manifest of the commands on cards: `compare`, `power`, `effects`, `luck`, `invariance`, `cohort`,
`cutoff`, `demo`, `table`.
"""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values.lazy import later

_COMMANDS = {
    "compare": (
        "Test whether agents differ, paired by window and seed, and name those that are tied."
    ),
    "power": "Report what a plan of windows and seeds can tell apart, before it is run.",
    "effects": (
        "Report the value of stock, date, data and tools, from cards of several masks and modes."
    ),
    "luck": (
        "Report how much of a result is luck, and whether a ranking by return is one by selection."
    ),
    "invariance": "Report how much changes when only the labels of the mask do: the noise floor.",
    "cohort": (
        "Report how cohorts of models differ: style exposures, returns over seeds, trades declined"
        " when masked."
    ),
    "cutoff": "Set a model's results in its training time against those after it.",
    "demo": "Show what masks and attribution are for, on the embedded market, in under a minute.",
    "table": "Print a table of a paper, made of your own cards: --like ktdfin-4.",
}
_GROUPS = {"demo": ("evaluate",), "power": ("evaluate",), "table": ("results",)}
_ELSEWHERE = {"demo": "demo:demo", "table": "table_command:table"}


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Commands on several cards."""
    functions = {
        name: {"function": later(f"ktdeval_compare.functions:{name}")}
        for name in _COMMANDS
        if name not in ("power", "cutoff", "demo")
    }
    makers = {
        name: later(f"ktdeval_compare.{_ELSEWHERE.get(name, f'commands:{name}')}")
        for name in _COMMANDS
    }
    return [
        Spec(
            name,
            makers[name],
            summary,
            groups=_GROUPS.get(name, ("compare",)),
            extra=functions.get(name, {}),
        )
        for name, summary in _COMMANDS.items()
    ]
