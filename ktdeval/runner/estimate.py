"""Estimates of a run's calls, cost and time before anything is paid, based on measured steps or on
the run's finished steps.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import cast

from ktdeval.calls.costs.prices import FREE, Price, unlisted_name
from ktdeval.calls.costs.prompt_cache import USUAL_RULES, PromptCacheRules
from ktdeval.calls.failures.context_refusals import KIND as CONTEXT_EXCEEDED
from ktdeval.calls.records.call_log import read_calls
from ktdeval.calls.records.record import ANSWERED, Spent
from ktdeval.harness.call_params import MAX_REPLY_TOKENS
from ktdeval.harness.chat_messages import USAGE_FIELDS, RemoteModel, ToolProtocol, Usage, as_remote
from ktdeval.harness.traits import model_traits
from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.episodes.episode_execution import EpisodeFactory
from ktdeval.runner.estimate_values import Amount, Finished, RunEstimate, TaskEstimate
from ktdeval.runner.execution.batched_calls import (
    HOURS,
    batches_in_a_row,
    check_batch,
    check_batch_calls,
)
from ktdeval.runner.execution.run import run_path
from ktdeval.runner.models.model_connection import requested_protocol, run_price
from ktdeval.runner.models.model_drift import CANARIES, REPEATS
from ktdeval.runner.plans.additional_models import (
    RunModel,
    choices,
    further_models,
    own_model,
    planned_context,
)
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.data_source import open_market
from ktdeval.runner.plans.mask_keys import drawn_key_of
from ktdeval.runner.plans.model_settings import with_model_settings
from ktdeval.runner.plans.new_manifest import run_manifest
from ktdeval.runner.plans.outside_agents import outside_note
from ktdeval.runner.plans.plan import Plan, as_recorded, choose_tasks, make_plan
from ktdeval.runner.plans.plan_growth import growth_of
from ktdeval.runner.records.leaderboard_registration import DrawnKey, check_registered
from ktdeval.runner.records.run_claim import check_vacant
from ktdeval.runner.records.run_folder import RunFolder, mask_key_of, recorded_run
from ktdeval.runner.records.run_manifest import ANOTHER_RUN
from ktdeval.runner.records.transcript_counts import count_said
from ktdeval.runner.rehearsals.context_check import context_warnings
from ktdeval.runner.rehearsals.conversation_size import (
    ASSUMED,
    MIN_OBSERVED,
    NOTHING,
    CallLimits,
    FinishedStep,
    StepRate,
    observed_rates,
)
from ktdeval.runner.rehearsals.model_task_fit import check_model
from ktdeval.runner.rehearsals.rehearsal import FirstStep, by_task, rehearse
from ktdeval.runner.rehearsals.server_speed import (
    ServerSpeed,
    is_on_this_machine,
    server_speed,
)
from ktdeval.runner.rehearsals.step_costs import measure_task
from ktdeval.runner.rehearsals.warm_up_calls import WarmUpRates, warm_up_lines, warm_up_rates
from ktdeval.runner.scoring.score import certificate_problem
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.scoring import is_scoring
from ktdeval.task_api.trading_task import Task

SCENARIOS = tuple(ASSUMED)  #: low, typical and high: the keys of each `left`


@dataclass(frozen=True)
class _EpisodeLeft:
    """Remaining steps of an episode, and their costs."""

    steps: int
    costs: Mapping[str, StepRate]  #: costs of these steps and of a warm-up before them, by scenario
    #: number of steps that can run in parallel: all steps of a scoring task, else 1
    independent: int


@dataclass(frozen=True)
class _TaskPart:
    """Task of a run, with the data behind its estimate."""

    task: Task
    rehearsal: Sequence[FirstStep]
    warm_ups: WarmUpRates  #: warm-up costs of its episodes
    episodes: Sequence[_EpisodeLeft]
    estimate: TaskEstimate


def _as_known(plan: Plan, drawn: DrawnKey | None, recorded: RunFolder | None) -> Plan:
    """Return a plan with the episodes as a run records them. Raises UsageError if the plan differs
    from the registered one.
    """
    if drawn is not None:
        check_registered(plan.specs, drawn)
    if recorded is None:
        return plan
    return replace(plan, specs=as_recorded(plan.specs, recorded.manifest.specs))


class _Estimator:
    """Values shared by task estimates. `folder`: None if the run is new or would be refused."""

    def __init__(self, config: RunConfig, plugins: Plugins) -> None:
        self.config = config = with_model_settings(config, plugins)
        drawn = drawn_key_of(config)
        tasks = choose_tasks(config, plugins)
        check_batch(config, plugins)
        self.model = own_model(config, plugins)
        self.remote = remote = as_remote(self.model)
        self.price = run_price(config, self.model)
        further = further_models(config, plugins)
        snapshot = open_market(plugins, config, tasks.values())
        draft = make_plan(config, plugins, tasks, snapshot, None, choices(further))
        self.path = run_path(config, draft)
        check_vacant(self.path)
        recorded = recorded_run(self.path)
        self.protocol = self._protocol(remote, requested_protocol(config, self.path))
        self.further = tuple(map(self._offer_protocol, further))
        if drawn is not None:
            config = replace(config, mask_key=drawn.mask_key)

        config = replace(config, mask_key=config.mask_key or mask_key_of(recorded))
        asked = choices(self.further)
        planned = make_plan(config, plugins, tasks, snapshot, self.protocol, asked)
        self.plan = _as_known(planned, drawn, recorded)
        manifest = run_manifest(config, self.plan, snapshot, remote, self.price, recorded)
        self.outside_note = outside_note(config, plugins)
        self.difference = ""
        if recorded is not None:
            self.difference = recorded.difference(manifest, growth_of(config))

        self.folder = None if self.difference else recorded
        self.paid = Spent()
        #: number of calls so far in which the prompt exceeded the model's context length
        self.too_long = 0
        latencies_s = self._read_calls()

        self.limits = None
        self.speed = self._server_speed()
        self.context = None
        if remote is not None:
            self.limits = CallLimits(
                _reply_limit(config), config.timeout_s, latencies_s, self._cache_rules()
            )
            self.context = planned_context(config, remote)

        rehearsal = rehearse(self.plan.specs, lambda: EpisodeFactory(tasks, plugins, snapshot))
        self._check_rehearsed(rehearsal, plugins)
        steps = by_task(rehearsal)
        self.parts = [self._part(task, steps[task.name]) for task in tasks.values()]

    def _server_speed(self) -> ServerSpeed | None:
        """Return the speed of a server on this machine, as the run's calls so far show it."""
        if self.remote is None or self.folder is None or not self.is_on_this_machine:
            return None
        return server_speed(read_calls(self.folder.path))

    def _cache_rules(self) -> PromptCacheRules | None:
        """Return the rules of the provider's prompt cache; the usual ones if they are unknown but
        cached tokens have a price, else None. None for a run in batches, which can't rely on it.
        """
        if self.config.batch:  # requests in a batch are answered in any order
            return None

        rules = model_traits(self.model).prompt_cache
        if isinstance(rules, PromptCacheRules):
            return rules
        if self.only_price is not None and self.only_price.cache_read is not None:
            return USUAL_RULES
        return None

    def _check_rehearsed(self, rehearsal: Sequence[FirstStep], plugins: Plugins) -> None:
        """Raise UsageError if the model can't handle the first steps."""
        check_model(self.config.model, self.model, rehearsal, plugins)
        check_batch_calls(self.config, rehearsal)

    def _protocol(self, remote: RemoteModel | None, requested: str) -> ToolProtocol | None:
        """Return the protocol by which tools will be offered to a model; None for a local model."""
        if remote is None:
            return None
        if requested == "auto":
            return remote.protocols[0]
        return cast("ToolProtocol", requested)

    def _offer_protocol(self, model: RunModel) -> RunModel:
        """Return an additional model with the protocol by which tools will be offered to it."""
        requested = requested_protocol(self.config, self.path, model.choice.asked_as)
        return model.offered_by(self._protocol(model.remote, requested))

    @property
    def is_on_this_machine(self) -> bool:
        """True if the model's server is on this machine or its private network, and not paid for."""
        remote = self.remote
        is_paid = self.price is not None and self.price != FREE
        return remote is not None and not is_paid and is_on_this_machine(remote.endpoint)

    def _read_calls(self) -> list[float]:
        """Add up the run's calls so far, and return the latencies in seconds of answered calls."""
        latencies_s: list[float] = []
        if self.folder is None:
            return latencies_s

        for record in read_calls(self.folder.path):
            self.paid = self.paid.plus(record)
            # excludes batches, whose latency is mostly queueing time
            if record.outcome == ANSWERED:
                latencies_s.append(record.latency_s)
            if record.outcome == CONTEXT_EXCEEDED:
                self.too_long += 1

        return latencies_s

    def _part(self, task: Task, rehearsal: Sequence[FirstStep]) -> _TaskPart:
        """Estimate a task from measured first steps, or from its finished steps if there are enough
        of them.
        """
        measured = measure_task(rehearsal, self.limits)
        where = f"task {task.name}: its warm-up can't be measured"
        warm_ups = call_foreign(warm_up_rates, where, rehearsal, self.limits)
        done = [self._finished_steps(first.spec) for first in rehearsal]
        usual = _usual_steps(rehearsal, done, warm_ups)
        is_observed = len(usual) >= MIN_OBSERVED
        rates = dict(measured.rates)
        if is_observed:
            are_counted = self._are_counted(usual)
            for window, assumed in measured.rates.items():
                rates[window] = observed_rates(assumed, usual, are_counted=are_counted)

        episodes = []
        for first, finished in zip(rehearsal, done, strict=True):
            steps = max(first.total_steps - len(finished), 0)
            costs = {}
            for scenario, rate in rates[first.spec.window].items():
                before = measured.first[first.spec.window][scenario]
                if not finished:
                    before = before.times(1, warm_ups[first.spec.window][scenario])

                costs[scenario] = rate.times(steps, before if steps else NOTHING)

            independent = steps if is_scoring(task) else min(steps, 1)
            episodes.append(_EpisodeLeft(steps, costs, independent))

        estimate = TaskEstimate(
            name=task.name,
            episodes=len(episodes),
            steps=sum(first.total_steps for first in rehearsal),
            finished=self._sum_finished(list(chain.from_iterable(done))),
            left=self.sum_rest(episodes),
            largest_prompt=None if self.remote is None else dict(measured.largest),
            is_observed=is_observed,
        )
        return _TaskPart(task, rehearsal, warm_ups, episodes, estimate)

    def _finished_steps(self, spec: EpisodeSpec) -> list[FinishedStep]:
        """Return the finished steps of an episode."""
        if self.folder is None:
            return []
        records, entries = self.folder.load_recorded(spec)
        return [FinishedStep(*step) for step in zip(records, entries, strict=True)]

    def _are_counted(self, steps: Sequence[FinishedStep]) -> bool:
        """Return whether all replies' tokens were counted; a free model needs no counts."""
        return self.price == FREE or not count_said(step.entry for step in steps).uncounted

    def _sum_finished(self, steps: Sequence[FinishedStep]) -> Finished:
        """Return the total usage of finished steps."""
        usage = Usage()
        calls = 0
        for record, entry in steps:
            usage += Usage(*(getattr(record, name) for name in USAGE_FIELDS))
            calls += len(entry.exchanges)

        cost_usd = None
        price = self.only_price
        if price is not None and self._are_counted(steps):
            cost_usd = price.cost(usage)

        return Finished(steps=len(steps), calls=calls, cost_usd=cost_usd, **usage.to_json())

    @property
    def caches_prompts(self) -> bool:
        """True if the rules of the provider's prompt cache are known or assumed."""
        return self.limits is not None and self.limits.cache_rules is not None

    @property
    def only_price(self) -> Price | None:
        """Price of all tokens; None if it is unknown, or if the run has additional models."""
        return None if self.further else self.price

    def sum_rest(self, episodes: Sequence[_EpisodeLeft]) -> dict[str, Amount]:
        """Return the remaining usage of some episodes together, by scenario."""
        return {scenario: self._estimate_rest(episodes, scenario) for scenario in SCENARIOS}

    def _calls_s(self, cost: StepRate, scenario: str) -> float:
        """Return the seconds that the model calls of some steps take."""
        if self.speed is not None:
            fresh = max(0.0, cost.input_tokens - cost.cache_read_tokens)
            return self.speed.seconds_of(fresh, cost.output_tokens, scenario)
        if self.limits is None:
            return 0.0
        return cost.calls * self.limits.call_s(ASSUMED[scenario])

    def _estimate_rest(self, episodes: Sequence[_EpisodeLeft], scenario: str) -> Amount:
        costs = [episode.costs[scenario] for episode in episodes]
        durations_s = [cost.own_s + self._calls_s(cost, scenario) for cost in costs]

        calls = round(math.fsum(cost.calls for cost in costs))
        tokens_in = round(math.fsum(cost.input_tokens for cost in costs))
        tokens_out = round(math.fsum(cost.output_tokens for cost in costs))
        seconds = _makespan_s(durations_s, self.config.concurrency)
        if self.remote is not None:
            seconds = max(seconds, calls * self.config.call_gap_s)

        if self.config.batch:
            rounds = [0]  # episodes wait for their batches concurrently
            for episode in episodes:
                own_calls = episode.costs[scenario].calls
                rounds.append(batches_in_a_row(own_calls, episode.independent))

            seconds = 3600 * HOURS[scenario] * max(rounds)

        read = max(0, round(math.fsum(cost.cache_read_tokens for cost in costs)))
        written = max(0, round(math.fsum(cost.cache_write_tokens for cost in costs)))
        unread = round(math.fsum(cost.unread_tokens for cost in costs))
        usage = Usage(tokens_in, tokens_out)
        price = self.only_price
        cost_usd = None
        if price is not None:
            cost_usd = price.cost(replace(usage, cache_write_tokens=unread))

        cached_cost_usd = None
        if price is not None and price.cache_read is not None and self.caches_prompts:
            cached_cost_usd = price.cost(
                replace(usage, cache_read_tokens=read, cache_write_tokens=written)
            )

        return Amount(
            calls=calls,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cost_usd=cost_usd,
            hours=round(seconds / 3600, 4),
            cache_read_tokens=read,
            cached_cost_usd=cached_cost_usd,
        )


