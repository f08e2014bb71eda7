"""Run a program in a sandbox: its input, limits, captured output, outcome and folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

from ktdeval.values import Value, decode_json
from ktdeval_command.sandboxes.relay import Relay
from ktdeval_command.sandboxes.sandbox import Sandbox, SandboxError, Walls
from ktdeval_command.sandboxes.workspace import Archived, ProgramWorkspaces, WorkspaceError

_KEPT_BYTES = 128 << 10
_START_S = 60.0
_GRACE_S = 30.0
_LAST_OUTPUT_S = 3.0
_MAX_LINE_BYTES = 4096

Kind = Literal[
    "exited",
    "killed",
    "timed_out",
    "stopped",
    "not_found",
    "not_executable",
    "too_much_disk",
    "too_much_memory",
    "lost",
]


class ProgramOutcome(Value):
    """The end of a program."""

    kind: Kind
    code: int | None = None  #: exit status if the kind is `exited`, signal if it is `killed`
    detail: str = ""

    def __str__(self) -> str:
        """Human-readable text, such as `exited 3`."""
        if self.kind == "exited":
            return f"exited {self.code}"
        if self.kind == "killed":
            return f"killed by signal {_signal_name(self.code)}"

        words = self.kind.replace("_", " ")
        return f"{words}: {self.detail}" if self.detail else words


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return str(number)


@dataclass(frozen=True)
class ProgramLimits:
    """Limits of a program. Memory is the total of all its processes; CPU time, open files and file
    size are limited for each process.
    """

    wall_s: float = 600.0  #: seconds for a step
    cpu_s: int = 600  #: seconds of CPU time of each process
    memory_bytes: int = 4 << 30  #: maximum memory of all processes
    #: maximum number of processes, including threads; enforced only in a sandbox, otherwise the
    #: user's limit applies
    processes: int = 256
    open_files: int = 1024  #: maximum number of open files per process


@dataclass(frozen=True)
class Start:
    """Program to start. `environment`: its variables; no other variables of this process reach the
    program. `ports`: loopback ports of this machine to which the program may connect, on 127.0.0.1
    and under the same numbers.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    ports: tuple[int, ...] = ()
    limits: ProgramLimits = field(default_factory=ProgramLimits)


@dataclass(frozen=True)
class Captured:
    """Output of a program: its first and last bytes, and the number of bytes dropped between the
    two.
    """

    head: bytes
    tail: bytes
    dropped: int

    def text(self) -> str:
        """Return the captured output, with a line where bytes were dropped."""
        between = f"\n… {self.dropped} bytes dropped …\n".encode() if self.dropped else b""
        return (self.head + between + self.tail).decode("utf-8", "replace")


@dataclass(frozen=True)
class FinishedProgram:
    """A program that ended. `folder` is its archived folder. If it is None, `folder_problem` has
    the reason, and the previous folder stays valid.
    """

    outcome: ProgramOutcome
    stdout: Captured
    stderr: Captured
    folder: Archived | None
    folder_problem: str
    wall_s: float


