"""Events of a run, which its observers receive as plain values. They can't be used to change the
run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.task_api.episode_spec import EpisodeSpec


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run starts or continues. Events for all its episodes follow, including finished ones."""

    id: str  #: hash of the run's episodes, which stays the same when the run is resumed
    folder: str  #: path of the run folder
    specs: tuple[EpisodeSpec, ...]  #: all episodes of the run


@dataclass(frozen=True, slots=True)
class EpisodeStarted:
    """An episode starts, or continues after `done_steps` recorded steps. `recorded` contains the
    events of these steps.
    """

    spec: EpisodeSpec
    total_steps: int
    done_steps: int
    recorded: tuple[StepFinished | SampleFinished, ...] = ()


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A step is durably on disk. Counts are for this step only. `nav` is the NAV after the step, in
    units of `currency`.
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
    """A sample of a scoring task is durably on disk. Counts are for this sample only."""

    spec: EpisodeSpec
    step: int
    total_steps: int
    tokens: int
    provenance: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """An attempt at a model call of an episode ended, or a cached reply was used. Batches and local
    models have no such events.
    """

    spec: EpisodeSpec  #: the episode
    step: int | None  #: step in which the call was made
    model: str  #: full name of the called model, PROVIDER/NAME
    outcome: str  #: `answered`, `cached`, `refused`, or the kind of failure (`rate_limited`, …)
    attempt: int  #: number of this attempt at the call, counted from 1
    latency_s: float  #: seconds until the end of the reply
    cost_usd: float | None  #: None if the price is unknown, or if no reply came
    request: ModelRequest  #: the request as sent, with masked texts
    reply: Reply | None  #: None if the attempt failed


@dataclass(frozen=True, slots=True)
class CallDelayed:
    """An episode waits before it retries a model call, or before its first attempt."""

    spec: EpisodeSpec  #: the episode
    #: reason for the wait: the kind of failure of the last attempt (`rate_limited`, `server`, …),
    #: or `budget` while the costs of other episodes' calls are being settled
    kind: str
    wait_s: float  #: seconds from now
    attempt: int  #: attempts made so far
    attempts: int  #: maximum number of attempts
    #: description of the failed attempt, with the provider's message; empty if no attempt failed
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CheckDelayed:
    """A model check before or after the episodes, or a batch, waits before the next attempt."""

    #: `check` (how the model handles tools), `canary` (the fixed questions) or `batch`
    check: str
    kind: str  #: reason for the wait; see `CallDelayed`
    wait_s: float  #: seconds from now
    attempt: int  #: attempts made so far
    attempts: int  #: maximum number of attempts
    problem: str = ""  #: see `CallDelayed`


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A run with `--batch` is waiting for its batches at the provider."""

    done: int  #: number of finished requests, as reported by the provider
    total: int  #: number of requests in the batches
    wait_s: float  #: seconds until the next poll; 0 once all results have arrived


@dataclass(frozen=True, slots=True)
class EpisodeFinished:
    """An episode is complete. `already_done` is true if it was complete before this run started."""

    spec: EpisodeSpec
    already_done: bool


@dataclass(frozen=True, slots=True)
class EpisodeFailed:
    """An episode stopped early. `error` is the reason in one line.

    `is_stopped` is true if nothing failed, but a budget of the run was reached.
    """

    spec: EpisodeSpec
    error: str
    is_stopped: bool = False


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run ended, and its cards were written. No further events follow."""

    folder: str  #: path of the run folder
    cards: tuple[str, ...]  #: paths of the cards that were written
    unfinished: int  #: number of episodes that did not finish
    #: `stopped` by a budget; `interrupted` by the user, or by an error that affects the whole run
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
