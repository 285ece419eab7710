"""Progress in the terminal: step, loss, tokens a second and the time left; a line for every evaluation."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from regard.durations import format_duration
from regard.training.launch import Shown
from regard.training.metrics import Metrics
from regard.training.settings import Settings


@contextmanager
def progress(settings: Settings, console: Console) -> Iterator[Shown]:
    """What to give to `train` as `shown`."""
    columns = (
        TextColumn("step {task.fields[step]}"),
        BarColumn(bar_width=24),
        TextColumn("loss {task.fields[loss]:.4f} · {task.fields[rate]:,.0f} tokens/s · {task.fields[left]} left"),
    )
    begun: list[tuple[float, float]] = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, step="0", loss=float("nan"), rate=0.0, left="?", visible=False)

        def shown(row: Metrics) -> None:
            share = settings.share(row["step"], row["seconds"])
            if row["split"] == "train":
                begun.append((share, row["seconds"]))
                left = format_duration(time_left(begun, row["seconds"]))
                of = f"{row['step']:,}" + (f"/{settings.steps:,}" if settings.steps else "")
                bar.update(
                    task,
                    completed=share,
                    step=of,
                    loss=row["loss"],
                    rate=row["tokens_per_second"],
                    left=left,
                    visible=True,
                )
            else:
                console.print(
                    Text(f"step {row['step']:>6,}   valid loss {row['loss']:.4f}   {format_duration(row['seconds'])}")
                )

        yield shown


def time_left(past: list[tuple[float, float]], now: float) -> float:
    """Seconds to the end, at the speed since the run (or its resumption) began.

    >>> time_left([(0.0, 0.0), (0.25, 30.0)], 30.0)
    90.0
    """
    (first, then), (last, _) = past[0], past[-1]
    return (1 - last) * (now - then) / (last - first) if last > first else float("nan")
