"""`regard connectx book`: build an opening book, with progress, safe to interrupt."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from regard.cli.connectx.options import Columns, InARow, Rows
from regard.cli.options import Address, EngineName, option

if TYPE_CHECKING:
    from rich.progress import TaskID

    from regard.connectx.solver.build_book import Progress

MAX_LAYER_SIZE = 1 << 30  # bytes of the largest layer that is built


def book(
    stones: Annotated[list[int], option("N", "Solve all positions with N stones; may be repeated for other numbers.")],
    out: Annotated[str | None, option("FILE", "Write the book to this file at the end.")] = None,
    rows: Rows = 6,
    columns: Columns = 7,
    inarow: InARow = 4,
    folder: Annotated[str | None, option("DIR", "Folder for the solved positions; default: the user's cache.")] = None,
    threads: Annotated[int | None, option("N", "Number of threads; default: one per core.")] = None,
    engine: EngineName = "processes",
    address: Address = None,
    table_bits: Annotated[int, option("N", "Size of the solver's table, shared by all threads: 16 bytes × 2^N.")] = 25,
    minutes: Annotated[float | None, option("N", "Stop after N minutes.")] = None,
) -> None:
    """Build an opening book, or continue to build it.

    Every position with the given numbers of stones (a layer of the book) is solved. Ctrl-C stops the command;
    the same command continues, and no position is solved twice. A book may have several layers, and unfinished ones.
    Build all layers with one command, from few stones to many, because each layer uses results of the one before. A
    large table makes it much faster: give it half of the memory. On 6×7 one core takes a quarter of an hour for 4
    stones, and about three hours for 8 or for 10. With --engine ray, every machine of a Ray cluster solves parts of a
    layer, with a table of its own.

    Example: regard connectx book --stones 4 --stones 5 --stones 6 --table-bits 28 --out my.book
    """
    import time
    from dataclasses import replace

    from platformdirs import user_cache_dir
    from rich import progress as bars
    from rich.console import Console

    from regard.connectx.solver.build_book import load_layers, solve_layer, whole_layers
    from regard.connectx.solver.perfect_solver import Solver
    from regard.connectx.solver.position_index import MAX_STONES, layer_size
    from regard.parallel import make_engine

    most = min(MAX_STONES, rows * columns - 2)
    for n in stones:
        if not 0 <= n <= most:
            raise ValueError(f"stones must be between 0 and {most}, got {n}")
        if layer_size(rows, columns, n) > MAX_LAYER_SIZE:
            raise ValueError(f"the {rows}×{columns} positions with {n} stones do not fit into memory; use fewer stones")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    cache = Path(user_cache_dir("regard")) / "connectx-book" if folder is None else Path(folder)
    console = Console(stderr=True)
    bar = bars.Progress(
        bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"), bars.TimeElapsedColumn(), bars.TimeRemainingColumn(), console=console,
    )  # fmt: skip
    end = None if minutes is None else time.monotonic() + 60 * minutes
    size = (rows, columns, inarow)
    try:
        with bar, make_engine(engine, address, threads or 0) as workers:
            solver = Solver(*size, book=load_layers(cache, *size), table_bits=table_bits)
            for n in stones:
                task = bar.add_task(f"positions with {n} stones", total=None, rate="generating positions")

                def report(progress: "Progress", task: "TaskID" = task) -> None:
                    seconds = bar.tasks[task].elapsed or 1e-9
                    rate = (progress.solved - progress.at_start) / seconds
                    bar.update(task, total=progress.total, completed=progress.solved, rate=f"{rate:.1f}/s")

                solve_layer(
                    cache, n, rows=rows, columns=columns, inarow=inarow, engine=workers, report=report, solver=solver,
                    seconds=None if end is None else end - time.monotonic(),
                )  # fmt: skip
                bar.stop_task(task)
    except KeyboardInterrupt:
        console.print(f"Interrupted. The solved positions are in {cache}; the same command continues.")
    result = load_layers(cache, *size)
    console.print("solved: " + ", ".join(f"{count} with {n} stones" for n, count in result.known.items()))
    if out is not None:
        bytes_written = replace(result, whole=whole_layers(result)).save(out)
        console.print(f"wrote {out}, {bytes_written / 1e6:.2f} MB")
