"""What one step of a run takes: by assumptions about a model, or as its finished steps have shown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.contracts.task import Task
from ktdeval.harness.session import TranscriptEntry
from ktdeval.plugin_import import call_foreign
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.measure import HIGH, LOW, TYPICAL, Behaviour, StepSize, measure_step
from ktdeval.trading.ledger import CountsRecord

LEAST_OBSERVED = 5  #: Finished steps, or answered calls, from which on their own figures take the place of assumptions


@dataclass(frozen=True)
class Case:
    """Assumptions about a model that nothing was seen of yet. Bytes a token were measured with the tokenizers cl100k_base and
    o200k_base on conversations of the built-in tasks: 3.9 in system prompts, 3.5 in tool descriptions, 1.9 to 2.7 in tables of
    figures, and 1.4 to 2.0 in these where each digit is a token of its own. Eight seconds a call are what an 18-hour run over three
    times 548 days leaves for each of five calls a day.
    """

    behaviour: Behaviour  #: how it goes through a step
    prose_bytes: float  #: UTF-8 bytes a token of system prompts and tool descriptions
    data_bytes: float  #: UTF-8 bytes a token of all other messages
    reply_tokens: int | None  #: tokens of a reply, reasoning included; None: as many as are allowed
    call_s: float  #: seconds of a call


ASSUMED: Mapping[str, Case] = {
    "low": Case(LOW, prose_bytes=4.2, data_bytes=2.7, reply_tokens=150, call_s=2.0),
    "typical": Case(TYPICAL, prose_bytes=3.7, data_bytes=2.3, reply_tokens=600, call_s=8.0),
    "high": Case(HIGH, prose_bytes=3.3, data_bytes=1.5, reply_tokens=None, call_s=30.0),
}


@dataclass(frozen=True)
class StepRate:
    """Costs of one step: model calls, tokens of all of them together, seconds."""

    calls: float
    input_tokens: float
    output_tokens: float
    seconds: float


@dataclass(frozen=True)
class CallLimits:
    """Bounds of a model call: its longest reply in tokens, its longest time, and how long calls took that were answered."""

    max_output_tokens: int
    timeout_s: float
    latencies_s: Sequence[float] = ()

    def reply_tokens(self, case: Case) -> int:
        """Tokens of a reply in this case."""
        most = self.max_output_tokens
        return most if case.reply_tokens is None else min(case.reply_tokens, most)

    def call_s(self, case: Case) -> float:
        """Seconds of a call: as it was found, else as assumed in this case."""
        if len(self.latencies_s) >= LEAST_OBSERVED:
            return statistics.fmean(self.latencies_s)
        return min(case.call_s, self.timeout_s)


def measure_cases(spec: EpisodeSpec, task: Task, opener: EpisodeFactory) -> dict[str, StepSize]:
    """A step of one episode by case. Raises PluginError: task, agent or tool fail at it."""
    where = f"task {spec.task}, agent {spec.agent}: a step can't be measured"
    return {name: call_foreign(measure_step, where, spec, task, opener, case.behaviour) for name, case in ASSUMED.items()}


def assumed_rates(sizes: Mapping[str, StepSize], limits: CallLimits | None) -> dict[str, StepRate]:
    """Costs of a step by the assumptions of each case. `sizes`: from `measure_cases`; `limits`: of a call; None for a model of this
    machine, which counts no tokens and is taken to answer at once.
    """
    rates = {}
    for name, case in ASSUMED.items():
        size = sizes[name]
        if limits is None:
            rates[name] = StepRate(size.requests, 0, 0, size.seconds)
            continue
        rates[name] = StepRate(
            calls=size.requests,
            input_tokens=size.prose_bytes / case.prose_bytes + size.data_bytes / case.data_bytes,
            output_tokens=size.requests * limits.reply_tokens(case),
            seconds=size.requests * limits.call_s(case) + size.seconds,
        )
    return rates


def observed_rates(
    steps: Sequence[CountsRecord], transcript: Sequence[TranscriptEntry], sizes: Mapping[str, StepSize], limits: CallLimits | None
) -> dict[str, StepRate]:
    """Costs of a step as the finished ones had: typical is their mean, low and high are their tenth and ninetieth percentiles.
    `steps`: records of finished steps, at least `LEAST_OBSERVED`; `transcript`: their transcript entries; `sizes`: from
    `measure_cases`; for the time of agent and tools; `limits`: as in `assumed_rates`.
    """
    calls = _spread([len(entry.exchanges) for entry in transcript])
    tokens_in, tokens_out = (_spread([getattr(record, name) for record in steps]) for name in ("input_tokens", "output_tokens"))
    return {
        name: StepRate(
            calls=calls[name],
            input_tokens=tokens_in[name],
            output_tokens=tokens_out[name],
            seconds=sizes[name].seconds + (0.0 if limits is None else calls[name] * limits.call_s(case)),
        )
        for name, case in ASSUMED.items()
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Mean between the tenth and ninetieth percentiles, which of skewed figures it may lie outside of."""
    tenths, mean = statistics.quantiles(values, n=10, method="inclusive"), statistics.fmean(values)
    return {"low": min(tenths[0], mean), "typical": mean, "high": max(tenths[-1], mean)}
