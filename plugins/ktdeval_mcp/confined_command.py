"""`python -m ktdeval_mcp.confined_command ROOT… -- WORDS`: a command of ktdeval that opens no file
outside the folders ROOT.

A folder, a plan or a record below a root may name or link to a file elsewhere, so checking the
arguments is not enough. Python's audit hook sees every file that Python code opens, lists, makes
or removes. Files that libraries open in C are not seen.
"""

from __future__ import annotations

import errno
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from ktdeval.runner import cache_folder

#: what Python and its libraries read of the system; nothing that is private to a user
_SYSTEM = (
    "/usr", "/lib", "/lib64", "/bin", "/dev/null", "/dev/urandom", "/dev/random", "/sys",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/mounts", "/proc/sys",
    "/etc/localtime", "/etc/timezone", "/etc/ssl", "/etc/mime.types", "/etc/os-release",
)  # fmt: skip
_OF_PROCESS = ("cgroup", "status", "stat", "mountinfo", "fd", "task")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READ_EVENTS = frozenset({"os.listdir", "os.scandir"})
_WRITE_EVENTS = frozenset({
    "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir",
    "os.symlink", "os.truncate", "os.utime",
})  # fmt: skip
_TWO_PATHS = frozenset({"os.link", "os.rename", "os.symlink"})


def confine(roots: Iterable[str]) -> None:
    """Let this process open only files below the roots, its temporary folder, ktdeval's cache and,
    to read, the installed packages. It can't be undone. Other files raise PermissionError.
    """
    own = [*roots, tempfile.gettempdir(), str(cache_folder())]
    writable = _real_paths(own)
    packages = [sys.prefix, sys.base_prefix, *filter(None, sys.path)]
    process = [f"/proc/{os.getpid()}/{name}" for name in _OF_PROCESS]
    readable = writable + _real_paths([*packages, *_SYSTEM, *process])
    sys.addaudithook(_hook(readable, writable))


def _real_paths(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(os.path.realpath(path) for path in paths)


def _hook(
    readable: tuple[str, ...], writable: tuple[str, ...]
) -> Callable[[str, tuple[Any, ...]], None]:
    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            writes = isinstance(flags, int) and bool(flags & _WRITES)
            _check(path, writable if writes else readable)
        elif event in _READ_EVENTS:
            _check(args[0], readable)
        elif event in _WRITE_EVENTS:
            for path in args[:2] if event in _TWO_PATHS else args[:1]:
                _check(path, writable)

    return hook


def _check(path: Any, allowed: tuple[str, ...]) -> None:
    """Raise PermissionError unless a path is below an allowed one, its links resolved."""
    if path is None or isinstance(path, int):  # the working folder; an open file
        return

    real = os.path.realpath(os.fsdecode(path))
    for root in allowed:
        if real == root or real.startswith(root.rstrip("/") + "/"):
            return
    if real == os.devnull:
        return

    raise PermissionError(
        errno.EACCES, "Permission denied: outside the folders of this server", os.fsdecode(path)
    )


if __name__ == "__main__":
    end = sys.argv.index("--")
    confine(sys.argv[1:end])
    sys.argv = ["ktdeval", *sys.argv[end + 1 :]]
    runpy.run_module("ktdeval", run_name="__main__", alter_sys=True)
