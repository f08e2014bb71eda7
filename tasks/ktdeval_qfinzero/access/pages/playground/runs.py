"""Runs of chats on threads of this process, and what they have shown so far."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from ktdeval.calls import StopSignal
from ktdeval.errors import KtdevalError
from ktdeval.harness import ModelRequest, Reply, ReplyPiece
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, RunResult, evaluate_watched
from ktdeval.task_api import EpisodeSpec
from ktdeval.values import Value
from ktdeval_qfinzero.access.pages.playground.conversation_view import (
    TalkPart,
    redact_text,
    redacted_part,
    told_messages,
    told_reply,
)
from ktdeval_qfinzero.access.pages.playground.partial_reply import ComingReply
from ktdeval_qfinzero.errors import ServiceError, conflict

_MAX_SHOWN: Final = 2_000


class Shown(Value, frozen=True):
    """One event of a running turn."""

    kind: Literal["part", "asked", "note", "ended"]
    part: TalkPart | None = None  #: of a `part`
    #: of a `note`: what it says; of `ended`: why the turn did not finish; empty where it did
    message: str = ""


@dataclass
class RunUnderWay:
    """A run under way; its events only grow."""

    stop: StopSignal
    events: list[Shown] = field(default_factory=list)
    is_over: bool = False
    message: str = ""  #: why it did not finish
    coming: ComingReply = field(default_factory=ComingReply)  #: the reply that is being received
    thread: threading.Thread | None = None

    def show(self, event: Shown) -> None:
        """Add an event, up to a bound."""
        if len(self.events) < _MAX_SHOWN or event.kind == "ended":
            self.events.append(event)


class _EventWatcher:
    """Adds what is asked and answered to the events of a run, without secrets."""

    def __init__(self, running: RunUnderWay) -> None:
        self._running = running
        self._seen = 0
        self._notes: set[str] = set()

    def asked(self, spec: EpisodeSpec, request: ModelRequest) -> None:  # noqa: ARG002 - one at a time
        new = request.messages[self._seen :]
        if self._seen:
            self._show(told_messages(new))

        self._seen = len(request.messages)
        self._running.show(Shown(kind="asked"))

    def heard(self, spec: EpisodeSpec, piece: ReplyPiece) -> None:  # noqa: ARG002 - one at a time
        if piece.kind == "whole":
            self._note(f"Replies of this model come whole ({piece.text}).")
        else:
            self._running.coming.add(piece)

    def answered(self, spec: EpisodeSpec, reply: Reply) -> None:  # noqa: ARG002 - one at a time
        self._show(told_reply(reply))
        self._running.coming.clear()
        self._seen += 1  # the reply stands among the next request's messages

    def _note(self, text: str) -> None:
        """Say something once."""
        if text not in self._notes:
            self._notes.add(text)
            self._running.show(Shown(kind="note", message=redact_text(text)))

    def _show(self, parts: list[TalkPart]) -> None:
        for part in parts:
            self._running.show(Shown(kind="part", part=redacted_part(part)))


class ChatRuns:
    """Runs by the ids of their chats. `most`: how many may run at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._runs: dict[str, RunUnderWay] = {}
        self._is_closed = False

    def running(self, chat_id: str) -> RunUnderWay | None:
        """Return the last run of a chat in this process; None without one."""
        with self._lock:
            return self._runs.get(chat_id)

    def is_running(self, chat_id: str) -> bool:
        """Whether a model is answering in a chat."""
        run = self.running(chat_id)
        return run is not None and not run.is_over

    def begin(self, chat_id: str, prepare: Callable[[], RunConfig]) -> RunUnderWay:
        """Begin a run on a thread. `prepare`: gives its options, while no other run of the chat can
        begin. Raises ServiceError: the chat runs already, or too many do; and what `prepare` raises.
        """
        with self._lock:
            if self._is_closed:
                raise ServiceError("unavailable", "the server is ending; resume when it runs again")

            before = self._runs.get(chat_id)
            if before is not None and not before.is_over:
                raise conflict("the model is answering in this chat already")

            under_way = [run for run in self._runs.values() if not run.is_over]
            if len(under_way) >= self._most:
                raise ServiceError(
                    "unavailable", f"{self._most} chats are being answered; wait for one of them"
                )

            config = prepare()
            self._forget_finished()
            running = self._runs[chat_id] = RunUnderWay(StopSignal())
            # A daemon, for a second signal ends the server at once.
            running.thread = threading.Thread(target=_run_chat, args=(config, running), daemon=True)
            running.thread.start()

        return running

    def stop_all(self) -> None:
        """Begin no further run, and ask all to end between two calls; what they have recorded is
        resumed later.
        """
        with self._lock:
            self._is_closed = True
            for run in self._runs.values():
                run.stop.interrupt()

    @property
    def under_way(self) -> int:
        """Runs that have not ended, with their files closed."""
        with self._lock:
            threads = [run.thread for run in self._runs.values()]
        return sum(thread is not None and thread.is_alive() for thread in threads)

    def _forget_finished(self) -> None:
        """Keep the events of few finished runs: their turns are on disk."""
        over = [chat_id for chat_id, run in self._runs.items() if run.is_over and not run.message]
        for chat_id in over[: -self._most]:
            del self._runs[chat_id]


def _run_chat(config: RunConfig, running: RunUnderWay) -> None:
    """Run to the end, and keep why it did not finish."""
    message = "the run failed, which is a defect; the server's log says more"
    try:
        result = evaluate_watched(config, load_plugins(), running.stop, _EventWatcher(running))
        message = _problem_of(result)
    except KeyboardInterrupt:
        message = "stopped; resume it to go on"
    except KtdevalError as error:
        message = str(error)
    finally:
        running.message = redact_text(" ".join(message.split()))[:1000]
        running.show(Shown(kind="ended", message=running.message))
        running.is_over = True


def _problem_of(result: RunResult) -> str:
    if not result.failed:
        return ""
    return result.failed[0].error or "the turn did not finish"
