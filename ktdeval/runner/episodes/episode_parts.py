"""Parts of an episode other than its spec, and code shared by both kinds of episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ktdeval.harness.agent import Agent
from ktdeval.harness.chat_messages import CallParams, Model
from ktdeval.harness.external.external_acts import NOT_A_RUN, Outside
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.submissions.submission_form import SubmissionForm
from ktdeval.harness.tools.tool_definition import Tool
from ktdeval.harness.traits import close_agent
from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.no_market import NO_MARKET
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.runner.episodes.bookkeeper import Bookkeeper, episode_ledger
from ktdeval.runner.episodes.session_models import session_models
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.scoring import ScoringTask, TargetTask
from ktdeval.task_api.trading_task import Task
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval.values.options.config_options import build


@dataclass(frozen=True, kw_only=True)
class _Surroundings:
    """Objects that a run passes to an episode of either kind, in addition to the model and the
    agent.
    """

    #: additional models, keyed by the name that the agent uses; if None, `model` is used for them
    further: Mapping[str, Model] | None = None
    outside: Outside = NOT_A_RUN  #: settings for external agents


@dataclass(frozen=True)
class EpisodeParts(_Surroundings):
    """Everything that determines a trading episode's outcome, except its spec. `tape`: the snapshot
    under the task's trading rules.
    """

    task: Task
    tools: tuple[Tool, ...]
    snapshot: MarketSnapshot
    tape: MarketTape
    model: Model
    agent: Agent

    def bookkeeper(self, spec: EpisodeSpec) -> Bookkeeper:
        """Return the books as of the start of an episode."""
        base_row = window_rows(self.snapshot.days, spec.span.first, spec.span.last)[0] - 1
        return Bookkeeper(self.snapshot, self.tape, self.task.trading, base_row)

    def ledger(self, spec: EpisodeSpec, records: Sequence[StepRecord]) -> Ledger:
        """Return the ledger of an episode, given its records."""
        return episode_ledger(spec, records, self.snapshot, self.tape, self.task.trading)


@dataclass(frozen=True)
class ScoringParts(_Surroundings):
    """Everything that determines a scoring episode's outcome, except its spec."""

    task: ScoringTask
    target_task: TargetTask | None
    snapshot: MarketSnapshot | None  #: None if the task needs no market
    model: Model
    agent: Agent


Parts = TypeVar("Parts", EpisodeParts, ScoringParts)


class StepwiseEpisode(Generic[Parts]):
    """Stepwise episode of a trading or scoring task. `total_steps`: number of steps in its window,
    or number of its samples.
    """

    def __init__(self, spec: EpisodeSpec, parts: Parts, total_steps: int) -> None:
        #: number of steps, after applying the spec's limit
        self.total_steps = limited_steps(spec, total_steps)
        self._spec = spec
        self._parts: Parts = parts

    def _make_session_parts(
        self, lens: Lens, tools: tuple[Tool, ...], form: SubmissionForm
    ) -> SessionParts:
        """Return the parts of a session with this mask and submission form."""
        parts = self._parts
        spec = self._spec
        return SessionParts(
            model=parts.model,
            lens=lens,
            guard=LeakGuard(lens, parts.snapshot or NO_MARKET),
            tools=tools,
            form=form,
            harness=parts.task.harness,
            params=build(CallParams, spec.call, "call"),
            seed=spec.call_seed,
            chance_seed=spec.chance_seed,
            name=spec.model,
            total_steps=self.total_steps,
            further=session_models(spec, parts.model, parts.further),
            outside=parts.outside,
        )

    def close(self) -> None:
        """Release the agent's resources."""
        close_agent(self._parts.agent)


def limited_steps(spec: EpisodeSpec, total_steps: int) -> int:
    """Return the number of steps in an episode, after applying the spec's limit."""
    return total_steps if spec.limit is None else min(spec.limit, total_steps)
