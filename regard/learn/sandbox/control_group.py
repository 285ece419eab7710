"""A cgroup for one run, where this user may create one: limits all its processes together, and ends them at once.

Only cgroup version 2 is used, and only inside the cgroup of this process: others belong to systemd. An ordinary user
may create one there if systemd has delegated it.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROCESSES = 64
CPU_SHARE = "200000 100000"  # microseconds of processor time in each 100 ms: two cores


@contextmanager
def control_group(memory: int, enabled: bool = True) -> Iterator[tuple[Path | None, str]]:
    """Yield a new cgroup and its settings, or None and why there is none; at the end, kill all processes in it."""
    group, text = _create(memory) if enabled else (None, "switched off")
    try:
        yield group, text
    finally:
        if group is not None:
            _remove(group)


def _create(memory: int) -> tuple[Path | None, str]:
    own = _own_group()
    if own is None:
        return None, "cgroup version 2 is not mounted"
    group = own / f"regard-run-{secrets.token_hex(6)}"
    try:
        group.mkdir()
    except OSError:
        return None, "no cgroup that this user may write to"
    if not (group / "cgroup.kill").exists():
        group.rmdir()
        return None, "cgroup.kill needs Linux 5.14"
    settings = {"pids.max": str(PROCESSES), "memory.max": str(memory), "memory.swap.max": "0", "cpu.max": CPU_SHARE}
    active = [name for name, value in settings.items() if _write(group / name, value)]
    return group, ", ".join(["cgroup.kill", *active])


def _own_group() -> Path | None:
    """Return the folder of this process's cgroup, None without cgroup version 2."""
    with suppress(OSError):
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        places = [mount[1] for mount in mounts if mount[2] == "cgroup2"]
        paths = [line[3:] for line in groups if line.startswith("0::")]
        if places and paths:
            return Path(places[0]) / paths[0].lstrip("/")
    return None


def _write(file: Path, text: str) -> bool:
    try:
        if not file.exists():  # the controller is not enabled here
            return False
        file.write_text(text)
        return True
    except OSError:
        return False


def _remove(group: Path) -> None:
    _write(group / "cgroup.kill", "1")
    for _ in range(200):
        try:
            group.rmdir()
            return
        except OSError:  # the kernel has not reaped the processes yet
            time.sleep(0.005)
