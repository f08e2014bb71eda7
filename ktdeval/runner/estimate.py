"""Calls, cost and time of a run before anything is paid: by a measured step, or as its finished part has shown."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ktdeval.calls.call_log import read_calls
from ktdeval.calls.prices import Price
from ktdeval.calls.record import ANSWERED, Spent
from ktdeval.cards.derive import FREE
from ktdeval.config import RunConfig
from ktdeval.contracts.task import Task
from ktdeval.harness.messages import USAGE_FIELDS, RemoteModel, ToolProtocol, Usage, as_remote
from ktdeval.harness.session import TranscriptEntry
from ktdeval.registry import Plugins
from ktdeval.runner.access import run_price
from ktdeval.runner.data_source import open_market
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.measure import (
    ASSUMED,
    LEAST_OBSERVED,
    LOW,
    CallLimits,
    MeasuringModel,
    StepRate,
    assumed_rates,
    measure_cases,
    observed_rates,
)
from ktdeval.runner.plan import Plan, choose_tasks, make_plan
from ktdeval.runner.run import run_path, with_base_url
from ktdeval.runner.store import RunFolder
from ktdeval.trading.ledger import CountsRecord
from ktdeval.typed import Value

CASES = tuple(ASSUMED)  #: Low, typical and high, as in every `left`


class Amount(Value, frozen=True):
    """Calls, tokens, money and time of some steps. `cost_usd` is None where no price is known."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    hours: float


class Finished(Value, frozen=True):
    """Use of the finished steps of a task. `cost_usd` is that of their tokens, whether paid or cached."""

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
    left: dict[str, Amount]  #: by case, what the other steps will take
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
    left: dict[str, Amount]  #: by case, what all of them will take together
    paid: Paid  #: by the run so far
    assumptions: tuple[str, ...]  #: what the figures rest on, a sentence each
    warnings: tuple[str, ...]  #: what will stop or refuse the run, a sentence each


@dataclass(frozen=True)
class _Shared:
    """Inputs that the estimates of all tasks share. `folder` is that of the same run where it was begun, else None."""

    config: RunConfig
    remote: RemoteModel | None
    price: Price | None
    plan: Plan
    folder: RunFolder | None
    limits: CallLimits | None
    factory: EpisodeFactory


@dataclass(frozen=True)
class _TaskPart:
    """A task's estimate in the making: steps left by episode, and what each takes by case."""

    task: Task
    steps_left: Sequence[int]
    steps: int
    finished: Finished
    rates: Mapping[str, StepRate]
    is_observed: bool


def estimate_run(config: RunConfig, plugins: Plugins) -> RunEstimate:
    """Estimate the run of a config: asks no model, needs no key, and writes nothing. Raises KtdevalError where it can't work."""
    config = with_base_url(config, plugins)
    tasks = choose_tasks(config, plugins)
    remote = as_remote(plugins.make_model(config.model, config.model_args))
    price = FREE if remote is None else run_price(config, remote)
    snapshot = open_market(plugins, config, tasks.values())
    unasked = make_plan(config, plugins, tasks, snapshot, None)
    path = run_path(config, unasked)
    recorded = RunFolder.load(path) if (path / "manifest.json").is_file() else None
    protocol = _protocol(config, remote, recorded)
    plan = unasked if protocol is None else make_plan(config, plugins, tasks, snapshot, protocol)
    is_same = recorded is not None and {spec.id for spec in recorded.manifest.specs} == {spec.id for spec in plan.specs}
    folder = recorded if is_same else None
    paid, latencies_s = _recorded_calls(folder)
    limits = None if remote is None else CallLimits(config.max_output_tokens, config.timeout_s, latencies_s)
    shared = _Shared(config, remote, price, plan, folder, limits, EpisodeFactory(tasks, plugins, snapshot))
    parts = [_task_part(task, shared) for task in tasks.values()]
    left = {case: _amount(parts, case, shared) for case in CASES}
    return RunEstimate(
        model=config.model,
        protocol=protocol,
        price=price,
        folder=str(path),
        concurrency=config.concurrency,
        tasks=tuple(_task_estimate(part, shared) for part in parts),
        left=left,
        paid=Paid(cost_usd=paid.cost_usd, possibly_usd=paid.possibly_usd),
        assumptions=tuple(_assumptions(parts, shared)),
        warnings=tuple(_warnings(left, paid, config, recorded is not None and not is_same)),
    )


def _protocol(config: RunConfig, remote: RemoteModel | None, recorded: RunFolder | None) -> ToolProtocol | None:
    """As in the run that is there, as wished, else the best that the model may turn out to speak."""
    if remote is None:
        return None
    if recorded is not None and (known := recorded.manifest.specs[0].call.get("tool_protocol")) is not None:
        found: ToolProtocol = known
        return found
    return remote.protocols[0] if config.tool_protocol == "auto" else config.tool_protocol


def _recorded_calls(folder: RunFolder | None) -> tuple[Spent, list[float]]:
    """Return what was paid, and the seconds of the calls that were answered."""
    spent, latencies_s = Spent(), []
    if folder is not None:
        for record in read_calls(folder.path):
            spent = spent.plus(record)
            if record.outcome == ANSWERED:
                latencies_s.append(record.latency_s)
    return spent, latencies_s


