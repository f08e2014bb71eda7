"""Manifest of the arena: the tasks and metrics of Agent Market Arena and DeepFund, and a market
with a planted signal for teams.
"""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """Return the tasks with one decision per day, on one stock or crypto asset or on a fund of a
    few stocks.
    """
    from ktdeval.registry import task_specs

    specs: list[Spec] = []
    for family in ("ama", "deepfund", "views"):
        specs += task_specs(f"{__path__[0]}/{family}.yaml")
    return specs


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """Return the metrics of the two papers."""
    from ktdeval.registry import metric_specs

    specs: list[Spec] = []
    for family in ("ama_figures", "deepfund_figures"):
        specs += metric_specs(f"{__path__[0]}/{family}.csv", f"ktdeval_arena.{family}:figure")
    return specs


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command that summarises news."""
    return [
        Spec(
            "paper ama",
            later("ktdeval_arena.ama_command:ama"),
            "Make daily summaries of news from several sources, like Agent Market Arena.",
            groups=("papers",),
        )
    ]


@hookimpl
def ktdeval_tables() -> list[Spec]:
    """Return the paper's tables."""
    from ktdeval.registry import table_specs

    return table_specs(f"{__path__[0]}/tables.yaml")
