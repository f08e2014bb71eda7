"""Calls, cost and time of a run before anything is paid: by a measured step, or as its finished part has shown."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from ktdeval.calls.call_log import read_calls
from ktdeval.calls.prices import FREE, Price
from ktdeval.calls.record import ANSWERED, Spent
from ktdeval.config import RunConfig
from ktdeval.contracts.registration import check_registered
from ktdeval.contracts.task import Task
from ktdeval.harness.messages import USAGE_FIELDS, ToolProtocol, Usage, as_remote
from ktdeval.harness.session import TranscriptEntry
from ktdeval.plugin_import import call_foreign
from ktdeval.registry import Plugins
from ktdeval.runner.access import requested_protocol, run_price
from ktdeval.runner.canary import CANARIES, REPEATS
from ktdeval.runner.data_source import open_market
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.journal import count_said
from ktdeval.runner.measure import (
    ASSUMED,
    LEAST_OBSERVED,
    LOW,
    CallLimits,
    MeasuringModel,
    StepRate,
    assumed_rates,
    measure_scenarios,
    measure_warm_up,
    observed_rates,
    with_assumed_tokens,
)
from ktdeval.runner.plan import choose_tasks, make_plan
from ktdeval.runner.preflight import check_model
from ktdeval.runner.run import drawn_key_of, mask_key_of, recorded_run, run_manifest, run_path, with_model_settings
from ktdeval.runner.score import certificate_problem
from ktdeval.runner.store import ANOTHER_RUN, check_vacant
from ktdeval.trading.ledger import CountsRecord
from ktdeval.typed import Value

SCENARIOS = tuple(ASSUMED)  #: Low, typical and high, as in every `left`


class Amount(Value, frozen=True):
    """Calls, tokens, money and time of some steps. `cost_usd` is None where no price is known."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    hours: float


class Finished(Value, frozen=True):
    """Use of the finished steps of a task. `cost_usd` is that of their tokens, whether paid or cached; None where a price or
    tokens are not known.
    """

    steps: int
    calls: int
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None


class TaskEstimate(Value, frozen=True):
    """One task of a run."""

    name: str = msgspec.field(name="task")  #: the task
    episodes: int  #: planned
    steps: int  #: planned
    finished: Finished  #: use of the steps that are there already
    left: dict[str, Amount]  #: by scenario, what the other steps will take
    is_observed: bool  #: whether that follows from the finished steps, and not from assumptions


class Paid(Value, frozen=True):
    """US dollars that a run has paid so far, and those that it has possibly paid beyond them."""

    cost_usd: float
    possibly_usd: float


class RunEstimate(Value, frozen=True):
    """Estimate of a run, as `ktdeval plan` prints it."""

    model: str  #: its full name
    #: how tools will be offered; None for a model of this machine
    protocol: ToolProtocol | None = msgspec.field(name="tool_protocol")
    price: Price | None  #: of its tokens; None where none is known
    folder: str  #: where the run is, or will be
    concurrency: int  #: episodes at once
    tasks: tuple[TaskEstimate, ...]  #: one by one
    left: dict[str, Amount]  #: by scenario, what all of them will take together
    paid: Paid  #: by the run so far
    assumptions: tuple[str, ...]  #: what the figures rest on, a sentence each
    warnings: tuple[str, ...]  #: what will stop or refuse the run, or bend its figures, a sentence each


@dataclass(frozen=True)
class _TaskPart:
    """A task's estimate in the making: steps left by episode, and what each takes by scenario."""

    task: Task
    steps_left: Sequence[int]
    steps: int
    finished: Finished
    rates: Mapping[str, StepRate]
    is_observed: bool
    warm_up: Mapping[str, StepRate]  #: what comes before the first step of an episode
    fresh: Sequence[bool]  #: by episode, whether that is to come


