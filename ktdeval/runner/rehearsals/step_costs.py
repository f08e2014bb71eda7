"""Costs of a step of a task by window and scenario, measured without a model on some of its days."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.runner.rehearsals.conversation_size import (
    ASSUMED,
    CallLimits,
    StepRate,
    StepSize,
    assumed_rates,
)
from ktdeval.runner.rehearsals.estimate_sampling import EstimatedMean, SampledDays
from ktdeval.runner.rehearsals.rehearsal import FirstStep, by_window
from ktdeval.task_api.episode_spec import Window

Sizes = Mapping[str, Sequence[StepSize]]  # by scenario, of the measured steps
_LOW, _TYPICAL, _HIGH = ASSUMED


@dataclass(frozen=True)
class MeasuredTask:
    """What the steps of a task take."""

    #: by window and scenario, costs of a step; low is nowhere above typical, nor typical above high
    rates: Mapping[Window | None, Mapping[str, StepRate]]
    #: by scenario, tokens of the largest prompt of a step: the smallest of them, the mean, the
    #: largest
    largest: Mapping[str, int]
    own_s: Mapping[str, float]  #: by scenario, seconds of agent, tools and mask in a step


def measure_task(rehearsal: Sequence[FirstStep], limits: CallLimits | None) -> MeasuredTask:
    """Measure steps of a task's windows: in all scenarios in the first window, in the low one in the
    others, to which the distance of the scenarios is carried over. Raises PluginError: task, agent
    or tool fail at it.
    """
    spec = rehearsal[0].spec
    where = f"task {spec.task}, agent {spec.agent}: a step can't be measured"
    measured: MeasuredTask = call_foreign(_measured, where, rehearsal, limits)
    return measured


def _measured(rehearsal: Sequence[FirstStep], limits: CallLimits | None) -> MeasuredTask:
    reference = _ReferenceWindow(rehearsal[0], limits)
    rates: dict[Window | None, Mapping[str, StepRate]] = {}
    low_prompts = {}
    for window, first in by_window(rehearsal).items():
        low = first.sizes(ASSUMED[_LOW].behaviour)
        rates[window] = reference.rates_of(first.days, low)
        low_prompts[window] = [_largest(size, _LOW) for size in low]

    longest = max(map(max, low_prompts.values())) / max(
        max(low_prompts[rehearsal[0].spec.window]), 1.0
    )
    typical = statistics.fmean(_largest(size, _TYPICAL) for size in reference.sizes[_TYPICAL])
    most = max(_largest(size, _HIGH) for size in reference.sizes[_HIGH])
    tokens = (min(map(min, low_prompts.values())), typical, most * longest)
    own_s = {name: _own_s(sizes) for name, sizes in reference.sizes.items()}
    return MeasuredTask(
        rates=rates,
        largest=dict(zip(ASSUMED, map(round, _ordered(tokens)), strict=True)),
        own_s=dict(zip(ASSUMED, _ordered(tuple(own_s.values())), strict=True)),
    )


class _ReferenceWindow:
    """The window in which all scenarios are measured."""

    def __init__(self, first: FirstStep, limits: CallLimits | None) -> None:
        self.sizes: Sizes = {
            name: first.sizes(scenario.behaviour) for name, scenario in ASSUMED.items()
        }
        self._limits = limits
        self._estimated = {
            name: _estimated(first.days, sizes, name, limits) for name, sizes in self.sizes.items()
        }

    def rates_of(self, days: SampledDays, low: Sequence[StepSize]) -> dict[str, StepRate]:
        """Return the costs of a step of a window from its steps in the low scenario."""
        figures: list[tuple[float, ...]] = []
        own = _estimated(days, low, _LOW, self._limits)
        for place, estimate in enumerate(own):
            at_low, typical, high = (self._estimated[name][place] for name in ASSUMED)
            scale = estimate.mean / at_low.mean if at_low.mean else 1.0
            most = high.most * scale + 2 * estimate.error
            figures.append(_ordered((estimate.least, typical.mean * scale, most)))

        return {
            name: StepRate(*rate)
            for name, rate in zip(ASSUMED, zip(*figures, strict=True), strict=True)
        }


def _estimated(
    days: SampledDays, sizes: Sequence[StepSize], scenario: str, limits: CallLimits | None
) -> list[EstimatedMean]:
    """Estimate each figure of `StepRate` over all days of a window."""
    rates = [assumed_rates(dict.fromkeys(ASSUMED, size), limits)[scenario] for size in sizes]
    return [days.over_all(values) for values in zip(*map(astuple, rates), strict=True)]


def _ordered(figures: tuple[float, ...]) -> tuple[float, ...]:
    """Return figures of low, typical and high with low as the least and high as the largest of
    them: seconds are measured, and an agent may do less where it has more to lose.
    """
    _, typical, _ = figures
    return min(figures), typical, max(figures)


def _largest(size: StepSize, scenario: str) -> float:
    return size.largest.tokens(ASSUMED[scenario].bytes_per_token)


def _own_s(sizes: Sequence[StepSize]) -> float:
    return statistics.fmean(size.seconds for size in sizes)
