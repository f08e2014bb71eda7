"""Events of a run for its observers: plain values, which can't be used to change the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.task_api.episode_spec import EpisodeSpec


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run starts or continues; events for all its episodes follow, including finished ones."""

    id: str  #: hash of its episodes, unchanged when the run is resumed
    folder: str  #: path of its records
    specs: tuple[EpisodeSpec, ...]  #: all its episodes


@dataclass(frozen=True, slots=True)
class EpisodeStarted:
    """An episode starts, or continues after `done_steps` recorded steps; their events are in
    `recorded`.
    """

    spec: EpisodeSpec
    total_steps: int
    done_steps: int
    recorded: tuple[StepFinished | SampleFinished, ...] = ()


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A step is durably on disk. Counts are for this step; `nav` is the NAV after it, in units of
    `currency`.
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
    """A sample of a scoring task is durably on disk. Counts are for this sample."""

    spec: EpisodeSpec
    step: int
    total_steps: int
    tokens: int
    provenance: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """An attempt at an episode's model call ended, or a cached reply was reused. Batches and local
    models have no such events.
    """

    spec: EpisodeSpec  #: the episode
    step: int | None  #: the step that made the call
    model: str  #: model that was called, PROVIDER/NAME
    outcome: str  #: `answered`, `cached`, `refused`, or the kind of the failure (`rate_limited`, …)
    attempt: int  #: number of the attempt at this call, from 1
    latency_s: float  #: seconds until the end of the reply
    cost_usd: float | None  #: None: the price is unknown, or no reply came
    request: ModelRequest  #: as sent, with masked texts
    reply: Reply | None  #: None: the attempt failed


@dataclass(frozen=True, slots=True)
class CallDelayed:
    """An episode waits before it retries a model call, or before its first attempt."""

    spec: EpisodeSpec  #: the episode
    #: reason: the kind of the failed attempt (`rate_limited`, `server`, …), or `budget` while the
    #: costs of other episodes' calls are being settled
    kind: str
    wait_s: float  #: seconds from now
    attempt: int  #: attempts made so far
    attempts: int  #: maximum number of attempts
    #: description of the failed attempt, with the provider's message; empty if no attempt of this
    #: model failed
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CheckDelayed:
    """A check of the model before or after the episodes, or a batch, waits before it tries again."""

    #: `check` (how the model handles tools), `canary` (the fixed questions), or `batch`
    check: str
    kind: str  #: reason; see `CallDelayed`
    wait_s: float  #: seconds from now
    attempt: int  #: attempts made so far
    attempts: int  #: maximum number of attempts
    problem: str = ""  #: see `CallDelayed`


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The run is waiting for its batches at the provider, before its episodes run (`--batch`)."""

    done: int  #: finished requests, as reported by the provider
    total: int  #: requests in the batches
    wait_s: float  #: seconds until the next poll; 0 once all results have arrived


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
    """A run ended, and its cards were written; no further events follow."""

    folder: str  #: path of its records
    cards: tuple[str, ...]  #: paths of the cards, for finished episodes
    unfinished: int  #: episodes without a complete ledger
    #: `stopped` by a budget, `interrupted` by the user or by an error affecting the whole run
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
