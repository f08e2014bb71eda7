"""Programs that behave and programs that don't: each ends with a typed outcome, and nothing of it is
left.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from ktdeval.testing import on_each_row
from ktdeval_command.sandboxes.program import (
    FinishedProgram,
    ProgramLimits,
    Start,
    read_outcome,
    run_program,
    start_program,
)
from ktdeval_command.sandboxes.sandbox import NoSandbox, Sandbox, SandboxError
from ktdeval_command.sandboxes.workspace import FolderLimits, ProgramWorkspaces, WorkspaceError

PYTHON = "/usr/bin/python3"
LIMITS = ProgramLimits(wall_s=60.0)

pytestmark = pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"needs {PYTHON}")


def python(code: str, **start: object) -> Start:
    return replace(Start((PYTHON, "-I", "-S", "-c", dedent(code)), limits=LIMITS), **start)


def shell(text: str, **start: object) -> Start:
    return replace(Start(("sh", "-c", text), limits=LIMITS), **start)


def run(start: Start, sandbox: Sandbox, workspaces: ProgramWorkspaces) -> FinishedProgram:
    return run_program(start, sandbox, workspaces)


def command_lines() -> bytes:
    """Command lines of all processes of this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return b"\n".join(found)


# ---- outcomes


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("exit 0", "exited 0"),
        ("exit 3", "exited 3"),
        ("kill -9 $$", "killed by signal SIGKILL"),
        ("kill -SEGV $$", "killed by signal SIGSEGV"),
    ],
)
def test_a_program_ends_by_status_or_signal(
    text: str, outcome: str, sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    assert str(run(shell(text), sandbox, workspaces).outcome) == outcome


def test_a_file_that_is_no_program_is_not_executable(
    sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    done = run(Start(("/usr/include",)), sandbox, workspaces)

    assert str(done.outcome) == "not executable: Permission denied"


@pytest.mark.parametrize(
    "text",
    ["sleep 1000", "trap '' TERM INT HUP; while :; do sleep 1000; done", "kill -STOP $$"],
    ids=["sleeps", "ignores signals", "stops itself"],
)
def test_a_program_that_never_ends_is_timed_out(
    text: str, sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    done = run(shell(text, limits=ProgramLimits(wall_s=0.3)), sandbox, workspaces)

    assert str(done.outcome) == "timed out"
    assert done.folder is not None


def test_a_program_that_is_stopped_keeps_what_it_wrote(
    sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"""
        import socket, time
        print("note", file=open("memory.md", "w"), flush=True)
        connection = socket.create_connection(("127.0.0.1", {port}))
        time.sleep(1000)
        """
        with start_program(python(code, ports=(port,)), sandbox, workspaces, None) as program:
            server.accept()
            threading.Thread(target=program.stop).start()
            done = program.wait(workspaces)

    assert str(done.outcome) == "stopped"
    assert done.folder is not None
    assert [entry.path for entry in workspaces.entries(done.folder.listing)] == ["memory.md"]


# ---- output


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [0, 1, 131_072, 131_073, 262_144, 262_145, 3_000_001])
def test_output_keeps_its_ends_and_counts_the_rest(
    size: int, sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    code = f"import sys; sys.stdout.write(''.join(chr(97 + i % 26) for i in range({size})))"
    whole = "".join(chr(97 + i % 26) for i in range(size)).encode()

    done = run(python(code), sandbox, workspaces)
    kept = done.stdout

    assert kept.head == whole[:131_072]
    assert kept.tail == whole[131_072:][-131_072:]
    assert len(kept.head) + len(kept.tail) + kept.dropped == size
    assert ("bytes dropped" in kept.text()) == (size > 262_144)


@pytest.mark.exhaustive
def test_a_gigabyte_of_output_fills_nothing(
    sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    start = shell("head -c 1000000000 /dev/zero; head -c 1000000 /dev/zero >&2")

    done = run(start, sandbox, workspaces)

    assert str(done.outcome) == "exited 0"
    assert done.stdout.dropped == 1_000_000_000 - 262_144
    assert done.stderr.dropped == 1_000_000 - 262_144
    assert done.folder is not None
    assert done.folder.size == 0


DAEMON = """
import os, socket, sys, time
port, ends = sys.argv[1:]
read, write = os.pipe()
if os.fork():
    os.read(read, 1)
    time.sleep(0 if ends == "exit" else 1000)
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
connection = socket.create_connection(("127.0.0.1", int(port)))
print("daemon", flush=True)  # it holds the output open
os.write(write, b"x")
time.sleep(1000)
"""


@pytest.mark.parametrize("ends", ["exit", "stop"])
def test_daemons_are_ended_with_the_program(
    ends: str, sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        start = python(DAEMON, ports=(port,))
        start = replace(start, argv=(*start.argv, str(port), ends))
        with start_program(start, sandbox, workspaces, None) as program:
            daemon, _ = server.accept()
            if ends == "stop":
                program.stop()
            done = program.wait(workspaces)

        with daemon:
            daemon.settimeout(60)
            assert daemon.recv(1) == b""  # closed by the daemon's end

    assert str(done.outcome) == ("exited 0" if ends == "exit" else "stopped")
    assert done.folder is not None


# ---- nothing is left


KILLED = """
import sys, threading
from pathlib import Path
from ktdeval.stores import LocalStore
from ktdeval_command.sandboxes.program import Start, run_program
from ktdeval_command.sandboxes.sandbox import open_sandbox
from ktdeval_command.sandboxes.workspace import FolderLimits, ProgramWorkspaces

name, folder, mark = sys.argv[1:]
workspaces = ProgramWorkspaces(LocalStore(Path(folder)), "w", FolderLimits())
code = "import socket; socket.create_connection(('127.0.0.1', {port})).recv(1); input()"
code = code.replace("{port}", mark)
argv = ("/usr/bin/python3", "-c", code, "mark-" + mark)
run_program(Start(argv, ports=(int(mark),)), open_sandbox(name), workspaces)
"""


@pytest.mark.slow
def test_nothing_is_left_when_ktdeval_is_killed(sandbox: Sandbox, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = str(server.getsockname()[1])
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, sandbox.name, str(tmp_path), port],
        )
        reached, _ = server.accept()
        assert f"mark-{port}".encode() in command_lines()

        process.kill()
        process.wait()

        # The program's end closes its connection.
        with reached:
            reached.settimeout(60)
            assert reached.recv(1) == b""


def test_a_sandbox_that_is_killed_is_a_lost_program(
    bwrap: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    with start_program(shell("sleep 1000"), bwrap, workspaces, None) as program:
        os.killpg(program.process_group, signal.SIGKILL)
        done = program.wait(workspaces)

    assert done.outcome.kind == "lost"
    assert done.folder is None


@pytest.mark.slow
def test_a_program_that_kills_its_supervisor_is_lost_and_nothing_waits(
    workspaces: ProgramWorkspaces,
) -> None:
    """Without walls it can; the program dies with the supervisor, a daemon of it does not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"""
        import os, signal, socket, time
        supervisor = os.getppid()
        read, write = os.pipe()
        if os.fork() == 0:
            connection = socket.create_connection(("127.0.0.1", {port}))
            os.write(write, b"x")
            connection.recv(1)
            os._exit(0)
        os.read(read, 1)
        os.kill(supervisor, signal.SIGKILL)
        time.sleep(1000)
        """
        with start_program(python(code), NoSandbox(), workspaces, None) as program:
            daemon, _ = server.accept()
            done = program.wait(workspaces)
        daemon.close()  # ends it

    assert done.outcome.kind == "lost"
    assert done.folder is None


LEAST = replace(LIMITS, memory_bytes=256 << 20, open_files=50)


@on_each_row(
    "code, said",
    (
        """
        for number in range(100):
            with open(f"file-{number}", "wb") as file:
                file.write(bytes(1_000_000))
        input()
        """,
        "too much disk: its folders reached 4194304 bytes",
    ),
    (
        """
        for number in range(1000):
            open(f"file-{number}", "w").close()
        """,
        "too much disk: its folders hold more than 200 files",
    ),
    ("bytes(400 << 20)", "MemoryError"),
    ('files = [open("/dev/null") for _ in range(100)]', "Too many open files"),
)
def test_a_program_can_not_take_more_than_its_limits(
    code: str, said: str, sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    done = run(python(code, limits=LEAST), sandbox, workspaces)

    assert said in f"{done.outcome}\n{done.stderr.text()}"
    assert done.folder is None or "disk" not in said


def test_deleted_files_count_while_they_are_open(
    bwrap: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    code = """
    import os
    files = []
    for number in range(20):
        file = open("file", "wb")
        os.unlink("file")
        file.write(bytes(1_000_000))
        file.flush()
        files.append(file)
    """
    done = run(python(code), bwrap, workspaces)

    assert "No space left on device" in done.stderr.text()


# ---- limits


def test_files_with_holes_count_whole(sandbox: Sandbox, workspaces: ProgramWorkspaces) -> None:
    code = """
    for number in range(4):
        with open(f"file-{number}", "wb") as file:
            file.truncate(3_000_000)
    """
    done = run(python(code), sandbox, workspaces)

    assert done.folder is None
    assert "more than 4194304 bytes" in done.folder_problem


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["private", "shared"])
def test_processes_together_can_not_either(
    kind: str, sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    code = f"""
    import mmap, os, time
    kind = {kind!r}
    for number in range(4):
        if os.fork() == 0:
            flags = mmap.MAP_PRIVATE if kind == "private" else mmap.MAP_SHARED
            memory = mmap.mmap(-1, 24 << 20, flags | mmap.MAP_ANONYMOUS)
            for start in range(0, 24 << 20, 4096):
                memory[start] = 1
            time.sleep(1000)
    os.wait()
    """
    done = run(python(code, limits=replace(LIMITS, memory_bytes=64 << 20)), sandbox, workspaces)

    assert str(done.outcome) == "too much memory: over 67108864 bytes"


def test_a_fork_bomb_reaches_its_limit(bwrap: Sandbox, workspaces: ProgramWorkspaces) -> None:
    code = """
    import os, time
    count = 0
    try:
        while True:
            if os.fork() == 0:
                time.sleep(1000)
            count += 1
    except OSError as error:
        print(count, error.strerror)
    """
    done = run(python(code, limits=replace(LIMITS, processes=20)), bwrap, workspaces)

    count, _, reason = done.stdout.text().partition(" ")
    assert (int(count) < 20, reason) == (True, "Resource temporarily unavailable\n")
    assert str(done.outcome) == "exited 0"


@pytest.mark.exhaustive
def test_a_bomb_that_forks_for_ever_is_ended(bwrap: Sandbox, workspaces: ProgramWorkspaces) -> None:
    code = """
    import os
    while True:
        try:
            os.fork()
        except OSError:
            pass
    """
    limits = replace(LIMITS, processes=50, wall_s=1.0)

    assert str(run(python(code, limits=limits), bwrap, workspaces).outcome) == "timed out"


@pytest.mark.exhaustive
def test_time_of_the_processor_is_limited(sandbox: Sandbox, workspaces: ProgramWorkspaces) -> None:
    done = run(shell("while :; do :; done", limits=replace(LIMITS, cpu_s=1)), sandbox, workspaces)

    assert str(done.outcome) == "killed by signal SIGKILL"


# ---- services


def serve(server: socket.socket) -> None:
    """Answer each connection with what it sent, turned round."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return

        with connection, connection.makefile("rwb") as stream:
            stream.write(stream.read()[::-1])
            stream.flush()


@pytest.mark.exhaustive
def test_two_services_are_reached_under_their_ports(
    sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    code = """
    import socket, sys
    for port in sys.argv[1:]:
        for size in (3, 2_000_000):
            with socket.create_connection(("127.0.0.1", int(port))) as made:
                made.sendall(b"ab" * size)
                made.shutdown(socket.SHUT_WR)
                assert made.makefile("rb").read() == b"ba" * size
        print(port)
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as bridge,
        socket.create_server(("127.0.0.1", 0)) as tools,
    ):
        for server in (bridge, tools):
            threading.Thread(target=serve, args=(server,), daemon=True).start()

        ports = (bridge.getsockname()[1], tools.getsockname()[1])
        start = python(code, ports=ports)
        start = replace(start, argv=(*start.argv, *map(str, ports)))
        done = run(start, sandbox, workspaces)

    assert done.stdout.text() == f"{ports[0]}\n{ports[1]}\n", done.stderr.text()


def test_a_service_that_is_gone_closes_the_connection(
    sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    code = f"""
    import socket
    try:
        print(socket.create_connection(("127.0.0.1", {port})).recv(1))
    except ConnectionError:
        print(b"")
    """
    assert run(python(code, ports=(port,)), sandbox, workspaces).stdout.text() == "b''\n"


@pytest.mark.exhaustive
def test_more_connections_than_allowed_are_closed(
    bwrap: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    code = """
    import socket, sys
    made = []
    for _ in range(256):
        made.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
        made[-1].sendall(b"x")
        assert made[-1].recv(1) == b"y"
    print("all open")
    print(socket.create_connection(("127.0.0.1", int(sys.argv[1]))).recv(1))
    """
    with socket.create_server(("127.0.0.1", 0), backlog=300) as server:
        kept: list[socket.socket] = []

        def answer() -> None:
            while len(kept) < 256:
                kept.append(server.accept()[0])
                kept[-1].recv(1)
                kept[-1].sendall(b"y")

        threading.Thread(target=answer, daemon=True).start()
        port = server.getsockname()[1]
        start = python(code, ports=(port,))
        done = run(replace(start, argv=(*start.argv, str(port))), bwrap, workspaces)
        for connection in kept:
            connection.close()

    assert done.stdout.text() == "all open\nb''\n", done.stderr.text()


# ---- the folder


@pytest.mark.exhaustive
def test_a_program_finds_its_folder_again(sandbox: Sandbox, workspaces: ProgramWorkspaces) -> None:
    first = workspaces.from_files({"state.json": b"{}", "bin/tool": b"#!/bin/sh\necho tool\n"})
    text = "cat state.json; chmod +x bin/tool; mkdir -p empty/deep; printf '\\0\\377' > bytes"
    before = run_program(shell(text), sandbox, workspaces, first)
    assert before.folder is not None

    after = run_program(
        shell("bin/tool; ls -d empty/deep; od -An -tx1 bytes"),
        sandbox,
        workspaces,
        before.folder.listing,
    )

    assert before.stdout.text() == "{}"
    assert after.stdout.text() == "tool\nempty/deep\n 00 ff\n"
    assert after.folder == before.folder


def test_both_kinds_of_walls_archive_the_same(
    bwrap: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    text = "mkdir a; echo 1 > a/b; echo 2 > a.b; chmod 000 a; touch 'a b' '\\' é"
    inside = run(shell(text), bwrap, workspaces)
    without = run(shell(text), NoSandbox(), workspaces)

    assert inside.folder is not None
    assert inside.folder == without.folder
    assert inside.folder.files == 6


# ---- the supervisor's words


@pytest.mark.parametrize(
    "line",
    [b"", b"{}\n", b'{"kind":"won"}\n', b'{"kind":"exited","code":"0"}\n', b"\xff\n", b"[1]\n"],
)
def test_a_malformed_outcome_is_an_error(line: bytes) -> None:
    with pytest.raises(WorkspaceError):
        read_outcome(line)


def test_walls_that_can_not_be_made_are_an_error(workspaces: ProgramWorkspaces) -> None:
    from ktdeval_command.sandboxes.sandbox import Bubblewrap

    broken = Bubblewrap("/usr/bin/false", PYTHON)

    with pytest.raises(SandboxError, match="ended before the program began"):
        run(shell("exit 0"), broken, workspaces)


@pytest.mark.exhaustive
def test_limits_of_the_folder_are_those_of_the_archive(tmp_path: Path, bwrap: Sandbox) -> None:
    from ktdeval.stores import LocalStore

    small = FolderLimits(disk_bytes=1 << 16, disk_files=3)
    workspaces = ProgramWorkspaces(LocalStore(tmp_path), "w", small)

    assert run(shell("echo 1 > a"), bwrap, workspaces).folder is not None
    assert run(shell("touch a b c d"), bwrap, workspaces).folder is None
