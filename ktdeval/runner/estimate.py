"""What a run would ask, cost and take, before anything is paid: by a measured step, or as its finished part has shown."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.calls.book import ANSWERED, Spent, read_calls
from ktdeval.calls.prices import Price
from ktdeval.cards.cost import FREE, usage_of
from ktdeval.config import RunConfig
from ktdeval.harness.messages import ToolProtocol, Usage
from ktdeval.harness.provider import RemoteModel, as_remote
from ktdeval.jsonio import JsonValue
from ktdeval.registry import Plugins
from ktdeval.runner.access import run_price
from ktdeval.runner.data_source import open_snapshot
from ktdeval.runner.measure import LOW, MeasuringModel
from ktdeval.runner.opening import Opener
from ktdeval.runner.plan import Plan, choose_tasks, make_plan
from ktdeval.runner.rates import ASSUMED, LEAST_OBSERVED, CallLimits, StepRate, assumed_rates, measure_cases, observed_rates
from ktdeval.runner.run import run_path, with_base_url
from ktdeval.runner.store import CALLS, RunFolder
from ktdeval.runner.task import Task
from ktdeval.trading.ledger import StepRecord

CASES = tuple(ASSUMED)
"""Low, typical and high, as in every `left`."""


@dataclass(frozen=True)
class Amount:
    """What some steps take. `cost_usd` is None where no price is known."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    hours: float

    def to_json(self) -> dict[str, JsonValue]:
        """All fields by name."""
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
            "hours": self.hours,
        }


@dataclass(frozen=True)
class Finished:
    """What the finished steps of a task used. `cost_usd` is that of their tokens, whether paid or cached."""

    steps: int
    calls: int
    usage: Usage
    cost_usd: float | None

    def to_json(self) -> dict[str, JsonValue]:
        """All fields by name."""
        return {"steps": self.steps, "calls": self.calls, **self.usage.to_json(), "cost_usd": self.cost_usd}


@dataclass(frozen=True)
class TaskEstimate:
    """One task of a run.

    Attributes:
        name: the task.
        episodes: planned.
        steps: planned.
        finished: what is there already.
        left: by case, what the other steps will take.
        is_observed: whether that follows from the finished steps, and not from assumptions.
    """

    name: str
    episodes: int
    steps: int
    finished: Finished
    left: Mapping[str, Amount]
    is_observed: bool

    def to_json(self) -> dict[str, JsonValue]:
        """All fields by name."""
        left = {case: amount.to_json() for case, amount in self.left.items()}
        sizes = {"task": self.name, "episodes": self.episodes, "steps": self.steps}
        return {**sizes, "finished": self.finished.to_json(), "left": left, "is_observed": self.is_observed}


