"""Kernel limits of the learner's process: processor time, memory, file size, open files, threads."""

import os

OPEN_FILES = 256
THREADS = 64  # counted separately for each run if it has a user id or a user namespace of its own


def limit_memory(memory: int) -> None:
    """Limit the address space of this process to the bytes used so far and `memory` more; macOS ignores this."""
    import resource

    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as sizes:
            used = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        _set(resource.RLIMIT_AS, used + memory)


def limit(seconds: float, file_size: int, threads: int) -> None:
    """Set the other limits; `seconds` of processor time are allowed beyond those used so far."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    _set(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 2)
    _set(resource.RLIMIT_FSIZE, file_size)
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_NPROC, threads)
    _set(resource.RLIMIT_NOFILE, OPEN_FILES)
    for name in ("RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE"):
        if hasattr(resource, name):
            _set(getattr(resource, name), 0)


def _set(which: int, value: int) -> None:
    import resource

    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))
