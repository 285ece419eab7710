"""seccomp: the kernel refuses to this process every system call that numerical Python code does not need.

The filter is a list of what is allowed; every other call fails with EPERM, also calls that newer kernels add. Absent
and so refused are: fork, execve, kill, ptrace, socket, mount, unshare, chmod, chown, link, symlink, mknod, setrlimit,
memfd_create, io_uring, bpf, keyctl, userfaultfd, perf_event_open and all others that administer the machine.
"""

import ctypes
import errno
import os
import struct

from regard.learn.sandbox.system_calls import AUDIT_ARCHITECTURES, NUMBERS, architecture, call, libc_call

SETUP_ONLY = {
    "capset",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "pivot_root",
    "seccomp",
}
ANSWERED_AS_MISSING = {"clone3", "openat2"}  # the C library then uses clone and openat, whose arguments can be checked
CLONE_THREAD, CLONE_NAMESPACES = 0x00010000, 0x7E020080
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # isatty, window size, bytes waiting, non-blocking, on exec
FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 1030)  # duplicate, flags, locks; not the owner of signals
PRCTLS = (15, 16)  # name of the thread

LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06  # instructions of BPF
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16  # struct seccomp_data
SET_FILTER, ALL_THREADS = 1, 1
NO_NEW_PRIVILEGES = 38  # prctl

Instruction = tuple[int, int, int, int]  # operation, skip if true, skip if false, operand


class Program(ctypes.Structure):
    """struct sock_fprog: a BPF program."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def restrict() -> None:
    """Install the filter for all threads of this process; it can never be removed."""
    instructions = filter_program(architecture(), os.getpid())
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    libc_call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    call("seccomp", SET_FILTER, ALL_THREADS, ctypes.byref(Program(len(instructions), packed)))


def filter_program(machine: str, process_id: int) -> list[Instruction]:
    """Return the BPF program for an architecture and the process id that signals may be sent to.

    >>> len(filter_program("x86_64", 1)) < 4096
    True
    """
    deny, allow = (RETURN, 0, 0, ERROR | errno.EPERM), (RETURN, 0, 0, ALLOW)
    index = list(AUDIT_ARCHITECTURES).index(machine)
    program: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 1, 0, AUDIT_ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL),  # 32-bit system calls have other numbers
        (LOAD, 0, 0, NUMBER_AT),
    ]
    for name, numbers in NUMBERS.items():
        number = numbers[index]
        if number is None or name in SETUP_ONLY:
            continue
        if name in ANSWERED_AS_MISSING:
            body = [(RETURN, 0, 0, ERROR | errno.ENOSYS)]
        elif name == "clone":
            body = [
                (LOAD, 0, 0, ARGUMENTS_AT),
                (ANY_BIT, 2, 0, CLONE_NAMESPACES),
                (ANY_BIT, 0, 1, CLONE_THREAD),
                allow,
                deny,
            ]
        elif name in ("ioctl", "fcntl"):
            body = _one_of(1, IOCTLS if name == "ioctl" else FCNTLS)
        elif name == "prctl":
            body = _one_of(0, PRCTLS)
        elif name == "tgkill":
            body = _one_of(0, (process_id,))
        elif name == "prlimit64":  # read the limits of this process only
            body = [
                *_require(0, 0),
                *_require(2, 0),
                allow,
            ]
        else:
            body = [allow]
        program += [(EQUAL, 0, len(body), number), *body]
    return [*program, deny]


def _one_of(argument: int, values: tuple[int, ...]) -> list[Instruction]:
    """Allow the call if the lower half of an argument, all that the kernel reads of it, is one of the values."""
    tests = [(EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
    load = (LOAD, 0, 0, ARGUMENTS_AT + 8 * argument)
    return [load, *tests, (RETURN, 0, 0, ERROR | errno.EPERM), (RETURN, 0, 0, ALLOW)]


def _require(argument: int, value: int) -> list[Instruction]:
    """Refuse the call unless both halves of an argument equal the value, which is less than 2**32."""
    at, refuse = ARGUMENTS_AT + 8 * argument, (RETURN, 0, 0, ERROR | errno.EPERM)
    return [(LOAD, 0, 0, at), (EQUAL, 1, 0, value), refuse, (LOAD, 0, 0, at + 4), (EQUAL, 1, 0, 0), refuse]
