"""Chat runs on threads of this process, with the model calls that each has made so far."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ktdeval.calls import StopSignal
from ktdeval.errors import KtdevalError
from ktdeval.harness import ModelRequest, Reply, ReplyPiece
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig
from ktdeval.task_api import EpisodeSpec
from ktdeval.values import JsonValue
from ktdeval_qfinzero.access.watched_run import evaluate_watched
from ktdeval_qfinzero.errors import ServiceError, conflict


@dataclass
class RunUnderWay:
    """Run of a chat, which observes its model calls. Only its own thread writes here, and lists
    only grow, so other threads may read.
    """

    stop: StopSignal = field(default_factory=StopSignal)
    #: model calls so far, in transcript form, without the question
    exchanges: list[dict[str, JsonValue]] = field(default_factory=list)
    coming: str = ""  #: text of the reply being received, including its calls
    message: str = ""  #: why the run did not finish
    thread: threading.Thread | None = None
    _seen: int = 0

    @property
    def is_over(self) -> bool:
        """True once the run has ended and its files are closed."""
        return self.thread is None or not self.thread.is_alive()

    def keep_request(self, spec: EpisodeSpec, request: ModelRequest) -> None:  # noqa: ARG002 - one at a time
        """Keep the messages that a request adds to the request before it."""
        new = request.messages[self._seen :] if self._seen else ()
        self._seen = len(request.messages) + 1  # the next request's messages include the reply
        self.exchanges.append({"sent": [message.to_json() for message in new]})

    def heard(self, spec: EpisodeSpec, piece: ReplyPiece) -> None:  # noqa: ARG002 - one at a time
        """Add a piece to the reply being received."""
        if piece.kind == "begun":
            self.coming = ""
        elif piece.kind == "whole":
            self.coming = f"Replies of this model come whole ({piece.text}). "
        else:
            self.coming += piece.name + piece.text

    def keep_reply(self, spec: EpisodeSpec, reply: Reply) -> None:  # noqa: ARG002 - one at a time
        """Keep a complete reply."""
        self.exchanges[-1] = {**self.exchanges[-1], "reply": reply.to_json()}
        self.coming = ""

    def run(self, config: RunConfig) -> None:
        """Run to the end. If the run fails, store the reason."""
        self.message = "the run failed, which is a defect; the server's log says more"
        try:
            result = evaluate_watched(config, load_plugins(), self.stop, self)
            self.message = ""
            if result.failed:
                self.message = result.failed[0].error or "the turn did not finish"
        except KeyboardInterrupt:
            self.message = "stopped; resume it to go on"
        except KtdevalError as error:
            self.message = str(error)


class ChatRuns:
    """Chat runs, keyed by chat id. `max_running`: how many may run at once."""

    def __init__(self, max_running: int) -> None:
        self._max_running = max_running
        self._lock = threading.Lock()
        self._runs: dict[str, RunUnderWay] = {}
        self._is_closed = False

    def latest(self, chat_id: str) -> RunUnderWay:
        """Return the last run of a chat in this process or, without one, a run that never
        began.
        """
        return self._runs.get(chat_id, RunUnderWay())

    def begin(self, chat_id: str, prepare: Callable[[], RunConfig]) -> None:
        """Begin a run on a thread.

        `prepare` returns the run's options; while it does, no other run of the chat can begin.
        Raises ServiceError if the chat is already running or too many chats are running; errors
        from `prepare` are passed on.
        """
        with self._lock:
            if self._is_closed:
                raise ServiceError("unavailable", "the server is ending; resume when it runs again")
            if not self.latest(chat_id).is_over:
                raise conflict("the model is answering in this chat already")
            if self.under_way >= self._max_running:
                raise ServiceError(
                    "unavailable",
                    f"{self._max_running} chats are being answered; wait for one of them",
                )

            run = RunUnderWay()
            # A daemon thread, since a second signal ends the server at once.
            run.thread = threading.Thread(target=run.run, args=(prepare(),), daemon=True)
            self._runs[chat_id] = run
            run.thread.start()

    def stop_all(self) -> None:
        """Start no new runs, and ask all runs to end between two calls. A later resume uses their
        recorded calls.
        """
        with self._lock:
            self._is_closed = True
            for run in self._runs.values():
                run.stop.interrupt()

    @property
    def under_way(self) -> int:
        """Number of runs that have not ended."""
        return sum(not run.is_over for run in list(self._runs.values()))
