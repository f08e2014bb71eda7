"""Events of a run for its observers: plain values, never a handle to change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.task_api.episode_spec import EpisodeSpec


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins, or continues; events of all its episodes follow, finished ones included."""

    id: str  #: hash of its episodes, the same when the run is resumed
    folder: str  #: path of its records
    specs: tuple[EpisodeSpec, ...]  #: all its episodes


@dataclass(frozen=True, slots=True)
class EpisodeStarted:
    """An episode begins, or continues after `done_steps` recorded ones, whose events are in
    `recorded`.
    """

    spec: EpisodeSpec
    total_steps: int
    done_steps: int
    recorded: tuple[StepFinished | SampleFinished, ...] = ()


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A step is durably on disk. Counts are those of this step; `nav` is the NAV after it, in units
    of `currency`.
    """

    spec: EpisodeSpec
    step: int
    total_steps: int
    filled_on: str
    nav: float
    orders: int
    rejections: int
    tokens: int
    provenance: str
    currency: str


@dataclass(frozen=True, slots=True)
class SampleFinished:
    """A sample of a scoring task is durably on disk. Counts are those of this sample."""

    spec: EpisodeSpec
    step: int
    total_steps: int
    tokens: int
    provenance: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """An attempt of an episode's model call ended, or a kept reply was used again. Batches and
    local models have no such events.
    """

    spec: EpisodeSpec  #: the episode
    step: int | None  #: the step that asked
    model: str  #: model that was asked, PROVIDER/NAME
    outcome: str  #: `answered`, `cached`, `refused`, or the kind of the failure (`rate_limited`, …)
    attempt: int  #: number of the attempt at this call, from 1
    latency_s: float  #: seconds until the end of the reply
    cost_usd: float | None  #: None: no price is known, or no reply came
    request: ModelRequest  #: as it was sent: masked texts
    reply: Reply | None  #: None: the attempt failed


@dataclass(frozen=True, slots=True)
class CallDelayed:
    """An episode waits before it asks its model again, or before it asks at all."""

    spec: EpisodeSpec  #: the episode
    #: reason: the kind of the failed attempt (`rate_limited`, `server`, …), or `budget` while the
    #: calls of other episodes are settled
    kind: str
    wait_s: float  #: seconds from now
    attempt: int  #: attempts made so far
    attempts: int  #: most attempts that are made
    #: description of the failed attempt, with the provider's message; empty if no attempt of this
    #: model failed
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CheckDelayed:
    """A check of the model before or after the episodes, or a batch, waits before it asks again."""

    #: `check` of how the model takes tools, `canary`, the fixed questions, or `batch`
    check: str
    kind: str  #: reason, see `CallDelayed`
    wait_s: float  #: seconds from now
    attempt: int  #: attempts made so far
    attempts: int  #: most attempts that are made
    problem: str = ""  #: see `CallDelayed`


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The run waits for its batches at the provider, before its episodes run (`--batch`)."""

    done: int  #: finished requests, as reported by the provider
    total: int  #: requests in the batches
    wait_s: float  #: seconds until it looks again; 0 once all results are there


@dataclass(frozen=True, slots=True)
class EpisodeFinished:
    """An episode's ledger is complete. `already_done`: it was complete before this run."""

    spec: EpisodeSpec
    already_done: bool


@dataclass(frozen=True, slots=True)
class EpisodeFailed:
    """An episode stopped early; `error` is one line.

    `is_stopped`: nothing failed, but a budget of the run is reached.
    """

    spec: EpisodeSpec
    error: str
    is_stopped: bool = False


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run ended, and its cards are written; nothing follows."""

    folder: str  #: path of its records
    cards: tuple[str, ...]  #: paths of the cards, of episodes that are finished
    unfinished: int  #: episodes without a complete ledger
    #: `stopped` by a budget, `interrupted` by the user or an error of the whole run
    state: Literal["finished", "failed", "stopped", "interrupted"]


Event = (
    RunStarted
    | EpisodeStarted
    | StepFinished
    | SampleFinished
    | CallFinished
    | CallDelayed
    | CheckDelayed
    | BatchProgress
    | EpisodeFinished
    | EpisodeFailed
    | RunFinished
)
