"""Scaling: measured tasks and engines, and a simulation of more workers than this machine has.

    python bench/scaling.py                  measure tasks and both engines, then simulate 1, 8, 64 and 512 workers
    python bench/scaling.py --minutes 2      longer, for steadier figures
    python bench/scaling.py --kills 20       kill workers at random while labels are made, and compare with one process
    python bench/scaling.py --zero 60        games/s of AlphaZero for so many seconds, in this process and with actors

Measured are: seconds and bytes of labelling tasks in one process; labels/s of both engines on the cores of this
machine, in turn with the same tasks in several rounds; and the time that the program which started the work
needs for each task of an engine, from tasks that do nothing. The simulation draws task times from the measured ones;
the main process serves one result after another, and the network moves every task and result at 1 Gbit/s.
"""

import argparse
import heapq
import json
import os
import pickle
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from regard.connectx import LabelOptions, label, load_book
from regard.connectx.data import label_positions
from regard.connectx.data.label_storage import shards
from regard.cpu_count import available_cores
from regard.extras import installed
from regard.files import read_array
from regard.parallel import Engine, LocalEngine, Work

OPTIONS = LabelOptions(seed=1)
BYTES_PER_SECOND = 125e6  # 1 Gbit/s
WORKERS = (1, 8, 64, 512)
KILL_POSITIONS = 400_000
ROUNDS = 5


def nothing() -> Callable[[int], bytes]:
    """Prepare a worker for tasks that take no time and return as many bytes as a labelling task."""
    return lambda task: bytes(16 * 400)


def engines() -> dict[str, Callable[[], Engine]]:
    """Return the engines that are installed."""
    from regard.parallel import RayEngine

    cores = available_cores()
    found: dict[str, Callable[[], Engine]] = {"processes": lambda: LocalEngine(cores)}
    return found | ({"ray": lambda: RayEngine(None, cores)} if installed("ray") else {})


def measure_tasks(seconds: float) -> dict[str, Any]:
    """Return seconds and bytes of labelling tasks, computed in this process."""
    start = time.perf_counter()
    compute = label_positions._work(OPTIONS, load_book(), 23, LocalEngine()).start()
    compute((0, None))  # compiles
    prepare = time.perf_counter() - start
    times, sizes, labels = [], [], 0
    while sum(times) < seconds:
        start = time.perf_counter()
        records = compute((len(times) + 1, None))
        times.append(time.perf_counter() - start)
        sizes.append(len(pickle.dumps(records)))
        labels += len(records)
    return {"seconds": times, "bytes": float(np.mean(sizes)), "labels": labels / len(times), "prepare": prepare}


def main_process_time(engine: Engine, tasks: int = 400) -> float:
    """Return the processor seconds that the main process needs for each task."""
    with engine.start(Work(nothing, threads=None, in_advance=1)) as pool:
        list(pool.results(range(20)))
        start = time.process_time()
        list(pool.results(range(tasks)))
        return (time.process_time() - start) / tasks


def labels_per_second(engines: dict[str, Engine], seconds: float, task_seconds: float) -> dict[str, list[float]]:
    """Return the labels/s of each engine in every round; in a round all engines compute the same tasks, in turn.

    The workers are ready before, and a round ends when its last task is finished.
    """
    rates: dict[str, list[float]] = {name: [] for name in engines}
    with ExitStack() as stack:
        pools = {
            name: stack.enter_context(engine.start(label_positions._work(OPTIONS, load_book(), 23, engine)))
            for name, engine in engines.items()
        }
        cores = available_cores()
        tasks = max(2 * cores, round(cores * seconds / task_seconds / ROUNDS))
        for number in range(ROUNDS + 1):  # the first one compiles and fills the tables
            for name, pool in pools.items():
                numbers = range(number * tasks, (number + 1) * tasks)
                start = time.perf_counter()
                labels = sum(len(records) for _, records in pool.results((task, None) for task in numbers))
                rates[name].append(labels / (time.perf_counter() - start))
    return {name: values[1:] for name, values in rates.items()}


def simulate(workers: int, times: list[float], size: float, main: float, hours: float = 1.0) -> dict[str, Any]:
    """Return tasks/s of this many workers, the share of time that they compute, and how busy the shared parts are."""
    draw = random.Random(0)
    # The main process first gives every worker a task, and later one for every result.
    ready = [((number + 1) * main + draw.choice(times), number) for number in range(workers)]
    heapq.heapify(ready)
    main_free = workers * main
    network = done = 0.0
    computing = 0.0
    while ready[0][0] < 3600 * hours:
        finished, number = heapq.heappop(ready)
        main_free = max(main_free, finished + size / BYTES_PER_SECOND) + main
        network += size / BYTES_PER_SECOND
        seconds = draw.choice(times)
        computing += seconds
        done += 1
        heapq.heappush(ready, (main_free + seconds, number))
    whole = 3600 * hours
    return {
        "workers": workers, "tasks_per_second": done / whole, "efficiency": min(1.0, computing / whole / workers),
        "main_process": done * main / whole, "network": network / whole,
    }  # fmt: skip


