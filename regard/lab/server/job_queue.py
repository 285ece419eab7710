"""Expensive work in a bounded queue: a few run, some wait, and more than that is refused with a clear status.

`run` waits for the answer, for a learner's program that is graded. `start` gives a job at once, whose progress the
page asks for, for a measurement that takes half a minute. Both share the same places, so that whatever two hundred
requests ask for, the machine does `running` things at a time and remembers at most `running + waiting` of them.

A job may have a lane of its own instead, with a thread beside those places, for work that another process does and that
is soon out of date: what a board is worth, until the next move is made. A newer job of a lane stops the older ones.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

Result = TypeVar("Result")
Status = Literal["waiting", "running", "done", "failed", "stopped"]

KEPT = 64  # jobs that have ended and whose answer can still be fetched
LANE = 4  # jobs of a lane that have not ended yet: one runs, the others are on their way out


class Full(RuntimeError):
    """All places are taken; what is said to whoever comes later."""

    def __init__(self, running: int, waiting: int) -> None:
        super().__init__(f"{running} runs are going on and {waiting} are waiting: try again in a moment")
        self.running, self.waiting = running, waiting


class Stopped(Exception):
    """The learner no longer wants the answer; raised inside the work by `Job.tell`."""


@dataclass
class Job:
    """Work that was started: what has become of it, and how far it is."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    status: Status = "waiting"
    progress: dict[str, Any] = field(default_factory=dict)
    answer: Any = None
    stopping: threading.Event = field(default_factory=threading.Event, repr=False)

    def tell(self, **progress: Any) -> None:
        """Called by the work now and then: how far it is. Ends the work if it is no longer wanted."""
        if self.stopping.is_set():
            raise Stopped
        self.progress = progress

    def said(self) -> dict[str, Any]:
        """The job as JSON."""
        return {"id": self.id, "status": self.status, "progress": self.progress, "answer": self.answer}


class Work:
    """Places for work, and the jobs that hold them.

    >>> work = Work(running=1, waiting=0)
    >>> job = work.start(lambda job: 6 * 7)
    >>> work.wait(job).answer
    42
    """

    def __init__(self, running: int = 2, waiting: int = 16) -> None:
        if running < 1 or waiting < 0:
            raise ValueError(f"running must be at least 1 and waiting at least 0, got {running} and {waiting}")
        self.running, self.waiting = running, waiting
        self._places = threading.Semaphore(running + waiting)
        self._threads = ThreadPoolExecutor(running, thread_name_prefix="lab-work")
        self._lanes: dict[str, ThreadPoolExecutor] = {}
        self._in_lane: dict[str, list[Job]] = {}
        self._jobs: dict[str, Job] = {}
        self._futures: dict[str, Future[None]] = {}
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], Result]) -> Result:
        """The answer, when its turn has come; `Full` at once when there is no place."""
        return await asyncio.wrap_future(self._place(work))

    def start(self, work: Callable[[Job], Any], *, lane: str | None = None) -> Job:
        """A job, which may still have to wait; `Full` when there is no place. In a lane it stops those before it."""
        job = Job()

        def go() -> None:
            if job.stopping.is_set():
                job.status = "stopped"
                return
            job.status = "running"
            try:
                job.answer = work(job)
                job.status = "done"
            except Stopped:
                job.status = "stopped"
            except Exception as error:
                job.answer, job.status = {"message": str(error)}, "failed"

        future = self._place(go) if lane is None else self._place_in(lane, job, go)
        with self._lock:
            self._jobs[job.id], self._futures[job.id] = job, future
            ended = [i for i, f in self._futures.items() if f.done() and i != job.id]
            for old in ended[: max(0, len(self._jobs) - KEPT)]:
                del self._jobs[old], self._futures[old]
        return job

    def find(self, id: str) -> Job | None:
        """The job of this name, if it is still remembered."""
        return self._jobs.get(id)

    def wait(self, job: Job, timeout: float | None = None) -> Job:
        """The same job, ended."""
        self._futures[job.id].result(timeout)
        return job

    def close(self) -> None:
        """Let go of everything: what waits is dropped, what runs is told to stop."""
        for job in list(self._jobs.values()):
            job.stopping.set()
        for threads in (self._threads, *self._lanes.values()):
            threads.shutdown(wait=False, cancel_futures=True)

    def _place_in(self, lane: str, job: Job, work: Callable[[], None]) -> Future[None]:
        with self._lock:
            before = [one for one in self._in_lane.get(lane, []) if one.status in ("waiting", "running")]
            if len(before) >= LANE:
                raise Full(1, LANE - 1)
            for one in before:
                one.stopping.set()
            self._in_lane[lane] = [*before, job]
            if lane not in self._lanes:
                self._lanes[lane] = ThreadPoolExecutor(1, thread_name_prefix=f"lab-{lane}")
            return self._lanes[lane].submit(work)

    def _place(self, work: Callable[[], Result]) -> Future[Result]:
        if not self._places.acquire(blocking=False):
            raise Full(self.running, self.waiting)
        try:
            future = self._threads.submit(work)
        except BaseException:
            self._places.release()
            raise
        future.add_done_callback(lambda _: self._places.release())
        return future
