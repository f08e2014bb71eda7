"""First process in a sandbox. It starts the program and ends all processes that the program left.

Its source is passed to the sandbox's Python with `-c`, so it imports only the standard library and
runs on Python 3.8. In a PID namespace it is process 1; otherwise it is a subreaper (prctl(2),
PR_SET_CHILD_SUBREAPER), which adopts orphaned processes. It holds one end of a socket to ktdeval,
with this protocol:

1. from ktdeval: a line of JSON with the order (`argv`, `environment`, folders, ports, limits), then
the folder's content (frames, as below);
2. from the supervisor: the byte `L` with a listening socket per port, made in the sandbox's network
namespace; then a line `{"started": true}`, or the outcome;
3. from ktdeval: any byte means stop; the end of the stream means that ktdeval died;
4. from the supervisor: a line of JSON with the outcome, then the folder's content.

A frame is a line of JSON (`path`, `kind`, `size`, `executable`), followed for a file by `size`
bytes; the line `{"end": true}` ends them. ktdeval never relies on this process being honest.
"""

# Paths are bytes, as a program may name its files.
# ruff: noqa: PTH101, PTH102, PTH103, PTH118, PTH208

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import stat
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

_TICK_S = 0.1
_PAGE_BYTES = resource.getpagesize()
_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_KINDS = {
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "device",
    stat.S_IFCHR: "device",
}
MAX_PATH_BYTES = 1024


# ---- the folder


def pack_folder(
    root: str | os.PathLike[str], max_bytes: int, max_files: int
) -> Iterator[tuple[dict[str, Any], bytes | None]]:
    """Yield a pair of header and path (None if it is not a file) for everything below a folder,
    ordered by path. Entries that are neither plain files nor folders have the kind `refused` and a
    reason in `why`. Raises OverflowError if there are more bytes or entries than allowed.
    """
    total = 0
    for count, (name, path, found) in enumerate(_walk_folder(os.fsencode(root)), 1):
        header = _header(name, path, found)
        total += header["size"]
        if count > max_files:
            raise OverflowError(f"more than {max_files} files and folders")
        if total > max_bytes:
            raise OverflowError(f"more than {max_bytes} bytes in files")

        yield header, path if header["kind"] == "file" else None


def _walk_folder(root: bytes) -> Iterator[tuple[bytes, bytes, os.stat_result]]:
    """Yield names relative to the root, paths, and stat results. A folder comes before its
    contents.
    """
    waiting = [(b"", root)]
    while waiting:
        name, path = waiting.pop()
        found = os.lstat(path)
        if name:
            yield name, path, found
        if not stat.S_ISDIR(found.st_mode) or len(name) > MAX_PATH_BYTES:
            continue

        os.chmod(path, 0o700)
        prefix = name + b"/" if name else b""
        inside = sorted(os.listdir(path), reverse=True)
        waiting += [(prefix + each, path + b"/" + each) for each in inside]


def _header(name: bytes, path: bytes, found: os.stat_result) -> dict[str, Any]:
    header: dict[str, Any] = {
        "path": name.decode("utf-8", "backslashreplace"),
        "size": 0,
        "executable": False,
    }
    kind = stat.S_IFMT(found.st_mode)
    why = _KINDS.get(kind, "")
    if len(name) > MAX_PATH_BYTES:
        why = "path too long"
    elif header["path"].encode("utf-8") != name:
        why = "name is not UTF-8"

    if why:
        return dict(header, kind="refused", why=why, path=header["path"][:MAX_PATH_BYTES])
    if kind == stat.S_IFDIR:
        return dict(header, kind="folder")

    os.chmod(path, 0o700 if found.st_mode & 0o100 else 0o600)
    return dict(
        header, kind="file", size=found.st_size, executable=bool(found.st_mode & stat.S_IXUSR)
    )


def send_frames(
    stream: BinaryIO, root: str | os.PathLike[str], max_bytes: int, max_files: int
) -> None:
    """Write the frames of a folder. If the folder is too large, write a line with the reason."""
    end: dict[str, Any] = {"end": True}
    try:
        for header, path in pack_folder(root, max_bytes, max_files):
            stream.write(json.dumps(header).encode() + b"\n")
            if path is not None:
                _copy(path, header["size"], stream)
    except OverflowError as error:
        end = {"end": False, "why": str(error)}

    stream.write(json.dumps(end).encode() + b"\n")
    stream.flush()


