"""Manifest of the arena: the tasks of Agent Market Arena and of DeepFund, and their figures; a planted signal for teams."""

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
DEEPFUND_FIGURES = {
    "df_buy_and_hold": "return of the first day's portfolio, held",
    "df_sharpe": "DeepFund's Sharpe ratio, over 4.29 % a year",
    "df_win_rate": "DeepFund's win rate",
    "df_beta": "beta to the market's index",
    "df_alpha": "Jensen's alpha against the market's index, a year",
    "df_effectiveness": "share of filled buys before a rise and of sells before a fall",
}


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """One stock or coin, or a fund of a few stocks, one decision a day."""
    from ktdeval.task_files import task_specs

    return [spec for family in ("ama", "deepfund", "views") for spec in task_specs(f"{__path__[0]}/{family}.yaml")]


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """Figures of the papers."""
    made = {"ama_figures": AMA_FIGURES, "deepfund_figures": DEEPFUND_FIGURES}
    return [
        Spec(name, maker(f"ktdeval_arena.{module}:figure", name), summary)
        for module, figures in made.items()
        for name, summary in figures.items()
    ]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Quality of AMA's summaries, and records of DeepFund."""
    told = "Quality of Agent Market Arena's summaries."
    return [
        Spec("ama", later("ktdeval_arena.ama_command:ama"), told),
        Spec("deepfund", later("ktdeval_arena.deepfund_command:deepfund"), "Records of DeepFund."),
    ]