def _usual_steps(
    rehearsal: Sequence[FirstStep], done: Sequence[Sequence[FinishedStep]], warm_ups: WarmUpRates
) -> list[FinishedStep]:
    """Return finished steps like the remaining ones: not the first step after a warm-up."""
    usual: list[FinishedStep] = []
    for first, finished in zip(rehearsal, done, strict=True):
        has_lessons = warm_ups[first.spec.window][SCENARIOS[0]].calls > 0
        usual += finished[1:] if has_lessons else finished

    return usual


def estimate_run(config: RunConfig, plugins: Plugins) -> RunEstimate:
    """Estimate the run that a config describes. No model is called, no key is needed and nothing is
    written. Raises KtdevalError if an estimate is not possible.
    """
    run = _Estimator(config, plugins)
    episodes = list(chain.from_iterable(part.episodes for part in run.parts))
    left = run.sum_rest(episodes)
    concurrency = run.config.concurrency
    if run.config.batch:  # a round of batches waits for all unfinished episodes
        unfinished = [episode for episode in episodes if episode.steps]
        concurrency = max(concurrency, len(unfinished))

    return RunEstimate(
        model=run.config.model,
        protocol=run.protocol,
        context=run.context,
        max_output_tokens=_reply_limit(run.config),
        price=run.price,
        folder=str(run.path),
        concurrency=concurrency,
        tasks=tuple(part.estimate for part in run.parts),
        left=left,
        paid=run.paid,
        assumptions=tuple(_assumptions(left, run)),
        warnings=tuple(_warnings(left, run)),
    )