@dataclass(frozen=True)
class RunEstimate:
    """What `ktdeval plan` says.

    Attributes:
        model: its full name.
        protocol: how tools will be offered; None for a model of this machine.
        price: of its tokens; None where none is known.
        folder: where the run is, or will be.
        concurrency: episodes at once.
        tasks: one by one.
        left: by case, what all of them will take together.
        paid: what the run has paid so far.
        assumptions: what the figures rest on, a sentence each.
        warnings: what will stop or refuse the run, a sentence each.
    """

    model: str
    protocol: ToolProtocol | None
    price: Price | None
    folder: Path
    concurrency: int
    tasks: tuple[TaskEstimate, ...]
    left: Mapping[str, Amount]
    paid: Spent
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """All fields by name."""
        return {
            "model": self.model,
            "tool_protocol": self.protocol,
            "price": None if self.price is None else self.price.to_json(),
            "folder": str(self.folder),
            "concurrency": self.concurrency,
            "tasks": [task.to_json() for task in self.tasks],
            "left": {case: amount.to_json() for case, amount in self.left.items()},
            "paid": {"cost_usd": self.paid.cost_usd, "possibly_usd": self.paid.possibly_usd},
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class _Shared:
    """What estimates of all tasks share. `folder` is that of the same run where it was begun, else None."""

    config: RunConfig
    remote: RemoteModel | None
    price: Price | None
    plan: Plan
    folder: RunFolder | None
    limits: CallLimits | None
    opener: Opener


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
    """What the run of a config would take. Asks no model, needs neither key nor SDK, and writes nothing into a run folder.

    Raises:
        KtdevalError: anything in the config that can't work, in one line; or the part that is finished can't be read.
    """
    config = with_base_url(config, plugins)
    tasks = choose_tasks(config, plugins)
    remote = as_remote(plugins.make_model(config.model, config.model_args))
    price = FREE if remote is None else run_price(config, remote)
    snapshot = open_snapshot(plugins, config.data, config.data_args)
    unasked = make_plan(config, plugins, tasks, snapshot, None)
    path = run_path(config, unasked)
    recorded = RunFolder.load(path) if (path / "manifest.json").is_file() else None
    protocol = _protocol(config, remote, recorded)
    plan = unasked if protocol is None else make_plan(config, plugins, tasks, snapshot, protocol)
    is_same = recorded is not None and {spec.id for spec in recorded.manifest.specs} == {spec.id for spec in plan.specs}
    folder = recorded if is_same else None
    paid, latencies_s = _book(folder)
    limits = None if remote is None else CallLimits(config.max_output_tokens, config.timeout_s, latencies_s)
    shared = _Shared(config, remote, price, plan, folder, limits, Opener(tasks, plugins, snapshot))
    parts = [_task_part(task, shared) for task in tasks.values()]
    left = {case: _amount(parts, case, shared) for case in CASES}
    return RunEstimate(
        model=config.model,
        protocol=protocol,
        price=price,
        folder=path,
        concurrency=config.concurrency,
        tasks=tuple(_task_estimate(part, shared) for part in parts),
        left=left,
        paid=paid,
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


def _book(folder: RunFolder | None) -> tuple[Spent, list[float]]:
    """What was paid, and how long the calls took that were answered."""
    spent, latencies_s = Spent(), []
    if folder is not None:
        for record in read_calls(folder.path / CALLS):
            spent = spent.plus(record)
            if record.outcome == ANSWERED:
                latencies_s.append(record.latency_s)
    return spent, latencies_s


def _task_part(task: Task, shared: _Shared) -> _TaskPart:
    specs = shared.plan.specs_of(task.name)
    steps: list[StepRecord] = []
    transcript: list[JsonValue] = []
    steps_left, planned = [], 0
    for spec in specs:
        total = shared.opener.open(spec, MeasuringModel(LOW, 0)).total_steps
        done: Sequence[StepRecord] = ()
        if shared.folder is not None:
            done, entries = shared.folder.load_recorded(spec)
            transcript += entries
        steps += done
        planned += total
        steps_left.append(max(total - len(done), 0))
    sizes = measure_cases(specs[0], task, shared.opener)
    is_observed = len(steps) >= LEAST_OBSERVED
    rates = observed_rates(steps, transcript, sizes, shared.limits) if is_observed else assumed_rates(sizes, shared.limits)
    return _TaskPart(task, steps_left, planned, _finished(steps, transcript, shared.price), rates, is_observed)


def _finished(steps: Sequence[StepRecord], transcript: Sequence[JsonValue], price: Price | None) -> Finished:
    usage = sum(map(usage_of, steps), Usage())
    calls = sum(len(entry["exchanges"]) for entry in transcript)
    return Finished(len(steps), calls, usage, None if price is None else price.cost(usage))


def _task_estimate(part: _TaskPart, shared: _Shared) -> TaskEstimate:
    left = {case: _amount([part], case, shared) for case in CASES}
    return TaskEstimate(part.task.name, len(part.steps_left), part.steps, part.finished, left, part.is_observed)


def _amount(parts: Sequence[_TaskPart], case: str, shared: _Shared) -> Amount:
    """What is left of some tasks together."""
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
    return Amount(calls, usage.input_tokens, usage.output_tokens, cost, round(seconds / 3600, 4))


def _makespan_s(durations_s: Iterable[float], concurrency: int) -> float:
    """Seconds until the last episode ends, each started in order as soon as a place is free."""
    places = [0.0] * concurrency
    for duration_s in durations_s:
        heapq.heapreplace(places, places[0] + duration_s)
    return max(places)


def _assumptions(parts: Sequence[_TaskPart], shared: _Shared) -> Iterator[str]:
    """What the figures rest on."""
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
    """What the cases stand for where nothing was seen of the model yet."""
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
    """What will stop or refuse the run."""
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
