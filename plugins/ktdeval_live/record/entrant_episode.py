"""An entrant on a market: its episode, decided day by day on the market as known at the time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ktdeval.errors import ConfigError, StoreError, UsageError, VerificationError
from ktdeval.harness import Model, ModelRequest, Outside, Reply
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import (
    DecidedStep,
    EpisodeFactory,
    RunConfig,
    TradingEpisodeRun,
    call_parameters,
    describe_any,
    with_address,
)
from ktdeval.task_api import EpisodeSpec, Task, Window, is_scoring, task_traits
from ktdeval.trading import StepRecord
from ktdeval.values import JsonValue, build, content_hash
from ktdeval_live.plan import Entrant, LivePlan
from ktdeval_live.record.chain import Decided, DecisionKey, Gap, RecordChain
from ktdeval_live.record.decision_records import decided_of, held_step
from ktdeval_live.record.folder import LiveFolder

WINDOW = "live"
"""Window name used by every forward test."""


@dataclass(frozen=True)
class EntrantMarket:
    """An entrant on a market, as specified in the plan."""

    plan: LivePlan
    entrant: Entrant
    market: str

    @property
    def name(self) -> str:
        """Name composed of entrant and market: `ENTRANT/MARKET`."""
        return f"{self.entrant.name}/{self.market}"

    def key(self, day: str) -> DecisionKey:
        """Return the key of the entry's decision on a day."""
        return DecisionKey(self.entrant.name, self.market, day)

    def config(self) -> RunConfig:
        """Return the run options for this entrant. Raises ConfigError if an option is unknown."""
        options = {
            "model": self.entrant.model,
            "tasks": (self.plan.markets[self.market].task,),
            "agent": self.entrant.agent,
            "model_args": self.entrant.model_args,
            "agent_args": self.entrant.agent_args,
            "canary": 0,
            # The call log serves as the cache: a paid call is never repeated.
            "cache": "run",
            **self.entrant.options,
        }
        return build(RunConfig, options, f"entrants: {self.entrant.name}: options")

    def task(self, plugins: Plugins) -> Task:
        """Return the task. Raises ConfigError if it is not a trading task, or if it needs intraday
        bars.
        """
        name = self.plan.markets[self.market].task
        task = plugins.make_task(name)
        if is_scoring(task):
            raise ConfigError(f"markets: {self.market}: the task {name} does not trade")
        if task_traits(task).needs_minutes:
            raise ConfigError(
                f"markets: {self.market}: the task {name} shows bars within the day, and the days "
                "of a forward test are daily bars"
            )
        return task

    def spec(self, base: MarketSnapshot, config: RunConfig, plugins: Plugins) -> EpisodeSpec:
        """Return the episode for the whole test. Its id identifies the entry.

        `base` is the pre-test market, since later days are unknown.
        """
        task = self.task(plugins)
        addressed = with_address(config, plugins)
        return EpisodeSpec(
            task=task.name,
            task_version=task.version,
            task_hash=content_hash(describe_any(task, plugins)),
            snapshot=base.id,
            mask=task.mask,
            mode=task.mode,
            window=Window(WINDOW, self.plan.first, self.plan.last),
            model=self.entrant.model,
            model_args=dict(addressed.model_args),
            agent=self.entrant.agent,
            agent_args=dict(self.entrant.agent_args),
            call=call_parameters(config, None),
            seed=self.plan.seed,
            mask_key=self.plan.mask_key,
        )


def find_entries(plan: LivePlan) -> Iterator[EntrantMarket]:
    """Yield the entries in a plan, in order."""
    for entrant, market in plan.entries():
        yield EntrantMarket(plan, entrant, market)


@dataclass(frozen=True)
class DayAnswer:
    """Outcome of an entry's day in the chain: a decision, a gap, or both if a gap made the decision
    void.
    """

    decided: Decided | None = None
    gap: Gap | None = None

    @property
    def counts(self) -> bool:
        """True if there is a decision that was not made void by a gap."""
        return self.decided is not None and self.gap is None


def answers(chain: RecordChain, entry: EntrantMarket) -> Mapping[str, DayAnswer]:
    """Return the outcomes that an entry has in the chain, keyed by day."""
    found: dict[str, DayAnswer] = {}
    for link in chain.entries:
        body = link.body
        if not isinstance(body, Decided | Gap) or body.entry != entry.name:
            continue

        before = found.get(body.day, DayAnswer())
        if isinstance(body, Decided):
            found[body.day] = replace(before, decided=body)
        else:
            found[body.day] = replace(before, gap=body)

    return found


class _NoModel:
    """Model for days that are settled again. It is never called."""

    def reply(self, request: ModelRequest) -> Reply:  # noqa: ARG002 - it refuses every one
        """Raise UsageError, since decisions that are being settled have already been made."""
        raise UsageError("recorded decisions make no model calls")


class EntryEpisode:
    """Episode of an entry, up to a given session, on a market as known."""

    def __init__(
        self,
        entry: EntrantMarket,
        folder: LiveFolder,
        plugins: Plugins,
        market: MarketSnapshot,
        model: Model | None = None,
    ) -> None:
        task = entry.task(plugins)
        base = folder.base(entry.market)
        config = entry.config()
        spec = entry.spec(base, config, plugins)
        factory = EpisodeFactory({task.name: task}, plugins, market)
        outside = Outside(private=(folder.path.resolve(),), model=config.model)
        episode = factory.open(spec, model or _NoModel(), outside=outside)
        if not isinstance(episode, TradingEpisodeRun):
            raise ConfigError(f"markets: {entry.market}: the task {task.name} does not trade")

        self.spec = spec
        self.parts = factory.trading_parts(spec, model or _NoModel())
        self.market = market
        self.episode = episode
        self.records: list[StepRecord] = []
        self._entry = entry
        self._folder = folder
        self._memory: JsonValue = None
        self._shown: tuple[str, ...] = ()

    def settle(self, chain: RecordChain, sessions: int) -> None:
        """Settle the decisions of the first `sessions` sessions, on the market known to this
        episode.

        Decisions that are already settled are kept. On a day without a decision, positions are
        held.

        Raises VerificationError if a record does not match its commitment; StoreError if a record
        is missing.
        """
        self.settle_ended(answers(chain, self._entry), sessions)

    def settle_ended(self, ended: Mapping[str, DayAnswer], sessions: int) -> None:
        """Settle like `settle`, but with the given outcomes of days."""
        days = self._folder.schedule(self._entry.market).days
        for number in range(len(self.records), sessions):
            step = self._step(days[number], number, ended)
            self.records.append(self.episode.settle_step(number, step).step)
            self._memory = step.memory
            self._shown = step.shown

        self.episode.recall(self._shown)

    def _step(self, day: str, number: int, ended: Mapping[str, DayAnswer]) -> DecidedStep:
        answer = ended.get(day, DayAnswer())
        if answer.decided is None or not answer.counts:
            return held_step(number, self._memory, self._shown)

        record = self._folder.record(self._entry.key(day))
        if record is None:
            raise StoreError(
                f"{self._entry.name} {day}: the record of the decision is missing: it is sealed, or"
                " was removed"
            )
        if record.commitment() != answer.decided:
            raise VerificationError(
                f"{self._entry.name} {day}: the record is not the one that was committed to; "
                "restore it"
            )
        return decided_of(record, self.market)