def _reply_limit(config: RunConfig) -> int:
    """Return the maximum tokens of a reply, or the bound on replies that no limit is sent for."""
    return config.max_output_tokens or MAX_REPLY_TOKENS


def _makespan_s(durations_s: Iterable[float], concurrency: int) -> float:
    """Return the number of seconds until the last episode ends, if episodes start in order, each as
    soon as a slot is free.
    """
    ends_s = [0.0] * concurrency
    for duration_s in durations_s:
        heapq.heapreplace(ends_s, ends_s[0] + duration_s)
    return max(ends_s)


def _assumptions(left: Mapping[str, Amount], run: _Estimator) -> Iterator[str]:
    for part in run.parts:
        estimate = part.estimate
        if estimate.is_observed:
            yield (
                f"{estimate.name}: typical is the mean of its {estimate.finished.steps:,} finished"
                " steps, low and high are their 10th and 90th percentiles"
            )

        yield from warm_up_lines(part.task, part.warm_ups, run.config.agent)

    if run.outside_note:
        yield run.outside_note
    if run.further:
        names = ", ".join(each.choice.name for each in run.further)
        yield (
            f"the agent also calls {names}: calls and tokens are totals over all models, and their"
            " cost is not estimated"
        )

    limits = run.limits
    scenarios = ASSUMED.values()
    if limits is None:
        yield (
            "a model on this machine: assumed to use no tokens and to answer immediately; hours"
            " cover agent and tools only"
        )
        return

    if not all(part.estimate.is_observed for part in run.parts):
        replies = " / ".join(f"{limits.reply_tokens(scenario):,}" for scenario in scenarios)
        yield "low: no research, one submission, no positions yet"
        yield (
            "typical: half of the research calls (or a task's usual number), two per turn; as many"
            " positions as the task allows"
        )
        yield (
            "high: all research calls, one per turn; each submission is valid only at the last"
            " attempt"
        )
        yield f"{replies} tokens per reply, including reasoning"

    yield _duration_words(run, limits)
    yield "hours exclude waits for rate limits and repeated attempts"
    yield from _cache_assumptions(left, run)
    yield (
        f"in addition, {2 * REPEATS * min(run.config.canary, len(CANARIES)):,} short questions at"
        " start and end (--canary)"
    )
    if (
        run.folder is None
        and run.config.tool_protocol == "auto"
        and run.remote
        and len(run.remote.protocols) > 1
    ):
        yield (
            f"tool calling: {run.remote.protocols[0]}; a short check before the run may change this"
        )


