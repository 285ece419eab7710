"""`regard connectx book` in the terminal: progress with rate and time left, safe to interrupt."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from platformdirs import user_cache_dir
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from regard.connectx.solver.build_book import Progress, kept, make_layer, solver_with, whole_layers
from regard.connectx.solver.opening_book import layer_size

MOST_PLACES = 1 << 30


def make_book(
    stones: int | Sequence[int],
    *,
    out: str | Path | None = None,
    rows: int = 6,
    columns: int = 7,
    inarow: int = 4,
    folder: str | Path | None = None,
    threads: int = 1,
    table_bits: int = 25,
    minutes: float | None = None,
) -> None:
    """Solve layers of the book with a progress bar; then, or when interrupted, write the book if asked to."""
    layers = [stones] if isinstance(stones, int) else list(stones)
    for n in layers:
        if not 0 <= n <= min(24, rows * columns - 2):
            raise ValueError(f"stones must be between 0 and {min(24, rows * columns - 2)}, got {n}")
        if layer_size(rows, columns, n) > MOST_PLACES:
            raise ValueError(f"a layer of {n} stones on {rows}×{columns} does not fit into memory; take fewer stones")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    folder = Path(folder) if folder is not None else Path(user_cache_dir("regard")) / "connectx-book"
    console = Console(stderr=True)
    bar = Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(), TimeRemainingColumn(), console=console,
    )  # fmt: skip
    end = None if minutes is None else time.monotonic() + 60 * minutes
    try:
        with bar:
            solver = solver_with(kept(folder, rows, columns, inarow), table_bits)
            for n in layers:
                task = bar.add_task(f"positions with {n} stones", total=None, rate="looking for them")

                def report(progress: Progress, task: TaskID = task) -> None:
                    seconds = bar.tasks[task].elapsed or 1e-9
                    rate = (progress.known - progress.at_start) / seconds
                    bar.update(task, total=progress.total, completed=progress.known, rate=f"{rate:.1f}/s")

                left = None if end is None else end - time.monotonic()
                make_layer(
                    folder, n, rows=rows, columns=columns, inarow=inarow, threads=threads, seconds=left, report=report,
                    solver=solver,
                )  # fmt: skip
                bar.stop_task(task)
    except KeyboardInterrupt:
        console.print(f"Interrupted. What is solved is kept in {folder}; the same command goes on from there.")
    book = kept(folder, rows, columns, inarow)
    console.print("known: " + ", ".join(f"{count} with {n} stones" for n, count in book.known.items()))
    if out is not None:
        size = replace(book, whole=whole_layers(book)).save(out)
        console.print(f"wrote {out}, {size / 1e6:.2f} MB")
