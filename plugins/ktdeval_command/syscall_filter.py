"""Filter of system calls for a sandbox, as a BPF program (seccomp(2)).

Namespaces don't divide everything: AF_VSOCK and AF_ALG sockets, key rings, the kernel's log and
perf events are of the whole machine, and new namespaces give a program rights that kernel faults
need. Numbers are those of Linux' arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h (aarch64), which a test compares with this machine's headers.
"""

from __future__ import annotations

import errno
import struct

from ktdeval.errors import UsageError

#: AUDIT_ARCH_… of include/uapi/linux/audit.h
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
#: numbers on x86_64 and on aarch64
REFUSED: dict[str, tuple[int, int]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "syslog": (103, 116),
    "personality": (135, 92),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "reboot": (169, 142),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
}
#: libraries do without these; memory of the first three would be in no count
ABSENT: dict[str, tuple[int, int]] = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),  # its flags are in memory, which a filter can't read
}
#: looked at by their arguments
CHECKED: dict[str, tuple[int, int]] = {"socket": (41, 198), "clone": (56, 220), "ioctl": (16, 29)}

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
    """BPF program for a machine (`uname -m`). Raises UsageError: its numbers are not known."""
    if machine not in _ARCHITECTURES:
        known = " and ".join(_ARCHITECTURES)
        raise UsageError(
            f"sandbox=bwrap: no filter of system calls for {machine}, only for {known};"
            " use another machine"
        )

    column = list(_ARCHITECTURES).index(machine)
    parts = [
        _statement(_LOAD, _ARCHITECTURE),
        _statement(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _statement(_RETURN, _KILL),
        _statement(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":  # the x32 calls have numbers of their own
        parts += [_statement(_AT_LEAST, 0x40000000, 0, 1), _answer(errno.EPERM)]

    for numbers in REFUSED.values():
        parts += [_statement(_EQUAL, numbers[column], 0, 1), _answer(errno.EPERM)]
    for numbers in ABSENT.values():
        parts += [_statement(_EQUAL, numbers[column], 0, 1), _answer(errno.ENOSYS)]

    parts += _when(CHECKED["socket"][column], _unless_family())
    parts += _when(CHECKED["clone"][column], _if_new_namespace())
    parts += _when(CHECKED["ioctl"][column], _if_terminal_input())
    parts.append(_statement(_RETURN, _ALLOW))
    return b"".join(parts)


def _when(number: int, block: list[bytes]) -> list[bytes]:
    """A block that returns in any case, for one call."""
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