def _duration_words(run: _Estimator, limits: CallLimits) -> str:
    """Return how long calls are assumed to take, or what was observed."""
    if run.config.batch:
        return (
            f"{' / '.join(f'{hours:g}' for hours in HOURS.values())} hours a batch (providers"
            " promise 24 at most); each call that needs a reply before it takes a further batch"
        )
    if run.speed is not None:
        return run.speed.words()
    if len(limits.latencies_s) >= MIN_OBSERVED:
        return (
            f"{limits.call_s(ASSUMED['typical']):.2f} s per call, the mean of"
            f" {len(limits.latencies_s):,} calls so far"
        )
    usual = " / ".join(f"{limits.call_s(scenario):g}" for scenario in ASSUMED.values())
    return f"{usual} s per call{_UNTIMED if run.is_on_this_machine else ''}"


_UNTIMED = (
    ", as of hosted models: a server on this machine may take many times as long. Begin the run, stop"
    " it after its check of the tool protocol, and plan again with its --out: the check's calls are"
    " then timed"
)


def _cache_assumptions(left: Mapping[str, Amount], run: _Estimator) -> Iterator[str]:
    """Yield the assumptions behind the costs with and without a provider's prompt cache, and which
    of the two costs to budget for.
    """
    price = run.only_price
    if price is None:
        return

    rules = None if run.limits is None else run.limits.cache_rules
    if rules is None or price.cache_read is None:
        why = "no price of cached tokens is known"
        if run.config.batch:
            why = "a batch reads none reliably"
        yield f"cost is without a provider's prompt cache: {why}"
        return

    unread = "cost, no cache: nothing is read from the provider's prompt cache"
    if price.cache_write is not None:
        unread += f"; what is cached is written at {price.cache_write:g} USD a million tokens"

    shares = []
    for amount in left.values():
        shares.append(f"{100 * amount.cache_read_tokens / max(amount.input_tokens, 1):.0f}")

    yield unread
    yield (
        f"cost, cached: {' / '.join(shares)} % of the input begins an earlier request of the same"
        f" episode, read at {price.cache_read:g} USD a million tokens"
    )
    yield f"prompt cache, {rules}"
    yield "budget by the cost without cache: no provider promises that a prompt is read from it"


