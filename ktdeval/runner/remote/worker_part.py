"""Part of a run: a run folder in which one of several workers runs some of the episodes.

A worker can take over an episode from another worker and continue it. It takes over the journal, so
that no finished step runs again, and the calls with their paid replies, so that no call is
repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ktdeval.calls.costs.prices import PriceEntry
from ktdeval.calls.records.call_log import LOG_FILE
from ktdeval.calls.records.database import count_calls, read_episode
from ktdeval.calls.records.record import Spent
from ktdeval.calls.stop_flag import Fence, StopSignal, no_fence
from ktdeval.cards import compute_metric
from ktdeval.harness.chat_messages import ToolProtocol
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.execution.run import SharedRun, executor, prepare_run
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.records.run_file_names import CANARY, JOURNAL, MARK
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.scoring.score import write_cards
from ktdeval.task_api.episode_spec import EpisodeOutcome, EpisodeSpec
from ktdeval.task_api.scoring import is_scoring
from ktdeval.values.disk.files import Closing, make_lasting_folder, read_plain, write_atomic

CANARY_CALLS = "canary"
CHECK_CALLS = "check"
"""Labels that call logs use for calls outside episodes."""


# a tuple: values are compared
class Progress(NamedTuple):
    """Progress of an episode in a run folder. A greater value means more progress."""

    is_complete: bool = False
    steps: int = 0  #: number of journalled steps
    calls: int = 0  #: number of recorded calls


@dataclass(frozen=True, slots=True)
class EpisodeUsage:
    """Usage of a finished episode."""

    steps: int
    seconds: float
    input_tokens: int
    output_tokens: int
    cost_usd: float | None  #: cost in US dollars; None if a price is unknown
    calls: int  #: number of model replies in its transcript


def episode_progress(folder: Path, episode: str) -> Progress:
    """Return the progress of an episode in a run folder. Raises StoreError if the call log is
    unreadable.
    """
    own = folder / "episodes" / episode
    return Progress(
        (own / MARK).exists(), _count_lines(own / JOURNAL), recorded_calls(folder, episode)
    )


def recorded_calls(folder: Path, label: str) -> int:
    """Return the number of recorded calls in a run folder for an episode, or for `canary`."""
    path = folder / LOG_FILE
    return count_calls(path, label) if path.exists() else 0


def _count_lines(path: Path) -> int:
    """Return the number of complete lines in a journal; 0 if the journal does not exist."""
    try:
        return read_plain(path).count(b"\n")
    except FileNotFoundError:
        return 0


class RunPart(Closing):
    """Run folder in which this process runs some of a run's episodes. The caller must `close` it.

    Threads may run different episodes concurrently.
    """

    def __init__(
        self, config: RunConfig, plugins: Plugins, stop: StopSignal, shared: SharedRun
    ) -> None:
        """Open the part in the folder `config.out`. Raises KtdevalError."""
        self.stop = stop
        self._run = prepare_run(config, plugins, stop, shared)
        self._execute = executor(self._run)

    @property
    def path(self) -> Path:
        """Path of the folder."""
        return self._run.folder.path

    @cached_property
    def specs(self) -> Mapping[str, EpisodeSpec]:
        """Episodes in the current plan, in plan order, keyed by id."""
        return {spec.id: spec for spec in self._run.plan.specs}

    @property
    def snapshot(self) -> str | None:
        """Id of the market snapshot; None if no task needs a market."""
        return self._run.folder.manifest.snapshot

    @property
    def price(self) -> PriceEntry | None:
        """Token price of the run's own model; None if unknown."""
        return self._run.folder.manifest.price

    @property
    def is_remote(self) -> bool:
        """True if the run's model is remote."""
        return self._run.access.log is not None

    @property
    def protocol(self) -> ToolProtocol | None:
        """Tool protocol of the run's own model; None if there is nothing to choose."""
        return self._run.access.protocol

    @property
    def sends_temperature(self) -> bool:
        """False if the check of the run's own model found that it takes no temperature."""
        return self._run.access.sends_temperature

    @property
    def further_protocols(self) -> dict[str, ToolProtocol]:
        """Known tool protocols of additional models, keyed by the name that the agent uses."""
        protocols: dict[str, ToolProtocol] = {}
        for each in self._run.access.further:
            if each.protocol is not None:
                protocols[each.choice.asked_as] = each.protocol

        return protocols

    def run(self, spec: EpisodeSpec, fence: Fence = no_fence) -> EpisodeOutcome:
        """Run an episode from the end of its journal to its last step, or until `fence` raises.
        Raises only KeyboardInterrupt.
        """
        return self._execute(spec, fence)

    def usage(self, spec: EpisodeSpec, holder: Path) -> EpisodeUsage:
        """Return the usage of an episode that was finished in the part `holder`. Raises
        StoreError.
        """
        mark = RunFolder(holder, self._run.folder.manifest).mark(spec)
        if not self.is_remote:
            cost_usd = 0.0 if self._run.folder.manifest.is_free else None
            return EpisodeUsage(mark.steps, mark.wall_s, 0, 0, cost_usd, mark.said.replies)

        calls = read_episode(holder / LOG_FILE, spec.id).calls
        spent = Spent()
        for call in calls:
            spent = spent.plus(call)

        is_known = all(call.cost_usd is not None for call in calls if call.is_answered)
        cost_usd = spent.cost_usd if is_known else None
        return EpisodeUsage(
            mark.steps,
            mark.wall_s,
            spent.input_tokens,
            spent.output_tokens,
            cost_usd,
            mark.said.replies,
        )

    def figure(self, spec: EpisodeSpec, holder: Path, metric: str) -> float | None:
        """Return a metric of an episode that was finished in the part `holder`.

        None if the metric is undefined, or if the task is a scoring task, since these have no
        ledger. Raises StoreError, or PluginError if the metric can't be computed.
        """
        own = self._run
        if is_scoring(own.plan.tasks[spec.task]):
            return None

        assert own.snapshot is not None  # trading episodes always have a market
        ledger = RunFolder(holder, own.folder.manifest).load_ledger(spec)
        owner = own.plugins.owners("metrics", [metric]).get(metric, "")
        definition = own.plugins.make_metric(metric)
        rules = own.folder.manifest.rules
        return compute_metric(definition, ledger, own.snapshot, rules, owner).value

    def list_costs(self) -> dict[str, float | None]:
        """Return the cost of calls in US dollars, for each episode, finished or not, and for
        `canary` and `check`. A cost is None if a price is unknown.
        """
        return self._run.access.list_costs()

    def write_card(
        self, run: RunFolder, task: str, errors: Mapping[str, str], fence: Fence = no_fence
    ) -> Path:
        """Write the card of one task in the gathered run.

        `errors`: reasons why episodes are not finished, keyed by episode id. `fence` is called
        before the card is written. Raises KtdevalError.
        """
        own = self._run
        tasks = [own.plan.tasks[task]]
        (path,) = write_cards(run, tasks, own.snapshot, own.plugins, errors, fence)
        return path

    def take_over(self, episode: str, other: Path) -> None:
        """Continue an episode from its state in another run folder. The episode must not be running
        here.

        The calls are taken over first: if the process is killed, every recorded step must have its
        calls on record. Raises StoreError.
        """
        self._take_over_calls(episode, other)
        own = self.path / "episodes" / episode
        make_lasting_folder(own)
        write_atomic(own / JOURNAL, _read_if_there(other / "episodes" / episode / JOURNAL))

    def take_over_canary(self, other: Path) -> None:
        """Continue the fixed questions from their state in another run folder. Raises
        StoreError.
        """
        self._take_over_calls(CANARY_CALLS, other)
        answers = _read_if_there(other / CANARY)
        if answers:
            write_atomic(self.path / CANARY, answers)

    def _take_over_calls(self, label: str, other: Path) -> None:
        if (other / LOG_FILE).exists():
            self._run.access.take_over(label, other)

    def ask_at_start(self, fence: Fence = no_fence) -> None:
        """Ask the fixed questions, unless this folder already has their answers. `fence` is called
        before each call. Raises RunStop.
        """
        self._run.access.begin(fence)

    def ask_at_end(self, fence: Fence = no_fence) -> None:
        """Ask the fixed questions again. `fence` is called before each call."""
        self._run.access.finish(fence)
        self._run.access.flush()

    def close(self) -> None:
        """Write pending records, and unlock the folder."""
        self._run.close()


def _read_if_there(path: Path) -> bytes:
    try:
        return read_plain(path)
    except FileNotFoundError:
        return b""
