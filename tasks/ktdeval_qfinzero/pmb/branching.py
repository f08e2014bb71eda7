"""Branches of a broker: another one that carries out the commands of a log up to a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ktdeval_qfinzero.errors import conflict
from ktdeval_qfinzero.pmb.arguments import Step
from ktdeval_qfinzero.pmb.broker import Broker
from ktdeval_qfinzero.pmb.engine_state import Engine
from ktdeval_qfinzero.pmb.log import Payload
from ktdeval_qfinzero.timestamps import moment_text


def opened_ns(broker: Broker) -> int:
    """Moment at which a broker's clock started."""
    return broker.log.entries[0].ts_ns


def check_moment(broker: Broker, moment_ns: int) -> None:
    """Refuse a moment at which no branch can begin: it lies ahead of the broker's clock, or before
    its start. Raises ServiceError `conflict`.
    """
    now_ns = broker.engine.now_ns
    first_ns = opened_ns(broker)
    if moment_ns > now_ns:
        raise conflict(
            f"the clock stands at {moment_text(now_ns)}; a branch can't begin after it", "as_of_ts"
        )
    if moment_ns < first_ns:
        raise conflict(
            f"the workspace was opened at {moment_text(first_ns)}; a branch can't begin before it",
            "as_of_ts",
        )


def repeat_until(broker: Broker, engine: Engine, moment_ns: int) -> None:
    """Carry out the commands of an engine's log again, up to and including a moment, in a new
    broker whose clock starts where the engine's did. Then its clock stands at the moment.
    """
    for command, given in commands_until(engine, moment_ns):
        broker.repeat(command, given)

    if broker.clock.as_of_ns < moment_ns:
        broker.clock.advance(moment_ns)
        broker.synchronise()


def commands_until(engine: Engine, moment_ns: int) -> Iterator[tuple[str, Payload]]:
    """Yield names and arguments of the commands that an engine carried out up to and including a
    moment. A step that goes past the moment ends there; any other command that moves the clock past
    it is left out.
    """
    commands = [entry for entry in engine.log.entries if entry.kind == "command"]
    # The clock moves within commands only: each leaves it where the next one finds it.
    ends_ns = [entry.ts_ns for entry in commands[1:]] + [engine.now_ns]

    for entry, end_ns in zip(commands, ends_ns, strict=False):
        assert isinstance(entry.data, Mapping)  # commands hold what they were given
        if end_ns <= moment_ns:
            yield entry.type, entry.data
            continue

        if entry.type == "session.step" and entry.ts_ns < moment_ns:
            session_id = str(entry.data["session_id"])
            step = Step(session_id=session_id, until_ts=moment_text(moment_ns))
            yield entry.type, msgspec.to_builtins(step)
        return