class _Estimator:
    """Values that the estimates of a run's tasks share; `folder` is that of the same run where it was begun, else None."""

    def __init__(self, config: RunConfig, plugins: Plugins) -> None:
        self.config = config = with_model_settings(config, plugins)
        drawn = drawn_key_of(config)
        tasks = choose_tasks(config, plugins)
        self.model = plugins.make_model(config.model, config.model_args)
        self.remote = remote = as_remote(self.model)
        self.price = run_price(config, self.model)
        snapshot = open_market(plugins, config, tasks.values())
        self.path = run_path(config, make_plan(config, plugins, tasks, snapshot, None))
        check_vacant(self.path)
        recorded = recorded_run(self.path)
        requested = requested_protocol(config, self.path)
        self.protocol = None if remote is None else remote.protocols[0] if requested == "auto" else requested
        if drawn is not None:
            config = replace(config, mask_key=drawn.mask_key)
        config = replace(config, mask_key=config.mask_key or mask_key_of(recorded))
        self.plan = make_plan(config, plugins, tasks, snapshot, self.protocol)
        if drawn is not None:
            check_registered(self.plan.specs, drawn)
        manifest = run_manifest(config, self.plan, snapshot, remote, self.price, recorded)
        self.difference = "" if recorded is None else recorded.difference(manifest)
        self.folder = None if self.difference else recorded
        self.paid, latencies_s = Spent(), list[float]()
        for record in read_calls(self.folder.path) if self.folder is not None else ():
            self.paid = self.paid.plus(record)
            latencies_s += [record.latency_s] if record.outcome == ANSWERED else []
        self.limits = None if remote is None else CallLimits(config.max_output_tokens, config.timeout_s, latencies_s)
        self.factory = EpisodeFactory(tasks, plugins, snapshot)
        check_model(config.model, self.model, self.plan.specs, lambda: self.factory, plugins)
        self.parts = [self._part(task) for task in tasks.values()]

    def _part(self, task: Task) -> _TaskPart:
        specs = self.plan.specs_of(task.name)
        steps: list[CountsRecord] = []
        transcript: list[TranscriptEntry] = []
        steps_left, fresh, planned = list[int](), list[bool](), 0
        for spec in specs:
            total = self.factory.open(spec, MeasuringModel(LOW, 0)).total_steps
            done, entries = ((), ()) if self.folder is None else self.folder.load_recorded(spec)
            transcript += entries
            steps += done
            planned += total
            steps_left.append(max(total - len(done), 0))
            fresh.append(not done)
        sizes = measure_scenarios(specs[0], task, self.factory)
        where = f"task {task.name}: its warm-up can't be measured"
        before = call_foreign(measure_warm_up, where, specs[0], self.factory, sizes["low"])
        warm_up = assumed_rates(dict.fromkeys(SCENARIOS, before), self.limits)
        later = [pair for pair in zip(steps, transcript, strict=True) if pair[1].step or not before.requests]
        is_observed = len(later) >= LEAST_OBSERVED
        if is_observed:
            rates = observed_rates([step for step, _ in later], [entry for _, entry in later], sizes, self.limits)
            if self.price != FREE and count_said(entry for _, entry in later).uncounted:
                rates = with_assumed_tokens(rates, assumed_rates(sizes, self.limits))
        else:
            rates = assumed_rates(sizes, self.limits)
        usage = Usage(*(sum(getattr(step, name) for step in steps) for name in USAGE_FIELDS))
        is_counted = self.price == FREE or not count_said(transcript).uncounted
        cost_usd = self.price.cost(usage) if self.price is not None and is_counted else None
        calls = sum(len(entry.exchanges) for entry in transcript)
        finished = Finished(steps=len(steps), calls=calls, **usage.to_json(), cost_usd=cost_usd)
        return _TaskPart(task, steps_left, planned, finished, rates, is_observed, warm_up, fresh)

    def left(self, parts: Sequence[_TaskPart]) -> dict[str, Amount]:
        """Return by scenario what is left of some tasks together."""
        amounts = {}
        for scenario in SCENARIOS:
            loads = [
                (part.rates[scenario], steps, part.warm_up[scenario], fresh)
                for part in parts
                for steps, fresh in zip(part.steps_left, part.fresh, strict=True)
            ]
            calls, reads, writes = (
                round(math.fsum(getattr(rate, name) * steps + getattr(first, name) * fresh for rate, steps, first, fresh in loads))
                for name in ("calls", "input_tokens", "output_tokens")
            )
            durations = (rate.seconds * steps + first.seconds * fresh for rate, steps, first, fresh in loads)
            seconds = _makespan_s(durations, self.config.concurrency)
            if self.remote is not None:
                seconds = max(seconds, calls * self.config.call_gap_s)
            cost = None if self.price is None else self.price.cost(Usage(reads, writes))
            hours = round(seconds / 3600, 4)
            amounts[scenario] = Amount(calls=calls, input_tokens=reads, output_tokens=writes, cost_usd=cost, hours=hours)
        return amounts


