"""A scripted model, and the folder of a run in which clients call it one after another."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ktdeval.calls.client import ClientSettings, ModelClient
from ktdeval.calls.costs.prices import Price
from ktdeval.calls.records.call_log import CallLog, read_calls
from ktdeval.calls.records.database import CallDatabase
from ktdeval.calls.records.record import CallRecord
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.harness.chat_messages import (
    CallParams,
    Message,
    ModelRequest,
    Reply,
    ToolProtocol,
    Usage,
)
from ktdeval.values import JsonValue

PRICE = Price(input=2.0, output=10.0)
USAGE = Usage(15, 80)
COST = 0.00083
"""US dollars of `USAGE` at `PRICE`."""

Answer = Reply | BaseException


def reply_to(text: str, **changes: Any) -> Reply:
    return replace(Reply(f"answer to {text}", usage=USAGE, served_by="model-1-2026"), **changes)


def ask(text: str, seed: int = 0) -> ModelRequest:
    return ModelRequest(
        (Message("user", text),), params=CallParams(seed=seed, max_output_tokens=100)
    )


class OpenProvider:
    """Unused parts of a test provider: a connection, settings, secrets."""

    def connect(self) -> None:
        """It is always connected."""

    def settings(self) -> JsonValue:
        return {}

    def secrets(self) -> tuple[str, ...]:
        return ()


class ScriptedModel(OpenProvider):
    """A `RemoteModel` that answers by a function of the request and of how often it was asked the
    same; it counts all it does.
    """

    provider = "scripted"
    name = "model-1"
    endpoint = "http://localhost/v1"
    protocols: tuple[ToolProtocol, ...] = ("native",)
    price_table: Path | None = None

    def __init__(self, answer: Callable[[str, int], Answer] | None = None) -> None:
        self.answer = answer or (lambda text, attempt: reply_to(text))
        self.lock = threading.Lock()
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.at_once = self.max_at_once = 0

    def reply(self, request: ModelRequest) -> Reply:
        text = request.messages[-1].content
        with self.lock:
            self.asked[text] += 1
            attempt = self.asked[text]
            self.at_once += 1
            self.max_at_once = max(self.max_at_once, self.at_once)

        try:
            answer = self.answer(text, attempt)
        finally:
            with self.lock:
                self.at_once -= 1

        if isinstance(answer, BaseException):
            raise answer

        with self.lock:
            self.answered[text] += 1

        return answer


def failing(error: BaseException, *good: str) -> ScriptedModel:
    """A model that answers only these questions."""
    return ScriptedModel(lambda text, attempt: reply_to(text) if text in good else error)


class RunClients:
    """A run's folder, and clients opened in it one after another, as by one command after
    another.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stop = StopSignal()
        self.notes: list[tuple[str, float, int, int, str]] = []
        self._open: list[Any] = []

    def client(
        self, model: ScriptedModel, price: Price | None = PRICE, **settings: Any
    ) -> ModelClient:
        self.close()
        self.stop = StopSignal()
        cache = CallDatabase(self.folder / "replies.sqlite")
        log = CallLog(self.folder, cache)
        self._open = [log, cache]

        return ModelClient(
            model, ClientSettings(**{"backoff_s": 0.001, **settings}), price, log, self.stop
        )

    def note(self, kind: str, wait_s: float, attempt: int, attempts: int, problem: str) -> None:
        self.notes.append((kind, wait_s, attempt, attempts, problem))

    def close(self) -> None:
        while self._open:
            self._open.pop(0).close()

    def records(self) -> list[CallRecord]:
        """The book, all of it."""
        self.close()
        return list(read_calls(self.folder))
