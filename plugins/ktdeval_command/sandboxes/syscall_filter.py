"""System-call filter for a sandbox, as a BPF program (seccomp(2)).

Namespaces do not isolate everything. AF_VSOCK and AF_ALG sockets, key rings, the kernel log and
perf events belong to the whole machine, and new namespaces give a program rights that exploits of
kernel bugs need. The numbers are from Linux' arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h (aarch64); a test compares them with this machine's headers.
"""

from __future__ import annotations

import errno
import struct
from pathlib import Path

from ktdeval.errors import UsageError
from ktdeval.values import csv_rows

#: AUDIT_ARCH_… in include/uapi/linux/audit.h
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Calls by name, with their number on each machine. `refused`: not permitted. `absent`: reported as
# missing, since libraries work without the call (memory from the first three would not be counted;
# the flags of clone3 are in memory, which a filter can't read). `checked`: decided by the
# arguments.
_CALLS = csv_rows(Path(__file__).with_name("syscalls.csv"))
_ANSWERS = {"refused": errno.EPERM, "absent": errno.ENOSYS}

_SOCKET_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK (lists interfaces)
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS | CLONE_NEWCGROUP | … | CLONE_NEWNET
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data


def _statement(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)  # struct sock_filter


def _answer(error: int) -> bytes:
    return _statement(_RETURN, _ERRNO | error)


def filter_program(machine: str) -> bytes:
    """Return the BPF program for a machine (`uname -m`). Raises UsageError if the system-call
    numbers of the machine are unknown.
    """
    if machine not in _ARCHITECTURES:
        known = " and ".join(_ARCHITECTURES)
        raise UsageError(
            f"sandbox=bwrap: the filter of system calls does not support {machine}, only "
            f"{known}; use another machine"
        )

    numbers = syscall_numbers(machine)
    parts = [
        _statement(_LOAD, _ARCHITECTURE),
        _statement(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _statement(_RETURN, _KILL),
        _statement(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":  # the x32 calls have their own numbers
        parts += [_statement(_AT_LEAST, 0x40000000, 0, 1), _answer(errno.EPERM)]

    for call in _CALLS:
        if call["answer"] in _ANSWERS:
            parts.append(_statement(_EQUAL, numbers[call["name"]], 0, 1))
            parts.append(_answer(_ANSWERS[call["answer"]]))

    parts += _when(numbers["socket"], _unless_family())
    parts += _when(numbers["clone"], _if_new_namespace())
    parts += _when(numbers["ioctl"], _if_terminal_input())
    parts.append(_statement(_RETURN, _ALLOW))
    return b"".join(parts)


def syscall_numbers(machine: str) -> dict[str, int]:
    """Return the numbers of all calls that the filter knows on a machine, keyed by name."""
    return {call["name"]: int(call[machine]) for call in _CALLS}


def _when(number: int, block: list[bytes]) -> list[bytes]:
    """Return a block that applies to one call. The block always ends with a return."""
    return [_statement(_EQUAL, number, 0, len(block)), *block]


def _unless_family() -> list[bytes]:
    count = len(_SOCKET_FAMILIES)
    tests = [
        _statement(_EQUAL, family, count - index) for index, family in enumerate(_SOCKET_FAMILIES)
    ]
    allow = _statement(_RETURN, _ALLOW)
    return [_statement(_LOAD, _FIRST), *tests, _answer(errno.EAFNOSUPPORT), allow]


def _if_new_namespace() -> list[bytes]:
    return [
        _statement(_LOAD, _FIRST),
        _statement(_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        _answer(errno.EPERM),
        _statement(_RETURN, _ALLOW),
    ]


def _if_terminal_input() -> list[bytes]:
    count = len(_TERMINAL_INPUT)
    tests = [
        _statement(_EQUAL, request, count - index) for index, request in enumerate(_TERMINAL_INPUT)
    ]
    allow = _statement(_RETURN, _ALLOW)
    return [_statement(_LOAD, _SECOND), *tests, allow, _answer(errno.EPERM)]
