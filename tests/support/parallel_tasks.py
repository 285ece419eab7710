"""Tasks for tests of pools; workers import this module."""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from regard.parallel import Engine, Work


def compute(engine: Engine, work: Work[Any, Any], tasks: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Return all tasks with their results."""
    with engine.start(work) as pool:
        return list(pool.results(tasks))


def squares() -> Callable[[int], int]:
    return lambda task: task * task


def sleeping(seconds: float) -> Callable[[int], tuple[int, int]]:
    """Return each task and the id of the process that computed it, after some seconds."""

    def compute(task: int) -> tuple[int, int]:
        time.sleep(seconds)
        return task * task, os.getpid()

    return compute


def killing(folder: str) -> Callable[[int], int]:
    """The first attempt of each odd task kills its process."""

    def compute(task: int) -> int:
        mark = Path(folder) / str(task)
        if task % 2 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task * task

    return compute


def failing(folder: str, attempts: int) -> Callable[[int], int]:
    """The first attempts of each odd task raise an error."""

    def compute(task: int) -> int:
        if task % 2:
            mark = Path(folder) / str(task)
            count = len(mark.read_text()) if mark.exists() else 0
            mark.write_text("x" * (count + 1))
            if count < attempts:
                raise ZeroDivisionError(f"attempt {count}")
        return task * task

    return compute


def always_killing() -> Callable[[int], int]:
    return lambda task: os._exit(3)


def unprepared() -> Callable[[int], int]:
    raise OSError("no such table")


def killed_while_starting(folder: str, first: int, last: int) -> Callable[[int], int]:
    """Workers from number `first` to `last` end before they are ready; each task ends its worker once."""
    number = next(number for number in itertools.count() if _create(Path(folder) / f"worker-{number}"))
    if first <= number <= last:
        os._exit(3)

    def compute(task: int) -> int:
        if _create(Path(folder) / f"task-{task}"):
            os._exit(3)
        return task * task

    return compute


def _create(file: Path) -> bool:
    """Return whether this process created the file."""
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def lengths(shared: Any) -> Callable[[Any], tuple[int, int]]:
    """Return the length of the work's shared value, and of the task's."""
    return lambda task: (len(shared.value()), len(task.value()))
