"""`regard connectx book` in the terminal: progress with rate and time left, safe to interrupt."""

from pathlib import Path

from platformdirs import user_cache_dir
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from .book import layer_size
from .bookmaking import Progress, kept, make_layer

MOST_PLACES = 1 << 30


def make_book(
    stones: int,
    *,
    out: str | Path | None = None,
    rows: int = 6,
    columns: int = 7,
    inarow: int = 4,
    folder: str | Path | None = None,
    processes: int = 1,
    table_bits: int = 25,
    minutes: float | None = None,
) -> None:
    """Solve a layer of the book with a progress bar; then, or when interrupted, write the book if asked to."""
    if not 0 <= stones <= min(24, rows * columns - 2):
        raise ValueError(f"stones must be between 0 and {min(24, rows * columns - 2)}, got {stones}")
    if processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")
    if layer_size(rows, columns, stones) > MOST_PLACES:
        raise ValueError(f"a layer of {stones} stones on {rows}×{columns} does not fit into memory; take fewer stones")
    folder = Path(folder) if folder is not None else Path(user_cache_dir("regard")) / "connectx-book"
    console = Console(stderr=True)
    bar = Bar(
        TextColumn(f"positions with {stones} stones"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeElapsedColumn(), TimeRemainingColumn(), console=console,
    )  # fmt: skip
    try:
        with bar:
            task = bar.add_task("", total=None, rate="looking for positions")

            def report(progress: Progress) -> None:
                seconds = bar.tasks[0].elapsed or 1e-9
                rate = (progress.known - progress.at_start) / seconds
                bar.update(task, total=progress.total, completed=progress.known, rate=f"{rate:.1f}/s")

            make_layer(
                folder, stones, rows=rows, columns=columns, inarow=inarow, processes=processes, table_bits=table_bits,
                seconds=None if minutes is None else 60 * minutes, report=report,
            )  # fmt: skip
    except KeyboardInterrupt:
        console.print(f"Interrupted. What is solved is kept in {folder}; the same command goes on from there.")
    book = kept(folder, rows, columns, inarow)
    console.print("known: " + ", ".join(f"{count} with {n} stones" for n, count in book.known.items()))
    if out is not None:
        size = book.save(out)
        console.print(f"wrote {out}, {size / 1e6:.2f} MB")
