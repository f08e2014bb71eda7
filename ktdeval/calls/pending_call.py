"""A call under way: its source, the request, and the callback for its attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ktdeval.calls.call_log import CallPosition
from ktdeval.calls.prompt_size import PromptBytes, prompt_bytes
from ktdeval.calls.record import KEY_DIGITS, CallRecord
from ktdeval.calls.retry import Notify
from ktdeval.calls.stop_flag import Fence, no_fence
from ktdeval.harness.chat_messages import ModelRequest, Reply

Watch = Callable[[ModelRequest, CallRecord, Reply | None], None]
"""Called with each attempt of a call once it is on record: its request, its record, and its reply
if it has one.
"""


def watch_nothing(request: ModelRequest, record: CallRecord, reply: Reply | None) -> None:
    """Watch a call without doing anything."""


@dataclass(slots=True)
class CallSource:
    """Source of a call: a step of an episode, or a check of the run."""

    label: str  #: id of the episode, or one of `NO_EPISODE`
    opening: int = 0  #: how often the episode had been opened; 0 for a check
    step: int | None = None  #: None for a check
    fence: Fence = no_fence  #: called before each attempt
    watch: Watch = watch_nothing  #: called after each attempt


@dataclass(slots=True)
class PendingCall:
    """Call under way: its request, source and key, and its attempts so far."""

    request: ModelRequest
    asker: CallSource
    key: str
    notify: Notify
    is_cached: bool
    is_batched: bool = False  #: True if it is answered through the provider's batch interface
    attempts_made: int = 0
    latency_s: float = 0.0
    tools: tuple[str, ...] | None = None  #: texts of the request's tools; None: not computed yet
    _size: PromptBytes | None = None

    @property
    def size(self) -> PromptBytes:
        """Bytes of the prompt, computed once."""
        if self._size is None:
            self._size = prompt_bytes(self.request, self.tools)
        return self._size

    @property
    def position(self) -> CallPosition:
        """Position in the call log."""
        return self.asker.label, self.key[:KEY_DIGITS]


@dataclass(frozen=True, slots=True)
class WantedReply:
    """A request that has no reply yet, and its source."""

    episode: str
    step: int
    key: str  #: key of the request
    request: ModelRequest

    @property
    def position(self) -> CallPosition:
        """Position in the call log."""
        return self.episode, self.key[:KEY_DIGITS]
