"""Engine and pool on a Ray cluster: actors on every machine, restarted where machines join and leave.

Ray restarts nothing by itself here: the pool counts failures of a task like every other pool does.
"""

import hashlib
import math
import os
import pickle
import socket
import time
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from regard.cpu_count import available_cores
from regard.extras import require
from regard.parallel.engine import Engine
from regard.parallel.pool import Attempt, Pool, WorkerError, logger
from regard.parallel.shared_values import Handle, Shared
from regard.parallel.work import R, T, Work

ADJUST_EVERY = 1.0  # seconds between two looks at the machines of the cluster
STORE_BYTES = 512 << 20  # size of the object store if Ray is started here
ANSWER_WITHIN = 10.0  # seconds for a connection to the head of the cluster
# Seconds without an answer of the head after which the work ends; after this timeout, Ray would end the process itself.
HEAD_WAIT = 0.5 * float(os.environ.get("RAY_gcs_rpc_server_reconnect_timeout_s", 60))  # noqa: SIM112


def _import_ray() -> Any:
    require("ray", "the engine ray", "ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # a busy machine needs long
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
    return ray


class RayEngine(Engine):
    """A Ray cluster.

    address     HOST:PORT of the cluster, which this machine must have joined (`ray start --address HOST:PORT`); "auto"
                for the cluster that runs on this machine; None starts Ray on this machine alone
    processes   largest number of tasks computed at the same time; 0 uses every core of the cluster, also of machines
                that join later

    >>> with RayEngine("auto") as engine:  # doctest: +SKIP
    ...     engine.workers
    64
    """

    same_files = False

    def __init__(self, address: str | None = None, processes: int = 0) -> None:
        self._ray = ray = _import_ray()
        self.address, self.processes = address, processes
        self._values: weakref.WeakValueDictionary[str, Shared] = weakref.WeakValueDictionary()
        self._connected = not ray.is_initialized()
        if self._connected:
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
            if address is None:
                options |= {
                    "address": "local", "num_cpus": processes or available_cores(), "include_dashboard": False,
                    "object_store_memory": STORE_BYTES,
                }  # fmt: skip
            else:
                options["address"] = address
            try:
                if address is not None:
                    _connect(_head_address(address))  # Ray itself would try for ten minutes
                with warnings.catch_warnings(), nullcontext() if address else _loopback():
                    warnings.simplefilter("ignore")
                    ray.init(**options)
            except (OSError, RuntimeError, ValueError) as error:
                raise ConnectionError(
                    f"no Ray cluster answers at {address}: {error}; start one with: ray start --head"
                ) from error
        context = ray.get_runtime_context()
        self._head, self._node = context.gcs_address, context.get_node_id()
        self._answered = time.monotonic()

    @property
    def workers(self) -> int:
        cores = sum(_cores(node) for node in self.nodes() or ())
        return max(1, min(self.processes or cores, cores))

    def nodes(self) -> list[dict[str, Any]] | None:
        """Return the machines of the cluster that are alive; None if its head has not answered for a short time."""
        try:
            _connect(self._head)
            alive = [node for node in self._ray.nodes() if node["Alive"]]
        except Exception as error:
            if time.monotonic() > self._answered + HEAD_WAIT:
                raise _lost(f"its head does not answer ({error})") from error
            return None
        if self._node not in [node["NodeID"] for node in alive]:
            raise _lost("this machine does not belong to it any more")
        self._answered = time.monotonic()
        return [node for node in alive if _cores(node)]

    def start(self, work: Work[T, R]) -> Pool[T, R]:
        return RayPool(work, self)

    def share(self, value: Any, *, per_node: bool = False) -> Handle:
        content = pickle.dumps(value)
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._values:
            handle = Shared(digest, _get, self._ray.put(content))
            self._values[digest] = handle  # the object store frees the content when no handle is left
            return handle
        return self._values[digest]

    def close(self) -> None:
        self._values.clear()
        if self._connected:
            self._connected = False
            self._ray.shutdown()


@contextmanager
def _loopback() -> Iterator[None]:
    """Let a Ray that is started in this context listen on the loopback interface only: it executes what it receives.

    Ray does this by itself on systems where it supports no clusters.
    """
    from ray._private import ray_constants

    name = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    before = os.environ.get(name), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[name], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        del os.environ[name]
        if before[0] is not None:
            os.environ[name] = before[0]
        ray_constants.ENABLE_RAY_CLUSTER = before[1]


def _head_address(address: str) -> str:
    """Return HOST:PORT of the cluster that Ray finds under this address."""
    from ray._private.services import canonicalize_bootstrap_address_or_die

    return str(canonicalize_bootstrap_address_or_die(address))


def _connect(address: str) -> None:
    """Raise an OSError if nothing answers at HOST:PORT."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), ANSWER_WITHIN).close()


def _lost(reason: str) -> ConnectionError:
    return ConnectionError(f"the Ray cluster is lost: {reason}; when it runs again, the same command continues")


def _cores(node: dict[str, Any]) -> int:
    return int(node["Resources"].get("CPU", 0))


def _get(reference: Any) -> bytes:
    import ray

    return ray.get(reference)


class TaskActor:
    """What an actor does: it computes tasks and returns ("result", value) or ("error", text)."""

    def __init__(self, work: Work[Any, Any]) -> None:
        self._error = ""
        try:
            work.limit_threads()
            self._work, self._function = work, work.start()
        except Exception:
            self._error = traceback.format_exc()

    def ready(self) -> str:
        """Return "" when the worker is prepared, or why it could not be prepared."""
        return self._error

    def run(self, task: Any) -> tuple[str, Any]:
        """Compute a task."""
        try:
            return "result", self._work(self._function, task)
        except Exception:
            return "error", traceback.format_exc()


@dataclass(eq=False)
class _Worker:
    """An actor, its machine, and the calls that it has not answered; `slots` of them are running."""

    actor: Any
    node: str
    slots: int
    starting: Any
    attempts: deque[Attempt[Any]] = field(default_factory=deque)
    ready: bool = False


class RayPool(Pool[T, R]):
    """Actors of one core each, or with `per_node` one actor of all cores on each machine."""

    def __init__(self, work: Work[T, R], engine: RayEngine) -> None:
        super().__init__(work)
        self._engine, self._ray = engine, engine._ray
        self._workers: list[_Worker] = []
        self._calls: dict[Any, tuple[_Worker, Attempt[T] | None]] = {}
        self._adjusted = -math.inf
        self._work = self._ray.put(work)
        try:
            self._adjust()
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> int:
        return max(1, sum(worker.slots for worker in self._workers))

    @property
    def workers(self) -> int:
        return sum(worker.ready for worker in self._workers)

    def _adjust(self) -> None:
        """Start actors on free cores, and drop those of machines that have left."""
        self._adjusted = time.monotonic()
        alive = self._engine.nodes()
        if alive is None:  # without the head no actor can be started; those that run go on
            return
        nodes = {node["NodeID"]: _cores(node) for node in alive}
        for worker in [worker for worker in self._workers if worker.node not in nodes]:
            self._lose(worker, "its machine has left the cluster")
        free = (self._engine.processes or sum(nodes.values())) - sum(worker.slots for worker in self._workers)
        for node, cores in nodes.items():
            cores -= sum(worker.slots for worker in self._workers if worker.node == node)
            while min(cores, free) > 0:
                slots = min(cores, free) if self.work.per_node else 1
                self._workers.append(self._start(node, slots))
                cores, free = cores - slots, free - slots

    def _start(self, node: str, slots: int) -> _Worker:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = self._ray.remote(TaskActor).options(
            num_cpus=slots, max_concurrency=slots, max_restarts=0, max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(self._work)  # fmt: skip
        worker = _Worker(actor, node, slots, actor.ready.remote())
        self._calls[worker.starting] = worker, None
        return worker

    def _poll(self, timeout: float) -> None:
        if time.monotonic() > self._adjusted + ADJUST_EVERY:
            self._adjust()
        self._give_tasks()
        if not self._calls:  # no machine is left
            time.sleep(timeout)
            return
        done, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=timeout)
        if done:
            done, _ = self._ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)
        for reference in done:
            if reference in self._calls:
                self._receive(reference)
        self._give_tasks()

    def _receive(self, reference: Any) -> None:
        worker, attempt = self._calls[reference]
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines()
            cause = lines[-1] if "Error:" in lines[-1] else lines[0]  # of an exception, or of the end of a process
            self._lose(worker, f"{type(error).__name__}: {cause}")
            return
        del self._calls[reference]
        if attempt is None:
            if answer:
                raise WorkerError(f"a worker could not be prepared: {answer}")
            worker.ready = True
            self._note_start()
            return
        worker.attempts.remove(attempt)
        kind, content = answer
        if kind == "result":
            self._succeed(attempt, content)
        else:
            self._fail(attempt, content, lost=False)

    def _give_tasks(self) -> None:
        """Give waiting tasks to the workers that hold the fewest."""
        while self._waiting:
            ready = [worker for worker in self._workers if worker.ready]
            worker = min(ready, key=lambda worker: len(worker.attempts) / worker.slots, default=None)
            if worker is None or len(worker.attempts) >= worker.slots * (1 + self.work.in_advance):
                return
            attempt = self._waiting.popleft()
            worker.attempts.append(attempt)
            self._calls[worker.actor.run.remote(attempt.task)] = worker, attempt

    def _lose(self, worker: _Worker, reason: str) -> None:
        """Drop a worker and put its tasks back into the queue."""
        self._workers.remove(worker)
        self._calls = {reference: call for reference, call in self._calls.items() if call[0] is not worker}
        self._kill(worker)
        self._adjusted = -math.inf  # look for another machine at once
        reason = f"a worker was lost: {reason}"
        if not worker.ready:
            self._note_start(reason)
        if not worker.attempts:
            logger.warning("%s", reason)
        for number, attempt in enumerate(worker.attempts):
            if number >= worker.slots:  # it had not begun
                self._waiting.appendleft(attempt)
            else:
                self._fail(attempt, reason, lost=True)

    def _kill(self, worker: _Worker) -> None:
        try:
            self._ray.kill(worker.actor)
        except Exception:  # it is dead already, or the cluster is
            logger.debug("could not end an actor", exc_info=True)

    def close(self) -> None:
        """End all actors at once."""
        for worker in self._workers:
            self._kill(worker)
        self._workers.clear()
        self._calls.clear()
