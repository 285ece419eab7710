"""Linux system calls without a Python function, through ctypes, and their numbers on each architecture.

The child process loads this file by its path, so it must not import regard; the same holds for every module that
`child_program` uses.
"""

import ctypes
import os
import sys
from functools import cache
from typing import Any

AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h, as a seccomp filter sees them

# name: (x86_64, aarch64); None where the architecture lacks the call. From the kernel's syscall tables.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "access": (21, None), "alarm": (37, None), "arch_prctl": (158, None), "brk": (12, 214), "capset": (126, 91),
    "chdir": (80, 49), "clock_getres": (229, 114), "clock_gettime": (228, 113), "clock_nanosleep": (230, 115),
    "clone": (56, 220), "clone3": (435, 435), "close": (3, 57), "close_range": (436, 436),
    "copy_file_range": (326, 285), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_pwait": (281, 22), "epoll_wait": (232, None),
    "eventfd2": (290, 19), "exit": (60, 93), "exit_group": (231, 94), "faccessat": (269, 48),
    "faccessat2": (439, 439), "fadvise64": (221, 223), "fallocate": (285, 47), "fchdir": (81, 50), "fcntl": (72, 25),
    "fdatasync": (75, 83), "flock": (73, 32), "fstat": (5, 80), "fstatfs": (138, 44), "fsync": (74, 82),
    "ftruncate": (77, 46), "futex": (202, 98), "get_mempolicy": (239, 236), "get_robust_list": (274, 100),
    "getcpu": (309, 168), "getcwd": (79, 17), "getdents64": (217, 61), "getegid": (108, 177), "geteuid": (107, 175),
    "getgid": (104, 176), "getgroups": (115, 158), "getitimer": (36, 102), "getpgrp": (111, None),
    "getpid": (39, 172), "getppid": (110, 173), "getrandom": (318, 278), "getresgid": (120, 150),
    "getresuid": (118, 148), "getrlimit": (97, 163), "getrusage": (98, 165), "gettid": (186, 178),
    "gettimeofday": (96, 169), "getuid": (102, 174), "ioctl": (16, 29), "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444), "landlock_restrict_self": (446, 446), "lseek": (8, 62), "lstat": (6, None),
    "madvise": (28, 233), "membarrier": (324, 283), "mincore": (27, 232), "mkdir": (83, None), "mkdirat": (258, 34),
    "mmap": (9, 222), "mprotect": (10, 226), "mremap": (25, 216), "msync": (26, 227), "munmap": (11, 215),
    "nanosleep": (35, 101), "newfstatat": (262, 79), "open": (2, None), "openat": (257, 56), "openat2": (437, 437),
    "pause": (34, None), "pipe": (22, None), "pipe2": (293, 59), "pivot_root": (155, 41), "poll": (7, None),
    "ppoll": (271, 73), "prctl": (157, 167), "pread64": (17, 67), "preadv": (295, 69), "prlimit64": (302, 261),
    "pselect6": (270, 72), "pwrite64": (18, 68), "pwritev": (296, 70), "read": (0, 63), "readlink": (89, None),
    "readlinkat": (267, 78), "readv": (19, 65), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "restart_syscall": (219, 128), "rmdir": (84, None), "rseq": (334, 293), "rt_sigaction": (13, 134),
    "rt_sigpending": (127, 136), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigsuspend": (130, 133),
    "rt_sigtimedwait": (128, 137), "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "sched_getaffinity": (204, 123), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_yield": (24, 124), "seccomp": (317, 277), "select": (23, None), "sendfile": (40, 71),
    "set_robust_list": (273, 99), "set_tid_address": (218, 96), "setitimer": (38, 103), "sigaltstack": (131, 132),
    "stat": (4, None), "statfs": (137, 43), "statx": (332, 291), "sysinfo": (99, 179), "tgkill": (234, 131),
    "time": (201, None), "times": (100, 153), "truncate": (76, 45), "umask": (95, 166), "uname": (63, 160),
    "unlink": (87, None), "unlinkat": (263, 35), "wait4": (61, 260), "waitid": (247, 95), "write": (1, 64),
    "writev": (20, 66),
}  # fmt: skip


class NotAvailable(Exception):
    """A layer of isolation does not exist on this machine; the message says why."""


@cache
def architecture() -> str:
    """Return the architecture of this process; raise `NotAvailable` if its system calls are not in the table."""
    if sys.platform != "linux":
        raise NotAvailable(f"needs Linux, this is {sys.platform}")
    machine = os.uname().machine
    if machine not in AUDIT_ARCHITECTURES or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise NotAvailable(f"the system call numbers of {machine} are not known to regard")
    return machine


@cache
def number_of(name: str) -> int | None:
    """Return the number of a system call on this architecture, None if the architecture lacks it."""
    return NUMBERS[name][list(AUDIT_ARCHITECTURES).index(architecture())]


def call(name: str, *arguments: Any) -> int:
    """Make a system call; raise OSError if it fails."""
    number = number_of(name)
    if number is None:
        raise NotAvailable(f"{architecture()} has no system call {name}")
    return check(libc().syscall(ctypes.c_long(number), *map(_long, arguments)), name)


def libc_call(name: str, *arguments: Any) -> int:
    """Call a function of the C library that returns -1 on failure; raise OSError if it fails."""
    return check(getattr(libc(), name)(*map(_long, arguments)), name)


def check(result: int, name: str) -> int:
    """Return the result of a system call; raise OSError if it is negative."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


@cache
def libc() -> ctypes.CDLL:
    """Return the C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def _long(value: Any) -> Any:
    """Pass integers as 64 bits: a variadic C function would read 32 bits of rubbish after a C int."""
    return ctypes.c_long(value) if isinstance(value, int) else value