def _task_part(task: Task, shared: _Shared) -> _TaskPart:
    specs = shared.plan.specs_of(task.name)
    steps: list[CountsRecord] = []
    transcript: list[TranscriptEntry] = []
    steps_left, planned = [], 0
    for spec in specs:
        total = shared.factory.open(spec, MeasuringModel(LOW, 0)).total_steps
        done: Sequence[CountsRecord] = ()
        if shared.folder is not None:
            done, entries = shared.folder.load_recorded(spec)
            transcript += entries
        steps += done
        planned += total
        steps_left.append(max(total - len(done), 0))
    sizes = measure_cases(specs[0], task, shared.factory)
    is_observed = len(steps) >= LEAST_OBSERVED
    rates = observed_rates(steps, transcript, sizes, shared.limits) if is_observed else assumed_rates(sizes, shared.limits)
    return _TaskPart(task, steps_left, planned, _finished(steps, transcript, shared.price), rates, is_observed)


def _finished(steps: Sequence[CountsRecord], transcript: Sequence[TranscriptEntry], price: Price | None) -> Finished:
    usage = Usage(*(sum(getattr(step, name) for step in steps) for name in USAGE_FIELDS))
    calls = sum(len(entry.exchanges) for entry in transcript)
    cost_usd = None if price is None else price.cost(usage)
    return Finished(steps=len(steps), calls=calls, **usage.to_json(), cost_usd=cost_usd)


def _task_estimate(part: _TaskPart, shared: _Shared) -> TaskEstimate:
    left = {case: _amount([part], case, shared) for case in CASES}
    return TaskEstimate(
        name=part.task.name,
        episodes=len(part.steps_left),
        steps=part.steps,
        finished=part.finished,
        left=left,
        is_observed=part.is_observed,
    )


def _amount(parts: Sequence[_TaskPart], case: str, shared: _Shared) -> Amount:
    """Return the amount that is left of some tasks together."""
    loads = [(part.rates[case], steps) for part in parts for steps in part.steps_left]
    calls = round(sum(rate.calls * steps for rate, steps in loads))
    usage = Usage(
        round(sum(rate.input_tokens * steps for rate, steps in loads)),
        round(sum(rate.output_tokens * steps for rate, steps in loads)),
    )
    seconds = _makespan_s((rate.seconds * steps for rate, steps in loads), shared.config.concurrency)
    if shared.remote is not None:
        seconds = max(seconds, calls * shared.config.call_gap_s)
    cost = None if shared.price is None else shared.price.cost(usage)
    hours = round(seconds / 3600, 4)
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return Amount(calls=calls, **tokens, cost_usd=cost, hours=hours)


def _makespan_s(durations_s: Iterable[float], concurrency: int) -> float:
    """Seconds until the last episode ends, each started in order as soon as a place is free."""
    places = [0.0] * concurrency
    for duration_s in durations_s:
        heapq.heapreplace(places, places[0] + duration_s)
    return max(places)


def _assumptions(parts: Sequence[_TaskPart], shared: _Shared) -> Iterator[str]:
    """Yield the assumptions of the figures."""
    for part in parts:
        if part.is_observed:
            yield (
                f"{part.task.name}: typical is the mean of its {part.finished.steps:,} finished steps, "
                "low and high are their 10th and 90th percentiles"
            )
    limits = shared.limits
    if limits is None:
        yield "a model of this machine: it is taken to count no tokens and to answer at once; hours are those of agent and tools"
        return
    if not all(part.is_observed for part in parts):
        yield from _assumed_words(limits)
    if len(limits.latencies_s) >= LEAST_OBSERVED:
        yield f"{limits.call_s(ASSUMED['typical']):.2f} s a call, the mean of {len(limits.latencies_s):,} calls so far"
    else:
        yield f"{_by_case(f'{limits.call_s(case):g}' for case in ASSUMED.values())} s a call"
    yield "hours are without waiting for rate limits and repeated attempts; cost is without a discount of a provider's prompt cache"
    yield f"besides, {4 * shared.config.canary:,} short questions at start and end (--canary)"
    if shared.folder is None and shared.config.tool_protocol == "auto" and shared.remote and len(shared.remote.protocols) > 1:
        yield f"tools are offered by {shared.remote.protocols[0]}, unless a short check before the run finds that it does not work"


def _assumed_words(limits: CallLimits) -> Iterator[str]:
    """Yield the meaning of the cases where nothing was seen of the model yet."""
    cases = ASSUMED.values()
    yield "low: no research, one submission, no positions yet"
    yield "typical: half of the research calls (or a task's usual number), two a turn; one submission; positions as the task allows"
    yield "high: all research calls, one a turn; every submission invalid until none is left; as many positions as the task allows"
    yield f"{_by_case(f'{limits.reply_tokens(case):,}' for case in cases)} tokens a reply, reasoning included"
    yield (
        f"{_by_case(f'{case.prose_bytes:g}' for case in cases)} bytes a token in instructions, "
        f"{_by_case(f'{case.data_bytes:g}' for case in cases)} in data"
    )


def _by_case(words: Iterable[str]) -> str:
    return " / ".join(words)


def _warnings(left: Mapping[str, Amount], paid: Spent, config: RunConfig, is_other: bool) -> Iterator[str]:
    """Yield what will stop or refuse the run."""
    if is_other:
        yield "the folder holds another run, so this one would be refused; choose another --out, or the command that began it"
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
