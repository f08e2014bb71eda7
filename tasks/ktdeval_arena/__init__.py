"""Manifest of the arena: the tasks of Agent Market Arena, and their figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.lazy import later, maker

if TYPE_CHECKING:
    from collections.abc import Sequence

AMA_FIGURES = {
    "ama_cumulative_return": "AMA's cumulative return, the last position closed",
    "ama_annualised_return": "AMA's annualised return",
    "ama_volatility": "AMA's annualised volatility of daily returns",
    "ama_sharpe": "AMA's Sharpe ratio",
    "ama_max_drawdown": "AMA's maximum drawdown",
    "ama_win_rate": "share of positions that were closed with a gain",
    "ama_days_above_buy_and_hold": "share of days on which the account is above Buy & Hold",
    "ama_gap_to_buy_and_hold": "mean daily distance of the cumulative return from that of Buy & Hold",
}


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """One stock or coin, one decision a day."""
    from ktdeval.task_files import task_specs

    return task_specs(f"{__path__[0]}/ama.yaml")


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """Figures of the papers."""
    return [Spec(name, maker("ktdeval_arena.ama_figures:figure", name), summary) for name, summary in AMA_FIGURES.items()]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Records of DeepFund."""
    return [Spec("deepfund", later("ktdeval_arena.deepfund_command:deepfund"), "Records of DeepFund.")]
