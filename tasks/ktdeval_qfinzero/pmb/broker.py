"""Broker: commands go in, events come out, and the state is derived only from events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec

from ktdeval.errors import DataError
from ktdeval.values import JsonValue, dumps_canonical, loads_strict
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.pmb import commands
from ktdeval_qfinzero.pmb.arguments import MoveClock
from ktdeval_qfinzero.pmb.engine_state import Engine
from ktdeval_qfinzero.pmb.log import FORMAT, EventLog, read_lines
from ktdeval_qfinzero.pmb.reference_data import BrokerReference
from ktdeval_qfinzero.pmb.state_events import BrokerEvent, BrokerState, CommandRefused
from ktdeval_qfinzero.schemas import Arguments
from ktdeval_qfinzero.timestamps import Clock

Command = Callable[[Engine, Any], str]

COMMANDS: Mapping[str, Command] = {
    "clock.move": commands.move_clock,
    "account.create": commands.create_account,
    "session.create": commands.create_session,
    "session.step": commands.step,
    "session.stop": commands.stop,
    "order.place": commands.place,
    "order.cancel": commands.cancel,
    "order.modify": commands.modify,
    "spread.place": commands.place_spread,
    "option.exercise": commands.exercise,
}
"""Name in the log -> function that executes the command and returns the id of the object
concerned.
"""
TAKES: Mapping[str, type[Arguments]] = {
    name: get_type_hints(command)["given"] for name, command in COMMANDS.items()
}
"""Name in the log -> type of the command's arguments."""


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """Outcome of a command that was carried out."""

    id: str  # id of the account, session, order or contract concerned
    given: Arguments  # typed arguments of the command
    before_ns: int  # clock time before the command
    events: tuple[BrokerEvent, ...]  # events that the command caused


class Broker:
    """Accounts, sessions and orders of one workspace.

    `dataset`: bars, corporate actions and contracts; `clock`: advanced by the steps of a session.
    """

    def __init__(self, dataset: Dataset, clock: Clock) -> None:
        self.dataset = dataset
        self.clock = clock
        self._engine = Engine(BrokerReference(dataset), clock.as_of_ns)
        self._engine.place_in_calendar(clock.as_of_ns)
        self._engine.state.now_ns = clock.as_of_ns
        self.log.add(clock.as_of_ns, "header", FORMAT, {"dataset": dataset.info.content_id})

    @property
    def engine(self) -> Engine:
        """State, after catching up with the clock if the workspace has advanced it."""
        self.synchronise()
        return self._engine

    @property
    def state(self) -> BrokerState:
        """Accounts, sessions and orders as of the clock. Only events change this state."""
        return self.engine.state

    @property
    def log(self) -> EventLog:
        """Commands and events so far."""
        return self._engine.log

    def synchronise(self) -> None:
        """Catch up with the clock if the workspace has advanced it, processing the days and ticks
        in between.
        """
        if self.clock.as_of_ns > self._engine.now_ns:
            self._run("clock.move", {"to_ns": self.clock.as_of_ns}, self._engine)

    def execute(self, command: str, given: Mapping[str, JsonValue]) -> CommandOutcome:
        """Carry out a command whose arguments follow its operation's schema, and log it as given.

        `command`: one of `COMMANDS`. Raises ServiceError if the command is refused; the refusal is
        logged too.
        """
        copied = loads_strict(dumps_canonical(given))  # a copy, which callers can't change
        assert isinstance(copied, Mapping)
        return self._run(command, copied, self.engine)

    def repeat(self, command: str, given: Mapping[str, JsonValue]) -> None:
        """Re-execute a logged command. If it was refused, it is refused again. Raises DataError if
        the operation does not take these arguments.
        """
        try:
            if command == "clock.move":
                self.clock.advance(msgspec.convert(given, MoveClock).to_ns)
                self.synchronise()
            elif command in COMMANDS:
                self.execute(command, given)
        except ServiceError:
            return  # the original run also refused the command, as logged
        except msgspec.ValidationError as error:
            raise DataError(
                f"broker log: arguments of a {command} are not what its operation takes: {error}"
            ) from error

    def _run(self, command: str, given: Mapping[str, JsonValue], engine: Engine) -> CommandOutcome:
        arguments = msgspec.convert(given, TAKES[command])
        before_ns = engine.now_ns
        last = len(self.log.entries)
        self.log.add(engine.now_ns, "command", command, given)

        try:
            subject_id = COMMANDS[command](engine, arguments)
        except ServiceError as error:
            session_id = str(given.get("session_id", ""))
            session_id = session_id if session_id in engine.state.sessions else ""
            engine.emit(CommandRefused(session_id, error.code, error.message, error.field))
            raise
        finally:
            if engine.now_ns > self.clock.as_of_ns:
                self.clock.advance(engine.now_ns)

        return CommandOutcome(subject_id, arguments, before_ns, tuple(self.log.events(after=last)))


def rerun(lines: Iterable[str], dataset: Dataset) -> tuple[str, ...]:
    """Re-execute the commands in a log.

    `lines`: lines of the log; `dataset`: data of the original run. Returns the lines of the new
    log, which are the same byte for byte. Raises DataError if the log was changed, or made with
    other data.
    """
    entries = read_lines(lines)
    header = entries[0].data
    if not isinstance(header, Mapping) or header.get("dataset") != dataset.info.content_id:
        raise DataError(
            "broker log: it was made with other data; its header has the content id of the dataset"
            " that it needs"
        )

    broker = Broker(dataset, Clock(entries[0].ts_ns))
    for command, given in EventLog(entries).commands():
        broker.repeat(command, given)

    return broker.log.to_lines()


def verify(lines: Iterable[str], dataset: Dataset) -> None:
    """Check that a log is the result of its commands. Raises DataError with the first line that
    differs, or if `rerun` does.
    """
    recorded = tuple(lines)
    repeated = rerun(recorded, dataset)
    for number, (old, new) in enumerate(zip(recorded, repeated)):
        if old != new:
            raise DataError(
                f"broker log line {number + 1}: carrying out the commands again gives something"
                " else"
            )

    if len(recorded) != len(repeated):
        raise DataError(
            f"broker log: it has {len(recorded)} lines, and carrying out its commands gives"
            f" {len(repeated)}"
        )