class _Capture:
    """Reads a pipe to its end, in a thread and in bounded memory."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._dropped = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="ktdeval-capture", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while data := os.read(self._pipe.fileno(), 1 << 18):
                with self._lock:
                    self._keep(data)

    def _keep(self, data: bytes) -> None:
        room = _KEPT_BYTES - len(self._head)
        self._head += data[:room]
        rest = data[room:] if room > 0 else data
        if not rest:
            return

        self._tail.append(rest)
        self._tail_bytes += len(rest)
        while self._tail_bytes - len(self._tail[0]) >= _KEPT_BYTES:
            gone = len(self._tail.popleft())
            self._tail_bytes -= gone
            self._dropped += gone

    def wait_for_output(self) -> Captured:
        """Return the captured output once the pipe ends. If a process outside the sandbox holds the
        pipe open, return it after a short wait.
        """
        self._thread.join(_LAST_OUTPUT_S)
        with self._lock:
            tail = b"".join(self._tail)
            more = max(0, len(tail) - _KEPT_BYTES)
            return Captured(bytes(self._head), tail[more:], self._dropped + more)


class RunningProgram:
    """A program that was started, or that failed to start; see `wait`."""

    def __init__(
        self, process: subprocess.Popen[bytes], channel: socket.socket, start: Start
    ) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self._process = process
        self._channel = channel
        self._start = start
        self._stdout = _Capture(process.stdout)  # type: ignore[arg-type]
        self._stderr = _Capture(process.stderr)  # type: ignore[arg-type]
        self._stream = channel.makefile("rb")
        self._began = time.monotonic()
        self._feeder = threading.Thread(
            target=_feed, args=(process.stdin, start.stdin), name="ktdeval-stdin", daemon=True
        )
        self._feeder.start()

    def give_order(
        self, order: Mapping[str, object], workspaces: ProgramWorkspaces, listing: str | None
    ) -> None:
        """Send the order and the contents of the folder. Raises SandboxError if the sandbox ended."""
        self._channel.settimeout(_START_S)
        try:
            with self._channel.makefile("wb") as stream:
                stream.write(json.dumps(order).encode() + b"\n")
                workspaces.send(stream, listing)
        except OSError as error:
            raise self._broken() from error

    def listeners(self) -> dict[int, socket.socket]:
        """Receive the listening sockets for the ports. Raises SandboxError if the sandbox ended."""
        ports = self._start.ports
        try:
            data, descriptors, _, _ = socket.recv_fds(self._channel, 1, len(ports))
        except OSError as error:
            raise self._broken() from error

        sockets = [socket.socket(fileno=number) for number in descriptors]
        if data != b"L":
            raise self._broken()
        return dict(zip(ports, sockets))

    @property
    def process_group(self) -> int:
        """Process group id of the sandbox."""
        return self._process.pid

    def stop(self) -> None:
        """End the program; may be called from any thread. Its folder is still archived."""
        with suppress(OSError):
            self._channel.send(b"S")

    def wait(self, workspaces: ProgramWorkspaces) -> FinishedProgram:
        """Wait until the program and all processes that it left behind have ended."""
        self._channel.settimeout(self._start.limits.wall_s + _GRACE_S)
        try:
            outcome = self._read_outcome()
            folder, problem = self._read_folder(outcome, workspaces)
        except (TimeoutError, WorkspaceError, ConnectionError) as error:
            outcome = ProgramOutcome(
                kind="lost", detail=f"the sandbox ended without an outcome ({error})"
            )
            folder, problem = None, str(outcome)

        self.end()
        return FinishedProgram(
            outcome=outcome,
            stdout=self._stdout.wait_for_output(),
            stderr=self._stderr.wait_for_output(),
            folder=folder,
            folder_problem=problem,
            wall_s=time.monotonic() - self._began,
        )

    def _read_outcome(self) -> ProgramOutcome:
        line = self._read_line()
        if line == b'{"started": true}\n':
            line = self._read_line()
        return read_outcome(line)

    def _read_line(self) -> bytes:
        return self._stream.readline(_MAX_LINE_BYTES)

    def _read_folder(
        self, outcome: ProgramOutcome, workspaces: ProgramWorkspaces
    ) -> tuple[Archived | None, str]:
        if outcome.kind in ("too_much_disk", "not_found", "not_executable"):
            return None, str(outcome)
        try:
            return workspaces.receive(self._stream), ""
        except WorkspaceError as error:
            return None, str(error)

    def end(self) -> None:
        """End all of the program's processes, whatever state they are in."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)  # the supervisor ends them, and then itself
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

        self._stream.close()
        self._channel.close()

    def _broken(self) -> SandboxError:
        self.end()
        lines = self._stderr.wait_for_output().text().strip().splitlines() or ["no reason given"]
        return SandboxError(
            f"sandbox: ended before the program began: {lines[-1][:300]}; run the step again"
        )


def read_outcome(line: bytes) -> ProgramOutcome:
    """Return the outcome in a line that the supervisor sent. Raises WorkspaceError if the line is
    not an outcome.
    """
    return decode_json(line, ProgramOutcome, "sandbox", WorkspaceError)


def _feed(pipe: BinaryIO, data: bytes) -> None:
    with suppress(BrokenPipeError), pipe:
        pipe.write(data)


@contextmanager
def start_program(
    start: Start, sandbox: Sandbox, workspaces: ProgramWorkspaces, listing: str | None
) -> Iterator[RunningProgram]:
    """Start a program in a folder with the contents of a listing (None: empty). When the block
    ends, end the program with all its descendants.

    The calling thread must live as long as the program, because the kernel ends a sandbox together
    with the thread that created it. Raises SandboxError if the sandbox can't be created.
    """
    limits = start.limits
    argv = [sandbox.program_path(start.argv[0]), *start.argv[1:]]
    with ExitStack() as stack:
        walls = stack.enter_context(sandbox.walls(workspaces.limits.disk_bytes))
        process, channel = _spawn(walls)
        program = RunningProgram(process, channel, start)
        stack.callback(program.end)
        order = {
            "argv": argv,
            "environment": walls.environment(start.environment),
            "home": walls.home,
            "temporary": walls.temporary,
            "mount": walls.mount,
            "everyone": walls.own_processes,
            "ports": start.ports if walls.own_network else (),
            "limits": {
                "wall_s": limits.wall_s,
                "cpu_s": limits.cpu_s,
                "memory_bytes": limits.memory_bytes,
                "processes": limits.processes if walls.own_processes else 0,
                "open_files": limits.open_files,
                "disk_bytes": workspaces.limits.disk_bytes,
                "disk_files": workspaces.limits.disk_files,
            },
        }
        program.give_order(order, workspaces, listing)
        listeners = program.listeners()
        if listeners:
            stack.enter_context(Relay(listeners))
        yield program


def run_program(
    start: Start, sandbox: Sandbox, workspaces: ProgramWorkspaces, listing: str | None = None
) -> FinishedProgram:
    """Run a program to its end. Arguments and errors are as in `start_program`."""
    with start_program(start, sandbox, workspaces, listing) as program:
        return program.wait(workspaces)


def _spawn(walls: Walls) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    user: dict[str, int | list[int]] = {}
    if walls.user is not None:
        user = {"user": walls.user, "group": walls.user, "extra_groups": []}

    with theirs:
        try:
            process = subprocess.Popen(  # noqa: S603 - an argv of ours
                [*walls.command, str(theirs.fileno())],
                env={},
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(), *walls.descriptors),
                start_new_session=True,
                bufsize=0,
                **user,  # type: ignore[call-overload]
            )
        except OSError as error:
            ours.close()
            raise SandboxError(f"sandbox: can't start {walls.command[0]}: {error}") from error

    return process, ours
