"""Manifest of what every run needs: the local runner, the ReAct agent, the metric panel and the attribution of the total return."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktdeval.contracts import EpisodeOutcome, EpisodeSpec
    from ktdeval.harness import Agent
    from ktdeval.stats import Metric

_SUMMARIES = {
    "total_return": "geometric return of the NAV over the episode",
    "sharpe": "annualised Sharpe ratio of daily NAV returns, risk-free rate 0",
    "max_drawdown": "largest peak-to-trough fall of the NAV",
    "information_ratio": "annualised mean over standard deviation of daily return in excess of the benchmark",
    "turnover": "annualised two-way turnover",
    "hhi": "concentration of the holdings (Herfindahl-Hirschman index)",
    "cash_ratio": "average share of the NAV held as cash",
    "abstention_rate": "share of steps without an order",
    "parse_failure_rate": "share of steps without a valid action after every retry",
    "ece": "expected calibration error of the orders' confidence, 10 bins",
    "tool_validity_rate": "share of research tool calls that parsed and dispatched",
    "brier": "Brier score of the orders' confidence",
    "unmask_attempts": "hidden codes, names and dates that the model offered",
    "decision_coverage": "share of steps that the model decided itself",
    "brier_reliability": "reliability term of the Brier score: squared gap between confidence and accuracy",
    "brier_resolution": "resolution term of the Brier score: how far confidence tells good orders from bad",
    "brier_uncertainty": "uncertainty term of the Brier score: variance of the orders' outcomes",
    "ece_debiased": "expected calibration error less the bias of few orders",
    "reliability_debiased": "unbiased squared gap between confidence and accuracy; may be negative",
    "psr": "probability that the true Sharpe ratio is positive",
    "min_track_record": "years after which such a Sharpe ratio would be positive with 95 % confidence",
}

_PARTS = {
    "common_return": "part of the total return from being invested in the market (linked)",
    "industry_return": "part of the total return from industries beside the market (linked)",
    "style_return": "part of the total return from exposures to the nine style factors (linked)",
    "selection_alpha": "part of the total return beyond market, industries and styles (linked), with its HAC t statistic",
    "trading_effect": "part of the total return from timing of fills, fees and rounding (linked)",
    "paper_common_return": "part from being invested in the market, as the paper: without industries",
    "paper_style_return": "part from exposures to the nine style factors, as the paper: without industries",
    "paper_selection_alpha": "part from names beyond market and styles, as the paper: industries are in it",
}


def _make(name: str) -> Metric:
    from ktdeval.stats import panel_metric

    return panel_metric(name)


def _make_part(name: str) -> Metric:
    from ktdeval_builtin.attribution_metrics import attribution_metric

    return attribution_metric(name)


class ThreadRunner:
    """Runs up to `concurrency` episodes at once, on threads, for model calls wait on the network; one at a time it has none."""

    def run(
        self, specs: Sequence[EpisodeSpec], execute: Callable[[EpisodeSpec], EpisodeOutcome], concurrency: int
    ) -> list[EpisodeOutcome]:
        """Run every spec once; see `ktdeval.api.Runner`."""
        from concurrent.futures import ThreadPoolExecutor

        if concurrency == 1 or len(specs) <= 1:
            return [execute(spec) for spec in specs]
        with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="episode") as pool:
            futures = [pool.submit(execute, spec) for spec in specs]
            try:
                return [future.result() for future in futures]
            except BaseException:
                # An interrupt, or an episode's defect: no further episode starts; those under way stop between steps.
                for future in futures:
                    future.cancel()
                raise


def _make_react(params: None = None) -> Agent:  # noqa: ARG001 - the hook passes the parameters of the spec, here none
    from ktdeval_builtin.react import ReactAgent

    return ReactAgent()


@hookimpl
def ktdeval_runners() -> Sequence[Spec]:
    """Backend of this machine."""
    return [Spec("local", ThreadRunner, "Episodes side by side on threads of this machine")]


@hookimpl
def ktdeval_agents() -> Sequence[Spec]:
    """Agents that ship with ktdeval."""
    return [Spec("react", _make_react, "Two phases: free research with tools, then one forced submission with retries")]


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """Return the panel and its diagnostics, in the order in which a card shows them, and the parts of the total return."""
    return [
        *(Spec(name, partial(_make, name), summary) for name, summary in _SUMMARIES.items()),
        *(Spec(name, partial(_make_part, name), summary) for name, summary in _PARTS.items()),
    ]
