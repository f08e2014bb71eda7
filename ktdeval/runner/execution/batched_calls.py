"""Runs that make their calls in batches (`--batch`): which runs can do so, and how batches are
submitted.

The steps of a scoring task are independent, so all their calls go into one batch, which is made
before the steps run. A trading episode makes one call at a time. The calls that all running
episodes make at the same time form one batch (a round), so an episode needs as many consecutive
batches as it makes calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktdeval.calls.batches.batch_api import batches_of
from ktdeval.calls.batches.batch_client import BatchClient
from ktdeval.calls.batches.episode_rounds import EpisodeRounds
from ktdeval.calls.batches.request_collector import NotAsked, WantedRequests
from ktdeval.calls.batches.submitted_batches import BATCHES
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.errors import RunStop, StoreError, UsageError
from ktdeval.harness.tools.tool_protocols import ProtocolModel
from ktdeval.harness.traits import agent_traits
from ktdeval.registry.plugin_boundary import call_foreign, raised_by
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.episodes.episode_execution import EpisodeFactory
from ktdeval.runner.models.model_connection import ModelAccess
from ktdeval.runner.plans.additional_models import own_model
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.rehearsals.rehearsal import FirstStep, by_task
from ktdeval.runner.rehearsals.step_costs import measure_task
from ktdeval.task_api.episode_spec import EpisodeOutcome, EpisodeSpec
from ktdeval.task_api.events import BatchProgress, CheckDelayed
from ktdeval.task_api.scoring import is_scoring

LOCAL_RUNNER = "local"

#: Assumed hours until a batch ends: low, typical and high. Providers promise 24 hours. Anthropic
#: says that most of its batches end within one hour. OpenRouter observed 230,000 batches over two
#: weeks: the median took 7 minutes, and 90 % ended within one hour.
HOURS: Mapping[str, float] = {"low": 0.1, "typical": 1.0, "high": 24.0}

#: maximum hours that an episode may typically wait for its batches; otherwise, the run is refused
MAX_HOURS = 72.0


def check_batch(config: RunConfig, plugins: Plugins) -> None:
    """Raise UsageError if a run can't use `--batch`: its model has no batch interface, it has a
    runner other than `local`, or its agent calls models itself. Nothing is opened and no call is
    made.
    """
    if not config.batch:
        return
    if batches_of(own_model(config, plugins)) is None:
        raise UsageError(
            f"--batch: {config.model} has no batch interface; omit the option (models of openai,"
            " anthropic and google have one)"
        )
    if config.runner != LOCAL_RUNNER:
        raise UsageError(
            f"--batch: the runner {config.runner} makes one call at a time; omit one of the two"
            " options"
        )

    agent = plugins.make_agent(config.agent, config.agent_args)
    if agent_traits(agent).acts_outside:
        raise _explain_refusal(f"the agent {config.agent} asks models by itself")


def check_batch_calls(config: RunConfig, rehearsal: Sequence[FirstStep]) -> None:
    """Raise UsageError if the calls of a run with `--batch` are unsuitable.

    This is the case if its agent calls several models, if a scoring task makes more than one call
    per sample, or if a trading episode would wait too long for its batches. The calls are counted
    in a rehearsal with made-up replies.
    """
    if not config.batch:
        return

    for name, steps in by_task(rehearsal).items():
        first = steps[0]
        spec = first.spec
        if spec.further_models:
            raise _explain_refusal(f"the agent {spec.agent} asks several models")
        if not is_scoring(first.task):
            _check_hours(name, steps)
            continue

        where = f"task {name}, agent {spec.agent}: its first sample can't be shown"
        calls = len(call_foreign(first.play_shown, where, False).requests)
        if calls != 1:
            raise _explain_refusal(
                f"{name} with the agent {spec.agent} makes {calls:,} calls per sample, not one"
            )


def _check_hours(name: str, steps: Sequence[FirstStep]) -> None:
    """Raise UsageError if an episode of a trading task would wait too long for its batches."""
    rates = measure_task(steps, None).rates
    calls = [each.total_steps * rates[each.spec.window]["typical"].calls for each in steps]
    rounds = batches_in_a_row(max(calls), 1)
    hours = rounds * HOURS["typical"]
    if hours > MAX_HOURS:
        raise UsageError(
            f"--batch: an episode of {name} makes about {rounds:,} calls, each in a batch after the"
            f" one before: {hours / 24:.0f} days at {HOURS['typical']:g} hour a batch, and up to"
            f" {rounds * HOURS['high'] / 24:,.0f} at {HOURS['high']:g}; take at most"
            f" {MAX_HOURS / HOURS['typical']:.0f} calls an episode (--limit, a task without"
            " research), or leave it out: openai has the same price with --model-args"
            " service_tier=flex"
        )


def _explain_refusal(problem: str) -> UsageError:
    return UsageError(f"--batch: {problem}; leave it out")


def check_batch_folder(folder: Path, is_batch: bool) -> None:
    """Raise StoreError if a run that began with `--batch` would continue without it, or vice versa,
    because the prices differ.
    """
    if (folder / BATCHES).exists() == is_batch:
        return

    began, other = ("without", "with") if is_batch else ("with", "without")
    raise StoreError(
        f"{folder}: this run was begun {began} --batch, and can't be resumed {other} it; repeat"
        " the command that began it, or choose another --out"
    )


def batches_in_a_row(calls: float, independent: int) -> int:
    """Return how many consecutive batches an episode needs for its `calls`, if `independent` of its
    steps can be in the same batch.
    """
    return math.ceil(round(calls / independent, 6)) if independent else 0


def open_rounds(
    access: ModelAccess, config: RunConfig, tasks: Mapping[str, Any], shared: EpisodeRounds | None
) -> EpisodeRounds | None:
    """Return the rounds in which running episodes make their calls in batches.

    None unless parts of the run share rounds, or the run has `--batch` and at least one trading
    task.
    """
    rounds = shared
    if rounds is None and config.batch and not all(map(is_scoring, tasks.values())):
        rounds = EpisodeRounds()
    if rounds is not None:
        access.ask_in_rounds(rounds)

    return rounds


def leaving(
    rounds: EpisodeRounds, execute: Callable[..., EpisodeOutcome]
) -> Callable[..., EpisodeOutcome]:
    """Return a function that runs one episode and then removes it from the rounds."""

    def execute_and_leave(spec: EpisodeSpec) -> EpisodeOutcome:
        try:
            return execute(spec)
        finally:
            rounds.leave()

    return execute_and_leave


def ask_samples(
    client: BatchClient,
    folder: RunFolder,
    factory: EpisodeFactory,
    stop: StopSignal,
    spec: EpisodeSpec,
) -> None:
    """Make the calls of a scoring episode in rounds shared with other episodes, with all samples in
    the same round. Raises as `ask_in_batches` does.
    """
    steps = _OpenSteps(client, folder, factory, stop)
    left = steps.find_unrecorded(spec)
    while True:
        requests = WantedRequests(client)
        left = steps.find_unanswered(spec, left, requests)
        if not requests.found:
            return

        client.wait_for_round(requests.found)


def ask_in_batches(
    client: BatchClient,
    folder: RunFolder,
    factory: EpisodeFactory,
    stop: StopSignal,
    work: Sequence[EpisodeSpec],
    plugins: Plugins,
) -> None:
    """Make the calls of the episodes' steps before the episodes run.

    Consecutive batches are submitted until no step makes another request. If a budget or the
    provider stops a batch, the run stops too. Raises KeyboardInterrupt.
    """
    steps = _OpenSteps(client, folder, factory, stop)

    def tell(done: int, total: int, wait_s: float) -> None:
        plugins.emit(BatchProgress(done, total, wait_s))

    def notify(*wait: Any) -> None:
        plugins.emit(CheckDelayed("batch", *wait))

    try:
        left = [(spec, steps.find_unrecorded(spec)) for spec in work]
        while True:
            requests = WantedRequests(client)
            left = [(spec, steps.find_unanswered(spec, own, requests)) for spec, own in left]

            if not requests.found:
                return

            client.ask(requests.found, tell, notify, folder.check_claim)
    except RunStop as error:
        stop.stop(error)


class _OpenSteps:
    """Steps of a run's episodes that are not recorded yet."""

    def __init__(
        self, client: BatchClient, folder: RunFolder, factory: EpisodeFactory, stop: StopSignal
    ) -> None:
        self._client = client
        self._folder = folder
        self._factory = factory
        self._stop = stop

    def find_unrecorded(self, spec: EpisodeSpec) -> Sequence[int]:
        """Return an episode's unrecorded steps. If the episode can't be opened, returns no steps,
        and running it reports the problem.
        """
        total: list[int] = []

        def count_steps() -> None:
            total.append(self._factory.open(spec, self._client.for_episode(spec.id)).total_steps)

        if raised_by(count_steps) is not None:
            return ()

        records, _ = self._folder.load_recorded(spec)
        return range(len(records), total[0])

    def find_unanswered(
        self, spec: EpisodeSpec, steps: Sequence[int], requests: WantedRequests
    ) -> Sequence[int]:
        """Return the steps of an episode that still lack a reply, and add their requests to
        `requests`.

        If a step fails for another reason, the episode will end there when it runs, so later steps
        are skipped.
        """
        if not steps:
            return ()

        collecting = requests.of(spec.id)
        episode = self._factory.open(spec, ProtocolModel(collecting))
        unanswered = []
        for step in steps:
            self._stop.check()
            collecting.step = step
            problem = raised_by(episode.run_step, step)
            if isinstance(problem, NotAsked):
                unanswered.append(step)
            elif problem is not None:
                break

        return unanswered