def _warnings(left: Mapping[str, Amount], run: _Estimator) -> Iterator[str]:
    config = run.config
    yield from run.plan.notes

    if run.difference:
        yield f"the folder {ANOTHER_RUN.format(run.difference)}; the planned run would be refused"
    elif config.certificate is not None:
        problem = certificate_problem(run.path, config.certificate)
        if problem:
            yield f"{problem}; the planned run would be refused"

    if run.too_long and (run.context is None or run.context.is_listed):
        yield (
            f"{run.too_long:,} calls so far had a prompt that did not fit the model's context,"
            " whose length the server reports only in refusals; set it with --context-tokens"
        )

    if run.context is not None:
        for part in run.parts:
            largest = part.estimate.largest_prompt
            if largest:
                room = config.max_output_tokens or 0
                yield from context_warnings(part.rehearsal, largest, run.context, room)

    yield from _unlisted_names(run)
    if config.max_cost is not None and run.price is None:
        yield (
            "--max-cost can't be enforced without a price, so the run would be refused; set one"
            " with --price or --price-table"
        )

    yield from _budget_warnings(left, run)


def _unlisted_names(run: _Estimator) -> Iterator[str]:
    """Yield a warning if the model is in no list of its provider, asked at the provider's address."""
    config = run.config
    has_own_address = config.base_url is not None or "base_url" in config.model_args
    if run.remote is None or has_own_address:
        return

    warning = unlisted_name(config.model, run.remote.price_table)
    if warning is not None:
        yield warning


def _budget_warnings(left: Mapping[str, Amount], run: _Estimator) -> Iterator[str]:
    """Yield a warning for each budget that the run would or might exceed."""
    config = run.config
    paid = run.paid
    budgets = (
        ("--max-cost", config.max_cost, "cost_usd", paid.cost_usd + paid.possibly_usd),
        ("--max-tokens", config.max_tokens, "tokens", paid.input_tokens + paid.output_tokens),
        ("--max-hours", config.max_hours, "hours", 0.0),
    )
    for option, limit, figure, spent in budgets:
        likely = getattr(left["typical"], figure)
        most = getattr(left["high"], figure)
        if limit is not None and likely is not None and spent + most > limit:
            verb = "would" if spent + likely > limit else "might"
            yield f"{option} {limit:g} {verb} stop the run before its end (it can be resumed)"
