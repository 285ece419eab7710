"""Measure two implementations in one run and report their ratio.

Machines are noisy, so the ways take turns, each keeps its best of several rounds, one thread is pinned to one
core, and what counts is the ratio. The clock counts the processor time of this process, so that another process
that takes the core for a while does not count; with one thread it is the same time.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass
class Row:
    what: str
    at: str
    ours: float
    theirs: float
    unit: str
    bound: float | None = None

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def one_thread() -> None:
    """Pin this process to its last available core, and torch to one thread."""
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def race(ways: dict[str, Callable[[], object]], *, rounds: int = 9, at_least: float = 0.02) -> dict[str, float]:
    """Return the milliseconds of each implementation: the best of several rounds that alternate between them."""
    calls = {}
    for name, way in ways.items():
        way()
        start = time.process_time()
        way()
        calls[name] = max(1, int(at_least / max(1e-9, time.process_time() - start)))
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            for _ in range(calls[name]):
                way()
            best[name] = min(best[name], 1000 * (time.process_time() - start) / calls[name])
    return best


def close_race(ways: dict[str, Callable[[], object]], *, rounds: int, warm_up: bool = True) -> dict[str, float]:
    """Return the milliseconds of implementations that differ by less than the noise: the best of many single runs.

    The order changes from round to round, so that none is always the one that comes after the other.
    """
    for way in ways.values() if warm_up else ():
        way()
    best = dict.fromkeys(ways, float("inf"))
    for turn in range(rounds):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            start = time.process_time()
            ways[name]()
            best[name] = min(best[name], 1000 * (time.process_time() - start))
    return best


def memory_mb(field: str) -> float:
    """Return a memory figure of this process in MB by its name in /proc/self/status: VmRSS (now), VmHWM (peak)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def machine() -> str:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{model}, {os.cpu_count()} cores; {platform.system()}; {versions}"


def _figure(value: float, unit: str) -> str:
    if 0 < value < 0.01:
        return f"{value:.1e} {unit}".strip()
    return f"{value:.1f} {unit}" if unit else f"{value:.2f}"


def steps(items: list[Callable[[], list[Row]]]) -> list[Row]:
    """Run each comparison and show the progress on stderr."""
    console = Console(stderr=True)
    return [row for step in track(items, "measuring", console=console, transient=True) for row in step()]


def report(name: str, title: str, rows: list[Row], keep_others: bool = False) -> None:
    """Print the table of ratios and write it as JSON; `keep_others` keeps rows of the file that were not measured."""
    table = Table(title=title, caption=f"{machine()}; 1 thread", title_justify="left", caption_justify="left")
    for column in ("what", "at"):
        table.add_column(column)
    for column in ("ours", "theirs", "ratio", "bound"):
        table.add_column(column, justify="right")
    for row in rows:
        missed = row.bound is not None and row.ratio > row.bound
        bound = "" if row.bound is None else f"≤ {row.bound:.2f} {'missed' if missed else 'met'}"
        figures = [_figure(value, row.unit) for value in (row.ours, row.theirs)]
        table.add_row(row.what, row.at, *figures, f"{row.ratio:.2f}", bound)
    Console(width=140 if not sys.stdout.isatty() else None).print(table)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    measured = [asdict(row) | {"ratio": row.ratio} for row in rows]
    others = json.loads(path.read_text())["rows"] if keep_others and path.exists() else []
    done = {(row["what"], row["at"]) for row in measured}
    content = {
        "machine": machine(),
        "command": f"python bench/{name}.py",
        "rows": [row for row in others if (row["what"], row["at"]) not in done] + measured,
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    temporary.replace(path)
    print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
