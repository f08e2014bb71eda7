"""Costs of a task's steps by window and scenario, measured without a model on a sample of days."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.runner.rehearsals.cached_tokens import CachedShares, cached_shares
from ktdeval.runner.rehearsals.conversation_size import ASSUMED, CallLimits, StepRate, StepSize
from ktdeval.runner.rehearsals.estimate_sampling import EstimatedMean, SampledDays
from ktdeval.runner.rehearsals.rehearsal import FirstStep, by_window
from ktdeval.task_api.episode_spec import Window

_LOW, _TYPICAL, _HIGH = ASSUMED


@dataclass(frozen=True)
class MeasuredTask:
    """Measured costs of a task's steps."""

    #: costs of a step, by window and scenario; always low ≤ typical ≤ high
    rates: Mapping[Window | None, Mapping[str, StepRate]]
    #: cached tokens of an episode's first step minus those of a later step, by window and scenario
    first: Mapping[Window | None, Mapping[str, StepRate]]
    #: tokens of a step's largest prompt, by scenario: the minimum for low, the mean for typical,
    #: the maximum for high
    largest: Mapping[str, int]


def measure_task(rehearsal: Sequence[FirstStep], limits: CallLimits | None) -> MeasuredTask:
    """Measure steps in a task's windows.

    The first window is measured in all scenarios. Other windows are only measured in the low
    scenario; their other scenarios are scaled by the ratios in the first window. Raises PluginError
    if a task, agent or tool fails.
    """
    spec = rehearsal[0].spec
    where = f"task {spec.task}, agent {spec.agent}: a step can't be measured"
    measured: MeasuredTask = call_foreign(_measure_task, where, rehearsal, limits)
    return measured


def _measure_task(rehearsal: Sequence[FirstStep], limits: CallLimits | None) -> MeasuredTask:
    reference = rehearsal[0]
    means = {}
    prompts = {}
    shares: dict[str, CachedShares] = {}
    for name, scenario in ASSUMED.items():
        sizes = reference.sizes(scenario.behaviour)
        means[name] = _estimated_means(reference.days, sizes, name, limits)
        prompts[name] = _prompt_tokens(sizes, name)
        shares[name] = cached_shares(sizes, scenario, limits)

    rates: dict[Window | None, Mapping[str, StepRate]] = {}
    firsts: dict[Window | None, Mapping[str, StepRate]] = {}
    low_prompts: list[float] = []
    for window, first in by_window(rehearsal).items():
        sizes = first.sizes(ASSUMED[_LOW].behaviour)
        own = _estimated_means(first.days, sizes, _LOW, limits)
        if len(sizes) == 1:
            own = [one.with_error_of(low) for one, low in zip(own, means[_LOW], strict=True)]

        carried = _carried_over(means, own)
        rates[window] = {name: shares[name].of_step(rate) for name, rate in carried.items()}
        firsts[window] = {name: shares[name].of_first(rate) for name, rate in carried.items()}
        low_prompts += _prompt_tokens(sizes, _LOW)

    longest = max(low_prompts) / max(*prompts[_LOW], 1.0)
    largest = _order_figures(
        (min(low_prompts), statistics.fmean(prompts[_TYPICAL]), max(prompts[_HIGH]) * longest)
    )
    return MeasuredTask(rates, firsts, dict(zip(ASSUMED, map(round, largest), strict=True)))


def _estimated_means(
    days: SampledDays, sizes: Sequence[StepSize], scenario: str, limits: CallLimits | None
) -> list[EstimatedMean]:
    """Estimate the mean of each field of `StepRate` over all days of a window."""
    rates = [ASSUMED[scenario].rate_of(size, limits) for size in sizes]
    return [days.over_all(values) for values in zip(*map(astuple, rates), strict=True)]


def _carried_over(
    means: Mapping[str, Sequence[EstimatedMean]], low: Sequence[EstimatedMean]
) -> dict[str, StepRate]:
    """Return the costs of a step in a window by scenario, given its figures in the low scenario.

    `means`: the figures of the window that was measured in all scenarios.
    """
    figures: list[tuple[float, ...]] = []
    for own, at_low, typical, high in zip(low, *means.values(), strict=True):
        scale = own.mean / at_low.mean if at_low.mean else 1.0
        most = high.most * scale + 2 * own.error
        figures.append(_order_figures((own.least, typical.mean * scale, most)))

    rates = zip(*figures, strict=True)
    return {name: StepRate(*rate) for name, rate in zip(ASSUMED, rates, strict=True)}


def _order_figures(figures: tuple[float, ...]) -> tuple[float, ...]:
    """Return the figures for low, typical and high, replacing low by their minimum and high by
    their maximum.

    Figures may be out of order, because times are measured and because an agent that has more to
    lose may do less.
    """
    _, typical, _ = figures
    return min(figures), typical, max(figures)


def _prompt_tokens(sizes: Sequence[StepSize], scenario: str) -> list[float]:
    """Return the tokens in the largest prompt of each step."""
    rate = ASSUMED[scenario].bytes_per_token
    return [size.largest.tokens(rate) for size in sizes]
