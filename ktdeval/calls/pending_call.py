"""A call under way: its source, its request, and the callback for its attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ktdeval.calls.costs.prompt_size import PromptBytes, prompt_bytes
from ktdeval.calls.failures.retry import Notify
from ktdeval.calls.records.call_log import CallPosition
from ktdeval.calls.records.record import KEY_DIGITS, CallRecord
from ktdeval.calls.stop_flag import Fence, no_fence
from ktdeval.harness.chat_messages import ModelRequest, Reply

Watch = Callable[[ModelRequest, CallRecord, Reply | None], None]
"""Called with each attempt of a call once it is on record: its request, its record, and its reply
if it has one.
"""


def watch_nothing(request: ModelRequest, record: CallRecord, reply: Reply | None) -> None:
    """Ignore an attempt: the default for `watch`."""


@dataclass(slots=True)
class CallSource:
    """Source of a call: a step of an episode or a check of the run."""

    label: str  #: id of the episode, or one of `NO_EPISODE`
    opening: int = 0  #: how often the episode has been opened; 0 for a check
    step: int | None = None  #: None for a check
    fence: Fence = no_fence  #: called before each attempt
    watch: Watch = watch_nothing  #: called after each attempt


@dataclass(slots=True)
class PendingCall:
    """Call under way: request, source, key, and the attempts so far."""

    request: ModelRequest
    asker: CallSource
    key: str
    notify: Notify
    is_cached: bool
    is_batched: bool = False  #: True if the provider's batch interface answers the call
    attempts_made: int = 0
    latency_s: float = 0.0
    tools: tuple[str, ...] | None = None  #: the request's tools as strings; None: not computed yet
    _size: PromptBytes | None = None

    @property
    def size(self) -> PromptBytes:
        """Size of the prompt in bytes, computed once."""
        if self._size is None:
            self._size = prompt_bytes(self.request, self.tools)
        return self._size

    @property
    def position(self) -> CallPosition:
        """Position of the call in the log."""
        return self.asker.label, self.key[:KEY_DIGITS]


@dataclass(frozen=True, slots=True)
class WantedReply:
    """A request that has no reply yet, with its source."""

    episode: str
    step: int
    key: str  #: key of the request
    request: ModelRequest

    @property
    def position(self) -> CallPosition:
        """Position of the call in the log."""
        return self.episode, self.key[:KEY_DIGITS]
