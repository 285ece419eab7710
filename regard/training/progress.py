"""Progress of a training run in the terminal: step, loss, speed and remaining time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard.durations import format_duration
from regard.training.metrics import Metrics
from regard.training.settings import Settings


def describe_validation(row: Metrics) -> str | None:
    """Return the line to print for a row of evaluation metrics or an alarm; None for a row of training metrics."""
    if row["split"] == "train":
        return None
    if row["split"] == "telemetry":
        return str(row["message"])
    return f"step {row['step']:>6,}   validation loss {row['loss']:.4f}   {format_duration(row['seconds'])}"


@contextmanager
def show_progress(
    settings: Settings, console: Console, *, unit: str = "tokens",
    describe: Callable[[Metrics], str | None] = describe_validation,
) -> Iterator[Callable[[Metrics], None]]:  # fmt: skip
    """Show a progress bar and yield the function to pass to `train` as `report`.

    unit        unit in which the run counts its data: "tokens" or "positions"
    describe    returns the line to print for a row of metrics, or None
    """
    columns = (TextColumn("step {task.fields[step]}"), BarColumn(bar_width=24), TextColumn("{task.fields[numbers]}"))
    history: list[tuple[float, float]] = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, step="0", numbers="", visible=False)

        def report(row: Metrics) -> None:
            if row["split"] == "train":
                progress = settings.progress(row["step"], row["seconds"])
                history.append((progress, row["seconds"]))
                remaining = format_duration(time_left(history, row["seconds"]))
                step = f"{row['step']:,}" + (f"/{settings.steps:,}" if settings.steps else "")
                numbers = f"loss {row['loss']:.4f} · {row[f'{unit}_per_second']:,.0f} {unit}/s · {remaining} left"
                bar.update(task, completed=progress, step=step, numbers=numbers, visible=True)
            if (line := describe(row)) is not None:
                console.print(line, highlight=False, markup=False, soft_wrap=True)

        yield report


def time_left(history: list[tuple[float, float]], now: float) -> float:
    """Return the remaining seconds at the average speed since the first entry (progress, seconds) of the history.

    >>> time_left([(0.0, 0.0), (0.25, 30.0)], 30.0)
    90.0
    """
    (first, then), (last, _) = history[0], history[-1]
    return (1 - last) * (now - then) / (last - first) if last > first else float("nan")