def _copy(path: bytes, size: int, stream: BinaryIO) -> None:
    with open(path, "rb") as file:
        while size:
            piece = file.read(min(size, 1 << 20))
            if not piece:
                raise OSError(errno.EIO, "the file became shorter")

            stream.write(piece)
            size -= len(piece)


def unpack_frames(stream: BinaryIO, root: str) -> None:
    """Write the folder that the frames describe. ktdeval has already checked the frames."""
    while True:
        header = json.loads(stream.readline())
        if header["end"] is not None:
            return

        path = os.path.join(root, header["path"])
        if header["kind"] == "folder":
            os.mkdir(path, 0o700)
            continue

        left = header["size"]
        mode = 0o700 if header["executable"] else 0o600
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            while left:
                piece = stream.read(min(left, 1 << 20))
                if not piece:
                    raise EOFError

                file.write(piece)
                left -= len(piece)


# ---- processes


def _pids(everyone: bool) -> list[int]:
    """Return the ids of the program's processes. In a PID namespace these are all other processes,
    otherwise the descendants of this process.
    """
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    own = os.getpid()
    if everyone:
        return [number for number in numbers if number != own]

    children: dict[int, list[int]] = {}
    for number in numbers:
        try:
            with open(f"/proc/{number}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(number)

    found: list[int] = []
    waiting = [own]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below

    return found


def _memory_bytes(pids: list[int]) -> int:
    """Return the resident memory of processes; shared pages count once for each process."""
    pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                pages += int(file.read().split()[1])
        except (OSError, IndexError):
            continue

    return pages * _PAGE_BYTES


def _shared_memory_bytes(pids: list[int]) -> int:
    """Return the memory of processes, with shared pages divided among the processes that share them
    (Pss in proc(5)).
    """
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                lines = file.read().splitlines()
        except OSError:
            total += _memory_bytes([pid])
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:"))

    return total


def _folder_excess(order: dict[str, Any]) -> str:
    """Return which limit the program's folders exceed; empty if they exceed none."""
    limits = order["limits"]
    if order["mount"]:
        found = os.statvfs(order["mount"])
        is_full = found.f_bfree == 0
        files = found.f_files - found.f_ffree - order["empty_files"]
        size = limits["disk_bytes"] if is_full else 0
    else:
        files = 0
        size = 0
        for root in (order["home"], order["temporary"]):
            for folder, folders, names in os.walk(root):
                files += len(folders) + len(names)
                for name in names:
                    try:
                        size += os.lstat(os.path.join(folder, name)).st_blocks * 512
                    except OSError:
                        continue
                if files > limits["disk_files"] or size >= limits["disk_bytes"]:
                    break

    if size >= limits["disk_bytes"]:
        return f"its folders reached {limits['disk_bytes']} bytes"
    if files > limits["disk_files"]:
        return f"its folders hold more than {limits['disk_files']} files"
    return ""


def end_all(everyone: bool) -> None:
    """Kill every process of the program, in any session or group, and reap them."""
    while True:
        if everyone:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            for pid in _pids(everyone):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _begin(order: dict[str, Any]) -> int:
    """Start the program and return its process id. Raises OSError if it can't be started."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            _set_dumpable(True)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            _set_limits(order["limits"])
            for which in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(which, signal.SIG_DFL)
            os.chdir(order["home"])
            os.execve(order["argv"][0], order["argv"], order["environment"])  # noqa: S606
        except OSError as error:
            os.write(tell, str(error.errno).encode())
        finally:
            os._exit(127)

    os.close(tell)
    problem = os.read(told, 16)
    os.close(told)
    if problem:
        os.waitpid(child, 0)
        raise OSError(int(problem), os.strerror(int(problem)))

    # The program's pipes end only if this process does not hold them open.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    return child


def _set_limits(limits: dict[str, Any]) -> None:
    values = {
        resource.RLIMIT_DATA: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["disk_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if limits["processes"]:
        values[resource.RLIMIT_NPROC] = limits["processes"]

    for kind, wanted in values.items():
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))

    with open("/proc/self/oom_score_adj", "w") as file:  # the first to be killed
        file.write("1000")


def _watch(child: int, channel: socket.socket, order: dict[str, Any]) -> dict[str, Any] | None:
    """Wait until the program ends or must be stopped. Return the outcome; None if ktdeval died."""
    end_at = time.monotonic() + order["limits"]["wall_s"]
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(_woken(), select.POLLIN)

    while True:
        outcome = _wait_for_end(child) or _excess(order)
        if outcome:
            return outcome

        left = end_at - time.monotonic()
        if left <= 0:
            return {"kind": "timed_out", "code": None, "detail": ""}

        for number, _ in poll.poll(1000 * min(left, _TICK_S)):
            if number != channel.fileno():
                os.read(number, 4096)
            elif channel.recv(1):
                return {"kind": "stopped", "code": None, "detail": ""}
            else:
                return None


def _woken() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read


def _wait_for_end(child: int) -> dict[str, Any] | None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == child and os.WIFSIGNALED(status):
            return {"kind": "killed", "code": os.WTERMSIG(status), "detail": ""}
        if pid == child:
            return {"kind": "exited", "code": os.WEXITSTATUS(status), "detail": ""}


def _excess(order: dict[str, Any]) -> dict[str, Any] | None:
    limit = order["limits"]["memory_bytes"]
    pids = _pids(order["everyone"])
    if _memory_bytes(pids) > limit and _shared_memory_bytes(pids) > limit:
        return {"kind": "too_much_memory", "code": None, "detail": f"over {limit} bytes"}

    disk = _folder_excess(order)
    return {"kind": "too_much_disk", "code": None, "detail": disk} if disk else None


# ---- protocol


def _say(stream: BinaryIO, value: dict[str, Any]) -> None:
    stream.write(json.dumps(value).encode() + b"\n")
    stream.flush()


def _listen(ports: list[int]) -> list[socket.socket]:
    sockets = []
    for port in ports:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.listen(128)
        sockets.append(made)
    return sockets


def _protect(everyone: bool) -> None:
    """Keep the program from inspecting this process, and adopt its orphans."""
    _set_dumpable(False)
    if not everyone:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _set_dumpable(value: bool) -> None:
    """Allow or forbid other processes of this user to inspect this process through /proc."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, int(value), 0, 0, 0)


def main(number: int) -> None:
    """Carry out one order."""
    channel = socket.socket(fileno=number)
    channel.set_inheritable(False)
    stream: BinaryIO = channel.makefile("rwb", buffering=1 << 18)  # type: ignore[assignment]
    order = json.loads(stream.readline())
    everyone = order["everyone"]
    home = order["home"]
    os.umask(0o077)
    for folder in (home, order["temporary"]):
        os.makedirs(folder, 0o700, exist_ok=True)
    if order["mount"]:
        empty = os.statvfs(order["mount"])
        order["empty_files"] = empty.f_files - empty.f_ffree
    unpack_frames(stream, home)

    sockets = _listen(order["ports"])
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _descriptors(sockets))] if sockets else []
    channel.sendmsg([b"L"], rights)
    for made in sockets:
        made.close()

    _protect(everyone)
    outcome: dict[str, Any] | None
    try:
        child = _begin(order)
    except OSError as error:
        kind = "not_found" if error.errno == errno.ENOENT else "not_executable"
        outcome = {"kind": kind, "code": None, "detail": error.strerror}
    else:
        _say(stream, {"started": True})
        outcome = _watch(child, channel, order)

    end_all(everyone)
    if outcome is None:  # ktdeval died
        return

    disk = _folder_excess(order)
    if disk:
        outcome = {"kind": "too_much_disk", "code": None, "detail": disk}
    _say(stream, outcome)
    limits = order["limits"]
    send_frames(stream, home, limits["disk_bytes"], limits["disk_files"])


def _descriptors(sockets: list[socket.socket]) -> bytes:
    return b"".join(each.fileno().to_bytes(4, sys.byteorder) for each in sockets)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except (BrokenPipeError, ConnectionResetError, EOFError):
        os._exit(3)  # ktdeval died; the end of process 1 ends all others