def estimate_run(config: RunConfig, plugins: Plugins) -> RunEstimate:
    """Estimate the run of a config: asks no model, needs no key, and writes nothing. Raises KtdevalError where it can't work."""
    run = _Estimator(config, plugins)
    left = run.left(run.parts)
    tasks = [
        TaskEstimate(
            name=part.task.name,
            episodes=len(part.steps_left),
            steps=part.steps,
            finished=part.finished,
            left=run.left([part]),
            is_observed=part.is_observed,
        )
        for part in run.parts
    ]
    return RunEstimate(
        model=run.config.model,
        protocol=run.protocol,
        price=run.price,
        folder=str(run.path),
        concurrency=run.config.concurrency,
        tasks=tuple(tasks),
        left=left,
        paid=Paid(cost_usd=run.paid.cost_usd, possibly_usd=run.paid.possibly_usd),
        assumptions=tuple(_assumptions(run)),
        warnings=tuple(_warnings(left, run)),
    )


def _makespan_s(durations_s: Iterable[float], concurrency: int) -> float:
    """Seconds until the last episode ends, each started in order as soon as another one ends."""
    ends_s = [0.0] * concurrency
    for duration_s in durations_s:
        heapq.heapreplace(ends_s, ends_s[0] + duration_s)
    return max(ends_s)


def _assumptions(run: _Estimator) -> Iterator[str]:
    for part in run.parts:
        if part.is_observed:
            yield (
                f"{part.task.name}: typical is the mean of its {part.finished.steps:,} finished steps, "
                "low and high are their 10th and 90th percentiles"
            )
        if questions := round(part.warm_up[SCENARIOS[0]].calls):
            yield f"{part.task.name}: {questions} questions of a warm-up come before the first step of an episode"
    limits, scenarios = run.limits, ASSUMED.values()
    if limits is None:
        yield "a model of this machine: it is taken to count no tokens and to answer at once; hours are those of agent and tools"
        return
    if not all(part.is_observed for part in run.parts):
        yield from (
            "low: no research, one submission, no positions yet",
            "typical: half of the research calls (or a task's usual number), two a turn; one submission; "
            "positions as the task allows",
            "high: all research calls, one a turn; each submission valid at the last attempt; as many positions as the task allows",
            f"{' / '.join(f'{limits.reply_tokens(scenario):,}' for scenario in scenarios)} tokens a reply, reasoning included",
            f"{' / '.join(f'{scenario.prose_bytes:g}' for scenario in scenarios)} bytes a token in instructions, "
            f"{' / '.join(f'{scenario.data_bytes:g}' for scenario in scenarios)} in data",
        )
    if len(limits.latencies_s) >= LEAST_OBSERVED:
        yield f"{limits.call_s(ASSUMED['typical']):.2f} s a call, the mean of {len(limits.latencies_s):,} calls so far"
    else:
        yield f"{' / '.join(f'{limits.call_s(scenario):g}' for scenario in scenarios)} s a call"
    yield "hours are without waiting for rate limits and repeated attempts; cost is without a discount of a provider's prompt cache"
    yield f"besides, {2 * REPEATS * min(run.config.canary, len(CANARIES)):,} short questions at start and end (--canary)"
    if run.folder is None and run.config.tool_protocol == "auto" and run.remote and len(run.remote.protocols) > 1:
        yield f"tools are offered by {run.remote.protocols[0]}, unless a short check before the run finds that it does not work"


def _warnings(left: Mapping[str, Amount], run: _Estimator) -> Iterator[str]:
    config, paid = run.config, run.paid
    yield from run.plan.notes
    if run.difference:
        yield f"the folder {ANOTHER_RUN.format(run.difference)}; this one would be refused"
    elif config.certificate is not None and (problem := certificate_problem(run.path, config.certificate)):
        yield f"{problem}; this one would be refused"
    typical, high = left["typical"], left["high"]
    if config.max_cost is not None and typical.cost_usd is None:
        yield "--max-cost can't be kept without a price, so the run would be refused; give one with --price or --price-table"
    spent, tokens = paid.cost_usd + paid.possibly_usd, paid.input_tokens + paid.output_tokens
    budgets = (
        (config.max_cost, "--max-cost", [None if one.cost_usd is None else spent + one.cost_usd for one in (typical, high)]),
        (config.max_tokens, "--max-tokens", [tokens + one.input_tokens + one.output_tokens for one in (typical, high)]),
        (config.max_hours, "--max-hours", [one.hours for one in (typical, high)]),
    )
    for limit, option, (likely, most) in budgets:
        if limit is not None and likely is not None and most is not None and most > limit:
            yield f"{option} {limit:g} {'would' if likely > limit else 'might'} stop the run before its end, resumably"
