"""Bounded queue for expensive work: some jobs run, some wait, further ones are refused with status 503.

`run` awaits the result of one function. `start` returns a `Job` at once; the page polls its progress. Both share the
same places, so the server runs at most `running` functions at a time and holds at most `running + waiting` of them,
however many requests arrive.

A job may be started in a *lane* instead: a thread of its own for work that is done by another process and that becomes
obsolete, such as the evaluation of a board until the next move. A new job in a lane stops the older ones.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

Result = TypeVar("Result")
Status = Literal["waiting", "running", "done", "failed", "stopped"]

FINISHED_JOBS = 64  # number of finished jobs whose answer can still be fetched
LANE_JOBS = 4  # unfinished jobs per lane: one runs, the others are stopping

logger = logging.getLogger("regard.lab")


class QueueFull(RuntimeError):
    """All places of the queue are taken."""

    def __init__(self, running: int, waiting: int) -> None:
        super().__init__(f"{running} jobs are running and {waiting} are waiting: try again in a moment")
        self.running, self.waiting = running, waiting


class JobStopped(Exception):
    """Raised by `Job.report` inside the work of a job that the user has stopped."""


@dataclass
class Job:
    """Status, progress and answer of work in the queue."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    status: Status = "waiting"
    progress: dict[str, Any] = field(default_factory=dict)
    answer: Any = None
    stop_requested: threading.Event = field(default_factory=threading.Event, repr=False)

    def report(self, **progress: Any) -> None:
        """Store the progress; called by the work from time to time. Raises `JobStopped` after a stop request."""
        if self.stop_requested.is_set():
            raise JobStopped
        self.progress = progress

    def as_json(self) -> dict[str, Any]:
        """Return the job as JSON."""
        return {"id": self.id, "status": self.status, "progress": self.progress, "answer": self.answer}


class JobQueue:
    """A bounded queue with its threads.

    >>> jobs = JobQueue(running=1, waiting=0)
    >>> job = jobs.start(lambda job: 6 * 7)
    >>> jobs.wait(job).answer
    42
    """

    def __init__(self, running: int = 2, waiting: int = 16) -> None:
        if running < 1 or waiting < 0:
            raise ValueError(f"running must be at least 1 and waiting at least 0, got {running} and {waiting}")
        self.running, self.waiting = running, waiting
        self._places = threading.Semaphore(running + waiting)
        self._threads = ThreadPoolExecutor(running, thread_name_prefix="lab-job")
        self._lane_threads: dict[str, ThreadPoolExecutor] = {}
        self._lane_jobs: dict[str, list[Job]] = {}
        self._jobs: dict[str, Job] = {}
        self._futures: dict[str, Future[None]] = {}
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work` once it has run; raises `QueueFull` at once when no place is free."""
        return await asyncio.wrap_future(self._submit(work))

    def start(self, work: Callable[[Job], Any], *, lane: str | None = None) -> Job:
        """Queue `work` and return its job; raises `QueueFull` when no place is free.

        A failure is logged with its traceback in the terminal; the page only refers to the terminal.
        """
        job = Job()

        def run_job() -> None:
            if job.stop_requested.is_set():
                job.status = "stopped"
                return
            job.status = "running"
            try:
                job.answer = work(job)
                job.status = "done"
            except JobStopped:
                job.status = "stopped"
            except Exception as error:
                logger.exception("A job of the lab failed.")
                job.answer, job.status = {"message": str(error)}, "failed"

        future = self._submit(run_job) if lane is None else self._submit_in_lane(lane, job, run_job)
        with self._lock:
            self._jobs[job.id], self._futures[job.id] = job, future
            finished = [i for i, f in self._futures.items() if f.done() and i != job.id]
            for old in finished[: max(0, len(self._jobs) - FINISHED_JOBS)]:
                del self._jobs[old], self._futures[old]
        return job

    def find(self, id: str) -> Job | None:
        """Return the job with this id, or None when it is unknown or was dropped."""
        return self._jobs.get(id)

    def wait(self, job: Job, timeout: float | None = None) -> Job:
        """Wait until the job has ended and return it."""
        self._futures[job.id].result(timeout)
        return job

    def close(self) -> None:
        """Cancel waiting jobs and request running ones to stop."""
        for job in list(self._jobs.values()):
            job.stop_requested.set()
        for threads in (self._threads, *self._lane_threads.values()):
            threads.shutdown(wait=False, cancel_futures=True)

    def _submit_in_lane(self, lane: str, job: Job, work: Callable[[], None]) -> Future[None]:
        with self._lock:
            unfinished = [one for one in self._lane_jobs.get(lane, []) if one.status in ("waiting", "running")]
            if len(unfinished) >= LANE_JOBS:
                raise QueueFull(1, LANE_JOBS - 1)
            for one in unfinished:
                one.stop_requested.set()
            self._lane_jobs[lane] = [*unfinished, job]
            if lane not in self._lane_threads:
                self._lane_threads[lane] = ThreadPoolExecutor(1, thread_name_prefix=f"lab-{lane}")
            return self._lane_threads[lane].submit(work)

    def _submit(self, work: Callable[[], Result]) -> Future[Result]:
        if not self._places.acquire(blocking=False):
            raise QueueFull(self.running, self.waiting)
        try:
            future = self._threads.submit(work)
        except BaseException:
            self._places.release()
            raise
        future.add_done_callback(lambda _: self._places.release())
        return future
