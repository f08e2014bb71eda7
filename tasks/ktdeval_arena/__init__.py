"""Manifest of the arena: the tasks of Agent Market Arena and of DeepFund, and their figures; a planted signal for teams."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.lazy import later


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """One stock or coin, or a fund of a few stocks, one decision a day."""
    from ktdeval.task_files import task_specs

    return [spec for family in ("ama", "deepfund", "views") for spec in task_specs(f"{__path__[0]}/{family}.yaml")]


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """Figures of the papers."""
    from ktdeval.task_files import metric_specs

    families = ("ama_figures", "deepfund_figures")
    return [spec for family in families for spec in metric_specs(f"{__path__[0]}/{family}.csv", f"ktdeval_arena.{family}:figure")]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Quality of AMA's summaries, and records of DeepFund."""
    summary = "Quality of Agent Market Arena's summaries."
    return [
        Spec("ama", later("ktdeval_arena.ama_command:ama"), summary),
        Spec("deepfund", later("ktdeval_arena.deepfund_command:deepfund"), "Records of DeepFund."),
    ]