def kill_workers(count: int) -> None:
    """Make labels while workers of each engine are killed at random moments; compare them with those of one process."""
    options = LabelOptions((5, 6, 4), fewest=12, seed=3)
    with tempfile.TemporaryDirectory() as name:
        label(Path(name) / "one", options, positions=KILL_POSITIONS, table_bits=18)
        one = sorted_records(Path(name) / "one")
        for kind, make in engines().items():
            killed: list[str] = []
            finished = threading.Event()
            killer = threading.Thread(target=kill_at_random, args=(count, killed, finished))
            with make() as engine:
                start = time.perf_counter()
                killer.start()
                label(Path(name) / kind, options, positions=KILL_POSITIONS, engine=engine, table_bits=18)
                seconds = time.perf_counter() - start
            finished.set()
            killer.join()
            records = sorted_records(Path(name) / kind)
            lost, added = Counter(one) - Counter(records), Counter(records) - Counter(one)
            print(f"{kind}: {len(killed)} workers killed in {seconds:.0f} s; {len(records):,} labels,", end=" ")
            print(f"{lost.total()} lost, {added.total()} duplicated or different")


def sorted_records(folder: Path) -> list[bytes]:
    return sorted(record.tobytes() for file in shards(folder) for record in read_array(file))


def kill_at_random(count: int, killed: list[str], finished: threading.Event) -> None:
    """Kill so many worker processes of this process, one after another, at random moments."""
    import psutil

    chance = random.Random(0)
    while len(killed) < count and not finished.wait(chance.uniform(0.0, 2.5)):
        children = psutil.Process().children(recursive=True)
        workers = [child for child in children if "TaskActor" in child.name() or "spawn_main" in str(child.cmdline())]
        if workers:
            victim = chance.choice(workers)
            killed.append(victim.name())
            victim.kill()


def games_of_alphazero(seconds: float) -> None:
    """Print games/s of AlphaZero in this process, and with as many actors as cores."""
    import torch

    from regard.connectx.training.alphazero import AlphaZero, AlphaZeroOptions
    from regard.models import BoardNet
    from regard.training import Settings
    from regard.training.distributed import Ranks

    for processes in (1, available_cores()):
        torch.manual_seed(0)
        network = BoardNet("tiny", score="columns", lines=4)
        with LocalEngine(processes) as engine:
            ranks = Ranks(0, 1, torch.device("cpu"))
            zero = AlphaZero(network, Settings(steps=1), ranks, AlphaZeroOptions(), engine)
            step = 0
            while not zero.update(step, 1e-3, 0.0)["positions"]:  # until learning begins
                step += 1
            start, games = time.perf_counter(), 0.0
            while (before := time.perf_counter()) - start < seconds:
                step += 1
                rate = zero.update(step, 1e-3, 0.0)["games_per_second"]
                games += rate * (time.perf_counter() - before)
            print(f"{processes} processes: {games / (before - start):.2f} games/s")
            zero.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.5, help="for each measurement")
    parser.add_argument("--kills", type=int, help="kill this many workers")
    parser.add_argument("--zero", type=float, help="seconds of each measurement of AlphaZero")
    parser.add_argument("--json", default="build/bench/scaling.json")
    arguments = parser.parse_args()
    if arguments.kills:
        kill_workers(arguments.kills)
    elif arguments.zero:
        games_of_alphazero(arguments.zero)
    else:
        measure_and_simulate(60 * arguments.minutes, Path(arguments.json))


def measure_and_simulate(seconds: float, file: Path) -> None:
    """Print all figures and write them to a file."""
    os.environ["RAY_worker_niceness"] = "0"  # otherwise other programs have priority over Ray's workers only  # noqa: SIM112
    tasks = measure_tasks(seconds)
    times = tasks["seconds"]
    rate = tasks["labels"] / np.mean(times)
    print(f"labelling task: {np.mean(times):.2f} s (longest {max(times):.2f}), {tasks['labels']:.0f} labels,", end=" ")
    print(f"{tasks['bytes']:,.0f} bytes; a worker is ready after {tasks['prepare']:.1f} s")
    print(f"one core: {rate:.0f} labels/s; a million labels take {1e6 / rate / 3600:.2f} core hours")
    results: dict[str, Any] = {"tasks": tasks, "engines": {}, "simulation": {}}
    with ExitStack() as stack:
        started = {name: stack.enter_context(make()) for name, make in engines().items()}
        main_times = {name: main_process_time(engine) for name, engine in started.items()}
        speeds = labels_per_second(started, seconds, float(np.mean(times)))
    for name, rounds in speeds.items():
        speed = float(np.median(rounds))
        results["engines"][name] = {
            "labels_per_second": speed,
            "rounds": rounds,
            "main_process_seconds": main_times[name],
        }
        main = f"{1e3 * main_times[name]:.2f} ms of the main process"
        print(f"{name}: {speed:.0f} labels/s on {available_cores()} cores, {main}")
    if "ray" in speeds:
        ratios = np.array(speeds["ray"]) / speeds["processes"]
        print(f"ray / processes: {np.median(ratios):.3f}, {ratios.min():.3f} to {ratios.max():.3f} in {ROUNDS} rounds")
    for name, measured in results["engines"].items():
        print(f"\n{name:>10}  labels/s  efficiency  main process busy  network busy")
        rows = [simulate(n, times, tasks["bytes"], measured["main_process_seconds"]) for n in WORKERS]
        results["simulation"][name] = rows
        for row in rows:
            speed = row["tasks_per_second"] * tasks["labels"]
            print(f"{row['workers']:>10}  {speed:>8,.0f}  {row['efficiency']:>10.3f}", end="  ")
            print(f"{row['main_process']:>17.4f}  {row['network']:>12.5f}")
        limit = np.mean(times) / measured["main_process_seconds"]
        print(f"the main process is the first bottleneck, at about {limit:,.0f} workers")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
