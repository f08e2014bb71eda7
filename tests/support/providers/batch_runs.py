"""Runs with `--batch` against the stub provider, in this process, whose waits pass at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktdeval.calls.records.call_log import read_calls
from ktdeval.calls.records.record import CallRecord
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.hookspecs import hookimpl
from ktdeval.registry import load_plugins
from ktdeval.runner.execution.run import RunResult, execute_run, prepare_run
from ktdeval.runner.plans.config import RunConfig
from ktdeval.task_api.events import Event
from support.providers.repeat_plugin import PLUGIN
from support.providers.stub_provider import Stub
from support.providers.stub_runs import WIRES

PRICE = {"input": 2, "output": 8, "cache_read": 0.5}


class Killed(BaseException):
    """The process ends here, as by a kill."""


@dataclass
class Clock:
    """Time that passes where somebody sleeps. `waits`: seconds of each sleep together, by the moment
    at which it began; `dies_after`: seconds after which the process is killed.
    """

    now: float = 0.0
    dies_after: float | None = None

    def sleep(self, seconds: float) -> None:
        if self.dies_after is not None and self.now >= self.dies_after:
            raise Killed

        self.now += seconds


@dataclass
class Watch:
    """Keeps the events of a run."""

    events: list[Event] = field(default_factory=list)

    @hookimpl
    def ktdeval_event(self, event: Event) -> None:
        self.events.append(event)


@dataclass
class BatchRun:
    """A run's folder at a stub, over one wire; each `go` is a command of its own."""

    stub: Stub
    folder: Path
    wire: str
    clock: Clock = field(default_factory=Clock)
    watch: Watch = field(default_factory=Watch)

    def config(self, **options: Any) -> RunConfig:
        """Return the options of the run."""
        wire = WIRES[self.wire]
        given = {
            "model": wire.model,
            "model_args": {"api": "chat"} if self.wire == "chat" else {},
            "tasks": ("repeat",),
            "plugin": (str(PLUGIN),),
            "base_url": self.stub.base_url_of(wire.name),
            "tool_protocol": "native",
            "canary": 0,
            "cache": "run",
            "price": PRICE,
            "batch": True,
            "quiet": True,
            "out": str(self.folder),
        }

        return RunConfig(**{**given, **options})

    def go(self, dies_after: float | None = None, **options: Any) -> RunResult:
        """Run the command; raises Killed after so many seconds of waiting."""
        self.clock.now = 0.0
        self.clock.dies_after = dies_after
        self.watch.events.clear()
        config = self.config(**options)
        plugins = load_plugins(config.plugin)
        plugins.register_observer(self.watch)
        stop = StopSignal(lambda: self.clock.now, self.clock.sleep)
        prepared = prepare_run(config, plugins, stop)

        try:
            return execute_run(prepared)
        finally:
            prepared.close()

    def killed(self, dies_after: float = 0.0, **options: Any) -> None:
        """Run the command until it is killed while it waits."""
        try:
            self.go(dies_after, **options)
        except Killed:
            return

        raise AssertionError("it was not killed")

    @property
    def calls(self) -> list[CallRecord]:
        """The record of calls."""
        return list(read_calls(self.folder))

    @property
    def card(self) -> Any:
        """The card."""
        return json.loads((self.folder / "cards/repeat.json").read_text())

    @property
    def batches(self) -> Any:
        """The file of batches."""
        return json.loads((self.folder / "batches.json").read_text())["batches"]
