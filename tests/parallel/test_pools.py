"""Pools of this machine: results, retries, killed workers, shared values, and the log of results."""

import math
import threading
from pathlib import Path
from typing import Any

import pytest

from regard.parallel import LocalEngine, ResultLog, TaskError, Work, WorkerError, make_engine
from support import parallel_tasks


@pytest.mark.parametrize("processes", [1, 2])
def test_every_task_has_one_result(processes: int) -> None:
    with LocalEngine(processes) as engine, engine.start(Work(parallel_tasks.squares)) as pool:
        assert sorted(pool.results(range(20))) == [(task, task * task) for task in range(20)]
        assert pool.progress.finished == 20
        assert pool.progress.running == pool.progress.waiting == 0


def test_tasks_of_killed_workers_are_computed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with LocalEngine(2) as engine, engine.start(Work(parallel_tasks.killing, (str(tmp_path),), in_advance=1)) as pool:
        assert sorted(pool.results(range(6))) == [(task, task * task) for task in range(6)]
        assert pool.progress.retried == 3
    assert caplog.text.count("ended with exit code -9") == 3  # reported


def test_a_task_that_fails_twice_is_computed_a_third_time(tmp_path: Path) -> None:
    with LocalEngine().start(Work(parallel_tasks.failing, (str(tmp_path), 2))) as pool:
        assert sorted(pool.results(range(4))) == [(task, task * task) for task in range(4)]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_task_that_always_fails_is_reported_with_its_input(processes: int, tmp_path: Path) -> None:
    work: Work[int, int] = Work(parallel_tasks.failing, (str(tmp_path), 9))
    message = r"the task 1 failed 3 times.*(?s:.*)ZeroDivisionError: attempt 2"
    with LocalEngine(processes) as engine, pytest.raises(TaskError, match=message):
        parallel_tasks.compute(engine, work, [1])


def test_a_task_that_always_kills_its_worker_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.parallel.pool.MOST_LOSSES", 2)
    with LocalEngine(2) as engine, pytest.raises(TaskError, match=r"the task 5 failed 2 times.*exit code 3"):
        parallel_tasks.compute(engine, Work(parallel_tasks.always_killing), [5])


def test_workers_that_cannot_be_prepared_are_reported() -> None:
    with LocalEngine(2) as engine, pytest.raises(WorkerError, match="no such table"):
        parallel_tasks.compute(engine, Work(parallel_tasks.unprepared), [1])


def test_more_workers_may_be_killed_while_they_start_after_others_were_ready(tmp_path: Path) -> None:
    with LocalEngine(2) as engine:
        work: Work[int, int] = Work(parallel_tasks.killed_while_starting, (str(tmp_path), 2, 9))
        assert sorted(parallel_tasks.compute(engine, work, range(2))) == [(0, 0), (1, 1)]
        (tmp_path / "none").mkdir()
        work = Work(parallel_tasks.killed_while_starting, (str(tmp_path / "none"), 0, 99))
        with pytest.raises(WorkerError, match="5 workers in a row ended before they were ready"):
            parallel_tasks.compute(engine, work, [1])


def test_shared_values_reach_workers_and_tasks() -> None:
    with LocalEngine(2) as engine:
        shared = engine.share([1, 2, 3])
        assert engine.share([1, 2, 3]) is shared  # by content
        with engine.start(Work(parallel_tasks.lengths, (shared,))) as pool:
            assert [result for _, result in pool.results([engine.share("abcd")])] == [(3, 4)]


def test_threads_share_what_was_prepared() -> None:
    with LocalEngine(3).start(Work(parallel_tasks.squares, per_node=True)) as pool:
        assert (pool.slots, pool.workers) == (3, 1)
        assert sorted(pool.results(range(9))) == [(task, task * task) for task in range(9)]


def test_stopping_and_the_end_of_time() -> None:
    stop = threading.Event()
    with LocalEngine().start(Work(parallel_tasks.squares)) as pool:
        results = pool.results(range(10), stop=stop)
        assert next(results) == (0, 0)
        stop.set()
        with pytest.raises(KeyboardInterrupt):
            next(results)
    with LocalEngine().start(Work(parallel_tasks.squares)) as pool:
        assert list(pool.results(range(10), end=-math.inf)) == []


def test_a_log_continues_after_a_cut(tmp_path: Path) -> None:
    file = tmp_path / "log"
    entries: list[tuple[Any, bytes]] = [(1, b"one\n"), ([2, "b"], b""), (3, b"three")]
    with ResultLog.open(file, {"seed": 1}) as log:
        for key, payload in entries:
            log.add(key, payload)
    whole = file.read_bytes()
    for length in range(len(whole) - 1, len(whole) - 90, -7):  # within the last two entries
        file.write_bytes(whole[:length])
        with ResultLog.open(file, {}) as log:
            assert log.header == {"seed": 1}
            assert log.entries == entries[: len(log.entries)]
            for key, payload in entries[len(log.entries) :]:
                log.add(key, payload)
        assert file.read_bytes() == whole
    file.write_bytes(whole.replace(b"three", b"threE"))
    with pytest.raises(ValueError, match="does not match its checksum"), ResultLog.open(file, {}):
        pass


def test_a_log_has_one_writer(tmp_path: Path) -> None:
    second = ResultLog.open(tmp_path / "log", {})
    with ResultLog.open(tmp_path / "log", {}), pytest.raises(ValueError, match="is in use by process"), second:
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("spark",), "the engine must be processes or ray, got 'spark'"),
        (("processes", "auto"), "an address needs the engine ray"),
        (("processes", None, -1), "processes must be at least 0, got -1"),
    ],
)
def test_wrong_engines_are_rejected(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_engine(*arguments)
